from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model import frames, units
from vnetperf.model.traffic import check_frame_size

SIZES = st.integers(frames.MIN_FRAME_SIZE, frames.MAX_FRAME_SIZE)

#: RFC 2544 appendix B and IEEE 802.3: 10 Gbit/s, frames/s, truncated.
TEN_GIGABIT = {
    64: 14_880_952,
    128: 8_445_945,
    256: 4_528_985,
    512: 2_349_624,
    1024: 1_197_318,
    1280: 961_538,
    1518: 812_743,
}


@pytest.mark.parametrize(("size", "fps"), TEN_GIGABIT.items())
def test_media_maximum_of_ten_gigabit_ethernet(size: int, fps: int) -> None:
    assert int(frames.LinkSpeed(10e9).max_frame_rate(size)) == fps


def test_the_sizes_of_rfc_2544_are_those_of_the_table() -> None:
    assert tuple(TEN_GIGABIT) == frames.RFC2544_FRAME_SIZES


def test_a_64_octet_frame_is_60_octets_to_a_driver() -> None:
    assert frames.driver_length(64) == 60


@given(SIZES)
def test_every_layer_counts_the_same_frame(size: int) -> None:
    with_fcs = frames.driver_length(size) + 4
    assert frames.l1_bits_per_frame(size) == 8 * with_fcs + 8 * (7 + 1 + 12)


@given(SIZES, st.floats(1e6, 1e12))
def test_the_maximum_rate_fills_the_medium_exactly(size: int, speed: float) -> None:
    rate = frames.LinkSpeed(speed).max_frame_rate(size)
    assert rate * frames.l1_bits_per_frame(size) == pytest.approx(speed)


@given(st.integers())
def test_sizes_outside_ethernet_are_refused_and_say_that_the_fcs_counts(size: int) -> None:
    if frames.MIN_FRAME_SIZE <= size <= frames.MAX_FRAME_SIZE:
        assert check_frame_size(size) == size
    else:
        with pytest.raises(ValueError, match="FCS"):
            check_frame_size(size)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "0.5 s"),
        (99, "99 s"),
        (150, "2.5 min"),
        (7199, "120.0 min"),
        (7200, "2.0 h"),
        (3.5 * 86_400, "3.5 days"),
        (9927.8 * 60, "6.9 days"),
    ],
)
def test_long_times_are_as_people_say_them(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 Mfps", (2e6, "fps")),
        ("14.88 Mpps", (14.88e6, "fps")),
        ("0.1%", (0.001, "ratio")),
        ("0.1 %", (0.001, "ratio")),
        ("12.31 \N{MICRO SIGN}s", (12.31e-6, "s")),
        ("1_000 fps", (1000.0, "fps")),
        ("10 Gbit/s", (10e9, "bit/s")),
        ("1e3 fps", (1000.0, "fps")),
        ("2", None),
        ("fps", None),
        ("2 parsec", None),
        ("", None),
        ("nan fps", None),
        ("1_ Mfps", None),
        ("1__0 s", None),
    ],
)
def test_what_reports_print_is_read(text: str, value: tuple[float, str] | None) -> None:
    assert units.parse_quantity(text) == value


@given(st.floats(1e-3, 1e12))
def test_a_printed_rate_is_read_as_it_was(rate: float) -> None:
    found = units.parse_quantity(units.fps(rate))
    assert found is not None
    assert found[0] == pytest.approx(rate, rel=1e-3)
