"""A buffer of known size comes back as a burst and as a time, within a step."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.procedures.support import CEILING, Dut, drive, inputs
from vnetperf.model.errors import NoResultError
from vnetperf.model.parameters import BackToBackTest
from vnetperf.procedures.back_to_back import back_to_back
from vnetperf.procedures.base import KnownThroughput

TEN_G = 14_880_952.38


def longest(buffer: int, capacity: float, rate: float) -> int:
    """The longest burst that a buffer holds while it is emptied."""
    frames = int(buffer / (1 - capacity / rate))
    while frames <= int(capacity * frames / rate) + buffer:
        frames += 1
    while frames > int(capacity * frames / rate) + buffer:
        frames -= 1
    return frames


@settings(deadline=None)
@given(st.integers(1, 20_000), st.sampled_from([1, 7, 64]), st.floats(0.05, 0.9))
def test_a_known_buffer_comes_back_within_a_step(buffer: int, step: int, share: float) -> None:
    capacity = share * CEILING
    known = KnownThroughput(load_fps=capacity, search=1, goal="ndr")
    asked = BackToBackTest(searches=3, max_burst_s=0.5, idle_s=0, step_frames=step)
    dut = Dut(capacity, buffer=lambda _: buffer)
    found, seen = drive(back_to_back(inputs(asked, throughput=known)), dut)
    truth = longest(buffer, capacity, CEILING)
    assert truth - step - 1 <= found.frames.mean <= truth + 1  # a frame for rounding
    assert found.frames.values == (found.frames.mean,) * 3
    assert found.frames.stdev == 0
    if truth >= 2 * step:  # a single frame has no gap
        assert found.gap_ns == pytest.approx(1e9 / CEILING, rel=1e-6)
    assert found.max_rate_fps == pytest.approx(CEILING, rel=1e-6)
    assert found.implied_s == pytest.approx(found.frames.mean / CEILING, rel=1e-6)
    # What is held while frames leave at the throughput is the buffer itself.
    assert found.corrected_s == pytest.approx(buffer / CEILING, abs=(step + 2) / CEILING)
    assert not found.capped
    assert found.trials == tuple(one.number for one in seen)


def test_searches_are_independent_and_all_are_told() -> None:
    sizes = iter([900, 1100] * 500)
    current = {"search": 0, "size": 0}

    def buffer(trial: int) -> int:
        search = (trial - 1) // 15  # halvings of 20000 steps
        if search != current["search"] or not current["size"]:
            current.update(search=search, size=next(sizes))
        return current["size"]

    asked = BackToBackTest(searches=10, max_burst_s=0.01, idle_s=0)
    found, seen = drive(
        back_to_back(inputs(asked, throughput=KnownThroughput(load_fps=1.0, search=1, goal="n"))),
        Dut(0.0, buffer=buffer),
    )
    assert len(seen) == len(found.trials)
    assert found.frames.n == 10
    assert {round(v, -2) for v in found.frames.values} == {900, 1100}


def test_the_longest_burst_that_comes_through_is_no_result() -> None:
    asked = BackToBackTest(searches=2, max_burst_s=0.001, idle_s=0)
    found, _ = drive(back_to_back(inputs(asked)), Dut(buffer=lambda _: 10**9))
    assert found.capped
    assert found.corrected_s is None
    assert found.frames.mean == found.max_burst_frames == 2000
    assert "raise max_burst_s" in found.note


def test_even_the_smallest_burst_may_be_too_long() -> None:
    asked = BackToBackTest(searches=2, max_burst_s=0.001, idle_s=0, step_frames=10)
    found, _ = drive(back_to_back(inputs(asked)), Dut(0.0, buffer=lambda _: 5))
    assert found.frames.maximum == 0
    assert "even bursts of 10 frames lost some" in found.note


def test_a_burst_that_lost_is_tried_again_where_that_is_asked_for() -> None:
    def flaky(trial: int) -> int:
        return 0 if trial % 2 else 1000  # every first try loses

    asked = BackToBackTest(searches=1, max_burst_s=0.01, idle_s=0)
    once, _ = drive(back_to_back(inputs(asked)), Dut(0.0, buffer=flaky))
    twice, _ = drive(
        back_to_back(inputs(asked.model_copy(update={"repeats_after_loss": 1}))),
        Dut(0.0, buffer=flaky),
    )
    assert once.frames.mean < 1000
    assert twice.frames.mean == 1000


def test_the_wait_is_no_shorter_than_the_burst() -> None:
    asked = BackToBackTest(searches=1, max_burst_s=5, idle_s=2)
    dut = Dut(buffer=lambda _: 10**9)
    drive(back_to_back(inputs(asked)), dut)
    assert min(a.idle_s for a in dut.asked) >= 2
    assert max(a.idle_s for a in dut.asked) == pytest.approx(5)
    assert all(a.histogram_up_to_loss < 0 for a in dut.asked)


@pytest.mark.parametrize(
    ("throughput", "nominal", "why"),
    [
        (KnownThroughput(load_fps=TEN_G, search=1, goal="n"), False, "medium's largest rate"),
        (
            KnownThroughput(load_fps=CEILING, search=1, goal="n", qualifier="at least", note="ha"),
            True,
            "at least the largest load that can be offered.*ha",
        ),
    ],
)
def test_no_buffer_fills_below_the_largest_rate(
    throughput: KnownThroughput, nominal: bool, why: str
) -> None:
    given_ = inputs(BackToBackTest(), throughput=throughput, nominal=nominal)
    with pytest.raises(NoResultError, match=why):
        next(back_to_back(given_))


def test_a_medium_has_its_own_rate_and_a_slow_generator_is_told() -> None:
    asked = BackToBackTest(searches=1, max_burst_s=0.001, idle_s=0)
    given_ = inputs(asked, nominal=False)
    found, _ = drive(back_to_back(given_), Dut(burst_fps=TEN_G))
    assert found.max_rate_fps == TEN_G
    assert found.max_burst_frames == 14880
    assert found.note == ""
    slow, _ = drive(back_to_back(given_), Dut(burst_fps=TEN_G / 2))
    assert "2.00 times as far apart as the medium allows" in slow.note


def test_bursts_no_faster_than_the_throughput_correct_nothing() -> None:
    asked = BackToBackTest(searches=1, max_burst_s=0.001, idle_s=0)
    found, _ = drive(back_to_back(inputs(asked)), Dut(0.0, burst_fps=500e3))
    assert found.corrected_s is None
    assert "no faster than the throughput" in found.note
