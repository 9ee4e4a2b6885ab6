"""A simulated DUT that knows its own truth, to try searches, goals and presets on.

It has what makes real data planes hard to search: capacity that varies between trials, a buffer
that lets short trials pass above capacity, rare drops that have nothing to do with load, a second,
lower mode it falls into now and then, capacity that falls when there is too much to do, a history
after overload, and loss at loads below those it carries. The tester in front of it may stand still.
Everything is drawn from one seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal, TypeVar

from vnetperf.model.parameters import SearchGoal
from vnetperf.model.trial import (
    DirectionCounts,
    Gaps,
    QueueGaps,
    Timeline,
    TrialGaps,
    TrialOutcome,
    TrialRequest,
    TrialResult,
    TrialSpec,
)
from vnetperf.search import Procedure

Found = TypeVar("Found")

#: Noise is a normal distribution cut here (standard deviations), so that a worst case exists.
NOISE_CUT = 3.0
#: From this expected count on, a Poisson variable is drawn as a normal one.
_POISSON_IS_NORMAL = 50.0
#: Kinds of gaps, and the tester's port of its receive and its transmit queues.
_KINDS: tuple[tuple[Literal["poll", "send"], int], ...] = (("poll", 1), ("send", 0))


@dataclass(slots=True)
class SimulatedDut:
    """A DUT, with the generator in front of it, for one direction of traffic.

    Trials change its random state: two DUTs made alike answer alike in the same order.
    """

    capacity_fps: float
    """Frames/s it forwards in its normal mode, per interface."""

    noise: float = 0.0
    """Standard deviation of the capacity between trials, relative to it."""

    buffer_frames: float = 0.0
    """Frames it absorbs above its capacity in each trial before it drops."""

    drop_probability: float = 0.0
    """Probability of losing a frame at any load."""

    low_capacity_fps: float | None = None
    """Capacity in a second mode, frames/s per interface; None for one mode only."""

    low_probability: float = 0.0
    """Probability that a trial meets the second mode."""

    overload_cost: float = 0.0
    """Share of its capacity, in [0, 1), that it loses as overload grows without limit, because it
    spends effort on frames that it then drops. 0 forwards its capacity under any overload."""

    stall_s: float = 0.0
    """Longest stall of the tester, seconds: in a trial with stalls it neither polls nor sends for
    half of this to all of it, once. Nothing else is drawn in the stall: it costs frames that are
    the tester's loss, and `TrialResult.gaps` shows it."""

    stall_probability: float = 1.0
    """Probability of a stall in each second of a trial."""

    tester_threads: int = 1
    """Threads of the tester, each with queues of its own and the same share of the frames: a stall
    is that of one of them, in turn."""

    ring_frames: int = 2048
    """Frames that each receive ring of the tester and of the DUT holds: what arrives in a stall
    beyond that is lost."""

    catch_up_frames: int = 2048
    """Overdue frames that the tester sends after a stall, at most; the others are unsent."""

    generator_limit_fps: float | None = None
    """Most the generator sends, frames/s per interface; frames it fails to send count as lost
    (draft section "Trial Load": a severe gap should be turned into loss). None for no limit."""

    wedged_s: float = 0.0
    """How long an overload, offered more than its capacity, leaves it at `wedged_share` of it:
    seconds of test time, idle ones too. 0 for a DUT without a history."""

    wedged_share: float = 0.5
    """Share of its capacity that is left to it then."""

    between_s: float = 0.0
    """Test time that passes between two trials besides what they rest, seconds."""

    lossy_loads_fps: tuple[float, float] = (0.0, 0.0)
    """Loads, above the first and below the second, at which it loses `lossy_ratio` of all frames
    though it carries more: a loss inversion."""

    lossy_ratio: float = 0.02
    """Share of the frames lost there."""

    lossy_after_rest_s: float = 0.0
    """Rest before a trial from which on it loses them, seconds; 0 for always."""

    seed: int = 0
    """Seed of everything drawn."""

    clock_s: float = field(default=0.0, init=False)
    """Test time so far, seconds."""

    trials: int = field(default=0, init=False)
    """Trials measured so far."""

    _random: random.Random = field(init=False, repr=False)
    _wedged_until_s: float = field(default=0.0, init=False, repr=False)
    _has_rested: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - a simulation, not a secret

    def offered_fps(self, load_fps: float) -> float:
        """What the generator makes of an intended load.

        Args:
            load_fps: Intended frames/s per interface.

        Returns:
            Offered frames/s per interface.
        """
        return min(load_fps, self.generator_limit_fps or load_fps)

    def measure(self, request: TrialRequest) -> TrialOutcome:
        """Run one trial.

        Args:
            request: Its intended load and duration.

        Returns:
            Its loss.
        """
        result = self.count(request)
        (counts,) = result.directions
        lost = counts.intended - counts.received
        return TrialOutcome(
            request=request,
            loss_ratio=lost / counts.intended,
            number=self.trials,
            result=result,
        )

    def count(self, request: TrialRequest) -> TrialResult:
        """Run one trial.

        Args:
            request: Its intended load and duration.

        Returns:
            What a tester counts, with the gaps in which it stood still. Frames that a tester
            whose limit is below the load fails to send are unsent.
        """
        self.trials += 1
        intended = max(1, round(request.load_fps * request.duration_s))
        offered = min(intended, round(self.offered_fps(request.load_fps) * request.duration_s))
        self.clock_s += request.rest_s
        stalls = self._draw_stalls(request.duration_s)
        overdue = (round(stall * request.load_fps / self.tester_threads) for stall in stalls)
        offered -= min(offered, sum(max(0, n - self.catch_up_frames) for n in overdue))
        capacity = self._draw_capacity()
        if self.clock_s < self._wedged_until_s:
            capacity *= self.wedged_share
        elif self.offered_fps(request.load_fps) > capacity:
            self._wedged_until_s = self.clock_s + self.wedged_s
        self.clock_s += request.duration_s + self.between_s + request.idle_s
        room = capacity * request.duration_s + self.buffer_frames
        if offered > room:
            room *= 1.0 - self.overload_cost * (1.0 - room / offered)
        forwarded = min(offered, math.floor(room))
        forwarded -= min(forwarded, self._draw_drops(forwarded * self.drop_probability))
        low, high = self.lossy_loads_fps
        self._has_rested |= request.rest_s >= self.lossy_after_rest_s
        if self._has_rested and low < request.load_fps < high:
            forwarded = min(forwarded, math.floor(offered * (1.0 - self.lossy_ratio)))
        rate = forwarded / request.duration_s
        of_thread = rate / self.tester_threads
        missed = sum(max(0, math.floor(stall * of_thread) - self.ring_frames) for stall in stalls)
        forwarded -= min(forwarded, missed)
        counts = DirectionCounts(
            direction=0,
            intended=intended,
            sent=offered,
            refused=0,
            unsent=intended - offered,
            received=forwarded,
            tx_seconds=request.duration_s,
        )
        return TrialResult(directions=(counts,), gaps=self._gaps(stalls, of_thread or 1.0))

    def _draw_stalls(self, duration_s: float) -> list[float]:
        """Seconds of each stall of a trial."""
        if not self.stall_s:
            return []
        seconds = range(max(1, round(duration_s)))
        hit = [self._random.random() < self.stall_probability for _ in seconds]
        return [self.stall_s * self._random.uniform(0.5, 1.0) for is_hit in hit if is_hit]

    def _gaps(self, stalls: Sequence[float], rate: float) -> TrialGaps:
        """The gaps of both kinds at the rate of a thread, which does nothing in a stall."""
        hold = self.ring_frames / rate
        over = [
            sum(stall for stall in stalls[thread :: self.tester_threads] if stall > hold)
            for thread in range(self.tester_threads)
        ]
        longest = max(stalls, default=0.0)
        gaps = Gaps(max_s=longest, hold_s=hold, over_s=max(over))
        queues = tuple(
            QueueGaps(
                direction=0,
                kind=kind,
                port=port,
                queue=thread,
                worker=thread,
                share=1.0 / self.tester_threads,
                max_s=longest,
                hold_s=hold,
                over_s=seconds,
            )
            for thread, seconds in enumerate(over if self.tester_threads > 1 else ())
            for kind, port in _KINDS
            if seconds
        )
        return TrialGaps(poll=gaps, send=gaps, queues=queues, catch_up_frames=self.catch_up_frames)

    def high_loss_probability(self, load_fps: float, duration_s: float, loss_ratio: float) -> float:
        """Probability that a trial loses a larger share of its frames than a loss ratio.

        Args:
            load_fps: Intended frames/s per interface.
            duration_s: Seconds of the trial.
            loss_ratio: Tolerated share, in [0, 1).

        Returns:
            A probability. Capacity and rare drops are taken as independent causes.
        """
        sent = self.offered_fps(load_fps)
        if load_fps * (1.0 - loss_ratio) > sent:
            return 1.0
        share = load_fps * (1.0 - loss_ratio) / sent
        needed = sent * _room_for(share, self.overload_cost) - self.buffer_frames / duration_s
        carried = 1.0 - self._capacity_below(needed)
        frames = sent * duration_s
        spared = _poisson_cdf(math.floor(frames * loss_ratio), frames * self.drop_probability)
        return 1.0 - carried * spared

    def truth_fps(self, goal: SearchGoal) -> float:
        """The load a perfect search would find for a goal, with unlimited trials.

        Args:
            goal: Its final trial duration, loss ratio and exceed ratio are what count.

        Returns:
            Frames/s per interface: the highest load at which a full-length trial is high-loss
            with no more than the goal's exceed ratio for a probability.
        """
        low, high = 0.0, 2.0 * (self.capacity_fps + self.buffer_frames / goal.final_trial_s)
        high /= 1.0 - goal.loss_ratio
        for _ in range(80):
            load = (low + high) / 2.0
            bad = self.high_loss_probability(load, goal.final_trial_s, goal.loss_ratio)
            if bad <= goal.exceed_ratio + 1e-12:
                low = load
            else:
                high = load
        return low

    def _draw_capacity(self) -> float:
        capacity = self.capacity_fps
        if self.low_capacity_fps is not None and self._random.random() < self.low_probability:
            capacity = self.low_capacity_fps
        if self.noise:
            sigmas = self._random.gauss(0.0, 1.0)
            capacity *= 1.0 + self.noise * max(-NOISE_CUT, min(NOISE_CUT, sigmas))
        return capacity

    def _draw_drops(self, expected: float) -> int:
        if expected <= 0.0:
            return 0
        if expected > _POISSON_IS_NORMAL:
            return max(0, round(self._random.gauss(expected, math.sqrt(expected))))
        count, product, floor = 0, self._random.random(), math.exp(-expected)
        while product > floor:
            count += 1
            product *= self._random.random()
        return count

    def _capacity_below(self, fps: float) -> float:
        normal = _below(fps, self.capacity_fps, self.noise)
        if self.low_capacity_fps is None:
            return normal
        low = _below(fps, self.low_capacity_fps, self.noise)
        return self.low_probability * low + (1.0 - self.low_probability) * normal


@dataclass(slots=True)
class DutOverTime:
    """A DUT and a tester over time, one direction: its trials have counts, and bins if requested.

    Its clock runs with the traffic of its trials, not between them.
    """

    capacity_fps: float
    """Frames/s it forwards."""

    livelock: float = 0.0
    """Frames/s that it forwards fewer for each frame/s offered above its capacity."""

    livelock_floor_fps: float = 0.0
    """Frames/s that it forwards at least, however much is offered."""

    drift: float = 0.0
    """Change of its capacity with each second of traffic, relative."""

    stall_every_s: float = 0.0
    """Mean time between stalls, in which every frame is lost; they happen at random. 0: none."""

    stall_s: float = 0.005
    """Length of a stall, seconds."""

    lingers_s: float = 0.0
    """How long it goes on losing frames after more than its capacity was offered, seconds."""

    lingering_loss: float = 0.1
    """Share of the frames that it loses then."""

    buffer_frames: int = 0
    """Frames of a burst that it holds besides what it forwards meanwhile."""

    forwards_in_bursts: bool = True
    """False where it forwards nothing while a burst arrives, as one that has to wait for the
    tester's processor."""

    refuses: bool = False
    """Whether its wire refuses the frames that it has no room for, and they are counted so."""

    burst_gaps_s: tuple[float, ...] = (1e-6,)
    """Times between frames of the tester's bursts, drawn anew for each: a tester that is kept from
    running sends more slowly, and the DUT empties its buffer meanwhile."""

    seed: int = 0
    """Seed of everything drawn."""

    clock_s: float = field(default=0.0, init=False)
    """Seconds of traffic so far."""

    trials: int = field(default=0, init=False)
    """Trials measured so far."""

    _random: random.Random = field(init=False, repr=False)
    _next_stall_s: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - a simulation, not a secret
        self._next_stall_s = self._draw_stall(0.0)

    def forwards_fps(self, load_fps: float) -> float:
        """What it forwards of a load now, if it does not stall.

        Args:
            load_fps: Offered frames/s.

        Returns:
            Frames/s.
        """
        capacity = self.capacity_fps * (1.0 + self.drift * self.clock_s)
        if load_fps <= capacity:
            return load_fps
        return max(self.livelock_floor_fps, capacity - self.livelock * (load_fps - capacity))

    def measure(self, request: TrialRequest) -> TrialOutcome:
        """Run one trial.

        Args:
            request: What is sent.

        Returns:
            Its counts, with a timeline where bins are requested.
        """
        self.trials += 1
        result = self._burst(request) if request.burst else self._paced(request)
        spec = TrialSpec(frame_size=64, **request.model_dump())
        return TrialOutcome.of(spec, result, number=self.trials)

    def _burst(self, request: TrialRequest) -> TrialResult:
        gap_s = self._random.choice(self.burst_gaps_s)
        seconds = request.burst * gap_s
        forwarded = int(self.capacity_fps * seconds) if self.forwards_in_bursts else 0
        counts = _counts(request.burst, min(request.burst, forwarded + self.buffer_frames), seconds)
        if self.refuses:
            refused = counts.sent - counts.received
            counts = counts.model_copy(update={"sent": counts.received, "refused": refused})
        self.clock_s += seconds
        return TrialResult(directions=(counts,))

    def _paced(self, request: TrialRequest) -> TrialResult:
        width = request.bin_s or request.duration_s
        began, lingers_until_s, last_lost_s = self.clock_s, 0.0, None
        sent, received = [], []
        for number in range(math.ceil(request.duration_s / width - 1e-9)):
            begin_s = number * width
            seconds = min(width, request.duration_s - begin_s)
            load_fps = _current_load(request, begin_s)
            stalled = self._stalled(began + begin_s, seconds)
            self.clock_s = began + begin_s + seconds
            sent.append(round(load_fps * seconds))
            passed = self.forwards_fps(load_fps) * (seconds - stalled)
            if load_fps > self.capacity_fps:
                lingers_until_s = begin_s + seconds + self.lingers_s
            elif begin_s < lingers_until_s - 1e-9:
                passed *= 1.0 - self.lingering_loss
            received.append(min(sent[-1], round(passed)))
            if received[-1] < sent[-1]:
                last_lost_s = begin_s + seconds
        timeline = Timeline(
            direction=0,
            bin_s=width,
            sent=tuple(sent),
            received=tuple(received),
            arrived=tuple(received),
            last_lost_s=last_lost_s,
        )
        return TrialResult(
            directions=(_counts(sum(sent), sum(received), request.duration_s),),
            timelines=(timeline,) if request.bin_s else (),
        )

    def _stalled(self, begin_s: float, seconds: float) -> float:
        """How much of some time it stands still."""
        stalled = 0.0
        while self._next_stall_s < begin_s + seconds:
            stall_end_s = self._next_stall_s + self.stall_s
            stalled += max(
                0.0, min(stall_end_s, begin_s + seconds) - max(self._next_stall_s, begin_s)
            )
            if stall_end_s > begin_s + seconds:
                break  # the rest is in what follows
            self._next_stall_s = self._draw_stall(stall_end_s)
        return min(stalled, seconds)

    def _draw_stall(self, after_s: float) -> float:
        if not self.stall_every_s:
            return math.inf
        return after_s + self._random.expovariate(1.0 / self.stall_every_s)


def _current_load(request: TrialRequest, at_s: float) -> float:
    """Load of a trial at a moment, frames/s."""
    until_s = 0.0
    for step in request.steps:
        until_s += step.duration_s
        if at_s < until_s - 1e-9:
            return step.load_fps
    return request.load_fps


def _counts(sent: int, received: int, seconds: float) -> DirectionCounts:
    return DirectionCounts(
        direction=0,
        intended=sent,
        sent=sent,
        refused=0,
        unsent=0,
        received=received,
        tx_seconds=seconds,
    )


def run(
    procedure: Procedure[Found], dut: SimulatedDut | DutOverTime
) -> tuple[Found, tuple[TrialOutcome, ...]]:
    """Run a search, or another test, to its end on a simulated DUT.

    Args:
        procedure: A test not yet started.
        dut: What its trials meet.

    Returns:
        The outcome, and the log of trials as `vnetperf.search.replay` takes it.
    """
    log: list[TrialOutcome] = []
    try:
        request = next(procedure)
        while True:
            log.append(dut.measure(request))
            request = procedure.send(log[-1])
    except StopIteration as end:
        outcome: Found = end.value
        return outcome, tuple(log)


def _room_for(share: float, cost: float) -> float:
    """Room, relative to what is offered, that forwards a share of it at an overload cost.

    Solves room * (1 - cost * (1 - room)) = share.
    """
    if cost == 0.0:
        return share
    kept = 1.0 - cost
    return (math.sqrt(kept * kept + 4.0 * cost * share) - kept) / (2.0 * cost)


def _below(fps: float, capacity_fps: float, noise: float) -> float:
    """Probability that a mode's capacity is below a rate."""
    if noise == 0.0:
        return float(capacity_fps < fps)
    sigmas = (fps / capacity_fps - 1.0) / noise
    if abs(sigmas) > NOISE_CUT:
        return float(sigmas > 0.0)
    # At the cut itself a lump of probability sits below, which -NOISE_CUT exactly does not reach.
    return 0.0 if sigmas == -NOISE_CUT else NormalDist().cdf(sigmas)


def _poisson_cdf(count: int, expected: float) -> float:
    """Probability of no more than `count` drops."""
    if expected <= 0.0:
        return 1.0
    if expected > _POISSON_IS_NORMAL or count > 10 * _POISSON_IS_NORMAL:
        return NormalDist(expected, math.sqrt(expected)).cdf(count + 0.5)
    term = total = math.exp(-expected)
    for k in range(1, count + 1):
        term *= expected / k
        total += term
    return min(1.0, total)
