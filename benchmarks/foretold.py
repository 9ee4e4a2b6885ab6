"""Whether a published range covers what the same deployment carries afterwards, on real software.

    python -m benchmarks.foretold pvp_dpdk                     # the default preset, ten runs
    python -m benchmarks.foretold pvp_dpdk --neighbour 0.3     # beside a process that takes 30 %
    python -m benchmarks.foretold pvp_dpdk --preset quick --runs 3 --seconds 60

Each run deploys anew, searches the throughput at 64 octets as a test case does, with
all of its rounds, and then offers loads around the range for `--seconds`, in trials of the
goal's own length and in random order. What the deployment carried meanwhile is the limit that most
of these trials agree with: they kept to the goal up to it, and did not above it. It is covered
where it is in the range, or beyond it by no more than a step of these loads (the goal's width).

The same deployment's relative cost is taken afterwards (docs/processors.md), and held against the
other runs'. `--save` keeps what was seen, a line each run, and `--read` joins such files; `--keep`
keeps the runs' logs, for `vnetperf compare` and `vnetperf trend`.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.turns import neighbour
from vnetperf.model.result import GoalResult, Result
from vnetperf.model.trial import TrialSpec
from vnetperf.runner.conductor import Conductor
from vnetperf.runner.run import Run
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.stage import configuration

#: Loads that are offered: from this share of the least lower bound to this of the largest upper.
BELOW, ABOVE = 0.6, 1.4
FRAME_SIZE = 64
#: A relative cost is near the median where it is within so much of it.
NEAR = 0.10


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


def one_run(scenario: str, preset: str, seconds: float, keep: Path | None) -> dict[str, Any]:
    """Whether the range covers what followed, whether it is marked, and the relative cost."""
    wishes = {"frame_sizes": [FRAME_SIZE], **({"preset": preset} if preset else {})}
    settings = configuration(wishes)
    began = time.monotonic()
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(TemporaryDirectory()))
        run = Run(settings, folder / "trials.jsonl")
        try:
            run.frame_sizes = frozenset([FRAME_SIZE])
            planned = make_scenario(scenario, settings)
            conductor = Conductor(run, planned)
            result = conductor.measure("throughput", FRAME_SIZE)
            took = time.monotonic() - began
            goal = result.throughput_goal
            assert goal is not None
            in_sum = float(len({stream.direction for stream in planned.streams}))
            then = carried(run, goal, in_sum, seconds)
            costs = relative_costs(conductor.measure("cpu_load", FRAME_SIZE))
        finally:
            run.close(exit_status=5)
    least, most = goal.least_fps or 0.0, goal.most_fps or 0.0
    step = 1.0 - goal.width
    covers = then is not None and least * step <= then <= most / step
    print(
        f"{settings.preset.name}: published {least / 1e6:.3f} to {most / 1e6:.3f} M "
        f"({goal.mark or 'repeatable'}, {took:.0f} s), then {(then or 0.0) / 1e6:.3f} M: "
        f"{'covered' if covers else 'NOT covered'}; relative cost {costs}; {goal.reason}",
        flush=True,
    )
    return {
        "least": least,
        "most": most,
        "then": then,
        "covers": covers,
        "marked": bool(goal.mark),
        "costs": costs,
    }


def relative_costs(result: Result) -> dict[str, float | str]:
    """Part and fixed load -> the cost relative to the tester, or why there is none."""
    assert result.cpu_load is not None
    return {
        f"{part} at {at.of}": one.why if one.value is None else one.value
        for at in result.cpu_load.at
        if at.share is None
        for part, one in at.relative.items()
    }


def summary(runs: Sequence[dict[str, Any]]) -> str:
    """What all runs have shown."""
    lines = [
        f"{sum(one['covers'] for one in runs)} of {len(runs)} ranges covered what followed; "
        f"{sum(one['marked'] for one in runs)} were marked"
    ]
    for what in dict.fromkeys(each for one in runs for each in one["costs"]):
        values = [one["costs"].get(what) for one in runs]
        known = [value for value in values if isinstance(value, float)]
        if known:
            middle = statistics.median(known)
            within = sum(abs(value - middle) <= NEAR * middle for value in known)
            lines.append(
                f"relative cost of the {what}: median {middle:.3g}, {min(known):.3g} to "
                f"{max(known):.3g}; within {NEAR:.0%} of the median: {within} of {len(values)}"
            )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenario", nargs="?")
    parser.add_argument("--preset", default="")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--neighbour", type=float, default=0.0)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--read", type=Path, nargs="*", default=[])
    arguments = parser.parse_args(argv)
    runs = [json.loads(line) for file in arguments.read for line in file.read_text().splitlines()]
    if arguments.scenario is not None:
        with neighbour(arguments.neighbour):
            for _ in range(arguments.runs):
                keep = arguments.keep and arguments.keep / time.strftime("%Y%m%d-%H%M%S")
                if keep is not None:
                    keep.mkdir(parents=True)
                runs.append(one_run(arguments.scenario, arguments.preset, arguments.seconds, keep))
                if arguments.save is not None:
                    with arguments.save.open("a") as file:
                        print(json.dumps(runs[-1]), file=file)
    print(summary(runs))


if __name__ == "__main__":
    main()
