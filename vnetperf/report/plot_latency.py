"""Latency percentiles of every direction at the lower bounds, the way HdrHistogram draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vnetperf.model.result import GoalResult, Result
from vnetperf.model.trial import Latency
from vnetperf.report import units_text as text
from vnetperf.report.latency_curve import curve
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
from vnetperf.report.plot_scale import Log, fitting

_LOG_FROM = 15.0


def _said(result: Result, goal: GoalResult, direction: str, latency: Latency) -> str:
    known = ", ".join(f"p{p} {text.nanoseconds(v)}" for p, v in latency.percentiles.items())
    return (
        f"{result.size_text}, {goal.name}, {direction}\n{known}\n"
        f"min {text.nanoseconds(latency.min_ns)}, max {text.nanoseconds(latency.max_ns)}, "
        f"{text.frames(latency.count)} frames"
    )


def _percentile(level: float) -> str:
    return f"{100 - 100 / level:.10f}".rstrip("0").rstrip(".") or "0"


def latency_plot(result: Result, names: Sequence[str], directions: Sequence[str]) -> Markup:
    """The plot of one result.

    Args:
        result: The result.
        names: Names of the group's goals, which give the colours.
        directions: Names of the group's directions, which give the dashes.

    Returns:
        A figure; nothing when no latency was recorded.
    """
    found = [
        (goal, direction, latency, curve(latency))
        for goal in result.goals
        for direction, latency in goal.latency.items()
    ]
    found = [f for f in found if f[3].points]
    if not found:
        return Markup("")
    values = [v for *_, c in found for _, v in c.points]
    y = fitting(values, BOTTOM, TOP + 4, ratio=_LOG_FROM, zero=True)
    most = max(level for *_, c in found for level, _ in c.points)
    x = Log(1.0, max(100.0, most), LEFT, RIGHT - 4)
    scale = "log scale" if y.log else "linear scale"
    parts: list[Markup] = list(y_axis(y, f"latency, {scale}", text.tick_time))
    ticks = ((x(v), _percentile(v)) for v in x.ticks() if math.log10(v) % 1 < 1e-9)
    parts += x_axis(ticks, "percentile p in %, axis 1/(1 - p), log scale")
    for goal, direction, latency, line in found:
        css = f"g{names.index(goal.name) % 4} d{directions.index(direction) % 3}"
        places = [(x(level), y(max(v, 1.0))) for level, v in line.points]
        shape = [
            el("title", _said(result, goal, direction, latency)),
            polyline(places, f"hit {css}"),
        ]
        shape.append(polyline(places, f"series {css}"))
        if not line.exact:
            shape += [
                el("circle", cx=at(a), cy=at(b), r="3", class_=f"point {css}") for a, b in places
            ]
        parts.append(el("g", shape, class_="tip"))
    title = f"Latency percentiles, {result.scenario}, {result.test}, {result.size_text}"
    said = (
        "" if all(c.exact for *_, c in found) else "dots: stored percentiles, no readable histogram"
    )
    caption = el("figcaption", el("b", result.size_text), el("span", said))
    return el("figure", caption, svg(title, parts))


def latency_legend(names: Sequence[str], directions: Sequence[str]) -> Markup:
    """The legend of a group's latency plots.

    Args:
        names: Names of its goals.
        directions: Names of its directions.

    Returns:
        A list.
    """
    return legend(
        (f"line series g{i % 4} d{j % 3}", f"{name}, {direction}")
        for i, name in enumerate(names)
        for j, direction in enumerate(directions)
    )
