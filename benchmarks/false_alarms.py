"""How often `vnetperf compare` and `trend` find a change without a cause, and how often with one.

Run ``python -m benchmarks.false_alarms [COMPARISONS]``; 200 of each kind take a few minutes of one
core. Both sides are simulated DUTs, searched by the real searches of the presets quick and
mlr-csit: one main number a comparison (64 octets, the first goal), and six (three frame sizes, two
goals). Each run has a capacity of its own, around the side's, each deployment one around its
run's, and each trial one around that (2 %). A/A: both sides have one capacity, and every failed
gate is a false alarm: no more than 5 % of *comparisons* (not of numbers) may fail. Power: side B
has 5 % less.

The first table has one run a side, whose deployments differ; "single bounds" judges each side by a
single deployment, bounds against bounds. The second has a spread between runs besides: with one run
a side nobody can know it, so that its false alarms are shown and not limited; with several runs a
side a run is one observation. The third follows a series of runs with `trend`, whose points are
runs, beside what a point for each deployment would show.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import exp, log
from pathlib import Path

from vnetperf import config
from vnetperf.analysis.comparison import LEAST_EFFECT, Side, compare
from vnetperf.analysis.runs import StoredRun
from vnetperf.analysis.trend import trends
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.result import GoalResult, Result, RunIdentity, RunResults
from vnetperf.search import make_search
from vnetperf.statistics.difference import Measurand, difference
from vnetperf.testing.sim import SimulatedDut, run

#: Standard deviations of capacity between deployments, relative.
SPREADS = (0.0, 0.03, 0.08)
#: Of what all deployments of a run have in common.
RUN_SPREADS = (0.0, 0.01, 0.03)
#: Of deployments beside these.
WITHIN_RUN = 0.005
#: Runs of a side, and deployments of each.
LAYOUTS = ((1, 5), (3, 3), (5, 1), (5, 3))
#: Runs of a series, and deployments of each.
SERIES = (12, 5)
#: Capacities are taken in these steps, so that a search of one can serve many comparisons.
CAPACITY_STEP = 0.005
#: Searches of one capacity that differ; more than one comparison has deployments.
SEEDS = 32
#: Of trials within a deployment.
TRIAL_NOISE = 0.02
SIZES = (64, 512, 1518)
PRESETS = ("quick", "mlr-csit")
DEPLOYMENTS = (3, 5)
#: What side B has less where there is something to find.
CHANGE = 0.05
#: Share of comparisons without a cause that may fail.
ALLOWED = 0.05
CAPACITY_FPS = 1e6
LIMITS = SearchLimits(min_load_fps=9001.0, max_load_fps=4e6)


@dataclass
class Drawn:
    """Comparisons of one kind.

    Attributes:
        gates: Those whose gate failed.
        seen: Those in which any number was seen to differ, either way.
        single: Those whose first deployments' bounds lay apart in any number.
        count: All of them.
    """

    gates: int = 0
    seen: int = 0
    single: int = 0
    count: int = 0


def deployment(
    goals: tuple[SearchGoal, ...], sizes: tuple[int, ...], capacity: float, seed: int
) -> RunResults:
    """Search a simulated DUT at every size, or take a search like it.

    Args:
        goals: Goals of the search.
        sizes: Frame sizes.
        capacity: Of this deployment, relative to `CAPACITY_FPS`.
        seed: Of its trials.

    Returns:
        Results as a run of one deployment has them.
    """
    place = round(log(max(0.1, capacity)) / CAPACITY_STEP)
    return _searched(goals, sizes, CAPACITY_FPS * exp(place * CAPACITY_STEP), seed % SEEDS)


@cache
def _searched(
    goals: tuple[SearchGoal, ...], sizes: tuple[int, ...], capacity_fps: float, seed: int
) -> RunResults:
    """Search a simulated DUT at every size.

    Args:
        goals: Goals of the search.
        sizes: Frame sizes.
        capacity_fps: Of this deployment, frames/s.
        seed: Of its trials.

    Returns:
        Results as a run of one deployment has them.
    """
    results = []
    for place, size in enumerate(sizes):
        dut = SimulatedDut(capacity_fps, noise=TRIAL_NOISE, seed=seed * len(sizes) + place)
        outcome, _ = run(make_search("mlr", goals, LIMITS), dut)
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
        results.append(
            Result(scenario="simulated", test="throughput", frame_size=size, goals=tuple(found))
        )
    identity = RunIdentity(tool="", git="", command="", started="")
    return RunResults(run=identity, preset="", results=tuple(results))


@dataclass(frozen=True)
class Site:
    """A machine on which capacities differ, and what is measured there.

    Attributes:
        goals: Goals of the search.
        sizes: Frame sizes.
        between_runs: Standard deviation of what all deployments of a run have in common, relative.
        between_deployments: That of deployments within a run.
    """

    goals: tuple[SearchGoal, ...]
    sizes: tuple[int, ...]
    between_runs: float = 0.0
    between_deployments: float = 0.0

    def runs(
        self, draw: random.Random, name: str, runs: int, rounds: int, *, less: float = 0.0
    ) -> tuple[StoredRun, ...]:
        """Measure.

        Args:
            draw: What capacities are drawn from.
            name: Name of the runs.
            runs: Number of runs.
            rounds: Deployments of each.
            less: What the DUT has less than 1, relative.

        Returns:
            The runs.
        """
        found, first = [], draw.randrange(SEEDS)
        for number in range(runs):
            own = (1.0 - less) * (1.0 + self.between_runs * draw.gauss(0.0, 1.0))
            capacities = [
                own * (1.0 + self.between_deployments * draw.gauss(0.0, 1.0)) for _ in range(rounds)
            ]
            each = {
                place + 1: deployment(
                    self.goals, self.sizes, capacity, first + number * rounds + place
                )
                for place, capacity in enumerate(capacities)
            }
            found.append(StoredRun(Path(f"{name}{number}"), each))
        return tuple(found)


def bounds_apart(a: RunResults, b: RunResults) -> bool:
    """Whether two single searches would have been called different by their bounds.

    Args:
        a: The first.
        b: The second.

    Returns:
        True where the bounds of any number do not overlap.
    """
    pairs = zip(a.results, b.results, strict=True)
    goals = [pair for x, y in pairs for pair in zip(x.goals, y.goals, strict=True)]
    return any(
        x.lower_bound_fps is not None
        and y.lower_bound_fps is not None
        and (
            x.lower_bound_fps > (y.upper_bound_fps or x.lower_bound_fps)
            or y.lower_bound_fps > (x.upper_bound_fps or y.lower_bound_fps)
        )
        for x, y in goals
    )


def drawn(site: Site, runs: int, rounds: int, count: int, *, change: float = 0.0) -> Drawn:
    """Compare often.

    Args:
        site: Where.
        runs: Runs a side.
        rounds: Deployments of each.
        count: Comparisons.
        change: What side B has less, relative.

    Returns:
        How often what came out.
    """
    draw, found = random.Random(2544), Drawn()  # noqa: S311 - no secret
    for _ in range(count):
        a = site.runs(draw, "a", runs, rounds)
        b = site.runs(draw, "b", runs, rounds, less=change)
        compared = compare(Side("a", a), Side("b", b))
        found.gates += compared.fails_gate
        found.seen += any(row.differs for row in compared.rows)
        found.single += bounds_apart(a[0].first, b[0].first)
        found.count += 1
    return found


def followed(site: Site, count: int) -> tuple[float, float]:
    """Follow series of runs without a change.

    Args:
        site: Where.
        count: Series.

    Returns:
        Share of the series in which a change of 2 % or more is seen, with a run as a point, and
        with each deployment as one.
    """
    draw, by_run, by_deployment = random.Random(2544), 0, 0  # noqa: S311 - no secret
    for _ in range(count):
        runs = site.runs(draw, "run", *SERIES)
        apart = [StoredRun(run.path, {1: each}) for run in runs for each in run.rounds.values()]
        by_run += any(trend.changes for trend in trends(runs, least=LEAST_EFFECT))
        by_deployment += any(trend.changes for trend in trends(apart, least=LEAST_EFFECT))
    return by_run / count, by_deployment / count


def within_one_deployment(spread: float, count: int) -> float:
    """What ten repeats in one deployment a side would show, were they taken for replicates.

    Args:
        spread: Standard deviation between deployments, relative.
        count: Comparisons.

    Returns:
        Share of A/A comparisons that differ.
    """
    draw, wrong = random.Random(2544), 0  # noqa: S311 - no secret
    for _ in range(count):
        sides = []
        for _ in range(2):
            mean = 1.0 + spread * draw.gauss(0.0, 1.0)
            repeats = [mean * (1.0 + TRIAL_NOISE * draw.gauss(0.0, 1.0)) for _ in range(10)]
            sides.append([Measurand.exact(value) for value in repeats])
        wrong += difference(*sides).is_seen()
    return wrong / count


def main() -> int:
    """Draw and print.

    Returns:
        0; 1 where more than the allowed share of A/A comparisons, or series, fails.
    """
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    goals = {
        name: config.load({"preset": name}, environment={}, directory=Path("/")).preset.goals
        for name in PRESETS
    }
    worst = max(_one_run_a_side(goals, count), _runs_of_a_side(goals, count))
    worst = max(worst, _series(goals, count))
    for spread in SPREADS:
        wrong = within_one_deployment(spread, 5 * count)
        print(
            f"ten repeats of one deployment as replicates, spread {spread:.0%}: {wrong:.0%} wrong"
        )
    print(f"false alarms: {worst:.1%} at the most where they are limited; {ALLOWED:.0%} allowed")
    return int(worst > ALLOWED)


def _one_run_a_side(goals: Mapping[str, tuple[SearchGoal, ...]], count: int) -> float:
    print(
        f"{count} comparisons each; A/A: both sides alike; power: B has {CHANGE:.0%} less.\n"
        "One run a side, its deployments differ:\n"
        "preset    numbers spread   n  A/A gate fails  A/A any number differs  gate finds 5 % less"
        "  A/A single bounds apart"
    )
    worst = 0.0
    for name, its in goals.items():
        kinds = product(((its[:1], SIZES[:1]), (its, SIZES)), SPREADS, DEPLOYMENTS)
        for (wanted, sizes), spread, n in kinds:
            site = Site(wanted, sizes, between_deployments=spread)
            same = drawn(site, 1, n, count)
            power = drawn(site, 1, n, max(1, count // 2), change=CHANGE)
            worst = max(worst, same.gates / same.count)
            print(
                f"{name:9} {len(wanted) * len(sizes):7} {spread:6.0%} {n:3}"
                f"  {same.gates / same.count:14.1%}  {same.seen / same.count:22.1%}"
                f"  {power.gates / power.count:19.0%}  {same.single / same.count:23.0%}",
                flush=True,
            )
    return worst


def _runs_of_a_side(goals: Mapping[str, tuple[SearchGoal, ...]], count: int) -> float:
    print(
        f"Runs differ, and deployments within a run by {WITHIN_RUN:.1%}; one main number:\n"
        "preset    between runs  runs x deployments  A/A gate fails  gate finds 5 % less"
    )
    worst = 0.0
    for name, its in goals.items():
        for spread, (runs, rounds) in product(RUN_SPREADS, LAYOUTS):
            site = Site(its[:1], SIZES[:1], spread, WITHIN_RUN)
            same = drawn(site, runs, rounds, count)
            power = drawn(site, runs, rounds, max(1, count // 2), change=CHANGE)
            if runs > 1 or not spread:
                worst = max(worst, same.gates / same.count)
            print(
                f"{name:9} {spread:12.0%}  {runs:4} x {rounds:<11}  {same.gates / same.count:14.1%}"
                f"  {power.gates / power.count:19.0%}",
                flush=True,
            )
    return worst


def _series(goals: Mapping[str, tuple[SearchGoal, ...]], count: int) -> float:
    runs, rounds = SERIES
    print(
        f"Series of {runs} runs of {rounds} deployments, unchanged; a change of 2 % is seen:\n"
        "preset    between runs  a run is a point  each deployment is a point"
    )
    worst = 0.0
    for name, its in goals.items():
        for spread in RUN_SPREADS:
            seen, apart = followed(Site(its[:1], SIZES[:1], spread, WITHIN_RUN), count)
            worst = max(worst, seen)
            print(f"{name:9} {spread:12.0%}  {seen:16.1%}  {apart:26.1%}", flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
