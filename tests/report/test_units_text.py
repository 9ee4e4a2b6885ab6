import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model import units
from vnetperf.report import text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (14_880_952.38, "14.88 Mfps"),
        (999_999.9, "1.000 Mfps"),
        (812_743.8, "812.7 kfps"),
        (0, "0 fps"),
        (12.0, "12.00 fps"),
        (math.nan, "not a number fps"),
    ],
)
def test_a_rate_has_four_significant_digits_and_its_unit(value, said):
    assert units.fps(value) == said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.005, "0.5 %"),
        (1e-7, "1.00e-05 %"),
        (0.00002, "0.002 %"),
        (1 / 3, "33.33 %"),
    ],
)
def test_percent(ratio, said):
    assert units.percent(ratio) == said


@given(st.floats(min_value=1e-12, max_value=1.0))
def test_a_loss_is_never_rounded_to_none(ratio):
    assert units.percent(ratio) != "0 %"


@given(st.floats(min_value=1e-3, max_value=1e12))
def test_rates_keep_their_value_within_their_digits(value):
    number, unit = units.fps(value).split(" ")
    factor = {"G": 1e9, "M": 1e6, "k": 1e3, "f": 1.0}[unit[0]]
    assert float(number) * factor == pytest.approx(value, rel=6e-4)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.5, "0.5 s"), (59.0, "59 s"), (61.2, "1 min 01 s"), (3725, "1 h 02 min 05 s")],
)
def test_durations(value, said):
    assert units.seconds(value) == said


def test_latency_takes_the_unit_that_fits():
    assert units.nanoseconds(12_310) == "12.31 µs"
    assert units.nanoseconds(900) == "900.0 ns"
    assert units.nanoseconds(2.5e6) == "2.500 ms"


@pytest.mark.parametrize(("ratio", "said"), [(1, "100 %"), (1e-3, "0.1 %"), (1e-7, "10⁻⁵ %")])
def test_decades_on_an_axis_stay_short(ratio, said):
    assert text.tick_percent(ratio) == said
