"""Strategies that choose the next load for one goal: confirm hints, extend, bisect."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SearchState:
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
        """Tell whether classifying a rung would bring the target nearer."""
        if self.lower is not None and rung <= self.lower:
            return False
        if self.upper is not None and rung >= self.upper:
            return False
        return self.lower is None or self.upper is None or self.upper - self.lower > self.width

    def settle(self, rung: int) -> int:
        """Move a rung away from bounds and limits that it is needlessly close to.

        A trial less than one width from a bound narrows too little; one less than a width from a
        limit of load may as well be at the limit.
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

    def __call__(self, situation: SearchState, /) -> int | None:
        """Choose."""


def split(lower: int, upper: int, width: int) -> int:
    """Halve an interval so that later halvings come out even.

    An interval of width x 2^k needs k more trials, one that is a little wider needs k + 1. So one
    part is made such an interval, as near to the half as possible. The smaller part is the lower
    one: an answer that errs, errs towards less load.
    """
    span = upper - lower
    if span < 2 * width:
        return lower + max(1, span // 2)
    power = max(0, int(log2(span / width)) - 1)
    parts = (width << power, width << (power + 1))
    part = max(parts, key=lambda rungs: rungs * (span - rungs))
    return lower + min(part, span - part)


def confirm_hints(situation: SearchState) -> int | None:
    """Choose a hint itself, the lower one first.

    The lower one is the answer if it holds, so it is worth most; and a load that proves too much
    there makes the upper hint needless.
    """
    for hint in (situation.hint_low, situation.hint_high):
        if hint is not None and situation.is_worth(hint):
            return hint
    return None


def extend_hints(situation: SearchState) -> int | None:
    """Step away from the one bound there is, twice as far from the hint each time.

    The first step is one width: longer trials mostly move the answer by little, and a bound so
    found needs no halving.
    """
    lower, upper = situation.lower, situation.upper
    if lower is None and upper is not None and upper > 0:
        return situation.settle(step_down(situation, upper))
    if upper is None and lower is not None and lower < situation.top:
        return situation.settle(step_up(situation, lower))
    return None


def step_down(situation: SearchState, upper: int) -> int:
    """One step below an upper bound, as wide as what has been crossed since the hint."""
    hint = upper if situation.hint_low is None else situation.hint_low
    return upper - max(situation.width, hint - upper)


def step_up(situation: SearchState, lower: int) -> int:
    """One step above a lower bound, as wide as what has been crossed since the hint."""
    hint = lower if situation.hint_high is None else situation.hint_high
    return lower + max(situation.width, lower - hint)


def bisect_bounds(situation: SearchState) -> int | None:
    """Choose the middle of the bounds, or one step from a hint that has just been passed.

    One of the bounds may have come from trials for another goal and be far off. A hint that longer
    trials moved is mostly off by a width, so the first step beyond it is that short. If the answer
    is not there either, the hint was of no use, and halving costs less than further steps.
    """
    lower, upper, width = situation.lower, situation.upper, situation.width
    if lower is None or upper is None or upper - lower <= width:
        return None
    middle = split(lower, upper, width)
    low, high = situation.hint_low, situation.hint_high
    if low is not None and 0 <= low - upper < width:
        middle = max(middle, situation.settle(step_down(situation, upper)))
    elif high is not None and 0 <= lower - high < width:
        middle = min(middle, situation.settle(step_up(situation, lower)))
    return middle


#: Tried in this order until one names a load.
STRATEGIES: tuple[Strategy, ...] = (confirm_hints, extend_hints, bisect_bounds)
