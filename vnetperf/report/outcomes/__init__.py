"""What tests other than a search found, in words and numbers that every report shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from vnetperf.model.result import Result
from vnetperf.report.cases import Group
from vnetperf.report.outcomes import (
    addresses,
    back_to_back,
    latency,
    loss,
    rates,
    recovery,
    reset,
    rounds,
    soak,
)
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import Table

__all__ = ["Quantity", "headline", "quantities", "tables"]


class Kind(Protocol):
    """What each module of this package does for its kind of outcome."""

    def tables(self, group: Group) -> tuple[Table, ...]:
        """See :func:`tables`."""

    def headline(self, result: Result) -> tuple[str, str]:
        """See :func:`headline`."""

    def quantities(self, result: Result) -> Iterator[Quantity]:
        """See :func:`quantities`."""


_KINDS: tuple[Kind, ...] = (
    rounds,
    latency,
    loss,
    back_to_back,
    recovery,
    reset,
    rates,
    soak,
    addresses,
)


def tables(group: Group) -> tuple[Table, ...]:
    """Every table of one scenario and test.

    Args:
        group: Its results.

    Returns:
        Those that have a row.
    """
    return tuple(table for kind in _KINDS for table in kind.tables(group) if table)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words, for a cell of an overview.

    Args:
        result: One result.

    Returns:
        The number (a line for each thing that has one) and, in smaller print, what belongs to it;
        twice "" when it holds none.
    """
    for kind in _KINDS:
        said = kind.headline(result)
        if said[0]:
            return said
    return "", ""


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number, for programs.

    Args:
        result: One result.

    Yields:
        The numbers.
    """
    for kind in _KINDS:
        yield from kind.quantities(result)
