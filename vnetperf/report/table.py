"""A table that is described once and rendered for Markdown, the HTML page and a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

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


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are escaped already."""
    body = ["| " + " | ".join(row) + " |" for row in rows]
    if not body:
        return "None."
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body])


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


def table_section(table: Table, anchor: str) -> Markup | None:
    """The table as a part of the page of its own."""
    if not table:
        return None
    return section(anchor, table.title, table_html(table, heading=False))


def _column_classes(table: Table) -> Sequence[str]:
    found = []
    for index in range(len(table.head)):
        longest = max(len(row[index]) for row in table.rows)
        short = "short" if longest <= _SHORT else ""
        kind = short if index in table.words else "num"
        found.append(f"{kind} {'lead' * (index == table.bold)}".strip())
    return found


def _repeats_muted(table: Table) -> Iterator[tuple[object, ...]]:
    """Rows whose first cell stands out only where it changes."""
    last = None
    for first, *others in table.rows:
        css = "short again" if first == last else "short fresh"
        yield (el("td", first, class_=css), *others)
        last = first


def table_html(table: Table, *, label: str = "", heading: bool = True) -> Markup | None:
    """The table in the page."""
    if not table:
        return None
    said = [el("li", sentence) for sentence in table.said]
    return el(
        "div",
        el("h3", table.title) if heading else None,
        html_table(
            label or table.title,
            table.head,
            _repeats_muted(table),
            css=_column_classes(table),
            kind="outcome",
        ),
        el("ul", said, class_="notes") if said else None,
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
