"""One entry of the compliance ledger, what it is held against, and how entries are merged.

An entry is derived from a result and the trials behind it; a preset only names why it is not met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from vnetperf.analysis.goals import derive_goals, goals_by_trials
from vnetperf.analysis.logged_tests import Case, LoggedTest, is_valid
from vnetperf.log.records import ProcedureRecord, SearchRecord, TrialRecord
from vnetperf.log.stored import complete_trials
from vnetperf.model.result import GoalResult, LedgerEntry, Result
from vnetperf.model.trial import TesterTurns, same_load
from vnetperf.search import ReplayMismatchError

Status = Literal["met", "deviated", "not applicable", "not looked at"]
#: Name of a clause, its requirement, whether it is met, what was done, and why if it is not met.
Row = tuple[str, str, bool, str] | tuple[str, str, bool, str, str]

#: RFC 2544 section 24: the least length of a trial that counts, seconds.
WHOLE_TRIAL_S = 60.0


class LoggedTrials:
    """The trials behind a run's results, without those of tests that began anew."""

    def __init__(self, tests: Sequence[LoggedTest]) -> None:
        self._by_case: dict[Case, list[LoggedTest]] = {}
        self._by_search = {test.begin.search: test for test in tests}
        self._not_throughput: dict[tuple[int, str], str] = {}
        for test in tests:
            if test.final:
                self._by_case.setdefault(test.case, []).append(test)

    def case_trials(self, result: Result) -> tuple[TrialRecord, ...]:
        """Return all trials of a case in all rounds, whatever their verdict.

        Not those that tried the throughput before another test: they are none of its own.
        """
        return tuple(
            trial
            for test in self._by_case.get(result.case, ())
            for trial in complete_trials(test.trials)
            if trial.spec.phase != "throughput"
        )

    def shown_inputs(self, result: Result) -> Mapping[str, Any]:
        """Return the inputs of the test whose result is shown, else of the case's last test."""
        inputs: Mapping[str, Any] = {}
        for test in self._by_case.get(result.case, ()):
            if isinstance(test.begin, ProcedureRecord):
                inputs = test.begin.inputs
                if test.begin.search == result.search:
                    break
        return inputs

    def throughput_doubt(self, result: Result) -> str:
        """Describe why a test's loads are not based on a throughput (RFC 2544 section 26.1); or "".

        A test of several rounds took a throughput in each.
        """
        whys = dict.fromkeys(
            self._throughput_doubt(test.begin)
            for test in self._by_case.get(result.case, ())
            if isinstance(test.begin, ProcedureRecord)
        )
        return "; ".join(filter(None, whys)) if whys else "the log does not name the throughput"

    def _throughput_doubt(self, begin: ProcedureRecord) -> str:
        throughput = begin.inputs.get("throughput")
        logged = self._by_search.get(throughput["search"]) if throughput else None
        if not throughput or logged is None or not isinstance(search := logged.begin, SearchRecord):
            return "the throughput was not measured"
        key = search.search, throughput["goal"]
        if key not in self._not_throughput:
            logged = replace(logged, trials=complete_trials(logged.trials))
            goal = next((g for g in _goals(logged, search) if g.name == throughput["goal"]), None)
            trials = [t for t in logged.trials if is_valid(t)]
            self._not_throughput[key] = (
                "its goal has no result"
                if goal is None
                else describe_throughput_doubt(goal, trials)
            )
        return self._not_throughput[key]


def _goals(logged: LoggedTest, begin: SearchRecord) -> tuple[GoalResult, ...]:
    try:
        return derive_goals(begin, logged)
    except ReplayMismatchError:  # of another version: by its trials, as the result is
        return goals_by_trials(begin, logged)


def inconsistent(results: Iterable[Result], counts: Mapping[Case, int]) -> str:
    """Frames that contradict the counts, in any test and round: each case in a sentence, or "".

    Args:
        results: The results.
        counts: Trials of each case in which they do.
    """
    cases = [
        f"{result.scenario}, {result.test} at {result.size_text} ({n} "
        f"{'trial' if n == 1 else 'trials'}, {result.status})"
        for result in results
        if (n := counts.get(result.case, 0))
    ]
    return f"frames that contradict the counts: {'; '.join(cases)}" if cases else ""


def longest_s(trials: Iterable[TrialRecord]) -> float:
    """Length of the longest trials, which decide a load; seconds."""
    return max((t.spec.duration_s for t in trials), default=0.0)


def describe_throughput_doubt(goal: GoalResult, trials: Sequence[TrialRecord]) -> str:
    """Describe why a lower bound is not a throughput by RFC 2544 (sections 26.1 and 24).

    "" when every frame of the valid trials of its search came back, and they are long enough.
    """
    bound_trials = [t for t in trials if t.number in goal.trials_at_lower_bound]
    whys = []
    if goal.loss_ratio or goal.exceed_ratio:
        whys.append(f"tolerates loss ratio {goal.loss_ratio:g}, exceed ratio {goal.exceed_ratio:g}")
    if goal.lower_bound_fps is None:
        whys.append("no load met it")
    elif goal.mark:
        doubt = goal.reason or "the largest load that was tried met it"
        whys.append(f"is {goal.qualifier or goal.mark}: {doubt}")
    if goal.lower_bound_fps is not None:
        seconds = longest_s(bound_trials)
        if seconds < WHOLE_TRIAL_S:
            whys.append(f"has trials of {seconds:g} s")
        first = bound_trials[0] if bound_trials else None
        load, search = (first.spec.load_fps, first.search) if first else (0.0, 0)
        at_it = [t for t in trials if t.search == search and same_load(t.spec.load_fps, load)]
        if any(t.result.worst_loss_ratio() > 0 for t in at_it):
            whys.append("lost frames at its lower bound")
    return f"goal {goal.name} {'; '.join(whys)}" if whys else ""


def tester_turns(trials: Iterable[TrialRecord]) -> list[TesterTurns]:
    """Collect the tester's turns from all trials in which it shared its processor."""
    return [t.result.turns for t in trials if t.result.turns is not None]


def waits_for_turn(trials: Iterable[TrialRecord]) -> str:
    """Describe how much of a latency the tester's turns may be; "" if it takes none."""
    longest = max((turns.length_us for turns in tester_turns(trials)), default=0)
    return f", up to {longest} us of it the wait for the tester's turn" if longest else ""


def least_pause_s(trials: Sequence[TrialRecord]) -> float | None:
    """Least time from the end of a trial to the start of the next one of the same test, seconds.

    None where the log does not show it: of one trial, or without wall times.
    """
    return min((pause_s for _, pause_s in pauses_after(trials)), default=None)


def pauses_after(trials: Sequence[TrialRecord]) -> list[tuple[TrialRecord, float]]:
    """Trials that another of the same test follows, and the time between the two, seconds.

    Those without a wall time are left out.
    """
    return [
        (before, max(0.0, _seconds_between(before, after) - before.result.wall_s))
        for before, after in pairwise(trials)
        if before.search == after.search and before.result.wall_s
    ]


def _seconds_between(before: TrialRecord, after: TrialRecord) -> float:
    began, next_began = (datetime.fromisoformat(trial.started) for trial in (before, after))
    return (next_began - began).total_seconds()


@dataclass(frozen=True)
class ClauseContext:
    """A result with the trials behind it."""

    preset: str  # Name of the run's preset: why something was not done
    result: Result
    trials: tuple[TrialRecord, ...] = ()  # Every trial of the result's case, whatever its verdict
    #: What the test was given, as its log has it; of a search nothing.
    inputs: Mapping[str, Any] = field(default_factory=dict)
    #: Why the throughput that it takes its loads of is none; "" when it is one.
    no_throughput: str = ""
    nominal: bool = True  # True when the wires have no speed of their own

    @property
    def because(self) -> str:
        """Why something was not done as a clause requires: the preset has another value."""
        return f"preset {self.preset}"

    def numbered(self, numbers: Iterable[int]) -> list[TrialRecord]:
        """The trials with these numbers."""
        selected = set(numbers)
        return [trial for trial in self.trials if trial.number in selected]

    def entries(self, standard: str, *rows: Row) -> Iterator[LedgerEntry]:
        """Entries of one standard; where a row gives no reason, the preset is the reason."""
        for name, requirement, ok, value, *reason in rows:
            clause = f"{standard}, {name}" if name else standard
            yield entry(clause, requirement, ok, value, *(reason or [self.because]))


def entry(clause: str, requirement: str, ok: bool, value: str, reason: str = "") -> LedgerEntry:
    """A clause that is met or deviated from."""
    status: Status = "met" if ok else "deviated"
    return LedgerEntry(
        clause=clause,
        requirement=requirement,
        status=status,
        value=value,
        reason="" if ok else reason,
    )


def not_applicable(clause: str, requirement: str, reason: str) -> LedgerEntry:
    """A clause that does not speak of what was done."""
    return LedgerEntry(
        clause=clause, requirement=requirement, status="not applicable", value=reason
    )


def scoped(result_entries: Iterable[tuple[Result, LedgerEntry]]) -> Iterator[LedgerEntry]:
    """Entries of single results, those that are equal for all sizes or scenarios as one."""
    by_clause: dict[tuple[str, str, str], list[tuple[Result, LedgerEntry]]] = {}
    for result, clause_entry in result_entries:
        by_clause.setdefault(
            (result.test, clause_entry.clause, clause_entry.requirement), []
        ).append((result, clause_entry))
    for (test, _, _), clause_entries in by_clause.items():
        yield from _merged_entries(test, clause_entries)


def _merged_entries(
    test: str, clause_entries: list[tuple[Result, LedgerEntry]]
) -> Iterator[LedgerEntry]:
    if all(clause_entry == clause_entries[0][1] for _, clause_entry in clause_entries):
        yield clause_entries[0][1].model_copy(update={"test": test})
        return
    by_scenario: dict[str, list[tuple[Result, LedgerEntry]]] = {}
    for result, clause_entry in clause_entries:
        by_scenario.setdefault(result.scenario, []).append((result, clause_entry))
    for scenario, its in by_scenario.items():
        scope = {"test": test, "scenario": scenario}
        if all(clause_entry == its[0][1] for _, clause_entry in its):
            yield its[0][1].model_copy(update=scope)
            continue
        for result, clause_entry in its:
            yield clause_entry.model_copy(update=scope | {"frame_size": result.frame_size})
