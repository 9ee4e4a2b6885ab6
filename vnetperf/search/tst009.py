"""Binary search of ETSI GS NFV-TST 009 sections 12.3.2 and 12.3.3.

S is the array of n = ceil(maximum load / StepSize) offered loads, without those below the minimum
load, which n does not count either. A trial at the middle of what is left of it that loses no more
than the goal allows sends the search up, another one down. With loss verification (max(r) above 1)
a load has failed only when max(r) trials have, or when one lost more than z frames. Every trial has
the goal's final duration: the standard knows no shorter ones. Only what is tried below the load
that was carried, which is no part of the standard, begins with a shorter one.

The standard stops when one load is left, and does not say that it was tried. Here it is tried as
well, so that the reported load was carried and the next one of S was not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

from vnetperf.model.errors import ConfigError
from vnetperf.model.parameters import SearchGoal, SearchLimits, StepInputs
from vnetperf.model.trial import TrialOutcome
from vnetperf.search.base import GoalOutcome, Procedure, Search, StopSearch
from vnetperf.search.classification import Criterion
from vnetperf.search.session import Budget, SearchSession

ALGORITHM = "tst009"

#: A maximum load this much (relative) above a whole number of steps is that number of steps.
_ROUNDING = 1e-9


class OfferedLoads:
    """The array S: the multiples of StepSize from the minimum load on, and the maximum load."""

    def __init__(self, max_load_fps: float, step_fps: float, min_load_fps: float = 0.0) -> None:
        self._max, self._step = max_load_fps, step_fps
        steps = (load / step_fps * (1.0 - _ROUNDING) for load in (min_load_fps, max_load_fps))
        first, last = (max(1, ceil(step)) for step in steps)
        self.skipped = first - 1  # Multiples below the minimum load
        self.count = last - self.skipped
        self.top = self.count - 1  # Place of the last load

    def load(self, rung: int) -> float:
        """Load at a place."""
        return self._max if rung >= self.top else (self.skipped + rung + 1) * self._step

    def rung_below(self, load_fps: float) -> int:
        """The last place whose load is no higher than a load, within the array."""
        if load_fps >= self._max:
            return self.top
        steps = floor(load_fps / self._step * (1.0 + _ROUNDING))
        return max(0, min(self.top, steps - self.skipped - 1))


@dataclass(slots=True)
class _State:
    """How far the search for one goal has come."""

    failed: int  # Lowest place whose load was not carried, or is given up; n while there is none
    passed: int  # Highest place whose load was carried; below 0 while there is none
    too_much: int  # Lowest place whose load was not carried; n while there is none
    #: Why loads below what was carried are not known; "" where they are, or none are to be.
    unknown: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether no load is left to try."""
        return self.failed - self.passed <= 1


def tst009_search(goals: Sequence[SearchGoal], limits: SearchLimits) -> Search:
    """Search each goal by itself, one after the other; trials are not shared.

    Of a goal only name, loss ratio and final trial duration count: the inputs say the rest. The
    goal that is returned says what they amount to as MLRsearch has it: a duration sum of max(r)
    trials, of which one must hold, and a width that is no less than the step at its upper bound.
    """
    inputs = limits.steps
    if inputs is None:
        raise ConfigError(
            "TST009 section 12.3.2 searches an array of offered loads, and there is no StepSize",
            where=f"search {ALGORITHM!r}",
            accepted="SearchLimits(steps=StepInputs(step_fps=...))",
        )
    grid = OfferedLoads(limits.max_load_fps, inputs.step_fps, limits.min_load_fps)
    budget = Budget(limits.max_trial_seconds, around_s=limits.trial_overhead_s)
    sessions = [
        SearchSession(grid, budget, (goal,), limits.tries, limits.sweep, limits.short_tries)
        for goal in goals
    ]
    mlr_goals = [_as_mlr_goal(goal, inputs) for goal in goals]
    # Halves are those of all multiples: a log of before, which tried small ones, replays as it was.
    n = grid.count
    states = [_State(failed=n, passed=-1 - grid.skipped, too_much=n) for _ in goals]
    stopped = ""
    try:
        for goal, session, state in zip(mlr_goals, sessions, states, strict=True):
            yield from _search(goal, session, inputs, state)
            yield from _sweep(goal, session, inputs, state, -1 - grid.skipped)
    except StopSearch as stop:
        stopped = stop.reason
    results = [
        _result(goal, session, inputs, state, stopped)
        for goal, session, state in zip(mlr_goals, sessions, states, strict=True)
    ]
    return sessions[0].outcome(ALGORITHM, results)


def _as_mlr_goal(goal: SearchGoal, inputs: StepInputs) -> SearchGoal:
    return replace(
        goal,
        initial_trial_s=goal.final_trial_s,
        duration_sum_s=inputs.max_r * goal.final_trial_s,
        exceed_ratio=1.0 - 1.0 / inputs.max_r,
    )


def _search(
    goal: SearchGoal, session: SearchSession, inputs: StepInputs, state: _State
) -> Procedure[None]:
    while not state.has_ended:
        middle = (state.passed + state.failed) // 2
        # What lies below the minimum load is not tried, and as if it were carried.
        carried = True if middle < 0 else (yield from _carries(goal, session, inputs, middle))
        if carried:
            state.passed = middle
            continue
        state.failed = middle
        if carried is False:
            state.too_much = middle


def _sweep(
    goal: SearchGoal, session: SearchSession, inputs: StepInputs, state: _State, below: int
) -> Procedure[None]:
    """Try loads below the one that was carried, and search on below one that is not.

    `below` is the place of no load, as if it were carried.
    """
    criterion, seconds = Criterion.from_goal(goal), session.glance_s(goal)
    places = session.swept(state.passed) if state.passed >= 0 else []
    if places:
        state.unknown = "loads below the lower bound were not all tried"
    for place in places:
        trial = yield from session.measure_decided(place, seconds, criterion, "sweep")
        if not criterion.is_high_loss(trial):
            continue
        carried = yield from _carries(goal, session, inputs, place)
        if carried is None:
            state.unknown = session.give_up_reason(place, criterion)
            return
        if carried is False:
            state.failed = state.too_much = place
            state.passed, state.unknown = below, ""
            yield from _search(goal, session, inputs, state)
            return
    state.unknown = ""


def _carries(
    goal: SearchGoal, session: SearchSession, inputs: StepInputs, place: int
) -> Procedure[bool | None]:
    """Run trials at a load until one holds, one loses more than z, or max(r) have not held.

    Returns None where one stays undecided: the load is given up.
    """
    criterion = Criterion.from_goal(goal)
    for _ in range(inputs.max_r):
        trial = yield from session.measure_decided(place, goal.final_trial_s, criterion)
        if not criterion.decides(trial):
            return None
        if criterion.is_low_loss(trial):
            return True
        if fails_immediately(trial, inputs):
            return False
    return False


def fails_immediately(trial: TrialOutcome, inputs: StepInputs) -> bool:
    """Whether a trial that did not hold lost more than z frames: there is no other at its load."""
    return inputs.z is not None and _lost(trial) > inputs.z


def _lost(trial: TrialOutcome) -> int:
    """Frames that the worse direction lost, which need not have the load of the other one."""
    counted = trial.result
    if not counted.directions:
        return round(trial.loss_ratio * trial.load_fps * trial.duration_s)
    return counted.lost(max(counted.directions, key=counted.loss_ratio))


def _result(
    goal: SearchGoal, session: SearchSession, inputs: StepInputs, state: _State, stopped: str
) -> GoalOutcome:
    grid, criterion = session.grid, Criterion.from_goal(goal)
    lower = session.bound(state.passed) if state.passed >= 0 else None
    upper = session.bound(state.too_much) if state.too_much <= grid.top else None
    at_least, at_most = state.passed == grid.top, state.too_much == 0
    regular = state.passed >= 0 and state.too_much - state.passed == 1 and upper is not None
    given_up = state.failed if state.failed < state.too_much else None
    if at_least:
        reason = "the maximum load is carried: the limit is not the DUT's"
    elif at_most:
        is_step = grid.load(0) <= inputs.step_fps
        which = "one StepSize" if is_step else "the first of S from the minimum load on"
        reason = f"the smallest load, {which}, is already too much"
    elif regular:
        reason = "both bounds found, one StepSize apart"
    else:
        missing = "no lower bound" if lower is None else "no upper bound" if upper is None else ""
        before = "" if state.has_ended else stopped
        cause = "; ".join(filter(None, (session.give_up_reason(given_up, criterion), before)))
        reason = f"{missing or 'bounds are further apart than a StepSize'}: {cause}"
        one_sided = lower is not None and upper is None
        at_least = one_sided and state.has_ended and session.is_short(given_up, criterion)
    if (regular or at_least) and state.unknown:
        regular = at_least = False
        reason = "; ".join(filter(None, (state.unknown, stopped)))
    low_loss_trials = [t for t in lower.trials if criterion.is_low_loss(t)] if lower else []
    if place := min(state.failed, grid.top):
        step = grid.load(place) - grid.load(place - 1)
        goal = replace(goal, width=max(goal.width, step / grid.load(place)))
    return GoalOutcome(
        goal=goal,
        relevant_lower_bound=lower,
        relevant_upper_bound=upper,
        conditional_throughput_fps=low_loss_trials[-1].forwarding_rate_fps
        if low_loss_trials
        else None,
        regular=regular,
        reason=reason,
        at_least=at_least,
        at_most=at_most,
        steps=inputs,
    )
