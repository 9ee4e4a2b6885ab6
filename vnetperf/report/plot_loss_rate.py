"""Loss against input rate, both in percent (RFC 2544 section 26.3): a line for each frame size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetperf.model.result import Result
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
    y_name,
    y_tick,
)
from vnetperf.report.plot_loss import loss_scale
from vnetperf.report.plot_scale import Linear, Loss

#: Height of the lane for no loss at all.
_LANE = 22
#: Lines of a plot that can be told apart.
_COLOURS = 7


def _points(result: Result) -> list[tuple[float, float]]:
    steps = sorted(result.loss_steps, key=lambda s: s.load_fps)
    return [(s.input_ratio, max(0.0, s.loss_ratio)) for s in steps]


def _lines(members: Sequence[Result], x: Linear, y: Linear | Loss) -> Iterator[Markup]:
    for index, result in enumerate(members):
        css = f"s{index % _COLOURS}"
        places = [(x(a), y(b)) for a, b in _points(result)]
        yield polyline(places, f"line-of {css}")
        for step, (a, b) in zip(
            sorted(result.loss_steps, key=lambda s: s.load_fps), places, strict=True
        ):
            said = (
                f"{result.size_text}: {text.percent(step.loss_ratio)} lost at "
                f"{text.percent(step.input_ratio)} = {text.fps(step.load_fps)}\n"
                f"forwarded: {text.fps(step.forwarded_fps)}, aggregate"
            )
            dot = el("circle", cx=at(a), cy=at(b), r="3.2", class_=f"dot-of {css}")
            yield el("g", el("title", said), dot, class_="tip")


def loss_rate_plot(group: Group) -> Markup:
    """Both axes from 0 to 100 %, as the clause asks for it.

    Args:
        group: Results of one scenario and test.

    Returns:
        A figure; nothing without a step.
    """
    members = [r for r in group.measured if r.loss_steps]
    if not members:
        return Markup("")
    x = Linear(0.0, 1.0, LEFT, RIGHT - 8, count=5)
    y = Linear(0.0, 1.0, BOTTOM, TOP, count=5)
    title = "Frame loss rate"
    parts: list[Markup] = list(y_axis(y, "loss, worse direction, %", _whole))
    parts += x_axis([(x(v), _whole(v)) for v in x.ticks()], "input rate, % of the largest load")
    parts += _lines(members, x, y)
    caption = el("figcaption", el("b", title), el("span", "axes 0 to 100 %"))
    return el("figure", caption, svg(f"{title}, {group.title}", parts, css="loss-rate"))


def _whole(ratio: float) -> str:
    return f"{ratio * 100:.0f}"


def loss_detail_plot(group: Group) -> Markup:
    """The same with the loss on a logarithmic axis: small losses count as much as large ones.

    Args:
        group: Results of one scenario and test.

    Returns:
        A figure; nothing without a step.
    """
    members = [r for r in group.measured if r.loss_steps]
    if not members:
        return Markup("")
    inputs = [a for r in members for a, _ in _points(r)]
    low, high = min(inputs), max(inputs)
    room = (high - low) * 0.05 or 0.05
    x = Linear(max(0.0, low - room), high + room, LEFT, RIGHT - 4)
    y = loss_scale([b for r in members for _, b in _points(r)], TOP + 6)
    lane = {"x": LEFT, "y": BOTTOM - _LANE, "width": RIGHT - LEFT, "height": _LANE}
    parts = [
        el("rect", **lane, class_="lane"),
        *(y_tick(y(v), text.tick_percent(v)) for v in y.ticks()),
        el("text", "no loss", x=LEFT - 6, y=at(y.zero + 3.5), class_="tick end strong"),
        y_name("loss, worse direction, log scale"),
    ]
    ticks = [(x(v), text.percent(v, 3).removesuffix(" %")) for v in x.ticks()]
    parts += x_axis(ticks, "input rate, % of the largest load")
    parts += _lines(members, x, y)
    name = "Loss around the throughput" if group.test == "loss_profile" else "Small losses"
    caption = el("figcaption", el("b", name), el("span", "log scale"))
    title = f"Loss against input rate, log scale, {group.title}"
    return el("figure", caption, svg(title, parts, css="loss-rate"))


def sizes_legend(members: Sequence[Result]) -> Markup:
    """A legend of lines by frame size.

    Args:
        members: The results that have a line, in its order.

    Returns:
        A list.
    """
    return legend((f"line line-of s{i % _COLOURS}", r.size_text) for i, r in enumerate(members))
