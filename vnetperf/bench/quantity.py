"""One number of a result, with what it leaves open and what it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeAlias

from vnetperf.model.outcomes import Spread
from vnetperf.statistics.difference import Measured

Unit: TypeAlias = Literal["frames/s", "frames", "ns", "s", "ratio", "addresses", "bit/s", "1/s"]
#: What tells the numbers of one scenario apart: test, frame size, name.
Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number.

    Attributes:
        scenario: "pvp_dpdk".
        test: "throughput" ...
        size: Frame size as a table names it: "64", "imix"; "" for none.
        name: What it is: the goal's name, "ndr latency p99 phy0->phy1" ...
        unit: What `value` is in.
        better: Whether more or less of it is better; "" where neither is.
        measured: The number with its bounds; None when it was not measured.
        repeats: Every repeat within the result, in order; empty for a single one.
        main: False for what stands beside the number that the test is for.
        marks: What a reader must see beside it: "at least", "irregular", "two modes" ...
        why: Why it was not measured.
        asked: What it was asked for; numbers of other conditions are not comparable.
    """

    scenario: str
    test: str
    size: str
    name: str
    unit: Unit
    better: Literal["more", "less", ""]
    measured: Measured | None
    repeats: tuple[float, ...] = ()
    main: bool = True
    marks: tuple[str, ...] = ()
    why: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """What tells it apart from others of its scenario."""
        return self.test, self.size, self.name

    @property
    def value(self) -> float | None:
        """The number; None when there is none."""
        return self.measured.value if self.measured else None


def of_spread(spread: Spread) -> tuple[Measured, tuple[float, ...], tuple[str, ...]]:
    """A quantity that was measured several times within a result.

    Args:
        spread: All of it.

    Returns:
        The mean with its interval; the repeats; marks.
    """
    marks = []
    if spread.modes:
        marks.append("two modes")
    if spread.outliers:
        marks.append(f"{len(spread.outliers)} outliers")
    low = spread.mean if spread.low is None else spread.low
    high = spread.mean if spread.high is None else spread.high
    repeats = spread.values if spread.n > 1 else ()
    return Measured(spread.mean, low, high), repeats, tuple(marks)


def bounded(value: float | None, upper: float | None, qualifier: str = "") -> Measured:
    """A number that a search enclosed.

    Args:
        value: Highest load that was carried; None when none was.
        upper: Lowest load above it that was not; None when none was seen.
        qualifier: "at least", "at most" or "".

    Returns:
        The number with its bounds.
    """
    low = 0.0 if value is None else value
    high = inf if upper is None or qualifier == "at least" else max(low, upper)
    return Measured(value, low, high)
