"""Frames of every kind that a mode treats apart, and what each mode makes of them."""

from __future__ import annotations

import struct
from itertools import product

OWN = (bytes.fromhex("027661000000"), bytes.fromhex("027661010000"))
PEERS = (bytes.fromhex("027665000000"), bytes.fromhex("027665010000"))
TO, FROM = bytes.fromhex("02aabbccdd01"), bytes.fromhex("02aabbccdd02")
VLAN, QINQ, IPV4, IPV6, ARP = (struct.pack("!H", n) for n in (0x8100, 0x88A8, 0x800, 0x86DD, 0x806))
TCP, UDP, ICMP, SCTP = 6, 17, 1, 132
MODES = ("io", "mac", "macswap", "5tswap")


def ones_sum(data: bytes) -> int:
    """Sum of the Internet over octets."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def segment(protocol: int, pseudo: bytes) -> bytes:
    """A datagram or segment from port 1027 to 53, its checksum right."""
    ports = struct.pack("!HH", 1027, 53)
    if protocol == UDP:
        rest, place = struct.pack("!HH", 8 + 10, 0) + b"0123456789", 6
    elif protocol == TCP:
        rest, place = struct.pack("!IIBBHHH", 7, 9, 0x50, 0x10, 512, 0, 0) + b"abcdefgh", 16
    else:
        return ports + b"other protocols are let alone"
    whole = bytearray(ports + rest)
    total = ones_sum(pseudo + struct.pack("!HH", protocol, len(whole)) + bytes(whole))
    struct.pack_into("!H", whole, place, 0xFFFF - total)
    return bytes(whole)


def ipv4(protocol: int, options: int = 0, fragment: int = 0) -> bytes:
    """A packet; `options` are words of them."""
    addresses = bytes((198, 18, 0, 1, 198, 19, 0, 2))
    payload = segment(protocol, addresses)
    ihl = 5 + options
    head = struct.pack(
        "!BBHHHBBH", 0x40 | ihl, 0, 4 * ihl + len(payload), 7, fragment, 64, protocol, 0
    )
    head += addresses + b"\x01" * (4 * options)
    return head[:10] + struct.pack("!H", 0xFFFF - ones_sum(head)) + head[12:] + payload


def ipv6(protocol: int) -> bytes:
    """A packet; extension headers are other protocols."""
    addresses = bytes(range(16)) + bytes(range(100, 116))
    payload = segment(protocol, addresses)
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + addresses + payload


def corpus() -> list[bytes]:
    """Frames, each at least as long as the shortest on Ethernet."""
    packets = [
        *((IPV4, ipv4(protocol)) for protocol in (TCP, UDP, ICMP, SCTP)),
        *((IPV4, ipv4(protocol, options=3)) for protocol in (TCP, UDP)),
        (IPV4, ipv4(UDP, fragment=0x2000)),
        (IPV4, ipv4(UDP, fragment=100)),
        *((IPV6, ipv6(protocol)) for protocol in (TCP, UDP, 44, 58)),
        (ARP, bytes(28)),
    ]
    tags = (b"", VLAN + b"\0\5", QINQ + b"\0\6" + VLAN + b"\0\7", VLAN + b"\0\1" + VLAN + b"\0\2")
    found = [TO + FROM + tag + kind + packet for tag, (kind, packet) in product(tags, packets)]
    found.append(TO + FROM + (VLAN + b"\0\1") * 11 + VLAN)  # tags to the end
    return [frame.ljust(60, b"\0") for frame in found]


def expected(mode: str, frame: bytes, to: int) -> bytes:
    """What port `to` sends; decoded by offsets of its own."""
    if mode == "mac":
        return PEERS[to] + OWN[to] + frame[12:]
    if mode == "io":
        return frame
    swapped = frame[6:12] + frame[:6] + frame[12:]
    return swapped if mode == "macswap" else _swap_packet(swapped)


def _swap_packet(frame: bytes) -> bytes:
    at = 12
    while frame[at : at + 2] in (VLAN, QINQ) and at + 6 <= len(frame):
        at += 4
    kind, at = frame[at : at + 2], at + 2
    if kind == IPV4 and len(frame) >= at + 20:
        frame = _exchange(frame, at + 12, 4)
        return _swap_ports(frame, at + 4 * (frame[at] & 15), frame[at + 9])
    if kind == IPV6 and len(frame) >= at + 40:
        return _swap_ports(_exchange(frame, at + 8, 16), at + 40, frame[at + 6])
    return frame


def _swap_ports(frame: bytes, at: int, protocol: int) -> bytes:
    whole = protocol in (TCP, UDP) and len(frame) >= at + 4
    return _exchange(frame, at, 2) if whole else frame


def _exchange(frame: bytes, at: int, n: int) -> bytes:
    return frame[:at] + frame[at + n : at + 2 * n] + frame[at : at + n] + frame[at + 2 * n :]
