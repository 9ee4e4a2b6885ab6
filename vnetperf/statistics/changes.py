"""Where the level of a series of runs changes: by ranks, so that single outliers do not count.

A series is parted where the ranks before and after differ most, if a shuffled series seldom does
so; then each part is looked at in the same way (binary segmentation with a permutation test).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from statistics import median
from typing import Any

#: Fewest values of a level: two that differ from the others can be two outliers.
SHORTEST = 3
#: Share of series without a change in which one is seen.
SIGNIFICANCE = 0.02
#: Enough for a gate over some hundred series (Holm).
_SHUFFLES = 4999
_SEED = 2544


@dataclass(frozen=True, slots=True)
class Level:
    """Values that follow each other on one level."""

    begin: int  # Place of the first, from 0
    end: int  # Place after the last
    median: float
    #: Share of shuffled series in which a change as large as that at `begin` is seen; 1 for the
    #: first level.
    p: float = 1.0


def levels(values: Sequence[float], *, least: float = 0.0) -> tuple[Level, ...]:
    """Part a series into levels.

    Five values on either side of a change are needed to be sure of it.
    """
    if not values:
        return ()
    changes = _changes(values, 0, len(values))
    places = _without_small(values, [0, *sorted(changes), len(values)], least)
    return tuple(
        Level(begin, end, median(values[begin:end]), changes.get(begin, 1.0))
        for begin, end in pairwise(places)
    )


def _changes(values: Sequence[float], begin: int, end: int) -> dict[int, float]:
    """Place of each change, with its share of shuffled series."""
    part = values[begin:end]
    p = _share_of_shuffled(part)
    if p > SIGNIFICANCE:
        return {}
    at = begin + _best_place(part)
    return {**_changes(values, begin, at), at: p, **_changes(values, at, end)}


def _share_of_shuffled(values: Sequence[float]) -> float:
    """In how many shuffled series ranks before and after some place differ as much."""
    import numpy as np

    n = len(values)
    if n < 2 * SHORTEST:
        return 1.0
    _, place, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts + n) / 2.0)[place]  # around 0; equal values share theirs
    before = np.arange(SHORTEST, n - SHORTEST + 1)

    def largest(series: Any) -> Any:
        """By how many standard errors or so the ranks differ at some place, at most."""
        sums = np.abs(np.cumsum(series, axis=-1)[..., before - 1])
        return np.max(sums / np.sqrt(before * (n - before)), axis=-1)

    shuffled = np.random.default_rng(_SEED).permuted(np.tile(ranks, (_SHUFFLES, 1)), axis=1)
    size = largest(ranks)
    as_large = np.count_nonzero(largest(shuffled) >= size * (1.0 - 1e-9))
    return float(as_large + 1) / (_SHUFFLES + 1) if size > 0.0 else 1.0


def _best_place(values: Sequence[float]) -> int:
    """Where two levels leave the least: ranks show that there is a change, not so well where."""

    def left_over(part: Sequence[float]) -> float:
        middle = median(part)
        return fsum(abs(v - middle) for v in part)

    return min(
        range(SHORTEST, len(values) - SHORTEST + 1),
        key=lambda at: left_over(values[:at]) + left_over(values[at:]),
    )


def _without_small(values: Sequence[float], places: list[int], least: float) -> list[int]:
    """Join neighbours whose medians differ by too little, the most alike first."""
    while len(places) > 2:
        middles = [median(values[begin:end]) for begin, end in pairwise(places)]
        steps = [abs(b - a) for a, b in pairwise(middles)]
        smallest = min(range(len(steps)), key=steps.__getitem__)
        if steps[smallest] > least:
            break
        places = [*places[: smallest + 1], *places[smallest + 2 :]]
    return places
