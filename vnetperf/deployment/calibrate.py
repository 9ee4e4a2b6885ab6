"""Calibrates a traffic generator over a loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Unpack

from vnetperf.deployment import deploy
from vnetperf.host.machine import Machine
from vnetperf.host.wait import wait_for
from vnetperf.model.calibration import (
    MOST_VALUES,
    Calibration,
    CalibrationPoint,
    EndedBy,
    agree,
)
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.errors import GeneratorError
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.model.trial import DirectionCounts, TrialResult, TrialSpec
from vnetperf.planning.backends import Backends
from vnetperf.plugin import registry
from vnetperf.plugin.generator import TrafficGenerator

#: Frames/s per port that no virtual wire carries: the flood that finds the ceiling.
FLOOD_FPS = 40e6
#: Trials that only look for the maximum, and those that it is found by; seconds.
TRIAL_S, LONG_S = 0.15, 1.0
#: How often the maximum is found anew, where the values agree; else up to `MOST_VALUES`.
REPEATS = 3
#: From so many values on no more are looked for where none could make them agree.
FEWEST_GIVEN_UP = 5
#: The first step away from a rate, relative; each further one is twice as wide.
FIRST_STEP = 0.04
#: Rates looked at: from this share of what short trials show.
LEAST = 0.02
#: Longest wait for the links: a NIC whose driver has just started takes seconds.
LINKS_S = 15.0
#: A rate is tried this often before a stall of the tester is taken for the limit.
STALL_TRIES = 3
#: A loop has no way to go: what is not back by then is lost.
DRAIN_S = 0.03
#: Halvings between a clean rate and one that is not.
STEPS = 3
#: Frames of each stream in the burst whose gap is measured (RFC 2544 section 21's longest).
BURST_FRAMES = 1024
BURST_DRAIN_S = 0.2
#: Loads at which pacing is looked at, as shares of the clean maximum.
PACING_SHARES = (0.001, 0.1, 0.8)


@contextmanager
def looped(
    plan: Plan, facts: MachineFacts, **options: Unpack[deploy.RunOptions]
) -> Iterator[tuple[TrafficGenerator, tuple[WireEnd, WireEnd]]]:
    """A generator that is connected to itself, and its ends; the machine is then as before."""
    with deploy.open_run(plan, **options) as run:
        machine = Machine(run, facts)
        deploy.reserve(machine, plan)
        generator = Backends(plan.scenario).generator(machine, plan)
        try:
            # Both ends of one wire are the generator's: port 0 is looped to port 1, over the cable
            # between the two NICs too. The end that listens is opened first.
            connecting, listening = registry.load("wires", plan.wire)(machine, plan, 0).lay()
            generator.connect((listening, connecting))
            # Whatever else the machine does must not pass for the generator's limit.
            deploy.set_slices_and_nice(generator.pollers(), plan.placement.slice_us)
            yield generator, (listening, connecting)
        finally:
            generator.close()


def calibrate(
    plan: Plan,
    facts: MachineFacts,
    frame_sizes: tuple[int, ...],
    *,
    brief: bool = False,
    watch: Callable[[], None] = lambda: None,
    **options: Unpack[deploy.RunOptions],
) -> Calibration:
    """Calibrate a generator, briefly for what is no benchmark; the machine is then as before."""
    with looped(plan, facts, **options) as (generator, _):
        points = tuple(_point(generator, size, watch, brief=brief) for size in frame_sizes)
        version = str(generator.facts().get("version", plan.scenario.generator))
        name = f"{version}, alone on its processor"
    return Calibration(
        generator=name,
        wire=plan.wire,
        cores=plan.placement.cores.get("tester", ()),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        points=points,
    )


def _point(
    generator: TrafficGenerator, frame_size: int, watch: Callable[[], None], *, brief: bool
) -> CalibrationPoint:
    profile = TrafficProfile()
    generator.prepare(make_streams(make_deployment("phy2phy"), profile), profile, frame_size)

    def run(load_fps: float, duration_s: float = TRIAL_S) -> TrialResult:
        spec = TrialSpec(
            frame_size=frame_size, load_fps=load_fps, duration_s=duration_s, drain_s=DRAIN_S
        )
        return generator.run(spec, watch)

    wait_for_links(generator)
    generator.learn(64)
    run(1000.0, 0.05)  # the first frames also wake the wire's two ends
    clean_maximum = find_clean_maximum(run, frame_size, brief=brief)
    maximum = clean_maximum.middle
    slow = run(max(1000.0, maximum * 0.01))
    latencies = [d.latency for d in slow.directions if d.latency is not None]
    if not latencies:
        raise GeneratorError("no frame came back at 1 % of the maximum", where="calibration")
    loads = [max(1000.0, maximum * share) for share in PACING_SHARES]
    paced = [run(load) for load in loads]
    return CalibrationPoint(
        frame_size=frame_size,
        max_clean_fps=round(2 * maximum, 1),
        max_clean_values=tuple(round(2 * rate, 1) for rate in clean_maximum.rates),
        ended_by=clean_maximum.ended_by,
        brief=brief,
        latency_ns=max(latency.percentiles.get("50", latency.mean_ns) for latency in latencies),
        latency_min_ns=min(latency.min_ns for latency in latencies),
        pacing_error=max(map(compute_pacing_error, paced, loads)),
        max_burst=paced[1].max_burst,
        smallest_burst_gap_ns=measure_burst_gap(
            generator, frame_size, watch, 1 if brief else REPEATS
        ),
    )


def wait_for_links(generator: TrafficGenerator) -> None:
    """Wait for the links of both ports, since a port without one takes what its ring holds.

    Raises:
        GeneratorError: A port has none within `LINKS_S` seconds.
    """

    def down() -> GeneratorError:
        return GeneratorError(
            f"{', '.join(generator.links_down())}: no link within {LINKS_S:g} s",
            where="calibration",
            cure="see the cable, and dmesg; the two ends of the loop have to be connected",
        )

    wait_for(lambda: not generator.links_down(), LINKS_S, "links of the tester", error=down)


@dataclass(frozen=True, slots=True)
class CleanMaximum:
    """Highest rates at which every frame due was sent and came back, each found by itself.

    Attributes:
        rates: Frames/s of each port.
        ended_by: What the trial just above the last of them met: "loss", "refusal", "own stall".
    """

    rates: tuple[float, ...]
    ended_by: EndedBy

    @property
    def middle(self) -> float:
        """Their median, frames/s of each port."""
        return median(self.rates)


def find_clean_maximum(
    run: Callable[..., TrialResult], frame_size: int, *, brief: bool = False
) -> CleanMaximum:
    """Look for the maximum by short trials, then find it anew by long ones, until it is known.

    Brief: once, and by short trials.
    """
    trial_s = TRIAL_S if brief else LONG_S

    def long_run(load_fps: float) -> TrialResult:
        return run(load_fps, trial_s)

    rate = _scout(run, frame_size)
    rates: list[float] = []
    ended: EndedBy = ""
    while not (rates if brief else _is_settled(rates)):
        # The first time it may be far from what short trials showed, afterwards not.
        halvings = STEPS if not rates else 1
        edge_fps, cause = find_edge(
            long_run, rates[-1] if rates else rate, halvings, floor=LEAST * rate
        )
        if not edge_fps:
            raise GeneratorError(
                f"frames of {frame_size} octets do not come back whole in trials of {trial_s:g} s "
                f"at any rate tried, though they did in trials of {TRIAL_S:g} s: {cause}",
                where=f"calibration, value {len(rates) + 1}",
                cure="see the generator's log; another program may be using its core",
            )
        rates.append(edge_fps)
        ended = cause or ended
    return CleanMaximum(tuple(rates), ended)


def _is_settled(rates: Sequence[float]) -> bool:
    """Whether no further value is of use: they agree, or are so many, or cannot agree any more.

    Of nine the least and the largest may be far off: what others between them are apart already,
    they stay apart.
    """
    if len(rates) < REPEATS:
        return False
    if len(rates) >= FEWEST_GIVEN_UP and not agree(sorted(rates)[1:-1]):
        return True
    return agree(rates) or len(rates) >= MOST_VALUES


def _scout(run: Callable[..., TrialResult], frame_size: int) -> float:
    """A rate per port that short trials show as clean, from the flood downwards."""
    high = max(_sent_rate(run(FLOOD_FPS)), 2000.0)
    share = 1.0
    while share > LEAST:
        if not unclean(run(high * share)):
            return high * share
        share *= 0.85
    raise GeneratorError(
        f"frames of {frame_size} octets do not come back whole at any rate tried",
        where="calibration",
        cure="see the generator's log; another program may be using its core",
    )


def find_edge(
    run: Callable[..., TrialResult], start: float, halvings: int, floor: float
) -> tuple[float, EndedBy]:
    """The highest clean rate around another one, and what ended it; 0 where there is none."""
    low = high = 0.0
    ended: EndedBy = ""
    rate, step = start, FIRST_STEP
    while not (low and high) and floor <= rate <= max(FLOOD_FPS, 2 * start):
        if cause := _test_rate(run, rate):
            high, ended = rate, cause
            rate *= 1 - step
        else:
            low = rate
            rate *= 1 + step
        step = min(0.5, 2 * step)
    for _ in range(halvings if low and high else 0):
        middle = (low + high) / 2
        if cause := _test_rate(run, middle):
            high, ended = middle, cause
        else:
            low = middle
    return low, ended


def _test_rate(run: Callable[..., TrialResult], rate: float) -> EndedBy:
    """What keeps a rate from being clean; a stall of the tester is tried again first."""
    cause: EndedBy = ""
    for _ in range(STALL_TRIES):
        cause = unclean(run(rate))
        if cause != "own stall":
            break
    return cause


def unclean(result: TrialResult) -> EndedBy:
    """Why a trial did not send and receive every frame that was due; "" where it did.

    A tester that stood still for longer than a ring bridges makes loss and refusal of its own:
    where that may be all of it, nothing is known of the wire. It is the rule of a trial's verdict,
    for a goal without loss.
    """
    if all(d.received == d.sent == d.intended for d in result.directions):
        return ""
    missing = [d for d in result.directions if d.received < d.sent + d.refused]
    if any(d.unsent for d in result.directions):
        return "own stall"
    if missing and all(
        result.most_lost_by_tester(d, own_rings=True) >= d.sent + d.refused - d.received
        for d in missing
    ):
        return "own stall"
    return "refusal" if any(d.refused for d in missing) else "loss"


def _sent_rate(result: TrialResult) -> float:
    return min((d.sent / d.tx_seconds for d in result.directions if d.tx_seconds), default=0.0)


def compute_pacing_error(result: TrialResult, load_fps: float) -> float:
    """Relative difference of the rate frames left at to the intended rate."""
    rates = [_count_offered(d) / d.tx_seconds for d in result.directions if d.tx_seconds]
    return round(max((abs(rate - load_fps) / load_fps for rate in rates), default=1.0), 6)


def _count_offered(counts: DirectionCounts) -> int:
    """What `tx_seconds` is the time of: frames that a ring refused left at their time too."""
    return counts.sent + counts.refused


def measure_burst_gap(
    generator: TrafficGenerator, frame_size: int, watch: Callable[[], None], bursts: int
) -> float | None:
    """Mean time between the frames of an exact burst, both ports sending, nanoseconds.

    The median of several: in a single one the tester may have stood still, and bursts that left as
    slowly would count. One whose frames a ring refused, which takes less time, is none if another
    was taken whole.
    """
    burst = TrialSpec(
        frame_size=frame_size,
        load_fps=FLOOD_FPS,
        duration_s=0.0,
        drain_s=BURST_DRAIN_S,
        burst=BURST_FRAMES,
    )
    if generator.lacks(burst):
        return None
    results = [generator.run(burst, watch).directions for _ in range(bursts)]
    sent = [directions for directions in results if any(d.sent for d in directions)]
    complete = [directions for directions in sent if not any(d.refused for d in directions)]
    gaps = [
        max(d.tx_seconds / _count_offered(d) for d in directions if d.sent)
        for directions in complete or sent
    ]
    return round(median(gaps) * 1e9, 1) if gaps else None
