"""Loads in the order in which they were tried, and how the bounds of each goal closed in."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vnetperf.model.result import GoalResult, Result, TrialPoint
from vnetperf.model.trial import Verdict
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
from vnetperf.report.plot_loss import css_of, stroke_of
from vnetperf.report.plot_scale import Linear, Scale, fitting

#: Largest over smallest load from which the load axis is logarithmic.
_LOG_FROM = 8.0
_LOSSY = "m-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0"


@dataclass(slots=True)
class Bounds:
    """Bounds of a goal by the trials so far: a load fails once too much of its time lost more.

    Attributes:
        loss_ratio: What a trial may lose, 0..1.
        exceed_ratio: Share of a load's trial time that may lose more.
    """

    loss_ratio: float
    exceed_ratio: float
    _seconds: dict[float, tuple[float, float]] = field(default_factory=dict)
    _met: list[float] = field(default_factory=list)
    _failed: list[float] = field(default_factory=list)

    def take(self, load: float, loss: float, seconds: float) -> None:
        """Count one more trial.

        Args:
            load: Its load.
            loss: Its loss ratio.
            seconds: Its length.
        """
        bad, whole = self._seconds.get(load, (0.0, 0.0))
        known = load in self._seconds
        failed = known and bad > self.exceed_ratio * whole
        bad += seconds if loss > self.loss_ratio else 0.0
        whole += seconds
        self._seconds[load] = (bad, whole)
        fails = bad > self.exceed_ratio * whole
        if known and fails == failed:
            return
        if known:
            old = self._failed if failed else self._met
            del old[bisect_left(old, load)]
        insort(self._failed if fails else self._met, load)

    @property
    def upper(self) -> float | None:
        """The lowest load that fails."""
        return self._failed[0] if self._failed else None

    @property
    def lower(self) -> float | None:
        """The highest load below it that does not."""
        upper = self.upper
        below = bisect_left(self._met, upper) if upper is not None else len(self._met)
        return self._met[below - 1] if below else None


def _tried(trial: TrialPoint) -> float:
    """What a search tried: a load, or the length of a burst."""
    return trial.burst or trial.load_fps


def _marks(trials: Sequence[TrialPoint], x: Scale, y: Scale) -> Iterator[Markup]:
    paths: dict[str, list[str]] = defaultdict(list)
    numbers: dict[str, list[str]] = defaultdict(list)
    for place, trial in enumerate(trials, start=1):
        css, stroke = css_of(trial.verdict), stroke_of(trial.verdict)
        if trial.verdict is Verdict.VALID and trial.loss_ratio:
            css, stroke = "v-lossy", _LOSSY
        paths[css].append(f"M{at(x(place))} {at(y(_tried(trial)))}{stroke}")
        numbers[css].append(str(trial.number))
    for css, strokes in paths.items():
        yield el("path", d="".join(strokes), class_=css, data_n=",".join(numbers[css]))


def _closing(
    goal: GoalResult, trials: Sequence[TrialPoint], x: Scale, y: Scale, css: str
) -> Iterator[Markup]:
    bounds = Bounds(goal.loss_ratio, goal.exceed_ratio)
    lines: dict[str, list[str]] = {"lower": [], "upper": []}
    last: dict[str, float | None] = {"lower": None, "upper": None}
    for place, trial in enumerate(trials, start=1):
        if trial.verdict is Verdict.VALID and trial.loss_ratio is not None:
            bounds.take(trial.load_fps, trial.loss_ratio, trial.duration_s)
        for name, value in (("lower", bounds.lower), ("upper", bounds.upper)):
            if value is None or value == last[name]:
                continue
            line = lines[name]
            line.append(
                f"H{at(x(place))}V{at(y(value))}" if line else f"M{at(x(place))} {at(y(value))}"
            )
            last[name] = value
    for name, line in lines.items():
        if line:
            yield el("path", d=f"{''.join(line)}H{RIGHT}", class_=f"closing {name} {css}")


def search_plot(result: Result, trials: Sequence[TrialPoint], names: Sequence[str]) -> Markup:
    """The plot of one search.

    Args:
        result: What the search found.
        trials: Its trials, in order.
        names: Names of the group's goals, which give the colours.

    Returns:
        A figure; nothing without two trials.
    """
    if len(trials) < 2:
        return Markup("")
    y = fitting((_tried(t) for t in trials), BOTTOM - 4, TOP + 4, ratio=_LOG_FROM, zero=False)
    x = Linear(1, len(trials), LEFT + 8, RIGHT - 8)
    scale = "log scale" if y.log else "linear scale"
    bursts = any(t.burst for t in trials)
    name = "burst, frames" if bursts else "load per interface, frames/s"
    parts: list[Markup] = list(y_axis(y, f"{name}, {scale}", text.tick_fps))
    ticks = [(x(v), f"{v:g}") for v in x.ticks() if v >= 1 and v == int(v)]
    parts += x_axis(ticks, "trials of this search, in order", grid=False)
    for goal in result.goals:
        parts += _closing(goal, trials, x, y, f"g{names.index(goal.name) % 4}")
    parts += _marks(trials, x, y)
    seconds = sum(t.duration_s for t in trials)
    said = f"{len(trials)} trials, {text.seconds(seconds)} of traffic"
    caption = el("figcaption", el("b", result.size_text), el("span", said))
    what = "Bursts" if bursts else "Loads"
    title = f"{what} in order, {result.scenario}, {result.test}, {result.size_text}"
    return el("figure", caption, svg(title, parts, css="trial-marks"))


def search_legend(trials: Sequence[TrialPoint], names: Sequence[str]) -> Markup:
    """The legend of a group's plots.

    Args:
        trials: All trials of the group.
        names: Names of its goals.

    Returns:
        A list.
    """
    entries = [("dot v-valid", "VALID trial without loss"), ("ring v-lossy", "VALID, with loss")]
    seen = {t.verdict for t in trials} - {Verdict.VALID}
    entries += [(css_of(v), f"{v.value} trial") for v in Verdict if v in seen]
    for index, name in enumerate(names):
        entries.append((f"line closing lower g{index % 4}", f"{name}: lower bound so far"))
        entries.append((f"line closing upper g{index % 4}", f"{name}: upper bound so far"))
    return legend(entries)
