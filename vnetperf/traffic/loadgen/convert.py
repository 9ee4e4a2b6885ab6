"""The engine's counts per stream as the family's counts per direction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil

from hdrh.histogram import HdrHistogram

from vnetperf.model import trial as model
from vnetperf.model.traffic import Stream
from vnetperf.traffic.loadgen import results as engine

#: Layout of the engine's histograms: 1 ns to 10 s, 3 significant digits.
LOWEST_NS, HIGHEST_NS, DIGITS = 1, 10_000_000_000, 3
PERCENTILES = (1.0, 50.0, 90.0, 99.0, 99.9, 99.99)
Histogram = Callable[[int], tuple[tuple[int, int], ...]]


def to_trial_result(
    streams: Sequence[Stream],
    result: engine.TrialResult,
    histogram: Histogram | None,
    *,
    apart: frozenset[int] = frozenset(),
) -> model.TrialResult:
    """Add the streams of each direction up.

    Args:
        streams: Says which stream is of which direction.
        result: What the engine counted.
        histogram: Gives a stream's histogram; None leaves histograms out.
        apart: Ids of streams that go to everybody: their frames are neither lost nor received.

    Returns:
        The result, without hops and threads.
    """
    directions = sorted({stream.direction for stream in streams})

    def of(direction: int, *, to_all: bool) -> list[engine.StreamResult]:
        mine = (s.id for s in streams if s.direction == direction and (s.id in apart) == to_all)
        return [result.stream(number) for number in mine]

    return model.TrialResult(
        directions=tuple(
            _direction(d, of(d, to_all=False), of(d, to_all=True), histogram) for d in directions
        ),
        foreign={str(p.port): p.foreign + p.corrupted for p in result.ports},
        answered=sum(p.answered for p in result.ports),
        stale=sum(p.stale for p in result.ports),
        max_burst=max((p.max_burst for p in result.ports), default=0),
        max_lag_s=max((p.lag_max_ns for p in result.ports), default=0) / 1e9,
        mean_lag_s=max((p.lag_mean_ns or 0.0 for p in result.ports), default=0.0) / 1e9,
    )


def _direction(
    direction: int,
    streams: Sequence[engine.StreamResult],
    broadcast: Sequence[engine.StreamResult],
    histogram: Histogram | None,
) -> model.DirectionCounts:
    def total(name: str) -> int:
        return sum(getattr(s.counts, name) for s in streams)

    return model.DirectionCounts(
        direction=direction,
        intended=total("intended"),
        sent=total("sent"),
        refused=total("refused"),
        unsent=total("unsent"),
        received=total("received"),
        duplicated=total("duplicated"),
        reordered=total("reordered"),
        late=total("late"),
        misrouted=total("misrouted"),
        tx_seconds=_tx_seconds(streams),
        latency=_latency(streams, histogram),
        broadcast_sent=sum(s.counts.sent for s in broadcast),
        broadcast_received=sum(s.counts.received for s in broadcast),
    )


def _tx_seconds(streams: Iterable[engine.StreamResult]) -> float:
    """Seconds the offered frames took at the rate they were seen to leave at.

    n frames span n - 1 gaps; one more gap makes frames / seconds the rate.
    """
    spans = []
    for s in streams:
        if s.tx_first_ns is not None and s.tx_last_ns is not None:
            offered = s.counts.sent + s.counts.refused
            gap = (s.tx_last_ns - s.tx_first_ns) / (offered - 1) if offered > 1 else 0.0
            spans.append(offered * gap / 1e9)
    return round(max(spans, default=0.0), 9)


def _latency(
    streams: Sequence[engine.StreamResult], histogram: Histogram | None
) -> model.Latency | None:
    timed = [s for s in streams if s.latency.count]
    if not timed:
        return None
    count = sum(s.latency.count for s in timed)
    summary = model.Latency(
        count=count,
        min_ns=min(s.latency.min_ns for s in timed),
        mean_ns=sum(s.latency.sum_ns for s in timed) / count,
        max_ns=max(s.latency.max_ns for s in timed),
    )
    if histogram is None:
        return summary
    pairs = _merged(histogram(s.stream) for s in timed)
    return summary.model_copy(update={"percentiles": percentiles(pairs), "hdr": encode_hdr(pairs)})


def _merged(histograms: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Histograms of a direction's streams as one, by rising value; they share most buckets."""
    frames_at: dict[int, int] = {}
    for pairs in histograms:
        for value, frames in pairs:
            frames_at[value] = frames_at.get(value, 0) + frames
    return sorted(frames_at.items())


def percentiles(pairs: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Percentiles of a histogram.

    Args:
        pairs: Value in nanoseconds and frames, by rising value.

    Returns:
        Percentile ("99.9") -> nanoseconds.
    """
    total = sum(frames for _, frames in pairs)
    wanted = [(p, max(1, ceil(total * p / 100))) for p in PERCENTILES]
    found: dict[str, float] = {}
    seen = 0
    for value, frames in pairs:
        seen += frames
        while wanted and seen >= wanted[0][1]:
            found[f"{wanted.pop(0)[0]:g}"] = float(value)
    return found


def encode_hdr(pairs: Iterable[tuple[int, int]]) -> str:
    """A histogram in the portable form of HdrHistogram.

    Args:
        pairs: Value in nanoseconds, the lowest of its bucket, and frames.

    Returns:
        HdrHistogram V2, compressed, base64.
    """
    histogram = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    half = histogram.sub_bucket_half_count
    bits = histogram.sub_bucket_half_count_magnitude + 1
    total = 0
    for value, frames in pairs:
        # What record_value does for each value, without its checks: it takes 25 us a value.
        bucket = max(0, value.bit_length() - bits)
        histogram.counts[(bucket + 1) * half + (value >> bucket) - half] += frames
        total += frames
        histogram.min_value = min(histogram.min_value, value)
        histogram.max_value = max(histogram.max_value, value)
    histogram.total_count = total
    return str(histogram.encode().decode())
