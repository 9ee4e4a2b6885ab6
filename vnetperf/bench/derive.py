"""Recomputes every figure of a run from its log alone.

Results are never stored by the run itself: searches and procedures are pure, so replaying the log's
trials through them gives the same results again, today or in ten years.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from vnetperf.bench.caveats import warnings_of
from vnetperf.bench.comparisons import comparisons_of, reading_order
from vnetperf.bench.compliance import ledger_of
from vnetperf.bench.found import result_of
from vnetperf.bench.logged import LoggedTest, tests_of
from vnetperf.bench.otherwise import is_as_written, warnings_about
from vnetperf.bench.repeated import merged
from vnetperf.bench.rounds import by_round, of_rounds
from vnetperf.model.errors import LogError
from vnetperf.model.procedures import TestName
from vnetperf.model.redaction import Redaction
from vnetperf.model.result import (
    Calibration,
    CalibrationPoint,
    Result,
    RunResults,
    TrialPoint,
)
from vnetperf.model.units import LinkSpeed
from vnetperf.results.records import (
    BeginRecord,
    CalibrationRecord,
    EndRecord,
    EnvironmentRecord,
    NotMeasuredRecord,
    Record,
    RedactedRecord,
    RunRecord,
    ScenarioRecord,
    TransfersRecord,
    TrialRecord,
)
from vnetperf.search import ReplayMismatchError


def _point(trial: TrialRecord, begin: BeginRecord) -> TrialPoint:
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
        burst=trial.spec.burst,
    )


def _result(
    logged: LoggedTest, media: LinkSpeed, run: RunRecord, otherwise: list[LoggedTest]
) -> Result:
    """A result; by its trials where another version's search had asked for them."""
    try:
        return result_of(logged, media)
    except ReplayMismatchError:
        if not is_as_written(logged, run):
            raise
        otherwise.append(logged)
        return result_of(logged, media, by_trials=True)


def _results(
    records: Sequence[Record], media: LinkSpeed, run: RunRecord, otherwise: list[LoggedTest]
) -> list[Result]:
    """The results of one round; searches that would be others today are added to `otherwise`."""
    tests = tests_of(records)
    final = {t.case: t for t in tests if t.final}
    results = [_result(t, media, run, otherwise) for t in final.values()]
    # A test that was to begin again and never did has no reason of its own in the log.
    missing = dict.fromkeys((t.case for t in tests), ("the run was interrupted", False))
    missing |= {
        (r.scenario, r.test, r.frame_size): (r.why, r.kind == "failed")
        for r in records
        if isinstance(r, NotMeasuredRecord)
    }
    mixes = {
        (r.scenario, r.test, r.frame_size): r.imix
        for r in records
        if isinstance(r, NotMeasuredRecord | BeginRecord)
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
    return results


def derive(records: Sequence[Record]) -> RunResults:
    """Everything a report says, from a log.

    Args:
        records: The log.

    Returns:
        The results.

    Raises:
        LogError: No run record, or trials that do not belong to their test.
    """
    run = next((r for r in records if isinstance(r, RunRecord)), None)
    if run is None:
        raise LogError("the log has no run record", where="trial log", cure="measure again")
    end = next((r for r in reversed(records) if isinstance(r, EndRecord)), None)
    tests = tests_of(records)
    media = LinkSpeed(run.testbed.media.bits_per_second)
    otherwise: list[LoggedTest] = []
    results = of_rounds(
        [_results(part, media, run, otherwise) for part in by_round(records).values()]
    )
    calibrations = [r.calibration for r in records if isinstance(r, CalibrationRecord)]
    deployed = {r.facts.scenario: r for r in records if isinstance(r, ScenarioRecord)}
    transfers = merged(r.result for r in records if isinstance(r, TransfersRecord))
    ledger = ledger_of(run, [r.scenario for r in deployed.values()], results)
    begins = {t.begin.search: t.begin for t in tests}
    comparisons = comparisons_of(records)
    place = reading_order(comparisons)
    return RunResults(
        run=run.identity.model_copy(update={"ended": end.ended if end else ""}),
        preset=run.preset.name,
        benchmark=run.preset.benchmark,
        preset_note=run.preset.note,
        warnings=(
            *warnings_of(run, records, list(deployed.values()), tests),
            *warnings_about(otherwise, run),
        ),
        settings=run.settings,
        environment=next((r.facts for r in records if isinstance(r, EnvironmentRecord)), {}),
        calibrations=_merge(calibrations),
        scenarios=tuple(r.facts for r in deployed.values()),
        results=tuple(sorted(results, key=lambda r: _order(r, place))),
        comparisons=comparisons,
        transfers=transfers,
        trials=tuple(_point(t, begins[t.search]) for test in tests for t in test.trials),
        ledger=tuple(ledger),
        deviations=tuple(entry for entry in ledger if entry.status == "deviated"),
        redacted=_redaction(records),
    )


def _redaction(records: Sequence[Record]) -> Redaction | None:
    return next((r.redaction for r in reversed(records) if isinstance(r, RedactedRecord)), None)


_PLACE = {test: place for place, test in enumerate(get_args(TestName))}


def _order(result: Result, place: dict[str, int]) -> tuple[str, int, str, int, int]:
    """Variants follow their scenario, in the order of their comparison; tests as they are run."""
    scenario = result.scenario
    variant = (scenario.partition(",")[0], place.get(scenario, 0), scenario)
    return (*variant, _PLACE.get(result.test, len(_PLACE)), result.frame_size)


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
