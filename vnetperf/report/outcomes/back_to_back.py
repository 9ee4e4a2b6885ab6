"""Back-to-back frames, with the columns that RFC 9004 asks for."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import BackToBack
from vnetperf.model.result import Result
from vnetperf.report import spreads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import NONE, Table, clean, grouped

_HEAD = (
    "size",
    "back-to-back frames, mean",
    "least",
    "most",
    "std. dev.",
    "corrected buffer time",
    "N",
    "step size, frames",
    "implied buffer time",
    "throughput, aggregate",
    "theoretical rate, per interface",
    "mean gap",
    "longest tried, frames",
)


def _time(value: float | None) -> str:
    return NONE if value is None else text.time_s(value)


def average(found: BackToBack) -> str:
    """The benchmark: the mean, or why there is none.

    Args:
        found: What was found.

    Returns:
        "1 234 ± 5 frames"; "at least 20 000 frames" where the longest burst came through.
    """
    if found.capped:
        return f"at least {text.frames(found.max_burst_frames)} frames"
    return spreads.mean(found.frames, "frames")


def _row(result: Result, found: BackToBack) -> tuple[str, ...]:
    return (
        result.size_name,
        average(found),
        spreads.one(found.frames.minimum, "frames"),
        spreads.one(found.frames.maximum, "frames"),
        spreads.stdev(found.frames, "frames"),
        _time(found.corrected_s),
        str(found.frames.n),
        str(found.step_frames),
        _time(found.implied_s),
        NONE if found.throughput_fps is None else text.fps(found.throughput_fps),
        text.fps(found.max_rate_fps),
        NONE if found.gap_ns is None else text.nanoseconds(found.gap_ns),
        text.frames(found.max_burst_frames),
    )


def _said(known: list[tuple[Result, BackToBack]]) -> Iterator[str]:
    yield spreads.interval_note([found.frames for _, found in known])
    yield (
        "Implied buffer time: mean frames / theoretical rate; corrected: implied x (1 - throughput "
        "/ theoretical rate). Frames are those of one interface."
    )
    capped = "every burst up to the longest one tried came through: this is no result (RFC 9004)."
    yield from grouped((r.size_text, capped if found.capped else "") for r, found in known)
    yield from grouped((r.size_text, found.note) for r, found in known)
    for result, found in known:
        for remark in spreads.remarks(found.frames, "frames"):
            yield f"{result.size_text}: {remark}."


def tables(group: Group) -> tuple[Table, ...]:
    """Bursts by frame size.

    Args:
        group: Results of one scenario and test.

    Returns:
        One table; without rows when none was measured.
    """
    known = [(r, r.back_to_back) for r in group.measured if r.back_to_back]
    return (
        Table(
            "Back-to-back frames",
            _HEAD,
            tuple(_row(*pair) for pair in known),
            clean(_said(known)),
            brief=(0, 1, 2, 3, 4, 5, 6, 7),
            bold=1,
        ),
    )


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words.

    Args:
        result: One result.

    Returns:
        Mean burst, and the corrected buffer time.
    """
    found = result.back_to_back
    if found is None:
        return "", ""
    if found.capped:
        return average(found), "no result: the longest burst tried"
    buffer = f"buffer {_time(found.corrected_s)}, " if found.corrected_s is not None else ""
    return average(found), f"{buffer}N {found.frames.n}"


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers.
    """
    found = result.back_to_back
    if found is None:
        return
    capped = "every burst up to the longest one tried came through" if found.capped else ""
    note = "; ".join(filter(None, (capped, found.note)))
    yield Quantity("back_to_back_frames", "frames", found.frames, note=note)
    yield Quantity("capped", "", found.capped)
    yield Quantity("step", "frames", float(found.step_frames))
    yield Quantity("longest_burst_tried", "frames", float(found.max_burst_frames))
    yield Quantity("implied_buffer_time", "s", found.implied_s, note=note)
    yield Quantity("corrected_buffer_time", "s", found.corrected_s, note=note)
    yield Quantity("throughput_used", "fps", found.throughput_fps)
    yield Quantity("theoretical_rate_per_interface", "fps", found.max_rate_fps)
    yield Quantity("burst_gap_mean", "ns", found.gap_ns)
