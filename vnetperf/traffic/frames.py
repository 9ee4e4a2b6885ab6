"""Compiles a stream into header octets and varied fields, alike for every generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetperf.model import tunnel
from vnetperf.model.addresses import dut_mac, tester_mac
from vnetperf.model.core import GN_CORE, GN_TESTER
from vnetperf.model.errors import ConfigError
from vnetperf.model.fields import DEFAULTS, OUTER, index_of, number_of, place_of, plain_name
from vnetperf.model.headers import OCTETS, HeaderKind, carrier_of
from vnetperf.model.ports import PhyPort
from vnetperf.model.stacks import own_ethernet, stack_of
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.units import STAMP_OCTETS, driver_length
from vnetperf.traffic.layers import Layer, build, internet_checksum, lay_out

__all__ = [
    "ETH_LEN",
    "HEADER_LEN",
    "IPV4_LEN",
    "VariedField",
    "compile_fields",
    "compile_frame",
    "compile_header",
    "internet_checksum",
    "layers_of",
    "sent_size",
]

ETH_LEN, IPV4_LEN, UDP_LEN = OCTETS["ethernet"], OCTETS["ipv4"], OCTETS["udp"]
#: Of a frame with nothing special.
HEADER_LEN = ETH_LEN + IPV4_LEN + UDP_LEN
GTP_PORT = 2152
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
    """

    offset: int
    width: int
    base: int
    count: int
    random: bool
    step: int = 1


def layers_of(stream: Stream, profile: TrafficProfile) -> tuple[Layer, ...]:
    """Headers of a stream's frames, each in its place.

    Args:
        stream: The stream.
        profile: The profile.

    Returns:
        Layers from the outermost.
    """
    return lay_out(stack_of(stream, profile), bytes.fromhex(profile.raw))


def compile_frame(
    stream: Stream, profile: TrafficProfile, frame_size: int, *, broadcast: bool = False
) -> bytes:
    """The whole frame of a stream's first flow: headers, then zeros.

    Args:
        stream: The stream.
        profile: The profile.
        frame_size: Octets of the frame without a deployment's tunnel, FCS included.
        broadcast: True addresses it to everybody.

    Returns:
        Octets without FCS.

    Raises:
        ConfigError: The headers do not fit.
    """
    layers = layers_of(stream, profile)
    length = driver_length(sent_size(stream, frame_size))
    if layers[-1].end + STAMP_OCTETS > length:
        raise ConfigError(
            f"frames of {frame_size} octets are too small: {profile.why_that_size}",
            where=f"traffic profile {profile.name}",
            accepted=f"{profile.least_frame_size} octets or more",
        )
    stack = [layer.kind for layer in layers]
    carrier = carrier_of(stack)
    tunnel_end = stack.index(carrier) if carrier else 0
    own = own_ethernet(stream, profile)

    def value(place: int, name: str) -> int:
        if broadcast and place == own and name == "eth_dst":
            return (1 << 48) - 1
        return _value(stream, profile, stack, place, name)

    # The ends of an overlay forbid fragments of what they send; a radio network's node does not.
    whole = frozenset(range(tunnel_end)) if carrier != "gtpu" else frozenset[int]()
    return build(layers, value, length, raw=bytes.fromhex(profile.raw), dont_fragment=whole)


def compile_header(stream: Stream, frame_size: int) -> bytes:
    """Ethernet, IPv4 and UDP headers of a stream's first flow, without any tunnel.

    The UDP checksum is 0, "not computed" (RFC 768): the payload differs in every frame.

    Args:
        stream: The stream.
        frame_size: Octets including FCS.

    Returns:
        42 octets.
    """
    plain = stream.model_copy(update={"tunnel": "", "bearers": ()})
    return compile_frame(plain, _PLAIN, frame_size)[:HEADER_LEN]


def sent_size(stream: Stream, frame_size: int) -> int:
    """Octets of a frame as the tester sends it.

    Args:
        stream: The stream.
        frame_size: Octets of the plain frame including FCS.

    Returns:
        Octets including the FCS of the whole: in a tunnel the plain frame's own is not carried.
    """
    return frame_size + tunnel.overhead(stream.tunnel)


def _value(
    stream: Stream, profile: TrafficProfile, stack: Sequence[HeaderKind], place: int, name: str
) -> int:
    """Number that a field of one of the headers has in the first flow."""
    session = _session(stream, name, inner=index_of(name, stack) == place)
    if session is not None:
        return session
    for known in (name, OUTER + name):
        given = profile.value(known, stream.direction)
        if given is not None and index_of(known, stack) == place:
            return number_of(known, given)
    ends = _tunnel_ends(stream, profile, stack, place)
    if name in ends:
        return number_of(name, ends[name])
    if name == "mpls_label":
        return DEFAULTS[name] + max(0, place - (index_of(name, stack) or 0))
    if name in DEFAULTS:
        return DEFAULTS[name]
    stated = getattr(stream, name.replace("tcp_", "udp_"))
    return number_of(name, stated)


def _session(stream: Stream, name: str, *, inner: bool) -> int | None:
    """What a stream's first session says, whatever the profile sets."""
    if not stream.bearers or not inner:
        return None
    if name == "teid":
        return stream.bearers[0].teid
    if name == _ue_field(stream):
        return number_of(name, stream.bearers[0].ue)
    return None


def _tunnel_ends(
    stream: Stream, profile: TrafficProfile, stack: Sequence[HeaderKind], place: int
) -> dict[str, int | str]:
    """Values of headers outside a tunnel that are not the stream's own."""
    carrier = carrier_of(stack)
    if carrier is None or place >= stack.index(carrier):
        return {}
    found: dict[str, int | str] = {}
    if carrier == "gtpu":
        found |= {"udp_src": GTP_PORT, "udp_dst": GTP_PORT}
        if stream.tunnel:
            found |= {"ipv4_src": GN_TESTER, "ipv4_dst": GN_CORE}
        return found
    port = tunnel.UDP_PORT.get("vxlan" if carrier == "vxlan" else "geneve", 0)
    found |= {"udp_src": tunnel.UDP_SOURCE, "udp_dst": port}
    if stream.tunnel:
        # A tunnel ends at a physical port, which has the number of the tester's.
        found |= {
            "eth_src": tester_mac(stream.direction, 0),
            "eth_dst": dut_mac(PhyPort(index=stream.direction)),
            "ipv4_src": tunnel.TESTER_ADDRESS,
            "ipv4_dst": tunnel.DUT_ADDRESS,
        }
    return found


def _ue_field(stream: Stream) -> str | None:
    """Field that has the UE's address: uplink comes from it, downlink goes to it."""
    if not stream.bearers:
        return None
    return "ipv4_src" if stream.tunnel == tunnel.GTPU else "ipv4_dst"


def compile_fields(
    stream: Stream, profile: TrafficProfile, frame: bytes | None = None, *, broadcast: bool = False
) -> tuple[VariedField, ...]:
    """Fields that differ between the frames of a stream, as the tester sends them.

    Args:
        stream: The stream; of its sessions only the first run is looked at.
        profile: Number of flows and which fields vary.
        frame: The first flow's frame; None compiles it.
        broadcast: True for frames that are addressed to everybody, which stays so.

    Returns:
        One entry per field, a session's tunnel endpoint and address in step with each other;
        empty for a single flow.
    """
    layers = layers_of(stream, profile)
    stack = [layer.kind for layer in layers]
    if frame is None:
        frame = compile_frame(stream, profile, profile.least_frame_size)
    sessions = ("teid", _ue_field(stream)) if stream.bearers else ()
    fields: list[VariedField] = []
    if stream.bearers and stream.bearers[0].count > 1:
        for name in sessions:
            place = index_of(str(name), stack)
            if place is not None:
                count = stream.bearers[0].count
                fields.append(_field(frame, layers[place], str(name), count, random=False))
    own = own_ethernet(stream, profile)
    for name in profile.vary if profile.flows > 1 else ():
        place = index_of(name, stack)
        if place is None or name in sessions:
            continue  # another direction's tunnel; its sessions say who the UEs are
        if broadcast and place == own and plain_name(name) == "eth_dst":
            continue
        count = min(profile.flows, profile.room(name))
        random = profile.vary_mode == "random"
        fields.append(_field(frame, layers[place], name, count, random=random))
    return tuple(fields)


def _field(frame: bytes, layer: Layer, name: str, count: int, *, random: bool) -> VariedField:
    where = place_of(name)
    offset = layer.offset + where.offset
    base = int.from_bytes(frame[offset : offset + where.width], "big")
    return VariedField(offset, where.width, base, count, random, 1 << where.shift)
