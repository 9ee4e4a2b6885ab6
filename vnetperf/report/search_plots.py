"""Plots of a search: throughput by frame size, loss against load, order of loads, CPU by role."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vnetperf.model.result import GoalResult, Result, TrialPoint
from vnetperf.model.trial import Verdict
from vnetperf.report import goal_text, text
from vnetperf.report.plot import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    LinearScale,
    LossScale,
    Markup,
    Scale,
    coordinate,
    el,
    fitting_scale,
    legend,
    polyline,
    svg,
    x_axis,
    y_axis,
    y_name,
    y_tick,
)
from vnetperf.report.summary import Group

#: Largest over smallest rate from which the rate axis is logarithmic.
_THROUGHPUT_LOG_FROM = 10.0
_LIMITS = (
    ("media_max_fps", "limit medium", "theoretical maximum of the reference medium"),
    ("generator_max_fps", "limit generator", "the generator's calibrated clean maximum"),
)


def _size_places(group: Group) -> dict[int, float]:
    step = (RIGHT - LEFT) / len(group.results)
    return {r.frame_size: LEFT + step * (i + 0.5) for i, r in enumerate(group.results)}


def _throughput_values(group: Group) -> Iterator[float]:
    for result in group.measured:
        for name, _, _ in _LIMITS:
            if (limit := getattr(result, name)) is not None:
                yield limit
        for goal in result.goals:
            for value in (goal.lower_bound_fps, goal.upper_bound_fps):
                if value is not None:
                    yield value


def _throughput_point(result: Result, goal: GoalResult, x: float, y: Scale, css: str) -> Markup:
    value = goal_text.headline_fps(goal)
    if value is None:
        return Markup("")
    parts = [el("title", goal_text.hover_text(result.size_text, goal))]
    if goal.lower_bound_fps is not None and goal.upper_bound_fps is not None:
        low, high = coordinate(y(goal.lower_bound_fps)), coordinate(y(goal.upper_bound_fps))
        left, right = coordinate(x - 3.5), coordinate(x + 3.5)
        whisker = f"M{coordinate(x)} {low}V{high}M{left} {high}H{right}M{left} {low}H{right}"
        parts.append(el("path", d=whisker, class_=f"bar {css}"))
    place = y(value)
    if goal.qualifier == "at least":
        arrow = f"M{coordinate(x)} {coordinate(place)}v-13m-3 3l3-3l3 3"
        parts.append(el("path", d=arrow, class_=f"bar {css}"))
    if goal.qualifier == "at most":
        arrow = f"M{coordinate(x)} {coordinate(place)}v13m-3-3l3 3l3-3"
        parts.append(el("path", d=arrow, class_=f"bar {css}"))
    mark = "point" if goal.regular else "point hollow"
    parts.append(
        el("circle", cx=coordinate(x), cy=coordinate(place), r="3.5", class_=f"{mark} {css}")
    )
    return el("g", parts, class_="tip")


def _throughput_series(group: Group, index: int, name: str, y: Scale) -> Iterator[Markup]:
    places = _size_places(group)
    shift = (index - (len(group.goal_names) - 1) / 2) * 7
    css = f"g{index % 4}"
    line, points = [], []
    for result in group.measured:
        goal = next((g for g in result.goals if g.name == name), None)
        if goal is None:
            continue
        x = places[result.frame_size] + shift
        if (value := goal_text.headline_fps(goal)) is not None:
            line.append((x, y(value)))
        points.append(_throughput_point(result, goal, x, y, css))
    yield polyline(line, f"series {css}")
    yield from points


def _throughput_legend(group: Group) -> Markup:
    entries = [(f"line series g{i % 4}", n) for i, n in enumerate(group.goal_names)]
    entries += [
        (f"line {css}", said)
        for name, css, said in _LIMITS
        if any(getattr(r, name) is not None for r in group.measured)
    ]
    goals = [g for r in group.measured for g in r.goals]
    if any(not g.regular for g in goals):
        entries.append(("ring hollow", "irregular"))
    if any(g.qualifier == "at least" for g in goals):
        entries.append(("arrow key-mark", "at least"))
    if any(g.qualifier == "at most" for g in goals):
        entries.append(("arrow-down key-mark", "at most"))
    return legend(entries)


def throughput_plot(group: Group) -> Markup:
    """The plot of one scenario and test."""
    values = list(_throughput_values(group))
    if not values:
        return Markup("")
    y = fitting_scale(values, BOTTOM, TOP + 10, ratio=_THROUGHPUT_LOG_FROM, zero=True)
    places = _size_places(group)
    parts: list[Markup] = []
    directions = " or ".join(str(n) for n in sorted({r.directions for r in group.measured}))
    scale = "log scale" if y.log else "linear scale"
    parts += y_axis(y, f"frames/s, sum of {directions} direction(s), {scale}", text.tick_fps)
    ticks = ((places[r.frame_size], r.size_name) for r in group.results)
    parts += x_axis(ticks, "frame size, octets with FCS (equal steps)", grid=False)
    for name, css, _ in _LIMITS:
        known = [(r, getattr(r, name)) for r in group.measured]
        line = [(places[r.frame_size], y(v)) for r, v in known if v]
        if len(line) == 1:  # of one size a limit is a level line across the plot
            line = [(LEFT, line[0][1]), (RIGHT, line[0][1])]
        parts.append(polyline(line, css))
    for index, name in enumerate(group.goal_names):
        parts += _throughput_series(group, index, name, y)
    for result in group.results:
        if result.status == "not measured":
            where = (
                f"translate({coordinate(places[result.frame_size] + 3.5)} {BOTTOM - 8}) rotate(-90)"
            )
            parts.append(el("text", "not measured", transform=where, class_="absent"))
    title = f"Throughput against frame size, {group.title}"
    caption = el(
        "figcaption",
        el("b", "Throughput against frame size"),
        el("span", "Marks: lower bounds. Bars: from lower to upper bound.", class_="how"),
    )
    return el("figure", caption, svg(title, parts), _throughput_legend(group))


#: Verdict -> kind of mark, and the path that draws it around a point.
_VERDICT_MARKS = {
    Verdict.VALID: ("dot", "h0"),
    Verdict.GENERATOR_LIMITED: ("triangle", "m0-4l4 7h-8z"),
    Verdict.INCONSISTENT: ("square", "m-3-3h6v6h-6z"),
    Verdict.TIMED_OUT: ("cross", "m-3-3l6 6m0-6l-6 6"),
    Verdict.DUT_FAILED: ("diamond", "m0-4l4 4l-4 4l-4-4z"),
}
_LANE = 22
_FLOOR = 1e-9


def verdict_css(verdict: Verdict) -> str:
    """Class names of a verdict's mark."""
    return f"{_VERDICT_MARKS[verdict][0]} v-{verdict.value.lower().replace('_', '-')}"


def verdict_stroke(verdict: Verdict) -> str:
    """What draws a verdict's mark around a point."""
    return _VERDICT_MARKS[verdict][1]


def _per_interface(rate: float, result: Result) -> float:
    return rate / (result.in_sum or 1)


def loss_scale(ratios: Sequence[float], top: float) -> LossScale:
    """A scale of loss ratios with room below it for none."""
    low = max(_FLOOR, min((v for v in ratios if v > 0), default=1e-3))
    decade = 10.0 ** min(-2, math.floor(math.log10(low)))
    return LossScale(decade, top, BOTTOM - _LANE - 8, BOTTOM - _LANE / 2)


def _loss_marks(
    trials: Sequence[TrialPoint], x: Scale, y: LossScale, nowhere: float
) -> Iterator[Markup]:
    paths: dict[Verdict, list[str]] = defaultdict(list)
    numbers: dict[Verdict, list[str]] = defaultdict(list)
    for trial in trials:
        height = nowhere if trial.loss_ratio is None else y(trial.loss_ratio)
        stroke = _VERDICT_MARKS[trial.verdict][1]
        paths[trial.verdict].append(
            f"M{coordinate(x(trial.load_fps))} {coordinate(height)}{stroke}"
        )
        numbers[trial.verdict].append(str(trial.number))
    for verdict, strokes in paths.items():
        yield el(
            "path",
            d="".join(strokes),
            class_=verdict_css(verdict),
            data_n=",".join(numbers[verdict]),
        )


def _goal_lines(result: Result, x: Scale, y: LossScale, names: Sequence[str]) -> Iterator[Markup]:
    for goal in result.goals:
        css = f"g{names.index(goal.name) % 4}"
        if goal.lower_bound_fps:
            place = coordinate(x(_per_interface(goal.lower_bound_fps, result)))
            yield el("path", d=f"M{place} {TOP}V{BOTTOM}", class_=f"bound {css}")
        if goal.loss_ratio > 0:
            height = coordinate(y(goal.loss_ratio))
            yield el("path", d=f"M{LEFT} {height}H{RIGHT}", class_=f"allowed {css}")


def loss_plot(result: Result, trials: Sequence[TrialPoint], names: Sequence[str]) -> Markup:
    """The plot of one search."""
    if not trials:
        return Markup("")
    no_number = any(t.loss_ratio is None for t in trials)
    top = TOP + (_LANE if no_number else 6)
    found = [_per_interface(g.lower_bound_fps, result) for g in result.goals if g.lower_bound_fps]
    x = fitting_scale(
        [*(t.load_fps for t in trials), *found], LEFT + 8, RIGHT - 6, ratio=6, zero=False
    )
    seen = [t.loss_ratio for t in trials if t.loss_ratio]
    y = loss_scale([*seen, *(g.loss_ratio for g in result.goals)], top)
    parts = [
        el("rect", x=LEFT, y=BOTTOM - _LANE, width=RIGHT - LEFT, height=_LANE, class_="lane"),
        *(y_tick(y(v), text.tick_percent(v)) for v in y.ticks()),
        el("text", "no loss", x=LEFT - 6, y=coordinate(y.zero + 3.5), class_="tick end strong"),
        y_name("loss, worse direction, log scale"),
    ]
    if no_number:
        height = TOP + 4
        parts.append(el("text", "no number", x=LEFT - 6, y=height + 3.5, class_="tick end"))
    unit = "log scale" if x.log else "linear scale"
    ticks = ((x(v), text.tick_fps(v)) for v in x.ticks())
    parts += x_axis(ticks, f"load per sending interface, frames/s, {unit}")
    parts += _goal_lines(result, x, y, names)
    parts += _loss_marks(trials, x, y, TOP + 4)
    title = f"Loss against load, {result.scenario}, {result.test}, {result.size_text}"
    said = f"{len(trials)} trial{'s' if len(trials) > 1 else ''}"
    caption = el("figcaption", el("b", result.size_text), el("span", said))
    return el("figure", caption, svg(title, parts, css="loss trial-marks"))


def loss_legend(trials: Sequence[TrialPoint], group: Group) -> Markup:
    """The legend of a group's loss plots."""
    seen = {t.verdict for t in trials}
    entries = [(verdict_css(v), f"{v.value} trial") for v in Verdict if v in seen]
    lossy = {g.name for r in group.measured for g in r.goals if g.loss_ratio > 0}
    for index, name in enumerate(group.goal_names):
        entries.append((f"line bound g{index % 4}", f"lower bound of {name}"))
        if name in lossy:
            entries.append((f"line allowed g{index % 4}", f"loss that {name} allows"))
    return legend(entries)


#: Largest over smallest load from which the load axis is logarithmic.
_SEARCH_LOG_FROM = 8.0
_LOSSY = "m-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0"


@dataclass(slots=True)
class BoundsSoFar:
    """Bounds of a goal by the trials so far: a load fails once too much of its time lost more.

    Attributes:
        loss_ratio: What a trial may lose, 0..1.
        exceed_ratio: Share of a load's trial time that may lose more.
    """

    loss_ratio: float
    exceed_ratio: float
    _seconds: dict[float, tuple[float, float]] = field(default_factory=dict)
    _met: list[float] = field(default_factory=list)
    _failed: list[float] = field(default_factory=list)

    def take(self, load: float, loss: float, seconds: float) -> None:
        """Count one more trial."""
        bad, whole = self._seconds.get(load, (0.0, 0.0))
        known = load in self._seconds
        failed = known and bad > self.exceed_ratio * whole
        bad += seconds if loss > self.loss_ratio else 0.0
        whole += seconds
        self._seconds[load] = (bad, whole)
        fails = bad > self.exceed_ratio * whole
        if known and fails == failed:
            return
        if known:
            old = self._failed if failed else self._met
            del old[bisect_left(old, load)]
        insort(self._failed if fails else self._met, load)

    @property
    def upper(self) -> float | None:
        """The lowest load that fails."""
        return self._failed[0] if self._failed else None

    @property
    def lower(self) -> float | None:
        """The highest load below it that does not."""
        upper = self.upper
        below = bisect_left(self._met, upper) if upper is not None else len(self._met)
        return self._met[below - 1] if below else None


def _tried_load(trial: TrialPoint) -> float:
    """What a search tried: a load, or the length of a burst."""
    return trial.burst or trial.load_fps


def _search_marks(trials: Sequence[TrialPoint], x: Scale, y: Scale) -> Iterator[Markup]:
    paths: dict[str, list[str]] = defaultdict(list)
    numbers: dict[str, list[str]] = defaultdict(list)
    for place, trial in enumerate(trials, start=1):
        css, stroke = verdict_css(trial.verdict), verdict_stroke(trial.verdict)
        if trial.verdict is Verdict.VALID and trial.loss_ratio:
            css, stroke = "v-lossy", _LOSSY
        paths[css].append(f"M{coordinate(x(place))} {coordinate(y(_tried_load(trial)))}{stroke}")
        numbers[css].append(str(trial.number))
    for css, strokes in paths.items():
        yield el("path", d="".join(strokes), class_=css, data_n=",".join(numbers[css]))


def _bound_lines(
    goal: GoalResult, trials: Sequence[TrialPoint], x: Scale, y: Scale, css: str
) -> Iterator[Markup]:
    bounds = BoundsSoFar(goal.loss_ratio, goal.exceed_ratio)
    lines: dict[str, list[str]] = {"lower": [], "upper": []}
    last: dict[str, float | None] = {"lower": None, "upper": None}
    for place, trial in enumerate(trials, start=1):
        if trial.verdict is Verdict.VALID and trial.loss_ratio is not None:
            bounds.take(trial.load_fps, trial.loss_ratio, trial.duration_s)
        for name, value in (("lower", bounds.lower), ("upper", bounds.upper)):
            if value is None or value == last[name]:
                continue
            line = lines[name]
            line.append(
                f"H{coordinate(x(place))}V{coordinate(y(value))}"
                if line
                else f"M{coordinate(x(place))} {coordinate(y(value))}"
            )
            last[name] = value
    for name, line in lines.items():
        if line:
            yield el("path", d=f"{''.join(line)}H{RIGHT}", class_=f"closing {name} {css}")


def search_plot(result: Result, trials: Sequence[TrialPoint], names: Sequence[str]) -> Markup:
    """The plot of one search."""
    if len(trials) < 2:
        return Markup("")
    y = fitting_scale(
        (_tried_load(t) for t in trials), BOTTOM - 4, TOP + 4, ratio=_SEARCH_LOG_FROM, zero=False
    )
    x = LinearScale(1, len(trials), LEFT + 8, RIGHT - 8)
    scale = "log scale" if y.log else "linear scale"
    bursts = any(t.burst for t in trials)
    name = "burst, frames" if bursts else "load per interface, frames/s"
    parts: list[Markup] = list(y_axis(y, f"{name}, {scale}", text.tick_fps))
    ticks = [(x(v), f"{v:g}") for v in x.ticks() if v >= 1 and v == int(v)]
    parts += x_axis(ticks, "trials of this search, in order", grid=False)
    for goal in result.goals:
        parts += _bound_lines(goal, trials, x, y, f"g{names.index(goal.name) % 4}")
    parts += _search_marks(trials, x, y)
    seconds = sum(t.duration_s for t in trials)
    said = f"{len(trials)} trials, {text.seconds(seconds)} of traffic"
    caption = el("figcaption", el("b", result.size_text), el("span", said))
    what = "Bursts" if bursts else "Loads"
    title = f"{what} in order, {result.scenario}, {result.test}, {result.size_text}"
    return el("figure", caption, svg(title, parts, css="trial-marks"))


def search_legend(trials: Sequence[TrialPoint], names: Sequence[str]) -> Markup:
    """The legend of a group's plots."""
    entries = [("dot v-valid", "VALID trial without loss"), ("ring v-lossy", "VALID, with loss")]
    seen = {t.verdict for t in trials} - {Verdict.VALID}
    entries += [(verdict_css(v), f"{v.value} trial") for v in Verdict if v in seen]
    for index, name in enumerate(names):
        entries.append((f"line closing lower g{index % 4}", f"{name}: lower bound so far"))
        entries.append((f"line closing upper g{index % 4}", f"{name}: upper bound so far"))
    return legend(entries)


_CPU_LEFT = 58
_CPU_ROW, _CPU_BAR = 22, 12
_CPU_FOOT = 44
#: Fills that can be told apart.
_CPU_FILLS = 6


def _cores_by_role(goal: GoalResult) -> dict[str, tuple[float, float]]:
    """Role -> processors used in user and in kernel mode, all its threads together."""
    found: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for use in goal.threads:
        user, system = found[use.role]
        found[use.role] = (user + use.user, system + use.system)
    return dict(found)


def _cpu_bars(
    result: Result, used: dict[str, tuple[float, float]], roles: list[str], x: LinearScale, y: float
) -> Iterator[Markup]:
    start = 0.0
    for role, (user, system) in used.items():
        end = start + user + system
        said = (
            f"{result.size_text}, {role}: {text.significant(user + system, 3)} processors, "
            f"{text.significant(user, 3)} user and {text.significant(system, 3)} system"
        )
        width = max(0.0, x(end) - x(start) - 0.8)
        place = {
            "x": coordinate(x(start)),
            "y": coordinate(y),
            "width": coordinate(width),
            "height": _CPU_BAR,
        }
        shape = el("rect", **place, class_=f"hop h{roles.index(role) % _CPU_FILLS}")
        yield el("g", el("title", said), shape, class_="tip")
        start = end


def cpu_plot(group: Group, goal_name: str) -> Markup:
    """The plot of one goal."""
    rows = [
        (result, _cores_by_role(goal))
        for result in group.measured
        for goal in result.goals
        if goal.name == goal_name and goal.threads
    ]
    if not rows:
        return Markup("")
    roles = list(dict.fromkeys(role for _, used in rows for role in used))
    most = max(sum(user + system for user, system in used.values()) for _, used in rows)
    foot = TOP + _CPU_ROW * len(rows) + 4
    x = LinearScale(0.0, most * 1.04 or 1.0, _CPU_LEFT, RIGHT)
    parts: list[Markup] = []
    for value in x.ticks():
        place = coordinate(x(value))
        parts.append(el("path", d=f"M{place} {TOP}V{coordinate(foot)}", class_="grid"))
        parts.append(el("text", f"{value:g}", x=place, y=coordinate(foot + 15), class_="tick mid"))
    parts.append(el("path", d=f"M{_CPU_LEFT} {coordinate(foot)}H{RIGHT}", class_="axis"))
    for index, (result, used) in enumerate(rows):
        y = TOP + _CPU_ROW * index + (_CPU_ROW - _CPU_BAR) / 2
        name = el(
            "text",
            result.size_name,
            x=_CPU_LEFT - 6,
            y=coordinate(y + 9.5),
            class_="tick end strong",
        )
        parts += [name, *_cpu_bars(result, used, roles, x, y)]
    axis = "processors used, user and system"
    parts.append(el("text", axis, x=coordinate(WIDTH / 2), y=coordinate(foot + 34), class_="name"))
    title = f"Processors by role at the lower bounds of {goal_name}"
    caption = el("figcaption", el("b", f"Lower bounds of {goal_name}"))
    drawn = svg(f"{title}, {group.title}", parts, css="cpu", height=round(foot + _CPU_FOOT))
    key = legend((f"box hop h{i % _CPU_FILLS}", role) for i, role in enumerate(roles))
    return el("figure", caption, drawn, key)
