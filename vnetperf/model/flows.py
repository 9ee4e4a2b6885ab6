"""The flows of a stream one by one, for a vSwitch that has a rule for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from math import lcm, prod
from typing import NamedTuple

from vnetperf.model.traffic import VALUES, Stream, TrafficProfile, VaryField

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
    if flow_count(profile) <= profile.flows:
        return ""
    fields = ", ".join(profile.vary)
    if profile.vary_mode == "random":
        return (
            f"fields that are varied at random and together ({fields}) give flows that cannot be "
            'enumerated; vary one field, or set vary_mode = "inc"'
        )
    fewest = min(VALUES[name] for name in profile.vary)
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
    return [min(profile.flows, VALUES[name]) for name in profile.vary]


def _values(name: str, stream: Stream, profile: TrafficProfile) -> Callable[[int], str | int]:
    """Flow number -> value of a field."""
    first = getattr(stream, name)
    varied: VaryField | None = next((field for field in profile.vary if field == name), None)
    if varied is None or profile.flows == 1:
        return lambda number: first
    count = min(profile.flows, VALUES[varied])
    if name.startswith("eth"):
        fixed, base = first[:9], int(first[9:].replace(":", ""), 16)
        return lambda number: fixed + _three_octets((base + number % count) % (1 << MAC_BITS))
    if name.startswith("ipv4"):
        start = int(IPv4Address(first))
        return lambda number: _dotted((start + number % count) % (1 << ADDRESS_BITS))
    return lambda number: (first + number % count) % (1 << PORT_BITS)


def _three_octets(value: int) -> str:
    return f"{value >> 16:02x}:{value >> 8 & 255:02x}:{value & 255:02x}"


def _dotted(value: int) -> str:
    return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"
