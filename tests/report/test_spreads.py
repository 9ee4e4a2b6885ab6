"""Means with their intervals, as a reader sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.outcomes import Spread
from vnetperf.report import text
from vnetperf.statistics.samples import spread


def made(mean: float, half: float | None = None, **more: object) -> Spread:
    ends = {} if half is None else {"low": mean - half, "high": mean + half, "method": "t"}
    values = {"n": 5, "mean": mean, "median": mean, "minimum": mean, "maximum": mean}
    return Spread.model_validate(values | ends | more)


@pytest.mark.parametrize(
    ("found", "kind", "said"),
    [
        (made(12_312_000, 52_000), "fps", "12.312 ± 0.052 Mfps (n 5)"),
        (made(12_312_000), "fps", "12.31 Mfps (n 5)"),
        (made(19_392.0, 98.0), "ns", "19.392 ± 0.098 µs (n 5)"),
        (made(0.172, 0.024), "s", "172 ± 24 ms (n 5)"),
        (made(1.7, 0.0), "s", "1.700 ± 0 s (n 5)"),
        (made(4502.0, 27.0), "frames", "4 502 ± 27 frames (n 5)"),
        (made(1e-7, 2e-8), "ratio", "1.00e-05 % ± 2.00e-06 % (n 5)"),
        (made(999_999.0, 10.0), "fps", "0.999999 ± 0.000010 Mfps (n 5)"),
        (made(5e6, low=4.9e6, high=5.8e6), "fps", "5.00 Mfps (4.90 to 5.80 Mfps; n 5)"),
        (made(5e6, modes=(4e6, 6e6)), "fps", "two modes: 4.000 Mfps, 6.000 Mfps (n 5)"),
    ],
)
def test_a_mean_reads_as_agreed(found, kind, said):
    assert text.mean_with_n(found, kind).replace("\N{NO-BREAK SPACE}", " ") == said


@given(
    st.lists(st.floats(min_value=1e-9, max_value=1e12), min_size=1, max_size=30),
    st.sampled_from(["fps", "ns", "s", "frames", "ratio"]),
)
def test_every_spread_can_be_said_with_its_n(values, kind):
    found = spread(values)
    said = text.mean_with_n(found, kind)
    assert f"n {len(values)})" in said
    assert "e+" not in said
    assert text.stdev(found, kind)
    assert all("far from" in r or "groups" in r for r in text.remarks(found, kind))


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ((0.018, 0.020), "s", "18.0 and 20.0 ms (n 2)"),
        ((20e6, 900e3), "fps", "900 kfps and 20 Mfps (n 2)"),
        ((14.88e6, 14.88e6), "fps", "14.88 Mfps (n 2)"),
        ((510.0, 512.0), "frames", "510 and 512 frames (n 2)"),
        ((510.0, 512.0, 514.0), "frames", "512 (510 to 514) frames (n 3)"),
        ((49.39e-6, 0.213, 1.471), "s", "0.6 s (49 µs to 1.5 s; n 3)"),
        ((2048.0, 2056.0, 2071.0), "frames", "2 058 (2 048 to 2 071) frames (n 3)"),
        ((115171.0, 154901.0), "frames", "115 000 and 155 000 frames (n 2)"),
        ((0.0, 0.0, 3.0), "s", "1.0 s (0 to 3.0 s; n 3)"),
        ((0.0042, 0.0071, 0.03), "s", "14 ms (4.2 to 30 ms; n 3)"),
    ],
)
def test_three_values_or_fewer_are_shown_by_their_extremes_without_an_interval(values, kind, said):
    found = spread(values)
    assert text.mean_with_n(found, kind).replace("\N{NO-BREAK SPACE}", " ") == said
    assert (found.low, found.high) == (None, None)
    note = "Of three values: mean (least to most)." if len(values) == 3 else ""
    assert text.interval_note([found]) == note


def test_a_positive_quantity_has_no_interval_below_nothing():
    interval = text.mean_interval(spread([0.001, 0.002, 0.0015, 0.018]), "s")
    assert "\N{MINUS SIGN}" not in interval


def test_the_note_names_level_and_method(texts):
    texts.check(text.interval_note([made(1.0, 0.1)]))
    assert "too few" in text.interval_note([made(1.0, 0.1), made(1.0)])
    assert text.interval_note([made(1.0)]) == ""
