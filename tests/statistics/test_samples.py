"""What samples spread over, and proportions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.statistics import clopper_pearson, spread, trial_loss_interval

VALUES = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40)


@given(VALUES)
def test_every_value_is_kept_in_order(values: list[float]) -> None:
    found = spread(values)
    assert list(found.values) == values
    assert found.n == len(values)
    assert found.minimum <= found.mean <= found.maximum
    assert found.minimum <= found.median <= found.maximum
    assert all(0 <= place < found.n for place in found.outliers)


@given(VALUES)
def test_the_interval_holds_the_mean_and_comes_again(values: list[float]) -> None:
    found = spread(values)
    if found.n <= 3:
        assert found.low is None
        assert found.method == ""
        return
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.mean <= found.high
    assert found == spread(values)


@pytest.mark.parametrize(
    ("draw", "mean", "n", "least"),
    [
        (lambda r: r.gauss(100, 5), 100, 5, 0.93),
        (lambda r: r.gauss(100, 5), 100, 20, 0.93),
        (lambda r: r.random(), 0.5, 6, 0.91),
        (lambda r: r.expovariate(1), 1, 30, 0.85),
        (lambda r: r.lognormvariate(0, 0.4), math.exp(0.08), 5, 0.91),
    ],
)
def test_the_interval_covers_as_often_as_it_says(
    draw: Callable[[random.Random], float], mean: float, n: int, least: float
) -> None:
    seeded, runs, covered = random.Random(11), 300 if n < 30 else 40, 0
    for _ in range(runs):
        found = spread([draw(seeded) for _ in range(n)])
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= mean <= found.high
    assert covered / runs >= least


@pytest.mark.parametrize(("n", "least"), [(4, 0.93), (5, 0.93), (20, 0.93)])
def test_one_more_is_where_it_is_expected(n: int, least: float) -> None:
    seeded, runs, covered = random.Random(17), 300, 0
    for _ in range(runs):
        found = spread([seeded.gauss(100, 5) for _ in range(n)])
        assert found.next_low is not None
        assert found.next_high is not None
        covered += found.next_low <= seeded.gauss(100, 5) <= found.next_high
    assert covered / runs >= least


def test_a_wider_confidence_gives_a_wider_interval() -> None:
    narrow, wide = (spread([1.0, 2.0, 3.0, 4.0], confidence=c) for c in (0.5, 0.99))
    assert narrow.low is not None
    assert wide.low is not None
    assert wide.low < narrow.low


def test_skewed_values_are_resampled() -> None:
    seeded = random.Random(1)
    found = spread([seeded.expovariate(1) ** 2 for _ in range(40)])
    assert found.method == "bootstrap"
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.mean > found.mean - found.low  # it follows the long tail


def test_two_modes_are_named_and_not_averaged_away() -> None:
    found = spread([10.0, 10.1, 14.2, 10.05, 14.1, 14.3, 9.9, 14.25])
    assert found.modes == pytest.approx((10.0125, 14.2125))
    assert found.outliers == ()


def test_one_mode_is_rarely_taken_for_two() -> None:
    seeded, runs = random.Random(3), 200
    for n in (4, 5, 8, 12, 25):
        wrong = sum(bool(spread([seeded.gauss(0, 1) for _ in range(n)]).modes) for _ in range(runs))
        assert wrong / runs < 0.03, n


def test_steps_of_what_measured_are_no_modes() -> None:
    bursts = [512.0, 512.0, 513.0, 513.0, 512.0, 513.0, 513.0, 512.0]
    assert spread(bursts).modes
    assert spread(bursts, resolution=1.0).modes == ()


def test_an_outlier_is_shown_and_stays_in_the_mean() -> None:
    found = spread([100.0, 101.0, 99.0, 100.5, 20.0, 99.5, 100.2])
    assert found.outliers == (4,)
    assert found.mean < 90
    assert found.modes == ()


def test_an_outlier_among_equal_values_is_seen() -> None:
    assert spread([512.0] * 30 + [100.0]).outliers == (30,)


@given(st.floats(-1e9, 1e9), st.integers(2, 30))
def test_equal_values_have_no_outliers_and_no_modes(value: float, n: int) -> None:
    found = spread([value] * n)
    assert (found.modes, found.outliers, found.stdev) == ((), (), 0.0)
    assert found.mean == value
    if n > 3:
        assert found.low == found.high == value


@given(st.lists(st.floats(1e-9, 1e9), min_size=4, max_size=20))
def test_what_is_positive_has_no_interval_below_nothing(values: list[float]) -> None:
    found = spread(values)
    for low, high in ((found.low, found.high), (found.next_low, found.next_high)):
        assert low is not None
        assert high is not None
        assert 0.0 <= low <= found.mean <= high
    assert found.next_low <= found.low  # type: ignore[operator]  # neither is None, see above


def test_a_ratio_of_nothing_has_no_interval_below_nothing() -> None:
    found = spread([0.0, 0.0, 0.001, 0.02])
    assert (found.low, found.next_low, found.method) == (0.0, 0.0, "t")


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_what_is_no_number_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        spread(values)


def test_no_level_is_refused() -> None:
    with pytest.raises(ValueError, match="no level"):
        spread([1.0], confidence=95)


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


def test_no_level_of_a_proportion_is_refused() -> None:
    with pytest.raises(ValueError, match="no level"):
        clopper_pearson(1, 5, confidence=95)


@pytest.mark.parametrize("frames", [1, 5000])
def test_one_lossy_trial_is_an_event_of_a_poisson_process(frames: int) -> None:
    """Its exact interval is 0.0253 to 5.572 events; each of as many frames."""
    found = trial_loss_interval([0, 0, frames, 0])
    assert found == pytest.approx((0.025318 * frames, 5.571643 * frames), rel=1e-5)
    assert trial_loss_interval([0, 0]) is None


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40))
def test_the_interval_of_trials_holds_what_they_lost(lost: list[int]) -> None:
    found = trial_loss_interval(lost)
    if not any(lost):
        assert found is None
        return
    assert found is not None
    low, high = found
    assert 0 <= low <= sum(lost) * (1 + 1e-9)
    assert high >= sum(lost) * (1 - 1e-9)


def test_frames_that_are_lost_one_by_one_leave_a_narrow_interval() -> None:
    low, high = trial_loss_interval([50, 46, 53, 55, 49, 47, 52, 51, 44, 53]) or (0.0, 0.0)
    assert 470 < low < 500 < high < 530
    with pytest.raises(ValueError, match="no level of confidence"):
        trial_loss_interval([1], confidence=95)
