"""The ladder of targets that a goal is reached by: quick trials first, the goal itself last.

A target is a goal with less trial time (draft section "Short Trials and Duration Selection"). Its
bounds are not believed; they are the hints at which the next target starts looking. All targets
use the goal's own width: with a good hint two loads are classified in each, and trials of the
final duration count again in the next target, so that a target that confirms its hints is free.
"""

from __future__ import annotations

from math import floor, log

from vnetperf.model.goal import SearchGoal
from vnetperf.search.classify import Criterion

#: Trial durations grow by about this between targets: a target costs its trials, so few are used.
_LONGER = 8.0
#: Duration sums of full-length trials grow by about this: these trials are not lost.
_MORE = 2.0


def targets_of(goal: SearchGoal) -> tuple[Criterion, ...]:
    """Derive the targets of a goal: longer trials first, then more of them.

    Args:
        goal: The goal.

    Returns:
        Criteria in the order to pursue, the last one the goal's own.
    """
    final = goal.final_trial_s
    longer = [(length, length) for length in _ladder(goal.initial_trial_s, final, _LONGER)]
    more = [(final, total) for total in _ladder(final, goal.duration_sum_s, _MORE)]
    ahead = (
        Criterion(goal.loss_ratio, goal.exceed_ratio, length, total)
        for length, total in longer + more
    )
    return (*ahead, Criterion.of_goal(goal))


def _ladder(start: float, end: float, growth: float) -> list[float]:
    """Durations from `start` to below `end`, at equal ratios, as near to `growth` as fits."""
    if start >= end:
        return []
    count = max(1, round(log(end / start) / log(growth)))
    between = (keepable(start * (end / start) ** (step / count)) for step in range(1, count))
    return [start, *between]


def keepable(seconds: float) -> float:
    """Cut a derived duration to what any generator can keep and a log can show.

    Args:
        seconds: The duration.

    Returns:
        Seconds, no more: whole ones from 1 s on, milliseconds below.
    """
    return float(int(seconds)) if seconds >= 1.0 else floor(seconds * 1000.0) / 1000.0
