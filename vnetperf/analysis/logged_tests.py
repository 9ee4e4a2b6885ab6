"""The tests of a trial log.

Each with its trials and its end, by round, and the generator that requested them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any, Generic, TypeVar

from vnetperf.analysis.metrics import Metric, compared_metrics_of, repeated_number
from vnetperf.log.records import (
    BeginRecord,
    NotMeasuredRecord,
    OutcomeRecord,
    ProcedureRecord,
    Record,
    RoundRecord,
    ScenarioRecord,
    SearchEndRecord,
    SearchRecord,
    TransfersRecord,
    TrialRecord,
)
from vnetperf.log.stored import StoredTrial
from vnetperf.model.errors import LogError
from vnetperf.model.figures import Outcome
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.result import (
    Deployments,
    FrameFaults,
    GoalResult,
    RepeatedNumber,
    Result,
)
from vnetperf.model.trial import TrialOutcome, Verdict
from vnetperf.plugin.procedure import load_test
from vnetperf.procedures.base import require_carried_load
from vnetperf.search import Procedure, make_search

Case = tuple[str, str, int]
#: A case, and which of several transfers of its name: "8 instances".
Identity = tuple[str, str, int, str]
Begin_co = TypeVar("Begin_co", bound=BeginRecord, covariant=True)


@dataclass
class Logged(Generic[Begin_co]):
    """One test as the log has it."""

    begin: Begin_co  # What it was run for
    #: Its trials in order, whatever their verdict.
    trials: list[TrialRecord] = field(default_factory=list)
    end: SearchEndRecord | None = None  # How it ended; None when the run was interrupted
    #: What it came to, where the log says so; that of other tests is derived from the trials.
    test_outcome: Outcome | None = None
    _outcomes: dict[int, TrialOutcome] = field(default_factory=dict, init=False, compare=False)

    @property
    def case(self) -> Case:
        """Scenario, test, frame size."""
        return self.begin.case

    @property
    def final(self) -> bool:
        """Whether this is not one that began anew, or failed."""
        return self.end is None or not self.end.superseded

    @property
    def seconds(self) -> float:
        """From the first trial's begin to the last one's end, by their time stamps."""
        if not self.trials:
            return 0.0
        first, last = (datetime.fromisoformat(self.trials[n].started) for n in (0, -1))
        return (last - first).total_seconds() + self.trials[-1].result.wall_s

    def outcomes(self) -> list[TrialOutcome]:
        """What the test learnt of every trial, whatever its verdict."""
        return [self.outcome(trial) for trial in self.trials]

    def outcome(self, trial: TrialRecord) -> TrialOutcome:
        """What the test learnt of one of its trials; kept as the trial is."""
        if isinstance(trial, StoredTrial):  # it would bring the whole log into memory
            return trial_outcome(trial)
        if trial.number not in self._outcomes:
            self._outcomes[trial.number] = trial_outcome(trial)
        return self._outcomes[trial.number]


LoggedTest = Logged[BeginRecord]
LoggedSearch = Logged[SearchRecord]


def is_valid(trial: TrialRecord) -> bool:
    """Whether a trial may classify a load."""
    return trial.verdict is Verdict.VALID


def trial_outcome(trial: TrialRecord) -> TrialOutcome:
    """What a test learns of a trial."""
    return TrialOutcome.of(trial.spec, trial.result, trial.verdict, trial.number)


def group_tests(records: Iterable[Record]) -> list[LoggedTest]:
    """Group a log by test."""
    tests: dict[int, LoggedTest] = {}
    for record in records:
        if isinstance(record, BeginRecord):
            tests[record.search] = Logged(record)
        elif isinstance(record, TrialRecord | OutcomeRecord | SearchEndRecord):
            if record.search not in tests:
                raise LogError(
                    f"test {record.search} has trials but no beginning",
                    where="trial log",
                    cure="the log was cut or edited; restore it from a copy",
                )
            if isinstance(record, TrialRecord):
                tests[record.search].trials.append(record)
            elif isinstance(record, OutcomeRecord):
                tests[record.search].test_outcome = record.outcome
            else:
                tests[record.search].end = record
    return list(tests.values())


def select_searches(records: Iterable[Record]) -> list[LoggedSearch]:
    """The throughput searches of a log."""
    return [
        Logged(logged.begin, logged.trials, logged.end)
        for logged in group_tests(records)
        if isinstance(logged.begin, SearchRecord)
    ]


def start_procedure(begin: BeginRecord) -> Procedure[Any]:
    """Start what a record opens."""
    if isinstance(begin, SearchRecord):
        return make_search(begin.algorithm, begin.goals, begin.limits)
    if isinstance(begin, ProcedureRecord):
        test = load_test(begin.test)
        inputs = test.inputs_model().model_validate(begin.inputs)
        return require_carried_load(inputs.throughput, test.run(inputs))
    raise LogError(f"{begin.type} opens no test", where="trial log")


#: Records of single cases; all others hold for every round, a deployment from its own on.
_RECORDS_OF_CASES = (
    *(BeginRecord, TrialRecord, OutcomeRecord, SearchEndRecord),
    *(NotMeasuredRecord, TransfersRecord),
)


def by_round(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Part a log into rounds."""
    rounds: dict[int, list[Record]] = {}
    common: list[Record] = []
    number = 1
    for record in records:
        if isinstance(record, RoundRecord):
            number = record.number
            rounds.setdefault(number, [*common])
        elif isinstance(record, _RECORDS_OF_CASES):
            rounds.setdefault(number, [*common]).append(record)
        else:
            common.append(record)
            now = rounds.get(number)
            current_round = [] if now is None else [now]
            for round_records in (
                current_round if isinstance(record, ScenarioRecord) else rounds.values()
            ):
                round_records.append(record)
    return {number: rounds[number] for number in sorted(rounds)} or {1: common}


def planned_rounds(records: Iterable[Record]) -> int:
    """How many deployments there were to be."""
    return max((r.rounds for r in records if isinstance(r, RoundRecord)), default=1)


def merge_rounds(rounds: Mapping[int, Sequence[Result]], planned: int = 1) -> list[Result]:
    """One result for each case of several rounds, or transfer, each of which is a deployment."""
    results_by_case: dict[Identity, dict[int, Result]] = {}
    for number, results in rounds.items():
        for result in results:
            results_by_case.setdefault(result.identity, {})[number] = result
    return list(merge_deployments(results_by_case, planned))


def merge_deployments(
    results_by_case: Mapping[Identity, Mapping[int, Result]], planned: int = 1
) -> Iterator[Result]:
    """One result for each case or transfer, of those that each deployment gave."""
    return (_over_deployments(key, results_by_case, planned) for key in results_by_case)


def _over_deployments(
    key: Identity, results_by_case: Mapping[Identity, Mapping[int, Result]], planned: int
) -> Result:
    """The result of one deployment, with what all others gave for its numbers."""
    results = dict(results_by_case[key])
    measured = {n: result for n, result in results.items() if result.status == "measured"}
    failures = {n: result.why for n, result in results.items() if n not in measured}
    shown = _shown_round(key, results_by_case, measured) if measured else max(results)
    # A round that failed before its first trial has counted nothing.
    faults = {n: r.faults for n, r in results.items() if n in measured or r.faults.is_counted}
    deployments = Deployments(
        planned=max(planned, len(results)),
        attempted=len(results),
        measured=len(measured),
        failures=failures,
        selected={n: r.selected for n, r in measured.items() if r.selected},
        shown=shown if measured else 0,
        numbers=_repeated_numbers(measured) if len(results) > 1 else (),
        faults=faults if len(faults) > 1 else {},
    )
    result = results[shown]
    if len(results) > 1:
        goals = tuple(_over_rounds(goal, measured, deployments) for goal in result.goals)
        update = {
            "goals": goals,
            "faults": FrameFaults.pooled(faults.values()),
            "of_other_deployment": any(r.of_other_deployment for r in results.values()),
        }
        result = result.model_copy(update=update)
    return result.model_copy(update={"deployments": deployments})


def _shown_round(
    key: Identity,
    results_by_case: Mapping[Identity, Mapping[int, Result]],
    measured: Mapping[int, Result],
) -> int:
    """The round in the middle: of the throughput, which other tests take their loads of."""
    if len(measured) == 1:
        return next(iter(measured))
    throughput = {
        n: goal
        for n, result in results_by_case.get((key[0], THROUGHPUT, key[2], ""), {}).items()
        if result.status == "measured" and (goal := result.throughput_goal) is not None
    }
    order = sorted(throughput, key=lambda n: _rank_bound(throughput[n]))
    if order and (middle := order[(len(order) - 1) // 2]) in measured:
        return middle
    numbers = {n: _main_metric(result) for n, result in measured.items()}
    order = sorted(numbers, key=lambda n: _rank_metric(numbers[n]))
    return order[(len(order) - 1) // 2]


def _main_metric(result: Result) -> Metric | None:
    metrics = [*compared_metrics_of(result)]
    return next((metric for metric in metrics if metric.main), metrics[0] if metrics else None)


def _rank_metric(metric: Metric | None) -> float:
    """Where a number is among those of other rounds; one that no value has, where it begins."""
    measured = metric.measured if metric is not None else None
    if measured is None:
        return 0.0
    return measured.low if measured.value is None else measured.value


def _rank_bound(goal: GoalResult) -> tuple[float, bool]:
    """Rounds by their bound; "at least" a load is above the same load."""
    bound = -inf if goal.lower_bound_fps is None else goal.lower_bound_fps
    return bound, goal.qualifier == "at least"


def _repeated_numbers(measured: Mapping[int, Result]) -> tuple[RepeatedNumber, ...]:
    metrics_by_label: dict[str, dict[int, Metric]] = {}
    for number, result in measured.items():
        for metric in compared_metrics_of(result):
            if metric.label and metric.measured is not None:
                metrics_by_label.setdefault(metric.label, {})[number] = metric
    return tuple(repeated_number(label, metrics) for label, metrics in metrics_by_label.items())


def _over_rounds(
    goal: GoalResult, measured: Mapping[int, Result], deployments: Deployments
) -> GoalResult:
    """A goal of the round in the middle: irregular where any round failed, or is."""
    reasons = [deployments.sentence] if deployments.failures else []
    same = {n: other for n, r in measured.items() for other in r.goals if other.name == goal.name}
    opened = Counter(other.qualifier for other in same.values() if other.qualifier)
    reasons += [f"{count} of {len(same)} deployments: {mark}" for mark, count in opened.items()]
    reasons += [
        f"round {n}: {other.reason or 'no reason was recorded'}"
        for n, other in same.items()
        if not other.regular and not other.qualifier
    ]
    ranged = [n for n, other in same.items() if other.repeatable is False]
    if ranged:
        which = ", ".join(map(str, ranged))
        reason = f"the searches of {len(ranged)} of {len(same)} deployments ({which}) do not repeat"
        regular = goal.regular and not reasons
        reasons.append(reason)
        goal = goal.model_copy(update={"repeatable": False, "regular": regular})
        if regular:
            return goal.model_copy(update={"reason": reason})
    if not reasons:
        return goal
    if goal.qualifier and goal.reason:
        reasons.append(goal.reason)
    return goal.model_copy(update={"regular": False, "reason": "; ".join(reasons)})
