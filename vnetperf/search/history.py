"""All trials of a search, by load, and the bounds they amount to."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

from vnetperf.search.base import Measurement
from vnetperf.search.classify import Criterion, DurationSums, LoadClass, classify


@dataclass(frozen=True, slots=True)
class Bounds:
    """The two relevant bounds for a criterion, as rungs of the search's grid of loads."""

    lower: int | None
    """Largest rung classified `LOWER` that is below `upper`."""

    upper: int | None
    """Smallest rung classified `UPPER`."""


class History:
    """The trials run so far.

    Loads are named by their rung (integer place on the search's grid), so that "the same load"
    is never a question of float equality.
    """

    def __init__(self) -> None:
        self._trials: dict[int, list[Measurement]] = {}
        self._rungs: list[int] = []
        self._classes: dict[tuple[int, Criterion], LoadClass] = {}

    def add(self, rung: int, trial: Measurement) -> None:
        """Note one more trial.

        Args:
            rung: Where its load is on the grid.
            trial: Its measurement.
        """
        if rung not in self._trials:
            self._trials[rung] = []
            insort(self._rungs, rung)
        self._trials[rung].append(trial)
        for key in [key for key in self._classes if key[0] == rung]:
            del self._classes[key]

    def trials(self, rung: int) -> tuple[Measurement, ...]:
        """The trials at a load.

        Args:
            rung: The load's place on the grid.

        Returns:
            Measurements in the order run; empty if there are none.
        """
        return tuple(self._trials.get(rung, ()))

    def classify(self, rung: int, criterion: Criterion) -> LoadClass:
        """Classify a load by its trials so far.

        Args:
            rung: The load's place on the grid.
            criterion: What they are judged by.

        Returns:
            The class; `UNDECIDED` without trials.
        """
        key = (rung, criterion)
        if key not in self._classes:
            sums = DurationSums.of(self._trials.get(rung, ()), criterion)
            self._classes[key] = classify(sums, criterion)
        return self._classes[key]

    def bounds(self, criterion: Criterion) -> Bounds:
        """Find the relevant bounds (draft sections "Relevant Upper Bound", "... Lower Bound").

        A load that passes above one that fails is loss inversion and is not reported: the lower
        bound is looked for below the smallest upper bound only.

        Args:
            criterion: What loads are classified by.

        Returns:
            Either bound may be None.
        """
        lower: int | None = None
        for rung in self._rungs:
            match self.classify(rung, criterion):
                case LoadClass.UPPER:
                    return Bounds(lower, rung)
                case LoadClass.LOWER:
                    lower = rung
        return Bounds(lower, None)
