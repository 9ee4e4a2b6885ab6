"""Recomputes every figure of a run from its log alone.

Searches and procedures are pure: the trials of the log, replayed through them, give the same
results today or in ten years. A result is never stored by the run itself.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final

from vnetperf.analysis.compliance import derive_ledger
from vnetperf.analysis.compliance.rfc2544 import SentLoad
from vnetperf.analysis.compliance.rfc8219 import transport
from vnetperf.analysis.disturbance import disturbing_share, marked
from vnetperf.analysis.environment import machine_name
from vnetperf.analysis.goals import derive_goals, goals_by_trials, on_medium
from vnetperf.analysis.logged_tests import (
    Case,
    Identity,
    LoggedSearch,
    LoggedTest,
    by_round,
    group_tests,
    is_valid,
    merge_deployments,
    planned_rounds,
    start_procedure,
)
from vnetperf.analysis.rounds import in_rounds, over_rounds
from vnetperf.analysis.run_warnings import (
    TrialWarnings,
    deployment_warnings,
    derive_conditions,
    derive_warnings,
    restore_facts,
    transfer_warnings,
    version_warnings,
)
from vnetperf.log.calibrations import calibration_warnings, merge_calibrations
from vnetperf.log.records import (
    BeginRecord,
    CalibrationRecord,
    ComparisonRecord,
    EndRecord,
    EnvironmentRecord,
    NotMeasuredRecord,
    ProcedureRecord,
    ProfileRecord,
    Record,
    RedactedRecord,
    RestoredRecord,
    RoundRecord,
    RunRecord,
    ScenarioRecord,
    SearchRecord,
    SkippedRecord,
    TransfersRecord,
    TrialRecord,
)
from vnetperf.log.stored import Shelf, complete_trials, rare_collections
from vnetperf.log.trial_log import foreign_log
from vnetperf.model.base import share_field_sets
from vnetperf.model.errors import LogError, NoResultError
from vnetperf.model.frame_change import NEW_SESSIONS
from vnetperf.model.frames import LinkSpeed
from vnetperf.model.parameters import STANDARD_TESTS
from vnetperf.model.result import (
    ComparedVariant,
    ComparisonResult,
    FrameFaults,
    LedgerEntry,
    Redaction,
    Result,
    RunResults,
    TrialPoint,
    total_if_known,
)
from vnetperf.model.scenario import (
    PROGRAM_VARIANTS,
    Comparison,
    Variant,
    on_testbed,
    variant_id,
    without_testbed,
)
from vnetperf.model.transfer import Transfer, Transfers, TransferSpec
from vnetperf.model.trial import TrialResult, Verdict
from vnetperf.plugin import registry
from vnetperf.plugin.procedure import load_test
from vnetperf.procedures.cpu_load import cpu_by_role, mean_power
from vnetperf.search import ReplayMismatchError, replay, search_inputs

#: Algorithms whose bounds are no classification of single loads by their trials.
_NOT_BY_TRIALS = ("tst009",)


def _transfers_in_rounds(records: Iterable[Record], limit: float) -> Iterator[Transfers]:
    """All transfers as they were run, each with its round: one that failed shifts no other."""

    def placed(transfer: Transfer) -> Transfer:
        return transfer.model_copy(
            update={"round": number, "disturbed": transfer.disturbed_by(limit)}
        )

    number = 1
    for record in records:
        if isinstance(record, RoundRecord):
            number = record.number
        elif isinstance(record, TransfersRecord):
            result = record.result
            yield result.model_copy(update={"transfers": tuple(map(placed, result.transfers))})


def merge_transfers(parts: Iterable[Transfers]) -> tuple[Transfers, ...]:
    """All transfers of each scenario, in the order in which they were first run."""
    scenarios: dict[str, dict[TransferSpec, list[Transfer]]] = {}
    for part in parts:
        transfers = scenarios.setdefault(part.scenario, {})
        for transfer in part.transfers:
            transfers.setdefault(transfer.spec.requested, []).append(transfer)
    return tuple(
        Transfers(
            scenario=scenario,
            transfers=tuple(rounds[-1] for rounds in transfers.values()),
            earlier=tuple(transfer for rounds in transfers.values() for transfer in rounds[:-1]),
        )
        for scenario, transfers in scenarios.items()
    )


def merge_comparisons(records: Sequence[Record]) -> tuple[ComparisonResult, ...]:
    """Every comparison once: a run that is resumed, or each worker of one, notes it again."""
    skipped: dict[str, dict[str, None]] = {}
    for record in records:
        if isinstance(record, SkippedRecord):
            skipped.setdefault(record.scenario, {})[record.why] = None
    variants_by_name: dict[tuple[str, str], dict[str, Variant]] = {}
    about: dict[str, Comparison] = {}
    for record in records:
        if isinstance(record, ComparisonRecord):
            noted = record.comparison
            about[noted.name] = noted
            noted_variants = variants_by_name.setdefault((noted.name, noted.scenario), {})
            noted_variants.update({variant.id: variant for variant in noted.variants})
    return tuple(
        ComparisonResult(
            name=name,
            title=about[name].title,
            scenario=scenario,
            variants=tuple(
                _compared(scenario, v, skipped, _deployed_as(about[name]))
                for v in variants.values()
            ),
        )
        for (name, scenario), variants in variants_by_name.items()
    )


def _deployed_as(comparison: Comparison) -> str:
    """What a comparison's variants are a variant of: of sessions that are made anew, of these."""
    test = comparison.measures
    makes_sessions = test in registry.names("procedures") and load_test(test).fills == "sessions"
    return NEW_SESSIONS if makes_sessions else ""


def _compared(
    scenario: str, variant: Variant, skipped: Mapping[str, Iterable[str]], variant_of: str
) -> ComparedVariant:
    plain = variant_id(scenario, variant.id)
    name = variant_id(plain, variant_of)
    deployed = {variant_id(plain, kind) for kind in ("", *PROGRAM_VARIANTS)} | {name}
    reason = "; ".join(
        reason for deployed_name in sorted(deployed) for reason in skipped.get(deployed_name, ())
    )
    return ComparedVariant(variant=variant.id, scenario=name, typed=variant.typed, skipped=reason)


def reading_order(comparisons: Sequence[ComparisonResult]) -> dict[str, int]:
    """Places of variants among those of their scenario, as their comparisons show them."""
    order: dict[str, int] = {}
    for comparison in comparisons:
        for variant in comparison.variants:
            order.setdefault(variant.scenario, len(order) + 1)
    return order


def find_skipped_cases(records: Sequence[Record]) -> tuple[str, ...]:
    """Cases that a session selected, and that neither it nor one that continued it has run.

    A session that was killed does not tell which it had run.
    """
    selected: dict[str, str] = {}
    ran: set[str] = set()
    now: dict[str, str] = {}
    for record in records:
        if isinstance(record, RunRecord):
            now = _as_named_before(record.cases, selected)
            for case, key in now.items():
                selected.setdefault(key, case)
        elif isinstance(record, EndRecord):
            ran |= {key for case, key in now.items() if case not in record.left}
    if not any(isinstance(record, RunRecord) and record.resumed for record in records):
        return ()  # then it was interrupted, or each case has its reason
    return tuple(case for key, case in selected.items() if key not in ran)


#: A run without rounds is the first one of a run with some.
_FIRST_ROUND: Final = re.compile(r"-round1(?=[-\]])")


def _as_named_before(cases: Iterable[str], earlier: Iterable[str]) -> dict[str, str]:
    """Cases by what an earlier session knows them by.

    That had other rounds perhaps, and began in another folder: of the paths of one file one ends
    with the other.
    """
    plain = {case: _FIRST_ROUND.sub("", case) for case in cases}
    current: set[str] = set(plain.values())
    alike: dict[str, list[str]] = {}
    for key in earlier:
        alike.setdefault(_without_folders(key), []).append(key)
    keys = {}
    for case, key in plain.items():
        others = [
            candidate
            for candidate in alike.get(_without_folders(key), ())
            if candidate not in current
        ]
        same = [
            candidate
            for candidate in others
            if f"/{candidate}".endswith(f"/{key}") or key.endswith(f"/{candidate}")
        ]
        keys[case] = same[0] if key not in earlier and len(same) == 1 else key
    return keys


def _without_folders(case: str) -> str:
    file, colons, name = case.partition("::")
    return f"{PurePath(file).name}{colons}{name}"


def derive_result(
    logged: LoggedTest, media: LinkSpeed | None, *, by_trials: bool = False
) -> Result:
    """The result of a test; `media` is None where the wires have no speed of their own."""
    begin = logged.begin
    common: dict[str, Any] = {
        "scenario": begin.scenario,
        "test": begin.test,
        "frame_size": begin.frame_size,
        "search": begin.search,
        "media_max_fps": media.max_frame_rate(begin.wire_size) * begin.in_sum if media else None,
        "generator_max_fps": begin.generator_max_fps,
        "directions": begin.directions,
        "imix": begin.imix,
        "mean_frame_size": begin.mean_size,
        "loads": begin.loads,
        "trial_seconds": round(sum(t.spec.duration_s for t in logged.trials), 3),
        "wall_seconds": round(logged.end.wall_s if logged.end else 0.0, 3),
        **_trial_figures(logged.trials),
    }
    if isinstance(begin, SearchRecord):
        goals = (goals_by_trials if by_trials else derive_goals)(begin, logged)
        goals = marked(goals, logged.trials, disturbing_share(begin.goals))
        goals = on_medium(goals, common["media_max_fps"])
        # No load has met a goal, and smaller ones were still to be tried.
        is_open = any(g.lower_bound_fps is None and g.qualifier != "at most" for g in goals)
        if logged.end is None and is_open:
            reason = f"the run was interrupted after {len(logged.trials)} trials of this test"
            return Result(**common, status="not measured", why=reason, algorithm=begin.algorithm)
        return Result(
            algorithm=begin.algorithm,
            search_inputs=search_inputs(begin.limits),
            goals=goals,
            min_load_fps=begin.limits.min_load_fps,
            max_load_fps=begin.limits.max_load_fps,
            **common,
        )
    return Result(**common | _procedure_result(logged))


def count_faults(trials: Sequence[TrialResult]) -> FrameFaults:
    """Frames of trials that came back otherwise than they were sent."""
    directions = [counts for result in trials for counts in result.directions]
    # A log without a count of the corrupted has them among the foreign; a generator that tells none
    # of its own frames to be corrupted has them there by what it is.
    apart = [
        sum(r.foreign.values())
        if "foreign" not in r.uncollected
        and (r.corrupted is not None or "corrupted" in r.uncollected)
        else None
        for r in trials
    ]
    return FrameFaults(
        **{
            name: total_if_known(getattr(counts, name) for counts in directions)
            for name in ("duplicated", "reordered", "late", "misrouted", "altered")
        },
        corrupted=total_if_known(r.corrupted for r in trials),
        foreign=total_if_known(apart),
        stale=total_if_known(None if "stale" in r.uncollected else r.stale for r in trials),
        verified=total_if_known(r.verified for r in trials),
    )


def _procedure_result(logged: LoggedTest) -> dict[str, Any]:
    begin = logged.begin
    assert isinstance(begin, ProcedureRecord)  # noqa: S101 - for the type checker: no other is left
    fields: dict[str, Any] = {
        "min_load_fps": begin.inputs["min_load_fps"],
        "max_load_fps": begin.inputs["ceiling_fps"],
    }
    throughput = begin.inputs.get("throughput") or {}
    fixed_fps = begin.inputs["parameters"].get("cir_fps")  # a load that is no share
    of_other_deployment = bool(throughput.get("other_deployment")) and not fixed_fps
    bad = [t.number for t in logged.trials if t.verdict is not Verdict.VALID]
    if logged.test_outcome is not None:
        return fields | {
            "test_inputs": logged.test_outcome.conditions,
            "of_other_deployment": of_other_deployment,
            "discarded": len(bad),
            "outcome": logged.test_outcome,
        }
    if begin.test not in registry.names("procedures"):
        reason = f"test {begin.test} is not installed here, and the log has no outcome of it"
        return fields | {"status": "not measured", "why": reason}
    test = load_test(begin.test)
    fields["test_inputs"] = test.conditions(begin.inputs)
    try:
        replayed = replay(start_procedure(begin), logged.outcomes())
    except NoResultError as error:  # of a run that was killed before it could log the reason
        return fields | {"status": "not measured", "why": str(error)}
    if replayed.next_request is not None:
        reason = f"the run was interrupted after {len(logged.trials)} trials of this test"
        if logged.end is not None:
            reason = "another version ended this test by fewer trials than this one asks for"
        return fields | {"status": "not measured", "why": reason}
    fields["of_other_deployment"] = of_other_deployment
    fields["discarded"] = test.count_discarded(replayed.outcome, replayed.discarded, bad)
    return fields | {test.fills: replayed.outcome}


def _followers(records: Sequence[Record]) -> dict[int, TrialRecord]:
    """Number of a trial -> the one that was run next, which found what came late of it."""
    # A trial of a profile took what came late, and may have left some: its counts are not logged.
    run = (r for r in records if isinstance(r, TrialRecord | ProfileRecord))
    return {
        before.number: after
        for before, after in pairwise(run)
        if isinstance(before, TrialRecord) and isinstance(after, TrialRecord)
    }


def _trial_point(
    trial: TrialRecord, begin: BeginRecord, after: TrialRecord | None, limit: float
) -> TrialPoint:
    """A trial as reports have it; `after` is the one that was run next."""
    result, has_number = trial.result, bool(trial.result.directions)
    # None found is known only of generators that count what comes between trials, too.
    late = (after.result.stale or (0 if after.result.gaps else None)) if after else None
    seconds = trial.spec.duration_s
    intended = sum(c.intended for c in result.directions)
    point = TrialPoint(
        number=trial.number,
        scenario=begin.scenario,
        test=begin.test,
        frame_size=begin.frame_size,
        load_fps=trial.spec.load_fps,
        duration_s=seconds,
        loss_ratio=result.worst_loss_ratio() if has_number else None,
        load_loss_ratio=result.load_loss(1.0).most if has_number else None,
        forwarded_fps=result.received / seconds if has_number else None,
        offered_ratio=sum(map(result.offered, result.directions)) / intended if intended else None,
        least_offered_ratio=min(
            (result.offered(c) / c.intended for c in result.directions if c.intended), default=None
        ),
        verdict=trial.verdict,
        reason=trial.reason,
        lost_at=trial.lost_at,
        burst=trial.spec.burst,
        phase=trial.spec.phase,
        unsent=sum(c.unsent for c in result.directions) if has_number else None,
        poll_gap_s=result.gaps.poll.max_s if result.gaps else None,
        send_gap_s=result.gaps.send.max_s if result.gaps else None,
        late=late,
        disturbed=result.disturbed_by(limit),
        cpu=cpu_by_role(result),
        watts=mean_power(result),
        search=trial.search,
    )
    share_field_sets(point)  # a large log has many
    return point


def _derive_test_result(
    logged: LoggedTest, media: LinkSpeed | None, otherwise: list[LoggedTest]
) -> Result:
    """A result; by its trials where another version's search had requested them."""
    try:
        return derive_result(logged, media)
    except ReplayMismatchError:
        begin = logged.begin
        if not isinstance(begin, SearchRecord) or begin.algorithm in _NOT_BY_TRIALS:
            raise
        otherwise.append(logged)
        return derive_result(logged, media, by_trials=True)


def merge_searches(rounds: Mapping[int, Result], searches: Sequence[LoggedSearch]) -> Result:
    """The result of a throughput of which several searches were made in one deployment.

    Args:
        rounds: Round -> result of its search.
        searches: The searches, whose trials it counts.
    """
    measured = {n: result for n, result in rounds.items() if result.status == "measured"}
    if not measured:
        return list(rounds.values())[-1]
    trials = [trial for search in searches for trial in search.trials]
    goals = over_rounds(measured, [s for s in searches if s.begin.round in measured])
    last = list(measured.values())[-1]
    return last.model_copy(
        update={
            "goals": goals,
            "search": goals[0].search or last.search,
            "trial_seconds": sum(result.trial_seconds for result in rounds.values()),
            "wall_seconds": sum(result.wall_seconds for result in rounds.values()),
            **(_trial_figures(trials) if len(searches) > 1 else {}),
        }
    )


class _Round:
    """The tests of one round, and how the results of their cases are made."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._tests = group_tests(records)
        self._whys = _not_measured(records)
        final: dict[Case, list[LoggedTest]] = {}
        for test in self._tests:
            if test.final:
                final.setdefault(test.case, []).append(test)
        #: Each case with its searches, or its last test.
        self._final_tests = {case: (in_rounds(tests), tests[-1]) for case, tests in final.items()}

    @property
    def tests(self) -> Iterator[LoggedTest]:
        """Those that have a result."""
        for searches, last in self._final_tests.values():
            yield from searches or (last,)

    def results(self, read_result: Callable[[int], Result]) -> dict[Identity, Callable[[], Result]]:
        """What makes the result of each case.

        Args:
            read_result: The result of a test by its number.
        """
        makers: dict[Identity, Callable[[], Result]] = {
            (*case, ""): partial(_case_result, searches, last, read_result)
            for case, (searches, last) in self._final_tests.items()
        }
        # A test that was to begin again and never did has no reason of its own in the log.
        begun = {(*t.case, ""): t for t in self._tests}  # the last, which is the one that failed
        missing = dict.fromkeys(begun, ("the run was interrupted", False))
        missing |= {r.identity: (r.why, r.kind == "failed") for r in self._whys}
        mixes = {key: t.begin.imix for key, t in begun.items()}
        mixes |= {r.identity: r.imix for r in self._whys}
        for key, (reason, failed) in missing.items():
            if key[:3] not in self._final_tests:
                mix, test = mixes.get(key, ""), begun.get(key)
                makers[key] = partial(_no_result, key, reason, test, failed=failed, imix=mix)
        return makers


def _case_result(
    searches: Sequence[LoggedSearch], last: LoggedTest, read_result: Callable[[int], Result]
) -> Result:
    rounds = {s.begin.round: read_result(s.begin.search) for s in searches}
    return merge_searches(rounds, searches) if rounds else read_result(last.begin.search)


def _no_result(
    key: Identity, reason: str, begun: LoggedTest | None, *, failed: bool, imix: str
) -> Result:
    scenario, test, size, instance = key
    return Result(
        scenario=scenario,
        test=test,
        frame_size=size,
        status="not measured",
        of=instance,
        why=reason,
        failed=failed,
        imix=imix,
        **_trial_figures(begun.trials if begun is not None else ()),
    )


class _Deployments(Mapping[int, Result]):
    """The result of a case in each round, made when it is used."""

    def __init__(self) -> None:
        self._makes: dict[int, Callable[[], Result]] = {}

    def add(self, number: int, make: Callable[[], Result]) -> None:
        """Note what makes that of a round."""
        self._makes[number] = make

    def __getitem__(self, number: int) -> Result:
        return self._makes[number]()

    def __iter__(self) -> Iterator[int]:
        return iter(self._makes)

    def __len__(self) -> int:
        return len(self._makes)


#: Results and trials of a run that are kept in memory; those of one with more are in a file.
_RESULTS_AT_HAND, _TRIALS_AT_HAND = 100, 5000


class _Tests:
    """What the tests of a log show: each is looked at once, and none of its trials is kept.

    Attributes:
        warnings: What their trials show that holds for the run.
        load: Likewise of how constant their load was.
        contradicted: Trials of each case whose frames contradict the counts.
        points: Every trial as reports have it.
        otherwise: Tests that another version had searched by other trials.
    """

    def __init__(self, records: Sequence[Record], run: RunRecord, limit: float) -> None:
        self._limit = limit
        self._media = run.testbed.media.speed
        self._results = Shelf(Result, _RESULTS_AT_HAND)
        self._place: dict[int, int] = {}
        self.warnings = TrialWarnings(limit)
        self.load = SentLoad()
        self.contradicted: Counter[Case] = Counter()
        self.points = Shelf(TrialPoint, _TRIALS_AT_HAND)
        self.otherwise: list[LoggedTest] = []
        self._followers = _followers(records)

    def add(self, test: LoggedTest, of_round: LoggedTest | None) -> None:
        """Look at a test; `of_round` is the same as its round has it, None if it has no result."""
        trials = complete_trials(test.trials)
        for trial in trials:
            self.warnings.add(test.begin.scenario, trial)
            self.load.add(trial)
            self.contradicted[test.case] += trial.verdict is Verdict.INCONSISTENT
            after = self._followers.get(trial.number)
            self.points.append(_trial_point(trial, test.begin, after, self._limit))
        if of_round is not None:
            self._place[test.begin.search] = len(self._results)
            self._results.append(
                _derive_test_result(replace(of_round, trials=trials), self._media, self.otherwise)
            )

    def read_result(self, search: int) -> Result:
        """The result of a test by its number."""
        return self._results[self._place[search]]


def _not_measured(records: Iterable[Record]) -> list[NotMeasuredRecord]:
    """What has no number, but for transfers that were measured after they had failed."""
    missing: list[NotMeasuredRecord] = []
    for record in records:
        if isinstance(record, NotMeasuredRecord):
            missing.append(record)
        elif isinstance(record, TransfersRecord):
            name = record.result.scenario
            done = {(name, transfer.spec.requested) for transfer in record.result.transfers}
            missing = [
                failure
                for failure in missing
                if not failure.transfer
                or (failure.scenario, failure.transfer.requested) not in done
            ]
    return missing


def _trial_figures(trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """What every result has of its trials, whatever its test."""
    return {
        "trial_count": len(trials),
        "discarded": sum(not is_valid(t) for t in trials),
        "verdicts": dict(Counter(t.verdict for t in trials)),
        # A trial that is INCONSISTENT by its faults shows them all the same.
        "faults": count_faults(
            [t.result for t in trials if is_valid(t) or t.verdict is Verdict.INCONSISTENT]
        ),
    }


def derive(records: Sequence[Record]) -> RunResults:
    """Everything in a report, from a log; `LogError` where its records do not fit together."""
    with foreign_log("deriving results"), rare_collections():
        skipped_cases = find_skipped_cases(records)  # of several testbeds each has run some
        if not _is_on_several(records):
            return _derive(records, skipped_cases)
        parts = by_testbed(records)
        lost = {
            name: [r.lost for r in part if isinstance(r, EndRecord) and r.lost]
            for name, part in parts.items()
        }
        results = {}
        for name, part in parts.items():
            others = [r for other in parts if other != name for r in parts[other]]
            stayed = _without_moved(part, others) if lost[name] else part
            results[name] = _derive([_name_by_testbed(r, name) for r in stayed], skipped_cases)
        return _together(results, lost, _redaction(records))


def _without_moved(records: Sequence[Record], others: Sequence[Record]) -> list[Record]:
    """Those of a lost testbed but for failed transfers that another one has measured."""

    def case(scenario: str, spec: TransferSpec) -> tuple[str, TransferSpec]:
        return scenario, spec.requested.model_copy(update={"tool": ""})  # it may have another one

    done = {
        case(r.result.scenario, transfer.spec)
        for r in others
        if isinstance(r, TransfersRecord)
        for transfer in r.result.transfers
    }
    return [
        r
        for r in records
        if not isinstance(r, NotMeasuredRecord)
        or r.transfer is None
        or case(r.scenario, r.transfer) not in done
    ]


def named_as_results(records: Sequence[Record]) -> list[Record]:
    """Records whose scenarios have the names that their results have: with that of a testbed."""
    if not _is_on_several(records):
        return list(records)
    return [_name_by_testbed(r, name) for name, part in by_testbed(records).items() for r in part]


def _is_on_several(records: Sequence[Record]) -> bool:
    """Whether a run was for several testbeds, though only one may have measured."""
    first = next((r for r in records if isinstance(r, RunRecord)), None)
    named = first.settings.get("testbed", {}).get("value", "") if first else ""
    return "," in named or len(by_testbed(records)) > 1


def by_testbed(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Name of a testbed -> what was measured on it: all that follows the record of a run there."""
    records_by_testbed: dict[str, list[Record]] = {}
    name = ""
    for record in records:
        name = record.identity.testbed if isinstance(record, RunRecord) else name
        records_by_testbed.setdefault(name, []).append(record)
    return records_by_testbed


def _name_by_testbed(record: Record, testbed: str) -> Record:
    """A record whose scenario has the testbed in its name, so that nothing is mixed by name."""
    change: dict[str, Any] = {}
    match record:
        case ScenarioRecord():
            variant = on_testbed(record.scenario.variant, testbed).removeprefix(",")
            name = on_testbed(record.facts.scenario, testbed)
            change["scenario"] = record.scenario.model_copy(update={"variant": variant})
            change["facts"] = record.facts.model_copy(update={"scenario": name})
        case BeginRecord() | NotMeasuredRecord() | SkippedRecord():
            change["scenario"] = on_testbed(record.scenario, testbed)
        case RestoredRecord() if record.scenario:
            change["scenario"] = on_testbed(record.scenario, testbed)
        case TransfersRecord():
            name = on_testbed(record.result.scenario, testbed)
            change["result"] = record.result.model_copy(update={"scenario": name})
        case ProfileRecord():
            name = on_testbed(record.profile.scenario, testbed)
            change["profile"] = record.profile.model_copy(update={"scenario": name})
        case CalibrationRecord():
            change["calibration"] = record.calibration.model_copy(update={"testbed": testbed})
        case ComparisonRecord():
            variants = tuple(
                v.model_copy(update={"id": on_testbed(v.id, testbed).removeprefix(",")})
                for v in record.comparison.variants
            )
            change["comparison"] = record.comparison.model_copy(update={"variants": variants})
        case _:
            return record
    return record.model_copy(update=change)


def _together(
    results_by_testbed: dict[str, RunResults],
    lost: dict[str, list[str]],
    redacted: Redaction | None,
) -> RunResults:
    """The results of several testbeds side by side; no number is of two of them."""
    all_results = list(results_by_testbed.values())
    first = all_results[0]
    measured = {
        _anywhere(r)
        for run_results in all_results
        for r in run_results.results
        if r.status == "measured"
    }
    elsewhere: dict[str, list[Result]] = {name: [] for name in results_by_testbed}
    results, briefs = Shelf(Result, _RESULTS_AT_HAND), list[Result]()
    points, numbers = Shelf(TrialPoint, _TRIALS_AT_HAND), array("q")
    for name, run_results in results_by_testbed.items():
        for result in run_results.results:
            if result.status == "not measured" and _anywhere(result) in measured:
                elsewhere[name].append(result)
            else:
                results.append(result)
                briefs.append(result.without_outcomes)
        for point in run_results.trials:
            points.append(point)
            numbers.append(point.number)
    names = {r.scenario for r in briefs} | {
        t.scenario for run_results in all_results for t in run_results.transfers
    }
    # A comparison's scenarios are those without what is put to them.
    scenarios = names | {name.rpartition(",")[0] for name in names}
    comparisons = [
        c
        for run_results in all_results
        for c in run_results.comparisons
        if any(v.scenario in scenarios or v.skipped for v in c.variants)
    ]
    place = reading_order(comparisons)
    ends = [run_results.run.ended for run_results in all_results]
    ledger = _merge_ledgers(results_by_testbed)
    losses = {
        name: [f"the testbed was lost: {reason}" for reason in whys] for name, whys in lost.items()
    }
    return first.model_copy(
        update={
            "run": first.run.model_copy(
                update={
                    "testbed": ", ".join(results_by_testbed),
                    "started": min(run_results.run.started for run_results in all_results),
                    "ended": max(ends) if all(ends) else "",
                    "isolation": "; ".join(
                        f"{name}: {run_results.run.isolation}"
                        for name, run_results in results_by_testbed.items()
                        if run_results.run.isolation
                    ),
                }
            ),
            "warnings": (
                *_apart(results_by_testbed),
                *_prefix_testbeds(
                    {
                        n: [*losses[n], *run_results.warnings]
                        for n, run_results in results_by_testbed.items()
                    }
                ),
                *(
                    f"{r.scenario}, {r.test}, {r.size_name}: not measured there ({r.why}), but on "
                    "another testbed"
                    for missing in elsewhere.values()
                    for r in missing
                ),
            ),
            "conditions": tuple(
                _prefix_testbeds(
                    {n: run_results.conditions for n, run_results in results_by_testbed.items()}
                )
            ),
            "environment": {
                name: run_results.environment for name, run_results in results_by_testbed.items()
            },
            "testbeds": tuple(results_by_testbed),
            **{
                field: tuple(
                    item for run_results in all_results for item in getattr(run_results, field)
                )
                for field in ("calibrations", "scenarios", "transfers", "profiles")
            },
            "comparisons": tuple(comparisons),
            "trials": points.by(numbers),
            "results": results.by([_order(run_results, place) for run_results in briefs]),
            "ledger": ledger,
            "deviations": tuple(entry for entry in ledger if entry.status == "deviated"),
            "redacted": redacted,
        }
    )


def _prefix_testbeds(texts: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Each text once, after the names of the testbeds that have it if not all do."""
    names_by_text: dict[str, list[str]] = {}
    for name, testbed_texts in texts.items():
        for text in testbed_texts:
            names_by_text.setdefault(text, []).append(name)
    for text, names in names_by_text.items():
        yield text if len(names) == len(texts) else f"{', '.join(names)}: {text}"


def _apart(testbeds: Mapping[str, RunResults]) -> list[str]:
    """What a reader of results of several testbeds must know."""
    if len(testbeds) == 1:
        return []
    machines = {machine_name(results.environment) for results in testbeds.values()}
    if len(machines) == 1 and "" not in machines:
        return [
            f"measured on {len(testbeds)} testbeds of one machine, {', '.join(testbeds)}, one "
            "after the other: each number is of the one that its scenario names"
        ]
    return [
        f"measured on {len(testbeds)} testbeds at once, {', '.join(testbeds)}: each number is of "
        "the one that its scenario names, and a difference between two of them is one between "
        "their machines too"
    ]


def _merge_ledgers(results_by_testbed: dict[str, RunResults]) -> tuple[LedgerEntry, ...]:
    """The clauses of all testbeds: what holds for each of them once, else with its name."""
    names_by_entry: dict[LedgerEntry, list[str]] = {}
    for name, results in results_by_testbed.items():
        for entry in results.ledger:
            names_by_entry.setdefault(entry, []).append(name)
    return tuple(
        entry
        if entry.scenario or len(names) == len(results_by_testbed)
        else entry.model_copy(update={"value": f"{', '.join(names)}: {entry.value}"})
        for entry, names in names_by_entry.items()
    )


def _anywhere(result: Result) -> tuple[str, str, int]:
    """A case without the testbed that it was measured on."""
    return without_testbed(result.scenario)[0], result.test, result.frame_size


def _last_deployments(records: Iterable[ScenarioRecord]) -> dict[str, ScenarioRecord]:
    """Each scenario as it was deployed last; one that never was has its last error."""
    deployments: dict[str, ScenarioRecord] = {}
    for record in records:
        name = record.facts.scenario
        if name not in deployments or not record.facts.error or deployments[name].facts.error:
            deployments[name] = record
    return deployments


def _derive(records: Sequence[Record], skipped_cases: Sequence[str]) -> RunResults:
    run = next((r for r in records if isinstance(r, RunRecord)), None)
    if run is None:
        raise LogError(
            "the log has no run record: it is none of a run, or was cut in its first line",
            where="trial log",
            cure="name a results folder, or the trials.jsonl in one",
        )
    last = next((r for r in reversed(records) if isinstance(r, RunRecord | EndRecord)), None)
    end = last if isinstance(last, EndRecord) else None  # else a resumed session goes on
    limit = disturbing_share(run.preset.goals)
    rounds = {number: _Round(part) for number, part in by_round(records).items()}
    with_result = {test.begin.search: test for part in rounds.values() for test in part.tests}
    tests, log_tests = group_tests(records), _Tests(records, run, limit)
    for test in tests:
        log_tests.add(test, with_result.get(test.begin.search))
    results_by_case: dict[Identity, _Deployments] = {}
    for number, part in rounds.items():
        for identity, make in part.results(log_tests.read_result).items():
            results_by_case.setdefault(identity, _Deployments()).add(number, make)
    merged = merge_calibrations([r for r in records if isinstance(r, CalibrationRecord)])
    deployed = _last_deployments(r for r in records if isinstance(r, ScenarioRecord))
    transfers = merge_transfers(_transfers_in_rounds(records, limit))
    results, briefs = Shelf(Result, _RESULTS_AT_HAND), list[Result]()

    def noted() -> Iterator[Result]:
        for result in merge_deployments(results_by_case, planned_rounds(records)):
            results.append(result)
            briefs.append(result.without_outcomes)
            yield result

    ledger = [
        *derive_ledger(run, [*deployed.values()], noted(), tests, log_tests.contradicted),
        *log_tests.load.entries([*deployed.values()]),
        *transport(transfers),
    ]
    comparisons = merge_comparisons(records)
    place = reading_order(comparisons)
    run_results = RunResults(
        run=run.identity.model_copy(update={"ended": end.ended if end else ""}),
        preset=run.preset.name,
        benchmark=run.preset.benchmark,
        preset_note=run.preset.note,
        warnings=(
            *derive_warnings(
                run, records, list(deployed.values()), log_tests.warnings, skipped_cases
            ),
            *deployment_warnings(briefs),
            *transfer_warnings(transfers),
            *calibration_warnings(merged),
            *version_warnings(log_tests.otherwise, run),
        ),
        conditions=derive_conditions([*deployed.values()]),
        settings=run.settings,
        environment={
            **next((r.facts for r in records if isinstance(r, EnvironmentRecord)), {}),
            **restore_facts(records),
            **_final_clocks(end),
        },
        calibrations=merged,
        scenarios=tuple(r.facts for r in deployed.values()),
        comparisons=comparisons,
        transfers=transfers,
        profiles=tuple(r.profile for r in records if isinstance(r, ProfileRecord)),
        ledger=tuple(ledger),
        deviations=tuple(entry for entry in ledger if entry.status == "deviated"),
        redacted=_redaction(records),
    )
    ordered = results.by([_order(brief, place) for brief in briefs])
    points = log_tests.points.some(range(len(log_tests.points)))
    return run_results.model_copy(update={"results": ordered, "trials": points})


def _final_clocks(end: EndRecord | None) -> dict[str, Any]:
    """Clocks of hosts on other machines, where there are any; those at the start are facts."""
    if end is None or not end.clocks:
        return {}
    clocks = {host: clock.model_dump() for host, clock in end.clocks.items()}
    return {"clock at the end": clocks[""]} if "" in clocks else {"clocks at the end": clocks}


def _redaction(records: Sequence[Record]) -> Redaction | None:
    return next((r.redaction for r in reversed(records) if isinstance(r, RedactedRecord)), None)


_PLACE = {test: place for place, test in enumerate(STANDARD_TESTS)}


def _order(result: Result, place: dict[str, int]) -> tuple[str, int, str, int, int]:
    """Variants follow their scenario, in the order of their comparison; tests as they are run."""
    scenario = result.scenario
    variant = (scenario.partition(",")[0], place.get(scenario, 0), scenario)
    return (*variant, _PLACE.get(result.test, len(_PLACE)), result.frame_size)
