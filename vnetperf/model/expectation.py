"""What a user expects of results: thresholds for scenarios and frame sizes."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from vnetperf.model.base import Frozen
from vnetperf.model.parameters import TestName
from vnetperf.model.profile import IMIX


class Expectation(Frozen):
    """One threshold; numbers are in the unit of the result: frames/s, ns, s, or a ratio.

    Attributes:
        scenario: "pvp_dpdk", or a pattern: "pvp_*".
        test: Test whose number it is.
        frame_sizes: Octets including FCS, or "imix"; empty for all that are measured.
        number: What the test's number is called, or a pattern: a goal's name for throughput. ""
            is the first one.
        at_least: Smallest number that is good.
        at_most: Largest number that is good.
        of_run: Results folder, relative to the file: the bounds are multiples of its number.
        of_scenario: Scenario of the same run (or of `of_run`): they are multiples of its number.
        certain: True when the whole interval of the number must keep to the bounds.
        why: Said when it is not met.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    scenario: str = Field(min_length=1)
    test: TestName = "throughput"
    frame_sizes: tuple[int | str, ...] = ()
    number: str = ""
    at_least: float | None = None
    at_most: float | None = None
    of_run: str = ""
    of_scenario: str = ""
    certain: bool = False
    why: str = ""

    @model_validator(mode="after")
    def _has_bounds(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("at_least or at_most is missing: nothing is expected")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        wrong = [s for s in self.frame_sizes if isinstance(s, str) and s != IMIX]
        if wrong:
            raise ValueError(f"frame_sizes has {wrong[0]!r}: octets, or {IMIX!r}")
        return self

    @property
    def is_relative(self) -> bool:
        """Whether its bounds are multiples of another number."""
        return bool(self.of_run or self.of_scenario)

    @property
    def needs_others(self) -> bool:
        """Whether it needs another scenario of the same run."""
        return bool(self.of_scenario) and not self.of_run


class ExpectationFile(Frozen):
    """What a file of expectations holds.

    Attributes:
        name: Name of the file.
        expect: The expectations.
    """

    name: str = ""
    expect: tuple[Expectation, ...] = Field(min_length=1)
