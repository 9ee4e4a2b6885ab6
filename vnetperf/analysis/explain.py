"""Explains a result: the trials that led to it, and which of them decided it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetperf.analysis.goals import select_trials
from vnetperf.analysis.logged_tests import (
    LoggedTest,
    by_round,
    group_tests,
    is_valid,
    trial_outcome,
)
from vnetperf.analysis.results_from_log import derive, named_as_results
from vnetperf.log.records import (
    BeginRecord,
    NotMeasuredRecord,
    ProcedureRecord,
    Record,
    SearchRecord,
    TrialRecord,
)
from vnetperf.model.errors import ConfigError
from vnetperf.model.result import GoalResult, Result
from vnetperf.model.trial import same_load


@dataclass(frozen=True)
class Step:
    """One trial on the way to a result."""

    trial: TrialRecord
    part: str  # What it did for the result: "lower bound of ndr", "not used: GENERATOR_LIMITED" ...

    @property
    def remark(self) -> str:
        """Why the trial is not valid, and which shortfall the tester's turns caused; or ""."""
        return "; ".join(filter(None, (self.trial.reason, self.trial.result.short_by_turns)))


@dataclass(frozen=True)
class Attempt:
    """One search or other test, from its beginning."""

    begin: BeginRecord  # Its parameters
    steps: tuple[Step, ...]
    ended: str = ""  # How it ended: "", or why it is no result


@dataclass(frozen=True)
class Explanation:
    """How a result came about."""

    result: Result
    attempts: tuple[Attempt, ...]  # The tests that were begun for it, the one that gave it last
    conclusions: tuple[str, ...]  # Why each number is what it is, a sentence each
    which: str = ""  # "round 2 of 5"; "" of the only one


def explain(
    records: Sequence[Record], scenario: str, test: str, size: str, *, number: int = 0
) -> Explanation:
    """Explain a result: of several rounds the one that reports show, unless another is named."""
    rounds = by_round(records)
    if not number:
        deployments = _result(derive(records).results, scenario, test, size).deployments
        number = (deployments.shown or max(deployments.failures, default=0)) if deployments else 0
    if number and number not in rounds:
        raise ConfigError(
            f"there is no round {number}",
            where="--round",
            accepted=", ".join(map(str, rounds)),
        )
    number = number or max(rounds)
    part = rounds[number]
    result = _result(derive(part).results, scenario, test, size)
    named = named_as_results(part)
    tests = [logged for logged in group_tests(named) if logged.case == result.case]
    attempts = tuple(_attempt(logged, result) for logged in tests)
    which = f"round {number} of {len(rounds)}" if len(rounds) > 1 else ""
    return Explanation(result, attempts, tuple(_conclusions(result, named, tests)), which)


def _result(results: Sequence[Result], scenario: str, test: str, size: str) -> Result:
    for key, value in (("scenario", scenario), ("test", test), ("full_size_name", size)):
        names = list(dict.fromkeys(str(getattr(result, key)) for result in results))
        if value not in names:
            word = {"full_size_name": "frame size"}.get(key, key)
            between = "; " if any(", " in name for name in names) else ", "
            raise ConfigError(
                f"the log has no result of {word} {value!r}"
                + ("" if key == "scenario" else f" of {scenario}"),
                where="why",
                accepted=between.join(names) or "a run that measured something",
            )
        results = [result for result in results if str(getattr(result, key)) == value]
    return results[0]


def _attempt(logged: LoggedTest, result: Result) -> Attempt:
    end = logged.end
    ended = "" if end is not None else "interrupted"
    if end is not None and end.superseded:
        ended = f"no result: {end.stopped or 'begun again'}"
    elif end is not None and end.stopped:
        ended = f"stopped: {end.stopped}"
    goals = result.goals if logged.final else ()
    steps = tuple(
        Step(trial, _describe_role(trial, logged.begin, goals)) for trial in logged.trials
    )
    return Attempt(logged.begin, steps, ended)


def _describe_role(trial: TrialRecord, begin: BeginRecord, goals: Sequence[GoalResult]) -> str:
    """Describe what a trial did for the result."""
    if not is_valid(trial) and isinstance(begin, SearchRecord):
        return "not used"
    if trial.spec.phase == "sweep":
        return "sweep below the lower bounds"
    if trial.spec.phase == "warm-up":
        return "warm-up"
    if trial.spec.phase == "throughput":
        return "tries the throughput"
    parts = [
        f"{which} bound of {goal.name}"
        for goal in goals
        for which, bound in (
            ("lower", goal.lower_bound_load_fps),
            ("upper", goal.upper_bound_load_fps),
        )
        if bound is not None and same_load(trial.spec.load_fps, bound / begin.in_sum)
    ]
    return ", ".join(parts)


def _conclusions(
    result: Result, records: Sequence[Record], tests: Sequence[LoggedTest]
) -> list[str]:
    if result.status != "measured":
        return [f"not measured: {result.why}"]
    final = [logged for logged in tests if logged.final]
    last = next((test for test in final if test.begin.search == result.search), final[-1])
    sentences = []
    for goal in result.goals:
        goal_test = next((test for test in final if test.begin.search == goal.search), last)
        sentences += _explain_goal(goal, goal_test)
    inputs = last.begin.inputs if isinstance(last.begin, ProcedureRecord) else {}
    throughput = inputs.get("throughput")
    if throughput:
        note = f" ({throughput['note']})" if throughput.get("note") else ""
        sentences.append(
            f"its loads are shares of the throughput that search {throughput['search']} found for "
            f"goal {throughput['goal']}: {throughput['load_fps']:.0f} frames/s per interface{note}"
        )
    sentences += [
        f"measured after an attempt that failed: {r.why.splitlines()[0]}"
        for r in records
        if isinstance(r, NotMeasuredRecord) and r.identity == result.identity
    ]
    return sentences


def _explain_goal(goal: GoalResult, logged: LoggedTest) -> list[str]:
    n = logged.begin.in_sum
    sentences = []
    rule = (
        f"{goal.name}: a load is carried when trials of {goal.final_trial_s:g} s, "
        f"{goal.duration_sum_s:g} s in all, lose no more than {100 * goal.loss_ratio:g} %"
    )
    if goal.exceed_ratio:
        rule += f"; {100 * goal.exceed_ratio:g} % of that time may lose more"
    sentences.append(rule)
    for word, verb, bound, load in (
        ("lower", "was carried", goal.lower_bound_fps, goal.lower_bound_load_fps),
        ("upper", "was not carried", goal.upper_bound_fps, goal.upper_bound_load_fps),
    ):
        if bound is None or load is None:
            sentences.append(f"{goal.name}: no {word} bound: {goal.reason or 'none was needed'}")
            continue
        trials = ", ".join(
            f"trial {t.number} ({t.spec.duration_s:g} s, {trial_outcome(t).loss})"
            for t in select_trials(load / n, logged)
            if is_valid(t) and trial_outcome(t).loss.decides(goal.loss_ratio)
        )
        sentences.append(
            f"{goal.name}: {bound:.0f} frames/s {verb}, the {word} bound: {trials or 'no trial'}"
        )
    far = goal.relative_width
    if far is not None:
        word = goal.mark or "regular"
        reason = f": {goal.reason}" if goal.reason else ""
        sentences.append(
            f"{goal.name}: the bounds are {100 * far:.3g} % apart, {100 * goal.width:g} % are "
            f"required: {word}{reason}"
        )
    elif goal.qualifier:
        sentences.append(f"{goal.name}: {goal.qualifier}: {goal.reason}")
    for goal_round in goal.rounds:
        bounds = " to ".join(
            "none" if bound is None else f"{bound:.0f}"
            for bound in (goal_round.lower_bound_fps, goal_round.upper_bound_fps)
        )
        reason = f": {goal_round.reason}" if goal_round.reason else ""
        sentences.append(f"{goal.name}: round {goal_round.round}, bounds {bounds} frames/s{reason}")
    return sentences
