"""What tests besides a search make of simulated DUTs and testers whose truth is known.

    python -m benchmarks.procedures

Back-to-back frames with a tester that is kept from running for a share of its bursts, or that is
quicker than its calibration; recovery of a DUT that loses frames for other reasons as well; and the
forwarding rate of DUTs that forward less the more they are offered.

"before" is what tests found when bursts counted by the calibrated gap, when a recovery ended with
the last lost frame, and when loads were shares of the largest. It is what they still make of a log
of that time, of the last lost frame beside the recovery, and of a log without a throughput.
"""

from __future__ import annotations

import sys
from statistics import fmean
from typing import Any

from vnetperf.model.errors import NoResultError
from vnetperf.model.outcomes import BackToBack, Recovery
from vnetperf.model.parameters import (
    BackToBackTest,
    ProcedureParameters,
    RecoveryTest,
    Rfc2889Test,
)
from vnetperf.plugin.procedure import RULES, KnownThroughput, ProcedureInputs
from vnetperf.procedures.back_to_back import back_to_back
from vnetperf.procedures.rates import forwarding_rate
from vnetperf.procedures.recovery import recovery
from vnetperf.testing.sim import DutOverTime, run

CAPACITY_FPS, BUFFER, GAP_NS = 700e3, 512, 217.0
LIVELOCK_FPS, MOST_FPS = 1e6, 4e6
#: Gaps of a tester on a shared processor, seconds, and what a loop on a processor of its own had.
SHARED_GAPS_S = tuple(gap / 1e9 for gap in (225.7,) * 10 + (300.0,) * 5 + (370.0,) * 5)
LOOP_GAP_NS = 354.6
#: Length of a loss of another cause, seconds, and tests of each kind.
STALL_S, TESTS = 0.003, 20


def inputs(parameters: ProcedureParameters, **changes: Any) -> ProcedureInputs[Any]:
    """What a test is given, one direction on a wire without a speed.

    Args:
        parameters: The test's.
        changes: Further inputs.

    Returns:
        The inputs.
    """
    return ProcedureInputs[Any](
        **{
            "parameters": parameters,
            "frame_size": 64,
            "directions": 1,
            "ceiling_fps": MOST_FPS,
            "media_fps": 14_880_952.38,
            "rules": RULES,
        }
        | changes
    )


def bursts(
    gaps_s: tuple[float, ...], gap_ns: float, rules: int, capacity_fps: float
) -> BackToBack | None:
    """The longest burst of 20 searches.

    Args:
        gaps_s: Gaps of the tester's bursts, one of which each has, seconds.
        gap_ns: The calibrated gap.
        rules: Of the version that asks for the bursts.
        capacity_fps: Frames/s that the DUT forwards.

    Returns:
        What is found; None: not measured.
    """
    dut = DutOverTime(capacity_fps, buffer_frames=BUFFER, burst_gaps_s=gaps_s, seed=1)
    given = inputs(
        BackToBackTest(searches=20, max_burst_s=0.01, repeats_after_loss=1),
        throughput=KnownThroughput(load_fps=capacity_fps, search=1, goal="ndr"),
        burst_gap_ns=gap_ns,
        ceiling_fps=2 * MOST_FPS,
        rules=rules,
    )
    try:
        found: BackToBack = run(back_to_back(given), dut)[0]
    except NoResultError:
        return None
    return found


def frames_text(found: BackToBack | None) -> str:
    """Mean, least and most frames of the searches; or that there are none."""
    if found is None:
        return "not measured"
    frames = found.frames
    return f"{frames.mean:.0f} ({frames.minimum:.0f} to {frames.maximum:.0f}), n {frames.n}"


def print_bursts() -> None:
    """Bursts of a tester that is slow at times, and of one whose calibration was slower."""
    truth = BUFFER / (1 - CAPACITY_FPS * GAP_NS / 1e9)
    print(f"longest burst, frames; the truth is {truth:.0f}")
    print(f"{'bursts that leave slowly':<40} {'before':>26} {'after':>26}")
    for share in (0.0, 0.1, 0.3, 0.6, 1.0):
        slow = round(20 * share)
        gaps_s = (GAP_NS / 1e9,) * (20 - slow) + (5 * GAP_NS / 1e9,) * slow
        both = [frames_text(bursts(gaps_s, GAP_NS, n, CAPACITY_FPS)) for n in (1, RULES)]
        print(f"{share:<40.0%} {both[0]:>26} {both[1]:>26}")
    print(f"corrected buffer time, us; bursts of 226 to 370 ns, calibrated {LOOP_GAP_NS} ns")
    print(f"{'capacity, Mfps: truth':<40} {'before':>26} {'after':>26}")
    for capacity_fps in (0.7e6, 2.0e6, 2.6e6):
        older = bursts(SHARED_GAPS_S, LOOP_GAP_NS, 1, capacity_fps)
        found = bursts(SHARED_GAPS_S, LOOP_GAP_NS, RULES, capacity_fps)
        was = "none" if older is None else f"{(older.rfc9004_corrected_s or 0.0) * 1e6:.0f}"
        now = "none" if found is None else f"{(found.corrected_s or 0.0) * 1e6:.0f}"
        name = f"{capacity_fps / 1e6:g}: {BUFFER * min(SHARED_GAPS_S) * 1e6:.0f}"
        was, now = f"{was}, of {frames_text(older)}", f"{now}, of {frames_text(found)}"
        print(f"{name:<40} {was:>26} {now:>26}")


def recoveries(true_s: float, losses_per_s: float, relaxed_s: float) -> list[Recovery]:
    """What tests find of a DUT that recovers after a time, and loses frames besides.

    Args:
        true_s: The time, seconds.
        losses_per_s: Losses of another cause in each second, of 3 ms each.
        relaxed_s: Seconds of a trial after the drop of the load.

    Returns:
        The outcomes of tests that differ by their seed.
    """
    parameters = RecoveryTest(overload_s=2.0, relaxed_s=relaxed_s, repeats=3)
    known = KnownThroughput(load_fps=CAPACITY_FPS, search=1, goal="ndr")
    found = []
    for seed in range(TESTS):
        dut = DutOverTime(
            CAPACITY_FPS,
            stall_every_s=1 / losses_per_s if losses_per_s else 0.0,
            stall_s=STALL_S,
            lingers_s=true_s,
            seed=seed,
        )
        given = inputs(parameters, throughput=known, timelines=True)
        found.append(run(recovery(given), dut)[0])
    return found


def print_recoveries() -> None:
    """Times to the last lost frame, and until no more are lost than usual."""
    print("recovery, s: mean of tests (least to most); n that have one")
    print(f"{'truth, s; losses besides, 1/s; after, s':<40} {'before':>26} {'after':>26}")
    for true_s in (0.0, 0.02, 0.2):
        for losses_per_s in (0.0, 0.2, 1.0, 5.0):
            for relaxed_s in (2.0, 10.0):
                found = recoveries(true_s, losses_per_s, relaxed_s)
                was = times_text([one.last_lost_s.mean for one in found if one.last_lost_s])
                now = times_text([one.seconds.mean for one in found if one.seconds])
                name = f"{true_s:g}; {losses_per_s:g}; {relaxed_s:g}"
                print(f"{name:<40} {was:>26} {now:>26}")


def times_text(times: list[float]) -> str:
    """Mean, least and most of some times; or that there are none."""
    if not times:
        return "not measured"
    return f"{fmean(times):.3f} ({min(times):.2f} to {max(times):.2f}); {len(times)}"


def forwarded(livelock: float, throughput_fps: float | None) -> str:
    """The largest forwarding rate that is found of a DUT of 1 Mfps.

    Args:
        livelock: Frames/s that it forwards fewer for each offered above its capacity.
        throughput_fps: Its throughput; None: loads are shares of the largest.

    Returns:
        The rate, and the load.
    """
    dut = DutOverTime(LIVELOCK_FPS, livelock=livelock, livelock_floor_fps=0.2e6)
    known = None
    if throughput_fps is not None:
        known = KnownThroughput(load_fps=throughput_fps, search=1, goal="ndr")
    (_, best), _ = run(forwarding_rate(inputs(Rfc2889Test(), throughput=known)), dut)
    return f"{best.forwarded_fps.mean / 1e6:.2f} at {best.load_fps / 1e6:.2f}"


def main() -> int:
    """Run and print.

    Returns:
        0.
    """
    print_bursts()
    print_recoveries()
    print("largest forwarding rate, Mfps, of a DUT of 1 Mfps; 4 Mfps can be offered")
    print(f"{'fewer for each beyond it; throughput':<40} {'before':>26} {'after':>26}")
    for livelock, known in ((0.0, 1e6), (0.1, 1e6), (0.5, 1e6), (0.5, 0.7e6), (2.0, 0.9e6)):
        name = f"{livelock:g}; {known / 1e6:g}"
        print(f"{name:<40} {forwarded(livelock, None):>26} {forwarded(livelock, known):>26}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
