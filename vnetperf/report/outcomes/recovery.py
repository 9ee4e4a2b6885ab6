"""System recovery (RFC 2544 section 26.5)."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import Recovery
from vnetperf.model.result import Result
from vnetperf.report import spreads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import Table, clean, grouped

#: How a note begins that takes the number's worth.
_NO_RESULT = "no result"
_HEAD = (
    "size",
    "throughput used",
    "recovery time",
    "least",
    "largest",
    "trials",
    "overload",
    "of throughput",
    "for",
    "load after",
)


def number(found: Recovery) -> str:
    """The time, or that what was seen is no result.

    Args:
        found: What was found.

    Returns:
        "172 ± 24 ms", "no result".
    """
    if found.note.startswith(_NO_RESULT):
        return _NO_RESULT
    return spreads.mean(found.seconds, "s")


def _row(result: Result, found: Recovery) -> tuple[str, ...]:
    used = found.throughput_fps
    return (
        result.size_name,
        text.fps(used),
        number(found),
        text.time_s(found.seconds.minimum),
        text.time_s(found.seconds.maximum),
        str(found.seconds.n),
        text.fps(found.overload_fps),
        text.percent(found.overload_fps / used) if used else "not measured",
        text.seconds(found.overload_s),
        text.fps(found.relaxed_fps),
    )


def _said(known: list[tuple[Result, Recovery]]) -> Iterator[str]:
    yield spreads.interval_note([found.seconds for _, found in known])
    yield "From the drop of the load to the last frame that was lost. Rates are sums."
    yield from grouped((result.size_text, found.note) for result, found in known)
    for result, found in known:
        for remark in spreads.remarks(found.seconds, "s"):
            yield f"{result.size_text}: {remark}."


def tables(group: Group) -> tuple[Table, ...]:
    """Recovery by frame size.

    Args:
        group: Results of one scenario and test.

    Returns:
        One table; without rows when none was measured.
    """
    known = [(r, r.recovery) for r in group.measured if r.recovery]
    rows = tuple(_row(*pair) for pair in known)
    said = clean(_said(known))
    return (Table("System recovery", _HEAD, rows, said, brief=(0, 1, 2, 3, 4, 5, 6), bold=2),)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words.

    Args:
        result: One result.

    Returns:
        The time, and after which overload.
    """
    found = result.recovery
    if found is None:
        return "", ""
    said = found.note or f"after {text.short_fps(found.overload_fps)} for {found.overload_s:g} s"
    if number(found) == _NO_RESULT:
        return _NO_RESULT, found.note.removeprefix(f"{_NO_RESULT}: ")
    return spreads.with_n(found.seconds, "s"), said


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers.
    """
    found = result.recovery
    if found is None:
        return
    yield Quantity("recovery_time", "s", found.seconds, note=found.note)
    yield Quantity("throughput_used", "fps", found.throughput_fps)
    yield Quantity("overload", "fps", found.overload_fps)
    yield Quantity("load_after", "fps", found.relaxed_fps)
    yield Quantity("overload_duration", "s", found.overload_s)
