"""Tables and lines on a terminal, in a pipe or in a CI log, for commands that answer from logs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from math import isinf
from operator import itemgetter
from typing import Any

from rich.text import Text

from vnetperf.analysis.environment import FactDifference
from vnetperf.model.units import Unit, value_text
from vnetperf.report.table import (
    Column,
    Table,
    print_drawn,
    stdout_console,
    terminal_bullet,
    terminal_encodable,
    terminal_table,
)

#: Columns of what is no terminal: programs read lines, and a file has no edge.
_PIPED = 10_000


def _width() -> int | None:
    """Columns to print in; None for those of the terminal, or of COLUMNS."""
    return None if sys.stdout.isatty() or _named_columns() else _PIPED


def _named_columns() -> int:
    """Columns that COLUMNS gives; 0 where it gives none."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() else 0


class Out:
    """Where a command prints to."""

    def __init__(self) -> None:
        self.console = stdout_console(_width())
        self.plain = not self.console.encoding.lower().startswith("utf")

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line; nothing in it is markup."""
        self.console.print(Text(terminal_encodable(text, plain=self.plain), style=style))

    def bullets(self, lines: Iterable[str]) -> None:
        """Print lines, each with a mark, the rest of a long one indented."""
        for line in lines:
            print_drawn(self.console, terminal_bullet(line, plain=self.plain))

    def differences(self, differences: Sequence[FactDifference], most: int | None) -> None:
        """Print what differs between two environments, and how many differences are left out."""
        self.bullets(f"{d.path}: {_short(d.a)} -> {_short(d.b)}" for d in differences[:most])
        if hidden := len(differences[most:]) if most else 0:
            self.line(f"  ... and {hidden} more: --all shows them")

    def table(self, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table; columns whose name begins with ">" stand to the right."""
        columns = [
            Column(name.removeprefix(">"), itemgetter(place), words=not name.startswith(">"))
            for place, name in enumerate(names)
        ]
        self.show(Table.from_items("", columns, rows))

    def show(self, table: Table) -> None:
        """Print a table as reports describe it."""
        print_drawn(self.console, terminal_table(table, plain=self.plain))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def number(value: float | None, unit: Unit) -> str:
    """A number with its unit."""
    if value is None:
        return "-"
    if isinf(value):
        return "\N{MINUS SIGN}∞" if value < 0 else "∞"
    if value < 0:
        return "\N{MINUS SIGN}" + number(-value, unit)
    return value_text(value, unit)


def unit_name(unit: Unit) -> str:
    """A unit in the JSON of commands."""
    return "frames/s" if unit == "fps" else unit


def percent(ratio: float) -> str:
    """A relative difference with its sign."""
    if isinf(ratio):
        return "\N{MINUS SIGN}∞" if ratio < 0 else "+∞"
    sign = "\N{MINUS SIGN}" if ratio < 0 else "+"
    return f"{sign}{100 * abs(ratio):.3g} %"
