"""RFC 6349 and RFC 9097 of transfers between sockets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.texts import Texts
from vnetperf.analysis.transport import MOST_LOST, UDP_HEADERS, ip_capacity, tcp_quality
from vnetperf.model.transfer import Figures, Flow, Kind, SubInterval, Transfer, TransferSpec


def second(received: int, lost: int = 0, *, size: int = 1000, seconds: float = 1.0) -> SubInterval:
    return SubInterval(
        seconds=seconds, octets=received * size, received=received, lost=lost, jitter_ms=0.1
    )


def udp(*instances: tuple[SubInterval, ...]) -> Transfer:
    flows = tuple(
        Flow(way="forth", port=5201 + n, figures=Figures(intervals=one))
        for n, one in enumerate(instances)
    )
    return Transfer(spec=TransferSpec(kind="UDP_STREAM", duration_s=3), flows=flows)


def other(kind: Kind, **figures: Any) -> Transfer:
    return Transfer(spec=TransferSpec(kind=kind, duration_s=3), **figures)


def test_the_capacity_is_that_of_the_best_second_without_much_loss() -> None:
    found = ip_capacity(udp((second(900), second(1000), second(2000, 100))), "forth")
    assert found.bits_per_second == 8 * 1000 * (1000 + UDP_HEADERS)
    assert (found.met, found.intervals, found.loss_ratio) == (2, 3, 0.0)


def test_the_end_of_a_stream_is_no_second(texts: Texts) -> None:
    short = second(100, seconds=0.01)  # 10 times the rate of the others
    assert ip_capacity(udp((second(1000), short)), "forth").intervals == 1
    texts.check(ip_capacity(udp((short,)), "forth").why)


def test_without_a_second_that_meets_the_criterion_there_is_no_capacity(texts: Texts) -> None:
    found = ip_capacity(udp((second(900, 100), second(950, 50))), "forth")
    assert found.bits_per_second is None
    texts.check(found.why)
    assert "second by second" in ip_capacity(udp(()), "forth").why
    assert "second by second" in ip_capacity(udp((second(1),)), "back").why


COUNTS = st.tuples(st.integers(0, 10**6), st.integers(0, 10**5))


@given(st.lists(st.lists(COUNTS, min_size=3, max_size=3), min_size=1, max_size=4))
def test_instances_are_summed_and_no_second_that_counts_had_more(
    instances: list[list[tuple[int, int]]],
) -> None:
    found = ip_capacity(udp(*(tuple(second(*c) for c in one) for one in instances)), "forth")
    sums = [tuple(map(sum, zip(*column, strict=True))) for column in zip(*instances, strict=True)]
    good = [got for got, lost in sums if got + lost and lost / (got + lost) <= MOST_LOST]
    assert found.met == len(good)
    if good:
        assert found.bits_per_second == pytest.approx(8 * max(good) * (1000 + UDP_HEADERS))
        assert found.loss_ratio is not None
        assert found.loss_ratio <= MOST_LOST
    else:
        assert found.bits_per_second is None
        assert found.why


STREAM: dict[str, Any] = {
    "bits_per_second": 8e6,
    "sent_octets": 1_000_000.0,
    "segment_octets": 1000,
    "retransmits": 100,
    "tcp_round_trip_us": {"min": 120.0, "mean": 300.0, "max": 900.0, "samples": 20.0},
}


def test_a_stream_has_efficiency_buffer_delay_and_transfer_time() -> None:
    stream, trips = other("TCP_STREAM", **STREAM), other("TCP_RR", round_trip_us={"min": 100.0})
    found = tcp_quality(stream, (stream, trips, udp((second(1250), second(1000)))))
    assert found.efficiency == pytest.approx(1_000_000 / 1_100_000)
    assert found.buffer_delay == pytest.approx(2.0)
    assert "single messages" in found.baseline_of
    ideal = 8 * 1250 * 1028 * 1000 / 1040
    assert found.time_ratio == pytest.approx(ideal / 8e6)


def test_what_is_not_known_is_no_number() -> None:
    bare = other("TCP_STREAM", bits_per_second=8e6)
    found = tcp_quality(bare, (bare,))
    assert (found.efficiency, found.buffer_delay, found.time_ratio) == (None, None, None)
    stream = other("TCP_STREAM", **STREAM)
    alone = tcp_quality(stream, (stream,))
    assert alone.buffer_delay == pytest.approx(1.5)
    assert "under load" in alone.baseline_of
    small = udp((second(10),))  # offered too little to show a capacity that TCP has passed
    assert tcp_quality(stream, (stream, small)).time_ratio is None
    lossy = udp((second(900, 100),))
    assert tcp_quality(stream, (stream, lossy)).time_ratio is None


@pytest.mark.parametrize("messages", [{}, {"min": 260.0}])
def test_one_sample_of_the_round_trip_is_no_delay(messages: dict[str, float], texts: Texts) -> None:
    """Without messages beside it is its own baseline: 0 % by construction; with them no mean."""
    trips = {"min": 458.0, "mean": 458.0, "max": 458.0, "samples": 1.0}
    stream = other("TCP_STREAM", **STREAM | {"tcp_round_trip_us": trips})
    found = tcp_quality(stream, (stream, other("TCP_RR", round_trip_us=messages)))
    assert found.buffer_delay is None
    texts.check(found.why)
    known = STREAM | {"tcp_round_trip_us": trips | {"samples": 2.0}}
    assert tcp_quality(other("TCP_STREAM", **known), (stream,)).buffer_delay == 0


def test_a_round_trip_below_the_baseline_is_no_delay_of_zero(texts: Texts) -> None:
    """A least round trip of messages above that of the stream is no baseline of it."""
    slow = other("TCP_RR", round_trip_us={"min": 200.0})
    stream = other("TCP_STREAM", **STREAM)
    found = tcp_quality(stream, (stream, slow))
    assert found.baseline_us == 120.0
    assert "under load" in found.baseline_of
    assert found.buffer_delay == pytest.approx(1.5)
    bare = other("TCP_STREAM", **STREAM | {"tcp_round_trip_us": {"mean": 150.0}})
    found = tcp_quality(bare, (bare, slow))
    assert found.buffer_delay is None
    texts.check(found.why)


@given(st.floats(1, 1e12), st.integers(0, 10**6), st.integers(1, 65_000), st.floats(1, 1e6))
def test_efficiency_is_a_share_and_a_delay_no_gain(
    octets: float, again: int, segment: int, mean: float
) -> None:
    figures = STREAM | {
        "sent_octets": octets,
        "retransmits": again,
        "segment_octets": segment,
        "tcp_round_trip_us": {"min": 1.0, "mean": mean, "max": mean, "samples": 2.0},
    }
    stream = other("TCP_STREAM", **figures)
    found = tcp_quality(stream, (stream,))
    assert found.efficiency is not None
    assert 0 < found.efficiency <= 1
    assert (found.efficiency == 1) == (again == 0 or again * segment < 1e-15 * octets)
    assert found.buffer_delay is not None
    assert found.buffer_delay >= 0
