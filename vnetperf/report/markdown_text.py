"""Markdown's own rules: escaping and tables, so that no name of a run can become markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from vnetperf.report.printable import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~#])")


def escaped(said: object) -> str:
    """Text for a paragraph or a table cell.

    Args:
        said: Any text.

    Returns:
        One line in which Markdown and HTML see no markup.
    """
    line = " ".join(printable(str(said)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", line)


def code(said: object) -> str:
    """Text as inline code, safe in a table cell.

    Args:
        said: A command line or value; line breaks become "; ".

    Returns:
        A code span whose fence is longer than any run of backticks in it.
    """
    line = "; ".join(part.strip() for part in printable(str(said)).splitlines() if part.strip())
    if not line:
        return ""
    runs = re.findall(r"`+", line)
    fence = "`" * (max((len(r) for r in runs), default=0) + 1)
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}".replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are escaped already.

    Args:
        head: Names of the columns.
        rows: Cells.

    Returns:
        Markdown; "None." when there is no row.
    """
    body = ["| " + " | ".join(row) + " |" for row in rows]
    if not body:
        return "None."
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body])
