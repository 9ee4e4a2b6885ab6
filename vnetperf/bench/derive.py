"""Recomputes every figure of a run from its log alone.

Results are never stored by the run itself: the searches are pure, so replaying the log's valid
trials through them gives the same bounds again, today or in ten years.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vnetperf.bench.compliance import ledger_of
from vnetperf.model.errors import LogError
from vnetperf.model.result import (
    Calibration,
    DirectionBound,
    GoalResult,
    Result,
    RunResults,
    TrialPoint,
)
from vnetperf.model.trial import DirectionCounts, Latency, Verdict
from vnetperf.model.units import LinkSpeed, l1_bits_per_frame
from vnetperf.results.records import (
    CalibrationRecord,
    EndRecord,
    EnvironmentRecord,
    NotMeasuredRecord,
    Record,
    RunRecord,
    ScenarioRecord,
    SearchEndRecord,
    SearchRecord,
    TrialRecord,
)
from vnetperf.search import (
    GoalResult as SearchGoalResult,
)
from vnetperf.search import (
    Measurement,
    SearchOutcome,
    StopSearch,
    TrialRequest,
    make_search,
    replay,
)

Case = tuple[str, str, int]


@dataclass
class LoggedSearch:
    """One search as the log has it.

    Attributes:
        begin: How it was asked for.
        trials: Its trials in order, whatever their verdict.
        end: How it ended; None when the run was interrupted.
    """

    begin: SearchRecord
    trials: list[TrialRecord] = field(default_factory=list)
    end: SearchEndRecord | None = None

    @property
    def case(self) -> Case:
        """Scenario, test, frame size."""
        return self.begin.scenario, self.begin.test, self.begin.frame_size

    def valid(self) -> list[tuple[TrialRequest, Measurement]]:
        """Trials that classify a load, as a search is sent them."""
        return [(request_of(t), measurement_of(t)) for t in self.trials if is_valid(t)]


def is_valid(trial: TrialRecord) -> bool:
    """Whether a trial may classify a load.

    Args:
        trial: The trial.

    Returns:
        True for a VALID verdict.
    """
    return trial.verdict is Verdict.VALID


def request_of(trial: TrialRecord) -> TrialRequest:
    """What the search asked for.

    Args:
        trial: The trial.

    Returns:
        Load and duration.
    """
    return TrialRequest(trial.spec.load_fps, trial.spec.duration_s)


def measurement_of(trial: TrialRecord) -> Measurement:
    """What a search is told of a valid trial: the loss of the worse direction.

    Args:
        trial: The trial.

    Returns:
        The measurement.
    """
    return Measurement(
        load_fps=trial.spec.load_fps,
        duration_s=trial.spec.duration_s,
        loss_ratio=trial.result.worst_loss_ratio(),
        effective_duration_s=trial.spec.duration_s,
    )


def searches_of(records: Iterable[Record]) -> list[LoggedSearch]:
    """Group a log by search.

    Args:
        records: The log.

    Returns:
        Searches in the order they began.

    Raises:
        LogError: A trial of a search that never began.
    """
    found: dict[int, LoggedSearch] = {}
    for record in records:
        if isinstance(record, SearchRecord):
            found[record.search] = LoggedSearch(record)
        elif isinstance(record, TrialRecord | SearchEndRecord):
            if record.search not in found:
                raise LogError(
                    f"search {record.search} has trials but no beginning",
                    where="trial log",
                    cure="the log was cut or edited; restore it from a copy",
                )
            if isinstance(record, TrialRecord):
                found[record.search].trials.append(record)
            else:
                found[record.search].end = record
    return list(found.values())


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
        media_max_fps=media.max_frame_rate(begin.frame_size) * begin.directions,
        generator_max_fps=begin.generator_max_fps,
        min_load_fps=begin.limits.min_load_fps,
        max_load_fps=begin.limits.max_load_fps,
        directions=begin.directions,
        trial_count=len(logged.trials),
        trial_seconds=round(sum(t.spec.duration_s for t in logged.trials), 3),
        wall_seconds=round(logged.end.wall_s if logged.end else 0.0, 3),
        verdicts=dict(Counter(t.verdict for t in logged.trials)),
    )


def _goal(found: SearchGoalResult, logged: LoggedSearch) -> GoalResult:
    goal, n = found.goal, logged.begin.directions
    lower = found.relevant_lower_bound.load_fps if found.relevant_lower_bound else None
    upper = found.relevant_upper_bound.load_fps if found.relevant_upper_bound else None
    there = [t for t in logged.trials if is_valid(t) and t.spec.load_fps == lower]
    conditional = found.conditional_throughput_fps
    reason = "" if found.regular else found.reason
    if found.at_least and logged.begin.limit_reason:
        reason = f"{reason.rstrip('.')}; {logged.begin.limit_reason}"
    return GoalResult(
        name=goal.name,
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        final_trial_s=goal.final_trial_s,
        duration_sum_s=goal.duration_sum_s,
        width=goal.width,
        lower_bound_fps=_times(lower, n),
        upper_bound_fps=_times(upper, n),
        conditional_throughput_fps=_times(conditional, n),
        per_direction=_per_direction(there, lower, upper),
        regular=found.regular,
        qualifier="at least" if found.at_least else "at most" if found.at_most else "",
        reason=reason,
        throughput_l1_bps=_times(lower, n * l1_bits_per_frame(logged.begin.frame_size)),
        latency=_latency(there),
        trials_at_lower_bound=tuple(t.number for t in there),
    )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def direction_name(direction: int) -> str:
    """Name of a direction in results.

    Args:
        direction: Number of the sending port.

    Returns:
        "phy0->phy1" or "phy1->phy0".
    """
    return f"phy{direction}->phy{1 - direction}"


def _per_direction(
    trials: Sequence[TrialRecord], lower: float | None, upper: float | None
) -> tuple[DirectionBound, ...]:
    bounds = []
    for direction, counted in sorted(_by_direction(trials).items()):
        offered = sum(t.result.offered(c) for t, c in counted)
        received = sum(c.received for _, c in counted)
        bounds.append(
            DirectionBound(
                direction=direction_name(direction),
                lower_bound_fps=lower,
                upper_bound_fps=upper,
                conditional_throughput_fps=lower * received / offered
                if lower is not None and offered
                else None,
                loss_ratio_at_lower_bound=max(t.result.loss_ratio(c) for t, c in counted),
            )
        )
    return tuple(bounds)


def _by_direction(
    trials: Sequence[TrialRecord],
) -> dict[int, list[tuple[TrialRecord, DirectionCounts]]]:
    found: dict[int, list[tuple[TrialRecord, DirectionCounts]]] = {}
    for trial in trials:
        for counts in trial.result.directions:
            found.setdefault(counts.direction, []).append((trial, counts))
    return found


def _latency(trials: Sequence[TrialRecord]) -> dict[str, Latency]:
    """Latency at the lower bound: of the last of the longest trials there."""
    if not trials:
        return {}
    longest = max(t.spec.duration_s for t in trials)
    full = [t for t in trials if t.spec.duration_s == longest]
    whole = [t for t in full if all(_has_percentiles(c.latency) for c in t.result.directions)]
    last = (whole or full)[-1]
    return {
        direction_name(c.direction): c.latency
        for c in last.result.directions
        if c.latency is not None
    }


def _has_percentiles(latency: Latency | None) -> bool:
    return latency is not None and bool(latency.percentiles)


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
    missing = dict.fromkeys((s.case for s in searches), "the run was interrupted")
    missing |= {
        (r.scenario, r.test, r.frame_size): r.why
        for r in records
        if isinstance(r, NotMeasuredRecord)
    }
    results += [
        Result(scenario=c[0], test=c[1], frame_size=c[2], status="not measured", why=why)
        for c, why in missing.items()
        if c not in final
    ]
    calibrations = [r.calibration for r in records if isinstance(r, CalibrationRecord)]
    deployed = {r.facts.scenario: r for r in records if isinstance(r, ScenarioRecord)}
    ledger = ledger_of(run, [r.scenario for r in deployed.values()], results)
    begins = {s.begin.search: s.begin for s in searches}
    return RunResults(
        run=run.identity.model_copy(update={"ended": end.ended if end else ""}),
        preset=run.preset.name,
        benchmark=run.preset.benchmark,
        preset_note=run.preset.note,
        warnings=_warnings(run, _interrupted(records), list(deployed.values()), searches),
        settings=run.settings,
        environment=next((r.facts for r in records if isinstance(r, EnvironmentRecord)), {}),
        calibration=_merge(calibrations),
        scenarios=tuple(r.facts for r in deployed.values()),
        results=tuple(sorted(results, key=lambda r: (r.scenario, r.test, r.frame_size))),
        trials=tuple(_point(t, begins[t.search]) for s in searches for t in s.trials),
        ledger=tuple(ledger),
        deviations=tuple(entry for entry in ledger if entry.status == "deviated"),
    )


def _merge(calibrations: Sequence[Calibration]) -> Calibration | None:
    """Several calibrations of a resumed run: the newest, with all frame sizes."""
    if not calibrations:
        return None
    points = {p.frame_size: p for c in calibrations for p in c.points}
    return calibrations[-1].model_copy(
        update={"points": tuple(points[size] for size in sorted(points))}
    )


#: pytest's exit status after Ctrl-C.
_EXIT_INTERRUPTED = 2


def _interrupted(records: Sequence[Record]) -> bool:
    """Whether a session of the log, or one worker's of several, did not run to its end."""
    interrupted = is_open = False
    for record in records:
        if isinstance(record, RunRecord):
            interrupted = (interrupted or is_open) and not record.resumed
            is_open = True
        elif isinstance(record, EndRecord):
            interrupted |= record.exit_status == _EXIT_INTERRUPTED
            is_open = False
    return interrupted or is_open


def _warnings(
    run: RunRecord,
    interrupted: bool,
    scenarios: Sequence[ScenarioRecord],
    searches: Sequence[LoggedSearch],
) -> tuple[str, ...]:
    warnings = []
    if interrupted:
        warnings.append(
            "this run was interrupted or is still going on: some results may be missing"
        )
    for facts in (r.facts for r in scenarios):
        placement = facts.plan.get("placement", {})
        if placement.get("mode") == "shared":
            warnings.append(
                f"{facts.scenario}: shared processors ({placement.get('reason', '')}); "
                "rates say what this machine can do, not what the switch could on dedicated cores"
            )
    if run.testbed.media.nominal and scenarios:
        warnings.append(
            f"virtual wires have no speed of their own: the theoretical maximum is that of "
            f"{run.testbed.media.bits_per_second / 1e9:g} Gbit/s Ethernet, for comparison only"
        )
    invalid = Counter(t.verdict.value for s in searches for t in s.trials if not is_valid(t))
    if invalid:
        counts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(invalid.items()))
        warnings.append(f"trials without a valid measurement, not used for any result: {counts}")
    return tuple(warnings)
