"""Whether repeats fall into two modes, and which of them lie far from the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean, median

#: Number of values -> share of the sum of squares that is left inside the two best groups in one
#: of a hundred samples of a single, flat mode; below it, there are two modes. By simulation.
_ONE_MODE = (
    (4, 0.004),
    (5, 0.010),
    (6, 0.017),
    (8, 0.037),
    (10, 0.060),
    (15, 0.090),
    (20, 0.100),
)
_FEWEST_FOR_OUTLIERS = 5


def two_modes(values: Sequence[float], resolution: float = 0.0) -> tuple[float, ...]:
    """The centres of two groups, where the values fall into two.

    Each group holds at least a fifth of the values, and two of them: less is outliers. A single
    mode is taken for two in about one sample of a hundred.

    Args:
        values: The values.
        resolution: Step or width of what measured them: groups nearer than twice that are one.

    Returns:
        Means of the lower and the upper group; empty for one group, or too few values to tell.
    """
    n, ordered = len(values), sorted(values)
    allowed = _allowed(n)
    least = max(2, -(-n // 5))
    if not allowed or ordered[0] == ordered[-1]:
        return ()
    middle = fmean(ordered)
    shifted = [v - middle for v in ordered]  # sums of squares of large numbers would cancel
    sums = [0.0, *accumulate(shifted)]
    squares = [0.0, *accumulate(v * v for v in shifted)]

    def inside(begin: int, end: int) -> float:
        total = sums[end] - sums[begin]
        return squares[end] - squares[begin] - total * total / (end - begin)

    at = min(range(least, n - least + 1), key=lambda i: inside(0, i) + inside(i, n))
    if inside(0, at) + inside(at, n) > allowed * squares[n]:
        return ()
    low, high = fmean(ordered[:at]), fmean(ordered[at:])
    return (low, high) if high - low > 2.0 * resolution else ()


def _allowed(n: int) -> float:
    """The share for a number of values; 0 where they are too few."""
    if n < _ONE_MODE[0][0]:
        return 0.0
    if n >= _ONE_MODE[-1][0]:
        return _ONE_MODE[-1][1]
    below = max(point for point in _ONE_MODE if point[0] <= n)
    above = min(point for point in _ONE_MODE if point[0] > n)
    share = (n - below[0]) / (above[0] - below[0])
    return below[1] + share * (above[1] - below[1])


def outliers(values: Sequence[float], modes: Sequence[float] = ()) -> tuple[int, ...]:
    """Values far from the others, by the median of the distances to the median.

    Args:
        values: The values.
        modes: Centres of two modes: a value is judged among those nearest to the same centre.

    Returns:
        Their places, from 0; empty where there are too few values to tell.
    """
    groups: dict[int, list[int]] = {}
    for place, value in enumerate(values):
        near = min(range(len(modes)), key=lambda m: abs(value - modes[m])) if modes else 0
        groups.setdefault(near, []).append(place)
    found = (_far(values, places) for places in groups.values())
    return tuple(sorted(place for places in found for place in places))


def _far(values: Sequence[float], places: Sequence[int]) -> list[int]:
    n = len(places)
    if n < _FEWEST_FOR_OUTLIERS:
        return []
    centre = median(values[p] for p in places)
    distances = {p: abs(values[p] - centre) for p in places}
    # Factors that make either a standard deviation of normal values. More than half of the values
    # can be equal, as bursts in whole steps are: then the mean distance must do.
    scale = 1.4826 * median(distances.values()) or 1.2533 * fmean(distances.values())
    limit = 4.0 + 30.0 / n  # the fewer, the farther one strays by chance
    return [p for p, distance in distances.items() if distance > limit * scale]
