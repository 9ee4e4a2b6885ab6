"""What tests other than a search found, in words and numbers that every report shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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

#: What each kind of test contributes, in the order of a report.
_TABLES: tuple[Callable[[Group], tuple[Table, ...]], ...] = (
    rounds.tables,
    latency.tables,
    loss.tables,
    back_to_back.tables,
    recovery.tables,
    reset.tables,
    rates.tables,
    soak.tables,
    addresses.tables,
)
_HEADLINES: tuple[Callable[[Result], tuple[str, str]], ...] = (
    rounds.headline,
    latency.headline,
    loss.headline,
    back_to_back.headline,
    recovery.headline,
    reset.headline,
    rates.headline,
    soak.headline,
    addresses.headline,
)
_QUANTITIES: tuple[Callable[[Result], Iterator[Quantity]], ...] = (
    rounds.quantities,
    latency.quantities,
    loss.quantities,
    back_to_back.quantities,
    recovery.quantities,
    reset.quantities,
    rates.quantities,
    soak.quantities,
    addresses.quantities,
)


def tables(group: Group) -> tuple[Table, ...]:
    """Every table of one scenario and test.

    Args:
        group: Its results.

    Returns:
        Those that have a row.
    """
    return tuple(table for tables_of in _TABLES for table in tables_of(group) if table)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words, for a cell of an overview.

    Args:
        result: One result.

    Returns:
        The number (a line for each thing that has one) and, in smaller print, what belongs to it;
        twice "" when it holds none.
    """
    for headline_of in _HEADLINES:
        said = headline_of(result)
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
    for quantities_of in _QUANTITIES:
        yield from quantities_of(result)
