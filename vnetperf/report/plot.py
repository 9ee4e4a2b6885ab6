"""SVG plots: markup, scales, axes, legends, and plots of a quantity measured several times."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vnetperf.model.outcomes import Spread
from vnetperf.model.result import Result
from vnetperf.report import text
from vnetperf.report.text import printable

_VOID = frozenset({"meta", "br", "hr", "col", "wbr"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def render(child: object) -> Markup:
    """A child as HTML."""
    if child is None:
        return Markup("")
    if isinstance(child, Markup):
        return child
    if isinstance(child, Iterable) and not isinstance(child, str):
        return Markup("".join(render(item) for item in child))
    return Markup(html.escape(printable(str(child)), quote=True))


def el(tag: str, *children: object, **attributes: object) -> Markup:
    """An element."""
    parts = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        parts.append(name if value is True else f'{name}="{render(value)}"')
    opened = f"<{' '.join(parts)}>"
    if tag in _VOID:
        return Markup(opened)
    return Markup(f"{opened}{''.join(render(c) for c in children)}</{tag}>")


class Scale(Protocol):
    """Maps values to coordinates."""

    @property
    def log(self) -> bool:
        """True when equal distances are equal ratios."""

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""

    def ticks(self) -> Sequence[float]:
        """Values worth a grid line."""


@dataclass(frozen=True, slots=True)
class LinearScale:
    """Equal distances are equal differences.

    Attributes:
        low: Smallest value.
        high: Largest value.
        start: Coordinate of ``low``.
        end: Coordinate of ``high``.
        count: About how many ticks.
    """

    low: float
    high: float
    start: float
    end: float
    count: int = 5

    @property
    def log(self) -> bool:
        """False."""
        return False

    def __call__(self, value: float) -> float:
        """See :class:`Scale`."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """See :class:`Scale`."""
        step = _nice_step((self.high - self.low) / self.count)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class LogScale:
    """Equal distances are equal ratios.

    Attributes:
        low: Smallest value, above zero.
        high: Largest value.
        start: Coordinate of ``low``.
        end: Coordinate of ``high``.
    """

    low: float
    high: float
    start: float
    end: float

    @property
    def log(self) -> bool:
        """True."""
        return True

    def __call__(self, value: float) -> float:
        """See :class:`Scale`."""
        span = math.log10(self.high / self.low)
        ratio = max(value, self.low) / self.low
        return self.start + math.log10(ratio) / span * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """See :class:`Scale`; 1, 2, 5 within few decades, else whole decades."""
        decades = math.log10(self.high / self.low)
        steps = (1, 2, 5) if decades <= 2.2 else (1,)
        found = list(self._within(steps))
        return found[:: max(1, math.ceil(len(found) / 9))]

    def _within(self, steps: Iterable[int]) -> Iterator[float]:
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for step in steps:
                value = step * 10.0**power
                if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9):
                    yield value


def _nice_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= step * 0.999)


def fitting_scale(
    values: Iterable[float], start: float, end: float, *, ratio: float, zero: bool
) -> Scale:
    """A linear scale, or a logarithmic one where the range needs it."""
    known = [v for v in values if math.isfinite(v) and v > 0] or [1.0]
    low, high = min(known), max(known)
    if high / low >= ratio:
        return LogScale(low / 1.25, high * 1.25, start, end)
    if zero:
        return LinearScale(0.0, high * 1.08, start, end)
    room = (high - low) * 0.06 or high * 0.05
    return LinearScale(max(0.0, low - room), high + room, start, end)


@dataclass(frozen=True, slots=True)
class LossScale:
    """Loss ratios on a logarithmic axis with a lane of its own for no loss at all.

    Attributes:
        low: Loss ratio at the foot of the logarithmic part.
        start: Coordinate of 100 % loss.
        end: Coordinate of ``low``.
        zero: Coordinate of the lane of no loss.
    """

    low: float
    start: float
    end: float
    zero: float

    def __call__(self, ratio: float) -> float:
        """The coordinate of a loss ratio, 0..1."""
        if ratio <= 0:
            return self.zero
        share = math.log10(max(ratio, self.low)) / math.log10(self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """Decades from 100 % down to ``low``, thinned out where there are many."""
        powers = range(round(math.log10(self.low)), 1)
        return [10.0**p for p in powers][:: -max(1, math.ceil(len(powers) / 7))]


#: The drawing's own units; the page scales it to its column.
WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 410, 12, 226


def coordinate(value: float) -> str:
    """A coordinate with one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def svg(title: str, *children: object, css: str = "", height: int = HEIGHT) -> Markup:
    """A drawing that a screen reader can name."""
    return el(
        "svg",
        *children,
        viewBox=f"0 0 {WIDTH} {height}",
        class_=f"plot {css}".strip(),
        role="img",
        aria_label=title,
    )


def y_axis(scale: Scale, name: str, label: Callable[[float], str]) -> Iterator[Markup]:
    """Grid lines, tick labels and name of the upright axis."""
    for value in scale.ticks():
        yield y_tick(scale(value), label(value))
    yield y_name(name)


def y_tick(y: float, said: str) -> Markup:
    """One grid line with its label."""
    line = el("path", d=f"M{LEFT} {coordinate(y)}H{RIGHT}", class_="grid")
    return Markup(line + el("text", said, x=LEFT - 6, y=coordinate(y + 3.5), class_="tick end"))


def y_name(name: str) -> Markup:
    """The name of the upright axis."""
    middle = (TOP + BOTTOM) / 2
    return el(
        "text", name, class_="name", transform=f"translate(8 {coordinate(middle)}) rotate(-90)"
    )


def x_axis(ticks: Iterable[tuple[float, str]], name: str, *, grid: bool = True) -> Iterator[Markup]:
    """Base line, ticks and name of the level axis."""
    for x, said in ticks:
        if grid:
            yield el("path", d=f"M{coordinate(x)} {TOP}V{BOTTOM}", class_="grid")
        yield el("text", said, x=coordinate(x), y=BOTTOM + 15, class_="tick mid")
    yield el("path", d=f"M{LEFT} {BOTTOM}H{RIGHT}", class_="axis")
    yield el("text", name, x=coordinate((LEFT + RIGHT) / 2), y=HEIGHT - 8, class_="name")


def polyline(points: Sequence[tuple[float, float]], css: str) -> Markup:
    """A line through points."""
    if len(points) < 2:
        return Markup("")
    return el(
        "path", d="M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points), class_=css
    )


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """A legend that wraps with the page."""
    return el("ul", [_legend_entry(css, said) for css, said in entries], class_="legend")


_LEGEND_MARKS = {
    "dot": Markup('<path class="{}" d="M14 6h0"/>'),
    "cross": Markup('<path class="{}" d="M11 3l6 6m0-6l-6 6"/>'),
    "triangle": Markup('<path class="{}" d="M14 2l4 7h-8z"/>'),
    "square": Markup('<path class="{}" d="M11 3h6v6h-6z"/>'),
    "diamond": Markup('<path class="{}" d="M14 2l4 4l-4 4l-4-4z"/>'),
    "ring": Markup('<circle class="{}" cx="14" cy="6" r="3.5"/>'),
    "arrow": Markup('<path class="{}" d="M14 11V2m-3 3l3-3l3 3"/>'),
    "arrow-down": Markup('<path class="{}" d="M14 1V10m-3-3l3 3l3-3"/>'),
    "arrow-right": Markup('<path class="{}" d="M7 6H20m-3-3l3 3l-3 3"/>'),
    "arrow-left": Markup('<path class="{}" d="M20 6H7m3-3l-3 3l3 3"/>'),
    "box": Markup('<rect class="{}" x="8" y="1" width="12" height="10" rx="2"/>'),
    "bar-up": Markup('<path class="{}" d="M14 1V11"/>'),
    "line": Markup('<path class="{}" d="M2 6H26"/>'),
}


def _legend_entry(css: str, said: str) -> Markup:
    kind = next((k for k in css.split() if k in _LEGEND_MARKS), "line")
    mark = Markup(_LEGEND_MARKS[kind].format(css))
    return el("li", el("svg", mark, viewBox="0 0 28 12", class_="key", aria_hidden="true"), said)


_SPREAD_LEFT = 12
#: Largest over smallest value from which the axis is logarithmic.
_SPREAD_LOG_FROM = 12.0
#: Height of a row's name, and of its dots below it.
_SPREAD_NAME, _SPREAD_DOTS = 16, 20
_SPREAD_FOOT = 44
#: Dots are laid over this many levels, so that equal values do not hide each other.
_DOT_LEVELS = 5
#: More dots than this only thicken the page.
_MOST_DOTS = 400


@dataclass(frozen=True, slots=True)
class SpreadRow:
    """One quantity.

    Attributes:
        name: What it is of: "64 octets".
        spread: Its values; None: not measured.
        arrow: True when it is a least value: the DUT may do more.
    """

    name: str
    spread: Spread | None
    arrow: bool = False


def _spread_extent(spread: Spread) -> tuple[float, float]:
    low = min(spread.minimum, spread.low if spread.low is not None else spread.minimum)
    return low, max(spread.maximum, spread.high if spread.high is not None else spread.maximum)


def _spread_dots(spread: Spread, x: Scale, middle: float) -> Iterator[Markup]:
    plain: list[tuple[float, float]] = []
    far: list[tuple[float, float]] = []
    outliers = set(spread.outliers)
    for index, value in enumerate(spread.values[:_MOST_DOTS]):
        level = (index * 2 % _DOT_LEVELS - _DOT_LEVELS // 2) * 2.2 if spread.n > 1 else 0.0
        (far if index in outliers else plain).append((x(value), middle + level))
    if plain:
        strokes = "".join(f"M{coordinate(a)} {coordinate(b)}h0" for a, b in plain)
        yield el("path", d=strokes, class_="sample")
    for a, b in far:
        yield el("circle", cx=coordinate(a), cy=coordinate(b), r="3", class_="outlier")


def _spread_middle(spread: Spread, x: Scale, y: float) -> Iterator[Markup]:
    if len(spread.modes) > 1:
        for mode in spread.modes:
            yield el(
                "path",
                d=f"M{coordinate(x(mode))} {coordinate(y)}m0-6l5 6l-5 6l-5-6z",
                class_="mode",
            )
        return
    if spread.low is not None and spread.high is not None:
        low, high = x(spread.low), x(spread.high)
        yield el(
            "path",
            d=f"M{coordinate(low)} {coordinate(y)}H{coordinate(max(high, low + 1))}",
            class_="interval",
        )
    yield el("path", d=f"M{coordinate(x(spread.mean))} {coordinate(y - 8)}v16", class_="middle")


def _spread_scale(values: Sequence[float]) -> Scale:
    """Unlike rates these may be 0, and the end of an interval below it."""
    low, high = min(values), max(values)
    if low > 0:
        return fitting_scale(
            values, _SPREAD_LEFT + 6, RIGHT - 10, ratio=_SPREAD_LOG_FROM, zero=False
        )
    room = (high - low) * 0.06
    return LinearScale(low - room, high + room, _SPREAD_LEFT + 6, RIGHT - 10)


def _spread_row(row: SpreadRow, x: Scale, top: float, kind: text.ValueKind) -> Markup:
    name = el("text", row.name, x=_SPREAD_LEFT, y=coordinate(top + 12), class_="strong")
    y = top + _SPREAD_NAME + _SPREAD_DOTS / 2
    if row.spread is None:
        return el(
            "g",
            name,
            el("text", "not measured", x=_SPREAD_LEFT, y=coordinate(y + 3.5), class_="absent"),
        )
    said = text.mean_with_n(row.spread, kind)
    number = el("text", said, x=RIGHT, y=coordinate(top + 12), class_="end")
    shape = [
        el("title", _spread_hover(row, row.spread, kind)),
        el("path", d=f"M{_SPREAD_LEFT} {coordinate(y)}H{RIGHT}", class_="hit"),
        el("path", d=f"M{_SPREAD_LEFT} {coordinate(y)}H{RIGHT}", class_="grid"),
        *_spread_middle(row.spread, x, y),
        *_spread_dots(row.spread, x, y),
    ]
    if row.arrow:
        place = coordinate(x(row.spread.maximum))
        shape.append(el("path", d=f"M{place} {coordinate(y)}h-13m10-3l3 3l-3 3", class_="middle"))
    return el("g", name, number, el("g", shape, class_="tip"))


def _spread_hover(row: SpreadRow, spread: Spread, kind: text.ValueKind) -> str:
    said = [f"{row.name}: {text.mean_with_n(spread, kind)}"]
    low, high = text.single(spread.minimum, kind), text.single(spread.maximum, kind)
    said.append(f"median {text.single(spread.median, kind)}, {low} to {high}")
    return "\n".join([*said, *text.remarks(spread, kind)])


def spread_plot(title: str, axis: str, rows: Sequence[SpreadRow], kind: text.ValueKind) -> Markup:
    """A plot of several quantities of one kind."""
    values = [end for row in rows if row.spread is not None for end in _spread_extent(row.spread)]
    if not values or not any(values):
        return Markup("")
    height = _SPREAD_NAME + _SPREAD_DOTS + 4
    foot = TOP + height * len(rows) + 4
    x = _spread_scale(values)
    scale = "log scale" if x.log else "linear scale"
    parts: list[Markup] = []
    for value in x.ticks():
        place = coordinate(x(value))
        parts.append(el("path", d=f"M{place} {TOP}V{coordinate(foot)}", class_="grid"))
        said = text.tick_label(value, kind)
        parts.append(el("text", said, x=place, y=coordinate(foot + 15), class_="tick mid"))
    parts.append(el("path", d=f"M{_SPREAD_LEFT} {coordinate(foot)}H{RIGHT}", class_="axis"))
    parts.append(
        el(
            "text",
            f"{axis}, {scale}",
            x=coordinate(WIDTH / 2),
            y=coordinate(foot + 34),
            class_="name",
        )
    )
    parts += [_spread_row(row, x, TOP + height * i, kind) for i, row in enumerate(rows)]
    caption = el("figcaption", el("b", title))
    drawn = svg(f"{title}, {axis}", parts, css="spread", height=round(foot + _SPREAD_FOOT))
    return el("figure", caption, drawn)


def spread_legend(known: Sequence[Spread]) -> Markup:
    """The legend of such plots."""
    entries = [("dot sample", "one measurement")]
    single = [s for s in known if len(s.modes) < 2]
    if single:
        entries.append(("bar-up middle", "mean"))
    if any(s.low is not None for s in single):
        entries.append(("line interval", "interval of the mean"))
    if any(s.outliers for s in known):
        entries.append(("ring outlier", "far from the others, counted all the same"))
    if len(single) < len(known):
        entries.append(("diamond mode", "centre of one of two groups"))
    return legend(entries)


_BY_SIZE_LOG_FROM = 10.0
_SERIES_COLOURS = 7
#: Name -> frame size -> quantity.
SizeSeries = Mapping[str, Mapping[int, Spread]]


def _interval_ends(spread: Spread) -> tuple[float, float]:
    if spread.low is None or spread.high is None:
        return spread.minimum, spread.maximum
    return spread.low, spread.high


def _by_size_point(
    name: str, spread: Spread, *, x: float, y: Scale, css: str, kind: text.ValueKind
) -> Iterator[Markup]:
    said = f"{name}: {text.mean_with_n(spread, kind)}"
    if len(spread.modes) > 1:
        for mode in spread.modes:
            place = f"M{coordinate(x)} {coordinate(y(mode))}m0-4l4 4l-4 4l-4-4z"
            mark = el("path", d=place, class_=f"dot-of {css}")
            yield el("g", el("title", said), mark, class_="tip")
        return
    low, high = _interval_ends(spread)
    bottom, top = y(low) if low > 0 else BOTTOM, y(high)
    whisker = f"M{coordinate(x)} {coordinate(bottom)}V{coordinate(top)}M{coordinate(x - 3)} {coordinate(bottom)}h6M{coordinate(x - 3)} {coordinate(top)}h6"
    yield el(
        "g",
        el("title", said),
        el("path", d=whisker, class_=f"line-of whisker {css}"),
        el(
            "circle",
            cx=coordinate(x),
            cy=coordinate(y(spread.mean)),
            r="3.2",
            class_=f"dot-of {css}",
        ),
        class_="tip",
    )


def by_size_plot(
    title: str, axis: str, results: Sequence[Result], series: SizeSeries, kind: text.ValueKind
) -> Markup:
    """The plot."""
    sizes = {size for held in series.values() for size in held}
    if len(sizes) < 2:
        return Markup("")
    step = (RIGHT - LEFT) / len(results)
    places = {r.frame_size: LEFT + step * (i + 0.5) for i, r in enumerate(results)}
    every = [s for held in series.values() for s in held.values()]
    ends = [v for s in every for v in (*_interval_ends(s), *s.modes)]
    y = fitting_scale(ends, BOTTOM, TOP, ratio=_BY_SIZE_LOG_FROM, zero=True)
    scale = "log scale" if y.log else "linear scale"
    parts: list[Markup] = list(y_axis(y, f"{axis}, {scale}", lambda v: text.tick_label(v, kind)))
    ticks = [(places[r.frame_size], r.size_name) for r in results]
    parts += x_axis(ticks, "frame size, octets with FCS (equal steps)", grid=False)
    for index, (name, held) in enumerate(series.items()):
        shift = (index - (len(series) - 1) / 2) * 7
        css = f"s{index % _SERIES_COLOURS}"
        line = [(places[size] + shift, y(s.mean)) for size, s in held.items() if len(s.modes) < 2]
        parts.append(polyline(line, f"line-of {css}"))
        for size, spread in held.items():
            x = places[size] + shift
            parts += _by_size_point(f"{size}, {name}", spread, x=x, y=y, css=css, kind=kind)
    caption = el("figcaption", el("b", title), el("span", _by_size_caption(every)))
    entries = [(f"line line-of s{i % _SERIES_COLOURS}", name) for i, name in enumerate(series)]
    shown = legend(entries) if len(series) > 1 else None
    return el("figure", caption, svg(title, parts, css="by-size"), shown)


def _by_size_caption(every: Sequence[Spread]) -> str:
    intervals = any(s.low is not None for s in every)
    bars = "intervals of the mean" if intervals else "least to most"
    modes = "; diamonds: two modes" if any(len(s.modes) > 1 for s in every) else ""
    return f"bars: {bars}{modes}"
