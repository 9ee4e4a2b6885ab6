"""A table that is described once and rendered for Markdown, the HTML page and a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.table import Table as Drawn
from rich.text import Text

from vnetperf.report.text import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~#])")


def escape_markdown(said: object) -> str:
    """Text for a paragraph or a table cell."""
    line = " ".join(printable(str(said)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", line)


def markdown_code(said: object) -> str:
    """Text as inline code, safe in a table cell."""
    line = "; ".join(part.strip() for part in printable(str(said)).splitlines() if part.strip())
    if not line:
        return ""
    runs = re.findall(r"`+", line)
    fence = "`" * (max((len(r) for r in runs), default=0) + 1)
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}".replace("|", "\\|")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are escaped already."""
    body = ["| " + " | ".join(row) + " |" for row in rows]
    if not body:
        return "None."
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body])


#: Stands for a cell that has nothing to say.
NONE = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text, with what a reader must know of them.

    Attributes:
        title: Its heading.
        head: Names of the columns.
        rows: Cells by row.
        said: Sentences below it.
        words: Columns that hold words and not numbers, from 0.
        brief: Columns that a narrow terminal shows; empty for all of them.
        bold: The column that answers the question; None for none.
        terminal: False where it is too long for a terminal.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    said: tuple[str, ...] = ()
    words: frozenset[int] = frozenset({0})
    brief: tuple[int, ...] = ()
    bold: int | None = None
    terminal: bool = True

    def __bool__(self) -> bool:
        """False without a row."""
        return bool(self.rows)


def distinct_sentences(sentences: Iterable[str]) -> tuple[str, ...]:
    """Sentences without empty and repeated ones."""
    return tuple(dict.fromkeys(said for said in sentences if said))


def group_sentences(said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Sentences that hold for several things, each once."""
    where: dict[str, list[str]] = {}
    for about, sentence in said:
        if sentence:
            where.setdefault(sentence, []).append(about)
    for sentence, abouts in where.items():
        yield f"{', '.join(dict.fromkeys(abouts))}: {sentence}"


def table_markdown(table: Table, *, level: int = 3) -> Iterator[str]:
    """The table in report.md."""
    if not table:
        return
    yield f"{'#' * level} {escape_markdown(table.title)}"
    rows = [
        [
            f"**{escape_markdown(c)}**" if i == table.bold and c else escape_markdown(c)
            for i, c in enumerate(row)
        ]
        for row in table.rows
    ]
    yield markdown_table([escape_markdown(name) for name in table.head], rows)
    if table.said:
        yield "\n".join(f"- {escape_markdown(said)}" for said in table.said)


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
_LONGEST_BOLD = 20


def terminal_encodable(said: str, *, plain: bool) -> str:
    """Text that a terminal can show."""
    shown = printable(said)
    if not plain:
        return shown
    return shown.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def terminal_table(table: Table, *, plain: bool) -> Drawn:
    """A table of outcomes."""
    drawn = Drawn(
        title=Text(terminal_encodable(table.title, plain=plain), style="dim"),
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
        name = terminal_encodable(table.head[index], plain=plain)
        # A number may part from the brackets that follow it, and from nothing else.
        width = max(len(row[index].partition(" (")[0]) for row in table.rows)
        least = min(width, _LONGEST_BOLD) if index == table.bold else None
        drawn.add_column(Text(name), justify=justify, overflow="fold", style=style, min_width=least)
    for row in table.rows:
        drawn.add_row(*(Text(terminal_encodable(row[i], plain=plain)) for i in shown))
    return drawn
