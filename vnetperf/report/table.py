"""A table that is described once and rendered for Markdown, the HTML page and a terminal."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as Drawn
from rich.text import Text

from vnetperf.report.text import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~#])")


def escape_markdown(value: object) -> str:
    """Text for a paragraph or a table cell."""
    line = " ".join(printable(str(value)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", line)


def markdown_code(value: object) -> str:
    """Text as inline code, safe in a table cell."""
    line = "; ".join(part.strip() for part in printable(str(value)).splitlines() if part.strip())
    if not line:
        return ""
    runs = re.findall(r"`+", line)
    fence = "`" * (max((len(r) for r in runs), default=0) + 1)
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}".replace("|", "\\|")


def stdout_console(width: int | None = None) -> Console:
    """A console of a width; None: as wide as the terminal or COLUMNS says, unless that is 0.

    The terminal is that of any standard stream: output that is paged (`| less`) fills it.
    """
    columns = os.environ.get("COLUMNS", "")
    if width is None and columns.isdecimal() and not int(columns):
        width = shutil.get_terminal_size().columns
    return Console(highlight=False, soft_wrap=False, width=width)


#: Stands in a cell where a column does not apply.
NONE = "\N{EN DASH}"
#: The generator or tool does not tell.
NOT_RECORDED = "not recorded"
#: There should be a number; a note or the list of what is missing has the reason.
NOT_MEASURED = "not measured"
#: What cells without a number say; it stands once in each report.
LEGEND = (
    f"In cells: {NONE} does not apply, 0 was measured, none was looked for and not found; "
    f"{NOT_RECORDED}: the generator or tool does not tell; {NOT_MEASURED}: why stands in a note."
)
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one cell."""

    text: str
    short: str = ""  # The same for a narrow terminal; "" for the same text
    #: A word that must not be overlooked, and its colour on the page: "warn", "good" ...
    mark: tuple[str, str] | None = None
    css: str = ""  # Its own colour on the page; "" for none
    hint: str = ""  # What the page shows when it is pointed at
    code: bool = False  # Whether it is to be read letter by letter: a command, a path
    #: How a terminal sets it off: "head" begins a group of rows, "strong", "faint", "warn".
    role: Literal["", "head", "strong", "faint", "warn"] = ""
    aside: str = ""  # Words after it that a terminal sets back


@dataclass(frozen=True, slots=True)
class Column(Generic[Item]):
    """One column of a table."""

    name: str
    cell: Callable[[Item], Cell | str | None]  # What it shows of an item; None for nothing
    words: bool = False  # Whether it holds words and not numbers
    brief: bool = True  # Whether a narrow terminal shows it
    bold: bool = False  # Whether it answers the question
    optional: bool = False  # Whether a table without anything in it leaves it out

    def shown(self, item: Item) -> Cell:
        """The cell of an item."""
        value = self.cell(item)
        return value if isinstance(value, Cell) else Cell(NONE if value is None else value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: described once, shown in a terminal, in Markdown and in the page."""

    title: str
    columns: tuple[Column[Any], ...]
    rows: tuple[tuple[Cell, ...], ...]  # Cells by row
    notes: tuple[str, ...] = ()  # Sentences below it
    terminal: bool = True  # False where it is too long for a terminal

    @classmethod
    def from_items(
        cls,
        title: str,
        columns: Sequence[Column[Item]],
        items: Iterable[Item],
        notes: Iterable[str] = (),
        *,
        terminal: bool = True,
    ) -> Table:
        """Make a table with a row for each item; without one it has no notes either."""
        cells = [[column.shown(item) for column in columns] for item in items]
        kept_columns = [
            n
            for n, column in enumerate(columns)
            if not column.optional or any(row[n].text not in ("", NONE) for row in cells)
        ]
        columns = [columns[n] for n in kept_columns]
        rows = tuple(tuple(row[n] for n in kept_columns) for row in cells)
        kept = dict.fromkeys(note for note in notes if note) if rows else ()
        return cls(title, tuple(columns), rows, tuple(kept), terminal)

    @property
    def texts(self) -> Iterator[tuple[str, ...]]:
        """The rows without anything but their text."""
        return (tuple(cell.text for cell in row) for row in self.rows)

    def __bool__(self) -> bool:
        """False without a row."""
        return bool(self.rows)


def group_sentences(sentences: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Sentences that hold for several things, each once."""
    where: dict[str, list[str]] = {}
    for about, sentence in sentences:
        if sentence:
            where.setdefault(sentence, []).append(about)
    for sentence, abouts in where.items():
        yield f"{listed_sizes([*dict.fromkeys(abouts)])}: {sentence}"


_OCTETS = " octets"


def listed_sizes(names: Sequence[str]) -> str:
    """Names in a row, of frame sizes with their unit once: "64, 512 and 1518 octets"."""
    if len(names) < 2 or not all(name.endswith(_OCTETS) for name in names):
        return ", ".join(names)
    *first, last = (name.removesuffix(_OCTETS) for name in names)
    return f"{', '.join(first)} and {last}{_OCTETS}"


def _markdown_cell(cell: Cell, column: Column[Any]) -> str:
    if cell.code:
        return markdown_code(cell.text)
    shown = escape_markdown(cell.text)
    return f"**{shown}**" if column.bold and shown else shown


def table_markdown(table: Table, *, level: int = 3, empty: str = "") -> Iterator[str]:
    """The table in report.md; `empty` stands for one without rows."""
    if table.title and (table or empty):
        yield f"{'#' * level} {escape_markdown(table.title)}"
    head = [escape_markdown(column.name) for column in table.columns]
    rows = [list(map(_markdown_cell, row, table.columns)) for row in table.rows]
    lines = [head, ["---"] * len(head), *rows] if rows else []
    yield "\n".join(f"| {' | '.join(cells)} |" for cells in lines) or empty
    if table.notes:
        yield "\n".join(f"- {escape_markdown(note)}" for note in table.notes)


_ASCII = str.maketrans(
    {
        "µ": "u",
        "\N{MIDDLE DOT}": "-",
        "\N{EN DASH}": "-",
        "\N{NO-BREAK SPACE}": " ",
        "\N{MULTIPLICATION SIGN}": "x",
        "\N{PLUS-MINUS SIGN}": "+-",
        "\N{RIGHTWARDS ARROW}": "->",
        "\N{MINUS SIGN}": "-",
        "\N{HORIZONTAL ELLIPSIS}": "...",
        "\N{INFINITY}": "inf",
    }
)


#: Characters that the column with the answer never has less of, where its numbers need them.
_LONGEST_BOLD = 20


def terminal_encodable(value: str, *, plain: bool) -> str:
    """Text that a terminal can show."""
    shown = printable(value)
    if not plain:
        return shown
    return shown.translate(_ASCII).encode("ascii", "backslashreplace").decode()


#: Styles of a terminal for the roles of cells.
_STYLES = {"": "", "head": "bold cyan", "strong": "bold", "faint": "dim", "warn": "yellow"}


def terminal_table(table: Table, *, plain: bool, title_style: str = "dim", gap: int = 1) -> Drawn:
    """The table in a terminal; the gap is between its columns."""

    def words(value: str, style: str = "") -> Text:
        return Text(terminal_encodable(value, plain=plain), style=style)

    drawn = Drawn(
        title=words(table.title, title_style) if table.title else None,
        title_justify="left",
        box=box.ASCII2 if plain else box.SIMPLE_HEAD,
        padding=(0, gap, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    shown = [index for index, column in enumerate(table.columns) if column.brief]
    for index in shown:
        column = table.columns[index]
        # A number may part from the brackets that follow it, and from nothing else.
        lengths = (len(row[index].text.partition(" (")[0]) for row in table.rows)
        drawn.add_column(
            words(column.name),
            justify="left" if column.words else "right",
            overflow="fold",
            style="bold" if column.bold else "",
            min_width=min(max(lengths, default=0), _LONGEST_BOLD) if column.bold else None,
        )
    for row in table.rows:
        cells = []
        for cell in (row[index] for index in shown):
            cells.append(words(cell.short or cell.text, _STYLES[cell.role]))
            if cell.aside:
                cells[-1].append(f" {words(cell.aside)}", "dim")
        if row[0].role == "head":
            drawn.add_section()
        drawn.add_row(*cells)
    return drawn


def terminal_bullet(words: str, *, plain: bool) -> Drawn:
    """A sentence with a mark, the rest of a long one indented."""
    grid = Drawn.grid(padding=(0, 1, 0, 0))
    grid.add_row("*", Text(terminal_encodable(words, plain=plain)))
    return grid


def print_drawn(console: Console, drawn: RenderableType) -> None:
    """Print lines without the blanks that fill them up, which nobody wants of a pipe."""
    with console.capture() as printed:
        console.print(drawn)
    for line in printed.get().splitlines():
        console.out(line.rstrip(), highlight=False)
