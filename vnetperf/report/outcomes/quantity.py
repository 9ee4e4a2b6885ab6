"""One number that a test found, for programs: a row of outcomes.csv, a property in junit.xml."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.model.outcomes import Spread


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit and, where it was measured several times, its spread.

    Attributes:
        name: "latency_mean", "recovery_time" ...
        unit: "ns", "s", "fps", "frames", "ratio", "addresses", "pps".
        value: The number, or the spread whose mean is the number; None: not measured.
        item: What it is of, where a result has several: "90 % of throughput", "link phy0".
        direction: "phy0->phy1"; "" for all of them together.
        note: What keeps it from being a result; "".
    """

    name: str
    unit: str
    value: float | bool | Spread | None
    item: str = ""
    direction: str = ""
    note: str = ""

    @property
    def number(self) -> float | bool | None:
        """The number alone: of a spread its mean, of two modes none."""
        if isinstance(self.value, Spread):
            return None if len(self.value.modes) > 1 else self.value.mean
        return self.value
