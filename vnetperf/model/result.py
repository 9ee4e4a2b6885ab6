"""Results of a run, as results.json holds them, and the record of a redaction."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from vnetperf.model.base import Frozen
from vnetperf.model.outcomes import (
    AddressTable,
    BackToBack,
    ForwardingRate,
    LatencyAt,
    LossStep,
    Recovery,
    Reset,
    Soak,
    Spread,
    Transfers,
)
from vnetperf.model.profile import IMIX
from vnetperf.model.trial import Latency, TrialGaps, Verdict


class Redaction(Frozen):
    """What a copy of a run does not tell any more.

    Attributes:
        when: UTC, ISO 8601.
        values: Kind ("host name", "MAC address") -> number of different values that were replaced,
            each by the same token everywhere.
        kept: Kinds that were left on purpose.
        limited: What was replaced only where it is known to be a name, and why.
        dropped: Files of the run that the copy does not have -> why.
    """

    when: str
    values: dict[str, int] = Field(default_factory=dict)
    kept: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()
    dropped: dict[str, str] = Field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What a reader must know first."""
        counts = ", ".join(f"{number} x {kind}" for kind, number in self.values.items())
        return f"a redacted copy: values were replaced by tokens ({counts or 'none were found'})"


SCHEMA_VERSION = 1


class DirectionBound(Frozen):
    """A goal's result seen in one direction.

    Attributes:
        direction: "phy0->phy1", "phy0->vnf0.0" ...
        lower_bound_fps: Highest load that meets the goal, frames/s into this direction.
        upper_bound_fps: Lowest load above it that fails; None when none was seen.
        conditional_throughput_fps: Forwarding rate at the lower bound, frames/s.
        loss_ratio_at_lower_bound: Worst loss ratio of this direction in the trials at that load.
    """

    direction: str
    lower_bound_fps: float | None
    upper_bound_fps: float | None
    conditional_throughput_fps: float | None
    loss_ratio_at_lower_bound: float | None = None


class ThreadUse(Frozen):
    """What one busy thread did in the trial that stands for a lower bound.

    Attributes:
        role: "pmd", "vnf0", "tester" ...
        thread: Name of the thread.
        cpu: Processor it last ran on.
        user: Share of wall time in user mode, 0..1.
        system: Share of wall time in kernel mode, 0..1.
        involuntary_switches_per_s: Times a second it was descheduled against its will.
        events_per_s: Event of the processor ("dTLB load misses") -> times a second.
        events_per_frame: Event -> times for each frame that came through, those while it polled
            before the first and after the last frame with them; empty without frames.
    """

    role: str
    thread: str
    cpu: int
    user: float
    system: float
    involuntary_switches_per_s: float
    events_per_s: dict[str, float] = Field(default_factory=dict)
    events_per_frame: dict[str, float] = Field(default_factory=dict)


#: Share of discarded trials above which a number may be one of selected trials.
MOST_DISCARDED = 0.2


class BoundTrials(Frozen):
    """Trials at the load of a bound: a load that is tried until a trial is valid is a selection.

    Attributes:
        load_fps: The load, frames/s per interface.
        valid: Trials that classified it.
        discarded: Trials that were no measurement of the DUT, by verdict, and were repeated.
    """

    load_fps: float
    valid: int
    discarded: int

    @property
    def is_selection(self) -> bool:
        """Whether too many were discarded."""
        return self.discarded > MOST_DISCARDED * (self.valid + self.discarded)


class GoalResult(Frozen):
    """Result of one search goal; rates are the sum over the directions that send.

    Attributes:
        name: Name of the goal, e.g. "ndr".
        loss_ratio: Goal loss ratio, 0..1.
        exceed_ratio: Share of trial time at a load that may exceed the loss ratio.
        initial_trial_s: Length of the shortest trials, seconds; None in results of an older tool.
        final_trial_s: Length of the trials that count, seconds.
        duration_sum_s: Trial time needed to classify a load, seconds.
        width: Relative goal width.
        lower_bound_fps: Relevant lower bound, aggregate frames/s; None: no load met the goal.
        upper_bound_fps: Relevant upper bound, aggregate frames/s; None: no load failed.
        conditional_throughput_fps: RFC 9971 conditional throughput, aggregate frames/s.
        per_direction: The same for each direction.
        regular: True when both bounds exist and lie within the goal width.
        qualifier: "at least" when the maximum load met the goal, "at most" when the minimum failed.
        reason: Why the result is irregular; "" when it is regular.
        throughput_l1_bps: Lower bound as L1 bit/s, aggregate.
        latency: Latency per direction at the lower bound (last trial there), by direction.
        trials_at_lower_bound: Numbers of the trials at that load, as in trials.jsonl.
        at_lower_bound: How many trials classified the load of the lower bound, and how many were
            discarded there; None: no such bound, or not recorded.
        at_upper_bound: The same of the upper bound.
        gaps: How long the tester stood still in the trial that `latency` is of; None: not recorded.
        repeats: Lower bounds of all rounds, aggregate frames/s, where cases were repeated
            (`--interleave`); this result is that of the round in the middle. None for one round.
        threads: Busy threads at the lower bound (last of the longest trials there).
        uncollected: Collector, or count of the generator, -> "not measured: why", where there was
            nothing to tell.
    """

    name: str
    loss_ratio: float
    exceed_ratio: float
    initial_trial_s: float | None = None
    final_trial_s: float
    duration_sum_s: float
    width: float
    lower_bound_fps: float | None
    upper_bound_fps: float | None
    conditional_throughput_fps: float | None
    per_direction: tuple[DirectionBound, ...] = ()
    regular: bool
    qualifier: Literal["", "at least", "at most"] = ""
    reason: str = ""
    throughput_l1_bps: float | None = None
    latency: dict[str, Latency] = Field(default_factory=dict)
    trials_at_lower_bound: tuple[int, ...] = ()
    at_lower_bound: BoundTrials | None = None
    at_upper_bound: BoundTrials | None = None
    gaps: TrialGaps | None = None
    repeats: Spread | None = None
    threads: tuple[ThreadUse, ...] = ()
    uncollected: dict[str, str] = Field(default_factory=dict)


class Result(Frozen):
    """Result of one test of one scenario at one frame size.

    Attributes:
        scenario: "pvp_dpdk"; of a variant "pvp_dpdk,rx_queues=2".
        test: "throughput", "latency", "frame_loss", "back_to_back", "recovery", "reset", "mrr",
            "soak", "loss_profile", "forwarding_rate", "address_caching", "address_learning".
        frame_size: Octets including FCS; of a mix its mean, rounded. Of a transfer between sockets
            that failed those of a message, 0 where the tool chooses.
        imix: The mix of frame sizes, a genome (RFC 6985) or "7x64 4x594 1x1518"; "" for one size.
        mean_frame_size: Mean size of a mix, octets including FCS; None for one size.
        loads: Load of each direction as a share of a load per interface; empty for 1 each.
        status: "measured" or "not measured".
        why: Reason when not measured.
        failed: True when it is not measured because something broke; False when the testbed
            cannot carry it or the run was interrupted.
        algorithm: Search algorithm.
        search_inputs: What the search was given besides goals and loads, name -> text: StepSize,
            n, max(r) and z of TST009; the time budget and the waits that it counts.
        goals: One for each goal of the preset.
        media_max_fps: Theoretical maximum of the reference medium, aggregate frames/s.
        generator_max_fps: The generator's calibrated clean maximum, aggregate frames/s; or None.
        min_load_fps: Smallest load searched, frames/s per interface.
        max_load_fps: Largest load searched, frames/s per interface.
        directions: Number of interfaces that send.
        trial_count: Trials run.
        discarded: Those that were no measurement of the DUT, and were repeated or ended the test;
            None: not recorded.
        trial_seconds: Seconds of traffic.
        wall_seconds: Wall time of the search.
        verdicts: Verdict -> number of trials.
        latency_at: What "latency" found, one for each load.
        loss_steps: What "frame_loss" and "loss_profile" found, in the order of the loads.
        back_to_back: What "back_to_back" found.
        recovery: What "recovery" found.
        resets: What "reset" found, one for each thing that was reset.
        rates: What "mrr" and "forwarding_rate" found.
        soak: What "soak" found.
        addresses: What "address_caching" and "address_learning" found.
    """

    scenario: str
    test: str
    frame_size: int
    status: Literal["measured", "not measured"] = "measured"
    why: str = ""
    failed: bool = False
    algorithm: str = ""
    search_inputs: dict[str, str] = Field(default_factory=dict)
    goals: tuple[GoalResult, ...] = ()
    media_max_fps: float | None = None
    generator_max_fps: float | None = None
    min_load_fps: float | None = None
    max_load_fps: float | None = None
    directions: int = 2
    imix: str = ""
    mean_frame_size: float | None = None
    loads: tuple[float, ...] = ()
    trial_count: int = 0
    discarded: int | None = None
    trial_seconds: float = 0.0
    wall_seconds: float = 0.0
    verdicts: dict[Verdict, int] = Field(default_factory=dict)
    latency_at: tuple[LatencyAt, ...] = ()
    loss_steps: tuple[LossStep, ...] = ()
    back_to_back: BackToBack | None = None
    recovery: Recovery | None = None
    resets: tuple[Reset, ...] = ()
    rates: tuple[ForwardingRate, ...] = ()
    soak: Soak | None = None
    addresses: AddressTable | None = None

    @property
    def is_selection(self) -> bool:
        """Whether too many of all trials were discarded."""
        return (self.discarded or 0) > MOST_DISCARDED * self.trial_count

    @property
    def size_name(self) -> str:
        """The frame size in a table: "64", or "imix"."""
        if not self.frame_size:
            return "-"
        return IMIX if self.imix else str(self.frame_size)

    @property
    def case(self) -> tuple[str, str, int]:
        """Scenario, test, frame size."""
        return self.scenario, self.test, self.frame_size

    @property
    def size_text(self) -> str:
        """The frame size in a sentence: "64 octets", or a mix with its mean."""
        if not self.frame_size:
            return "no size of its own"
        if not self.imix:
            return f"{self.frame_size} octets"
        return f"IMIX {self.imix} (mean {self._mean} octets)"

    @property
    def size_short(self) -> str:
        """The frame size in a few characters: "64 octets", "imix, mean 354.2"."""
        if not self.imix:
            return f"{self.frame_size} octets"
        return f"{IMIX}, mean {self._mean}"

    @property
    def _mean(self) -> str:
        known = self.mean_frame_size
        return str(self.frame_size) if known is None else f"{known:.1f}"

    @property
    def in_sum(self) -> float:
        """All interfaces' load as a multiple of the load per interface."""
        return sum(self.loads) if self.loads else self.directions


class TrialPoint(Frozen):
    """One trial as a report plots and lists it.

    Attributes:
        number: Number of the trial in trials.jsonl, from 1.
        scenario: "pvp_dpdk".
        test: "throughput".
        frame_size: Octets including FCS.
        load_fps: Intended load per sending interface, frames/s.
        duration_s: Seconds.
        loss_ratio: Worse direction's loss ratio; None when there is no number.
        forwarded_fps: Aggregate forwarding rate, frames/s; None when there is no number.
        offered_ratio: Offered over intended frames.
        verdict: Verdict.
        reason: Why it is not VALID.
        lost_at: Where lost frames died: hop or ring name -> frames.
        burst: Frames that each stream sent back to back; 0 for traffic paced by the load.
        unsent: Frames that the tester gave up; None when there is no number.
        poll_gap_s: Longest time in which the tester did not receive; None: not recorded. So is the
            next.
        send_gap_s: Longest time in which the tester did not send though a frame was due.
        late: Frames of it that came after its end, found in the next trial: they were counted as
            lost. None: there was no next trial.
        disturbed: What disturbed the machine during the trial.
    """

    number: int
    scenario: str
    test: str
    frame_size: int
    load_fps: float
    duration_s: float
    loss_ratio: float | None
    forwarded_fps: float | None
    offered_ratio: float | None
    verdict: Verdict
    reason: str = ""
    lost_at: dict[str, int] = Field(default_factory=dict)
    burst: int = 0
    unsent: int | None = None
    poll_gap_s: float | None = None
    send_gap_s: float | None = None
    late: int | None = None
    disturbed: tuple[str, ...] = ()


class LedgerEntry(Frozen):
    """One clause of a standard and how this run stands to it.

    Attributes:
        clause: "RFC 2544 section 24".
        requirement: What the clause asks, in a few words.
        status: "met" | "deviated" | "not applicable".
        value: What was done.
        reason: Why it deviates.
        test: The test that it holds for; "" for the whole run. So do those that follow.
        scenario: The scenario; "" for all of them.
        frame_size: Octets including FCS; 0 for all sizes.
    """

    clause: str
    requirement: str
    status: Literal["met", "deviated", "not applicable"]
    value: str = ""
    reason: str = ""
    test: str = ""
    scenario: str = ""
    frame_size: int = 0

    @property
    def scope(self) -> str:
        """What it holds for, in words: "latency, pvp_dpdk, 64 octets"; "" for the whole run."""
        size = f"{self.frame_size} octets" if self.frame_size else ""
        return ", ".join(part for part in (self.test, self.scenario, size) if part)


class CalibrationPoint(Frozen):
    """The generator looped to itself over one kind of wire, at one frame size.

    Attributes:
        frame_size: Octets including FCS.
        max_clean_fps: Highest rate with every frame sent and received, both ports, frames/s.
        latency_ns: Median latency at 1 % of that rate, nanoseconds.
        latency_min_ns: Smallest latency, nanoseconds.
        pacing_error: Largest relative difference of offered to intended rate over the rates tried.
        max_burst: Most frames handed over in one call at 10 % of the maximum.
        smallest_burst_gap_ns: Mean gap of an exact-count burst at full rate, nanoseconds.
    """

    frame_size: int
    max_clean_fps: float
    latency_ns: float
    latency_min_ns: float
    pacing_error: float
    max_burst: int
    smallest_burst_gap_ns: float | None = None


class Calibration(Frozen):
    """A calibration of the generator on a testbed.

    Attributes:
        generator: Name and version.
        wire: Kind of wire.
        cores: Processors the generator used.
        when: UTC time, ISO 8601.
        points: One for each frame size.
    """

    generator: str
    wire: str
    cores: tuple[int, ...]
    when: str
    points: tuple[CalibrationPoint, ...]

    def at(self, frame_size: int) -> CalibrationPoint | None:
        """The point of a frame size.

        Args:
            frame_size: Octets including FCS.

        Returns:
            The point, None when that size was not calibrated.
        """
        return next((p for p in self.points if p.frame_size == frame_size), None)


class ScenarioFacts(Frozen):
    """What was deployed for a scenario.

    Attributes:
        scenario: "pvp_dpdk".
        plan: The plan as JSON values (ports, wires, cores, memory, commands).
        facts: What the backends say of themselves: versions, launch lines, flows, rings.
        path_check: Result of the path check, per direction.
        deploy_s: Seconds from nothing to ready.
        error: Why it could not be deployed; "".
    """

    scenario: str
    plan: dict[str, Any] = Field(default_factory=dict)
    facts: dict[str, Any] = Field(default_factory=dict)
    path_check: dict[str, Any] = Field(default_factory=dict)
    deploy_s: float = 0.0
    error: str = ""


class ComparedVariant(Frozen):
    """One of the variants that a comparison sets side by side.

    Attributes:
        variant: "rx_queues=2".
        scenario: Its results' scenario, "pvp_dpdk,rx_queues=2".
        typed: What it lays over the run's settings, as a user would type it.
        skipped: Why the testbed cannot carry it; "".
    """

    variant: str
    scenario: str
    typed: tuple[str, ...] = ()
    skipped: str = ""


class ComparisonResult(Frozen):
    """Variants of one scenario that are to be compared with each other.

    Attributes:
        name: The test case, "test_multiqueue::test_throughput_by_queues".
        title: What it finds out; "" when the test case does not say.
        scenario: The scenario without a variant, "pvp_dpdk".
        variants: In the order in which they are to be shown, those without a result too.
    """

    name: str
    title: str = ""
    scenario: str
    variants: tuple[ComparedVariant, ...]


class RunIdentity(Frozen):
    """Who and what made a run.

    Attributes:
        tool: "vnetperf VERSION".
        git: Commit of the tool, or "unknown: why".
        command: Command line.
        started: UTC, ISO 8601.
        ended: UTC, ISO 8601; "" while running or when interrupted.
        isolation: RFC 6815 isolation statement of the testbed.
        testbed: Name of the testbed.
        notes: The operator's notes.
    """

    tool: str
    git: str
    command: str
    started: str
    ended: str = ""
    isolation: str = ""
    testbed: str = ""
    notes: str = ""


class RunResults(Frozen):
    """The whole of results.json.

    Attributes:
        schema_version: Version of this layout.
        run: Identity of the run.
        preset: Name of the preset.
        benchmark: False for presets that are no benchmark (smoke).
        preset_note: The preset's own first line for reports.
        warnings: What a reader must know first, e.g. shared cores or an interrupted run.
        settings: Effective settings, key -> {"value", "source"}.
        environment: Machine facts; values that could not be read are "unknown: why".
        calibrations: The generator's calibrations, one for each kind of wire; empty when not done.
        scenarios: What was deployed.
        results: One entry per scenario, test and frame size.
        comparisons: Which of the scenarios are variants to be compared.
        trials: Every trial in order.
        transfers: Users' own traffic, one entry for each scenario in which it was measured.
        deviations: Clauses that were not met.
        ledger: All clauses looked at.
        redacted: What this copy of the run does not tell; None for the run itself.
    """

    schema_version: int = SCHEMA_VERSION
    run: RunIdentity
    preset: str
    benchmark: bool = True
    preset_note: str = ""
    warnings: tuple[str, ...] = ()
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)
    calibrations: tuple[Calibration, ...] = ()
    scenarios: tuple[ScenarioFacts, ...] = ()
    results: tuple[Result, ...] = ()
    comparisons: tuple[ComparisonResult, ...] = ()
    trials: tuple[TrialPoint, ...] = ()
    transfers: tuple[Transfers, ...] = ()
    deviations: tuple[LedgerEntry, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    redacted: Redaction | None = None

    @field_validator("schema_version")
    @classmethod
    def _not_newer(cls, version: int) -> int:
        if version > SCHEMA_VERSION:
            raise ValueError(f"written by a newer vnetperf (layout {version} > {SCHEMA_VERSION})")
        return version
