"""The NATs of VPP: its plugins of deterministic mappings (det44) and of sessions (nat44-ed)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import count
from math import isqrt
from typing import Any, ClassVar

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Port, port_mac
from vnetperf.model.errors import DutError
from vnetperf.model.frame_change import PORTS_OF_ADDRESS
from vnetperf.model.nat import Nat, NatBehaviour
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches.cgnat.base import (
    COMPUTED_BLOCKS,
    INSIDE,
    OUTSIDE,
    NatOptions,
    NatSwitch,
    find_nat,
)
from vnetperf.vswitches.vpp.forwarding import ApiMessage, address_messages, route_message
from vnetperf.vswitches.vpp.switch import Vpp

#: Links of the router to its neighbours, apart from all networks of --nat (RFC 3927).
LINKS: dict[Port, tuple[IPv4Address, IPv4Address]] = {
    INSIDE: (IPv4Address("169.254.1.1"), IPv4Address("169.254.1.2")),
    OUTSIDE: (IPv4Address("169.254.2.1"), IPv4Address("169.254.2.2")),
}
#: Options of the NAT by the timers of the API.
TIMERS = {
    "udp": "udp_timeout",
    "tcp_established": "tcp_timeout",
    "tcp_transitory": "tcp_transitory_timeout",
    "icmp": "icmp_timeout",
}
#: The node that answers what a NAT refuses.
ERRORS_NODE = "ip4-icmp-error"
#: What VPP counts among the errors of a node and is no packet dropped.
NO_DROPS = ("Good ", "same worker", "do handoff")


class VppNat(NatSwitch, Vpp):
    """VPP as a router between subscribers and servers, whose plugin chooses addresses and ports."""

    #: Nodes that drop, by the port where packets came in.
    nodes: ClassVar[dict[Port, tuple[str, ...]]]

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario routed, its mappings learnt: VPP chooses them by rules of its own."""
        nat = find_nat(scenario).model_copy(update={"mapping": "learnt"})
        return super().adapted(scenario.model_copy(update={"change": nat}), testbed)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps a VPP from translating here."""
        if trouble := super().missing(facts, scenario):
            return trouble
        needed, free = cls.heap_mib(scenario), sum(facts.memory_free_kb.values()) >> 10
        if facts.memory_free_kb and needed > free:
            return (
                f"its tables take {needed} MiB for {find_nat(scenario).subscribers} "
                f"subscribers, and {free} MiB are free; give fewer sessions (--nat, or "
                "max_sessions with mode=vpp-nat44)"
            )
        return ""

    @classmethod
    def forwarding_problem(cls, scenario: Scenario) -> str:
        """Why VPP makes no sessions of what the tester sends."""
        if "tcp" in scenario.traffic.headers:
            return (
                "VPP makes no session of a TCP segment without SYN, as the tester sends them; "
                "measure UDP (without --traffic tcp)"
            )
        return cls.nat_problem(find_nat(scenario), scenario.options.own(NatOptions))

    @classmethod
    @abstractmethod
    def nat_problem(cls, nat: Nat, options: NatOptions) -> str:
        """Why the plugin cannot translate so."""

    @abstractmethod
    def enabling(self) -> ApiMessage:
        """The message that enables the plugin."""

    @abstractmethod
    def port_message(self, port: Port, *, on: bool) -> ApiMessage:
        """The message that makes an interface a side of the NAT."""

    @abstractmethod
    def nat_messages(self) -> Iterator[ApiMessage]:
        """Messages that give it its public addresses and timers."""

    @abstractmethod
    def timeouts(self) -> dict[str, int]:
        """Timers as VPP reads them back, seconds."""

    @abstractmethod
    def tables(self) -> dict[str, Any]:
        """What it has for sessions."""

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Enable the plugin; routes, sides, public addresses, timers."""
        self._send([self.enabling(), *self._routes()])
        self._send([self.port_message(port, on=True) for port in self.interfaces])
        self._send(list(self.nat_messages()))
        self.arrange_queues()

    def _routes(self) -> Iterator[ApiMessage]:
        networks = self.plan.scenario.addresses.networks
        for port, interface in self.interfaces.items():
            local, neighbour = LINKS[port]
            mac = port_mac(self.plan.scenario.deployment, port, 0)
            yield from address_messages(interface.index, f"{local}/30", str(neighbour), mac)
            yield route_message(str(networks[port.index]), interface.index, str(neighbour))

    def remove_port(self, port: Port) -> None:
        """Take an interface from the NAT, then away."""
        if port in self.interfaces:
            message, fields = self.port_message(port, on=False)
            self.vpp.api.call(message, **fields)
        super().remove_port(port)

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of both ports, and what the plugin's nodes dropped of each."""
        causes = {str(port): self.causes(port) for port in self.interfaces}
        return tuple(
            hop.model_copy(update={"causes": causes[hop.port]}) for hop in super().counters()
        )

    def causes(self, port: Port) -> dict[str, int]:
        """Packets that came in at a port and were dropped so far."""
        counts: dict[str, int] = {}
        for node in self.nodes[port]:
            for name, packets in self.vpp.stats.errors(node).items():
                if packets and not name.startswith(NO_DROPS):
                    cause = name.replace("_", " ")
                    counts[cause] = counts.get(cause, 0) + packets
        return counts

    def facts(self) -> dict[str, Any]:
        """Version, configuration, the plugin, its timers and tables, drops by their causes."""
        return {
            **super().facts(),
            "mode": self.mode,
            "nat": str(self.nat),
            "behaviour": self.behaviour_facts(),
            "timeouts": self.timeouts(),
            **self.tables(),
            "dropped until then, by cause": {
                str(port): self.causes(port) or "none" for port in self.interfaces
            },
        }

    def _seconds(self) -> dict[str, int]:
        """Timers as the API takes them."""
        return {name: getattr(self.options, option) for name, option in TIMERS.items()}


def read_timeouts(reply: Any) -> dict[str, int]:
    """Timers in an answer of the API."""
    return {name: int(getattr(reply, name)) for name in TIMERS}


class Det44Map(Frozen):
    """The networks that a deterministic mapping joins, both of a power of two of addresses.

    Attributes:
        inside: Network of the subscribers, from the first address of theirs on.
        outside: Network of the public addresses.
    """

    inside: IPv4Network
    outside: IPv4Network

    @classmethod
    def fit(cls, nat: Nat) -> Det44Map:
        """The smallest that gives each subscriber a block as large as is requested."""
        inside = 32 - nat.subscribers.bit_length()  # subscriber 0 has the network's second address
        sharing = min(1 << (32 - inside), 1 << (nat.per_address.bit_length() - 1))
        outside = inside + sharing.bit_length() - 1
        first, pool = nat.inside.network_address, nat.pool.network_address
        return cls(
            inside=IPv4Network((int(first), inside), strict=False),
            outside=IPv4Network((int(pool), outside), strict=False),
        )

    @property
    def ports(self) -> int:
        """Ports of each subscriber, as VPP computes them."""
        return PORTS_OF_ADDRESS // (self.inside.num_addresses // self.outside.num_addresses)

    def fields(self) -> dict[str, Any]:
        """As the API takes it."""
        return {
            "in_addr": str(self.inside.network_address),
            "in_plen": self.inside.prefixlen,
            "out_addr": str(self.outside.network_address),
            "out_plen": self.outside.prefixlen,
        }


class VppDet44(VppNat):
    """Mode vpp-det44: ports of a subscriber by computation (RFC 7422), with a table for each."""

    plugins: ClassVar[tuple[str, ...]] = ("det44",)
    nodes: ClassVar[dict[Port, tuple[str, ...]]] = {
        INSIDE: ("det44-in2out", ERRORS_NODE),
        OUTSIDE: ("det44-out2in",),
    }
    #: Sessions of a subscriber at most, and octets of one (src/plugins/nat/det44/det44.h).
    MOST_SESSIONS, SESSION_OCTETS = 1000, 24

    @classmethod
    def behaviour(cls, scenario: Scenario, **extra_fields: Any) -> NatBehaviour:
        """Of its map: a subscriber has the same ports of the same address for ever."""
        return super().behaviour(scenario, **COMPUTED_BLOCKS, **extra_fields)

    @classmethod
    def heap_mib(cls, scenario: Scenario) -> int:
        """The table: room for all sessions of all addresses of the inside network."""
        addresses = Det44Map.fit(find_nat(scenario)).inside.num_addresses
        return -(-addresses * cls.MOST_SESSIONS * cls.SESSION_OCTETS >> 20)

    @classmethod
    def nat_problem(cls, nat: Nat, options: NatOptions) -> str:
        """Why the plugin has no room for the sessions."""
        if options.max_sessions is not None:
            return (
                f"det44 has room for {cls.MOST_SESSIONS} sessions of each subscriber, which cannot "
                "be set; leave max_sessions out, or --set mode=vpp-nat44"
            )
        if nat.ports > cls.MOST_SESSIONS:
            return (
                f"det44 has room for {cls.MOST_SESSIONS} sessions of a subscriber, and "
                f"{nat.ports} are requested; give more subscribers with fewer ports (--nat)"
            )
        needed = Det44Map.fit(nat).outside.num_addresses
        if needed > nat.pool.num_addresses:
            return (
                f"det44 shares public addresses by powers of two, and needs {needed} for blocks of "
                f"{nat.block_size} ports: pool {nat.pool} has {nat.pool.num_addresses}; give a "
                "larger pool, fewer subscribers or smaller blocks (--nat)"
            )
        return ""

    def enabling(self) -> ApiMessage:
        """Enable det44 in the default routing table."""
        return "det44_plugin_enable_disable", {"inside_vrf": 0, "outside_vrf": 0, "enable": True}

    def port_message(self, port: Port, *, on: bool) -> ApiMessage:
        """The message that makes an interface a side of the NAT."""
        index, inside = self.interfaces[port].index, port == INSIDE
        fields = {"is_add": on, "is_inside": inside, "sw_if_index": index}
        return "det44_interface_add_del_feature", fields

    def nat_messages(self) -> Iterator[ApiMessage]:
        """The map, and its timers."""
        yield self._map(on=True)
        yield "det44_set_timeouts", self._seconds()

    def _map(self, *, on: bool) -> ApiMessage:
        return "det44_add_del_map", {"is_add": on, **Det44Map.fit(self.nat).fields()}

    def sessions(self) -> int:
        """Sessions that its map counts."""
        return sum(int(mapping.ses_num) for mapping in self.vpp.api.call("det44_map_dump"))

    def end_sessions(self) -> None:
        """Delete the map and add it again: nothing else empties the table at once."""
        for on in (False, True):
            message, fields = self._map(on=on)
            self.vpp.api.call(message, **fields)

    def timeouts(self) -> dict[str, int]:
        """Timers as VPP reads them back, seconds."""
        return read_timeouts(self.vpp.api.call("det44_get_timeouts"))

    def tables(self) -> dict[str, Any]:
        """The map as VPP has it."""
        (mapping,) = self.vpp.api.call("det44_map_dump")
        return {
            "map": f"{mapping.in_addr}/{mapping.in_plen} to {mapping.out_addr}/{mapping.out_plen}",
            "subscribers that share a public address": int(mapping.sharing_ratio),
            "ports of a subscriber": int(mapping.ports_per_host),
            "room for sessions of a subscriber": min(
                self.MOST_SESSIONS, int(mapping.ports_per_host)
            ),
        }


class VppNat44(VppNat):
    """Mode vpp-nat44: a session for each 5-tuple (nat44-ed), its port kept where it is free."""

    plugins: ClassVar[tuple[str, ...]] = ("nat",)
    nodes: ClassVar[dict[Port, tuple[str, ...]]] = {
        port: (f"nat44-ed-{way}", f"nat44-ed-{way}-slowpath", f"nat44-{way}-worker-handoff")
        for port, way in ((INSIDE, "in2out"), (OUTSIDE, "out2in"))
    }
    #: Octets of a session with its places in hash and lists.
    SESSION_OCTETS = 512
    #: VPP tries ports of one address ten times, chosen by the subscriber's: so many are free.
    SLACK = 4
    #: Values of src/plugins/nat/lib/nat_types.api and nat44_ed.api.
    IS_OUTSIDE, IS_INSIDE, ENDPOINT_DEPENDENT = 0x10, 0x20, 0x01
    EVERY_TABLE = 0xFFFFFFFF
    SESSIONS = "/nat44-ed/total-sessions"

    @classmethod
    def heap_mib(cls, scenario: Scenario) -> int:
        """Tables of each worker, with room for all sessions."""
        options, workers = scenario.options.own(NatOptions), scenario.options.workers or 1
        sessions = options.max_sessions or find_nat(scenario).sessions
        return -(-sessions * workers * cls.SESSION_OCTETS >> 20)

    @classmethod
    def addresses(cls, nat: Nat) -> int:
        """Public addresses that it gets: a prime, by which subscribers of any network spread.

        VPP takes the remainder of the subscriber's address, whose lowest octet is the first one on
        little-endian machines: by a power of two all subscribers would have the same.
        """
        sizes = count(nat.public_addresses * cls.SLACK)
        return next(n for n in sizes if all(n % factor for factor in range(2, isqrt(n) + 1)))

    @classmethod
    def nat_problem(cls, nat: Nat, options: NatOptions) -> str:
        """Why the pool does not suffice."""
        needed = cls.addresses(nat)
        if needed <= nat.pool.num_addresses:
            return ""
        return (
            f"nat44-ed chooses an address by the subscriber's and tries few ports of it, so that "
            f"{nat.subscribers} subscribers with blocks of {nat.block_size} ports get {needed} "
            f"public addresses: pool {nat.pool} has {nat.pool.num_addresses}; give a larger one "
            "(--nat pool=)"
        )

    def enabling(self) -> ApiMessage:
        """Enable nat44-ed in the default routing table, with room for the sessions."""
        return "nat44_ed_plugin_enable_disable", {
            "inside_vrf": 0,
            "outside_vrf": 0,
            "sessions": self.max_sessions,
            "session_memory": 0,
            "enable": True,
            "flags": self.ENDPOINT_DEPENDENT,
        }

    def port_message(self, port: Port, *, on: bool) -> ApiMessage:
        """The message that makes an interface a side of the NAT."""
        flags = self.IS_INSIDE if port == INSIDE else self.IS_OUTSIDE
        fields = {"is_add": on, "flags": flags, "sw_if_index": self.interfaces[port].index}
        return "nat44_interface_add_del_feature", fields

    def nat_messages(self) -> Iterator[ApiMessage]:
        """The public addresses, and timers."""
        first = self.nat.pool.network_address
        yield (
            "nat44_add_del_address_range",
            {
                "first_ip_address": str(first),
                "last_ip_address": str(first + self.addresses(self.nat) - 1),
                "vrf_id": self.EVERY_TABLE,
                "is_add": True,
                "flags": 0,
            },
        )
        yield "nat_set_timeouts", self._seconds()

    def sessions(self) -> int:
        """Sessions of all workers."""
        return next(iter(self.vpp.stats.by_index(self.SESSIONS)), 0)

    def end_sessions(self) -> None:
        """Empty the tables, as VPP does when it is told their room; by no message of the API."""
        if reply := self.vpp.api.cli(f"set nat44 session limit {self.max_sessions}").strip():
            raise DutError(f"VPP does not end sessions: {reply[:300]}", where=self.name)

    def timeouts(self) -> dict[str, int]:
        """Timers as VPP reads them back, seconds."""
        return read_timeouts(self.vpp.api.call("nat44_show_running_config").timeouts)

    def tables(self) -> dict[str, Any]:
        """Room and public addresses as VPP has them."""
        config = self.vpp.api.call("nat44_show_running_config")
        addresses = self.vpp.api.call("nat44_address_dump")
        return {
            "room for sessions of each worker": int(config.sessions),
            "public addresses": len(addresses),
        }
