"""Whether a published range covers what the same deployment carries afterwards, on real software.

    python -m benchmarks.foretold pvp_dpdk                     # the default preset, ten runs
    python -m benchmarks.foretold pvp_dpdk --neighbour 0.3     # beside a process that takes 30 %
    python -m benchmarks.foretold pvp_dpdk --preset quick --runs 3 --seconds 60

Each run deploys anew, searches the throughput at 64 octets as a test case does, with
all of its rounds, and then offers loads around the range for `--seconds`, in trials of the
goal's own length and in random order. What the deployment carried meanwhile is the limit that most
of these trials agree with: they kept to the goal up to it, and did not above it. It is covered
where it is in the range, or beyond it by no more than a step of these loads (the goal's width).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.turns import neighbour
from vnetperf.model.result import GoalResult
from vnetperf.model.trial import TrialSpec
from vnetperf.runner.conductor import Conductor
from vnetperf.runner.run import Run
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.stage import configuration

#: Loads that are offered: from this share of the least lower bound to this of the largest upper.
BELOW, ABOVE = 0.6, 1.4
FRAME_SIZE = 64


def carried(run: Run, goal: GoalResult, in_sum: float, seconds: float) -> float | None:
    """What is carried over the next seconds, frames/s of all interfaces; None: no load was."""
    low = BELOW * (goal.least_fps or goal.lower_bound_fps or 0.0) / in_sum
    high = ABOVE * (goal.most_fps or goal.upper_bound_fps or 2 * low * in_sum) / in_sum
    loads = [low]
    while loads[-1] < high:
        loads.append(loads[-1] / (1.0 - goal.width))
    kept: dict[float, list[bool]] = {load: [] for load in loads}
    chance, times = random.Random(1), run.configuration.preset.trial  # noqa: S311 - no secret
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for load in chance.sample(loads, len(loads)):
            spec = TrialSpec(
                frame_size=FRAME_SIZE,
                load_fps=load,
                duration_s=goal.final_trial_s,
                drain_s=times.drain_s,
                learning_wait_s=times.learning_wait_s,
                offered_tolerance=times.offered_tolerance,
            )
            loss = run.client.run_trial(spec).load_loss(times.offered_tolerance)
            if loss.decides(goal.loss_ratio):
                kept[load].append(loss.is_low(goal.loss_ratio))
            if time.monotonic() > end:
                break
    if not any(map(any, kept.values())):
        return None
    return in_sum * max(loads, key=lambda limit: agreeing(kept, limit))


def agreeing(kept: dict[float, list[bool]], limit: float) -> int:
    """Trials that agree with a limit: kept to the goal up to it, and not above it."""
    below = sum(sum(each) for load, each in kept.items() if load <= limit)
    return below + sum(len(each) - sum(each) for load, each in kept.items() if load > limit)


def one_run(scenario: str, preset: str, seconds: float) -> tuple[bool, bool]:
    """Whether the range covers what followed, and whether it is marked."""
    wishes = {"frame_sizes": [FRAME_SIZE], **({"preset": preset} if preset else {})}
    settings = configuration(wishes)
    with TemporaryDirectory() as folder:
        run = Run(settings, Path(folder) / "trials.jsonl")
        try:
            run.frame_sizes = frozenset([FRAME_SIZE])
            planned = make_scenario(scenario, settings)
            result = Conductor(run, planned).measure("throughput", FRAME_SIZE)
            goal = result.throughput_goal
            assert goal is not None
            in_sum = float(len({stream.direction for stream in planned.streams}))
            then = carried(run, goal, in_sum, seconds)
        finally:
            run.close(exit_status=5)
    least, most = goal.least_fps or 0.0, goal.most_fps or 0.0
    step = 1.0 - goal.width
    covers = then is not None and least * step <= then <= most / step
    print(
        f"{settings.preset.name}: published {least / 1e6:.3f} to {most / 1e6:.3f} M "
        f"({goal.mark or 'repeatable'}), then {(then or 0.0) / 1e6:.3f} M: "
        f"{'covered' if covers else 'NOT covered'}; {goal.reason}",
        flush=True,
    )
    return covers, bool(goal.mark)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenario")
    parser.add_argument("--preset", default="")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--neighbour", type=float, default=0.0)
    arguments = parser.parse_args(argv)
    with neighbour(arguments.neighbour):
        found = [
            one_run(arguments.scenario, arguments.preset, arguments.seconds)
            for _ in range(arguments.runs)
        ]
    print(
        f"{sum(covers for covers, _ in found)} of {len(found)} ranges covered what followed; "
        f"{sum(marked for _, marked in found)} were marked"
    )


if __name__ == "__main__":
    main()
