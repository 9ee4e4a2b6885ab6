"""Look outside the hints for a bound that is missing."""

from __future__ import annotations

from vnetperf.search.mlr.situation import Situation


def extend_hints(situation: Situation) -> int | None:
    """Step away from the one bound there is, twice as far from the hint each time.

    The first step is one width: longer trials mostly move the answer by little, and a bound so
    found needs no halving.

    Args:
        situation: The goal's search as it stands.

    Returns:
        A rung, or None if both bounds exist, or the one there is is a limit of load.
    """
    lower, upper = situation.lower, situation.upper
    if lower is None and upper is not None and upper > 0:
        return situation.settle(step_down(situation, upper))
    if upper is None and lower is not None and lower < situation.top:
        return situation.settle(step_up(situation, lower))
    return None


def step_down(situation: Situation, upper: int) -> int:
    """One step below an upper bound, as wide as what has been crossed since the hint.

    Args:
        situation: Gives the hint and the least step.
        upper: Rung of the upper bound.

    Returns:
        A rung, may be below the minimum load.
    """
    hint = upper if situation.hint_low is None else situation.hint_low
    return upper - max(situation.width, hint - upper)


def step_up(situation: Situation, lower: int) -> int:
    """One step above a lower bound, as wide as what has been crossed since the hint.

    Args:
        situation: Gives the hint and the least step.
        lower: Rung of the lower bound.

    Returns:
        A rung, may be above the maximum load.
    """
    hint = lower if situation.hint_high is None else situation.hint_high
    return lower + max(situation.width, lower - hint)
