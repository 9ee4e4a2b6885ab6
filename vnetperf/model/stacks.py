"""Which headers a stream's frames have: those of its profile, and of the deployment's tunnel."""

from __future__ import annotations

from vnetperf.model import tunnel
from vnetperf.model.fields import VaryField, index_of
from vnetperf.model.headers import HeaderKind
from vnetperf.model.traffic import Stream, TrafficProfile


def stack_of(stream: Stream, profile: TrafficProfile) -> tuple[HeaderKind, ...]:
    """Headers of a stream's frames as the tester sends them.

    Args:
        stream: The stream; its tunnel's headers come before the profile's.
        profile: The profile.

    Returns:
        Kinds, from the outermost. GTP-U carries a packet without Ethernet, so that the profile's
        own stays in front.
    """
    headers = profile.headers
    if stream.tunnel == tunnel.GTPU:
        cut = next((n for n, kind in enumerate(headers) if kind in ("ipv4", "ipv6")), len(headers))
        return (*headers[:cut], "ipv4", "udp", "gtpu", *headers[cut:])
    kind = next((kind for kind in tunnel.TUNNELS if kind == stream.tunnel), None)
    if kind is None:
        return headers
    carried: tuple[HeaderKind, ...] = ("gre",) if kind == "gre" else ("udp", kind)
    return ("ethernet", "ipv4", *carried, *headers)


def own_ethernet(stream: Stream, profile: TrafficProfile) -> int:
    """Which Ethernet header is the profile's own, and not one of the deployment's tunnel.

    Args:
        stream: The stream.
        profile: The profile.

    Returns:
        Place among the stream's layers.
    """
    if stream.tunnel == tunnel.GTPU:
        return 0
    return len(stack_of(stream, profile)) - len(profile.headers)


def fields_sent_by(stream: Stream, profile: TrafficProfile) -> frozenset[VaryField]:
    """Fields of a profile that a stream's frames have.

    Args:
        stream: The stream.
        profile: The profile.

    Returns:
        Those of `vary` and `values`.
    """
    stack = stack_of(stream, profile)
    named = {*profile.vary, *profile.values}
    return frozenset(name for name in named if index_of(name, stack) is not None)
