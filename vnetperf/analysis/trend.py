"""The trend of each metric over many runs, and the runs at which it changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from vnetperf.analysis.runs import StoredRun, load_run
from vnetperf.model.errors import LogError
from vnetperf.model.result import RunResults
from vnetperf.results.environment import FactDifference, environment_differences
from vnetperf.results.log import LOG_NAME
from vnetperf.results.metrics import Metric, compared_metrics
from vnetperf.statistics.changes import Level, levels
from vnetperf.statistics.samples import outliers


@dataclass(frozen=True)
class TrendPoint:
    """A number of one round of one run.

    Attributes:
        run: The run.
        results: The round.
        metric: The number.
    """

    run: StoredRun
    results: RunResults
    metric: Metric

    @property
    def value(self) -> float:
        """The number; 0 where no load met a goal."""
        return self.metric.mean or 0.0


@dataclass(frozen=True)
class LevelChange:
    """Another level begins.

    Attributes:
        before: Last point of the level before.
        after: First point of the new level.
        old: Median before.
        new: Median after.
        environment: What differs in how both were measured.
    """

    before: TrendPoint
    after: TrendPoint
    old: float
    new: float
    environment: tuple[FactDifference, ...]

    @property
    def ratio(self) -> float:
        """The change as a share of what was before; infinite from 0."""
        return (self.new - self.old) / abs(self.old) if self.old else float("inf")

    @property
    def is_worse(self) -> bool:
        """Whether it is a change for the worse."""
        better = self.after.metric.better
        return bool(better) and (self.new > self.old) != (better == "more")


@dataclass(frozen=True)
class Trend:
    """One number over many runs.

    Attributes:
        scenario: "pvp_dpdk".
        test: "throughput".
        size: "64".
        name: "ndr".
        points: Oldest first.
        levels: The levels they lie on.
        changes: Where one level gives way to the next.
        far: Places of points far from the others of their level.
        apart: Why numbers of some runs are a series of their own: their conditions; "".
    """

    scenario: str
    test: str
    size: str
    name: str
    points: tuple[TrendPoint, ...]
    levels: tuple[Level, ...]
    changes: tuple[LevelChange, ...]
    far: tuple[int, ...]
    apart: str = ""


def read_runs(folder: Path) -> tuple[list[StoredRun], list[str]]:
    """Read every run of a folder."""
    if not folder.is_dir():
        raise LogError("there is no such folder", where=str(folder), accepted="a folder of runs")
    runs, unread = [], []
    for log in sorted(folder.glob(f"*/{LOG_NAME}")):
        if log.parent.is_symlink():  # "latest"
            continue
        try:
            runs.append(load_run(log.parent))
        except LogError as error:
            unread.append(f"{log.parent.name}: {error.what}")
    if not runs:
        raise LogError(
            "no run in it can be read" if unread else "there is no run in it",
            where=str(folder),
            accepted=f"a folder whose folders hold a {LOG_NAME}",
            cure="\n  ".join(unread) or "name the folder of results, e.g. results, not a run in it",
        )
    return sorted(runs, key=lambda run: run.first.run.started), unread


def trends(runs: Iterable[StoredRun], *, everything: bool = False) -> list[Trend]:
    """Follow every number."""
    series: dict[tuple[str, str, str, str, str], list[TrendPoint]] = {}
    for run in runs:
        for results in run.rounds:
            for metric in compared_metrics(results):
                if metric.measured is None or not (metric.main or everything):
                    continue
                key = (metric.scenario, *metric.key, _series_conditions(metric, results))
                series.setdefault(key, []).append(TrendPoint(run, results, metric))
    named: dict[tuple[str, ...], int] = {}
    for *name, _ in series:
        named[tuple(name)] = named.get(tuple(name), 0) + 1
    return [
        _trend(points, held if named[scenario, test, size, name] > 1 else "")
        for (scenario, test, size, name, held), points in sorted(series.items())
    ]


def _series_conditions(metric: Metric, results: RunResults) -> str:
    """What numbers of one series must have in common."""
    held = ", ".join(f"{key} {value}" for key, value in metric.conditions.items() if value != [])
    return f"preset {results.preset}: {held}"


def _trend(points: Sequence[TrendPoint], apart: str) -> Trend:
    values = [point.value for point in points]
    widths = [
        m.high - m.low for p in points if (m := p.metric.measured) is not None and m.is_bounded
    ]
    search = points[0].metric.test == "throughput"
    found = levels(values, least=median(widths) if search and widths else 0.0)
    first = points[0].metric
    return Trend(
        scenario=first.scenario,
        test=first.test,
        size=first.size,
        name=first.label,
        points=tuple(points),
        levels=found,
        changes=tuple(_change(points, old, new) for old, new in pairwise(found)),
        far=tuple(
            level.begin + place
            for level in found
            for place in outliers(values[level.begin : level.end])
        ),
        apart=apart,
    )


def _change(points: Sequence[TrendPoint], old: Level, new: Level) -> LevelChange:
    before, after = points[new.begin - 1], points[new.begin]
    differing = environment_differences(before.results, after.results)
    return LevelChange(before, after, old.median, new.median, differing)
