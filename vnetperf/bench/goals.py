"""What a throughput search found, goal by goal, by replaying its trials."""

from __future__ import annotations

from math import isclose

from vnetperf.bench.directions import latency_of, per_direction
from vnetperf.bench.logged import LoggedSearch, LoggedTest, is_valid
from vnetperf.bench.threads import threads_of, uncollected_at
from vnetperf.model.errors import LogError
from vnetperf.model.result import GoalResult
from vnetperf.model.units import l1_bits_per_frame
from vnetperf.results.records import SearchRecord, TrialRecord
from vnetperf.search import GoalResult as SearchGoalResult
from vnetperf.search import SearchOutcome, StopSearch, make_search, replay
from vnetperf.search.base import SAME_RTOL


def outcome_of(logged: LoggedSearch) -> SearchOutcome:
    """Replay a logged search.

    Args:
        logged: The search.

    Returns:
        What it returns; irregular when the log ends before the search does.

    Raises:
        LogError: The log's trials are not those the search asks for.
    """
    return _outcome(logged.begin, logged)


def _outcome(begin: SearchRecord, logged: LoggedTest) -> SearchOutcome:
    search = make_search(begin.algorithm, begin.goals, begin.limits)
    seen = replay(search, logged.valid())
    if seen.outcome is not None:
        return seen.outcome
    why = logged.end.stopped if logged.end is not None else "the run was interrupted"
    try:
        search.throw(StopSearch(why))
    except StopIteration as end:
        outcome: SearchOutcome = end.value
        return outcome
    raise LogError("the search went on after it was stopped", where=begin.algorithm)


def goals_of(begin: SearchRecord, logged: LoggedTest) -> tuple[GoalResult, ...]:
    """The result of a search.

    Args:
        begin: How it was asked for.
        logged: Its trials.

    Returns:
        Bounds of each goal, as the sum over directions and for each direction.

    Raises:
        LogError: The log's trials are not those the search asks for.
    """  # noqa: DOC502
    return tuple(goal_result(found, begin, logged) for found in _outcome(begin, logged).results)


def goal_result(found: SearchGoalResult, begin: SearchRecord, logged: LoggedTest) -> GoalResult:
    """A goal's result as it is told: summed up over directions, with what was seen at its bound.

    Args:
        found: What the search, or who reads its trials, says of the goal.
        begin: How the search was asked for.
        logged: Its trials.

    Returns:
        The result.
    """
    goal, n = found.goal, begin.in_sum
    lower = found.relevant_lower_bound.load_fps if found.relevant_lower_bound else None
    upper = found.relevant_upper_bound.load_fps if found.relevant_upper_bound else None
    there = [] if lower is None else _valid_at(lower, logged)
    conditional = found.conditional_throughput_fps
    reason = "" if found.regular else found.reason
    if found.at_least and begin.limit_reason:
        reason = f"{reason.rstrip('.')}; {begin.limit_reason}"
    return GoalResult(
        name=goal.name,
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        initial_trial_s=goal.initial_trial_s,
        final_trial_s=goal.final_trial_s,
        duration_sum_s=goal.duration_sum_s,
        width=goal.width,
        lower_bound_fps=_times(lower, n),
        upper_bound_fps=_times(upper, n),
        conditional_throughput_fps=_times(conditional, n),
        per_direction=per_direction(there, goal, lower, upper, begin),
        regular=found.regular,
        qualifier="at least" if found.at_least else "at most" if found.at_most else "",
        reason=reason,
        throughput_l1_bps=_times(lower, n * l1_bits_per_frame(begin.size)),
        latency=latency_of(there, begin.ends),
        trials_at_lower_bound=tuple(t.number for t in there),
        threads=threads_of(there),
        uncollected=uncollected_at(there),
    )


def _valid_at(load_fps: float, logged: LoggedTest) -> list[TrialRecord]:
    """The valid trials at a load, as the search tells loads apart."""
    return [
        t
        for t in logged.trials
        if is_valid(t) and isclose(t.spec.load_fps, load_fps, rel_tol=SAME_RTOL)
    ]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
