"""The pursuit of one goal: which trial it wants next."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vnetperf.model.goal import SearchGoal
from vnetperf.search.classify import Criterion, DurationSums, LoadClass, classify
from vnetperf.search.grid import GeometricGrid
from vnetperf.search.history import History
from vnetperf.search.mlr.situation import Situation
from vnetperf.search.mlr.strategies import STRATEGIES
from vnetperf.search.mlr.targets import keepable

#: A trial must be longer than those before by this much to be worth repeating what they found.
_WORTH = 1.5


@dataclass(frozen=True, slots=True)
class Wish:
    """A trial that a goal wants."""

    rung: int
    """Its load."""

    duration_s: float
    """Its intended seconds."""


class Pursuit:
    """One goal on its way through its targets.

    Args:
        goal: The goal.
        grid: The loads of the search.
        history: Trials of the whole search; read, not written.
        hints: Rungs of the bounds to look for first.
        ladder: Its targets, the goal itself the last. A shorter one is put in where the budget
            asks for it.
    """

    def __init__(
        self,
        goal: SearchGoal,
        grid: GeometricGrid,
        history: History,
        hints: tuple[int, int],
        ladder: list[Criterion],
    ) -> None:
        self._scout_s = goal.initial_trial_s
        self._ladder = ladder
        self._at = 0
        self._shortened = False
        self._width = grid.rungs_of(goal.width)
        self._top = grid.top
        self._history = history
        self._hints: tuple[int | None, int | None] = hints

    def wish(self) -> Wish | None:
        """Say which trial this goal wants next.

        A target that is reached, or cannot be within the limits of load, leaves its bounds as
        hints to the next. The final one is never left: trials for other goals may still move its
        bounds apart.

        Returns:
            The trial, or None if nothing is left to be found out for this goal.
        """
        while True:
            criterion = self._ladder[self._at]
            bounds = self._history.bounds(criterion)
            situation = Situation(self._width, bounds.lower, bounds.upper, *self._hints, self._top)
            for strategy in STRATEGIES:
                rung = strategy(situation)
                if rung is not None:
                    return Wish(rung, self._duration(rung, criterion))
            if self._at == len(self._ladder) - 1:
                return None
            self._hints = (bounds.lower, bounds.upper)
            self._at += 1

    def shorten(self, longest_s: float) -> bool:
        """Put a target with shorter trials before the one that does not fit the budget, once.

        Args:
            longest_s: Seconds that a trial may take.

        Returns:
            True if such a target says more than what was reached before.
        """
        target = self._ladder[self._at]
        reached = self._ladder[self._at - 1].trial_s if self._at else 0.0
        length = keepable(longest_s)
        worth = max(self._scout_s, _WORTH * reached) <= length < target.trial_s
        if self._shortened or not worth:
            return False
        self._shortened = True
        shorter = Criterion(target.loss_ratio, target.exceed_ratio, length, length)
        self._ladder.insert(self._at, shorter)
        return True

    def _duration(self, rung: int, criterion: Criterion) -> float:
        """Prefer a short trial where its failure alone would settle the matter.

        That is so at each new load for an exceed ratio of 0, and after a failed full-length trial
        for a majority of two. Once a short trial has passed, only full-length ones can tell.
        """
        if self._scout_s >= criterion.trial_s:
            return criterion.trial_s
        sums = DurationSums.of(self._history.trials(rung), criterion)
        if sums.short_low > 0.0:
            return criterion.trial_s
        failed = replace(sums, short_high=sums.short_high + self._scout_s)
        decided = classify(failed, criterion) is LoadClass.UPPER
        return self._scout_s if decided else criterion.trial_s
