"""What several measurements of one quantity say of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import fsum, isfinite, sqrt
from statistics import fmean, median, stdev

from vnetperf.model.outcomes import Spread
from vnetperf.statistics.groups import outliers, two_modes
from vnetperf.statistics.quantiles import t_quantile

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

    Args:
        values: The values in the order measured.
        confidence: Level of the interval, above 0 and below 1.
        resolution: Step or width of what measured them: no two modes are seen within it.

    Returns:
        All of it; no value is dropped.

    Raises:
        ValueError: No value, one that is not finite, or no level.
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
