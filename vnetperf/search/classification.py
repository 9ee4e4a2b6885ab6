"""Classification of loads by their trials (RFC 9971).

Load classes, relevant bounds, conditional throughput. A load is classified by all trials at it of
one search, whenever they were made. The loss of a trial is that of all directions together, and an
interval: it is low-loss, high-loss, or says neither of a goal, and then it adds to no sum.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import fsum

from vnetperf.model.parameters import SearchGoal
from vnetperf.model.trial import TrialOutcome

#: Duration sums are rounded to nanoseconds, so that seven trials of 0.1 s do make 0.7 s.
_SUM_DIGITS = 9
#: Nor does a nanosecond decide whether an exceed ratio is exceeded.
_TOLERANCE_S = 1e-9


#: Share of a load that is far more than a stall of the tester leaves unsent.
FAR_SHORT = 0.05


class LoadClass(Enum):
    """What the trials at a load show."""

    LOWER = "lower bound"  # Carried, whatever the trials still missing would show

    UPPER = "upper bound"  # Too much, whatever the trials still missing would show

    UNDECIDED = "undecided"  # Further trials may still decide either way


@dataclass(frozen=True, slots=True)
class Criterion:
    """The part of a goal (or of a coarser target on the way to it) that classifies a load."""

    loss_ratio: float  # Larger trial loss ratios are high-loss
    exceed_ratio: float  # Share of the trial seconds that may be high-loss
    trial_s: float  # Trials of at least this intended duration are full-length, seconds
    duration_sum_s: float  # Full-length seconds that surely classify a load

    @classmethod
    def from_goal(cls, goal: SearchGoal) -> Criterion:
        """The criterion that final bounds of a goal are judged by."""
        return cls(goal.loss_ratio, goal.exceed_ratio, goal.final_trial_s, goal.duration_sum_s)

    def is_low_loss(self, trial: TrialOutcome) -> bool:
        """Tell whether a trial keeps to the loss ratio, for certain."""
        return trial.loss.is_low(self.loss_ratio)

    def is_high_loss(self, trial: TrialOutcome) -> bool:
        """Tell whether a trial exceeds the loss ratio, for certain."""
        return trial.loss.is_high(self.loss_ratio)

    def decides(self, trial: TrialOutcome) -> bool:
        """Tell whether a trial does either."""
        return trial.loss.decides(self.loss_ratio)

    def is_full_length(self, trial: TrialOutcome) -> bool:
        """Tell whether a trial was intended to last long enough."""
        return trial.duration_s >= self.trial_s


@dataclass(frozen=True, slots=True)
class DurationSums:
    """Seconds of the trials at one load, split in four by a criterion."""

    full_low: float = 0.0  # Full-length, low-loss
    full_high: float = 0.0  # Full-length, high-loss
    short_low: float = 0.0  # Short, low-loss
    short_high: float = 0.0  # Short, high-loss

    @classmethod
    def sum_trials(cls, trials: Iterable[TrialOutcome], criterion: Criterion) -> DurationSums:
        """Sum up trials."""
        parts: dict[tuple[bool, bool], list[float]] = {}
        for trial in filter(criterion.decides, trials):
            key = (criterion.is_full_length(trial), criterion.is_low_loss(trial))
            parts.setdefault(key, []).append(trial.duration_s)
        full_low, full_high, short_low, short_high = (
            round(fsum(parts.get(key, ())), _SUM_DIGITS)
            for key in ((True, True), (True, False), (False, True), (False, False))
        )
        return cls(full_low, full_high, short_low, short_high)


def classify(sums: DurationSums, criterion: Criterion) -> LoadClass:
    """Classify a load."""
    exceed = criterion.exceed_ratio
    forgiven = sums.short_low * exceed / (1.0 - exceed)
    high = sums.full_high + max(0.0, sums.short_high - forgiven)
    missing = max(0.0, criterion.duration_sum_s - sums.full_low - high)
    # Not (whole - low) as the RFC has it: with nothing missing the two comparisons below must
    # be of the same number, or float rounding could leave a fully measured load undecided.
    allowed = (sums.full_low + high + missing) * exceed + _TOLERANCE_S
    if high > allowed:
        return LoadClass.UPPER
    if high + missing <= allowed:
        return LoadClass.LOWER
    return LoadClass.UNDECIDED


def conditional_throughput(
    load_fps: float, trials: Iterable[TrialOutcome], criterion: Criterion
) -> float:
    """The forwarding rate to expect at a load, at the criterion's quantile of loss.

    What was not offered of a load has not come back.
    """
    full = sorted(
        (t for t in trials if criterion.is_full_length(t) and criterion.decides(t)),
        key=lambda trial: trial.loss.most,
    )
    measured = round(fsum(trial.duration_s for trial in full), _SUM_DIGITS)
    remaining = max(criterion.duration_sum_s, measured) * (1.0 - criterion.exceed_ratio)
    for trial in full:
        remaining = round(remaining - trial.duration_s, _SUM_DIGITS)
        if remaining <= 0.0:
            return load_fps * (1.0 - trial.loss.most)
    return 0.0


@dataclass(frozen=True, slots=True)
class RelevantBounds:
    """The two relevant bounds for a criterion, as rungs of the search's grid of loads."""

    lower: int | None  # Largest rung classified `LOWER` that is below `upper`
    upper: int | None  # Smallest rung classified `UPPER`


class History:
    """The trials run so far.

    Loads are named by their rung (integer place on the search's grid), so that "the same load"
    is never a question of float equality.
    """

    def __init__(self) -> None:
        #: Trials far short of their load that give it up; 0: no number of them.
        self.short_tries = 0
        self._trials: dict[int, list[TrialOutcome]] = {}
        self._rungs: list[int] = []
        self._classes: dict[tuple[int, Criterion], LoadClass] = {}

    def add(self, rung: int, trial: TrialOutcome) -> None:
        """Note one more trial."""
        if rung not in self._trials:
            self._trials[rung] = []
            insort(self._rungs, rung)
        self._trials[rung].append(trial)
        for key in [key for key in self._classes if key[0] == rung]:
            del self._classes[key]

    def trials(self, rung: int) -> tuple[TrialOutcome, ...]:
        """The trials at a load."""
        return tuple(self._trials.get(rung, ()))

    def between(self, low: int, high: int) -> list[TrialOutcome]:
        """The trials at the rungs from one to another."""
        return [t for rung in self._rungs if low <= rung <= high for t in self._trials[rung]]

    def doubtful(self, below: int, criterion: Criterion, tries: int) -> list[int]:
        """Undecided rungs below one at which a trial was high-loss, ascending; none given up."""
        return [
            rung
            for rung in self._rungs
            if rung < below
            and any(map(criterion.is_high_loss, self._trials[rung]))
            and self.classify(rung, criterion) is LoadClass.UNDECIDED
            and not self.gives_up(rung, criterion, tries)
        ]

    def classify(self, rung: int, criterion: Criterion) -> LoadClass:
        """Classify a load by its trials so far."""
        key = (rung, criterion)
        if key not in self._classes:
            sums = DurationSums.sum_trials(self._trials.get(rung, ()), criterion)
            self._classes[key] = classify(sums, criterion)
        return self._classes[key]

    def gives_up(self, rung: int, criterion: Criterion, tries: int) -> bool:
        """Tell whether further trials at a load are of no use, because of the tester.

        That is so after so many full-length trials that decided nothing, if those that did are not
        more; after no number of them where `tries` is 0. A load that is far from being offered is
        given up earlier: how long a trial of it lasts is then no matter.
        """
        if not tries:
            return False
        if self.is_unreachable(rung, criterion):
            return self.classify(rung, criterion) is LoadClass.UNDECIDED
        full = [t for t in self._trials.get(rung, ()) if criterion.is_full_length(t)]
        undecided = sum(not criterion.decides(trial) for trial in full)
        if undecided < tries or 2 * undecided < len(full):
            return False
        return self.classify(rung, criterion) is LoadClass.UNDECIDED

    def is_unreachable(self, rung: int, criterion: Criterion) -> bool:
        """Tell whether most of the trials at a load were far from offering it."""
        trials = self._trials.get(rung, ())
        short = sum(t.missing > FAR_SHORT and not criterion.decides(t) for t in trials)
        return 0 < self.short_tries <= short and 2 * short > len(trials)

    def unclassifiable_rungs(self, criterion: Criterion, tries: int) -> list[int]:
        """Find the loads between the relevant bounds that are given up, ascending."""
        bounds = self.bounds(criterion)
        between = (
            rung
            for rung in self._rungs
            if (bounds.lower is None or rung > bounds.lower)
            and (bounds.upper is None or rung < bounds.upper)
        )
        return [rung for rung in between if self.gives_up(rung, criterion, tries)]

    def bounds(self, criterion: Criterion) -> RelevantBounds:
        """Find the relevant bounds (RFC 9971 "Relevant Upper Bound", "... Lower Bound").

        A load that passes above one that fails is loss inversion and is not reported: the lower
        bound is looked for below the smallest upper bound only.
        """
        lower: int | None = None
        for rung in self._rungs:
            match self.classify(rung, criterion):
                case LoadClass.UPPER:
                    return RelevantBounds(lower, rung)
                case LoadClass.LOWER:
                    lower = rung
        return RelevantBounds(lower, None)
