"""Differences of two sides: intervals that cover, and no verdict that nothing bears out."""

from __future__ import annotations

import random
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.statistics.difference import Measurand, difference


def exact(*values: float) -> list[Measurand]:
    return [Measurand.exact(v) for v in values]


SIDES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8)


@given(SIDES, SIDES)
def test_sides_can_be_swapped(a: list[float], b: list[float]) -> None:
    one, other = difference(exact(*a), exact(*b)), difference(exact(*b), exact(*a))
    assert one.n == other.n[::-1]
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), rel=1e-6, abs=1e-6)
    opposite = {"more": "less", "less": "more", "": ""}
    assert opposite[one.seen] == other.seen


@given(SIDES)
def test_a_side_does_not_differ_from_itself(values: list[float]) -> None:
    assert difference(exact(*values), exact(*values)).seen == ""


@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_covers_as_often_as_it_says(paired: bool) -> None:
    draw, runs, covered = random.Random(21), 250, 0
    for _ in range(runs):
        drift = [draw.gauss(0, 5 if paired else 0) for _ in range(6)]
        a = [100 + d + draw.gauss(0, 1) for d in drift]
        b = [103 + d + draw.gauss(0, 2) for d in drift]
        found = difference(exact(*a), exact(*b), paired=paired)
        covered += found.low <= 3 <= found.high
    assert covered / runs == pytest.approx(0.95, abs=0.04)


def test_pairs_take_the_drift_out() -> None:
    a, b = (10.0, 20.0, 30.0, 40.0), (11.0, 21.1, 30.9, 41.0)
    assert difference(exact(*a), exact(*b)).seen == ""
    assert difference(exact(*a), exact(*b), paired=True).seen == "more"


def test_what_a_search_leaves_open_is_in_the_interval() -> None:
    a = [Measurand(100.0, 100.0, 102.0)] * 5
    b = [Measurand(101.0, 101.0, 103.0)] * 5
    found = difference(a, b)
    assert (found.low, found.high) == (-1.0, 3.0)
    assert found.seen == ""


def test_single_searches_differ_when_their_bounds_are_apart() -> None:
    a, b = [Measurand(100.0, 100.0, 102.0)], [Measurand(110.0, 110.0, 112.0)]
    found = difference(a, b)
    assert (found.method, found.low, found.high, found.seen) == ("bounds", 8.0, 12.0, "more")
    assert difference(a, [Measurand(101.0, 101.0, 103.0)]).seen == ""


def test_an_open_end_bounds_one_side_only() -> None:
    at_least = [Measurand(100.0, 100.0, inf)]
    assert difference(at_least, [Measurand(50.0, 50.0, 51.0)]).seen == "less"
    assert difference(at_least, [Measurand(150.0, 150.0, 151.0)]).seen == ""
    at_most = [Measurand(None, 0.0, 1.0)]
    found = difference(at_least, at_most)
    assert (found.value, found.seen) == (None, "less")


def test_one_exact_number_each_says_nothing_of_the_difference() -> None:
    found = difference(exact(1.0), exact(100.0))
    assert (found.method, found.seen, found.value) == ("none", "", 99.0)


def test_what_makes_no_comparison_is_refused() -> None:
    with pytest.raises(ValueError, match="need a measurement"):
        difference([], exact(1.0))
    with pytest.raises(ValueError, match="no pairs"):
        difference(exact(1.0), exact(1.0, 2.0), paired=True)
