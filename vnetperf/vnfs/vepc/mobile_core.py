"""A mobile core wherever it runs: its network, its programs, its sessions, its users.

A UE and a server take the tester's places for users' traffic: the UE attaches over the vSwitch.
"""

from __future__ import annotations

import logging
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from ipaddress import IPv4Address
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.deployment import VnfPort, WireEnd, tester_mac, vnf_mac
from vnetperf.model.errors import CapabilityError, DutError, HostError
from vnetperf.model.options import (
    GN_PREFIX,
    GN_TESTER,
    GN_VEPC,
    SERVER_NETWORK,
    UE_NETWORK,
    Bearers,
    MobileCore,
    StackProgram,
)
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.vnf import UserPlane, Vnf
from vnetperf.virt.container import Container
from vnetperf.virt.endpoint import Endpoint, EndpointPair, Place
from vnetperf.vnfs.vepc import stack
from vnetperf.vnfs.vepc.sgsn import AttachPhase, bearer_runs
from vnetperf.vnfs.vloop.kernel_forwarders import Form, FormPorts, Step

log = logging.getLogger(__name__)

#: Longest wait for each program, and between two looks, seconds.
PROGRAM_S, POLL_S = 60.0, 0.1
#: The interface goes with its program; that the program has ended shows a moment later.
REAPED_S = 2.0
TAIL_LINES = 15


def _network_steps(ports: FormPorts) -> list[Step]:
    gn, sgi = ports
    interfaces = stack.MobileCoreInterfaces(gn=gn.netdev, sgi=sgi.netdev)
    return list(stack.network_commands(interfaces, gn.peer_mac, sgi.peer_mac))


#: The addresses and routes of a mobile core: Gn at port 0, SGi at port 1.
MOBILE_CORE_FORM = Form("route", ("veth", "vf", "macvlan", "virtio"), _network_steps)


class MobileCorePrograms(ABC):
    """The programs of a mobile core in one place."""

    #: Where they run, in messages.
    where: ClassVar[str] = ""

    def __init__(self, vnf: MobileCoreVnf[Any], place: Place, directory: Path) -> None:
        scenario = vnf.plan.scenario
        self.stack, self.options, self.mtu = vnf.stack, scenario.core, scenario.mtu
        self.role, self.place, self.directory = vnf.role, place, directory
        self.files: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.lines: list[str] = []

    @property
    def mtu_line(self) -> str:
        """What gives the interface that the first program makes the MTU of the others."""
        return f"ip link set dev {self.stack.tun} mtu {self.mtu}"

    def start(self, interfaces: stack.MobileCoreInterfaces) -> None:
        """Start the programs, each once the one before is up."""
        self.values = stack.stack_values(self.stack, self.options, interfaces, self.directory)
        self.files = stack.stack_files(self.stack, self.values)
        for name, text in self.files.items():
            self.values[name] = self.place.write(name, text.encode())
        for number, program in enumerate(self.stack.programs):
            line = shlex.join(stack.program_argv(program, self.values, self.stack))
            self.spawn(number, line)
            self.lines.append(line)
            self._wait(number, program.ready)
            log.info("%s: %s is up", self.role, program.argv[0])
        if self.stack.tun not in self.place.statistics():
            raise self.error(0, f"runs, but has made no interface {self.stack.tun}")
        self.place.run(self.mtu_line.split())

    @abstractmethod
    def spawn(self, number: int, line: str) -> None:
        """Start a program."""

    @abstractmethod
    def log(self, number: int) -> str:
        """Its whole output."""

    @abstractmethod
    def ended(self, number: int) -> int | None:
        """Its exit status; None while it runs."""

    @abstractmethod
    def snmp(self) -> str:
        """The table /proc/net/snmp of the place."""

    def _wait(self, number: int, ready: str) -> None:
        wait_for(
            lambda: ready in self.log(number),
            PROGRAM_S,
            f"{ready!r} of {self.stack.programs[number].argv[0]}",
            poll_s=POLL_S,
            check=self.check,
            error=lambda: self.error(
                number, f"runs, but {ready!r} did not come in {PROGRAM_S:g} s"
            ),
        )

    def check(self) -> None:
        """Raise when a program has ended."""
        for number in range(len(self.lines)):
            if (status := self.ended(number)) is not None:
                raise self.error(number, f"has ended (status {status})")

    def error(self, number: int, problem: str) -> DutError:
        """An error of a program, with the end of its log."""
        program = self.stack.programs[number].argv[0]
        return DutError(
            f"{program}{self.where} {problem}; log ends with:\n{self.tail(number)}",
            where=f"{self.role} ({program})",
        )

    def tail(self, number: int = 0) -> str:
        """The last lines of a program's log."""
        return "\n".join(self.log(number).splitlines()[-TAIL_LINES:])

    def counters(self) -> tuple[HopCounters, ...]:
        """The interface to the first program, and its GTP-U socket."""
        tun = self.place.statistics().get(self.stack.tun)
        if tun is None:
            # The end of its program is a better reason, and is seen a moment later.
            wait_at_most(self.check, REAPED_S, "the end of a program", poll_s=POLL_S)
            raise DutError(f"gone: the interface {self.stack.tun}", where=self.role)
        tun_counters = HopCounters(port=f"{self.role}.tun (inside)", **asdict(tun))
        if self.options.gtpu_mode == "kernel":
            return (tun_counters,)
        udp = stack.parse_udp(self.snmp(), f"{self.role}.gtp-u (inside)")
        return (tun_counters,) if udp is None else (tun_counters, udp)

    def facts(self) -> dict[str, Any]:
        """What runs."""
        return {"application": self.stack.description or self.stack.name, "programs": self.lines}


#: Longest wait for a UE's attach, seconds.
ATTACH_S = 20.0
#: IPv4, UDP and a GTP header with a sequence number, which sgsnemu sends.
LONGEST_GTPU = 40
SGI_HOP = "169.254.0.1"
#: Namespaces stay until the run ends: those of one call are not those of the next.
_NUMBERS = count()


class UeAndServer:
    """What plugs in at both of the tester's places while the tester is away."""

    def __init__(self, vnf: Vnf, mobile_core: MobileCore) -> None:
        self.vnf, self.machine, self.stack = vnf, vnf.machine, mobile_core
        unique = next(_NUMBERS)
        cpus = vnf.plan.placement.cores.get("tester", ())
        self.radio = Container(self.machine, f"ue{vnf.number}-{unique}", cpus)
        self.sgi = Container(self.machine, f"sgi{vnf.number}-{unique}", cpus)
        self._running: list[ManagedProcess] = []

    @contextmanager
    def attached(self, ends: tuple[WireEnd, ...]) -> Iterator[EndpointPair]:
        """Attach a UE, and give the wires back in the end."""
        problem = ue_problem(self.machine.facts, self.vnf.plan.scenario, self.vnf.plan.wire)
        if problem or self.stack.ue is None:
            raise CapabilityError(problem, where="users' traffic")
        netdevs = _veth_netdevs(ends)
        macs = {netdev: self.machine.link(netdev).mac for netdev in netdevs}
        try:
            self._plug_in(netdevs)
            ue, attach_s = self._attach(self.stack.ue, netdevs)
            yield EndpointPair(
                client=Endpoint("UE", self.radio, ue, stack.UE_TUN),
                server=Endpoint("server", self.sgi, stack.SERVER, netdevs[1]),
                attach_s=round(attach_s, 3),
            )
        finally:
            self._unplug(macs)

    def _plug_in(self, netdevs: tuple[str, str]) -> None:
        macs = [vnf_mac(VnfPort(vnf=self.vnf.number, index=index)) for index in (0, 1)]
        radio, server = netdevs
        lines: dict[Container, tuple[str, ...]] = {
            self.radio: (
                f"ip address replace {GN_TESTER}/{GN_PREFIX} dev {radio}",
                f"ip neigh replace {GN_VEPC} lladdr {macs[0]} dev {radio} nud permanent",
            ),
            self.sgi: (
                f"ip address replace {stack.SERVER}/{SERVER_NETWORK.partition('/')[2]} "
                f"dev {server}",
                f"ip neigh replace {SGI_HOP} lladdr {macs[1]} dev {server} nud permanent",
                f"ip route replace {UE_NETWORK} via {SGI_HOP} dev {server} onlink",
            ),
        }
        for number, (place, commands) in enumerate(lines.items()):
            place.create(cpuset=False)
            place.take(netdevs[number], mac=tester_mac(number, 0))
            for line in ("sysctl -q -w net.ipv4.conf.all.rp_filter=0", *commands):
                place.run(line.split())

    def _attach(self, program: StackProgram, netdevs: tuple[str, str]) -> tuple[str, float]:
        """Start the UE; its address, and how long it took."""
        values = stack.ue_values(self.stack, netdevs[0], self.radio.directory)
        began = time.monotonic()
        argv = stack.program_argv(program, values, self.stack)
        process = self.radio.spawn("ue", argv)
        self._running.append(process)
        try:
            process.wait_for(
                lambda: program.ready in process.log_text() and bool(self._address()),
                timeout_s=ATTACH_S,
                description=f"the address of its interface {stack.UE_TUN}",
            )
        except HostError as error:
            self.vnf.check_alive()
            raise DutError(f"the UE does not attach: {error}", where=self.stack.name) from error
        attach_s = time.monotonic() - began
        # A full packet in the longest GTP-U header goes in one frame.
        room = self.machine.link(netdevs[0]).mtu - LONGEST_GTPU
        # sgsnemu 1.13 gives the interface an address and leaves it down, and has no route then.
        self.radio.run(["ip", "link", "set", "dev", stack.UE_TUN, "up", "mtu", str(room)])
        self.radio.run(["ip", "route", "replace", "default", "dev", stack.UE_TUN])
        return self._address(), attach_s

    def _address(self) -> str:
        """Address of the UE, "" while it has none."""
        for line in self.radio.run(["ip", "-4", "-o", "address", "show"]).splitlines():
            words = line.split()
            if words[1] == stack.UE_TUN:
                return words[3].partition("/")[0]
        return ""

    def _unplug(self, macs: Mapping[str, str]) -> None:
        """Give the wires back, whatever a process does."""
        with ExitStack() as last:
            for netdev, mac in macs.items():
                last.callback(self.machine.set_link, netdev, mac=mac)
            last.callback(self.sgi.give_back)
            last.callback(self.radio.give_back)
            for process in self._running:
                last.callback(process.stop, timeout_s=3.0)
            self._running = []


def _veth_netdevs(ends: tuple[WireEnd, ...]) -> tuple[str, str]:
    names = [end.netdev for end in ends if end.kind == "veth" and end.netdev]
    if len(names) != 2:
        kinds = ", ".join(sorted({end.kind for end in ends}))
        raise CapabilityError(
            f"a UE and a server plug into veth wires; these are {kinds}",
            where="users' traffic",
            cure="--wire veth, on a vSwitch that takes them",
        )
    return names[0], names[1]


def ue_problem(facts: MachineFacts, scenario: Scenario, wire: str) -> str:
    """What keeps users' traffic from being measured."""
    mobile_core = scenario.stack
    if mobile_core is None or mobile_core.ue is None:
        name = mobile_core.name if mobile_core else "no mobile core"
        return f"{name} names no program for a UE; describe one under [ue] of its stack file"
    if wire != "veth":
        return (
            f"a UE and a server plug into veth wires; these are {wire}: choose --wire veth, on a "
            "vSwitch that takes them"
        )
    return stack.missing_stack_program(facts, mobile_core.ue)


Programs = TypeVar("Programs", bound=MobileCorePrograms)


class MobileCoreVnf(UserPlane, Generic[Programs]):
    """What a mobile core has besides what forwards: programs, sessions, and users of its own."""

    modes: ClassVar[tuple[str, ...]] = ("route",)
    far_mib: ClassVar[int] = 0
    max_frame_size: ClassVar[int] = 9000

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan, number)
        self.form: Form | None = MOBILE_CORE_FORM
        self.mobile_core: Programs | None = None
        self.phase: AttachPhase | None = None
        self.sessions: tuple[Bearers, ...] = ()

    def _launched(self) -> Programs:
        if self.mobile_core is None:
            raise DutError("its mobile core is not up", where=self.role)
        return self.mobile_core

    @property
    def stack(self) -> MobileCore:
        """The mobile core."""
        mobile_core = self.plan.scenario.stack
        if mobile_core is None:
            raise DutError("no mobile core has been chosen", where=self.role)
        return mobile_core

    @property
    def attach_place(self) -> str:
        """What an error of the attach phase is about."""
        return f"{self.role}, attach to {self.stack.name}"

    def take_sessions(self, phase: AttachPhase, programs: MobileCorePrograms) -> None:
        """The sessions of an attach phase, which must be complete."""
        self.phase = phase
        attached, requested = len(phase.contexts), phase.requested
        log.info(
            "%s: %d of %d sessions after %.2f s", self.role, attached, requested, phase.seconds
        )
        if phase.refusals:
            programs.check()
        phase.require_complete(self.attach_place, programs.tail)
        self.sessions = bearer_runs(
            [(context.teid_data, int(IPv4Address(context.ue))) for context in phase.contexts]
        )

    def session_facts(self) -> list[str]:
        """The sessions, for the result."""
        return [f"{run.count} from UE {run.ue}, TEID {run.teid:#x}" for run in self.sessions]

    def streams(self, streams: tuple[Stream, ...]) -> tuple[Stream, ...]:
        """Streams of the sessions that are attached."""
        if self.ends_with_users and not self.sessions:
            raise DutError(
                "its sessions ended when a UE attached from the same address",
                where=self.role,
                cure="deploy it again",
            )
        return tuple(stream.model_copy(update={"bearers": self.sessions}) for stream in streams)

    @classmethod
    def no_users(cls, facts: MachineFacts, plan: Plan) -> str:
        """What keeps a UE and a server from plugging in."""
        return ue_problem(facts, plan.scenario, plan.wire)

    @contextmanager
    def users(self, ends: tuple[WireEnd, ...]) -> Iterator[EndpointPair]:
        """Put a UE and a server in the tester's places."""
        if self.ends_with_users:
            self.sessions = ()
        with UeAndServer(self, self.stack).attached(ends) as pair:
            yield pair
