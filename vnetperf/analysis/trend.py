"""The trend of each metric over many runs, and the runs at which it changed.

A run is one point: what its rounds have in common (the machine's state that day, a build) differs
between runs, so that rounds of one run are no points of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypeAlias

from vnetperf.analysis.comparison import SAME_LOAD
from vnetperf.analysis.runs import StoredRun, load_run
from vnetperf.model.errors import LogError
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.result import RunResults
from vnetperf.model.units import value_text
from vnetperf.results.environment import (
    FactDifference,
    comparability,
    environment_differences,
)
from vnetperf.results.folder import testbed_logs
from vnetperf.results.log import LOG_NAME
from vnetperf.results.metrics import Metric, compared_metrics
from vnetperf.statistics.changes import Level, levels
from vnetperf.statistics.difference import holm
from vnetperf.statistics.samples import outliers


@dataclass(frozen=True)
class TrendRound:
    """A number of one deployment.

    Attributes:
        results: The round.
        metric: The number.
    """

    results: RunResults
    metric: Metric

    @property
    def value(self) -> float:
        """The number; of one that is open, the end that is known, which enters no level."""
        found = self.metric.measured
        assert found is not None  # noqa: S101 - for the type checker: callers have looked
        return found.low if found.value is None else found.value


@dataclass(frozen=True)
class TrendPoint:
    """A number of one run.

    Attributes:
        run: The run.
        rounds: The number of each of its rounds that has it, the smallest first.
    """

    run: StoredRun
    rounds: tuple[TrendRound, ...]

    @property
    def middle(self) -> TrendRound:
        """The round in the middle."""
        return self.rounds[(len(self.rounds) - 1) // 2]

    @property
    def metric(self) -> Metric:
        """The number of the round in the middle."""
        return self.middle.metric

    @property
    def results(self) -> RunResults:
        """The round in the middle."""
        return self.middle.results

    @property
    def value(self) -> float:
        """Median of the rounds."""
        return median(one.value for one in self.rounds)

    @property
    def number(self) -> float | None:
        """What is shown: the median, or where a round is open what the one in the middle has."""
        return self.metric.mean if self.is_open else self.value

    @property
    def load_fps(self) -> float | None:
        """Load that it was measured at, median of the rounds; None where it is a load itself."""
        loads = [one.metric.load_fps for one in self.rounds if one.metric.load_fps is not None]
        return median(loads) if loads else None

    @property
    def is_open(self) -> bool:
        """Whether a round is a limit only, or one of two values that the DUT changes between."""
        return any(one.metric.censored or one.metric.unstable for one in self.rounds)

    @property
    def marks(self) -> tuple[str, ...]:
        """What a reader must see beside it; "at least (2 of 5)" where not all rounds have it."""
        n, all_rounds = len(self.rounds), len(self.run.rounds)
        counts = Counter(mark for one in self.rounds for mark in one.metric.marks)
        marks = (f"{mark} ({count} of {n})" if n > 1 else mark for mark, count in counts.items())
        partial = (f"measured in {n} of {all_rounds} deployments",) if n < all_rounds else ()
        return (*marks, *partial)


@dataclass(frozen=True)
class LevelChange:
    """Another level begins.

    Attributes:
        before: Last point of the level before.
        after: First point of the new level.
        old: Median before.
        new: Median after.
        p: Share of shuffled series in which such a change is seen.
        environment: What differs in how both were measured.
    """

    before: TrendPoint
    after: TrendPoint
    old: float
    new: float
    p: float
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
        points: One for each run, oldest first.
        levels: The levels they lie on; places are those of points, and limits lie on none.
        changes: Where one level gives way to the next.
        far: Places of points far from the others of their level.
        apart: Why numbers of some runs are a series of their own: what differs; "".
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
    for one in sorted(folder.iterdir()):
        if one.is_symlink() or not testbed_logs(one):  # "latest"; a run that was never merged
            continue
        try:
            runs.append(load_run(one))
        except LogError as error:
            unread.append(f"{one.name}: {error.what}")
    if not runs:
        raise LogError(
            "no run in it can be read" if unread else "there is no run in it",
            where=str(folder),
            accepted=f"a folder whose folders hold a {LOG_NAME}",
            cure="\n  ".join(unread) or "name the folder of results, e.g. results, not a run in it",
        )
    return sorted(runs, key=lambda run: run.first.run.started), unread


def trends(
    runs: Iterable[StoredRun],
    *,
    everything: bool = False,
    least: float = 0.0,
    across: bool = False,
) -> list[Trend]:
    """Follow every number; least: smallest change that counts, as a share."""
    series: dict[_Name, dict[_Conditions, dict[int, list[TrendRound]]]] = {}
    ordered = list(runs)
    for place, run in enumerate(ordered):
        for results in run.rounds.values():
            keys: dict[str, dict[str, str]] = {}
            for metric in compared_metrics(results):
                if metric.measured is None or not (metric.main or everything):
                    continue
                name = metric.scenario
                if not across and name not in keys:
                    keys[name] = comparability(results, name)
                held = tuple((_series_conditions(metric, results) | keys.get(name, {})).items())
                found = series.setdefault((name, *metric.key), {}).setdefault(held, {})
                found.setdefault(place, []).append(TrendRound(results, metric))
    return [
        trend
        for _, among in sorted(series.items(), key=lambda item: item[0])
        for held, found in sorted(among.items())
        for trend in _by_load(_points(ordered, found), _differing(held, among), least)
    ]


_Name: TypeAlias = tuple[str, str, str, str]
_Conditions: TypeAlias = tuple[tuple[str, str], ...]


def _points(
    runs: Sequence[StoredRun], found: Mapping[int, Sequence[TrendRound]]
) -> list[TrendPoint]:
    return [
        TrendPoint(runs[place], tuple(sorted(rounds, key=lambda one: one.value)))
        for place, rounds in found.items()
    ]


def _series_conditions(metric: Metric, results: RunResults) -> dict[str, str]:
    """What numbers of one series must have in common besides what makes runs comparable."""
    held = {key: str(value) for key, value in metric.conditions.items() if value != []}
    return {"preset": results.preset, **held}


def _differing(held: Sequence[tuple[str, str]], among: Iterable[Sequence[tuple[str, str]]]) -> str:
    """What sets a series apart from others of its name."""
    others = [dict(one) for one in among]
    return ", ".join(
        f"{key} {value}" for key, value in held if any(one.get(key) != value for one in others)
    )


def _by_load(points: Sequence[TrendPoint], apart: str, least: float) -> Iterator[Trend]:
    """A series for each offered load: numbers at different ones are not comparable."""
    loads = sorted({point.load_fps for point in points if point.load_fps is not None})
    groups = _same_loads(loads) if loads else []
    unloaded = [point for point in points if point.load_fps is None]
    series = [(0.0, unloaded)] if unloaded else []
    series += [
        (least_fps, [p for p in points if p.load_fps and least_fps <= p.load_fps <= most_fps])
        for least_fps, most_fps in groups
    ]
    for load, group in series:
        text = f"offered load {value_text(load, 'fps')}" if load and len(series) > 1 else ""
        yield _trend(group, ", ".join(part for part in (apart, text) if part), least)


def _same_loads(rising: Sequence[float]) -> list[tuple[float, float]]:
    """Least and largest load of each group; a group that is too wide is cut at its widest gap.

    So it does not depend on the order of the runs what is put together.
    """
    if rising[-1] <= rising[0] * (1.0 + SAME_LOAD):
        return [(rising[0], rising[-1])]
    at = max(range(1, len(rising)), key=lambda place: rising[place] / rising[place - 1])
    return [*_same_loads(rising[:at]), *_same_loads(rising[at:])]


def _trend(points: Sequence[TrendPoint], apart: str, least: float) -> Trend:
    places = [place for place, point in enumerate(points) if not point.is_open]
    values = [points[place].value for place in places]
    widths = [
        m.high - m.low
        for place in places
        for one in points[place].rounds
        if (m := one.metric.measured) is not None and m.is_bounded
    ]
    search = points[0].metric.test == THROUGHPUT
    smallest = least * abs(median(values)) if values else 0.0
    if search and widths:
        smallest = max(smallest, median(widths))
    found = levels(values, least=smallest)
    first = points[0].metric
    return Trend(
        scenario=first.scenario,
        test=first.test,
        size=first.size,
        name=first.label,
        points=tuple(points),
        levels=tuple(
            replace(one, begin=places[one.begin], end=places[one.end - 1] + 1) for one in found
        ),
        changes=tuple(
            _change(points[places[new.begin - 1]], points[places[new.begin]], old, new)
            for old, new in pairwise(found)
        ),
        far=tuple(
            places[level.begin + place]
            for level in found
            for place in outliers(values[level.begin : level.end])
        ),
        apart=apart,
    )


def _change(before: TrendPoint, after: TrendPoint, old: Level, new: Level) -> LevelChange:
    differing = environment_differences(before.results, after.results)
    return LevelChange(before, after, old.median, new.median, new.p, differing)


def worse_for_sure(found: Sequence[Trend], confidence: float = 0.95) -> list[Trend]:
    """Numbers whose newest level is a worse one, all that were followed considered (Holm).

    A level has three runs or more, so that a gate acts on no fewer on either side.
    """
    newest = [trend.changes[-1] if trend.changes else None for trend in found]
    adjusted = holm([1.0 if change is None else change.p for change in newest])
    return [
        trend
        for trend, change, p in zip(found, newest, adjusted, strict=True)
        if change is not None and change.is_worse and p <= 1.0 - confidence
    ]
