"""Several goals, one history of trials: let the goals wish, run one trial, repeat."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.goal import SearchGoal, SearchLimits
from vnetperf.search.base import Search, StopSearch
from vnetperf.search.grid import GeometricGrid
from vnetperf.search.mlr.opening import opening
from vnetperf.search.mlr.pursuit import Pursuit
from vnetperf.search.mlr.targets import targets_of
from vnetperf.search.session import Budget, Session

ALGORITHM = "mlr"

#: Rungs within the narrowest goal width: fine enough that wider goals lose little by rounding.
_DIVISIONS = 16


def mlr_search(goals: Sequence[SearchGoal], limits: SearchLimits) -> Search:
    """Search all goals at once; each trial counts for every goal.

    Of the trials that goals wish for, the one at the lowest load is run, then the longest: what
    is too much for one goal at a low load tells the others not to look higher.

    Args:
        goals: What to search for.
        limits: Loads and trial seconds to stay within.

    Yields:
        Trials to run.

    Returns:
        One result per goal.
    """
    grid = GeometricGrid(limits, min(goal.width for goal in goals), _DIVISIONS)
    session = Session(grid, Budget(limits.max_trial_seconds))
    stopped = ""
    try:
        guess = yield from opening(session, grid, goals)
        pursuits = []
        for goal in goals:
            targets = targets_of(goal, grid)
            low = min(grid.top, grid.rung_below(grid.load(guess) / (1 - goal.loss_ratio)))
            hints = (low, min(grid.top, low + targets[0].width))
            pursuits.append(
                Pursuit(targets, hints, goal.initial_trial_s, grid.top, session.history)
            )
        while wishes := [wish for pursuit in pursuits if (wish := pursuit.wish()) is not None]:
            chosen = min(wishes, key=lambda wish: (wish.rung, -wish.duration_s))
            yield from session.measure(chosen.rung, chosen.duration_s)
    except StopSearch as stop:
        stopped = stop.reason
    return session.outcome(ALGORITHM, [session.result(goal, stopped) for goal in goals])
