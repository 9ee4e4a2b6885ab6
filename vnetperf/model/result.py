"""Results of a run, as results.json holds them, and the record of a redaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field, field_validator

from vnetperf.model.base import Frozen
from vnetperf.model.calibration import Calibration
from vnetperf.model.figures import Outcome
from vnetperf.model.machine_load import KERNEL as KERNEL  # noqa: PLC0414 - a role of results
from vnetperf.model.outcomes import (
    MOST_DISCARDED,
    AddressTable,
    BackToBack,
    CpuLoad,
    ForwardingRate,
    LatencyAt,
    LossStep,
    Recovery,
    Reset,
    Service,
    SessionTable,
    Soak,
    Spread,
)
from vnetperf.model.profile import IMIX
from vnetperf.model.scenario import without_testbed
from vnetperf.model.transfer import Transfers
from vnetperf.model.trial import Latency, SearchPhase, TesterTurns, TrialGaps, Verdict
from vnetperf.model.units import Unit, percent


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
#: RFC 2544 section 24: the least length of a trial that counts, seconds.
WHOLE_TRIAL_S = 60.0


class DirectionBound(Frozen):
    """A goal's result seen in one direction.

    Attributes:
        direction: "phy0->phy1", "phy0->vnf0.0" ...
        lower_bound_fps: Highest load that meets the goal as it was offered, frames/s into this
            direction.
        upper_bound_fps: Lowest load above it that fails, as offered; None when none was seen.
        conditional_throughput_fps: Forwarding rate at the lower bound, frames/s.
        loss_ratio_at_lower_bound: Worst loss ratio of this direction in the trials at that load.
        exceeds_goal: Whether the trials there classify the load as too much for this direction
            alone: RFC 9971 classifies by all directions together.
    """

    direction: str
    lower_bound_fps: float | None
    upper_bound_fps: float | None
    conditional_throughput_fps: float | None
    loss_ratio_at_lower_bound: float | None = None
    exceeds_goal: bool = False


class ThreadUse(Frozen):
    """What one busy thread did in the trial that stands for a lower bound.

    Attributes:
        role: "pmd", "vnf0", "tester" ...
        thread: Name of the thread.
        cpu: Processor it last ran on.
        user: Share of wall time in user mode, 0..1.
        system: Share of wall time in kernel mode, 0..1.
        involuntary_switches_per_s: Times a second it was descheduled against its will.
        voluntary_switches_per_s: Times a second it gave its processor up by itself; None: not
            recorded.
        waited: Share of the time in which it could run and had no processor, 0..1; None likewise.
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
    voluntary_switches_per_s: float | None = None
    waited: float | None = None
    events_per_s: dict[str, float] = Field(default_factory=dict)
    events_per_frame: dict[str, float] = Field(default_factory=dict)


class NodeUse(Frozen):
    """What a node of the vSwitch's graph did in the trial that stands for a lower bound.

    Attributes:
        name: Its name.
        packets: Packets that it was given, or, of an input node, took from a port.
        clocks_per_packet: TSC cycles in it, divided by packets; of an input node those of polls
            without packets, too. None without packets.
        packets_per_call: Vector size: packets, divided by calls; None without calls.
        input: Whether it is an input node.
    """

    name: str
    packets: int
    clocks_per_packet: float | None
    packets_per_call: float | None
    input: bool = False


class DatapathUse(Frozen):
    """What a thread of the vSwitch counted by itself in the trial that stands for a lower bound.

    Attributes:
        thread: Name of the thread.
        packets: Packets that it took from ports; a frame counts once for each port it came in by.
        cycles_range: Least and largest `cycles_per_packet` of all full-length trials at the bound;
            None where there is one trial, or none tells.
        cycles_per_packet: TSC cycles of rounds with packets, divided by packets; of a graph those
            of its nodes but for the input nodes. They are wall time: cycles in which the thread had
            no processor are among them. None without any.
        busy: Share of its cycles in rounds with packets, 0..1, wall time too; None without any
            cycle, and where idle ones are not told apart.
        ran: Share of the trial in which the thread had a processor, 0..1, of several the mean;
            None: not known.
        lookups: How a packet's rule was found -> share of all lookups, 0..1.
        nodes: Nodes of its graph that had packets, the most expensive first.
    """

    thread: str
    packets: int
    cycles_per_packet: float | None
    busy: float | None
    cycles_range: tuple[float, float] | None = None
    ran: float | None = None
    lookups: dict[str, float] = Field(default_factory=dict)
    nodes: tuple[NodeUse, ...] = ()


class BoundTrials(Frozen):
    """Trials at the load of a bound: a load that is tried until a trial decides is a selection.

    Attributes:
        load_fps: The load, frames/s per interface.
        valid: Trials that classified it.
        discarded: Trials that said nothing of it for this goal, because of the tester.
        could_differ: Whether the load would have another class if all of these had shown the
            opposite of what the others did.
    """

    load_fps: float
    valid: int
    discarded: int
    could_differ: bool = True

    @property
    def is_selection(self) -> bool:
        """Whether so many were discarded that the bound may be what was selected."""
        share = MOST_DISCARDED * (self.valid + self.discarded)
        return self.could_differ and self.discarded > share


class RoundBounds(Frozen):
    """What one of several searches of a deployment found for a goal; see `GoalResult`.

    Attributes:
        round: Its number, from 1.
        search: Number of the search in the log.
        lower_bound_fps: Relevant lower bound as it was offered, aggregate frames/s.
        upper_bound_fps: Relevant upper bound as it was offered, aggregate frames/s.
        lower_bound_load_fps: The load that was intended at the lower bound, aggregate frames/s.
        upper_bound_load_fps: The same at the upper one.
        regular: Whether the search is regular.
        qualifier: "at least" or "at most", if a limit of load ended it.
        reason: Why it is not regular; "".
    """

    round: int
    search: int
    lower_bound_fps: float | None
    upper_bound_fps: float | None
    lower_bound_load_fps: float | None
    upper_bound_load_fps: float | None
    regular: bool
    qualifier: Literal["", "at least", "at most"] = ""
    reason: str = ""


class GoalResult(Frozen):
    """Result of one search goal; rates are the sum over the directions that send.

    Of several rounds it is that of the round whose lower bound is published: the median one, or the
    one with the least where no trial may exceed the loss ratio (exceed ratio 0), since a median
    would lie above loads that another round saw lose.

    Attributes:
        name: Name of the goal, e.g. "ndr".
        loss_ratio: Goal loss ratio, 0..1.
        exceed_ratio: Share of trial time at a load that may exceed the loss ratio.
        initial_trial_s: Length of the shortest trials, seconds.
        final_trial_s: Length of the trials that count, seconds.
        duration_sum_s: Trial time needed to classify a load, seconds.
        width: Relative goal width.
        lower_bound_fps: Relevant lower bound as it was offered: the least in its trials, aggregate
            frames/s; None: no load met the goal.
        upper_bound_fps: Relevant upper bound as it was offered: the most in its trials, aggregate
            frames/s; None: no load failed.
        lower_bound_load_fps: The load that was intended there, aggregate frames/s; None where there
            is no bound.
        upper_bound_load_fps: See there.
        conditional_throughput_fps: RFC 9971 conditional throughput, aggregate frames/s.
        per_direction: The same for each direction.
        regular: True when both bounds exist and lie within the goal width (RFC 9971), and others
            took less than the width of the pollers' processors, in each round.
        qualifier: "at least" when the maximum load met the goal, or the generator offered no more
            than about the lower bound; "at most" when the minimum load failed.
        reason: Why the result is irregular, or not repeatable; "" when it is neither.
        throughput_l1_bps: Lower bound as L1 bit/s, aggregate; None without a bound, and where the
            wires have no speed of their own.
        latency: Latency per direction at the lower bound (of `trial`), by direction.
        latency_range_ns: Direction -> least and largest median latency of all full-length trials at
            the lower bound, nanoseconds; empty where none is known.
        trial: Number of the trial that stands for the lower bound: of all full-length ones there
            the one whose mean latency is in the middle; 0: none.
        loss_at_lower_bound: Share of the frames that all trials at the lower bound lost together,
            0..1; None: there is none, or not recorded.
        loss_free_fps: The largest load, aggregate frames/s, at which trials of the goal's whole
            duration sum lost no frame, nor did any at a lower load; None: there is none.
        wavers_at_fps: The largest load, aggregate frames/s, that some trials of a search carried
            and of which others lost 5 % more than the goal allows; None: there is none.
        trials_at_lower_bound: Numbers of the trials at that load, as in trials.jsonl.
        at_lower_bound: How many trials classified the load of the lower bound, and how many were
            discarded there; None: no such bound, or not recorded.
        at_upper_bound: The same of the upper bound.
        gaps: How long the tester stood still in `trial`; None: not recorded.
        threads: Busy threads in that trial.
        turns: How the tester shared its processor in that trial; None: it has one for itself, or
            not recorded.
        datapath: What the vSwitch's threads counted by themselves in that trial.
        uncollected: Collector, or count of the generator, -> "not measured: why", where there was
            nothing to tell.
        search: Number in the log of the search that it is of: with several rounds that of the one
            that is shown; 0: not recorded.
        rounds: What each round found; empty where there was one.
        repeatable: Whether the largest upper bound of the rounds is within two widths of the least
            lower one; None where there was one.
    """

    name: str
    loss_ratio: float
    exceed_ratio: float
    initial_trial_s: float
    final_trial_s: float
    duration_sum_s: float
    width: float
    lower_bound_fps: float | None
    upper_bound_fps: float | None
    lower_bound_load_fps: float | None = None
    upper_bound_load_fps: float | None = None
    conditional_throughput_fps: float | None
    per_direction: tuple[DirectionBound, ...] = ()
    regular: bool
    qualifier: Literal["", "at least", "at most"] = ""
    reason: str = ""
    throughput_l1_bps: float | None = None
    latency: dict[str, Latency] = Field(default_factory=dict)
    latency_range_ns: dict[str, tuple[float, float]] = Field(default_factory=dict)
    trial: int = 0
    loss_at_lower_bound: float | None = None
    loss_free_fps: float | None = None
    wavers_at_fps: float | None = None
    trials_at_lower_bound: tuple[int, ...] = ()
    at_lower_bound: BoundTrials | None = None
    at_upper_bound: BoundTrials | None = None
    gaps: TrialGaps | None = None
    threads: tuple[ThreadUse, ...] = ()
    turns: TesterTurns | None = None
    datapath: tuple[DatapathUse, ...] = ()
    uncollected: dict[str, str] = Field(default_factory=dict)
    search: int = 0
    rounds: tuple[RoundBounds, ...] = ()
    repeatable: bool | None = None

    @property
    def least_fps(self) -> float | None:
        """Least lower bound of the rounds, aggregate frames/s; None where one has none."""
        lowers = [goal.lower_bound_fps for goal in self.rounds] or [self.lower_bound_fps]
        measured = [lower for lower in lowers if lower is not None]
        return min(measured) if len(measured) == len(lowers) else None

    @property
    def most_fps(self) -> float | None:
        """Largest upper bound of the rounds, aggregate frames/s; None where one has none."""
        uppers = [goal.upper_bound_fps for goal in self.rounds] or [self.upper_bound_fps]
        measured = [upper for upper in uppers if upper is not None]
        return max(measured) if len(measured) == len(uppers) else None

    @property
    def relative_width(self) -> float | None:
        """How far the bounds' intended loads lie apart, as a share of the upper one.

        The search steps by intended loads; what was offered at a bound may be a little less. None
        where a bound is missing.
        """
        low, high = self.lower_bound_load_fps, self.upper_bound_load_fps
        if low is None or high is None:  # only what was offered is known
            low, high = self.lower_bound_fps, self.upper_bound_fps
        return None if low is None or not high else 1.0 - low / high

    @property
    def caveat(self) -> str:
        """What a lower bound of this goal is, where it is no throughput of RFC 2544; else "".

        That has no loss (section 26.1) in trials of 60 s (section 24), and RFC 9971 no exceeding.
        """
        if not self.loss_ratio and not self.exceed_ratio and self.final_trial_s >= WHOLE_TRIAL_S:
            return ""
        lost = f"at most {percent(self.loss_ratio)} lost" if self.loss_ratio else "no loss"
        trials = f"trials of {self.final_trial_s:g} s"
        if self.exceed_ratio:
            share = 1.0 - self.exceed_ratio
            often = "half" if share == 0.5 else percent(share)
            return f"{lost} in {often} of the {trials}"
        return f"{lost} in {trials}"

    @property
    def mark(self) -> Literal["", "irregular", "not repeatable"]:
        """What must stand beside each of its numbers."""
        if not self.regular:
            return "irregular"
        return "not repeatable" if self.repeatable is False else ""


class Observation(Frozen):
    """What one deployment gave for a number: the unit of repetition.

    Attributes:
        round: The round that it was measured in, from 1.
        value: The number, the mean of repeats within the deployment; None: a bound only.
        low: Lower end of what it leaves open; None where nothing bounds it.
        high: Upper end.
        qualifier: "at least" or "at most" where it is censored, "not repeatable" where rounds of
            the deployment found a range.
        load_fps: Load that it was measured at, aggregate frames/s, taken of the throughput of its
            own deployment; None where the number is a load itself.
    """

    round: int
    value: float | None
    low: float | None = None
    high: float | None = None
    qualifier: Literal["", "at least", "at most", "not repeatable"] = ""
    load_fps: float | None = None


class RepeatedNumber(Frozen):
    """One number of a test, as several deployments gave it.

    Attributes:
        label: Its name where runs are compared: "ndr", "mean at throughput phy0->phy1".
        unit: "fps", "ns", "s", "frames", "ratio" ...
        main: False for what stands beside the number that the test is for.
        observations: One for each deployment that has it.
        spread: Mean and interval over the deployments; None where one of them is censored or a
            range: then there is no mean.
    """

    label: str
    unit: Unit
    main: bool = False
    observations: tuple[Observation, ...] = ()
    spread: Spread | None = None

    @property
    def censored(self) -> dict[str, int]:
        """Qualifier -> number of deployments with it."""
        return dict(
            Counter(
                observation.qualifier for observation in self.observations if observation.qualifier
            )
        )


def total_if_known(counts: Iterable[int | None]) -> int | None:
    """The sum of counts; None where one of them is not known, or there are none."""
    numbers = list(counts)
    measured = [count for count in numbers if count is not None]
    return sum(measured) if numbers and len(measured) == len(numbers) else None


class FrameFaults(Frozen):
    """Frames that came back otherwise than they were sent, in all VALID and INCONSISTENT trials.

    Of a test that was deployed several times, in all rounds, those that failed among them.

    RFC 2544 section 10. Each is None where it was not counted or not recorded.

    Attributes:
        duplicated: Further copies of frames already received.
        reordered: Frames behind a later one of their stream (RFC 4737).
        late: Own frames too old to tell a duplicate from a new frame; lost.
        misrouted: Own frames at a wrong port; lost.
        altered: Own frames of another length or payload than was sent, or behind a NAT with other
            addresses or ports than they must have; lost.
        corrupted: Own frames with a stream or number that was never sent.
        foreign: Frames without the generator's signature.
        stale: Own frames of an earlier trial.
        verified: Frames whose payload was compared with what was sent; the length is of all.
    """

    duplicated: int | None = None
    reordered: int | None = None
    late: int | None = None
    misrouted: int | None = None
    altered: int | None = None
    corrupted: int | None = None
    foreign: int | None = None
    stale: int | None = None
    verified: int | None = None

    @property
    def is_counted(self) -> bool:
        """Whether any of them was."""
        return any(count is not None for _, count in self)

    @classmethod
    def pooled(cls, parts: Iterable[FrameFaults]) -> FrameFaults:
        """Sums over several deployments; None where one is not known, or there are none."""
        all_parts = list(parts)
        return cls(
            **{n: total_if_known(getattr(part, n) for part in all_parts) for n in cls.model_fields}
        )


class Deployments(Frozen):
    """How often a case was deployed and measured (`--repeat N`), and what each deployment gave.

    Attributes:
        planned: Deployments that there were to be.
        attempted: Those that were begun.
        measured: Those that gave a result.
        failures: Round -> why it has no result.
        selected: Round -> why its numbers may be those of selected trials.
        shown: Round whose figures the rest of the result are: the one whose throughput is in the
            middle, so that loads and what was measured at them are of one deployment; 0: none.
        numbers: Every number over all deployments; empty for a single one.
        faults: Round -> its frames not as they were sent; empty for a single deployment. The
            result's own are those of all of them.
    """

    planned: int = 1
    attempted: int
    measured: int
    failures: dict[int, str] = Field(default_factory=dict)
    selected: dict[int, str] = Field(default_factory=dict)
    shown: int = 0
    numbers: tuple[RepeatedNumber, ...] = ()
    faults: dict[int, FrameFaults] = Field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What failed, in a sentence; "" when nothing did."""
        if not self.failures:
            return ""
        reasons = dict.fromkeys(
            reason.splitlines()[0] for reason in self.failures.values() if reason
        )
        return (
            f"{len(self.failures)} of {self.attempted} deployments gave no result"
            f" ({'; '.join(reasons) or 'no reason was recorded'})"
        )


def _rank_goal(goal: GoalResult) -> tuple[bool, bool]:
    """The order of goals by how near they are to RFC 2544's throughput: no loss in any trial."""
    lossy = goal.loss_ratio > 0
    return lossy, not lossy and goal.exceed_ratio > 0


def throughput_goal(goals: Iterable[GoalResult]) -> GoalResult | None:
    """The goal whose lower bound other tests take for the throughput (RFC 2544 section 26.1).

    The first that allows no loss in any trial, else the first without loss, else the first;
    None without goals.
    """
    return min(goals, key=_rank_goal, default=None)


class Result(Frozen):
    """Result of one test of one scenario at one frame size.

    Attributes:
        scenario: "pvp_dpdk"; of a variant "pvp_dpdk,rx_queues=2".
        test: "throughput", "latency", "frame_loss", "back_to_back", "recovery", "reset", "mrr",
            "soak", "loss_profile", "latency_load", "forwarding_rate", "address_caching",
            "address_learning", "service", "connection_rate", "session_capacity", "cpu_load".
        frame_size: Octets including FCS; of a mix its mean, rounded. Of a transfer between sockets
            that failed those of a message, 0 where the tool chooses.
        imix: The mix of frame sizes, a genome (RFC 6985) or "7x64 4x594 1x1518"; "" for one size.
        mean_frame_size: Mean size of a mix, octets including FCS; None for one size.
        loads: Load of each direction as a share of a load per interface; empty for 1 each.
        status: "measured" or "not measured".
        of: Of a transfer that was not measured: what a run may have several of ("8 instances").
        why: Reason when not measured.
        failed: True when it is not measured because something broke; False when the testbed
            cannot carry it or the run was interrupted.
        algorithm: Search algorithm.
        search_inputs: What the search was given besides goals and loads, name -> text: StepSize,
            n, max(r) and z of TST009; the time budget and the waits that it counts.
        test_inputs: Of another test the parameters that its numbers depend on, name -> value.
        goals: One for each goal of the preset.
        media_max_fps: Theoretical maximum of the medium, aggregate frames/s; None where the wires
            have no speed of their own.
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
        faults: Frames that came back otherwise than they were sent.
        latency_at: What "latency" and "latency_load" found, one for each load.
        loss_steps: What "frame_loss" and "loss_profile" found, in the order of the loads.
        back_to_back: What "back_to_back" found.
        recovery: What "recovery" found.
        resets: What "reset" found, one for each thing that was reset.
        rates: What "mrr" and "forwarding_rate" found.
        soak: What "soak" found.
        addresses: What "address_caching" and "address_learning" found.
        sessions: What "connection_rate" and "session_capacity" found.
        service: Of the service test: steps of a committed rate held against limits (ITU-T Y.1564).
        cpu_load: What "cpu_load" found.
        outcome: What a test of a plugin found, which the log says; results.json has it of these.
        deployments: Over how many deployments; None: not recorded.
        of_other_deployment: Whether its loads are shares of the throughput of another deployment,
            in any round.
        search: Number in the log of the search or other test that the figures are of, but for those
            of `deployments` and `faults`; 0: none, or not recorded.
    """

    scenario: str
    test: str
    frame_size: int
    status: Literal["measured", "not measured"] = "measured"
    of: str = ""
    why: str = ""
    failed: bool = False
    algorithm: str = ""
    search_inputs: dict[str, str] = Field(default_factory=dict)
    test_inputs: dict[str, float] = Field(default_factory=dict)
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
    faults: FrameFaults = Field(default_factory=FrameFaults)
    latency_at: tuple[LatencyAt, ...] = ()
    loss_steps: tuple[LossStep, ...] = ()
    back_to_back: BackToBack | None = None
    recovery: Recovery | None = None
    resets: tuple[Reset, ...] = ()
    rates: tuple[ForwardingRate, ...] = ()
    soak: Soak | None = None
    addresses: AddressTable | None = None
    sessions: SessionTable | None = None
    service: Service | None = None
    cpu_load: CpuLoad | None = None
    outcome: Outcome | None = None
    deployments: Deployments | None = None
    of_other_deployment: bool = False
    search: int = 0

    @property
    def without_outcomes(self) -> Result:
        """What it is of and what became of it, without anything that was measured."""
        return self.model_copy(update=_NO_OUTCOMES)

    @property
    def throughput_goal(self) -> GoalResult | None:
        """The goal whose lower bound other tests take for the throughput; None without goals."""
        return throughput_goal(self.goals)

    def unmet(self, goal: GoalResult) -> str:
        """State that no load met a goal, down to the smallest load if that was tried, and why."""
        down = f", down to {self.min_load_fps:.0f} frames/s per interface"
        met = f"goal {goal.name}: no load met a loss ratio of {goal.loss_ratio:g}"
        return f"{met}{down if goal.qualifier == 'at most' else ''} ({goal.reason})"

    @property
    def selected(self) -> str:
        """Why all numbers of a test may be those of selected trials; "" if not, and of goals."""
        if not self.goals and (self.discarded or 0) > MOST_DISCARDED * self.trial_count:
            return f"{self.discarded} of {self.trial_count} trials were discarded"
        return ""

    @property
    def irregular(self) -> str:
        """Why all numbers of a test are irregular; "": they are not, or goals are judged singly."""
        reasons = [self.selected] if self.selected else []
        if self.deployments is not None:
            others = self.deployments.selected.items()
            reasons += [
                f"round {n}: {reason}" for n, reason in others if n != self.deployments.shown
            ]
        if self.of_other_deployment:
            reasons.append("its loads are shares of the throughput of another deployment")
        return "; ".join(reasons)

    @property
    def size_name(self) -> str:
        """The frame size in a table: "64", or "imix"."""
        if not self.frame_size:
            return "-"
        return IMIX if self.imix else str(self.frame_size)

    @property
    def full_size_name(self) -> str:
        """The same with which of several transfers it is of: "-, 8 instances"."""
        return f"{self.size_name}, {self.of}" if self.of else self.size_name

    @property
    def case(self) -> tuple[str, str, int]:
        """Scenario, test, frame size."""
        return self.scenario, self.test, self.frame_size

    @property
    def identity(self) -> tuple[str, str, int, str]:
        """What no other result of its run has: its case, and which of several transfers of that."""
        return (*self.case, self.of)

    @property
    def size_text(self) -> str:
        """The size in a sentence: "64 octets", "64 octets, 8 instances", or a mix with its mean."""
        if self.imix:
            return f"IMIX {self.imix} (mean {self._mean} octets)"
        size = f"{self.frame_size} octets" if self.frame_size else "no size of its own"
        return f"{size}, {self.of}" if self.of else size

    @property
    def size_short(self) -> str:
        """The frame size in a few characters: "64 octets", "imix, mean 354.2"."""
        return f"{IMIX}, mean {self._mean}" if self.imix else f"{self.frame_size} octets"

    @property
    def _mean(self) -> str:
        mean_size = self.mean_frame_size
        return str(self.frame_size) if mean_size is None else f"{mean_size:.1f}"

    @property
    def in_sum(self) -> float:
        """All interfaces' load as a multiple of the load per interface."""
        return sum(self.loads) if self.loads else self.directions


#: Roles that stand for all processors in a trial's processor use, and for programs that are no part
#: of the deployment.
MACHINE, OTHERS = "machine", "others"


#: What a result has besides what it is of, and what became of it.
_OUTCOMES = (
    *("search_inputs", "test_inputs", "goals", "latency_at", "loss_steps", "back_to_back"),
    *("recovery", "resets", "rates", "soak", "addresses", "sessions", "service", "cpu_load"),
    "outcome",
)
_NO_OUTCOMES = {
    name: field.get_default(call_default_factory=True)
    for name, field in Result.model_fields.items()
    if name in _OUTCOMES
}


class RoleUse(Frozen):
    """Processor use of one role in one trial, in processors: 1 is all the time of one.

    Attributes:
        role: "pmd", "vnf0", "tester" ...: its busy threads; "kernel": interrupts, soft interrupts
            and threads of the kernel; "others": programs that are no part of the deployment;
            "machine": everything on all processors. Of other hosts with their name before it.
        user: In user mode, guests' time included; None: not recorded, as of "kernel", whose part
            in it nothing counts, and of "others". So is all that follows.
        system: In kernel mode; of threads with what soft interrupts took on them, where the kernel
            does not tell it apart. Of "kernel" that of its threads alone.
        softirq: In soft interrupts of the processors that its threads ran on last, whoever caused
            them.
        guest: As virtual processors of guests.
        steal: Taken by a hypervisor from those processors.
        processors: Their numbers.
        shared_with: Other roles on one of them, to which softirq and steal belong as well.
        busy: Its own work: the time that its threads ran, less the interrupts that came upon them,
            which are the kernel's. Those of all roles add up to the machine's: of "others" it is
            what is left of that, below 0 where the kernel's own counts disagree.
        waiting: Time that its threads could run and had no processor.
        switches_per_s: Times a second that its threads gave their processors up, by themselves or
            not, in switches and not in processors.
        backlog_dropped: Of "machine": frames that found the kernel's queues between interfaces
            full, of all namespaces.
        backlog_squeezed: Of "machine": times that it left frames for later, its budget being spent.
    """

    role: str
    user: float | None = None
    system: float | None = None
    softirq: float | None = None
    guest: float | None = None
    steal: float | None = None
    processors: tuple[int, ...] = ()
    shared_with: tuple[str, ...] = ()
    busy: float | None = None
    waiting: float | None = None
    switches_per_s: float | None = None
    backlog_dropped: int | None = None
    backlog_squeezed: int | None = None


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
        load_loss_ratio: Loss ratio of all directions together, by which a search classifies; None
            likewise, or not recorded.
        forwarded_fps: Aggregate forwarding rate, frames/s; None when there is no number.
        offered_ratio: Offered over intended frames, of all directions together.
        least_offered_ratio: The same of the direction of which the smallest share was offered;
            None when there is no number, or not recorded.
        verdict: Verdict.
        reason: Why it is not VALID, or what of a valid one its reader has to know.
        lost_at: Where lost frames died: hop or ring name -> frames.
        burst: Frames that each stream sent back to back; 0 for traffic paced by the load.
        phase: Purpose of a trial: "" finds bounds, "sweep" looks for loss below them, "warm-up"
            classifies nothing, "throughput" tries the load on which another test depends.
        unsent: Frames that the tester gave up; None when there is no number.
        poll_gap_s: Longest time in which the tester did not receive; None: not recorded. So is the
            next.
        send_gap_s: Longest time in which the tester did not send though a frame was due.
        late: Frames of it that came after its end, found in the next trial: they were counted as
            lost. None: there was no next trial in the log.
        disturbed: What disturbed the machine during the trial.
        cpu: Processor use by role; empty: not recorded.
        watts: Part of the machine -> its mean power; empty: nothing meters it, or not recorded.
        search: Number of the search or other test that it belongs to; 0: not recorded.
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
    phase: SearchPhase = ""
    unsent: int | None = None
    poll_gap_s: float | None = None
    send_gap_s: float | None = None
    late: int | None = None
    disturbed: tuple[str, ...] = ()
    cpu: tuple[RoleUse, ...] = ()
    watts: dict[str, float] = Field(default_factory=dict)
    search: int = 0
    load_loss_ratio: float | None = None
    least_offered_ratio: float | None = None


class Profile(Frozen):
    """Where the vSwitch's threads spent their time at a bound, in a trial that is in no result.

    Attributes:
        scenario: "pvp_dpdk".
        frame_size: Octets including FCS.
        goals: Names of the goals whose bound it is.
        bound: "lower" or "upper".
        load_fps: Intended load, frames/s per interface.
        samples: Call stacks that were taken.
        top: The functions in which most samples ended, and their share, 0..1.
        loss_ratio: Loss of the worse direction in that trial, 0..1; None where nothing was counted.
        file: The flame graph, relative to the run's folder; "" without one.
        why: "not measured: ..." where there is none; "".
    """

    scenario: str
    frame_size: int
    goals: tuple[str, ...]
    bound: Literal["lower", "upper"]
    load_fps: float
    samples: int = 0
    top: tuple[tuple[str, float], ...] = ()
    loss_ratio: float | None = None
    file: str = ""
    why: str = ""


class LedgerEntry(Frozen):
    """One clause of a standard and how this run stands to it.

    Attributes:
        clause: "RFC 2544 section 24".
        requirement: What the clause asks, in a few words.
        status: "met" | "deviated" | "not applicable" | "not looked at": nothing is derived of it.
        value: What was done.
        reason: Why it deviates.
        test: The test that it holds for; "" for the whole run. So do those that follow.
        scenario: The scenario; "" for all of them.
        frame_size: Octets including FCS; 0 for all sizes.
    """

    clause: str
    requirement: str
    status: Literal["met", "deviated", "not applicable", "not looked at"]
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
        warnings: What makes numbers worth less, e.g. shared cores or an interrupted run.
        conditions: What was set, and what numbers are of.
        settings: Effective settings, key -> {"value", "source"}.
        environment: Machine facts; values that could not be read are "unknown: why". Of a run on
            several testbeds: name of the testbed -> its facts.
        testbeds: Names of the testbeds of a run on several at once; empty for one. Scenarios are
            then called "pvp_dpdk,testbed=lab1".
        calibrations: The generator's calibrations, one for each kind of wire; empty when not done.
        scenarios: What was deployed.
        results: One entry per scenario, test and frame size.
        comparisons: Which of the scenarios are variants to be compared.
        trials: Every trial in order.
        profiles: Call stacks at the bounds, with `--profile`.
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
    conditions: tuple[str, ...] = ()
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)
    testbeds: tuple[str, ...] = ()
    calibrations: tuple[Calibration, ...] = ()
    scenarios: tuple[ScenarioFacts, ...] = ()
    results: tuple[Result, ...] = ()
    comparisons: tuple[ComparisonResult, ...] = ()
    trials: tuple[TrialPoint, ...] = ()
    profiles: tuple[Profile, ...] = ()
    transfers: tuple[Transfers, ...] = ()
    deviations: tuple[LedgerEntry, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    redacted: Redaction | None = None

    @property
    def machines(self) -> dict[str, dict[str, Any]]:
        """Name of a testbed -> the facts of its machine; of a single one "" -> its facts."""
        return self.environment if self.testbeds else {"": self.environment}

    @property
    def virtual_lab(self) -> bool:
        """Whether a machine was an emulated one, whose speeds mean nothing."""
        return any(facts.get("virtual_lab") is True for facts in self.machines.values())

    def find_machine(self, scenario: str) -> dict[str, Any]:
        """The facts of the machine that a scenario was measured on; or none."""
        return self.machines.get(without_testbed(scenario)[1] if self.testbeds else "", {})

    @field_validator("schema_version")
    @classmethod
    def _not_newer(cls, version: int) -> int:
        if version > SCHEMA_VERSION:
            raise ValueError(f"written by a newer vnetperf (layout {version} > {SCHEMA_VERSION})")
        return version
