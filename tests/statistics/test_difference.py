"""Differences of two sides: intervals that cover, and no verdict that nothing bears out."""

from __future__ import annotations

import random
from importlib import import_module
from itertools import combinations, takewhile
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.statistics.difference import (
    Measurand,
    Occurrences,
    compare_counts,
    difference,
    find_increases,
    find_significant,
    holm,
    least_by_ranks,
    newest_alike,
)


def exact(*values: float) -> list[Measurand]:
    return [Measurand.exact(v) for v in values]


SIDES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8)
POSITIVE = st.lists(st.floats(1e-3, 1e9), min_size=2, max_size=8)
OPPOSITE = {"more": "less", "less": "more", "": ""}


@given(SIDES, SIDES)
def test_sides_can_be_swapped(a: list[float], b: list[float]) -> None:
    one, other = difference(exact(*a), exact(*b)), difference(exact(*b), exact(*a))
    assert one.n == other.n[::-1]
    assert OPPOSITE[one.towards] == other.towards
    assert one.p == pytest.approx(other.p, abs=1e-6)
    if min(*a, *b) <= 0.0:
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low), rel=1e-6, abs=1e-6)


@given(POSITIVE, POSITIVE)
def test_of_positive_numbers_none_is_expected_below_nothing(a: list[float], b: list[float]) -> None:
    found, back = difference(exact(*a), exact(*b)), difference(exact(*b), exact(*a))
    assert found.ratio is not None
    assert back.ratio is not None
    assert all(share >= -1.0 for share in found.ratio)
    if max(found.ratio[0], back.ratio[0]) < 1e3:  # beyond, 1 + ratio has few digits left
        assert (1 + found.ratio[0]) * (1 + back.ratio[0]) == pytest.approx(1.0, rel=1e-6)


@given(SIDES)
def test_a_side_does_not_differ_from_itself(values: list[float]) -> None:
    assert not difference(exact(*values), exact(*values)).is_significant()


@given(POSITIVE, POSITIVE, st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_the_probability_is_the_level_at_which_the_interval_reaches_nothing(
    a: list[float], b: list[float], level: float
) -> None:
    found = difference(exact(*a), exact(*b), confidence=level)
    assert found.p is not None
    if abs(found.p - (1.0 - level)) > 1e-6:
        assert found.is_significant(level) is (found.low > 0.0 or found.high < 0.0)


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
    a, b = (10.0, 20.0, 30.0, 40.0), (11.0, 21.9, 33.2, 43.8)
    assert not difference(exact(*a), exact(*b)).is_significant()
    assert difference(exact(*a), exact(*b), paired=True).is_significant()


def test_what_a_search_leaves_open_is_in_the_interval() -> None:
    a = [Measurand(100.0, 100.0, 102.0)] * 5
    b = [Measurand(101.0, 101.0, 103.0)] * 5
    found = difference(a, b)
    assert (found.low, found.high) == pytest.approx((-1.15, 3.19), abs=0.01)
    assert (found.p, found.is_significant()) == (1.0, False)
    next_step = difference(a, [Measurand(102.0, 102.0, 104.0)] * 5)  # where the first one failed
    assert not next_step.is_significant()


def test_one_deployment_of_a_side_says_nothing_however_far_it_is() -> None:
    a, b = [Measurand(100.0, 100.0, 102.0)], [Measurand(110.0, 110.0, 112.0)]
    for found in (difference(a, b), difference(a, b * 5), difference(a * 5, b)):
        assert (found.method, found.p, found.is_significant()) == ("none", None, False)
        assert (found.low, found.high) == (-inf, inf)
        assert (found.value, found.towards) == (10.0, "more")


def test_a_limit_is_compared_by_its_rank_and_has_no_mean() -> None:
    at_least = [Measurand(100.0, 100.0, inf)] * 5
    below = [Measurand(v, v, v + 1) for v in (50.0, 52.0, 51.0, 53.0, 50.5)]
    found = difference(at_least, below)
    assert (found.method, found.value, found.towards) == ("ranks", None, "less")
    assert found.p == pytest.approx(2 / 252)
    assert found.is_significant()
    above = [Measurand(v, v, v + 1) for v in (150.0, 152.0, 151.0, 153.0, 150.5)]
    assert not difference(at_least, above).is_significant()  # what is open may be there too
    assert not difference(at_least[:3], below[:3]).is_significant()  # too few for ranks
    at_most = [Measurand(None, 0.0, 1.0)] * 5
    assert difference(at_least, at_most).towards == "less"


def test_censored_sides_that_are_equal_seldom_differ() -> None:
    draw, runs = random.Random(5), 300
    seen = 0
    for _ in range(runs):
        sides = []
        for _ in range(2):
            values = [100 + 8 * draw.gauss(0, 1) for _ in range(5)]
            sides.append(
                [Measurand(104.0, 104.0, inf) if v > 104 else Measurand.exact(v) for v in values]
            )
        seen += difference(*sides).is_significant()
    assert seen / runs <= 0.06


def test_many_numbers_are_judged_together() -> None:
    assert holm([]) == []
    assert holm([0.01]) == [0.01]
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0.0, 1.0), max_size=20))
def test_no_probability_falls_and_their_order_stays(values: list[float]) -> None:
    found = holm(values)
    assert all(a <= b <= 1.0 for a, b in zip(values, found, strict=True))
    order = sorted(range(len(values)), key=values.__getitem__)
    assert [found[i] for i in order] == sorted(found)


def test_what_makes_no_comparison_is_refused() -> None:
    with pytest.raises(ValueError, match="need a measurement"):
        difference([], exact(1.0))
    with pytest.raises(ValueError, match="no pairs"):
        difference(exact(1.0), exact(1.0, 2.0), paired=True)


@pytest.mark.parametrize(
    ("n", "m", "can"), [(2, 5, False), (3, 3, False), (3, 5, True), (4, 4, True)]
)
def test_ranks_need_enough_deployments_of_both_sides(n: int, m: int, *, can: bool) -> None:
    """docs/compare.md names the numbers."""
    more = [Measurand(10.0 + k, 10.0 + k, inf) for k in range(n)]
    less = [Measurand.exact(1.0 + k) for k in range(m)]
    found = difference(more, less)
    assert found.method == "ranks"
    assert found.p is not None
    assert (found.p <= 0.05) is can
    assert found.p == pytest.approx(least_by_ranks(n, m))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_searches_that_stop_on_one_rung_are_not_known_exactly(n: int) -> None:
    """Without any variance the width of the search is what is not known."""
    width = 0.05
    a = [Measurand(1e6, 1e6, 1e6 * (1 + width))] * n
    b = [Measurand(1.06e6, 1.06e6, 1.06e6 * (1 + width))] * n
    found = difference(a, b)
    assert found.p is not None
    assert found.p > 1e-3
    far = difference(a, [Measurand(2e6, 2e6, 2.1e6)] * n)
    assert far.p is not None
    assert 0.0 < far.p < found.p


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_what_happens_more_often_is_judged_by_fisher(n: int, m: int, data: st.DataObject) -> None:
    before, now = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    p, least = compare_counts((before, n), (now, m))
    table = [[now, m - now], [before, n - before]]
    stats = import_module("scipy.stats")  # here: it takes longer than all else of a collection
    assert p == pytest.approx(stats.fisher_exact(table, alternative="greater").pvalue)
    assert least <= p + 1e-12


def occurred(count: int, n: int, first: int = 0) -> Occurrences:
    return Occurrences(frozenset(range(first, first + count)), n)


def test_many_that_happen_more_often_are_judged_together() -> None:
    none, all_ = occurred(0, 3), occurred(3, 3)
    assert find_increases([(none, all_)]) == {(none, all_)}
    # The same three of the same three are one event, others are not; what nothing could show
    # costs nothing.
    assert find_increases([(none, all_)] * 5 + [(none, occurred(1, 3))]) == {(none, all_)}
    four = occurred(0, 5), occurred(4, 5)
    other = occurred(0, 5), occurred(4, 5, 1)
    assert find_increases([four]) == {four}
    assert find_increases([four, other]) == {four, other}
    assert find_increases([(none, all_), (none, occurred(3, 3, 1))]) == set()
    assert find_increases([]) == set()
    assert find_increases([(all_, none)]) == set()


def test_what_breaks_alike_is_seldom_seen_to_break_more_often() -> None:
    """Six numbers of five deployments a side, each of which breaks at the same share."""
    draw, runs = random.Random(1), 2000
    for share in (0.1, 0.3, 0.5, 0.7):
        seen = 0
        for _ in range(runs):
            sides = [
                [
                    Occurrences(frozenset(k for k in range(5) if draw.random() < share), 5)
                    for _ in range(6)
                ]
                for _ in range(2)
            ]
            seen += bool(find_increases(zip(*sides, strict=True)))
        assert seen / runs <= 0.05


@pytest.mark.parametrize("happened", range(9))
def test_newest_ones_are_judged_by_all_orders_of_the_series(happened: int) -> None:
    """The newest streak is at least so long in so many orders of eight, and never in fewer."""
    series = [[place in some for place in range(8)] for some in combinations(range(8), happened)]
    streaks = [len([*takewhile(bool, reversed(one))]) for one in series]
    for newest in set(streaks):
        p, least = newest_alike(happened, 8, newest, 3)
        if not 3 <= happened <= 5:
            assert (p, least) == (1.0, 1.0)
        else:
            assert least == 1 / len(series)
            share = sum(one >= newest for one in streaks) / len(series)
            assert p == pytest.approx(1.0 if newest < 3 else share)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_many_series_that_break_by_chance_are_seldom_said_to_be_lost(share: float) -> None:
    """Also those whose newest observation is whole count: a streak of three is one of many."""
    draw, histories, seen = random.Random(1), 400, 0
    for _ in range(histories):
        judged = {}
        for number in range(40):
            broken = [draw.random() < share for _ in range(20)]
            newest = len([*takewhile(bool, reversed(broken))])
            judged[number] = newest_alike(sum(broken), 20, newest, 3)
        seen += bool(find_significant(judged))
    assert seen / histories <= 0.05


def test_a_series_that_breaks_for_good_is_sure_among_many() -> None:
    """Of forty that broke at times, one whose newest four are its only broken ones."""
    others = {number: newest_alike(4, 20, 0, 3) for number in range(40)}
    assert find_significant({**others, "lost": newest_alike(4, 20, 4, 3)}) == {"lost"}
    assert find_significant({**others, "lost": newest_alike(5, 20, 3, 3)}) == set()
    assert find_significant({"lost": newest_alike(5, 20, 3, 3)}) == {"lost"}
