"""The pursuit of one goal: which trial it wants next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vnetperf.search.classify import Criterion, DurationSums, LoadClass, classify
from vnetperf.search.history import History
from vnetperf.search.mlr.situation import Situation
from vnetperf.search.mlr.strategies import STRATEGIES
from vnetperf.search.mlr.targets import Target


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
        targets: The targets, the final one last.
        hints: Two rungs to start from, the lower one first.
        scout_s: Seconds of the shortest trial.
        top: Rung of the maximum load.
        history: Trials of the whole search; read, not written.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        hints: tuple[int | None, int | None],
        scout_s: float,
        top: int,
        history: History,
    ) -> None:
        self._ahead = list(targets)
        self._hints = hints
        self._scout_s = scout_s
        self._top = top
        self._history = history

    def wish(self) -> Wish | None:
        """Say which trial this goal wants next.

        Returns:
            The trial, or None if the goal is reached, or cannot be within the limits of load.
        """
        while self._ahead:
            target = self._ahead[0]
            bounds = self._history.bounds(target.criterion)
            situation = Situation(target.width, bounds.lower, bounds.upper, *self._hints, self._top)
            for strategy in STRATEGIES:
                rung = strategy(situation)
                if rung is not None:
                    return Wish(rung, self._duration(rung, target.criterion))
            self._hints = (bounds.lower, bounds.upper)
            self._ahead.pop(0)
        return None

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
