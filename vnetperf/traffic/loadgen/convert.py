"""The engine's counts per stream as the family's counts per direction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from vnetperf.model import trial as model
from vnetperf.model.traffic import Stream
from vnetperf.traffic.histogram import encode_hdr, percentiles
from vnetperf.traffic.loadgen import results
from vnetperf.traffic.loadgen.overtime import DelayDifferences, ipdv_of

Histogram = Callable[[int], tuple[tuple[int, int], ...]]


def to_trial_result(
    streams: Sequence[Stream],
    result: results.TrialResult,
    histogram: Histogram | None,
    *,
    apart: frozenset[int] = frozenset(),
    differences: Mapping[int, DelayDifferences] | None = None,
) -> model.TrialResult:
    """Add the streams of each direction up.

    Args:
        streams: Says which stream is of which direction.
        result: What the engine counted.
        histogram: Gives a stream's histogram; None leaves histograms out.
        apart: Ids of streams that go to everybody: their frames are neither lost nor received.
        differences: Differences of successive frames' delays by stream, where they were asked for.

    Returns:
        The result, without hops and threads.
    """
    directions = sorted({stream.direction for stream in streams})

    def of(direction: int, *, to_all: bool) -> list[results.StreamResult]:
        mine = (s.id for s in streams if s.direction == direction and (s.id in apart) == to_all)
        return [result.stream(number) for number in mine]

    return model.TrialResult(
        directions=tuple(
            _direction(d, of(d, to_all=False), of(d, to_all=True), histogram, differences or {})
            for d in directions
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
    streams: Sequence[results.StreamResult],
    broadcast: Sequence[results.StreamResult],
    histogram: Histogram | None,
    differences: Mapping[int, DelayDifferences],
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
        latency=_latency(streams, histogram, differences),
        broadcast_sent=sum(s.counts.sent for s in broadcast),
        broadcast_received=sum(s.counts.received for s in broadcast),
    )


def _tx_seconds(streams: Iterable[results.StreamResult]) -> float:
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
    streams: Sequence[results.StreamResult],
    histogram: Histogram | None,
    differences: Mapping[int, DelayDifferences],
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
    more = {
        "percentiles": percentiles(pairs),
        "hdr": encode_hdr(pairs),
        "ipdv": ipdv_of(differences[s.stream] for s in timed if s.stream in differences),
    }
    return summary.model_copy(update=more)


def _merged(histograms: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Histograms of a direction's streams as one, by rising value; they share most buckets."""
    frames_at: dict[int, int] = {}
    for pairs in histograms:
        for value, frames in pairs:
            frames_at[value] = frames_at.get(value, 0) + frames
    return sorted(frames_at.items())
