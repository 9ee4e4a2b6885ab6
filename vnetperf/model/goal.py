"""What a search is asked for: its goals, and the limits it must stay within.

The attributes are those of a Search Goal in draft-ietf-bmwg-mlrsearch-15 section "Goal Terms";
RFC 2544 throughput and the TST009 loss verification are particular values of them. Loads are
**intended frames/s per interface (direction)** throughout; an aggregate is computed outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import ClassVar

from vnetperf.model.errors import ConfigError

#: A width finer than this is below what intended load can be told apart by.
MIN_WIDTH = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchGoal:
    """One question to a search: "up to which load does the DUT keep to this?".

    The defaults ask the RFC 2544 section 26.1 question (draft section "MLRsearch Compliant with
    RFC 2544"): no loss in one trial of 60 s.

    Raises:
        ConfigError: If an attribute is outside what its docstring accepts.
    """

    # Lets a pydantic settings model hold goals and still refuse misspelt keys.
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: str
    """Label that results are found and reported by, e.g. ``"NDR"``; unique within a search."""

    loss_ratio: float = 0.0
    """Goal Loss Ratio, in [0, 1): a trial that loses a larger share of its frames is high-loss."""

    exceed_ratio: float = 0.0
    """Goal Exceed Ratio, in [0, 1): the share of trial seconds at one load that may be high-loss
    while the load still counts as carried. 0 lets one bad trial decide, 0.5 takes the majority."""

    final_trial_s: float = 60.0
    """Goal Final Trial Duration, seconds: a trial at least this long is full-length."""

    duration_sum_s: float = 60.0
    """Goal Duration Sum, seconds: full-length trial time at one load that surely classifies it."""

    initial_trial_s: float = 1.0
    """Goal Initial Trial Duration, seconds: trials used while still far from the answer."""

    width: float = 0.005
    """Goal Width, relative to the upper bound, in [1e-6, 1): the search is done when
    (upper - lower) / upper is no larger. The draft recommends at least the loss ratio."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigError(f"{self.name!r} is no goal name", where="goal", accepted="a word")
        _in_range(self, "loss_ratio", self.loss_ratio, 0.0 <= self.loss_ratio < 1.0, "[0, 1)")
        _in_range(self, "exceed_ratio", self.exceed_ratio, 0.0 <= self.exceed_ratio < 1.0, "[0, 1)")
        _in_range(
            self,
            "final_trial_s",
            self.final_trial_s,
            self.final_trial_s > 0.0 and isfinite(self.final_trial_s),
            "seconds above 0",
        )
        _in_range(
            self,
            "duration_sum_s",
            self.duration_sum_s,
            self.final_trial_s <= self.duration_sum_s and isfinite(self.duration_sum_s),
            f"at least final_trial_s = {self.final_trial_s:g} s",
        )
        _in_range(
            self,
            "initial_trial_s",
            self.initial_trial_s,
            0.0 < self.initial_trial_s <= self.final_trial_s,
            f"above 0 and up to final_trial_s = {self.final_trial_s:g} s",
        )
        _in_range(self, "width", self.width, MIN_WIDTH <= self.width < 1.0, "[1e-6, 1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInputs:
    """What TST009 sections 12.3.2 and 12.3.3 ask for besides a goal; a report prints all of it.

    Raises:
        ConfigError: If an input is outside what its docstring accepts.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    step_fps: float
    """StepSize: distance of the offered loads, frames/s per interface."""

    max_r: int = 1
    """max(r): trials at one load before it counts as failed, the first one included. 1 is the
    binary search of section 12.3.2, more is the loss verification of section 12.3.3."""

    z: int | None = None
    """Threshold that overrides loss verification: a trial that loses more frames of its worse
    direction fails at once. None is no threshold."""

    def __post_init__(self) -> None:
        for key, value, ok, accepted in (
            ("step_fps", self.step_fps, 0.0 < self.step_fps < float("inf"), "frames/s above 0"),
            ("max_r", self.max_r, self.max_r >= 1, "1 or more trials"),
            ("z", self.z or 0, (self.z or 0) >= 0, "frames, 0 or more, or none for no threshold"),
        ):
            if not ok:
                raise ConfigError(
                    f"{key} = {value:g}", where="TST009 search inputs", accepted=accepted
                )
        if self.z is not None and self.max_r == 1:
            raise ConfigError(
                f"z = {self.z} overrides loss verification (TST009 section 12.3.3), and max_r = 1 "
                "asks for none",
                where="TST009 search inputs",
                accepted="max_r of 2 or more with z",
                cure="set max_r = 2, or leave z out",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """What a search may ask for.

    Raises:
        ConfigError: If the loads are not 0 < min < max, or the budget is not above 0.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    min_load_fps: float
    """Min Load, frames/s per interface: no trial is asked for below it."""

    max_load_fps: float
    """Max Load, frames/s per interface: the smaller of the medium's maximum (RFC 2544 section 20)
    and what the generator was calibrated to send."""

    max_trial_seconds: float | None = field(default=None)
    """Budget of trial seconds for all goals together, or None for no budget."""

    trial_overhead_s: float = 0.0
    """Seconds that the budget counts for each trial besides its traffic: with the waits around a
    trial a budget is one of wall time. No duration sum counts them."""

    steps: StepInputs | None = None
    """Inputs of the "tst009" algorithm, None for any other."""

    def __post_init__(self) -> None:
        if not (0.0 < self.min_load_fps < self.max_load_fps and isfinite(self.max_load_fps)):
            raise ConfigError(
                f"min_load_fps = {self.min_load_fps:g}, max_load_fps = {self.max_load_fps:g}",
                where="search limits",
                accepted="0 < min_load_fps < max_load_fps",
            )
        if self.max_trial_seconds is not None and not self.max_trial_seconds > 0.0:
            raise ConfigError(
                f"max_trial_seconds = {self.max_trial_seconds:g}",
                where="search limits",
                accepted="seconds above 0, or none for no budget",
            )
        if not (self.trial_overhead_s >= 0.0 and isfinite(self.trial_overhead_s)):
            raise ConfigError(
                f"trial_overhead_s = {self.trial_overhead_s:g}",
                where="search limits",
                accepted="seconds, 0 or more",
            )
        if self.steps is not None and self.steps.step_fps >= self.max_load_fps:
            raise ConfigError(
                f"step_fps = {self.steps.step_fps:g} is no less than the maximum load, "
                f"{self.max_load_fps:g} frames/s",
                where="search limits",
                accepted="a StepSize (TST009 section 12.3.2) below the maximum load",
                cure="give step_share in the preset, a share of the maximum load",
            )


def _in_range(goal: SearchGoal, key: str, value: float, ok: bool, accepted: str) -> None:
    if not ok:
        raise ConfigError(
            f"{key} = {value:g} is not possible", where=f"goal {goal.name!r}", accepted=accepted
        )
