"""Narrow the interval between two bounds."""

from __future__ import annotations

from vnetperf.search.mlr.situation import Situation, split
from vnetperf.search.mlr.strategies.extend import step_down, step_up


def bisect_bounds(situation: Situation) -> int | None:
    """Choose the middle of the bounds, or one step from a hint that has just been passed.

    One of the bounds may have come from trials for another goal and be far off. A hint that longer
    trials moved is mostly off by a width, so the first step beyond it is that short. If the answer
    is not there either, the hint was of no use, and halving costs less than further steps.

    Args:
        situation: The goal's search as it stands.

    Returns:
        A rung, or None if a bound is missing or they are narrow enough.
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
