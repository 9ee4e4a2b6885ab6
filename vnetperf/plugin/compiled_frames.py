"""The frames of a traffic profile, equal octets for every generator.

Headers, varied fields, checksums to keep right, and the share of the load that each kind of frame
has.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import lcm
from typing import Literal

from vnetperf.model import frames
from vnetperf.model.deployment import PhyPort, dut_mac, tester_mac
from vnetperf.model.errors import ConfigError
from vnetperf.model.frame_change import FlowEnds
from vnetperf.model.frames import (
    DEFAULTS,
    OCTETS,
    OUTER,
    STAMP_OCTETS,
    HeaderKind,
    driver_length,
    field_number,
    field_place,
    find_carrier,
    index_of,
    plain_name,
)
from vnetperf.model.options import GN_TESTER, GN_VEPC
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.traffic import Stream, header_stack, profile_ethernet
from vnetperf.plugin.frame_layers import (
    ETHERTYPES,
    IPV4_FIRST,
    PROTOCOLS,
    Layer,
    build_frame,
    has_checksum,
    place_headers,
    write_checksum,
)

ETH_LEN, IPV4_LEN, UDP_LEN = OCTETS["ethernet"], OCTETS["ipv4"], OCTETS["udp"]
#: Of a frame with nothing special.
HEADER_LEN = ETH_LEN + IPV4_LEN + UDP_LEN
_PLAIN = TrafficProfile()


@dataclass(frozen=True, slots=True)
class VariedField:
    """A header field that differs between the flows of a stream.

    Attributes:
        offset: Octets from the start of the frame.
        width: Octets.
        base: Value of the first flow.
        count: Number of values.
        random: True picks values uniformly, False walks through them in order.
        step: What is added to the whole of its octets from one value to the next; more than 1
            where other bits lie below the field's own, as in an MPLS label.
        table: Its values one after the other, `width` octets each and big endian, in place of
            `base` and `step`; empty for none.
    """

    offset: int
    width: int
    base: int
    count: int
    random: bool
    step: int = 1
    table: bytes = b""

    @property
    def span(self) -> int:
        """From its first value to its greatest, both counted."""
        if not self.table:
            return (self.count - 1) * self.step + 1
        width = self.width
        listed = (self.table[start : start + width] for start in range(0, len(self.table), width))
        return int.from_bytes(max(listed), "big") - self.base + 1

    def value(self, number: int) -> int:
        """The value in a frame by its number."""
        place = number % self.count
        if self.table:
            return int.from_bytes(self.table[place * self.width : (place + 1) * self.width], "big")
        return self.base + self.step * place


def stack_layers(stream: Stream, profile: TrafficProfile) -> tuple[Layer, ...]:
    """Headers of a stream's frames, each in its place."""
    return place_headers(header_stack(stream, profile), bytes.fromhex(profile.raw))


def compile_frame(
    stream: Stream, profile: TrafficProfile, frame_size: int, *, broadcast: bool = False
) -> bytes:
    """The whole frame of a stream's first flow: headers, then zeros."""
    layers = stack_layers(stream, profile)
    length = driver_length(sent_size(stream, frame_size))
    if layers[-1].end + STAMP_OCTETS > length:
        raise ConfigError(
            f"frames of {frame_size} octets are too small: {profile.explain_smallest}",
            where=f"traffic profile {profile.name}",
            accepted=f"{profile.least_frame_size} octets or more",
        )
    stack = [layer.kind for layer in layers]
    carrier = find_carrier(stack)
    tunnel_end = stack.index(carrier) if carrier else 0
    ethernet_place = profile_ethernet(stream, profile)

    def value(place: int, name: str) -> int:
        if broadcast and place == ethernet_place and name == "eth_dst":
            return (1 << 48) - 1
        return _first_value(stream, profile, stack, place, name)

    # The ends of an overlay forbid fragments of what they send; a radio network's node does not.
    unfragmented = frozenset(range(tunnel_end)) if carrier != "gtpu" else frozenset[int]()
    return build_frame(
        layers, value, length, raw=bytes.fromhex(profile.raw), dont_fragment=unfragmented
    )


def compile_header(stream: Stream, frame_size: int) -> bytes:
    """Ethernet, IPv4 and UDP headers of a stream's first flow, without any tunnel.

    The UDP checksum is 0, "not computed" (RFC 768): the payload differs in every frame.
    """
    plain = stream.model_copy(update={"tunnel": "", "bearers": ()})
    return compile_frame(plain, _PLAIN, frame_size)[:HEADER_LEN]


def sent_size(stream: Stream, frame_size: int) -> int:
    """Octets of a frame as the tester sends it."""
    return frame_size + frames.overhead(stream.tunnel)


def returned_size(stream: Stream, frame_size: int) -> int | None:
    """Octets of a frame as it must come back; None where its tunnel's header has options."""
    if stream.tunnel_back == frames.GTPU:  # 8 octets, or 12 with a sequence number
        return None
    return frame_size + frames.overhead(stream.tunnel_back)


def _first_value(
    stream: Stream, profile: TrafficProfile, stack: Sequence[HeaderKind], place: int, name: str
) -> int:
    """Number that a field of one of the headers has in the first flow."""
    session = _session_value(stream, name, inner=index_of(name, stack) == place)
    if session is not None:
        return session
    for field_name in (name, OUTER + name):
        profile_value = profile.value(field_name, stream.direction)
        if profile_value is not None and index_of(field_name, stack) == place:
            return field_number(field_name, profile_value)
    ends = _tunnel_ends(stream, stack, place)
    if name in ends:
        return field_number(name, ends[name])
    if name == "mpls_label":
        return DEFAULTS[name] + max(0, place - (index_of(name, stack) or 0))
    if name in DEFAULTS:
        return DEFAULTS[name]
    stated = getattr(stream, name.replace("tcp_", "udp_"))
    return field_number(name, stated)


def _session_value(stream: Stream, name: str, *, inner: bool) -> int | None:
    """The value in a stream's first session, which overrides the profile."""
    if not stream.bearers or not inner:
        return None
    if name == "teid":
        return stream.bearers[0].teid
    if name == _ue_field(stream):
        return field_number(name, stream.bearers[0].ue)
    return None


def _tunnel_ends(stream: Stream, stack: Sequence[HeaderKind], place: int) -> dict[str, int | str]:
    """Values of headers outside a tunnel that are not the stream's own."""
    carrier = find_carrier(stack)
    if carrier is None or place >= stack.index(carrier):
        return {}
    addresses: dict[str, int | str] = {**frames.carrier_ports(carrier)}
    if carrier == "gtpu":
        if stream.tunnel:
            addresses |= {"ipv4_src": GN_TESTER, "ipv4_dst": GN_VEPC}
        return addresses
    if stream.tunnel:
        # A tunnel ends at a physical port, which has the number of the tester's.
        addresses |= {
            "eth_src": tester_mac(stream.direction, 0),
            "eth_dst": dut_mac(PhyPort(index=stream.direction)),
            "ipv4_src": frames.TESTER_ADDRESS,
            "ipv4_dst": frames.DUT_ADDRESS,
        }
    return addresses


def _ue_field(stream: Stream) -> str | None:
    """Field that has the UE's address: uplink comes from it, downlink goes to it."""
    if not stream.bearers:
        return None
    return "ipv4_src" if stream.tunnel == frames.GTPU else "ipv4_dst"


def compile_fields(
    stream: Stream, profile: TrafficProfile, frame: bytes | None = None, *, broadcast: bool = False
) -> tuple[VariedField, ...]:
    """Fields that differ between the frames of a stream, as the tester sends them."""
    layers = stack_layers(stream, profile)
    stack = [layer.kind for layer in layers]
    if frame is None:
        frame = compile_frame(stream, profile, profile.least_frame_size)
    sessions = ("teid", _ue_field(stream)) if stream.bearers else ()
    fields: list[VariedField] = [*_session_fields(stream, layers)]
    if stream.bearers and stream.bearers[0].count > 1:
        for name in sessions:
            place = index_of(str(name), stack)
            if place is not None:
                count = stream.bearers[0].count
                fields.append(_field(frame, layers[place], str(name), count, random=False))
    ethernet_place = profile_ethernet(stream, profile)
    for name in profile.vary if profile.flows > 1 else ():
        place = index_of(name, stack)
        if place is None or name in sessions:
            continue  # another direction's tunnel; its sessions have the addresses of the UEs
        if broadcast and place == ethernet_place and plain_name(name) == "eth_dst":
            continue
        count = min(profile.flows, profile.room(name))
        random = profile.vary_mode == "random"
        fields.append(_field(frame, layers[place], name, count, random=random))
    return tuple(fields)


def _listed(layers: Sequence[Layer], name: str, table: bytes, width: int) -> VariedField:
    """A field whose values are listed, or the first octets of them."""
    where, layer = (
        field_place(name),
        layers[index_of(name, [header.kind for header in layers]) or 0],
    )
    offset = layer.offset + where.offset
    first, count = int.from_bytes(table[:width], "big"), len(table) // width
    listed = table if count > 1 else b""
    return VariedField(offset, width, first, count, random=False, table=listed)


def _ends(side: FlowEnds, direction: int, layers: Sequence[Layer]) -> tuple[VariedField, ...]:
    """Addresses and ports of all flows on one side of what changes them, in a direction."""
    transport, ways = layers[-1].kind, ("src", "dst") if direction == 0 else ("dst", "src")
    ends = (
        (f"ipv4_{ways[0]}", side.client, 4),
        (f"ipv4_{ways[1]}", side.server, side.server_octets),
        (f"{transport}_{ways[0]}", side.client_port, 2),
        (f"{transport}_{ways[1]}", side.server_port, 2),
    )
    return tuple(_listed(layers, name, table, width) for name, table, width in ends if table)


def _session_fields(stream: Stream, layers: Sequence[Layer]) -> tuple[VariedField, ...]:
    """Addresses and ports that differ from one of a translator's flows to the next, as sent."""
    if stream.change is None:
        return ()
    side = stream.change.sides()[stream.direction]
    return tuple(field for field in _ends(side, stream.direction, layers) if field.count > 1)


def mapping_places(stream: Stream, profile: TrafficProfile) -> tuple[int, int]:
    """Where frames of a NAT's sessions have their public address and port as they come out.

    Offsets in a frame that comes from inside: a NAT changes no length.
    """
    layers = stack_layers(stream, profile)
    place = {"ipv4": "ipv4_src", layers[-1].kind: f"{layers[-1].kind}_src"}
    address, port = (
        next(layer.offset for layer in layers if layer.kind == kind) + field_place(name).offset
        for kind, name in place.items()
    )
    return address, port


def expected_fields(stream: Stream, profile: TrafficProfile) -> tuple[VariedField, ...]:
    """What the headers of translated frames must have when they come back; empty for no others.

    Ethernet type, version and length of the IP header, protocol, addresses and ports.
    """
    if stream.change is None:
        return ()
    layers = stack_layers(stream, profile)
    ip = next(layer.offset for layer in layers if layer.kind == "ipv4")
    kind = int.from_bytes(ETHERTYPES["ipv4"].to_bytes(2, "big") + bytes([IPV4_FIRST]), "big")
    return (
        VariedField(ip - 2, 3, kind, 1, random=False),
        VariedField(ip + 9, 1, PROTOCOLS[layers[-1].kind], 1, random=False),
        *_ends(stream.change.sides()[1 - stream.direction], stream.direction, layers),
    )


def _field(frame: bytes, layer: Layer, name: str, count: int, *, random: bool) -> VariedField:
    where = field_place(name)
    offset = layer.offset + where.offset
    base = int.from_bytes(frame[offset : offset + where.width], "big")
    return VariedField(offset, where.width, base, count, random, 1 << where.shift)


#: STAMP_OCTETS at a frame's end are the generator's own: loadgen stamps each frame there, others
#: send zeros or a trailer that measures latency.


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum that has to be kept right when a field that it covers varies.

    Attributes:
        kind: "ipv4" is the header's own; "udp" and "tcp" cover addresses, header and payload.
        offset: Octets from the start of the frame to the header that has the checksum.
        ip_offset: Octets to the IP header that it belongs to; `offset` again for "ipv4".
    """

    kind: Literal["ipv4", "udp", "tcp"]
    offset: int
    ip_offset: int


@dataclass(frozen=True, slots=True)
class CompiledFrame:
    """One kind of frame of a stream, as every generator sends it: equal octets, whichever sends.

    Frame i has the value ``base + step * (i % count)`` in each of its fields: all step together.

    Attributes:
        stream: The stream, with at most one run of bearers.
        size: Octets as sent, including FCS.
        returned_size: Octets as it must come back, including FCS; None where that is not known.
        weight: Share of the stream's frames, 0..1.
        template: The whole frame of the first flow without FCS: headers, then zeros.
        header_octets: How many of them are headers.
        fields: What differs from frame to frame.
        checksums: Those to keep right, from the outermost header. A UDP checksum of zero is none
            (RFC 768), not listed here.
        share: Its frames/s are this share of a trial's load per interface (`TrialSpec.load_fps`).
        broadcast: True for frames to the broadcast address, which are no frames of the stream:
            neither counted as received nor as lost.
        expected: What the headers of frame i must have when it comes back, where a NAT gives them
            other values than they were sent with; empty where that is not known.
    """

    stream: Stream
    size: int
    weight: float
    template: bytes
    header_octets: int
    fields: tuple[VariedField, ...] = ()
    checksums: tuple[Checksum, ...] = ()
    share: float = 1.0
    broadcast: bool = False
    returned_size: int | None = None
    expected: tuple[VariedField, ...] = ()

    @property
    def headers(self) -> bytes:
        """The frame's headers, without its payload."""
        return self.template[: self.header_octets]

    @property
    def flows(self) -> int:
        """How many of its frames differ, but for what is picked at random."""
        return lcm(*(field.count for field in self.fields if not field.random))

    def nth(self, number: int) -> bytes:
        """A frame as it is sent, but for the stamp: what any generator's must equal."""
        frame = bytearray(self.template)
        for field in self.fields:
            value = field.value(number).to_bytes(field.width, "big")
            frame[field.offset : field.offset + field.width] = value
        for checksum in reversed(self.checksums):
            write_checksum(frame, checksum.kind, checksum.offset, checksum.ip_offset)
        return bytes(frame)


def compile_traffic(
    streams: Sequence[Stream], profile: TrafficProfile, frame_size: int
) -> tuple[CompiledFrame, ...]:
    """The frames of a profile's streams."""
    senders = Counter(stream.direction for stream in streams)
    mix = profile.mix
    sizes = mix.shares() if mix is not None else ((frame_size, 1.0),)
    ways = [(False, 1.0 - profile.broadcast), (True, profile.broadcast)]
    return tuple(
        _compile_kind(
            session_run,
            profile,
            size,
            weight=of_runs * of_sizes * of_ways,
            of_load=stream.load / senders[stream.direction],
            broadcast=broadcast,
        )
        for stream in streams
        for session_run, of_runs in _split_sessions(stream)
        for size, of_sizes in sizes
        for broadcast, of_ways in ways
        if of_ways
    )


def _split_sessions(stream: Stream) -> list[tuple[Stream, float]]:
    """The stream with one run of sessions each, and their share of the frames."""
    total = sum(run.count for run in stream.bearers)
    runs = [(stream.of(run), run.count / total) for run in stream.bearers]
    return runs or [(stream, 1.0)]


def _compile_kind(
    stream: Stream,
    profile: TrafficProfile,
    size: int,
    *,
    weight: float,
    of_load: float,
    broadcast: bool,
) -> CompiledFrame:
    template = compile_frame(stream, profile, size, broadcast=broadcast)
    layers = stack_layers(stream, profile)
    return CompiledFrame(
        stream=stream,
        size=sent_size(stream, size),
        returned_size=returned_size(stream, size),
        weight=weight,
        template=template,
        header_octets=layers[-1].end,
        fields=compile_fields(stream, profile, template, broadcast=broadcast),
        checksums=tuple(_checksums(layers)),
        share=of_load * weight,
        broadcast=broadcast,
        expected=() if broadcast else expected_fields(stream, profile),
    )


def _checksums(layers: Sequence[Layer]) -> Iterator[Checksum]:
    for place, layer in enumerate(layers):
        if not has_checksum(layers, place):
            continue
        if layer.kind == "ipv4":
            yield Checksum("ipv4", layer.offset, layer.offset)
        else:
            kind: Literal["udp", "tcp"] = "udp" if layer.kind == "udp" else "tcp"
            yield Checksum(kind, layer.offset, layers[place - 1].offset)


def split_by_share(count: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Frames dealt out by shares, which add up to 1: rounding loses none."""
    bounds = [0, *(round(count * share) for share in accumulate(shares))]
    bounds[-1] = count
    return tuple(upto - begin for begin, upto in pairwise(bounds))


#: Octets of a pcap file's header, and before each frame.
PCAP_HEADER, PCAP_RECORD = 24, 16
#: Where its times end, ns since 1970.
PCAP_END_NS = 2**32 * 1_000_000_000


def pcap_file(records: Iterable[tuple[int, bytes, int]], *, nanoseconds: bool = True) -> bytes:
    """A pcap file of times in ns, kept octets without FCS, and lengths of whole frames."""
    magic, unit = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    file = bytearray(struct.pack("=IHHiIII", magic, 2, 4, 0, 0, 262_144, 1))
    for wall_ns, octets, length in records:
        seconds, ns = divmod(wall_ns, 1_000_000_000)
        file += struct.pack("=IIII", seconds, ns // unit, len(octets), length)
        file += octets
    return bytes(file)
