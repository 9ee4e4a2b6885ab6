"""Processor time by role at the lower bounds: a bar for each frame size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from vnetperf.model.result import GoalResult, Result
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.markup import Markup, el
from vnetperf.report.plot_frame import RIGHT, TOP, WIDTH, at, legend, svg
from vnetperf.report.plot_scale import Linear

_LEFT = 58
_ROW, _BAR = 22, 12
_FOOT = 44
#: Fills that can be told apart.
_FILLS = 6


def _by_role(goal: GoalResult) -> dict[str, tuple[float, float]]:
    """Role -> processors used in user and in kernel mode, all its threads together."""
    found: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for use in goal.threads:
        user, system = found[use.role]
        found[use.role] = (user + use.user, system + use.system)
    return dict(found)


def _bars(
    result: Result, used: dict[str, tuple[float, float]], roles: list[str], x: Linear, y: float
) -> Iterator[Markup]:
    start = 0.0
    for role, (user, system) in used.items():
        end = start + user + system
        said = (
            f"{result.size_text}, {role}: {text.significant(user + system, 3)} processors, "
            f"{text.significant(user, 3)} user and {text.significant(system, 3)} system"
        )
        width = max(0.0, x(end) - x(start) - 0.8)
        place = {"x": at(x(start)), "y": at(y), "width": at(width), "height": _BAR}
        shape = el("rect", **place, class_=f"hop h{roles.index(role) % _FILLS}")
        yield el("g", el("title", said), shape, class_="tip")
        start = end


def cpu_plot(group: Group, goal_name: str) -> Markup:
    """The plot of one goal.

    Args:
        group: Results of one scenario and test.
        goal_name: The goal.

    Returns:
        A figure; nothing where no thread was watched.
    """
    rows = [
        (result, _by_role(goal))
        for result in group.measured
        for goal in result.goals
        if goal.name == goal_name and goal.threads
    ]
    if not rows:
        return Markup("")
    roles = list(dict.fromkeys(role for _, used in rows for role in used))
    most = max(sum(user + system for user, system in used.values()) for _, used in rows)
    foot = TOP + _ROW * len(rows) + 4
    x = Linear(0.0, most * 1.04 or 1.0, _LEFT, RIGHT)
    parts: list[Markup] = []
    for value in x.ticks():
        place = at(x(value))
        parts.append(el("path", d=f"M{place} {TOP}V{at(foot)}", class_="grid"))
        parts.append(el("text", f"{value:g}", x=place, y=at(foot + 15), class_="tick mid"))
    parts.append(el("path", d=f"M{_LEFT} {at(foot)}H{RIGHT}", class_="axis"))
    for index, (result, used) in enumerate(rows):
        y = TOP + _ROW * index + (_ROW - _BAR) / 2
        name = el("text", result.size_name, x=_LEFT - 6, y=at(y + 9.5), class_="tick end strong")
        parts += [name, *_bars(result, used, roles, x, y)]
    axis = "processors used, user and system"
    parts.append(el("text", axis, x=at(WIDTH / 2), y=at(foot + 34), class_="name"))
    title = f"Processors by role at the lower bounds of {goal_name}"
    caption = el("figcaption", el("b", f"Lower bounds of {goal_name}"))
    drawn = svg(f"{title}, {group.title}", parts, css="cpu", height=round(foot + _FOOT))
    key = legend((f"box hop h{i % _FILLS}", role) for i, role in enumerate(roles))
    return el("figure", caption, drawn, key)
