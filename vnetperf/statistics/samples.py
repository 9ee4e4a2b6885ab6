"""Statistics of one sample: percentiles, intervals, modes and outliers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from math import ceil, cos, exp, expm1, fsum, isfinite, lgamma, log, log1p, pi, sqrt
from statistics import fmean, median, stdev

from vnetperf.model.outcomes import Spread

_TINY = 1e-300
_EXACT = 1e-15
#: Above this the continued fraction takes long, and the integrand is a bell that few points meet.
_LARGE = 3000.0
_POINTS = 24


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, I_x(a, b)."""
    if not (a > 0 and b > 0 and 0.0 <= x <= 1.0 and isfinite(a) and isfinite(b)):
        raise ValueError(f"no beta function of a={a:g}, b={b:g}, x={x:g}")
    if x in (0.0, 1.0):
        return x
    if a > _LARGE and b > _LARGE:
        return _by_quadrature(a, b, x)
    front = exp(_log_density(a, b, x))
    if x < (a + 1.0) / (a + b + 2.0):  # on this side the fraction converges quickly
        return min(front * _fraction(a, b, x) / a, 1.0)
    return max(1.0 - front * _fraction(b, a, 1.0 - x) / b, 0.0)


def _log_density(a: float, b: float, x: float) -> float:
    """Logarithm of x^a (1-x)^b / B(a, b)."""
    return lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, _away(1.0 - (a + b) * x / (a + 1.0))
    value = d = 1.0 / d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _away(1.0 + term * d)
            c = _away(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < _EXACT:
            break
    return value


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _by_quadrature(a: float, b: float, x: float) -> float:
    """The integral of the density from x to where it is nothing any more."""
    mean, deviation = a / (a + b), sqrt(a * b / ((a + b) ** 2 * (a + b + 1.0)))
    above = x > mean
    far = mean + 12.0 * deviation if above else mean - 12.0 * deviation
    far = min(max(far, 0.0), 1.0)
    if (above and x >= far) or (not above and x <= far):
        return 1.0 if above else 0.0
    half, middle = (far - x) / 2.0, (far + x) / 2.0
    total = 0.0
    for node, weight in _legendre(_POINTS):
        at = middle + half * node
        if 0.0 < at < 1.0:
            total += weight * exp(_log_density(a, b, at) - log(at) - log1p(-at))
    tail = total * half
    return 1.0 - tail if above else -tail


@lru_cache(maxsize=2)
def _legendre(n: int) -> tuple[tuple[float, float], ...]:
    """Nodes and weights of Gauss and Legendre on -1..1."""
    found = []
    for i in range(n):
        x, slope = cos(pi * (i + 0.75) / (n + 0.5)), 1.0
        for _ in range(50):
            p, before = 1.0, 0.0
            for k in range(n):
                p, before = ((2 * k + 1) * x * p - k * before) / (k + 1), p
            slope = n * (x * p - before) / (x * x - 1.0)
            x, step = x - p / slope, p / slope
            if abs(step) < _EXACT:
                break
        found.append((x, 2.0 / ((1.0 - x * x) * slope * slope)))
    return tuple(found)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Where the beta distribution reaches a probability."""
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"{probability:g} is no probability")
    if probability in (0.0, 1.0):
        return probability
    low, high = 0.0, 1.0
    while high - low > 1e-13 * high and high > _TINY:
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if incomplete_beta(a, b, middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


@lru_cache(maxsize=256)
def t_quantile(probability: float, degrees: float) -> float:
    """Where Student's t distribution reaches a probability."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"{probability:g} is no probability between 0 and 1")
    if probability < 0.5:
        return -t_quantile(1.0 - probability, degrees)
    if probability == 0.5:
        return 0.0
    # x = t^2 / (degrees + t^2) is beta distributed with 1/2 and degrees/2.
    x = 1.0 - beta_quantile(2.0 * (1.0 - probability), degrees / 2.0, 0.5)
    return sqrt(degrees * x / (1.0 - x))


def clopper_pearson(lost: int, offered: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a loss ratio, for frames lost independently of each other.

    It never covers less often than it says. Losses in bursts are not independent: then it is
    narrower than the truth.
    """
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
    low = beta_quantile(tail, lost, offered - lost + 1)
    high = beta_quantile(1.0 - tail, lost + 1, offered - lost)
    return low, high


def percentiles(pairs: Iterable[tuple[int, int]], wanted: Iterable[float]) -> dict[str, float]:
    """The nearest-rank percentiles of a histogram."""
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
    """Values far from the others, by the median of the distances to the median."""
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


#: From this number of values on their shape can be seen, and resampled.
_SHAPE_FROM = 15
#: A skewness that one normal sample of a hundred has at that number.
_SKEWED = 1.3
_RESAMPLES = 2000
_SEED = 2544


def spread(values: Sequence[float], *, confidence: float = 0.95, resolution: float = 0.0) -> Spread:
    """Describe a quantity that was measured several times.

    The interval is that of the mean: Student's t, or of many skewed values a studentised bootstrap
    with a fixed seed, so that the same values always give the same interval.
    """
    if not values or not all(map(isfinite, values)):
        raise ValueError("a spread needs values, all of them finite")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"{confidence:g} is no level of confidence between 0 and 1")
    n = len(values)
    # Rounding may put the mean of equal values beside them.
    mean = min(max(fmean(values), min(values)), max(values))
    modes = two_modes(values, resolution)
    known = Spread(
        n=n,
        mean=mean,
        median=median(values),
        minimum=min(values),
        maximum=max(values),
        confidence=confidence,
        modes=modes,
        outliers=outliers(values, modes),
        values=tuple(values),
    )
    if n == 1:
        return known
    deviation = stdev(values) if known.minimum < known.maximum else 0.0
    found = None
    if n >= _SHAPE_FROM and abs(_skewness(values, mean, deviation)) > _SKEWED:
        found = _bootstrap(values, mean, deviation, confidence)
    reach = t_quantile((1.0 + confidence) / 2.0, n - 1) * deviation
    half, further = reach / sqrt(n), reach * sqrt(1.0 + 1.0 / n)
    low, high = found or (mean - half, mean + half)
    return known.model_copy(
        update={
            "stdev": deviation,
            "low": low,
            "high": high,
            "next_low": mean - further,
            "next_high": mean + further,
            "method": "bootstrap" if found else "t",
        }
    )


def _skewness(values: Sequence[float], mean: float, deviation: float) -> float:
    if deviation == 0.0:
        return 0.0
    return fsum(((v - mean) / deviation) ** 3 for v in values) / len(values)


def _bootstrap(
    values: Sequence[float], mean: float, deviation: float, confidence: float
) -> tuple[float, float] | None:
    """The studentised interval; None where too many resamples have no spread of their own."""
    draw, n = random.Random(_SEED), len(values)  # noqa: S311 - no secret
    ratios = []
    for _ in range(_RESAMPLES):
        sample = draw.choices(values, k=n)
        middle = fsum(sample) / n
        squares = fsum((v - middle) ** 2 for v in sample)
        if squares > 0.0:
            ratios.append((middle - mean) / sqrt(squares / (n - 1) / n))
    if len(ratios) < 0.99 * _RESAMPLES:
        return None
    ratios.sort()
    tail = round((1.0 - confidence) / 2.0 * len(ratios))
    error = deviation / sqrt(n)
    return mean - ratios[-1 - tail] * error, mean - ratios[tail] * error
