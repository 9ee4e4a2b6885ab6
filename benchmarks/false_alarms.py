"""How often `vnetperf compare` and `trend` find a change without a cause, and how often with one.

Run ``python -m benchmarks.false_alarms [--runs COMPARISONS]``: 300 of each kind by default, some
minutes on two cores. Both sides are simulated DUTs, searched as the presets quick and
mlr-csit do: one main number a comparison (64 octets, the first goal), and six (three frame sizes,
two goals). Each run has a capacity of its own, around the side's, each deployment one around its
run's, and each trial one around that (1 % or 2 %). A/A: both sides have one capacity, and every
failed gate is a false alarm: no more than 5 % of *comparisons* (not of numbers) may fail, and the
script does where it is surely more (95 %). Power: side B has 5 % less.

To be quick, searches are drawn from a pool and scaled: loads of a search are rungs at equal ratios,
so that a search of a DUT that is larger by whole widths finds the same rungs higher up. The pool
has DUTs of several capacities within one width, each searched with many seeds.

The first table has one run a side, whose deployments differ, judged with `--single-run`. The second
has a spread between runs besides: with one run a side nobody can know it, and `--fail-if-worse`
judges nothing; shown is what it would do with `--single-run`. Runs of several deployments are one
observation each; both sides of one run, in turn, share what the run has. The third follows a series
of runs with `trend`, whose points are runs, beside what a point for each deployment would show.
The last follows numbers of which each breaks in runs of its own, at random: how often one is said
to be lost, and how often one that the newest runs all lack besides. Before them a generator is
calibrated twice, and is asked whether it has drifted.

Before all of these are series that wander: each value is like the one before it (AR(1)), as those
of one machine are, and stops at the steps of a search. ``trend``'s levels are beside those that
shuffled series alone would allow. Sides of as many such values are compared one after the other,
which on shared processors no gate judges, and in turn. ``--wandering`` prints these alone.
"""

from __future__ import annotations

import random
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import exp, floor, log, log1p, sqrt
from pathlib import Path
from statistics import median
from typing import TypeAlias

from vnetperf import config
from vnetperf.analysis.comparison import LEAST_EFFECT, Side, compare
from vnetperf.analysis.runs import StoredRun
from vnetperf.analysis.trend import lost_for_sure, trends
from vnetperf.deployment.calibrate import find_clean_maximum
from vnetperf.model.calibration import detect_drift
from vnetperf.model.parameters import SearchLimits
from vnetperf.model.preset import Preset
from vnetperf.model.result import GoalResult, Result, RunIdentity, RunResults
from vnetperf.model.trial import TrialRequest, TrialResult
from vnetperf.search import make_search
from vnetperf.statistics import clopper_pearson
from vnetperf.statistics.changes import SIGNIFICANCE, levels, shuffled_share
from vnetperf.statistics.difference import Measurand, difference
from vnetperf.testing.sim import SimulatedDut, run

PRESETS = ("quick", "mlr-csit")
#: Standard deviations of capacity between trials of a deployment, relative.
TRIAL_NOISES = (0.01, 0.02)
#: Between deployments.
SPREADS = (0.0, 0.03, 0.08)
#: Of what all deployments of a run have in common.
RUN_SPREADS = (0.0, 0.01, 0.03)
#: Of deployments beside these.
WITHIN_RUN = 0.005
DEPLOYMENTS = (3, 5)
#: Runs of a side, and deployments of each.
LAYOUTS = ((1, 5), (3, 3), (5, 1), (5, 3))
#: Runs of a series, and deployments of each.
SERIES = (12, 5)
#: Runs of a series with numbers that break; how many do, and in which share of the runs.
BREAKING_RUNS, BREAKING, BREAKING_SHARES = 20, (1, 6, 40), (0.1, 0.2, 0.3)
#: Newest runs that lack a number where there is something to find.
NEWEST_LOST = 5
SIZES = (64, 512, 1518)
#: Capacities of the pool within one width of the search, and searches of each.
PHASES, SEEDS = 4, 100
#: What side B has less where there is something to find.
CHANGE = 0.05
#: Share of comparisons without a cause that may fail.
ALLOWED = 0.05
CAPACITY_FPS = 1e6
#: A generator that is calibrated twice, frames/s of each port; and trial noises there.
GENERATOR_FPS, LOOP_NOISES = 10e6, (0.01, 0.02, 0.05, 0.1)

#: Lag-1 autocorrelations of series that wander, standard deviation of their values, relative, and
#: the width of the search; lengths of series, deployments of a side, and the change to be found.
ALIKE, WANDERS_BY, FINE_WIDTH = (0.0, 0.3, 0.5, 0.8), 0.05, 0.005
LENGTHS, OF_A_SIDE, STEP = (10, 20, 40), (3, 5, 10), 0.1
#: Share of series and gates that may find a change which is none.
MOST_WANDERING = 0.07

#: Printed rows of the three tables, and the largest share of false alarms of each row.
Rows: TypeAlias = list[tuple[int, str, float]]


@dataclass(frozen=True)
class Site:
    """A machine on which capacities differ, and what is measured there.

    Attributes:
        preset: Name of the preset.
        noise: Standard deviation of capacity between trials, relative.
        numbers: 1: the first goal at one size; 6: two goals at three sizes.
        between_runs: Standard deviation of what all deployments of a run have in common, relative.
        between_deployments: That of deployments within a run.
    """

    preset: str
    noise: float
    numbers: int = 1
    between_runs: float = 0.0
    between_deployments: float = 0.0

    def runs(
        self, draw: random.Random, runs: int, rounds: int, *, names: str = "a", less: float = 0.0
    ) -> tuple[StoredRun, ...]:
        """Measure.

        Args:
            draw: What capacities are drawn from.
            runs: Number of runs.
            rounds: Deployments of each.
            names: Scenarios, one letter each; they are measured in turn.
            less: What the scenario "b" has less than 1, relative.

        Returns:
            The runs.
        """
        found = []
        for number in range(runs):
            own = 1.0 + self.between_runs * draw.gauss(0.0, 1.0)
            each = {
                place + 1: RunResults(
                    run=_IDENTITY,
                    preset="",
                    results=tuple(
                        result
                        for name in names
                        for result in self._deployment(
                            draw, name, own * (1.0 - less if name == "b" else 1.0)
                        )
                    ),
                )
                for place in range(rounds)
            }
            found.append(StoredRun(Path(f"{names}{number}"), each))
        return tuple(found)

    def _deployment(self, draw: random.Random, scenario: str, capacity: float) -> Iterator[Result]:
        """Results of a deployment at every size.

        Args:
            draw: What it is drawn from.
            scenario: Its name.
            capacity: Of its run, relative to `CAPACITY_FPS`.

        Yields:
            One for each size.
        """
        capacity *= 1.0 + self.between_deployments * draw.gauss(0.0, 1.0)
        step = -log1p(-_preset(self.preset).goals[0].width)
        whole, phase = divmod(round(PHASES * log(max(0.1, capacity)) / step), PHASES)
        for size in SIZES[: 1 if self.numbers == 1 else None]:
            goals = _searched(self.preset, self.noise, phase, draw.randrange(SEEDS))
            yield Result(
                scenario="simulated",
                test="throughput",
                frame_size=size,
                goals=tuple(_scaled(goal, exp(whole * step)) for goal in goals[: self.numbers]),
            ).model_copy(update={"scenario": scenario})


_IDENTITY = RunIdentity(tool="", git="", command="", started="")


@cache
def _preset(name: str) -> Preset:
    return config.load({"preset": name}, environment={}, directory=Path("/")).preset


@cache
def _searched(preset: str, noise: float, phase: int, seed: int) -> tuple[GoalResult, ...]:
    """Search a simulated DUT of the pool as a preset does, once.

    Args:
        preset: Name of the preset.
        noise: Of the DUT.
        phase: Its capacity, in parts of a width above `CAPACITY_FPS`.
        seed: Of its trials.

    Returns:
        What each goal came to.
    """
    wanted = _preset(preset)
    capacity = CAPACITY_FPS * exp(phase / PHASES * -log1p(-wanted.goals[0].width))
    limits = SearchLimits(min_load_fps=9001.0, max_load_fps=4e6, sweep=wanted.sweep)
    dut = SimulatedDut(capacity, noise=noise, seed=PHASES * seed + phase)
    outcome, _ = run(make_search(wanted.algorithm, wanted.goals, limits), dut)
    found = []
    for one in outcome.results:
        lower, upper = one.relevant_lower_bound, one.relevant_upper_bound
        found.append(
            GoalResult(
                name=one.goal.name,
                loss_ratio=one.goal.loss_ratio,
                exceed_ratio=one.goal.exceed_ratio,
                final_trial_s=one.goal.final_trial_s,
                duration_sum_s=one.goal.duration_sum_s,
                width=one.goal.width,
                lower_bound_fps=lower.load_fps if lower else None,
                upper_bound_fps=upper.load_fps if upper else None,
                conditional_throughput_fps=None,
                regular=one.regular,
            )
        )
    return tuple(found)


def _scaled(goal: GoalResult, factor: float) -> GoalResult:
    if factor == 1.0:
        return goal
    low, high = goal.lower_bound_fps, goal.upper_bound_fps
    return goal.model_copy(
        update={
            "lower_bound_fps": None if low is None else factor * low,
            "upper_bound_fps": None if high is None else factor * high,
        }
    )


@dataclass
class Drawn:
    """Comparisons of one kind, in shares of all.

    Attributes:
        gates: Those whose gate failed.
        lost: Those where it did because B lost a number.
        seen: Those in which any number was seen to differ, either way.
    """

    gates: float = 0.0
    lost: float = 0.0
    seen: float = 0.0


def drawn(
    site: Site,
    runs: int,
    rounds: int,
    count: int,
    *,
    change: float = 0.0,
    in_turn: bool = False,
    single_run: bool = False,
) -> Drawn:
    """Compare often.

    Args:
        site: Where.
        runs: Runs a side.
        rounds: Deployments of each.
        count: Comparisons.
        change: What side B has less, relative.
        in_turn: Whether one run has both sides, in turn.
        single_run: Whether a gate judges one run a side, too.

    Returns:
        How often what came out.
    """
    draw, found = random.Random(2544), Drawn()  # noqa: S311 - no secret
    for _ in range(count):
        if in_turn:
            both = site.runs(draw, runs, rounds, names="ab", less=change)
            sides = Side("a", both, "a"), Side("b", both, "b")
        else:
            a, b = (site.runs(draw, runs, rounds, names=n, less=change) for n in "ab")
            sides = Side("a", a, "a"), Side("b", b, "b")
        compared = compare(*sides, single_run=single_run)
        found.gates += compared.fails_gate / count
        found.lost += any(one.lost for one in compared.ungated) / count
        found.seen += any(row.differs for row in compared.rows) / count
    return found


def followed(site: Site, count: int) -> tuple[float, float, float]:
    """Follow series of runs without a change.

    Args:
        site: Where.
        count: Series.

    Returns:
        Share of the series in which a change of 2 % or more is seen, with a run as a point, and
        with each deployment as one; and of those whose newest runs are said to be lost.
    """
    draw, found = random.Random(2544), [0.0, 0.0, 0.0]  # noqa: S311 - no secret
    for _ in range(count):
        runs = site.runs(draw, *SERIES)
        apart = [StoredRun(run.path, {1: each}) for run in runs for each in run.rounds.values()]
        by_run = trends(runs, least=LEAST_EFFECT)
        found[0] += any(trend.changes for trend in by_run) / count
        found[1] += any(trend.changes for trend in trends(apart, least=LEAST_EFFECT)) / count
        found[2] += bool(lost_for_sure(by_run)) / count
    return found[0], found[1], found[2]


def breaking(numbers: int, share: float, count: int) -> tuple[float, float]:
    """Follow series of runs in which numbers break at random, each by itself.

    Args:
        numbers: How many.
        share: Share of the runs in which each does.
        count: Series.

    Returns:
        Share of the series in which a number is said to be lost; and of as many in which the newest
        `NEWEST_LOST` runs lack the first number besides, that in which it is.
    """
    draw, found = random.Random(2544), [0.0, 0.0]  # noqa: S311 - no secret
    goal = _searched(PRESETS[0], TRIAL_NOISES[0], 0, 0)[0]
    names = [f"s{number}" for number in range(numbers)]
    case = {"test": "throughput", "frame_size": SIZES[0]}
    whole = {n: Result(scenario=n, goals=(goal,), **case) for n in names}
    broken = {
        n: Result(scenario=n, status="not measured", why="it failed", failed=True, **case)
        for n in names
    }
    for place, lost in enumerate((0, NEWEST_LOST)):
        for _ in range(count):
            runs = []
            for number in range(BREAKING_RUNS):
                gone = {n for n in names if draw.random() < share}
                gone |= {names[0]} if number >= BREAKING_RUNS - lost else set()
                results = tuple((broken if n in gone else whole)[n] for n in names)
                each = RunResults(run=_IDENTITY, preset="", results=results)
                runs.append(StoredRun(Path(f"{number}"), {1: each}))
            of = {trend.metric.scenario for trend in lost_for_sure(trends(runs))}
            found[place] += (names[0] in of if lost else bool(of)) / count
    return found[0], found[1]


def wandering_series(
    draw: random.Random, alike: float, n: int, *, width: float = FINE_WIDTH
) -> list[float]:
    """Lower bounds of a number that wanders around `CAPACITY_FPS`, frames/s.

    Args:
        draw: What it is drawn from.
        alike: Autocorrelation of neighbours.
        n: How many.
        width: Of the search.

    Returns:
        The values.
    """
    found, state = [], draw.gauss(0.0, 1.0)
    for _ in range(n):
        state = alike * state + sqrt(1.0 - alike * alike) * draw.gauss(0.0, 1.0)
        found.append(exp(-width * floor(-WANDERS_BY * state / width)) * CAPACITY_FPS)
    return found


def changes_seen(alike: float, n: int, count: int, *, less: float = 0.0) -> tuple[float, float]:
    """Look for a change in series that wander.

    Args:
        alike: Autocorrelation of neighbours.
        n: Length of a series.
        count: Series.
        less: What the second half has less, relative.

    Returns:
        Share of the series in which a change is seen by shuffling alone, and by `levels`.
    """
    draw, found = random.Random(2544), [0.0, 0.0]  # noqa: S311 - no secret
    for _ in range(count):
        values = wandering_series(draw, alike, n)
        values = [v * (1.0 - less * (place >= n // 2)) for place, v in enumerate(values)]
        found[0] += (shuffled_share(values) <= SIGNIFICANCE) / count
        found[1] += (len(levels(values, least=FINE_WIDTH * median(values))) > 1) / count
    return found[0], found[1]


def differences_seen(
    alike: float, n: int, count: int, *, in_turn: bool, less: float = 0.0
) -> tuple[float, float]:
    """Compare two sides of a series that wanders.

    Args:
        alike: Autocorrelation of neighbours.
        n: Deployments of a side.
        count: Comparisons.
        in_turn: Whether the sides take turns and are pairs; else one follows the other.
        less: What the second side has less, relative.

    Returns:
        Share in which the second side is seen to have less, and in which to differ either way.
    """
    draw, found = random.Random(2544), [0.0, 0.0]  # noqa: S311 - no secret
    for _ in range(count):
        values = wandering_series(draw, alike, 2 * n)
        a, b = (values[::2], values[1::2]) if in_turn else (values[:n], values[n:])
        sides = (
            [Measurand(v, v, v / (1.0 - FINE_WIDTH)) for v in a],
            [Measurand(v, v, v / (1.0 - FINE_WIDTH)) for v in (x * (1.0 - less) for x in b)],
        )
        one = difference(*sides, paired=in_turn)
        seen = one.is_significant() and one.ratio is not None and abs(one.ratio[0]) >= LEAST_EFFECT
        found[0] += (seen and one.towards == "less") / count
        found[1] += seen / count
    return found[0], found[1]


def print_wandering(count: int) -> float:
    """Draw series that wander, and print what is seen in them.

    Args:
        count: Series of each kind.

    Returns:
        The largest share in which a change is found that is none.
    """
    worst = 0.0
    print(
        f"Series that wander by {WANDERS_BY:.0%}: a change is seen, by shuffling alone and now\n"
        f"alike  runs  unchanged       {STEP:.0%} less"
    )
    for alike, n in product(ALIKE, LENGTHS):
        before, now = changes_seen(alike, n, count)
        power_before, power = changes_seen(alike, n, count, less=STEP)
        worst = max(worst, now)
        told = f"{before:6.1%} {now:6.1%}  {power_before:6.0%} {power:6.0%}"
        print(f"{alike:5}  {n:4}  {told}", flush=True)
    print(
        "Sides of them: a difference is seen, one after the other (on shared processors not "
        f"judged) and in turn\nalike  deployments  unchanged       {STEP:.0%} less, in turn"
    )
    for alike, n in product(ALIKE, OF_A_SIDE):
        _, after = differences_seen(alike, n, count, in_turn=False)
        _, in_turn = differences_seen(alike, n, count, in_turn=True)
        power, _ = differences_seen(alike, n, count, in_turn=True, less=STEP)
        worst = max(worst, in_turn)
        print(f"{alike:5}  {n:11}  {after:6.1%} {in_turn:6.1%}  {power:6.0%}", flush=True)
    return worst


TITLES = (
    "One run a side, its deployments differ; `--single-run`\n"
    "preset    trial noise  numbers  spread  n   A/A gate fails (lost)  A/A any differs"
    "  gate finds 5 % less",
    f"Runs differ, and deployments within a run by {WITHIN_RUN:.1%}; one main number\n"
    "preset    trial noise  between runs  runs x deployments       A/A gate fails"
    "  gate finds 5 % less",
    f"Series of {SERIES[0]} runs of {SERIES[1]} deployments, unchanged: a change of 2 % is seen\n"
    "preset    trial noise  between runs  a run is a point  each deployment is one  lost",
)


def of_preset(name: str, noise: float, count: int) -> Rows:
    """Rows of a preset at one trial noise.

    Args:
        name: Of the preset.
        noise: Standard deviation of capacity between trials, relative.
        count: Comparisons of each kind; half as many where there is something to find.

    Returns:
        The rows of all tables.
    """
    rows: Rows = []
    some, head = max(1, count // 2), f"{name:9} {noise:11.0%}"
    for numbers, spread, n in product((1, 6), SPREADS, DEPLOYMENTS):
        site = Site(name, noise, numbers, between_deployments=spread)
        same = drawn(site, 1, n, count, single_run=True)
        power = drawn(site, 1, n, some, change=CHANGE, single_run=True)
        text = (
            f"{head}  {numbers:7}  {spread:6.0%}  {n}   {same.gates:12.1%} ({same.lost:.1%})"
            f"  {same.seen:15.1%}  {power.gates:18.0%}"
        )
        rows.append((0, text, same.gates))
    for spread in RUN_SPREADS:
        site = replace(Site(name, noise), between_runs=spread, between_deployments=WITHIN_RUN)
        for runs, rounds in LAYOUTS:
            single = runs == 1
            kinds = ((False, "  --single-run"), (True, "  in turn")) if single else ((False, ""),)
            for in_turn, what in kinds:
                judged = single and not in_turn
                how = {"in_turn": in_turn, "single_run": judged}
                same = drawn(site, runs, rounds, count, **how)
                power = drawn(site, runs, rounds, some, change=CHANGE, **how)
                text = (
                    f"{head}  {spread:12.0%}  {f'{runs} x {rounds}{what}':23}  {same.gates:14.1%}"
                    f"  {power.gates:18.0%}"
                )
                rows.append((1, text, 0.0 if judged and spread else same.gates))
        seen, apart, lost = followed(site, some)
        text = f"{head}  {spread:12.0%}  {seen:16.1%}  {apart:22.1%}  {lost:.1%}"
        rows.append((2, text, max(seen, lost)))
    return rows


def drifts(noise: float, less: float, count: int) -> tuple[float, float]:
    """Calibrate a generator twice, often.

    Args:
        noise: Standard deviation of its maximum between trials, relative.
        less: What it has less the second time, relative.
        count: Pairs of calibrations.

    Returns:
        Share that is said to have drifted, and share of which nobody can tell.
    """

    def values(capacity_fps: float, seed: int) -> tuple[float, ...]:
        loop = SimulatedDut(capacity_fps, noise=noise, seed=seed)

        def trial(load_fps: float, duration_s: float = 0.15) -> TrialResult:
            return loop.count(TrialRequest(load_fps=load_fps, duration_s=duration_s))

        return find_clean_maximum(trial, 64).rates

    found = Counter(
        detect_drift(
            values(GENERATOR_FPS, 2 * seed), values(GENERATOR_FPS * (1.0 - less), 2 * seed + 1)
        )
        for seed in range(count)
    )
    return found["drifted"] / count, found["cannot tell"] / count


def main() -> int:
    """Draw and print.

    Returns:
        0; 1 where surely more than the allowed share of A/A comparisons, series or calibrations
        fails.
    """
    parser = ArgumentParser(description="False alarms and power of compare, trend and calibration.")
    parser.add_argument("--runs", type=int, default=300, help="comparisons of each kind")
    parser.add_argument("--wandering", action="store_true", help="series that wander alone")
    arguments = parser.parse_args()
    count, worst = arguments.runs, 0.0
    wanders = print_wandering(count)
    too_often = clopper_pearson(round(wanders * count), count)[0] > MOST_WANDERING
    print(
        f"at most {wanders:.1%} of series that wander; {MOST_WANDERING:.0%} allowed\n", flush=True
    )
    if arguments.wandering:
        return int(too_often)
    kinds = [*product(PRESETS, TRIAL_NOISES)]
    print(f"{count} comparisons each, {max(1, count // 2)} of them with {CHANGE:.0%} less")
    print(
        "Calibrations of a generator: has drifted (cannot tell)\n"
        "noise     unchanged     10 % less     20 % less     34 % less"
    )
    for noise in LOOP_NOISES:
        shares = [drifts(noise, less, count) for less in (0.0, 0.1, 0.2, 0.34)]
        worst = max(worst, shares[0][0])
        cells = (f"{drifted:5.1%} ({unknown:5.1%})" for drifted, unknown in shares)
        print(f"{noise:5.0%} {' '.join(cells)}", flush=True)
    with ProcessPoolExecutor(max_workers=2) as pool:
        for rows in pool.map(of_preset, *zip(*kinds, strict=True), [count] * len(kinds)):
            for place, title in enumerate(TITLES):
                print(title, *(text for table, text, _ in rows if table == place), sep="\n")
            print(flush=True)
            worst = max(worst, *(alarms for _, _, alarms in rows))
    print(
        f"Series of {BREAKING_RUNS} runs, numbers break at random: one is lost\n"
        f"numbers  break in  A/A lost  finds one that the newest {NEWEST_LOST} lack"
    )
    for numbers, share in product(BREAKING, BREAKING_SHARES):
        lost, finds = breaking(numbers, share, count)
        worst = max(worst, lost)
        print(f"{numbers:7}  {share:8.0%}  {lost:8.1%}  {finds:8.0%}", flush=True)
    print(f"false alarms: {worst:.1%} at the most where they are limited; {ALLOWED:.0%} allowed")
    return int(too_often or clopper_pearson(round(worst * count), count)[0] > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
