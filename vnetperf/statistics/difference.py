"""Whether one quantity, measured on two sides, differs, and by how much at least and at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, inf, isfinite, sqrt
from statistics import fmean, variance
from typing import Literal

from vnetperf.statistics.samples import t_quantile


@dataclass(frozen=True, slots=True)
class Measurand:
    """One measurement, and the range that it leaves open by itself.

    Attributes:
        value: The number; None where there are bounds only.
        low: Lower end of what it leaves open: of a search, the load that was carried.
        high: Upper end: of a search, the load that was not; infinite for "at least".
    """

    value: float | None
    low: float
    high: float

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
    """What the second side has more than the first.

    Attributes:
        value: Difference of the means; None where a side has no number.
        low: Lower end of its interval; minus infinity where nothing bounds it.
        high: Upper end.
        n: Measurements of the first and of the second side.
        method: "paired" or "welch": t interval, widened by what a single measurement leaves open;
            "bounds": what single measurements leave open, without any repeats; "none": one exact
            measurement each, of which nobody knows how it repeats.
    """

    value: float | None
    low: float
    high: float
    n: tuple[int, int]
    method: Literal["paired", "welch", "bounds", "none"]

    @property
    def seen(self) -> Literal["more", "less", ""]:
        """Which way the second side differs; "" when the interval holds 0."""
        return "more" if self.low > 0 else "less" if self.high < 0 else ""


def difference(
    first: Sequence[Measurand],
    second: Sequence[Measurand],
    *,
    paired: bool = False,
    confidence: float = 0.95,
) -> Difference:
    """Compare two sides."""
    if not first or not second:
        raise ValueError("both sides need a measurement")
    if paired and len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} measurements make no pairs")
    n = (len(first), len(second))
    a, b = _numbers(first), _numbers(second)
    if a is None or b is None or min(n) < 2:
        return _by_bounds(first, second)
    if paired:
        deltas = [y - x for x, y in zip(a, b, strict=True)]
        error, degrees = sqrt(variance(deltas) / len(deltas)), len(deltas) - 1.0
    else:
        error, degrees = _welch(a, b)
    half = t_quantile((1.0 + confidence) / 2.0, degrees) * error
    # Searches that stop at the same two loads each time leave more open than their repeats show.
    half = hypot(half, max(_open(first), _open(second)))
    value = fmean(b) - fmean(a)
    return Difference(value, value - half, value + half, n, "paired" if paired else "welch")


def _numbers(side: Sequence[Measurand]) -> list[float] | None:
    """The numbers; None when one is a bound only."""
    found = [m.value for m in side if m.is_bounded and m.value is not None]
    return found if len(found) == len(side) else None


def _open(side: Sequence[Measurand]) -> float:
    return fmean(m.high - m.low for m in side)


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom."""
    parts = [variance(side) / len(side) for side in (a, b)]
    total = sum(parts)
    if total <= 0.0:
        return 0.0, float(len(a) + len(b) - 2)
    shares = [part / total for part in parts]  # of 0..1, whose squares do not underflow
    weights = zip(shares, (a, b), strict=True)
    return sqrt(total), 1.0 / sum(s * s / (len(side) - 1) for s, side in weights)


def _by_bounds(first: Sequence[Measurand], second: Sequence[Measurand]) -> Difference:
    n = (len(first), len(second))
    value = None
    known = [[m.value for m in side if m.value is not None] for side in (first, second)]
    if all(known):
        value = fmean(known[1]) - fmean(known[0])
    if all(m.low == m.high for m in (*first, *second)):
        return Difference(value, -inf, inf, n, "none")
    low = min(m.low for m in second) - max(m.high for m in first)
    high = max(m.high for m in second) - min(m.low for m in first)
    return Difference(value, low, high, n, "bounds")
