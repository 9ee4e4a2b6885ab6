"""A table that is described once and rendered for Markdown, the HTML page and a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich import box
from rich.table import Table as Drawn
from rich.text import Text

from vnetperf.report.plot import Markup, el
from vnetperf.report.summary import is_missing
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


def section(anchor: str, title: str, *children: object) -> Markup:
    """A section with its heading."""
    return el("section", el("h2", title), *children, id=anchor)


def scroller(label: str, *children: object) -> Markup:
    """A box that scrolls sideways by itself, so that the page never does."""
    return el("div", *children, class_="scroll", tabindex=0, role="region", aria_label=label)


def html_row(cells: Iterable[object], *, tag: str = "td", css: Sequence[str] = ()) -> Markup:
    """A table row."""
    done = []
    for index, cell in enumerate(cells):
        if isinstance(cell, Markup) and cell.startswith(("<td", "<th")):
            done.append(cell)
            continue
        name = css[index] if index < len(css) else ""
        scope = "col" if tag == "th" else None
        done.append(el(tag, cell, class_=name or None, scope=scope))
    return el("tr", done)


def html_table(
    label: str,
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    css: Sequence[str] = (),
    kind: str = "",
) -> Markup:
    """A table in a box of its own."""
    body = [html_row(cells, css=css) for cells in rows]
    if not body:
        return el("p", "None recorded.", class_="muted")
    inner = el(
        "table",
        el("thead", html_row(head, tag="th", css=css)),
        el("tbody", body),
        class_=kind or None,
    )
    return scroller(label, inner)


def facts_table(label: str, rows: Iterable[tuple[str, str]]) -> Markup:
    """Names and values; a value that says it is unknown stands out."""
    body = [
        el(
            "tr",
            el("th", breakable(name), scope="row"),
            el("td", value, class_="unknown" if is_missing(value) else None),
        )
        for name, value in rows
    ]
    if not body:
        return el("p", "None recorded.", class_="muted")
    return el("table", el("tbody", body), class_="facts", aria_label=label)


def breakable(path: str) -> Markup:
    """A dotted path that may break after its dots."""
    pieces: list[object] = []
    for index, part in enumerate(path.split(".")):
        if index:
            pieces += [".", el("wbr")]
        pieces.append(part)
    return el("span", pieces)


def folded(summary: object, *children: object, anchor: str | None = None) -> Markup:
    """Content behind a line that opens it."""
    return el("details", el("summary", summary), *children, id=anchor)


def badge(said: str, css: str) -> Markup:
    """A word that must not be overlooked."""
    return el("span", said, class_=f"badge {css}")


#: Stands for a cell that has nothing to say.
NONE = "\N{EN DASH}"
#: Longest words that are kept on one line.
_SHORT = 24
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one cell.

    Attributes:
        text: The text; several lines where it names several things.
        short: The same for a narrow terminal; "" for the same text.
        mark: A word that must not be overlooked, and its colour on the page: "warn", "good" ...
        css: Its own colour on the page; "" for none.
        why: What the page shows when it is pointed at.
        code: Whether it is to be read letter by letter: a command, a path.
    """

    text: str
    short: str = ""
    mark: tuple[str, str] | None = None
    css: str = ""
    why: str = ""
    code: bool = False


@dataclass(frozen=True, slots=True)
class Column(Generic[Item]):
    """One column of a table.

    Attributes:
        name: Its heading.
        cell: What it shows of an item; None for nothing.
        words: Whether it holds words and not numbers.
        brief: Whether a narrow terminal shows it.
        bold: Whether it answers the question.
    """

    name: str
    cell: Callable[[Item], Cell | str | None]
    words: bool = False
    brief: bool = True
    bold: bool = False

    def shown(self, item: Item) -> Cell:
        """The cell of an item."""
        value = self.cell(item)
        return value if isinstance(value, Cell) else Cell(NONE if value is None else value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: described once, shown in a terminal, in Markdown and in the page.

    Attributes:
        title: Its heading; "" for none.
        columns: Its columns.
        rows: Cells by row.
        notes: Sentences below it.
        terminal: False where it is too long for a terminal.
    """

    title: str
    columns: tuple[Column[Any], ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    terminal: bool = True

    @classmethod
    def of(
        cls,
        title: str,
        columns: Sequence[Column[Item]],
        items: Iterable[Item],
        notes: Iterable[str] = (),
        *,
        terminal: bool = True,
    ) -> Table:
        """Make a table with a row for each item; without one it has no notes either."""
        rows = tuple(tuple(column.shown(item) for column in columns) for item in items)
        said = dict.fromkeys(note for note in notes if note) if rows else ()
        return cls(title, tuple(columns), rows, tuple(said), terminal)

    @property
    def texts(self) -> Iterator[tuple[str, ...]]:
        """The rows without anything but their text."""
        return (tuple(cell.text for cell in row) for row in self.rows)

    def __bool__(self) -> bool:
        """False without a row."""
        return bool(self.rows)


def group_sentences(said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Sentences that hold for several things, each once."""
    where: dict[str, list[str]] = {}
    for about, sentence in said:
        if sentence:
            where.setdefault(sentence, []).append(about)
    for sentence, abouts in where.items():
        yield f"{', '.join(dict.fromkeys(abouts))}: {sentence}"


def _markdown_cell(cell: Cell, column: Column[Any]) -> str:
    if cell.code:
        return markdown_code(cell.text)
    shown = escape_markdown(cell.text.replace("\n", "; "))
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


def table_section(table: Table, anchor: str) -> Markup | None:
    """The table as a part of the page of its own."""
    if not table:
        return None
    return section(anchor, table.title, table_html(table, heading=False))


def _column_classes(table: Table) -> Iterator[str]:
    for index, column in enumerate(table.columns):
        longest = max(len(row[index].text) for row in table.rows)
        kind = "num" if not column.words else "short" if longest <= _SHORT else ""
        yield f"{kind} {'lead' * column.bold}".strip()


def cell_html(cell: Cell) -> object:
    """A cell's content in the page."""
    shown = badge(cell.text, cell.css) if cell.css else cell.text
    if cell.mark is None and not cell.why:
        return shown
    mark = [" ", badge(*cell.mark)] if cell.mark else []
    return el("span", el("span", shown, class_="value"), mark, title=cell.why or None)


def _repeats_muted(table: Table) -> Iterator[tuple[object, ...]]:
    """Rows whose first cell stands out only where it changes."""
    last = None
    for first, *others in table.rows:
        css = "short again" if first == last else "short fresh"
        yield (el("td", first.text, class_=css), *map(cell_html, others))
        last = first


def table_html(
    table: Table,
    *,
    label: str = "",
    heading: bool = True,
    kind: str = "outcome",
    css: Sequence[str] | None = None,
) -> Markup | None:
    """The table in the page."""
    notes = [el("li", note) for note in table.notes]
    below = el("ul", notes, class_="notes") if notes else None
    if not table:
        return below
    rows = _repeats_muted(table) if kind == "outcome" else (map(cell_html, r) for r in table.rows)
    shown = html_table(
        label or table.title,
        [column.name for column in table.columns],
        map(tuple, rows),
        css=list(_column_classes(table)) if css is None else css,
        kind=kind,
    )
    return el(
        "div",
        el("h3", table.title) if heading and table.title else None,
        shown,
        below,
    )


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
    """The table in a terminal."""
    title = Text(terminal_encodable(table.title, plain=plain), style="dim")
    drawn = terminal_grid(title, plain=plain, gap=1)
    shown = [index for index, column in enumerate(table.columns) if column.brief]
    for index in shown:
        column = table.columns[index]
        # A number may part from the brackets that follow it, and from nothing else.
        width = max(len(row[index].text.partition(" (")[0]) for row in table.rows)
        drawn.add_column(
            Text(terminal_encodable(column.name, plain=plain)),
            justify="left" if column.words else "right",
            overflow="fold",
            style="bold" if column.bold else "",
            min_width=min(width, _LONGEST_BOLD) if column.bold else None,
        )
    for row in table.rows:
        cells = (row[index].short or row[index].text for index in shown)
        drawn.add_row(*(Text(terminal_encodable(cell, plain=plain)) for cell in cells))
    return drawn


def terminal_grid(title: Text | None, *, plain: bool, gap: int = 0) -> Drawn:
    """An empty table of a terminal, in characters that it can show."""
    return Drawn(
        title=title,
        title_justify="left",
        box=box.ASCII2 if plain else box.SIMPLE_HEAD,
        padding=(0, gap, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
