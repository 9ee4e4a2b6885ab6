"""Latency of several trials put together, and delay variation."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from statistics import median

from hdrh.histogram import HdrHistogram

from vnetperf.model.outcomes import DelayVariation
from vnetperf.model.trial import Latency
from vnetperf.statistics.percentiles import percentiles

#: Percentile whose distance to the smallest delay is the delay variation (RFC 8219 section 7.3.1).
PDV_PERCENTILE = "99.9"


def together(latencies: Sequence[Latency]) -> Latency:
    """Latency of all frames of several trials.

    Args:
        latencies: Of one direction, one for each trial; one at least.

    Returns:
        Exact in count, smallest, mean and largest; percentiles of the joined histogram, none where
        a trial came without one.
    """
    first = latencies[0]
    if len(latencies) == 1:
        return first
    count = sum(latency.count for latency in latencies)
    percentiles, hdr = _joined(latencies)
    return Latency(
        count=count,
        min_ns=min(latency.min_ns for latency in latencies),
        mean_ns=fsum(latency.mean_ns * latency.count for latency in latencies) / count,
        max_ns=max(latency.max_ns for latency in latencies),
        percentiles=percentiles,
        hdr=hdr,
    )


def _joined(latencies: Sequence[Latency]) -> tuple[dict[str, float], str]:
    if not all(latency.hdr for latency in latencies):
        return {}, ""
    whole, *others = (HdrHistogram.decode(latency.hdr) for latency in latencies)
    for other in others:
        whole.add(other)
    # By the rank that generators take: the library's own is another where ranks are not whole.
    pairs = (
        (whole.get_lowest_equivalent_value(item.value_iterated_to), item.count_at_value_iterated_to)
        for item in whole.get_recorded_iterator()
    )
    return percentiles(pairs, map(float, latencies[0].percentiles)), str(whole.encode().decode())


def variation_of(latencies: Sequence[Latency]) -> DelayVariation:
    """Delay variation of one direction: the widest of all trials, the median of medians.

    Args:
        latencies: One for each trial; one at least.

    Returns:
        What the generator told; `why` says what it did not.
    """
    spans = [
        latency.percentiles[PDV_PERCENTILE] - latency.min_ns
        for latency in latencies
        if PDV_PERCENTILE in latency.percentiles
    ]
    told = [latency.ipdv for latency in latencies if latency.ipdv]
    missing = []
    if not spans:
        missing.append(f"PDV: no {PDV_PERCENTILE}th percentile")
    if not told:
        missing.append("IPDV: the generator does not tell delays of successive frames")
    return DelayVariation(
        pdv_ns=max(spans, default=None),
        ipdv_min_ns=min((one["min"] for one in told), default=None),
        ipdv_median_ns=median(one["median"] for one in told) if told else None,
        ipdv_max_ns=max((one["max"] for one in told), default=None),
        why=f"not measured: {'; '.join(missing)}" if missing else "",
    )
