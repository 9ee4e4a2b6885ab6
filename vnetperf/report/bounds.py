"""Words for a goal's result: the qualifier and the irregular flag never leave the number."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.result import DirectionBound, GoalResult, Result, TrialPoint
from vnetperf.model.trial import Verdict
from vnetperf.report import units_text as text

NO_LOAD_MET = "no load met the goal"
NO_LOAD_FAILED = "no load failed"
NOT_MEASURED = "not measured"
NOT_RECORDED = "unknown: not recorded"


def headline_fps(goal: GoalResult) -> float | None:
    """The number a goal is quoted by.

    Args:
        goal: The goal's result.

    Returns:
        The lower bound, or the upper one when only "at most" can be said; None for neither.
    """
    if goal.lower_bound_fps is None and goal.qualifier == "at most":
        return goal.upper_bound_fps
    return goal.lower_bound_fps


def qualified(goal: GoalResult, *, short: bool = False) -> str:
    """The headline number with its qualifier, e.g. "at least 14.88 Mfps".

    Args:
        goal: The goal's result.
        short: True for a narrow column whose header names the unit.

    Returns:
        Text; says so when no load met the goal.
    """
    value = headline_fps(goal)
    if value is None:
        return NO_LOAD_MET
    number = text.short_fps(value) if short else text.fps(value)
    return f"{goal.qualifier} {number}".strip()


def flag(goal: GoalResult) -> str:
    """The mark of an irregular result.

    Args:
        goal: The goal's result.

    Returns:
        "irregular", or "" when the result is regular.
    """
    return "" if goal.regular else "irregular"


def flag_with_reason(goal: GoalResult) -> str:
    """The mark of an irregular result and why it is one.

    Args:
        goal: The goal's result.

    Returns:
        "irregular: WHY", or "regular".
    """
    if goal.regular:
        return "regular"
    return f"irregular: {goal.reason or 'no reason was recorded'}"


def headline(goal: GoalResult) -> str:
    """The number with qualifier and flag, e.g. "at least 14.88 Mfps (irregular)".

    Args:
        goal: The goal's result.

    Returns:
        Text.
    """
    mark = flag(goal)
    return qualified(goal) + (f" ({mark})" if mark else "")


def hover(about: str, goal: GoalResult) -> str:
    """What the mark of a goal says when it is pointed at.

    Args:
        about: What the result is of: a frame size, a variant.
        goal: The goal's result.

    Returns:
        Three lines: number, upper bound, regular or not and why.
    """
    return (
        f"{about}, {goal.name}: {headline(goal)}\nupper bound: {upper(goal)}\n"
        f"{flag_with_reason(goal)}"
    )


def upper(bound: GoalResult | DirectionBound) -> str:
    """The upper bound.

    Args:
        bound: A goal's result or one direction of it.

    Returns:
        The rate, or that no load failed.
    """
    return NO_LOAD_FAILED if bound.upper_bound_fps is None else text.fps(bound.upper_bound_fps)


def rate(value: float | None) -> str:
    """A rate that may be missing.

    Args:
        value: Frames/s or None.

    Returns:
        The rate, or "not measured".
    """
    return NOT_MEASURED if value is None else text.fps(value)


def share(value: float | None, of: float | None) -> str:
    """A rate as a share of a limit.

    Args:
        value: Frames/s or None.
        of: The limit in frames/s or None.

    Returns:
        Percent, or "not measured".
    """
    return NOT_MEASURED if value is None or not of else text.percent(value / of, 3)


def width(goal: GoalResult) -> float | None:
    """How wide the bounds lie apart, as MLRsearch counts it.

    Args:
        goal: The goal's result.

    Returns:
        (upper - lower) / upper; None unless both bounds exist.
    """
    if goal.lower_bound_fps is None or not goal.upper_bound_fps:
        return None
    return (goal.upper_bound_fps - goal.lower_bound_fps) / goal.upper_bound_fps


def verdicts(result: Result) -> str:
    """How many trials got which verdict.

    Args:
        result: One result.

    Returns:
        "40 VALID, 2 GENERATOR_LIMITED", or "none recorded".
    """
    counts = (f"{n} {v.value}" for v, n in result.verdicts.items() if n)
    return ", ".join(counts) or "none recorded"


def verdict(trial: TrialPoint) -> str:
    """A trial's verdict as a table shows it.

    Args:
        trial: The trial.

    Returns:
        The verdict; a generator that died offered nothing at all, and is told apart from one that
        was too slow.
    """
    if trial.verdict is Verdict.GENERATOR_LIMITED and trial.offered_ratio is None:
        return f"{trial.verdict.value} (generator failed)"
    return trial.verdict.value


def goal_attributes(goal: GoalResult) -> str:
    """Every attribute of a search goal, as MLRsearch asks a report to give them.

    Args:
        goal: The goal's result.

    Returns:
        One line.
    """
    seconds = goal.initial_trial_s
    initial = "" if seconds is None else f"initial trial {text.seconds(seconds)}, "
    return (
        f"loss ratio {text.percent(goal.loss_ratio)}, exceed ratio "
        f"{text.percent(goal.exceed_ratio)}, {initial}final trial "
        f"{text.seconds(goal.final_trial_s)}, duration sum {text.seconds(goal.duration_sum_s)}, "
        f"relative width {text.percent(goal.width)}"
    )


def search_attributes(result: Result) -> str:
    """How a search's loads relate to the rates of its goals.

    Args:
        result: One result.

    Returns:
        One line.
    """
    return (
        f"search {result.algorithm or NOT_RECORDED}, {result.directions} sending interface(s): "
        f"a load is per interface, the rate of a goal their sum (factor {result.in_sum:g})"
    )


def load_range(result: Result, trials: Sequence[TrialPoint]) -> str:
    """Smallest and largest load of a test, frames/s per interface.

    Args:
        result: One result.
        trials: Its trials.

    Returns:
        The limits of a search, or else the loads that were tried.
    """
    tried = [t.load_fps for t in trials]
    low = result.min_load_fps if result.min_load_fps is not None else min(tried, default=None)
    high = result.max_load_fps if result.max_load_fps is not None else max(tried, default=None)
    return rate(low) if low == high else f"{rate(low)} to {rate(high)}"
