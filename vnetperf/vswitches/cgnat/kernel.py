"""The kernel's NAT by nftables or iptables: connection tracking in the run's network namespace."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import kernel
from vnetperf.host.linux import PROC, read_file, run_in
from vnetperf.host.wait import wait_at_most
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Port, dut_mac, port_mac
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.nat import SERVERS, Nat, NatBehaviour
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.model.traffic import Stream
from vnetperf.vswitches.cgnat.base import (
    COMPUTED_BLOCKS,
    INSIDE,
    OUTSIDE,
    NatOptions,
    NatSwitch,
)
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
PROTOCOLS = ("udp", "tcp", "icmp")
TABLE = "cgnat"
#: Longest wait for the table of connections to be empty, seconds.
EMPTY_S = 2.0


def ruleset(nat: Nat, *, random_ports: bool = False) -> str:
    """Rules of nftables: one look-up of a subscriber's block in a map, whoever it is."""
    blocks = ", ".join(
        f"{nat.first_inside + n} : {block.address} . {block.first}-{block.last}"
        for n in range(nat.subscribers)
        for block in (nat.subscriber_block(n),)
    )
    return (
        f"table ip {TABLE} {{\n"
        "  map blocks {\n"
        "    type ipv4_addr : interval ipv4_addr . inet_service\n"
        "    flags interval\n"
        f"    elements = {{ {blocks} }}\n"
        "  }\n"
        "  chain outbound {\n"
        "    type nat hook postrouting priority srcnat; policy accept;\n"
        f"    meta l4proto {{ {', '.join(PROTOCOLS)} }} snat ip to ip saddr map @blocks"
        f"{' fully-random' * random_ports}\n"
        "  }\n"
        "}\n"
    )


def restore_lines(nat: Nat, *, random_ports: bool = False) -> Iterator[str]:
    """Rules of iptables, as iptables-restore reads them: one for each subscriber and protocol."""
    yield "*nat"
    for number in range(nat.subscribers):
        block, source = nat.subscriber_block(number), nat.first_inside + number
        for protocol in PROTOCOLS:
            yield (
                f"-A POSTROUTING -s {source}/32 -p {protocol} -j SNAT "
                f"--to-source {block.address}:{block.first}-{block.last}"
                f"{' --random-fully' * random_ports}"
            )
    yield "COMMIT\n"


def _room(limit: float) -> str:
    return "0 (no limit)" if limit == inf else str(int(limit))


def timeouts(options: NatOptions) -> dict[str, int]:
    """Settings of the namespace by the options, seconds."""
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
        "nf_conntrack_udp_timeout": options.udp_timeout,
        "nf_conntrack_udp_timeout_stream": options.udp_timeout,
        "nf_conntrack_icmp_timeout": options.icmp_timeout,
        **{f"nf_conntrack_tcp_timeout_{s}": options.tcp_timeout for s in established},
        **{f"nf_conntrack_tcp_timeout_{s}": options.tcp_transitory_timeout for s in transitory},
    }


class KernelNatOptions(NatOptions):
    """Options that the modes nft and iptables have besides.

    Attributes:
        random_ports: `cgnat`, modes `nft` and `iptables`: a port of the subscriber's block at
            random for each session (RFC 6056); requires `--nat mapping=learnt`.
    """

    random_ports: bool = False


class KernelNat(KernelSwitch, NatSwitch):
    """nft or iptables: source NAT to each subscriber's block of ports, sessions in conntrack."""

    Options: ClassVar[type[Frozen]] = KernelNatOptions
    programs: ClassVar[tuple[Program, ...]] = (NFT, IPTABLES)
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (TRACKING, NAT)
    #: What loads the rules, by mode; the first is the default.
    rules_by: ClassVar[dict[str, Program]] = {"nft": NFT, "iptables": IPTABLES}
    #: Tables of iptables that it has rules in.
    tables: ClassVar[tuple[str, ...]] = ("nat",)

    def __init__(self, machine: Any, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._raised: dict[str, str] = {}

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the kernel from translating here."""
        nat, options = scenario.nat or Nat(), scenario.options
        if options.own(KernelNatOptions).random_ports and nat.mapping != "learnt":
            return "with random_ports no mapping is known before; add --nat mapping=learnt"
        program = cls.rules_by.get(options.mode) or next(iter(cls.rules_by.values()))
        return facts.missing_program(program) or super().missing(facts, scenario)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The rule, for `--plan`."""
        nat = plan.scenario.nat or Nat()
        first, last = nat.subscriber_block(0), nat.subscriber_block(nat.subscribers - 1)
        return {
            plan.scenario.options.mode or cls.capabilities.modes[0]: (
                f"snat of {nat.first_inside}..{nat.first_inside + nat.subscribers - 1} to "
                f"{first.address}:{first.first}..{last.address}:{last.last}, {nat}"
            )
        }

    def start(self) -> None:
        """See that the kernel's table has room, and set its timers."""
        for module in self.kernel_modules:
            self.machine.load_module(module)
        self._make_room(self.max_sessions)
        values = timeouts(self.options)
        self.machine.in_netns(lambda: write_settings(SETTINGS, values))

    def _make_room(self, sessions: int) -> None:
        """Raise what the machine's kernel has room for; it comes back with the run's end.

        It is lowered, for a table that is to be full, only where nobody else has sessions: every
        namespace has that room.
        """
        now = kernel.need_number(SETTINGS / MAX) or inf  # 0 is no limit
        settings = {MAX: sessions} if now < sessions else {}
        if self.options.max_sessions is not None and sessions < now:
            tracked = count_all_sessions()
            if tracked != 0:
                others = "an unknown number of" if tracked is None else tracked
                raise DutError(
                    f"max_sessions={sessions} would lower {MAX} from {_room(now)} for all network "
                    f"namespaces of the machine, which hold {others} sessions",
                    where=self.name,
                    cure="leave max_sessions out, choose a machine without other sessions, or "
                    "--set mode=rtc, whose table is its own",
                )
            settings = {MAX: sessions}
        if kernel.need_number(SETTINGS / BUCKETS) * 4 < sessions:
            settings[BUCKETS] = 1 << (sessions // 2 - 1).bit_length()
        fewer = "--lb flows=N" if self.plan.scenario.services else "--nat subscribers=N,ports=M"
        for name, value in settings.items():
            try:
                kernel.write_value(self.machine.journal, SETTINGS / name, str(value))
            except HostError as error:
                if name == BUCKETS:  # a hash that is short is slower, and holds them
                    log.warning("%s stays, and look-ups are slower: %s", BUCKETS, error)
                    continue
                raise DutError(
                    f"the kernel's table of connections has {MAX} {_room(now)}, and {sessions} "
                    f"sessions are requested: {error}",
                    where=self.name,
                    cure=f"set net.netfilter.{name} to {value} or more on the machine, or choose "
                    f"fewer sessions with {fewer}",
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
                route.route("replace", dst=self.networks()[port], type="blackhole")

        self.machine.in_netns(cut)

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the routes and the rules."""
        self.machine.in_netns(self._route)
        self._load(self.rules())

    def rules(self) -> str:
        """What the mode's program reads."""
        at_random = self.options.random_ports
        if self.mode == "nft":
            return ruleset(self.nat, random_ports=at_random)
        return "\n".join(restore_lines(self.nat, random_ports=at_random))

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

    def networks(self) -> dict[Port, str]:
        """What is behind each port."""
        return {INSIDE: str(self.nat.inside), OUTSIDE: str(SERVERS)}

    def nobodys(self) -> str:
        """Public addresses: what is sent to them without a session is dropped."""
        return str(self.nat.pool)

    def _route(self) -> None:
        """Subscribers behind phy0, servers behind phy1; public addresses are nobody's."""
        graph = self.plan.scenario.deployment
        with netlink("install routes", self.name) as (route, indexes):
            (IPV4_SETTINGS / "all/rp_filter").write_text("0\n")
            for port, network in self.networks().items():
                if port in self.netdevs:
                    out, place = indexes[self.netdevs[port]], graph.ports.index(port)
                    mac = port_mac(graph, port, 0)
                    add_way(route, network, out, number=place, mac=mac)
            route.route("replace", dst=self.nobodys(), type="blackhole")

    def link_came_up(self, port: Port) -> None:
        """Install routes anew: the kernel drops them with the link."""
        super().link_came_up(port)
        if port in self.netdevs:
            self.machine.in_netns(self._route)

    def sessions(self) -> int | None:
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

    @classmethod
    def behaviour(cls, scenario: Scenario, **extra_fields: Any) -> NatBehaviour:
        """Of conntrack: who was sent to may answer, fragments are reassembled first."""
        options = scenario.options.own(KernelNatOptions)
        return super().behaviour(
            scenario,
            filtering="address-and-port",
            fragments=True,
            reset_s=options.tcp_transitory_timeout,
            session_limit=0,
            random_ports=options.random_ports,
            **COMPUTED_BLOCKS,
            **extra_fields,
        )

    def facts(self) -> dict[str, Any]:
        """Rules, room of the table, timers."""
        program = self.rules_by[self.mode]
        settings = self.machine.in_netns(
            lambda: {
                name: kernel.read_text(SETTINGS / name)
                for name in (MAX, BUCKETS, *timeouts(self.options))
                if (SETTINGS / name).exists()
            }
        )
        return {
            **super().facts(),
            "mode": self.mode,
            "MTU": {str(port): self.machine.link(name).mtu for port, name in self.netdevs.items()},
            "rules by": self.machine.facts.versions.get(program.name, "").partition("\n")[0],
            "nat": str(self.nat),
            "behaviour": self.behaviour_facts(),
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
