"""Multi-goal search after RFC 9971 (MLRsearch).

Strategies that choose the next load for one goal, targets of a goal, and the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import floor, log, log2

from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.search.base import GoalOutcome, Procedure, Search, StopSearch
from vnetperf.search.classification import Criterion, DurationSums, LoadClass, classify
from vnetperf.search.session import Budget, Candidate, GeometricGrid, SearchSession


@dataclass(frozen=True, slots=True)
class SearchState:
    """A goal's search for its current target, as it stands before the next trial."""

    width: int  # Rungs between the bounds at which the target is reached
    lower: int | None  # Relevant lower bound of the target
    upper: int | None  # Relevant upper bound of the target
    hint_low: int | None  # Lower bound that shorter trials gave before; None if they found none
    hint_high: int | None  # Upper bound that shorter trials gave before; None if they found none
    top: int  # Rung of the maximum load; the minimum load is rung 0

    def is_worth(self, rung: int) -> bool:
        """Tell whether classifying a rung would bring the target nearer."""
        if self.lower is not None and rung <= self.lower:
            return False
        if self.upper is not None and rung >= self.upper:
            return False
        return self.lower is None or self.upper is None or self.upper - self.lower > self.width

    def settle(self, rung: int) -> int:
        """Move a rung away from bounds and limits that it is needlessly close to.

        A trial less than one width from a bound narrows too little; one less than a width from a
        limit of load may as well be at the limit.
        """
        floor = 0 if self.lower is None else self.lower
        ceiling = self.top if self.upper is None else self.upper
        if self.lower is not None and self.upper is not None and ceiling - floor < 2 * self.width:
            return (floor + ceiling) // 2
        if rung - floor < self.width:
            rung = floor if self.lower is None else floor + self.width
        if ceiling - rung < self.width:
            rung = ceiling if self.upper is None else ceiling - self.width
        lowest = 0 if self.lower is None else floor + 1
        highest = self.top if self.upper is None else ceiling - 1
        return max(lowest, min(highest, rung))


def split(lower: int, upper: int, width: int) -> int:
    """Halve an interval so that later halvings come out even.

    An interval of width x 2^k needs k more trials, one that is a little wider needs k + 1. So one
    part is made such an interval, as near to the half as possible. The smaller part is the lower
    one: an answer that errs, errs towards less load.
    """
    span = upper - lower
    if span < 2 * width:
        return lower + max(1, span // 2)
    power = max(0, int(log2(span / width)) - 1)
    parts = (width << power, width << (power + 1))
    part = max(parts, key=lambda rungs: rungs * (span - rungs))
    return lower + min(part, span - part)


def confirm_hints(situation: SearchState) -> int | None:
    """Choose a hint itself, the lower one first.

    The lower one is the answer if it holds, so it is worth most; and a load that proves too much
    there makes the upper hint needless.
    """
    for hint in (situation.hint_low, situation.hint_high):
        if hint is not None and situation.is_worth(hint):
            return hint
    return None


def extend_hints(situation: SearchState) -> int | None:
    """Step away from the one bound there is, twice as far from the hint each time.

    The first step is one width: longer trials mostly move the answer by little, and a bound so
    found needs no halving.
    """
    lower, upper = situation.lower, situation.upper
    if lower is None and upper is not None and upper > 0:
        return situation.settle(step_down(situation, upper))
    if upper is None and lower is not None and lower < situation.top:
        return situation.settle(step_up(situation, lower))
    return None


def step_down(situation: SearchState, upper: int) -> int:
    """One step below an upper bound, as wide as what has been crossed since the hint."""
    hint = upper if situation.hint_low is None else situation.hint_low
    return upper - max(situation.width, hint - upper)


def step_up(situation: SearchState, lower: int) -> int:
    """One step above a lower bound, as wide as what has been crossed since the hint."""
    hint = lower if situation.hint_high is None else situation.hint_high
    return lower + max(situation.width, lower - hint)


def bisect_bounds(situation: SearchState) -> int | None:
    """Choose the middle of the bounds, or one step from a hint that has just been passed.

    One of the bounds may have come from trials for another goal and be far off. A hint that longer
    trials moved is mostly off by a width, so the first step beyond it is that short. If the answer
    is not there either, the hint was of no use, and halving costs less than further steps.
    """
    lower, upper, width = situation.lower, situation.upper, situation.width
    if lower is None or upper is None or upper - lower <= width:
        return None
    middle = split(lower, upper, width)
    low, high = situation.hint_low, situation.hint_high
    if low is not None and 0 <= low - upper < width:
        middle = max(middle, situation.settle(step_down(situation, upper)))
    elif high is not None and 0 <= lower - high < width:
        middle = min(middle, situation.settle(step_up(situation, lower)))
    return middle


#: Tried in this order until one names a load.
STRATEGIES: tuple[Callable[[SearchState], int | None], ...] = (
    confirm_hints,
    extend_hints,
    bisect_bounds,
)

#: Trial durations grow by about this between targets: a target costs its trials, so few are used.
_LONGER = 8.0
#: Duration sums of full-length trials grow by about this: these trials are not lost.
_MORE = 2.0


def derive_targets(goal: SearchGoal) -> tuple[Criterion, ...]:
    """Derive the targets of a goal: longer trials first, then more of them."""
    final = goal.final_trial_s
    longer = [(length, length) for length in _ladder(goal.initial_trial_s, final, _LONGER)]
    repeats = [(final, total) for total in _ladder(final, goal.duration_sum_s, _MORE)]
    ahead = (
        Criterion(goal.loss_ratio, goal.exceed_ratio, length, total)
        for length, total in longer + repeats
    )
    return (*ahead, Criterion.from_goal(goal))


def _ladder(start: float, end: float, growth: float) -> list[float]:
    """Durations from `start` to below `end`, at equal ratios, as near to `growth` as fits."""
    if start >= end:
        return []
    count = max(1, round(log(end / start) / log(growth)))
    between = (round_duration(start * (end / start) ** (step / count)) for step in range(1, count))
    return [start, *between]


def round_duration(seconds: float) -> float:
    """Cut a derived duration to what any generator can keep and a log can show."""
    return float(int(seconds)) if seconds >= 1.0 else floor(seconds * 1000.0) / 1000.0


def first_hints(
    goal: SearchGoal, grid: GeometricGrid, forwarded_fps: float, margin: int
) -> tuple[int, int]:
    """Guess the bounds of a goal.

    If forwarding stays what it was under overload, the load that loses just the goal's loss ratio
    is forwarded / (1 - loss ratio). All goals count their widths up from the same load, a margin
    below the forwarding rate, so that the upper bound of one is, where it can be, the lower bound
    of the next: its trials then count for both.
    """
    width = grid.width_in_rungs(goal.width)
    forwarded = grid.rung_below(forwarded_fps)
    if forwarded == grid.top:
        return grid.top, grid.top
    tolerated = grid.rung_below(forwarded_fps / (1.0 - goal.loss_ratio)) - forwarded
    low = max(0, forwarded - margin) + tolerated // width * width
    return low, min(grid.top, low + width)


#: Bounds from longer trials are preferred to others from shorter ones unless so much wider.
_WIDER = 4.0


def best_bounds(
    goal: SearchGoal, ladder: Sequence[Criterion], session: SearchSession, stopped: str
) -> GoalOutcome:
    """The result of a goal, from the longest trials that narrow it."""
    final_outcome = session.result(goal, stopped)
    if not stopped or final_outcome.regular or final_outcome.at_least or final_outcome.at_most:
        return final_outcome
    lesser = (session.result(_shorter_goal(goal, target), stopped) for target in ladder[-2::-1])
    outcomes = [
        final_outcome,
        *(result for result in lesser if not _is_refuted(result, final_outcome)),
    ]
    chosen = _choose_result(outcomes, final_outcome, goal.width)
    if chosen is final_outcome:
        return final_outcome
    return replace(chosen, regular=False, reason=_estimate_reason(chosen, goal, stopped))


def _shorter_goal(goal: SearchGoal, target: Criterion) -> SearchGoal:
    return replace(
        goal,
        initial_trial_s=min(goal.initial_trial_s, target.trial_s),
        final_trial_s=target.trial_s,
        duration_sum_s=target.duration_sum_s,
    )


def _is_refuted(result: GoalOutcome, final_outcome: GoalOutcome) -> bool:
    """Whether its lower bound is known to be too much for the goal itself."""
    lower, upper = result.relevant_lower_bound, final_outcome.relevant_upper_bound
    return lower is not None and upper is not None and lower.load_fps >= upper.load_fps


def _choose_result(
    outcomes: Sequence[GoalOutcome], final_outcome: GoalOutcome, width: float
) -> GoalOutcome:
    """The first, as longest trials come first, that is not much wider than another."""
    widths = [result.relative_width for result in outcomes]
    finite_widths = [relative_width for relative_width in widths if relative_width is not None]
    if finite_widths:
        enough = max(width, _WIDER * min(finite_widths))
        return next(
            result
            for result, relative_width in zip(outcomes, widths, strict=True)
            if relative_width is not None and relative_width <= enough
        )
    one_sided = (
        outcome
        for outcome in outcomes
        if outcome.relevant_lower_bound or outcome.relevant_upper_bound
    )
    return next(one_sided, final_outcome)


def _estimate_reason(chosen: GoalOutcome, goal: SearchGoal, stopped: str) -> str:
    by = chosen.goal
    required = f"{goal.final_trial_s:g} s, {goal.duration_sum_s:g} s at a load"
    text = f"an estimate by trials of {by.final_trial_s:g} s, {by.duration_sum_s:g} s at a load"
    width = chosen.relative_width
    if width is not None:
        text += f", bounds {width:.3%} apart"
    elif chosen.at_least:
        text += f" ({chosen.reason})"
    elif chosen.at_most:
        text += ", at which the minimum load was too much"
    return f"{text}, where {required} are required: {stopped}"


#: A trial must be longer than those before by this much to be worth repeating what they found.
_WORTH = 1.5


class TargetTracker:
    """One goal on its way through its targets."""

    def __init__(
        self,
        goal: SearchGoal,
        grid: GeometricGrid,
        session: SearchSession,
        hints: tuple[int, int],
        ladder: list[Criterion],
    ) -> None:
        self._session = session
        self._tries = session.tries
        self._scout_s = goal.initial_trial_s
        self._ladder = ladder
        self._target_index = 0
        self._shortened = False
        self._width = grid.width_in_rungs(goal.width)
        self._top = grid.top
        self._history = session.history
        self._hints: tuple[int | None, int | None] = hints

    def candidate(self) -> Candidate | None:
        """The trial that this goal needs next; None when it is done.

        A target that is reached, or cannot be within the limits of load, leaves its bounds as
        hints to the next. The final one is never left: trials for other goals may still move its
        bounds apart. The search goes on below a load that is given up as below an upper bound,
        which it is not; and above it, as above a lower bound, where the generator is not the limit.
        """
        while True:
            criterion = self._ladder[self._target_index]
            bounds = self._history.bounds(criterion)
            given_up = self._history.unclassifiable_rungs(criterion, self._tries)
            lower, upper = bounds.lower, given_up[0] if given_up else bounds.upper
            gaps = [(self._width, lower, upper)]
            if given_up and not self._session.is_short(given_up[0], criterion):
                half = max(1, self._width // 2)  # the load lies between the bounds in the end
                gaps = [(half, lower, upper), (half, given_up[-1], bounds.upper)]
            for width, below, above in gaps:
                situation = SearchState(width, below, above, *self._hints, self._top)
                for strategy in STRATEGIES:
                    rung = strategy(situation)
                    if rung is not None:
                        return Candidate(rung, self._duration(rung, criterion))
            if self._target_index == len(self._ladder) - 1:
                return None
            self._hints = (bounds.lower, upper)
            self._target_index += 1

    def shorten(self, longest_s: float) -> bool:
        """Put a target with shorter trials before the one that does not fit the budget, once."""
        target = self._ladder[self._target_index]
        reached = self._ladder[self._target_index - 1].trial_s if self._target_index else 0.0
        length = round_duration(longest_s)
        worth = max(self._scout_s, _WORTH * reached) <= length < target.trial_s
        if self._shortened or not worth:
            return False
        self._shortened = True
        shorter = Criterion(target.loss_ratio, target.exceed_ratio, length, length)
        self._ladder.insert(self._target_index, shorter)
        return True

    def _duration(self, rung: int, criterion: Criterion) -> float:
        """Prefer a short trial where its failure alone would settle the matter.

        That is so at each new load for an exceed ratio of 0, and after a failed full-length trial
        for a majority of two. Once a short trial has passed, or decided nothing, only full-length
        ones can decide.
        """
        if self._scout_s >= criterion.trial_s:
            return criterion.trial_s
        trials = self._history.trials(rung)
        sums = DurationSums.sum_trials(trials, criterion)
        if sums.short_low > 0.0 or not all(map(criterion.decides, trials)):
            return criterion.trial_s
        failed = replace(sums, short_high=sums.short_high + self._scout_s)
        decided = classify(failed, criterion) is LoadClass.UPPER
        return self._scout_s if decided else criterion.trial_s


ALGORITHM = "mlr"

#: Rungs within the narrowest goal width: fine enough that wider goals lose little by rounding,
#: and that a hint taken from a forwarding rate is hardly moved.
_DIVISIONS = 16

#: Rungs below the forwarding rate at which the first lower bound is looked for: what was just
#: forwarded is at the edge of what can be, and the next trial may well fall short of it.
_MARGIN = _DIVISIONS // 4


#: Trials that a goal whose own do not fit the budget any more is given of what is left: one for
#: each bound.
_LAST_TRIALS = 2
#: Trials that are kept for a goal at shorter ones before another goal is granted a long one.
_RESERVED_TRIALS = 6


def mlr_search(
    goals: Sequence[SearchGoal], limits: SearchLimits, forwarded_fps: float | None = None
) -> Search:
    """Search all goals at once; each trial counts for every goal.

    `forwarded_fps` is the forwarding rate under overload, frames/s per interface, where it is
    known.
    """
    grid = GeometricGrid(limits, min(goal.width for goal in goals), _DIVISIONS)
    budget = Budget(limits.max_trial_seconds, around_s=limits.trial_overhead_s)
    session = SearchSession(grid, budget, goals, limits.tries, limits.sweep, limits.short_tries)
    # What is known to have been carried is classified first: short trials around it would go beyond
    # it before that, and an overload may leave a DUT that carries less.
    ladders = [
        [Criterion.from_goal(goal)] if limits.starts_fps else [*derive_targets(goal)]
        for goal in goals
    ]
    stopped = ""
    try:
        hints = yield from _first_hints(goals, grid, session, limits.starts_fps, forwarded_fps)
        yield from _run_trials(goals, grid, session, ladders, hints)
    except StopSearch as stop:
        stopped = stop.reason
    results = [
        best_bounds(goal, ladder, session, stopped)
        for goal, ladder in zip(goals, ladders, strict=True)
    ]
    return session.outcome(ALGORITHM, results)


def _first_hints(
    goals: Sequence[SearchGoal],
    grid: GeometricGrid,
    session: SearchSession,
    starts_fps: Sequence[float],
    forwarded_fps: float | None,
) -> Procedure[list[tuple[int, int]]]:
    """Where each goal's bounds are looked for first.

    The forwarding rate under overload is the best guess of capacity that one trial can give. Where
    a search of before left its bounds, the DUT is not overloaded: what that leaves behind would be
    in this one.
    """
    if starts_fps:
        lows = [grid.rung_below(start) for start in starts_fps]
        highs = [
            min(grid.top, low + grid.width_in_rungs(g.width))
            for low, g in zip(lows, goals, strict=True)
        ]
        return [*zip(lows, highs, strict=True)]
    if forwarded_fps is None:
        seconds = max(goal.initial_trial_s for goal in goals)
        overload = yield from session.measure(grid.top, seconds)
        forwarded_fps = overload.forwarding_rate_fps
    return [first_hints(goal, grid, forwarded_fps, _MARGIN) for goal in goals]


def _run_trials(
    goals: Sequence[SearchGoal],
    grid: GeometricGrid,
    session: SearchSession,
    ladders: Sequence[list[Criterion]],
    hints: Sequence[tuple[int, int]],
) -> Procedure[None]:
    """Run candidates until there are none, nor a load below the bounds that is not known.

    Of the candidates the one at the lowest load is run, then the longest: what is too much at a low
    load rules out higher ones for the other goals. A candidate that no longer fits the budget
    leaves the time to those that do.
    """
    trackers = [
        TargetTracker(goal, grid, session, hint, ladder)
        for goal, hint, ladder in zip(goals, hints, ladders, strict=True)
    ]
    while True:
        candidates = _candidates(trackers)
        if not candidates:
            glance = session.unswept(goals)
            if glance is None:
                return
            yield from session.measure(glance.rung, glance.duration_s, "sweep")
            continue
        chosen = _choose_candidate([candidate for _, candidate in candidates], session.budget)
        if chosen is None:
            if _shorten([tracker for tracker, _ in candidates], session.budget):
                continue
            chosen = min(
                (candidate for _, candidate in candidates), key=_urgency
            )  # and so the search ends
        yield from session.measure(chosen.rung, chosen.duration_s)


def _candidates(trackers: Sequence[TargetTracker]) -> list[tuple[TargetTracker, Candidate]]:
    candidates = ((tracker, tracker.candidate()) for tracker in trackers)
    return [(tracker, candidate) for tracker, candidate in candidates if candidate is not None]


def _urgency(candidate: Candidate) -> tuple[int, float]:
    return candidate.rung, -candidate.duration_s


def _choose_candidate(candidates: Sequence[Candidate], budget: Budget) -> Candidate | None:
    """The candidate to run; None if none fits the budget.

    A long trial that would leave too little for a goal that is still at shorter ones has to wait.
    """
    fitting = [candidate for candidate in candidates if budget.fits(candidate.duration_s)]
    if not fitting:
        return None
    chosen = min(fitting, key=_urgency)
    shortest = min(fitting, key=lambda candidate: (candidate.duration_s, candidate.rung))
    after = budget.remaining_s - budget.cost(chosen.duration_s)
    if shortest.duration_s < chosen.duration_s and after < _RESERVED_TRIALS * budget.cost(
        shortest.duration_s
    ):
        return shortest
    return chosen


def _shorten(trackers: Sequence[TargetTracker], budget: Budget) -> bool:
    """Share what is left among goals whose trials do not fit the budget; return whether it helps.

    Where it is too little for all of them, the first has it.
    """
    for some in (trackers, trackers[:1]):
        share_s = budget.remaining_s / (_LAST_TRIALS * len(some))
        length = share_s - budget.cost(0.0)
        shortened = [tracker.shorten(length) for tracker in some]
        if any(shortened):
            return True
    return False
