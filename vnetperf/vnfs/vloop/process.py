"""vloop as a process: a forwarder on DPDK between any two attachments, without a VM."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from vnetperf.host import dpdk
from vnetperf.host.build import DpdkProgram, default_variant
from vnetperf.host.dpdk import DpdkPorts, ForwarderCommand, TestpmdCommand
from vnetperf.host.links import Link
from vnetperf.host.machine import Machine
from vnetperf.host.nic.pci import DPDK_DRIVERS
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.threads import list_threads, pin_thread
from vnetperf.host.xdp import CLANG
from vnetperf.model.deployment import Attachment
from vnetperf.model.errors import DutError, HostError, VnetperfError
from vnetperf.model.frames import MAX_FRAME_SIZE
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.scenario import Plan, Pollers, Scenario
from vnetperf.model.testbed import MachineFacts, Program, Testbed
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import check_process
from vnetperf.plugin.vnf import Vnf, VnfMemory

RING = 1024
KINDS = ("vhost-user", "memif", "vf", "veth", "tap", "macvtap")
#: Our forwarder, which sleeps in turns.
ENGINE = DpdkProgram("vloop", Path(__file__).with_name("engine"))


@dataclass(frozen=True)
class VnfDevice:
    """A port of a forwarder on DPDK.

    Attributes:
        argument: EAL argument that makes it.
        how: What plugs in, for the report.
        hugepages: True when its memory must be shared with another process, or seen by hardware.
        takes_mtu: True when the driver requires an MTU for frames above 1518 octets; others refuse
            the setting and take every size.
        netdev: Kernel interface behind it, whose address is the port's; "" for none.
        resets: True when the driver changes the interface's address and MTU on the way.
    """

    argument: str
    description: str
    hugepages: bool = False
    takes_mtu: bool = False
    netdev: str = ""
    resets: bool = False


def device_for(number: int, attachment: Attachment, mtu: int, *, vhost_net: bool) -> VnfDevice:
    """The device that plugs into an attachment."""
    kind, mac = attachment.kind, attachment.mac or ""
    if kind == "vhost-user":
        path, server = attachment.require("socket"), attachment.vnf_is_server
        argument = dpdk.virtio_user_devargs(
            number, path, server=server, queues=attachment.queues, ring=RING, mac=mac
        )
        return VnfDevice(f"--vdev={argument}", "virtio-user", hugepages=True, takes_mtu=True)
    if kind == "memif":
        path, role = attachment.require("socket"), "client"
        if attachment.vnf_is_server:
            role = "server"
        # An attachment's socket is its own: the interface on it is number 0.
        argument = dpdk.memif_devargs(number, role=role, identity=0, socket=path, mtu=mtu, mac=mac)
        return VnfDevice(f"--vdev={argument}", f"memif, {role}")
    if kind == "tap":
        return _tap(number, attachment, mtu, vhost_net=vhost_net)
    if kind == "vf" and attachment.driver in DPDK_DRIVERS:
        pci = attachment.require("pci")
        description = f"{pci} through {attachment.driver}"
        return VnfDevice(f"-a{pci}", description, hugepages=True, takes_mtu=True)
    if kind in ("veth", "macvtap", "macvlan", "vf"):
        netdev = attachment.require("netdev")
        note = "; a process cannot use the macvtap's character device, VMs do"
        description = f"af_packet on {netdev}{note if kind == 'macvtap' else ''}"
        # As many sockets as queue pairs; the kernel spreads flows over them.
        argument = f"{dpdk.af_packet_devargs(number, netdev, mtu)},qpairs={attachment.queues}"
        return VnfDevice(f"--vdev={argument}", description, netdev=netdev)
    raise DutError(
        f"vloop cannot plug into a {kind} attachment",
        where=str(attachment.port),
        accepted=", ".join(KINDS),
    )


def _tap(number: int, attachment: Attachment, mtu: int, *, vhost_net: bool) -> VnfDevice:
    netdev, mac = attachment.require("netdev"), attachment.mac or ""
    if vhost_net:
        queues = attachment.queues
        argument = dpdk.virtio_user_devargs(
            number, dpdk.VHOST_NET, server=False, queues=queues, ring=RING, mac=mac, tap=netdev
        )
        description = "virtio-user on vhost-net, which has the tap"
        return VnfDevice(
            f"--vdev={argument}",
            description,
            hugepages=True,
            takes_mtu=True,
            netdev=netdev,
            resets=True,
        )
    description = (
        "net_tap, which opens the tap as a file (there is no /dev/vhost-net): a system call a frame"
    )
    argument = dpdk.tap_devargs(number, netdev, mtu, mac)
    return VnfDevice(f"--vdev={argument}", description, netdev=netdev, resets=True)


#: Kinds of attachment that may require hugepages.
HUGEPAGE_KINDS = ("vhost-user", "tap", "vf")
PORTS = 2


def main_and_worker(plan: Plan, facts: MachineFacts, role: str) -> tuple[int, tuple[int, ...]]:
    """Processors of the main thread, which sleeps, and of the one that forwards.

    Where any will do for that, it is one on its memory's node.
    """
    home = plan.placement.vnf_home_node
    allowed = {*(plan.testbed.cores.allowed or (cpu.cpu for cpu in facts.cpus))}
    local_cpus = sorted(
        (c.cpu for c in facts.cpus if c.node == home), key=lambda cpu: cpu not in allowed
    )
    worker = plan.placement.cores.get(role, tuple(local_cpus))[:1]
    return dpdk.choose_main_cpu(plan, facts, home, worker), worker


def mode_problem(scenario: Scenario, modes: tuple[str, ...], name: str) -> str:
    """What keeps a vloop from the scenario's mode."""
    if scenario.vnf_mode not in modes:
        return f"{name} has no mode {scenario.vnf_mode!r}; accepted: {', '.join(modes)}"
    if scenario.vnf_mode == "5tswap" and (scenario.routed or scenario.rules == "stream"):
        return (
            "vloop in mode 5tswap swaps IP addresses and ports, so that a frame is routed back "
            "and its flow's rule does not know it; choose another --vnf-mode, or l2 forwarding "
            "by port"
        )
    return ""


class Turns(NamedTuple):
    """How a forwarding thread shares its processor.

    Attributes:
        turn_us: It sleeps until multiples of this, microseconds.
        phase_us: Its turns begin so much later than these.
        priority: Of SCHED_FIFO; 0 for a normal thread.
        share: Percent of its processor that it takes then, at most.
    """

    turn_us: int
    phase_us: int
    priority: int
    share: int

    def options(self) -> list[str]:
        """The same as options of the forwarder."""
        return [f"--{name.replace('_', '-')}={value}" for name, value in self._asdict().items()]


def choose_turns(plan: Plan, role: str) -> Turns | None:
    """How a VNF's thread takes turns; None where testpmd may poll all the time.

    In the virtual lab every processor is emulated in turn, and testpmd stays.
    """
    placement = plan.placement
    if placement.emulated or not placement.takes_turns(role) or not placement.turn_us:
        return None
    return Turns(
        turn_us=placement.turn_of(role),
        phase_us=placement.turn_phase(role),
        priority=placement.fifo_priority(role),
        share=placement.fifo_share(role),
    )


@dataclass(frozen=True, kw_only=True)
class VloopCommand(ForwarderCommand):
    """A launch of our forwarder between two ports, of which each is the other's pair."""

    application: ClassVar[str] = "vnetperf forwarder"
    threads: ClassVar[tuple[str, ...]] = ("vloop-",)
    turns: Turns

    def options(self) -> list[str]:
        """Its own options."""
        peers = {f"peer{port}": mac for port, mac in self.peers.items() if self.mode == "mac"}
        values = {
            "mode": self.mode,
            "queues": self.queues,
            "rx-desc": self.rx_descriptors,
            "tx-desc": self.tx_descriptors,
            "buffers": self.buffers,
            "room": dpdk.mbuf_room(self.mtu),
            "max-frame": self.max_frame,
            "node": self.node,
            **peers,
        }
        return [*(f"--{name}={value}" for name, value in values.items()), *self.turns.options()]


class Vloop(Vnf):
    """A program on DPDK that forwards between two ports.

    It is dpdk-testpmd where its thread has a processor of its own. Where it shares one, it is our
    forwarder, which sleeps in turns; testpmd, which never sleeps, would take whole slices of the
    scheduler.

    Attributes:
        takes_turns: False: it is testpmd in any case.
    """

    name: ClassVar[str] = "vloop"
    programs: ClassVar[tuple[Program, ...]] = (dpdk.TESTPMD_PROGRAM, CLANG)
    places: ClassVar[Mapping[str, str]] = {
        "process": "vnetperf.vnfs.vloop.process:Vloop",
        "testpmd": "vnetperf.vnfs.vloop.process:PollingVloop",
        "container": "vnetperf.vnfs.vloop.container:ContainerVloop",
        "vm": "vnetperf.vnfs.vloop.vm:VmVloop",
    }
    attachments: ClassVar[tuple[str, ...]] = KINDS
    modes: ClassVar[tuple[str, ...]] = ("io", "mac", "macswap", "5tswap")
    max_frame_size: ClassVar[int] = MAX_FRAME_SIZE
    far_mib: ClassVar[int] = dpdk.FAR_MIB
    launcher: ClassVar[str] = "process (no VM)"
    takes_turns: ClassVar[bool] = True

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan, number)
        self.directory = machine.subdir(f"vnf{number}")
        self.process: ManagedProcess | None = None
        self.command: ForwarderCommand | None = None
        self.why_testpmd = ""
        self.devices: tuple[VnfDevice, ...] = ()
        self._attachments: tuple[Attachment, ...] = ()
        self._links: dict[str, Link] = {}
        self.telemetry = DpdkPorts(self.directory, self.role)
        self.telemetry.check = self.check_alive

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps testpmd from running here."""
        if problem := mode_problem(scenario, cls.modes, cls.name):
            return problem
        return cls.missing_requirement(facts)

    @classmethod
    def look(cls, testbed: Testbed) -> str | None:
        """Why our forwarder cannot be built on a machine; "" when it can."""
        return ENGINE.problem() if cls is Vloop else None

    @classmethod
    def memory(cls, scenario: Scenario, attachment: str) -> VnfMemory:
        """Memory of either program, where the switch or hardware must see it."""
        if attachment not in HUGEPAGE_KINDS:
            return VnfMemory()
        queues = scenario.options.rx_queues or 1
        return VnfMemory(dpdk.forwarder_memory_mib(PORTS, queues, scenario.mtu))

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """What DPDK takes."""
        return dpdk.library_mib(kinds)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts, number: int) -> dict[str, str]:
        """What forwards, and how; its devices are known when it is launched."""
        role, command = f"vnf{number}", TestpmdCommand.application
        options = [f"--forward-mode={plan.scenario.vnf_mode}"]
        turns = choose_turns(plan, role) if cls.takes_turns and not cls._unbuilt(facts) else None
        if turns is not None:
            command = VloopCommand.application
            options = [f"--mode={plan.scenario.vnf_mode}", *turns.options()]
        main, workers = main_and_worker(plan, facts, role)
        lcores = dpdk.lcore_arguments(main, workers)
        return {role: " ".join([command, *lcores, "--", *options])}

    @staticmethod
    def _unbuilt(facts: MachineFacts) -> str:
        """What a look at the machine found to keep our forwarder from being built."""
        return str(facts.seen.get(Vloop.name) or "")

    def launch(self, attachments: tuple[Attachment, Attachment]) -> None:
        """Start a forwarder between two attachments."""
        self._attachments = attachments
        self.devices = self._devices(attachments)
        self.command = self._command(attachments)
        for port, attachment in zip(self.devices, attachments, strict=True):
            if port.netdev and attachment.mac and not port.resets:
                self._address(port.netdev, attachment.mac)  # the port's from here on
        # What the drivers make of a tap's own settings is put right when the program is up.
        self._links = {
            port.netdev: self.machine.link(port.netdev) for port in self.devices if port.resets
        }
        # It ends at the end of its input.
        self.process = self._spawn(self.argv, {"RUNTIME_DIRECTORY": str(self.directory)})

    @property
    def argv(self) -> list[str]:
        """Command line of the program; empty before it is launched."""
        return self.command.argv() if self.command is not None else []

    def _address(self, netdev: str, mac: str) -> None:
        """Give a kernel interface the port's address."""
        self.machine.set_link(netdev, mac=mac)

    def _spawn(self, argv: list[str], env: dict[str, str]) -> ManagedProcess:
        """Start the program with an input that does not end."""
        return self.machine.spawn(self.role, argv, env=env, keep_stdin_open=True)

    def _devices(self, attachments: tuple[Attachment, Attachment]) -> tuple[VnfDevice, ...]:
        mtu, vhost_net = self.plan.scenario.mtu, Path(dpdk.VHOST_NET).exists()
        return tuple(device_for(n, a, mtu, vhost_net=vhost_net) for n, a in enumerate(attachments))

    def _command(self, attachments: tuple[Attachment, Attachment]) -> ForwarderCommand:
        scenario, placement = self.plan.scenario, self.plan.placement
        queues = max(attachment.queues for attachment in attachments)
        main, workers = main_and_worker(self.plan, self.machine.facts, self.role)
        launch: dict[str, Any] = {
            "name": self.role,
            "devices": tuple(port.argument for port in self.devices),
            "main": main,
            "workers": workers,
            "node": placement.vnf_home_node,
            "far_nodes": placement.far_nodes,
            "memory_mib": dpdk.forwarder_memory_mib(PORTS, queues, scenario.mtu),
            "mode": scenario.vnf_mode,
            "mtu": scenario.mtu,
            "tells_mtu": all(port.takes_mtu for port in self.devices),
            "queues": queues,
            "peers": {n: a.peer_mac for n, a in enumerate(attachments) if a.peer_mac},
            "hugepages": any(port.hugepages for port in self.devices),
        }
        turns = choose_turns(self.plan, self.role) if self.takes_turns else None
        if turns is not None and (program := self._forwarder()):
            return VloopCommand(program=program, turns=turns, **launch)
        testpmd = self.machine.facts.programs[dpdk.TESTPMD]
        return TestpmdCommand(program=testpmd, forwarding=tuple(range(PORTS)), **launch)

    def _forwarder(self) -> str:
        """Path of our forwarder; "" where it cannot be had, and testpmd goes on as it can."""
        self.why_testpmd = self._unbuilt(self.machine.facts)
        if self.why_testpmd:
            return ""
        try:
            return str(ENGINE.executable(default_variant()))
        except HostError as error:
            self.why_testpmd = str(error)
            return ""

    def _running(self) -> ManagedProcess:
        if self.process is None:
            raise DutError("it has not been launched", where=self.role)
        return self.process

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the program answers and both its links are up."""
        self._running().wait_for(self._links_up, timeout_s=timeout_s, description="both its links")
        self._let_loose()
        if isinstance(self.command, VloopCommand):
            self.telemetry.ask("/forwarder/forward")
        for netdev, link in self._links.items():
            # The tap is a port of the switch: a bridge would keep frames for the port's address.
            self.machine.set_link(netdev, mac=link.mac, mtu=self.plan.scenario.mtu)

    def _let_loose(self) -> None:
        """Let threads that forward run wherever the plan says; none where they are pinned."""
        cpus = self.plan.placement.unpinned.get(self.role, ())
        for poller in self.pollers() if cpus else ():
            for thread in list_threads(poller.pid):
                if thread.name.startswith(poller.thread_prefix):
                    pin_thread(thread.tid, cpus)

    def _links_up(self) -> bool:
        try:
            links = [self.telemetry.link_up(port) for port in range(PORTS)]
        except VnetperfError:
            return False  # not there yet
        return all(links)

    def counters(self) -> tuple[HopCounters, ...]:
        """What the VNF itself counted."""
        if self.process is None:
            return ()
        counters = []
        for port in range(PORTS):
            # virtio-user accepts the connection of a restarted switch when its link is queried.
            self.telemetry.link_up(port)
            counters.append(self.telemetry.counters(port, f"{self.role}.{port} (inside)"))
        first, second = counters
        return dpdk.with_lost(first, second), dpdk.with_lost(second, first)

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """What our forwarder has counted; testpmd shows it in shares only."""
        if not isinstance(self.command, VloopCommand):
            return ()
        counts = self.telemetry.ask("/forwarder/turns")
        return (
            DatapathWork(
                thread=self.role,
                packets=counts["frames"],
                busy_cycles=counts["busy_cycles"],
                idle_cycles=None,
            ),
        )

    def pollers(self) -> tuple[Pollers, ...]:
        """The thread that forwards."""
        if self.process is None or self.command is None:
            return ()
        return self.command.pollers(self.role, self.process.pid)

    def facts(self) -> dict[str, Any]:
        """Program, version, launch line, mode, rings and turns."""
        command = self._program()
        return {
            "application": command.application,
            **({"why not our forwarder": self.why_testpmd} if self.why_testpmd else {}),
            "version": self.telemetry.version(),
            "launcher": self.launcher,
            "mode": command.mode,
            "launch line": " ".join(self.argv),
            "rx/tx descriptors": RING,
            "memory": "hugepages" if command.hugepages else "ordinary pages",
            **self._turn_facts(),
            "ports": [
                f"{attachment.port}: {attachment.kind}, {port.description}; "
                f"{self.telemetry.describe(n)}"
                for n, (attachment, port) in enumerate(
                    zip(self._attachments, self.devices, strict=True)
                )
            ],
        }

    def _turn_facts(self) -> dict[str, Any]:
        """Turns of our forwarder, and what the kernel answered to its request for priority."""
        if not isinstance(self.command, VloopCommand):
            return {}
        try:
            info = self.telemetry.ask("/forwarder/info")
        except VnetperfError as error:
            return {"turn, us": self.command.turns.turn_us, "priority": f"unknown: {error}"}
        return {"turn, us": info["turn_us"], "priority": info["priority"]}

    def _program(self) -> ForwarderCommand:
        if self.command is None:
            raise DutError("it has not been launched", where=self.role)
        return self.command

    def check_alive(self) -> None:
        """Raise when the program has ended."""
        check_process(self._running(), f"{self.role} ({self._program().application})")

    def stop(self) -> None:
        """End the program."""
        self.telemetry.close()
        if self.process is not None:
            self.process.stop(timeout_s=3.0)
            self.process = None


class PollingVloop(Vloop):
    """dpdk-testpmd in any case."""

    takes_turns: ClassVar[bool] = False
