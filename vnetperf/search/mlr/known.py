"""What a goal's trials amount to when there was no time for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vnetperf.model.goal import SearchGoal
from vnetperf.search.base import GoalResult
from vnetperf.search.classify import Criterion
from vnetperf.search.session import Session

#: Bounds from longer trials are preferred to others from shorter ones unless so much wider.
_WIDER = 4.0


def best_known(
    goal: SearchGoal, ladder: Sequence[Criterion], session: Session, stopped: str
) -> GoalResult:
    """The result of a goal, from the longest trials that have told anything of use.

    Args:
        goal: The goal.
        ladder: Its targets, with less trial time first and the goal itself last.
        session: The search.
        stopped: Why it ended early; empty if it ran to its end.

    Returns:
        The goal's own result if it was reached. Otherwise that of a target on the way to it,
        irregular, whose trial time stands in `GoalResult.goal` and in the reason.
    """
    own = session.result(goal, stopped)
    if not stopped or own.regular or own.at_least or own.at_most:
        return own
    lesser = (session.result(_lesser(goal, target), stopped) for target in ladder[-2::-1])
    found = [own, *(result for result in lesser if not _is_refuted(result, own))]
    chosen = _choose(found, own, goal.width)
    if chosen is own:
        return own
    return replace(chosen, regular=False, reason=_reason(chosen, goal, stopped))


def _lesser(goal: SearchGoal, target: Criterion) -> SearchGoal:
    return replace(
        goal,
        initial_trial_s=min(goal.initial_trial_s, target.trial_s),
        final_trial_s=target.trial_s,
        duration_sum_s=target.duration_sum_s,
    )


def _is_refuted(result: GoalResult, own: GoalResult) -> bool:
    """Whether its lower bound is known to be too much for the goal itself."""
    lower, upper = result.relevant_lower_bound, own.relevant_upper_bound
    return lower is not None and upper is not None and lower.load_fps >= upper.load_fps


def _choose(found: Sequence[GoalResult], own: GoalResult, width: float) -> GoalResult:
    """The first, as longest trials come first, that is not much wider than another."""
    widths = [result.relative_width for result in found]
    known = [each for each in widths if each is not None]
    if known:
        enough = max(width, _WIDER * min(known))
        return next(
            result
            for result, each in zip(found, widths, strict=True)
            if each is not None and each <= enough
        )
    one_sided = (result for result in found if _says_anything(result))
    return next(one_sided, own)


def _says_anything(result: GoalResult) -> bool:
    return result.relevant_lower_bound is not None or result.relevant_upper_bound is not None


def _reason(chosen: GoalResult, goal: SearchGoal, stopped: str) -> str:
    by = chosen.goal
    asked = f"{goal.final_trial_s:g} s, {goal.duration_sum_s:g} s at a load"
    text = f"an estimate by trials of {by.final_trial_s:g} s, {by.duration_sum_s:g} s at a load"
    width = chosen.relative_width
    if width is not None:
        text += f", bounds {width:.3%} apart"
    elif chosen.at_least:
        text += ", which carried the maximum load: the limit is not the DUT's"
    elif chosen.at_most:
        text += ", at which the minimum load was too much"
    return f"{text}, where {asked} are asked for: {stopped}"
