"""Units of numbers, and numbers as text: four significant digits, always with their unit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

#: What a number is in; "" for a yes or no.
Unit: TypeAlias = Literal[
    "fps",
    "frames",
    "trials",
    "ns",
    "s",
    "ratio",
    "addresses",
    "sessions",
    "bit/s",
    "octet/s",
    "1/s",
    "W",
    "nJ",
    "",
]

_RATES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_NO_NUMBER = "not a number"


_NUMBER = r"[+-]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*([A-Za-zµμ%/]+)")
#: In either case: nobody has thousandths of a frame.
_PREFIXES = {"": 1.0, **{p: s for s, both in ((1e3, "kK"), (1e6, "mM"), (1e9, "gG")) for p in both}}
_RATE_NAMES: dict[str, Unit] = {
    **dict.fromkeys(("fps", "pps", "FPS", "PPS", "frames/s"), "fps"),
    **dict.fromkeys(("bit/s", "bps", "b/s"), "bit/s"),  # "B" is an octet to others
}
#: Unit as it is printed, or often written -> what it is of, and its size in that.
_PRINTED: dict[str, tuple[Unit | Literal["octets"], float]] = {
    "%": ("ratio", 0.01),
    **{f"{p}{n}": (unit, s) for p, s in _PREFIXES.items() for n, unit in _RATE_NAMES.items()},
    **dict.fromkeys(("octets", "octet"), ("octets", 1.0)),
    **{f"{p}iB": ("octets", 1024.0**power) for power, p in enumerate("KMG", 1)},
    "ns": ("s", 1e-9),
    **dict.fromkeys(("us", "µs", "μs"), ("s", 1e-6)),
    "ms": ("s", 1e-3),
    **dict.fromkeys(("s", "sec", "second", "seconds"), ("s", 1.0)),
    **dict.fromkeys(("min", "minute", "minutes"), ("s", 60.0)),
    **dict.fromkeys(("h", "hour", "hours"), ("s", 3600.0)),
    **dict.fromkeys(("d", "day", "days"), ("s", 86_400.0)),
}
#: A time of several parts, as reports print one: "1 h 02 min 05 s".
_PART_OF_TIME = re.compile(rf"\s*({_NUMBER}\s*[A-Za-zµμ]+)")


def parse_time_s(text: str) -> float | None:
    """A time in seconds: "300", "90s", "5m", "2.5 min", "1 h 02 min 05 s"; None for anything else.

    "m" are minutes here: nobody gives a search milliseconds.
    """
    if re.fullmatch(_NUMBER, text.strip()):
        return float(text)
    parts = _PART_OF_TIME.findall(text)
    if not parts or _PART_OF_TIME.sub("", text).strip() or any(p[0] in "+-" for p in parts[1:]):
        return None
    quantities = [parse_quantity(re.sub(r"(?<![A-Za-z])m$", "min", part)) for part in parts]
    times = [quantity[0] for quantity in quantities if quantity is not None and quantity[1] == "s"]
    return sum(times) if len(times) == len(parts) else None


def parse_quantity(text: str) -> tuple[float, Unit | Literal["octets"]] | None:
    """A number with a unit: in frames/s, bit/s, seconds, octets or as a ratio.

    Units are those that reports print, and other spellings of them that leave no doubt: "2 Mfps"
    and "2 mpps" are 2e6 "fps", "0.1%" is 0.001 "ratio"; None for anything else.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in _PRINTED:
        return None
    unit, size = _PRINTED[match[2]]
    return float(f"{float(match[1]) * size:.15g}"), unit


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


def _trimmed(number: str, unit: str) -> str:
    return (number.rstrip("0").rstrip(".") if "." in number else number) + unit


def fps(value: float) -> str:
    """A frame rate, e.g. "14.88 Mfps"."""
    number, prefix = _scaled(value, _RATES)
    return f"{number} {prefix}fps"


def short_fps(value: float) -> str:
    """A frame rate for narrow columns whose header names the unit, e.g. "14.88M"."""
    return "".join(_scaled(value, _RATES))


def tick_fps(value: float) -> str:
    """A frame rate on an axis, e.g. "2.5M"."""
    return _trimmed(*_scaled(value, _RATES))


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


def duration(seconds: float) -> str:
    """How long something takes, as people say it: "14.6 s", "2.5 min", "3.1 h", "6.9 days"."""
    for least, unit_s, name in ((172_800, 86_400, "days"), (7200, 3600, "h"), (100, 60, "min")):
        if seconds >= least:
            return f"{seconds / unit_s:.1f} {name}"
    return f"{seconds:.3g} s"


def tick_time(value: float) -> str:
    """A latency in nanoseconds on an axis, e.g. "20 µs"."""
    number, unit = _scaled(value, _TIMES)
    return _trimmed(number, f" {unit}") if value else "0"


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
    return _trimmed(significant(value, digits), " %")


def frames(count: int) -> str:
    """A count of frames with thin grouping, e.g. "1 234 567" (no-break spaces)."""
    return f"{count:,}".replace(",", "\N{NO-BREAK SPACE}")


_TEXTS: dict[Unit, Callable[[float], str]] = {
    "fps": fps,
    "ns": nanoseconds,
    "s": time_s,
    "ratio": percent,
    "bit/s": lambda value: f"{gigabits(value)} Gbit/s",
    "octet/s": lambda value: f"{significant(value / 2**20)} MiB/s",
}


def value_text(value: float, unit: Unit) -> str:
    """A number in the unit that fits it."""
    if unit in _TEXTS:
        return _TEXTS[unit](value)
    is_integer = math.isfinite(value) and value == round(value)
    number = f"{value:.0f}" if is_integer else _trimmed(significant(value), "")
    return f"{number} {unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Scale:
    """From the unit of a number to that of an axis, and its texts.

    Attributes:
        factor: What the number is multiplied by.
        tick: Text of a tick of the axis.
        text: Text of a number on the axis, with its unit.
        quantity: What the axis shows: "Gbit/s", "time".
        unit: What a tick lacks: "Gbit/s"; "" where its text has the unit.
    """

    factor: float
    tick: Callable[[float], str]
    text: Callable[[float], str]
    quantity: str
    unit: str = ""


def rate_scale(factor: float, unit: str) -> Scale:
    """The scale of a rate in a unit that all its numbers have."""
    return Scale(
        factor, "{:g}".format, lambda rate: f"{significant(rate)} {unit}", quantity=unit, unit=unit
    )


#: Of numbers in microseconds.
TIMES = Scale(1e3, tick_time, nanoseconds, quantity="time")
#: Of numbers in floating-point operations/s, in bit/s, in events/s and in octets/s.
GIGAFLOPS, GIGABITS = rate_scale(1e-9, "Gflop/s"), rate_scale(1e-9, "Gbit/s")
MEGABITS = rate_scale(1e-6, "Mbit/s")
EVENTS, MEBIBYTES = rate_scale(1, "events/s"), rate_scale(2**-20, "MiB/s")
