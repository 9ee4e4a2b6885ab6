"""Scales of a plot: from a value to a place on the page, and the ticks a reader needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class Scale(Protocol):
    """Maps values to coordinates."""

    @property
    def log(self) -> bool:
        """True when equal distances are equal ratios."""

    def __call__(self, value: float) -> float:
        """The coordinate of a value.

        Args:
            value: The value.

        Returns:
            The coordinate in units of the drawing.
        """

    def ticks(self) -> Sequence[float]:
        """Values worth a grid line.

        Returns:
            Rising values within the range.
        """


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal distances are equal differences.

    Attributes:
        low: Smallest value.
        high: Largest value.
        start: Coordinate of ``low``.
        end: Coordinate of ``high``.
        count: About how many ticks.
    """

    low: float
    high: float
    start: float
    end: float
    count: int = 5

    @property
    def log(self) -> bool:
        """False."""
        return False

    def __call__(self, value: float) -> float:
        """See :class:`Scale`."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """See :class:`Scale`."""
        step = _nice((self.high - self.low) / self.count)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Log:
    """Equal distances are equal ratios.

    Attributes:
        low: Smallest value, above zero.
        high: Largest value.
        start: Coordinate of ``low``.
        end: Coordinate of ``high``.
    """

    low: float
    high: float
    start: float
    end: float

    @property
    def log(self) -> bool:
        """True."""
        return True

    def __call__(self, value: float) -> float:
        """See :class:`Scale`."""
        span = math.log10(self.high / self.low)
        ratio = max(value, self.low) / self.low
        return self.start + math.log10(ratio) / span * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """See :class:`Scale`; 1, 2, 5 within few decades, else whole decades."""
        decades = math.log10(self.high / self.low)
        steps = (1, 2, 5) if decades <= 2.2 else (1,)
        found = list(self._within(steps))
        return found[:: max(1, math.ceil(len(found) / 9))]

    def _within(self, steps: Iterable[int]) -> Iterator[float]:
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for step in steps:
                value = step * 10.0**power
                if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9):
                    yield value


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= step * 0.999)


def fitting(
    values: Iterable[float], start: float, end: float, *, ratio: float, zero: bool
) -> Scale:
    """A linear scale, or a logarithmic one where the range needs it.

    Args:
        values: All values to show.
        start: Coordinate of the low end.
        end: Coordinate of the high end.
        ratio: Largest over smallest from which the scale is logarithmic.
        zero: True when a linear scale starts at zero.

    Returns:
        The scale, with a little room around the values.
    """
    known = [v for v in values if math.isfinite(v) and v > 0] or [1.0]
    low, high = min(known), max(known)
    if high / low >= ratio:
        return Log(low / 1.25, high * 1.25, start, end)
    if zero:
        return Linear(0.0, high * 1.08, start, end)
    room = (high - low) * 0.06 or high * 0.05
    return Linear(max(0.0, low - room), high + room, start, end)


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss ratios on a logarithmic axis with a lane of its own for no loss at all.

    Attributes:
        low: Loss ratio at the foot of the logarithmic part.
        start: Coordinate of 100 % loss.
        end: Coordinate of ``low``.
        zero: Coordinate of the lane of no loss.
    """

    low: float
    start: float
    end: float
    zero: float

    def __call__(self, ratio: float) -> float:
        """The coordinate of a loss ratio, 0..1."""
        if ratio <= 0:
            return self.zero
        share = math.log10(max(ratio, self.low)) / math.log10(self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """Decades from 100 % down to ``low``, thinned out where there are many."""
        powers = range(round(math.log10(self.low)), 1)
        return [10.0**p for p in powers][:: -max(1, math.ceil(len(powers) / 7))]
