"""The interval of a loss ratio: known values, and that it covers what it says."""

from __future__ import annotations

import random
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.statistics import clopper_pearson, loss_of_trials


@pytest.mark.parametrize(
    ("lost", "offered", "low", "high"),
    [
        (0, 10, 0.0, 0.308497),
        (1, 10, 0.002529, 0.445016),
        (5, 10, 0.187086, 0.812914),
        (10, 10, 0.691503, 1.0),
        (8, 20, 0.191190, 0.639457),
        (0, 0, 0.0, 1.0),
    ],
)
def test_it_is_that_of_the_table(lost: int, offered: int, low: float, high: float) -> None:
    assert clopper_pearson(lost, offered) == pytest.approx((low, high), abs=2e-6)


def test_the_rule_of_three_holds_for_a_long_run() -> None:
    low, high = clopper_pearson(0, 3_000_000_000, confidence=0.9)
    assert low == 0.0
    assert high == pytest.approx(1e-9, rel=0.002)


@given(st.integers(0, 10**10), st.data())
def test_what_was_seen_lies_within(offered: int, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, offered))
    low, high = clopper_pearson(lost, offered)
    assert 0.0 <= low <= high <= 1.0
    if offered:
        assert low <= lost / offered <= high


@given(st.integers(1, 60), st.data())
def test_each_end_leaves_half_of_the_rest_beyond_it(offered: int, data: st.DataObject) -> None:
    lost = data.draw(st.integers(1, offered))

    def at_least(share: float, count: int) -> float:
        """Probability of so many lost frames, by the binomial sum."""
        return sum(
            comb(offered, n) * share**n * (1 - share) ** (offered - n)
            for n in range(count, offered + 1)
        )

    low, high = clopper_pearson(lost, offered)
    assert at_least(low, lost) == pytest.approx(0.025, rel=1e-9)
    if lost < offered:
        assert 1 - at_least(high, lost + 1) == pytest.approx(0.025, rel=1e-9)


@pytest.mark.parametrize(
    ("lost", "low", "high"), [(1, 0.0253178, 5.5716434), (7, 2.8143631, 14.4226748)]
)
def test_of_ten_billion_frames_it_is_that_of_poisson(lost: int, low: float, high: float) -> None:
    found = clopper_pearson(lost, 10**10)
    assert found == pytest.approx((low * 1e-10, high * 1e-10), rel=1e-6)


@pytest.mark.parametrize(("share", "frames"), [(0.01, 100), (0.3, 40), (0.001, 2000)])
def test_it_covers_at_least_as_often_as_it_says(share: float, frames: int) -> None:
    draw, covered, runs = random.Random(7), 0, 400
    for _ in range(runs):
        lost = sum(draw.random() < share for _ in range(frames))
        low, high = clopper_pearson(lost, frames)
        covered += low <= share <= high
    assert covered / runs >= 0.93


@pytest.mark.parametrize(("lost", "offered"), [(-1, 5), (6, 5)])
def test_no_share_is_refused(lost: int, offered: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        clopper_pearson(lost, offered)


def test_no_level_is_refused() -> None:
    with pytest.raises(ValueError, match="no level"):
        clopper_pearson(1, 5, confidence=95)


@pytest.mark.parametrize("frames", [1, 5000])
def test_one_lossy_trial_is_an_event_of_a_poisson_process(frames: int) -> None:
    """Its exact interval is 0.0253 to 5.572 events; each of as many frames."""
    found = loss_of_trials([0, 0, frames, 0])
    assert found == pytest.approx((0.025318 * frames, 5.571643 * frames), rel=1e-5)
    assert loss_of_trials([0, 0]) is None


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40))
def test_the_interval_of_trials_holds_what_they_lost(lost: list[int]) -> None:
    found = loss_of_trials(lost)
    if not any(lost):
        assert found is None
        return
    assert found is not None
    low, high = found
    assert 0 <= low <= sum(lost) * (1 + 1e-9)
    assert high >= sum(lost) * (1 - 1e-9)


def test_frames_that_are_lost_one_by_one_leave_a_narrow_interval() -> None:
    low, high = loss_of_trials([50, 46, 53, 55, 49, 47, 52, 51, 44, 53]) or (0.0, 0.0)
    assert 470 < low < 500 < high < 530
    with pytest.raises(ValueError, match="no level of confidence"):
        loss_of_trials([1], confidence=95)
