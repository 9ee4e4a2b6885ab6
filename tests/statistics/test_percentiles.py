"""Percentiles by nearest rank: what no less than their share of all is not above."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from vnetperf.statistics.histogram import decode_hdr, encode_hdr, values_at
from vnetperf.statistics.samples import percentiles


@given(st.dictionaries(st.integers(1, 1000), st.integers(1, 50), min_size=1))
def test_a_percentile_is_the_value_at_its_rank(counts: dict[int, int]) -> None:
    pairs = sorted(counts.items())
    single = [value for value, count in pairs for _ in range(count)]
    found = percentiles(pairs, (1, 50, 99.9, 100))
    for p in (1, 50, 99.9, 100):
        assert found[f"{p:g}"] == single[max(1, ceil(len(single) * p / 100)) - 1]


def test_a_rank_that_is_whole_is_not_rounded_up_by_binary_fractions() -> None:
    assert percentiles([(1, 999), (2, 1)], (99.9,)) == {"99.9": 1.0}
    assert percentiles([(1, 998), (2, 2)], (99.9,)) == {"99.9": 2.0}


@given(
    st.dictionaries(st.integers(1, 10**10), st.integers(1, 50), min_size=1),
    st.lists(st.floats(0, 100), min_size=1),
)
def test_values_of_a_stored_histogram_are_those_of_the_library(
    counts: dict[int, int], shares: list[float]
) -> None:
    histogram = decode_hdr(encode_hdr(counts.items()))
    of_the_library = [histogram.get_value_at_percentile(share) for share in shares]
    assert values_at(histogram, shares) == of_the_library
