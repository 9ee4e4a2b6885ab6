"""A quantity by frame size: means with their intervals, one line for each thing it is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vnetperf.model.outcomes import Spread
from vnetperf.model.result import Result
from vnetperf.report import spreads
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
)
from vnetperf.report.plot_scale import Scale, fitting

_LOG_FROM = 10.0
_COLOURS = 7
#: Name -> frame size -> quantity.
Series = Mapping[str, Mapping[int, Spread]]


def _ends(spread: Spread) -> tuple[float, float]:
    if spread.low is None or spread.high is None:
        return spread.minimum, spread.maximum
    return spread.low, spread.high


def _point(
    name: str, spread: Spread, *, x: float, y: Scale, css: str, kind: spreads.Kind
) -> Iterator[Markup]:
    said = f"{name}: {spreads.with_n(spread, kind)}"
    if len(spread.modes) > 1:
        for mode in spread.modes:
            place = f"M{at(x)} {at(y(mode))}m0-4l4 4l-4 4l-4-4z"
            mark = el("path", d=place, class_=f"dot-of {css}")
            yield el("g", el("title", said), mark, class_="tip")
        return
    low, high = _ends(spread)
    bottom, top = y(low) if low > 0 else BOTTOM, y(high)
    whisker = f"M{at(x)} {at(bottom)}V{at(top)}M{at(x - 3)} {at(bottom)}h6M{at(x - 3)} {at(top)}h6"
    yield el(
        "g",
        el("title", said),
        el("path", d=whisker, class_=f"line-of whisker {css}"),
        el("circle", cx=at(x), cy=at(y(spread.mean)), r="3.2", class_=f"dot-of {css}"),
        class_="tip",
    )


def by_size_plot(
    title: str, axis: str, results: Sequence[Result], series: Series, kind: spreads.Kind
) -> Markup:
    """The plot.

    Args:
        title: What it shows.
        axis: Name of the upright axis.
        results: Results by rising frame size, also those without a value.
        series: The quantities.
        kind: What they are.

    Returns:
        A figure; nothing unless two sizes have a value.
    """
    sizes = {size for held in series.values() for size in held}
    if len(sizes) < 2:
        return Markup("")
    step = (RIGHT - LEFT) / len(results)
    places = {r.frame_size: LEFT + step * (i + 0.5) for i, r in enumerate(results)}
    every = [s for held in series.values() for s in held.values()]
    ends = [v for s in every for v in (*_ends(s), *s.modes)]
    y = fitting(ends, BOTTOM, TOP, ratio=_LOG_FROM, zero=True)
    scale = "log scale" if y.log else "linear scale"
    parts: list[Markup] = list(y_axis(y, f"{axis}, {scale}", lambda v: spreads.tick(v, kind)))
    ticks = [(places[r.frame_size], r.size_name) for r in results]
    parts += x_axis(ticks, "frame size, octets with FCS (equal steps)", grid=False)
    for index, (name, held) in enumerate(series.items()):
        shift = (index - (len(series) - 1) / 2) * 7
        css = f"s{index % _COLOURS}"
        line = [(places[size] + shift, y(s.mean)) for size, s in held.items() if len(s.modes) < 2]
        parts.append(polyline(line, f"line-of {css}"))
        for size, spread in held.items():
            x = places[size] + shift
            parts += _point(f"{size}, {name}", spread, x=x, y=y, css=css, kind=kind)
    caption = el("figcaption", el("b", title), el("span", _how(every)))
    entries = [(f"line line-of s{i % _COLOURS}", name) for i, name in enumerate(series)]
    shown = legend(entries) if len(series) > 1 else None
    return el("figure", caption, svg(title, parts, css="by-size"), shown)


def _how(every: Sequence[Spread]) -> str:
    intervals = any(s.low is not None for s in every)
    bars = "intervals of the mean" if intervals else "least to most"
    modes = "; diamonds: two modes" if any(len(s.modes) > 1 for s in every) else ""
    return f"bars: {bars}{modes}"
