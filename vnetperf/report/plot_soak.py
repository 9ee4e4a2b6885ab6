"""Loss ratios of long runs: each with its interval, and what it is held against."""

from __future__ import annotations

import math

from vnetperf.model.outcomes import Soak
from vnetperf.model.result import Result
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.markup import Markup, el
from vnetperf.report.outcomes.soak import judgement
from vnetperf.report.plot_frame import RIGHT, TOP, WIDTH, at, legend, svg
from vnetperf.report.plot_scale import Log

_LEFT = 12
_ROW = 36
_FOOT = 44
#: No ratio below this is drawn: it would stand for none.
_FLOOR = 1e-12


def _row(result: Result, found: Soak, x: Log, top: float) -> Markup:
    y = top + 26
    low, high = x(max(_FLOOR, found.loss_low)), x(max(_FLOOR, found.loss_high))
    said = (
        f"{result.size_text}: {text.percent(found.loss_ratio)} lost, {found.lost} of "
        f"{text.frames(found.offered)} frames\n95 % interval {text.percent(found.loss_low, 3)} to "
        f"{text.percent(found.loss_high, 3)}\nheld against {text.percent(found.goal)}: "
        f"{judgement(found)}"
    )
    start = f"M{at(low)} {at(y)}" if found.loss_low > 0 else f"M{_LEFT} {at(y)}"
    shape = [
        el("title", said),
        el("path", d=f"M{_LEFT} {at(y)}H{RIGHT}", class_="hit"),
        el("path", d=f"{start}H{at(max(high, low + 1))}", class_="interval"),
    ]
    if found.loss_ratio > 0:
        place = x(found.loss_ratio)
        shape.append(el("path", d=f"M{at(place)} {at(y - 6)}v12", class_="middle"))
    goal = at(x(found.goal)) if found.goal > 0 else str(_LEFT)
    shape.append(el("path", d=f"M{goal} {at(y - 11)}v22", class_="goal-mark"))
    verdict = judgement(found).partition(":")[0]
    return el(
        "g",
        el("text", result.size_text, x=_LEFT, y=at(top + 11), class_="strong"),
        el("text", verdict, x=RIGHT, y=at(top + 11), class_="end"),
        el("g", shape, class_="tip"),
    )


def soak_plot(group: Group) -> Markup:
    """Loss ratios of one scenario.

    Args:
        group: Its results.

    Returns:
        A figure; nothing without a soak.
    """
    known = [(r, r.soak) for r in group.measured if r.soak]
    if not known:
        return Markup("")
    seen = [v for _, f in known for v in (f.loss_low, f.loss_ratio, f.loss_high, f.goal) if v > 0]
    low = max(_FLOOR, min(seen, default=1e-9)) / 3
    high = min(1.0, max(seen, default=1e-6) * 3)
    x = Log(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)), _LEFT, RIGHT - 8)
    foot = TOP + _ROW * len(known) + 6
    parts: list[Markup] = []
    ticks = x.ticks()
    for value in ticks[:: math.ceil(len(ticks) / 6)]:
        place = at(x(value))
        parts.append(el("path", d=f"M{place} {TOP}V{at(foot)}", class_="grid"))
        said = text.tick_percent(value)
        parts.append(el("text", said, x=place, y=at(foot + 15), class_="tick mid"))
    parts.append(el("path", d=f"M{_LEFT} {at(foot)}H{RIGHT}", class_="axis"))
    name = "loss ratio, worse direction, log scale"
    parts.append(el("text", name, x=at(WIDTH / 2), y=at(foot + 34), class_="name"))
    parts += [_row(*pair, x, TOP + _ROW * i) for i, pair in enumerate(known)]
    entries = [("bar-up middle", "loss ratio"), ("line interval", "95 % interval")]
    entries.append(("bar-up goal-mark", "held against"))
    caption = el("figcaption", el("b", "Loss of the long run"))
    title = f"Loss ratio of the long run, {group.title}"
    drawn = svg(title, parts, css="soak", height=round(foot + _FOOT))
    return el("figure", caption, drawn, legend(entries))
