"""Whether a number keeps to the bounds that are expected of it, in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite

from vnetperf.bench.quantity import Quantity, Unit
from vnetperf.model.expectation import Expectation
from vnetperf.report import units_text
from vnetperf.statistics import spread
from vnetperf.statistics.difference import Measured

_TEXTS: dict[Unit, Callable[[float], str]] = {
    "frames/s": units_text.fps,
    "ns": units_text.nanoseconds,
    "s": units_text.time_s,
    "ratio": units_text.percent,
}


@dataclass(frozen=True)
class Judgement:
    """What came of an expectation for one number.

    Attributes:
        where: "expectations.toml: expect.0".
        met: Whether it is met; None when it could not be judged for want of a number.
        said: Number, interval and bound, in one sentence.
    """

    where: str
    met: bool | None
    said: str

    def __str__(self) -> str:
        return f"{self.said} ({self.where})"


def judge(
    expected: Expectation, found: Quantity, where: str, base: Quantity | None = None
) -> Judgement:
    """Hold a number against an expectation.

    Args:
        expected: The expectation.
        found: The number.
        where: Where the expectation stands.
        base: The number that the bounds are multiples of; None for absolute ones.

    Returns:
        Whether it is met. A number that is "at least" or "at most" meets only what its bound
        proves: what it leaves open is never taken for good.
    """
    name = _name(found)
    if found.measured is None:
        return Judgement(where, False, f"{name} was not measured: {_first_line(found.why)}")
    number, n = of_repeats(found)
    said = _told(number, n, found.unit, found.marks)
    if base is not None:
        if base.measured is None or not of_repeats(base)[0].high > 0:
            why = _first_line(base.why) or "it is 0"
            return Judgement(where, False, f"{name} has nothing to be a multiple of: {why}")
        of, _ = of_repeats(base)
        said = f"{said}, that of {_name(base)} {_told(of, _, base.unit, base.marks)}"
        number = _ratio(number, of)
        said = f"{said}, ratio {_ratio_text(number)}"
    failures = _failures(expected, number, relative=base is not None, unit=found.unit)
    if not failures:
        return Judgement(where, True, f"{name} is {said}: {_bounds(expected, found, base)}")
    why = f"; {expected.why}" if expected.why else ""
    return Judgement(where, False, f"{name} is {said}: {' and '.join(failures)}{why}")


def of_repeats(quantity: Quantity) -> tuple[Measured, int]:
    """A number with its interval, by its repeats where it has some.

    Args:
        quantity: One that was measured.

    Returns:
        The number, and how often it was measured.
    """
    number = quantity.measured
    assert number is not None  # noqa: S101 - for the type checker: callers have looked
    if len(quantity.repeats) < 2:
        return number, 1
    found = spread(quantity.repeats)
    open_ = 0.0
    if quantity.test == "throughput" and number.value is not None:
        open_ = number.high - number.value  # a search leaves that open in each repeat
    low = found.mean if found.low is None else max(found.low, 0.0)  # none of them is below 0
    high = found.mean if found.high is None else found.high
    return Measured(found.mean, low, high + open_), found.n


def _failures(expected: Expectation, number: Measured, *, relative: bool, unit: Unit) -> list[str]:
    def text(bound: float) -> str:
        return f"{bound:g} times it" if relative else _text(bound, unit)

    failures = []
    # What proves "at least" is the lower end where no single value does, and the other way round.
    least = number.low if expected.certain or number.value is None else number.value
    most = number.high if expected.certain or number.value is None else number.value
    if expected.at_least is not None and least < expected.at_least and number.high == inf:
        failures.append(
            f"open above, and not shown to reach the expected {text(expected.at_least)}"
        )
    elif expected.at_least is not None and least < expected.at_least:
        failures.append(f"below the expected {text(expected.at_least)}")
    elif expected.at_least is not None and relative and number.low <= 0.0 < expected.at_least:
        failures.append(f"not shown to be {text(expected.at_least)}: the other is a lower bound")
    if expected.at_most is not None and most > expected.at_most:
        failures.append(f"above the allowed {text(expected.at_most)}")
    elif expected.at_most is not None and not isfinite(number.high):
        failures.append(f"not shown to be no more than the allowed {text(expected.at_most)}")
    return failures


def _ratio(number: Measured, of: Measured) -> Measured:
    low = number.low / of.high if isfinite(of.high) else 0.0
    high = number.high / of.low if of.low > 0 else inf
    known = number.value is not None and of.value is not None and of.value > 0
    value = number.value / of.value if known and number.value is not None and of.value else None
    return Measured(value, low, high)


def _bounds(expected: Expectation, found: Quantity, base: Quantity | None) -> str:
    def text(bound: float) -> str:
        return f"{bound:g} times it" if base is not None else _text(bound, found.unit)

    parts = [
        f"{word} {text(bound)}"
        for word, bound in (("at least", expected.at_least), ("at most", expected.at_most))
        if bound is not None
    ]
    return f"as expected, {' and '.join(parts)}"


def _told(number: Measured, n: int, unit: Unit, marks: tuple[str, ...]) -> str:
    value = "no number" if number.value is None else _text(number.value, unit)
    qualifiers = [mark for mark in marks if mark in ("at least", "at most")]
    interval = ""
    if number.low != number.high:
        interval = f" [{_text(number.low, unit)} .. {_text(number.high, unit)}]"
    repeated = f", n = {n}" if n > 1 else ""
    return f"{' '.join([*qualifiers, value])}{interval}{repeated}"


def _ratio_text(number: Measured) -> str:
    value = "no number" if number.value is None else f"{number.value:.4g}"
    high = f"{number.high:.4g}" if isfinite(number.high) else "open"
    return f"{value} [{number.low:.4g} .. {high}]"


def _text(value: float, unit: Unit) -> str:
    if not isfinite(value):
        return "open"
    return _TEXTS[unit](value) if unit in _TEXTS else f"{value:.10g} {unit}"


def _name(quantity: Quantity) -> str:
    size = f"{quantity.size} octets" if quantity.size.isdecimal() else quantity.size
    parts = (quantity.scenario, quantity.test, size, quantity.name)
    return ", ".join(part for part in parts if part)


def _first_line(why: str) -> str:
    return why.splitlines()[0] if why else ""
