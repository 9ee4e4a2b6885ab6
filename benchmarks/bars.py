"""Bars in groups, as an SVG file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, PANEL, TOP, LEFT, PLOT = 720, 230, 40, 60, 150
#: Told apart without colour too, by order and by what is written above each bar.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


@dataclass(frozen=True)
class Bars:
    """One panel.

    Attributes:
        title: What is shown.
        unit: Of the values.
        groups: Group -> series -> value; None where there is none.
    """

    title: str
    unit: str
    groups: Mapping[str, Mapping[str, float | None]]


def drawn(title: str, panels: Sequence[Bars]) -> str:
    """Draw panels below each other.

    Args:
        title: Of the whole.
        panels: The panels; series have the same colour in all of them.

    Returns:
        An SVG document.
    """
    series = list(dict.fromkeys(s for p in panels for g in p.groups.values() for s in g))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(series)}
    height = TOP + PANEL * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(LEFT, 22, title, size=15),
    ]
    for i, (name, colour) in enumerate(colours.items()):
        x = WIDTH - 100 * (len(colours) - i)
        parts += [_box(x, 13, 10, 10, colour), _text(x + 14, 22, name)]
    for number, panel in enumerate(panels):
        parts += _panel(panel, TOP + PANEL * number, colours)
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Bars, top: int, colours: Mapping[str, str]) -> Iterator[str]:
    values = [v for group in panel.groups.values() for v in group.values() if v is not None]
    most = max(values, default=1.0) or 1.0
    floor = top + 30 + PLOT
    yield _text(LEFT, top + 18, f"{panel.title} [{panel.unit}]")
    yield f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{floor}" y2="{floor}" stroke="black"/>'
    room = (WIDTH - 20 - LEFT) / max(1, len(panel.groups))
    for number, (group, bars) in enumerate(panel.groups.items()):
        left = LEFT + room * number
        yield _text(left + room / 2, floor + 16, group, anchor="middle")
        wide = min(70.0, room / (len(bars) + 1))
        start = left + (room - wide * len(bars)) / 2
        for place, (name, value) in enumerate(bars.items()):
            x = start + wide * place
            high = (PLOT - 16) * (value or 0.0) / most
            yield _box(x + 4, floor - high, wide - 8, high, colours[name])
            said = "-" if value is None else f"{value:.3g}"
            yield _text(x + wide / 2, floor - high - 4, said, anchor="middle")


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
    )


def _text(x: float, y: float, said: str, *, size: int = 12, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(said)}</text>"
    )
