"""What a strategy sees, and the arithmetic of rungs that strategies share."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Situation:
    """A goal's search for its current target, as it stands before the next trial."""

    width: int
    """Rungs between the bounds at which the target is reached."""

    lower: int | None
    """Relevant lower bound of the target."""

    upper: int | None
    """Relevant upper bound of the target."""

    hint_low: int | None
    """Lower bound that shorter trials gave before; None if they found none."""

    hint_high: int | None
    """Upper bound that shorter trials gave before; None if they found none."""

    top: int
    """Rung of the maximum load; the minimum load is rung 0."""

    def is_worth(self, rung: int) -> bool:
        """Tell whether classifying a rung would bring the target nearer.

        Args:
            rung: A rung of the grid.

        Returns:
            False if it is not strictly between the bounds, or these are narrow enough already.
        """
        if self.lower is not None and rung <= self.lower:
            return False
        if self.upper is not None and rung >= self.upper:
            return False
        return self.lower is None or self.upper is None or self.upper - self.lower > self.width

    def settle(self, rung: int) -> int:
        """Move a rung away from bounds and limits that it is needlessly close to.

        A trial less than one width from a bound narrows too little; one less than a width from a
        limit of load may as well be at the limit.

        Args:
            rung: A rung, may be beyond the limits.

        Returns:
            A rung within the limits and strictly between the bounds, if these leave one.
        """
        floor = 0 if self.lower is None else self.lower
        ceiling = self.top if self.upper is None else self.upper
        if self.lower is not None and self.upper is not None and ceiling - floor < 2 * self.width:
            return (floor + ceiling) // 2
        if rung - floor < self.width:
            rung = floor if self.lower is None else floor + self.width
        if ceiling - rung < self.width:
            rung = ceiling if self.upper is None else ceiling - self.width
        lowest = 0 if self.lower is None else floor + 1
        highest = self.top if self.upper is None else ceiling - 1
        return max(lowest, min(highest, rung))


class Strategy(Protocol):
    """One way to choose the next load for one goal."""

    def __call__(self, situation: Situation, /) -> int | None:
        """Choose.

        Args:
            situation: The goal's search as it stands.

        Returns:
            A rung that is worth it, or None if this strategy has nothing to say.
        """


def split(lower: int, upper: int, width: int) -> int:
    """Halve an interval so that later halvings come out even.

    An interval of width x 2^k needs k more trials, one that is a little wider needs k + 1. So one
    part is made such an interval, as near to the half as possible. The smaller part is the lower
    one: an answer that errs, errs towards less load.

    Args:
        lower: Rung of the lower bound.
        upper: Rung of the upper bound, more than `width` above.
        width: Rungs at which the interval is narrow enough.

    Returns:
        A rung strictly between the bounds.
    """
    span = upper - lower
    if span < 2 * width:
        return lower + max(1, span // 2)
    power = max(0, int(log2(span / width)) - 1)
    parts = (width << power, width << (power + 1))
    part = max(parts, key=lambda rungs: rungs * (span - rungs))
    return lower + min(part, span - part)
