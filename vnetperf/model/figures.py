"""What a test tells of its outcome: figures with all that a reader needs, and how they are shown.

It stands in the log, so that reports, comparisons and thresholds need nothing of the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.outcomes import Curve, Spread
from vnetperf.model.units import Unit


class Figure(Frozen):
    """One number of a test.

    Attributes:
        name: Its name in files for programs: "loss_ratio"; "" where it is not in them.
        title: Its name in tables and comparisons: "loss".
        unit: What the number is in.
        value: The number, or the spread whose mean it is; None: not measured.
        better: Whether more or less of it is better. Such figures are compared with those of other
            runs, and over several deployments their repeats join to a mean with its interval; ""
            where neither is: it is shown only.
        main: Whether it is what the test is for.
        label: Its name where runs are compared; "": its title, with what it is of and direction.
        of: What it is of, where a test has several: "90 % of throughput".
        direction: "phy0->phy1"; "" for all of them together.
        load_fps: Load that it was measured at, aggregate frames/s; numbers at different loads are
            not comparable. None where it is a load itself.
        finds_load: Whether that load is an outcome as the number is.
        bounds: What an interval leaves open, in `unit`, None for no end; None: what a spread does.
        resolution: Smallest difference that the test can tell, in `unit`; 0: not limited.
        qualifiers: What a reader must see beside it: "at least" of a lower bound, "irregular" ...
        conditions: What it was measured for besides the test's conditions.
        note: What keeps it from being a result; "".
        why: Why it was not measured; "".
    """

    name: str = ""
    title: str = ""
    unit: Unit = ""
    value: float | bool | Spread | None = None
    better: Literal["more", "less", ""] = ""
    main: bool = False
    label: str = ""
    of: str = ""
    direction: str = ""
    load_fps: float | None = None
    finds_load: bool = False
    bounds: tuple[float | None, float | None] | None = None
    resolution: float = 0.0
    qualifiers: tuple[str, ...] = ()
    conditions: dict[str, Any] = Field(default_factory=dict)
    note: str = ""
    why: str = ""

    @property
    def full_label(self) -> str:
        """Its name among the figures of a result: "loss at 90 % of throughput phy0->phy1"."""
        at = f" at {self.of}" if self.of else ""
        return self.label or f"{self.title}{at}{self.direction and ' '}{self.direction}"


def figure(
    name: str,
    unit: Unit,
    value: float | bool | Spread | None,
    of: str = "",
    direction: str = "",
    *,
    more: str = "",
    less: str = "",
    conditions: Mapping[str, Any] | None = None,
    **other: Any,
) -> Figure:
    """Describe a number of a standard's test, whose tables are its own.

    Args:
        name: Its name in files for programs; "" where it is not in them.
        unit: What the number is in.
        value: The number.
        of: What it is of.
        direction: Its direction.
        more: Its label where runs are compared and more of it is better.
        less: The same where less of it is better.
        conditions: What it was measured for besides the test's conditions.
        **other: Further fields.

    Returns:
        The figure.
    """
    return Figure(
        name=name,
        unit=unit,
        value=value,
        of=of,
        direction=direction,
        label=more or less,
        better="more" if more else "less" if less else "",
        conditions=dict(conditions or {}),
        **other,
    )


def count_value(number: int | None) -> float | None:
    """A count as the value of a figure."""
    return None if number is None else float(number)


class FigurePlot(Frozen):
    """A plot of figures against others that are of the same: loss against load.

    Attributes:
        title: What it shows.
        x: Name of the figures along the horizontal axis.
        y: Name of those along the vertical one; a line for each direction that they have.
    """

    title: str
    x: str
    y: str


class Outcome(Frozen):
    """What a test came to.

    Attributes:
        kind: Name of the test.
        title: Heading of its table: "Fairness".
        values: All else that the test tells, as JSON has it; for programs.
        figures: Its numbers, in the order of the table's columns and rows.
        plots: What is plotted of them.
        curves: What it is of -> how traffic went on over the time of its trials.
        notes: What a reader must know, a sentence each.
        conditions: Parameters that its numbers depend on, as the test declares them; numbers of
            others are not comparable.
    """

    kind: str
    title: str
    values: dict[str, Any] = Field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    plots: tuple[FigurePlot, ...] = ()
    curves: dict[str, tuple[Curve, ...]] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    conditions: dict[str, Any] = Field(default_factory=dict)
