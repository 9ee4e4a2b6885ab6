"""What a test tells of its outcome: figures with all that a reader needs, and how they are shown.

It stands in the log, so that reports, comparisons and thresholds need nothing of the test.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.outcomes import Spread
from vnetperf.model.units import Unit


class Figure(Frozen):
    """One number of a test.

    Attributes:
        name: Its name in files for programs: "loss_ratio".
        title: Its name in tables and comparisons: "loss".
        unit: What the number is in.
        value: The number, or the spread whose mean it is; None: not measured.
        better: Whether more or less of it is better. Such figures are compared with those of other
            runs, and over several deployments their repeats join to a mean with its interval; ""
            where neither is: it is shown only.
        main: Whether it is what the test is for.
        of: What it is of, where a test has several: "90 % of throughput".
        direction: "phy0->phy1"; "" for all of them together.
        load_fps: Load that it was measured at, aggregate frames/s; numbers at different loads are
            not comparable. None where it is a load itself.
        resolution: Smallest difference that the test can tell, in `unit`; 0: not limited.
        qualifier: "at least" where the number is a lower bound only.
        note: What keeps it from being a result; "".
        why: Why it was not measured; "".
    """

    name: str
    title: str
    unit: Unit = ""
    value: float | bool | Spread | None = None
    better: Literal["more", "less", ""] = ""
    main: bool = False
    of: str = ""
    direction: str = ""
    load_fps: float | None = None
    resolution: float = 0.0
    qualifier: Literal["at least", ""] = ""
    note: str = ""
    why: str = ""

    @property
    def label(self) -> str:
        """Its name among the figures of a result: "loss at 90 % of throughput phy0->phy1"."""
        at = f" at {self.of}" if self.of else ""
        return f"{self.title}{at}{self.direction and ' '}{self.direction}"


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
        notes: What a reader must know, a sentence each.
        conditions: Parameters that its numbers depend on, as the test declares them; numbers of
            others are not comparable.
    """

    kind: str
    title: str
    values: dict[str, Any] = Field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    plots: tuple[FigurePlot, ...] = ()
    notes: tuple[str, ...] = ()
    conditions: dict[str, Any] = Field(default_factory=dict)
