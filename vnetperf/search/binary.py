"""Binary search of RFC 2544 section 26.1, with full-length verification of what it reports.

Errata 422 and 423 set the direction: up after a trial without (more than the goal's) loss, down
after one with. RFC 2544 section 24 allows shorter trials while searching, if the final value is
determined by full-length ones: a first pass over the grid of loads uses trials of
`initial_trial_s`, then the load it found is classified by trials of `final_trial_s` (repeated up
to `duration_sum_s`). If that fails the search continues below; and so it does where the sweep finds
a load further down that is not carried.
"""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.search.base import Procedure, Search, StopSearch
from vnetperf.search.classification import Criterion, LoadClass
from vnetperf.search.session import Budget, GeometricGrid, SearchSession

ALGORITHM = "binary"


def binary_search(goals: Sequence[SearchGoal], limits: SearchLimits) -> Search:
    """Search each goal by itself, one after the other.

    Trials are not shared between goals, so that each result is what a search for that goal alone
    gives. The reported lower bound is below every load at which a trial failed, as far as the
    goal's exceed ratio does not forgive that trial.
    """
    budget = Budget(limits.max_trial_seconds, around_s=limits.trial_overhead_s)
    sessions = [
        SearchSession(
            GeometricGrid(limits, goal.width),
            budget,
            (goal,),
            limits.tries,
            limits.sweep,
            limits.short_tries,
        )
        for goal in goals
    ]
    stopped = ""
    ended = 0  # Goals whose search reached its own end
    try:
        starts = limits.starts_fps or (limits.max_load_fps,) * len(goals)
        for goal, session, start in zip(goals, sessions, starts, strict=True):
            rung = yield from _coarse(goal, session, session.grid.rung_below(start))
            yield from _verify(goal, session, rung, session.grid.top + 1)
            yield from _sweep(goal, session)
            ended += 1
    except StopSearch as stop:
        stopped = stop.reason
    results = [
        session.result(goal, "" if number < ended else stopped)
        for number, (goal, session) in enumerate(zip(goals, sessions, strict=True))
    ]
    return sessions[0].outcome(ALGORITHM, results)


def _coarse(goal: SearchGoal, session: SearchSession, first: int) -> Procedure[int]:
    """Find the highest rung that passes one short trial, as RFC 2544 does: from the top.

    A load that stays undecided is as good as one that failed: what is below it may be decided.
    """
    criterion = Criterion.from_goal(goal)
    passed, failed = -1, session.grid.top + 1
    rung = first
    while failed - passed > 1:
        trial = yield from session.measure_decided(rung, goal.initial_trial_s, criterion)
        if criterion.is_low_loss(trial):
            passed = rung
        else:
            failed = rung
        rung = (passed + failed) // 2
    return max(passed, 0)


def _sweep(goal: SearchGoal, session: SearchSession) -> Procedure[None]:
    """Try loads below the lower bound, and search on below one that is not carried."""
    while (trial := session.unswept((goal,))) is not None:
        yield from session.measure(trial.rung, trial.duration_s, "sweep")
        if session.history.bounds(Criterion.from_goal(goal)).upper == trial.rung:
            yield from _verify(goal, session, max(0, trial.rung - 1), trial.rung)


def _verify(goal: SearchGoal, session: SearchSession, start: int, upper: int) -> Procedure[None]:
    """Classify neighbouring rungs as lower and upper bound, beginning where short trials led.

    `upper` is known to be too much.
    """
    lower = -1
    rung, step = start, 1
    while upper - lower > 1:
        if (yield from _carries(goal, session, rung)):
            lower = rung
        else:
            upper = rung
        if lower < 0:
            rung = max(0, upper - step)
        elif upper > session.grid.top:
            rung = min(session.grid.top, lower + step)
        else:
            rung = (lower + upper) // 2
        step *= 2


def _carries(goal: SearchGoal, session: SearchSession, rung: int) -> Procedure[bool]:
    """Run full-length trials at a rung until its class is certain, or the rung is given up."""
    criterion, history = Criterion.from_goal(goal), session.history
    while (verdict := history.classify(rung, criterion)) is LoadClass.UNDECIDED:
        if history.gives_up(rung, criterion, session.tries):
            break
        yield from session.measure(rung, goal.final_trial_s)
    return verdict is LoadClass.LOWER
