"""Search algorithms as pure generators: they yield a trial and are sent its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vnetperf.model.errors import ConfigError
from vnetperf.model.goal import SearchGoal, SearchLimits
from vnetperf.search.base import (
    Bound,
    GoalResult,
    Measurement,
    Search,
    SearchOutcome,
    StopSearch,
    TrialRequest,
)
from vnetperf.search.binary import binary_search, worst_case_trial_seconds
from vnetperf.search.inputs import inputs_told
from vnetperf.search.mlr import mlr_search
from vnetperf.search.replay import Replay, ReplayMismatchError, replay
from vnetperf.search.tst009 import tst009_search

__all__ = [
    "ALGORITHMS",
    "Bound",
    "GoalResult",
    "Measurement",
    "Replay",
    "ReplayMismatchError",
    "Search",
    "SearchOutcome",
    "StopSearch",
    "TrialRequest",
    "binary_search",
    "inputs_told",
    "make_search",
    "mlr_search",
    "replay",
    "tst009_search",
    "worst_case_trial_seconds",
]

#: Name to algorithm. Each is called with the goals and the limits.
ALGORITHMS: dict[str, Callable[[Sequence[SearchGoal], SearchLimits], Search]] = {
    "binary": binary_search,
    "mlr": mlr_search,
    "tst009": tst009_search,
}


def make_search(algorithm: str, goals: Sequence[SearchGoal], limits: SearchLimits) -> Search:
    """Start a search by the name of its algorithm.

    Args:
        algorithm: ``"binary"``, ``"mlr"`` or ``"tst009"``.
        goals: What to search for, at least one, under different names.
        limits: Loads (frames/s per interface) and trial seconds to stay within.

    Returns:
        The search; ``next()`` gives its first trial.

    Raises:
        ConfigError: If the algorithm is unknown, or the goals are none or share a name.
    """
    if algorithm not in ALGORITHMS:
        raise ConfigError(
            f"unknown search algorithm {algorithm!r}", accepted=", ".join(sorted(ALGORITHMS))
        )
    names = [goal.name for goal in goals]
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"goals {', '.join(names) or '(none)'}",
            where=f"search {algorithm!r}",
            accepted="one goal or more, each with a name of its own",
        )
    return ALGORITHMS[algorithm](goals, limits)
