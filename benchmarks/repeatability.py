"""Whether the interval of several runs is honest: does it cover one more?

Makes runs of one scenario, each deployed anew, then one more, and says whether the interval that
the first ones state for a single further run covers it. Many such series must be covered about as
often as the interval says; one series says yes or no.

    python benchmarks/repeatability.py --scenario pvp_dpdk --preset quick --runs 5

The interval of the *mean*, which reports print, is narrower: it says where the mean lies, not where
the next run will. Both are printed. `--results DIR...` judges runs that were made before, as a
series in order of time: each run but the first five against those before it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from math import hypot, inf
from pathlib import Path

from vnetperf.analysis.metrics import Metric, compared_metrics_of
from vnetperf.analysis.runs import load_run
from vnetperf.model.errors import LogError
from vnetperf.model.units import fps
from vnetperf.statistics import spread

CONFIDENCE = 0.9


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    """Make one run more than asked for, in one session: each round is deployed anew.

    Args:
        arguments: What to run.
        folder: Folder for its results.
    """
    argv = [
        *(sys.executable, "-m", "pytest", "testcases/", "-q", "-k", arguments.scenario),
        *("--preset", arguments.preset, "--frame-sizes", arguments.frame_size),
        *("--tests", "throughput", "--repeat", str(arguments.runs + 1)),
        *("--results-dir", str(folder), *arguments.more),
    ]
    subprocess.run(argv, check=False)  # a failed round leaves the others


def series(folders: Sequence[Path]) -> dict[str, list[Metric]]:
    """Every throughput of runs, in order of time.

    Args:
        folders: Folders of runs.

    Returns:
        "pvp_dpdk, 64, ndr" -> one number for each run or round.
    """
    found: dict[str, list[Metric]] = {}
    runs = []
    for folder in {folder.resolve() for folder in folders}:
        try:
            runs.append(load_run(folder))
        except LogError as error:
            print(f"not read: {error}")
    runs.sort(key=lambda run: run.first.run.started)
    for results in (each for run in runs for each in run.rounds.values()):
        for result in results.results:
            for metric in compared_metrics_of(result):
                if metric.test == "throughput" and metric.main and metric.mean is not None:
                    name = f"{metric.scenario}, {metric.size}, {metric.label}"
                    found.setdefault(name, []).append(metric)
    return found


def prediction(before: Sequence[Metric]) -> tuple[float, float]:
    """Where one more run lies, by those before it.

    Args:
        before: Two or more runs.

    Returns:
        Interval of a single further value: Student's t, widened by what a search leaves open.
    """
    stated = spread([q.mean for q in before if q.mean is not None], confidence=CONFIDENCE)
    assert stated.next_high is not None
    opens = [q.measured.high - q.measured.low for q in before if q.measured is not None]
    half = hypot(stated.next_high - stated.mean, max((o for o in opens if o < inf), default=0.0))
    return stated.mean - half, stated.mean + half


def judged(name: str, runs: Sequence[Metric], least: int) -> Iterator[bool]:
    """Hold each run against those before it, and print.

    Args:
        name: What was measured.
        runs: In order of time.
        least: Runs that an interval is stated of.

    Yields:
        Whether the interval covers the run.
    """
    for place in range(least, len(runs)):
        before, value = runs[place - least : place], runs[place].mean or 0.0
        low, high = prediction(before)
        mean = spread([q.mean for q in before if q.mean is not None])
        covers = low <= value <= high
        print(
            f"{name}: {least} runs, mean {fps(mean.mean)}, 95 % interval of the mean "
            f"[{fps(mean.low or 0)} .. {fps(mean.high or 0)}], {CONFIDENCE:.0%} interval of one "
            f"more [{fps(max(low, 0.0))} .. {fps(high)}]: {fps(value)} is "
            f"{'covered' if covers else 'NOT covered'}"
        )
        if mean.modes:
            print(f"  two modes, {fps(mean.modes[0])} and {fps(mean.modes[1])}: no interval holds")
        yield covers


def main() -> int:
    """Measure, or read, and judge.

    Returns:
        0; 1 when nothing could be judged.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenario", default="pvp_dpdk")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--frame-size", default="64")
    parser.add_argument("--runs", type=int, default=5, help="runs that the interval is of")
    parser.add_argument("--into", type=Path, default=Path("results/repeatability"))
    parser.add_argument("--results", type=Path, nargs="+", help="folders of runs made before")
    parser.add_argument("more", nargs="*", help="further options of pytest, after --")
    arguments = parser.parse_args()
    if arguments.results is None:
        measure(arguments, arguments.into)
        arguments.results = [arguments.into / "latest"]
    covered = [
        one
        for name, runs in series(arguments.results).items()
        for one in judged(name, runs, arguments.runs)
    ]
    if not covered:
        print(f"nothing to judge: no series of more than {arguments.runs} runs")
        return 1
    print(f"covered {sum(covered)} of {len(covered)}; {CONFIDENCE:.0%} is what is to be expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
