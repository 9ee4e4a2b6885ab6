"""The frame of every plot: size, grid, axes and their names, legend entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from vnetperf.report.markup import Markup, el
from vnetperf.report.plot_scale import Scale

#: The drawing's own units; the page scales it to its column.
WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 410, 12, 226


def at(value: float) -> str:
    """A coordinate with one decimal.

    Args:
        value: The coordinate.

    Returns:
        "12.5", "12".
    """
    return f"{value:.1f}".removesuffix(".0")


def svg(title: str, *children: object, css: str = "", height: int = HEIGHT) -> Markup:
    """A drawing that a screen reader can name.

    Args:
        title: What it shows.
        *children: Its elements.
        css: Further class names.
        height: Its height in its own units.

    Returns:
        The svg element.
    """
    return el(
        "svg",
        *children,
        viewBox=f"0 0 {WIDTH} {height}",
        class_=f"plot {css}".strip(),
        role="img",
        aria_label=title,
    )


def y_axis(scale: Scale, name: str, label: Callable[[float], str]) -> Iterator[Markup]:
    """Grid lines, tick labels and name of the upright axis.

    Args:
        scale: Its scale.
        name: Its name with unit.
        label: Text of a tick.

    Yields:
        SVG elements.
    """
    for value in scale.ticks():
        yield y_tick(scale(value), label(value))
    yield y_name(name)


def y_tick(y: float, said: str) -> Markup:
    """One grid line with its label.

    Args:
        y: Where.
        said: The label.

    Returns:
        SVG.
    """
    line = el("path", d=f"M{LEFT} {at(y)}H{RIGHT}", class_="grid")
    return Markup(line + el("text", said, x=LEFT - 6, y=at(y + 3.5), class_="tick end"))


def y_name(name: str) -> Markup:
    """The name of the upright axis.

    Args:
        name: With unit.

    Returns:
        SVG.
    """
    middle = (TOP + BOTTOM) / 2
    return el("text", name, class_="name", transform=f"translate(8 {at(middle)}) rotate(-90)")


def x_axis(ticks: Iterable[tuple[float, str]], name: str, *, grid: bool = True) -> Iterator[Markup]:
    """Base line, ticks and name of the level axis.

    Args:
        ticks: Coordinate and text.
        name: Its name with unit.
        grid: True draws an upright line at each tick.

    Yields:
        SVG elements.
    """
    for x, said in ticks:
        if grid:
            yield el("path", d=f"M{at(x)} {TOP}V{BOTTOM}", class_="grid")
        yield el("text", said, x=at(x), y=BOTTOM + 15, class_="tick mid")
    yield el("path", d=f"M{LEFT} {BOTTOM}H{RIGHT}", class_="axis")
    yield el("text", name, x=at((LEFT + RIGHT) / 2), y=HEIGHT - 8, class_="name")


def polyline(points: Sequence[tuple[float, float]], css: str) -> Markup:
    """A line through points.

    Args:
        points: Coordinates.
        css: Class names.

    Returns:
        SVG; nothing for fewer than two points.
    """
    if len(points) < 2:
        return Markup("")
    return el("path", d="M" + "L".join(f"{at(x)} {at(y)}" for x, y in points), class_=css)


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """A legend that wraps with the page.

    Args:
        entries: Class names of the sample line or mark, and what it stands for.

    Returns:
        A list.
    """
    return el("ul", [_entry(css, said) for css, said in entries], class_="legend")


_MARKS = {
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


def _entry(css: str, said: str) -> Markup:
    kind = next((k for k in css.split() if k in _MARKS), "line")
    mark = Markup(_MARKS[kind].format(css))
    return el("li", el("svg", mark, viewBox="0 0 28 12", class_="key", aria_hidden="true"), said)
