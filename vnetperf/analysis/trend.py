"""The trend of each metric over many runs, and the runs at which it changed.

A run is one point: what its rounds have in common (the machine's state that day, a build) differs
between runs, so that rounds of one run are no points of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import median
from typing import TypeAlias

from vnetperf.analysis.comparison import SAME_LOAD, metric_name
from vnetperf.analysis.environment import (
    ABSENT,
    FactDifference,
    comparability,
    environment_differences,
)
from vnetperf.analysis.metrics import Metric, partial_mark
from vnetperf.analysis.run_metrics import compared_metrics
from vnetperf.analysis.runs import StoredRun, load_run
from vnetperf.log.folder import testbed_logs
from vnetperf.log.trial_log import LOG_NAME
from vnetperf.model.errors import LogError
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.result import RunResults
from vnetperf.model.units import value_text
from vnetperf.statistics.changes import Level, Wandering, levels, wandering
from vnetperf.statistics.difference import (
    FEWEST_TO_GATE,
    find_significant,
    holm,
    newest_alike,
)
from vnetperf.statistics.samples import outliers


@dataclass(frozen=True)
class TrendRound:
    """A number of one deployment."""

    results: RunResults
    metric: Metric

    @property
    def value(self) -> float:
        """The number; of one that is open, the end that is known, which enters no level."""
        measured = self.metric.measured
        assert measured is not None  # noqa: S101 - for the type checker: callers have looked
        return measured.low if measured.value is None else measured.value


@dataclass(frozen=True)
class TrendPoint:
    """A number of one run."""

    run: StoredRun
    #: The number of each of its rounds that has it, the smallest first.
    rounds: tuple[TrendRound, ...]
    failures: tuple[str, ...] = ()  # Why others gave none

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
        """The round in the middle; of a run without the number, its first."""
        return self.middle.results if self.rounds else self.run.first

    @property
    def value(self) -> float:
        """Median of the rounds."""
        return median(trend_round.value for trend_round in self.rounds)

    @property
    def number(self) -> float | None:
        """What is shown: the median, or where a round is open what the one in the middle has."""
        if not self.rounds:
            return None
        return self.metric.mean if self.is_open else self.value

    @property
    def is_broken(self) -> bool:
        """Whether most of its rounds gave no number, or one that is not repeatable."""
        broken = len(self.failures) + sum(
            trend_round.metric.is_range for trend_round in self.rounds
        )
        return 2 * broken > len(self.failures) + len(self.rounds)

    @property
    def load_fps(self) -> float | None:
        """Load that it was measured at, median of the rounds; None where it is a load itself."""
        loads = [
            fps
            for trend_round in self.rounds
            if (fps := trend_round.metric.offered_fps) is not None
        ]
        return median(loads) if loads else None

    @property
    def is_open(self) -> bool:
        """Whether a round is a limit only, or one of two values, or there is none."""
        open_ = (
            trend_round.metric.censored or trend_round.metric.is_range
            for trend_round in self.rounds
        )
        return not self.rounds or any(open_)

    @property
    def marks(self) -> tuple[str, ...]:
        """What a reader must see beside it; "at least (2 of 5)" where not all rounds have it."""
        n, all_rounds = len(self.rounds), len(self.run.rounds)
        counts = Counter(mark for trend_round in self.rounds for mark in trend_round.metric.marks)
        marks = (f"{mark} ({count} of {n})" if n > 1 else mark for mark, count in counts.items())
        if not n:
            return (f"not measured: {self.failures[0]}",)
        return (*marks, *filter(None, [partial_mark(n, all_rounds)]))


@dataclass(frozen=True)
class LevelChange:
    """Another level begins."""

    before: TrendPoint  # Last point of the level before
    after: TrendPoint  # First point of the new level
    old: float  # Median before
    new: float  # Median after
    p: float  # Share of series without a change in which such a one is seen
    environment: tuple[FactDifference, ...]  # What differs in how both were measured

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
    """One number over many runs."""

    metric: Metric  # One of its numbers, for what it is
    #: One for each run, oldest first; those of runs that broke have no number.
    points: tuple[TrendPoint, ...]
    #: The levels they lie on; places are those of points, and limits lie on none.
    levels: tuple[Level, ...]
    changes: tuple[LevelChange, ...]  # Where one level gives way to the next
    far: tuple[int, ...]  # Places of points far from the others of their level
    #: Why it cannot be told whether the level changed; None: it did, or nothing shows that it did.
    wandering: Wandering | None = None
    apart: str = ""  # Why numbers of some runs are a series of their own: what differs; ""

    @property
    def name(self) -> str:
        """Its title, "ndr"."""
        return self.metric.title

    @property
    def title(self) -> str:
        """In a sentence, "pvp_dpdk, throughput, 64, ndr"."""
        return metric_name(self.metric.scenario, self.metric.key)

    @property
    def newest_broken(self) -> tuple[TrendPoint, ...]:
        """The newest points, as long as none has a number that comes again; oldest first."""
        broken = [*takewhile(lambda point: point.is_broken, reversed(self.points))]
        return tuple(reversed(broken))


def read_runs(folder: Path) -> tuple[list[StoredRun], list[str]]:
    """Read every run of a folder."""
    if not folder.is_dir():
        raise LogError("there is no such folder", where=str(folder), accepted="a folder of runs")
    runs, unread = [], []
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not testbed_logs(path):  # "latest"; a run that was never merged
            continue
        try:
            runs.append(load_run(path))
        except LogError as error:
            unread.append(f"{path.name}: {error.what}")
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
    failures: dict[_Name, list[_Failure]] = {}
    ordered = list(runs)
    for place, run in enumerate(ordered):
        for results in run.rounds.values():
            keys: dict[str, dict[str, str]] = {}
            for metric in compared_metrics(results):
                name = metric.scenario
                if not across and name not in keys:
                    keys[name] = comparability(results, name)
                if metric.measured is None and metric.main:
                    planned = any(facts.scenario == name for facts in results.scenarios)
                    # Of a scenario that failed before its plan only the machine is known.
                    run_keys = keys.get(name, {}).items()
                    conditions = {
                        k: v for k, v in run_keys if planned or (k == "machine" and v != ABSENT)
                    }
                    conditions["preset"] = results.preset
                    failures.setdefault((name, *metric.key), []).append(
                        _Failure(place, metric.why.partition("\n")[0], conditions)
                    )
                elif metric.measured is not None and (metric.main or everything):
                    conditions = _series_conditions(metric, results) | keys.get(name, {})
                    by_conditions = series.setdefault((name, *metric.key), {})
                    rounds = by_conditions.setdefault(tuple(conditions.items()), {})
                    rounds.setdefault(place, []).append(TrendRound(results, metric))
    return [
        _trend([points[place] for place in sorted(points)], apart, least)
        for name, among in sorted(series.items(), key=lambda item: item[0])
        for points, apart in _with_failures(
            ordered,
            [
                (dict(conditions), group, part)
                for conditions, by_run in sorted(among.items())
                for group, part in _by_load(_points(ordered, by_run), _differing(conditions, among))
            ],
            [*failures.get(name, ()), *failures.get((*name[:3], ""), ())],
        )
    ]


_Name: TypeAlias = tuple[str, str, str, str]
_Conditions: TypeAlias = tuple[tuple[str, str], ...]
#: Points by the place of their run.
_Points: TypeAlias = dict[int, TrendPoint]


@dataclass(frozen=True)
class _Failure:
    """A deployment that gave no number."""

    place: int  # Of its run
    reason: str
    conditions: Mapping[str, str]  # What is known of its conditions


def _points(
    runs: Sequence[StoredRun], rounds_by_place: Mapping[int, Sequence[TrendRound]]
) -> _Points:
    return {
        place: TrendPoint(
            runs[place], tuple(sorted(rounds, key=lambda trend_round: trend_round.value))
        )
        for place, rounds in rounds_by_place.items()
    }


def _with_failures(
    runs: Sequence[StoredRun],
    groups: Sequence[tuple[Mapping[str, str], _Points, str]],
    failures: Iterable[_Failure],
) -> Iterator[tuple[_Points, str]]:
    """The series of a number, with the runs that broke.

    A deployment that failed belongs to the series that was measured last before it, of those whose
    conditions it does not contradict.
    """
    began = [min(points) for _, points, _ in groups]
    for failure in failures:
        of_run = [points for _, points, _ in groups if points.get(failure.place)]
        fitting = [
            (max((p for p in points if p < failure.place), default=-first), points)
            for (conditions, points, _), first in zip(groups, began, strict=True)
            if all(conditions.get(key, value) == value for key, value in failure.conditions.items())
        ]
        if of_run or fitting:
            points = of_run[0] if of_run else max(fitting, key=lambda item: item[0])[1]
            point = points.get(failure.place) or TrendPoint(runs[failure.place], ())
            points[failure.place] = replace(point, failures=(*point.failures, failure.reason))
    yield from ((points, apart) for _, points, apart in groups)


def _series_conditions(metric: Metric, results: RunResults) -> dict[str, str]:
    """What numbers of one series must have in common besides what makes runs comparable."""
    conditions = {key: str(value) for key, value in metric.conditions.items() if value != []}
    return {"preset": results.preset, **conditions}


def _differing(
    conditions: Sequence[tuple[str, str]], among: Iterable[Sequence[tuple[str, str]]]
) -> str:
    """What sets a series apart from others of its name."""
    others = [dict(other) for other in among]
    return ", ".join(
        f"{key} {value}"
        for key, value in conditions
        if any(other.get(key) != value for other in others)
    )


def _by_load(points: _Points, apart: str) -> Iterator[tuple[_Points, str]]:
    """A series for each offered load: numbers at different ones are not comparable."""
    loads = sorted({point.load_fps for point in points.values() if point.load_fps is not None})
    unloaded = {place: point for place, point in points.items() if point.load_fps is None}
    series = [(0.0, unloaded)] if unloaded else []
    series += [
        (least, {n: p for n, p in points.items() if p.load_fps and least <= p.load_fps <= most})
        for least, most in (_same_loads(loads) if loads else ())
    ]
    for load, group in series:
        text = f"offered load {value_text(load, 'fps')}" if load and len(series) > 1 else ""
        yield group, ", ".join(part for part in (apart, text) if part)


def _same_loads(rising: Sequence[float]) -> list[tuple[float, float]]:
    """Least and largest load of each group; a group that is too wide is cut at its widest gap.

    So it does not depend on the order of the runs what is put together.
    """
    if rising[-1] <= rising[0] * (1.0 + SAME_LOAD):
        return [(rising[0], rising[-1])]
    cut = max(range(1, len(rising)), key=lambda place: rising[place] / rising[place - 1])
    return [*_same_loads(rising[:cut]), *_same_loads(rising[cut:])]


def _trend(points: Sequence[TrendPoint], apart: str, least: float) -> Trend:
    places = [place for place, point in enumerate(points) if not point.is_open]
    values = [points[place].value for place in places]
    widths = [
        m.high - m.low
        for place in places
        for trend_round in points[place].rounds
        if (m := trend_round.metric.measured) is not None and m.is_bounded
    ]
    first = next(point.metric for point in points if point.rounds)
    smallest = least * abs(median(values)) if values else 0.0
    if first.test != THROUGHPUT:  # what its search leaves open is in no bounds
        widths = [
            trend_round.metric.resolution
            for place in places
            for trend_round in points[place].rounds
        ]
    if widths:
        smallest = max(smallest, median(widths))
    trend_levels = levels(values, least=smallest)
    return Trend(
        metric=first,
        points=tuple(points),
        levels=tuple(
            replace(level, begin=places[level.begin], end=places[level.end - 1] + 1)
            for level in trend_levels
        ),
        changes=tuple(
            _change(points[places[new.begin - 1]], points[places[new.begin]], old, new)
            for old, new in pairwise(trend_levels)
        ),
        far=tuple(
            places[level.begin + place]
            for level in trend_levels
            for place in outliers(values[level.begin : level.end])
        ),
        wandering=None if len(trend_levels) > 1 else wandering(values, least=smallest),
        apart=apart,
    )


def _change(before: TrendPoint, after: TrendPoint, old: Level, new: Level) -> LevelChange:
    differing = environment_differences(before.results, after.results)
    return LevelChange(before, after, old.median, new.median, new.p, differing)


#: Probability that a gate does not act on chance.
CONFIDENCE = 0.95


def worse_for_sure(followed: Sequence[Trend]) -> list[Trend]:
    """Numbers whose newest level is a worse one, all that were followed considered (Holm).

    A level has three runs or more, so that a gate acts on no fewer on either side.
    """
    newest = [trend.changes[-1] if trend.changes else None for trend in followed]
    adjusted = holm([1.0 if change is None else change.p for change in newest])
    return [
        trend
        for trend, change, p in zip(followed, newest, adjusted, strict=True)
        if change is not None and change.is_worse and p <= 1.0 - CONFIDENCE
    ]


def lost_for_sure(followed: Sequence[Trend]) -> list[Trend]:
    """Numbers that the newest three runs or more have not, or not repeatable, and three before had.

    Only where that so many of the newest broke is no chance, all numbers that were followed
    considered, also those whose newest run has one: one that always breaks in every second run is
    no change. What broke in the same runs is one event.
    """
    events = [
        (
            frozenset(point.run.path for point in trend.points if point.is_broken),
            len(trend.points),
            len(trend.newest_broken),
        )
        for trend in followed
    ]
    judged = {
        (broken, n, newest): newest_alike(len(broken), n, newest, FEWEST_TO_GATE)
        for broken, n, newest in events
    }
    sure = find_significant(judged, CONFIDENCE)
    return [trend for trend, event in zip(followed, events, strict=True) if event in sure]
