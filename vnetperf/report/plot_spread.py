"""Every value of a quantity that was measured several times: a row of dots with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vnetperf.model.outcomes import Spread
from vnetperf.report import spreads
from vnetperf.report.markup import Markup, el
from vnetperf.report.plot_frame import RIGHT, TOP, WIDTH, at, legend, svg
from vnetperf.report.plot_scale import Linear, Scale, fitting

_LEFT = 12
#: Largest over smallest value from which the axis is logarithmic.
_LOG_FROM = 12.0
#: Height of a row's name, and of its dots below it.
_NAME, _DOTS = 16, 20
_FOOT = 44
#: Dots are laid over this many levels, so that equal values do not hide each other.
_LEVELS = 5
#: More dots than this only thicken the page.
_MOST_DOTS = 400


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity.

    Attributes:
        name: What it is of: "64 octets".
        spread: Its values; None: not measured.
        arrow: True when it is a least value: the DUT may do more.
    """

    name: str
    spread: Spread | None
    arrow: bool = False


def _ends(spread: Spread) -> tuple[float, float]:
    low = min(spread.minimum, spread.low if spread.low is not None else spread.minimum)
    return low, max(spread.maximum, spread.high if spread.high is not None else spread.maximum)


def _dots(spread: Spread, x: Scale, middle: float) -> Iterator[Markup]:
    plain: list[tuple[float, float]] = []
    far: list[tuple[float, float]] = []
    outliers = set(spread.outliers)
    for index, value in enumerate(spread.values[:_MOST_DOTS]):
        level = (index * 2 % _LEVELS - _LEVELS // 2) * 2.2 if spread.n > 1 else 0.0
        (far if index in outliers else plain).append((x(value), middle + level))
    if plain:
        strokes = "".join(f"M{at(a)} {at(b)}h0" for a, b in plain)
        yield el("path", d=strokes, class_="sample")
    for a, b in far:
        yield el("circle", cx=at(a), cy=at(b), r="3", class_="outlier")


def _middle(spread: Spread, x: Scale, y: float) -> Iterator[Markup]:
    if len(spread.modes) > 1:
        for mode in spread.modes:
            yield el("path", d=f"M{at(x(mode))} {at(y)}m0-6l5 6l-5 6l-5-6z", class_="mode")
        return
    if spread.low is not None and spread.high is not None:
        low, high = x(spread.low), x(spread.high)
        yield el("path", d=f"M{at(low)} {at(y)}H{at(max(high, low + 1))}", class_="interval")
    yield el("path", d=f"M{at(x(spread.mean))} {at(y - 8)}v16", class_="middle")


def _scale(values: Sequence[float]) -> Scale:
    """Unlike rates these may be 0, and the end of an interval below it."""
    low, high = min(values), max(values)
    if low > 0:
        return fitting(values, _LEFT + 6, RIGHT - 10, ratio=_LOG_FROM, zero=False)
    room = (high - low) * 0.06
    return Linear(low - room, high + room, _LEFT + 6, RIGHT - 10)


def _row(row: Row, x: Scale, top: float, kind: spreads.Kind) -> Markup:
    name = el("text", row.name, x=_LEFT, y=at(top + 12), class_="strong")
    y = top + _NAME + _DOTS / 2
    if row.spread is None:
        return el("g", name, el("text", "not measured", x=_LEFT, y=at(y + 3.5), class_="absent"))
    said = spreads.with_n(row.spread, kind)
    number = el("text", said, x=RIGHT, y=at(top + 12), class_="end")
    shape = [
        el("title", _said(row, row.spread, kind)),
        el("path", d=f"M{_LEFT} {at(y)}H{RIGHT}", class_="hit"),
        el("path", d=f"M{_LEFT} {at(y)}H{RIGHT}", class_="grid"),
        *_middle(row.spread, x, y),
        *_dots(row.spread, x, y),
    ]
    if row.arrow:
        place = at(x(row.spread.maximum))
        shape.append(el("path", d=f"M{place} {at(y)}h-13m10-3l3 3l-3 3", class_="middle"))
    return el("g", name, number, el("g", shape, class_="tip"))


def _said(row: Row, spread: Spread, kind: spreads.Kind) -> str:
    said = [f"{row.name}: {spreads.with_n(spread, kind)}"]
    low, high = spreads.one(spread.minimum, kind), spreads.one(spread.maximum, kind)
    said.append(f"median {spreads.one(spread.median, kind)}, {low} to {high}")
    return "\n".join([*said, *spreads.remarks(spread, kind)])


def spread_plot(title: str, axis: str, rows: Sequence[Row], kind: spreads.Kind) -> Markup:
    """A plot of several quantities of one kind.

    Args:
        title: What it shows.
        axis: Name of the level axis.
        rows: The quantities.
        kind: What they are.

    Returns:
        A figure; nothing when none has a value, or each is 0.
    """
    values = [end for row in rows if row.spread is not None for end in _ends(row.spread)]
    if not values or not any(values):
        return Markup("")
    height = _NAME + _DOTS + 4
    foot = TOP + height * len(rows) + 4
    x = _scale(values)
    scale = "log scale" if x.log else "linear scale"
    parts: list[Markup] = []
    for value in x.ticks():
        place = at(x(value))
        parts.append(el("path", d=f"M{place} {TOP}V{at(foot)}", class_="grid"))
        said = spreads.tick(value, kind)
        parts.append(el("text", said, x=place, y=at(foot + 15), class_="tick mid"))
    parts.append(el("path", d=f"M{_LEFT} {at(foot)}H{RIGHT}", class_="axis"))
    parts.append(el("text", f"{axis}, {scale}", x=at(WIDTH / 2), y=at(foot + 34), class_="name"))
    parts += [_row(row, x, TOP + height * i, kind) for i, row in enumerate(rows)]
    caption = el("figcaption", el("b", title))
    drawn = svg(f"{title}, {axis}", parts, css="spread", height=round(foot + _FOOT))
    return el("figure", caption, drawn)


def spread_legend(known: Sequence[Spread]) -> Markup:
    """The legend of such plots.

    Args:
        known: All quantities in them.

    Returns:
        A list; only marks that occur are named.
    """
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
