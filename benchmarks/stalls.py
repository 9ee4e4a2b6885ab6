"""What a tester that stands still does to a throughput search, judged and not judged.

    python -m benchmarks.stalls [SEARCHES of each kind]

A simulated DUT of 1 M frames/s, with 0.2 % noise. The tester in front of it stands still for 2.5 to
5 ms in a share of all seconds: its receive ring of 2048 frames overflows. *Not judged*: every trial
counts, and all overdue frames are sent late, up to 10 ms. *By class*: as a run does it. A trial
that would classify its load otherwise without what the stall may have cost is repeated up to three
times, catching up is bounded, and where nothing helps the search ends with what it has, or begins
anew below. *By share*: the same, of trials of whose loss more than a tenth may be the tester's.
Errors are of the lower bound against the DUT's truth; false is a result that is called regular and
is off by more than twice the goal's width.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.result import BoundTrials
from vnetperf.model.trial import SAME_RTOL, TrialOutcome, Verdict
from vnetperf.runner.verdict import OFFERED_MARGIN, judge, offerable_load
from vnetperf.search import GoalOutcome, Search, StopSearch, make_search
from vnetperf.testing.sim import SimulatedDut, run

LIMITS = SearchLimits(min_load_fps=9001.0, max_load_fps=2e6)
#: One trial of 1 s classifies a load, as presets for a first look have it.
GOAL = SearchGoal(
    name="ndr", initial_trial_s=1.0, final_trial_s=1.0, duration_sum_s=1.0, width=0.01
)
TOLERANCE, REPEATS, RESTARTS = 0.001, 3, 12
#: Frames that are 10 ms late at the largest load: the bound of before.
UNBOUNDED = 20_000
STALLED = (0.0, 0.05, 0.2, 0.5, 0.7)
#: What a result may be off by: its width, and as much again for the noise of the DUT.
FALSE = 2 * GOAL.width + 0.02


@dataclass
class Found:
    """The end of one search: no bound where every attempt failed."""

    goal: GoalOutcome | None
    regular: bool = False
    discarded: int = 0
    trials: int = 0


@dataclass
class Row:
    """Figures of one kind of searches."""

    errors: list[float] = field(default_factory=list)
    false: int = 0
    regular: int = 0
    without: int = 0
    discarded: int = 0
    trials: int = 0


def not_judged(dut: SimulatedDut) -> Found:
    """Every trial counts."""
    dut = replace(dut, catch_up_frames=UNBOUNDED)
    outcome, log = run(make_search("mlr", (GOAL,), LIMITS), dut)
    return Found(outcome.results[0], outcome.results[0].regular, 0, len(log))


def judged(dut: SimulatedDut, loss_ratios: Sequence[float] = ()) -> Found:
    """A trial counts when it is a measurement of the DUT; restarts are those of the conductor."""
    limits, discarded, trials = LIMITS, 0, 0
    for _ in range(RESTARTS):
        search = make_search("mlr", (GOAL,), limits)
        log: list[TrialOutcome] = []
        found, given_up = _drive(search, dut, log, loss_ratios)
        trials += len(log)
        discarded += sum(one.verdict is not Verdict.VALID for one in log)
        stalled = given_up is not None and given_up.verdict is Verdict.TESTER_STALLED
        if found is not None and (not stalled or found.relevant_lower_bound is not None):
            selection = any(at.is_selection for at in _bounds(found, log))
            return Found(found, found.regular and not selection, discarded, trials)
        assert given_up is not None
        offered, hint = offerable_load(given_up.result) or (given_up.load_fps, given_up.load_fps)
        below = max(min(offered, given_up.load_fps * OFFERED_MARGIN), 2 * limits.min_load_fps)
        if not stalled:
            limits = replace(limits, max_load_fps=below, start_fps=None)
        start = min(hint, below) if stalled else hint
        if limits.min_load_fps < start < limits.max_load_fps:
            limits = replace(limits, start_fps=start)
    return Found(None, discarded=discarded, trials=trials)


def by_class(dut: SimulatedDut) -> Found:
    """A stall condemns a trial only where it may change the class of the load."""
    return judged(dut, (GOAL.loss_ratio,))


def _drive(
    search: Search, dut: SimulatedDut, log: list[TrialOutcome], loss_ratios: Sequence[float]
) -> tuple[GoalOutcome | None, TrialOutcome | None]:
    """The goal's outcome, and the trial that ended the search before its own end."""
    try:
        request = next(search)
        while True:
            for _ in range(REPEATS + 1):
                result = dut.count(request)
                verdict, _ = judge(result, TOLERANCE, loss_ratios)
                log.append(TrialOutcome.of(request, result, verdict))
                if verdict is Verdict.VALID:
                    break
            else:
                if log[-1].verdict is not Verdict.TESTER_STALLED:
                    return None, log[-1]
                search.throw(StopSearch("the tester stood still"))
            request = search.send(log[-1])
    except StopIteration as end:
        goal: GoalOutcome = end.value.results[0]
        return goal, None if log[-1].verdict is Verdict.VALID else log[-1]


def _bounds(goal: GoalOutcome, log: list[TrialOutcome]) -> list[BoundTrials]:
    """As `analysis.goals.bound_trials` counts them."""
    found = []
    for bound in (goal.relevant_lower_bound, goal.relevant_upper_bound):
        if bound is None:
            continue
        there = [
            one.verdict is Verdict.VALID
            for one in log
            if abs(one.load_fps / bound.load_fps - 1) <= SAME_RTOL
        ]
        found.append(
            BoundTrials(load_fps=bound.load_fps, valid=sum(there), discarded=there.count(False))
        )
    return found


def row(search: Callable[[SimulatedDut], Found], share: float, searches: int) -> Row:
    """Figures of many searches, each on a DUT of its own."""
    figures = Row()
    for seed in range(searches):
        dut = SimulatedDut(1e6, noise=0.002, stall_s=0.005, stall_probability=share, seed=seed)
        found = search(dut)
        figures.trials += found.trials
        figures.discarded += found.discarded
        figures.regular += found.regular
        bound = found.goal.relevant_lower_bound if found.goal else None
        if bound is None:
            figures.without += 1
            continue
        error = bound.load_fps / dut.capacity_fps - 1
        figures.errors.append(error)
        figures.false += found.regular and abs(error) > FALSE
    return figures


def main(searches: int = 200) -> None:
    """Measure and print."""
    print(f"{searches} searches each; stalls of 2.5..5 ms in a share of all seconds")
    print(
        f"{'stalled':>8} {'':11} {'error median':>13} {'worst':>8} {'regular':>8} "
        f"{'false':>7} {'no bound':>9} {'discarded':>10}"
    )
    for share in STALLED:
        kinds = (("not judged", not_judged), ("by share", judged), ("by class", by_class))
        for name, search in kinds:
            figures = row(search, share, searches)
            middle = statistics.median(figures.errors) if figures.errors else float("nan")
            worst = min(figures.errors, default=float("nan"))
            print(
                f"{share:8.0%} {name:11} {middle:13.2%} {worst:8.1%} "
                f"{figures.regular / searches:8.0%} {figures.false / searches:7.1%} "
                f"{figures.without / searches:9.0%} {figures.discarded / figures.trials:10.1%}"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
