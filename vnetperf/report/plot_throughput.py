"""Throughput against frame size (RFC 2544 section 26.1), with the two limits drawn in."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.result import GoalResult, Result
from vnetperf.report import bounds
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.markup import Markup, el
from vnetperf.report.plot_frame import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    at,
    legend,
    polyline,
    svg,
    x_axis,
    y_axis,
)
from vnetperf.report.plot_scale import Scale, fitting

#: Largest over smallest rate from which the rate axis is logarithmic.
_LOG_FROM = 10.0
_LIMITS = (
    ("media_max_fps", "limit medium", "theoretical maximum of the reference medium"),
    ("generator_max_fps", "limit generator", "the generator's calibrated clean maximum"),
)


def _places(group: Group) -> dict[int, float]:
    step = (RIGHT - LEFT) / len(group.results)
    return {r.frame_size: LEFT + step * (i + 0.5) for i, r in enumerate(group.results)}


def _values(group: Group) -> Iterator[float]:
    for result in group.measured:
        for name, _, _ in _LIMITS:
            if (limit := getattr(result, name)) is not None:
                yield limit
        for goal in result.goals:
            for value in (goal.lower_bound_fps, goal.upper_bound_fps):
                if value is not None:
                    yield value


def _point(result: Result, goal: GoalResult, x: float, y: Scale, css: str) -> Markup:
    value = bounds.headline_fps(goal)
    if value is None:
        return Markup("")
    parts = [el("title", bounds.hover(result.size_text, goal))]
    if goal.lower_bound_fps is not None and goal.upper_bound_fps is not None:
        low, high = at(y(goal.lower_bound_fps)), at(y(goal.upper_bound_fps))
        left, right = at(x - 3.5), at(x + 3.5)
        whisker = f"M{at(x)} {low}V{high}M{left} {high}H{right}M{left} {low}H{right}"
        parts.append(el("path", d=whisker, class_=f"bar {css}"))
    place = y(value)
    if goal.qualifier == "at least":
        arrow = f"M{at(x)} {at(place)}v-13m-3 3l3-3l3 3"
        parts.append(el("path", d=arrow, class_=f"bar {css}"))
    if goal.qualifier == "at most":
        arrow = f"M{at(x)} {at(place)}v13m-3-3l3 3l3-3"
        parts.append(el("path", d=arrow, class_=f"bar {css}"))
    mark = "point" if goal.regular else "point hollow"
    parts.append(el("circle", cx=at(x), cy=at(place), r="3.5", class_=f"{mark} {css}"))
    return el("g", parts, class_="tip")


def _series(group: Group, index: int, name: str, y: Scale) -> Iterator[Markup]:
    places = _places(group)
    shift = (index - (len(group.goal_names) - 1) / 2) * 7
    css = f"g{index % 4}"
    line, points = [], []
    for result in group.measured:
        goal = next((g for g in result.goals if g.name == name), None)
        if goal is None:
            continue
        x = places[result.frame_size] + shift
        if (value := bounds.headline_fps(goal)) is not None:
            line.append((x, y(value)))
        points.append(_point(result, goal, x, y, css))
    yield polyline(line, f"series {css}")
    yield from points


def _legend(group: Group) -> Markup:
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
    """The plot of one scenario and test.

    Args:
        group: Its results.

    Returns:
        A figure; nothing when no size was measured.
    """
    values = list(_values(group))
    if not values:
        return Markup("")
    y = fitting(values, BOTTOM, TOP + 10, ratio=_LOG_FROM, zero=True)
    places = _places(group)
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
        parts += _series(group, index, name, y)
    for result in group.results:
        if result.status == "not measured":
            where = f"translate({at(places[result.frame_size] + 3.5)} {BOTTOM - 8}) rotate(-90)"
            parts.append(el("text", "not measured", transform=where, class_="absent"))
    title = f"Throughput against frame size, {group.title}"
    caption = el(
        "figcaption",
        el("b", "Throughput against frame size"),
        el("span", "Marks: lower bounds. Bars: from lower to upper bound.", class_="how"),
    )
    return el("figure", caption, svg(title, parts), _legend(group))
