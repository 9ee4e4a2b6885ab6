"""The plots of a report: what each test shows, as data for :mod:`vnetperf.report.plot`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetperf.model import units
from vnetperf.model.figures import Figure, FigurePlot
from vnetperf.model.outcomes import Curve, Soak, Spread
from vnetperf.model.result import MACHINE, GoalResult, Result, TrialPoint
from vnetperf.model.trial import Latency, RoundTrip, Verdict
from vnetperf.report import goal_text, text
from vnetperf.report.outcomes import (
    full_load_text,
    service_verdict,
    soak_interval,
    soak_verdict,
)
from vnetperf.report.plot import Axis, Note, Plot, Point, Rule, Series, series_css
from vnetperf.report.processors import polls_text
from vnetperf.report.summary import Group
from vnetperf.statistics.histogram import decode_hdr, percentile_values

_SIZES = "frame size, octets with FCS (equal steps)"
_LIMITS = (
    ("media_max_fps", "limit medium", "theoretical maximum of the reference medium"),
    ("generator_max_fps", "limit generator", "the generator's calibrated clean maximum"),
)
#: Distance of the marks of several goals in one row, or of several series at one size.
_LANE, _BESIDE = 11, 7


def goal_css(index: int) -> str:
    """The colour of a goal."""
    return f"g{index % 4}"


def _spread_out(index: int, count: int, distance: float) -> float:
    return (index - (count - 1) / 2) * distance


def _directions(results: Sequence[Result]) -> str:
    counts = " or ".join(map(str, sorted({r.directions for r in results})))
    return f"frames/s, sum of {counts} direction(s)"


def _find_goal(result: Result | None, name: str) -> GoalResult | None:
    return next((g for g in result.goals if g.name == name), None) if result else None


def _goal_point(goal: GoalResult, about: str, **place: float) -> Point | None:
    """The number of a goal with its bounds: upright at x, level at y."""
    value = goal_text.headline_fps(goal)
    if value is None:
        return None
    bounded = goal.lower_bound_fps is not None and goal.upper_bound_fps is not None
    return Point(
        x=place.get("x", value),
        y=place.get("y", value),
        low=goal.lower_bound_fps if bounded else None,
        high=goal.upper_bound_fps if bounded else None,
        hover=(
            f"{about}, {goal.name}: {goal_text.headline(goal)}\n"
            f"upper bound: {goal_text.upper_bound_text(goal)}\n{goal_text.flag_with_reason(goal)}"
        ),
        open=goal.qualifier,
        hollow=not goal.regular,
    )


def throughput_plot(group: Group) -> Plot | None:
    """Lower bounds by frame size, under what the medium and the generator allow."""
    places = {r.frame_size: i for i, r in enumerate(group.results)}
    series, rules = [], []
    for limit, css, name in _LIMITS:
        limits = [(places[r.frame_size], getattr(r, limit)) for r in group.measured]
        limit_points = tuple(Point(x, v) for x, v in limits if v)
        if len(limit_points) == 1:  # of one size a limit is a level line across the plot
            rules.append(Rule(name, limit_points[0].y, "y", css))
        else:
            series.append(Series(name, limit_points, css=css, mark="none", line=True))
    for index, name in enumerate(group.goal_names):
        goals = [(r, _find_goal(r, name)) for r in group.measured]
        goal_points = [
            _goal_point(goal, r.size_text, x=places[r.frame_size]) for r, goal in goals if goal
        ]
        points = [p for p in goal_points if p]
        shift = _spread_out(index, len(group.goal_names), _BESIDE)
        series.append(Series(name, points, css=goal_css(index), line=True, shift=shift))
    if not rules and not any(s.points for s in series):
        return None
    absent = [r for r in group.results if r.status == "not measured"]
    return Plot(
        title=f"Throughput against frame size, {group.title}",
        caption="Throughput against frame size",
        note="Marks: lower bounds. Bars: from lower to upper bound.",
        x=Axis(name=_SIZES, names=[r.size_name for r in group.results]),
        y=Axis.in_unit(_directions(group.measured), "fps", zero=True),
        series=series,
        rules=rules,
        notes=[Note("not measured", places[r.frame_size], hover=r.why) for r in absent],
        key=True,
    )


@dataclass(frozen=True, slots=True)
class GoalRow:
    """One row of a plot of goals: a scenario, or a variant of one."""

    name: str  # The row's heading
    result: Result | None
    #: The word that stands for a missing number, and why there is none.
    absence: tuple[str, str] = ("", "")


def goals_plot(
    title: str, caption: str, rows: Sequence[GoalRow], names: Sequence[str]
) -> Plot | None:
    """Lower bounds of several scenarios at one frame size, below each other."""
    series, notes = [], []
    for index, name in enumerate(names):
        shift = _spread_out(index, len(names), _LANE)
        points = []
        for place, row in enumerate(rows):
            goal = _find_goal(row.result, name)
            point = _goal_point(goal, row.name, y=place) if goal else None
            if point:
                points.append(point)
            elif goal:
                notes.append(Note(goal_text.NO_LOAD_MET, place, shift=shift))
        series.append(Series(name, points, css=goal_css(index), mark="reach", shift=shift))
    if not any(s.points for s in series):
        return None
    for place, row in enumerate(rows):
        if row.result is None or not row.result.goals:
            word, reason = row.absence
            notes.append(Note(word, place, hover=reason))
    return Plot(
        title=title,
        caption=caption,
        x=Axis.in_unit(_directions([r.result for r in rows if r.result]), "fps", zero=True),
        y=Axis(name="scenario", names=[row.name for row in rows]),
        series=series,
        notes=notes,
        row=17 + _LANE * max(1, len(names)),
    )


def sessions_plot(title: str, caption: str, rows: Sequence[GoalRow]) -> Plot | None:
    """Rates at which several variants make sessions, below each other."""
    points, notes = [], []
    for place, row in enumerate(rows):
        sessions = row.result.sessions if row.result is not None else None
        if sessions is None:
            notes.append(Note(row.absence[0], place, hover=row.absence[1]))
            continue
        rate = f"{text.tick_label(sessions.rate_per_s, 'fps')}/s of {sessions.sessions}"
        hover = f"{row.name}: {'at least ' if sessions.capped else ''}{rate}"
        point = Point(
            sessions.rate_per_s, place, hover=hover, open="at least" if sessions.capped else ""
        )
        points.append(point)
    if not points:
        return None
    return Plot(
        title=title,
        caption=caption,
        x=Axis.in_unit("new sessions/s", "fps", zero=True),
        y=Axis(name="variant", names=[row.name for row in rows]),
        series=[Series("", points, css=goal_css(0), mark="reach")],
        notes=notes,
        row=17 + _LANE,
    )


#: Of numbers that lie farther apart than this, the axis is logarithmic.
_LINEAR_UP_TO = 64.0
#: Settings of which each step could bring as much as the first.
_ADDITIVE = ("workers",)


def _integer_tick(number: float) -> str:
    return text.tick_label(number, "fps") if number == int(number) else ""


def scale_plot(
    title: str,
    caption: str,
    rows: Sequence[GoalRow],
    names: Sequence[str],
    scale: tuple[str, Mapping[str, float]],
) -> Plot | None:
    """Lower bounds over what variants differ by: its name (workers, flows), row -> number."""
    key, numbers = scale
    series = []
    for index, name in enumerate(names):
        goals = [(row, _find_goal(row.result, name)) for row in rows]
        goal_points = [
            _goal_point(goal, row.name, x=numbers[row.name]) for row, goal in goals if goal
        ]
        points = sorted((p for p in goal_points if p), key=lambda p: p.x)
        series.append(Series(name, points, css=goal_css(index), line=True))
    drawn = [p for line_series in series for p in line_series.points]
    if not drawn:
        return None
    first, last = min(p.x for p in drawn), max(p.x for p in drawn)
    if key in _ADDITIVE and last > first:
        ideal = max(p.y for p in drawn if p.x == first)
        line = (Point(first, ideal), Point(last, ideal * last / first))
        name = f"as much as the first, for each of {key}"
        series.insert(0, Series(name, line, css="limit medium", mark="none", line=True))
    shown = {p.x for p in drawn}
    missing = [row for row in rows if numbers[row.name] not in shown]
    gone = f"; no number: {', '.join(row.name for row in missing)}" if missing else ""
    far = last > _LINEAR_UP_TO * max(first, 1.0)
    ticks: dict[str, Any] = {"scale": "log"} if far else {"scale": "linear", "zero": True}
    return Plot(
        title=title,
        caption=caption,
        note=f"marks: lower bounds; bars: from lower to upper bound{gone}",
        x=Axis(name=key, tick=_integer_tick, value="{:g}".format, **ticks),
        y=Axis.in_unit(_directions([r.result for r in rows if r.result]), "fps", zero=True),
        series=series,
        css="scale",
        key=True,
    )


#: What the rows are of: name -> spread; None where it was not measured.
SpreadRows = Sequence[tuple[str, Spread | None]]
#: More samples than this only thicken the page.
_MOST_SAMPLES = 400


def _spread_hover(name: str, spread: Spread, kind: units.Unit) -> str:
    ends = f"{text.single(spread.minimum, kind)} to {text.single(spread.maximum, kind)}"
    median = f"median {text.single(spread.median, kind)}, {ends}"
    first = f"{name}: {text.mean_with_n(spread, kind)}"
    return "\n".join([first, median, *text.remarks(spread, kind)])


def _row_end_text(spread: Spread | None, kind: units.Unit, *, least: bool) -> str:
    if spread is None:
        return ""
    if least:
        return f"at least {text.single(spread.minimum, kind)}"
    return text.mean_with_n(spread, kind).removeprefix("two modes: ")


def spread_plot(
    title: str, axis: str, rows: SpreadRows, kind: units.Unit, *, least: bool = False
) -> Plot | None:
    """Quantities of one kind that were measured several times, a row each.

    Least: some of the measurements are lower limits, so that the smallest is all that is known.
    """
    means, modes, outliers = list[Point](), list[Point](), list[Point]()
    samples: list[Series] = []
    for place, (name, spread) in enumerate(rows):
        if spread is None:
            continue
        hover = _spread_hover(name, spread, kind)
        if least:
            means.append(Point(spread.minimum, place, hover=name, open="at least"))
        elif len(spread.modes) > 1:
            modes += [Point(mode, place, hover=hover) for mode in spread.modes]
        else:
            has_interval = spread.low is not None and spread.high is not None
            low, high = (spread.low, spread.high) if has_interval else (None, None)
            means.append(Point(spread.mean, place, low, high, hover))
        shown = [Point(value, place) for value in spread.values[:_MOST_SAMPLES]]
        far_places = () if least else spread.outliers
        outliers += [shown[i] for i in far_places if i < len(shown)]
        near = [point for i, point in enumerate(shown) if i not in far_places]
        samples.append(Series("one measurement", near, mark="sample"))
    if not any(p.x for p in (*means, *modes, *outliers)):
        return None
    interval = "interval of the mean"
    two = "centre of one of two groups"
    far = "far from the others, counted all the same"
    return Plot(
        title=f"{title}, {axis}",
        caption=title,
        x=Axis.in_unit(axis, kind, log_from=12, pad=6),
        y=Axis(name="", names=[name for name, _ in rows]),
        series=(
            Series("mean", means, mark="mean", range_name=interval),
            Series(two, modes, css="g1", mark="mode"),
            *samples,
            Series(far, outliers, mark="outlier"),
        ),
        notes=[Note("not measured", i) for i, (_, s) in enumerate(rows) if s is None],
        row=38,
        row_ends=[_row_end_text(s, kind, least=least) for _, s in rows],
    )


#: Name -> frame size -> quantity.
SizeSeries = Mapping[str, Mapping[int, Spread]]


def by_size_plot(
    title: str, axis: str, results: Sequence[Result], spreads_by_name: SizeSeries, kind: units.Unit
) -> Plot | None:
    """Means with their intervals by frame size, a line for each name."""
    if len({size for spreads_by_size in spreads_by_name.values() for size in spreads_by_size}) < 2:
        return None
    places = {r.frame_size: i for i, r in enumerate(results)}
    spreads = [s for spreads_by_size in spreads_by_name.values() for s in spreads_by_size.values()]
    series = []
    for index, (name, spreads_by_size) in enumerate(spreads_by_name.items()):
        css, shift = series_css(index), _spread_out(index, len(spreads_by_name), _BESIDE)
        points, modes = [], []
        for size, spread in spreads_by_size.items():
            hover = f"{size}, {name}: {text.mean_with_n(spread, kind)}"
            x = places[size]
            if len(spread.modes) > 1:
                modes += [Point(x, mode, hover=hover) for mode in spread.modes]
                continue
            has_interval = spread.low is not None and spread.high is not None
            low, high = (
                (spread.low, spread.high) if has_interval else (spread.minimum, spread.maximum)
            )
            points.append(Point(x, spread.mean, low=low, high=high, hover=hover))
        series.append(Series(name, points, css=css, line=True, shift=shift))
        series.append(Series("", modes, css=css, mark="mode", shift=shift))
    bars = "intervals of the mean" if any(s.low is not None for s in spreads) else "least to most"
    modes_note = "; diamonds: two modes" if any(len(s.modes) > 1 for s in spreads) else ""
    return Plot(
        title=title,
        caption=title,
        note=f"bars: {bars}{modes_note}",
        x=Axis(name=_SIZES, names=[r.size_name for r in results]),
        y=Axis.in_unit(axis, kind, zero=True),
        series=series,
        css="by-size",
        key=len(spreads_by_name) > 1,
    )


#: Verdict -> kind of mark.
_VERDICT_MARKS = {
    Verdict.VALID: "dot",
    Verdict.GENERATOR_LIMITED: "triangle",
    Verdict.TESTER_STALLED: "wedge",
    Verdict.INCONSISTENT: "square",
    Verdict.TIMED_OUT: "cross",
    Verdict.DUT_FAILED: "diamond",
}


def _verdict_css(verdict: Verdict) -> str:
    mark = _VERDICT_MARKS.get(verdict, "square")
    return f"{mark} v-{verdict.value.lower().replace('_', '-')}"


def loss_plot(result: Result, trials: Sequence[TrialPoint], names: Sequence[str]) -> Plot | None:
    """Loss against load: every trial of a search by its verdict."""
    if not trials:
        return None
    points: dict[Verdict, list[Point]] = defaultdict(list)
    for t in trials:
        loss = math.nan if t.loss_ratio is None else t.loss_ratio
        points[t.verdict].append(Point(t.load_fps, loss, trial=t.number))
    rules = []
    for goal in result.goals:
        css = goal_css(names.index(goal.name))
        if goal.lower_bound_fps:
            load = goal.lower_bound_fps / (result.in_sum or 1)
            rules.append(Rule(f"lower bound of {goal.name}", load, "x", f"bound {css}"))
        if goal.loss_ratio > 0:
            name = f"loss that {goal.name} allows"
            rules.append(Rule(name, goal.loss_ratio, "y", f"allowed {css}"))
    return Plot(
        title=f"Loss against load, {result.scenario}, {result.test}, {result.size_text}",
        caption=result.size_text,
        note=f"{len(trials)} trial{'s' if len(trials) > 1 else ''}",
        x=Axis.in_unit("load per sending interface, frames/s", "fps", log_from=6, pad=7),
        y=Axis(name="loss, worse direction", tick=text.tick_percent, scale="loss"),
        series=[
            Series(f"{v.value} trial", points[v], css=_verdict_css(v), mark="trials")
            for v in Verdict
        ],
        rules=rules,
        css="loss",
    )


def bounds_so_far(
    goal: GoalResult, trials: Sequence[TrialPoint]
) -> Iterator[tuple[float | None, float | None]]:
    """Lower and upper bound after each trial: too much of a load's time lost more, or not.

    Each search (a round) has its own; those that warm up move none.
    """
    bad: dict[float, float] = defaultdict(float)
    tried_s: dict[float, float] = defaultdict(float)
    failed: set[float] = set()
    bounds: tuple[float | None, float | None] = None, None
    search = trials[0].search if trials else 0
    for t in trials:
        if t.search != search:
            search, bounds = t.search, (None, None)
            for known_of in (bad, tried_s, failed):
                known_of.clear()
        if t.verdict is Verdict.VALID and t.loss_ratio is not None and t.phase != "warm-up":
            load = t.load_fps
            lost = t.loss_ratio if t.load_loss_ratio is None else t.load_loss_ratio
            bad[load] += t.duration_s if lost > goal.loss_ratio else 0.0
            tried_s[load] += t.duration_s
            (failed.add if bad[load] > goal.exceed_ratio * tried_s[load] else failed.discard)(load)
            upper = min(failed, default=None)
            carried = (load_fps for load_fps in tried_s if upper is None or load_fps < upper)
            bounds = max(carried, default=None), upper
        yield bounds


def _bound_series(goal: GoalResult, trials: Sequence[TrialPoint], css: str) -> Iterator[Series]:
    bounds = list(bounds_so_far(goal, trials))
    for index, name in enumerate(("lower", "upper")):
        steps = [
            (place, b) for place, pair in enumerate(bounds, 1) if (b := pair[index]) is not None
        ]
        points = [Point(place, bound) for place, bound in steps]
        if points:
            points.append(Point(len(trials) + 0.5, points[-1].y))
            words = f"{goal.name}: {name} bound so far"
            yield Series(words, points, css=f"closing {name} {css}", mark="steps")


def search_plot(result: Result, trials: Sequence[TrialPoint], names: Sequence[str]) -> Plot | None:
    """Loads, or lengths of bursts, in the order they were tried, with the bounds so far."""
    if len(trials) < 2:
        return None
    points: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for place, t in enumerate(trials, start=1):
        kind = (_verdict_css(t.verdict), f"{t.verdict.value} trial")
        if t.verdict is Verdict.VALID:
            kind = (
                ("ring v-lossy", "VALID, with loss")
                if t.loss_ratio
                else (kind[0], "VALID trial without loss")
            )
        points[kind].append(Point(place, t.burst or t.load_fps, trial=t.number))
    bounds = (
        series
        for goal in result.goals
        for series in _bound_series(goal, trials, goal_css(names.index(goal.name)))
    )
    marks = (
        Series(name, trial_points, css=css, mark="trials")
        for (css, name), trial_points in sorted(points.items())
    )
    bursts = any(t.burst for t in trials)
    load = "burst, frames" if bursts else "load per interface, frames/s"
    seconds = sum(t.duration_s for t in trials)
    about = f"{result.scenario}, {result.test}, {result.size_text}"
    return Plot(
        title=f"{'Bursts' if bursts else 'Loads'} in order, {about}",
        caption=result.size_text,
        note=f"{len(trials)} trials, {units.seconds(seconds)} of traffic",
        x=Axis(
            name="trials of this search, in order",
            tick=lambda v: f"{v:g}" if v == int(v) >= 1 else "",
            low=0.5,
            high=len(trials) + 0.5,
        ),
        y=Axis.in_unit(load, "fps", log_from=8, pad=4),
        series=(*bounds, *marks),
    )


def cpu_plot(group: Group, goal_name: str, roles: Sequence[str]) -> Plot | None:
    """Cores that each role uses at the lower bounds of a goal; roles: all of the run."""
    goals = [(result, _find_goal(result, goal_name)) for result in group.measured]
    rows = [(result, goal) for result, goal in goals if goal is not None and goal.threads]
    if not rows:
        return None
    points: dict[str, list[Point]] = defaultdict(list)
    for place, (result, goal) in enumerate(rows):
        start = 0.0
        for role in dict.fromkeys(use.role for use in goal.threads):
            role_threads = [use for use in goal.threads if use.role == role]
            user, system = (
                sum(use.user for use in role_threads),
                sum(use.system for use in role_threads),
            )
            end = start + user + system
            hover = (
                f"{result.size_text}, {role}: {units.significant(user + system, 3)} cores, "
                f"{units.significant(user, 3)} user and {units.significant(system, 3)} system"
            )
            points[role].append(Point(end, place, low=start, high=end, hover=hover))
            start = end
    return Plot(
        title=f"Cores by role at the lower bounds of {goal_name}, {group.title}",
        caption=f"Lower bounds of {goal_name}",
        x=Axis(
            name="cores used, user and system",
            value=lambda v: units.significant(v, 3),
            scale="linear",
            zero=True,
        ),
        y=Axis(name="octets", names=[result.size_name for result, _ in rows]),
        series=[
            Series(role, role_points, css=hop_css(role, roles), mark="bar")
            for role, role_points in points.items()
        ],
        row=22,
        inline=True,
        css="cpu",
        key=True,
    )


def hop_css(name: str, names: Sequence[str]) -> str:
    """The fill of a hop or role: by its place in the run, so that it never changes."""
    place = names.index(name)
    return f"hop h{place % 12}" + (" again" if place >= 12 else "")


_STEPS_PER_DECADE = 12
_MOST_DECADES = 9


@dataclass(frozen=True, slots=True)
class LatencyCurve:
    """Latency over 1/(1-p)."""

    points: tuple[tuple[float, float], ...]  # 1/(1-p) and nanoseconds
    exact: bool  # True from a histogram, False from a few stored percentiles


def _read_histogram(latency: Latency) -> LatencyCurve | None:
    try:
        histogram = decode_hdr(latency.hdr)
        count = histogram.get_total_count()
        if not count:
            return None
        decades = min(_MOST_DECADES, math.log10(count))
        steps = [i / _STEPS_PER_DECADE for i in range(math.ceil(decades * _STEPS_PER_DECADE))]
        levels = [10**step for step in [*steps, decades]]
        shares = [100 * (1 - 1 / level) for level in levels]
        values = map(float, percentile_values(histogram, shares))
        points = tuple(zip(levels, values, strict=True))
    except (ValueError, LookupError):
        return None
    return LatencyCurve(points, exact=True)


def latency_curve(latency: Latency) -> LatencyCurve:
    """The curve of a latency, from its histogram or else from its percentiles."""
    curve = _read_histogram(latency) if latency.hdr else None
    if curve is not None:
        return curve
    stored = latency.percentiles.items()
    numbers = [(float(p), v) for p, v in stored if p.replace(".", "", 1).isdecimal()]
    points = sorted((100 / (100 - p), v) for p, v in numbers if p < 100)
    return LatencyCurve(tuple(points), exact=False)


#: What latencies are of (a goal, a load), their direction, and the latency.
LatencyLine = tuple[str, str, Latency]


def _latency_hover(result: Result, name: str, direction: str, latency: Latency) -> str:
    percentiles = ", ".join(f"p{p} {units.nanoseconds(v)}" for p, v in latency.percentiles.items())
    return (
        f"{result.size_text}, {name}, {direction}\n{percentiles}\n"
        f"min {units.nanoseconds(latency.min_ns)}, max {units.nanoseconds(latency.max_ns)}, "
        f"{units.frames(latency.count)} frames"
    )


def _percentile_tick(level: float) -> str:
    return f"{100 - 100 / level:.10f}".rstrip("0").rstrip(".") or "0"


def latency_plot(
    result: Result, lines: Sequence[LatencyLine], names: Sequence[str], directions: Sequence[str]
) -> Plot | None:
    """Latency over percentiles, a line for each load and direction."""
    series, exact, most = [], True, 100.0
    for name, direction, latency in lines:
        curve = latency_curve(latency)
        if not curve.points:
            continue
        most, exact = max(most, curve.points[-1][0]), exact and curve.exact
        hover = _latency_hover(result, name, direction, latency)
        point_hover = "" if curve.exact else hover
        series.append(
            Series(
                f"{name}, {direction}",
                tuple(Point(x, max(v, 1.0), hover=point_hover) for x, v in curve.points),
                css=f"{goal_css(names.index(name))} d{directions.index(direction) % 3}",
                mark="none" if curve.exact else "dot",
                line=True,
                hover=hover,
            )
        )
    if not series:
        return None
    return Plot(
        title=f"Latency percentiles, {result.scenario}, {result.test}, {result.size_text}",
        caption=result.size_text,
        note="" if exact else "dots: stored percentiles, no readable histogram",
        x=Axis(
            name="percentile p in %, axis 1/(1 - p)",
            tick=_percentile_tick,
            value=lambda level: f"{100 - 100 / level:.7f}".rstrip("0").rstrip("."),
            scale="log",
            low=1.0,
            high=most * 1.04,
        ),
        y=Axis.in_unit("latency", "ns", zero=True, log_from=15),
        series=series,
        wide=True,
    )


_LOAD_PER_INTERFACE = "load per sending interface, frames/s"
_CURVE_LEVELS = ("50", "99", "99.9")


def _level_points(
    result: Result, level: str, about: str = "", *, both_ways: bool
) -> Iterator[Point]:
    """A percentile of the worse direction at each load, or of the round trip.

    Hollow where frames were lost.
    """
    for load in result.latency_at:
        values = {
            name: latency.percentiles[level]
            for name, latency in load.latency.items()
            if level in latency.percentiles and RoundTrip.is_name(name) is both_ways
        }
        if not values:
            continue
        value = max(values.values())
        values_text = ", ".join(f"{name} {units.nanoseconds(v)}" for name, v in values.items())
        lost = f"{units.percent(load.loss_ratio)} lost" if load.loss_ratio > 0 else "no loss"
        hover = f"{about}p{level} at {load.of}: {values_text}\n{lost}"
        if load.gaps is not None:
            hover += f"; the tester's poll gaps: {goal_text.gaps_text(load.gaps)}"
        load_fps = load.load_fps / (result.in_sum or 1)
        yield Point(load_fps, max(value, 1.0), hover=hover, hollow=load.loss_ratio > 0)


def _missing_loads(result: Result) -> str:
    """Loads of the curve without a number, for the note of a plot."""
    missing = [
        load.load_fps / (result.in_sum or 1) for load in result.latency_at if not load.trials
    ]
    return f"; no number at {', '.join(map(units.short_fps, missing))}" if missing else ""


def _poll_gap_series(result: Result) -> Series:
    """The tester's own wait at the 99th percentile, which is part of every latency."""
    points = [
        Point(
            load.load_fps / (result.in_sum or 1),
            max(1.0, load.gaps.poll.percentiles["99"] * 1e9),
            hover=f"the tester's poll gaps at {load.of}: {goal_text.gaps_text(load.gaps)}",
        )
        for load in result.latency_at
        if load.gaps is not None and "99" in load.gaps.poll.percentiles
    ]
    return Series(
        "the tester's poll gap, p99", points, css="limit generator", mark="none", line=True
    )


#: What a plot of latency is called, and its note, of one way and of the round trip.
_LATENCY_KINDS = {False: ("Latency", "worse direction"), True: ("Round trip", "round trip")}


def _over_load(
    title: str, caption: str, series: Sequence[Series], both_ways: bool, missing: str = ""
) -> Plot:
    return Plot(
        title=title,
        caption=caption,
        note=f"{_LATENCY_KINDS[both_ways][1]}; hollow: frames were lost{missing}",
        x=Axis.in_unit(_LOAD_PER_INTERFACE, "fps", scale="log"),
        y=Axis.in_unit("latency", "ns", scale="log"),
        series=series,
        wide=True,
        key=True,
    )


def latency_load_plot(result: Result, *, both_ways: bool) -> Plot | None:
    """Percentiles of latency against absolute load: the worse direction, or the round trip."""
    series = [
        Series(
            f"p{level}",
            tuple(_level_points(result, level, both_ways=both_ways)),
            css=f"s{index}",
            line=True,
        )
        for index, level in enumerate(_CURVE_LEVELS)
    ]
    if not any(line.points for line in series):
        return None
    size, missing = result.size_text, _missing_loads(result)
    title = f"{_LATENCY_KINDS[both_ways][0]} against load, {result.scenario}, {size}"
    return _over_load(title, size, (_poll_gap_series(result), *series), both_ways, missing)


def latencies_plot(results: Sequence[Result], level: str, *, both_ways: bool) -> Plot | None:
    """One percentile of several scenarios at the same loads: of one way, or of both."""
    series = [
        Series(
            result.scenario,
            tuple(_level_points(result, level, f"{result.scenario}, ", both_ways=both_ways)),
            css=series_css(index),
            line=True,
        )
        for index, result in enumerate(results)
    ]
    if sum(bool(line.points) for line in series) < 2:
        return None
    subject, size = f"{_LATENCY_KINDS[both_ways][0]} p{level} against load", results[0].size_text
    return _over_load(
        f"{subject} across scenarios, {size}", f"{subject} at {size}", series, both_ways
    )


def _loss_series(members: Sequence[Result]) -> Iterator[Series]:
    for index, result in enumerate(members):
        points = []
        for step in sorted(result.loss_steps, key=lambda s: s.load_fps):
            hover = (
                f"{result.size_text}: {units.percent(step.loss_ratio)} lost at "
                f"{units.percent(step.input_ratio)} = {units.fps(step.load_fps)}\n"
                f"{full_load_text(result)}\n"
                f"forwarded: {units.fps(step.forwarded_fps)}, aggregate"
            )
            points.append(Point(step.input_ratio, max(0.0, step.loss_ratio), hover=hover))
        css = series_css(index)
        yield Series(result.size_text, points, css=css, line=True)


_INPUT_RATE = "input rate, % of the largest load offered"
_LOSS = "loss, worse direction"


def loss_rate_plot(group: Group, *, small: bool) -> Plot | None:
    """Loss against load, both axes from 0 to 100 %, as RFC 2544 section 26.3 requires.

    Small: on a logarithmic axis, where small losses count as much as large ones.
    """
    members = [r for r in group.measured if r.loss_steps]
    if not members:
        return None
    title, caption, note = "Frame loss rate", "Frame loss rate", "axes 0 to 100 %"
    full_scale = {"tick": lambda ratio: f"{ratio * 100:.0f}", "low": 0.0, "high": 1.0}
    x, y = (
        Axis.in_unit(_INPUT_RATE, "ratio", **full_scale),
        Axis.in_unit(f"{_LOSS}, %", "ratio", **full_scale),
    )
    if small:
        title, note = "Loss against input rate, log scale", "log scale"
        caption = "Loss around the throughput" if group.test == "loss_profile" else "Small losses"
        x = Axis.in_unit(_INPUT_RATE, "ratio", tick=_short_percent, scale="linear")
        y = Axis.in_unit(_LOSS, "ratio", tick=text.tick_percent, scale="loss")
    return Plot(
        title=f"{title}, {group.title}",
        caption=caption,
        note=note,
        x=x,
        y=y,
        series=tuple(_loss_series(members)),
        css="loss-rate",
    )


def _short_percent(ratio: float) -> str:
    return units.percent(ratio, 3).removesuffix(" %")


def rate_curve_plot(group: Group) -> Plot | None:
    """Forwarded frames over offered ones, with the line on which all are forwarded."""
    members = [r for r in group.measured if r.rates]
    if not any(len(r.rates) > 1 for r in members):
        return None
    series = []
    for index, result in enumerate(members):
        points = []
        for step in sorted(result.rates, key=lambda f: f.load_fps):
            rate = step.forwarded_fps
            hover = (
                f"{result.size_text}, {step.of}: {text.mean_with_n(rate, 'fps')}\n"
                f"load {units.fps(step.load_fps)}, {units.percent(step.loss_ratio.mean)} lost"
            )
            points.append(
                Point(step.load_fps, rate.mean, low=rate.low, high=rate.high, hover=hover)
            )
        css = series_css(index)
        series.append(Series(result.size_text, points, css=css, line=True))
    end = min(
        max(p.x for s in series for p in s.points), max(p.y for s in series for p in s.points)
    )
    ideal = (Point(0.0, 0.0), Point(end, end))
    lossless = Series("", ideal, css="limit medium", mark="none", line=True)
    return Plot(
        title=f"Forwarding rate against load, {group.title}",
        caption="Forwarding rate against load",
        note="broken line: every frame is forwarded",
        x=Axis.in_unit("load, frames/s, aggregate", "fps", scale="linear", zero=True),
        y=Axis.in_unit("forwarded, frames/s, aggregate", "fps", scale="linear", zero=True),
        series=(lossless, *series),
        css="rate-curve",
    )


#: Columns of a plot over time: more than this is finer than a screen.
_COLUMNS = 160
#: Bins shown before the first and after the last event, at least.
_AROUND = 25
_OVER_TIME = "seconds after the first frame"


def _window(curve: Curve) -> tuple[int, int]:
    """First and last bin to show: around the events, or all of it."""
    count = len(curve.offered)
    lossy = [i for i, lost in enumerate(curve.lost) if lost > 0]
    places = [math.floor(seconds / curve.bin_s) for seconds in curve.marks.values()]
    if not places:
        return 0, count
    # Loss before the first mark is what the trial is about only after it.
    first = min(places)
    places += [i for i in lossy[-1:] if i >= first]
    around = max(_AROUND, round((max(places) - first) * 0.6))
    # More room after an event than before it: that is where its name stands.
    return max(0, first - around), min(count, max(places) + 2 * around + 1)


def _stairs(
    values: Sequence[int], first: int, group: int, bin_s: float, per: float
) -> tuple[Point, ...]:
    """Sums of whole groups of bins, divided by `per`, and the end of the last."""
    count = len(values) // group
    sums = [sum(values[i * group : (i + 1) * group]) / per for i in range(count)]
    times = [(first + i * group) * bin_s for i in range(count + 1)]
    return tuple(Point(time_s, v) for time_s, v in zip(times, [*sums, *sums[-1:]], strict=False))


def timeline_plot(title: str, curve: Curve) -> Plot | None:
    """Offered, arrived and lost frames of one trial over time, around its events."""
    first, last = _window(curve)
    if last - first < 2:
        return None
    group = math.ceil((last - first) / _COLUMNS)
    step = curve.bin_s * group
    drawn = (
        ("lost, when they were offered", curve.lost, "lost-area"),
        ("offered", curve.offered, "over-time offered"),
        ("arrived", curve.arrived, "over-time arrived"),
    )
    series = [
        Series(
            name,
            _stairs(values[first:last], first, group, curve.bin_s, step),
            css=css,
            mark="area" if css == "lost-area" else "steps",
        )
        for name, values, css in drawn
    ]
    length_words = f", part of {units.seconds(len(curve.offered) * curve.bin_s)}"
    part = first > 0 or last < len(curve.offered)
    start, end = first * curve.bin_s, series[1].points[-1].x
    return Plot(
        title=f"{title}, trial {curve.trial}",
        caption=title,
        note=f"trial {curve.trial}, bins of {units.time_s(step)}{length_words if part else ''}",
        x=Axis(name=_OVER_TIME, tick="{:.6g}".format, low=start, high=end),
        y=Axis.in_unit("frames/s, all directions", "fps", scale="linear", zero=True),
        series=series,
        rules=[
            Rule("event", seconds, "x", "mark", label=f"{words}, {seconds:.4g} s")
            for words, seconds in curve.marks.items()
            if start <= seconds <= end
        ],
        css="curve",
        wide=True,
    )


def loss_over_time_plot(title: str, curve: Curve) -> Plot | None:
    """Lost frames alone, on a scale of their own: of a long run they are few."""
    if not any(lost > 0 for lost in curve.lost):
        return None
    count = len(curve.lost)
    group = math.ceil(count / _COLUMNS)
    padded = [*curve.lost, *[0] * (-count % group)]
    points = _stairs(padded, 0, group, curve.bin_s, 1.0)
    step = units.time_s(curve.bin_s * group)
    return Plot(
        title=f"Frames lost over time, {title}",
        caption=title,
        note=f"in each {step} of {units.seconds(count * curve.bin_s)}",
        x=Axis(name=_OVER_TIME, tick="{:.6g}".format, low=0.0, high=points[-1].x),
        y=Axis.in_unit("frames lost", "frames", scale="linear", zero=True),
        series=(Series("", points, css="lost-area edged", mark="area"),),
        css="curve",
        wide=True,
    )


#: No ratio below this is drawn: it would stand for none.
_SOAK_FLOOR = 1e-12


def soak_plot(group: Group) -> Plot | None:
    """Loss ratios of long runs, with their intervals, beside their goals."""
    soaks: list[tuple[Result, Soak]] = [(r, r.soak) for r in group.measured if r.soak]
    if not soaks:
        return None
    ratios = [v for _, f in soaks for v in (f.loss_low, f.loss_ratio, f.loss_high, f.goal) if v]
    low = max(_SOAK_FLOOR, min(ratios, default=1e-9)) / 3
    high = min(1.0, max(ratios, default=1e-6) * 3)
    floor, ceiling = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
    means, goals = [], []
    for place, (result, soak) in enumerate(soaks):
        hover = (
            f"{result.size_text}: {units.percent(soak.loss_ratio)} lost, {soak.lost} of "
            f"{units.frames(soak.offered)} frames\n95 % interval: "
            f"{soak_interval(soak)}\n"
            f"limit {units.percent(soak.goal)}: {soak_verdict(soak)}"
        )
        least = None if soak.loss_high is None else soak.loss_low
        means.append(Point(soak.loss_ratio, place, low=least, high=soak.loss_high, hover=hover))
        goals.append(Point(soak.goal, place, hover=hover))
    return Plot(
        title=f"Loss ratio of the long run, {group.title}",
        caption="Loss of the long run",
        x=Axis.in_unit(
            "loss ratio, worse direction",
            "ratio",
            tick=text.tick_percent,
            scale="log",
            low=floor,
            high=ceiling,
        ),
        y=Axis(name="", names=[result.size_text for result, _ in soaks]),
        series=(
            Series("loss ratio", means, mark="mean", range_name="95 % interval"),
            Series("limit", goals, css="goal-mark", mark="tick"),
        ),
        row=36,
        row_ends=[soak_verdict(soak).partition(":")[0] for _, soak in soaks],
        css="soak",
        key=True,
    )


def cpu_load_plot(result: Result, roles: Sequence[str]) -> Plot | None:
    """Processors of each role against what was forwarded; roles: all of the run."""
    cpu_load = result.cpu_load
    if cpu_load is None:
        return None
    series = []
    for role in dict.fromkeys(name for load in cpu_load.at for name in load.roles):
        points = []
        for load in cpu_load.at:
            cost = load.roles.get(role)
            if cost is None:
                continue
            used = cost.processors
            per_frame = cost.ns_per_frame
            hover = (
                f"{role} at {load.of}: {units.significant(used.mean, 3)} processors"
                + (f", {text.mean_with_n(per_frame, 'ns')} per frame" if per_frame else "")
                + (f"\n{polls}" if (polls := polls_text(load)) else "")
            )
            low, high = (used.minimum, used.maximum) if used.n > 1 else (None, None)
            points.append(Point(load.forwarded_fps.mean, used.mean, low, high, hover))
        is_machine = role.rpartition(":")[2] == MACHINE
        css = "limit medium" if is_machine else f"s{roles.index(role) % 7}"
        series.append(
            Series(role, points, css=css, line=True, mark="none" if is_machine else "dot")
        )
    if not any(line.points for line in series):
        return None
    bars = "; bars: least to most" if any(load.forwarded_fps.n > 1 for load in cpu_load.at) else ""
    return Plot(
        title=f"Processors against load, {result.scenario}, {result.size_text}",
        caption=result.size_text,
        note=f"1 is all the time of one processor{bars}",
        x=Axis.in_unit("forwarded, frames/s, all directions", "fps", scale="linear", zero=True),
        y=Axis(name="processors kept busy", value=_processors, scale="linear", zero=True),
        series=series,
        wide=True,
        key=True,
    )


def _processors(value: float) -> str:
    return units.significant(value, 3)


def service_plot(result: Result) -> Plot | None:
    """What each step of a service came to, as a share of its limits (ITU-T Y.1564)."""
    service = result.service
    if service is None:
        return None
    rows = [(step, flow) for step in service.all_steps for flow in step.flows]
    limits = (
        ("FLR", service.loss_ratio, "loss_ratio", 1.0, ""),
        ("mean FTD", service.delay_ms, "delay_mean_ns", 1e6, " ms"),
        ("FDV", service.variation_ms, "variation_ns", 1e6, " ms"),
    )
    nonzero_limits = [row for row in limits if row[1]]  # a limit of 0 has no shares
    series, notes = [], []
    for index, (name, limit, field, unit, suffix) in enumerate(nonzero_limits):
        shift, points = _spread_out(index, len(nonzero_limits), _LANE), []
        for place, (step, flow) in enumerate(rows):
            value = getattr(flow, field)
            if value is None or not limit:
                notes.append(Note(f"{name} not measured", place, shift=shift))
                continue
            share = f"{value / unit:.4g}{suffix} of {limit:g}{suffix}"
            hover = f"{step.of}, {flow.direction}: {name} {share}"
            points.append(Point(value / unit / limit, place, hover=hover))
        series.append(Series(name, points, css=goal_css(index), mark="mean", shift=shift))
    if not any(line.points for line in series):
        return None
    return Plot(
        title=f"Share of the limits at each step, {result.scenario}, {result.size_text}",
        caption=result.size_text,
        x=Axis.in_unit("share of the limit", "ratio", zero=True, pad=6),
        y=Axis(name="", names=[f"{step.of}, {flow.direction}" for step, flow in rows]),
        series=series,
        rules=[Rule("limit", 1.0, "x", "limit medium")],
        notes=notes,
        row=17 + _LANE * len(nonzero_limits),
        row_ends=[service_verdict(step.met) for step, _ in rows],
        key=True,
    )


def figure_plot(group: Group, plot: FigurePlot) -> Plot | None:
    """Figures of a test against others that are of the same, a line for each size and direction."""
    axes: dict[str, Figure] = {}
    series: list[Series] = []
    for result in group.measured:
        figures = result.outcome.figures if result.outcome is not None else ()
        axes |= {figure.name: figure for figure in figures if figure.name in (plot.x, plot.y)}
        places = {figure.of: _mean(figure) for figure in figures if figure.name == plot.x}
        lines: dict[str, list[Point]] = {}
        for figure in figures:
            x, y = places.get(figure.of), _mean(figure)
            if figure.name == plot.y and x is not None and y is not None:
                lines.setdefault(figure.direction, []).append(_figure_point(figure, x, y))
        for direction, points in lines.items():
            name = ", ".join(filter(None, (result.size_text, direction)))
            css = series_css(len(series))
            series.append(Series(name, sorted(points, key=lambda p: p.x), css=css, line=True))
    if not series:
        return None
    x_axis, y_axis = (
        Axis.in_unit(axes[name].title, axes[name].unit, zero=True) for name in (plot.x, plot.y)
    )
    title = f"{plot.title}, {group.title}"
    return Plot(title=title, caption=plot.title, x=x_axis, y=y_axis, series=series, key=True)


def _mean(figure: Figure) -> float | None:
    return figure.value.mean if isinstance(figure.value, Spread) else figure.value


def _figure_point(figure: Figure, x: float, y: float) -> Point:
    if not isinstance(figure.value, Spread):
        return Point(x, y, hover=f"{figure.full_label}: {text.single(y, figure.unit)}")
    hover = f"{figure.full_label}: {text.mean_with_n(figure.value, figure.unit)}"
    return Point(x, y, low=figure.value.low, high=figure.value.high, hover=hover)
