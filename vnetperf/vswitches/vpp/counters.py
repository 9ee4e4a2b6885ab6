"""Counters of VPP's interfaces as the contract has them.

VPP counts a frame as sent when it hands it to an interface, and counts it again, elsewhere, when
the interface has no room for it: those are taken out of what was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vnetperf.host.linkstats import LinkStatistics
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches.vpp.ports import Interface
from vnetperf.vswitches.vpp.stats import StatsSegment

#: Errors of a transmit node that are no lost frames: a frame put back to be tried again, a system
#: call that was needed or must be repeated.
NO_LOSS = ("rollback", "sendto", "syscall")
COUNTERS = ("/if/rx", "/if/tx", "/if/drops", "/if/rx-miss", "/if/tx-error")


def lost_by_transmit(errors: Mapping[str, int]) -> int:
    """Frames that an interface counted as sent and had no room for.

    Args:
        errors: Error counters of its transmit node.

    Returns:
        Frames.
    """
    return sum(n for name, n in errors.items() if not any(word in name for word in NO_LOSS))


def read(
    segment: StatsSegment,
    interfaces: Iterable[Interface],
    links: Mapping[str, LinkStatistics],
) -> tuple[HopCounters, ...]:
    """Counters of interfaces since they were made.

    Args:
        segment: VPP's statistics.
        interfaces: The interfaces.
        links: Statistics of the kernel's interfaces, which has frames for AF_XDP that VPP never
            sees.

    Returns:
        One entry per interface.
    """
    columns = {name: segment.by_index(name) for name in COUNTERS}

    def of(name: str, index: int) -> int:
        column = columns[name]
        return column[index] if index < len(column) else 0

    found = []
    for interface in interfaces:
        index = interface.index
        lost = lost_by_transmit(segment.errors(f"{interface.name}-tx"))
        drops = of("/if/drops", index)
        if interface.kind == "vhost-user":  # the only one whose transmit losses are in here too
            drops = max(0, drops - lost)
        if interface.kind == "xdp" and interface.netdev in links:
            drops += links[interface.netdev].rx_dropped  # the socket's ring was full
        found.append(
            HopCounters(
                port=str(interface.port),
                rx=of("/if/rx", index),
                tx=max(0, of("/if/tx", index) - lost),
                rx_dropped=drops + of("/if/rx-miss", index),
                tx_dropped=lost + of("/if/tx-error", index),
            )
        )
    return tuple(found)
