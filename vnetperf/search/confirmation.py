"""Tries the bounds of a finished search again, and looks for loss below them.

A search takes it that a DUT has one capacity, that it forgets an overload, and that what it carries
it carries at every smaller load. After idle, lower bound, upper bound and lower bound are tried in
this order, each by trials of its own that are classified by the goal; then some loads below. What
contradicts a bound by more than the goal's width makes the result unstable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import ceil, isclose
from statistics import median
from typing import Literal

from vnetperf.model.outcomes import Confirmation, LossInversion
from vnetperf.model.parameters import ConfirmInputs, SearchGoal, SearchLimits
from vnetperf.model.trial import SAME_RTOL, SearchPhase, TrialOutcome, TrialRequest
from vnetperf.search.base import GoalOutcome, Procedure, Search, SearchOutcome, StopSearch
from vnetperf.search.classification import (
    Criterion,
    DurationSums,
    LoadClass,
    classify,
    conditional_throughput,
)
from vnetperf.search.session import Budget

#: Successive trials that agree with a bound, where the goal itself asks for more, confirm it.
_AGREEING = 3
#: A trial at a bound that forwards less than the lower bound by this share, and by this many
#: widths, is no noise: bounds are tried again more often.
_CLIFF, _CLIFF_WIDTHS = 0.03, 2.0
#: How often, upper and lower bound in turn.
_FURTHER_ROUNDS = 3
#: Short trials at the largest load of the search, so that both rates of an unstable DUT are seen.
_RATE_TRIALS = 12
#: Each load of the sweep, relative to the next larger one.
SWEEP_RATIO = 0.6
#: Trials that are forgiven by an exceed ratio are a mode of their own from this share on.
_MODE_SHARE = 0.2

_Role = Literal["lower", "upper"]
_ROLES: tuple[_Role, ...] = ("lower", "upper")


def with_confirmation(search: Search, inputs: ConfirmInputs, limits: SearchLimits) -> Search:
    """Run a search, then try its bounds again."""
    trials: list[TrialOutcome] = []
    outcome, stopped = yield from _recorded(search, trials)
    session = _Session(inputs, limits, _budget(limits, outcome), trials)
    finals = [r for r in outcome.results if r.regular or r.at_least]
    try:
        if stopped:
            raise StopSearch(stopped)
        if inputs.bounds:
            yield from session.confirm(finals)
        if not session.contradictions:
            yield from session.sweep(finals)
    except StopSearch as stop:
        stopped = stop.reason
    results = tuple(session.judge(result, result in finals, stopped) for result in outcome.results)
    return replace(outcome, results=results, confirm_seconds=session.seconds)


def confirming_trials(goals: Sequence[SearchGoal], inputs: ConfirmInputs) -> tuple[int, float]:
    """Trials, and seconds of traffic, that confirm bounds where all of them agree."""
    trials, seconds = 0, 0.0
    for goal in goals if inputs.bounds else ():
        needed = goal.duration_sum_s * (1.0 - goal.exceed_ratio) / goal.final_trial_s
        visits = 3 * min(_AGREEING, ceil(round(needed, 9)))
        trials, seconds = trials + visits, seconds + visits * goal.final_trial_s
    shortest = min(goal.final_trial_s for goal in goals)
    sweep = inputs.sweep_loads * min(inputs.sweep_trial_s, shortest)
    return trials + inputs.sweep_loads, seconds + sweep


def confirmed_by_trials(
    result: GoalOutcome,
    searched: Sequence[TrialOutcome],
    after: Sequence[TrialOutcome],
    limits: SearchLimits,
    stopped: str = "",
    *,
    ended: bool = True,
) -> GoalOutcome:
    """Judge bounds by the trials of a log that confirmed those of its own goals.

    Args:
        result: The bounds.
        searched: Trials that found them.
        after: Trials of the confirmation.
        limits: Limits of the search.
        stopped: Why the search was stopped before its own end; "".
        ended: Whether the log has the end of the search; else it may break off anywhere.

    Returns:
        The bounds with their confirmation.
    """
    if limits.confirm is None:
        return result
    session = _Session(limits.confirm, limits, Budget(None), searched, list(after))
    final = result.regular or result.at_least
    unknown = session.read(result, ended=ended) if final else ""
    if result.goal.name in session.confirmed:
        return session.judge(result, final, stopped or unknown)
    if not ended:
        missing = "the log broke off before its bounds were confirmed"
    elif result.goal.name in session.visits:
        missing = "the log has too few trials at its bounds to confirm them for this goal"
    else:
        missing = "the log confirms other bounds"
    return session.judge(result, final, stopped or missing)


def _recorded(search: Search, trials: list[TrialOutcome]) -> Procedure[tuple[SearchOutcome, str]]:
    """Drive a search, and keep its trials; why it was stopped by its caller, or nothing."""
    stopped = ""
    try:
        request = next(search)
        while True:
            try:
                trial = yield request
            except StopSearch as stop:
                stopped = stop.reason
                request = search.throw(stop)
            else:
                trials.append(trial)
                request = search.send(trial)
    except StopIteration as end:
        outcome: SearchOutcome = end.value
        return outcome, stopped


def _budget(limits: SearchLimits, outcome: SearchOutcome) -> Budget:
    """What is left of a budget of wall time; one of trial seconds is the search's alone."""
    if limits.max_trial_seconds is None or not limits.trial_overhead_s:
        return Budget(None)
    return Budget(
        limits.max_trial_seconds,
        outcome.trial_seconds,
        outcome.trial_count,
        limits.trial_overhead_s,
    )


@dataclass(slots=True)
class _Session:
    """The trials after a search, and what contradicts it."""

    inputs: ConfirmInputs
    limits: SearchLimits
    budget: Budget
    searched: Sequence[TrialOutcome]
    trials: list[TrialOutcome] = field(default_factory=list)
    visits: dict[str, Counter[_Role]] = field(default_factory=dict)
    """Goal -> visits of its bounds that came to their end."""
    doubted: dict[str, bool] = field(default_factory=dict)
    """Goal, once its bounds were tried in turn -> whether that calls for further rounds."""
    confirmed: set[str] = field(default_factory=set)
    """Names of goals whose bounds were tried to the end."""
    contradictions: dict[str, str] = field(default_factory=dict)
    """Goal -> what contradicts it."""
    inversions: dict[str, list[LossInversion]] = field(default_factory=dict)
    swept: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Seconds of traffic."""
        return sum(trial.duration_s for trial in self.trials)

    def confirm(self, finals: Sequence[GoalOutcome]) -> Procedure[None]:
        """Try bounds upwards, then the lower ones downwards; more often where loss is no noise."""
        lowers, uppers = _loads(finals, "lower"), _loads(finals, "upper")
        order = sorted({*lowers, *uppers}) + sorted(lowers, reverse=True)
        yield from self._try(order, finals)
        doubtful = [r for r in finals if self.doubted.get(r.goal.name)]
        for _ in range(_FURTHER_ROUNDS):
            for result in doubtful:
                if result.goal.name not in self.contradictions:
                    again = [*_loads([result], "upper"), *_loads([result], "lower")]
                    yield from self._try(again, [result], agreeing=False)
        if self.contradictions:
            overload = max(trial.load_fps for trial in self.searched)
            seconds = min(self.inputs.sweep_trial_s, *(r.goal.initial_trial_s for r in finals))
            for _ in range(_RATE_TRIALS):
                yield from self._measure(overload, seconds, "confirm")

    def _try(
        self, loads: Sequence[float], finals: Sequence[GoalOutcome], *, agreeing: bool = True
    ) -> Procedure[None]:
        for load in loads:
            bounds = [(r, role) for r in finals for role in _ROLES if _is_at(r, role, load)]
            wanted = {r.goal.name: (r.goal, role) for r, role in bounds}
            fresh = yield from self._visit(load, [*wanted.values()], agreeing=agreeing)
            for result, role in bounds:
                yield from self._judge_visit(result, role, load, fresh)

    def _judge_visit(
        self, result: GoalOutcome, role: _Role, load: float, fresh: Sequence[TrialOutcome]
    ) -> Procedure[None]:
        """Note what contradicts a bound by more than the goal's width."""
        goal = result.goal
        if role == "lower":
            self._note_lower(goal, load, fresh)
        elif _class(goal, fresh) is LoadClass.LOWER:
            above = self._above(goal, load)
            if above > load:
                fresh = yield from self._visit(above, [(goal, "upper")])
            self._note_upper(goal, above, fresh)
        self._note_visit(result, role)

    def _note_visit(self, result: GoalOutcome, role: _Role) -> None:
        """Count a visit that came to its end: lower, upper, lower, and those of further rounds."""
        name = result.goal.name
        visits = self.visits.setdefault(name, Counter())
        visits[role] += 1
        rounds = min(visits["lower"] - 1, visits["lower"] if result.at_least else visits["upper"])
        if rounds > 0 and name not in self.doubted:
            self.doubted[name] = name not in self.contradictions and self._cliff(result)
        if rounds > (_FURTHER_ROUNDS if self.doubted.get(name) else 0):
            self.confirmed.add(name)

    def _above(self, goal: SearchGoal, load: float) -> float:
        """What must be carried as well to contradict an upper bound that is."""
        return min(load / (1.0 - goal.width), self.limits.max_load_fps)

    def _note_lower(self, goal: SearchGoal, load: float, fresh: Sequence[TrialOutcome]) -> None:
        forwarded = _typical_rate(goal, load, fresh)
        kept = (1.0 - goal.loss_ratio) * (1.0 - goal.width)
        if _class(goal, fresh) is LoadClass.UPPER and forwarded < load * kept:
            self._contradict(goal, f"the lower bound was not carried again: {forwarded:.0f}", load)

    def _note_upper(self, goal: SearchGoal, above: float, fresh: Sequence[TrialOutcome]) -> None:
        if _class(goal, fresh) is LoadClass.LOWER:
            self._contradict(goal, "the upper bound was carried:", above)

    def _contradict(self, goal: SearchGoal, text: str, load: float) -> None:
        of = " of" if text[-1].isdigit() else ""
        self.contradictions.setdefault(goal.name, f"{text}{of} {load:.0f} frames/s per interface")

    def _visit(
        self,
        load: float,
        wanted: Sequence[tuple[SearchGoal, str]],
        phase: SearchPhase = "confirm",
        *,
        agreeing: bool = True,
    ) -> Procedure[list[TrialOutcome]]:
        """Run trials at a load until they classify it for each goal, or all agree with it."""
        fresh: list[TrialOutcome] = []
        while open_ := [
            (goal, role)
            for goal, role in wanted
            if _class(goal, fresh) is LoadClass.UNDECIDED
            and not (agreeing and _has_ended(goal, role, fresh))
        ]:
            seconds = max(_next_duration(goal, role, fresh) for goal, role in open_)
            fresh.append((yield from self._measure(load, seconds, phase)))
        return fresh

    def _measure(self, load: float, seconds: float, phase: SearchPhase) -> Procedure[TrialOutcome]:
        self.budget.check(seconds)
        trial = yield TrialRequest(
            load_fps=load,
            duration_s=seconds,
            histogram_up_to_loss=-1.0,
            phase=phase,
            rest_s=0.0 if self.trials else self.inputs.idle_s,
            when_limited="fail",
        )
        self.budget.spend(seconds)
        self.trials.append(trial)
        return trial

    def _cliff(self, result: GoalOutcome) -> bool:
        """Whether trials at the bounds forwarded far less than the lower bound."""
        return any(self._is_far_below(result, trial) for trial in self._at_bounds(result))

    def _is_far_below(self, result: GoalOutcome, trial: TrialOutcome) -> bool:
        lower = result.relevant_lower_bound
        far = max(_CLIFF, _CLIFF_WIDTHS * result.goal.width)
        kept = (1.0 - far) * (1.0 - result.goal.loss_ratio)
        return lower is not None and trial.forwarding_rate_fps < lower.load_fps * kept

    def _at_bounds(self, result: GoalOutcome) -> list[TrialOutcome]:
        trials = (*self.searched, *self.trials)
        return [
            trial
            for trial in trials
            if any(_is_at(result, role, trial.load_fps) for role in _ROLES)
        ]

    def sweep(self, finals: Sequence[GoalOutcome]) -> Procedure[None]:
        """Try loads below all lower bounds, from the largest down."""
        if not finals:
            return
        load = min(_loads(finals, "lower"))
        for _ in range(self.inputs.sweep_loads):
            load *= SWEEP_RATIO
            if load < self.limits.min_load_fps:
                return
            shortest = min(result.goal.final_trial_s for result in finals)
            seconds = min(self.inputs.sweep_trial_s, shortest)
            trial = yield from self._measure(load, seconds, "sweep")
            self.swept.append(load)
            lossy = [r.goal for r in finals if trial.loss_ratio > r.goal.loss_ratio]
            if not lossy:
                continue
            fresh = yield from self._visit(load, [(g, "lower") for g in lossy], "sweep")
            for goal in lossy:
                self._note_inversion(goal, load, fresh)

    def _note_inversion(self, goal: SearchGoal, load: float, fresh: Sequence[TrialOutcome]) -> None:
        if _class(goal, fresh) is LoadClass.UPPER:
            found = LossInversion(
                load_fps=load,
                loss_ratio=median(t.loss_ratio for t in fresh),
                trials=tuple(t.number for t in fresh),
            )
            self.inversions.setdefault(goal.name, []).append(found)

    def read(self, result: GoalOutcome, *, ended: bool = True) -> str:
        """Judge a goal by trials that are there, whatever goals they were run for.

        A visit that broke off, or was too short for this goal, is none.

        Returns:
            What they leave open below the lower bound; "" for nothing.
        """
        every, self.trials = self.trials, []
        visits = [
            (*key, [*fresh])
            for key, fresh in groupby(every, lambda t: (t.request.phase, t.load_fps))
        ]
        unknown = []
        for number, (phase, load, fresh) in enumerate(visits):
            further = visits[number + 1 :][:1]
            if phase == "sweep":
                unknown += self._read_sweep(result, load, fresh)
            elif _is_at(result, "upper", load):
                self._read_upper(result, load, fresh, [found for _, _, found in further])
            elif result.at_least and _is_at(result, "lower", load):
                self._read_maximum(result, load, fresh, whole=ended or bool(further))
            elif _is_at(result, "lower", load):
                self._read_lower(result, load, fresh)
        self.trials = every
        if unknown:
            return f"its loss at {', '.join(unknown)} frames/s per interface is not known"
        return "" if ended or self._all_swept(result) else "the log broke off"

    def _read_lower(self, result: GoalOutcome, load: float, fresh: Sequence[TrialOutcome]) -> None:
        self.trials += fresh
        self._note_lower(result.goal, load, fresh)
        if self._is_visit(result, "lower", fresh):
            self._note_visit(result, "lower")

    def _read_maximum(
        self, result: GoalOutcome, load: float, fresh: Sequence[TrialOutcome], *, whole: bool
    ) -> None:
        """Successive visits of the maximum load, between which nothing is tried.

        Each has ended where it would end for this goal alone.
        """
        part: list[TrialOutcome] = []
        last: list[TrialOutcome] = []
        for trial in fresh:
            self.trials.append(trial)
            part.append(trial)
            if self._is_visit(result, "lower", part):
                self._note_lower(result.goal, load, part)
                self._note_visit(result, "lower")
                last, part = part, []
        if part and whole:  # of another goal that needed more
            self._note_lower(result.goal, load, [*last, *part])

    def _read_upper(
        self,
        result: GoalOutcome,
        load: float,
        fresh: Sequence[TrialOutcome],
        further: Sequence[Sequence[TrialOutcome]],
    ) -> None:
        self.trials += fresh
        goal, above = result.goal, self._above(result.goal, load)
        # Above the maximum load there is nothing to try: the visit itself counts.
        found = [f for f in further if isclose(f[0].load_fps, above, rel_tol=SAME_RTOL)]
        tried = [fresh] if above <= load else found
        for one in tried:
            self._note_upper(goal, above, one)
        carried = _class(goal, fresh) is LoadClass.LOWER
        complete = not carried or any(_has_ended(goal, "upper", one) for one in tried)
        if complete and self._is_visit(result, "upper", fresh):
            self._note_visit(result, "upper")

    def _is_visit(self, result: GoalOutcome, role: _Role, fresh: Sequence[TrialOutcome]) -> bool:
        """Whether trials at a bound are all that a visit takes: in further rounds they decide."""
        if self.doubted.get(result.goal.name):
            return _class(result.goal, fresh) is not LoadClass.UNDECIDED
        return _has_ended(result.goal, role, fresh)

    def _read_sweep(
        self, result: GoalOutcome, load: float, fresh: Sequence[TrialOutcome]
    ) -> list[str]:
        """The load, where its loss is not known."""
        goal = result.goal
        self.swept.append(load)
        if load >= (_bound_load(result, "lower") or 0.0):
            return []
        # The first trial only decides whether there are others: for goals of the log.
        self._note_inversion(goal, load, fresh[1:])
        open_ = fresh[0].loss_ratio > goal.loss_ratio and not _has_ended(goal, "lower", fresh[1:])
        return [f"{load:.0f}"] if open_ else []

    def _all_swept(self, result: GoalOutcome) -> bool:
        last = self.swept[-1] if self.swept else _bound_load(result, "lower") or 0.0
        few = len(self.swept) < self.inputs.sweep_loads
        return not few or last * SWEEP_RATIO < self.limits.min_load_fps

    def judge(self, result: GoalOutcome, final: bool, stopped: str) -> GoalOutcome:
        """A goal's outcome with its confirmation."""
        name = result.goal.name
        found = Confirmation(
            status="not confirmed",
            swept_fps=tuple(self.swept) if final else (),
            inversions=tuple(self.inversions.get(name, ())),
            trials=tuple(trial.number for trial in self.trials) if final else (),
            trial_seconds=round(self.seconds, 6),
            idle_s=self.inputs.idle_s if self.trials else 0.0,
        )
        why = self.contradictions.get(name, "")
        if found.inversions and not why:
            lossy = ", ".join(
                f"{one.loss_ratio:.3%} lost at {one.load_fps:.0f}" for one in found.inversions
            )
            why = f"loss inversion below the lower bound: {lossy} frames/s per interface"
        if why:
            contradicted = name in self.contradictions
            update = {
                "status": "unstable",
                "reason": why,
                "modes": self._modes(result) if contradicted else (),
            }
            found = found.model_copy(update=update)
            return replace(result, regular=False, reason=why, confirmation=found)
        if name in self.confirmed:
            update = {"status": "confirmed", "modes": self._forgiven_mode(result)}
            if stopped:
                update["reason"] = f"loads below it were not all tried: {stopped}"
        elif not final:
            missing = "no load met the goal" if result.at_most else "its bounds are not final"
            update = {"reason": missing}
        else:
            update = {"reason": stopped or "the preset does not confirm bounds"}
        return replace(result, confirmation=found.model_copy(update=update))

    def _modes(self, result: GoalOutcome) -> tuple[float, ...]:
        rates = [trial.forwarding_rate_fps for trial in (*self.searched, *self.trials)]
        criterion = Criterion.of_goal(result.goal)
        lossy = [t for t in self._at_bounds(result) if not criterion.is_low_loss(t)]
        low = median(trial.forwarding_rate_fps for trial in lossy) if lossy else min(rates)
        return (low, max(rates))

    def _forgiven_mode(self, result: GoalOutcome) -> tuple[float, ...]:
        """Both rates where trials at the lower bound fall into two far groups."""
        lower = result.relevant_lower_bound
        trials = [t for t in self._at_bounds(result) if _is_at(result, "lower", t.load_fps)]
        far = [t.forwarding_rate_fps for t in trials if self._is_far_below(result, t)]
        if lower is None or len(far) < max(2.0, _MODE_SHARE * len(trials)):
            return ()
        return (median(far), lower.load_fps)


def _loads(results: Sequence[GoalOutcome], role: _Role) -> list[float]:
    found = (_bound_load(result, role) for result in results)
    return sorted({load for load in found if load is not None})


def _bound_load(result: GoalOutcome, role: str) -> float | None:
    bound = result.relevant_lower_bound if role == "lower" else result.relevant_upper_bound
    return None if bound is None else bound.load_fps


def _is_at(result: GoalOutcome, role: str, load: float) -> bool:
    bound = _bound_load(result, role)
    return bound is not None and isclose(bound, load, rel_tol=SAME_RTOL)


def _class(goal: SearchGoal, fresh: Sequence[TrialOutcome]) -> LoadClass:
    criterion = Criterion.of_goal(goal)
    return classify(DurationSums.of(fresh, criterion), criterion)


def _all_agree(goal: SearchGoal, role: str, fresh: Sequence[TrialOutcome]) -> bool:
    criterion = Criterion.of_goal(goal)
    full = [criterion.is_low_loss(t) for t in fresh if criterion.is_full_length(t)]
    return len(full) >= _AGREEING and all(low is (role == "lower") for low in full)


def _has_ended(goal: SearchGoal, role: str, fresh: Sequence[TrialOutcome]) -> bool:
    """Whether a visit of a bound, or of a load below, needs no more trials for a goal."""
    return _class(goal, fresh) is not LoadClass.UNDECIDED or _all_agree(goal, role, fresh)


def _next_duration(goal: SearchGoal, role: str, fresh: Sequence[TrialOutcome]) -> float:
    """A short trial first where its failure alone shows that an upper bound still is one."""
    criterion = Criterion.of_goal(goal)
    failed = DurationSums(short_high=goal.initial_trial_s)
    if role == "upper" and not fresh and classify(failed, criterion) is LoadClass.UPPER:
        return goal.initial_trial_s
    return goal.final_trial_s


def _typical_rate(goal: SearchGoal, load: float, fresh: Sequence[TrialOutcome]) -> float:
    """Forwarding rate at the goal's quantile of loss, of these trials alone."""
    measured = replace(Criterion.of_goal(goal), trial_s=0.0, duration_sum_s=0.0)
    return conditional_throughput(load, fresh, measured)
