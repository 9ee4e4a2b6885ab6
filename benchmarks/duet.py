"""How well the work for a frame repeats, of the DUT over the tester's, by each pair of counts.

    python -m benchmarks.duet pvp_dpdk --deployments 5 --save quiet1.jsonl       # measure
    python -m benchmarks.duet --read quiet1.jsonl quiet2.jsonl                   # the table
    python -m benchmarks.duet pvp_dpdk --deployments 3 --neighbour 0.3 --save disturbed.jsonl
    python -m benchmarks.duet pvp_dpdk --masks 1,1000 --loads 4k --deployments 5 --save masks.jsonl
    python -m benchmarks.duet --sides 3 --read masks.jsonl                       # A/B
    python -m benchmarks.duet --alike 5 --read quiet1.jsonl quiet2.jsonl         # A/A

Each deployment is a new one and runs all loads in turn, several times. A file is a run: the table
shows how much each figure varies between trials of a deployment, between deployments of a run, and
from run to run. Trials that lost 2 % or more are left out, with the others of their load.

`--alike N` compares groups of N deployments of one thing, `--sides N` those of two things.

`--masks` deploys OVS in turn with each number of masks in its classifier: 1,024 flows, each found
by a rule of its own, whose masks are so many; the caches before the classifier are off.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import fsum, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.turns import load, neighbour
from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.one_host import deploy_plan
from vnetperf.deployment.trial import run_trial
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.procedures.relative_cost import in_empty_rounds
from vnetperf.runner.scenarios import make_scenario
from vnetperf.statistics.difference import Measurand, difference
from vnetperf.testing.stage import configuration
from vnetperf.vswitches.openvswitch.openflow import bridge_rules, bridges

MOST_LOSS = 0.02
FLOWS = 1024
Count = Callable[[TrialResult], float | None]


class Trial(NamedTuple):
    """A trial of a deployment."""

    deployment: int
    side: str
    load_fps: float
    result: TrialResult


def _busy(work: Iterable[DatapathWork]) -> float | None:
    return sum(one.busy_cycles for one in work) or None


def _times(result: TrialResult, role: str) -> tuple[float, float] | None:
    """Seconds that the threads of a role ran, and that they waited for a processor."""
    own = [one for one in result.threads if one.role == role]
    if not own or any(one.run_s is None or one.wait_s is None for one in own):
        return None
    return fsum(one.run_s or 0.0 for one in own), fsum(one.wait_s or 0.0 for one in own)


def _ran(role: str) -> Count:
    def count(result: TrialResult) -> float | None:
        times = _times(result, role)
        return None if times is None else times[0] or None

    return count


def _share_run(role: str, work: Callable[[TrialResult], Sequence[DatapathWork]]) -> Count:
    """Busy cycles, less the share of its time that a role waited for a processor."""

    def count(result: TrialResult) -> float | None:
        busy, times = _busy(work(result)), _times(result, role)
        if busy is None or times is None or not sum(times):
            return None
        return busy * times[0] / sum(times)

    return count


def _less_waits(role: str, work: Callable[[TrialResult], Sequence[DatapathWork]]) -> Count:
    """Busy cycles, less all cycles that a role waited, as if it waited for frames' sake only."""

    def count(result: TrialResult) -> float | None:
        busy, times = _busy(work(result)), _times(result, role)
        rounds = sum(one.busy_cycles + (one.idle_cycles or 0) for one in work(result))
        if busy is None or times is None or any(one.idle_cycles is None for one in work(result)):
            return None
        return busy - rounds * times[1] / sum(times) or None

    return count


def _in_empty_rounds(work: Callable[[TrialResult], Sequence[DatapathWork]]) -> Count:
    """Busy cycles, in empty rounds of the same threads."""
    return lambda result: in_empty_rounds(work(result))


#: Count of the DUT -> how.
SWITCH: dict[str, Count] = {
    "busy": lambda r: _busy(r.datapath),
    "busy x run/(run+wait)": _share_run("pmd", lambda r: r.datapath),
    "busy - wait": _less_waits("pmd", lambda r: r.datapath),
    "run": _ran("pmd"),
}
VNF: dict[str, Count] = {"vnf busy": lambda r: _busy(r.vnf_work), "vnf run": _ran("vnf0")}
TESTER: dict[str, Count] = {
    "busy": lambda r: _busy(r.tester_work),
    "run": _ran("tester"),
    "frames": lambda r: r.received or None,
}
ROUNDS = "busy in empty rounds"


def _ratio(of: Count, over: Count) -> Count:
    def ratio(result: TrialResult) -> float | None:
        above, below = of(result), over(result)
        return None if above is None or below is None else above / below

    return ratio


_SWITCH_ROUNDS = _in_empty_rounds(lambda r: r.datapath)
_TESTER_ROUNDS = _in_empty_rounds(lambda r: r.tester_work)
PAIRS: dict[str, Count] = {
    f"{of} / {over}": _ratio(above, below)
    for of, above in (SWITCH | VNF).items()
    for over, below in TESTER.items()
}
PAIRS[f"{ROUNDS} / same"] = _ratio(_SWITCH_ROUNDS, _TESTER_ROUNDS)
PAIRS[f"{ROUNDS} / frames"] = _ratio(_SWITCH_ROUNDS, TESTER["frames"])
PAIRS[f"{ROUNDS} / busy"] = _ratio(_SWITCH_ROUNDS, TESTER["busy"])
for _name in ("busy", "run"):
    PAIRS[f"tester's {_name} / frames"] = _ratio(TESTER[_name], TESTER["frames"])
#: What is published, and what it is held against.
PUBLISHED, OTHERS = f"{ROUNDS} / same", ("busy / busy", "busy / frames")
OF_VNF = "vnf busy / busy"


def masked_rules(deployment: LiveDeployment, masks: int) -> None:
    """Find each flow by a rule of its own, of so many masks in all, ahead of what forwards it.

    The first table numbers the flow, by its source address; the second looks at some bits of its
    port, others for each mask: OVS looks at no bits of rules whose number is another.
    """
    scenario, ovs = deployment.plan.scenario, deployment.vswitch.ovs  # type: ignore[attr-defined] # OVS alone
    ovs.configure({"emc-insert-inv-prob": "0", "smc-enable": "false"})
    ports = {stream.udp_dst for stream in scenario.streams}
    (bridge,) = bridges(scenario)
    rules = [f"table=2,{rule}" for rule in bridge_rules(scenario, bridge)]
    rules += ["table=0,priority=0,actions=resubmit(,2)"]
    for flow in range(FLOWS):
        low = f"0.0.{flow >> 8}.{flow & 255}/0.0.{FLOWS - 1 >> 8}.255"
        number = flow + 1
        bits = 1 + flow % masks if masks > 1 else 2 * FLOWS - 1
        rules.append(
            f"table=0,priority=10,udp,nw_src={low},"
            f"actions=load:{number}->NXM_NX_REG0[],resubmit(,1)"
        )
        rules += [
            f"table=1,udp,reg0={number},tp_dst={port & bits:#x}/{bits:#x},actions=resubmit(,2)"
            for port in sorted(ports)
        ]
    ovs.install(bridge.name, rules, len(rules))


def measure(arguments: argparse.Namespace) -> Iterator[Trial]:
    """All deployments, the sides in turn."""
    wishes: dict[str, Any] = {"preset": "smoke", "frame_sizes": [arguments.frame_size]}
    if arguments.masks:
        wishes["traffic"] = "multi-flow"
    if arguments.set:
        wishes["set"] = arguments.set
    settings = configuration(wishes)
    facts = take_inventory(settings.testbed)
    plan = make_plan(make_scenario(arguments.scenario, settings), settings.testbed, facts)
    number = 0
    for _ in range(arguments.deployments):
        for side in arguments.masks or [0]:
            number += 1
            print(f"deployment {number}, {time.strftime('%H:%M:%S')}", flush=True)
            deployment = deploy_plan(plan, facts)
            try:
                if side:
                    masked_rules(deployment, side)
                yield from _trials(deployment, arguments, number, f"{side} masks" if side else "")
            finally:
                deployment.teardown()


def _trials(
    deployment: LiveDeployment, arguments: argparse.Namespace, number: int, side: str
) -> Iterator[Trial]:
    def run(load_fps: float, seconds: float) -> TrialResult:
        spec = TrialSpec(
            frame_size=arguments.frame_size,
            load_fps=load_fps,
            duration_s=seconds,
            drain_s=0.15,
            learning_wait_s=0.05,
            learning_frames=deployment.plan.scenario.learning_frames,
        )
        return run_trial(deployment, spec)

    run(arguments.loads[-1], 0.5)  # warms up
    for _ in range(arguments.trials):
        for load_fps in arguments.loads:
            result = run(load_fps, arguments.seconds)
            # Percentiles of latency are most of a result.
            short = tuple(d.model_copy(update={"latency": None}) for d in result.directions)
            yield Trial(number, side, load_fps, result.model_copy(update={"directions": short}))


def save(trials: Iterable[Trial], path: Path) -> None:
    """Append trials to a file, each with the values of all pairs."""
    with path.open("a") as out:
        for trial in trials:
            one = trial._asdict() | {"result": json.loads(trial.result.model_dump_json())}
            out.write(json.dumps(one) + "\n")
            out.flush()
            values = {name: pair(trial.result) for name, pair in PAIRS.items()}
            shown = ", ".join(
                f"{name} {values[name]:.4g}"
                for name in (PUBLISHED, OF_VNF)
                if values[name] is not None
            )
            lost = trial.result.worst_loss_ratio()
            print(
                f"  {trial.side} {trial.load_fps / 1e3:.0f}k: {shown}; lost {lost:.2%}", flush=True
            )


def read(path: Path) -> list[Trial]:
    """Trials of a run."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Trial(**row | {"result": TrialResult.model_validate(row["result"])}) for row in rows]


def _cv(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values)


class Repeat(NamedTuple):
    """How a pair repeats at a load."""

    median: float
    trials: float
    deployments: float
    shifts: tuple[float, ...]  # of each run's mean against the first's
    left_out: int


def by_deployment(run: Sequence[Trial], load_fps: float, pair: Count) -> dict[int, list[float]]:
    """Values of each deployment whose trials at a load lost little."""
    found: dict[int, list[float]] = {}
    for number in dict.fromkeys(one.deployment for one in run):
        mine = [one for one in run if (one.deployment, one.load_fps) == (number, load_fps)]
        if any(one.result.worst_loss_ratio() >= MOST_LOSS for one in mine):
            continue
        values = [value for one in mine if (value := pair(one.result)) is not None]
        if values:
            found[number] = values
    return found


def repeat(runs: Sequence[Sequence[Trial]], load_fps: float, pair: Count) -> Repeat | None:
    """How a pair repeats, by runs of deployments of trials."""
    each = [by_deployment(run, load_fps, pair) for run in runs]
    deployments = [values for run in each for values in run.values()]
    if not deployments:
        return None
    inside = [_cv(values) ** 2 for values in deployments if len(values) > 1]
    between = [
        _cv([statistics.fmean(v) for v in run.values()]) ** 2 for run in each if len(run) > 1
    ]
    means = [statistics.fmean(statistics.fmean(v) for v in run.values()) for run in each if run]
    return Repeat(
        median=statistics.median(v for values in deployments for v in values),
        trials=sqrt(statistics.fmean(inside)) if inside else 0.0,
        deployments=sqrt(statistics.fmean(between)) if between else 0.0,
        shifts=tuple(mean / means[0] - 1 for mean in means[1:]),
        left_out=sum(len({t.deployment for t in run}) for run in runs) - len(deployments),
    )


def table(runs: Sequence[Sequence[Trial]]) -> Iterator[str]:
    """The pairs, best first at each load."""
    for load_fps in sorted({one.load_fps for run in runs for one in run}):
        yield f"{load_fps / 1e3:.0f} k/s an interface"
        yield "| pair | median | CV of trials | of deployments | other runs | left out |"
        yield "|---|---|---|---|---|---|"
        rows = [
            (name, found) for name, pair in PAIRS.items() if (found := repeat(runs, load_fps, pair))
        ]
        for name, found in sorted(rows, key=lambda row: row[1].deployments):
            shifts = ", ".join(f"{shift:+.1%}" for shift in found.shifts)
            yield (
                f"| {name} | {found.median:.4g} | {found.trials:.1%} | {found.deployments:.1%} | "
                f"{shifts} | {found.left_out} |"
            )


def _groups(trials: Sequence[Trial], load_fps: float, pair: Count) -> list[Measurand]:
    found = by_deployment(trials, load_fps, pair)
    return [Measurand.exact(statistics.median(values)) for values in found.values()]


def alike(runs: Sequence[Sequence[Trial]], n: int, draws: int = 2000) -> Iterator[str]:
    """How often two groups of deployments of one thing differ at 5 %."""
    for load_fps in sorted({one.load_fps for run in runs for one in run}):
        for name in (PUBLISHED, *OTHERS, OF_VNF):
            pools = [_groups(run, load_fps, PAIRS[name]) for run in runs]
            # In turn, as two sides are measured: pairs that have no deployment in common.
            apart = [
                difference(pool[i : i + 2 * n : 2], pool[i + 1 : i + 2 * n : 2]).is_significant()
                for pool in pools
                for i in range(0, len(pool) - 2 * n + 1, 2 * n)
            ]
            source, seen, made = random.Random(1), 0, 0  # noqa: S311 - no secret
            for pool in pools:
                for _ in range(draws if len(pool) >= 2 * n else 0):
                    drawn, made = source.sample(pool, 2 * n), made + 1
                    seen += difference(drawn[:n], drawn[n:]).is_significant()
            yield (
                f"{load_fps / 1e3:.0f}k, {name}: {sum(apart)} of {len(apart)} pairs of {n} differ"
                + (f"; of pairs drawn at random {seen / made:.1%}" if made else "")
            )
        every = [_groups(run, load_fps, PAIRS[PUBLISHED]) for run in runs]
        for (i, a), (j, b) in pairwise(enumerate(every)):
            if min(len(a), len(b)) > 1:
                found = difference(a, b)
                yield f"{load_fps / 1e3:.0f}k, run {i + 1} and {j + 1}: {_change_text(found)}"


def _change_text(found: Any) -> str:
    ratio = found.ratio or (0.0, 0.0, 0.0)
    return f"{ratio[0]:+.1%} ({ratio[1]:+.1%} to {ratio[2]:+.1%}), p {found.p:.2g}"


def sides(runs: Sequence[Sequence[Trial]], n: int, draws: int = 10) -> Iterator[str]:
    """Whether the sides of a run differ, by all deployments, and by n of each at a time."""
    every = [one for run in runs for one in run]
    names = [*dict.fromkeys(one.side for one in every)]
    for load_fps in sorted({one.load_fps for one in every}):
        for name in (PUBLISHED, *OTHERS, OF_VNF):
            pools = [
                [
                    v
                    for run in runs
                    for v in _groups([t for t in run if t.side == side], load_fps, PAIRS[name])
                ]
                for side in names
            ]
            shown = ", ".join(
                f"{side} {statistics.fmean(v.value or 0 for v in pool):.4g} (n {len(pool)})"
                if pool
                else f"{side} not measured"
                for side, pool in zip(names, pools, strict=True)
            )
            text = f"{load_fps / 1e3:.0f}k, {name}: {shown}"
            if min(map(len, pools)) > 1:
                text += f": {_change_text(difference(pools[0], pools[-1]))}"
            if min(map(len, pools)) > n:
                source = random.Random(1)  # noqa: S311 - no secret
                seen = sum(
                    difference(
                        source.sample(pools[0], n), source.sample(pools[-1], n)
                    ).is_significant()
                    for _ in range(draws)
                )
                text += f"; {seen} of {draws} times seen with {n} of each drawn at random"
            yield text


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenario", nargs="?")
    parser.add_argument("--deployments", type=int, default=3)
    parser.add_argument("--frame-size", type=int, default=64)
    parser.add_argument(
        "--loads",
        type=lambda text: [load(one) for one in text.split(",")],
        default=[50e3, 100e3, 200e3],
    )
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--neighbour", type=float, default=0.0)
    parser.add_argument("--set", action="append")
    parser.add_argument("--masks", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--save", type=Path, default=Path("duet.jsonl"))
    parser.add_argument("--read", type=Path, nargs="+", default=[])
    parser.add_argument("--alike", type=int, default=0, metavar="N")
    parser.add_argument("--sides", type=int, default=0, metavar="N")
    arguments = parser.parse_args(argv)
    if arguments.scenario:
        with neighbour(arguments.neighbour):
            save(measure(arguments), arguments.save)
    runs = [read(path) for path in arguments.read or [arguments.save]]
    lines = table(runs)
    if arguments.alike:
        lines = alike(runs, arguments.alike)
    elif arguments.sides:
        lines = sides(runs, arguments.sides)
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
