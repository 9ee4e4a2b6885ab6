"""Address caching capacity and address learning rate (RFC 2889 sections 5.7 and 5.8)."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import AddressTable
from vnetperf.model.result import Result
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import Table, clean, grouped

_LEARNING = "address_learning"
_TRIED = ("size", "addresses", "sent at", "learned", "trial")


def _at_least(found: AddressTable, said: str) -> str:
    return f"at least {said}" if found.capped else said


def _numbers(test: str, found: AddressTable) -> tuple[str, str]:
    """Addresses and rate; the one that was searched carries the qualifier."""
    count, rate = text.frames(found.addresses), text.fps(found.learning_fps)
    if test == _LEARNING:
        return count, _at_least(found, rate)
    return _at_least(found, count), rate


def _said(known: list[tuple[Result, AddressTable]]) -> Iterator[str]:
    capped = "the most that was tried was no limit."
    yield from grouped((r.size_text, capped if found.capped else "") for r, found in known)
    yield from grouped((r.size_text, found.note) for r, found in known)


def tables(group: Group) -> tuple[Table, ...]:
    """What was found, and everything that was tried.

    Args:
        group: Results of one scenario and test.

    Returns:
        Two tables; without rows when none was measured.
    """
    known = [(r, r.addresses) for r in group.measured if r.addresses]
    rows = tuple(
        (r.size_name, *_numbers(group.test, found), str(len(found.tried))) for r, found in known
    )
    learning = group.test == _LEARNING
    head = (
        "size",
        "addresses used" if learning else "address caching capacity",
        "address learning rate" if learning else "addresses sent at",
        "tried",
    )
    tried = tuple(
        (
            r.size_name,
            text.frames(count),
            text.fps(rate),
            "all" if all_learned else "not all",
            f"{trial}",
        )
        for r, found in known
        for count, rate, all_learned, trial in found.tried
    )
    return (
        Table("Addresses", head, rows, clean(_said(known)), bold=2 if learning else 1),
        Table("Numbers and rates tried", _TRIED, tried, words=frozenset({0, 3}), terminal=False),
    )


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words.

    Args:
        result: One result.

    Returns:
        The capacity, or the rate.
    """
    found = result.addresses
    if found is None:
        return "", ""
    count, rate = _numbers(result.test, found)
    if result.test == _LEARNING:
        return rate, f"{count} addresses"
    return f"{count} addresses", f"sent at {rate}"


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers.
    """
    found = result.addresses
    if found is None:
        return
    yield Quantity("addresses", "addresses", float(found.addresses), note=found.note)
    yield Quantity("learning_rate", "fps", found.learning_fps, note=found.note)
    yield Quantity("capped", "", found.capped)
