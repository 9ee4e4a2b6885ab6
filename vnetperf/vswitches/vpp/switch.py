"""The VPP backend, and its counters as the contract has them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.links import LinkStatistics
from vnetperf.host.machine import Machine
from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import Attachment, Port, VnfPort, WireEnd
from vnetperf.model.errors import DutError
from vnetperf.model.frames import TUNNELS
from vnetperf.model.machine_load import DatapathWork, NodeWork
from vnetperf.model.scenario import NicUse, Placement, Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.vswitch import VSwitch, VSwitchCapabilities
from vnetperf.vswitches.vpp import daemon, forwarding, install, interfaces
from vnetperf.vswitches.vpp.api import LINK_UP, StatsSegment
from vnetperf.vswitches.vpp.daemon import PrivateVpp
from vnetperf.vswitches.vpp.forwarding import ApiMessage
from vnetperf.vswitches.vpp.install import find_installation, parse_vpp_version
from vnetperf.vswitches.vpp.interfaces import VppInterface, VppPorts

#: Errors of a transmit node that are no lost frames: a frame put back to be tried again, a system
#: call that was needed or must be repeated.
NOT_LOST_ERRORS = ("rollback", "sendto", "syscall")
INTERFACE_COUNTERS = ("/if/rx", "/if/tx", "/if/drops", "/if/rx-miss", "/if/tx-error")


def tx_lost(errors: Mapping[str, int]) -> int:
    """Frames that an interface counted as sent and had no room for."""
    return sum(n for name, n in errors.items() if not any(word in name for word in NOT_LOST_ERRORS))


def read_counters(
    segment: StatsSegment, interfaces: Iterable[VppInterface], links: Mapping[str, LinkStatistics]
) -> tuple[HopCounters, ...]:
    """Counters of interfaces since they were made."""
    columns = {name: segment.by_index(name) for name in INTERFACE_COUNTERS}

    def read_count(name: str, index: int) -> int:
        column = columns[name]
        return column[index] if index < len(column) else 0

    hops = []
    for interface in interfaces:
        index = interface.index
        lost = tx_lost(segment.errors(f"{interface.name}-tx"))
        drops, errors = read_count("/if/drops", index), read_count("/if/tx-error", index)
        if interface.kind == "vhost-user":  # the only one whose transmit losses are in here too
            drops = max(0, drops - lost)
        if interface.kind == "pci":  # the only one whose transmit losses are among these too
            errors = max(0, errors - lost)
        if interface.kind == "xdp" and interface.netdev in links:
            drops += links[interface.netdev].rx_dropped  # the socket's ring was full
        hops.append(
            HopCounters(
                port=str(interface.port),
                rx=read_count("/if/rx", index),
                tx=max(0, read_count("/if/tx", index) - lost),
                rx_dropped=drops + read_count("/if/rx-miss", index),
                tx_dropped=lost + errors,
            )
        )
    return tuple(hops)


#: Lines of "show runtime" (src/vlib/node_cli.c of VPP 19.01 to 26.06): a thread, of which there is
#: no line without workers, and a node of its graph. A long name leaves no room before the state.
_THREAD = re.compile(r"^Thread \d+ (\S+)(?: \(lcore \d+\))?$")
_INPUT_STATES = ("polling", "interrupt wait", "disabled")
_NODE = re.compile(
    rf"^(?P<name>\S+?)\s*(?P<state>active|{'|'.join(_INPUT_STATES)})"
    r"\s+(?P<calls>\d{1,20})\s+(?P<vectors>\d{1,20})\s+\d+\s+(?P<clocks>[\d.]+e[+-]?\d+)\s+[\d.]+"
)
MAIN_THREAD = "vpp_main"


def parse_runtime(text: str) -> dict[str, dict[str, NodeWork]]:
    """What the nodes of each thread's graph did since they were cleared, from "show runtime".

    VPP prints the mean of a node's clocks: for each packet, or for each call where there was none.
    Processes are left out; they take no packets.
    """
    if not text.lstrip().startswith(("Thread ", "Time ")):
        raise DutError(f"no table of nodes: {text[:200]!r}", where="show runtime")
    threads: dict[str, dict[str, NodeWork]] = {}
    nodes = threads.setdefault(MAIN_THREAD, {})
    for line in text.splitlines():
        if thread := _THREAD.match(line.rstrip()):
            nodes = threads.setdefault(thread[1], {})
        elif match := _NODE.match(line):
            calls, packets = int(match["calls"]), int(match["vectors"])
            nodes[match["name"]] = NodeWork(
                calls=calls,
                packets=packets,
                clocks=float(match["clocks"]) * (packets or calls),
                input=match["state"] in _INPUT_STATES,
            )
    return threads


def _added(first: NodeWork | None, second: NodeWork) -> NodeWork:
    if first is None:
        return second
    return NodeWork(
        calls=first.calls + second.calls,
        packets=first.packets + second.packets,
        clocks=first.clocks + second.clocks,
        input=second.input,
    )


MAX_FRAME = 9216
VNF_SOCKET_S = 10.0
ROUTES_S = 120.0


class Vpp(VSwitch):
    """VPP on memif, kernel and PCI ports; cross-connect, patch, bridge, router and tunnels."""

    name: ClassVar[str] = "vpp"
    programs: ClassVar[tuple[Program, ...]] = (daemon.PROGRAM,)
    #: Plugins that it needs beside those of its ports and tunnels.
    plugins: ClassVar[tuple[str, ...]] = ()
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("memif", "nic", "veth"),
        attachments=("vhost-user", "memif"),
        max_frame_size=MAX_FRAME,
        modes=forwarding.MODES,
        mode_frame_sizes={forwarding.AF_XDP: interfaces.XDP_MAX_FRAME},
        mode_wires={forwarding.AF_XDP: ("veth",)},
        rules=("port", "learning", "stream"),
        forwarding=("l2", "l3"),
        tunnels=TUNNELS,
        options=(
            *("rx_queues", "rx_descriptors", "tx_descriptors", "workers", "rxq_affinity"),
            *("placement", "mtu", "memory_mib"),
        ),
        nic_drivers=("vfio-pci", "kernel"),
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        installation = find_installation(machine.facts.programs["vpp"])
        version = parse_vpp_version(machine.facts.versions.get("vpp", ""))
        self.vpp = PrivateVpp(machine, installation, version)
        self.interfaces: dict[Port, VppInterface] = {}
        #: Tunnels' interfaces, which take part in the forwarding instead of their ports'.
        self.tunnels: dict[Port, int] = {}
        self.sent: list[ApiMessage] = []
        self.commands: list[str] = []
        self._offered: set[str] = set()
        self._startup = ""
        self.worker_count = 0
        self._nodes: dict[str, dict[str, NodeWork]] = {}

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps VPP from carrying the scenario here."""
        return (
            cls.missing_requirement(facts)
            or daemon.vpp_installation_problem(facts, scenario, cls.plugins)
            or interfaces.xdp_problem(scenario)
            or cls.forwarding_problem(scenario)
        )

    @classmethod
    def forwarding_problem(cls, scenario: Scenario) -> str:
        """Why it cannot forward a scenario."""
        return forwarding.forwarding_problem(scenario)

    @classmethod
    def heap_mib(cls, scenario: Scenario) -> int:
        """What its tables take of its heap beyond VPP's default, MiB."""
        return 0

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """What the NICs' drivers need of VPP."""
        return interfaces.xdp_nic_problem(scenario) or daemon.nic_plugin_problem(nics, facts)

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Its workers."""
        threads = scenario.options.workers or 1
        return (RoleDemand(role="worker", threads=threads, group="switch"),)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Memory for jumbo buffers, and for buffers that a NIC reaches; otherwise none."""
        return install.buffer_memory_mib(scenario.mtu, nic=scenario.wire == "nic")

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """One per worker."""
        return len(placement.cores["worker"])

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The launch line and the configuration that `--plan` can show."""
        lines = {"vpp": "vpp -c RUN_DIR/vpp/startup.conf"}
        if facts is not None and facts.programs.get("vpp"):
            daemon.check_wire_plugin(plan, facts)
            startup = cls._make_startup(plan, facts, Path("RUN_DIR/vpp"), "vnetperf-RUN_ID")
            lines["startup.conf"] = " ".join(startup.text().split())
        return lines

    @classmethod
    def _make_startup(
        cls,
        plan: Plan,
        facts: MachineFacts,
        directory: Path,
        prefix: str,
        attachments: Collection[str] = (),
    ) -> install.VppStartup:
        return daemon.make_startup(
            plan,
            facts,
            directory,
            prefix,
            attachments,
            plugins=cls.plugins,
            heap_mib=cls.heap_mib(plan.scenario),
        )

    def start(self) -> None:
        """Start the private VPP and wait until it answers."""
        startup = self._make_startup(
            self.plan,
            self.machine.facts,
            self.vpp.directory,
            f"vnetperf-{self.machine.run_id}",
            self._offered,
        )
        self.interfaces, self.tunnels, self.sent, self.commands = {}, {}, [], []
        self._startup = startup.text()
        self.worker_count = len(startup.workers)
        self.vpp.start(startup)
        self.vpp.api.watch_interfaces()

    @property
    def _ports(self) -> VppPorts:
        return VppPorts(self.vpp.api, self.plan.scenario.mtu, self.plan.scenario.options)

    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in a wire."""
        interface = self._ports.plug(end)
        self.interfaces[interface.port] = interface

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A socket: of vhost-user the VNF is the server, of memif VPP."""
        self.check_kind(kind)
        self._offered.add(kind)
        return self.socket_attachment(port, kind, queues, self.vpp.directory)

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the port.

        VPP looks for a server once, and then every three seconds: a VNF's socket must be there. The
        tester in the place of a VNF makes its own only later.
        """
        late = attachment.port in self.plan.scenario.deployment.tester_vnf_ports
        if attachment.vnf_is_server and not late:
            wait_for(
                Path(attachment.socket or "").exists,
                VNF_SOCKET_S,
                f"the socket of {attachment.port}",
                error=lambda: DutError(
                    f"nobody listens on the socket of {attachment.port} after {VNF_SOCKET_S:g} s",
                    where=attachment.socket or "",
                    cure="see the VNF's log",
                ),
            )
        self.interfaces[attachment.port] = self._ports.attach(attachment)

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the deployment's forwarding."""
        scenario, api = self.plan.scenario, self.vpp.api
        index = {port: interface.index for port, interface in self.interfaces.items()}
        if forwarding.forwarding_kind(scenario) == "l3":
            self._send(forwarding.route_messages(scenario, index))
            if scenario.rules == "stream":
                self._route_flows()
        else:
            for end in scenario.tunnel_ends:
                self.tunnels[end.port], sent = forwarding.make_tunnel(
                    api, scenario.tunnel, end, index[end.port]
                )
                self.sent += sent
            self._send(forwarding.switch_messages(scenario, index | self.tunnels))
        self.arrange_queues()

    def _send(self, operations: list[ApiMessage]) -> None:
        for message, fields in operations:
            self.vpp.api.call(message, **fields)
        self.sent += operations

    def _route_flows(self) -> None:
        names = {port: interface.name for port, interface in self.interfaces.items()}
        self.commands = forwarding.flow_route_commands(self.plan.scenario, names)
        for command in self.commands:
            if error := self.vpp.api.cli(command, timeout_s=ROUTES_S).strip():
                raise DutError(f"VPP refuses routes: {error[:300]}", where=command)

    def arrange_queues(self) -> None:
        """Set worker and mode of receive queues anew when a link has come or gone."""
        changed = self.vpp.api.interfaces_changed
        if not changed.is_set():
            return
        changed.clear()
        ports = self.plan.scenario.deployment.ports
        pins = self.plan.scenario.options.rxq_affinity
        cores = self.plan.placement.cores.get("worker", ())
        if len(set(cores)) == len(cores):
            # A pin's worker is a place among these; VPP numbers its workers by their processors.
            numbers = {place: sorted(cores).index(cpu) for place, cpu in enumerate(cores)}
            pins = tuple(
                pin.model_copy(update={"worker": numbers.get(pin.worker, pin.worker)})
                for pin in pins
            )
        interfaces.arrange_queues(
            self.vpp.api,
            [self.interfaces[port] for port in ports if port in self.interfaces],
            workers=self.worker_count,
            pins=pins,
            mode="interrupt" if self.plan.placement.takes_turns("worker") else "polling",
        )

    def remove_port(self, port: Port) -> None:
        """Delete an interface, after nothing leads to it any more."""
        if port not in self.interfaces:
            raise self.no_port(port, self.interfaces)
        index = {other: interface.index for other, interface in self.interfaces.items()}
        for message, fields in forwarding.release_messages(
            self.plan.scenario, index | self.tunnels, port
        ):
            self.vpp.api.call(message, **fields)
        self.tunnels.pop(port, None)
        self._ports.delete(self.interfaces.pop(port))

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down."""
        self.arrange_queues()
        details = self.vpp.api.interfaces()
        return tuple(
            str(port)
            for port, interface in self.interfaces.items()
            if not int(details[interface.index].flags) & LINK_UP
        )

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port."""
        plugged = self.interfaces.values()
        sockets = any(interface.kind == "xdp" for interface in plugged)
        links = self.machine.link_statistics() if sockets else {}
        return read_counters(self.vpp.stats, plugged, links)

    def pollers(self) -> tuple[Pollers, ...]:
        """Workers are called vpp_wk_N; without them the main thread forwards."""
        if self.vpp.process is None:
            return ()
        return (Pollers(role="worker", pid=self.vpp.process.pid, thread_prefix=self._threads),)

    @property
    def _threads(self) -> str:
        """What the names of the threads that forward begin with."""
        return "vpp_wk" if self.worker_count else MAIN_THREAD

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """Packets and clocks of each node of each thread that forwards.

        VPP prints means of three digits since the last clearing. They are cleared each time, and
        summed up here, so that the rounding is that of one trial.
        """
        for thread, nodes in parse_runtime(self.vpp.api.cli("show runtime")).items():
            totals = self._nodes.setdefault(thread, {})
            totals.update({name: _added(totals.get(name), node) for name, node in nodes.items()})
        self.vpp.api.cli("clear runtime")
        return tuple(
            DatapathWork(
                thread=thread,
                packets=sum(node.packets for node in nodes.values() if node.input),
                busy_cycles=round(sum(n.clocks for n in nodes.values() if not n.input)),
                idle_cycles=None,
                polls=sum(node.calls for node in nodes.values() if node.input),
                nodes=dict(nodes),
            )
            for thread, nodes in sorted(self._nodes.items())
            if thread.startswith(self._threads)
        )

    def facts(self) -> dict[str, Any]:
        """Version, configuration, ports with their queues, forwarding."""
        api = self.vpp.api
        version = api.call("show_version")
        details = api.interfaces()
        return {
            "backend": self.name,
            "version": f"{version.version} built {version.build_date}",
            "launch line": " ".join(self.vpp.argv()),
            "startup.conf": self._startup.splitlines(),
            "threads": [
                f"{t.name} on processor {t.cpu_id}" for t in api.call("show_threads").thread_data
            ],
            "options asked for": self.plan.scenario.options.given(),
            "mode": forwarding.forwarding_kind(self.plan.scenario),
            "ports": [
                {
                    "port": str(port),
                    "interface": interface.name,
                    "mac": str(details[interface.index].l2_address),
                    "link mtu": details[interface.index].link_mtu,
                    "mtu": details[interface.index].mtu[0],
                }
                for port, interface in self.interfaces.items()
            ],
            "rx queues": interfaces.describe_queues(api, list(self.interfaces.values())),
            "forwarding": [f"{name} {fields}" for name, fields in self.sent] + self.commands,
        }

    def check_alive(self) -> None:
        """Raise when VPP has ended; see to queues whose peer has connected anew."""
        self.vpp.check_alive()
        if self.interfaces:
            self.arrange_queues()

    def stop(self) -> None:
        """Stop VPP."""
        self.vpp.stop()
        self.interfaces = {}
        self._nodes = {}
