"""How often `vnetperf compare --fail-if-worse` fails without a cause, and how often with one.

Run ``python -m benchmarks.false_alarms [COMPARISONS]``. Both sides are simulated DUTs, searched by
the real searches of the presets quick and mlr-csit: one main number a comparison (64 octets, the
first goal), and six (three frame sizes, two goals). Each deployment has a capacity of its own,
around the side's, and each trial one around that (2 %). A/A: both sides have one capacity, and
every failed gate is a false alarm: no more than 5 % of *comparisons* (not of numbers) may fail.
Power: side B has 5 % less.

The last column judges each side by a single deployment, bounds against bounds, as this tool once
did, and repeats within one deployment as if they were replicates.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from vnetperf import config
from vnetperf.analysis.comparison import Side, compare
from vnetperf.analysis.runs import StoredRun
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.result import GoalResult, Result, RunIdentity, RunResults
from vnetperf.search import make_search
from vnetperf.statistics.difference import Measurand, difference
from vnetperf.testing.sim import SimulatedDut, run

#: Standard deviations of capacity between deployments, relative.
SPREADS = (0.0, 0.03, 0.08)
#: Of trials within a deployment.
TRIAL_NOISE = 0.02
SIZES = (64, 512, 1518)
PRESETS = ("quick", "mlr-csit")
DEPLOYMENTS = (3, 5, 10)
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
    goals: Sequence[SearchGoal], sizes: Sequence[int], capacity_fps: float, seed: int
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
        outcome, _ = run(make_search("mlr", tuple(goals), LIMITS), dut)
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


def side(name: str, rounds: Sequence[RunResults]) -> Side:
    """One side of a comparison.

    Args:
        name: Its name.
        rounds: Its deployments.

    Returns:
        The side.
    """
    return Side(name, (StoredRun(Path(name), dict(enumerate(rounds, 1))),))


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


def drawn(
    goals: Sequence[SearchGoal],
    sizes: Sequence[int],
    spread: float,
    n: int,
    count: int,
    *,
    change: float = 0.0,
) -> Drawn:
    """Compare often.

    Args:
        goals: Goals of the search.
        sizes: Frame sizes.
        spread: Standard deviation between deployments, relative.
        n: Deployments a side.
        count: Comparisons.
        change: What side B has less, relative.

    Returns:
        How often what came out.
    """
    draw, found = random.Random(2544), Drawn()  # noqa: S311 - no secret
    for number in range(count):
        sides = []
        for place, capacity in enumerate((CAPACITY_FPS, CAPACITY_FPS * (1.0 - change))):
            sides.append(
                [
                    deployment(
                        goals,
                        sizes,
                        capacity * max(0.1, 1.0 + spread * draw.gauss(0.0, 1.0)),
                        (2 * number + place) * n + one,
                    )
                    for one in range(n)
                ]
            )
        compared = compare(side("a", sides[0]), side("b", sides[1]))
        found.gates += any(row.is_worse for row in compared.rows)
        found.seen += any(row.differs for row in compared.rows)
        found.single += bounds_apart(sides[0][0], sides[1][0])
        found.count += 1
    return found


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
        0; 1 where more than the allowed share of A/A comparisons fails.
    """
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    worst = 0.0
    print(
        f"{count} comparisons each; A/A: both sides alike; power: B has {CHANGE:.0%} less.\n"
        "preset    numbers spread   n  A/A gate fails  A/A any number differs  gate finds 5 % less"
        "  A/A single bounds apart"
    )
    for name in PRESETS:
        goals = config.load({"preset": name}, environment={}, directory=Path("/")).preset.goals
        kinds = product(((goals[:1], SIZES[:1]), (goals, SIZES)), SPREADS, DEPLOYMENTS)
        for (wanted, sizes), spread, n in kinds:
            same = drawn(wanted, sizes, spread, n, count)
            power = drawn(wanted, sizes, spread, n, max(1, count // 2), change=CHANGE)
            worst = max(worst, same.gates / same.count)
            print(
                f"{name:9} {len(wanted) * len(sizes):7} {spread:6.0%} {n:3}"
                f"  {same.gates / same.count:14.1%}  {same.seen / same.count:22.1%}"
                f"  {power.gates / power.count:19.0%}  {same.single / same.count:23.0%}",
                flush=True,
            )
    for spread in SPREADS:
        wrong = within_one_deployment(spread, 10 * count)
        print(
            f"ten repeats of one deployment as replicates, spread {spread:.0%}: {wrong:.0%} wrong"
        )
    print(f"A/A gate fails in {worst:.1%} of comparisons at the most; {ALLOWED:.0%} are allowed")
    return int(worst > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
