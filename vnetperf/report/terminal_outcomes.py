"""Tables of outcomes for a terminal: the columns that matter most, in 80 characters."""

from __future__ import annotations

from typing import Literal

from rich import box
from rich.table import Table as Drawn
from rich.text import Text

from vnetperf.report.printable import printable
from vnetperf.report.tabular import Table

_ASCII = str.maketrans(
    {
        "µ": "u",
        "\N{MIDDLE DOT}": "-",
        "\N{EN DASH}": "-",
        "\N{NO-BREAK SPACE}": " ",
        "\N{MULTIPLICATION SIGN}": "x",
        "\N{PLUS-MINUS SIGN}": "+-",
    }
)


#: Characters that the column with the answer never has less of, where its numbers need them.
_LONGEST = 20


def encodable(said: str, *, plain: bool) -> str:
    """Text that a terminal can show.

    Args:
        said: Any text.
        plain: True for ASCII only.

    Returns:
        The text without control characters.
    """
    shown = printable(said)
    if not plain:
        return shown
    return shown.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def outcome_table(table: Table, *, plain: bool) -> Drawn:
    """A table of outcomes.

    Args:
        table: The table.
        plain: True for ASCII only.

    Returns:
        What to print; columns that are not in its `brief` are in report.md.
    """
    drawn = Drawn(
        title=Text(encodable(table.title, plain=plain), style="dim"),
        title_justify="left",
        box=box.ASCII2 if plain else box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    shown = table.brief or tuple(range(len(table.head)))
    for index in shown:
        justify: Literal["left", "right"] = "left" if index in table.words else "right"
        style = "bold" if index == table.bold else ""
        name = encodable(table.head[index], plain=plain)
        # A number may part from the brackets that follow it, and from nothing else.
        width = max(len(row[index].partition(" (")[0]) for row in table.rows)
        least = min(width, _LONGEST) if index == table.bold else None
        drawn.add_column(Text(name), justify=justify, overflow="fold", style=style, min_width=least)
    for row in table.rows:
        drawn.add_row(*(Text(encodable(row[i], plain=plain)) for i in shown))
    return drawn
