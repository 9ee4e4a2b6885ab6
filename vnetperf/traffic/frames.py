"""Compiles a stream into header octets and varied fields, alike for every generator."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from vnetperf.model import tunnel
from vnetperf.model.addresses import dut_mac, tester_mac
from vnetperf.model.core import GN_CORE, GN_TESTER
from vnetperf.model.ports import PhyPort
from vnetperf.model.traffic import VALUES, Stream, TrafficProfile, VaryField
from vnetperf.model.units import driver_length

ETH_LEN, IPV4_LEN, UDP_LEN = 14, 20, 8
HEADER_LEN = ETH_LEN + IPV4_LEN + UDP_LEN
ETHERTYPE_IPV4 = 0x0800
IPPROTO_UDP, IPPROTO_GRE = 17, 47
DONT_FRAGMENT = 0x4000
#: GTP-U: version 1 without options, a user's packet (3GPP TS 29.281 clause 5.1); its port.
GTP_FLAGS, GTP_GPDU, GTP_LEN, GTP_PORT = 0x30, 0xFF, 8, 2152
#: Offset of the tunnel endpoint in a frame with GTP-U.
TEID_OFFSET, TEID_LEN = ETH_LEN + IPV4_LEN + UDP_LEN + 4, 4
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
        step: What is added to the whole of its octets from one value to the next; more than 1
            where other bits lie below the field's own, as in an MPLS label.
    """

    offset: int
    width: int
    base: int
    count: int
    random: bool
    step: int = 1


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
    ethernet = _ethernet(stream.eth_dst, stream.eth_src)
    ipv4 = _ipv4(stream.ipv4_src, stream.ipv4_dst, IPPROTO_UDP, ip_total)
    return ethernet + ipv4 + _udp(stream.udp_src, stream.udp_dst, ip_total - IPV4_LEN)


def _ethernet(dst: str, src: str) -> bytes:
    addresses = bytes.fromhex((dst + src).replace(":", ""))
    return addresses + struct.pack("!H", ETHERTYPE_IPV4)


def _ipv4(src: str, dst: str, protocol: int, total: int, flags: int = 0) -> bytes:
    addresses = socket.inet_aton(src) + socket.inet_aton(dst)
    header = struct.pack("!BBHHHBBH", 0x45, 0, total, 0, flags, 64, protocol, 0) + addresses
    return header[:10] + struct.pack("!H", internet_checksum(header)) + header[12:]


def _udp(src: int, dst: int, length: int) -> bytes:
    return struct.pack("!HHHH", src, dst, length, 0)


def compile_frame_header(stream: Stream, frame_size: int) -> bytes:
    """All headers of a stream's first flow, those of its tunnel before its own.

    Args:
        stream: The stream.
        frame_size: Octets of the plain frame including FCS.

    Returns:
        42 octets, and 36, 38 or 50 more in a tunnel.
    """
    plain = compile_header(stream, frame_size)
    if stream.tunnel == tunnel.GTPU:
        # The packet alone is carried: its Ethernet header becomes that of the outer one.
        outer = compile_gtpu(stream, driver_length(frame_size) - ETH_LEN)
        return plain[:ETH_LEN] + outer + plain[ETH_LEN:]
    return compile_outer(stream, driver_length(frame_size)) + plain


def compile_outer(stream: Stream, inner_octets: int) -> bytes:
    """Headers that a tester at a tunnel's end puts before a frame.

    Args:
        stream: The stream.
        inner_octets: The frame it carries, without its FCS, which no tunnel carries.

    Returns:
        Ethernet, IPv4, then UDP and VXLAN, UDP and Geneve, or GRE; nothing without a tunnel.
    """
    kind = next((kind for kind in tunnel.TUNNELS if kind == stream.tunnel), None)
    if kind is None:
        return b""
    if kind == "gre":
        shim, protocol = struct.pack("!HH", 0, tunnel.ETHERTYPE_TEB), IPPROTO_GRE
    else:
        flags = 0x0800 if kind == "vxlan" else 0  # the VNI is valid; Geneve without options
        payload = 0 if kind == "vxlan" else tunnel.ETHERTYPE_TEB
        shim = struct.pack("!HHI", flags, payload, tunnel.VNI << 8)
        length = UDP_LEN + len(shim) + inner_octets
        shim = _udp(tunnel.UDP_SOURCE, tunnel.UDP_PORT[kind], length) + shim
        protocol = IPPROTO_UDP
    # A tunnel ends at a physical port, which has the number of the tester's.
    ethernet = _ethernet(dut_mac(PhyPort(index=stream.direction)), tester_mac(stream.direction, 0))
    total = IPV4_LEN + len(shim) + inner_octets
    addresses = tunnel.TESTER_ADDRESS, tunnel.DUT_ADDRESS
    return ethernet + _ipv4(*addresses, protocol, total, DONT_FRAGMENT) + shim


def compile_gtpu(stream: Stream, packet_octets: int) -> bytes:
    """Headers that a radio network's node puts before a user's packet.

    Args:
        stream: The stream; the tunnel endpoint is that of its first session.
        packet_octets: The packet it carries.

    Returns:
        IPv4, UDP and GTP: 36 octets.
    """
    teid = stream.bearers[0].teid if stream.bearers else 0
    gtp = struct.pack("!BBHI", GTP_FLAGS, GTP_GPDU, packet_octets, teid)
    total = tunnel.GTPU_OVERHEAD + packet_octets
    udp = _udp(GTP_PORT, GTP_PORT, total - IPV4_LEN)
    return _ipv4(GN_TESTER, GN_CORE, IPPROTO_UDP, total) + udp + gtp


def sent_size(stream: Stream, frame_size: int) -> int:
    """Octets of a frame as the tester sends it.

    Args:
        stream: The stream.
        frame_size: Octets of the plain frame including FCS.

    Returns:
        Octets including the FCS of the whole: in a tunnel the plain frame's own is not carried.
    """
    return frame_size + tunnel.overhead(stream.tunnel)


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
        if name == _ue_field(stream):
            continue  # its sessions say who the UEs are
        offset, width = FIELD_PLACE[name]
        base = int.from_bytes(header[offset : offset + width], "big")
        count = min(profile.flows, VALUES[name])
        fields.append(VariedField(offset, width, base, count, profile.vary_mode == "random"))
    return tuple(fields)


def _ue_field(stream: Stream) -> VaryField | None:
    """Field that has the UE's address: uplink comes from it, downlink goes to it."""
    if not stream.bearers:
        return None
    return "ipv4_src" if stream.tunnel == tunnel.GTPU else "ipv4_dst"


def compile_sent_varied(stream: Stream, profile: TrafficProfile) -> tuple[VariedField, ...]:
    """Fields that differ between the frames of a stream, as the tester sends them.

    Args:
        stream: The stream; of its sessions only the first run is looked at.
        profile: Number of flows and which fields vary.

    Returns:
        One entry per field, a session's tunnel endpoint and address in step with each other.
    """
    outer = tunnel.overhead(stream.tunnel)
    # GTP-U carries no Ethernet: those addresses stay where they are.
    stays = ETH_LEN if stream.tunnel == tunnel.GTPU else 0
    varied = [
        replace(field, offset=field.offset + (outer if field.offset >= stays else 0))
        for field in compile_varied(stream, profile)
    ]
    ue = _ue_field(stream)
    if ue is None or stream.bearers[0].count == 1:
        return tuple(varied)
    bearers = stream.bearers[0]
    offset, width = FIELD_PLACE[ue]
    first = int(IPv4Address(bearers.ue))
    fields = [VariedField(offset + outer, width, first, bearers.count, random=False)]
    if stream.tunnel == tunnel.GTPU:
        teid = VariedField(TEID_OFFSET, TEID_LEN, bearers.teid, bearers.count, random=False)
        fields.insert(0, teid)
    return (*fields, *varied)
