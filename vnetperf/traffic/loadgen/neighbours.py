"""Whose addresses the tester's ports answer for: those that its frames come from and go to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address

from vnetperf.model import tunnel
from vnetperf.model.addresses import port_mac, tester_mac
from vnetperf.model.core import GN_TESTER
from vnetperf.model.deployment import Deployment
from vnetperf.traffic.compiled import CompiledFrame
from vnetperf.traffic.loadgen.spec import NeighbourSpec

ETH_SRC, ETH_TYPE, ETH_LEN, TAG_LEN, MAC_LEN = 6, 12, 14, 4, 6
VLANS = (0x8100, 0x88A8)
#: Ethertype -> (offset of source, offset of destination, octets of an address).
ADDRESSES = {0x0800: (12, 16, 4), 0x86DD: (8, 24, 16)}
#: Octets of an address whose low part can vary.
LOW = 8


def neighbours_of(
    frames: Sequence[CompiledFrame], deployment: Deployment
) -> tuple[NeighbourSpec, ...]:
    """Addresses that each of the tester's ports has for those around it.

    A port has the outermost source addresses of what it sends, the innermost destination addresses
    of what it receives, and the tester's end of a tunnel. Where several chains have one address,
    the first one's MAC address is told.

    Args:
        frames: What is sent.
        deployment: Says what is plugged in where.

    Returns:
        Entries, each address of a port once.
    """
    found: dict[tuple[int, bytes], NeighbourSpec] = {}
    for entry in (*_endpoints(deployment), *_of_frames(frames, deployment)):
        held = found.setdefault((entry.port, entry.address), entry)
        if entry.count > held.count:
            found[entry.port, entry.address] = entry
    return tuple(found.values())


def macs_of(deployment: Deployment) -> dict[int, bytes]:
    """MAC address of each of the tester's ports.

    Args:
        deployment: Says what is plugged in where.

    Returns:
        Port -> the first chain's, six octets.
    """
    ends = enumerate(deployment.ends)
    return {port: _octets(port_mac(deployment, end, 0)) for port, end in ends}


def _endpoints(deployment: Deployment) -> Iterator[NeighbourSpec]:
    for port, end in enumerate(deployment.ends):
        if end in deployment.tunnelled:
            address = IPv4Address(tunnel.TESTER_ADDRESS).packed
            yield NeighbourSpec(port, address, _octets(tester_mac(port, 0)))
        if end in deployment.gtp:
            address = IPv4Address(GN_TESTER).packed
            yield NeighbourSpec(port, address, _octets(port_mac(deployment, end, 0)))


def _of_frames(frames: Sequence[CompiledFrame], deployment: Deployment) -> Iterator[NeighbourSpec]:
    for frame in frames:
        stream = frame.stream
        if place := _address(frame, 0, source=True):
            mac = frame.template[ETH_SRC : ETH_SRC + MAC_LEN]
            yield _entry(frame, stream.tx_port, place, mac, ETH_SRC)
        # GTP-U carries no Ethernet: the packet's destination is behind the one Ethernet header.
        inner = 0 if stream.tunnel == tunnel.GTPU else tunnel.overhead(stream.tunnel)
        end = deployment.ends[stream.rx_port]
        if place := _address(frame, inner, source=False):
            mac = _octets(port_mac(deployment, end, stream.chain))
            yield _entry(frame, stream.rx_port, place, mac, inner)


def _address(frame: CompiledFrame, start: int, *, source: bool) -> tuple[int, int] | None:
    """Offset and octets of the IP address behind the Ethernet header at an offset."""
    at = start + ETH_TYPE
    while (kind := int.from_bytes(frame.template[at : at + 2])) in VLANS:
        at += TAG_LEN
    if kind not in ADDRESSES:
        return None
    from_, to, width = ADDRESSES[kind]
    skip = tunnel.GTPU_OVERHEAD if frame.stream.tunnel == tunnel.GTPU and not source else 0
    return at + 2 + skip + (from_ if source else to), width


def _entry(
    frame: CompiledFrame, port: int, place: tuple[int, int], mac: bytes, mac_at: int
) -> NeighbourSpec:
    offset, width = place
    values = _values(frame, offset, width)
    steps = (
        values > 1
        and _values(frame, mac_at, MAC_LEN) == values
        and frame.template[mac_at : mac_at + MAC_LEN] == mac
    )
    address = frame.template[offset : offset + width]
    return NeighbourSpec(port, address, mac, count=values, mac_steps=steps)


def _values(frame: CompiledFrame, offset: int, width: int) -> int:
    """How many consecutive values the address at an offset takes, at least."""
    for field in frame.fields:
        ends_with_it = field.offset + field.width == offset + width
        if ends_with_it and field.offset >= offset and field.width <= LOW:
            return (field.count - 1) * field.step + 1
    return 1


def _octets(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))
