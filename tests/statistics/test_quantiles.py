"""Quantiles against printed tables, and against sums that can be done exactly."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.statistics.samples import beta_quantile, incomplete_beta, t_quantile


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


@given(st.integers(1, 60), st.data(), st.floats(0.01, 0.99))
def test_incomplete_beta_is_the_binomial_sum(n: int, data: st.DataObject, x: float) -> None:
    k = data.draw(st.integers(1, n))
    at_least_k = sum(comb(n, i) * x**i * (1 - x) ** (n - i) for i in range(k, n + 1))
    assert incomplete_beta(k, n - k + 1, x) == pytest.approx(at_least_k, rel=1e-9, abs=1e-12)


@given(st.floats(0.2, 2e4), st.floats(0.2, 2e4), st.floats(0.001, 0.999))
def test_a_quantile_is_where_the_probability_is_reached(a: float, b: float, p: float) -> None:
    x = beta_quantile(p, a, b)
    if 1e-9 < x < 1 - 1e-9:
        assert incomplete_beta(a, b, x) == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize("x", [0.48, 0.495, 0.5, 0.505, 0.52])
def test_both_methods_meet_where_one_takes_over(x: float) -> None:
    fraction, quadrature = incomplete_beta(2999.9, 2999.9, x), incomplete_beta(3000.1, 3000.1, x)
    assert fraction == pytest.approx(quadrature, abs=2e-4)


@pytest.mark.parametrize(("a", "b", "x"), [(0, 1, 0.5), (1, -1, 0.5), (1, 1, 1.5), (1, 1, -0.1)])
def test_a_parameter_out_of_range_is_refused(a: float, b: float, x: float) -> None:
    with pytest.raises(ValueError, match="no beta function"):
        incomplete_beta(a, b, x)


def test_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="no probability"):
        t_quantile(1.0, 3)
    with pytest.raises(ValueError, match="no probability"):
        beta_quantile(-0.1, 1, 1)
