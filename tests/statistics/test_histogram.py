"""Percentiles of histograms, and quantiles of samples."""

from __future__ import annotations

from math import ceil

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.statistics.histogram import (
    HIGHEST_NS,
    decode_hdr,
    encode_hdr,
    percentile_values,
    read_percentiles,
    recorded,
)
from vnetperf.statistics.samples import percentiles, t_quantile


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
    assert percentile_values(histogram, shares) == of_the_library


@pytest.mark.parametrize(
    ("probability", "degrees", "printed"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 4, 2.776),
        (0.975, 9, 2.262),
        (0.975, 19, 2.093),
        (0.975, 29, 2.045),
        (0.975, 120, 1.980),
        (0.95, 5, 2.015),
        (0.90, 3, 1.638),
        (0.995, 10, 3.169),
        (0.999, 7, 4.785),
        (0.9995, 1, 636.619),
        (0.975, 1e9, 1.960),
    ],
)
def test_t_is_that_of_the_table(probability: float, degrees: float, printed: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(printed, abs=6e-4)


@given(st.floats(0.001, 0.999), st.floats(0.5, 500))
def test_t_is_symmetric_and_rises(probability: float, degrees: float) -> None:
    assert t_quantile(1 - probability, degrees) == pytest.approx(
        -t_quantile(probability, degrees), rel=1e-6, abs=1e-9
    )
    assert t_quantile(min(probability + 0.0005, 0.9999), degrees) > t_quantile(probability, degrees)


def test_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="no probability"):
        t_quantile(1.0, 3)


@given(st.lists(st.integers(1, 9_999_999_999), max_size=50), st.sampled_from((1, 1000)))
def test_buckets_are_the_librarys(values: list[int], least: int) -> None:
    made = HdrHistogram(least, 10_000_000_000, 3)
    for value in values:
        made.record_value(value)
    counts = enumerate(made.counts)
    assert recorded(made) == [(made.get_value_from_index(n), count) for n, count in counts if count]


@pytest.mark.parametrize(
    ("value", "frames"),
    [(100, -1), (100, 2**63), (100, 2**64 - 1), (-5, 1), (HIGHEST_NS + 1, 1)],
)
def test_a_count_or_a_value_that_cannot_be_does_not_reach_the_library(
    value: int, frames: int
) -> None:
    """Its C code ends the process ("free(): invalid pointer"), and -5 would be another value."""
    with pytest.raises(ValueError, match="cannot be"):
        encode_hdr([(7, 1), (value, frames)])


@given(st.lists(st.integers(1, 9_999_999_999), max_size=50))
def test_percentiles_of_a_histogram_are_those_of_its_values(values: list[int]) -> None:
    made = HdrHistogram(1, 10_000_000_000, 3)
    for value in values:
        made.record_value(value)
    wanted = (0.1, 1.0, 50.0, 99.9, 100.0)
    assert read_percentiles(made, wanted) == percentiles(recorded(made), wanted)
