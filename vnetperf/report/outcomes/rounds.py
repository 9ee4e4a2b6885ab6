"""Lower bounds of all rounds, where cases were measured several times in turn."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import Spread
from vnetperf.model.result import Result
from vnetperf.report import spreads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import Table, clean

_HEAD = ("size", "goal", "lower bound, aggregate", "std. dev.", "least", "most", "rounds")


def known(group: Group) -> Iterator[tuple[Result, str, Spread]]:
    """Goals that were searched for several times.

    Args:
        group: Results of one scenario and test.

    Yields:
        The result, name of the goal, and its lower bounds.
    """
    for result in group.measured:
        for goal in result.goals:
            if goal.repeats is not None:
                yield result, goal.name, goal.repeats


def _said(every: list[tuple[Result, str, Spread]]) -> Iterator[str]:
    yield spreads.interval_note([found for _, _, found in every])
    yield "All other figures are of the round whose lower bound is in the middle."
    for result, name, found in every:
        for remark in spreads.remarks(found, "fps"):
            yield f"{result.size_text}, {name}: {remark}."


def tables(group: Group) -> tuple[Table, ...]:
    """Rounds by frame size and goal.

    Args:
        group: Results of one scenario and test.

    Returns:
        One table; without rows when each case was measured once.
    """
    every = list(known(group))
    rows = tuple(
        (
            result.size_name,
            name,
            spreads.mean(found, "fps"),
            spreads.stdev(found, "fps"),
            text.fps(found.minimum),
            text.fps(found.maximum),
            str(found.n),
        )
        for result, name, found in every
    )
    said = clean(_said(every)) if every else ()
    return (Table("Rounds", _HEAD, rows, said, words=frozenset({0, 1}), bold=2),)


def headline(result: Result) -> tuple[str, str]:
    """Nothing: the goal's own number is the answer.

    Args:
        result: One result.

    Returns:
        Twice "".
    """
    del result
    return "", ""


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers; each goal is an item.
    """
    for goal in result.goals:
        if goal.repeats is not None:
            yield Quantity("lower_bound_of_rounds", "fps", goal.repeats, goal.name)
