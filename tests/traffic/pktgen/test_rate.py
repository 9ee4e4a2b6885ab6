"""Rates: what is set, what Pktgen makes of it, and what is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.errors import GeneratorError
from vnetperf.traffic.pktgen.trials import (
    LinkRate,
    PortCounters,
    burst_size,
    check_read_back,
    probe_interval_us,
    probes_sent,
)

LINK = LinkRate(full_fps=148_809_523, hz=2_600_000_000)


def paced(link: LinkRate, percent: float) -> int:
    """`tx_pps`, as Pktgen computes it: percent as text, fractions cut off."""
    return int(link.full_fps * float(f"{percent:.12g}") / 100)


@given(st.floats(1.0, 20e6))
def test_what_is_set_comes_as_close_as_whole_cycles_allow(fps: float) -> None:
    pps = paced(LINK, LINK.percent(fps))
    assert pps == LINK.frames(fps)
    gap = LINK.hz / fps  # cycles: to be a whole number, made of a whole number of frames/s
    assert LINK.effective(pps) == pytest.approx(fps, rel=0.51 / gap + 1.01 / fps)


def test_more_than_the_link_is_all_of_it() -> None:
    assert LINK.percent(1e12) == 100.0
    assert LINK.frames(1e12) == LINK.full_fps
    check_read_back(1e12, LINK.effective(LINK.full_fps), LINK.full_fps)


def test_a_rate_that_was_not_set_is_an_error() -> None:
    check_read_back(1000.0, 1001.0, LINK.full_fps)
    with pytest.raises(GeneratorError, match="1000 frames/s and paces for 2000"):
        check_read_back(1000.0, 2000.0, LINK.full_fps)
    assert LINK.effective(0) == 0.0
    with pytest.raises(GeneratorError, match="set to 1 frames/s and paces for 0"):
        check_read_back(1.0, 0.0, LINK.full_fps)


@given(st.floats(1.0, 1e8))
def test_bursts_are_small_at_low_rates(fps: float) -> None:
    burst = burst_size(fps)
    assert 1 <= burst <= 64
    assert burst == 1 or burst / fps <= 8.001e-6


@given(st.integers(0, 10**9), st.integers(0, 10**4), st.sampled_from([60, 124, 1514]))
def test_probes_are_told_from_frames_by_octets(frames: int, probes: int, octets: int) -> None:
    counters = PortCounters(
        sent=frames + probes, sent_octets=frames * octets + probes * 72, received=0
    )
    assert probes_sent(counters, octets) == probes


def test_octets_that_do_not_add_up_are_an_error() -> None:
    with pytest.raises(GeneratorError, match="do not make 601 octets"):
        probes_sent(PortCounters(sent=10, sent_octets=601, received=0), 60)
    with pytest.raises(GeneratorError, match="do not make"):
        probes_sent(PortCounters(sent=10, sent_octets=480, received=0), 60)


@given(st.floats(1.0, 1e8))
def test_probes_are_a_small_share(fps: float) -> None:
    interval = probe_interval_us(fps)
    assert 1000 <= interval <= 1_000_000
    assert 1e6 / interval <= max(1.0, 0.0101 * fps)
