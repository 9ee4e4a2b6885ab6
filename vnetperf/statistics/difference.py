"""Whether one quantity, measured in several deployments of two sides, differs, and by how much."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, exp, expm1, fsum, hypot, inf, isfinite, log, log1p, sqrt
from statistics import fmean, variance
from typing import Literal, TypeVar

from vnetperf.statistics.samples import t_quantile

#: Deployments of a side that show nothing of how it repeats: two may be alike by chance.
FEW = 2
#: Fewest deployments of each side that a gate may act on: of fewer, nobody knows how they repeat.
FEWEST_TO_GATE = 3
#: Divisions of two sides that a test by ranks looks at, at most; beyond, that many at random.
_MOST_DIVISIONS = 20_000
_SEED = 2544
#: What rounding may leave between a difference and the width of a search.
_SAME = 1e-9
_Event = TypeVar("_Event", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Measurand:
    """One measurement, and the range that it leaves open by itself."""

    value: float | None  # The number; None where there are bounds only
    low: float  # Lower end of what it leaves open: of a search, the load that was carried
    high: float  # Upper end: of a search, the load that was not; infinite for "at least"

    @classmethod
    def exact(cls, value: float) -> Measurand:
        """A measurement that leaves nothing open but whether it would come out so again."""
        return cls(value, value, value)

    @property
    def is_bounded(self) -> bool:
        """Whether it has a number and two finite ends."""
        return self.value is not None and isfinite(self.low) and isfinite(self.high)


@dataclass(frozen=True, slots=True)
class Difference:
    """What the second side has more than the first."""

    #: Difference of the means, of positive numbers of the geometric ones; None where a side has no
    #: number.
    value: float | None
    low: float  # Lower end of its interval; minus infinity where nothing bounds it
    high: float  # Upper end
    n: tuple[int, int]  # Deployments of the first and of the second side
    #: "paired" or "welch": Student's t, of logarithms where all numbers are positive, widened by
    #: what a single search leaves open; "ranks": a permutation test, where numbers are censored;
    #: "none": a side has one deployment only, of which nobody knows how it repeats.
    method: Literal["paired", "welch", "ranks", "none"]
    #: The same as a share of the first side: value, low and high; None where that is not defined.
    ratio: tuple[float, float, float] | None = None
    #: Probability of such a difference between equal sides; None where it is not known.
    p: float | None = None
    towards: Literal["more", "less", ""] = ""  # Which way the second side lies

    def is_significant(self, confidence: float = 0.95) -> bool:
        """Whether equal sides would seldom differ so much."""
        return self.p is not None and self.p <= 1.0 - confidence + _SAME


def difference(
    first: Sequence[Measurand],
    second: Sequence[Measurand],
    *,
    paired: bool = False,
    confidence: float = 0.95,
) -> Difference:
    """Compare two sides, each of whose measurements is of a deployment of its own."""
    if not first or not second:
        raise ValueError("both sides need a measurement")
    if paired and len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} measurements make no pairs")
    n = (len(first), len(second))
    a, b = _numbers(first), _numbers(second)
    if min(n) < 2:
        values = [[m.value for m in side if m.value is not None] for side in (first, second)]
        value = fmean(values[1]) - fmean(values[0]) if all(values) else None
        return Difference(value, -inf, inf, n, "none", towards=_towards(value or 0.0))
    if a is None or b is None:
        return _by_ranks(first, second)
    positive = min(*a, *b) > 0.0
    if positive:
        a, b = [log(v) for v in a], [log(v) for v in b]
    if paired:
        deltas = [y - x for x, y in zip(a, b, strict=True)]
        error, degrees = sqrt(variance(deltas) / len(deltas)), len(deltas) - 1.0
    else:
        error, degrees = _welch(a, b)
    error = max(error, _least_error(first, second, relative=positive))
    # Searches that stop at the same two loads each time leave more open than their repeats show.
    open_ = max(_open(first, relative=positive), _open(second, relative=positive))
    half = hypot(t_quantile((1.0 + confidence) / 2.0, degrees) * error, open_)
    mean_difference = fmean(b) - fmean(a)
    base = exp(fmean(a)) if positive else fmean(a)
    ends = (mean_difference, mean_difference - half, mean_difference + half)
    if positive:
        shares = (_growth(ends[0]), _growth(ends[1]), _growth(ends[2]))
        value, low, high = (base * share for share in shares)
        ratio: tuple[float, float, float] | None = shares
    else:
        value, low, high = ends
        ratio = (value / abs(base), low / abs(base), high / abs(base)) if base else None
    return Difference(
        value,
        low,
        high,
        n,
        "paired" if paired else "welch",
        ratio,
        _probability(mean_difference, error, degrees, open_),
        _towards(mean_difference),
    )


def least_by_ranks(n: int, m: int) -> float:
    """The smallest probability that a test by ranks can give for so many of each side."""
    return min(1.0, 2.0 / comb(n + m, n))


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Observations of a side in which something happened."""

    where: frozenset[Hashable]
    n: int

    @property
    def share(self) -> float:
        """Their share; 0 of none."""
        return len(self.where) / self.n if self.n else 0.0


def compare_counts(first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
    """Whether something happens more often on the second side (Fisher's exact test, one-sided).

    Each side is how often it happened, and of how many. Returns the probability that of equal sides
    the second has it so often or more often, and the smallest one that any division of as many
    cases can have.
    """
    (before, n), (now, m) = first, second
    most = min(m, before + now)
    ways = [comb(m, k) * comb(n, before + now - k) for k in range(now, most + 1)]
    divisions = comb(n + m, before + now)
    return sum(ways) / divisions, ways[-1] / divisions


def find_increases(
    pairs: Iterable[tuple[Occurrences, Occurrences]], confidence: float = 0.95
) -> set[tuple[Occurrences, Occurrences]]:
    """Pairs whose second side has it more often, all of them considered (Holm).

    What happened in the same observations is one event.
    """
    distinct = dict.fromkeys(pairs)
    return find_significant(
        {(a, b): compare_counts((len(a.where), a.n), (len(b.where), b.n)) for a, b in distinct},
        confidence,
    )


def newest_alike(happened: int, n: int, newest: int, fewest: int) -> tuple[float, float]:
    """Whether something happens in the newest of a series because of their place (exact test).

    It happened in `happened` of `n`, and in the `newest` ones without one between them in which it
    did not; there must be `fewest` newest ones with it and as many others without it. Returns the
    probability that in a random order of the series so many newest ones or more have it, 1 where
    there are too few; and the smallest one that any order can have. The second does not depend on
    the order that was seen, so that it may decide what is judged at all.
    """
    if min(happened, n - happened) < fewest:
        return 1.0, 1.0
    orders = comb(n, happened)
    p = 1.0 if newest < fewest else comb(n - newest, happened - newest) / orders
    return p, 1.0 / orders


def find_significant(
    probabilities: Mapping[_Event, tuple[float, float]], confidence: float = 0.95
) -> set[_Event]:
    """Events that chance does not explain, all of them considered (Holm).

    `probabilities` has the probability of each event, and the smallest one that it can have, which
    must not depend on the events that are judged. An event so rare that nothing could show it makes
    the others no less sure (Tarone, Biometrics 46, 1990). `confidence` is the probability that
    chance explains no event of the answer.
    """
    allowed = 1.0 - confidence + _SAME
    among = 1
    while sum(least <= allowed / among for _, least in probabilities.values()) > among:
        among += 1
    able = {event: p for event, (p, least) in probabilities.items() if least <= allowed / among}
    return {event for event, p in zip(able, holm([*able.values()]), strict=True) if p <= allowed}


def holm(probabilities: Sequence[float]) -> list[float]:
    """Probabilities that hold for all of them together (Holm 1979), in their order."""
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    adjusted, largest = [1.0] * len(probabilities), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * probabilities[place]))
        adjusted[place] = largest
    return adjusted


def _growth(of_logarithm: float) -> float:
    return expm1(of_logarithm) if of_logarithm < 700.0 else inf


def _towards(value: float) -> Literal["more", "less", ""]:
    return "more" if value > 0.0 else "less" if value < 0.0 else ""


def _probability(mean_difference: float, error: float, degrees: float, open_: float) -> float:
    """The level at which the interval would just reach 0."""
    from scipy.special import stdtr

    beyond = mean_difference * mean_difference - open_ * open_ * (1.0 + _SAME)
    if beyond <= 0.0:
        return 1.0
    return 2.0 * float(stdtr(degrees, -sqrt(beyond) / error)) if error > 0.0 else 0.0


def _numbers(side: Sequence[Measurand]) -> list[float] | None:
    """The numbers; None when one is a bound only."""
    numbers = [m.value for m in side if m.is_bounded and m.value is not None]
    return numbers if len(numbers) == len(side) else None


def _open(side: Sequence[Measurand], *, relative: bool) -> float:
    """What each measurement leaves open, on average; of logarithms where it is relative."""
    if not relative:
        return fmean(m.high - m.low for m in side)
    return fmean(log1p((m.high - m.low) / m.value) if m.value else 0.0 for m in side)


def _least_error(
    first: Sequence[Measurand], second: Sequence[Measurand], *, relative: bool
) -> float:
    """Standard error of a difference of means that searches of some width have at the least.

    Searches that all stop on one rung show no variance, and yet each leaves its value open by a
    width: as a rectangular distribution (GUM, 4.3.7), width / sqrt(12) for each deployment.
    """
    parts = (_open(side, relative=relative) / sqrt(12.0 * len(side)) for side in (first, second))
    return hypot(*parts)


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom."""
    parts = [variance(side) / len(side) for side in (a, b)]
    total = sum(parts)
    if total <= 0.0:
        return 0.0, float(len(a) + len(b) - 2)
    shares = [part / total for part in parts]  # of 0..1, whose squares do not underflow
    weights = zip(shares, (a, b), strict=True)
    return sqrt(total), 1.0 / sum(s * s / (len(side) - 1) for s, side in weights)


def _by_ranks(first: Sequence[Measurand], second: Sequence[Measurand]) -> Difference:
    """Gehan's generalised Wilcoxon test by permutation: a limit counts for what it excludes."""
    measurements = [*first, *second]
    scores = [
        fsum(_order(other, measurand) for other in measurements) for measurand in measurements
    ]
    chosen = fsum(scores[len(first) :])
    sums = _sums(tuple(scores), len(second))
    p = sum(abs(total) >= abs(chosen) - _SAME for total in sums) / len(sums)
    n = (len(first), len(second))
    return Difference(None, -inf, inf, n, "ranks", p=p, towards=_towards(chosen))


def _order(first: Measurand, second: Measurand) -> int:
    """1 where the other is surely larger, -1 where it is surely smaller."""
    if second.low > first.high or (second.low == first.high != first.low):
        return 1
    return -1 if first.low > second.high or (first.low == second.high != second.low) else 0


@lru_cache(maxsize=64)
def _sums(scores: tuple[float, ...], size: int) -> tuple[float, ...]:
    """Sums of scores that the second side could have had, were both equal."""
    if comb(len(scores), size) <= _MOST_DIVISIONS:
        return tuple(fsum(some) for some in combinations(scores, size))
    draw = random.Random(_SEED)  # noqa: S311 - no secret
    drawn = [fsum(draw.sample(scores, size)) for _ in range(_MOST_DIVISIONS)]
    return (*drawn, fsum(scores[-size:]))  # what was seen is one of them
