"""Several goals, one history of trials: let the goals wish, run one trial, repeat."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from vnetperf.model.goal import SearchGoal, SearchLimits
from vnetperf.search.base import Measurement, Search, StopSearch, TrialRequest
from vnetperf.search.grid import GeometricGrid
from vnetperf.search.mlr.hints import first_hints
from vnetperf.search.mlr.pursuit import Pursuit
from vnetperf.search.session import Budget, Session

ALGORITHM = "mlr"

#: Rungs within the narrowest goal width: fine enough that wider goals lose little by rounding,
#: and that a hint taken from a forwarding rate is hardly moved.
_DIVISIONS = 16

#: Rungs below the forwarding rate at which the first lower bound is looked for: what was just
#: forwarded is at the edge of what can be, and the next trial may well fall short of it.
_MARGIN = _DIVISIONS // 4


def mlr_search(goals: Sequence[SearchGoal], limits: SearchLimits) -> Search:
    """Search all goals at once; each trial counts for every goal.

    Args:
        goals: What to search for.
        limits: Loads and trial seconds to stay within.

    Yields:
        Trials to run.

    Returns:
        One result per goal.
    """  # noqa: DOC405
    grid = GeometricGrid(limits, min(goal.width for goal in goals), _DIVISIONS)
    session = Session(grid, Budget(limits.max_trial_seconds))
    stopped = ""
    try:
        yield from _pursue(goals, grid, session)
    except StopSearch as stop:
        stopped = stop.reason
    return session.outcome(ALGORITHM, [session.result(goal, stopped) for goal in goals])


def _pursue(
    goals: Sequence[SearchGoal], grid: GeometricGrid, session: Session
) -> Generator[TrialRequest, Measurement, None]:
    """Overload the DUT once, then grant wishes until there are none.

    The forwarding rate under overload is the best guess of capacity that one trial can give. Of
    the wishes, the one at the lowest load is granted, then the longest: what is too much at a low
    load tells the other goals not to look higher.
    """
    seconds = max(goal.initial_trial_s for goal in goals)
    overload = yield from session.measure(grid.top, seconds)
    forwarded = overload.forwarding_rate_fps
    pursuits = [
        Pursuit(goal, grid, session.history, first_hints(goal, grid, forwarded, _MARGIN))
        for goal in goals
    ]
    while wishes := [wish for pursuit in pursuits if (wish := pursuit.wish()) is not None]:
        chosen = min(wishes, key=lambda wish: (wish.rung, -wish.duration_s))
        yield from session.measure(chosen.rung, chosen.duration_s)
