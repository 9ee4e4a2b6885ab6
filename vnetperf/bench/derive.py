"""Recomputes every figure of a run from its log alone.

Results are never stored by the run itself: the searches are pure, so replaying the log's valid
trials through them gives the same bounds again, today or in ten years.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isclose

from vnetperf.bench.caveats import warnings_of
from vnetperf.bench.comparisons import comparisons_of, reading_order
from vnetperf.bench.compliance import ledger_of
from vnetperf.bench.directions import latency_of, per_direction
from vnetperf.bench.logged import LoggedSearch, is_valid, searches_of
from vnetperf.bench.repeated import merged
from vnetperf.bench.threads import threads_of, uncollected_at
from vnetperf.model.errors import LogError
from vnetperf.model.result import (
    Calibration,
    CalibrationPoint,
    GoalResult,
    Result,
    RunResults,
    TrialPoint,
)
from vnetperf.model.units import LinkSpeed, l1_bits_per_frame
from vnetperf.results.records import (
    CalibrationRecord,
    EndRecord,
    EnvironmentRecord,
    NotMeasuredRecord,
    Record,
    RunRecord,
    ScenarioRecord,
    SearchRecord,
    TransfersRecord,
    TrialRecord,
)
from vnetperf.search import (
    GoalResult as SearchGoalResult,
)
from vnetperf.search import SearchOutcome, StopSearch, make_search, replay
from vnetperf.search.base import SAME_RTOL


def outcome_of(logged: LoggedSearch) -> SearchOutcome:
    """Replay a logged search.

    Args:
        logged: The search.

    Returns:
        What it returns; irregular when the log ends before the search does.

    Raises:
        LogError: The log's trials are not those the search asks for.
    """
    begin = logged.begin
    search = make_search(begin.algorithm, begin.goals, begin.limits)
    seen = replay(search, logged.valid())
    if seen.outcome is not None:
        return seen.outcome
    why = logged.end.stopped if logged.end is not None else "the run was interrupted"
    try:
        search.throw(StopSearch(why))
    except StopIteration as end:
        outcome: SearchOutcome = end.value
        return outcome
    raise LogError("the search went on after it was stopped", where=begin.algorithm)


def result_of(logged: LoggedSearch, media: LinkSpeed) -> Result:
    """The result of a search.

    Args:
        logged: The search.
        media: The reference medium.

    Returns:
        Bounds as the sum over directions, and for each direction.
    """
    begin, outcome = logged.begin, outcome_of(logged)
    return Result(
        scenario=begin.scenario,
        test=begin.test,
        frame_size=begin.frame_size,
        algorithm=begin.algorithm,
        goals=tuple(_goal(r, logged) for r in outcome.results),
        media_max_fps=media.max_frame_rate(begin.size) * begin.in_sum,
        generator_max_fps=begin.generator_max_fps,
        min_load_fps=begin.limits.min_load_fps,
        max_load_fps=begin.limits.max_load_fps,
        directions=begin.directions,
        imix=begin.imix,
        mean_frame_size=begin.mean_size,
        loads=begin.loads,
        trial_count=len(logged.trials),
        trial_seconds=round(sum(t.spec.duration_s for t in logged.trials), 3),
        wall_seconds=round(logged.end.wall_s if logged.end else 0.0, 3),
        verdicts=dict(Counter(t.verdict for t in logged.trials)),
    )


def _goal(found: SearchGoalResult, logged: LoggedSearch) -> GoalResult:
    goal, n = found.goal, logged.begin.in_sum
    lower = found.relevant_lower_bound.load_fps if found.relevant_lower_bound else None
    upper = found.relevant_upper_bound.load_fps if found.relevant_upper_bound else None
    there = [] if lower is None else _valid_at(lower, logged)
    conditional = found.conditional_throughput_fps
    reason = "" if found.regular else found.reason
    if found.at_least and logged.begin.limit_reason:
        reason = f"{reason.rstrip('.')}; {logged.begin.limit_reason}"
    return GoalResult(
        name=goal.name,
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        initial_trial_s=goal.initial_trial_s,
        final_trial_s=goal.final_trial_s,
        duration_sum_s=goal.duration_sum_s,
        width=goal.width,
        lower_bound_fps=_times(lower, n),
        upper_bound_fps=_times(upper, n),
        conditional_throughput_fps=_times(conditional, n),
        per_direction=per_direction(there, goal, lower, upper, logged.begin),
        regular=found.regular,
        qualifier="at least" if found.at_least else "at most" if found.at_most else "",
        reason=reason,
        throughput_l1_bps=_times(lower, n * l1_bits_per_frame(logged.begin.size)),
        latency=latency_of(there, logged.begin.ends),
        trials_at_lower_bound=tuple(t.number for t in there),
        threads=threads_of(there),
        uncollected=uncollected_at(there),
    )


def _valid_at(load_fps: float, logged: LoggedSearch) -> list[TrialRecord]:
    """The valid trials at a load, as the search tells loads apart."""
    return [
        t
        for t in logged.trials
        if is_valid(t) and isclose(t.spec.load_fps, load_fps, rel_tol=SAME_RTOL)
    ]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _point(trial: TrialRecord, begin: SearchRecord) -> TrialPoint:
    result, has_number = trial.result, bool(trial.result.directions)
    seconds = trial.spec.duration_s
    intended = sum(c.intended for c in result.directions)
    return TrialPoint(
        number=trial.number,
        scenario=begin.scenario,
        test=begin.test,
        frame_size=begin.frame_size,
        load_fps=trial.spec.load_fps,
        duration_s=seconds,
        loss_ratio=result.worst_loss_ratio() if has_number else None,
        forwarded_fps=sum(c.received for c in result.directions) / seconds if has_number else None,
        offered_ratio=sum(map(result.offered, result.directions)) / intended if intended else None,
        verdict=trial.verdict,
        reason=trial.reason,
        lost_at=trial.lost_at,
    )


def derive(records: Sequence[Record]) -> RunResults:
    """Everything a report says, from a log.

    Args:
        records: The log.

    Returns:
        The results.

    Raises:
        LogError: No run record, or trials that do not belong to their search.
    """
    run = next((r for r in records if isinstance(r, RunRecord)), None)
    if run is None:
        raise LogError("the log has no run record", where="trial log", cure="measure again")
    end = next((r for r in reversed(records) if isinstance(r, EndRecord)), None)
    searches = searches_of(records)
    final = {s.case: s for s in searches if s.end is None or not s.end.superseded}
    media = LinkSpeed(run.testbed.media.bits_per_second)
    results = [result_of(s, media) for s in final.values()]
    # A search that was to begin again and never did has no reason of its own in the log.
    missing = dict.fromkeys((s.case for s in searches), ("the run was interrupted", False))
    missing |= {
        (r.scenario, r.test, r.frame_size): (r.why, r.kind == "failed")
        for r in records
        if isinstance(r, NotMeasuredRecord)
    }
    mixes = {
        (r.scenario, r.test, r.frame_size): r.imix
        for r in records
        if isinstance(r, NotMeasuredRecord | SearchRecord)
    }
    results += [
        Result(
            scenario=case[0],
            test=case[1],
            frame_size=case[2],
            status="not measured",
            why=why,
            failed=failed,
            imix=mixes.get(case, ""),
        )
        for case, (why, failed) in missing.items()
        if case not in final
    ]
    calibrations = [r.calibration for r in records if isinstance(r, CalibrationRecord)]
    deployed = {r.facts.scenario: r for r in records if isinstance(r, ScenarioRecord)}
    transfers = merged(r.result for r in records if isinstance(r, TransfersRecord))
    ledger = ledger_of(run, [r.scenario for r in deployed.values()], results)
    begins = {s.begin.search: s.begin for s in searches}
    comparisons = comparisons_of(records)
    place = reading_order(comparisons)
    return RunResults(
        run=run.identity.model_copy(update={"ended": end.ended if end else ""}),
        preset=run.preset.name,
        benchmark=run.preset.benchmark,
        preset_note=run.preset.note,
        warnings=warnings_of(run, records, list(deployed.values()), searches),
        settings=run.settings,
        environment=next((r.facts for r in records if isinstance(r, EnvironmentRecord)), {}),
        calibrations=_merge(calibrations),
        scenarios=tuple(r.facts for r in deployed.values()),
        results=tuple(sorted(results, key=lambda r: _order(r, place))),
        comparisons=comparisons,
        transfers=transfers,
        trials=tuple(_point(t, begins[t.search]) for s in searches for t in s.trials),
        ledger=tuple(ledger),
        deviations=tuple(entry for entry in ledger if entry.status == "deviated"),
    )


def _order(result: Result, place: dict[str, int]) -> tuple[str, int, str, str, int]:
    """Variants follow their scenario, in the order of their comparison."""
    scenario = result.scenario
    variant = (scenario.partition(",")[0], place.get(scenario, 0), scenario)
    return (*variant, result.test, result.frame_size)


def _merge(calibrations: Sequence[Calibration]) -> tuple[Calibration, ...]:
    """One for each kind of wire: the newest, with the frame sizes of all (a run may be resumed)."""
    newest = {c.wire: c for c in calibrations}
    return tuple(
        calibration.model_copy(
            update={"points": _points(c for c in calibrations if c.wire == wire)}
        )
        for wire, calibration in newest.items()
    )


def _points(calibrations: Iterable[Calibration]) -> tuple[CalibrationPoint, ...]:
    """Every frame size's newest point, by size."""
    points = {p.frame_size: p for c in calibrations for p in c.points}
    return tuple(points[size] for size in sorted(points))
