"""Loss against load: every trial of a search, with a lane of its own for no loss at all."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from vnetperf.model.result import Result, TrialPoint
from vnetperf.model.trial import Verdict
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
    svg,
    x_axis,
    y_name,
    y_tick,
)
from vnetperf.report.plot_scale import Loss, Scale, fitting

#: Verdict -> kind of mark, and the path that draws it around a point.
_MARKS = {
    Verdict.VALID: ("dot", "h0"),
    Verdict.GENERATOR_LIMITED: ("triangle", "m0-4l4 7h-8z"),
    Verdict.INCONSISTENT: ("square", "m-3-3h6v6h-6z"),
    Verdict.TIMED_OUT: ("cross", "m-3-3l6 6m0-6l-6 6"),
    Verdict.DUT_FAILED: ("diamond", "m0-4l4 4l-4 4l-4-4z"),
}
_LANE = 22
_FLOOR = 1e-9


def css_of(verdict: Verdict) -> str:
    """Class names of a verdict's mark.

    Args:
        verdict: The verdict.

    Returns:
        Kind of mark and the verdict's own class.
    """
    return f"{_MARKS[verdict][0]} v-{verdict.value.lower().replace('_', '-')}"


def stroke_of(verdict: Verdict) -> str:
    """What draws a verdict's mark around a point.

    Args:
        verdict: The verdict.

    Returns:
        Commands of an SVG path.
    """
    return _MARKS[verdict][1]


def _per_interface(rate: float, result: Result) -> float:
    return rate / (result.in_sum or 1)


def loss_scale(ratios: Sequence[float], top: float) -> Loss:
    """A scale of loss ratios with room below it for none.

    Args:
        ratios: What is to be shown, 0..1.
        top: Coordinate of 100 %.

    Returns:
        The scale, down to a decade below the smallest.
    """
    low = max(_FLOOR, min((v for v in ratios if v > 0), default=1e-3))
    decade = 10.0 ** min(-2, math.floor(math.log10(low)))
    return Loss(decade, top, BOTTOM - _LANE - 8, BOTTOM - _LANE / 2)


def _marks(trials: Sequence[TrialPoint], x: Scale, y: Loss, nowhere: float) -> Iterator[Markup]:
    paths: dict[Verdict, list[str]] = defaultdict(list)
    numbers: dict[Verdict, list[str]] = defaultdict(list)
    for trial in trials:
        height = nowhere if trial.loss_ratio is None else y(trial.loss_ratio)
        stroke = _MARKS[trial.verdict][1]
        paths[trial.verdict].append(f"M{at(x(trial.load_fps))} {at(height)}{stroke}")
        numbers[trial.verdict].append(str(trial.number))
    for verdict, strokes in paths.items():
        yield el(
            "path", d="".join(strokes), class_=css_of(verdict), data_n=",".join(numbers[verdict])
        )


def _goal_lines(result: Result, x: Scale, y: Loss, names: Sequence[str]) -> Iterator[Markup]:
    for goal in result.goals:
        css = f"g{names.index(goal.name) % 4}"
        if goal.lower_bound_fps:
            place = at(x(_per_interface(goal.lower_bound_fps, result)))
            yield el("path", d=f"M{place} {TOP}V{BOTTOM}", class_=f"bound {css}")
        if goal.loss_ratio > 0:
            height = at(y(goal.loss_ratio))
            yield el("path", d=f"M{LEFT} {height}H{RIGHT}", class_=f"allowed {css}")


def loss_plot(result: Result, trials: Sequence[TrialPoint], names: Sequence[str]) -> Markup:
    """The plot of one search.

    Args:
        result: What the search found.
        trials: Its trials.
        names: Names of the group's goals, which give the colours.

    Returns:
        A figure; nothing without a trial.
    """
    if not trials:
        return Markup("")
    no_number = any(t.loss_ratio is None for t in trials)
    top = TOP + (_LANE if no_number else 6)
    found = [_per_interface(g.lower_bound_fps, result) for g in result.goals if g.lower_bound_fps]
    x = fitting([*(t.load_fps for t in trials), *found], LEFT + 8, RIGHT - 6, ratio=6, zero=False)
    seen = [t.loss_ratio for t in trials if t.loss_ratio]
    y = loss_scale([*seen, *(g.loss_ratio for g in result.goals)], top)
    parts = [
        el("rect", x=LEFT, y=BOTTOM - _LANE, width=RIGHT - LEFT, height=_LANE, class_="lane"),
        *(y_tick(y(v), text.tick_percent(v)) for v in y.ticks()),
        el("text", "no loss", x=LEFT - 6, y=at(y.zero + 3.5), class_="tick end strong"),
        y_name("loss, worse direction, log scale"),
    ]
    if no_number:
        height = TOP + 4
        parts.append(el("text", "no number", x=LEFT - 6, y=height + 3.5, class_="tick end"))
    unit = "log scale" if x.log else "linear scale"
    ticks = ((x(v), text.tick_fps(v)) for v in x.ticks())
    parts += x_axis(ticks, f"load per sending interface, frames/s, {unit}")
    parts += _goal_lines(result, x, y, names)
    parts += _marks(trials, x, y, TOP + 4)
    title = f"Loss against load, {result.scenario}, {result.test}, {result.size_text}"
    said = f"{len(trials)} trial{'s' if len(trials) > 1 else ''}"
    caption = el("figcaption", el("b", result.size_text), el("span", said))
    return el("figure", caption, svg(title, parts, css="loss trial-marks"))


def loss_legend(trials: Sequence[TrialPoint], group: Group) -> Markup:
    """The legend of a group's loss plots.

    Args:
        trials: All trials of the group.
        group: Its results.

    Returns:
        A list; only verdicts that occur are named.
    """
    seen = {t.verdict for t in trials}
    entries = [(css_of(v), f"{v.value} trial") for v in Verdict if v in seen]
    lossy = {g.name for r in group.measured for g in r.goals if g.loss_ratio > 0}
    for index, name in enumerate(group.goal_names):
        entries.append((f"line bound g{index % 4}", f"lower bound of {name}"))
        if name in lossy:
            entries.append((f"line allowed g{index % 4}", f"loss that {name} allows"))
    return legend(entries)
