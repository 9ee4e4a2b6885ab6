"""The testpmd backend: dpdk-testpmd forwards between fixed pairs of ports."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import dpdk
from vnetperf.host.dpdk import DpdkPorts
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.deployment import (
    Attachment,
    Deployment,
    PhyPort,
    Port,
    VnfPort,
    WireEnd,
    port_mac,
)
from vnetperf.model.errors import DutError, VnetperfError
from vnetperf.model.frames import MAX_FRAME_SIZE
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.scenario import Placement, Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import check_process
from vnetperf.plugin.vswitch import VSwitch, VSwitchCapabilities
from vnetperf.vswitches.dpdk import check_rings


def port_pairs(deployment: Deployment) -> tuple[tuple[Port, Port], ...]:
    """Pairs of ports that frames pass between."""
    partner: dict[Port, Port] = {}
    for hop in deployment.hops:
        for a, b in ((hop.src, hop.dst), (hop.dst, hop.src)):
            if partner.setdefault(a, b) != b:
                raise DutError(
                    f"{deployment.name} forwards from {a} to several ports",
                    where="testpmd",
                    accepted="deployments whose ports are joined in pairs",
                )
    pairs: list[tuple[Port, Port]] = []
    for a, b in partner.items():
        if (b, a) not in pairs:
            pairs.append((a, b))
    return tuple(pairs)


def port_numbers(devices: Mapping[Port, str]) -> dict[Port, int]:
    """DPDK's numbers of ports: PCI devices come first, by address, then virtual ones as given."""
    pci = sorted((port for port, name in devices.items() if is_pci(name)), key=devices.__getitem__)
    virtual = [port for port in devices if port not in pci]
    return {port: number for number, port in enumerate((*pci, *virtual))}


def is_pci(name: str) -> bool:
    """Whether a device's name is a PCI address."""
    return not name.startswith("net_")


def forwarding_order(
    deployment: Deployment, number: Mapping[Port, int], *, without: Collection[Port] = ()
) -> tuple[int, ...]:
    """Port numbers in the order that testpmd pairs them."""
    pairs = [pair for pair in port_pairs(deployment) if not {*pair} & {*without}]
    return tuple(number[port] for pair in pairs for port in pair)


@dataclass(frozen=True)
class TestpmdDevice:
    """A device of testpmd.

    Attributes:
        netdev: Kernel interface behind it; "" for none.
        takes_mtu: The driver requires an MTU for frames above 1518 octets; others refuse the
            setting and take every size.
        listens: Socket that it makes; "" for none. One that a killed testpmd left must go first.
    """

    name: str
    argument: str
    netdev: str = ""
    takes_mtu: bool = False
    listens: str = ""

    @property
    def memif(self) -> bool:
        """Whether it is a memif."""
        return self.name.startswith("net_memif")


def phy_device(
    number: int, end: WireEnd, mtu: int, queues: int = 1, frames: int = dpdk.AF_PACKET_FRAMES
) -> TestpmdDevice:
    """The device of a physical port; a kernel interface has rings of so many `frames`."""
    where = f"testpmd, phy{end.wire}"
    if end.kind == "memif" and end.socket:
        role = end.role or "server"
        argument = dpdk.memif_devargs(
            number, role=role, identity=end.wire, socket=end.socket, mtu=mtu
        )
        listens = end.socket if role == "server" else ""
        return TestpmdDevice(f"net_memif{number}", f"--vdev={argument}", listens=listens)
    if end.kind == "veth" and end.netdev:
        argument = f"{dpdk.af_packet_devargs(number, end.netdev, mtu, frames)},qpairs={queues}"
        return TestpmdDevice(f"net_af_packet{number}", f"--vdev={argument}", netdev=end.netdev)
    if end.kind == "nic" and end.pci and not end.netdev:
        return TestpmdDevice(end.pci, f"-a{end.pci}", takes_mtu=True)
    raise DutError(
        f"cannot plug into a {end.kind} wire" + f" under driver {end.driver}" * bool(end.driver),
        where=where,
        accepted="memif, veth, a NIC under vfio-pci",
    )


def vnf_device(number: int, attachment: Attachment, mtu: int) -> TestpmdDevice:
    """The device of a VNF port."""
    socket = str(attachment.socket)
    if attachment.kind == "memif":
        argument = dpdk.memif_devargs(number, role="server", identity=0, socket=socket, mtu=mtu)
        return TestpmdDevice(f"net_memif{number}", f"--vdev={argument}", listens=socket)
    argument = f"net_vhost{number},iface={socket},queues={attachment.queues},client=1"
    return TestpmdDevice(f"net_vhost{number}", f"--vdev={argument}", takes_mtu=True)


#: Makes testpmd write line by line: what it shows would wait for its buffer to be full.
LINE_BY_LINE = ("stdbuf", "-oL")
#: What its threads did, as it shows it (DPDK 22.11: "total cycles", from 23.03 on "busy cycles").
SHOW, CLEAR, SHOW_S = "show fwd stats all", "clear fwd stats all", 2.0
_POLLS = re.compile(r"RX-bursts : (\d{1,20}) \[(\d{1,3})% of 0 pkts")
_CYCLES = re.compile(r"\((?:total|busy) cycles=(\d{1,20}) ")
_READY = "testpmd> "  # after each command
_ALL = re.compile(
    r"\+ Accumulated.*?RX-packets: (\d{1,20}) .*?\n *\+{40,}\n(.*?)testpmd> ", re.DOTALL
)
#: Its counts of polls have 32 bits each: an idle queue is polled that often in 43 s and more.
_COUNTED_S = 30.0
#: All threads together: testpmd shows streams, not whose they are.
THREADS = "forwarding threads"


def parse_forward_stats(text: str) -> DatapathWork | None:
    """What testpmd's threads did, from what it shows of it; None where that is not all there yet.

    Empty polls come as a share of each queue's in whole percent, rounded down.
    """
    match = _ALL.search(text)
    if match is None:
        return None
    polls = [(int(count), int(percent)) for count, percent in _POLLS.findall(text)]
    cycles = _CYCLES.search(match[2])  # there are none without packets
    return DatapathWork(
        thread=THREADS,
        packets=int(match[1]),
        busy_cycles=int(cycles[1]) if cycles else 0,
        idle_cycles=None,
        polls=sum(count for count, _ in polls),
        empty_polls=sum(count * percent // 100 for count, percent in polls),
    )


START_S = 20.0
#: Longest wait for the other sides of memif ports, before frames are forwarded without them.
PEERS_S = 5.0
#: Begins the names of its files.
FILE_PREFIX = "switch"


class TestpmdSwitch(VSwitch):
    """dpdk-testpmd between memif, veth or NIC wires and vhost-user or memif VNF ports."""

    __test__ = False  # pytest would otherwise try to collect the name

    name: ClassVar[str] = "testpmd"
    programs: ClassVar[tuple[Program, ...]] = (dpdk.TESTPMD_PROGRAM,)
    far_mib: ClassVar[int] = dpdk.FAR_MIB
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("nic", "memif", "veth"),
        attachments=("vhost-user", "memif"),
        chains=False,
        max_frame_size=MAX_FRAME_SIZE,
        modes=("io", "mac", "macswap"),
        rewriting_modes=("mac", "macswap"),
        options=(
            *("rx_queues", "rx_descriptors", "tx_descriptors", "workers"),
            *("placement", "mtu"),
        ),
        nic_drivers=("vfio-pci",),
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.deployment = plan.scenario.deployment
        self.directory = machine.subdir("testpmd")
        self.process: ManagedProcess | None = None
        self.argv: list[str] = []
        self.offers: dict[Port, Attachment] = {}
        self.ends: dict[Port, WireEnd] = {}
        self.removed: set[Port] = set()
        self.memif: set[str] = set()
        self.numbers: dict[Port, int] = {}
        self._work: list[DatapathWork] = []
        self._counted_from = 0.0
        self.telemetry = DpdkPorts(self.directory, FILE_PREFIX)
        self.telemetry.check = self.check_alive

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Forwarding threads."""
        return (RoleDemand(role="pmd", threads=scenario.options.workers or 1, group="switch"),)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Memory of its buffers."""
        options, ports = scenario.options, len(scenario.deployment.ports)
        descriptors = _descriptors(options.rx_descriptors) + _descriptors(options.tx_descriptors)
        return dpdk.forwarder_memory_mib(ports, options.rx_queues or 1, scenario.mtu, descriptors)

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """What DPDK takes."""
        return dpdk.library_mib(kinds)

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """It sends on the queue of the number that a frame came in on."""
        return scenario.options.rx_queues or 1

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The pairs and the threads that `--plan` can show."""
        check_rings(plan)
        pairs = ", ".join(f"{a} - {b}" for a, b in port_pairs(plan.scenario.deployment))
        mode = plan.scenario.options.mode or cls.capabilities.modes[0]
        threads = " ".join(dpdk.lcore_arguments(*_main_and_workers(plan, facts)))
        return {"dpdk-testpmd": f"{threads} --forward-mode={mode} --port-topology=paired; {pairs}"}

    def start(self) -> None:
        """Begin anew; testpmd itself starts with the last wire, since it must know its ports."""
        self.ends, self.removed = {}, set()
        if not self.deployment.phy_ports:
            self._launch()

    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in a wire; with the last one testpmd is started."""
        self.ends[PhyPort(index=end.wire)] = end
        if set(self.ends) == set(self.deployment.phy_ports):
            self._launch()

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A vhost-user port that connects to the VNF, or a memif that the VNF connects to."""
        self.check_kind(kind)
        self.offers[port] = self.socket_attachment(port, kind, queues, self.directory)
        return self.offers[port]

    def add_vnf_port(self, attachment: Attachment) -> None:
        """See that testpmd has the port: it was started with all that were offered."""
        self._check_port(attachment.port)

    def _launch(self) -> None:
        """Start testpmd with every port there is; it forwards nothing yet."""
        devices = self._devices()
        self.numbers = port_numbers({port: device.name for port, device in devices.items()})
        self.memif = {str(port) for port, device in devices.items() if device.memif}
        self.argv = self.make_command(devices).argv()
        for device in devices.values():
            if device.listens:
                Path(device.listens).unlink(missing_ok=True)
        self.process = self.machine.spawn(
            "testpmd",
            [*LINE_BY_LINE, *self.argv],
            env={"RUNTIME_DIRECTORY": str(self.directory)},
            keep_stdin_open=True,  # testpmd ends at the end of its input
        )
        self.process.wait_for(
            self._ports_started, timeout_s=START_S, description="its ports to start"
        )
        for port, device in devices.items():
            name = self.telemetry.info(self.numbers[port]).get("name")
            if name != device.name:
                raise DutError(
                    f"testpmd took {name} for {port}, not {device.name}", where="testpmd"
                )

    def _devices(self) -> dict[Port, TestpmdDevice]:
        mtu, queues = self.plan.scenario.mtu, self.plan.scenario.options.rx_queues or 1
        devices: dict[Port, TestpmdDevice] = {}
        for number, port in enumerate(self.deployment.ports):
            if port in self.removed:
                continue
            if port in self.ends:
                devices[port] = phy_device(number, self.ends[port], mtu, queues, self._frames)
            elif port in self.offers:
                devices[port] = vnf_device(number, self.offers[port], mtu)
        return devices

    @property
    def _frames(self) -> int:
        """Size of af_packet's rings, one for both directions."""
        options = self.plan.scenario.options
        return options.rx_descriptors or options.tx_descriptors or dpdk.AF_PACKET_FRAMES

    def make_command(self, devices: dict[Port, TestpmdDevice]) -> dpdk.TestpmdCommand:
        """Make the command that starts testpmd with devices."""
        scenario, placement = self.plan.scenario, self.plan.placement
        options = scenario.options
        peers = {self.numbers[port]: port_mac(self.deployment, port, 0) for port in devices}
        main, workers = _main_and_workers(self.plan, self.machine.facts)
        return dpdk.TestpmdCommand(
            program=self.machine.facts.programs[dpdk.TESTPMD],
            name=FILE_PREFIX,
            devices=tuple(
                devices[port].argument for port in sorted(devices, key=self.numbers.__getitem__)
            ),
            forwarding=forwarding_order(self.deployment, self.numbers, without=self.removed),
            main=main,
            workers=workers,
            node=placement.node,
            far_nodes=placement.far_nodes,
            memory_mib=self.hugepage_mib(scenario),
            mode=self.mode,
            mtu=scenario.mtu,
            tells_mtu=all(device.takes_mtu for device in devices.values()),
            queues=options.rx_queues or 1,
            rx_descriptors=_descriptors(options.rx_descriptors),
            tx_descriptors=_descriptors(options.tx_descriptors),
            peers=peers,
            auto_start=False,
            counts_polls=True,
        )

    def _ports_started(self) -> bool:
        try:
            infos = [self.telemetry.info(number) for number in self.numbers.values()]
        except VnetperfError:
            return False  # not there yet
        return all(info.get("dev_started") for info in infos)

    def _started(self) -> ManagedProcess:
        if self.process is None:
            raise DutError("testpmd is not running", where=self.name)
        return self.process

    def _running(self) -> DpdkPorts:
        self._started()
        return self.telemetry

    def _check_port(self, port: Port) -> None:
        if port not in self.numbers:
            raise self.no_port(port, self.numbers)

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Forward between the pairs, now that the other sides have been started.

        DPDK's memif driver (22.11 to 26.07) reads where a ring is before it looks whether the port
        is connected. A thread that polls, and is held up between the two while a connection is
        made, reads address 0: so no thread polls before memif ports are connected.
        """
        self.check_alive()
        wait_at_most(self._memif_connected, PEERS_S, "memif ports to be connected")
        self._forward()

    def _memif_connected(self) -> bool:
        self.check_alive()
        return not {*self.links_down()} & self.memif

    def _forward(self) -> None:
        self._started().write_line("start")

    def remove_port(self, port: Port) -> None:
        """Start testpmd again without a port; what it was joined to has nowhere to forward to."""
        self._check_port(port)
        removed = {*self.removed, port}
        self._end()
        self.removed = removed
        self._launch()
        self._forward()

    def links_down(self) -> tuple[str, ...]:
        """Ports whose other side has not connected."""
        ports = self._running()
        return tuple(str(p) for p, n in self.numbers.items() if not ports.link_up(n))

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port since testpmd was started."""
        ports = self._running()
        counted = {port: ports.counters(number, str(port)) for port, number in self.numbers.items()}
        hops = dict(counted)
        for a, b in port_pairs(self.deployment):
            if a in counted and b in counted:
                hops[a] = dpdk.with_lost(counted[a], counted[b])
                hops[b] = dpdk.with_lost(counted[b], counted[a])
        return tuple(hops.values())

    def before_trial(self) -> None:
        """Begin to count anew: polls since the last trial may be too many to be known."""
        if time.monotonic() - self._counted_from > _COUNTED_S:
            self.datapath_work()

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """Packets, polls and cycles of polls with packets, of all threads together.

        testpmd rounds shares of what it counts; it begins to count anew here, so that these are of
        the time between two calls alone.
        """
        process = self._started()
        shown = process.log.stat().st_size
        counted_s, self._counted_from = time.monotonic() - self._counted_from, time.monotonic()
        process.write_line(SHOW)

        def answered() -> str:
            with process.log.open("rb") as log:
                log.seek(shown)
                return log.read().decode(errors="replace")

        description = "what testpmd shows of its threads"
        now = wait_for(
            lambda: parse_forward_stats(answered()), SHOW_S, description, check=self.check_alive
        )
        # Of several queues of a port testpmd leaves out those that had no frame. Between trials
        # there are none, and what was counted there is in no difference.
        unknown = (self.plan.scenario.options.rx_queues or 1) > 1 or (
            counted_s > _COUNTED_S and bool(now.packets)
        )
        self._work.append(now)
        process.write_line(CLEAR)
        # What is forwarded until then is in no difference: not of the trial, which begins after.
        anew = "that testpmd counts anew"
        wait_for(lambda: answered().count(_READY) > 1, SHOW_S, anew, check=self.check_alive)
        total = DatapathWork(
            thread=THREADS,
            packets=sum(work.packets for work in self._work),
            busy_cycles=sum(work.busy_cycles for work in self._work),
            idle_cycles=None,
            polls=sum(work.polls or 0 for work in self._work),
            empty_polls=sum(work.empty_polls or 0 for work in self._work),
        )
        self._work = [total]
        polls = {"polls": None, "empty_polls": None}
        return (total.model_copy(update=polls) if unknown else total,)

    def pollers(self) -> tuple[Pollers, ...]:
        """Its forwarding threads."""
        if self.process is None:
            return ()
        return dpdk.TestpmdCommand.pollers("pmd", self.process.pid)

    def check_alive(self) -> None:
        """Raise when testpmd has ended."""
        check_process(self.process, dpdk.TESTPMD)

    def facts(self) -> dict[str, Any]:
        """Version, launch line, pairs, and each port as DPDK has it."""
        telemetry, options = self._running(), self.plan.scenario.options
        ports = {}
        for port, number in self.numbers.items():
            name = telemetry.info(number).get("name")
            ports[str(port)] = f"{number}: {name}, {telemetry.describe(number)}"
        return {
            "backend": self.name,
            "version": telemetry.version(),
            "launch line": " ".join(self.argv),
            "mode": self.mode,
            "pairs": [f"{a} - {b}" for a, b in port_pairs(self.deployment)],
            "ports": ports,
            "mtu": self.plan.scenario.mtu,
            "workers": len(self.plan.placement.cores["pmd"]),
            "rx queues": next((a for a in self.argv if a.startswith("--rxq=")), "one of each port"),
            "rx/tx descriptors of NICs": f"{_descriptors(options.rx_descriptors)}/"
            f"{_descriptors(options.tx_descriptors)}; rings of af_packet have {self._frames} "
            "frames, those of memif and vhost-user are the other side's",
        }

    def stop(self) -> None:
        """End testpmd."""
        self._end()
        self.ends = {}

    def _end(self) -> None:
        self.telemetry.close()
        if self.process is not None:
            self.process.stop(timeout_s=3.0)
            self.process = None
        self.numbers = {}


def _descriptors(option: int | None) -> int:
    return option or dpdk.RING_SIZE


def _main_and_workers(plan: Plan, facts: MachineFacts | None) -> tuple[int, tuple[int, ...]]:
    """Processors of the main thread and of the workers."""
    workers = plan.placement.cores["pmd"]
    return dpdk.choose_main_cpu(plan, facts, plan.placement.node, workers), workers
