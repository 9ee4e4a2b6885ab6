"""Rates at loads that were not searched: MRR, and forwarding rate (RFC 2889 section 5.6)."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import ForwardingRate
from vnetperf.model.result import Result
from vnetperf.report import spreads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import Table, clean

_HEAD = (
    "size",
    "load",
    "forwarding rate, aggregate",
    "std. dev.",
    "least",
    "most",
    "trials",
    "of",
    "loss, worse direction, mean",
    "of the medium",
    "load, aggregate",
)


def _row(result: Result, found: ForwardingRate) -> tuple[str, ...]:
    rate, medium = found.forwarded_fps, result.media_max_fps
    return (
        result.size_name,
        found.of,
        spreads.mean(rate, "fps"),
        spreads.stdev(rate, "fps"),
        text.fps(rate.minimum),
        text.fps(rate.maximum),
        str(rate.n),
        text.seconds(found.duration_s),
        text.percent(found.loss_ratio.mean),
        text.percent(rate.mean / medium, 3) if medium else "not measured",
        text.fps(found.load_fps),
    )


def _said(group: Group) -> Iterator[str]:
    every = [(r, found) for r in group.measured for found in r.rates]
    yield spreads.interval_note([found.forwarded_fps for _, found in every])
    for result, found in every:
        for remark in spreads.remarks(found.forwarded_fps, "fps"):
            yield f"{result.size_text}, {found.of}: {remark}."


def tables(group: Group) -> tuple[Table, ...]:
    """Forwarding rates.

    Args:
        group: Results of one scenario and test.

    Returns:
        One table; without rows when none was measured.
    """
    rows = tuple(_row(r, found) for r in group.measured for found in r.rates)
    words = frozenset({0, 1})
    brief = (0, 1, 10, 2, 3, 6, 8)
    said = clean(_said(group))
    return (Table("Forwarding rate", _HEAD, rows, said, words=words, brief=brief, bold=2),)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words.

    Args:
        result: One result.

    Returns:
        The largest rate, and at which load.
    """
    if not result.rates:
        return "", ""
    best = max(result.rates, key=lambda found: found.forwarded_fps.mean)
    said = f"at {text.short_fps(best.load_fps)}, {text.percent(best.loss_ratio.mean, 3)} lost"
    return spreads.with_n(best.forwarded_fps, "fps"), said


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers; each load is an item.
    """
    for found in result.rates:
        yield Quantity("load", "fps", found.load_fps, found.of)
        yield Quantity("forwarding_rate", "fps", found.forwarded_fps, found.of)
        yield Quantity("loss_ratio", "ratio", found.loss_ratio, found.of)
        yield Quantity("trial_duration", "s", found.duration_s, found.of)
