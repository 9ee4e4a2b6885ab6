"""Answers a loss goal that was not asked for, by trials that are in the log already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, isclose, log, log1p, sqrt

from vnetperf.bench.goals import goal_result
from vnetperf.bench.logged import LoggedTest
from vnetperf.model.goal import SearchGoal
from vnetperf.model.result import GoalResult
from vnetperf.results.records import SearchRecord
from vnetperf.search import Bound, Measurement
from vnetperf.search import GoalResult as Found
from vnetperf.search.base import SAME_RTOL
from vnetperf.search.classify import (
    Criterion,
    DurationSums,
    LoadClass,
    classify,
    conditional_throughput,
)


@dataclass(frozen=True)
class MissingTrials:
    """Trials that would have to be run.

    Attributes:
        load_fps: Load of each interface, frames/s.
        duration_s: Seconds of each.
        count: How many, at the least.
        why: What they would decide.
        further: Most loads that would have to be tried after it, each in the same way.
    """

    load_fps: float
    duration_s: float
    count: int
    why: str
    further: int = 0

    def __str__(self) -> str:
        trials = "a trial" if self.count == 1 else f"{self.count} trials"
        text = f"{trials} of {self.duration_s:g} s at {self.load_fps:.0f} frames/s per interface"
        more = f", then up to {self.further} further loads" if self.further else ""
        return f"{text}: {self.why}{more}"


@dataclass(frozen=True)
class Answer:
    """What a log says of a goal.

    Attributes:
        result: The goal's bounds; irregular where trials are missing.
        missing: The trials; None when none are.
    """

    result: GoalResult
    missing: MissingTrials | None


@dataclass(frozen=True)
class _Load:
    """All trials at one load."""

    load_fps: float
    trials: tuple[Measurement, ...]
    verdict: LoadClass


def answer(begin: SearchRecord, logged: LoggedTest, goal: SearchGoal) -> Answer:
    """Answer a goal from the trials of a search.

    Args:
        begin: How the search was asked for.
        logged: Its trials.
        goal: The goal, of any loss ratio, width and duration.

    Returns:
        Bounds as a search of that goal would state them after the same trials.
    """
    criterion = Criterion.of_goal(goal)
    loads = _loads((m for _, m in logged.valid()), criterion)
    upper = next((one for one in loads if one.verdict is LoadClass.UPPER), None)
    below = [one for one in loads if upper is None or one.load_fps < upper.load_fps]
    lower = next((one for one in reversed(below) if one.verdict is LoadClass.LOWER), None)
    limits = begin.limits
    at_least = upper is None and lower is not None and _same(lower, limits.max_load_fps)
    at_most = lower is None and upper is not None and _same(upper, limits.min_load_fps)
    missing = None
    if not (at_least or at_most or _is_narrow(lower, upper, goal)):
        missing = _missing(begin, below, lower, upper, goal)
    return Answer(
        goal_result(
            Found(
                goal=goal,
                relevant_lower_bound=_bound(lower),
                relevant_upper_bound=_bound(upper),
                conditional_throughput_fps=_conditional(lower, criterion),
                regular=_is_narrow(lower, upper, goal),
                reason=_reason(missing, at_least=at_least),
                at_least=at_least,
                at_most=at_most,
            ),
            begin,
            logged,
        ),
        missing,
    )


def goals_by_trials(begin: SearchRecord, logged: LoggedTest) -> tuple[GoalResult, ...]:
    """What the trials of a search say of its own goals, whatever the search asks for today.

    Args:
        begin: How it was asked for.
        logged: Its trials.

    Returns:
        The bounds that the search found, as long as loads are classified as they were then.
    """
    found = (answer(begin, logged, goal).result for goal in begin.goals)
    return tuple(r.model_copy(update={"reason": ""}) if r.regular else r for r in found)


def _loads(trials: Iterable[Measurement], criterion: Criterion) -> list[_Load]:
    """Trials by load, ascending."""
    found: list[list[Measurement]] = []
    for trial in sorted(trials, key=lambda t: t.load_fps):
        if found and isclose(found[-1][0].load_fps, trial.load_fps, rel_tol=SAME_RTOL):
            found[-1].append(trial)
        else:
            found.append([trial])
    return [
        _Load(same[0].load_fps, tuple(same), classify(DurationSums.of(same, criterion), criterion))
        for same in found
    ]


def _same(one: _Load, load_fps: float) -> bool:
    return isclose(one.load_fps, load_fps, rel_tol=SAME_RTOL)


def _bound(one: _Load | None) -> Bound | None:
    return None if one is None else Bound(one.load_fps, one.trials)


def _conditional(lower: _Load | None, criterion: Criterion) -> float | None:
    if lower is None:
        return None
    return conditional_throughput(lower.load_fps, lower.trials, criterion)


def _is_narrow(lower: _Load | None, upper: _Load | None, goal: SearchGoal) -> bool:
    if lower is None or upper is None:
        return False
    return (upper.load_fps - lower.load_fps) / upper.load_fps <= goal.width


def _reason(missing: MissingTrials | None, *, at_least: bool) -> str:
    if missing is not None:
        return f"answered from the log of other goals; missing: {missing}"
    if at_least:
        return "the maximum load is carried: the limit is not the DUT's"
    return "answered from the log of other goals"


def _missing(
    begin: SearchRecord,
    below: Sequence[_Load],
    lower: _Load | None,
    upper: _Load | None,
    goal: SearchGoal,
) -> MissingTrials:
    """The load to try first, and how often."""
    floor = begin.limits.min_load_fps if lower is None else lower.load_fps
    top = begin.limits.max_load_fps if upper is None else upper.load_fps
    widths = log(top / floor) / -log1p(-goal.width)  # between the bounds; halved by each load
    further = ceil(log(max(widths, 1.0), 2))
    open_ = [
        one for one in below if one.verdict is LoadClass.UNDECIDED and floor < one.load_fps < top
    ]
    if open_:
        middle = sqrt(floor * top)
        chosen = min(open_, key=lambda one: abs(log(one.load_fps / middle)))
        load, why = chosen.load_fps, "its trials so far decide nothing"
        had = sum(
            t.effective_duration_s for t in chosen.trials if t.duration_s >= goal.final_trial_s
        )
    elif upper is None and lower is not None:
        load, had, why = top, 0.0, "no load above the lower bound was too much"
    elif lower is None and upper is not None:
        load, had, why = sqrt(floor * top), 0.0, "no load met the goal for long enough"
    elif lower is None:
        load, had, why = top, 0.0, "no load was tried for long enough"
    else:
        load, had, why = sqrt(floor * top), 0.0, "the bounds are wider than the goal's width"
    seconds = max(goal.duration_sum_s - had, goal.final_trial_s)
    count = ceil(seconds / goal.final_trial_s - 1e-9)
    return MissingTrials(load, goal.final_trial_s, count, why, max(0, further - 1))
