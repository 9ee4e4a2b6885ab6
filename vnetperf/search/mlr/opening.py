"""The first trials, which no goal has chosen yet."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from vnetperf.model.goal import SearchGoal
from vnetperf.search.base import Measurement, TrialRequest
from vnetperf.search.grid import GeometricGrid
from vnetperf.search.session import Session


def opening(
    session: Session, grid: GeometricGrid, goals: Sequence[SearchGoal]
) -> Generator[TrialRequest, Measurement, int]:
    """Overload the DUT, then try what it forwarded.

    The forwarding rate under overload is the best guess of capacity that one trial can give.

    Args:
        session: Runs the trials.
        grid: Its grid.
        goals: All goals; the strictest loss ratio and the longest initial trial count.

    Yields:
        Trials to run.

    Returns:
        The rung that was forwarded.
    """
    seconds = max(goal.initial_trial_s for goal in goals)
    first = yield from session.measure(grid.top, seconds)
    guess = grid.rung_below(first.forwarding_rate_fps)
    return guess
