"""The XDP backend: a program at every port, which redirects frames to another one.

In mode native a program runs in the interface's driver, before the kernel makes a buffer of its
own of a frame; in mode generic behind that, on any interface.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from vnetperf.host import xdp
from vnetperf.host.machine import Machine
from vnetperf.host.xdp import CLANG, BpfObject, compile_program
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Hop, Port, dut_mac, port_mac
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Program, Testbed
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.dut import JUMBO_FRAME_SIZE
from vnetperf.plugin.vswitch import VSwitchCapabilities
from vnetperf.vswitches.kernelports import IPV4_SETTINGS, KernelSwitch, add_way, netlink

SOURCES = Path(__file__).parent
#: Places in a port's counters (port.h); all but the first are causes of drops.
COUNTS = (
    "taken",
    "no target",
    "no IPv4",
    "other MAC address",
    "time to live ended",
    "no route",
    "no service or flow",
    "no room for flows",
    "fragment, IP options or another protocol",
)
#: Programs of watch.c. In mode generic "exception" is what a target did not take, which is among
#: its `tx_dropped` already (generic_xdp_tx of Linux 5.19): no program has an invalid verdict.
TRACEPOINTS = ("xmit", "exception", "redirect_err")
ROUTED = "fib"
#: The first of the ports' routing tables.
FIRST_TABLE = 100
INDEX = struct.Struct("=I")
_FIRST = INDEX.pack(0)


class XdpOptions(Frozen):
    """Options that only this switch has.

    Attributes:
        program: Program of XDP: `redirect` sends every frame of a port out of another one, `fib`
            routes by the kernel's table. Left out: the one that the forwarding needs; xdp only.
    """

    program: Literal["redirect", "fib"] | None = None


@dataclass(frozen=True, slots=True)
class PortProgram:
    """A port's program in the kernel.

    Attributes:
        pair: Whether the port is an end of a veth pair.
        peer: Its other end, whose GRO is on; "" where that is another host's.
    """

    netdev: str
    index: int
    code: BpfObject
    pair: bool
    peer: str


class Xdp(KernelSwitch):
    """XDP programs at veth wires and NICs, taps and veth pairs of VNFs: redirect, router."""

    name: ClassVar[str] = "xdp"
    programs: ClassVar[tuple[Program, ...]] = (CLANG,)
    Options: ClassVar[type[Frozen]] = XdpOptions
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth", "nic"),
        attachments=("veth", "tap"),
        chains=False,
        max_frame_size=JUMBO_FRAME_SIZE,
        modes=("native", "generic"),
        forwarding=("l2", "l3"),
        options=("mtu", "napi"),
        nic_drivers=("kernel",),
    )

    #: What is routed by the kernel's tables.
    #: What to choose where the driver has no native XDP, if there is no generic mode to choose.
    instead: ClassVar[str] = ""

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._compiled = b""
        self.ports: dict[Port, PortProgram] = {}
        self.objects: dict[str, BpfObject] = {}

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario with the layer that the program forwards at."""
        if scenario.options.own(XdpOptions).program == ROUTED:
            return scenario.model_copy(update={"forwarding": "l3"})
        return scenario

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps programs from being compiled, loaded, or from carrying the scenario."""
        graph = scenario.deployment
        program = scenario.options.own(XdpOptions).program
        trouble = facts.missing_program(CLANG) or facts.bpf or super().missing(facts, scenario)
        if trouble:
            return trouble
        if scenario.has_guests and scenario.options.mode != "generic":
            return (
                "at a guest's tap the kernel runs a native program in generic mode for frames that "
                "it cannot build otherwise, and does not report it; --set mode=generic"
            )
        if scenario.routed and program not in (None, ROUTED):
            return f"the program {program} does not route; leave it out, or --forwarding l3"
        if scenario.routed and graph.vnf_count and not scenario.vnf_addresses:
            return (
                "a router takes only frames that are addressed to it, and a VNF in the mode "
                f"{scenario.vnf_mode} addresses them to others; use --vnf-mode mac"
            )
        return ""

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The program of each port, for `--plan`."""
        scenario = plan.scenario
        mode = scenario.options.mode or cls.capabilities.modes[0]
        program = cls.source(scenario).stem
        return {
            f"XDP at {hop.src}": f"{program}, mode {mode}, to {hop.dst}, MTU {scenario.mtu}"
            for hop in scenario.deployment.hops
        }

    @classmethod
    def sends_native_xdp(cls, scenario: Scenario) -> bool:
        """Whether programs are in drivers: elsewhere the kernel has made its buffer of a frame."""
        return scenario.options.mode not in ("generic", "tc")

    @classmethod
    def source(cls, scenario: Scenario) -> Path:
        """Source of the program that a scenario's ports have."""
        return SOURCES / ("fib.c" if scenario.routed else "redirect.c")

    @property
    def clang(self) -> str:
        """The compiler."""
        return self.machine.facts.programs.get(CLANG.name) or CLANG.name

    @property
    def hook(self) -> str:
        """Where programs are attached: "native", "generic"."""
        return self.mode

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of what a port's program counts: frames taken, and causes of drops."""
        return COUNTS

    def prepare(self) -> None:
        """Compile what ports need."""
        self._compiled = compile_program(self.clang, self.source(self.plan.scenario))

    def load(self, port: Port) -> BpfObject:
        """A port's program in the kernel, attached to nothing."""
        code = BpfObject(f"{self.source(self.plan.scenario).stem} at {port}", self._compiled)
        return self.addressed(code, port) if self.plan.scenario.routed else code

    def addressed(self, code: BpfObject, port: Port) -> BpfObject:
        """A program that takes what is addressed to its port alone (router.h)."""
        try:
            code.map("port").update(_FIRST, bytes.fromhex(dut_mac(port).replace(":", "")))
        except BaseException:
            code.close()
            raise
        return code

    def attach(self, code: BpfObject, netdev: str) -> None:
        """Attach a port's program."""
        code.attach("forward", netdev, self.hook)

    def forget(self, port: Port) -> None:
        """Send nothing to a port any more, which has gone; in the run's namespace."""
        for number, hop in enumerate(self.plan.scenario.deployment.hops):
            if hop.dst != port or hop.src not in self.ports:
                continue
            if self.plan.scenario.routed:
                with netlink("remove routes", self.name) as (route, _):
                    route.flush_routes(table=FIRST_TABLE + number)
            else:
                self.ports[hop.src].code.map("target").delete(_FIRST)

    def start(self) -> None:
        """Compile the programs, and begin to count what becomes of redirected frames."""
        try:
            self.prepare()
            watch = BpfObject("watch", compile_program(self.clang, SOURCES / "watch.c"))
            self.objects["watch"] = watch
            for program in TRACEPOINTS:
                if program != "exception" or self.hook != "generic":
                    watch.trace(program)
        except BaseException as error:
            self._close()
            if isinstance(error, HostError):
                raise self.refused(error) from error
            raise

    def plug(self, port: Port, netdev: str) -> None:
        """Load a port's program, and attach it."""
        if self.plan.scenario.routed:
            self.machine.set_link(netdev, mac=dut_mac(port))

        def attach() -> PortProgram:
            link = self.machine.link(netdev)
            code = self.load(port)
            try:
                self._outcomes().update_per_cpu(self._interface(link.index), bytes(24))
                peer = self._peer(port, netdev) if self.hook == "native" else ""
                self.attach(code, netdev)
            except BaseException:
                code.close()
                raise
            return PortProgram(netdev, link.index, code, link.kind == "veth", peer)

        self.ports[port] = self.in_namespace(attach)

    def _peer(self, port: Port, netdev: str) -> str:
        """The other end of a port's pair, which takes native frames from here on."""
        if peer := xdp.let_peer_receive(netdev):
            return peer
        # In another namespace it is as it was left: a VNF's by itself, a cable's with GRO on.
        attachment = self.attachments.get(port)
        return str(attachment.netdev) if attachment and attachment.kind == "veth" else ""

    def unplug(self, port: Port, netdev: str) -> None:
        """Detach a port's program; frames for the port are dropped and counted."""
        self.ports.pop(port).code.close()
        self.in_namespace(lambda: self.forget(port))

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Tell each port's program where frames go: another port, or the kernel's table."""
        hops = self.plan.scenario.deployment.hops
        connect = self._route if self.plan.scenario.routed else self._redirect
        self.in_namespace(lambda: connect(hops))

    def _redirect(self, hops: tuple[Hop, ...]) -> None:
        for hop in hops:
            target = INDEX.pack(self.ports[hop.dst].index)
            self.ports[hop.src].code.map("target").update(_FIRST, target)

    def _route(self, hops: tuple[Hop, ...]) -> None:
        """A table for each port that frames come in by, with one way and one neighbour."""
        graph, network = self.plan.scenario.deployment, str(self.plan.scenario.addresses.whole)
        with netlink("install routes", self.name) as (route, indexes):
            for number, hop in enumerate(hops):
                if not {hop.src, hop.dst} <= {*self.ports}:
                    continue  # one of them was removed
                source, target = (self.netdevs[port] for port in (hop.src, hop.dst))
                (IPV4_SETTINGS / source / "forwarding").write_text("1\n")
                place, table = graph.ports.index(hop.dst), FIRST_TABLE + number
                mac = port_mac(graph, hop.dst, 0)
                add_way(route, network, indexes[target], number=place, mac=mac, table=table)
                if table not in {rule.get_attr("FRA_PRIORITY") for rule in route.get_rules()}:
                    route.rule("add", iifname=source, table=table, priority=table)

    def link_came_up(self, port: Port) -> None:
        """Install routes anew: the kernel drops them with the link."""
        super().link_came_up(port)
        if self.plan.scenario.routed and port in self.ports:
            self.in_namespace(lambda: self._route(self.plan.scenario.deployment.hops))

    def counters(self) -> tuple[HopCounters, ...]:
        """What the programs took in and dropped, and what drivers did with what was redirected.

        In mode generic what goes out is in the kernel's statistics of the interface alone.
        """
        table = self.machine.link_statistics()
        hops = []
        for port, program in self.ports.items():
            if program.netdev not in table:
                continue
            kernel = table[program.netdev]
            received, *dropped = self.counts(program)
            sent, refused, failed = self._outcomes().sums(self._interface(program.index), 3)
            native = self.hook == "native"
            # Before the program; the ring of a pair's end is its own, and the other counts drops:
            # another host's where it has that. A pair's `rx_dropped` has what the program dropped.
            early = kernel.rx_dropped
            if native and program.pair:
                early = table[program.peer].tx_dropped if program.peer in table else 0
            hops.append(
                HopCounters(
                    port=str(port),
                    rx=received,
                    tx=sent if native else kernel.tx,
                    rx_dropped=early + sum(dropped) + failed,
                    tx_dropped=refused if native else kernel.tx_dropped,
                )
            )
        return tuple(hops)

    def counts(self, program: PortProgram) -> tuple[int, ...]:
        """What a port's program has counted, in the order of `counted`."""
        counts = program.code.map("counts")
        return tuple(counts.sums(INDEX.pack(place))[0] for place in range(len(self.counted)))

    def causes(self, port: Port) -> dict[str, int]:
        """Frames of a port that its program dropped so far."""
        counts = zip(self.counted[1:], self.counts(self.ports[port])[1:], strict=True)
        return {cause: n for cause, n in counts if n}

    def check_alive(self) -> None:
        """Raise when an interface or its program is gone."""
        super().check_alive()
        for port, program in self.ports.items():
            if not program.code.is_attached():
                raise DutError(
                    f"gone: the program of port {port} ({program.netdev})", where=self.name
                )

    def facts(self) -> dict[str, Any]:
        """Programs, the modes that were read back, and what they dropped by cause."""
        dropped = {str(port): self.causes(port) or "none" for port in self.ports}
        peers = {str(port): program.peer for port, program in self.ports.items() if program.peer}
        return {
            **super().facts(),
            "program": self.source(self.plan.scenario).stem,
            "compiler": self.machine.facts.versions.get(CLANG.name, "").partition("\n")[0],
            "modes as the kernel has them": self.hooks(),
            "dropped by programs until then": dropped,
            "GRO is on, so that native frames are taken, at": peers,
            "mtu": self.plan.scenario.mtu,
        }

    def hooks(self) -> dict[str, str]:
        """Where the kernel has the programs of the ports."""
        attached = self.in_namespace(xdp.attached)
        ports = self.ports.items()
        return {
            str(port): attached[program.netdev].mode
            for port, program in ports
            if program.netdev in attached
        }

    def stop(self) -> None:
        """Detach and unload all programs; VNF ports stay, since VNFs have them open."""
        for program in self.ports.values():
            program.code.close()
        self._close()
        self.ports, self.netdevs = {}, {}

    def _close(self) -> None:
        for bpf_object in self.objects.values():
            bpf_object.close()
        self.objects = {}

    def loaded(self, name: str) -> BpfObject:
        """One of the objects for all ports."""
        if name not in self.objects:
            raise DutError("it has not been started", where=self.name)
        return self.objects[name]

    def _outcomes(self) -> xdp.BpfMap:
        return self.loaded("watch").map("outcomes")

    def _interface(self, index: int) -> bytes:
        """Key of an interface among the outcomes: indexes are of a namespace."""
        return struct.pack("=II", index, self.machine.netns.stat().st_ino)

    def in_namespace(self, call: Callable[[], Any]) -> Any:
        """Call something in the run's namespace; what the kernel refuses is the DUT's error."""
        try:
            return self.machine.in_netns(call)
        except HostError as error:
            raise self.refused(error) from error

    def refused(self, error: HostError) -> DutError:
        """What the kernel refuses, as the DUT's error."""
        cure = error.cure
        if self.instead and "mode=generic" in cure:
            cure = f"choose an interface whose driver has native XDP, or {self.instead}"
        return DutError(error.what, where=f"{self.name}, {error.where}", cure=cure)
