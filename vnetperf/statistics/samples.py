"""Statistics of one sample: percentiles, intervals, modes and outliers.

numpy and scipy are imported where they are used: collecting tests must not wait for them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import ceil, exp, expm1, fsum, inf, isfinite, log, sqrt
from statistics import fmean, median, stdev

from vnetperf.model.outcomes import Spread

#: Names of figures of a distribution that are no percentiles.
_MOMENTS = ("min", "mean", "max")


@lru_cache(maxsize=256)
def t_quantile(probability: float, degrees: float) -> float:
    """Where Student's t distribution reaches a probability."""
    from scipy.special import stdtrit

    if not 0.0 < probability < 1.0:
        raise ValueError(f"{probability:g} is no probability between 0 and 1")
    return float(stdtrit(degrees, probability))


def clopper_pearson(lost: int, offered: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a loss ratio, for frames lost independently of each other.

    It never covers less often than its level. Losses in bursts are not independent: then it is
    narrower than the truth, and `trial_loss_interval` holds. Trials are.
    """
    from scipy.special import betaincinv

    if not 0.0 < confidence < 1.0:
        raise ValueError(f"{confidence:g} is no level of confidence between 0 and 1")
    if not 0 <= lost <= offered:
        raise ValueError(f"{lost} lost of {offered} offered is no share")
    if offered == 0:
        return 0.0, 1.0
    tail = (1.0 - confidence) / 2.0
    none_seen, all_seen = -expm1(log(tail) / offered), exp(log(tail) / offered)
    if lost == 0:
        return 0.0, none_seen
    if lost == offered:
        return all_seen, 1.0
    low = betaincinv(lost, offered - lost + 1, tail)
    high = betaincinv(lost + 1, offered - lost, 1.0 - tail)
    return float(low), float(high)


#: From so many trials on, all of which lost frames, their mean is distributed as t assumes.
_MANY_TRIALS = 10


def trial_loss_interval(
    lost: Sequence[int], confidence: float = 0.95
) -> tuple[float, float] | None:
    """The interval of the frames lost in trials like these; None where none lost any.

    Losses come in events, so that frames are not independent; trials are taken to be. Trials with
    loss happen like events of a Poisson process, each with its own loss: the gamma interval of Fay
    and Feuer (Statistics in Medicine 16, 1997, 791-801) for a weighted sum of them. Where every one
    of many trials lost frames, Student's t of the trials.
    """
    from scipy.special import chdtri

    if not 0.0 < confidence < 1.0:
        raise ValueError(f"{confidence:g} is no level of confidence between 0 and 1")
    lossy = [count for count in lost if count]
    if not lossy:
        return None
    if len(lossy) == len(lost) >= _MANY_TRIALS:
        mean = spread([float(count) for count in lost], confidence=confidence)
        low = mean.mean if mean.low is None else mean.low
        high = mean.mean if mean.high is None else mean.high
        return max(0.0, low) * len(lost), high * len(lost)
    tail = (1.0 - confidence) / 2.0
    # Relative to the largest, so that squares of large numbers keep their digits.
    largest = max(lossy)
    total = fsum(count / largest for count in lossy)
    squares = fsum((count / largest) ** 2 for count in lossy)
    low = squares / (2 * total) * chdtri(2 * total**2 / squares, 1 - tail)
    next_total, next_squares = total + 1, squares + 1
    high = next_squares / (2 * next_total) * chdtri(2 * next_total**2 / next_squares, tail)
    return largest * float(low), largest * float(high)


def most_events_unseen() -> float:
    """Events of a Poisson process that are expected at most (95 %) where none was seen."""
    return -log((1.0 - 0.95) / 2.0)


def contradiction(times: Mapping[str, float], slack: float = 0.0) -> str:
    """Why figures cannot be of one distribution: "mean 50 below min 100"; "" where they can be.

    Args:
        times: "min", "mean", "max" and percentiles "50" ..., in one unit; any of them may lack.
        slack: Share by which a figure may be off, of one that was read from coarse buckets.
    """
    for name, value in times.items():
        if not isfinite(value) or value < 0:
            return f"{name} {value:g}"
    ranked = sorted((name for name in times if name not in _MOMENTS), key=float)
    for order in (("min", *ranked, "max"), ("min", "mean", "max")):
        present = [name for name in order if name in times]
        for less, greater in pairwise(present):
            if times[greater] * (1 + slack) < times[less]:
                return f"{greater} {times[greater]:g} below {less} {times[less]:g}"
    return ""


def nearest_rank(total: int, level: float) -> int:
    """Which of so many ordered values is a percentile, from 1."""
    # Multiplied first: 99.9 % of 1000 is 999, whatever binary fractions make of 0.999.
    return max(1, ceil(total * level / 100))


def percentiles(pairs: Iterable[tuple[float, int]], levels: Iterable[float]) -> dict[str, float]:
    """The nearest-rank percentiles of a histogram."""
    buckets = list(pairs)
    total = sum(count for _, count in buckets)
    ranks = [(p, nearest_rank(total, p)) for p in sorted(levels)]
    values_by_level: dict[str, float] = {}
    upto = 0
    for value, count in buckets:
        upto += count
        while ranks and upto >= ranks[0][1]:
            values_by_level[f"{ranks.pop(0)[0]:g}"] = float(value)
    return values_by_level


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
    """
    n, ordered = len(values), sorted(values)
    if n < _ONE_MODE[0][0] or ordered[0] == ordered[-1]:
        return ()
    import numpy as np

    sizes, shares = zip(*_ONE_MODE, strict=True)
    allowed = float(np.interp(n, sizes, shares))
    least = max(2, -(-n // 5))
    middle = fmean(ordered)
    shifted = [v - middle for v in ordered]  # sums of squares of large numbers would cancel
    sums = [0.0, *accumulate(shifted)]
    squares = [0.0, *accumulate(v * v for v in shifted)]

    def inside(begin: int, end: int) -> float:
        total = sums[end] - sums[begin]
        return squares[end] - squares[begin] - total * total / (end - begin)

    split = min(range(least, n - least + 1), key=lambda i: inside(0, i) + inside(i, n))
    if inside(0, split) + inside(split, n) > allowed * squares[n]:
        return ()
    low, high = fmean(ordered[:split]), fmean(ordered[split:])
    return (low, high) if high - low > 2.0 * resolution else ()


def outliers(values: Sequence[float], modes: Sequence[float] = ()) -> tuple[int, ...]:
    """Values far from the others, by the median of the distances to the median."""
    groups: dict[int, list[int]] = {}
    for place, value in enumerate(values):
        near = min(range(len(modes)), key=lambda m: abs(value - modes[m])) if modes else 0
        groups.setdefault(near, []).append(place)
    far_places = (_far(values, places) for places in groups.values())
    return tuple(sorted(place for places in far_places for place in places))


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


#: From this number of values on their shape can be seen, and resampled.
_SHAPE_FROM = 15
#: A skewness that one normal sample of a hundred has at that number.
_SKEWED = 1.3
_RESAMPLES = 2000
_SEED = 2544


#: Up to this number of values their extremes are shown, and no interval: it would say more than
#: they do.
EXTREMES_UP_TO = 3
#: Largest power of e that is taken: beyond it a float overflows.
_LARGEST_POWER = 300.0


def spread(values: Sequence[float], *, confidence: float = 0.95, resolution: float = 0.0) -> Spread:
    """Describe a quantity that was measured several times.

    The interval is that of the mean: Student's t, of its logarithm where all values are positive,
    so that it holds no impossible value; of many skewed values a studentised bootstrap with a fixed
    seed, so that the same values always give the same interval. Three values or fewer have none.
    """
    if not values or not all(map(isfinite, values)):
        raise ValueError("a spread needs values, all of them finite")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"{confidence:g} is no level of confidence between 0 and 1")
    n = len(values)
    # Rounding may put the mean of equal values beside them.
    mean = min(max(fmean(values), min(values)), max(values))
    modes = two_modes(values, resolution)
    deviation = stdev(values) if n > 1 and min(values) < max(values) else 0.0
    summary = Spread(
        n=n,
        mean=mean,
        median=median(values),
        minimum=min(values),
        maximum=max(values),
        stdev=deviation if n > 1 else None,
        confidence=confidence,
        modes=modes,
        outliers=outliers(values, modes),
        values=tuple(values),
    )
    if n <= EXTREMES_UP_TO:
        return summary
    bootstrapped, (ends, next_ends) = None, _t_intervals(values, mean, deviation, confidence)
    if n >= _SHAPE_FROM and abs(_skewness(values, mean, deviation)) > _SKEWED:
        bootstrapped = _bootstrap(values, mean, deviation, confidence)
    low, high = bootstrapped or ends
    return summary.model_copy(
        update={
            "low": low,
            "high": high,
            "next_low": next_ends[0],
            "next_high": next_ends[1],
            "method": "bootstrap" if bootstrapped else "log-t" if summary.minimum > 0.0 else "t",
        }
    )


def _t_intervals(
    values: Sequence[float], mean: float, deviation: float, confidence: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Student's t interval of the mean, and that of one further value."""
    n = len(values)
    quantile = t_quantile((1.0 + confidence) / 2.0, n - 1)
    shares = sqrt(1.0 / n), sqrt(1.0 + 1.0 / n)
    if deviation == 0.0:
        return (mean, mean), (mean, mean)
    if min(values) <= 0.0:
        least = 0.0 if min(values) >= 0.0 else -inf  # what is never below 0 is not expected there
        reach = quantile * deviation
        of_mean, of_next = ((max(least, mean - reach * s), mean + reach * s) for s in shares)
        return of_mean, of_next
    # The mean's interval comes from its logarithm (delta method), so that it is the mean's own and
    # above 0. The interval of one further value comes from the logarithms of all.
    share = min(quantile * deviation * shares[0] / mean, _LARGEST_POWER)
    low, high = mean * exp(-share), mean * exp(share)
    logs = [log(v) for v in values]
    middle, reach = fmean(logs), quantile * stdev(logs) * shares[1]
    next_high = exp(min(middle + reach, _LARGEST_POWER))
    return (low, high), (min(low, exp(middle - reach)), max(high, next_high))


def _skewness(values: Sequence[float], mean: float, deviation: float) -> float:
    if deviation == 0.0:
        return 0.0
    return fsum(((v - mean) / deviation) ** 3 for v in values) / len(values)


def _bootstrap(
    values: Sequence[float], mean: float, deviation: float, confidence: float
) -> tuple[float, float] | None:
    """The studentised interval; None where too many resamples have no spread of their own."""
    import numpy as np

    draw, n = random.Random(_SEED), len(values)  # noqa: S311 - no secret
    resampled = np.array(draw.choices(values, k=_RESAMPLES * n)).reshape(_RESAMPLES, n)
    varied = resampled[np.ptp(resampled, axis=1) > 0.0]
    if len(varied) < 0.99 * _RESAMPLES:
        return None
    errors = np.std(varied, axis=1, ddof=1) / sqrt(n)
    ratios = np.sort((np.mean(varied, axis=1) - mean) / errors)
    tail = round((1.0 - confidence) / 2.0 * len(ratios))
    error = deviation / sqrt(n)
    return mean - float(ratios[-1 - tail]) * error, mean - float(ratios[tail]) * error
