"""The tests of a trial log.

Each with its trials and its end, by round, and the generator that requested them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Generic, TypeVar

from vnetperf.model.errors import LogError
from vnetperf.model.frames import overhead
from vnetperf.model.result import GoalResult, Result
from vnetperf.model.trial import TrialOutcome, Verdict
from vnetperf.procedures import standard_test
from vnetperf.results.records import (
    BeginRecord,
    NotMeasuredRecord,
    ProcedureRecord,
    Record,
    RoundRecord,
    ScenarioRecord,
    SearchEndRecord,
    SearchRecord,
    TransfersRecord,
    TrialRecord,
)
from vnetperf.search import Procedure, make_search
from vnetperf.statistics import spread

Case = tuple[str, str, int]
Begin_co = TypeVar("Begin_co", bound=BeginRecord, covariant=True)


@dataclass
class Logged(Generic[Begin_co]):
    """One test as the log has it.

    Attributes:
        begin: What it was run for.
        trials: Its trials in order, whatever their verdict.
        end: How it ended; None when the run was interrupted.
    """

    begin: Begin_co
    trials: list[TrialRecord] = field(default_factory=list)
    end: SearchEndRecord | None = None

    @property
    def case(self) -> Case:
        """Scenario, test, frame size."""
        return self.begin.case

    @property
    def final(self) -> bool:
        """Whether this is not one that began anew, or failed."""
        return self.end is None or not self.end.superseded

    def outcomes(self) -> list[TrialOutcome]:
        """What the test learnt of every trial, whatever its verdict."""
        return [outcome_of(trial) for trial in self.trials]


LoggedTest = Logged[BeginRecord]
LoggedSearch = Logged[SearchRecord]


def is_valid(trial: TrialRecord) -> bool:
    """Whether a trial may classify a load."""
    return trial.verdict is Verdict.VALID


def outcome_of(trial: TrialRecord) -> TrialOutcome:
    """What a test learns of a trial."""
    return TrialOutcome.of(trial.spec, trial.result, trial.verdict, trial.number)


def tests_of(records: Iterable[Record]) -> list[LoggedTest]:
    """Group a log by test."""
    found: dict[int, LoggedTest] = {}
    tunnels: dict[str, int] = {}
    for record in records:
        if isinstance(record, ScenarioRecord):
            tunnels[record.facts.scenario] = overhead(record.scenario.encapsulation)
        elif isinstance(record, BeginRecord):
            known = record.overhead
            if known is None:  # of an older log
                known = tunnels.get(record.scenario)
            found[record.search] = Logged(record.model_copy(update={"overhead": known}))
        elif isinstance(record, TrialRecord | SearchEndRecord):
            if record.search not in found:
                raise LogError(
                    f"test {record.search} has trials but no beginning",
                    where="trial log",
                    cure="the log was cut or edited; restore it from a copy",
                )
            if isinstance(record, TrialRecord):
                found[record.search].trials.append(record)
            else:
                found[record.search].end = record
    return list(found.values())


def searches_of(records: Iterable[Record]) -> list[LoggedSearch]:
    """The throughput searches of a log."""
    return [
        Logged(logged.begin, logged.trials, logged.end)
        for logged in tests_of(records)
        if isinstance(logged.begin, SearchRecord)
    ]


def procedure_of(begin: BeginRecord) -> Procedure[Any]:
    """Start what a record opens."""
    if isinstance(begin, SearchRecord):
        return make_search(begin.algorithm, begin.goals, begin.limits)
    if isinstance(begin, ProcedureRecord):
        kind = standard_test(begin.test)
        return kind.run(kind.inputs.model_validate(begin.inputs))
    raise LogError(f"{begin.type} opens no test", where="trial log")


#: Records of single cases; all others hold for every round.
_RECORDS_OF_CASES = (BeginRecord, TrialRecord, SearchEndRecord, NotMeasuredRecord, TransfersRecord)


def by_round(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Part a log into rounds."""
    found: dict[int, list[Record]] = {}
    common: list[Record] = []
    number = 1
    for record in records:
        if isinstance(record, RoundRecord):
            number = record.number
            found.setdefault(number, [*common])
        elif isinstance(record, _RECORDS_OF_CASES):
            found.setdefault(number, [*common]).append(record)
        else:
            common.append(record)
            for each in found.values():
                each.append(record)
    return {number: found[number] for number in sorted(found)} or {1: common}


def merge_rounds(results: Sequence[Sequence[Result]]) -> list[Result]:
    """One result for each case of several rounds."""
    cases: dict[Case, list[Result]] = {}
    for each in results:
        for result in each:
            cases.setdefault(result.case, []).append(result)
    return [_middle_round(found) for found in cases.values()]


def _middle_round(found: Sequence[Result]) -> Result:
    measured = [result for result in found if result.status == "measured"]
    if not measured:
        return found[-1]
    with_goals = [result for result in measured if result.goals]
    if len(with_goals) < 2:
        return measured[-1]
    order = sorted(with_goals, key=lambda result: _first_bound(result.goals[0]))
    middle = order[(len(order) - 1) // 2]
    goals = tuple(_with_repeats(goal, with_goals) for goal in middle.goals)
    return middle.model_copy(update={"goals": goals})


def _first_bound(goal: GoalResult) -> float:
    return -inf if goal.lower_bound_fps is None else goal.lower_bound_fps


def _with_repeats(goal: GoalResult, found: Sequence[Result]) -> GoalResult:
    same = [other for result in found for other in result.goals if other.name == goal.name]
    bounds = [other.lower_bound_fps for other in same if other.lower_bound_fps is not None]
    if len(bounds) < len(same):  # a round in which no load met the goal has no number to spread
        return goal
    resolution = max(goal.width * bound for bound in bounds)
    return goal.model_copy(update={"repeats": spread(bounds, resolution=resolution)})
