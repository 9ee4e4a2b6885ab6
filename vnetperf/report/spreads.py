"""A quantity measured several times, as text: mean, interval and n never part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from vnetperf.model.outcomes import Spread
from vnetperf.report import units_text as text

#: What a spread's values are: they decide the unit that is shown.
Kind = Literal["fps", "ns", "s", "frames", "ratio"]

_PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
_RATES = ((1e9, "Gfps"), (1e6, "Mfps"), (1e3, "kfps"), (1.0, "fps"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_UNITS: dict[Kind, tuple[tuple[float, str], ...]] = {
    "fps": _RATES,
    "ns": tuple((factor * 1e9, unit) for factor, unit in _TIMES),
    "s": _TIMES,
    "frames": ((1.0, "frames"),),
    "ratio": ((0.01, "%"),),
}
#: Share by which the halves of an interval may differ and still be written as one.
_LOPSIDED = 0.1
#: Percent below which a ratio is written with an exponent.
_TINY = 1e-3


def one(value: float, kind: Kind) -> str:
    """A single value with its unit.

    Args:
        value: The value, in the base unit of its kind.
        kind: What it is.

    Returns:
        "12.31 Mfps", "0.4 %".
    """
    match kind:
        case "fps":
            return text.fps(value)
        case "ns":
            return text.nanoseconds(value)
        case "s":
            return text.time_s(value)
        case "ratio":
            return text.percent(value)
        case "frames":
            return (
                text.frames(round(value))
                if value == round(value)
                else f"{value:,.1f}".replace(",", "\N{NO-BREAK SPACE}")
            )


def tick(value: float, kind: Kind) -> str:
    """A value on an axis.

    Args:
        value: The value.
        kind: What it is.

    Returns:
        At most four significant digits.
    """
    match kind:
        case "fps":
            return text.tick_fps(value)
        case "ns":
            return text.tick_time(value)
        case "s":
            return text.tick_time(value * 1e9)
        case "ratio":
            return text.percent(value, 3)
        case "frames":
            return text.tick_fps(value)


def _unit(value: float, kind: Kind) -> tuple[float, str]:
    # Rounded as it will be shown, so that 999.97 kfps does not become "1000.0 kfps".
    size = abs(float(f"{value:.3e}"))
    units = _UNITS[kind]
    return next((pair for pair in units if size >= pair[0]), units[-1])


def _decimals(half: float, mean: float) -> int:
    """Enough for two digits of either, and no more than six of the mean."""
    wanted = 1 - math.floor(math.log10(half)) if half > 0 else 3
    of_mean = math.floor(math.log10(abs(mean))) if mean else 0
    wanted, most = max(wanted, 1 - of_mean), 5 - of_mean
    return max(0, min(wanted, most))


def mean(spread: Spread, kind: Kind) -> str:
    """The mean with its interval, or two modes where the values fall into two groups.

    Args:
        spread: The quantity.
        kind: What it is.

    Returns:
        "12.31 ± 0.05 Mfps"; "12.31 Mfps (12.20 to 12.90 Mfps)" of a lopsided interval; "12.31 Mfps"
        without one; "two modes: 11.20 Mfps, 12.31 Mfps".
    """
    if len(spread.modes) > 1:
        return f"two modes: {', '.join(one(v, kind) for v in spread.modes)}"
    if spread.low is None or spread.high is None:
        return one(spread.mean, kind)
    below, above = spread.mean - spread.low, spread.high - spread.mean
    if abs(above - below) > _LOPSIDED * (above + below):
        return f"{one(spread.mean, kind)} ({_between(spread.low, spread.high, kind)})"
    return _symmetric(spread.mean, max(below, above), kind)


def _symmetric(mean: float, half: float, kind: Kind) -> str:
    """Mean and half of the interval in one unit, with decimals that fit both."""
    if not half:
        number, _, unit = one(mean, kind).rpartition(" ")
        return f"{number} {_PLUS_MINUS} 0 {unit}" if mean and number else one(mean, kind)
    factor, unit = _unit(mean or half, kind)
    if kind == "ratio" and 0 < mean / factor < _TINY:
        return f"{one(mean, kind)} {_PLUS_MINUS} {one(half, kind)}"
    middle, wide = mean / factor, half / factor
    decimals = _decimals(wide, middle)
    first, second = (
        f"{value:,.{decimals}f}".replace(",", "\N{NO-BREAK SPACE}") for value in (middle, wide)
    )
    if float(f"{wide:.{decimals}f}") == 0:
        second = text.significant(wide, 2)
    return f"{first} {_PLUS_MINUS} {second} {unit}"


def _between(low: float, high: float, kind: Kind) -> str:
    first, last = one(low, kind), one(high, kind)
    number, _, unit = first.rpartition(" ")
    return f"{number if number and last.endswith(f' {unit}') else first} to {last}"


def with_n(spread: Spread, kind: Kind) -> str:
    """The mean with interval and number of measurements.

    Args:
        spread: The quantity.
        kind: What it is.

    Returns:
        "12.31 ± 0.05 Mfps (n 10)", "12.31 Mfps (12.20 to 12.90 Mfps; n 10)".
    """
    shown = mean(spread, kind)
    return f"{shown[:-1]}; n {spread.n})" if shown.endswith(")") else f"{shown} (n {spread.n})"


def stdev(spread: Spread, kind: Kind) -> str:
    """The sample standard deviation.

    Args:
        spread: The quantity.
        kind: What it is.

    Returns:
        The deviation with its unit; a dash for a single value.
    """
    return "\N{EN DASH}" if spread.stdev is None else one(spread.stdev, kind)


def remarks(spread: Spread, kind: Kind) -> tuple[str, ...]:
    """What a mean does not say.

    Args:
        spread: The quantity.
        kind: What it is.

    Returns:
        "two modes", and the outliers with their values.
    """
    said = []
    if len(spread.modes) > 1:
        shown = " and ".join(one(v, kind) for v in spread.modes)
        said.append(f"the values fall into two groups, around {shown}: no mean stands for both")
    known = [spread.values[i] for i in spread.outliers if i < len(spread.values)]
    if known:
        shown = ", ".join(one(v, kind) for v in known)
        count = f"{len(known)} of {spread.n} lie far from the others"
        said.append(f"{count} and are in all figures: {shown}")
    return tuple(said)


def interval_note(spreads: Sequence[Spread]) -> str:
    """How the intervals of a table were found.

    Args:
        spreads: All of them.

    Returns:
        One sentence; "" where no interval was found.
    """
    found = [s for s in spreads if s.method and s.low is not None]
    words = {"t": "Student's t", "bootstrap": "bootstrap"}
    how = " or ".join(dict.fromkeys(words[s.method] for s in found))
    levels = " or ".join(sorted({text.percent(s.confidence) for s in found}))
    said = f"{_PLUS_MINUS}, or in brackets: {levels} interval of the mean ({how})." if found else ""
    if found and any(s.low is None and len(s.modes) < 2 for s in spreads):
        return f"{said} A mean alone: too few values for an interval."
    return said
