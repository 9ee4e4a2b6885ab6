"""Several goals, one history of trials: let the goals wish, run one trial, repeat."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from vnetperf.model.goal import SearchGoal, SearchLimits
from vnetperf.search.base import Measurement, Search, StopSearch, TrialRequest
from vnetperf.search.classify import Criterion
from vnetperf.search.grid import GeometricGrid
from vnetperf.search.mlr.hints import first_hints
from vnetperf.search.mlr.known import best_known
from vnetperf.search.mlr.pursuit import Pursuit, Wish
from vnetperf.search.mlr.targets import targets_of
from vnetperf.search.session import Budget, Session

ALGORITHM = "mlr"

#: Rungs within the narrowest goal width: fine enough that wider goals lose little by rounding,
#: and that a hint taken from a forwarding rate is hardly moved.
_DIVISIONS = 16

#: Rungs below the forwarding rate at which the first lower bound is looked for: what was just
#: forwarded is at the edge of what can be, and the next trial may well fall short of it.
_MARGIN = _DIVISIONS // 4


#: Trials that a goal whose own do not fit the budget any more is given of what is left: one for
#: each bound.
_LAST_TRIALS = 2
#: Trials that are kept for a goal at shorter ones before another goal is granted a long one.
_RESERVED_TRIALS = 6


def mlr_search(goals: Sequence[SearchGoal], limits: SearchLimits) -> Search:
    """Search all goals at once; each trial counts for every goal.

    Args:
        goals: What to search for.
        limits: Loads and trial seconds to stay within.

    Yields:
        Trials to run.

    Returns:
        One result per goal. Where the search was ended before a goal was reached, it is irregular
        and of the best bounds so far, with the trial time that they rest on as its goal.
    """  # noqa: DOC405
    grid = GeometricGrid(limits, min(goal.width for goal in goals), _DIVISIONS)
    budget = Budget(limits.max_trial_seconds, around_s=limits.trial_overhead_s)
    session = Session(grid, budget)
    ladders = [list(targets_of(goal)) for goal in goals]
    stopped = ""
    try:
        yield from _pursue(goals, grid, session, ladders)
    except StopSearch as stop:
        stopped = stop.reason
    results = [
        best_known(goal, ladder, session, stopped)
        for goal, ladder in zip(goals, ladders, strict=True)
    ]
    return session.outcome(ALGORITHM, results)


def _pursue(
    goals: Sequence[SearchGoal],
    grid: GeometricGrid,
    session: Session,
    ladders: Sequence[list[Criterion]],
) -> Generator[TrialRequest, Measurement, None]:
    """Overload the DUT once, then grant wishes until there are none.

    The forwarding rate under overload is the best guess of capacity that one trial can give. Of
    the wishes, the one at the lowest load is granted, then the longest: what is too much at a low
    load tells the other goals not to look higher. A wish that does not fit the budget any more
    leaves the time to those that do.
    """
    seconds = max(goal.initial_trial_s for goal in goals)
    overload = yield from session.measure(grid.top, seconds)
    forwarded = overload.forwarding_rate_fps
    pursuits = [
        Pursuit(goal, grid, session.history, first_hints(goal, grid, forwarded, _MARGIN), ladder)
        for goal, ladder in zip(goals, ladders, strict=True)
    ]
    while wishes := _wishes(pursuits):
        chosen = _choose([wish for _, wish in wishes], session.budget)
        if chosen is None:
            if _shorten([pursuit for pursuit, _ in wishes], session.budget):
                continue
            chosen = min((wish for _, wish in wishes), key=_urgency)  # and so the search ends
        yield from session.measure(chosen.rung, chosen.duration_s)


def _wishes(pursuits: Sequence[Pursuit]) -> list[tuple[Pursuit, Wish]]:
    wishes = ((pursuit, pursuit.wish()) for pursuit in pursuits)
    return [(pursuit, wish) for pursuit, wish in wishes if wish is not None]


def _urgency(wish: Wish) -> tuple[int, float]:
    return wish.rung, -wish.duration_s


def _choose(wishes: Sequence[Wish], budget: Budget) -> Wish | None:
    """The wish to grant; None if none fits the budget.

    A long trial that would leave too little for a goal that is still at shorter ones has to wait.
    """
    fitting = [wish for wish in wishes if budget.fits(wish.duration_s)]
    if not fitting:
        return None
    chosen = min(fitting, key=_urgency)
    shortest = min(fitting, key=lambda wish: (wish.duration_s, wish.rung))
    after = budget.left_s - budget.cost(chosen.duration_s)
    if shortest.duration_s < chosen.duration_s and after < _RESERVED_TRIALS * budget.cost(
        shortest.duration_s
    ):
        return shortest
    return chosen


def _shorten(pursuits: Sequence[Pursuit], budget: Budget) -> bool:
    """Share what is left among goals whose trials do not fit the budget; tell if it helps.

    Where it is too little for all of them, the first has it.
    """
    for some in (pursuits, pursuits[:1]):
        each = budget.left_s / (_LAST_TRIALS * len(some))
        length = each - budget.cost(0.0)
        shortened = [pursuit.shorten(length) for pursuit in some]
        if any(shortened):
            return True
    return False
