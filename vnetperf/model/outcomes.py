"""Results of the tests besides throughput."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.trial import NUMBER_SHORTFALL, Latency, TrialGaps
from vnetperf.model.units import percent


class Spread(Frozen):
    """A quantity measured several times.

    Attributes:
        n: Number of measurements.
        mean: Mean.
        median: Median.
        minimum: Smallest.
        maximum: Largest.
        stdev: Sample standard deviation; None for a single one.
        low: Lower end of the interval of the mean; None where n is too small for one: of three
            values or fewer the extremes say all.
        high: Upper end.
        next_low: Lower end of the interval in which one further measurement is to be expected
            (Student's t); wider than that of the mean, and no narrower with n. None like `low`.
        next_high: Upper end.
        confidence: Level of the intervals, 0..1.
        method: How the interval was found: "t", "log-t" (Student's t of the mean's
            logarithm, for positive values), "bootstrap"; "" without one.
        modes: Centres of two modes where the values fall into two groups; then neither mean nor
            interval says much.
        outliers: Places (from 0) of values far from the others; they are in all of the above.
        values: The values in the order measured.
    """

    n: int
    mean: float
    median: float
    minimum: float
    maximum: float
    stdev: float | None = None
    low: float | None = None
    high: float | None = None
    next_low: float | None = None
    next_high: float | None = None
    confidence: float = 0.95
    method: Literal["", "t", "log-t", "bootstrap"] = ""
    modes: tuple[float, ...] = ()
    outliers: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


#: Share of discarded trials above which a number may be one of selected trials.
MOST_DISCARDED = 0.2


class OverTrials(Frozen):
    """A number of each of several trials, as RFC 8219 section 10 sums it up, nanoseconds.

    Attributes:
        n: Trials that have the number.
        median_ns: Median of the trials.
        p1_ns: 1st percentile of the trials (RFC 2330 section 11.3); below 100 the smallest.
        p99_ns: 99th percentile of them; below 100 the largest.
    """

    n: int
    median_ns: float
    p1_ns: float
    p99_ns: float


class DelayVariation(Frozen):
    """Delay variation of one direction, nanoseconds.

    Attributes:
        pdv_ns: RFC 5481 section 4.2 at the 99.9th percentile: D(99.9) - Dmin (RFC 8219 7.3.1),
            the largest of all trials.
        pdv: The same of each trial, summed up as RFC 8219 does; None where it is not measured.
        ipdv_min_ns: Smallest difference of the delays of successive frames (RFC 8219 7.3.2).
        ipdv_median_ns: Median of them.
        ipdv_max_ns: Largest.
            These three are None where the generator does not report them, or where frames have no
            stamps of their own: `why` says so.
        ipdv_resolution_ns: How far apart polls that found frames were, mean of the coarsest trial:
            an arrival is known no better. None: not recorded.
        shared_stamps: Share of successive frames that left in one call and have one stamp, 0..1,
            the largest of all trials; they have no difference. None: not recorded.
        why: "not measured: ..." where something is None.
    """

    pdv_ns: float | None = None
    pdv: OverTrials | None = None
    ipdv_min_ns: float | None = None
    ipdv_median_ns: float | None = None
    ipdv_max_ns: float | None = None
    ipdv_resolution_ns: float | None = None
    shared_stamps: float | None = None
    why: str = ""


class LatencyAt(Frozen):
    """Latency at one load (RFC 2544 section 26.2), a share of the throughput or absolute.

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        of: What the load is: "throughput", "90 % of throughput", "1000000 frames/s".
        tag_at_s: Frames sent before this are not in it, seconds from the start of a trial.
        repeats: Trials.
        definition: RFC 1242 section 3.8: "store-and-forward" or "bit-forwarding".
        mean_ns: Direction -> means of the trials, nanoseconds.
        latency: Direction -> latency of all trials' frames together.
        typical: Direction -> the median latency of each trial over the trials: RFC 8219 section
            7.2, "typical latency". Empty where the generator does not report percentiles.
        worst_case: Direction -> the 99.9th percentile of each trial's, "worst-case latency".
        variation: Direction -> delay variation, the largest of all trials.
        gaps: How long the tester stood still, of the trial with the longest gaps of polling at the
            99th percentile; None: not recorded.
        loss_ratio: Largest loss ratio of a trial, worse direction.
        forwarded_fps: Frames forwarded, aggregate frames/s, mean of the trials; None: not recorded.
        discarded: Trials there that were no measurement of the DUT, besides `trials`; None: not
            recorded.
        trials: Numbers of the trials; none where the load cannot be offered.
        note: What a reader must know of the load; "".
    """

    load_fps: float
    of: str
    tag_at_s: float = 0.0
    repeats: int = 1
    definition: Literal["store-and-forward", "bit-forwarding"] = "store-and-forward"
    mean_ns: dict[str, Spread] = Field(default_factory=dict)
    latency: dict[str, Latency] = Field(default_factory=dict)
    typical: dict[str, OverTrials] = Field(default_factory=dict)
    worst_case: dict[str, OverTrials] = Field(default_factory=dict)
    variation: dict[str, DelayVariation] = Field(default_factory=dict)
    gaps: TrialGaps | None = None
    loss_ratio: float = 0.0
    forwarded_fps: float | None = None
    discarded: int | None = None
    trials: tuple[int, ...] = ()
    note: str = ""

    @property
    def is_selection(self) -> bool:
        """Whether too many trials at the load were discarded."""
        bad = self.discarded or 0
        return bad > MOST_DISCARDED * (len(self.trials) + bad)


class LossStep(Frozen):
    """Frame loss rate at one load (RFC 2544 section 26.3), or loss around the throughput.

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        input_ratio: Load as a share of the largest load offered, 0..1.
        loss_ratio: Loss ratio of the worse direction, the mean of the trials there, 0..1.
        forwarded_fps: Frames forwarded, aggregate frames/s, mean.
        per_direction: Direction -> loss ratio.
        trials: Numbers of the trials.
        most_ratio: The mean that the loss of the load is at most: frames that were not offered may
            have been lost as well; None where the load was offered.
    """

    load_fps: float
    input_ratio: float
    loss_ratio: float
    forwarded_fps: float
    per_direction: dict[str, float] = Field(default_factory=dict)
    trials: tuple[int, ...] = ()
    most_ratio: float | None = None

    @property
    def is_clean(self) -> bool:
        """Whether no frame of the load was lost, for certain."""
        return self.loss_ratio <= 0 and not self.most_ratio


#: Share of the longest burst that is tried, from which on a burst is no result (RFC 9004).
NEAR_LONGEST = 0.9
#: A ring is what was found where as many frames were held, to this share.
_SAME_RING = 0.02


class BackToBack(Frozen):
    """Back-to-back frames (RFC 9004, which updates RFC 2544 section 26.4).

    Attributes:
        frames: Longest burst without loss, frames per interface, one value for each search that
            was decided; of one that reached the longest burst that value, a lower limit.
        step_frames: Resolution of the search, frames.
        max_burst_frames: Longest burst tried, frames.
        gap_ns: Mean time between frames of an interface in the bursts that came through and count,
            nanoseconds.
        usual_gap_ns: Gap that a quarter of this test's bursts of about such a length did not
            exceed: one that came through and left more than 5 % slower does not count. None: no
            burst was timed.
        calibrated_gap_ns: Gap of the generator's bursts by calibration, nanoseconds; None: not
            recorded. Of an older run it stood for `usual_gap_ns`.
        slow_bursts: Bursts that did not count by their gap; None: not recorded.
        undecided: Searches without a value that none of the further ones made up for: the longest
            burst that came through, or the one above it, was never sent at the usual gap.
        throughput_fps: Throughput that RFC 9004's correction uses, aggregate frames/s.
        forwarded_fps: What the DUT forwarded while bursts arrived, frames/s per interface, by what
            came back of those that lost frames; None: nothing tells.
        implied_s: Implied DUT buffer time: the time that the mean burst took at `gap_ns`, seconds;
            None where `frames` is a limit, or no burst was timed.
        corrected_s: Corrected DUT buffer time: the same for the frames of it that the DUT held,
            without those that it forwarded meanwhile (`forwarded_fps`), seconds; None without
            either, or where it forwarded as much as bursts bring.
        rfc9004_implied_s: Implied buffer time as RFC 9004 has it: mean frames over `max_rate_fps`.
        rfc9004_corrected_s: The same corrected by the throughput, as if all
            of it were forwarded while a burst arrives.
        max_rate_fps: The largest theoretical rate, per interface; of a wire without a speed, that
            of the calibrated gap; None where that is not recorded.
        ring_frames: Frames that the ring holds into which the tester sends, the DUT's receive ring
            on that wire; None: not known.
        capped: True when every burst up to `max_burst_frames` came through in a search: `frames`
            is a lower limit, and its mean no result.
        note: What keeps it from being one; "".
        trials: Numbers of the trials.
    """

    frames: Spread
    step_frames: int
    max_burst_frames: int
    gap_ns: float | None = None
    usual_gap_ns: float | None = None
    calibrated_gap_ns: float | None = None
    slow_bursts: int | None = None
    undecided: int = 0
    throughput_fps: float | None = None
    forwarded_fps: float | None = None
    implied_s: float | None = None
    corrected_s: float | None = None
    rfc9004_implied_s: float | None = None
    rfc9004_corrected_s: float | None = None
    max_rate_fps: float | None = None
    ring_frames: int | None = None
    capped: bool = False
    note: str = ""
    trials: tuple[int, ...] = ()

    @property
    def is_limit(self) -> bool:
        """Whether a search came near the longest burst: how long one may be is not known then."""
        return self.capped or self.frames.maximum >= NEAR_LONGEST * self.max_burst_frames

    @property
    def is_ring(self) -> bool:
        """Whether what the DUT held of a burst is what the ring before it holds."""
        if self.ring_frames is None or self.corrected_s is None or not self.gap_ns:
            return False
        held_frames = self.corrected_s * 1e9 / self.gap_ns
        return abs(held_frames - self.ring_frames) <= max(
            self.step_frames, _SAME_RING * self.ring_frames
        )

    @property
    def full_bursts(self) -> int:
        """Searches in which every burst came through."""
        return sum(value >= self.max_burst_frames for value in self.frames.values)


class Curve(Frozen):
    """How traffic went on over the time of one trial, all directions together.

    Attributes:
        trial: Number of the trial.
        bin_s: Width of a bin, seconds.
        offered: Frames offered in each bin.
        lost: Of the frames offered in each bin, those that never came back.
        arrived: Frames that came back in each bin.
        marks: What happened when: words -> seconds after the first frame.
    """

    trial: int
    bin_s: float
    offered: tuple[int, ...]
    lost: tuple[int, ...]
    arrived: tuple[int, ...]
    marks: dict[str, float] = Field(default_factory=dict)


class Recovery(Frozen):
    """System recovery (RFC 2544 section 26.5).

    Attributes:
        throughput_fps: Throughput that the loads are taken of, aggregate frames/s.
        overload_fps: Load before, aggregate frames/s: 110 % of it, or the most that can be offered.
        relaxed_fps: Load after: half of the overload.
        overload_s: Seconds of overload.
        seconds: Time from the drop of the load until no more frames are lost than usual at the
            load after it, seconds, of the trials that were overloaded until then; None where none
            was, or where one did not recover. Of an older run that measured no usual loss, until
            0.1 s passed without any.
        last_lost_s: The clause's own time, from the drop to the last lost frame whatever its cause,
            seconds, of the same trials; None where `seconds` is, or `lost_at_end` names trials.
        lost_at_end: Numbers of the trials of `seconds` of which the last frames were among the
            lost: by the clause's own time these are "at least".
        usual_loss: Largest loss ratio in 0.1 s at the relaxed load before the overload, worse
            direction, 0..1; None: not measured.
        at_least_s: Where one did not recover: the mean if all of these had at their end, which it
            is not below; None otherwise.
        why: Why there is no number: "not measured: ..."; "".
        not_overloaded: Numbers of the trials whose last bins before the drop show no overload; they
            are in no number.
        disturbed: Numbers of the trials in which the tester stood still; they are in no number.
        censored: Numbers of the trials that had not recovered at their end: "at least".
        note: What a reader must know of the number; "".
        curves: One for each trial.
    """

    throughput_fps: float
    overload_fps: float
    relaxed_fps: float
    overload_s: float
    seconds: Spread | None = None
    last_lost_s: Spread | None = None
    lost_at_end: tuple[int, ...] = ()
    usual_loss: float | None = None
    at_least_s: float | None = None
    why: str = ""
    not_overloaded: tuple[int, ...] = ()
    disturbed: tuple[int, ...] = ()
    censored: tuple[int, ...] = ()
    note: str = ""
    curves: tuple[Curve, ...] = ()


class Reset(Frozen):
    """Reset (RFC 2544 section 26.6, RFC 6201).

    Attributes:
        what: What was reset: "vswitch", "vnf0", "link phy1".
        type: Type of reset as RFC 6201 names them: "software", "hardware: interface".
        load_fps: Load throughout, aggregate frames/s.
        by_loss_s: Frame-loss method: frames lost over the load, seconds.
        by_time_s: Time-stamp method: last frame before to first frame after, seconds.
        event_s: How long the event itself took, seconds.
        at_least_s: Where frames were still lost when the last trial ended: what those lost until
            then make of the mean by loss, which it is not below; None otherwise.
        why: Why there is no number; "".
        disturbed: Numbers of the trials in which the tester stood still too long; they are in no
            number.
        note: What a reader must know of the number; "".
        curves: One for each trial.
    """

    what: str
    type: str
    load_fps: float
    by_loss_s: Spread | None = None
    by_time_s: Spread | None = None
    event_s: Spread | None = None
    at_least_s: float | None = None
    why: str = ""
    disturbed: tuple[int, ...] = ()
    note: str = ""
    curves: tuple[Curve, ...] = ()


#: Loads of which a forwarding rate is.
MAXIMUM_OFFERED, MOST_FORWARDED = "maximum offered load", "load with the largest forwarding rate"


class ForwardingRate(Frozen):
    """Rates at loads that were offered and not searched: MRR, RFC 2889 section 5.6.

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        of: What the load is: "maximum offered load", "load with the largest forwarding rate".
        duration_s: Seconds of each trial.
        forwarded_fps: Aggregate forwarding rate of each trial, frames/s.
        loss_ratio: Loss ratio of the worse direction of each trial.
        searched: Whether the largest forwarding rate was searched from the throughput on (RFC 2889
            section 5.6.3).
        trials: Numbers of the trials.
    """

    load_fps: float
    of: str
    duration_s: float
    forwarded_fps: Spread
    loss_ratio: Spread
    searched: bool = False
    trials: tuple[int, ...] = ()


#: Share of a soak's intended frames that must have been offered.
SOAK_OFFERED = 1 - NUMBER_SHORTFALL


class Soak(Frozen):
    """A long run at one load.

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        of: What the load is: "throughput", "95 % of throughput".
        seconds: Seconds of traffic.
        offered: Frames offered.
        lost: Frames lost.
        loss_ratio: Loss ratio, worse direction.
        loss_low: Lower end of its 95 % interval, whose unit is the trial: losses come in events.
        loss_high: Upper end; None where nothing was lost: no event shows how many frames one takes.
        goal: Loss ratio that it is held against.
        intended: Frames due by load and duration; None: not recorded.
        least_offered: Share of these that was offered in the direction where it is least, 0..1;
            None: not recorded.
        lossy_trials: Trials that lost frames; None: not recorded.
        stalled_trials: Numbers of those whose loss may be the tester's, which stood still.
        largest_event: Most frames lost in one event: in successive bins of a direction that all
            lost some; None where the generator does not count frames over time.
        longest_event_s: Longest event, in whole bins, seconds; None likewise.
        goal_holds_to: Where nothing was lost: the most frames that an event may take for the goal
            to be met, as events may happen unseen (95 %); None otherwise.
        variation: Direction -> delay variation.
        curve: Over time; None without one.
        trials: Numbers of the trials.
        note: What a reader must know; "".
    """

    load_fps: float
    of: str
    seconds: float
    offered: int
    lost: int
    loss_ratio: float
    loss_low: float
    loss_high: float | None = None
    goal: float
    intended: int | None = None
    least_offered: float | None = None
    lossy_trials: int | None = None
    stalled_trials: tuple[int, ...] = ()
    largest_event: int | None = None
    longest_event_s: float | None = None
    goal_holds_to: int | None = None
    variation: dict[str, DelayVariation] = Field(default_factory=dict)
    curve: Curve | None = None
    trials: tuple[int, ...] = ()
    note: str = ""

    @property
    def not_judged(self) -> str:
        """Why its loss is not held against anything; ""."""
        if self.intended is None:
            return "the intended frames are not recorded"
        shares = [self.offered / self.intended] if self.intended else []
        shares += [] if self.least_offered is None else [self.least_offered]
        if shares and (least := min(shares)) < SOAK_OFFERED:
            return f"{percent(least, 4)} of the load was offered"
        if self.stalled_trials:
            numbers = ", ".join(map(str, self.stalled_trials))
            plural = "s" if len(self.stalled_trials) > 1 else ""
            return f"the tester stood still in trial{plural} {numbers}"
        return ""


class RoleCost(Frozen):
    """What a role took of the processors in trials at one load.

    Attributes:
        processors: Processors that it kept busy: 1 is all the time of one.
        ns_per_frame: Processor time for each frame that came back, nanoseconds; of a thread that
            polls with its empty polls. None where nothing came back.
        cycles_per_frame: Cycles of its threads for each frame that came back; None: not counted,
            or by the processor not countable. So are the next three.
        instructions_per_frame: Instructions.
        cache_misses_per_frame: Misses of the last level of cache.
        tlb_misses_per_frame: Misses of the TLB of data.
    """

    processors: Spread
    ns_per_frame: Spread | None = None
    cycles_per_frame: float | None = None
    instructions_per_frame: float | None = None
    cache_misses_per_frame: float | None = None
    tlb_misses_per_frame: float | None = None


class EnergyCost(Frozen):
    """Energy that a part of the machine took in trials at one load, whatever ran on it.

    Attributes:
        watts: Its mean power.
        nj_per_frame: Energy for each frame that came back, nanojoules; None where nothing came.
    """

    watts: Spread
    nj_per_frame: Spread | None = None


#: Parts of the DUT whose cost is set against the tester's.
VSWITCH, VNF = "vSwitch", "VNF"


class RelativeCost(Frozen):
    """Work for a frame over the tester's work for it, in the same trials at one load.

    Attributes:
        value: Median of the trials; None: `why`.
        least: Least of the trials.
        most: Most of the trials.
        values: One for each trial.
        by: What was counted, of both.
        why: Why there is none: "not measured: ..."; "".
    """

    value: float | None = None
    least: float | None = None
    most: float | None = None
    values: tuple[float, ...] = ()
    by: str = ""
    why: str = ""


class CpuAt(Frozen):
    """Processors at one load.

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        of: What the load is: "throughput", "50 % of throughput"; "1000 frames/s per interface" of a
            share below the smallest load, or above the largest that can be offered, and of a load
            that is none.
        share: Load as a share of the throughput; None for one that is none.
        duration_s: Seconds of a trial.
        forwarded_fps: Frames forwarded, aggregate frames/s, one value for each trial.
        loss_ratio: Largest loss ratio of a trial, worse direction.
        roles: Role -> what it took; "machine" for everything. Empty: not recorded.
        in_work: Share of the TSC cycles of the vSwitch's threads in rounds with packets, as it
            counts them itself: wall time, waits for a processor included; None: it does not.
        empty_polls: Share of their rounds without packets; None likewise.
        watched_share: Processors that the watching itself took; None: not recorded.
        watched_s: Host -> time in which its threads were watched, mean of the trials, seconds: what
            processors are means over. "" for the tester's host. Empty: not recorded.
        energy: Part of the machine -> what it took; empty: nothing meters it, or not recorded.
        relative: "vSwitch", "VNF" (all of them) -> its work for a frame over the tester's; empty:
            not recorded.
        tester: How the tester sent: its "turn", its "priority", the DUT's receive "ring".
            Relative costs are comparable where these are the same; empty: not recorded.
        trials: Numbers of the trials.
        disturbed: Of those the ones whose load the generator could not offer, or in which the
            tester stood still; they count.
    """

    load_fps: float
    of: str
    share: float | None
    duration_s: float
    forwarded_fps: Spread
    loss_ratio: float
    roles: dict[str, RoleCost] = Field(default_factory=dict)
    in_work: float | None = None
    empty_polls: float | None = None
    watched_share: float | None = None
    watched_s: dict[str, float] = Field(default_factory=dict)
    energy: dict[str, EnergyCost] = Field(default_factory=dict)
    relative: dict[str, RelativeCost] = Field(default_factory=dict)
    tester: dict[str, str] = Field(default_factory=dict)
    trials: tuple[int, ...] = ()
    disturbed: tuple[int, ...] = ()


#: Standard errors above 0 from which on a slope is one.
_CLEAR_ERRORS = 5.0


class CpuFit(Frozen):
    """Straight line through the processors of a role over the frames that came back.

    Attributes:
        ns_per_frame: What a further frame takes, nanoseconds of processor time; None: `why`.
        idle: Processors that it takes without any frame; None: `why`.
        error_ns: Standard error of the slope (least squares), nanoseconds; None: not recorded.
        why: Why there is no time of a further frame: "not measured: ..."; "".
    """

    ns_per_frame: float | None
    idle: float | None
    error_ns: float | None = None
    why: str = ""

    @property
    def is_clear(self) -> bool:
        """Whether frames take anything of it that the scatter of its trials does not explain."""
        if self.error_ns is None or self.ns_per_frame is None:
            return False
        return self.ns_per_frame > _CLEAR_ERRORS * self.error_ns


class CpuLoad(Frozen):
    """Processors against offered load.

    Attributes:
        at: Each load.
        fits: Role -> line through all trials.
        note: What a reader must know of the loads; "".
    """

    at: tuple[CpuAt, ...]
    fits: dict[str, CpuFit] = Field(default_factory=dict)
    note: str = ""


class ServiceFlow(Frozen):
    """One direction of a service at one load (ITU-T Y.1563 and Y.1564).

    Attributes:
        direction: "phy0->phy1".
        rate_bps: Information rate that came back: bits of frames with FCS, bit/s.
        loss_ratio: Frame loss ratio (FLR), 0..1.
        delay_min_ns: Least frame transfer delay (FTD), nanoseconds; None: nothing was timed. So are
            those that follow.
        delay_mean_ns: Mean FTD, which a limit is of.
        delay_max_ns: Largest FTD.
        variation_ns: Frame delay variation (FDV): the 99.9th percentile less the least, of the
            trial in which that is most.
    """

    direction: str
    rate_bps: float
    loss_ratio: float
    delay_min_ns: float | None = None
    delay_mean_ns: float | None = None
    delay_max_ns: float | None = None
    variation_ns: float | None = None


class ServiceStep(Frozen):
    """A service at one load, held against its limits.

    Attributes:
        of: "25 % of CIR" ..., "performance".
        share: Load as a share of the committed rate.
        load_fps: Load, aggregate frames/s.
        seconds: Seconds of traffic.
        flows: Each direction.
        met: Whether every direction kept every limit; None: not judged.
        why: What was not kept, or why it is not judged; "".
        trials: Numbers of the trials.
    """

    of: str
    share: float
    load_fps: float
    seconds: float
    flows: tuple[ServiceFlow, ...]
    met: bool | None
    why: str = ""
    trials: tuple[int, ...] = ()


class Service(Frozen):
    """Service activation (ITU-T Y.1564): service configuration test, then performance test.

    Attributes:
        cir_fps: Committed rate, aggregate frames/s.
        of: What it is: "as given", "90 % of throughput".
        loss_ratio: Limit of the frame loss ratio, 0..1.
        delay_ms: Limit of the mean frame transfer delay, milliseconds; None for none.
        variation_ms: Limit of the frame delay variation, milliseconds; None for none.
        steps: Of the configuration test, up to the first that was not met.
        performance: The performance test; None where a step was not met, or without one.
        note: What a reader must know; "".
    """

    cir_fps: float
    of: str
    loss_ratio: float
    delay_ms: float | None = None
    variation_ms: float | None = None
    steps: tuple[ServiceStep, ...] = ()
    performance: ServiceStep | None = None
    note: str = ""

    @property
    def all_steps(self) -> tuple[ServiceStep, ...]:
        """All steps, the performance test last."""
        return self.steps if self.performance is None else (*self.steps, self.performance)

    @property
    def met(self) -> bool | None:
        """Whether the service is accepted; None where a step was not judged."""
        verdicts = [step.met for step in self.all_steps]
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True


class AddressTable(Frozen):
    """How a learning DUT deals with addresses (RFC 2889 sections 5.7 and 5.8).

    Attributes:
        addresses: Largest number of addresses that were all learned (5.7), or number used (5.8).
        learning_fps: Rate at which they were sent, or the highest at which all were learned.
        tried: Each number and rate tried, whether all were learned, and the trial.
        capped: True when the largest number or rate tried was no limit.
        note: What a reader must know; "".
    """

    addresses: int
    learning_fps: float
    tried: tuple[tuple[int, float, bool, int], ...] = ()
    capped: bool = False
    note: str = ""


class SessionsTried(Frozen):
    """A trial that makes sessions of a NAT from none.

    Attributes:
        sessions: Sessions of which a frame was sent, or refused by the wire.
        rate_per_s: Frames/s of these, each the first of its session.
        made: Whether all of them came out as they must, and were held at the end.
        came: Frames that came out with the address and port of their binding.
        held: Sessions in the NAT's table after the trial.
        trial: Number of the trial.
    """

    sessions: int
    rate_per_s: float
    made: bool
    came: int
    held: int
    trial: int


class SessionTable(Frozen):
    """How a NAT makes and ends sessions (RFC 9693).

    Attributes:
        sessions: Number of sessions used, or the largest that was held.
        rate_per_s: Highest rate at which all were made, the median of the searches; of the
            capacity the rate at which they were made.
        rates: What each search found, in order; empty where the number is searched.
        tried: Each trial.
        ended_per_s: Sessions/s at which a table that held at least half of them was emptied, the
            median; None: not measured.
        capped: True when the largest rate or number tried was no limit.
        note: What a reader must know; "".
    """

    sessions: int
    rate_per_s: float
    rates: tuple[float, ...] = ()
    tried: tuple[SessionsTried, ...] = ()
    ended_per_s: float | None = None
    capped: bool = False
    note: str = ""
