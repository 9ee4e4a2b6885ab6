"""The result of a test, from its trials in the log: it is never stored, only found again."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vnetperf.bench.driven import procedure_of
from vnetperf.bench.goals import goals_of
from vnetperf.bench.logged import LoggedTest
from vnetperf.bench.regoal import goals_by_trials
from vnetperf.model.errors import NoResultError
from vnetperf.model.result import Result
from vnetperf.model.units import LinkSpeed
from vnetperf.procedures import kind_of, replay
from vnetperf.results.records import ProcedureRecord, SearchRecord
from vnetperf.search import inputs_told


def result_of(logged: LoggedTest, media: LinkSpeed, *, by_trials: bool = False) -> Result:
    """The result of a test.

    Args:
        logged: The test.
        media: The reference medium.
        by_trials: True for a search that asks for other trials today: its bounds are those that
            its trials show by themselves.

    Returns:
        What it found; "not measured" for one that was interrupted, unless it is a search, whose
        bounds so far are worth telling.

    Raises:
        LogError: The log's trials are not those the test asks for.
    """
    begin = logged.begin
    common: dict[str, Any] = {
        "scenario": begin.scenario,
        "test": begin.test,
        "frame_size": begin.frame_size,
        "media_max_fps": media.max_frame_rate(begin.size) * begin.in_sum,
        "generator_max_fps": begin.generator_max_fps,
        "directions": begin.directions,
        "imix": begin.imix,
        "mean_frame_size": begin.mean_size,
        "loads": begin.loads,
        "trial_count": len(logged.trials),
        "trial_seconds": round(sum(t.spec.duration_s for t in logged.trials), 3),
        "wall_seconds": round(logged.end.wall_s if logged.end else 0.0, 3),
        "verdicts": dict(Counter(t.verdict for t in logged.trials)),
    }
    if isinstance(begin, SearchRecord):
        return Result(
            algorithm=begin.algorithm,
            search_inputs=inputs_told(begin.limits),
            goals=(goals_by_trials if by_trials else goals_of)(begin, logged),
            min_load_fps=begin.limits.min_load_fps,
            max_load_fps=begin.limits.max_load_fps,
            **common,
        )
    return Result(**common, **_found(logged))


def _found(logged: LoggedTest) -> dict[str, Any]:
    begin = logged.begin
    assert isinstance(begin, ProcedureRecord)  # noqa: S101 - for the type checker: no other is left
    found: dict[str, Any] = {
        "min_load_fps": begin.inputs["min_load_fps"],
        "max_load_fps": begin.inputs["ceiling_fps"],
    }
    try:
        replayed = replay(procedure_of(begin), logged.seen())
    except NoResultError as error:  # of a run that was killed before it could say so
        return found | {"status": "not measured", "why": str(error)}
    if replayed.ask is not None:
        why = f"the run was interrupted after {len(logged.trials)} trials of this test"
        return found | {"status": "not measured", "why": why}
    return found | {kind_of(begin.test).fills: replayed.found}
