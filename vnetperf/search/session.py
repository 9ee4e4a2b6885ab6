"""State that every algorithm shares: the grid of loads, the budget, the trials so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, exp, floor, inf, log, log1p, sqrt
from typing import Protocol

from vnetperf.model.parameters import SearchGoal, SearchLimits, SweepInputs
from vnetperf.model.trial import SearchPhase, TrialOutcome, TrialRequest
from vnetperf.model.units import fps
from vnetperf.search.base import Bound, GoalOutcome, Procedure, SearchOutcome, StopSearch
from vnetperf.search.classification import Criterion, History, conditional_throughput

#: Rungs are this much (relative) closer than a width: float rounding cannot widen a bound.
_SAFETY = 1e-6


class Grid(Protocol):
    """A monotonous ladder of loads from rung 0 (min load) to rung `top` (max load)."""

    top: int

    def load(self, rung: int) -> float:
        """Load of a rung."""

    def rung_below(self, load_fps: float) -> int:
        """The highest rung whose load is no higher than a load, within the grid."""


class GeometricGrid:
    """Loads at equal ratios, so that a relative width is the same number of rungs anywhere."""

    def __init__(self, limits: SearchLimits, width: float, divisions: int = 1) -> None:
        self._min = limits.min_load_fps
        self._max = limits.max_load_fps
        self._unit = -log1p(-width) * (1.0 - _SAFETY) / divisions
        rungs = log(self._max / self._min) / self._unit
        self.top = max(1, ceil(rungs - _SAFETY / 2))

    def load(self, rung: int) -> float:
        """Load of a rung."""
        if rung <= 0:
            return self._min
        if rung >= self.top:
            return self._max
        return self._max * exp((rung - self.top) * self._unit)

    def rung_below(self, load_fps: float) -> int:
        """The highest rung whose load is no higher than a load, within the grid."""
        if load_fps <= self._min:
            return 0
        if load_fps >= self._max:
            return self.top
        rung = min(self.top - 1, self.top + floor(log(load_fps / self._max) / self._unit) + 1)
        while rung > 0 and self.load(rung) > load_fps:
            rung -= 1
        return max(0, rung)

    def width_in_rungs(self, width: float) -> int:
        """How many rungs a relative width spans."""
        return max(1, floor(-log1p(-width) / self._unit))


#: Sums of durations may be this far (s) above a budget they meet exactly.
_ROUNDING_S = 1e-6


@dataclass(slots=True)
class Budget:
    """Trial seconds spent, against those allowed."""

    allowed_s: float | None  # Seconds, or None for no limit
    spent_s: float = 0.0  # Seconds of the trials so far
    trials: int = 0  # Trials so far
    around_s: float = 0.0  # Seconds that each trial costs the budget besides its own

    @property
    def remaining_s(self) -> float:
        """Seconds not spent yet; infinite without a limit."""
        if self.allowed_s is None:
            return inf
        return self.allowed_s - self._gone_s

    @property
    def _gone_s(self) -> float:
        return self.spent_s + self.trials * self.around_s

    def cost(self, duration_s: float) -> float:
        """What a trial is expected to take of the budget."""
        return duration_s + self.around_s

    def fits(self, duration_s: float) -> bool:
        """Tell whether a trial can be run within the budget."""
        return self.cost(duration_s) <= self.remaining_s + _ROUNDING_S

    def check(self, duration_s: float) -> None:
        """Refuse a trial that would go beyond the budget."""
        if not self.fits(duration_s):
            around = f", {self.around_s:g} s around each trial included" if self.around_s else ""
            raise StopSearch(
                f"the next trial of {duration_s:g} s does not fit the budget of "
                f"{self.allowed_s:g} s, of which {self._gone_s:g} s are spent{around}"
            )

    def spend(self, duration_s: float) -> None:
        """Account for a trial."""
        self.trials += 1
        self.spent_s += duration_s


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial that a search needs next."""

    rung: int
    duration_s: float  # Its intended seconds


#: Each load of the sweep, relative to the next larger one.
SWEEP_RATIO = 0.6


@dataclass(slots=True)
class SearchSession:
    """One search on one grid of loads."""

    grid: Grid  # What loads there are
    budget: Budget  # Shared by all that run trials for the same caller
    #: All goals of the search: they decide which trials need a latency histogram.
    goals: Sequence[SearchGoal] = ()
    #: Full-length trials that leave a load undecided until a goal gives it up; see `gives_up`.
    tries: int = 0
    sweep: SweepInputs | None = None  # What is tried below the bounds
    short_tries: int = 0  # Trials far short of a load until it is given up
    history: History = field(default_factory=History)  # The trials so far

    def __post_init__(self) -> None:
        self.history.short_tries = self.short_tries

    @property
    def gives_up(self) -> bool:
        """Whether the search is sent trials that decide nothing, and not what decides alone."""
        return self.tries > 0

    def measure(
        self, rung: int, duration_s: float, phase: SearchPhase = ""
    ) -> Procedure[TrialOutcome]:
        """Run one trial and note it."""
        self.budget.check(duration_s)
        request = TrialRequest(
            load_fps=self.grid.load(rung),
            duration_s=duration_s,
            histogram_up_to_loss=self._histogram_up_to_loss(duration_s),
            phase=phase,
            when_limited="count" if self.gives_up else "lower",
            classifies=tuple(dict.fromkeys(goal.loss_ratio for goal in self.goals)),
        )
        trial = yield request
        if not request.matches(trial.request):
            raise ValueError(f"{trial.request} does not answer {request}")
        self.history.add(rung, trial)
        self.budget.spend(duration_s)
        return trial

    def measure_decided(
        self, rung: int, duration_s: float, criterion: Criterion, phase: SearchPhase = ""
    ) -> Procedure[TrialOutcome]:
        """Run trials until one decides by a criterion, or the load is given up."""
        trial = yield from self.measure(rung, duration_s, phase)
        for _ in range(self.tries - 1):
            if criterion.decides(trial) or self.history.is_unreachable(rung, criterion):
                break
            trial = yield from self.measure(rung, duration_s, phase)
        return trial

    def swept(self, lower: int) -> list[int]:
        """The rungs of the sweep below a lower bound, the highest first."""
        rungs, load = [], self.grid.load(lower)
        for _ in range(0 if self.sweep is None else self.sweep.loads):
            load *= SWEEP_RATIO
            if load < self.grid.load(0):
                break
            rungs.append(self.grid.rung_below(load))
        return rungs

    def glance_s(self, goal: SearchGoal) -> float:
        """Seconds of the first trial at a load of the sweep."""
        return (
            goal.final_trial_s
            if self.sweep is None
            else min(self.sweep.trial_s, goal.final_trial_s)
        )

    def unswept(self, goals: Sequence[SearchGoal]) -> Candidate | None:
        """The next trial that the loads below the lower bounds need; None once they are known.

        A load near which a trial of any goal has decided already is known, unless one there lost
        too much: then it is classified like any other, and may be an upper bound.
        """
        if self.sweep is None:
            return None
        for goal in goals:
            criterion = Criterion.from_goal(goal)
            lower = self.history.bounds(criterion).lower
            if lower is None:
                continue
            if doubtful := self.history.doubtful(lower, criterion, self.tries):
                return Candidate(doubtful[-1], goal.final_trial_s)
            for rung in self.swept(lower):
                if not self._is_decided(rung, criterion):
                    return Candidate(rung, self.glance_s(goal))
        return None

    def _is_decided(self, rung: int, criterion: Criterion) -> bool:
        """Whether a trial near a rung decides; or the tester let none decide at it."""
        load, near = self.grid.load(rung), sqrt(1.0 / SWEEP_RATIO)
        low, high = self.grid.rung_below(load / near), self.grid.rung_below(load * near)
        if any(map(criterion.decides, self.history.between(low + 1, high))):
            return True
        if self.history.is_unreachable(rung, criterion):
            return True
        return len(self.history.trials(rung)) >= max(1, self.tries)

    def _histogram_up_to_loss(self, duration_s: float) -> float:
        """Short trials only steer the search; the time their histograms take is saved."""
        return 1.0 if any(g.final_trial_s <= duration_s for g in self.goals) else -1.0

    def result(self, goal: SearchGoal, stopped: str) -> GoalOutcome:
        """What the trials so far answer to a goal.

        Args:
            goal: The goal.
            stopped: Why the search was stopped before it reached its own end for this goal; "".

        Returns:
            Its result. Where the generator is the limit of a load a width above the lower bound,
            there is nothing left to search, whatever else stopped the search.
        """
        criterion = Criterion.from_goal(goal)
        bounds = self.history.bounds(criterion)
        lower, upper = self.bound(bounds.lower), self.bound(bounds.upper)
        given_up = next(iter(self.history.unclassifiable_rungs(criterion, self.tries)), None)
        at_least = upper is None and bounds.lower == self.grid.top
        at_most = lower is None and bounds.upper == 0
        regular = False
        cause = "; ".join(filter(None, (self.give_up_reason(given_up, criterion), stopped)))
        if at_least:
            reason = "the maximum load is carried: the limit is not the DUT's"
        elif at_most:
            reason = "the minimum load is already too much"
        elif lower is not None and upper is not None:
            far = (upper.load_fps - lower.load_fps) / upper.load_fps
            regular = far <= goal.width
            reason = "both bounds found, within the goal's width"
            if not regular:
                reason = f"bounds are {far:.3%} apart, wider than required: {cause}"
        elif self._is_limit(given_up, lower, upper, criterion, goal.width):
            at_least = True
            reason = f"no upper bound: {self.give_up_reason(given_up, criterion)}"
        else:
            missing = "no upper bound" if lower else "no lower bound" if upper else "no bounds"
            reason = f"{missing}: {cause}"
        if (regular or at_least) and (unknown := self._unknown_below(goal, stopped)):
            regular, at_least, reason = False, False, unknown
        rate = (
            conditional_throughput(lower.load_fps, lower.trials, criterion)
            if lower is not None
            else None
        )
        return GoalOutcome(
            goal=goal,
            relevant_lower_bound=lower,
            relevant_upper_bound=upper,
            conditional_throughput_fps=rate,
            regular=regular,
            reason=reason,
            at_least=at_least,
            at_most=at_most,
        )

    def _unknown_below(self, goal: SearchGoal, stopped: str) -> str:
        """What the sweep has left open below a goal's lower bound; "" for nothing."""
        criterion = Criterion.from_goal(goal)
        lower = self.history.bounds(criterion).lower
        if self.sweep is None or lower is None:
            return ""
        if doubtful := self.history.doubtful(lower, criterion, 0):
            load = self.grid.load(doubtful[-1])
            cause = stopped or self.give_up_reason(doubtful[-1], criterion)
            return (
                f"a trial at {fps(load)} per interface, below the lower bound, lost more "
                f"than the goal allows, and it was not decided whether the load is carried: {cause}"
            )
        if stopped and self.unswept((goal,)) is not None:
            return f"loads below the lower bound were not all tried: {stopped}"
        return ""

    def _is_limit(
        self,
        given_up: int | None,
        lower: Bound | None,
        upper: Bound | None,
        criterion: Criterion,
        width: float,
    ) -> bool:
        """Whether a lower bound is the most that the generator offered, as near as is asked for."""
        if given_up is None or lower is None or upper is not None:
            return False
        load = self.grid.load(given_up)
        near = load - lower.load_fps <= width * load
        return near and self.is_short(given_up, criterion)

    def is_short(self, rung: int | None, criterion: Criterion) -> bool:
        """Whether the generator alone is why a load was given up.

        That is so where most of the trials that left it undecided lacked so many frames that even
        a DUT without loss would not have shown that it carries the load.
        """
        if rung is None:
            return False
        undecided = self._undecided(rung, criterion)
        missing = (trial.missing > criterion.loss_ratio for trial in undecided if trial.is_short)
        return 2 * sum(missing) > len(undecided)

    def _undecided(self, rung: int, criterion: Criterion) -> list[TrialOutcome]:
        trials = [t for t in self.history.trials(rung) if not criterion.decides(t)]
        if self.history.is_unreachable(rung, criterion):
            return trials
        return [t for t in trials if criterion.is_full_length(t)]

    def give_up_reason(self, rung: int | None, criterion: Criterion) -> str:
        """Why a load could not be classified; "" for no such load."""
        if rung is None:
            return ""
        undecided = self._undecided(rung, criterion)
        if not undecided:
            return "its trials decide neither way"
        cause = "the tester stood still or lost frames itself"
        if self.is_short(rung, criterion):
            cause = "the limit is what the generator offered on its core, not the DUT's"
        elif 2 * sum(trial.is_short for trial in undecided) > len(undecided):
            cause = "frames were lost and others not offered"
        best = min(undecided, key=lambda trial: trial.loss.most - trial.loss.least)
        numbers = ", ".join(str(trial.number) for trial in undecided if trial.number)
        trials = f" (trial {numbers})" if numbers else ""
        return (
            f"{len(undecided)} trials at {fps(self.grid.load(rung))} per interface{trials} "
            f"decided nothing, {cause}; the DUT's loss is {best.loss} at best"
        )

    def outcome(self, algorithm: str, results: Sequence[GoalOutcome]) -> SearchOutcome:
        """Assemble what a search returns."""
        return SearchOutcome(algorithm, tuple(results), self.budget.trials, self.budget.spent_s)

    def bound(self, rung: int | None) -> Bound | None:
        """A load with its trials."""
        if rung is None:
            return None
        return Bound(self.grid.load(rung), self.history.trials(rung))
