"""Numbers and intervals as text: four significant digits, always with their unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from vnetperf.model.outcomes import Spread

#: Layout that text may carry besides printable characters.
_LAYOUT = frozenset("\n\t\N{NO-BREAK SPACE}")


def printable(said: str) -> str:
    """Text without control, escape and direction-changing characters."""
    if said.isprintable():
        return said
    return "".join(
        c if c.isprintable() or c in _LAYOUT else "\N{REPLACEMENT CHARACTER}" for c in said
    )


_RATES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NO_NUMBER = "not a number"


def significant(value: float, digits: int = 4) -> str:
    """A number with a fixed count of significant digits and no exponent."""
    if not math.isfinite(value):
        return _NO_NUMBER
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{decimals}f}"


def _scaled(value: float, scale: tuple[tuple[float, str], ...]) -> tuple[str, str]:
    if not math.isfinite(value):
        return _NO_NUMBER, ""
    rounded = abs(float(f"{value:.3e}"))
    for factor, prefix in scale:
        if rounded >= factor:
            return significant(value / factor), prefix
    factor, prefix = scale[-1]
    return significant(value / factor), prefix


def fps(value: float) -> str:
    """A frame rate, e.g. "14.88 Mfps"."""
    number, prefix = _scaled(value, _RATES)
    return f"{number} {prefix}fps"


def short_fps(value: float) -> str:
    """A frame rate for narrow columns whose header says "fps", e.g. "14.88M"."""
    return "".join(_scaled(value, _RATES))


def gigabits(value: float) -> str:
    """A bit rate in Gbit/s without its unit, for columns that name it."""
    return significant(value / 1e9)


def nanoseconds(value: float) -> str:
    """A latency in the unit that fits it, e.g. "12.31 µs"."""
    number, unit = _scaled(value, _TIMES)
    return f"{number} {unit}".rstrip()


def time_s(value: float) -> str:
    """A measured time in the unit that fits it, e.g. "12.31 ms", "1.204 s"."""
    return nanoseconds(value * 1e9) if value else "0 s"


def seconds(value: float) -> str:
    """A duration, e.g. "0.5 s" or "1 h 02 min 05 s"."""
    if not math.isfinite(value):
        return _NO_NUMBER
    if value < 60:
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min {rest:02d} s"


def percent(ratio: float, digits: int = 4) -> str:
    """A ratio in percent that never rounds a loss to zero, e.g. "0.00012 %"."""
    if not math.isfinite(ratio):
        return _NO_NUMBER
    value = ratio * 100
    if value == 0:
        return "0 %"
    if abs(value) < 1e-4:
        return f"{value:.2e} %"
    text = significant(value, digits)
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " %"


def frames(count: int) -> str:
    """A count of frames with thin grouping, e.g. "1 234 567" (no-break spaces)."""
    return f"{count:,}".replace(",", "\N{NO-BREAK SPACE}")


def tick_fps(value: float) -> str:
    """A frame rate on an axis, e.g. "2.5M"."""
    return _trimmed(*_scaled(value, _RATES))


def tick_time(value: float) -> str:
    """A latency on an axis, e.g. "20 µs"."""
    number, unit = _scaled(value, _TIMES)
    return _trimmed(number, f" {unit}") if value else "0"


def tick_percent(ratio: float) -> str:
    """A decade of a ratio on an axis, in percent, e.g. "0.1 %" or "10⁻⁵ %"."""
    power = round(math.log10(ratio)) + 2
    if power >= -2:
        return percent(ratio)
    return f"10{str(power).translate(_SUPERSCRIPT)} %"


def _trimmed(number: str, unit: str) -> str:
    return (number.rstrip("0").rstrip(".") if "." in number else number) + unit


#: What a spread's values are: they decide the unit that is shown.
ValueKind = Literal["fps", "ns", "s", "frames", "ratio"]

_PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
_RATE_UNITS = ((1e9, "Gfps"), (1e6, "Mfps"), (1e3, "kfps"), (1.0, "fps"))
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_UNITS_OF_KIND: dict[ValueKind, tuple[tuple[float, str], ...]] = {
    "fps": _RATE_UNITS,
    "ns": tuple((factor * 1e9, unit) for factor, unit in _TIME_UNITS),
    "s": _TIME_UNITS,
    "frames": ((1.0, "frames"),),
    "ratio": ((0.01, "%"),),
}
#: Share by which the halves of an interval may differ and still be written as one.
_LOPSIDED = 0.1
#: Percent below which a ratio is written with an exponent.
_TINY = 1e-3


def single(value: float, kind: ValueKind) -> str:
    """A single value with its unit."""
    match kind:
        case "fps":
            return fps(value)
        case "ns":
            return nanoseconds(value)
        case "s":
            return time_s(value)
        case "ratio":
            return percent(value)
        case "frames":
            return (
                frames(round(value))
                if value == round(value)
                else f"{value:,.1f}".replace(",", "\N{NO-BREAK SPACE}")
            )


def tick_label(value: float, kind: ValueKind) -> str:
    """A value on an axis."""
    match kind:
        case "fps":
            return tick_fps(value)
        case "ns":
            return tick_time(value)
        case "s":
            return tick_time(value * 1e9)
        case "ratio":
            return percent(value, 3)
        case "frames":
            return tick_fps(value)


def _unit(value: float, kind: ValueKind) -> tuple[float, str]:
    # Rounded as it will be shown, so that 999.97 kfps does not become "1000.0 kfps".
    size = abs(float(f"{value:.3e}"))
    units = _UNITS_OF_KIND[kind]
    return next((pair for pair in units if size >= pair[0]), units[-1])


def _decimals(half: float, mean: float) -> int:
    """Enough for two digits of either, and no more than six of the mean."""
    wanted = 1 - math.floor(math.log10(half)) if half > 0 else 3
    of_mean = math.floor(math.log10(abs(mean))) if mean else 0
    wanted, most = max(wanted, 1 - of_mean), 5 - of_mean
    return max(0, min(wanted, most))


def mean_interval(spread: Spread, kind: ValueKind) -> str:
    """The mean with its interval, or two modes where the values fall into two groups."""
    if len(spread.modes) > 1:
        return f"two modes: {', '.join(single(v, kind) for v in spread.modes)}"
    if spread.low is None or spread.high is None:
        return single(spread.mean, kind)
    below, above = spread.mean - spread.low, spread.high - spread.mean
    if abs(above - below) > _LOPSIDED * (above + below):
        return f"{single(spread.mean, kind)} ({_range_text(spread.low, spread.high, kind)})"
    return _plus_minus(spread.mean, max(below, above), kind)


def _plus_minus(mean: float, half: float, kind: ValueKind) -> str:
    """Mean and half of the interval in one unit, with decimals that fit both."""
    if not half:
        number, _, unit = single(mean, kind).rpartition(" ")
        return f"{number} {_PLUS_MINUS} 0 {unit}" if mean and number else single(mean, kind)
    factor, unit = _unit(mean or half, kind)
    if kind == "ratio" and 0 < mean / factor < _TINY:
        return f"{single(mean, kind)} {_PLUS_MINUS} {single(half, kind)}"
    middle, wide = mean / factor, half / factor
    decimals = _decimals(wide, middle)
    first, second = (
        f"{value:,.{decimals}f}".replace(",", "\N{NO-BREAK SPACE}") for value in (middle, wide)
    )
    if float(f"{wide:.{decimals}f}") == 0:
        second = significant(wide, 2)
    return f"{first} {_PLUS_MINUS} {second} {unit}"


def _range_text(low: float, high: float, kind: ValueKind) -> str:
    first, last = single(low, kind), single(high, kind)
    number, _, unit = first.rpartition(" ")
    return f"{number if number and last.endswith(f' {unit}') else first} to {last}"


def mean_with_n(spread: Spread, kind: ValueKind) -> str:
    """The mean with interval and number of measurements."""
    shown = mean_interval(spread, kind)
    return f"{shown[:-1]}; n {spread.n})" if shown.endswith(")") else f"{shown} (n {spread.n})"


def stdev(spread: Spread, kind: ValueKind) -> str:
    """The sample standard deviation."""
    return "\N{EN DASH}" if spread.stdev is None else single(spread.stdev, kind)


def remarks(spread: Spread, kind: ValueKind) -> tuple[str, ...]:
    """What a mean does not say."""
    said = []
    if len(spread.modes) > 1:
        shown = " and ".join(single(v, kind) for v in spread.modes)
        said.append(f"the values fall into two groups, around {shown}: no mean stands for both")
    known = [spread.values[i] for i in spread.outliers if i < len(spread.values)]
    if known:
        shown = ", ".join(single(v, kind) for v in known)
        count = f"{len(known)} of {spread.n} lie far from the others"
        said.append(f"{count} and are in all figures: {shown}")
    return tuple(said)


def interval_note(spreads: Sequence[Spread]) -> str:
    """How the intervals of a table were found."""
    found = [s for s in spreads if s.method and s.low is not None]
    words = {"t": "Student's t", "bootstrap": "bootstrap"}
    how = " or ".join(dict.fromkeys(words[s.method] for s in found))
    levels = " or ".join(sorted({percent(s.confidence) for s in found}))
    said = f"{_PLUS_MINUS}, or in brackets: {levels} interval of the mean ({how})." if found else ""
    if found and any(s.low is None and len(s.modes) < 2 for s in spreads):
        return f"{said} A mean alone: too few values for an interval."
    return said
