"""Counters of a trial: read when they stand still, and told as differences."""

from __future__ import annotations

import time
from collections.abc import Callable

from vnetperf.host.patience import patient
from vnetperf.model.trial import HopCounters

#: Longest wait for counters to stand still after learning frames, seconds.
SETTLE_S = 0.5
#: Counters that stay the same for this long stand still: a poller without a core of its own may be
#: away for some of it, seconds.
STILL_S = 0.02


def settled(read: Callable[[], dict[str, HopCounters]]) -> dict[str, HopCounters]:
    """Counters once they have stopped moving: learning frames may still be on their way.

    Args:
        read: Reads them.

    Returns:
        Port name -> counters.
    """
    counters = read()
    deadline = time.monotonic() + patient(SETTLE_S)
    while time.monotonic() < deadline:
        time.sleep(STILL_S)
        again = read()
        if again == counters:
            break
        counters = again
    return counters


def difference(before: HopCounters | None, after: HopCounters) -> HopCounters:
    """What a port counted in between.

    Args:
        before: Its counters before; None when it was not there.
        after: Its counters after.

    Returns:
        The differences.
    """
    if before is None:
        return after
    fields = ("rx", "tx", "rx_dropped", "tx_dropped")
    return HopCounters(
        port=after.port, **{f: getattr(after, f) - getattr(before, f) for f in fields}
    )
