"""Compiled frames as what Pktgen sends.

A pcap file for each port, or settings of its own frame.

Pktgen's own settings cannot make our frames: it numbers IP packets by itself and fills in every
UDP checksum. Frames of a pcap file it sends unchanged, in order, over and over: one cycle of
frames for each port, every kind by its share, every flow equally often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm

from vnetperf.model.errors import GeneratorError
from vnetperf.model.traffic import Stream
from vnetperf.plugin.compiled_frames import (
    HEADER_LEN,
    IPV4_LEN,
    PCAP_HEADER,
    PCAP_RECORD,
    Checksum,
    CompiledFrame,
    VariedField,
    pcap_file,
)
from vnetperf.plugin.frame_layers import CHECKSUM_AT

#: Most frames of a cycle; each takes memory of Pktgen for as long as it runs.
MAX_CYCLE = 1 << 20
#: Shares are taken for fractions with denominators up to this.
FINEST_SHARE = 1000
ADDRESSES = 12
#: Least octets without FCS; Pktgen pads shorter ones with what lies behind.
LEAST_OCTETS = 60


@dataclass(frozen=True)
class PortTraffic:
    """What one port sends.

    Attributes:
        load: Its frames/s as a share of the trial's load per interface.
        frames: How many are in a cycle.
        octets: Mean octets of a frame, without FCS.
    """

    load: float
    frames: int
    octets: float
    equal: bool
    pcap: bytes


def compile_cycles(kinds: Sequence[CompiledFrame]) -> dict[int, PortTraffic]:
    """One cycle of frames for each port that sends."""
    return {port: _port_cycle(port_kinds) for port, port_kinds in group_by_port(kinds).items()}


def check_cycles(kinds: Sequence[CompiledFrame]) -> None:
    """Refuse what `compile_cycles` would, without making any frames."""
    for port_kinds in group_by_port(kinds).values():
        _cycle(port_kinds)


def group_by_port(kinds: Sequence[CompiledFrame]) -> dict[int, list[CompiledFrame]]:
    """Frames by the port that sends them."""
    ports: dict[int, list[CompiledFrame]] = {}
    for kind in kinds:
        ports.setdefault(kind.stream.tx_port, []).append(kind)
    return ports


def _cycle(kinds: Sequence[CompiledFrame]) -> tuple[tuple[int, ...], int]:
    """How often each kind is in the shortest cycle, and how often that is repeated."""
    for kind in kinds:
        if kind.broadcast or any(field.random for field in kind.fields):
            feature = "frames to the broadcast address" if kind.broadcast else "fields at random"
            raise GeneratorError(
                f"Pktgen cannot send {feature} and keep count of the rest",
                where=kind.stream.model_dump_json()[:80],
                cure="use another generator, or a traffic profile without them",
            )
    counts = cycle_counts(kinds)
    return counts, _repeats(kinds, counts)


def _port_cycle(kinds: Sequence[CompiledFrame]) -> PortTraffic:
    counts, times = _cycle(kinds)
    total = times * sum(counts)
    makers = [generate_frames(kind) for kind in kinds]
    frames = (next(makers[number]) for number in _interleave(counts) * times)
    pcap = pcap_file(((0, frame, len(frame)) for frame in frames), nanoseconds=False)
    sizes = {len(kind.template) for kind in kinds}
    octets = len(pcap) - PCAP_HEADER - total * PCAP_RECORD
    return PortTraffic(
        load=sum(kind.share for kind in kinds),
        frames=total,
        octets=octets / total,
        equal=len(sizes) == 1,
        pcap=pcap,
    )


def cycle_counts(kinds: Sequence[CompiledFrame]) -> tuple[int, ...]:
    """How often each kind is in the shortest cycle that has their shares."""
    all_of_them = sum(kind.share for kind in kinds)
    parts = [
        max(Fraction(k.share / all_of_them).limit_denominator(FINEST_SHARE), Fraction(1, 1000))
        for k in kinds
    ]
    common = lcm(*(part.denominator for part in parts))
    counts = [int(part * common) for part in parts]
    smallest = min(counts)
    if all(count % smallest == 0 for count in counts):
        counts = [count // smallest for count in counts]
    return tuple(counts)


def learning_frames(kinds: Sequence[CompiledFrame], per_stream: int) -> int:
    """Frames that a port sends so that every flow is among `per_stream` frames of a stream.

    A mix is learned by the size that comes most often. It takes whole cycles: Pktgen goes on where
    it stopped.
    """
    counts = cycle_counts(kinds)
    rounds: dict[Stream, int] = {}
    for kind, count in zip(kinds, counts, strict=True):
        kind_rounds = ceil(min(per_stream, kind.flows) / count)
        rounds[kind.stream] = min(kind_rounds, rounds.get(kind.stream, kind_rounds))
    streams = len({kind.stream.id for kind in kinds})
    return max(per_stream * streams, max(rounds.values()) * sum(counts))


def _repeats(kinds: Sequence[CompiledFrame], counts: Sequence[int]) -> int:
    """How often the shortest cycle is repeated until every kind has gone through its flows."""
    times = 1
    for kind, count in zip(kinds, counts, strict=True):
        times = lcm(times, Fraction(kind.flows, count).numerator)
    if times * sum(counts) > MAX_CYCLE:
        raise GeneratorError(
            f"the traffic has {times * sum(counts)} different frames in a cycle",
            where="Pktgen, which holds every frame in memory",
            accepted=f"at most {MAX_CYCLE}",
            cure="use fewer flows, fields that all have as many values, or another generator",
        )
    return times


def _interleave(counts: Sequence[int]) -> list[int]:
    """Numbers of the kinds in an order that spreads each one evenly."""
    places = [
        ((turn + 0.5) / count, number)
        for number, count in enumerate(counts)
        for turn in range(count)
    ]
    return [number for _, number in sorted(places)]


def generate_frames(kind: CompiledFrame) -> Iterator[bytes]:
    """Frame after frame of a kind, without FCS, for ever."""
    template = kind.template.ljust(LEAST_OCTETS, b"\0")
    if not kind.fields:
        while True:
            yield template
    fields = [(f, slice(f.offset, f.offset + f.width)) for f in kind.fields]
    sums = [_ChecksumUpdate.build(template, checksum, kind.fields) for checksum in kind.checksums]
    frame = bytearray(template)
    number = 0
    while True:
        steps = [field.step * (number % field.count) for field, _ in fields]
        for (field, place), step in zip(fields, steps, strict=True):
            frame[place] = (field.base + step).to_bytes(field.width, "big")
        for update in sums:
            frame[update.place] = update.value(steps)
        yield bytes(frame)
        number += 1


@dataclass(frozen=True)
class _ChecksumUpdate:
    """A checksum as it changes with the fields it covers (RFC 1624).

    Attributes:
        place: Its octets in the frame.
        first: One's complement sum of what it covers, in the first frame.
        weights: What a step of each field adds to that sum, modulo 65535; 0 where not covered.
        never_zero: True where zero would mean that there is no checksum.
    """

    place: slice
    first: int
    weights: tuple[int, ...]
    never_zero: bool

    @classmethod
    def build(
        cls, template: bytes, checksum: Checksum, fields: Sequence[VariedField]
    ) -> _ChecksumUpdate:
        offset = checksum.offset + CHECKSUM_AT[checksum.kind]
        stored = int.from_bytes(template[offset : offset + 2], "big")
        return cls(
            place=slice(offset, offset + 2),
            first=0xFFFF - stored,
            weights=tuple(_weight(template, checksum, field) for field in fields),
            never_zero=checksum.kind == "udp",
        )

    def value(self, steps: Sequence[int]) -> bytes:
        changed = sum(w * step for w, step in zip(self.weights, steps, strict=True))
        total = (self.first + changed) % 0xFFFF
        result = 0xFFFF - (total or 0xFFFF)
        return ((result or 0xFFFF) if self.never_zero else result).to_bytes(2, "big")


def _weight(template: bytes, checksum: Checksum, field: VariedField) -> int:
    end = field.offset + field.width
    ip = checksum.ip_offset
    # Version 6 has its addresses, the last thing in a header of 40 octets, at 8.
    six = template[ip] >> 4 == 6
    first, last = (ip + 8, ip + 40) if six else (ip + ADDRESSES, ip + IPV4_LEN)
    if checksum.kind == "ipv4":
        covered = ip <= field.offset and end <= ip + IPV4_LEN
    else:
        covered = (first <= field.offset and end <= last) or field.offset >= checksum.offset
    if not covered:
        return 0
    return 256 if (end - ip) % 2 else 1


def check_settings(kinds: Sequence[CompiledFrame], server: str) -> None:
    """Refuse traffic that cannot be set through the socket of a Pktgen elsewhere."""
    for port_kinds in group_by_port(kinds).values():
        if feature := _unsupported(port_kinds):
            raise GeneratorError(
                f"an external Pktgen cannot send {feature}, but one stream a port, of "
                "one flow, Ethernet, IPv4 and UDP; leave `server` under [pktgen] out, and vnetperf "
                "starts one that can",
                where=server,
            )


def _unsupported(kinds: Sequence[CompiledFrame]) -> str:
    first = kinds[0]
    if len(kinds) > 1:
        return f"{len(kinds)} kinds of frame"
    if first.fields:
        return "several flows"
    plain = first.header_octets == HEADER_LEN and first.template[12:14] == b"\x08\x00"
    if not plain or first.template[23] != 17 or first.broadcast:
        return "tags, tunnels or other protocols"
    return ""


def frame_settings(port: int, kind: CompiledFrame) -> str:
    """Lua that sets a port's frame.

    Pktgen numbers IP packets, and puts a checksum into the UDP header: those octets differ.
    """
    stream, number = kind.stream, f"'{port}'"
    return (
        f"pktgen.set_range({number},'off') pktgen.pcap({number},'off') "
        f"pktgen.set({number},'seq_cnt',0) "
        f"pktgen.set_type({number},'ipv4') pktgen.set_proto({number},'udp') "
        f"pktgen.set({number},'size',{kind.size}) pktgen.set({number},'ttl',64) "
        f"pktgen.set({number},'sport',{stream.udp_src}) "
        f"pktgen.set({number},'dport',{stream.udp_dst}) "
        f"{address_settings(port, stream)}pktgen.pattern({number},'zero') "
    )


def address_settings(port: int, stream: Stream) -> str:
    """Lua that gives a port's own frames and its probes the addresses of a stream."""
    return (
        f"pktgen.set_mac('{port}','dst','{stream.eth_dst}') "
        f"pktgen.set_mac('{port}','src','{stream.eth_src}') "
        f"pktgen.set_ipaddr('{port}','dst','{stream.ipv4_dst}') "
        f"pktgen.set_ipaddr('{port}','src','{stream.ipv4_src}/24') "
    )
