"""A table that every report shows alike: its cells are made once, and drawn three times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vnetperf.report import page_parts
from vnetperf.report.markdown_text import escaped
from vnetperf.report.markdown_text import table as markdown_table
from vnetperf.report.markup import Markup, el

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


def clean(sentences: Iterable[str]) -> tuple[str, ...]:
    """Sentences without empty and repeated ones.

    Args:
        sentences: Any.

    Returns:
        Each once, in order.
    """
    return tuple(dict.fromkeys(said for said in sentences if said))


def grouped(said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Sentences that hold for several things, each once.

    Args:
        said: What it is about, and the sentence; empty sentences are left out.

    Yields:
        "64 octets, 128 octets: SENTENCE".
    """
    where: dict[str, list[str]] = {}
    for about, sentence in said:
        if sentence:
            where.setdefault(sentence, []).append(about)
    for sentence, abouts in where.items():
        yield f"{', '.join(dict.fromkeys(abouts))}: {sentence}"


def markdown(table: Table, *, level: int = 3) -> Iterator[str]:
    """The table in report.md.

    Args:
        table: The table.
        level: Level of its heading.

    Yields:
        Markdown blocks; none without a row.
    """
    if not table:
        return
    yield f"{'#' * level} {escaped(table.title)}"
    rows = [
        [f"**{escaped(c)}**" if i == table.bold and c else escaped(c) for i, c in enumerate(row)]
        for row in table.rows
    ]
    yield markdown_table([escaped(name) for name in table.head], rows)
    if table.said:
        yield "\n".join(f"- {escaped(said)}" for said in table.said)


def table_section(table: Table, anchor: str) -> Markup | None:
    """The table as a part of the page of its own.

    Args:
        table: The table.
        anchor: Id of the section.

    Returns:
        HTML; None without a row.
    """
    if not table:
        return None
    return page_parts.section(anchor, table.title, drawn(table, heading=False))


def _css(table: Table) -> Sequence[str]:
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


def drawn(table: Table, *, label: str = "", heading: bool = True) -> Markup | None:
    """The table in the page.

    Args:
        table: The table.
        label: What it holds, for screen readers; its title when empty.
        heading: False where a section's heading says it already.

    Returns:
        HTML; None without a row.
    """
    if not table:
        return None
    said = [el("li", sentence) for sentence in table.said]
    return el(
        "div",
        el("h3", table.title) if heading else None,
        page_parts.table(
            label or table.title,
            table.head,
            _repeats_muted(table),
            css=_css(table),
            kind="outcome",
        ),
        el("ul", said, class_="notes") if said else None,
    )
