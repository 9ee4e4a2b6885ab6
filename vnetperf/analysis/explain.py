"""Explains a result: the trials that led to it, and which of them decided it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetperf.analysis.goals import trials_at
from vnetperf.analysis.logged_tests import LoggedTest, by_round, is_valid, outcome_of, tests_of
from vnetperf.analysis.results_from_log import derive, named_as_results
from vnetperf.model.errors import ConfigError
from vnetperf.model.result import GoalResult, Result
from vnetperf.model.trial import same_load
from vnetperf.results.records import (
    BeginRecord,
    NotMeasuredRecord,
    ProcedureRecord,
    Record,
    SearchRecord,
    TrialRecord,
)


@dataclass(frozen=True)
class Step:
    """One trial on the way to a result."""

    trial: TrialRecord
    part: str  # What it did for the result: "lower bound of ndr", "not used: GENERATOR_LIMITED" ...

    @property
    def why(self) -> str:
        """Why it is not valid, and what of its shortfall is the tester's turns; "" for nothing."""
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
        held = _result(derive(records).results, scenario, test, size).deployments
        number = (held.shown or max(held.failures, default=0)) if held else 0
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
    tests = [logged for logged in tests_of(named) if logged.case == result.case]
    attempts = tuple(_attempt(logged, result) for logged in tests)
    which = f"round {number} of {len(rounds)}" if len(rounds) > 1 else ""
    return Explanation(result, attempts, tuple(_conclusions(result, named, tests)), which)


def _result(results: Sequence[Result], scenario: str, test: str, size: str) -> Result:
    for key, value in (("scenario", scenario), ("test", test), ("full_size_name", size)):
        there = list(dict.fromkeys(str(getattr(result, key)) for result in results))
        if value not in there:
            word = {"full_size_name": "frame size"}.get(key, key)
            between = "; " if any(", " in one for one in there) else ", "
            raise ConfigError(
                f"the log has no result of {word} {value!r}"
                + ("" if key == "scenario" else f" of {scenario}"),
                where="why",
                accepted=between.join(there) or "a run that measured something",
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
        Step(trial, _role_of_trial(trial, logged.begin, goals)) for trial in logged.trials
    )
    return Attempt(logged.begin, steps, ended)


def _role_of_trial(trial: TrialRecord, begin: BeginRecord, goals: Sequence[GoalResult]) -> str:
    """What a trial did for the result."""
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
    last = next((one for one in final if one.begin.search == result.search), final[-1])
    sentences = []
    for goal in result.goals:
        of = next((one for one in final if one.begin.search == goal.search), last)
        sentences += _of_goal(goal, of)
    known = last.begin.inputs if isinstance(last.begin, ProcedureRecord) else {}
    throughput = known.get("throughput")
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


def _of_goal(goal: GoalResult, logged: LoggedTest) -> list[str]:
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
            f"trial {t.number} ({t.spec.duration_s:g} s, {outcome_of(t).loss})"
            for t in trials_at(load / n, logged)
            if is_valid(t) and outcome_of(t).loss.decides(goal.loss_ratio)
        )
        sentences.append(
            f"{goal.name}: {bound:.0f} frames/s {verb}, the {word} bound: {trials or 'no trial'}"
        )
    far = goal.relative_width
    if far is not None:
        word = goal.mark or "regular"
        why = f": {goal.reason}" if goal.reason else ""
        sentences.append(
            f"{goal.name}: the bounds are {100 * far:.3g} % apart, {100 * goal.width:g} % are "
            f"required: {word}{why}"
        )
    elif goal.qualifier:
        sentences.append(f"{goal.name}: {goal.qualifier}: {goal.reason}")
    for one in goal.rounds:
        bounds = " to ".join(
            "none" if bound is None else f"{bound:.0f}"
            for bound in (one.lower_bound_fps, one.upper_bound_fps)
        )
        why = f": {one.reason}" if one.reason else ""
        sentences.append(f"{goal.name}: round {one.round}, bounds {bounds} frames/s{why}")
    return sentences
