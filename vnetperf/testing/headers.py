"""Frames of every kind a contract check sends, and what must become of them."""

from __future__ import annotations

import struct

from vnetperf.model.addresses import dut_mac, port_mac
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream
from vnetperf.testing.frames import stream_frame
from vnetperf.traffic.frames import ETH_LEN, IPV4_LEN, internet_checksum

#: Tags by the name of their standard: outermost first.
TAGS = {
    "802.1Q": struct.pack("!HH", 0x8100, 101),
    "802.1p": struct.pack("!HH", 0x8100, 7 << 13),
    "QinQ": struct.pack("!HHHH", 0x8100, 101, 0x8100, 102),
    "802.1ad": struct.pack("!HHHH", 0x88A8, 101, 0x8100, 102),
}
#: Destinations nobody has.
STRANGERS = {
    "broadcast": "ff:ff:ff:ff:ff:ff",
    "IPv4 multicast": "01:00:5e:01:02:03",
    "IPv6 multicast": "33:33:00:01:02:03",
    "unknown unicast": "02:00:00:00:be:ef",
}
IPV4_TTL, IPV4_CHECKSUM, UDP_CHECKSUM = ETH_LEN + 8, ETH_LEN + 10, ETH_LEN + IPV4_LEN + 6
ADDRESSES = 12


def tagged(frame: bytes, tags: bytes) -> bytes:
    """Put VLAN tags into a frame.

    Args:
        frame: Octets without FCS.
        tags: Outermost first.

    Returns:
        The frame with tags.
    """
    return frame[:ADDRESSES] + tags + frame[ADDRESSES:]


def addressed(frame: bytes, mac: str) -> bytes:
    """Send a frame to somebody else.

    Args:
        frame: Octets without FCS.
        mac: Destination.

    Returns:
        The frame.
    """
    return bytes.fromhex(mac.replace(":", "")) + frame[6:]


def contents(stream: Stream) -> dict[str, bytes]:
    """Frames between a stream's addresses, each of another protocol.

    Args:
        stream: The stream.

    Returns:
        Kind -> octets without FCS. What is not UDP has a body of chance.
    """
    plain = stream_frame(stream, 128, 1)

    def of_type(number: int) -> bytes:
        return plain[:ADDRESSES] + struct.pack("!H", number) + stream_frame(stream, 128, 2)[42:]

    return {
        "IPv4": plain,
        "IPv4 with a wrong UDP checksum": _with(plain, UDP_CHECKSUM, 0xBEEF),
        "IPv6": of_type(0x86DD),
        "ARP": of_type(0x0806),
        "an unknown protocol": of_type(0x88B5),
        "LLC, with a length": of_type(64),
    }


def _with(frame: bytes, place: int, value: int) -> bytes:
    return frame[:place] + struct.pack("!H", value) + frame[place + 2 :]


def routed(scenario: Scenario, stream: Stream, frame: bytes) -> bytes:
    """What a router makes of a stream's frame on its whole way.

    Args:
        scenario: What is deployed.
        stream: The stream.
        frame: As sent, octets without FCS.

    Returns:
        As it must come out: a hop less to live for each time the vSwitch routed it.
    """
    deployment = scenario.deployment
    path = deployment.path(deployment.ends[stream.direction], stream.chain)
    out = path[-1]
    macs = port_mac(deployment, out, stream.chain) + dut_mac(out)
    frame = bytes.fromhex(macs.replace(":", "")) + frame[ADDRESSES:]
    ttl = frame[IPV4_TTL] - len(path) // 2
    frame = frame[:IPV4_TTL] + bytes([ttl]) + frame[IPV4_TTL + 1 :]
    frame = _with(frame, IPV4_CHECKSUM, 0)
    return _with(frame, IPV4_CHECKSUM, internet_checksum(frame[ETH_LEN : ETH_LEN + IPV4_LEN]))
