"""Carrier-grade NAT: subscribers, the pool of public addresses, and who has which block of ports.

Blocks of ports are given to subscribers by computation (RFC 7422 section 2): in order of their
addresses, as many to a public address as fit it, so that no translation has to be logged.
"""

from __future__ import annotations

import sys
from array import array
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network
from typing import ClassVar, Literal, NamedTuple, Self, cast

from pydantic import Field, model_validator

from vnetperf.model.addresses import TEST_ADDRESSES, AddressPlan
from vnetperf.model.base import Frozen
from vnetperf.model.frame_change import (
    FIRST_PORT,
    PORTS_OF_ADDRESS,
    SERVER_PORT,
    FlowEnds,
    FrameChange,
)
from vnetperf.model.profile import MOST_FLOWS

#: Network of the servers, behind phy1 (RFC 2544 appendix C.2.2): frames go to its first address.
SERVERS = TEST_ADDRESSES.networks[1]


class PortBlock(NamedTuple):
    """The public ports of a subscriber: `first` to `last`, of a public IPv4 address."""

    address: str
    first: int
    last: int


class Nat(FrameChange):
    """What a scenario asks of a NAT, and what its tester sends through it.

    Subscriber `n` has the address ``inside + 1 + n``. Its sessions come from the first `ports`
    ports of its own block.

    Attributes:
        subscribers: Addresses behind the NAT that have sessions.
        ports: Sessions of each subscriber, each from a port of its own.
        block: Ports that each subscriber is given of a public address; 0 for as many as `ports`.
        pool: Network whose addresses are the public ones, from its first on, as far as needed.
        inside: Network of the subscribers, from its second address on (RFC 6598).
        mapping: How both sides of each session are known. "preserved": the NAT keeps ports that
            lie in the subscriber's block (port preservation, RFC 4787 section 4.2.1). "learnt":
            from the frames that come out before each trial, whatever the NAT chooses.
    """

    key: ClassVar[str] = "nat"
    middlebox: ClassVar[str] = "a NAT"
    condition: ClassVar[str] = "NAT"
    options_title: ClassVar[str] = "sessions of the NAT"
    missing_part: ClassVar[str] = "is no NAT"

    subscribers: int = Field(default=1024, ge=1, le=MOST_FLOWS)
    ports: int = Field(default=63, ge=1, le=PORTS_OF_ADDRESS)
    block: int = Field(default=0, ge=0, le=PORTS_OF_ADDRESS)
    pool: IPv4Network = IPv4Network("198.18.0.0/16")
    inside: IPv4Network = IPv4Network("100.64.0.0/10")
    mapping: Literal["preserved", "learnt"] = "preserved"

    @model_validator(mode="after")
    def _fits(self) -> Nat:
        if self.block_size < self.ports:
            raise ValueError(
                f"blocks of {self.block} ports have no room for {self.ports} sessions of a "
                "subscriber: ports is block at most"
            )
        room = self.per_address * self.pool.num_addresses
        if self.subscribers > room:
            raise ValueError(
                f"{self.subscribers} subscribers with blocks of {self.block_size} ports need "
                f"{self.public_addresses} public addresses, and pool {self.pool} has "
                f"{self.pool.num_addresses}: that is room for {room}; give fewer or smaller "
                "blocks, or a larger pool"
            )
        if self.subscribers > self.inside.num_addresses - 2:
            raise ValueError(f"{self.inside} has no addresses for {self.subscribers} subscribers")
        if self.pool.overlaps(self.inside):
            raise ValueError(f"pool {self.pool} and inside {self.inside} have addresses in common")
        for name, network in (("pool", self.pool), ("inside", self.inside)):
            if network.overlaps(SERVERS):
                raise ValueError(
                    f"{name} {network} has addresses of the servers' network {SERVERS}; choose one "
                    "apart from it"
                )
        if self.sessions > MOST_FLOWS:
            raise ValueError(f"{self.sessions} sessions; {MOST_FLOWS} at most")
        return self

    @property
    def block_size(self) -> int:
        """Public ports of each subscriber."""
        return self.block or self.ports

    @property
    def sessions(self) -> int:
        """Sessions of all subscribers."""
        return self.subscribers * self.ports

    @property
    def per_address(self) -> int:
        """Subscribers that share a public address."""
        return PORTS_OF_ADDRESS // self.block_size

    @property
    def public_addresses(self) -> int:
        """Public addresses that are needed."""
        return -(-self.subscribers // self.per_address)

    @property
    def first_inside(self) -> IPv4Address:
        """Address of the first subscriber."""
        return self.inside.network_address + 1

    def subscriber_block(self, subscriber: int) -> PortBlock:
        """Public address and ports of a subscriber, by its number from 0."""
        address, place = divmod(subscriber, self.per_address)
        first = FIRST_PORT + place * self.block_size
        public = str(self.pool.network_address + address)
        return PortBlock(public, first, first + self.block_size - 1)

    def bindings(self) -> Bindings:
        """Every session on both sides, in the order in which the tester's frames walk through them.

        Session `i` is of subscriber ``i % subscribers``, so that successive frames are of
        different ones.
        """
        return _bindings(self)

    def sides(self) -> tuple[FlowEnds, FlowEnds]:
        """Both ends of every session: at phy0, before the NAT, and at phy1, behind it."""
        bound = self.bindings()
        server = (SERVERS.network_address + 1).packed, SERVER_PORT.to_bytes(2, "big")
        inside = FlowEnds(bound.inside, bound.ports, *server)
        return inside, FlowEnds(bound.public, bound.public_ports, *server)

    @property
    def addresses(self) -> AddressPlan:
        """Subscribers behind phy0, servers behind phy1; public addresses are nobody's."""
        return AddressPlan((self.inside, SERVERS), unrouted=self.pool)

    @property
    def learns_ends(self) -> bool:
        """Whether the NAT chooses addresses and ports as it likes."""
        return self.mapping == "learnt"

    def with_learnt_clients(self, addresses: bytes, ports: bytes) -> Self:
        """The same with the bindings that the NAT was seen to have: public addresses and ports."""
        same = {name: getattr(self, name) for name in Nat.model_fields}
        return cast("Self", _LearntNat(**same, public=addresses, public_ports=ports))

    def __str__(self) -> str:
        pool = (
            "a public address"
            if self.public_addresses == 1
            else f"{self.public_addresses} public addresses"
        )
        return (
            f"{self.sessions} sessions: {self.subscribers} subscribers, {self.ports} ports each; "
            f"blocks of {self.block_size} ports of {pool}"
        )


class Bindings(NamedTuple):
    """Values of all sessions, each big endian, one after the other.

    Attributes:
        inside: Address of the subscriber, four octets.
        ports: Its port, two octets.
        public: Public address, four octets.
        public_ports: Public port, two octets. That and the address are empty until they are learnt.
    """

    inside: bytes
    ports: bytes
    public: bytes
    public_ports: bytes


class _LearntNat(Nat):
    """A NAT whose bindings were seen.

    Attributes:
        public: Public address of each session, four octets each.
        public_ports: Its public port, two octets each.
    """

    public: bytes
    public_ports: bytes

    def bindings(self) -> Bindings:
        """Every session on both sides."""
        return super().bindings()._replace(public=self.public, public_ports=self.public_ports)


@lru_cache(maxsize=2)
def _bindings(nat: Nat) -> Bindings:
    first, public = int(nat.first_inside), int(nat.pool.network_address)
    blocks = range(nat.subscribers)
    start = [FIRST_PORT + n % nat.per_address * nat.block_size for n in blocks]
    ports = array("H")
    for session in range(nat.ports):
        ports.extend(array("H", [start_port + session for start_port in start]))
    inside = array("I", range(first, first + nat.subscribers)) * nat.ports
    outside = array("I", [public + n // nat.per_address for n in blocks]) * nat.ports
    for values in (inside, outside, ports):
        if sys.byteorder == "little":
            values.byteswap()
    port_octets = ports.tobytes()
    if nat.mapping == "learnt":
        return Bindings(inside.tobytes(), port_octets, b"", b"")
    return Bindings(inside.tobytes(), port_octets, outside.tobytes(), port_octets)


class NatBehaviour(Frozen):
    """What a NAT does of what the RFCs on NATs ask, as its backend knows it; None: not known.

    Attributes:
        mapping: Endpoints that have one mapping in common: "endpoint-independent" for all.
        filtering: Who may send to a mapping: "endpoint-independent" for anybody,
            "address-and-port" for whom its subscriber has sent to.
        hairpinning: Whether subscribers reach each other by their public addresses.
        fragments: Whether fragments are translated in whatever order they come.
        paired: Whether all ports of a subscriber are of one public address.
        udp_s: Idle time after which a mapping of UDP ends, seconds. So are those that follow.
        tcp_s: That of an established connection.
        tcp_transitory_s: That of one that opens or closes.
        icmp_s: That of an ICMP query.
        reset_s: That of a connection that was reset.
        port_limit: Whether a subscriber has ports of its own alone.
        session_limit: Sessions of a subscriber at most; 0: no limit.
        computed_blocks: Whether a subscriber's block is computed (RFC 7422): no other ever has it,
            and no record is needed.
        block_hold_s: Rest of a block that is given out on use before another subscriber has it,
            seconds.
        random_ports: Whether ports inside a block are chosen at random.
    """

    mapping: Literal["endpoint-independent", "address-and-port"] | None = None
    filtering: Literal["endpoint-independent", "address-and-port"] | None = None
    hairpinning: bool | None = None
    fragments: bool | None = None
    paired: bool | None = None
    udp_s: float | None = None
    tcp_s: float | None = None
    tcp_transitory_s: float | None = None
    icmp_s: float | None = None
    reset_s: float | None = None
    port_limit: bool | None = None
    session_limit: int | None = None
    computed_blocks: bool | None = None
    block_hold_s: float | None = None
    random_ports: bool | None = None
