import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model import units
from vnetperf.report import goal_text, text


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


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1_110_400, 1_110_400, "1.11 million"),
        (999_960, 999_960, "1.00 million"),
        (572_400, 572_400, "572 thousand"),
        (2_048_000, 3_086_000, "2.0 to 3.1 million"),
        (960_000, 1_020_000, "960 thousand to 1.020 million"),
        (688, 688, "688"),
    ],
)
def test_a_rate_is_said_as_one_says_it(low, high, said):
    assert goal_text.in_words(low, high) == said


def test_a_note_that_is_true_of_several_things_is_printed_once(texts):
    both = ("phy0->phy1", "phy1->phy0")
    notes = [
        (size, goal, way, "it waited")
        for size in ("64 octets", "1518 octets")
        for goal in ("ndr", "pdr")
        for way in both
    ]
    notes.append(("64 octets", "ndr", both[0], "it is alone"))
    texts.check(goal_text.merged_notes(notes), "by size")
    texts.check(goal_text.merged_notes([*notes[:2], *notes[6:8]]), "by goal")
