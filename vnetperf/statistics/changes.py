"""Where the level of a series of runs changes, and where the series may only wander.

A series is parted where the ranks before and after differ most, if a shuffled series seldom does
so; then each part is looked at in the same way (binary segmentation with a permutation test). Ranks
make single outliers count little. Runs on one machine are alike to those before them, though, which
shuffled ones are not: a series that wanders shows levels that are none. So a change must be seldom
in such series, too. What is compared is the likelihood of a step between two levels, around which
values are autocorrelated (AR(1)), with that of no step, each with the autocorrelation that fits it
best: a step is one large difference between neighbours, and wandering is many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import fsum
from statistics import median
from typing import Any

#: Fewest values of a level: two that differ from the others can be two outliers.
SHORTEST = 3
#: Share of shuffled, and of wandering, series without a change in which one is seen.
SIGNIFICANCE, WANDERING = 0.02, 0.05
#: Enough for a gate over some hundred series (Holm).
_SHUFFLES = 4999
#: Lag-1 autocorrelation of the series that wander: of 0, 0.3, 0.5, 0.8 and 0.95 none shows changes
#: more often. From some length on how often it does depends on the length no more.
_WANDERS, _LONGEST = 0.9, 60
#: Autocorrelations that are tried: least, most, and the distance between them.
_LEAST, _MOST, _STEP = -0.5, 0.95, 0.05
#: Values farther from their level than so many standard deviations (by the median absolute one) are
#: put there: an outlier is no part of how a series wanders.
_FAR = 4.0
_SEED = 2544


@dataclass(frozen=True, slots=True)
class Level:
    """Values that follow each other on one level."""

    begin: int  # Place of the first, from 0
    end: int  # Place after the last
    median: float
    #: Share of series without a change, shuffled or wandering, in which one as large as that at
    #: `begin` is seen; 1 for the first level.
    p: float = 1.0


def levels(values: Sequence[float], *, least: float = 0.0) -> tuple[Level, ...]:
    """Part a series into levels; `least` is the smallest difference that the values can tell.

    Five values on either side of a change are needed to be sure of it.
    """
    if not values:
        return ()
    changes = _changes(values, 0, len(values), least)
    places = _without_small(values, [0, *sorted(changes), len(values)], least)
    return tuple(
        Level(begin, end, median(values[begin:end]), changes.get(begin, 1.0))
        for begin, end in pairwise(places)
    )


@dataclass(frozen=True, slots=True)
class Wandering:
    """Why a change that shuffled series hardly show is none: the series may only wander."""

    share: float  # Of series that wander, those that show as large a change
    autocorrelation: float  # Between neighbouring values of this one, without a change


def wandering(values: Sequence[float], *, least: float = 0.0) -> Wandering | None:
    """What keeps the largest change of a series from being one; None: it is, or there is none."""
    if shuffled_share(values) > SIGNIFICANCE:
        return None
    share, autocorrelation = wandering_share(values, least=least)
    return Wandering(share, autocorrelation) if share > WANDERING else None


def _changes(values: Sequence[float], begin: int, end: int, least: float) -> dict[int, float]:
    """Place of each change, with its share of series without one."""
    part = values[begin:end]
    p = shuffled_share(part)
    if p > SIGNIFICANCE:
        return {}
    wanders, _ = wandering_share(part, least=least)
    if wanders > WANDERING:
        return {}
    p = max(p, wanders)
    place = begin + _best_place(part)
    return {
        **_changes(values, begin, place, least),
        place: p,
        **_changes(values, place, end, least),
    }


def shuffled_share(values: Sequence[float]) -> float:
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


def wandering_share(values: Sequence[float], *, least: float = 0.0) -> tuple[float, float]:
    """In how many series that wander a step is as likely, and the autocorrelation without one."""
    import numpy as np

    n = len(values)
    if n < 2 * SHORTEST:
        return 1.0, 0.0
    place = _best_place(values)
    parts = (np.array(values[:place]), np.array(values[place:]))
    middles = [np.median(part) for part in parts]
    apart = np.concatenate([part - middle for part, middle in zip(parts, middles, strict=True)])
    most = max(least, _FAR * 1.4826 * np.median(np.abs(apart)))
    near = np.concatenate(
        [np.clip(part, m - most, m + most) for part, m in zip(parts, middles, strict=True)]
    )
    size = float(np.std(near))
    if not size:
        return 1.0, 0.0
    # What a search rounds to its steps is no less uncertain for it (GUM, 4.3.7).
    rounding = (least / size) ** 2 / 12.0
    ratios, autocorrelations = _step_likelihoods((near[None] - np.mean(near)) / size, rounding)
    usual = _wandering_likelihoods(min(n, _LONGEST))
    as_likely = len(usual) - np.searchsorted(usual, ratios[0])
    return float(as_likely + 1) / (len(usual) + 1), float(autocorrelations[0])


@lru_cache(maxsize=64)
def _wandering_likelihoods(n: int) -> Any:
    """Likelihood ratios of series of a length that wander, ascending."""
    import numpy as np

    series = np.random.default_rng(_SEED).standard_normal((_SHUFFLES, n))
    series[:, 1:] *= (1.0 - _WANDERS**2) ** 0.5
    for place in range(1, n):
        series[:, place] += _WANDERS * series[:, place - 1]
    return np.sort(_step_likelihoods(series)[0])


def _step_likelihoods(series: Any, rounding: float = 0.0) -> tuple[Any, Any]:
    """Twice the logarithm of how much likelier the best step is than none, of each series.

    And the autocorrelation by which none is likeliest. A series is a row; all have the length n.
    `rounding` is the variance that each value has at the least.
    Around a level a, or a before and b from place k on, the values y have the weighted residuals
    w - a d, w - b d, with w_0 = q y_0, d_0 = q, q^2 = 1 - r^2, w_t = y_t - r y_(t-1), d_t = 1 - r;
    at place k itself w_k + r a - b.
    """
    import numpy as np

    count, n = series.shape
    place = np.arange(SHORTEST, n - SHORTEST + 1)
    none, best, fitting = np.full(count, np.inf), np.full(count, np.inf), np.zeros(count)
    for r in np.arange(_LEAST, _MOST + _STEP / 2, _STEP):
        q = np.sqrt(1.0 - r * r)
        w = series.copy()
        w[:, 0] *= q
        w[:, 1:] -= r * series[:, :-1]
        d = np.full(n, 1.0 - r)
        d[0] = q
        squares, wd, dd = np.sum(w * w, axis=1), np.cumsum(d * w, axis=1), np.cumsum(d * d)
        without = squares - wd[:, -1] ** 2 / dd[-1]
        # Normal equations of a and b.
        aa, ab, bb = dd[place - 1] + r * r, -r, 1.0 + dd[-1] - dd[place]
        of_a = wd[:, place - 1] - r * w[:, place]
        of_b = w[:, place] + wd[:, -1:] - wd[:, place]
        fit = (bb * of_a**2 - 2.0 * ab * of_a * of_b + aa * of_b**2) / (aa * bb - ab * ab)
        step = squares - np.max(fit, axis=1)
        # Exact steps leave nothing but what rounding does.
        least = np.maximum(1e-12 * squares, n * rounding)
        weight = np.log(1.0 - r * r) / n
        likely = np.log(np.maximum(without, least)) - weight
        fitting = np.where(likely < none, r, fitting)
        none = np.minimum(none, likely)
        best = np.minimum(best, np.log(np.maximum(step, least)) - weight)
    return n * (none - best), fitting


def _best_place(values: Sequence[float]) -> int:
    """Where two levels leave the least: ranks show that there is a change, not so well where."""

    def scatter(part: Sequence[float]) -> float:
        middle = median(part)
        return fsum(abs(v - middle) for v in part)

    return min(
        range(SHORTEST, len(values) - SHORTEST + 1),
        key=lambda place: scatter(values[:place]) + scatter(values[place:]),
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
