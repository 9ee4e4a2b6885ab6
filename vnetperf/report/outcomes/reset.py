"""Reset (RFC 2544 section 26.6), by both methods of RFC 6201."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import Reset, Spread
from vnetperf.model.result import Result
from vnetperf.report import spreads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import NONE, Table, clean, grouped

_HEAD = (
    "size",
    "reset",
    "type (RFC 6201)",
    "reset time, frame-loss method (4.1)",
    "reset time, time-stamp method (4.2)",
    "trials",
    "the event itself took",
    "load, aggregate",
)


def _of(found: Spread | None) -> str:
    return NONE if found is None else spreads.mean(found, "s")


def _row(result: Result, found: Reset) -> tuple[str, ...]:
    numbers = (found.by_loss_s, found.by_time_s)
    shown = map(_of, numbers) if any(numbers) else ("not measured", "not measured")
    counts = {s.n for s in numbers if s}
    return (
        result.size_name,
        found.what,
        found.type,
        *shown,
        " or ".join(map(str, sorted(counts))) or "0",
        _of(found.event_s),
        text.fps(found.load_fps),
    )


def _said(group: Group) -> Iterator[str]:
    every = [(r, found) for r in group.measured for found in r.resets]
    methods = [(s, r, f) for r, f in every for s in (f.by_loss_s, f.by_time_s) if s]
    yield spreads.interval_note([s for s, _, _ in methods])
    if every:
        yield (
            "Frame-loss method: frames lost over the load. Time-stamp method: from the last frame "
            "before to the first one after; resolution one frame."
        )
    # One size only is named by the table.
    several = len({r.frame_size for r, _ in every}) > 1
    names = [f"{f.what} at {r.size_text}" if several else f.what for r, f in every]
    pairs = list(zip(names, (f for _, f in every), strict=True))
    yield from grouped((name, f.why) for name, f in pairs)
    yield from grouped((name, f.note) for name, f in pairs)
    for spread, result, found in methods:
        for remark in spreads.remarks(spread, "s"):
            yield f"{result.size_text}, {found.what}: {remark}."


def tables(group: Group) -> tuple[Table, ...]:
    """Resets by frame size and by what was reset.

    Args:
        group: Results of one scenario and test.

    Returns:
        One table; without rows when none was measured.
    """
    rows = tuple(_row(r, found) for r in group.measured for found in r.resets)
    words = frozenset({0, 1, 2})
    brief = (0, 1, 2, 3, 4, 5)
    return (Table("Reset", _HEAD, rows, clean(_said(group)), words=words, brief=brief, bold=3),)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words.

    Args:
        result: One result.

    Returns:
        Each thing that was reset with its time, a line each.
    """
    parts = []
    for found in result.resets:
        time = found.by_loss_s or found.by_time_s
        parts.append(f"{found.what} {spreads.mean(time, 's') if time else 'not measured'}")
    counts = {s.n for f in result.resets for s in (f.by_loss_s, f.by_time_s) if s}
    return "\n".join(parts), f"n {max(counts)} each" if counts else ""


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers; each thing that was reset is an item.
    """
    for found in result.resets:
        for name in ("by_loss", "by_time"):
            value = getattr(found, f"{name}_s")
            yield Quantity(
                f"reset_time_{name}", "s", value, found.what, note=found.why or found.note
            )
        yield Quantity("event_took", "s", found.event_s, found.what)
        yield Quantity("load", "fps", found.load_fps, found.what)
