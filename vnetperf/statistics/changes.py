"""Where the level of a series of runs changes: by ranks, so that single outliers do not count.

A series is parted where the ranks before and after differ most, if a shuffled series seldom does
so; then each part is looked at in the same way (binary segmentation with a permutation test).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import fsum, sqrt
from statistics import median

#: Fewest values of a level: two that differ from the others can be two outliers.
SHORTEST = 3
#: Share of series without a change in which one is seen.
SIGNIFICANCE = 0.02
_SHUFFLES = 499
_SEED = 2544


@dataclass(frozen=True, slots=True)
class Level:
    """Values that follow each other on one level.

    Attributes:
        begin: Place of the first, from 0.
        end: Place after the last.
        median: Their median.
    """

    begin: int
    end: int
    median: float


def levels(values: Sequence[float], *, least: float = 0.0) -> tuple[Level, ...]:
    """Part a series into levels.

    Five values on either side of a change are needed to be sure of it.
    """
    if not values:
        return ()
    places = [0, *_changes(values, 0, len(values)), len(values)]
    places = _without_small(values, places, least)
    return tuple(Level(begin, end, median(values[begin:end])) for begin, end in pairwise(places))


def change_points(values: Sequence[float], *, least: float = 0.0) -> tuple[int, ...]:
    """Places at which another level begins."""
    return tuple(level.begin for level in levels(values, least=least)[1:])


def _changes(values: Sequence[float], begin: int, end: int) -> list[int]:
    part = values[begin:end]
    centred = _centred_ranks(part)
    size = _largest(centred)
    if not size or not _is_rare(centred, size):
        return []
    at = begin + _best_place(part)
    return [*_changes(values, begin, at), at, *_changes(values, at, end)]


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Ranks around 0; equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, start = [0.0] * len(values), 0
    while start < len(order):
        stop = start
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for place in order[start:stop]:
            ranks[place] = (start + stop - len(order)) / 2.0
        start = stop
    return ranks


def _largest(ranks: Sequence[float]) -> float:
    """By how many standard errors or so the ranks differ before and after some place, at most."""
    n = len(ranks)
    return max(
        (
            abs(total) / sqrt(before * (n - before))
            for before, total in enumerate(accumulate(ranks), 1)
            if SHORTEST <= before <= n - SHORTEST
        ),
        default=0.0,
    )


def _best_place(values: Sequence[float]) -> int:
    """Where two levels leave the least: ranks say that there is a change, not so well where."""

    def left_over(part: Sequence[float]) -> float:
        middle = median(part)
        return fsum(abs(v - middle) for v in part)

    return min(
        range(SHORTEST, len(values) - SHORTEST + 1),
        key=lambda at: left_over(values[:at]) + left_over(values[at:]),
    )


def _is_rare(ranks: Sequence[float], size: float) -> bool:
    draw, shuffled = random.Random(_SEED), sorted(ranks)  # noqa: S311 - no secret
    allowed = int(SIGNIFICANCE * (_SHUFFLES + 1)) - 1
    as_large = 0
    for _ in range(_SHUFFLES):
        shuffled.sort(key=lambda _: draw.random())  # quicker than shuffle()
        if _largest(shuffled) >= size * (1.0 - 1e-9):
            as_large += 1
            if as_large > allowed:
                return False
    return True


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
