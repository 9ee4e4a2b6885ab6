"""Quantiles of Student's t against printed tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.statistics.samples import t_quantile


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
