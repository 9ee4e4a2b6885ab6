"""Levels of a series: changes are found, noise and single outliers are none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vnetperf.statistics.changes import (
    SIGNIFICANCE,
    WANDERING,
    levels,
    shuffled_share,
    wandering,
)


def change_points(values: Sequence[float], *, least: float = 0.0) -> tuple[int, ...]:
    """Places at which another level begins."""
    return tuple(level.begin for level in levels(values, least=least)[1:])


SERIES = st.lists(st.floats(-1e9, 1e9), max_size=30)


@given(SERIES)
def test_levels_cover_the_series_once(values: list[float]) -> None:
    found = levels(values)
    assert [place for level in found for place in range(level.begin, level.end)] == list(
        range(len(values))
    )
    assert all(level.end - level.begin >= 3 for level in found) or len(found) == 1 or not values


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(5, 25), st.integers(5, 25), st.booleans())
def test_a_step_is_found_where_it_is(seed: int, before: int, after: int, up: bool) -> None:
    draw, step = random.Random(seed), 20.0 if up else -20.0
    values = [draw.random() for _ in range(before)] + [step + draw.random() for _ in range(after)]
    assert before in change_points(values)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 3.0, 1e6]), st.floats(-1e3, 1e3))
def test_units_do_not_matter(seed: int, factor: float, shift: float) -> None:
    draw = random.Random(seed)
    values = [draw.gauss(5.0 if n > 9 else 0.0, 1.0) for n in range(20)]
    assert change_points([v * factor + shift for v in values]) == change_points(values)


@pytest.mark.slow
def test_noise_is_rarely_taken_for_a_change() -> None:
    draw, runs = random.Random(9), 100
    for n in (9, 20, 40):
        wrong = sum(bool(change_points([draw.gauss(0, 1) for _ in range(n)])) for _ in range(runs))
        assert wrong / runs <= 0.05, n


def test_a_change_of_three_deviations_is_found_in_most_series() -> None:
    draw, runs = random.Random(4), 40
    found = 0
    for _ in range(runs):
        values = [draw.gauss(0, 1) for _ in range(10)] + [draw.gauss(3, 1) for _ in range(10)]
        places = change_points(values)
        found += len(places) == 1 and abs(places[0] - 10) <= 1
    assert found / runs >= 0.8


def wandering_series(draw: random.Random, alike: float, n: int) -> list[float]:
    """Values that are like those before them: AR(1), of deviation 1."""
    values = [draw.gauss(0, 1)]
    while len(values) < n:
        values.append(alike * values[-1] + (1 - alike**2) ** 0.5 * draw.gauss(0, 1))
    return values


@pytest.mark.parametrize("n", [10, 20, 40])
def test_a_series_that_wanders_is_rarely_taken_for_a_change(n: int) -> None:
    """Of shuffled ones, by which alone it would be judged, none is so."""
    draw, series = random.Random(n), 60
    for alike in (0.3, 0.5, 0.8):
        found = [wandering_series(draw, alike, n) for _ in range(series)]
        assert sum(bool(change_points(values)) for values in found) <= 0.07 * series + 2
    assert sum(shuffled_share(values) <= SIGNIFICANCE for values in found) > 0.1 * series


def test_a_step_in_a_series_that_wanders_is_found() -> None:
    draw, found = random.Random(8), 0
    for _ in range(40):
        values = wandering_series(draw, 0.8, 20)
        found += change_points([v + 5.0 * (n >= 10) for n, v in enumerate(values)]) == (10,)
    assert found >= 32


def test_it_is_told_that_a_series_may_only_wander() -> None:
    draw = random.Random(1)
    ramp = [0.1 * n + draw.gauss(0, 0.1) for n in range(20)]
    assert change_points(ramp) == ()
    why = wandering(ramp)
    assert why is not None
    assert why.share > WANDERING
    assert why.autocorrelation > 0.6
    assert wandering([draw.gauss(0, 1) for _ in range(20)]) is None
    assert wandering([float(n >= 10) for n in range(20)]) is None


def test_steps_of_a_search_are_no_certainty() -> None:
    """Rounded to steps of half their deviation, series have less noise than they seem to have."""
    draw, series, found = random.Random(5), 60, 0
    for _ in range(series):
        values = [round(2 * v) / 2 for v in wandering_series(draw, 0.8, 10)]
        found += bool(change_points(values, least=0.5))
    assert found <= 0.07 * series + 2


def test_outliers_make_no_level() -> None:
    draw = random.Random(2)
    values = [draw.gauss(100, 1) for _ in range(30)]
    values[7] = values[20] = 1e9
    assert change_points(values) == ()


def test_several_changes_are_told_apart() -> None:
    draw = random.Random(3)
    values = [draw.gauss(level, 1) for level in (0, 30, 10) for _ in range(8)]
    found = levels(values)
    assert [level.begin for level in found] == [0, 8, 16]
    assert [round(level.median, -1) for level in found] == [0, 30, 10]


def test_a_change_below_what_can_be_told_is_none() -> None:
    values = [100.0] * 8 + [101.0] * 8 + [120.0] * 8
    assert change_points(values) == (8, 16)
    assert change_points(values, least=2.0) == (16,)
    assert change_points(values, least=50.0) == ()


@given(st.lists(st.floats(-1e9, 1e9), max_size=7), st.floats(-1e9, 1e9), st.integers(0, 40))
def test_few_or_equal_values_show_nothing(few: list[float], value: float, n: int) -> None:
    assert change_points(few) == ()
    assert change_points([value] * n) == ()


def test_the_same_series_gives_the_same_levels() -> None:
    draw = random.Random(8)
    values = [draw.gauss(n // 12 * 2, 1) for n in range(36)]
    assert levels(values) == levels(list(values))
    assert all(a.end == b.begin for a, b in pairwise(levels(values)))
