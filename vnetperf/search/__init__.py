"""Search algorithms by name.

Each is a pure generator that yields a trial request and is sent its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vnetperf.model.errors import ConfigError
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.search.base import (
    Bound,
    GoalOutcome,
    Procedure,
    Replay,
    ReplayMismatchError,
    Search,
    SearchOutcome,
    StopSearch,
    replay,
)
from vnetperf.search.binary import binary_search
from vnetperf.search.mlr import mlr_search
from vnetperf.search.tst009 import OfferedLoads, tst009_search
from vnetperf.search.warm_up import warm_up


def search_inputs(limits: SearchLimits) -> dict[str, str]:
    """Name the inputs of a search."""
    inputs: dict[str, str] = {}
    if limits.steps is not None:
        loads = OfferedLoads(limits.max_load_fps, limits.steps.step_fps, limits.min_load_fps)
        z = limits.steps.z
        inputs |= {
            "StepSize": f"{limits.steps.step_fps:.10g} frames/s per interface",
            "n": str(loads.count),
            "max(r)": str(limits.steps.max_r),
            "z": "unset" if z is None else f"{z} frames",
        }
    if limits.max_trial_seconds is not None:
        inputs["budget"] = f"{limits.max_trial_seconds:g} s"
        if limits.trial_overhead_s:
            inputs["budget"] += f", {limits.trial_overhead_s:g} s around each trial included"
    return inputs


#: Name to algorithm. Each is called with the goals, the limits, and the forwarding rate under
#: overload where it is known.
ALGORITHMS: dict[str, Callable[[Sequence[SearchGoal], SearchLimits, float | None], Search]] = {
    "binary": lambda goals, limits, _: binary_search(goals, limits),
    "mlr": mlr_search,
    "tst009": lambda goals, limits, _: tst009_search(goals, limits),
}


def make_search(algorithm: str, goals: Sequence[SearchGoal], limits: SearchLimits) -> Search:
    """Start a search by the name of its algorithm."""
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
    return _warm_search(algorithm, goals, limits)


def _warm_search(algorithm: str, goals: Sequence[SearchGoal], limits: SearchLimits) -> Search:
    stopped: StopSearch | None = None
    forwarded_fps = None
    try:
        forwarded_fps = yield from warm_up(goals, limits)
    except StopSearch as stop:
        stopped = stop
    search = ALGORITHMS[algorithm](goals, limits, forwarded_fps)
    if stopped is None:
        return (yield from search)
    try:
        next(search)
        search.throw(stopped)
    except StopIteration as end:
        outcome: SearchOutcome = end.value
        return outcome
    raise RuntimeError(f"{algorithm} went on after it was stopped")


__all__ = [
    "ALGORITHMS",
    "Bound",
    "GoalOutcome",
    "Procedure",
    "Replay",
    "ReplayMismatchError",
    "Search",
    "SearchOutcome",
    "StopSearch",
    "binary_search",
    "make_search",
    "mlr_search",
    "replay",
    "search_inputs",
    "tst009_search",
]
