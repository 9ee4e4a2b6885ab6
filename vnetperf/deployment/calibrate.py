"""Calibrates a traffic generator over a loop of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from vnetperf import registry
from vnetperf.deployment import deploy
from vnetperf.deployment.deploy import MACHINE_LOCK, OnWait
from vnetperf.host.machine import Machine
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import GeneratorError
from vnetperf.model.result import Calibration, CalibrationPoint
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.traffic.base import TrafficGenerator

#: Frames/s per port that no virtual wire carries: the flood that finds the ceiling.
FLOOD_FPS = 40e6
TRIAL_S = 0.15
#: A loop has no way to go: what is not back by then is lost.
DRAIN_S = 0.03
STEPS = 6
#: Frames of each stream in the burst whose gap is measured (RFC 2544 section 21's longest).
BURST_FRAMES = 1024
BURST_DRAIN_S = 0.2
#: Loads at which pacing is looked at, as shares of the clean maximum.
PACING_SHARES = (0.001, 0.1, 0.8)


def calibrate(
    plan: Plan,
    facts: MachineFacts,
    frame_sizes: tuple[int, ...],
    *,
    roots: HostRoots | None = None,
    watch: Callable[[], None] = lambda: None,
    on_wait: OnWait | None = None,
) -> Calibration:
    """Calibrate a generator; the machine is as it was afterwards."""
    with HostRun.open(
        testbed=MACHINE_LOCK,
        roots=roots,
        timeout_s=plan.testbed.lock_timeout_s,
        on_wait=on_wait,
    ) as run:
        machine = Machine(run, facts)
        deploy.dedicate_cores(machine, plan)
        for memory in plan.memory:
            machine.reserve_hugepages(memory.node, memory.size_kb, memory.pages)
        generator: TrafficGenerator = registry.load("traffic", plan.scenario.generator)(
            machine, plan
        )
        try:
            # Both ends of one wire are the generator's: port 0 is looped to port 1, over the cable
            # between the two NICs too. The end that listens is opened first.
            connecting, listening = registry.load("wires", plan.wire)(machine, plan, 0).lay()
            generator.connect((listening, connecting))
            # Whatever else the machine does must not pass for the generator's limit.
            deploy.set_slices_and_nice(generator.pollers(), plan.placement.slice_us)
            points = tuple(_point(generator, size, watch) for size in frame_sizes)
            version = str(generator.facts().get("version", plan.scenario.generator))
            name = f"{version}, alone on its processor"
        finally:
            generator.close()
    return Calibration(
        generator=name,
        wire=plan.wire,
        cores=plan.placement.cores.get("tester", ()),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        points=points,
    )


def _point(
    generator: TrafficGenerator, frame_size: int, watch: Callable[[], None]
) -> CalibrationPoint:
    profile = TrafficProfile()
    generator.prepare(make_streams(make_deployment("phy2phy"), profile), profile, frame_size)

    def run(load_fps: float, duration_s: float = TRIAL_S) -> TrialResult:
        spec = TrialSpec(
            frame_size=frame_size, load_fps=load_fps, duration_s=duration_s, drain_s=DRAIN_S
        )
        return generator.run(spec, watch)

    generator.learn(64)
    run(1000.0, 0.05)  # the first frames also wake the wire's two ends
    maximum = _clean_maximum(run, frame_size)
    slow = run(max(1000.0, maximum * 0.01))
    latencies = [d.latency for d in slow.directions if d.latency is not None]
    if not latencies:
        raise GeneratorError("no frame came back at 1 % of the maximum", where="calibration")
    loads = [max(1000.0, maximum * share) for share in PACING_SHARES]
    paced = [run(load) for load in loads]
    return CalibrationPoint(
        frame_size=frame_size,
        max_clean_fps=round(2 * maximum, 1),
        latency_ns=max(one.percentiles.get("50", one.mean_ns) for one in latencies),
        latency_min_ns=min(latency.min_ns for latency in latencies),
        pacing_error=max(map(_pacing_error, paced, loads)),
        max_burst=paced[1].max_burst,
        smallest_burst_gap_ns=_burst_gap(generator, frame_size, watch),
    )


def _clean_maximum(run: Callable[..., TrialResult], frame_size: int) -> float:
    """Highest rate per port at which every frame due was sent and came back."""
    flood = run(FLOOD_FPS)
    high = max(_sent_rate(flood), 2000.0)
    if _clean(run(high, TRIAL_S)):
        return high
    low = 0.0
    share = 0.9
    while share > 0.02:  # find a clean rate below
        if _clean(run(high * share)):
            low = high * share
            break
        high, share = high * share, share * 0.8
    if not low:
        raise GeneratorError(
            f"frames of {frame_size} octets do not come back whole at any rate tried",
            where="calibration",
            cure="see the generator's log; another program may be using its core",
        )
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _clean(run(middle)):
            low = middle
        else:
            high = middle
    return low


def _clean(result: TrialResult) -> bool:
    return all(d.received == d.sent == d.intended for d in result.directions)


def _sent_rate(result: TrialResult) -> float:
    return min((d.sent / d.tx_seconds for d in result.directions if d.tx_seconds), default=0.0)


def _pacing_error(result: TrialResult, load_fps: float) -> float:
    """Relative difference of the rate frames left at to the intended rate."""
    errors = [
        abs(d.sent / d.tx_seconds - load_fps) / load_fps for d in result.directions if d.tx_seconds
    ]
    return round(max(errors, default=1.0), 6)


def _burst_gap(
    generator: TrafficGenerator, frame_size: int, watch: Callable[[], None]
) -> float | None:
    """Mean time between the frames of an exact burst, both ports sending, nanoseconds."""
    burst = TrialSpec(
        frame_size=frame_size,
        load_fps=FLOOD_FPS,
        duration_s=0.0,
        drain_s=BURST_DRAIN_S,
        burst=BURST_FRAMES,
    )
    if generator.lacks(burst):
        return None
    result = generator.run(burst, watch)
    gaps = [d.tx_seconds / d.sent * 1e9 for d in result.directions if d.sent]
    return round(max(gaps), 1) if gaps else None
