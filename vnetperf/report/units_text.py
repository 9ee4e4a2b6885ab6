"""Numbers as a reader sees them: four significant digits, always with their unit."""

from __future__ import annotations

import math

_RATES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NO_NUMBER = "not a number"


def significant(value: float, digits: int = 4) -> str:
    """A number with a fixed count of significant digits and no exponent.

    Args:
        value: Any finite number.
        digits: Significant digits.

    Returns:
        "14.88", "0.8127", "1000"; "not a number" for infinities and NaN.
    """
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
    """A frame rate, e.g. "14.88 Mfps".

    Args:
        value: Frames/s.

    Returns:
        The rate with its unit.
    """
    number, prefix = _scaled(value, _RATES)
    return f"{number} {prefix}fps"


def short_fps(value: float) -> str:
    """A frame rate for narrow columns whose header says "fps", e.g. "14.88M".

    Args:
        value: Frames/s.

    Returns:
        The rate with its prefix only.
    """
    return "".join(_scaled(value, _RATES))


def gigabits(value: float) -> str:
    """A bit rate in Gbit/s without its unit, for columns that name it.

    Args:
        value: Bit/s.

    Returns:
        "9.998".
    """
    return significant(value / 1e9)


def nanoseconds(value: float) -> str:
    """A latency in the unit that fits it, e.g. "12.31 µs".

    Args:
        value: Nanoseconds.

    Returns:
        The time with its unit.
    """
    number, unit = _scaled(value, _TIMES)
    return f"{number} {unit}".rstrip()


def time_s(value: float) -> str:
    """A measured time in the unit that fits it, e.g. "12.31 ms", "1.204 s".

    Args:
        value: Seconds.

    Returns:
        The time with its unit; unlike :func:`seconds` with four digits, and no minutes.
    """
    return nanoseconds(value * 1e9) if value else "0 s"


def seconds(value: float) -> str:
    """A duration, e.g. "0.5 s" or "1 h 02 min 05 s".

    Args:
        value: Seconds.

    Returns:
        The duration with its units.
    """
    if not math.isfinite(value):
        return _NO_NUMBER
    if value < 60:
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min {rest:02d} s"


def percent(ratio: float, digits: int = 4) -> str:
    """A ratio in percent that never rounds a loss to zero, e.g. "0.00012 %".

    Args:
        ratio: 0..1 (any number is written).
        digits: Significant digits.

    Returns:
        Percent; exponents below 0.0001 %.
    """
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
    """A count of frames with thin grouping, e.g. "1 234 567" (no-break spaces).

    Args:
        count: Frames.

    Returns:
        The grouped count.
    """
    return f"{count:,}".replace(",", "\N{NO-BREAK SPACE}")


def tick_fps(value: float) -> str:
    """A frame rate on an axis, e.g. "2.5M".

    Args:
        value: Frames/s.

    Returns:
        At most four significant digits and the prefix.
    """
    return _trimmed(*_scaled(value, _RATES))


def tick_time(value: float) -> str:
    """A latency on an axis, e.g. "20 µs".

    Args:
        value: Nanoseconds.

    Returns:
        At most four significant digits and the unit.
    """
    number, unit = _scaled(value, _TIMES)
    return _trimmed(number, f" {unit}") if value else "0"


def tick_percent(ratio: float) -> str:
    """A decade of a ratio on an axis, in percent, e.g. "0.1 %" or "10⁻⁵ %".

    Args:
        ratio: A power of ten.

    Returns:
        Text of at most seven characters.
    """
    power = round(math.log10(ratio)) + 2
    if power >= -2:
        return percent(ratio)
    return f"10{str(power).translate(_SUPERSCRIPT)} %"


def _trimmed(number: str, unit: str) -> str:
    return (number.rstrip("0").rstrip(".") if "." in number else number) + unit
