"""RFC 8219 and RFC 5481: latency and delay variation, whatever the DUT is."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.analysis.compliance.clause import ClauseContext, entry
from vnetperf.model.outcomes import DelayVariation
from vnetperf.model.result import LedgerEntry


def rfc8219_latency(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a latency result against them."""
    preset = looked.preset.latency
    counts = [one.count for at in looked.result.latency_at for one in at.latency.values()]
    least = min(counts, default=0)
    enough = preset.duration_s >= 120 and preset.tag_at_s >= 60 and preset.repeats >= 20
    yield entry(
        "RFC 8219, latency",
        "500 or more frames after 60 s of a stream of 120 s or more, 20 repeats",
        enough and least >= 500,
        f"{least} frames or more, {preset.duration_s:g} s, {preset.repeats} repeats",
        looked.because,
    )
    found = [v for at in looked.result.latency_at for v in at.variation.values()]
    yield from _variation(found, preset.duration_s - preset.tag_at_s, looked.because)


def soak(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold the delay variation of a soak against them."""
    found = looked.result.soak
    if found is not None:
        yield from _variation(list(found.variation.values()), found.seconds, looked.because)


def _variation(found: list[DelayVariation], seconds: float, because: str) -> Iterator[LedgerEntry]:
    known = bool(found) and all(one.pdv_ns is not None for one in found)
    yield entry(
        "RFC 5481, packet delay variation",
        "delay beyond the smallest, its 99.9th percentile over at least 60 s (RFC 8219)",
        known and seconds >= 60,
        f"over {seconds:g} s" if known else "not measured",
        because if known else "the generator tells no percentiles",
    )
    successive = bool(found) and all(one.ipdv_median_ns is not None for one in found)
    yield entry(
        "RFC 8219, inter packet delay variation",
        "smallest, median and largest difference of successive delays",
        successive,
        "reported" if successive else "not measured",
        next((one.why for one in found if one.why), "nothing was timed"),
    )
