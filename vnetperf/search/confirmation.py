"""Tries the bounds of a finished search again, and looks for loss below them.

A search takes it that a DUT has one capacity, that it forgets an overload, and that what it carries
it carries at every smaller load. So lower bound, upper bound and lower bound are visited after
idle, then some loads below.

A *visit* is trials at one load, for goals each of which takes that load for something: see
`VisitRole`. It objects to a goal's bounds where its trials alone, by the goal's own criterion,
classify the load otherwise. Then a further visit decides, one width beyond a bound: less is noise.
So is what lies within that by which the DUT's rate varies between trials under overload.
`_Retried` judges the visits of a goal, while they are made and when they are read from a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from math import ceil, sqrt
from statistics import median
from typing import TypeAlias

from vnetperf.model.outcomes import Confirmation, LossInversion
from vnetperf.model.parameters import ConfirmInputs, SearchGoal, SearchLimits, StepInputs
from vnetperf.model.trial import (
    SAME_RTOL,
    SearchPhase,
    TrialOutcome,
    TrialRequest,
    Visit,
    VisitRole,
    same_load,
)
from vnetperf.search.base import GoalOutcome, Procedure, Search, SearchOutcome, StopSearch
from vnetperf.search.classification import (
    Criterion,
    DurationSums,
    LoadClass,
    classify,
    conditional_throughput,
)
from vnetperf.search.session import Budget
from vnetperf.search.tst009 import fails_at_once

# `python -m benchmarks.confirmation constants` prints what each of these costs and prevents.
#: Successive trials that agree with a bound, where the goal itself asks for more, confirm it.
AGREEING = 3
#: A trial at a bound that forwards less than the lower bound by this share, and by this many
#: widths, is no noise: bounds are tried again more often.
CLIFF, CLIFF_WIDTHS = 0.03, 2.0
#: How often, upper and lower bound in turn.
FURTHER_ROUNDS = 3
#: Short trials at the largest load of the search, so that both rates of an unstable DUT are seen.
RATE_TRIALS = 12
#: Each load of the sweep, relative to the next larger one.
SWEEP_RATIO = 0.6
#: Trials that are forgiven by an exceed ratio are a mode of their own from this share on.
MODE_SHARE = 0.2
#: Standard errors of the difference of two medians of trials, one found by a search: it takes the
#: larger or smaller of several loads by chance, so that less is what a DUT of one mode does, too.
NOISE_ERRORS = 3.0
#: Fewer trials under overload do not show how much the rate varies.
FEWEST_RATES = 4


def with_confirmation(search: Search, inputs: ConfirmInputs, limits: SearchLimits) -> Search:
    """Run a search, then try its bounds again."""
    trials: list[TrialOutcome] = []
    outcome, stopped = yield from _recorded(search, trials)
    session = _Session(inputs, limits, _budget(limits, outcome))
    finals = [_Retried(r, limits, trials, session.trials) for r in outcome.results if _is_final(r)]
    try:
        if stopped:
            raise StopSearch(stopped)
        if inputs.bounds:
            yield from session.confirm(finals)
        yield from session.sweep(finals)
        offered = (t.load_fps for t in trials if any(one.counts(t) for one in finals))
        yield from session.show_rates(finals, max(offered, default=0.0))
    except StopSearch as stop:
        stopped = stop.reason
    by_goal = {one.goal.name: one for one in finals}
    results = tuple(
        _judged(result, by_goal.get(result.goal.name), inputs, session.trials, stopped)
        for result in outcome.results
    )
    return replace(outcome, results=results, confirm_seconds=_seconds(session.trials))


def confirming_trials(goals: Sequence[SearchGoal], inputs: ConfirmInputs) -> tuple[int, float]:
    """Trials, and seconds of traffic, that confirm bounds where all of them agree, at most.

    Goals whose bounds are near to each other share visits and loads below; these share none.
    """
    trials, seconds = 0, 0.0
    for goal in goals:
        needed = goal.duration_sum_s * (1.0 - goal.exceed_ratio) / goal.final_trial_s
        visits = 3 * min(AGREEING, ceil(round(needed, 9))) if inputs.bounds else 0
        sweep = inputs.sweep_loads * min(inputs.sweep_trial_s, goal.final_trial_s)
        trials += visits + inputs.sweep_loads
        seconds += visits * goal.final_trial_s + sweep
    return trials, seconds


def confirmed_by_trials(
    result: GoalOutcome,
    searched: Sequence[TrialOutcome],
    after: Sequence[TrialOutcome],
    limits: SearchLimits,
    *,
    own: bool,
    stopped: str = "",
) -> GoalOutcome:
    """Bounds with the confirmation by trials of a log: those that found them, and those after.

    `own` says whether the goal is one of those that the search had, `stopped` why the search was
    stopped before its own end.
    """
    if limits.confirm is None:
        return result
    retried = _Retried(result, limits, searched, after) if _is_final(result) else None
    if retried is not None:
        retried.read(after, own=own)
    return _judged(result, retried, limits.confirm, after, stopped)


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


@dataclass(frozen=True, slots=True)
class _Visited:
    """A visit, as one goal sees it."""

    role: VisitRole
    goal: SearchGoal
    load_fps: float
    trials: Sequence[TrialOutcome]  # They become more while the visit lasts
    agreeing: int = AGREEING  # Trials that end it where all of them agree; 0: only a class does
    steps: StepInputs | None = None  # Inputs of the search, where it was "tst009"

    @property
    def carried(self) -> bool:
        """What the goal takes the load for: True for one that the DUT carries."""
        return self.role not in ("upper", "above")

    @property
    def class_(self) -> LoadClass:
        """The class of the load by the goal's criterion and these trials alone."""
        criterion = Criterion.of_goal(self.goal)
        if self.steps is not None:
            full = (t for t in self.trials if criterion.is_full_length(t) and criterion.decides(t))
            # The first that held has decided: another goal may have wanted those after it.
            lossy = takewhile(criterion.is_high_loss, full)
            if any(fails_at_once(trial, self.steps) for trial in lossy):
                return LoadClass.UPPER
        return classify(DurationSums.of(self.trials, criterion), criterion)

    @property
    def ended(self) -> bool:
        """Whether the goal needs no further trial."""
        criterion = Criterion.of_goal(self.goal)
        if self.role == "rate" or self.class_ is not LoadClass.UNDECIDED:
            return bool(self.trials)
        counted = [trial for trial in self.trials if criterion.decides(trial)]
        if self.role == "glance":
            return bool(counted)
        full = [
            criterion.is_low_loss(trial) for trial in counted if criterion.is_full_length(trial)
        ]
        return 0 < self.agreeing <= len(full) and all(low is self.carried for low in full)

    @property
    def objects(self) -> bool:
        """Whether it shows the opposite of what the goal takes the load for."""
        if self.role == "glance":
            return any(map(Criterion.of_goal(self.goal).is_high_loss, self.trials))
        return self.class_ is (LoadClass.UPPER if self.carried else LoadClass.LOWER)

    @property
    def typical_rate_fps(self) -> float:
        """Forwarding rate at the goal's quantile of loss, of these trials alone."""
        measured = replace(Criterion.of_goal(self.goal), trial_s=0.0, duration_sum_s=0.0)
        return conditional_throughput(self.load_fps, self.trials, measured)

    def next_duration(self) -> float:
        """A short trial first where its failure alone shows that an upper bound still is one."""
        criterion = Criterion.of_goal(self.goal)
        failed = DurationSums(short_high=self.goal.initial_trial_s)
        if not self.carried and not self.trials and classify(failed, criterion) is LoadClass.UPPER:
            return self.goal.initial_trial_s
        return self.goal.final_trial_s


@dataclass(slots=True)
class _Retried:
    """The final bounds of a goal, and the visits that tried them again."""

    result: GoalOutcome
    limits: SearchLimits
    searched: Sequence[TrialOutcome]
    after: Sequence[TrialOutcome]  # All trials of the confirmation; they become more while it lasts
    visits: list[_Visited] = field(default_factory=list)

    @property
    def goal(self) -> SearchGoal:
        """The goal."""
        return self.result.goal

    def counts(self, trial: TrialOutcome) -> bool:
        """Whether a trial tells anything of the goal."""
        return Criterion.of_goal(self.goal).decides(trial)

    def load(self, role: VisitRole) -> float | None:
        """The load of a bound."""
        bound = self.result.relevant_lower_bound
        if role == "upper":
            bound = self.result.relevant_upper_bound
        return None if bound is None else bound.load_fps

    def is_at(self, role: VisitRole, load: float) -> bool:
        """Whether a load is that of a bound."""
        bound = self.load(role)
        return bound is not None and same_load(bound, load)

    def roles_at(self, load: float) -> list[VisitRole]:
        """What the goal takes a load for: one of its bounds."""
        bounds: tuple[VisitRole, ...] = ("lower", "upper")
        return [role for role in bounds if self.is_at(role, load)]

    def decider(self, visit: _Visited) -> tuple[VisitRole, float] | None:
        """Role and load of the further visit where a visit objects to the bounds; None for none."""
        load = visit.load_fps
        if not visit.objects:
            return None
        if visit.role == "glance":
            return "below", load
        if visit.role == "upper":
            above = min(load / (1.0 - self.goal.width), self.limits.max_load_fps)
            return ("above", above) if above > load else None
        if visit.role == "lower":
            below = max(load * (1.0 - self.goal.width), self.limits.min_load_fps)
            # It forwards less than that load, which it would not carry either.
            slow = visit.typical_rate_fps < below * (1.0 - self.goal.loss_ratio)
            return ("below", below) if below < load and not slow else None
        return None

    def contradiction(self) -> str:
        """What contradicts a bound by more than the goal's width and noise; "" for nothing."""
        for visit in self.objections():
            if visit.role != "below" and not self.is_noise(visit):
                return self._sentence(visit)
        return ""

    def not_repeated(self) -> str:
        """What contradicts a bound by more than the goal's width, and no more than noise."""
        for visit in self.objections():
            if self.is_noise(visit):
                varies = f"the rate varies by {self.deviation():.2%} (1 sigma) between trials"
                return f"not repeatable within the goal's width: {self._sentence(visit)}; {varies}"
        return ""

    def _sentence(self, visit: _Visited) -> str:
        where = f"{visit.load_fps:.0f} frames/s per interface"
        if not visit.carried:
            return f"the upper bound was carried: {where}"
        rate = f"{visit.typical_rate_fps:.0f} of {where}"
        if visit.role == "below":
            return f"a load one width below the lower bound was not carried: {rate}"
        return f"the lower bound was not carried again: {rate}"

    def objections(self) -> list[_Visited]:
        """Visits that object to the bounds, and need no further one that decides."""
        visits = (visit for visit in self.visits if visit.role != "rate")
        return [v for v in visits if v.objects and self.decider(v) is None]

    def is_near(self, visit: _Visited) -> bool:
        """Whether a visit is at a bound or a width beyond it, and not one of the sweep."""
        return any(trial.request.phase == "confirm" for trial in visit.trials)

    def is_noise(self, visit: _Visited) -> bool:
        """Whether an objection near a bound is within what the DUT's rate varies by."""
        deviation = self.deviation()
        if not deviation or not self.is_near(visit):
            return False
        role: VisitRole = "lower" if visit.carried else "upper"
        load = self.load(role)
        found = [t for t in self.searched if self.is_at(role, t.load_fps) and self.counts(t)]
        if load is None or not found:
            return False
        if visit.carried:
            apart = 1.0 - visit.typical_rate_fps / load
        else:
            before = _Visited("upper", self.goal, load, found).typical_rate_fps
            apart = 1.0 - before / visit.load_fps
        # sqrt(pi / 2): standard error of a median, relative to that of a mean.
        error = 1.2533 * deviation * sqrt(1.0 / len(found) + 1.0 / len(visit.trials))
        return apart <= NOISE_ERRORS * error

    def deviation(self) -> float:
        """Standard deviation of the rate between trials at the largest load, within a mode.

        As a share of the rate, by the median distance to the median; 0 where it is not known.
        """
        trials = [*filter(self.counts, self.searched), *filter(self._counts_rate, self.after)]
        largest = max((trial.load_fps for trial in trials), default=0.0)
        rates = [
            trial.forwarding_rate_fps for trial in trials if same_load(trial.load_fps, largest)
        ]
        if len(rates) < FEWEST_RATES:
            return 0.0
        rates = max(_groups(rates), key=len)
        middle = median(rates)
        spread = 1.4826 * median(abs(rate - middle) for rate in rates)
        return spread / middle if middle else 0.0

    def _counts_rate(self, trial: TrialOutcome) -> bool:
        """Whether a trial after the search tells a rate: of one for a rate it is the number."""
        visit = trial.request.visit
        return self.counts(trial) or (visit is not None and "rate" in visit.roles.values())

    def inversions(self) -> tuple[LossInversion, ...]:
        """Loads below the lower bound that were not carried."""
        return tuple(
            LossInversion(
                load_fps=visit.load_fps,
                loss_ratio=median(trial.loss_ratio for trial in visit.trials),
                trials=tuple(trial.number for trial in visit.trials),
            )
            for visit in self.visits
            if visit.role == "below" and visit.objects and not self.is_noise(visit)
        )

    def open_visits(self, *roles: VisitRole) -> list[_Visited]:
        """Visits that object to the bounds, and are not followed by the one that decides."""
        return [
            visit
            for visit, after in zip(self.visits, [*self.visits, None][1:], strict=True)
            if visit.role in roles
            and (wanted := self.decider(visit)) is not None
            and not (after is not None and after.role == wanted[0] and after.ended)
        ]

    def is_unsteady(self) -> bool:
        """Whether trials at the bounds forwarded far less than the lower bound: no noise."""
        return any(self.is_far_below(trial) for trial in self.at_bounds())

    def is_far_below(self, trial: TrialOutcome) -> bool:
        """Whether a trial forwarded far less than the lower bound."""
        far = max(CLIFF, CLIFF_WIDTHS * self.goal.width)
        kept = (1.0 - far) * (1.0 - self.goal.loss_ratio)
        lower = self.load("lower")
        return lower is not None and trial.forwarding_rate_fps < lower * kept

    def at_bounds(self, *roles: VisitRole) -> list[TrialOutcome]:
        """All trials at the bounds, or at one of them: those that found them, and those after."""
        wanted = roles or ("lower", "upper")
        found = [t for t in self.searched if any(self.is_at(role, t.load_fps) for role in wanted)]
        visited = (t for v in self.visits if v.role in wanted for t in v.trials)
        return [trial for trial in (*found, *visited) if self.counts(trial)]

    def is_confirmed(self) -> bool:
        """Whether the bounds were visited as often as they have to be, and nothing is open."""
        rounds = 1 + (FURTHER_ROUNDS if self.is_unsteady() else 0)
        ended = [visit.role for visit in self.visits if visit.ended]
        uppers = rounds if self.load("upper") is not None else 0
        often = ended.count("lower") > rounds and ended.count("upper") >= uppers
        return often and not self.open_visits("lower", "upper")

    def missing(self) -> str:
        """What confirms the bounds neither way."""
        for visit in self.open_visits("lower", "upper"):
            verb = "not carried again" if visit.carried else "carried"
            return f"the {visit.role} bound was {verb}; one width beyond it was not tried"
        return "the log names no visits that confirm these bounds"

    def swept(self) -> tuple[float, ...]:
        """Loads below that were tried."""
        return tuple(v.load_fps for v in self.visits if v.role == "glance" and v.ended)

    def carried_or_not(self) -> tuple[float, ...]:
        """Those of them of which that is known: a glance with loss alone tells nothing."""
        unknown = {visit.load_fps for visit in self.open_visits("glance")}
        return tuple(load for load in self.swept() if load not in unknown)

    def unswept(self, inputs: ConfirmInputs, stopped: str) -> str:
        """Why it is not known of each load of the sweep whether it is carried; "" if it is."""
        swept, lower = self.swept(), self.load("lower") or 0.0
        following = SWEEP_RATIO * min((*swept, lower))
        whole = len(swept) >= inputs.sweep_loads or following < self.limits.min_load_fps
        whole &= max(swept, default=lower) >= SWEEP_RATIO * lower * (1.0 - SAME_RTOL)
        unknown = [f"{visit.load_fps:.0f}" for visit in self.open_visits("glance")]
        if stopped and (unknown or not whole):
            return f"loads below it were not all tried: {stopped}"
        if unknown:
            return f"its loss at {', '.join(unknown)} frames/s per interface is not known"
        return "" if whole else "loads below it were not all tried"

    def modes(self, rates: Sequence[float]) -> tuple[float, ...]:
        """Both rates of a DUT that contradicts its bounds: further apart than noise, or none."""
        criterion, at_bounds = Criterion.of_goal(self.goal), self.at_bounds()
        far = [t.forwarding_rate_fps for t in at_bounds if self.is_far_below(t)]
        apart = max(self.goal.width, 2.0 * NOISE_ERRORS * self.deviation())
        lossy = [t.forwarding_rate_fps for t in at_bounds if criterion.is_high_loss(t)]
        low, high = median(far) if far else min(lossy, default=min(rates)), max(rates)
        return (low, high) if high - low > apart * high else ()

    def forgiven_modes(self) -> tuple[float, ...]:
        """Both rates where trials at the lower bound fall into two far groups."""
        trials = self.at_bounds("lower")
        far = [t.forwarding_rate_fps for t in trials if self.is_far_below(t)]
        lower = self.load("lower")
        if lower is None or len(far) < max(2.0, MODE_SHARE * len(trials)):
            return ()
        groups = _groups([trial.forwarding_rate_fps for trial in trials])
        if min(map(len, groups)) < MODE_SHARE * len(trials) or len(groups) < 2:
            return ()  # the tail of one mode
        return (median(far), lower)

    def read(self, after: Sequence[TrialOutcome], *, own: bool) -> None:
        """Take the visits of a log that were made for this goal.

        A goal that the search did not have has those at its own bounds, and what decides for it.
        """
        for visit, grouped in groupby(after, lambda trial: trial.request.visit):
            trials = [*grouped]
            if visit is None:  # of a version that did not name them
                continue
            if own and self.goal.name in visit.roles:
                self._add(visit.roles[self.goal.name], trials, visit)
            elif not own and (kinds := {*visit.roles.values()}) != {"rate"}:
                self._add_by_load(trials, "glance" if "glance" in kinds else "below", visit)

    def _add(self, role: VisitRole, trials: Sequence[TrialOutcome], visit: Visit) -> None:
        load, steps = trials[0].load_fps, self.result.steps
        self.visits.append(_Visited(role, self.goal, load, trials, visit.agreeing, steps))

    def _add_by_load(self, trials: Sequence[TrialOutcome], below: VisitRole, visit: Visit) -> None:
        load = trials[0].load_fps
        wanted = self.decider(self.visits[-1]) if self.visits else None
        if trials[0].request.phase == "sweep":
            if load < (self.load("lower") or 0.0):
                self._add(below, trials, visit)
        elif roles := self.roles_at(load):
            self._add(roles[0], trials, visit)
        elif wanted is not None and same_load(load, wanted[1]):
            self._add(wanted[0], trials, visit)


#: A goal, and what it takes a load for.
_Wanted: TypeAlias = tuple[_Retried, VisitRole]


@dataclass(slots=True)
class _Session:
    """The trials after a search."""

    inputs: ConfirmInputs
    limits: SearchLimits
    budget: Budget
    trials: list[TrialOutcome] = field(default_factory=list)
    visits: int = 0

    def confirm(self, finals: Sequence[_Retried]) -> Procedure[None]:
        """Visit bounds upwards, lower ones downwards; more often where loss is no noise."""
        lowers, uppers = _loads(finals, "lower"), _loads(finals, "upper")
        for load in [*sorted({*lowers, *uppers}), *reversed(lowers)]:
            yield from self._try(load, finals)
        unsteady = [one for one in finals if one.is_unsteady()]
        for _ in range(FURTHER_ROUNDS):
            for one in unsteady:
                for load in (*_loads([one], "upper"), *_loads([one], "lower")):
                    if not (one.contradiction() or one.inversions()):
                        yield from self._try(load, [one], further=True)

    def _try(
        self, load: float, finals: Sequence[_Retried], *, further: bool = False
    ) -> Procedure[None]:
        """Visit a bound, and what decides where that visit objects."""
        wanted = [(one, role) for one in finals for role in one.roles_at(load)]
        visits = yield from self._visit(load, wanted, "confirm", further=further)
        for (one, _), visit in zip(wanted, visits, strict=True):
            if (decider := one.decider(visit)) is not None:
                role, beyond = decider
                yield from self._visit(beyond, [(one, role)], "confirm")

    def sweep(self, finals: Sequence[_Retried]) -> Procedure[None]:
        """Try loads below the lower bounds, from the largest down."""
        for load, goals in _steps(finals):
            yield from self._sweep(load, goals)

    def _sweep(self, load: float, finals: Sequence[_Retried]) -> Procedure[None]:
        """Try loads below one, for goals all of whose lower bounds lie above the first of them."""
        seconds = min(self.inputs.sweep_trial_s, *(one.goal.final_trial_s for one in finals))
        for _ in range(self.inputs.sweep_loads):
            load *= SWEEP_RATIO
            if load < self.limits.min_load_fps:
                return
            glances: list[_Wanted] = [(one, "glance") for one in finals]
            seen = yield from self._visit(load, glances, "sweep", seconds=seconds)
            lossy = [one for one, visit in zip(finals, seen, strict=True) if visit.objects]
            if lossy:
                yield from self._visit(load, [(one, "below") for one in lossy], "sweep")

    def show_rates(self, finals: Sequence[_Retried], overload: float) -> Procedure[None]:
        """Trials at the largest load, where a DUT has two rates, or one that varies."""
        unstable = [one for one in finals if any(map(one.is_near, one.objections()))]
        seconds = [one.goal.initial_trial_s for one in finals]
        for _ in range(RATE_TRIALS if unstable else 0):
            rates: list[_Wanted] = [(one, "rate") for one in unstable]
            shortest = min(self.inputs.sweep_trial_s, *seconds)
            yield from self._visit(overload, rates, "confirm", seconds=shortest)

    def _visit(
        self,
        load: float,
        wanted: Sequence[_Wanted],
        phase: SearchPhase,
        *,
        further: bool = False,
        seconds: float | None = None,
    ) -> Procedure[list[_Visited]]:
        """Run trials at a load until it is classified for each goal, or the first ones agree.

        A further visit needs a class. With `seconds` it is one trial of that length.
        """
        self.visits += 1
        agreeing = 0 if further else AGREEING
        roles = {one.goal.name: role for one, role in wanted}
        visit = Visit(number=self.visits, roles=roles, agreeing=agreeing)
        trials: list[TrialOutcome] = []
        seen = [
            _Visited(role, one.goal, load, trials, agreeing, one.result.steps)
            for one, role in wanted
        ]
        for (one, _), visited in zip(wanted, seen, strict=True):
            one.visits.append(visited)
        while open_ := [one for one in seen if not one.ended]:
            length = seconds or max(one.next_duration() for one in open_)
            ratios = {one.goal.loss_ratio: None for one in open_ if one.role != "rate"}
            trials.append((yield from self._measure(load, length, phase, visit, (*ratios,))))
        return seen

    def _measure(
        self,
        load: float,
        seconds: float,
        phase: SearchPhase,
        visit: Visit,
        ratios: tuple[float, ...],
    ) -> Procedure[TrialOutcome]:
        """One trial, which tells something of one of the goals that the visit lacks it for."""
        self.budget.check(seconds)
        trial = yield TrialRequest(
            load_fps=load,
            duration_s=seconds,
            histogram_up_to_loss=-1.0,
            phase=phase,
            visit=visit,
            rest_s=0.0 if self.trials else self.inputs.idle_s,
            when_limited="fail",
            classifies=ratios,
            overload=not ratios,
        )
        self.budget.spend(seconds)
        self.trials.append(trial)
        return trial


def _judged(
    result: GoalOutcome,
    retried: _Retried | None,
    inputs: ConfirmInputs,
    after: Sequence[TrialOutcome],
    stopped: str,
) -> GoalOutcome:
    """A goal's outcome with its confirmation."""
    found = Confirmation(
        status="not confirmed",
        trial_seconds=round(_seconds(after), 6),
        idle_s=inputs.idle_s if after else 0.0,
    )
    if retried is None:
        missing = "no load met the goal" if result.at_most else "its bounds are not final"
        return replace(result, confirmation=found.model_copy(update={"reason": missing}))
    inversions = retried.inversions()
    update: dict[str, object] = {
        "swept_fps": retried.carried_or_not(),
        "inversions": inversions,
        "trials": tuple(trial.number for trial in after),
    }
    why = contradiction = retried.contradiction()
    if inversions and not why:
        lossy = [f"{one.loss_ratio:.3%} lost at {one.load_fps:.0f}" for one in inversions]
        listed = ", ".join(dict.fromkeys(lossy))  # a load may be visited twice
        why = f"loss inversion below the lower bound: {listed} frames/s per interface"
    if why:
        rates = [trial.forwarding_rate_fps for trial in (*retried.searched, *after)]
        modes = retried.modes(rates) if contradiction else ()
        update |= {"status": "unstable", "reason": why, "modes": modes}
        result = replace(result, regular=False, at_least=False, reason=why)
    elif varies := retried.not_repeated():
        update["reason"] = f"{varies}; {stopped}" if stopped else varies
    elif retried.is_confirmed():
        reason = retried.unswept(inputs, stopped)
        modes = retried.forgiven_modes()
        update |= {"status": "confirmed", "reason": reason, "modes": modes}
    elif not inputs.bounds:
        update["reason"] = stopped or "the preset does not confirm bounds"
    else:
        update["reason"] = stopped or retried.missing()
    return replace(result, confirmation=found.model_copy(update=update))


def _is_final(result: GoalOutcome) -> bool:
    return result.regular or result.at_least


def _groups(rates: Sequence[float]) -> list[list[float]]:
    """Rates in two groups where what lies between them is wider than either, else in one."""
    rising = sorted(rates)
    at = max(range(1, len(rising)), key=lambda n: rising[n] - rising[n - 1], default=0)
    groups = [rising[:at], rising[at:]]
    if not at or max(group[-1] - group[0] for group in groups) >= rising[at] - rising[at - 1]:
        return [rising]
    return groups


def _loads(finals: Sequence[_Retried], role: VisitRole) -> list[float]:
    found = (one.load(role) for one in finals)
    return sorted({load for load in found if load is not None})


def _steps(finals: Sequence[_Retried]) -> list[tuple[float, list[_Retried]]]:
    """Goals whose loads below are the same, with the load that these lie below, largest first.

    Each goal has a lower bound that is no larger, and larger than the first load below it.
    """
    found: list[tuple[float, list[_Retried]]] = []
    bounds = [(load, one) for one in finals if (load := one.load("lower")) is not None]
    for load, one in sorted(bounds, key=lambda each: -each[0]):
        if found and load > SWEEP_RATIO * found[-1][0]:
            found[-1][1].append(one)
        else:
            found.append((load, [one]))
    return found


def _seconds(trials: Sequence[TrialOutcome]) -> float:
    return sum(trial.duration_s for trial in trials)
