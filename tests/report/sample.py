"""A made-up but plausible run to test and to look at: python -m tests.report.sample DIR."""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vnetperf.model.frames import RFC2544_FRAME_SIZES, LinkSpeed, l1_bits_per_frame
from vnetperf.model.result import (
    DatapathUse,
    DirectionBound,
    GoalResult,
    Result,
    RunIdentity,
    RunResults,
    ThreadUse,
    TrialPoint,
)
from vnetperf.model.trial import Latency, Verdict
from vnetperf.statistics.histogram import encode_hdr, latency_percentiles

from .sample_facts import calibration, environment, ledger, scenario_facts, settings

DIRECTIONS = ("phy0->phy1", "phy1->phy0")
GOALS: tuple[dict[str, Any], ...] = (
    {"name": "ndr", "loss_ratio": 0.0, "exceed_ratio": 0.5, "width": 0.005},
    {"name": "pdr", "loss_ratio": 0.005, "exceed_ratio": 0.5, "width": 0.005},
)
#: Capacity per direction in frames/s and zero-load latency in microseconds.
SCENARIOS = {"phy2phy_dpdk": (9.4e6, 7.0), "pvp_dpdk": (3.1e6, 19.0)}
MEDIUM = LinkSpeed(25e9)


def histogram(rng: random.Random, typical_us: float, samples: int = 600) -> Latency:
    """Latencies with a body and a thin tail, as an HdrHistogram and as percentiles."""
    frames: Counter[int] = Counter()
    for _ in range(samples):
        frames[int(typical_us * 1000 * rng.lognormvariate(0, 0.22))] += rng.randint(99, 999)
    for _ in range(samples):
        frames[int(typical_us * 1000 * (1.4 + rng.paretovariate(1.6) / 4))] += 3
    pairs = sorted(frames.items())
    return Latency(
        count=frames.total(),
        min_ns=pairs[0][0],
        mean_ns=sum(value * count for value, count in pairs) / frames.total(),
        max_ns=pairs[-1][0],
        percentiles=latency_percentiles(pairs),
        hdr=encode_hdr(pairs),
    )


def _loss(rng: random.Random, load: float, capacity: float) -> float:
    if load <= capacity * 0.97:
        return 0.0
    if load <= capacity:
        return 0.0 if rng.random() < 0.6 else 10 ** rng.uniform(-7, -4)
    return max(10 ** rng.uniform(-6, -4), 1 - capacity / load * rng.uniform(0.995, 1.0))


def _loads(rng: random.Random, capacity: float, top: float, count: int) -> list[float]:
    loads = [top, min(top, capacity * 1.3), min(top, capacity * 0.8)]
    while len(loads) < count:
        spread = 0.35 / math.sqrt(len(loads))
        near = min(capacity, top * 0.98)
        loads.append(min(top, max(1000.0, near * (1 + rng.gauss(-0.01, spread)))))
    return loads[:count]


def _trial(
    rng: random.Random, number: int, scenario: str, *, size: int, load: float, cap: float
) -> TrialPoint:
    verdict, reason, offered = Verdict.VALID, "", 1.0
    loss: float | None = _loss(rng, load, cap)
    chance = rng.random()
    if load > 11e6 and chance < 0.5:
        verdict, offered = Verdict.GENERATOR_LIMITED, rng.uniform(0.93, 0.985)
        reason = f"offered {offered:.1%} of the intended load, tolerance 0.1 %"
    elif chance < 0.012:
        verdict, reason = Verdict.INCONSISTENT, "phy1->phy0 received 12 frames more than were sent"
        loss = 0.0
    elif chance < 0.018:
        verdict, reason, loss = Verdict.TIMED_OUT, "no answer from the agent within 12 s", None
    lost = round((loss or 0.0) * load * 2)
    hops: dict[str, int] = {}
    if lost and verdict is Verdict.VALID:
        ring = round(lost * rng.uniform(0.6, 0.9))
        other = "phy1 tx ring" if scenario.startswith("phy2phy") else "vnf0.0 vhost ring"
        hops = {"phy0 rx ring": ring, other: lost - ring}
    return TrialPoint(
        number=number,
        scenario=scenario,
        test="throughput",
        frame_size=size,
        load_fps=load,
        duration_s=1.0,
        loss_ratio=loss,
        forwarded_fps=None if loss is None else load * 2 * offered * (1 - loss),
        offered_ratio=offered,
        verdict=verdict,
        reason=reason,
        lost_at=hops,
    )


def _threads(load: float, *, counted: bool) -> Iterator[ThreadUse]:
    for number, role in enumerate(("pmd", "tester")):
        misses = {"dTLB load misses": 120.0, "iTLB load misses": 3.0} if counted else {}
        yield ThreadUse(
            role=role,
            thread=f"{role}-c0{number}",
            cpu=number,
            user=0.97,
            system=0.02,
            involuntary_switches_per_s=4.0,
            voluntary_switches_per_s=0.2,
            waited=0.005,
            events_per_s=misses,
            events_per_frame={name: value / load for name, value in misses.items()},
        )


def _datapath(load: float) -> DatapathUse:
    shares = {"exact match cache": 0.75, "megaflow": 0.25}
    return DatapathUse(
        thread="core 0",
        packets=int(load),
        cycles_per_packet=412.4,
        busy=0.981,
        ran=0.67,
        lookups=shares,
    )


def _goal(
    rng: random.Random, goal: dict[str, Any], size: int, *, cap: float, top: float, us: float
) -> GoalResult:
    lower = cap * (0.962 if goal["name"] == "ndr" else 1.002)
    qualifier: Any = ""
    upper: float | None = lower * 1.0045
    reason = ""
    if lower >= top:
        lower, upper, qualifier = top, None, "at least"
        reason = "the maximum load met the goal: the DUT may be faster than this search could offer"
    elif goal["name"] == "ndr" and size == 512:
        lower *= 0.93
        reason = "bounds are 7.4 % apart, wider than the goal width 0.5 %: the time budget ended"
    directions = tuple(
        DirectionBound(
            direction=name,
            lower_bound_fps=lower,
            upper_bound_fps=upper,
            conditional_throughput_fps=lower * (1 - goal["loss_ratio"] * share),
            loss_ratio_at_lower_bound=goal["loss_ratio"] * share,
        )
        for name, share in zip(DIRECTIONS, (0.4, 0.9), strict=True)
    )
    latency = {d: histogram(rng, us * (1 + size / 1500)) for d in DIRECTIONS}
    if goal["name"] == "pdr" and size == 1280:  # a generator that keeps percentiles only
        latency = {d: v.model_copy(update={"hdr": ""}) for d, v in latency.items()}
    counted = goal["name"] == "ndr"
    return GoalResult(
        **goal,
        threads=tuple(_threads(lower, counted=counted)),
        datapath=(_datapath(lower),) if counted else (),
        uncollected={} if counted else {"events": "not measured: nobody counts them"},
        initial_trial_s=1.0,
        final_trial_s=1.0,
        duration_sum_s=21.0,
        lower_bound_fps=2 * lower,
        upper_bound_fps=None if upper is None else 2 * upper,
        conditional_throughput_fps=2 * lower * (1 - goal["loss_ratio"] * 0.65),
        per_direction=directions,
        regular=not reason,
        qualifier=qualifier,
        reason=reason,
        throughput_l1_bps=2 * lower * l1_bits_per_frame(size),
        latency=latency,
        trials_at_lower_bound=(1, 2, 3),
    )


def no_benchmark() -> dict[str, Any]:
    """What a run by the preset smoke says of itself."""
    note = "1 s trials, 1 % loss allowed, 5 % width."
    return {"preset": "smoke", "benchmark": False, "preset_note": note}


def build(*, trials: int = 400, seed: int = 7) -> RunResults:
    """A run of two scenarios, seven sizes and two goals."""
    rng = random.Random(seed)
    results: list[Result] = []
    points: list[TrialPoint] = []
    each = max(3, trials // (len(SCENARIOS) * len(RFC2544_FRAME_SIZES)))
    for scenario, (base, us) in SCENARIOS.items():
        for size in RFC2544_FRAME_SIZES:
            medium = MEDIUM.max_frame_rate(size)
            clean = min(medium, 11.7e6 * (84 / (size + 20)) ** 0.06)
            cap, top = base * (84 / (size + 20)) ** 0.12, min(medium, clean)
            if scenario == "pvp_dpdk" and size == 1518:
                results.append(_unmeasured(scenario, size))
                continue
            first = len(points) + 1
            loads = _loads(rng, cap, min(medium, top * 1.02), each)
            points += [
                _trial(rng, first + i, scenario, size=size, load=load, cap=cap)
                for i, load in enumerate(loads)
            ]
            mine = points[first - 1 :]
            results.append(
                Result(
                    scenario=scenario,
                    test="throughput",
                    frame_size=size,
                    algorithm="mlrsearch",
                    goals=tuple(_goal(rng, g, size, cap=cap, top=top, us=us) for g in GOALS),
                    media_max_fps=2 * medium,
                    generator_max_fps=2 * clean,
                    min_load_fps=1000.0,
                    max_load_fps=top,
                    trial_count=len(mine),
                    trial_seconds=float(len(mine)),
                    wall_seconds=len(mine) * 1.35,
                    verdicts={v: n for v in Verdict if (n := sum(t.verdict is v for t in mine))},
                )
            )
    entries = ledger()
    return RunResults(
        run=RunIdentity(
            tool="vnetperf 0.1.0",
            git="4f2c9d1e7a",
            command="pytest testcases/ -k 'phy2phy_dpdk or pvp_dpdk' --preset mlr-csit",
            started="2026-05-04T08:12:09Z",
            ended="2026-05-04T08:31:44Z",
            isolation="isolated testbed: two memif wires, no port is connected to a network",
            testbed="lab-1",
            notes="firmware updated the day before",
        ),
        preset="mlr-csit",
        warnings=("cores are shared: DUT and tester run on processor 1 (slices of 100 µs)",),
        settings=settings(),
        environment=environment(),
        calibrations=(calibration(),),
        scenarios=scenario_facts(),
        results=tuple(results),
        trials=tuple(points),
        deviations=tuple(e for e in entries if e.status == "deviated"),
        ledger=entries,
    )


def _unmeasured(scenario: str, size: int) -> Result:
    return Result(
        scenario=scenario,
        test="throughput",
        frame_size=size,
        status="not measured",
        why="the path check lost 3 of 32 frames from phy1 to phy0",
        failed=True,
    )


def main() -> int:
    """Write every report of the sample run."""
    from vnetperf.report import write_all  # noqa: PLC0415 - tests import this file for its results alone

    parser = argparse.ArgumentParser(prog="python -m tests.report.sample")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--smoke", action="store_true", help="a preset that is no benchmark")
    options = parser.parse_args()
    results = build(trials=options.trials)
    if options.smoke:
        results = results.model_copy(update=no_benchmark())
    started = time.perf_counter()
    for path in write_all(results, options.directory):
        sys.stdout.write(f"{path} {path.stat().st_size} octets\n")
    sys.stdout.write(f"{time.perf_counter() - started:.2f} s\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
