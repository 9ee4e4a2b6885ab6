"""The flows of a stream one by one, for a vSwitch that has a rule for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from math import lcm, prod
from typing import NamedTuple

from vnetperf.model.headers import PLAIN
from vnetperf.model.traffic import Stream, TrafficProfile

MAC_BITS, PORT_BITS, ADDRESS_BITS = 24, 16, 32


class Flow(NamedTuple):
    """Addresses and ports of one flow.

    Attributes:
        eth_src: Source MAC address.
        eth_dst: Destination MAC address.
        ipv4_src: Source address.
        ipv4_dst: Destination address.
        udp_src: Source port.
        udp_dst: Destination port.
    """

    eth_src: str
    eth_dst: str
    ipv4_src: str
    ipv4_dst: str
    udp_src: int
    udp_dst: int


def flow_count(profile: TrafficProfile) -> int:
    """Number of distinct flows that a stream of the profile has.

    Fields walk in step, each through its own number of values: a field that has fewer values than
    the profile has flows starts again sooner than the others, and new combinations arise.

    Args:
        profile: The traffic profile.

    Returns:
        Flows; more than `profile.flows` where the fields do not keep together.
    """
    counts = _counts(profile)
    return prod(counts) if profile.vary_mode == "random" else lcm(*counts)


def why_uncountable(profile: TrafficProfile) -> str:
    """Why the flows of a profile cannot be enumerated.

    Args:
        profile: The traffic profile.

    Returns:
        "" when they can; otherwise the reason and the cure, in one sentence.
    """
    if profile.headers != PLAIN:
        return (
            f"flows of frames of {', '.join(profile.headers)} cannot be enumerated, those of "
            f"{', '.join(PLAIN)} can; choose another traffic profile, or other rules"
        )
    unknown = [name for name in profile.vary if name not in Flow._fields]
    if unknown and profile.flows > 1:
        return (
            f"flows that differ in {', '.join(unknown)} cannot be enumerated; "
            f"vary fields among {', '.join(Flow._fields)}"
        )
    if flow_count(profile) <= profile.flows:
        return ""
    fields = ", ".join(profile.vary)
    if profile.vary_mode == "random":
        return (
            f"fields that are varied at random and together ({fields}) give flows that cannot be "
            'enumerated; vary one field, or set vary_mode = "inc"'
        )
    fewest = min(map(profile.room, profile.vary))
    return (
        f"{profile.flows} flows of {fields} cannot be enumerated: one of them has only {fewest} "
        f"values and falls out of step; set flows to {fewest} or fewer, or vary eth_src alone"
    )


def flows(stream: Stream, profile: TrafficProfile) -> Iterator[Flow]:
    """Flows of a stream, in the order in which an incrementing generator sends them.

    Args:
        stream: The stream.
        profile: Number of flows and which fields vary.

    Yields:
        Every flow once.

    Raises:
        ValueError: They cannot be enumerated; see `why_uncountable`.
    """
    if reason := why_uncountable(profile):
        raise ValueError(reason)
    values = [_values(name, stream, profile) for name in Flow._fields]
    for number in range(flow_count(profile)):
        yield Flow._make(value(number) for value in values)


def _counts(profile: TrafficProfile) -> list[int]:
    if profile.flows == 1:
        return [1]
    return [min(profile.flows, profile.room(name)) for name in profile.vary]


def _values(name: str, stream: Stream, profile: TrafficProfile) -> Callable[[int], str | int]:
    """Flow number -> value of a field."""
    given = profile.value(name, stream.direction)
    first: str | int = getattr(stream, name) if given is None else given
    varied = next((field for field in profile.vary if field == name), None)
    if varied is None or profile.flows == 1:
        return lambda number: first
    count = min(profile.flows, profile.room(varied))
    if isinstance(first, int):
        port = first
        return lambda number: (port + number % count) % (1 << PORT_BITS)
    if name.startswith("eth"):
        fixed, base = first[:9], int(first[9:].replace(":", ""), 16)
        return lambda number: fixed + _three_octets((base + number % count) % (1 << MAC_BITS))
    start = int(IPv4Address(first))
    return lambda number: _dotted((start + number % count) % (1 << ADDRESS_BITS))


def _three_octets(value: int) -> str:
    return f"{value >> 16:02x}:{value >> 8 & 255:02x}:{value & 255:02x}"


def _dotted(value: int) -> str:
    return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"
