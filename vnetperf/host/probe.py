"""Probes whether packets of a size pass from one interface to another, by raw sockets."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from vnetperf.model.errors import DutError
from vnetperf.model.traffic import Stream

#: Time between two packets until the first arrives, seconds.
PROBE_EVERY_S = 0.001
#: What tells such packets from others: the payload's first octets. Their UDP port is "discard".
PROBE_MARK, PROBE_PORT = b"vnetperf-probe", 9
#: Protocol UDP; don't fragment; every Ethernet type (linux/if_ether.h).
UDP, DONT_FRAGMENT, ETH_P_ALL = 17, 0x4000, 3
#: Type of a packet that the interface itself sent (linux/if_packet.h).
OUTGOING = 4
IPV4_HEADER, UDP_HEADER, LEAST_PACKET = 20, 8, 46


def largest_packet(passes: Callable[[int], bool], most: int) -> int:
    """The largest packet that passes, octets, by halving.

    `most`, which is tried first, is not ruled out when it does not pass: it may have been late.
    """
    if passes(most):
        return most
    least = LEAST_PACKET
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if passes(middle) else (least, middle - 1)
    return least


def probe_frame(stream: Stream, packet: int) -> bytes:
    """A frame of UDP as a stream's, without FCS; its IPv4 packet is `packet` octets long."""
    macs = bytes.fromhex((stream.eth_dst + stream.eth_src).replace(":", ""))
    ends = socket.inet_aton(stream.ipv4_src) + socket.inet_aton(stream.ipv4_dst)
    head = struct.pack("!BBHHHBBH", 0x45, 0, packet, 0, DONT_FRAGMENT, 64, UDP, 0) + ends
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    datagram = packet - IPV4_HEADER
    udp = struct.pack("!HHHH", PROBE_PORT, PROBE_PORT, datagram, 0)
    return macs + b"\x08\x00" + head + udp + PROBE_MARK.ljust(datagram - UDP_HEADER, b"\0")


def send_until_arrival(frame: bytes, sender: str, receiver: str, limit_s: float) -> bool:
    """Send a frame until it arrives at another interface; return whether it has in time.

    Its packet is compared from the mark on: routers change what is before.
    """
    end, size = time.monotonic() + limit_s, len(frame)
    kind = socket.AF_PACKET, socket.SOCK_RAW
    with socket.socket(*kind, 0) as out, socket.socket(*kind, socket.htons(ETH_P_ALL)) as into:
        out.bind((sender, 0))
        into.bind((receiver, ETH_P_ALL))
        into.settimeout(PROBE_EVERY_S)
        while time.monotonic() < end:
            try:
                out.send(frame)
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    return False
                raise DutError(
                    f"takes no frame of {size} octets: {error.strerror}", where=sender
                ) from error
            again = time.monotonic() + PROBE_EVERY_S
            with suppress(TimeoutError):
                while time.monotonic() < again:  # other traffic may never let it time out
                    packet, origin = into.recvfrom(size + 4)
                    if len(packet) == size and PROBE_MARK in packet and origin[2] != OUTGOING:
                        return True
    return False
