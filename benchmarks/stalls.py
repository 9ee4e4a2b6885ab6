"""What a tester that stands still does to a throughput search, judged and not judged.

    python -m benchmarks.stalls [SEARCHES of each kind]

A simulated DUT of 1 M frames/s, with 0.2 % noise. The tester in front of it stands still for 2.5 to
5 ms in a share of all seconds: its receive ring of 2048 frames overflows. *Not judged*: every trial
counts, and all overdue frames are sent late, up to 10 ms. *Judged*: as a run does it. The loss of a
trial is an interval, a trial that does not decide the goal adds to no sum, and a load that four of
them leave open is given up; catching up is bounded. Errors are of the lower bound against the DUT's
truth; false is a result that is called regular and is off by more than twice the goal's width.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.result import BoundTrials
from vnetperf.model.trial import SAME_RTOL, TrialOutcome, TrialRequest, TrialSpec, Verdict
from vnetperf.runner.verdict import judge
from vnetperf.search import GoalOutcome, make_search
from vnetperf.testing.sim import SimulatedDut, run

LIMITS = SearchLimits(min_load_fps=9001.0, max_load_fps=2e6)
#: One trial of 1 s classifies a load, as presets for a first look have it.
GOAL = SearchGoal(
    name="ndr", initial_trial_s=1.0, final_trial_s=1.0, duration_sum_s=1.0, width=0.01
)
TOLERANCE, TRIES = 0.001, 4
#: Frames that are 10 ms late at the largest load: the bound of before.
UNBOUNDED = 20_000
STALLED = (0.0, 0.05, 0.2, 0.5, 0.7)
#: What a result may be off by: its width, and as much again for the noise of the DUT.
FALSE = 2 * GOAL.width + 0.02


@dataclass
class Found:
    """The end of one search."""

    goal: GoalOutcome
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


def judged(dut: SimulatedDut) -> Found:
    """A trial decides what it can."""
    log: list[TrialOutcome] = []

    def measure(request: TrialRequest) -> TrialOutcome:
        result = dut.count(request)
        spec = TrialSpec(frame_size=64, offered_tolerance=TOLERANCE, **request.model_dump())
        verdict, _ = judge(result, TOLERANCE, request.classifies)
        log.append(TrialOutcome.of(spec, result, verdict))
        return log[-1]

    search = make_search("mlr", (GOAL,), replace(LIMITS, tries=TRIES))
    try:
        request = next(search)
        while True:
            request = search.send(measure(request))
    except StopIteration as end:
        goal: GoalOutcome = end.value.results[0]
    selection = any(at.is_selection for at in _bounds(goal, log))
    discarded = sum(one.verdict is not Verdict.VALID for one in log)
    return Found(goal, goal.regular and not selection, discarded, len(log))


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
        bound = found.goal.relevant_lower_bound
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
        kinds = (("not judged", not_judged), ("judged", judged))
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
