"""Quantiles of the beta distribution and of Student's t, by the regularised incomplete beta."""

from __future__ import annotations

from functools import lru_cache
from math import cos, exp, isfinite, lgamma, log, log1p, pi, sqrt

_TINY = 1e-300
_EXACT = 1e-15
#: Above this the continued fraction takes long, and the integrand is a bell that few points meet.
_LARGE = 3000.0
_POINTS = 24


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, I_x(a, b).

    Args:
        a: First parameter, above 0.
        b: Second parameter, above 0.
        x: 0..1.

    Returns:
        Probability that a beta variable is at most x.

    Raises:
        ValueError: A parameter is out of range.
    """
    if not (a > 0 and b > 0 and 0.0 <= x <= 1.0 and isfinite(a) and isfinite(b)):
        raise ValueError(f"no beta function of a={a:g}, b={b:g}, x={x:g}")
    if x in (0.0, 1.0):
        return x
    if a > _LARGE and b > _LARGE:
        return _by_quadrature(a, b, x)
    front = exp(_log_density(a, b, x))
    if x < (a + 1.0) / (a + b + 2.0):  # on this side the fraction converges quickly
        return min(front * _fraction(a, b, x) / a, 1.0)
    return max(1.0 - front * _fraction(b, a, 1.0 - x) / b, 0.0)


def _log_density(a: float, b: float, x: float) -> float:
    """Logarithm of x^a (1-x)^b / B(a, b)."""
    return lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, _away(1.0 - (a + b) * x / (a + 1.0))
    value = d = 1.0 / d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _away(1.0 + term * d)
            c = _away(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < _EXACT:
            break
    return value


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _by_quadrature(a: float, b: float, x: float) -> float:
    """The integral of the density from x to where it is nothing any more."""
    mean, deviation = a / (a + b), sqrt(a * b / ((a + b) ** 2 * (a + b + 1.0)))
    above = x > mean
    far = mean + 12.0 * deviation if above else mean - 12.0 * deviation
    far = min(max(far, 0.0), 1.0)
    if (above and x >= far) or (not above and x <= far):
        return 1.0 if above else 0.0
    half, middle = (far - x) / 2.0, (far + x) / 2.0
    total = 0.0
    for node, weight in _legendre(_POINTS):
        at = middle + half * node
        if 0.0 < at < 1.0:
            total += weight * exp(_log_density(a, b, at) - log(at) - log1p(-at))
    tail = total * half
    return 1.0 - tail if above else -tail


@lru_cache(maxsize=2)
def _legendre(n: int) -> tuple[tuple[float, float], ...]:
    """Nodes and weights of Gauss and Legendre on -1..1."""
    found = []
    for i in range(n):
        x, slope = cos(pi * (i + 0.75) / (n + 0.5)), 1.0
        for _ in range(50):
            p, before = 1.0, 0.0
            for k in range(n):
                p, before = ((2 * k + 1) * x * p - k * before) / (k + 1), p
            slope = n * (x * p - before) / (x * x - 1.0)
            x, step = x - p / slope, p / slope
            if abs(step) < _EXACT:
                break
        found.append((x, 2.0 / ((1.0 - x * x) * slope * slope)))
    return tuple(found)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Where the beta distribution reaches a probability.

    Args:
        probability: 0..1.
        a: First parameter, above 0.
        b: Second parameter, above 0.

    Returns:
        0..1, to 12 digits.

    Raises:
        ValueError: A parameter is out of range.
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"{probability:g} is no probability")
    if probability in (0.0, 1.0):
        return probability
    low, high = 0.0, 1.0
    while high - low > 1e-13 * high and high > _TINY:
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if incomplete_beta(a, b, middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


@lru_cache(maxsize=256)
def t_quantile(probability: float, degrees: float) -> float:
    """Where Student's t distribution reaches a probability.

    Args:
        probability: Above 0 and below 1.
        degrees: Degrees of freedom, above 0; need not be whole.

    Returns:
        The quantile.

    Raises:
        ValueError: A parameter is out of range.
    """
    if not 0.0 < probability < 1.0:
        raise ValueError(f"{probability:g} is no probability between 0 and 1")
    if probability < 0.5:
        return -t_quantile(1.0 - probability, degrees)
    if probability == 0.5:
        return 0.0
    # x = t^2 / (degrees + t^2) is beta distributed with 1/2 and degrees/2.
    x = 1.0 - beta_quantile(2.0 * (1.0 - probability), degrees / 2.0, 0.5)
    return sqrt(degrees * x / (1.0 - x))
