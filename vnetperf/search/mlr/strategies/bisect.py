"""Narrow the interval between two bounds."""

from __future__ import annotations

from vnetperf.search.mlr.situation import Situation, split
from vnetperf.search.mlr.strategies.extend import step_down, step_up


def bisect_bounds(situation: Situation) -> int | None:
    """Choose the middle of the bounds, or a step from the bound the truth is probably near.

    One of the bounds may have come from trials for another goal and be far off. If the hints say
    that the answer is near the other bound, stepping away from that one is the shorter way.

    Args:
        situation: The goal's search as it stands.

    Returns:
        A rung, or None if a bound is missing or they are narrow enough.
    """
    lower, upper = situation.lower, situation.upper
    if lower is None or upper is None or upper - lower <= situation.width:
        return None
    middle = split(lower, upper, situation.width)
    if situation.hint_low is not None and upper <= situation.hint_low:
        middle = max(middle, situation.settle(step_down(situation, upper)))
    elif situation.hint_high is not None and lower >= situation.hint_high:
        middle = min(middle, situation.settle(step_up(situation, lower)))
    return middle
