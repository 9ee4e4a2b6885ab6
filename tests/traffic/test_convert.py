"""hdrh's own record_value is the judge of the histograms."""

from __future__ import annotations

from math import ceil

from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.deployment import make_deployment
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.model.trial import DirectionCounts, Latency
from vnetperf.statistics.histogram import (
    DIGITS,
    HIGHEST_NS,
    LOWEST_NS,
    PERCENTILES,
    encode_hdr,
    latency_percentiles,
)
from vnetperf.traffic.loadgen import telemetry as engine
from vnetperf.traffic.loadgen.trials import compile_parts, tally

PAIRS = st.lists(
    st.tuples(st.integers(LOWEST_NS, HIGHEST_NS), st.integers(1, 10**9)), min_size=1, max_size=30
)


@given(PAIRS)
def test_a_histogram_is_what_hdrh_records(pairs: list[tuple[int, int]]) -> None:
    ours = HdrHistogram.decode(encode_hdr(pairs))
    theirs = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    for value, count in pairs:
        assert theirs.record_value(value, count)
    assert ours.get_total_count() == theirs.get_total_count()
    assert list(ours.counts) == list(HdrHistogram.decode(theirs.encode()).counts)
    for p in PERCENTILES:
        assert ours.get_value_at_percentile(p) == theirs.get_value_at_percentile(p)


@given(st.dictionaries(st.integers(1, 10**10), st.integers(1, 50), min_size=1, max_size=20))
def test_percentiles_are_values_that_so_many_frames_do_not_exceed(frames: dict[int, int]) -> None:
    pairs = sorted(frames.items())
    every = [value for value, count in pairs for _ in range(count)]
    found = latency_percentiles(pairs)
    assert list(found) == [f"{p:g}" for p in PERCENTILES]
    for p in PERCENTILES:
        assert found[f"{p:g}"] == every[max(1, ceil(len(every) * p / 100)) - 1]


COUNT = st.integers(0, 10**9)
COUNTS = st.builds(
    DirectionCounts, direction=st.just(0), **dict.fromkeys(engine.FRAME_COUNTS, COUNT)
)


@given(st.lists(COUNTS, min_size=6, max_size=6))
def test_directions_are_the_sums_of_their_streams(counted: list[DirectionCounts]) -> None:
    streams = make_streams(make_deployment("pvpv", 3), TrafficProfile())
    latency = Latency(count=2, min_ns=10, mean_ns=15, max_ns=20)
    result = engine.EngineResult(
        epoch=1,
        aborted=False,
        elapsed_ns=1,
        tx_end_ns=1,
        streams=tuple(
            engine.StreamResult(
                stream=n,
                counts=c,
                latency=latency,
                tx_first_ns=0,
                tx_last_ns=10**9,
                rx_first_ns=None,
                rx_last_ns=None,
            )
            for n, c in enumerate(counted)
        ),
        ports=(),
    )
    parts = compile_parts(streams, TrafficProfile(), 64, {})
    converted = tally(parts, result, dict.fromkeys(range(6), ((10, 1), (20, 1))))
    assert [d.direction for d in converted] == [0, 1]
    for direction, members in zip(converted, (counted[:3], counted[3:]), strict=True):
        for name in ("intended", "sent", "refused", "unsent", "received", "misrouted", "late"):
            assert getattr(direction, name) == sum(getattr(c, name) for c in members)
        assert direction.latency is not None
        assert direction.latency.count == 6
        assert direction.latency.mean_ns == 15
        assert HdrHistogram.decode(direction.latency.hdr).get_total_count() == 6
    without = tally(parts, result)[0].latency
    assert without is not None
    assert (without.percentiles, without.hdr) == ({}, "")
