"""A simulated DUT that knows its own truth, to try searches, goals and presets on.

It has what makes real data planes hard to search: capacity that varies between trials, a buffer
that lets short trials pass above capacity, rare drops that have nothing to do with load, a second,
lower mode it falls into now and then, and capacity that falls when there is too much to do. The
tester in front of it may stand still. Everything is drawn from one seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from vnetperf.model.parameters import SearchGoal
from vnetperf.model.trial import (
    DirectionCounts,
    Gaps,
    TrialGaps,
    TrialOutcome,
    TrialRequest,
    TrialResult,
)
from vnetperf.search import Search, SearchOutcome

#: Noise is a normal distribution cut here (standard deviations), so that a worst case exists.
NOISE_CUT = 3.0
#: From this expected count on, a Poisson variable is drawn as a normal one.
_POISSON_IS_NORMAL = 50.0


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

    ring_frames: int = 2048
    """Frames that the tester's receive ring and the DUT's hold: what arrives in a stall beyond
    that is lost."""

    catch_up_frames: int = 2048
    """Overdue frames that the tester sends after a stall, at most; the others are unsent."""

    generator_limit_fps: float | None = None
    """Most the generator sends, frames/s per interface; frames it fails to send count as lost
    (draft section "Trial Load": a severe gap should be turned into loss). None for no limit."""

    seed: int = 0
    """Seed of everything drawn."""

    trials: int = field(default=0, init=False)
    """Trials measured so far."""

    _random: random.Random = field(init=False, repr=False)

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
        stalls = self._draw_stalls(request.duration_s)
        overdue = (round(stall * request.load_fps) for stall in stalls)
        offered -= min(offered, sum(max(0, n - self.catch_up_frames) for n in overdue))
        room = self._draw_capacity() * request.duration_s + self.buffer_frames
        if offered > room:
            room *= 1.0 - self.overload_cost * (1.0 - room / offered)
        forwarded = min(offered, math.floor(room))
        forwarded -= min(forwarded, self._draw_drops(forwarded * self.drop_probability))
        rate = forwarded / request.duration_s
        missed = sum(max(0, math.floor(stall * rate) - self.ring_frames) for stall in stalls)
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
        return TrialResult(directions=(counts,), gaps=self._gaps(stalls, rate or 1.0))

    def _draw_stalls(self, duration_s: float) -> list[float]:
        """Seconds of each stall of a trial."""
        if not self.stall_s:
            return []
        seconds = range(max(1, round(duration_s)))
        hit = [self._random.random() < self.stall_probability for _ in seconds]
        return [self.stall_s * self._random.uniform(0.5, 1.0) for one in hit if one]

    def _gaps(self, stalls: Sequence[float], rate: float) -> TrialGaps:
        """The gaps of both kinds: the tester does nothing in a stall."""
        hold = self.ring_frames / rate
        gaps = Gaps(
            max_s=max(stalls, default=0.0),
            hold_s=hold,
            over_s=sum(stall for stall in stalls if stall > hold),
        )
        return TrialGaps(poll=gaps, send=gaps, catch_up_frames=self.catch_up_frames)

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


def run(search: Search, dut: SimulatedDut) -> tuple[SearchOutcome, tuple[TrialOutcome, ...]]:
    """Run a search to its end on a simulated DUT.

    Args:
        search: A search not yet started.
        dut: What its trials meet.

    Returns:
        The outcome, and the log of trials as `vnetperf.search.replay` takes it.
    """
    log: list[TrialOutcome] = []
    try:
        request = next(search)
        while True:
            log.append(dut.measure(request))
            request = search.send(log[-1])
    except StopIteration as end:
        outcome: SearchOutcome = end.value
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
