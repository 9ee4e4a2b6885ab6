"""Throughput by variant at one frame size: a row for each variant, bounds from left to right."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.result import ComparedVariant, GoalResult
from vnetperf.report import bounds
from vnetperf.report import units_text as text
from vnetperf.report.comparing import Compared
from vnetperf.report.markup import Markup, el
from vnetperf.report.plot_frame import RIGHT, TOP, WIDTH, at, legend, svg
from vnetperf.report.plot_scale import Scale, fitting

#: Largest over smallest rate from which the axis is logarithmic.
_LOG_FROM = 10.0
_LEFT = 12
#: Height of a variant's name, and of a goal's marks below it.
_NAME, _MARK = 17, 11
_FOOT = 44
#: Longest name that fits beside nothing else.
_LONGEST = 56


def _height_of_row(compared: Compared) -> int:
    return _NAME + _MARK * max(1, len(compared.goal_names))


def _values(compared: Compared, size: int) -> Iterator[float]:
    for variant in compared.comparison.variants:
        for name in compared.goal_names:
            goal = compared.goal(variant, size, name)
            for value in (goal.lower_bound_fps, goal.upper_bound_fps) if goal else ():
                if value is not None:
                    yield value


def _point(variant: ComparedVariant, goal: GoalResult, x: Scale, y: float, css: str) -> Markup:
    value = bounds.headline_fps(goal)
    if value is None:
        return el("text", bounds.NO_LOAD_MET, x=_LEFT, y=at(y + 3.5), class_="absent")
    parts = [el("title", bounds.hover(variant.variant, goal))]
    if goal.lower_bound_fps is not None and goal.upper_bound_fps is not None:
        low, high = at(x(goal.lower_bound_fps)), at(x(goal.upper_bound_fps))
        top, foot = at(y - 3.5), at(y + 3.5)
        whisker = f"M{low} {at(y)}H{high}M{low} {top}V{foot}M{high} {top}V{foot}"
        parts.append(el("path", d=whisker, class_=f"bar {css}"))
    place = at(x(value))
    parts.append(el("path", d=f"M{_LEFT} {at(y)}H{place}", class_=f"reach {css}"))
    if goal.qualifier:
        arrow = "h13m-3-3l3 3l-3 3" if goal.qualifier == "at least" else "h-13m3-3l-3 3l3 3"
        parts.append(el("path", d=f"M{place} {at(y)}{arrow}", class_=f"bar {css}"))
    mark = "point" if goal.regular else "point hollow"
    parts.append(el("circle", cx=place, cy=at(y), r="3.5", class_=f"{mark} {css}"))
    return el("g", parts, class_="tip")


def _row(compared: Compared, variant: ComparedVariant, size: int, x: Scale, top: float) -> Markup:
    name = variant.variant
    shown = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"
    parts = [el("text", shown, x=_LEFT, y=at(top + 12), class_="strong")]
    measured = False
    for index, goal_name in enumerate(compared.goal_names):
        goal = compared.goal(variant, size, goal_name)
        if goal is not None:
            y = top + _NAME + _MARK * (index + 0.5)
            parts.append(_point(variant, goal, x, y, f"g{index % 4}"))
            measured = True
    if not measured:
        word, why = compared.absence(variant, size)
        foot = at(top + _NAME + _MARK / 2 + 3.5)
        parts.append(el("text", el("title", why), word, x=_LEFT, y=foot, class_="absent"))
    return el("g", parts)


def _axis(x: Scale, foot: float, name: str) -> Iterator[Markup]:
    for value in x.ticks():
        place = at(x(value))
        yield el("path", d=f"M{place} {TOP}V{at(foot)}", class_="grid")
        yield el("text", text.tick_fps(value), x=place, y=at(foot + 15), class_="tick mid")
    yield el("path", d=f"M{_LEFT} {at(foot)}H{RIGHT}", class_="axis")
    yield el("text", name, x=at(WIDTH / 2), y=at(foot + 34), class_="name")


def variants_plot(compared: Compared, size: int) -> Markup:
    """The plot of one comparison at one frame size.

    Args:
        compared: The comparison.
        size: Frame size, octets including FCS.

    Returns:
        A figure; nothing when no variant was measured at this size.
    """
    values = list(_values(compared, size))
    if not values:
        return Markup("")
    variants, height = compared.comparison.variants, _height_of_row(compared)
    foot = TOP + height * len(variants) + 6
    x = fitting(values, _LEFT, RIGHT - 8, ratio=_LOG_FROM, zero=True)
    directions = {r.directions for (_, s), r in compared.results.items() if s == size}
    counts = " or ".join(map(str, sorted(directions)))
    scale = "log scale" if x.log else "linear scale"
    parts = list(_axis(x, foot, f"frames/s, sum of {counts} direction(s), {scale}"))
    parts += [
        _row(compared, variant, size, x, TOP + height * number)
        for number, variant in enumerate(variants)
    ]
    caption = el("figcaption", el("b", f"{size} octets"))
    title = f"Throughput by variant at {size} octets, {compared.title}"
    return el("figure", caption, svg(title, parts, height=round(foot + _FOOT)))


def variants_legend(compared: Compared) -> Markup:
    """What the marks of all sizes stand for.

    Args:
        compared: The comparison.

    Returns:
        A list.
    """
    entries = [(f"line series g{i % 4}", name) for i, name in enumerate(compared.goal_names)]
    goals = [goal for result in compared.results.values() for goal in result.goals]
    if any(not goal.regular for goal in goals):
        entries.append(("ring hollow", "irregular"))
    if any(goal.qualifier == "at least" for goal in goals):
        entries.append(("arrow-right key-mark", "at least"))
    if any(goal.qualifier == "at most" for goal in goals):
        entries.append(("arrow-left key-mark", "at most"))
    return legend(entries)
