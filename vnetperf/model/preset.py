"""A preset: goals, trial times, tests and frame sizes under one name.

Checked against the clauses it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError
from vnetperf.model.frames import RFC2544_FRAME_SIZES
from vnetperf.model.parameters import (
    BackToBackTest,
    CpuLoadTest,
    FrameLossTest,
    LatencyLoadTest,
    LatencyTest,
    LossProfileTest,
    MrrTest,
    ProcedureParameters,
    RecoveryTest,
    ResetTest,
    Rfc2889Test,
    SearchGoal,
    SearchLimits,
    ServiceTest,
    SessionTest,
    SoakTest,
    StepInputs,
    SweepInputs,
)
from vnetperf.model.traffic import check_frame_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vnetperf.model.profile import TrafficProfile

#: A load at which more than this share is lost is no throughput in any sense: FD.io CSIT's PDR.
MOST_LOSS = 0.005
#: Tests that say nothing without the throughput of no loss.
_NEED_THROUGHPUT = {
    "back_to_back": "RFC 9004 takes the zero-loss throughput for granted",
    "recovery": "RFC 2544 section 26.5 overloads by 110 % of the throughput",
    "reset": "RFC 2544 section 26.6 sends at the throughput",
}

#: A goal's width is at least this many times the shortfall of offered load that a trial may have.
WIDTHS_PER_TOLERANCE = 10.0
_ROUNDING = 1e-9

#: Without a budget of its own a search has this many times the duration sums of its goals: twice
#: what a grid of 1000 loads takes by halving, at four classified loads for a bound that moves.
BUDGET_SUMS = 40
MOST_ROUNDS = 99
#: Tests of a preset that is for back-to-back frames and nothing else.
_FOR_BURSTS = {"throughput", "back_to_back"}

#: Trials that far less than the load was offered in, until a search gives it up: one may be chance.
SHORT_TRIES = 2


def check_goals(preset: Preset, where: str) -> None:
    """Refuse a preset file whose goals do not give what its tests need, or finer than offered.

    Tests that `--tests` names take the throughput there is, and say which.

    `ConfigError` has the clause and the cure.
    """
    tolerance = preset.trial.offered_tolerance
    resolutions = {f"goal {goal.name}, width": goal.width for goal in preset.goals}
    if preset.tst009 is not None and preset.tst009.step_share is not None:
        resolutions = {"tst009.step_share": preset.tst009.step_share}
    for name, resolution in resolutions.items():
        if resolution < WIDTHS_PER_TOLERANCE * tolerance * (1 - _ROUNDING):
            raise ConfigError(
                f"{name} = {resolution:g}: a trial may offer {tolerance:g} less than intended "
                "(trial.offered_tolerance), and bounds cannot be told apart as finely as that",
                where=f"{where}: goals",
                accepted=f"{WIDTHS_PER_TOLERANCE:g} times the tolerance or more",
                cure="make the width larger, or trial.offered_tolerance smaller",
            )
    for test, reason in _NEED_THROUGHPUT.items():
        if test in preset.tests and not any(g.loss_ratio <= MOST_LOSS for g in preset.goals):
            raise ConfigError(
                f"{test} needs a throughput ({reason}), and every goal allows more loss than "
                f"{MOST_LOSS:g}",
                where=f"{where}: goals",
                accepted=f"a goal with loss_ratio = 0, or {MOST_LOSS:g} at most, beside others",
                cure=f"add one, or take {test} out of tests",
            )


def check_traffic(preset: Preset, traffic: TrafficProfile) -> None:
    """Refuse a preset together with a traffic profile that one of them rules out.

    A preset of several tests leaves out the one that the traffic rules out; one that is for
    nothing else has nothing left to measure.

    `ConfigError` has the clause and the cure.
    """
    for_bursts = "back_to_back" in preset.tests
    if for_bursts and traffic.mix is not None and set(preset.tests) <= _FOR_BURSTS:
        raise ConfigError(
            f"the tests of preset {preset.name} are {', '.join(preset.tests)}; bursts are of one "
            f"frame size (RFC 9004: no IMIX), and traffic profile {traffic.name} has a mix",
            where="traffic",
            accepted="a profile without imix",
            cure="leave --traffic out, or choose another --preset or other --tests",
        )


def check_budget(preset: Preset, source: str) -> None:
    """Refuse a time budget, from `source`, where the preset's method leaves no room for one.

    `ConfigError` has the clause and the cure.
    """
    promises = {
        "binary": "RFC 2544 section 24 wants final values from trials of full length",
        "tst009": "TST009 section 12.3.2 knows no shorter trials",
    }
    if preset.algorithm in promises:
        raise ConfigError(
            f"a time budget ({source}) makes an estimate of whatever fits it, and preset "
            f"{preset.name} searches by {preset.algorithm!r}: {promises[preset.algorithm]}",
            where="time_budget",
            accepted='presets with algorithm = "mlr"',
            cure="leave --time-budget out, or take --preset quick or mlr-strict",
        )


def _check_names(preset: Preset) -> None:
    names = [goal.name for goal in preset.goals]
    if len(set(names)) != len(names):
        raise ConfigError(f"goal names must differ, got {', '.join(names)}", where="goals")
    for key in ("tests", "smallest_only"):
        tests: tuple[str, ...] = getattr(preset, key)
        if len(set(tests)) != len(tests):
            raise ConfigError(f"a test is named twice in {', '.join(tests)}", where=key)


def _check_algorithm(preset: Preset) -> None:
    if preset.algorithm == "tst009" and preset.tst009 is None:
        raise ConfigError(
            "TST009 section 12.3.2 searches an array of offered loads, and there is no StepSize",
            where="tst009",
            accepted="a table [tst009] with step_fps or step_share",
        )
    if preset.algorithm != "tst009" and preset.tst009 is not None:
        raise ConfigError(
            f"inputs of TST009 sections 12.3.2 and 12.3.3 say nothing to algorithm "
            f"{preset.algorithm!r}",
            where="tst009",
            accepted='a table [tst009] beside algorithm = "tst009"',
        )


def _check_tests(preset: Preset) -> None:
    latency, curve, soak = preset.latency, preset.latency_load, preset.soak
    if latency.tag_at_s >= latency.duration_s:
        raise ConfigError(
            f"tag_at_s = {latency.tag_at_s:g} s is not within the stream of "
            f"{latency.duration_s:g} s (RFC 2544 section 26.2: after 60 s of 120 s)",
            where="latency.tag_at_s",
            accepted=f"less than duration_s = {latency.duration_s:g}",
        )
    if curve.tag_at_s >= curve.duration_s:
        raise ConfigError(
            f"tag_at_s = {curve.tag_at_s:g} s is not within a trial of {curve.duration_s:g} s",
            where="latency_load.tag_at_s",
            accepted=f"less than duration_s = {curve.duration_s:g}",
        )
    if len(set(curve.loads_fps)) != len(curve.loads_fps):
        raise ConfigError(
            f"loads must differ, got {', '.join(f'{load:g}' for load in curve.loads_fps)}",
            where="latency_load.loads_fps",
        )
    if soak.trial_s > soak.duration_s:
        raise ConfigError(
            f"trial_s = {soak.trial_s:g} s is longer than the whole soak of {soak.duration_s:g} s",
            where="soak.trial_s",
            accepted=f"up to duration_s = {soak.duration_s:g}",
        )


FrameSize = Annotated[int, AfterValidator(check_frame_size)]


def _sizes_differ(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(sizes)) != len(sizes):
        raise ValueError(f"frame sizes must differ, got {', '.join(map(str, sizes))}")
    return sizes


FrameSizes = Annotated[tuple[FrameSize, ...], AfterValidator(_sizes_differ)]


class TrialTimes(Frozen):
    """The phases of a trial around its traffic (RFC 2544 section 23).

    Attributes:
        learning_wait_s: 0 or more: wait after learning frames, seconds; RFC 2544 section 23
            requires 2.
        drain_s: Above 0: longest wait for frames in flight, seconds; section 23 requires 2.
        full_drain: True waits all of `drain_s`; false goes on as soon as every frame is back.
        settle_s: 0 or more: pause before the next trial, seconds; section 23 requires 5.
        repeats_when_limited: 0 to 20: repeats of a trial that classifies nothing because of the
            tester. Then a search gives the load up for that goal; other tests begin lower, leave
            the load out or end.
        offered_tolerance: 0 up to, but not, 1: accuracy of a load; a shortfall beyond it counts as
            possible loss. At most a tenth of every goal's width.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    learning_wait_s: float = Field(default=2.0, ge=0)
    drain_s: float = Field(default=2.0, gt=0)
    full_drain: bool = True
    settle_s: float = Field(default=5.0, ge=0)
    repeats_when_limited: int = Field(default=3, ge=0, le=20)
    offered_tolerance: float = Field(default=0.0005, ge=0, lt=1)


class StepSearch(Frozen):
    """Inputs of the algorithm "tst009" (ETSI GS NFV-TST 009 sections 12.3.2 and 12.3.3).

    Attributes:
        step_fps: StepSize, frames/s per interface; or
        step_share: StepSize as a share of the largest load that can be offered.
        max_r: max(r), trials at one load before it has failed, the first one included; 1 is no
            loss verification.
        z: A trial that loses more frames than this fails at once; None for no such threshold.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    step_fps: float | None = Field(default=None, gt=0)
    step_share: float | None = Field(default=None, gt=0, lt=1)
    max_r: int = Field(default=1, ge=1, le=100)
    z: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _check_step(self) -> StepSearch:
        if (self.step_fps is None) == (self.step_share is None):
            count_text = "both are" if self.step_fps is not None else "neither is"
            raise ConfigError(
                f"{count_text} given, and TST009 section 12.3.2 has one StepSize",
                where="tst009",
                accepted="step_fps (frames/s) or step_share (a share of the largest load)",
            )
        self.inputs(1.0)
        return self

    def inputs(self, max_load_fps: float) -> StepInputs:
        """The inputs for a search up to a load, frames/s per interface."""
        share = self.step_share
        step = self.step_fps if share is None else share * max_load_fps
        return StepInputs(step_fps=step or 0.0, max_r=self.max_r, z=self.z)


class Preset(Frozen):
    """A preset file.

    Attributes:
        name: The file's unless given.
        benchmark: False marks every report as no benchmark.
        note: First line of every report.
        algorithm: `mlr`, `binary`, `tst009`: [search.md](search.md).
        goals: One or more, each name once; keys below.
        tst009: Inputs of the algorithm `tst009`: `step_fps` (frames/s) or `step_share` (a share of
            the largest load), `max_r` (trials at a load, 1 is no loss verification), `z` (frames;
            none is no threshold).
        frame_sizes: As in the settings, at least one.
        min_load_fps: Above 0: smallest load tried, frames/s per interface.
        max_trial_seconds: Above 0: longest traffic time of one search, seconds, without its
            warm-up. Left out: 40 times the duration sums of all goals.
        time_budget_s: Above 0: longest time of one search with the waits around its trials,
            seconds; `--time-budget` sets it. Left out: no limit.
        repeat: 1 or more: deployments in which every case is measured, in turn; `--repeat` gives
            others.
        rounds: 1 to 99: searches of each throughput in a deployment
            ([search.md](search.md#rounds)).
        most_rounds: 1 to 99: as many where `rounds` are not repeatable; `rounds` itself if less.
        round_gap_s: 0 or more: least seconds from the end of a round to the next of the same frame
            size.
        warm_up_s: 0 or more: most seconds of traffic before the first round, until two successive
            seconds agree.
        sweep: Loads that are tried below the bounds.
        tests: Tests that a run with this preset measures, unless `--tests` names others:
            `throughput`, `latency`, `frame_loss`, `back_to_back`, `recovery`, `reset`, `mrr`,
            `loss_profile`, `latency_load`, `soak`, `forwarding_rate`, `address_caching`,
            `address_learning`, `service`, `connection_rate`, `session_capacity`, `cpu_load`, or
            what a plugin has registered. As tables, `[tests.NAME]`, with the parameters of each.
        smallest_only: Those of `tests` that are run at the smallest frame size only.
        meets: Clauses that a run of it can meet, as the ledger names them.
        test_parameters: Parameters of tests of plugins, by test: those of `[tests.NAME]`.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    name: str = ""
    benchmark: bool = True
    note: str = ""
    algorithm: Literal["binary", "mlr", "tst009"] = "mlr"
    goals: tuple[SearchGoal, ...] = Field(min_length=1)
    tst009: StepSearch | None = None
    frame_sizes: FrameSizes = Field(default=RFC2544_FRAME_SIZES, min_length=1)
    min_load_fps: float = Field(default=1000.0, gt=0)
    max_trial_seconds: float | None = Field(default=None, gt=0)
    time_budget_s: float | None = Field(default=None, gt=0)
    trial: TrialTimes = TrialTimes()
    repeat: int = Field(default=1, ge=1)
    rounds: int = Field(default=1, ge=1, le=MOST_ROUNDS)
    most_rounds: int = Field(default=1, ge=1, le=MOST_ROUNDS)
    round_gap_s: float = Field(default=15.0, ge=0)
    warm_up_s: float = Field(default=10.0, ge=0)
    sweep: SweepInputs = SweepInputs()
    tests: tuple[str, ...] = Field(default=("throughput",), min_length=1)
    smallest_only: tuple[str, ...] = ()
    meets: tuple[str, ...] = ()
    test_parameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    latency: LatencyTest = LatencyTest()
    frame_loss: FrameLossTest = FrameLossTest()
    back_to_back: BackToBackTest = BackToBackTest()
    recovery: RecoveryTest = RecoveryTest()
    reset: ResetTest = ResetTest()
    mrr: MrrTest = MrrTest()
    loss_profile: LossProfileTest = LossProfileTest()
    latency_load: LatencyLoadTest = LatencyLoadTest()
    cpu_load: CpuLoadTest = CpuLoadTest()
    soak: SoakTest = SoakTest()
    rfc2889: Rfc2889Test = Rfc2889Test()
    service: ServiceTest = ServiceTest()
    nat: SessionTest = SessionTest()

    @model_validator(mode="before")
    @classmethod
    def _part_tables_of_tests(cls, content: Any) -> Any:
        """Part `[tests.NAME]` into the tests and their parameters."""
        if not isinstance(content, Mapping) or not isinstance(content.get("tests"), Mapping):
            return content
        parted = {**content, "tests": list(content["tests"])}
        others = dict(content.get("test_parameters", {}))
        for test, table in content["tests"].items():
            field = cls.model_fields.get(test)
            if not table:
                continue
            if field is not None and isinstance(field.default, ProcedureParameters):
                if test in content:
                    raise ValueError(f"[{test}] and [tests.{test}] are both there; keep one")
                parted[test] = table
            else:
                others[test] = table
        return parted | {"test_parameters": others}

    @model_validator(mode="after")
    def _says_nothing_twice_or_against_itself(self) -> Preset:
        _check_names(self)
        _check_algorithm(self)
        _check_tests(self)
        return self

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and a reader should know, as sentences."""
        if self.tst009 is not None:
            off = "TST009 loss verification (section 12.3.3) is off, one lossy trial decides"
            return (f"max_r = 1: {off}",) if self.tst009.max_r == 1 else ()
        return tuple(
            f"goal {goal.name}: its width, {goal.width:g}, is below its loss ratio, "
            f"{goal.loss_ratio:g}; RFC 9971 recommends at least that"
            for goal in self.goals
            if goal.width < goal.loss_ratio
        )

    def sizes_of(self, test: str) -> tuple[int, ...]:
        """Frame sizes that a test is run at: all of the preset's, or the smallest alone."""
        return (min(self.frame_sizes),) if test in self.smallest_only else self.frame_sizes

    @property
    def search_seconds(self) -> float:
        """Longest traffic time of one search, seconds."""
        if self.max_trial_seconds is not None:
            return self.max_trial_seconds
        repeats = 1 if self.tst009 is None else self.tst009.max_r
        sums = (max(g.duration_sum_s, repeats * g.final_trial_s) for g in self.goals)
        return BUDGET_SUMS * sum(sums)

    def limits(self, max_load_fps: float, starts_fps: Sequence[float] = ()) -> SearchLimits:
        """What its searches must stay within, up to a load (frames/s per interface).

        A time budget is turned into seconds of traffic and waits around them. `starts_fps` are the
        lower bounds that the round before found, if each goal has one.
        """
        seconds, around = self.search_seconds, 0.0
        if self.time_budget_s is not None:
            seconds = self.time_budget_s
            around = self.trial.learning_wait_s + self.trial.settle_s + self.trial.drain_s
        return SearchLimits(
            min_load_fps=self.min_load_fps,
            max_load_fps=max_load_fps,
            max_trial_seconds=seconds,
            trial_overhead_s=around,
            steps=self.tst009.inputs(max_load_fps) if self.tst009 is not None else None,
            starts_fps=tuple(min(start, max_load_fps) for start in starts_fps),
            warm_up_s=self.warm_up_s,
            sweep=self.sweep if self.sweep.loads else None,
            tries=self.trial.repeats_when_limited + 1,
            short_tries=SHORT_TRIES,
        )
