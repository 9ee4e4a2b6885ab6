"""Answers goals that a run was not measured for from the trials in its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vnetperf.analysis.disturbance import disturbing_share, marked
from vnetperf.analysis.goals import MissingTrials, answer_goal, on_medium
from vnetperf.analysis.logged_tests import (
    Case,
    LoggedSearch,
    by_round,
    merge_rounds,
    planned_rounds,
    select_searches,
)
from vnetperf.analysis.results_from_log import derive, named_as_results
from vnetperf.analysis.rounds import in_rounds, published
from vnetperf.log.records import Record
from vnetperf.log.stored import complete_trials
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.parameters import SearchGoal
from vnetperf.model.result import Result, RunResults
from vnetperf.search.tst009 import ALGORITHM as TST009


@dataclass(frozen=True, kw_only=True)
class WantedGoal:
    """A goal that a user requests afterwards; what is None is as in the log."""

    name: str  # What it is called; "" to be named by its loss ratio
    loss_ratio: float
    exceed_ratio: float | None = None  # Share of trial seconds at a load that may exceed it
    final_trial_s: float | None = None  # Seconds of a trial that counts
    duration_sum_s: float | None = None  # Seconds of trials that classify a load
    width: float | None = None  # Relative width of the bounds

    def complete(self, measured: SearchGoal) -> SearchGoal:
        """The whole goal."""
        final = measured.final_trial_s if self.final_trial_s is None else self.final_trial_s
        total = self.duration_sum_s
        if total is None:
            total = max(final, measured.duration_sum_s)
        return replace(
            measured,
            name=self.name or f"loss {100 * self.loss_ratio:g} %",
            loss_ratio=self.loss_ratio,
            exceed_ratio=measured.exceed_ratio if self.exceed_ratio is None else self.exceed_ratio,
            final_trial_s=final,
            duration_sum_s=total,
            initial_trial_s=min(measured.initial_trial_s, final),
            width=measured.width if self.width is None else self.width,
        )


@dataclass(frozen=True)
class Reanalysis:
    """The answer of a log to goals that it was not measured for."""

    results: RunResults  # The run, with the goals beside its own
    missing: tuple[str, ...]  # What would narrow them, one sentence for each case, goal and round


def answer_goals(records: Sequence[Record], goals: Sequence[WantedGoal]) -> Reanalysis:
    """Answer goals from the searches of a log."""
    algorithms = {s.begin.algorithm for s in select_searches(records) if s.final}
    if TST009 in algorithms:
        raise ConfigError(
            f"{TST009} searches an array of loads, and z may decide one by a single trial: what "
            "other goals would have found its trials do not show",
            where="--goals",
            cure="measure that goal, or search with mlr",
        )
    if not algorithms:
        raise LogError(
            "the log has no throughput search whose trials could answer a goal",
            where="trial log",
            cure="measure the throughput",
        )
    rounds, missing = by_round(records), []
    answered: dict[int, list[Result]] = {}
    for number, part in rounds.items():
        final: dict[Case, list[LoggedSearch]] = {}
        for search in select_searches(named_as_results(part)):
            final.setdefault(search.case, []).append(search)
        where = f", round {number}" if len(rounds) > 1 else ""
        answered_results = [_with_goals(r, final, goals) for r in derive(part).results]
        answered[number] = [result for result, _ in answered_results]
        missing += [
            f"{result.scenario}, {result.size_text}, {goal}{where}: {trials}"
            for result, lacking in answered_results
            for goal, trials in lacking.items()
        ]
    results = derive(records)
    by_identity = {r.identity: r for r in merge_rounds(answered, planned_rounds(records))}
    update = {"results": tuple(by_identity[r.identity] for r in results.results)}
    return Reanalysis(results.model_copy(update=update), tuple(missing))


def _with_goals(
    result: Result, final: dict[Case, list[LoggedSearch]], goals: Sequence[WantedGoal]
) -> tuple[Result, dict[str, MissingTrials]]:
    """A result with goals, and what each of them lacks."""
    missing: dict[str, MissingTrials] = {}
    # Each trial is looked at for every goal: it is read once, and is gone with its case.
    searches = [
        replace(search, trials=complete_trials(search.trials))
        for search in in_rounds(final.get(result.case, ()))
    ]
    if not searches:
        return result, missing
    all_goals = list(result.goals)
    for requested in goals:
        goal = requested.complete(searches[0].begin.goals[0])
        if goal.name in [other.name for other in all_goals]:
            raise ConfigError(
                f"there is a goal {goal.name!r} already",
                where="--goals",
                cure="name yours: --goals mine=0.001",
            )
        limit = disturbing_share([goal])
        answers = {
            search.begin.round: answer_goal(search.begin, search, goal) for search in searches
        }
        bounds = {}
        for search in searches:
            number = search.begin.round
            (bounds[number],) = marked([answers[number].result], search.trials, limit)
        all_goals.append(published(bounds, searches))
        for answer in answers.values():
            if answer.missing is not None:
                missing.setdefault(goal.name, answer.missing)
    return result.model_copy(update={"goals": on_medium(all_goals, result.media_max_fps)}), missing
