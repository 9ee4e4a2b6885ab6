"""Trial seconds and errors of our searches beside others', on simulated DUTs.

Run ``python benchmarks/search.py [DUTs of each kind]``. Compared are our MLR, binary and TST009
search, the MLRsearch package of FD.io CSIT from PyPI, and a bisection that runs every trial for
60 s. Errors are of the reported lower bound against the simulated DUT's truth, in percent of it.
At the end it holds the figures that the project is asked for against what it has seen, on ten
times as many DUTs.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import MLRsearch as Pypi

from vnetperf.model.parameters import SearchGoal, SearchLimits, StepInputs
from vnetperf.model.trial import TrialRequest
from vnetperf.search import make_search
from vnetperf.testing.sim import SimulatedDut, run

#: 10 GbE at 64 octets, RFC 2544 section 20.
LIMITS = SearchLimits(min_load_fps=9001.0, max_load_fps=14_880_952.38)

GOALS = {
    "1 s / 21 s, NDR + PDR": (
        SearchGoal(name="NDR", exceed_ratio=0.5, final_trial_s=1.0, duration_sum_s=21.0),
        SearchGoal(
            name="PDR", loss_ratio=0.005, exceed_ratio=0.5, final_trial_s=1.0, duration_sum_s=21.0
        ),
    ),
    "60 s, NDR + PDR": (SearchGoal(name="NDR"), SearchGoal(name="PDR", loss_ratio=0.005)),
    "60 s / 120 s (TST009)": (SearchGoal(name="TST009", exceed_ratio=0.5, duration_sum_s=120.0),),
}

#: RFC 2544 section 24.
PLAIN_TRIAL_S = 60.0

KINDS = (
    *("clean", "noisy", "very noisy", "buffer", "two-band", "rare drops", "collapse"),
    "stalls",
)
#: StepSize of TST009 as a share of the maximum load.
STEP = 0.005


def make_dut(kind: str, seed: int) -> SimulatedDut:
    """Build a DUT of a kind.

    Args:
        kind: One of `KINDS`.
        seed: Gives its capacity and all its randomness.

    Returns:
        A DUT of 3 % to 97 % of the maximum load.

    Raises:
        ValueError: If there is no such kind.
    """
    capacity = LIMITS.max_load_fps * random.Random(seed * 7 + 1).uniform(0.03, 0.97)  # noqa: S311
    dut = SimulatedDut(capacity, seed=seed)
    match kind:
        case "clean":
            pass
        case "noisy":
            dut.noise = 0.003
        case "very noisy":
            dut.noise = 0.01
        case "buffer":
            dut.buffer_frames = 0.02 * capacity
        case "two-band":
            dut.noise, dut.low_capacity_fps, dut.low_probability = 0.001, 0.9 * capacity, 0.3
        case "rare drops":
            dut.noise, dut.drop_probability = 0.001, 1e-9
        case "collapse":
            dut.noise, dut.overload_cost = 0.001, 0.5
        case "stalls":
            dut.low_capacity_fps, dut.low_probability = 0.2 * LIMITS.min_load_fps, 0.2
        case _:
            raise ValueError(kind)
    return dut


@dataclass(frozen=True)
class Answer:
    """What a search made of one DUT."""

    seconds: float
    """Trial seconds."""

    lower_bounds: tuple[float | None, ...]
    """Reported loads in frames/s, goal by goal; None where it found none."""

    gave_up: str = ""
    """What it raised instead of an answer; empty if it answered."""


class _Measurer(Pypi.AbstractMeasurer):  # type: ignore[misc] # it has no types
    """Lets the PyPI package measure a simulated DUT."""

    def __init__(self, dut: SimulatedDut) -> None:
        self.dut = dut
        self.seconds = 0.0

    def measure(self, intended_duration: float, intended_load: float) -> Pypi.MeasurementResult:
        """Run a trial.

        Args:
            intended_duration: Seconds.
            intended_load: Frames/s per interface.

        Returns:
            Its counts.
        """
        trial = self.dut.measure(TrialRequest(load_fps=intended_load, duration_s=intended_duration))
        self.seconds += trial.duration_s
        frames = max(1, round(intended_load * intended_duration))
        return Pypi.MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=frames,
            loss_count=round(frames * trial.loss_ratio),
        )


def pypi(goals: Sequence[SearchGoal], limits: SearchLimits, dut: SimulatedDut) -> Answer:
    """Search with MLRsearch from PyPI, its settings as CSIT has them, without a warm-up trial.

    Args:
        goals: What to search for.
        limits: The loads to stay within.
        dut: What to search.

    Returns:
        Its answer.
    """
    config = Pypi.Config()
    theirs = [
        Pypi.SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=goal.width,
            initial_trial_duration=goal.initial_trial_s,
            final_trial_duration=goal.final_trial_s,
            duration_sum=goal.duration_sum_s,
        )
        for goal in goals
    ]
    config.goals = theirs
    config.max_load, config.min_load = limits.max_load_fps, limits.min_load_fps
    config.warmup_duration = None
    measurer = _Measurer(dut)
    search = Pypi.MultipleLossRatioSearch(config=config)
    try:
        results = search.search(measurer=measurer, debug=lambda _text: None)
    except (RuntimeError, ValueError) as error:
        return Answer(measurer.seconds, (None,) * len(goals), str(error) or repr(error))
    bounds = [results[goal].relevant_lower_bound for goal in theirs]
    return Answer(
        measurer.seconds, tuple(None if bound is None else float(bound) for bound in bounds)
    )


def ours(algorithm: str) -> Callable[[Sequence[SearchGoal], SearchLimits, SimulatedDut], Answer]:
    """Make a contestant of one of our algorithms.

    Args:
        algorithm: Its registered name.

    Returns:
        A function of goals, limits and DUT.
    """

    def search(goals: Sequence[SearchGoal], limits: SearchLimits, dut: SimulatedDut) -> Answer:
        steps = StepInputs(step_fps=STEP * limits.max_load_fps, max_r=2)
        outcome, _ = run(make_search(algorithm, goals, replace(limits, steps=steps)), dut)
        bounds = (result.relevant_lower_bound for result in outcome.results)
        return Answer(
            outcome.trial_seconds, tuple(bound.load_fps if bound else None for bound in bounds)
        )

    return search


def plain(goals: Sequence[SearchGoal], limits: SearchLimits, dut: SimulatedDut) -> Answer:
    """Bisect between the limits, each goal by itself, one trial of 60 s at each load.

    Args:
        goals: What to search for; only loss ratio and width are regarded.
        limits: The loads to start from.
        dut: What to search.

    Returns:
        Its answer.
    """
    seconds, found = 0.0, []
    for goal in goals:
        lower, upper = limits.min_load_fps, limits.max_load_fps
        while upper - lower > goal.width * upper:
            request = TrialRequest(load_fps=(lower + upper) / 2.0, duration_s=PLAIN_TRIAL_S)
            seconds += request.duration_s
            if dut.measure(request).loss_ratio <= goal.loss_ratio:
                lower = request.load_fps
            else:
                upper = request.load_fps
        found.append(lower)
    return Answer(seconds, tuple(found))


CONTESTANTS = {
    "mlr": ours("mlr"),
    "PyPI MLRsearch": pypi,
    "binary": ours("binary"),
    "tst009": ours("tst009"),
    "plain 60 s bisection": plain,
}


@dataclass(frozen=True)
class Row:
    """One contestant on many DUTs of one kind."""

    seconds: float
    """Mean trial seconds for a DUT."""

    median_error: float
    """Median of the errors' size, % of the truth; nan where the truth is no load at all."""

    worst_error: float
    """Largest error's size, % of the truth."""

    within: float
    """Share of the answers that are within the goal's width of the truth, %."""

    gave_up: int
    """DUTs on which it raised an exception."""


def contest(name: str, goals: Sequence[SearchGoal], kind: str, duts: int) -> Row:
    """Let a contestant search DUTs.

    Args:
        name: One of `CONTESTANTS`.
        goals: What to search for.
        kind: One of `KINDS`.
        duts: How many, with seeds from 0 on.

    Returns:
        Its row of the table.
    """
    seconds, errors, gave_up, within = [], [], 0, 0
    for seed in range(duts):
        answer = CONTESTANTS[name](goals, LIMITS, make_dut(kind, seed))
        seconds.append(answer.seconds)
        gave_up += bool(answer.gave_up)
        for goal, bound in zip(goals, answer.lower_bounds, strict=True):
            truth = make_dut(kind, seed).truth_fps(goal)
            # Below the minimum load there is nothing to be found, so nothing to be wrong about.
            if bound is not None and truth >= LIMITS.min_load_fps:
                errors.append(abs(bound / truth - 1.0) * 100.0)
                within += errors[-1] <= goal.width * 100.0
    nan = float("nan")
    return Row(
        seconds=statistics.mean(seconds),
        median_error=statistics.median(errors) if errors else nan,
        worst_error=max(errors, default=nan),
        within=100.0 * within / len(errors) if errors else nan,
        gave_up=gave_up,
    )


def compare(duts: int) -> None:
    """Print the tables.

    Args:
        duts: DUTs of each kind.
    """
    for title, goals in GOALS.items():
        print(f"\n{title}; mean trial seconds (median error %, worst error %), {duts} DUTs each")
        print("".join(f"{text:>26}" for text in ("", *CONTESTANTS)))
        totals = dict.fromkeys(CONTESTANTS, 0.0)
        for kind in KINDS:
            cells = []
            for name in CONTESTANTS:
                row = contest(name, goals, kind, duts)
                totals[name] += row.seconds
                text = f"{row.seconds:.1f} ({row.median_error:.2f}, {row.worst_error:.2f})"
                cells.append(f"{row.gave_up} raised; {text}" if row.gave_up else text)
            print("".join(f"{text:>26}" for text in (kind, *cells)))
        print("".join(f"{text:>26}" for text in ("sum", *(f"{t:.1f}" for t in totals.values()))))


def figures(duts: int) -> None:
    """Print the figures that are asked for: errors, seconds, and no exceptions.

    Args:
        duts: DUTs of each kind.
    """
    print(f"\nfigures, {duts} DUTs each")
    for title, goals in GOALS.items():
        for kind in ("clean", "noisy", "stalls"):
            mine = contest("mlr", goals, kind, duts)
            other = contest("PyPI MLRsearch", goals, kind, duts)
            long = contest("plain 60 s bisection", goals, kind, duts)
            print(
                f"  {title}, {kind}: within the width {mine.within:.1f} %; trial seconds "
                f"{mine.seconds:.1f}, PyPI {other.seconds:.1f} ({other.gave_up} raised), "
                f"{100.0 * mine.seconds / long.seconds:.1f} % of bisections of 60 s"
            )


if __name__ == "__main__":
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    compare(each)
    figures(10 * each)
