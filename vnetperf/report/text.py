"""Numbers and intervals as text, always with their unit: digits by the spread, else four."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from vnetperf.model.outcomes import Spread
from vnetperf.model.units import (
    Unit,
    frames,
    percent,
    significant,
    tick_fps,
    tick_time,
    value_text,
)
from vnetperf.statistics.samples import EXTREMES_UP_TO

Value = TypeVar("Value")
#: Layout that text may carry besides printable characters.
_LAYOUT = frozenset("\n\t\N{NO-BREAK SPACE}")


def printable(content: str) -> str:
    """Text without control, escape and direction-changing characters."""
    if content.isprintable():
        return content
    return "".join(
        c if c.isprintable() or c in _LAYOUT else "\N{REPLACEMENT CHARACTER}" for c in content
    )


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tick_percent(ratio: float) -> str:
    """A decade of a ratio on an axis, in percent, e.g. "0.1 %" or "10⁻⁵ %"."""
    power = round(math.log10(ratio)) + 2
    if power >= -2:
        return percent(ratio)
    return f"10{str(power).translate(_SUPERSCRIPT)} %"


_PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
_RATE_UNITS = ((1e9, "Gfps"), (1e6, "Mfps"), (1e3, "kfps"), (1.0, "fps"))
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_UNITS_OF_KIND: dict[Unit, tuple[tuple[float, str], ...]] = {
    "fps": _RATE_UNITS,
    "ns": tuple((factor * 1e9, unit) for factor, unit in _TIME_UNITS),
    "s": _TIME_UNITS,
    "ratio": ((0.01, "%"),),
    "bit/s": ((1e9, "Gbit/s"),),
    "octet/s": ((float(1 << 20), "MiB/s"),),
}
#: Share by which the halves of an interval may differ and still be written as one.
_LOPSIDED = 0.1
#: Percent below which a ratio is written with an exponent.
_TINY = 1e-3


def single(value: float, kind: Unit) -> str:
    """A single value with its unit."""
    if kind in _UNITS_OF_KIND:
        return value_text(value, kind)
    is_whole = value == round(value)
    number = (
        frames(round(value)) if is_whole else f"{value:,.1f}".replace(",", "\N{NO-BREAK SPACE}")
    )
    return number if kind == "frames" else f"{number} {kind}".rstrip()


def text_or_none(value: Value | None, show: Callable[[Value], str]) -> str | None:
    """A value as it is to be shown; None of None."""
    return None if value is None else show(value)


def single_or_none(value: float | None, kind: Unit) -> str | None:
    """A single value with its unit; None of None."""
    return None if value is None else single(value, kind)


def tick_label(value: float, kind: Unit) -> str:
    """A value on an axis."""
    if kind in ("ns", "s"):
        return tick_time(value if kind == "ns" else value * 1e9)
    return percent(value, 3) if kind == "ratio" else tick_fps(value)


def _unit(value: float, kind: Unit) -> tuple[float, str]:
    # Rounded as it will be shown, so that 999.97 kfps does not become "1000.0 kfps".
    size = abs(float(f"{value:.3e}"))
    units = _UNITS_OF_KIND.get(kind, ((1.0, kind),))
    return next((pair for pair in units if size >= pair[0]), units[-1])


def _decimals(half: float, mean: float) -> int:
    """Enough for two digits of either, and no more than six of the mean."""
    decimals = 1 - math.floor(math.log10(half)) if half > 0 else 3
    of_mean = math.floor(math.log10(abs(mean))) if mean else 0
    decimals, most = max(decimals, 1 - of_mean), 5 - of_mean
    return max(0, min(decimals, most))


def _rounded_text(value: float, decimals: int) -> str:
    """A number to so many decimals, of negative ones to tens, hundreds ..."""
    shown = f"{round(value, decimals):,.{max(0, decimals)}f}"
    return shown.replace(",", "\N{NO-BREAK SPACE}")


def _worth_decimals(spread: float) -> int:
    """Decimals up to the second significant digit of a spread, which is not 0."""
    return 1 - math.floor(math.log10(abs(float(f"{spread:.1e}"))))


def by_spread(value: float, low: float, high: float, kind: Unit, *, least: int = 1) -> str:
    """A value with the digits that two significant ones of a range leave it.

    Args:
        value: The value.
        low: Smallest value of the range.
        high: Its largest.
        kind: What all of them are in.
        least: Significant digits that it has at least.
    """
    if not high > low or not math.isfinite(value):
        return single(value, kind)
    factor, unit = _unit(max(abs(value), abs(high)), kind)
    if kind == "ratio" and max(abs(value), abs(high)) / factor < _TINY:
        return percent(value, 2)
    if not value:
        return f"0 {unit}".rstrip()
    decimals = _worth_decimals((high - low) / factor)
    small = abs(value) / factor < 10.0**-decimals
    if small or least > 1:
        # In a smaller unit the range leaves fewer decimals; digits of its own are more then.
        size, name = _unit(value, kind)
        fewer = decimals - round(math.log10(factor / size))
        decimals, factor, unit = max(fewer, _worth_decimals(value / size)), size, name
    if kind in _WHOLE:
        decimals = min(decimals, 0)
    return f"{_rounded_text(value / factor, decimals)} {unit}".rstrip()


#: Kinds that are counted.
_WHOLE: tuple[Unit, ...] = ("frames", "trials", "addresses", "sessions")


def range_text(low: float, high: float, kind: Unit, word: str = " to ") -> str:
    """Two values with as many digits as they are apart, their unit once: "2.0 to 3.1 Mfps"."""
    first, last = (by_spread(value, low, high, kind, least=2) for value in (low, high))
    number, _, unit = first.rpartition(" ")
    return f"{number if number and last.endswith(f' {unit}') else first}{word}{last}"


def mean_interval(spread: Spread, kind: Unit) -> str:
    """The mean with its interval; of three values or fewer their extremes, of two modes both."""
    if len(spread.modes) > 1:
        return f"two modes: {', '.join(single(v, kind) for v in spread.modes)}"
    if 2 <= len(spread.values) <= EXTREMES_UP_TO and spread.minimum != spread.maximum:
        if len(spread.values) == 2:
            return range_text(spread.minimum, spread.maximum, kind, " and ")
        return _mean_in(spread.mean, spread.minimum, spread.maximum, kind)
    if spread.low is None or spread.high is None or 0 < len(spread.values) <= EXTREMES_UP_TO:
        return single(spread.mean, kind)
    below, above = spread.mean - spread.low, spread.high - spread.mean
    if abs(above - below) > _LOPSIDED * (above + below):
        return _mean_in(spread.mean, spread.low, spread.high, kind)
    return _plus_minus(spread.mean, max(below, above), kind)


def _mean_in(mean: float, low: float, high: float, kind: Unit) -> str:
    """A mean and the range that it is in."""
    shown, ends = by_spread(mean, low, high, kind), range_text(low, high, kind)
    if kind in _WHOLE:  # the unit once
        number, _, unit = ends.rpartition(" ")
        return f"{shown.removesuffix(f' {unit}')} ({number}) {unit}"
    return f"{shown} ({ends})"


def _plus_minus(mean: float, half: float, kind: Unit) -> str:
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
    return f"{first} {_PLUS_MINUS} {second} {unit}".rstrip()


def mean_with_n(spread: Spread, kind: Unit) -> str:
    """The mean with interval and number of measurements."""
    shown = mean_interval(spread, kind)
    return f"{shown[:-1]}; n {spread.n})" if shown.endswith(")") else f"{shown} (n {spread.n})"


def stdev(spread: Spread, kind: Unit) -> str:
    """The sample standard deviation."""
    if spread.stdev is None:
        return "\N{EN DASH}"
    return by_spread(spread.stdev, 0.0, spread.stdev, kind) if spread.stdev else single(0.0, kind)


def end_text(spread: Spread | None, part: str, kind: Unit) -> str | None:
    """Its "minimum" or "maximum", with the digits that the two leave; None without values."""
    if spread is None:
        return None
    value = getattr(spread, part)
    return by_spread(value, spread.minimum, spread.maximum, kind, least=2)


def remarks(spread: Spread, kind: Unit) -> tuple[str, ...]:
    """What a mean hides: two modes, outliers."""
    notes = []
    if len(spread.modes) > 1:
        shown = " and ".join(single(v, kind) for v in spread.modes)
        notes.append(f"the values fall into two groups, around {shown}: no mean stands for both")
    far = [spread.values[i] for i in spread.outliers if i < len(spread.values)]
    if far:
        shown = ", ".join(single(v, kind) for v in far)
        count = f"{len(far)} of {spread.n} lie far from the others"
        notes.append(f"{count} and are in all figures: {shown}")
    return tuple(notes)


def list_remarks(means: Iterable[tuple[str, Spread]], kind: Unit) -> Iterator[str]:
    """Remarks on several means, each after what it is of."""
    for about, spread in means:
        yield from (f"{about}: {remark}." for remark in remarks(spread, kind))


def interval_note(spreads: Sequence[Spread]) -> str:
    """How the intervals of a table were found."""
    intervals = [s for s in spreads if s.method and s.low is not None]
    words = {"t": "Student's t", "log-t": "Student's t on a log scale", "bootstrap": "bootstrap"}
    methods = " or ".join(dict.fromkeys(words[s.method] for s in intervals))
    levels = " or ".join(sorted({percent(s.confidence) for s in intervals}))
    note = (
        f"{_PLUS_MINUS}, or in brackets: {levels} interval of the mean ({methods})."
        if intervals
        else ""
    )
    few = [s for s in spreads if s.low is None and len(s.modes) < 2]
    if any(len(s.values) == EXTREMES_UP_TO and s.minimum != s.maximum for s in few):
        note = f"{note} Of three values: mean (least to most).".strip()
    elif intervals and few:
        note = f"{note} A mean alone: too few values for an interval."
    return note
