"""The ladder of targets that a goal is reached by: coarse and quick first, the goal itself last.

A target is a goal with less trial time and a wider interval (draft section "Short Trials and
Duration Selection"). Its bounds are not believed; they are where the next target starts looking.
"""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.model.goal import SearchGoal
from vnetperf.search.classify import Criterion
from vnetperf.search.grid import GeometricGrid

#: Targets ahead of the final one.
PRECEDING = 2


@dataclass(frozen=True, slots=True)
class Target:
    """One step towards a goal."""

    criterion: Criterion
    """What its bounds are classified by."""

    width: int
    """Rungs between its bounds at which it is reached."""


def targets_of(goal: SearchGoal, grid: GeometricGrid) -> tuple[Target, ...]:
    """Derive the targets of a goal.

    Duration sums grow by equal ratios from the initial trial to the goal's sum; widths shrink by
    half each time to the goal's width.

    Args:
        goal: The goal.
        grid: Gives the rungs of its width.

    Returns:
        Targets in the order to pursue, the last one with the goal's own criterion and width.
    """
    growth = goal.duration_sum_s / goal.initial_trial_s
    width = grid.rungs_of(goal.width)
    ahead = []
    for step in range(PRECEDING if growth > 1.0 else 0):
        duration_sum = whole_seconds(goal.initial_trial_s * growth ** (step / PRECEDING))
        criterion = Criterion(
            goal.loss_ratio,
            goal.exceed_ratio,
            min(goal.final_trial_s, duration_sum),
            duration_sum,
        )
        ahead.append(Target(criterion, width << (PRECEDING - step)))
    return (*ahead, Target(Criterion.of_goal(goal), width))


def whole_seconds(seconds: float) -> float:
    """Round a derived duration to what any generator can keep, and a log can show.

    Args:
        seconds: A duration.

    Returns:
        Whole seconds from 1 s on, whole milliseconds (at least one) below.
    """
    return float(round(seconds)) if seconds >= 1.0 else max(0.001, round(seconds, 3))
