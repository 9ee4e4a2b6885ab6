"""Offered, arrived and lost frames over the time of one trial: recovery, reset, soak."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from vnetperf.model.outcomes import Curve
from vnetperf.report import units_text as text
from vnetperf.report.markup import Markup, el
from vnetperf.report.plot_frame import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    at,
    legend,
    svg,
    x_axis,
    y_axis,
)
from vnetperf.report.plot_scale import Linear

#: Columns of a plot: more than this is finer than a screen.
_COLUMNS = 160
#: Bins shown before the first and after the last thing that happened, at least.
_AROUND = 25
#: The marks' names are stacked above the drawing.
_LINE = 11
#: Width of a character of theirs, about.
_WIDE = 6.4


def _window(curve: Curve) -> tuple[int, int]:
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


def _stairs(values: Sequence[float], x: Linear, y: Linear, *, start: float, step: float) -> str:
    """A line that stays level within a bin; equal neighbours are one piece."""
    path = [f"M{at(x(start))} {at(y(values[0]))}"]
    for i in range(1, len(values)):
        if values[i] != values[i - 1]:
            path.append(f"H{at(x(start + i * step))}V{at(y(values[i]))}")
    return "".join([*path, f"H{at(x(start + len(values) * step))}"])


def _marks(curve: Curve, x: Linear, top: float) -> Iterator[Markup]:
    for number, (said, seconds) in enumerate(curve.marks.items()):
        place = x(seconds)
        if not x.start <= place <= x.end:
            continue
        height = top - 4 - _LINE * (len(curve.marks) - 1 - number)
        yield el("path", d=f"M{at(place)} {at(height)}V{BOTTOM}", class_="mark")
        words = f"{said}, {seconds:.4g} s"
        side = "" if place + _WIDE * len(words) < RIGHT + 8 else "end"
        shift = -4 if side else 4
        css = f"strong haloed {side}".strip()
        yield el("text", words, x=at(place + shift), y=at(height + 3), class_=css)


def curve_plot(title: str, curve: Curve) -> Markup:
    """The plot of one trial.

    Args:
        title: What it shows.
        curve: Its counts over time.

    Returns:
        A figure; nothing without a bin.
    """
    first, last = _window(curve)
    if last - first < 2:
        return Markup("")
    group = math.ceil((last - first) / _COLUMNS)
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
    top = TOP + _LINE * max(1, len(curve.marks)) + 2
    most = max(max(values) for values in rates.values()) or 1.0
    x = Linear(start, start + count * step, LEFT, RIGHT)
    y = Linear(0.0, most * 1.04, BOTTOM, top)
    parts: list[Markup] = list(y_axis(y, "frames/s, all directions", text.tick_fps))
    ticks = [(x(v), f"{v:.6g}") for v in x.ticks()]
    parts += x_axis(ticks, "seconds after the first frame, linear scale")
    lost = _stairs(rates["lost"], x, y, start=start, step=step)
    parts.append(el("path", d=f"{lost}V{BOTTOM}H{LEFT}z", class_="lost-area"))
    for name in ("offered", "arrived"):
        stairs = _stairs(rates[name], x, y, start=start, step=step)
        parts.append(el("path", d=stairs, class_=f"over-time {name}"))
    parts += _marks(curve, x, top)
    caption = el("figcaption", el("b", title), el("span", _caption(curve, first, last, step)))
    return el("figure", caption, svg(f"{title}, trial {curve.trial}", parts, css="curve"))


def loss_over_time_plot(title: str, curve: Curve) -> Markup:
    """Lost frames alone, on a scale of their own: of a long run they are few.

    Args:
        title: What it shows.
        curve: Counts over time.

    Returns:
        A figure; nothing when no frame was lost.
    """
    count = len(curve.lost)
    if not any(lost > 0 for lost in curve.lost):
        return Markup("")
    group = math.ceil(count / _COLUMNS)
    values = _binned(curve.lost, 0, count, group)
    step = curve.bin_s * group
    x = Linear(0.0, len(values) * step, LEFT, RIGHT)
    y = Linear(0.0, max(values) * 1.05, BOTTOM, TOP)
    parts: list[Markup] = list(y_axis(y, "frames lost", text.tick_fps))
    ticks = [(x(v), f"{v:.6g}") for v in x.ticks()]
    parts += x_axis(ticks, "seconds after the first frame, linear scale")
    stairs = _stairs(values, x, y, start=0.0, step=step)
    parts.append(el("path", d=f"{stairs}V{BOTTOM}H{LEFT}z", class_="lost-area edged"))
    said = f"in each {text.time_s(step)} of {text.seconds(count * curve.bin_s)}"
    caption = el("figcaption", el("b", title), el("span", said))
    return el("figure", caption, svg(f"Frames lost over time, {title}", parts, css="curve"))


def _caption(curve: Curve, first: int, last: int, step: float) -> str:
    whole = len(curve.offered) * curve.bin_s
    said = f"trial {curve.trial}, bins of {text.time_s(step)}"
    part = first > 0 or last < len(curve.offered)
    return f"{said}, part of {text.seconds(whole)}" if part else said


def curve_legend() -> Markup:
    """What the lines of every such plot stand for.

    Returns:
        A list.
    """
    return legend(
        [
            ("line over-time offered", "offered"),
            ("line over-time arrived", "arrived"),
            ("box lost-area", "lost, when they were offered"),
            ("line mark", "what happened"),
        ]
    )
