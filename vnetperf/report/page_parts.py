"""Pieces that several parts of the page share: sections, tables that scroll in their own box."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vnetperf.report.markup import Markup, el
from vnetperf.report.unknowns import is_unknown


def section(anchor: str, title: str, *children: object) -> Markup:
    """A section with its heading.

    Args:
        anchor: Its id.
        title: Its heading.
        *children: Its content.

    Returns:
        HTML.
    """
    return el("section", el("h2", title), *children, id=anchor)


def scroller(label: str, *children: object) -> Markup:
    """A box that scrolls sideways by itself, so that the page never does.

    Args:
        label: What it holds, for screen readers.
        *children: Its content.

    Returns:
        HTML.
    """
    return el("div", *children, class_="scroll", tabindex=0, role="region", aria_label=label)


def row(cells: Iterable[object], *, tag: str = "td", css: Sequence[str] = ()) -> Markup:
    """A table row.

    Args:
        cells: Contents; a cell that is an element of a table already is taken as it is.
        tag: "td" or "th".
        css: Class names by column, "" for none.

    Returns:
        HTML.
    """
    done = []
    for index, cell in enumerate(cells):
        if isinstance(cell, Markup) and cell.startswith(("<td", "<th")):
            done.append(cell)
            continue
        name = css[index] if index < len(css) else ""
        scope = "col" if tag == "th" else None
        done.append(el(tag, cell, class_=name or None, scope=scope))
    return el("tr", done)


def table(
    label: str,
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    css: Sequence[str] = (),
    kind: str = "",
) -> Markup:
    """A table in a box of its own.

    Args:
        label: What it holds.
        head: Names of the columns.
        rows: Contents by row.
        css: Class names by column; "num" aligns numbers.
        kind: Class name of the table.

    Returns:
        HTML; says so when there is no row.
    """
    body = [row(cells, css=css) for cells in rows]
    if not body:
        return el("p", "None recorded.", class_="muted")
    inner = el(
        "table",
        el("thead", row(head, tag="th", css=css)),
        el("tbody", body),
        class_=kind or None,
    )
    return scroller(label, inner)


def facts_table(label: str, rows: Iterable[tuple[str, str]]) -> Markup:
    """Names and values; a value that says it is unknown stands out.

    Args:
        label: What it holds.
        rows: Name and value.

    Returns:
        HTML.
    """
    body = [
        el(
            "tr",
            el("th", breakable(name), scope="row"),
            el("td", value, class_="unknown" if is_unknown(value) else None),
        )
        for name, value in rows
    ]
    if not body:
        return el("p", "None recorded.", class_="muted")
    return el("table", el("tbody", body), class_="facts", aria_label=label)


def breakable(path: str) -> Markup:
    """A dotted path that may break after its dots.

    Args:
        path: "environment.cpu.microcode".

    Returns:
        HTML with break opportunities.
    """
    pieces: list[object] = []
    for index, part in enumerate(path.split(".")):
        if index:
            pieces += [".", el("wbr")]
        pieces.append(part)
    return el("span", pieces)


def folded(summary: object, *children: object, anchor: str | None = None) -> Markup:
    """Content behind a line that opens it.

    Args:
        summary: The line.
        *children: The content.
        anchor: Its id.

    Returns:
        HTML.
    """
    return el("details", el("summary", summary), *children, id=anchor)


def badge(said: str, css: str) -> Markup:
    """A word that must not be overlooked.

    Args:
        said: The word.
        css: Class name.

    Returns:
        HTML.
    """
    return el("span", said, class_=f"badge {css}")
