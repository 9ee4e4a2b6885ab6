"""Plots of other tests: latency percentiles, loss and rate against load, frames over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vnetperf.model.outcomes import Curve, ForwardingRate, Soak
from vnetperf.model.result import Result
from vnetperf.model.trial import Latency
from vnetperf.report import text
from vnetperf.report.outcomes import soak_verdict
from vnetperf.report.plot import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    LinearScale,
    LogScale,
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
from vnetperf.report.search_plots import loss_scale
from vnetperf.report.summary import Group
from vnetperf.statistics.histogram import decode_hdr

_STEPS_PER_DECADE = 12
_MOST_DECADES = 9


@dataclass(frozen=True, slots=True)
class LatencyCurve:
    """Latency over 1/(1-p).

    Attributes:
        points: 1/(1-p) and nanoseconds.
        exact: True from a histogram, False from a few stored percentiles.
    """

    points: tuple[tuple[float, float], ...]
    exact: bool


def _curve_of_histogram(latency: Latency) -> LatencyCurve | None:
    try:
        histogram = decode_hdr(latency.hdr)
        count = histogram.get_total_count()
        if not count:
            return None
        decades = min(_MOST_DECADES, math.log10(count))
        steps = math.ceil(decades * _STEPS_PER_DECADE) or 1
        levels = [10 ** (decades * i / steps) for i in range(steps + 1)]
        shares = [100 * (1 - 1 / level) for level in levels]
        values = histogram.get_percentile_to_value_dict(sorted(set(shares)))
        points = tuple((lv, float(values[s])) for lv, s in zip(levels, shares, strict=True))
    except (ValueError, LookupError):
        return None
    return LatencyCurve(points, exact=True)


def _percentile_number(said: str) -> float | None:
    try:
        return float(said)
    except ValueError:
        return None


def latency_curve(latency: Latency) -> LatencyCurve:
    """The curve of a latency, from its histogram or else from its percentiles."""
    found = _curve_of_histogram(latency) if latency.hdr else None
    if found is not None:
        return found
    pairs = ((_percentile_number(p), v) for p, v in latency.percentiles.items())
    points = sorted((100 / (100 - p), v) for p, v in pairs if p is not None and 0 <= p < 100)
    return LatencyCurve(tuple(points), exact=False)


_LATENCY_LOG_FROM = 15.0


@dataclass(frozen=True, slots=True)
class LatencyLine:
    """One line of a plot.

    Attributes:
        name: What the latency is of: a goal's lower bound, or a load.
        direction: "phy0->phy1".
        latency: The latency.
    """

    name: str
    direction: str
    latency: Latency


def latency_lines(result: Result) -> list[LatencyLine]:
    """Latencies at the lower bounds of a search."""
    return [
        LatencyLine(goal.name, direction, latency)
        for goal in result.goals
        for direction, latency in goal.latency.items()
    ]


def _latency_hover(result: Result, line: LatencyLine) -> str:
    latency = line.latency
    known = ", ".join(f"p{p} {text.nanoseconds(v)}" for p, v in latency.percentiles.items())
    return (
        f"{result.size_text}, {line.name}, {line.direction}\n{known}\n"
        f"min {text.nanoseconds(latency.min_ns)}, max {text.nanoseconds(latency.max_ns)}, "
        f"{text.frames(latency.count)} frames"
    )


def _percentile_tick(level: float) -> str:
    return f"{100 - 100 / level:.10f}".rstrip("0").rstrip(".") or "0"


def latency_plot(
    result: Result, lines: Sequence[LatencyLine], names: Sequence[str], directions: Sequence[str]
) -> Markup:
    """The plot of one result."""
    found = [(line, latency_curve(line.latency)) for line in lines]
    found = [pair for pair in found if pair[1].points]
    if not found:
        return Markup("")
    values = [v for _, c in found for _, v in c.points]
    y = fitting_scale(values, BOTTOM, TOP + 4, ratio=_LATENCY_LOG_FROM, zero=True)
    most = max(level for _, c in found for level, _ in c.points)
    x = LogScale(1.0, max(100.0, most), LEFT, RIGHT - 4)
    scale = "log scale" if y.log else "linear scale"
    parts: list[Markup] = list(y_axis(y, f"latency, {scale}", text.tick_time))
    ticks = ((x(v), _percentile_tick(v)) for v in x.ticks() if math.log10(v) % 1 < 1e-9)
    parts += x_axis(ticks, "percentile p in %, axis 1/(1 - p), log scale")
    for line, drawn in found:
        css = f"g{names.index(line.name) % 4} d{directions.index(line.direction) % 3}"
        places = [(x(level), y(max(v, 1.0))) for level, v in drawn.points]
        shape = [el("title", _latency_hover(result, line)), polyline(places, f"hit {css}")]
        shape.append(polyline(places, f"series {css}"))
        if not drawn.exact:
            shape += [
                el("circle", cx=coordinate(a), cy=coordinate(b), r="3", class_=f"point {css}")
                for a, b in places
            ]
        parts.append(el("g", shape, class_="tip"))
    title = f"Latency percentiles, {result.scenario}, {result.test}, {result.size_text}"
    said = (
        "" if all(c.exact for _, c in found) else "dots: stored percentiles, no readable histogram"
    )
    caption = el("figcaption", el("b", result.size_text), el("span", said))
    return el("figure", caption, svg(title, parts))


def latency_legend(names: Sequence[str], directions: Sequence[str]) -> Markup:
    """The legend of a group's latency plots."""
    return legend(
        (f"line series g{i % 4} d{j % 3}", f"{name}, {direction}")
        for i, name in enumerate(names)
        for j, direction in enumerate(directions)
    )


#: Height of the lane for no loss at all.
_LANE = 22
#: Lines of a plot that can be told apart.
_COLOURS = 7


def _loss_points(result: Result) -> list[tuple[float, float]]:
    steps = sorted(result.loss_steps, key=lambda s: s.load_fps)
    return [(s.input_ratio, max(0.0, s.loss_ratio)) for s in steps]


def _loss_lines(
    members: Sequence[Result], x: LinearScale, y: LinearScale | LossScale
) -> Iterator[Markup]:
    for index, result in enumerate(members):
        css = f"s{index % _COLOURS}"
        places = [(x(a), y(b)) for a, b in _loss_points(result)]
        yield polyline(places, f"line-of {css}")
        for step, (a, b) in zip(
            sorted(result.loss_steps, key=lambda s: s.load_fps), places, strict=True
        ):
            said = (
                f"{result.size_text}: {text.percent(step.loss_ratio)} lost at "
                f"{text.percent(step.input_ratio)} = {text.fps(step.load_fps)}\n"
                f"forwarded: {text.fps(step.forwarded_fps)}, aggregate"
            )
            dot = el("circle", cx=coordinate(a), cy=coordinate(b), r="3.2", class_=f"dot-of {css}")
            yield el("g", el("title", said), dot, class_="tip")


def loss_rate_plot(group: Group) -> Markup:
    """Both axes from 0 to 100 %, as the clause asks for it."""
    members = [r for r in group.measured if r.loss_steps]
    if not members:
        return Markup("")
    x = LinearScale(0.0, 1.0, LEFT, RIGHT - 8, count=5)
    y = LinearScale(0.0, 1.0, BOTTOM, TOP, count=5)
    title = "Frame loss rate"
    parts: list[Markup] = list(y_axis(y, "loss, worse direction, %", _whole_percent))
    parts += x_axis(
        [(x(v), _whole_percent(v)) for v in x.ticks()], "input rate, % of the largest load"
    )
    parts += _loss_lines(members, x, y)
    caption = el("figcaption", el("b", title), el("span", "axes 0 to 100 %"))
    return el("figure", caption, svg(f"{title}, {group.title}", parts, css="loss-rate"))


def _whole_percent(ratio: float) -> str:
    return f"{ratio * 100:.0f}"


def loss_detail_plot(group: Group) -> Markup:
    """The same with the loss on a logarithmic axis: small losses count as much as large ones."""
    members = [r for r in group.measured if r.loss_steps]
    if not members:
        return Markup("")
    inputs = [a for r in members for a, _ in _loss_points(r)]
    low, high = min(inputs), max(inputs)
    room = (high - low) * 0.05 or 0.05
    x = LinearScale(max(0.0, low - room), high + room, LEFT, RIGHT - 4)
    y = loss_scale([b for r in members for _, b in _loss_points(r)], TOP + 6)
    lane = {"x": LEFT, "y": BOTTOM - _LANE, "width": RIGHT - LEFT, "height": _LANE}
    parts = [
        el("rect", **lane, class_="lane"),
        *(y_tick(y(v), text.tick_percent(v)) for v in y.ticks()),
        el("text", "no loss", x=LEFT - 6, y=coordinate(y.zero + 3.5), class_="tick end strong"),
        y_name("loss, worse direction, log scale"),
    ]
    ticks = [(x(v), text.percent(v, 3).removesuffix(" %")) for v in x.ticks()]
    parts += x_axis(ticks, "input rate, % of the largest load")
    parts += _loss_lines(members, x, y)
    name = "Loss around the throughput" if group.test == "loss_profile" else "Small losses"
    caption = el("figcaption", el("b", name), el("span", "log scale"))
    title = f"Loss against input rate, log scale, {group.title}"
    return el("figure", caption, svg(title, parts, css="loss-rate"))


def sizes_legend(members: Sequence[Result]) -> Markup:
    """A legend of lines by frame size."""
    return legend((f"line line-of s{i % _COLOURS}", r.size_text) for i, r in enumerate(members))


def _rate_point(result: Result, found: ForwardingRate, x: Scale, y: Scale, css: str) -> Markup:
    rate = found.forwarded_fps
    place, height = x(found.load_fps), y(rate.mean)
    said = (
        f"{result.size_text}, {found.of}: {text.mean_with_n(rate, 'fps')}\n"
        f"load {text.fps(found.load_fps)}, {text.percent(found.loss_ratio.mean)} lost"
    )
    parts = [el("title", said)]
    if rate.low is not None and rate.high is not None:
        low, high = coordinate(y(max(0.0, rate.low))), coordinate(y(rate.high))
        parts.append(el("path", d=f"M{coordinate(place)} {low}V{high}", class_=f"line-of {css}"))
    parts.append(
        el("circle", cx=coordinate(place), cy=coordinate(height), r="3.2", class_=f"dot-of {css}")
    )
    return el("g", parts, class_="tip")


def _rate_line(result: Result, index: int, x: Scale, y: Scale) -> Iterator[Markup]:
    css = f"s{index % _COLOURS}"
    found = sorted(result.rates, key=lambda f: f.load_fps)
    yield polyline([(x(f.load_fps), y(f.forwarded_fps.mean)) for f in found], f"line-of {css}")
    for one in found:
        yield _rate_point(result, one, x, y, css)


def rate_curve_plot(group: Group) -> Markup:
    """Forwarded frames over offered ones, with the line on which all are forwarded."""
    members = [r for r in group.measured if r.rates]
    if not any(len(r.rates) > 1 for r in members):
        return Markup("")
    every = [found for r in members for found in r.rates]
    loads = max(found.load_fps for found in every)
    rates = max(max(f.forwarded_fps.maximum, f.forwarded_fps.high or 0.0) for f in every)
    x = LinearScale(0.0, loads * 1.04, LEFT, RIGHT)
    y = LinearScale(0.0, rates * 1.15, BOTTOM, TOP)
    parts: list[Markup] = list(y_axis(y, "forwarded, frames/s, aggregate", text.tick_fps))
    ticks = [(x(v), text.tick_fps(v)) for v in x.ticks()]
    parts += x_axis(ticks, "load, frames/s, aggregate, linear scale")
    end = min(loads, rates * 1.15)
    parts.append(polyline([(x(0.0), y(0.0)), (x(end), y(end))], "limit medium"))
    for index, result in enumerate(members):
        parts += _rate_line(result, index, x, y)
    caption = el(
        "figcaption",
        el("b", "Forwarding rate against load"),
        el("span", "broken line: every frame is forwarded"),
    )
    title = f"Forwarding rate against load, {group.title}"
    return el("figure", caption, svg(title, parts, css="rate-curve"))


#: Columns of a plot: more than this is finer than a screen.
_TIMELINE_COLUMNS = 160
#: Bins shown before the first and after the last thing that happened, at least.
_AROUND = 25
#: The marks' names are stacked above the drawing.
_MARK_LINE = 11
#: Width of a character of theirs, about.
_CHARACTER_WIDTH = 6.4


def _timeline_window(curve: Curve) -> tuple[int, int]:
    """First and last bin to show: around what happened, or all of it."""
    count = len(curve.offered)
    lossy = [i for i, lost in enumerate(curve.lost) if lost > 0]
    places = [math.floor(seconds / curve.bin_s) for seconds in curve.marks.values()]
    if not places:
        return 0, count
    # Loss before the first mark is what the trial is about only after it.
    first = min(places)
    places += [i for i in lossy[-1:] if i >= first]
    around = max(_AROUND, round((max(places) - first) * 0.6))
    # More room after what happened than before it: that is where its names stand.
    return max(0, first - around), min(count, max(places) + 2 * around + 1)


def _binned(values: Sequence[int], first: int, last: int, group: int) -> list[float]:
    return [sum(values[i : i + group]) for i in range(first, last, group)]


def _stairs(
    values: Sequence[float], x: LinearScale, y: LinearScale, *, start: float, step: float
) -> str:
    """A line that stays level within a bin; equal neighbours are one piece."""
    path = [f"M{coordinate(x(start))} {coordinate(y(values[0]))}"]
    for i in range(1, len(values)):
        if values[i] != values[i - 1]:
            path.append(f"H{coordinate(x(start + i * step))}V{coordinate(y(values[i]))}")
    return "".join([*path, f"H{coordinate(x(start + len(values) * step))}"])


def _event_marks(curve: Curve, x: LinearScale, top: float) -> Iterator[Markup]:
    for number, (said, seconds) in enumerate(curve.marks.items()):
        place = x(seconds)
        if not x.start <= place <= x.end:
            continue
        height = top - 4 - _MARK_LINE * (len(curve.marks) - 1 - number)
        yield el("path", d=f"M{coordinate(place)} {coordinate(height)}V{BOTTOM}", class_="mark")
        words = f"{said}, {seconds:.4g} s"
        side = "" if place + _CHARACTER_WIDTH * len(words) < RIGHT + 8 else "end"
        shift = -4 if side else 4
        css = f"strong haloed {side}".strip()
        yield el("text", words, x=coordinate(place + shift), y=coordinate(height + 3), class_=css)


def timeline_plot(title: str, curve: Curve) -> Markup:
    """The plot of one trial."""
    first, last = _timeline_window(curve)
    if last - first < 2:
        return Markup("")
    group = math.ceil((last - first) / _TIMELINE_COLUMNS)
    step = curve.bin_s * group
    lines = {
        "offered": _binned(curve.offered, first, last, group),
        "arrived": _binned(curve.arrived, first, last, group),
        "lost": _binned(curve.lost, first, last, group),
    }
    # The last column may be cut short by the end of the window.
    short = (last - first) % group
    if short:
        lines = {name: values[:-1] for name, values in lines.items()}
    rates = {name: [v / step for v in values] for name, values in lines.items()}
    count = len(rates["offered"])
    if not count:
        return Markup("")
    start = first * curve.bin_s
    top = TOP + _MARK_LINE * max(1, len(curve.marks)) + 2
    most = max(max(values) for values in rates.values()) or 1.0
    x = LinearScale(start, start + count * step, LEFT, RIGHT)
    y = LinearScale(0.0, most * 1.04, BOTTOM, top)
    parts: list[Markup] = list(y_axis(y, "frames/s, all directions", text.tick_fps))
    ticks = [(x(v), f"{v:.6g}") for v in x.ticks()]
    parts += x_axis(ticks, "seconds after the first frame, linear scale")
    lost = _stairs(rates["lost"], x, y, start=start, step=step)
    parts.append(el("path", d=f"{lost}V{BOTTOM}H{LEFT}z", class_="lost-area"))
    for name in ("offered", "arrived"):
        stairs = _stairs(rates[name], x, y, start=start, step=step)
        parts.append(el("path", d=stairs, class_=f"over-time {name}"))
    parts += _event_marks(curve, x, top)
    caption = el(
        "figcaption", el("b", title), el("span", _timeline_caption(curve, first, last, step))
    )
    return el("figure", caption, svg(f"{title}, trial {curve.trial}", parts, css="curve"))


def loss_over_time_plot(title: str, curve: Curve) -> Markup:
    """Lost frames alone, on a scale of their own: of a long run they are few."""
    count = len(curve.lost)
    if not any(lost > 0 for lost in curve.lost):
        return Markup("")
    group = math.ceil(count / _TIMELINE_COLUMNS)
    values = _binned(curve.lost, 0, count, group)
    step = curve.bin_s * group
    x = LinearScale(0.0, len(values) * step, LEFT, RIGHT)
    y = LinearScale(0.0, max(values) * 1.05, BOTTOM, TOP)
    parts: list[Markup] = list(y_axis(y, "frames lost", text.tick_fps))
    ticks = [(x(v), f"{v:.6g}") for v in x.ticks()]
    parts += x_axis(ticks, "seconds after the first frame, linear scale")
    stairs = _stairs(values, x, y, start=0.0, step=step)
    parts.append(el("path", d=f"{stairs}V{BOTTOM}H{LEFT}z", class_="lost-area edged"))
    said = f"in each {text.time_s(step)} of {text.seconds(count * curve.bin_s)}"
    caption = el("figcaption", el("b", title), el("span", said))
    return el("figure", caption, svg(f"Frames lost over time, {title}", parts, css="curve"))


def _timeline_caption(curve: Curve, first: int, last: int, step: float) -> str:
    whole = len(curve.offered) * curve.bin_s
    said = f"trial {curve.trial}, bins of {text.time_s(step)}"
    part = first > 0 or last < len(curve.offered)
    return f"{said}, part of {text.seconds(whole)}" if part else said


def timeline_legend() -> Markup:
    """What the lines of every such plot stand for."""
    return legend(
        [
            ("line over-time offered", "offered"),
            ("line over-time arrived", "arrived"),
            ("box lost-area", "lost, when they were offered"),
            ("line mark", "what happened"),
        ]
    )


_SOAK_LEFT = 12
_SOAK_ROW = 36
_SOAK_FOOT = 44
#: No ratio below this is drawn: it would stand for none.
_SOAK_FLOOR = 1e-12


def _soak_row(result: Result, found: Soak, x: LogScale, top: float) -> Markup:
    y = top + 26
    low, high = x(max(_SOAK_FLOOR, found.loss_low)), x(max(_SOAK_FLOOR, found.loss_high))
    said = (
        f"{result.size_text}: {text.percent(found.loss_ratio)} lost, {found.lost} of "
        f"{text.frames(found.offered)} frames\n95 % interval {text.percent(found.loss_low, 3)} to "
        f"{text.percent(found.loss_high, 3)}\nheld against {text.percent(found.goal)}: "
        f"{soak_verdict(found)}"
    )
    start = (
        f"M{coordinate(low)} {coordinate(y)}"
        if found.loss_low > 0
        else f"M{_SOAK_LEFT} {coordinate(y)}"
    )
    shape = [
        el("title", said),
        el("path", d=f"M{_SOAK_LEFT} {coordinate(y)}H{RIGHT}", class_="hit"),
        el("path", d=f"{start}H{coordinate(max(high, low + 1))}", class_="interval"),
    ]
    if found.loss_ratio > 0:
        place = x(found.loss_ratio)
        shape.append(el("path", d=f"M{coordinate(place)} {coordinate(y - 6)}v12", class_="middle"))
    goal = coordinate(x(found.goal)) if found.goal > 0 else str(_SOAK_LEFT)
    shape.append(el("path", d=f"M{goal} {coordinate(y - 11)}v22", class_="goal-mark"))
    verdict = soak_verdict(found).partition(":")[0]
    return el(
        "g",
        el("text", result.size_text, x=_SOAK_LEFT, y=coordinate(top + 11), class_="strong"),
        el("text", verdict, x=RIGHT, y=coordinate(top + 11), class_="end"),
        el("g", shape, class_="tip"),
    )


def soak_plot(group: Group) -> Markup:
    """Loss ratios of one scenario."""
    known = [(r, r.soak) for r in group.measured if r.soak]
    if not known:
        return Markup("")
    seen = [v for _, f in known for v in (f.loss_low, f.loss_ratio, f.loss_high, f.goal) if v > 0]
    low = max(_SOAK_FLOOR, min(seen, default=1e-9)) / 3
    high = min(1.0, max(seen, default=1e-6) * 3)
    x = LogScale(
        10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)), _SOAK_LEFT, RIGHT - 8
    )
    foot = TOP + _SOAK_ROW * len(known) + 6
    parts: list[Markup] = []
    ticks = x.ticks()
    for value in ticks[:: math.ceil(len(ticks) / 6)]:
        place = coordinate(x(value))
        parts.append(el("path", d=f"M{place} {TOP}V{coordinate(foot)}", class_="grid"))
        said = text.tick_percent(value)
        parts.append(el("text", said, x=place, y=coordinate(foot + 15), class_="tick mid"))
    parts.append(el("path", d=f"M{_SOAK_LEFT} {coordinate(foot)}H{RIGHT}", class_="axis"))
    name = "loss ratio, worse direction, log scale"
    parts.append(el("text", name, x=coordinate(WIDTH / 2), y=coordinate(foot + 34), class_="name"))
    parts += [_soak_row(*pair, x, TOP + _SOAK_ROW * i) for i, pair in enumerate(known)]
    entries = [("bar-up middle", "loss ratio"), ("line interval", "95 % interval")]
    entries.append(("bar-up goal-mark", "held against"))
    caption = el("figcaption", el("b", "Loss of the long run"))
    title = f"Loss ratio of the long run, {group.title}"
    drawn = svg(title, parts, css="soak", height=round(foot + _SOAK_FOOT))
    return el("figure", caption, drawn, legend(entries))
