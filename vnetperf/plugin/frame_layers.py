"""One frame's headers, layer by layer, from a stack of kinds and a value for each field."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vnetperf.model.frames import OCTETS, HeaderKind

ETHERTYPES: dict[HeaderKind, int] = {
    "qinq": 0x88A8, "vlan": 0x8100, "mpls": 0x8847, "ipv4": 0x0800, "ipv6": 0x86DD,
    "raw": 0x88B5,  # local experiments (IEEE 802)
    "ethernet": 0x6558,  # Transparent Ethernet Bridging, in GRE and Geneve
}  # fmt: skip
PROTOCOLS: dict[HeaderKind, int] = {
    "udp": 17, "tcp": 6, "gre": 47,
    "raw": 253,  # experiments (RFC 3692)
}  # fmt: skip
NO_NEXT_HEADER = 59
DONT_FRAGMENT = 0x4000
#: First octet of an IPv4 header without options.
IPV4_FIRST = 0x45
#: Segments carry an ACK and no other flag, and no options.
TCP_ACK, TCP_WINDOW = 0x10, 0xFFFF
#: GTP-U: version 1 without options, a user's packet (3GPP TS 29.281 clause 5.1).
GTP_FLAGS, GTP_GPDU = 0x30, 0xFF
VXLAN_VNI_VALID = 0x08


@dataclass(frozen=True, slots=True)
class Layer:
    """A header in its place: octets from the start of the frame, and its length."""

    kind: HeaderKind
    offset: int
    octets: int

    @property
    def end(self) -> int:
        """Octets from the start of the frame to what follows."""
        return self.offset + self.octets


Values = Callable[[int, str], int]


def place_headers(stack: Sequence[HeaderKind], raw: bytes = b"") -> tuple[Layer, ...]:
    """Put headers one behind the other."""
    layers: list[Layer] = []
    for kind in stack:
        octets = len(raw) if kind == "raw" else OCTETS[kind]
        layers.append(Layer(kind, layers[-1].end if layers else 0, octets))
    return tuple(layers)


def internet_checksum(octets: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    if len(octets) % 2:
        octets += b"\0"
    total = int(sum(struct.unpack(f"!{len(octets) // 2}H", octets)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def build_frame(
    layers: Sequence[Layer],
    value: Values,
    length: int,
    *,
    raw: bytes = b"",
    dont_fragment: frozenset[int] = frozenset(),
) -> bytes:
    """A whole frame with zeros behind its headers, and right lengths and checksums."""
    frame = bytearray(length)
    for place, layer in enumerate(layers):
        after = layers[place + 1].kind if place + 1 < len(layers) else None
        rest = length - layer.offset

        def get(name: str, place: int = place) -> int:
            return value(place, name)

        if layer.kind == "raw":
            head = raw
        elif layer.kind == "ipv4":
            flags = DONT_FRAGMENT if place in dont_fragment else 0
            head = _ipv4(get, after, rest, flags)
        else:
            head = _MAKERS[layer.kind](get, after, rest)
        frame[layer.offset : layer.end] = head
    # From the inside out: an outer checksum covers what it carries.
    for place in reversed(range(len(layers))):
        if has_checksum(layers, place):
            layer = layers[place]
            ip = layer if layer.kind == "ipv4" else layers[place - 1]
            write_checksum(frame, layer.kind, layer.offset, ip.offset)
    return bytes(frame)


Get = Callable[[str], int]
#: Makes a header of its fields, the kind of the next header, and the octets from here to the end.
Maker = Callable[[Get, HeaderKind | None, int], bytes]


def _mac(address: int) -> bytes:
    return address.to_bytes(6, "big")


def _ethertype(after: HeaderKind | None) -> int:
    return ETHERTYPES[after or "raw"]


def _ipv4(get: Get, after: HeaderKind | None, rest: int, flags: int) -> bytes:
    protocol = PROTOCOLS[after or "raw"]
    return struct.pack(
        "!BBHHHBBHII", IPV4_FIRST, get("ipv4_dscp") << 2, rest, 0, flags, get("ipv4_ttl"), protocol,
        0, get("ipv4_src"), get("ipv4_dst"),
    )  # fmt: skip


def _ipv6(get: Get, after: HeaderKind | None, rest: int) -> bytes:
    protocol = PROTOCOLS[after] if after else NO_NEXT_HEADER
    head = struct.pack("!IHBB", 6 << 28 | get("ipv6_flow"), rest - OCTETS["ipv6"], protocol, 64)
    return head + get("ipv6_src").to_bytes(16, "big") + get("ipv6_dst").to_bytes(16, "big")


_MAKERS: dict[HeaderKind, Maker] = {
    "ethernet": lambda get, after, _: (
        _mac(get("eth_dst")) + _mac(get("eth_src")) + struct.pack("!H", _ethertype(after))
    ),
    "qinq": lambda get, after, _: struct.pack("!HH", get("qinq_id"), _ethertype(after)),
    "vlan": lambda get, after, _: struct.pack("!HH", get("vlan_id"), _ethertype(after)),
    "mpls": lambda get, after, _: struct.pack(
        "!I", get("mpls_label") << 12 | (after != "mpls") << 8 | 64
    ),
    "ipv6": _ipv6,
    "udp": lambda get, _, rest: struct.pack("!HHHH", get("udp_src"), get("udp_dst"), rest, 0),
    "tcp": lambda get, _, __: struct.pack(
        "!HHIIBBHHH", get("tcp_src"), get("tcp_dst"), 0, 0, 5 << 4, TCP_ACK, TCP_WINDOW, 0, 0
    ),
    "vxlan": lambda get, _, __: struct.pack("!II", VXLAN_VNI_VALID << 24, get("vni") << 8),
    "geneve": lambda get, _, __: struct.pack("!HHI", 0, ETHERTYPES["ethernet"], get("vni") << 8),
    "gre": lambda *_: struct.pack("!HH", 0, ETHERTYPES["ethernet"]),
    "gtpu": lambda get, _, rest: struct.pack(
        "!BBHI", GTP_FLAGS, GTP_GPDU, rest - OCTETS["gtpu"], get("teid")
    ),
}


def has_checksum(layers: Sequence[Layer], place: int) -> bool:
    """Whether a header has a checksum that is sent.

    UDP over IPv4 goes without (RFC 768): the payload differs in every frame.
    """
    kind = layers[place].kind
    return kind in ("ipv4", "tcp") or (kind == "udp" and layers[place - 1].kind == "ipv6")


def write_checksum(frame: bytearray, kind: str, offset: int, ip_offset: int) -> None:
    """Write a header's checksum."""
    sum_at = offset + CHECKSUM_AT[kind]
    frame[sum_at : sum_at + 2] = bytes(2)
    if kind == "ipv4":
        checksum = internet_checksum(bytes(frame[offset : offset + OCTETS["ipv4"]]))
    else:
        segment = bytes(frame[offset:])
        first = ip_offset + (12 if frame[ip_offset] >> 4 == 4 else 8)
        protocol = PROTOCOLS["tcp" if kind == "tcp" else "udp"]
        pseudo = bytes(frame[first:offset]) + struct.pack("!II", len(segment), protocol)
        checksum = internet_checksum(pseudo + segment)
        if kind == "udp" and checksum == 0:
            checksum = 0xFFFF  # zero would be "none"
    frame[sum_at : sum_at + 2] = struct.pack("!H", checksum)


#: Octets from the start of a header to its checksum.
CHECKSUM_AT = {"ipv4": 10, "udp": 6, "tcp": 16}
