"""Forwarding rate against load (RFC 2889 section 5.6): does a DUT forward less of more?"""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import ForwardingRate
from vnetperf.model.result import Result
from vnetperf.report import spreads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.markup import Markup, el
from vnetperf.report.plot_frame import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    at,
    polyline,
    svg,
    x_axis,
    y_axis,
)
from vnetperf.report.plot_scale import Linear, Scale

_COLOURS = 7


def _point(result: Result, found: ForwardingRate, x: Scale, y: Scale, css: str) -> Markup:
    rate = found.forwarded_fps
    place, height = x(found.load_fps), y(rate.mean)
    said = (
        f"{result.size_text}, {found.of}: {spreads.with_n(rate, 'fps')}\n"
        f"load {text.fps(found.load_fps)}, {text.percent(found.loss_ratio.mean)} lost"
    )
    parts = [el("title", said)]
    if rate.low is not None and rate.high is not None:
        low, high = at(y(max(0.0, rate.low))), at(y(rate.high))
        parts.append(el("path", d=f"M{at(place)} {low}V{high}", class_=f"line-of {css}"))
    parts.append(el("circle", cx=at(place), cy=at(height), r="3.2", class_=f"dot-of {css}"))
    return el("g", parts, class_="tip")


def _line(result: Result, index: int, x: Scale, y: Scale) -> Iterator[Markup]:
    css = f"s{index % _COLOURS}"
    found = sorted(result.rates, key=lambda f: f.load_fps)
    yield polyline([(x(f.load_fps), y(f.forwarded_fps.mean)) for f in found], f"line-of {css}")
    for one in found:
        yield _point(result, one, x, y, css)


def rate_curve_plot(group: Group) -> Markup:
    """Forwarded frames over offered ones, with the line on which all are forwarded.

    Args:
        group: Results of one scenario and test.

    Returns:
        A figure; nothing unless a result holds rates at several loads.
    """
    members = [r for r in group.measured if r.rates]
    if not any(len(r.rates) > 1 for r in members):
        return Markup("")
    every = [found for r in members for found in r.rates]
    loads = max(found.load_fps for found in every)
    rates = max(max(f.forwarded_fps.maximum, f.forwarded_fps.high or 0.0) for f in every)
    x = Linear(0.0, loads * 1.04, LEFT, RIGHT)
    y = Linear(0.0, rates * 1.15, BOTTOM, TOP)
    parts: list[Markup] = list(y_axis(y, "forwarded, frames/s, aggregate", text.tick_fps))
    ticks = [(x(v), text.tick_fps(v)) for v in x.ticks()]
    parts += x_axis(ticks, "load, frames/s, aggregate, linear scale")
    end = min(loads, rates * 1.15)
    parts.append(polyline([(x(0.0), y(0.0)), (x(end), y(end))], "limit medium"))
    for index, result in enumerate(members):
        parts += _line(result, index, x, y)
    caption = el(
        "figcaption",
        el("b", "Forwarding rate against load"),
        el("span", "broken line: every frame is forwarded"),
    )
    title = f"Forwarding rate against load, {group.title}"
    return el("figure", caption, svg(title, parts, css="rate-curve"))
