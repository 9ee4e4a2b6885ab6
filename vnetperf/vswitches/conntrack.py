"""Connection tracking of the kernel: routers by rules whose sessions conntrack holds.

Its table is in the run's network namespace, and what all namespaces have room for is the machine's.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from math import inf
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from vnetperf.host import kernel
from vnetperf.host.linux import PROC, read_file, run_in
from vnetperf.host.wait import wait_at_most
from vnetperf.model.addresses import AddressPlan
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import PHY_PORTS, Port, dut_mac, port_mac
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.model.traffic import Stream
from vnetperf.plugin.vswitch import HasSessions
from vnetperf.vswitches.kernelports import IPV4_SETTINGS, KernelSwitch, add_way, netlink

log = logging.getLogger(__name__)
NFT, IPTABLES = (
    Program(
        name=name,
        package=package,
        version_args=("--version",),
        software=package,
        by_make=True,
        optional=True,
    )
    for name, package in (("nft", "nftables"), ("iptables-restore", "iptables"))
)
TRACKING = KernelModule(
    name="nf_conntrack", purpose="connection tracking", symbol="nf_conntrack_in"
)
NAT = KernelModule(name="nf_nat", purpose="the kernel's NAT", symbol="nf_nat_setup_info")
SETTINGS = PROC / "sys/net/netfilter"
#: Most entries of all namespaces' tables of connections each, and buckets of the hash that they
#: share: the machine's own, which no other namespace can write.
MAX, BUCKETS = "nf_conntrack_max", "nf_conntrack_buckets"
COUNT = "nf_conntrack_count"
#: Namespaces that have names and need no process.
NAMED = Path("/run/netns")
#: Longest wait for the table of connections to be empty, seconds.
EMPTY_S = 2.0


class TimerOptions(Frozen):
    """How long a table of connections holds a session without packets.

    Attributes:
        udp_timeout: 1 to 86400, `cgnat`: seconds without packets after which a mapping of UDP ends
            (RFC 4787 REQ-5 recommends 300 and requires 120).
        tcp_timeout: 1 to 864000, `cgnat`: the same of an established connection (RFC 5382 REQ-5: at
            least 7440).
        tcp_transitory_timeout: 1 to 86400, `cgnat`: the same of a connection that opens or closes
            (RFC 5382 REQ-5: at least 240).
        icmp_timeout: 1 to 86400, `cgnat`: the same of a query of ICMP (RFC 5508 REQ-2: at least
            60).
    """

    udp_timeout: int = Field(default=300, ge=1, le=86_400)
    tcp_timeout: int = Field(default=7440, ge=1, le=864_000)
    tcp_transitory_timeout: int = Field(default=240, ge=1, le=86_400)
    icmp_timeout: int = Field(default=60, ge=1, le=86_400)


def session_timeout_s(scenario: Scenario) -> float:
    """The timer of a scenario's protocol: no answer comes that would establish a connection."""
    timers = scenario.options.own(TimerOptions)
    if scenario.traffic.headers[-1] == "udp":
        return timers.udp_timeout
    return min(timers.tcp_timeout, timers.tcp_transitory_timeout)


def timeout_settings(timers: TimerOptions) -> dict[str, int]:
    """Settings of the namespace by its timers, seconds."""
    transitory = (
        "syn_sent",
        "syn_recv",
        "fin_wait",
        "close_wait",
        "last_ack",
        "time_wait",
        "close",
    )
    established = ("established", "unacknowledged", "max_retrans")
    return {
        "nf_conntrack_udp_timeout": timers.udp_timeout,
        "nf_conntrack_udp_timeout_stream": timers.udp_timeout,
        "nf_conntrack_icmp_timeout": timers.icmp_timeout,
        **{f"nf_conntrack_tcp_timeout_{s}": timers.tcp_timeout for s in established},
        **{f"nf_conntrack_tcp_timeout_{s}": timers.tcp_transitory_timeout for s in transitory},
    }


def show_limit(limit: float) -> str:
    """A limit of the table, for a message."""
    return "0 (no limit)" if limit == inf else str(int(limit))


class TrackingRouter(HasSessions, KernelSwitch):
    """A router between phy0 and phy1 by rules of the kernel; sessions are in conntrack."""

    programs: ClassVar[tuple[Program, ...]] = (NFT, IPTABLES)
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (TRACKING, NAT)
    #: What loads the rules, by mode; the first is the default.
    rules_by: ClassVar[dict[str, Program]] = {"nft": NFT, "iptables": IPTABLES}
    #: Tables of iptables that it has rules in.
    tables: ClassVar[tuple[str, ...]]
    #: Options that request fewer sessions, as users type them.
    fewer_sessions: ClassVar[str]

    def __init__(self, machine: Any, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._raised: dict[str, str] = {}

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the kernel from having the rules here."""
        program = cls.rules_by.get(scenario.options.mode) or next(iter(cls.rules_by.values()))
        return facts.missing_program(program) or super().missing(facts, scenario)

    @classmethod
    def session_timeout_s(cls, scenario: Scenario) -> float | None:
        """The timer of its protocol."""
        return session_timeout_s(scenario)

    @property
    @abstractmethod
    def max_sessions(self) -> int:
        """Sessions that the table must have room for."""

    @abstractmethod
    def rules(self) -> str:
        """What the mode's program reads."""

    def start(self) -> None:
        """See that the kernel's table has room, and set its timers."""
        for module in self.kernel_modules:
            self.machine.load_module(module)
        self._make_room()
        values = timeout_settings(self.timers)
        self.machine.in_netns(lambda: write_settings(SETTINGS, values))

    @property
    def timers(self) -> TimerOptions:
        """Timers of its table."""
        return self.plan.scenario.options.own(TimerOptions)

    @property
    def addresses(self) -> AddressPlan:
        """Networks behind its ports, and the one behind none."""
        return self.plan.scenario.addresses

    def new_limit(self, limit: float) -> int | None:
        """What the machine's limit of entries has to become for its table; None: it stays."""
        return self.max_sessions if limit < self.max_sessions else None

    def _make_room(self) -> None:
        """Change what the machine's kernel has room for; it comes back with the run's end."""
        sessions = self.max_sessions
        limit = kernel.need_number(SETTINGS / MAX) or inf  # 0 is no limit
        new_limit = self.new_limit(limit)
        settings = {} if new_limit is None else {MAX: new_limit}
        if kernel.need_number(SETTINGS / BUCKETS) * 4 < sessions:
            settings[BUCKETS] = 1 << (sessions // 2 - 1).bit_length()
        for name, value in settings.items():
            try:
                kernel.write_value(self.machine.journal, SETTINGS / name, str(value))
            except HostError as error:
                if name == BUCKETS:  # a hash that is short is slower, and holds them
                    log.warning("%s stays, and look-ups are slower: %s", BUCKETS, error)
                    continue
                raise DutError(
                    f"the kernel's table of connections has {MAX} {show_limit(limit)}, and "
                    f"{sessions} sessions are requested: {error}",
                    where=self.name,
                    cure=f"set net.netfilter.{name} to {value} or more on the machine, or choose "
                    f"fewer sessions with {self.fewer_sessions}",
                ) from error
            self._raised[name] = str(value)

    def plug(self, port: Port, netdev: str) -> None:
        """Make an interface a port of the router."""
        self.machine.set_link(netdev, mac=dut_mac(port))
        self.machine.in_netns(
            lambda: write_settings(IPV4_SETTINGS / netdev, {"forwarding": 1, "rp_filter": 0})
        )

    def unplug(self, port: Port, netdev: str) -> None:
        """Stop forwarding by an interface, and to it: that is a matter of the other one."""

        def cut() -> None:
            write_settings(IPV4_SETTINGS / netdev, {"forwarding": 0})
            with netlink("remove routes", self.name) as (route, indexes):
                route.flush_routes(oif=indexes[netdev])
                route.route(
                    "replace", dst=str(self.addresses.networks[port.index]), type="blackhole"
                )

        self.machine.in_netns(cut)

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the routes and the rules."""
        self.machine.in_netns(self._route)
        self._load(self.rules())

    def _load(self, rules: str) -> None:
        """Replace the rules of the namespace."""
        file = self.machine.subdir(self.name) / f"{self.mode}.rules"
        file.write_text(rules)
        program = self.rules_by[self.mode]
        path = self.machine.facts.programs.get(program.name) or program.name
        try:
            self.machine.run(self.load_line(path, str(file)), isolated=True, timeout=60)
        except HostError as error:
            raise DutError(f"the kernel refuses the rules: {error}", where=self.name) from error

    def load_line(self, program: str, file: str) -> list[str]:
        """The command line that loads rules from a file."""
        return [program, *(["-f"] if self.mode == "nft" else []), file]

    def no_rules(self) -> str:
        """What takes all rules away when it is loaded."""
        empty = "".join(f"*{table}\nCOMMIT\n" for table in self.tables)
        return "flush ruleset\n" if self.mode == "nft" else empty

    def _route(self) -> None:
        """Each network behind its port, and one behind none."""
        graph = self.plan.scenario.deployment
        with netlink("install routes", self.name) as (route, indexes):
            (IPV4_SETTINGS / "all/rp_filter").write_text("0\n")
            for port, network in zip(PHY_PORTS, self.addresses.networks, strict=True):
                if port in self.netdevs:
                    out, place = indexes[self.netdevs[port]], graph.ports.index(port)
                    mac = port_mac(graph, port, 0)
                    add_way(route, str(network), out, number=place, mac=mac)
            route.route("replace", dst=str(self.addresses.unrouted), type="blackhole")

    def link_came_up(self, port: Port) -> None:
        """Install routes anew: the kernel drops them with the link."""
        super().link_came_up(port)
        if port in self.netdevs:
            self.machine.in_netns(self._route)

    def sessions(self) -> int:
        """Entries of the table of connections."""
        return self.machine.in_netns(lambda: kernel.need_number(SETTINGS / COUNT))

    def end_sessions(self) -> None:
        """Empty the table of connections of the run's namespace."""
        self.flush_tracking()
        description = "the table of connections to be empty"
        if not wait_at_most(lambda: not self.sessions(), EMPTY_S, description, poll_s=0.001):
            raise DutError(f"{self.sessions()} sessions are left", where=self.name)

    def flush_tracking(self) -> None:
        """Begin to empty it."""

        def flush() -> None:
            from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415 - takes 0.2 s
            from pyroute2.netlink.nfnetlink.nfctsocket import NFCTSocket  # noqa: PLC0415 - too

            try:
                with NFCTSocket() as table:
                    table.flush()
            except (NetlinkError, OSError) as error:
                raise DutError(f"cannot end sessions: {error}", where=self.name) from error

        self.machine.in_netns(flush)

    def facts(self) -> dict[str, Any]:
        """Rules, room of the table, timers."""
        program = self.rules_by[self.mode]
        settings = self.machine.in_netns(
            lambda: {
                name: kernel.read_text(SETTINGS / name)
                for name in (MAX, BUCKETS, *timeout_settings(self.timers))
                if (SETTINGS / name).exists()
            }
        )
        return {
            **super().facts(),
            "mode": self.mode,
            "MTU": {str(port): self.machine.link(name).mtu for port, name in self.netdevs.items()},
            "rules by": self.machine.facts.versions.get(program.name, "").partition("\n")[0],
            "room for sessions": settings[MAX],
            "buckets of its hash": settings[BUCKETS],
            "changed for the run": self._raised,
            "timeouts": {k: v for k, v in settings.items() if k not in (MAX, BUCKETS)},
        }

    def stop(self) -> None:
        """Take the rules and all sessions away; interfaces stay."""

        def clear() -> None:
            for netdev in self.netdevs.values():
                with netlink("remove routes", self.name) as (route, indexes):
                    if netdev in indexes:
                        route.flush_routes(oif=indexes[netdev])

        if self.netdevs:
            self.machine.in_netns(clear)
            self._load(self.no_rules())
            self.flush_tracking()
        self.netdevs = {}


def count_all_sessions() -> int | None:
    """Sessions that all network namespaces hold; None where the kernel does not tell."""
    counts = dict[str, int]()
    for process in PROC.glob("[0-9]*"):
        try:
            namespace = str((process / "ns/net").readlink())
            if namespace not in counts:
                lines = read_file(process / "net/stat/nf_conntrack").splitlines()
                counts[namespace] = int(lines[1].split()[0], 16)
        except (OSError, IndexError, ValueError):
            continue  # it has ended, or is nobody's
    if str((PROC / "self/ns/net").readlink()) not in counts:
        return None
    named = NAMED.glob("*") if NAMED.is_dir() else ()
    try:
        named_counts = (
            run_in(path, lambda: kernel.need_number(SETTINGS / COUNT)) for path in named
        )
        return sum(counts.values()) + sum(named_counts)
    except HostError:
        return None


def write_settings(directory: Path, values: dict[str, int]) -> None:
    """Write settings of the namespace of this thread."""
    for name, value in values.items():
        path = directory / name
        if path.exists():
            path.write_text(f"{value}\n")
