"""Parameters of the searches and tests.

Search goals and limits (RFC 9971), and one model for each test.

Defaults are those of the standard's full test; loads are intended frames/s per interface.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, PositiveFloat, model_validator

from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError

#: A width finer than this is below what intended load can be told apart by.
MIN_WIDTH = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchGoal:
    """One question to a search: "up to which load does the DUT keep to this?".

    The defaults ask the RFC 2544 section 26.1 question (RFC 9971 "MLRsearch Compliant with
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
    (upper - lower) / upper is no larger. RFC 9971 recommends at least the loss ratio."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigError(f"{self.name!r} is no goal name", where="goal", accepted="a word")
        first, final, total = self.initial_trial_s, self.final_trial_s, self.duration_sum_s
        limit = f"final_trial_s = {final:g} s"
        _require(
            f"goal {self.name!r}",
            ("loss_ratio", self.loss_ratio, 0.0 <= self.loss_ratio < 1.0, "[0, 1)"),
            ("exceed_ratio", self.exceed_ratio, 0.0 <= self.exceed_ratio < 1.0, "[0, 1)"),
            ("final_trial_s", final, 0.0 < final < inf, "seconds above 0"),
            ("duration_sum_s", total, final <= total < inf, f"at least {limit}"),
            ("initial_trial_s", first, 0.0 < first <= final, f"above 0 and up to {limit}"),
            ("width", self.width, MIN_WIDTH <= self.width < 1.0, "[1e-6, 1)"),
        )


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
        _require(
            "TST009 search inputs",
            ("step_fps", self.step_fps, 0.0 < self.step_fps < inf, "frames/s above 0"),
            ("max_r", self.max_r, self.max_r >= 1, "1 or more trials"),
            ("z", self.z or 0, (self.z or 0) >= 0, "frames, 0 or more, or none for no threshold"),
        )
        if self.z is not None and self.max_r == 1:
            raise ConfigError(
                f"z = {self.z} overrides loss verification (TST009 section 12.3.3), and max_r = 1 "
                "asks for none",
                where="TST009 search inputs",
                accepted="max_r of 2 or more with z",
                cure="set max_r = 2, or leave z out",
            )


class SweepInputs(Frozen):
    """Loads below a lower bound that are tried once its search has found it.

    A search takes it that what a DUT carries it carries at every smaller load (RFC 9971 "Loss
    Inversion").

    Attributes:
        loads: 0 to 100: loads below the lower bound that are tried for loss, each 0.6 of the one
            above.
        trial_s: Above 0: seconds of a trial there, if the goal's own are not shorter. One with too
            much loss is followed by trials of the goal's own length.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    loads: int = Field(default=5, ge=0, le=100)
    trial_s: float = Field(default=1.0, gt=0)


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

    starts_fps: tuple[float, ...] = ()
    """Load where each goal's search begins, in the order of the goals, frames/s per interface: the
    lower bound that the round before found. Then nothing is warmed up, and the DUT not overloaded
    first. "tst009" begins in the middle of its array whatever it is. Empty: the largest load."""

    warm_up_s: float = 0.0
    """Most seconds of traffic at the largest load, before anything is classified, until two
    successive seconds agree within the smallest goal width (RFC 9971: the SUT is warm before the
    search); 0: none. They are in no budget."""

    sweep: SweepInputs | None = None
    """Loads to try below the bounds; None: none."""

    steps: StepInputs | None = None
    """Inputs of the "tst009" algorithm, None for any other."""

    tries: int = 0
    """Full-length trials that leave a load undecided for a goal, because of the tester, until the
    goal gives that load up. 0: trials that classify nothing are not sent to the search;
    whoever runs them repeats them."""

    short_tries: int = 0
    """Trials, of any length, that far less than the load was offered in, until it is given up for
    every goal. 0: no matter how many."""

    def __post_init__(self) -> None:
        if not 0.0 < self.min_load_fps < self.max_load_fps < inf:
            raise ConfigError(
                f"min_load_fps = {self.min_load_fps:g}, max_load_fps = {self.max_load_fps:g}",
                where="search limits",
                accepted="0 < min_load_fps < max_load_fps",
            )
        budget = inf if self.max_trial_seconds is None else self.max_trial_seconds
        around = self.trial_overhead_s
        _require(
            "search limits",
            ("max_trial_seconds", budget, budget > 0.0, "seconds above 0, or none for no budget"),
            ("tries", self.tries, self.tries >= 0, "0 or more"),
            ("short_tries", self.short_tries, self.short_tries >= 0, "0 or more"),
            ("trial_overhead_s", around, 0.0 <= around < inf, "seconds, 0 or more"),
            ("warm_up_s", self.warm_up_s, 0.0 <= self.warm_up_s < inf, "seconds, 0 or more"),
        )
        for start in self.starts_fps:
            are_inside = self.min_load_fps <= start <= self.max_load_fps
            _require("search limits", ("starts_fps", start, are_inside, "loads within the limits"))
        if self.steps is not None and self.steps.step_fps >= self.max_load_fps:
            raise ConfigError(
                f"step_fps = {self.steps.step_fps:g} is no less than the maximum load, "
                f"{self.max_load_fps:g} frames/s",
                where="search limits",
                accepted="a StepSize (TST009 section 12.3.2) below the maximum load",
                cure="give step_share in the preset, a share of the maximum load",
            )


def _require(where: str, *values: tuple[str, float, bool, str]) -> None:
    """Refuse the first value that is not accepted: key, value, whether it is, what would be."""
    for key, value, is_accepted, accepted in values:
        if not is_accepted:
            raise ConfigError(f"{key} = {value:g} is not possible", where=where, accepted=accepted)


#: The test that others take their loads of.
THROUGHPUT: Final = "throughput"
#: The tests of standards, in the order in which they are run: later ones need the throughput.
STANDARD_TESTS: Final = (
    THROUGHPUT,
    "latency",
    "frame_loss",
    "back_to_back",
    "recovery",
    "reset",
    "mrr",
    "loss_profile",
    "latency_load",
    "soak",
    "forwarding_rate",
    "address_caching",
    "address_learning",
    "service",
    "connection_rate",
    "session_capacity",
    "cpu_load",
)


#: Loads of the latency curve, frames/s per interface: some below what any virtual switch carries,
#: some above what most do. They are no share of anything, so that switches can be compared at them.
ABSOLUTE_LOADS_FPS: Final = (1e3, 1e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6)


class ProcedureParameters(Frozen):
    """What the parameters of all tests have in common.

    Attributes:
        conditions: Names of those that a number of the test depends on: with others it is another
            number. How often a test is repeated and which loads it takes are none; a number has
            its load beside it.
    """

    model_config = ConfigDict(allow_inf_nan=False)
    conditions: ClassVar[tuple[str, ...]] = ("duration_s",)

    @property
    def has_loads(self) -> bool:
        """Whether its loads are given, where they would be shares of the throughput otherwise."""
        return False


class LatencyTest(ProcedureParameters):
    """RFC 2544 section 26.2.

    Attributes:
        shares: Loads as shares of the throughput; RFC 2544 section 26.2 requires 1.
        loads_fps: Further loads, frames/s per interface.
        duration_s: Above 0: seconds of a stream; section 26.2 requires 120.
        tag_at_s: 0 or more: frames sent before are not looked at, seconds; section 26.2 requires
            60.
        repeats: 1 or more: trials at each load; section 26.2 requires 20.
    """

    conditions: ClassVar[tuple[str, ...]] = ("duration_s", "tag_at_s")

    shares: tuple[float, ...] = (1.0,)
    loads_fps: tuple[float, ...] = ()
    duration_s: float = Field(default=120.0, gt=0)
    tag_at_s: float = Field(default=60.0, ge=0)
    repeats: int = Field(default=20, ge=1)


class FrameLossTest(ProcedureParameters):
    """RFC 2544 section 26.3.

    Attributes:
        step: Above 0, up to 0.5: step down, as a share of the largest load; section 26.3 allows
            0.1.
        duration_s: Above 0: seconds of a trial.
    """

    step: float = Field(default=0.1, gt=0, le=0.5)
    duration_s: float = Field(default=60.0, gt=0)


class BackToBackTest(ProcedureParameters):
    """RFC 9004.

    Attributes:
        searches: 1 or more: independent searches at a size; RFC 2544 section 26.4 requires 50.
        max_burst_s: Above 0: longest burst, seconds at the largest rate.
        idle_s: 0 or more: wait after each burst, seconds; RFC 9004 requires 2.
        step_frames: 1 or more: resolution, frames.
        repeats_after_loss: 0 or more: times a burst that lost frames is sent again (TST009 max(r)).
        max_s: Above 0: seconds that all bursts of a size may take, with what is around them. Left
            out: no limit.
    """

    conditions: ClassVar[tuple[str, ...]] = ("idle_s", "repeats_after_loss")

    searches: int = Field(default=50, ge=1)
    max_burst_s: float = Field(default=2.0, gt=0)
    idle_s: float = Field(default=2.0, ge=0)
    step_frames: int = Field(default=1, ge=1)
    repeats_after_loss: int = Field(default=0, ge=0)
    max_s: float | None = Field(default=None, gt=0)


class RecoveryTest(ProcedureParameters):
    """RFC 2544 section 26.5.

    Attributes:
        overload: Above 1: overload, as a share of the throughput; section 26.5 requires 1.1.
        relaxed: Between 0 and 1: load before and after it, as a share of the overload; section 26.5
            requires 0.5.
        overload_s: Above 0: seconds of overload; section 26.5 requires 60.
        relaxed_s: Above 0: seconds at that load, before the overload, where the usual loss is
            measured, and after it.
        repeats: 1 or more: trials; section 26.5 requires several.
        bin_s: Above 0: width of the curve's bins, seconds.
    """

    conditions: ClassVar[tuple[str, ...]] = ("overload", "relaxed", "overload_s")

    overload: float = Field(default=1.1, gt=1)
    relaxed: float = Field(default=0.5, gt=0, lt=1)
    overload_s: float = Field(default=60.0, gt=0)
    relaxed_s: float = Field(default=10.0, gt=0)
    repeats: int = Field(default=5, ge=1)
    bin_s: float = Field(default=0.01, gt=0)


class ResetTest(ProcedureParameters):
    """RFC 2544 section 26.6, RFC 6201.

    Attributes:
        what: What is reset: `vswitch` (each one) and `vnf` (the first one) are restarted. `link`
            goes down and up: the DUT's first port, or its first cable to another vSwitch where the
            tester has none.
        share: Above 0, up to 1: load as a share of the throughput; RFC 2544 section 26.6 requires
            1.
        before_s: Above 0: seconds of traffic before.
        after_s: Above 0: seconds after; a DUT that is not back by then has no number.
        link_down_s: Above 0: how long a link stays down, seconds.
        repeats: 1 or more: trials for each.
        bin_s: Above 0: width of the curve's bins, seconds.
    """

    conditions: ClassVar[tuple[str, ...]] = ("share", "link_down_s")

    what: tuple[Literal["vswitch", "vnf", "link"], ...] = ("vswitch", "vnf", "link")
    share: float = Field(default=1.0, gt=0, le=1)
    before_s: float = Field(default=5.0, gt=0)
    after_s: float = Field(default=30.0, gt=0)
    link_down_s: float = Field(default=1.0, gt=0)
    repeats: int = Field(default=5, ge=1)
    bin_s: float = Field(default=0.01, gt=0)


class MrrTest(ProcedureParameters):
    """Maximum receive rate, as FD.io CSIT measures it: trials at the largest load.

    Attributes:
        duration_s: Above 0: seconds of a trial at the largest load.
        repeats: 1 or more: trials.
    """

    duration_s: float = Field(default=1.0, gt=0)
    repeats: int = Field(default=10, ge=1)


class LossProfileTest(ProcedureParameters):
    """Loss around the throughput, at loads that are shares of it.

    Attributes:
        shares: Loads as shares of the throughput.
        duration_s: Above 0: seconds of a trial.
        repeats: 1 or more: trials at each load.
    """

    shares: tuple[float, ...] = (0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.2)
    duration_s: float = Field(default=10.0, gt=0)
    repeats: int = Field(default=3, ge=1)


#: Loads at which processors are looked at: nearly none, so that what they do without frames shows.
CPU_LOAD_SHARES: Final = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0)
#: Loads at which costs of different DUTs, machines and runs are compared, frames/s per interface.
CPU_LOADS_FPS: Final = (5e4, 1e5, 2e5)


class CpuLoadTest(ProcedureParameters):
    """Processors against load.

    Attributes:
        shares: Above 0: loads at which [processors](processors.md) are looked at, as shares of the
            throughput; `[]` for none, which needs no throughput.
        loads_fps: Above 0: loads besides, frames/s per interface, whatever the DUT carries.
        duration_s: Above 0: seconds of a trial; the kernel counts part of the time in ticks of 10
            ms.
        repeats: 1 or more: trials at each load.
    """

    shares: tuple[PositiveFloat, ...] = CPU_LOAD_SHARES
    loads_fps: tuple[PositiveFloat, ...] = CPU_LOADS_FPS
    duration_s: float = Field(default=10.0, gt=0)
    repeats: int = Field(default=3, ge=1)

    @property
    def has_loads(self) -> bool:
        """Whether no load is a share of the throughput."""
        return not self.shares

    @model_validator(mode="after")
    def _has_a_load(self) -> Self:
        if not self.shares and not self.loads_fps:
            raise ValueError("cpu_load has neither shares nor loads_fps; give one of them")
        return self


class LatencyLoadTest(ProcedureParameters):
    """Latency against load, at loads that are the same for every DUT.

    Attributes:
        loads_fps: Above 0: loads at which latency is measured, frames/s per interface, whatever the
            DUT carries ([rates.md](rates.md#latency-against-load)). Those that the generator cannot
            offer are reported as such.
        duration_s: Above 0: seconds of a trial.
        tag_at_s: 0 or more: frames sent before are not looked at, seconds.
        repeats: 1 or more: trials at each load; RFC 8219 section 7.2 requires 20.
    """

    conditions: ClassVar[tuple[str, ...]] = ("duration_s", "tag_at_s")

    loads_fps: tuple[PositiveFloat, ...] = Field(default=ABSOLUTE_LOADS_FPS, min_length=1)
    duration_s: float = Field(default=10.0, gt=0)
    tag_at_s: float = Field(default=1.0, ge=0)
    repeats: int = Field(default=20, ge=1)


class SoakTest(ProcedureParameters):
    """A long run at one load.

    Attributes:
        share: Above 0, up to 1: load as a share of the throughput.
        duration_s: Above 0: seconds of traffic in all.
        trial_s: Above 0: seconds of one of the trials that follow one another.
        loss_ratio: 0 up to, but not, 1: highest loss ratio that passes.
    """

    conditions: ClassVar[tuple[str, ...]] = ("share", "duration_s", "trial_s")

    share: float = Field(default=1.0, gt=0, le=1)
    duration_s: float = Field(default=1800.0, gt=0)
    trial_s: float = Field(default=60.0, gt=0)
    loss_ratio: float = Field(default=1e-7, ge=0, lt=1)


class ServiceTest(ProcedureParameters):
    """ITU-T Y.1564, service configuration test and service performance test.

    The limits are those of MEF 23 for its highest class within a metro area (secondary sources).

    Attributes:
        cir_fps: 0 or more: committed rate (CIR) of a [service](services.md), frames/s per
            interface; 0 takes it of the throughput.
        cir_share: Above 0, up to 1: the same as a share of the throughput.
        steps: Loads of the configuration test, as shares of the CIR.
        step_s: Above 0: seconds of each; Y.1564 has 1 to 60.
        performance_s: 0 or more: seconds of the performance test at the CIR; 0 for none. Y.1564 has
            15 min, 2 h or 24 h.
        trial_s: Above 0: seconds of one of its trials.
        loss_ratio: 0 up to, but not, 1: limit of the frame loss ratio (FLR).
        delay_ms: 0 or more: limit of the mean frame transfer delay (FTD), ms; 0: no limit.
        variation_ms: 0 or more: limit of the frame delay variation (FDV), ms; 0: no limit.
    """

    conditions: ClassVar[tuple[str, ...]] = (
        "cir_fps",
        "cir_share",
        "step_s",
        "performance_s",
        "trial_s",
    )

    cir_fps: float = Field(default=0.0, ge=0)
    cir_share: float = Field(default=0.9, gt=0, le=1)
    steps: tuple[float, ...] = Field(default=(0.25, 0.5, 0.75, 1.0), min_length=1)
    step_s: float = Field(default=60.0, gt=0)
    performance_s: float = Field(default=900.0, ge=0)
    trial_s: float = Field(default=60.0, gt=0)
    loss_ratio: float = Field(default=1e-4, ge=0, lt=1)
    delay_ms: float = Field(default=10.0, ge=0)
    variation_ms: float = Field(default=3.0, ge=0)

    @property
    def has_loads(self) -> bool:
        """Whether the committed rate is given."""
        return self.cir_fps > 0


#: Where searches of RFC 2889 end: relative distance of what was learned and what was not.
ADDRESSES_RESOLUTION: Final = 0.01
LEARNING_RESOLUTION: Final = 0.1


class Rfc2889Test(ProcedureParameters):
    """RFC 2889 sections 5.6 to 5.8.

    Attributes:
        duration_s: Above 0: seconds of a trial; RFC 2889 section 4 has 30.
        loads: 2 or more: loads of the forwarding rate from the throughput to the largest, before
            those beside the best one.
        repeats: 1 or more: trials at each of them.
        shares: Without effect: only logs without a throughput use it.
        max_addresses: 2 or more: most addresses tried.
        learning_fps: Above 0: rate at which addresses are sent, frames/s.
        ageing_s: 0 or more: wait after which a DUT has forgotten addresses, seconds; 0: its first
            port is taken down and up instead ([rates.md](rates.md)).
    """

    conditions: ClassVar[tuple[str, ...]] = ("duration_s", "learning_fps", "ageing_s")

    duration_s: float = Field(default=30.0, gt=0)
    loads: int = Field(default=6, ge=2)
    repeats: int = Field(default=3, ge=1)
    shares: tuple[float, ...] = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
    max_addresses: int = Field(default=65536, ge=2)
    learning_fps: float = Field(default=1000.0, gt=0)
    ageing_s: float = Field(default=0.0, ge=0)


#: Frames of a series of RFC 2889 to addresses that nobody has. A path check must not reach beyond
#: them.
SPARE_ADDRESSES = 64


class SessionTest(ProcedureParameters):
    """RFC 9693: connection establishment, tear-down and capacity of a NAT.

    Attributes:
        searches: 1 to 100: searches for the connection establishment rate, whose median is the
            result; the RFC has ten or more.
        resolution: Above 0, up to 1: relative distance of a rate that met it and one that did not,
            at which a search ends.
        filling_fps: Above 0: sessions/s that a search begins with, and that the capacity is found
            at.
    """

    conditions: ClassVar[tuple[str, ...]] = ("searches", "resolution", "filling_fps")

    searches: int = Field(default=3, ge=1, le=100)
    resolution: float = Field(default=0.05, gt=0, le=1)
    filling_fps: float = Field(default=10_000.0, gt=0)
