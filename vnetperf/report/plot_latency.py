"""Latency percentiles of every direction at each load, the way HdrHistogram draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vnetperf.model.result import Result
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


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot.

    Attributes:
        name: What the latency is of: a goal's lower bound, or a load.
        direction: "phy0->phy1".
        latency: The latency.
    """

    name: str
    direction: str
    latency: Latency


def lines_of(result: Result) -> list[Line]:
    """Latencies at the lower bounds of a search.

    Args:
        result: The result.

    Returns:
        A line for each goal and direction.
    """
    return [
        Line(goal.name, direction, latency)
        for goal in result.goals
        for direction, latency in goal.latency.items()
    ]


def _said(result: Result, line: Line) -> str:
    latency = line.latency
    known = ", ".join(f"p{p} {text.nanoseconds(v)}" for p, v in latency.percentiles.items())
    return (
        f"{result.size_text}, {line.name}, {line.direction}\n{known}\n"
        f"min {text.nanoseconds(latency.min_ns)}, max {text.nanoseconds(latency.max_ns)}, "
        f"{text.frames(latency.count)} frames"
    )


def _percentile(level: float) -> str:
    return f"{100 - 100 / level:.10f}".rstrip("0").rstrip(".") or "0"


def latency_plot(
    result: Result, lines: Sequence[Line], names: Sequence[str], directions: Sequence[str]
) -> Markup:
    """The plot of one result.

    Args:
        result: The result.
        lines: Its latencies.
        names: Names of the group's lines, which give the colours.
        directions: Names of the group's directions, which give the dashes.

    Returns:
        A figure; nothing when no latency was recorded.
    """
    found = [(line, curve(line.latency)) for line in lines]
    found = [pair for pair in found if pair[1].points]
    if not found:
        return Markup("")
    values = [v for _, c in found for _, v in c.points]
    y = fitting(values, BOTTOM, TOP + 4, ratio=_LOG_FROM, zero=True)
    most = max(level for _, c in found for level, _ in c.points)
    x = Log(1.0, max(100.0, most), LEFT, RIGHT - 4)
    scale = "log scale" if y.log else "linear scale"
    parts: list[Markup] = list(y_axis(y, f"latency, {scale}", text.tick_time))
    ticks = ((x(v), _percentile(v)) for v in x.ticks() if math.log10(v) % 1 < 1e-9)
    parts += x_axis(ticks, "percentile p in %, axis 1/(1 - p), log scale")
    for line, drawn in found:
        css = f"g{names.index(line.name) % 4} d{directions.index(line.direction) % 3}"
        places = [(x(level), y(max(v, 1.0))) for level, v in drawn.points]
        shape = [el("title", _said(result, line)), polyline(places, f"hit {css}")]
        shape.append(polyline(places, f"series {css}"))
        if not drawn.exact:
            shape += [
                el("circle", cx=at(a), cy=at(b), r="3", class_=f"point {css}") for a, b in places
            ]
        parts.append(el("g", shape, class_="tip"))
    title = f"Latency percentiles, {result.scenario}, {result.test}, {result.size_text}"
    said = (
        "" if all(c.exact for _, c in found) else "dots: stored percentiles, no readable histogram"
    )
    caption = el("figcaption", el("b", result.size_text), el("span", said))
    return el("figure", caption, svg(title, parts))


def latency_legend(names: Sequence[str], directions: Sequence[str]) -> Markup:
    """The legend of a group's latency plots.

    Args:
        names: Names of its lines: goals or loads.
        directions: Names of its directions.

    Returns:
        A list.
    """
    return legend(
        (f"line series g{i % 4} d{j % 3}", f"{name}, {direction}")
        for i, name in enumerate(names)
        for j, direction in enumerate(directions)
    )
