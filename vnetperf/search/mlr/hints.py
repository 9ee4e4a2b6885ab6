"""Where goals start looking, guessed from what the DUT forwarded under overload."""

from __future__ import annotations

from vnetperf.model.goal import SearchGoal
from vnetperf.search.grid import GeometricGrid


def first_hints(
    goal: SearchGoal, grid: GeometricGrid, forwarded_fps: float, margin: int
) -> tuple[int, int]:
    """Guess the bounds of a goal.

    If forwarding stays what it was under overload, the load that loses just the goal's loss ratio
    is forwarded / (1 - loss ratio). All goals count their widths up from the same load, a margin
    below the forwarding rate, so that the upper bound of one is, where it can be, the lower bound
    of the next: its trials then count for both.

    Args:
        goal: The goal.
        grid: The loads of the search.
        forwarded_fps: Forwarding rate of the overloading trial, frames/s per interface.
        margin: Rungs to start below it, the same for all goals.

    Returns:
        Rungs of the lower and the upper hint, a width apart; the same rung at the maximum load.
    """
    width = grid.rungs_of(goal.width)
    forwarded = grid.rung_below(forwarded_fps)
    if forwarded == grid.top:
        return grid.top, grid.top
    tolerated = grid.rung_below(forwarded_fps / (1.0 - goal.loss_ratio)) - forwarded
    low = max(0, forwarded - margin) + tolerated // width * width
    return low, min(grid.top, low + width)
