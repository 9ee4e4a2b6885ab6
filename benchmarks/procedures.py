"""What tests besides a search make of simulated DUTs and testers whose truth is known.

    python -m benchmarks.procedures

Back-to-back frames with a tester that is kept from running for a share of its bursts, and the
forwarding rate of DUTs that forward less the more they are offered. "before" is what tests found
when every burst counted, and when loads were shares of the largest; it is what they still make of a
log without a calibrated gap and without a throughput.
"""

from __future__ import annotations

import sys
from typing import Any

from vnetperf.model.errors import NoResultError
from vnetperf.model.parameters import BackToBackTest, ProcedureParameters, Rfc2889Test
from vnetperf.procedures.back_to_back import back_to_back
from vnetperf.procedures.base import KnownThroughput, ProcedureInputs
from vnetperf.procedures.rates import forwarding_rate
from vnetperf.testing.sim import DutOverTime, run

CAPACITY_FPS, BUFFER, GAP_NS = 700e3, 512, 217.0
LIVELOCK_FPS, MOST_FPS = 1e6, 4e6


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
        }
        | changes
    )


def burst(slow_share: float, gap_ns: float | None) -> str:
    """The longest burst of 20 searches, while some bursts leave five times as slowly.

    Args:
        slow_share: Their share.
        gap_ns: The calibrated gap; None: every burst counts.

    Returns:
        Mean, least and most; or why there is none.
    """
    slow = round(20 * slow_share)
    gaps_s = (GAP_NS / 1e9,) * (20 - slow) + (5 * GAP_NS / 1e9,) * slow
    dut = DutOverTime(CAPACITY_FPS, buffer_frames=BUFFER, burst_gaps_s=gaps_s, seed=1)
    given = inputs(
        BackToBackTest(searches=20, max_burst_s=0.01),
        throughput=KnownThroughput(load_fps=CAPACITY_FPS, search=1, goal="ndr"),
        burst_gap_ns=gap_ns,
    )
    try:
        found = run(back_to_back(given), dut)[0]
    except NoResultError:
        return "not measured"
    frames = found.frames
    return f"{frames.mean:.0f} ({frames.minimum:.0f} to {frames.maximum:.0f}), n {frames.n}"


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
    truth = BUFFER / (1 - CAPACITY_FPS * GAP_NS / 1e9)
    print(f"longest burst, frames; the truth is {truth:.0f}")
    print(f"{'bursts that leave slowly':<40} {'before':>26} {'after':>26}")
    for share in (0.0, 0.1, 0.3, 0.6, 1.0):
        print(f"{share:<40.0%} {burst(share, None):>26} {burst(share, GAP_NS):>26}")
    print("largest forwarding rate, Mfps, of a DUT of 1 Mfps; 4 Mfps can be offered")
    print(f"{'fewer for each beyond it; throughput':<40} {'before':>26} {'after':>26}")
    for livelock, known in ((0.0, 1e6), (0.1, 1e6), (0.5, 1e6), (0.5, 0.7e6), (2.0, 0.9e6)):
        name = f"{livelock:g}; {known / 1e6:g}"
        print(f"{name:<40} {forwarded(livelock, None):>26} {forwarded(livelock, known):>26}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
