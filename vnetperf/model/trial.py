"""A trial: what is requested of the generator, captured, counted, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isclose
from typing import Literal, get_args

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.machine_load import (
    DatapathWork,
    EnergyUse,
    MachineLoad,
    TakenTime,
    ThreadEvents,
    ThreadLoad,
)
from vnetperf.model.testbed import ClockSync
from vnetperf.model.units import percent

#: "first": the first that each of the tester's ports sends, and receives; "streams": the first of
#: each stream, sent and received; "gaps": received ones before which some of their stream are
#: missing; "foreign": received ones that are not of the trial.
CaptureWhat = Literal["first", "streams", "gaps", "foreign"]
WHATS: tuple[CaptureWhat, ...] = get_args(CaptureWhat)
#: Frames of each port or stream, each way.
MOST_FRAMES = 10_000


class CaptureSpec(Frozen):
    """What is captured: at most `frames` of each port (or stream), each way; 0 for none."""

    frames: int = Field(default=0, ge=0, le=MOST_FRAMES)
    what: CaptureWhat = "first"


def parse_capture(text: str) -> CaptureSpec:
    """What to capture, of "FRAMES" or "FRAMES:WHAT" as a user has typed it, or `ValueError`."""
    number, colon, selection = text.partition(":")
    choice = next((candidate for candidate in WHATS if candidate == selection), None)
    if not number.isdecimal() or int(number) > MOST_FRAMES or (colon and choice is None):
        raise ValueError(
            f"{text!r} is not FRAMES or FRAMES:WHAT, with 0..{MOST_FRAMES} frames and what of "
            f"{', '.join(WHATS)}"
        )
    return CaptureSpec(frames=int(number), what=choice or "first")


class Verdict(StrEnum):
    """Whether a trial's counts are a measurement of the DUT."""

    VALID = "VALID"
    GENERATOR_LIMITED = "GENERATOR_LIMITED"
    TESTER_STALLED = "TESTER_STALLED"
    INCONSISTENT = "INCONSISTENT"
    TIMED_OUT = "TIMED_OUT"
    DUT_FAILED = "DUT_FAILED"


class LoadStep(Frozen):
    """One stretch of a trial whose load changes: load of each sending interface, and seconds."""

    load_fps: float
    duration_s: float


class EventSpec(Frozen):
    """Something done to the DUT in the middle of a trial.

    Attributes:
        what: "vswitch", of several "vswitch on HOST", "vnf0" ... (restarted), "link phy0" (taken
            down and up).
        at_s: Seconds after the first frame.
        down_s: How long a link stays down, seconds.
    """

    what: str
    at_s: float
    down_s: float = 0.0


#: Loads and durations closer than this (relative) are the same.
SAME_RTOL = 1e-9


def same_load(a: float, b: float) -> bool:
    """Whether two loads or durations are the same, but for float rounding."""
    return isclose(a, b, rel_tol=SAME_RTOL)


#: What becomes of a trial that is no measurement because of the tester, after it was repeated in
#: vain: "lower" begins the test anew with a lower maximum load, "fail" ends it, "count" takes the
#: trial as it is, without repeating it.
WhenLimited = Literal["lower", "fail", "count"]


#: A number that is no class of its load (a loss, a latency, a rate, processors) is that of the load
#: where no larger a share of it was not offered. What is beyond the load's accuracy is noted.
NUMBER_SHORTFALL = 0.01


#: What a trial of a search is for: "" finds bounds, "sweep" looks for loss below them, "warm-up"
#: brings the DUT to its usual state and classifies nothing. "throughput", of another test, tries
#: the load first that the test takes its loads of, and is in none of its numbers.
SearchPhase = Literal["", "sweep", "warm-up", "throughput"]


class TrialRequest(Frozen):
    """A trial that a test requests; waits and learning frames are not its business.

    Attributes:
        load_fps: Intended load of each sending interface, frames/s.
        duration_s: Seconds of sending; of a burst, those it takes at the largest rate.
        burst: Frames that each stream sends back to back, from idle (RFC 1242 section 3.1); 0 for
            traffic paced by `load_fps`, which does not describe a burst.
        steps: Loads one after the other without a pause; empty for `load_fps` all the time.
            `duration_s` is the sum of theirs, `load_fps` the largest of theirs.
        event: What is done to the DUT in the middle; None for nothing.
        bin_s: Width of the bins of `TrialResult.timelines`, seconds; 0 for none.
        tag_at_s: Frames sent before this many seconds are in no latency (RFC 2544 section 26.2).
        ipdv: Whether `Latency.ipdv` is wanted.
        new_sessions: The DUT, a NAT, forgets all sessions before, and no learning frame makes any.
        histogram_up_to_loss: Percentiles and histogram are in the result when the worse direction
            lost no larger a share than this, 0..1; below 0: never. The rest always.
        phase: What it is for in a search.
        rest_s: Wait without traffic before the trial, seconds, besides those around every trial.
        idle_s: Least wait after the trial, seconds. Like the next four it is for the runner: it is
            neither logged nor sent to the agent.
        when_limited: What becomes of a trial that is no measurement because of the tester.
        classifies: Loss ratios, 0..1, that the trial is to classify its load for; empty where its
            counts are the number.
        loss_limits: Loss ratios that the test holds such a number against, 0..1.
        overload: The forwarding rate is the number: a load of which the DUT lost more than the
            generator left out was large enough.
    """

    load_fps: float
    duration_s: float
    burst: int = 0
    steps: tuple[LoadStep, ...] = ()
    event: EventSpec | None = None
    bin_s: float = 0.0
    tag_at_s: float = 0.0
    ipdv: bool = False
    new_sessions: bool = False
    histogram_up_to_loss: float = 1.0
    phase: SearchPhase = ""
    rest_s: float = 0.0
    idle_s: float = Field(default=0.0, exclude=True)
    when_limited: WhenLimited = Field(default="fail", exclude=True)
    classifies: tuple[float, ...] = Field(default=(), exclude=True)
    loss_limits: tuple[float, ...] = Field(default=(), exclude=True)
    overload: bool = Field(default=False, exclude=True)

    def matches(self, other: TrialRequest) -> bool:
        """Whether another request is for the same trial, loads and durations to `SAME_RTOL`."""
        own_loads, other_loads = self._loads(), other._loads()
        return (
            (self.burst, self.event, self.new_sessions)
            == (other.burst, other.event, other.new_sessions)
            and len(own_loads) == len(other_loads)
            and all(map(same_load, own_loads, other_loads))
        )

    def _loads(self) -> list[float]:
        steps = (value for step in self.steps for value in (step.load_fps, step.duration_s))
        return [self.load_fps, self.duration_s, *steps]

    def __str__(self) -> str:
        if self.burst:
            return f"a burst of {self.burst} frames"
        return f"{self.duration_s:g} s at {self.load_fps:.10g} frames/s"


class TrialSpec(TrialRequest):
    """A trial as the generator runs it: the request with the conditions it is run under.

    Attributes:
        drain_s: Longest wait for frames in flight after sending has stopped, seconds.
        full_drain: True waits all of it; False goes on once every frame has come back.
        learning_frames: Frames per stream sent before, not counted; more where a mobile core has
            more sessions.
        learning_wait_s: Wait after the learning frames, seconds.
        capture: Frames to keep; None for none.
        profile: Whether the call stacks of the vSwitch's threads are sampled meanwhile; such a
            trial is in no result.
        offered_tolerance: Accuracy of the load: a shortfall of the offered frames up to this share
            of the intended ones is none, 0..1.
    """

    frame_size: int
    drain_s: float = 0.1
    full_drain: bool = False
    learning_frames: int = 0
    learning_wait_s: float = 0.0
    capture: CaptureSpec | None = None
    profile: bool = False
    offered_tolerance: float = 1.0


class TrialWindow(Frozen):
    """What both hosts of a tester whose ports are on two have in common in a trial.

    Attributes:
        number: 1 to 255, not that of the trial before: frames carry it.
        lead_s: Time between the beginnings of receiving and of sending, seconds. Whoever has begun
            to receive within it misses no frame of the other, and receives as much longer.
        two_clocks: The two have clocks of their own: frames are stamped by the machines' time of
            day, and not by the counter of one, and the round trip is measured besides.
        kept: Services keep the two together: what they state of them is read with the trial.
    """

    number: int
    lead_s: float
    two_clocks: bool = False
    kept: bool = False


class LiveCounts(Frozen):
    """Counts of a trial so far, all directions together; a glance and no result.

    Attributes:
        elapsed_s: Seconds since sending began.
        sent: Frames the wire accepted.
        refused: Frames that it did not take.
        received: Distinct own frames that came back.
    """

    elapsed_s: float
    sent: int
    refused: int
    received: int


class Latency(Frozen):
    """Latency of every received frame of one direction, nanoseconds.

    Attributes:
        count: Frames in the histogram.
        min_ns: Smallest.
        mean_ns: Mean.
        max_ns: Largest.
        percentiles: Percentile ("50", "99.9") -> nanoseconds.
        hdr: HdrHistogram V2, compressed, base64 (3 digits, nanoseconds); "" if left out.
        before_departure: Frames whose arrival was stamped before their departure: received, and in
            no latency; None: not recorded.
        above_range: Frames that took longer than the histogram holds (10 s): in mean and maximum,
            in no percentile; None: not recorded.
        ipdv: Difference of the delays of successive frames of a stream (RFC 8219 section 7.3.2),
            nanoseconds: "min", "median", "max"; of frames that have a stamp of departure of their
            own. "resolution": mean time between polls that found frames, nanoseconds; "shared":
            share of successive frames that have one stamp, 0..1. Empty where the generator does
            not report it.
    """

    count: int
    min_ns: float
    mean_ns: float
    max_ns: float
    percentiles: dict[str, float] = Field(default_factory=dict)
    hdr: str = ""
    before_departure: int | None = None
    above_range: int | None = None
    ipdv: dict[str, float] = Field(default_factory=dict)


#: Largest difference of the rates by which two hosts stamp, and of one from that of true time. Each
#: is within 0.04 % of its processors' counter: a time of day that is slewed faster is not followed.
#: The counter's own rate is as the kernel states it, which is taken to be right to 0.01 %.
RATES_APART = 1e-3


class RoundTrip(Frozen):
    """Time from the tester's port 0 through the DUT to port 1, and from there through it back.

    Of a tester whose ports are on two hosts with clocks of their own. Now and then a frame from
    port 0 asks, and the next frame that port 1 sends anyway answers it: all of them are frames of
    the load, each counted once, in its own direction. The time that port 1 held the frame, from
    when the tester there found it until the answer left, is measured by the clock there and is not
    in it. What no two clocks tell, a half of it, is never given.

    Attributes:
        latency: Of the frames whose answers came back.
        asked: Frames that asked; for the others no answer was sent within 10 ms, or it was lost.
        held_s: Longest time that port 1 held a frame of these, seconds.
    """

    latency: Latency
    asked: int
    held_s: float

    @staticmethod
    def name(ends: Sequence[str]) -> str:
        """What results call it, between the names of both directions: "phy0->phy3->phy0"."""
        return f"{ends[0]}->{ends[1]}->{ends[0]}"

    @staticmethod
    def is_name(name: str) -> bool:
        """Whether results call it so, and no direction."""
        return name.count("->") > 1

    @property
    def uncertainty_s(self) -> float:
        """Most that a time is wrong by since no clock is as fast as another, seconds.

        The time that a frame was away is measured by one clock, with the hold in it; that by two.
        """
        return (self.held_s + self.latency.max_ns / 1e9) * RATES_APART


class DirectionCounts(Frozen):
    """Counts of one direction of one trial, from the generator's own frames only.

    Attributes:
        direction: Number of the sending tester port.
        intended: Frames due by load and duration.
        sent: Frames the wire accepted.
        refused: Frames offered on time that the wire did not take, its far end being full.
        unsent: Frames the generator was too slow to offer.
        received: Distinct own frames that came back at the right port.
        duplicated: Further copies of frames already received.
        reordered: Frames with a sequence number below one already seen (RFC 4737).
        late: Own frames too old to tell a duplicate from a new frame; not in `received`.
        misrouted: Own frames of this direction seen at a wrong port.
            These four are None where the generator does not number its frames: `uncollected` of
            the result says why.
        altered: Own frames of another length or payload than was sent, a tag or a tunnel's header
            still on them for one, or behind a NAT with other addresses or ports than they must
            have; not in `received`. None: not verified.
        tx_seconds: Time that the offered frames took, from the first to the last and one more gap,
            measured: over their number it is their mean gap. Of frames in groups (`burst` of the
            profile) the trial's length.
        latency: None when nothing was received.
        broadcast_sent: Frames to the broadcast address that the wire accepted besides (RFC 2544
            section 11.1). A DUT may flood, process or drop them: they are in none of the above.
        broadcast_received: Distinct ones that came back at the right port.
    """

    direction: int
    intended: int
    sent: int
    refused: int
    unsent: int
    received: int
    duplicated: int | None = 0
    reordered: int | None = 0
    late: int | None = 0
    misrouted: int | None = 0
    altered: int | None = None
    tx_seconds: float = 0.0
    latency: Latency | None = None
    broadcast_sent: int = 0
    broadcast_received: int = 0


class HopCounters(Frozen):
    """Counters of one port of the DUT over one trial (after minus before).

    Attributes:
        port: "phy0", "vnf0.1" as in the deployment's graph.
        rx: Frames the vSwitch took in from this port.
        tx: Frames the vSwitch put out to this port.
        causes: Cause of a drop coming in -> frames, where the vSwitch tells; without zeros.
    """

    port: str
    rx: int = 0
    tx: int = 0
    rx_dropped: int = 0
    tx_dropped: int = 0
    causes: dict[str, int] = Field(default_factory=dict)


class Timeline(Frozen):
    """How one direction of one trial went on over time.

    Attributes:
        direction: Number of the sending tester port.
        bin_s: Width of a bin, seconds; the first begins with the first frame.
        sent: Frames offered in each bin.
        received: Of those sent in each bin, the distinct ones that came back, whenever that was:
            what is missing to `sent` was lost, and this is when it was sent.
        arrived: Distinct frames that came back in each bin.
        last_lost_s: When the last lost frame was sent, seconds; None when none was lost.
        gap_s: Longest time between two arrivals, seconds, of those that end after `gap_since_s`;
            0 for none.
        gap_from_s: When it began.
        gap_since_s: From when on the longest time was looked for, seconds: the trial's event is due
            then. None: not recorded, from the beginning.
    """

    direction: int
    bin_s: float
    sent: tuple[int, ...]
    received: tuple[int, ...]
    arrived: tuple[int, ...]
    last_lost_s: float | None = None
    gap_s: float = 0.0
    gap_from_s: float = 0.0
    gap_since_s: float | None = None


class EventTimes(Frozen):
    """When the event of a trial happened.

    Attributes:
        began_s: Seconds after the first frame.
        ended_s: Seconds after the first frame, when what was restarted said that it was ready.
        failure: Why it did not come back, or nothing came through it; "".
    """

    what: str
    began_s: float
    ended_s: float
    failure: str = ""


class Gaps(Frozen):
    """Gaps of one kind, of polling or of sending, over one trial.

    A gap of polling is the time between two looks of a thread of the tester at its receive rings; a
    gap of sending the time in which a frame was due and the thread made no transmit call.

    Attributes:
        max_s: The longest, seconds.
        percentiles: Percentage of the trial's time ("50", "99", "99.9") -> seconds: for so much of
            the time there was no gap longer than that. Weighed by length and not by number: this
            is what a frame meets that arrives at any time.
        hold_s: The longest gap that the rings bridge at the trial's load, seconds: polling, until
            the tester's receive ring is full; sending, until more frames are overdue than the DUT's
            receive ring holds. None: the ring's size is not known. Of several rings the one that
            gaps overflow for the longest time, else the one that is full first.
        over_s: Time in gaps longer than that, seconds.
        assumed: Whether the ring's size is not known, and was taken for `catch_up_frames`.
    """

    max_s: float
    percentiles: dict[str, float] = Field(default_factory=dict)
    hold_s: float | None = None
    over_s: float = 0.0
    assumed: bool = False


class QueueGaps(Frozen):
    """Gaps of the thread that serves one queue of the tester, which its ring does not bridge.

    Attributes:
        direction: Direction whose frames go through the queue.
        kind: "poll" of a receive queue, "send" of a transmit queue.
        port: Number of the tester's port.
        queue: Number of the queue at the port.
        worker: Number of the thread.
        share: Share of the port's frames that went through this queue, 0..1.
        max_s: The longest gap, seconds.
        hold_s: The longest that the queue's ring bridges at its share of the load, seconds; None:
            the ring's size is not known.
        over_s: Time in gaps longer than that, seconds.
        assumed: As of `Gaps`.
    """

    direction: int
    kind: Literal["poll", "send"]
    port: int
    queue: int
    worker: int
    share: float
    max_s: float
    hold_s: float | None = None
    over_s: float = 0.0
    assumed: bool = False


#: A latency is bound by the tester where its gap of polling at the same percentile is at least this
#: share of it: a frame that comes in a gap waits for half of it on average, and for all at most.
TESTER_BOUND = 0.5


class TrialGaps(Frozen):
    """How long the tester stood still over one trial.

    Attributes:
        poll: When it did not receive.
        send: When it did not send.
        queues: The queues with gaps that their rings do not bridge.
        catch_up_frames: Overdue frames that a transmit queue sends after a gap, at most, and at no
            more than twice its load; all others are given up and counted as unsent.
        ring_frames: Frames that the DUT's receive rings at one of the tester's ports hold together,
            of the smaller port; None: not known, or not recorded.
    """

    poll: Gaps
    send: Gaps
    queues: tuple[QueueGaps, ...] = ()
    catch_up_frames: int
    ring_frames: int | None = None

    def direction_queues(self, direction: int) -> tuple[QueueGaps, ...]:
        """The queues of one direction at which gaps are not bridged."""
        return tuple(queue for queue in self.queues if queue.direction == direction)

    def most_lost(self, direction: int, rate_fps: float, unreceived: float = inf) -> float:
        """Frames of a direction that the tester may have lost while it stood still, at most.

        A gap that a queue's ring does not bridge costs no more than the queue's frames of its whole
        length. A thread that neither polls nor sends is away once: the larger of both counts. Not
        polling costs frames that were sent; what the DUT's ring refused it cannot have cost.

        Args:
            direction: Number of the sending tester port.
            rate_fps: Its rate, frames/s.
            unreceived: Frames of the direction that were sent and did not come back.

        Returns:
            Frames.
        """
        once, kinds = 0.0, {"poll": self.poll.over_s, "send": self.send.over_s}
        if self.queues:
            cost: dict[int, dict[str, float]] = {}
            for queue in self.direction_queues(direction):
                of_worker = cost.setdefault(queue.worker, {})
                of_worker[queue.kind] = of_worker.get(queue.kind, 0.0) + queue.share * queue.over_s
            once = sum(max(costs.values()) for costs in cost.values())
            kinds = {k: sum(costs.get(k, 0.0) for costs in cost.values()) for k in kinds}
        else:  # nothing is over, or the generator does not tell its queues apart
            once = max(kinds.values())
        by_kind = rate_fps * kinds["send"] + min(rate_fps * kinds["poll"], unreceived)
        return min(rate_fps * once, by_kind)

    @property
    def mean_wait_s(self) -> float:
        """Mean time that a frame waits for the next look at its ring, at most, seconds.

        One that comes in a gap waits for half of it on average; each share of the time counts with
        the longest gap in it.
        """
        waited, below = 0.0, 0.0
        levels = sorted((float(level), gap_s) for level, gap_s in self.poll.percentiles.items())
        for level, gap_s in [*levels, (100.0, self.poll.max_s)]:
            waited, below = waited + (level - below) / 100 * gap_s, level
        return waited / 2

    def bounds(self, latency: Latency, way: str = "") -> tuple[str, ...]:
        """Values ("50", "99", "max" ...) of a latency that the tester's own wait may explain.

        Args:
            latency: The latency.
            way: Its name in results. In that of a round trip both ends have waited.

        Returns:
            Percentiles, and "max".
        """
        ends = 2 if RoundTrip.is_name(way) else 1
        values = {**latency.percentiles, "max": latency.max_ns}
        waits = {**self.poll.percentiles, "max": self.poll.max_s}
        return tuple(
            level
            for level, wait_s in waits.items()
            if level in values and ends * wait_s * 1e9 >= TESTER_BOUND * values[level] > 0
        )


#: Share of a tester's turns from which on its being held back explains frames that were unsent.
HELD_BACK_TURNS = 0.01


class TesterTurns(Frozen):
    """How the tester shared its processor over one trial.

    It sends what has come due when a turn begins, and sleeps until the next one when there is
    nothing more to do.

    Attributes:
        length_us: Length of a turn, microseconds.
        per_s: Turns that ended with a sleep, 1/s; of several threads that which had the fewest.
        asleep: Share of the trial asleep, 0..1, likewise.
        prompt: Whether it ran as soon as it woke (SCHED_FIFO).
        refused: Why it did not, where it was to: the kernel's words; else "".
        held_back: Turns that ended because it had used up its share of the processor, with frames
            still to be sent or received.
        share: That share, 0..1; 1 for no bound.
        group_frames: Frames that left a transmit queue in one turn, mean over turns with frames:
            so many the DUT gets at once there.
        most_frames: The most of one turn.
    """

    __test__ = False  # pytest would otherwise try to collect the name

    length_us: int
    per_s: float
    asleep: float
    prompt: bool
    refused: str = ""
    held_back: int = 0
    share: float = 1.0
    group_frames: float | None = None
    most_frames: int = 0


class PortCounts(Frozen):
    """What a port of the tester counted besides frames of streams; None: not counted there.

    Attributes:
        missed: Frames that came and that its receive ring, or the kernel before it, had no room
            for (DPDK's imissed; receive drops of a kernel interface).
        no_buffers: Times that no buffer was free to receive, each of them a frame's at least.
        no_send_buffers: Times that none was free to send: frames that were not sent.
        errors: Frames received with an error: a wrong checksum of the frame, a wrong length.
    """

    port: int
    missed: int | None = None
    no_buffers: int | None = None
    no_send_buffers: int | None = None
    errors: int | None = None
    carrier_changes: int | None = None

    def since(self, before: PortCounts) -> PortCounts:
        """What was counted since an earlier state of the same port; None where one is not known."""
        return self._with(before, -1)

    def __add__(self, other: PortCounts) -> PortCounts:
        """Both counts of a port; one that is not known adds nothing."""
        return self._with(other, 1)

    def _with(self, other: PortCounts, sign: int) -> PortCounts:
        counts = {}
        for name in PortCounts.model_fields.keys() - {"port"}:
            own_count, other_count = getattr(self, name), getattr(other, name)
            if own_count is not None and other_count is not None:
                counts[name] = own_count + sign * other_count
            elif sign > 0:
                counts[name] = own_count if other_count is None else other_count
        return PortCounts(port=self.port, **counts)

    @property
    def dropped(self) -> int:
        """Frames that came back and that the tester lost itself."""
        return (self.missed or 0) + (self.errors or 0) + (self.no_buffers or 0)

    @property
    def is_counted(self) -> bool:
        """Whether it is known how many frames had no room here."""
        return self.missed is not None

    def __str__(self) -> str:
        counts = (
            (self.missed, "frames found no room in its receive ring"),
            (self.errors, "frames came with an error"),
            (self.no_buffers, "times no buffer was free to receive"),
            (self.no_send_buffers, "times no buffer was free to send"),
        )
        return f"tester port {self.port}: " + ", ".join(f"{n} {event}" for n, event in counts if n)


class SessionCounts(Frozen):
    """Sessions of a NAT around a trial.

    Attributes:
        held: In its table after the trial.
        ended: In its table when it was made to forget all of them before; 0 where it was not.
        ended_s: How long that took, seconds.
    """

    held: int
    ended: int = 0
    ended_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LossInterval:
    """What the DUT lost of a load, as far as a trial tells: ratios, 0..1.

    Attributes:
        least: What was lost less what the tester itself may have lost.
        most: What was lost, and of a load that was not offered whole what is missing of it, too.
    """

    least: float
    most: float

    def __str__(self) -> str:
        if self.least == self.most:
            return percent(self.most, 3)
        return f"between {percent(self.least, 3)} and {percent(self.most, 3)}"

    def is_low(self, loss_ratio: float) -> bool:
        """Whether the loss is no larger than a ratio, for certain."""
        return self.most <= loss_ratio

    def is_high(self, loss_ratio: float) -> bool:
        """Whether the loss is larger than a ratio, for certain."""
        return self.least > loss_ratio

    def decides(self, loss_ratio: float) -> bool:
        """Whether it tells on which side of a ratio the loss is."""
        return self.is_low(loss_ratio) or self.is_high(loss_ratio)


def _parse_host(role: str) -> str:
    """The host that a role names before itself; "" for the tester's."""
    return role.partition(":")[0] if ":" in role else ""


def _boots(machines: Mapping[str, MachineLoad]) -> set[str]:
    return {machine.boot for machine in machines.values()}


class TrialResult(Frozen):
    """What the machine side returns for a trial.

    Attributes:
        foreign: Frames without our signature, per tester port; of "all" where they are counted
            together.
        corrupted: Frames of this trial with a stream or number that was never sent; None: not
            recorded. An older log has them among the foreign.
        verified: Frames whose payload was compared, the first of each receive call; the length is
            of all. None: not recorded.
        answered: Requests of neighbours that the tester's ports answered, not among the foreign.
        stale: Own frames of an earlier trial that came after its end: what it counted as lost.
        wall_s: Wall time of the whole trial with waits, seconds.
        drain_s: Time from the end of sending until every frame was back or given up, seconds.
        max_burst: Most frames handed over in one call.
        max_lag_s: Longest time a frame left after it was due, seconds.
        mean_lag_s: Mean of that, the pacing error, seconds.
        gaps: How long the tester stood still; None: not recorded.
        turns: How the tester shared its processor; None: it has one for itself, or not recorded.
        refusal_is_loss: True when the wire's far end is the DUT's own receive ring, so that a
            refused frame is one the DUT dropped; False when refusal is the generator's limit.
        hops: Counter differences of the DUT's ports.
        datapath: What each thread of the vSwitch counted by itself; empty where it keeps no count.
        vnf_work: The same of the VNFs' threads.
        tester_work: The same of the tester's; empty: it keeps no count, or not recorded.
        machine: The machine as a whole; None: not recorded.
        machines: Other hosts of the testbed -> the same of them, and with their names before
            the roles of threads; empty: not recorded, or there are none.
        energy: Energy by part of the machine; empty: nothing meters it, or not recorded.
        watched_cpu_s: Processor time that the collectors took themselves, seconds; None: not
            recorded.
        tester: What the tester's ports counted besides; empty: not recorded.
        sessions: Sessions of the DUT; None for one that has none, or not recorded.
        links_down: Links that were down during the trial, or at its end, without an event: of the
            tester as they were seen, of the DUT as the kernel counts.
        stacks: Call stack of a thread of the vSwitch, its names from the outermost on joined by ";"
            -> samples; empty but where `TrialSpec.profile` wants them.
        collected_s: Time in which threads were watched: sending, and waits around it, seconds; 0
            where it is not known.
        collected_at: Other hosts of the testbed -> the same of them, whose watch begins before the
            tester's and ends after it; a host that is not there: not recorded.
        clock_bound_s: Most that the clocks of the tester's ports were apart, seconds: the
            uncertainty of a latency, which is one way. None: of ports on one host, not recorded, or
            not known, and then there is no latency.
        round_trip: Time both ways, where the tester's ports are on two hosts with clocks of their
            own and frames go both ways; None: not measured.
        uncollected: Collector or count -> "not measured: why", for those that had nothing to tell.
        timelines: One for each direction, where `TrialSpec.bin_s` asks for them.
        failure: Why the trial has no number: "" or a message with the log's tail.
        failed: "" | "dut" | "generator" | "timeout".
    """

    directions: tuple[DirectionCounts, ...]
    foreign: dict[str, int] = Field(default_factory=dict)
    corrupted: int | None = None
    verified: int | None = None
    answered: int = 0
    stale: int = 0
    wall_s: float = 0.0
    drain_s: float = 0.0
    max_burst: int = 0
    max_lag_s: float = 0.0
    mean_lag_s: float = 0.0
    gaps: TrialGaps | None = None
    turns: TesterTurns | None = None
    refusal_is_loss: bool = True
    hops: tuple[HopCounters, ...] = ()
    threads: tuple[ThreadLoad, ...] = ()
    events: tuple[ThreadEvents, ...] = ()
    datapath: tuple[DatapathWork, ...] = ()
    vnf_work: tuple[DatapathWork, ...] = ()
    tester_work: tuple[DatapathWork, ...] = ()
    machine: MachineLoad | None = None
    machines: dict[str, MachineLoad] = Field(default_factory=dict)
    energy: tuple[EnergyUse, ...] = ()
    watched_cpu_s: float | None = None
    tester: tuple[PortCounts, ...] = ()
    sessions: SessionCounts | None = None
    links_down: tuple[str, ...] = ()
    stacks: dict[str, int] = Field(default_factory=dict)
    collected_s: float = 0.0
    collected_at: dict[str, float] = Field(default_factory=dict)
    clock_bound_s: float | None = None
    round_trip: RoundTrip | None = None
    uncollected: dict[str, str] = Field(default_factory=dict)
    timelines: tuple[Timeline, ...] = ()
    event: EventTimes | None = None
    failure: str = ""
    failed: str = ""

    def watch_time(self, role: str) -> float:
        """Time in which the threads of a role were watched, on its host, seconds; 0: not known."""
        host = role.partition(":")[0]
        has_machine = host in self.machines or host in self.collected_at
        return self.collected_at.get(host, 0.0) if has_machine else self.collected_s

    @property
    def hosts(self) -> dict[str, MachineLoad]:
        """Each machine once, by the name of its host: "" for the tester's."""
        machines = {"": self.machine} if self.machine is not None else {}
        for host, machine in self.machines.items():
            # That of the tester has a name, too; and hosts may be namespaces of one machine.
            if machine not in machines.values() and not (
                machine.boot and machine.boot in _boots(machines)
            ):
                machines[host] = machine
        return machines

    @property
    def taken(self) -> dict[str, TakenTime]:
        """What others took of the processors that pollers run on, by host; "" for the tester's."""
        return {host: self._sum_taken(host, machine) for host, machine in self.hosts.items()}

    def _sum_taken(self, host: str, machine: MachineLoad) -> TakenTime:
        same = (
            name
            for name, load in self.machines.items()
            if load == machine or (load.boot and load.boot == machine.boot)
        )
        names = {host, *same}
        threads = [thread for thread in self.threads if _parse_host(thread.role) in names]
        # Without their boots it is not known whether hosts share their processors.
        is_whole = bool(machine.boot) or not self.machines
        watched_s = self.collected_at.get(host, self.collected_s)
        has_other_host = any(
            o != machine and o.boot == machine.boot for o in self.machines.values()
        )
        if machine.boot and has_other_host:
            # To each agent the threads of the other host are others'.
            machine = machine.model_copy(update={"others": None})
        return machine.taken(threads, watched_s, is_whole=is_whole)

    def disturbed_by(self, limit: float) -> tuple[str, ...]:
        """What disturbed machine or tester during the trial, in words; empty: nothing known.

        Args:
            limit: What others may take, in processors, and a hypervisor of one, before it matters:
                the smallest width of a goal that is searched for.

        Returns:
            A sentence for each.
        """
        taken = self.taken
        of_machines = (
            f"host {host}: {disturbance}" if host else disturbance
            for host, machine in self.hosts.items()
            for disturbance in (*taken[host].texts(limit), *machine.disturbances)
        )
        of_tester = (str(port) for port in self.tester if port.dropped or port.no_send_buffers)
        return (*of_machines, *of_tester)

    @property
    def received(self) -> int:
        """Frames that arrived, in both directions together."""
        return sum(d.received for d in self.directions)

    @property
    def unsent(self) -> int:
        """Frames that the tester gave up, in both directions together."""
        return sum(d.unsent for d in self.directions)

    @property
    def held_back(self) -> bool:
        """Whether frames were unsent because the tester had used up its share of its processor."""
        if self.turns is None or not self.unsent:
            return False
        turns = self.turns.per_s * max((d.tx_seconds for d in self.directions), default=0.0)
        return self.turns.held_back > HELD_BACK_TURNS * turns

    @property
    def short_by_turns(self) -> str:
        """What the tester's turns have to do with frames that were unsent, in words; ""."""
        turns = self.turns
        if turns is None or not self.unsent:
            return ""
        causes = []
        if self.held_back:
            causes.append(
                f"the tester used up its share of its processor ({turns.share:.0%}) in "
                f"{turns.held_back} turns"
            )
        if turns.refused:
            causes.append(f"the kernel refused the tester SCHED_FIFO ({turns.refused})")
        return "; ".join(causes)

    def offered(self, d: DirectionCounts) -> int:
        """Frames of a direction put to the DUT: sent, and refused where that is the DUT's."""
        return d.sent + (d.refused if self.refusal_is_loss else 0)

    def lost(self, d: DirectionCounts) -> int:
        """Frames of a direction that were offered and not forwarded; negative is inconsistent."""
        return self.offered(d) - d.received

    def loss_ratio(self, d: DirectionCounts) -> float:
        """Frame loss rate of a direction (RFC 1242 section 3.6), 0..1; 0.0 without any frame."""
        offered = self.offered(d)
        return self.lost(d) / offered if offered else 0.0

    def receiver(self, d: DirectionCounts) -> PortCounts | None:
        """Counts of the tester's port that receives a direction; None: not recorded."""
        return next((counts for counts in self.tester if counts.port == 1 - d.direction), None)

    def most_lost_by_tester(self, d: DirectionCounts, *, own_rings: bool = False) -> float:
        """Most frames of a direction that the tester itself may have lost.

        Args:
            d: Counts of the direction.
            own_rings: True where the tester plugs into itself: what is refused is refused by a ring
                that it did not empty.

        Returns:
            The frames of the whole length of all gaps that no ring bridges, and those that the
            receiving port dropped; 0.0 without any.
        """
        port = self.receiver(d)
        dropped = 0 if port is None else port.dropped
        if self.gaps is None or d.tx_seconds <= 0:
            return float(dropped)
        rate = (d.sent + d.refused) / d.tx_seconds
        unreceived = inf if own_rings else max(0, d.sent - d.received)
        return dropped + self.gaps.most_lost(d.direction, rate, unreceived)

    def shortfall(self, d: DirectionCounts) -> float:
        """Share of the intended frames of a direction that were not offered, 0..1."""
        return max(0.0, 1.0 - self.offered(d) / d.intended) if d.intended else 0.0

    def is_short(self, d: DirectionCounts, tolerance: float) -> bool:
        """Whether less than the load was offered in a direction, by more than a share of it."""
        return self.offered(d) < d.intended * (1.0 - tolerance)

    def loss_interval(self, d: DirectionCounts, tolerance: float) -> LossInterval:
        """What the DUT lost of a direction's load.

        Args:
            d: Counts of the direction.
            tolerance: Accuracy of the load: a shortfall up to this share of it is none, 0..1.

        Returns:
            The ratios; both are 0 where nothing was offered or intended.
        """
        offered, lost = self.offered(d), max(0, self.lost(d))
        if not d.intended:
            return LossInterval(0.0, 0.0)
        least = max(0.0, lost - self.most_lost_by_tester(d)) / offered if offered else 0.0
        if self.is_short(d, tolerance):
            return LossInterval(least, (lost + d.intended - offered) / d.intended)
        return LossInterval(least, lost / offered if offered else 0.0)

    def load_loss(self, tolerance: float) -> LossInterval:
        """What the DUT lost of the load, all directions together (RFC 9971 "Trial Loss Ratio").

        Args:
            tolerance: As of `loss_interval`.

        Returns:
            The ratios; both are 0 where nothing was offered or intended.
        """
        intervals = [(d, self.loss_interval(d, tolerance)) for d in self.directions if d.intended]
        offered = sum(self.offered(d) for d, _ in intervals)
        if any(self.is_short(d, tolerance) for d, _ in intervals):
            intended = sum(d.intended for d, _ in intervals)
            gone = sum(d.intended - self.offered(d) + max(0, self.lost(d)) for d, _ in intervals)
        else:
            intended, gone = offered, sum(max(0, self.lost(d)) for d, _ in intervals)
        least = sum(interval.least * self.offered(d) for d, interval in intervals)
        return LossInterval(
            least / offered if offered else 0.0, gone / intended if intended else 0.0
        )

    def worst_loss_ratio(self) -> float:
        """Loss ratio of the worse direction, 0..1: an aggregate must not hide a bad one."""
        return max((self.loss_ratio(d) for d in self.directions), default=0.0)


class PartResult(Frozen):
    """What one host has of a trial.

    Attributes:
        result: Counts of a tester with both its ports here, and of the DUT's parts beside it; of a
            tester with one port here the counts of that: frames that it sent, and those that came.
        dut: What the DUT's parts here counted, where `result` has not that as well.
        sent_s: When its last frame left, or the other's was due, seconds after its beginning of
            sending.
        open_s: Until when it received, likewise.
        drift_s: Most that its stamps were from its time of day at the end, seconds; None: they are
            of the processors' counter.
        clock: What its service stated of its time of day when the trial was over.
        marks: Its frames that asked for the round trip, or answered.
        echoes: Round trips as it knows them, nanoseconds by its clock. Of port 1, which answers:
            stamp of the frame that asked, that of the answer, and the time from when that frame was
            found to that. Of port 0: 0, the stamp of the answer, and when that was found.
    """

    result: TrialResult
    dut: TrialResult | None = None
    sent_s: float = 0.0
    open_s: float = 0.0
    drift_s: float | None = None
    clock: ClockSync | None = None
    marks: int = 0
    echoes: tuple[tuple[int, int, int], ...] = ()


_NOT_COUNTED = TrialResult(directions=())


def _read_tolerance(request: TrialRequest) -> float:
    """The accuracy of a trial's load; without one no shortfall is any."""
    return request.offered_tolerance if isinstance(request, TrialSpec) else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """What a test learns of a trial.

    Attributes:
        request: What was requested; of a trial that was run, its `TrialSpec`.
        loss_ratio: Lost frames / offered frames of the worse direction, 0..1.
        verdict: Whether that is a measurement of the DUT.
        number: Number of the trial in the log.
        result: What was counted.
        interval: What the DUT lost of the load, all directions together; None: `loss_ratio` says
            it.

    Raises:
        ValueError: A valid trial's loss ratio is outside 0..1: it must not reach a test.
    """

    request: TrialRequest
    loss_ratio: float
    verdict: Verdict = Verdict.VALID
    number: int = 0
    result: TrialResult = _NOT_COUNTED
    interval: LossInterval | None = None

    def __post_init__(self) -> None:
        if self.verdict is Verdict.VALID and not 0.0 <= self.loss_ratio <= 1.0:
            raise ValueError(f"loss ratio {self.loss_ratio} is outside [0, 1]")

    @classmethod
    def of(
        cls,
        request: TrialRequest,
        result: TrialResult,
        verdict: Verdict = Verdict.VALID,
        number: int = 0,
    ) -> TrialOutcome:
        """The outcome of a trial that was counted."""
        return cls(
            request=request,
            loss_ratio=result.worst_loss_ratio(),
            verdict=verdict,
            number=number,
            result=result,
            interval=result.load_loss(_read_tolerance(request)) if result.directions else None,
        )

    @property
    def loss(self) -> LossInterval:
        """What the DUT lost of the load, all directions together."""
        return self.interval or LossInterval(self.loss_ratio, self.loss_ratio)

    @property
    def is_short(self) -> bool:
        """Whether less than the load was offered, by more than the load is accurate."""
        tolerance = _read_tolerance(self.request)
        return any(self.result.is_short(d, tolerance) for d in self.result.directions)

    @property
    def missing(self) -> float:
        """Share of the load that was not offered, all directions together, 0..1."""
        intended = sum(d.intended for d in self.result.directions)
        offered = sum(map(self.result.offered, self.result.directions))
        return max(0.0, 1.0 - offered / intended) if intended else 0.0

    @property
    def load_fps(self) -> float:
        """Intended load of each sending interface, frames/s."""
        return self.request.load_fps

    @property
    def duration_s(self) -> float:
        """Intended seconds of traffic."""
        return self.request.duration_s

    @property
    def forwarding_rate_fps(self) -> float:
        """Load x (1 - loss ratio), frames/s per interface (RFC 9971 "Trial Forwarding Rate").

        What was not offered of the load has not come back: it counts as lost.
        """
        return self.load_fps * (1.0 - self.loss.most)

    def answers(self, request: TrialRequest) -> bool:
        """Whether this is sent to the test that waits for a trial, or the trial is repeated.

        True for a measurement, for one that is taken as it is, and where an event failed.
        """
        if self.verdict is Verdict.VALID:
            return True
        event = self.result.event
        if event is not None and event.failure and not self.result.failed:
            return True  # what did not come back would not at the next try either
        of_tester = self.verdict in (Verdict.GENERATOR_LIMITED, Verdict.TESTER_STALLED)
        return of_tester and not self.result.failed and request.when_limited == "count"
