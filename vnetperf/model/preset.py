"""A preset: one name for a set of goals, times and frame sizes; one file under conf/presets/."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from vnetperf.model.base import Frozen
from vnetperf.model.goal import SearchGoal
from vnetperf.model.procedures import (
    BackToBackTest,
    FrameLossTest,
    LatencyTest,
    LossProfileTest,
    MrrTest,
    RecoveryTest,
    ResetTest,
    Rfc2889Test,
    SoakTest,
    TestName,
)
from vnetperf.model.traffic import check_frame_size
from vnetperf.model.units import RFC2544_FRAME_SIZES

FrameSize = Annotated[int, AfterValidator(check_frame_size)]


def _sizes_differ(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(sizes)) != len(sizes):
        raise ValueError(f"frame sizes must differ, got {', '.join(map(str, sizes))}")
    return sizes


FrameSizes = Annotated[tuple[FrameSize, ...], AfterValidator(_sizes_differ)]


class TrialTimes(Frozen):
    """The phases of a trial around its traffic (RFC 2544 section 23).

    Attributes:
        learning_wait_s: Wait after the learning frames, seconds (23 b asks 2 s).
        drain_s: Longest wait for residual frames, seconds (23 d asks 2 s).
        full_drain: True waits all of `drain_s`; False goes on once every frame has come back.
        settle_s: Pause before the next trial, seconds (23 e asks 5 s).
        repeats_when_limited: Times a GENERATOR_LIMITED trial is repeated before giving up.
        offered_tolerance: Accepted shortfall of offered against intended load, ratio.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    learning_wait_s: float = Field(default=2.0, ge=0)
    drain_s: float = Field(default=2.0, gt=0)
    full_drain: bool = True
    settle_s: float = Field(default=5.0, ge=0)
    repeats_when_limited: int = Field(default=3, ge=0, le=20)
    offered_tolerance: float = Field(default=0.001, ge=0, lt=1)


class Preset(Frozen):
    """A preset file.

    Attributes:
        name: Name, as in `--preset NAME`.
        benchmark: False marks results as no benchmark, on the first line of every report.
        note: First line of every report.
        algorithm: Search algorithm: "binary" or "mlr".
        goals: Search goals; "binary" takes one search for each.
        frame_sizes: Octets including FCS.
        min_load_fps: Smallest load tried, frames/s per interface.
        max_trial_seconds: Longest traffic time of one search, seconds; None for no limit.
        trial: Phases of a trial.
        tests: Tests that it is for; others are left out unless `--tests` names them.
        latency: Parameters of the test; so are those that follow.
        frame_loss: See there.
        back_to_back: See there.
        recovery: See there.
        reset: See there.
        mrr: See there.
        loss_profile: See there.
        soak: See there.
        rfc2889: See there.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    name: str = ""
    benchmark: bool = True
    note: str = ""
    algorithm: Literal["binary", "mlr"] = "mlr"
    goals: tuple[SearchGoal, ...] = Field(min_length=1)
    frame_sizes: FrameSizes = Field(default=RFC2544_FRAME_SIZES, min_length=1)
    min_load_fps: float = Field(default=1000.0, gt=0)
    max_trial_seconds: float | None = Field(default=None, gt=0)
    trial: TrialTimes = TrialTimes()
    tests: tuple[TestName, ...] = ("throughput",)
    latency: LatencyTest = LatencyTest()
    frame_loss: FrameLossTest = FrameLossTest()
    back_to_back: BackToBackTest = BackToBackTest()
    recovery: RecoveryTest = RecoveryTest()
    reset: ResetTest = ResetTest()
    mrr: MrrTest = MrrTest()
    loss_profile: LossProfileTest = LossProfileTest()
    soak: SoakTest = SoakTest()
    rfc2889: Rfc2889Test = Rfc2889Test()

    @model_validator(mode="after")
    def _names_differ(self) -> Preset:
        names = [goal.name for goal in self.goals]
        if len(set(names)) != len(names):
            raise ValueError(f"goal names must differ, got {', '.join(names)}")
        return self
