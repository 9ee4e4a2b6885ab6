"""Percentiles of what was counted by value."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil


def percentiles(pairs: Iterable[tuple[int, int]], wanted: Iterable[float]) -> dict[str, float]:
    """The nearest-rank percentiles of a histogram.

    Args:
        pairs: Value and how often, by rising value.
        wanted: Percentiles, 0..100.

    Returns:
        Percentile ("99.9") -> the smallest value that no less than its share is not above.
    """
    held = list(pairs)
    total = sum(count for _, count in held)
    # Multiplied first: 99.9 % of 1000 is 999, whatever binary fractions make of 0.999.
    ranks = [(p, max(1, ceil(total * p / 100))) for p in sorted(wanted)]
    found: dict[str, float] = {}
    seen = 0
    for value, count in held:
        seen += count
        while ranks and seen >= ranks[0][1]:
            found[f"{ranks.pop(0)[0]:g}"] = float(value)
    return found
