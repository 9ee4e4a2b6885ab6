"""A throughput search as a procedure, so that one conductor runs and replays both."""

from __future__ import annotations

from typing import Any

from vnetperf.bench.logged import measurement_of
from vnetperf.model.errors import LogError
from vnetperf.procedures import Ask, Procedure, kind_of
from vnetperf.results.records import BeginRecord, ProcedureRecord, SearchRecord
from vnetperf.search import SearchOutcome, TrialRequest, make_search


def procedure_of(begin: BeginRecord) -> Procedure[Any]:
    """Start what a record opens.

    Args:
        begin: The record.

    Returns:
        The procedure, not started yet.

    Raises:
        LogError: It is none that is known.
    """
    if isinstance(begin, SearchRecord):
        return _searching(begin)
    if isinstance(begin, ProcedureRecord):
        kind = kind_of(begin.test)
        return kind.run(kind.inputs.model_validate(begin.inputs))
    raise LogError(f"{begin.type} opens no test", where="trial log")


def _searching(begin: SearchRecord) -> Procedure[SearchOutcome]:
    search = make_search(begin.algorithm, begin.goals, begin.limits)
    request = next(search)
    while True:
        seen = yield Ask(
            load_fps=request.load_fps,
            duration_s=request.duration_s,
            histogram_up_to_loss=_histogram_up_to(begin, request),
            when_limited="lower",
        )
        try:
            request = search.send(measurement_of(seen))
        except StopIteration as end:
            outcome: SearchOutcome = end.value
            return outcome


def _histogram_up_to(begin: SearchRecord, request: TrialRequest) -> float:
    """Short and lossy trials only steer the search; the time their histograms take is saved."""
    goals = [g for g in begin.goals if request.duration_s >= g.final_trial_s]
    return max((goal.loss_ratio for goal in goals), default=-1.0)
