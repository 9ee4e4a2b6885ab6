"""A NAT written a second time, for its decisions only: slow, plain, one packet after the other.

It shares nothing with the engine but its documentation: dictionaries instead of tables, whole
checksums instead of updates. `Reference.translate` is what the engine must do with a packet.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections import deque
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import NamedTuple

INSIDE, OUTSIDE = 0, 1
UDP, TCP, ICMP = 17, 6, 1
SYN, FIN, RST, ACK = 2, 1, 4, 16
OWN = (bytes.fromhex("020000000010"), bytes.fromhex("020000000011"))
NEXT_HOP = (bytes.fromhex("020000000020"), bytes.fromhex("020000000021"))
QUERIES, ERRORS = {8, 0, 13, 14}, {3, 11, 12}
FIRST_PORT = 1024
SERVER = 0xC6130001
PARTIALS, MOST_HELD, PARTIAL_S = 1024, 256, 2


@dataclass(frozen=True)
class Config:
    """The engine's options, by their names."""

    inside: int = int(IPv4Address("100.64.0.1"))
    subscribers: int = 8
    pool: int = int(IPv4Address("198.18.0.0"))
    addresses: int = 2
    block: int = 8
    blocks: str = "computed"
    most_blocks: int = 2
    hold: int = 120
    mappings: int = 1024
    sessions: int = 4096
    session_limit: int = 0
    filtering: str = "endpoint-independent"
    tcp: str = "loose"
    inbound_refresh: str = "no"
    udp_timeout: int = 300
    icmp_timeout: int = 60
    tcp_timeout: int = 7440
    tcp_transitory_timeout: int = 240

    @property
    def per_address(self) -> int:
        return (65536 - FIRST_PORT) // self.block

    def argv(self) -> list[str]:
        values = {**self.__dict__, "inside": IPv4Address(self.inside)}
        values["pool"] = IPv4Address(self.pool)
        own, hop = (",".join(m.hex(":") for m in pair) for pair in (OWN, NEXT_HOP))
        given = [f"--{k.replace('_', '-')}={v}" for k, v in values.items()]
        return [*given, f"--own={own}", f"--next-hop={hop}"]


def checksum(octets: bytes) -> int:
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Quote(NamedTuple):
    """A packet within an ICMP error, and how many octets of what follows its header are quoted."""

    packet: Packet
    octets: int


@dataclass(frozen=True)
class Packet:
    """What a frame says: built and rebuilt by `octets`."""

    src: int
    dst: int
    protocol: int
    sport: int = 0
    dport: int = 0
    flags: int = 0
    payload: bytes = b""
    udp_sum: bool = True
    icmp_type: int = 8
    quote: Quote | None = None
    ttl: int = 64
    fragment: int = 0
    options: bytes = b""
    number: int = 99

    def l4(self) -> bytes:
        ports = struct.pack("!HH", self.sport, self.dport)
        if self.protocol == TCP:
            fixed = struct.pack("!IIBBHHH", 1, 2, 5 << 4, self.flags, 512, 0, 0)
            return self._with_sum(ports + fixed + self.payload, 16)
        if self.protocol == UDP:
            whole = ports + struct.pack("!HH", 8 + len(self.payload), 0) + self.payload
            return self._with_sum(whole, 6) if self.udp_sum else whole
        if self.quote is not None:
            inner = self.quote.packet.ip(ttl=1)
            keep = 20 + len(self.quote.packet.options) + self.quote.octets
            head = struct.pack("!BBHI", self.icmp_type, 0, 0, 0)
            return self._with_sum(head + inner[:keep], 2)
        if self.protocol == ICMP:
            head = struct.pack("!BBHHH", self.icmp_type, 0, 0, self.sport, 7)
            return self._with_sum(head + self.payload, 2)
        return self.payload

    def _with_sum(self, l4: bytes, at: int) -> bytes:
        pseudo = struct.pack("!IIHH", self.src, self.dst, self.protocol, len(l4))
        found = checksum((pseudo if self.protocol != ICMP else b"") + l4)
        if self.protocol == UDP:
            found = found or 0xFFFF
        return l4[:at] + struct.pack("!H", found) + l4[at + 2 :]

    def ip(self, ttl: int | None = None) -> bytes:
        l4 = self.l4()
        words = 5 + len(self.options) // 4
        length = words * 4 + len(l4)
        ttl = self.ttl if ttl is None else ttl
        head = struct.pack(
            "!BBHHHBBHII", 0x40 | words, 0, length, self.number, self.fragment, ttl,
            self.protocol, 0, self.src, self.dst,
        )  # fmt: skip
        head += self.options
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + l4

    def frame(self, to: bytes, sender: bytes) -> bytes:
        return (to + sender + b"\x08\x00" + self.ip()).ljust(60, b"\0")

    def fragments(self, *cuts: int) -> list[Fragment]:
        """It in pieces, cut at these multiples of 8 octets."""
        edges = (0, *cuts, len(self.l4()))
        return [Fragment(self, a, b) for a, b in itertools.pairwise(edges)]


class Fragment(NamedTuple):
    """Some octets of what follows a packet's header."""

    packet: Packet
    start: int
    end: int

    @property
    def more(self) -> bool:
        return self.end < len(self.packet.l4())

    def frame(self, to: bytes, sender: bytes) -> bytes:
        whole = self.packet.ip()
        header = (whole[0] & 15) * 4
        octets = whole[header + self.start : header + self.end]
        bits = self.more << 13 | self.start // 8
        head = whole[:2] + struct.pack("!H", header + len(octets)) + whole[4:6]
        head += struct.pack("!H", bits) + whole[8:10] + b"\0\0" + whole[12:header]
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        return (to + sender + b"\x08\x00" + head + octets).ljust(60, b"\0")


@dataclass
class Session:
    """A mapping and an endpoint."""

    kind: int
    last: int
    seen: set[str] = field(default_factory=set)


class Mapping(NamedTuple):
    """An inside end and its public one."""

    kind: int
    inside: tuple[int, int]
    public: tuple[int, int]


class Event(NamedTuple):
    """A block that was given to a subscriber, or came back."""

    second: int
    subscriber: int
    public: int
    first: int
    last: int
    given: bool


@dataclass
class Partial:
    """A datagram of which some fragments have come."""

    since: int
    known: bool = False
    octets: int = 0
    total: int = 0
    held: list[tuple[int, Fragment]] = field(default_factory=list)


class DroppedError(Exception):
    """Why a packet is not passed on, by the engine's name."""


class HeldError(Exception):
    """A fragment waits for the first one."""


class Reference:
    """The NAT."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.second = 0
        self.mappings: dict[tuple[int, int, int], Mapping] = {}
        self.public: dict[tuple[int, int, int], Mapping] = {}
        self.sessions: dict[Mapping, dict[tuple[int, int], Session]] = {}
        self.held: dict[int, list[int]] = {}
        self.free = [
            deque(range(a * config.per_address, (a + 1) * config.per_address))
            for a in range(config.addresses)
        ]
        self.since: dict[int, int] = {}
        self.events: list[Event] = []
        self.partials: dict[tuple[int, int, int, int, int], Partial] = {}
        self.ready: list[tuple[int, Fragment]] = []
        self.late = 0
        self.passed: tuple[int, Packet]

    def advance(self, second: int) -> None:
        """Let time pass: sessions end that were idle, then mappings without one."""
        if second == self.second:
            return
        self.second = second
        for key, partial in list(self.partials.items()):
            if second - partial.since > PARTIAL_S:
                self.late += len(partial.held)
                del self.partials[key]
        for of in self.sessions.values():
            for end, session in list(of.items()):
                if second - session.last > self._limit(session):
                    del of[end]
        # The order among the blocks of an address that come back in one second is the engine's own.
        for mapping in [m for m, of in self.sessions.items() if not of]:
            del self.sessions[mapping]
            del self.mappings[(mapping.kind, *mapping.inside)]
            del self.public[(mapping.kind, *mapping.public)]
            self._give_back(mapping)

    def _limit(self, session: Session) -> int:
        c = self.config
        if session.kind == UDP:
            return c.udp_timeout
        if session.kind == ICMP:
            return c.icmp_timeout
        open_ = "open" in session.seen and "rst" not in session.seen
        both_fin = {"out fin", "in fin"} <= session.seen
        return c.tcp_timeout if open_ and not both_fin else c.tcp_transitory_timeout

    # Blocks and ports.

    def _first(self, block: int) -> int:
        return FIRST_PORT + block % self.config.per_address * self.config.block

    def _blocks(self, subscriber: int) -> list[int]:
        if self.config.blocks == "computed":
            return [subscriber]
        return self.held.setdefault(subscriber, [])

    def _port(self, kind: int, block: int, wanted: int) -> tuple[int, int] | None:
        size, first = self.config.block, self._first(block)
        address = self.config.pool + block // self.config.per_address
        start = wanted - first if first <= wanted < first + size else wanted % size
        for i in range(size):
            port = first + (start + i) % size
            if (kind, address, port) not in self.public:
                return address, port
        return None

    def _new_block(self, subscriber: int) -> None:
        mine = self._blocks(subscriber)
        first = mine[0] // self.config.per_address if mine else 0
        choice = [first] if mine else range(self.config.addresses)
        for address in choice:
            free = self.free[address]
            rested = self.second - self.since.get(free[0], -(10**9)) if free else 0
            if free and (rested > self.config.hold or not self.config.hold):
                mine.append(free.popleft())
                self._note(subscriber, mine[-1], given=True)
                return
        raise DroppedError("no block of ports left")

    def _note(self, subscriber: int, block: int, *, given: bool) -> None:
        first, c = self._first(block), self.config
        public = c.pool + block // c.per_address
        self.events.append(
            Event(self.second, c.inside + subscriber, public, first, first + c.block - 1, given)
        )

    def _give_back(self, mapping: Mapping) -> None:
        if self.config.blocks == "computed":
            return
        c = self.config
        address, port = mapping.public
        subscriber = mapping.inside[0] - c.inside
        block = (address - c.pool) * c.per_address + (port - FIRST_PORT) // c.block
        first = self._first(block)
        if any(a == address and first <= p < first + c.block for _, a, p in self.public):
            return
        self.held[subscriber].remove(block)
        self.since[block] = self.second
        self.free[address - c.pool].append(block)
        self._note(subscriber, block, given=False)

    # Mappings.

    def _is_subscriber(self, ip: int) -> bool:
        return 0 <= ip - self.config.inside < self.config.subscribers

    def _in_pool(self, ip: int) -> bool:
        return 0 <= ip - self.config.pool < self.config.addresses

    def _make(self, kind: int, ip: int, port: int) -> Mapping:
        c = self.config
        if len(self.mappings) >= c.mappings:
            raise DroppedError("no room for a mapping")
        subscriber = ip - c.inside
        mine = self._blocks(subscriber)
        free = [p for b in mine if (p := self._port(kind, b, port))]
        found = next((p for p in free if p[1] == port), free[0] if free else None)
        if found is None:
            if c.blocks == "computed" or len(mine) == c.most_blocks:
                raise DroppedError("no port left for the subscriber")
            self._new_block(subscriber)
            found = self._port(kind, mine[-1], port)
        assert found is not None
        made = Mapping(kind, (ip, port), found)
        self.mappings[(kind, ip, port)] = made
        self.public[(kind, *found)] = made
        self.sessions[made] = {}
        return made

    def _outside(self, kind: int, ip: int, port: int) -> Mapping:
        if (kind, ip, port) not in self.public:
            raise DroppedError("no mapping")
        return self.public[(kind, ip, port)]

    # Sessions.

    def _session(self, m: Mapping, end: tuple[int, int], p: Packet, *, out: bool) -> None:
        of, c = self.sessions[m], self.config
        if end not in of:
            if not out and c.filtering != "endpoint-independent":
                raise DroppedError("filtered")
            if p.quote:
                return
            if c.tcp == "strict" and m.kind == TCP and not p.flags & SYN:
                raise DroppedError("no SYN and no connection")
            # A stranger keeps nothing alive that its subscriber does not.
            if not out and (m.kind == TCP or c.inbound_refresh == "no"):
                return
            own = sum(len(s) for k, s in self.sessions.items() if k.inside[0] == m.inside[0])
            if c.session_limit and own >= c.session_limit:
                raise DroppedError("session limit of the subscriber")
            if sum(map(len, self.sessions.values())) >= c.sessions:
                raise DroppedError("no room for a session")
            of[end] = Session(m.kind, self.second)
        if p.quote:
            return
        session = of[end]
        if m.kind == TCP:
            self._follow(session, p.flags, "out" if out else "in")
        if out or m.kind == TCP or c.inbound_refresh == "yes":
            session.last = self.second

    def _follow(self, session: Session, flags: int, way: str) -> None:
        seen = session.seen
        if flags & RST:
            seen.add("rst")
            return
        if flags & SYN and ("rst" in seen or {"out fin", "in fin"} <= seen):
            seen.clear()
        seen.discard("rst")
        other = {"out": "in", "in": "out"}[way]
        syns = seen & {"out syn", "in syn"}
        if flags & SYN:
            if "open" not in seen:
                seen -= {"out ack", "in ack"}
            seen.add(f"{way} syn")
            if flags & ACK:
                seen |= {f"{other} syn", f"{way} answers"}
        elif flags & ACK and len(syns) != 1:
            seen.add(f"{way} ack")
        if flags & FIN:
            seen.add(f"{way} fin")
        met = not seen & {"out syn", "in syn"} and {"out ack", "in ack"} <= seen
        opened = {"out syn", "in syn"} <= seen
        done = "out ack" in seen or {"out answers", "in ack"} <= seen
        if met or (opened and done):
            seen.add("open")

    # Packets.

    def translate(self, side: int, p: Packet) -> tuple[int, Packet]:
        """The side a packet leaves by, and what it then is; raises `DroppedError`."""
        if p.ttl <= 1:
            raise DroppedError("time to live ended")
        if p.protocol not in (UDP, TCP, ICMP):
            raise DroppedError("other protocol")
        if p.protocol == ICMP and not p.quote and p.icmp_type not in QUERIES:
            raise DroppedError("other protocol")
        about = p.quote.packet if p.quote else p
        if p.quote:
            if about.fragment & 0x1FFF:
                raise DroppedError("fragment")
            if about.protocol not in (UDP, TCP, ICMP) or (
                about.protocol == ICMP and about.icmp_type not in QUERIES
            ):
                raise DroppedError("other protocol")
        way = self._from_inside if side == INSIDE else self._from_outside
        to, out = way(p, about)
        self.passed = to, replace(out, ttl=p.ttl - 1)
        return self.passed

    def take(self, side: int, one: Fragment | Packet) -> tuple[int, Fragment | Packet]:
        """As `translate`, of a packet or a fragment; `HeldError` where its first is awaited."""
        if isinstance(one, Packet):
            return self.translate(side, one)
        self._check_fragment(one)
        if not self._is_known(side, one):
            raise HeldError
        return self.follow(side, one)

    def _check_fragment(self, one: Fragment) -> None:
        p, length = one.packet, one.end - one.start
        if p.ttl <= 1:
            raise DroppedError("time to live ended")
        if p.protocol == TCP and 0 < one.start < 20:
            raise DroppedError("malformed header")
        least = {TCP: 20, UDP: 8, ICMP: 8}
        if p.protocol not in least:
            raise DroppedError("other protocol")
        if not one.start and length < least[p.protocol]:
            raise DroppedError("malformed header")
        if not one.start and p.protocol == ICMP and p.icmp_type not in QUERIES:
            raise DroppedError("fragment" if p.icmp_type in ERRORS else "other protocol")

    def _is_known(self, side: int, one: Fragment) -> bool:
        """Note a fragment; whether the first one has come."""
        p = one.packet
        key = (side, p.src, p.dst, p.protocol, p.number)
        if key not in self.partials and len(self.partials) == PARTIALS:
            raise DroppedError("no room for a fragment")
        partial = self.partials.setdefault(key, Partial(self.second))
        if one.start and not partial.known:
            if sum(len(other.held) for other in self.partials.values()) == MOST_HELD:
                raise DroppedError("no room for a fragment")
            partial.held.append((side, one))
        elif not one.start:
            partial.known = True
            self.ready += partial.held
            partial.held = []
        partial.octets += one.end - one.start
        if not one.more:
            partial.total = one.end
        if partial.known and 0 < partial.total <= partial.octets:
            del self.partials[key]
        return partial.known

    def follow(self, side: int, one: Fragment) -> tuple[int, Fragment]:
        """A fragment whose first one has come is of its flow."""
        to, out = self.translate(side, one.packet)
        return to, one._replace(packet=out)

    def _from_inside(self, p: Packet, about: Packet) -> tuple[int, Packet]:
        kind = about.protocol
        near = (about.dst, _dport(about)) if p.quote else (about.src, about.sport)
        far = (about.src, about.sport) if p.quote else (about.dst, _dport(about))
        if not self._is_subscriber(near[0]):
            raise DroppedError("source is no subscriber")
        if self._is_subscriber(p.dst):
            raise DroppedError("destination is an address of subscribers")
        if p.quote and p.dst != about.src:
            raise DroppedError("ICMP error about another packet")
        hairpin = self._in_pool(p.dst)
        if hairpin and kind == ICMP:
            raise DroppedError("ICMP query between subscribers")
        up = self.mappings.get((kind, *near))
        if up is None and p.quote:
            raise DroppedError("no mapping")
        up = up or self._make(kind, *near)
        down = self._outside(kind, *far) if hairpin else None
        end = (far[0], 0) if kind == ICMP else far
        self._session(up, end, p, out=True)
        if down:
            self._session(down, up.public, p, out=False)
        return INSIDE if hairpin else OUTSIDE, _rewritten(p, up, down)

    def _from_outside(self, p: Packet, about: Packet) -> tuple[int, Packet]:
        kind = about.protocol
        if self._is_subscriber(p.src) or self._in_pool(p.src):
            raise DroppedError("source is behind the NAT")
        if not self._in_pool(p.dst):
            raise DroppedError("destination is no public address")
        if p.quote and p.dst != about.src:
            raise DroppedError("ICMP error about another packet")
        near = (about.src, about.sport) if p.quote else (about.dst, _dport(about))
        far = (about.dst, _dport(about)) if p.quote else (about.src, about.sport)
        down = self._outside(kind, *near)
        self._session(down, (far[0], 0) if kind == ICMP else far, p, out=False)
        return INSIDE, _rewritten(p, None, down)


def _dport(p: Packet) -> int:
    return p.sport if p.protocol == ICMP else p.dport


def _rewritten(p: Packet, up: Mapping | None, down: Mapping | None) -> Packet:
    if not p.quote:
        if up:
            p = replace(p, src=up.public[0], sport=up.public[1])
        if down:
            port = "sport" if p.protocol == ICMP else "dport"
            p = replace(p, dst=down.inside[0], **{port: down.inside[1]})
        return p
    inner = p.quote.packet
    if up:
        port = "sport" if inner.protocol == ICMP else "dport"
        inner = replace(inner, dst=up.public[0], **{port: up.public[1]})
        p = replace(p, src=up.public[0])
    if down:
        inner = replace(inner, src=down.inside[0], sport=down.inside[1])
        p = replace(p, dst=down.inside[0])
    return replace(p, quote=Quote(inner, p.quote.octets))


class Traffic:
    """Packets that are likely to meet each other's mappings: few addresses, few ports, answers."""

    def __init__(self, reference: Reference, seed: int) -> None:
        self.reference = reference
        self.random = random.Random(seed)
        self.sent: deque[tuple[int, Packet]] = deque(maxlen=64)
        self.pieces: list[tuple[int, Fragment]] = []
        self.number = 100

    def next(self) -> tuple[int, Packet]:
        r = self.random
        way = r.random()
        if way < 0.5 or not self.sent:
            return self._noise(INSIDE, self._fresh())
        side, last = r.choice(self.sent)
        if way < 0.55:
            return self._stray()
        if way < 0.65:
            return 1 - side if r.random() < 0.9 else side, self._error(last)
        return self._noise(side, self._answer(last))

    def piece(self) -> tuple[int, Packet | Fragment]:
        """The next packet, or a fragment of one: in any order, among others, some lost."""
        r = self.random
        if self.pieces and r.random() < 0.5:
            return self.pieces.pop(r.randrange(len(self.pieces)))
        side, packet = self.next()
        length = len(packet.l4())
        if packet.quote or packet.fragment or length <= 8 or r.random() < 0.9:
            return side, packet
        self.number = (self.number + 1) % (1 << 16)
        cuts = range(8, length, 8)
        packet = replace(packet, number=self.number)
        chosen = sorted(r.sample(cuts, r.randint(1, min(3, len(cuts)))))
        whole = packet.fragments(*chosen)
        self.pieces += [(side, one) for one in whole if r.random() < 0.95]
        return self.piece()

    def came_out(self, side: int, p: Packet) -> None:
        """Remember what the NAT sent: answers come to that side."""
        if not p.quote:
            self.sent.append((side, p))

    def _fresh(self) -> Packet:
        r, c = self.random, self.reference.config
        protocol = r.choice((UDP, UDP, TCP, TCP, ICMP))
        if r.random() < 0.1 and self.reference.public:
            dst, dport = r.choice(list(self.reference.public))[1:]  # a neighbour
        else:
            dst, dport = int(IPv4Address("203.0.113.1")) + r.randrange(3), r.choice((53, 80, 443))
        return Packet(
            src=c.inside + r.randrange(c.subscribers + 1),  # the last is none
            dst=dst,
            protocol=protocol,
            sport=FIRST_PORT + r.randrange(min(3 * c.block, 500)),
            dport=dport,
            flags=r.choice((SYN, SYN, ACK, FIN | ACK, RST)),
            payload=r.randbytes(r.choice((0, 0, 7, 18, 200))),
            udp_sum=r.random() < 0.8,
            icmp_type=r.choice((8, 8, 13, 5)),
        )

    def _answer(self, p: Packet) -> Packet:
        r = self.random
        port = p.dport if r.random() < 0.9 else 7  # of a stranger
        ends = {"src": p.dst, "dst": p.src, "sport": port, "dport": p.sport}
        if p.protocol == ICMP:
            ends |= {"sport": p.sport, "dport": 0, "icmp_type": 0}
        flags = r.choice((SYN | ACK, ACK, ACK, FIN | ACK, RST))
        return replace(p, **ends, ttl=64, flags=flags)

    def _error(self, about: Packet) -> Packet:
        r = self.random
        whole = len(about.l4())
        octets = whole if r.random() < 0.5 else min(whole, 8)
        router = about.dst if r.random() < 0.5 else int(IPv4Address("203.0.113.77"))
        dst = about.src if r.random() < 0.95 else about.src + 1
        quote = Quote(replace(about, options=b""), octets)
        return Packet(router, dst, ICMP, icmp_type=r.choice((3, 11, 12)), quote=quote)

    def _stray(self) -> tuple[int, Packet]:
        r, c = self.random, self.reference.config
        dst = c.pool + r.randrange(c.addresses + 1)
        src = r.choice((int(IPv4Address("203.0.113.9")), c.inside, c.pool))
        kind = r.choice((UDP, TCP, ICMP, 47))
        port = FIRST_PORT + r.randrange(min(c.block * 4, 500))
        return OUTSIDE, Packet(src, dst, kind, sport=port, dport=port, payload=b"stray")

    def _noise(self, side: int, p: Packet) -> tuple[int, Packet]:
        r = self.random
        if r.random() < 0.01:
            p = replace(p, ttl=1)
        if r.random() < 0.01:
            p = replace(p, fragment=0x4000)  # not to be fragmented
        if r.random() < 0.03:
            p = replace(p, options=b"\x01" * 4 * r.randrange(1, 4))
        return side, p
