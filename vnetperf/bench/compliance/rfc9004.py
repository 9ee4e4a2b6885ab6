"""RFC 9004, which updates RFC 2544 section 26.4: back-to-back frames."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.bench.compliance.entry import Looked, entry
from vnetperf.model.result import LedgerEntry


def back_to_back(looked: Looked) -> Iterator[LedgerEntry]:
    """Hold a result against it.

    Args:
        looked: A back-to-back result.

    Yields:
        Entries.
    """
    asked, found = looked.preset.back_to_back, looked.result.back_to_back
    if found is None:
        return
    zero = any(g.loss_ratio == 0 for g in looked.preset.goals)
    known = found.throughput_fps is not None
    yield entry(
        "RFC 9004, prerequisites",
        "the throughput without loss is known for the same size and directions",
        known and zero,
        f"{found.throughput_fps:.0f} frames/s, all directions" if known else "none",
        "it tolerates loss" if known else "it was not measured",
    )
    yield entry(
        "RFC 9004, repeats",
        "N independent searches, N reported (50 in RFC 2544 section 26.4)",
        found.frames.n >= 50,
        f"N = {found.frames.n}",
        looked.because,
    )
    yield entry(
        "RFC 9004, depletion",
        "each burst from idle, at least 2 s after the one before",
        asked.idle_s >= 2,
        f"{asked.idle_s:g} s",
        looked.because,
    )
    yield entry(
        "RFC 9004, longest burst",
        "a burst near the longest that was tried is no result",
        not found.capped,
        f"up to {found.max_burst_frames} frames",
        "all bursts came through: set back_to_back.max_burst_s higher",
    )
    repeats = asked.repeats_after_loss
    how = f"loss verification, max(r) = {1 + repeats}" if repeats else "binary search"
    yield entry(
        "RFC 9004, search",
        "TST009 binary search or loss verification, its inputs and step reported",
        True,
        f"{how}; step {found.step_frames} frames, 1 to {found.max_burst_frames} frames",
    )
    yield entry(
        "RFC 9004, corrected buffer time",
        "the buffer time implied, corrected by the throughput",
        found.corrected_s is not None,
        "not known" if found.corrected_s is None else f"{found.corrected_s:.3g} s",
        found.note or "it needs the throughput",
    )
