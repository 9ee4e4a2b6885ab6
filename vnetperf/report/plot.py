"""A plot as data (axes, series, rules) and its rendering: SVG, legend, table of its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vnetperf.model.units import Unit
from vnetperf.report.text import printable, single, tick_label


@dataclass(frozen=True, slots=True)
class LinearScale:
    """Equal distances are equal differences."""

    low: float
    high: float
    start: float
    end: float
    log = False

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """Values worth a grid line."""
        step = _nice_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


_MOST_TICKS = 9


@dataclass(frozen=True, slots=True)
class LogScale:
    """Equal distances are equal ratios."""

    low: float
    high: float
    start: float
    end: float
    log = True

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        ratio = max(value, self.low) / self.low
        span = math.log10(self.high / self.low)
        return self.start + math.log10(ratio) / span * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """1, 2, 5 within few decades, then 1 and 3, else whole decades; nine at most."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        ticks: list[float] = []
        for steps in (1, 2, 5), (1, 3), (1,):
            candidates = [step * 10.0**power for power in powers for step in steps]
            ticks = [v for v in candidates if self.low * (1 - 1e-9) <= v <= self.high * (1 + 1e-9)]
            if len(ticks) <= _MOST_TICKS:
                return ticks
        return ticks[:: math.ceil(len(ticks) / _MOST_TICKS)]


@dataclass(frozen=True, slots=True)
class LossScale:
    """Loss ratios on a logarithmic axis, with a lane of its own for no loss at all."""

    low: float  # Loss ratio at the foot of the logarithmic part
    start: float  # Coordinate of 100 % loss
    end: float  # Coordinate of ``low``
    zero: float  # Coordinate of the lane of no loss
    unknown: float = 0.0  # Coordinate of a trial without a loss ratio (not a number)
    log = True

    def __call__(self, ratio: float) -> float:
        """The coordinate of a loss ratio, 0..1."""
        if math.isnan(ratio):
            return self.unknown
        if ratio <= 0:
            return self.zero
        share = math.log10(max(ratio, self.low)) / math.log10(self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """Decades from 100 % down to ``low``, thinned out where there are many."""
        powers = range(round(math.log10(self.low)), 1)
        return [10.0**p for p in powers][:: -max(1, math.ceil(len(powers) / 7))]


Scale = LinearScale | LogScale | LossScale


def _nice_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= step * 0.999)


def fitting_scale(
    values: Iterable[float], start: float, end: float, *, ratio: float, zero: bool
) -> LinearScale | LogScale:
    """A linear scale, or a logarithmic one where the range needs it and every value allows it."""
    finite = [v for v in values if math.isfinite(v)] or [1.0]
    low, high = min(finite), max(finite)
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    if low <= 0:
        return LinearScale(0.0 if zero and not low else low - room, high + room, start, end)
    if high / low >= ratio:
        return LogScale(low / 1.25, high * 1.25, start, end)
    if zero:
        return LinearScale(0.0, high * 1.08, start, end)
    return LinearScale(max(0.0, low - room), high + room, start, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis."""

    name: str  # What it shows, with its unit
    tick: Callable[[float], str] = "{:g}".format  # Text of a tick; "" for none
    #: Text of a value in the table of the plot's data; None: as a tick.
    value: Callable[[float], str] | None = None
    #: "auto" is logarithmic where the range needs it; "loss" has a lane for no loss.
    scale: Literal["auto", "linear", "log", "loss"] = "auto"
    names: Sequence[str] = ()  # Of a category axis: the categories, at 0, 1, 2 ...
    zero: bool = False  # True where a linear scale starts at 0
    log_from: float = 10.0  # Largest over smallest value from which "auto" is logarithmic
    low: float | None = None
    high: float | None = None
    pad: int = 0  # Distance of the scale's ends from the frame

    @classmethod
    def in_unit(cls, name: str, kind: Unit, **options: Any) -> Axis:
        """An axis of values of one kind."""
        tick, value = partial(tick_label, kind=kind), partial(single, kind=kind)
        return cls(name=name, **({"tick": tick, "value": value} | options))

    def text(self, value: float) -> str:
        """A value in the table of the plot's data."""
        if self.names:
            return self.names[round(value)]
        return (self.value or self.tick)(value)

    def title(self, scale: Scale) -> str:
        """Its name, with the kind of its scale where it has one."""
        return self.name if self.names else f"{self.name}, {'log' if scale.log else 'linear'} scale"


@dataclass(frozen=True, slots=True)
class Point:
    """One value; low and high are ends of its range along the axis of values."""

    x: float  # Place on the level axis
    y: float  # Place on the upright axis; of a loss ratio not a number where there is none
    low: float | None = None  # Lower end: of an interval, or the lower bound
    high: float | None = None  # Upper end
    hover: str = ""  # What is shown when it is pointed at
    #: "at least" or "at most" where the value is only a limit.
    open: Literal["", "at least", "at most"] = ""
    hollow: bool = False  # True for a mark that is not filled: an irregular result
    trial: int = 0  # Number of the trial


Mark = Literal[
    "none", "dot", "reach", "mean", "tick", "mode", "sample", "outlier", "bar", "steps", "area",
    "trials",
]  # fmt: skip


def series_css(index: int) -> str:
    """Colour and dashes of a line: 14 differ, the second seven having marks that are hollow."""
    return f"s{index % 7}" + " second" * (index // 7 % 2)


@dataclass(frozen=True, slots=True)
class Series:
    """Points that are drawn alike."""

    name: str  # In the legend; "" for none
    points: Sequence[Point]
    css: str = ""  # Class names: the colour
    mark: Mark = "dot"  # What a point is drawn as; its range goes with it
    line: bool = False  # True for a line through the points
    hover: str = ""
    range_name: str = ""  # Of mark "mean": what its range is, in the legend
    shift: float = 0.0  # Distance of the marks from their category


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the plot."""

    name: str  # In the legend; "" for none
    value: float
    axis: Literal["x", "y"]  # Axis of the value: an "x" rule stands upright
    css: str  # Class names
    label: str = ""  # Words at its upper end


@dataclass(frozen=True, slots=True)
class Note:
    """Words in place of a value, in a category."""

    text: str
    category: int
    hover: str = ""
    shift: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot."""

    title: str
    caption: str
    note: str = ""  # Beside the heading
    x: Axis
    y: Axis  # The upright axis; with categories the plot has a row for each
    series: Sequence[Series]  # What is drawn, the first below the others
    rules: Sequence[Rule] = ()
    notes: Sequence[Note] = ()  # Words in categories without a value
    row: int = 0  # Of rows: height of one
    row_ends: Sequence[str] = ()  # Of rows: words at their right end
    #: Of rows: True where the names stand at the left of the marks, not above them.
    inline: bool = False
    css: str = ""
    key: bool = False  # True for a legend of its own
    #: True where the series share their places on the x axis: a column each in the table.
    wide: bool = False

    @property
    def trials(self) -> tuple[int, int] | None:
        """First and last trial of a plot of trials: its data is the list of trials."""
        numbers = [p.trial for s in self.series if s.mark == "trials" for p in s.points]
        return (min(numbers), max(numbers)) if numbers else None

    @property
    def columns(self) -> list[float]:
        """Of a plot over time: where its columns begin, which lead a pointer to a row of data."""
        steps = next((s for s in self.series if s.mark in ("steps", "area") and s.points), None)
        return [p.x for p in steps.points[:-1]] if self.wide and steps else []

    @property
    def has_unknown(self) -> bool:
        """Whether it has a trial without a loss ratio."""
        return any(math.isnan(p.y) for s in self.series for p in s.points)


#: The drawing's own units; the page scales it to its column.
WIDTH = 420
LEFT, RIGHT, TOP, BOTTOM = 58, 410, 12, 226
_ROW_LEFT, _ROW_HEAD = 12, 16
#: Height of the lane for no loss at all.
_LANE = 22
_LABEL_LINE, _CHARACTER_WIDTH = 11, 6.4
_LEVELS = 5
_FLOOR = 1e-9
#: Verdicts and outcomes of trials -> what draws their mark around a point.
_STROKES = {
    "dot": "h0",
    "triangle": "m0-4l4 7h-8z",
    "wedge": "m0 4l4-7h-8z",
    "square": "m-3-3h6v6h-6z",
    "cross": "m-3-3l6 6m0-6l-6 6",
    "diamond": "m0-4l4 4l-4 4l-4-4z",
    "ring": "m-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0",
}


def coordinate(value: float) -> str:
    """A coordinate with one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _path_data(*parts: object) -> str:
    """Data of a path, of its letters and of coordinates."""
    return "".join(coordinate(p) if isinstance(p, int | float) else str(p) for p in parts)


@dataclass(frozen=True, slots=True)
class _Frame:
    x: Scale
    y: Scale
    rows: bool
    left_x: float
    top: float
    foot: float

    def place(self, series: Series, point: Point) -> tuple[float, float]:
        down = series.shift if self.rows else 0.0
        return self.x(point.x) + series.shift - down, self.y(point.y) + down

    def range(self, low: float, high: float) -> tuple[float, float]:
        values = self.x if self.rows else self.y
        return values(low), values(high)

    def line(self, series: Series) -> str:
        places = (self.place(series, p) for p in series.points)
        return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in places)

    def marks(self, series: Series) -> str:
        """Marks as one path; samples on several levels: equal values do not hide each other."""
        levels = series.mark == "sample" and len(series.points) > 1
        stroke = _STROKES["dot" if series.mark == "sample" else series.css.partition(" ")[0]]
        places = (self.place(series, p) for p in series.points)
        return "".join(
            _path_data("M", x, " ", y + levels * (i * 2 % _LEVELS - _LEVELS // 2) * 2.2, stroke)
            for i, (x, y) in enumerate(places)
        )

    def stairs(self, series: Series) -> str:
        """A line that stays level up to the next point; equal neighbours are one piece."""
        first, last = series.points[0], series.points[-1]
        parts = [_path_data("M", self.x(first.x), " ", self.y(first.y))]
        for before, point in pairwise(series.points):
            if point.y != before.y:
                parts.append(_path_data("H", self.x(point.x), "V", self.y(point.y)))
        parts.append(_path_data("H", self.x(last.x)))
        if series.mark == "area":
            parts.append(_path_data("V", self.foot, "H", self.x(first.x), "z"))
        return "".join(parts)

    def x_ticks(self, plot: Plot) -> list[tuple[float, str]]:
        if plot.x.names:
            return [(float(i), name) for i, name in enumerate(plot.x.names)]
        return [(v, name) for v in self.x.ticks() if (name := plot.x.tick(v))]


def _values(plot: Plot, axis: Literal["x", "y"]) -> list[float]:
    along = (axis == "x") == bool(plot.y.names)
    numbers = [getattr(p, axis) for s in plot.series for p in s.points]
    if along:
        ends = [(p.low, p.high) for s in plot.series for p in s.points]
        numbers += [v for pair in ends for v in pair if v is not None]
    return numbers + [rule.value for rule in plot.rules if rule.axis == axis and not rule.label]


def _scale(axis: Axis, values: Sequence[float], start: float, end: float) -> Scale:
    if axis.names:
        return LinearScale(-0.5, len(axis.names) - 0.5, start, end)
    inward = math.copysign(axis.pad, end - start)
    start, end = start + inward, end - inward
    if axis.scale == "loss":
        low = max(_FLOOR, min((v for v in values if v > 0), default=1e-3))
        room = _LANE if any(map(math.isnan, values)) else 6
        decade = 10.0 ** min(-2, math.floor(math.log10(low)))
        return LossScale(decade, end + room, start - _LANE - 8, start - _LANE / 2, end + 4)
    if axis.low is not None and axis.high is not None:
        scale_type = LogScale if axis.scale == "log" else LinearScale
        return scale_type(axis.low, axis.high, start, end)
    ratio = {"linear": math.inf, "log": 0.0}.get(axis.scale, axis.log_from)
    return fitting_scale(values, start, end, ratio=ratio, zero=axis.zero)


def _frame(plot: Plot) -> _Frame:
    rows = bool(plot.y.names)
    labels = sum(bool(rule.label) for rule in plot.rules)
    top = TOP + (_LABEL_LINE * labels + 2 if labels else 0)
    left_x = LEFT if plot.inline or not rows else _ROW_LEFT
    x = _scale(plot.x, _values(plot, "x"), left_x, RIGHT)
    if not rows:
        return _Frame(x, _scale(plot.y, _values(plot, "y"), BOTTOM, top), rows, left_x, top, BOTTOM)
    foot = top + plot.row * len(plot.y.names) + 4
    first = top + (plot.row if plot.inline else plot.row + _ROW_HEAD) / 2
    return _Frame(x, LinearScale(0, 1, first, first + plot.row), rows, left_x, top, foot)


_KEYS = {
    "dot": "M14 6h0",
    "cross": "M11 3l6 6m0-6l-6 6",
    "triangle": "M14 2l4 7h-8z",
    "wedge": "M14 10l4-7h-8z",
    "square": "M11 3h6v6h-6z",
    "diamond": "M14 2l4 4l-4 4l-4-4z",
    "ring": "M10.5 6a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0",
    "arrow": "M14 11V2m-3 3l3-3l3 3",
    "arrow-down": "M14 1V10m-3-3l3 3l3-3",
    "arrow-right": "M7 6H20m-3-3l3 3l-3 3",
    "arrow-left": "M20 6H7m3-3l-3 3l3 3",
    "box": "M8 1h12v10h-12z",
    "bar-up": "M14 1V11",
    "line": "M2 6H26",
}
_KEY_OF_MARK = {
    "mean": "bar-up middle",
    "tick": "bar-up",
    "mode": "diamond mode",
    "sample": "dot sample",
    "outlier": "ring outlier",
    "bar": "box",
    "area": "box",
    "trials": "",
    "steps": "line",
}
#: A limit, and whether the plot has rows -> its key in the legend, and the path of its arrow.
_OPEN = {
    ("at least", False): ("arrow", "v-13m-3 3l3-3l3 3"),
    ("at most", False): ("arrow-down", "v13m-3-3l3 3l3-3"),
    ("at least", True): ("arrow-right", "h13m-3-3l3 3l-3 3"),
    ("at most", True): ("arrow-left", "h-13m3-3l-3 3l3 3"),
}


def _legend_entries(plots: Iterable[Plot]) -> Iterator[tuple[str, str]]:
    special: dict[tuple[str, str], None] = {}
    for plot in plots:
        for series in plot.series:
            if not series.points:
                continue
            if series.name:
                kind = _KEY_OF_MARK.get(series.mark, "line series")
                yield f"{kind} {series.css}".strip(), series.name
            if series.range_name and any(p.low is not None for p in series.points):
                yield "line interval", series.range_name
            if any(p.hollow for p in series.points):
                special["ring hollow", "irregular"] = None
            for word in {p.open for p in series.points if p.open}:
                special[f"{_OPEN[word, bool(plot.y.names)][0]} key-mark", word] = None
        yield from ((f"line {rule.css}", rule.name) for rule in plot.rules if rule.name)
    yield from sorted(special, reverse=True)


def _key_shape(css: str) -> str:
    return next(_KEYS[kind] for kind in css.split() if kind in _KEYS)


def _printed(value: object) -> object:
    """What a template prints: before it is escaped, without characters that mislead."""
    if value is None:
        return ""
    return value if hasattr(value, "__html__") else printable(str(value))


@cache
def templates() -> Environment:
    """The templates of the page and of the drawings in it."""
    environment = Environment(
        loader=PackageLoader("vnetperf.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printed,
    )
    environment.globals |= {
        "n": coordinate,
        "d": _path_data,
        "key_shape": _key_shape,
        "OPEN": _OPEN,
    }
    environment.globals |= {
        "WIDTH": WIDTH,
        "LEFT": LEFT,
        "RIGHT": RIGHT,
        "BOTTOM": BOTTOM,
        "LANE": _LANE,
    }
    environment.globals |= {
        "LABEL_LINE": _LABEL_LINE,
        "CHARACTER_WIDTH": _CHARACTER_WIDTH,
        "NAN": math.nan,
    }
    return environment


def _drawn(macro: str, *values: object) -> Markup:
    module = templates().get_template("plot.html.j2").module
    return Markup(getattr(module, macro)(*values))  # noqa: S704 - the template escapes each part


def svg(plot: Plot) -> Markup:
    """The drawing."""
    return _drawn("svg", plot, _frame(plot))


def legend(plots: Iterable[Plot]) -> Markup:
    """What the marks of the plots stand for, of those that occur."""
    return _drawn("key", list(dict.fromkeys(_legend_entries(plots))))


def data(plot: Plot) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows of the table of what is drawn."""
    if plot.wide:
        return _wide_data(plot)
    rows = bool(plot.y.names)
    place, value = (plot.y, plot.x) if rows else (plot.x, plot.y)
    shown = [s for s in plot.series if s.points and s.mark != "trials"]
    named = len({s.name for s in shown}) > 1
    ranged = any(p.low is not None for s in shown for p in s.points)
    head = (place.name or "of", *(["what"] if named else []), value.name)
    body = []
    for series in shown:
        for point in series.points:
            position, number = (point.y, point.x) if rows else (point.x, point.y)
            ends = [point.low, point.high] if ranged else []
            body.append(
                (
                    place.text(position),
                    *([series.name] if named else []),
                    f"{point.open} {value.text(number)}".strip(),
                    *("" if end is None else value.text(end) for end in ends),
                )
            )
    return (*head, *(["from", "to"] if ranged else [])), body


def _wide_data(plot: Plot) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A row for each place on the x axis, a column for each series."""
    cells: dict[float, dict[int, str]] = {}
    for index, series in enumerate(plot.series):
        last = len(series.points) - (series.mark in ("steps", "area"))
        for point in series.points[:last]:
            cells.setdefault(point.x, {})[index] = plot.y.text(point.y)
    columns = range(len(plot.series))
    rows = [(plot.x.text(x), *(cells[x].get(i, "") for i in columns)) for x in sorted(cells)]
    return (plot.x.name, *(s.name or plot.y.name for s in plot.series)), rows
