"""What every algorithm needs around its own logic: budget, history, and wording the results."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from math import inf

from vnetperf.model.goal import SearchGoal
from vnetperf.search.base import (
    Bound,
    GoalResult,
    Measurement,
    SearchOutcome,
    StopSearch,
    TrialRequest,
)
from vnetperf.search.classify import Criterion, conditional_throughput
from vnetperf.search.grid import Grid
from vnetperf.search.history import History

#: Sums of durations may be this far (s) above a budget they meet exactly.
_ROUNDING_S = 1e-6


@dataclass(slots=True)
class Budget:
    """Trial seconds spent, against those allowed."""

    allowed_s: float | None
    """Seconds, or None for no limit."""

    spent_s: float = 0.0
    """Effective seconds of the trials so far."""

    trials: int = 0
    """Trials so far."""

    overhead_s: float = 0.0
    """The most by which a trial's effective duration has gone beyond its intended one."""

    around_s: float = 0.0
    """Seconds that each trial costs the budget besides its effective ones."""

    @property
    def left_s(self) -> float:
        """Seconds not spent yet; infinite without a limit."""
        if self.allowed_s is None:
            return inf
        return self.allowed_s - self._gone_s

    @property
    def _gone_s(self) -> float:
        return self.spent_s + self.trials * self.around_s

    def cost(self, duration_s: float) -> float:
        """What a trial is expected to take of the budget.

        Args:
            duration_s: Its intended seconds.

        Returns:
            Seconds, an overhead as large as any seen so far included.
        """
        return duration_s + self.overhead_s + self.around_s

    def fits(self, duration_s: float) -> bool:
        """Tell whether a trial can be run within the budget.

        Args:
            duration_s: Its intended seconds.

        Returns:
            True if it is expected to end in time.
        """
        return self.cost(duration_s) <= self.left_s + _ROUNDING_S

    def check(self, duration_s: float) -> None:
        """Refuse a trial that would go beyond the budget.

        Args:
            duration_s: Its intended seconds.

        Raises:
            StopSearch: If it does not fit.
        """
        if not self.fits(duration_s):
            around = f", {self.around_s:g} s around each trial included" if self.around_s else ""
            raise StopSearch(
                f"the next trial of {duration_s:g} s does not fit the budget of "
                f"{self.allowed_s:g} s, of which {self._gone_s:g} s are spent{around}"
            )

    def spend(self, trial: Measurement) -> None:
        """Account for a trial.

        Args:
            trial: The trial that was run.
        """
        self.trials += 1
        self.spent_s += trial.effective_duration_s
        self.overhead_s = max(self.overhead_s, trial.effective_duration_s - trial.duration_s)


@dataclass(slots=True)
class Session:
    """One search on one grid of loads."""

    grid: Grid
    """What loads there are."""

    budget: Budget
    """Shared by all that run trials for the same caller."""

    history: History = field(default_factory=History)
    """The trials so far."""

    def measure(
        self, rung: int, duration_s: float
    ) -> Generator[TrialRequest, Measurement, Measurement]:
        """Run one trial and note it.

        Args:
            rung: Its load, as a rung of the grid.
            duration_s: Its intended seconds.

        Yields:
            The request.

        Returns:
            The measurement that was sent in.

        Raises:
            StopSearch: If the trial does not fit the budget.
            ValueError: If the measurement sent in is not that of the request.
        """  # noqa: DOC403
        self.budget.check(duration_s)
        request = TrialRequest(self.grid.load(rung), duration_s)
        trial = yield request
        if not request.same_as(trial.load_fps, trial.duration_s):
            raise ValueError(f"{trial} does not answer {request}")
        self.history.add(rung, trial)
        self.budget.spend(trial)
        return trial

    def result(self, goal: SearchGoal, stopped: str) -> GoalResult:
        """Say what the trials so far answer to a goal.

        Args:
            goal: The goal.
            stopped: Why the search ended early; empty if it ran to its end.

        Returns:
            Its result, irregular with a reason if a bound is missing or the two are too far apart.
        """
        criterion = Criterion.of_goal(goal)
        bounds = self.history.bounds(criterion)
        lower, upper = self.bound(bounds.lower), self.bound(bounds.upper)
        at_least = upper is None and bounds.lower == self.grid.top
        at_most = lower is None and bounds.upper == 0
        regular = False
        if at_least:
            reason = "the maximum load is carried: the limit is not the DUT's"
        elif at_most:
            reason = "the minimum load is already too much"
        elif lower is not None and upper is not None:
            far = (upper.load_fps - lower.load_fps) / upper.load_fps
            regular = far <= goal.width
            reason = "both bounds found, within the goal's width"
            if not regular:
                reason = f"bounds are {far:.3%} apart, wider than asked: {stopped}"
        else:
            missing = "no upper bound" if lower else "no lower bound" if upper else "no bounds"
            reason = f"{missing}: {stopped}"
        rate = (
            conditional_throughput(lower.load_fps, lower.trials, criterion)
            if lower is not None
            else None
        )
        return GoalResult(
            goal=goal,
            relevant_lower_bound=lower,
            relevant_upper_bound=upper,
            conditional_throughput_fps=rate,
            regular=regular,
            reason=reason,
            at_least=at_least,
            at_most=at_most,
        )

    def outcome(self, algorithm: str, results: Sequence[GoalResult]) -> SearchOutcome:
        """Assemble what a search returns.

        Args:
            algorithm: Its registered name.
            results: One per goal.

        Returns:
            The outcome, with the trials and seconds of the whole budget.
        """
        return SearchOutcome(algorithm, tuple(results), self.budget.trials, self.budget.spent_s)

    def bound(self, rung: int | None) -> Bound | None:
        """A load with its trials.

        Args:
            rung: Its place on the grid; None for none.

        Returns:
            The bound; None for none.
        """
        if rung is None:
            return None
        return Bound(self.grid.load(rung), self.history.trials(rung))
