"""Compiles a stream into header octets and varied fields, alike for every generator."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from vnetperf.model.traffic import VALUES, Stream, TrafficProfile, VaryField
from vnetperf.model.units import driver_length

ETH_LEN, IPV4_LEN, UDP_LEN = 14, 20, 8
HEADER_LEN = ETH_LEN + IPV4_LEN + UDP_LEN
ETHERTYPE_IPV4 = 0x0800
IPPROTO_UDP = 17
#: Field -> (offset of its varying octets, width of them). MAC addresses vary in their low three.
FIELD_PLACE: dict[VaryField, tuple[int, int]] = {
    "eth_dst": (3, 3),
    "eth_src": (9, 3),
    "ipv4_src": (ETH_LEN + 12, 4),
    "ipv4_dst": (ETH_LEN + 16, 4),
    "udp_src": (ETH_LEN + IPV4_LEN, 2),
    "udp_dst": (ETH_LEN + IPV4_LEN + 2, 2),
}


@dataclass(frozen=True, slots=True)
class VariedField:
    """A header field that differs between the flows of a stream.

    Attributes:
        offset: Octets from the start of the frame.
        width: Octets.
        base: Value of the first flow.
        count: Number of values.
        random: True picks values uniformly, False walks through them in order.
    """

    offset: int
    width: int
    base: int
    count: int
    random: bool


def internet_checksum(octets: bytes) -> int:
    """The Internet checksum (RFC 1071).

    Args:
        octets: Data; padded with a zero octet when odd.

    Returns:
        16-bit one's complement sum, complemented.
    """
    if len(octets) % 2:
        octets += b"\0"
    total = int(sum(struct.unpack(f"!{len(octets) // 2}H", octets)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def compile_header(stream: Stream, frame_size: int) -> bytes:
    """Ethernet, IPv4 and UDP headers of a stream's first flow.

    The UDP checksum is 0, "not computed" (RFC 768): the payload differs in every frame.

    Args:
        stream: The stream.
        frame_size: Octets including FCS.

    Returns:
        42 octets.
    """
    ip_total = driver_length(frame_size) - ETH_LEN
    ethernet = bytes.fromhex((stream.eth_dst + stream.eth_src).replace(":", ""))
    ethernet += struct.pack("!H", ETHERTYPE_IPV4)
    ipv4 = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        ip_total,
        0,
        0,
        64,
        IPPROTO_UDP,
        0,
        socket.inet_aton(stream.ipv4_src),
        socket.inet_aton(stream.ipv4_dst),
    )
    ipv4 = ipv4[:10] + struct.pack("!H", internet_checksum(ipv4)) + ipv4[12:]
    udp = struct.pack("!HHHH", stream.udp_src, stream.udp_dst, ip_total - IPV4_LEN, 0)
    return ethernet + ipv4 + udp


def compile_varied(stream: Stream, profile: TrafficProfile) -> tuple[VariedField, ...]:
    """Fields that differ between the flows of a stream.

    Args:
        stream: The stream.
        profile: Number of flows and which fields vary.

    Returns:
        One entry per field; empty for a single flow.
    """
    if profile.flows == 1:
        return ()
    header = compile_header(stream, 64)
    fields = []
    for name in profile.vary:
        offset, width = FIELD_PLACE[name]
        base = int.from_bytes(header[offset : offset + width], "big")
        count = min(profile.flows, VALUES[name])
        fields.append(VariedField(offset, width, base, count, profile.vary_mode == "random"))
    return tuple(fields)
