"""What a scenario carries by two settings in turn, and what its threads do meanwhile.

    python -m benchmarks.turns pvp_dpdk                                  # this checkout alone
    python -m benchmarks.turns pvp_dpdk --half old=../old --half new=. --deployments 10
    python -m benchmarks.turns pvp_dpdk --half "testpmd=.;--vnf vloop:testpmd" --half new=.
    python -m benchmarks.turns pvp_dpdk --neighbour 0.3 --loads 100k,500k,1M

A half is NAME=CHECKOUT, or NAME=CHECKOUT;OPTIONS with options of pytest (--vnf, --set, --generator,
--wire, --nat, --testbed). The halves take turns, each deployment is a new one, and all is measured
by the same steps:

* throughput: the largest load of which no more than 0.5 % is lost, by 8 halvings, each by the
  majority of three trials of 1 s, then confirmed by the majority of four; what the tester did not
  send counts as lost, and a trial that only that would decide is tried again, three times at most;
* the table: at shares of that load, what PMD, VNF and tester cost and how often they are switched,
  cycles of the switch for a frame, latency, and where frames died;
* collapse: an overload of twice that for 10 s, then 0.8 of it three times;
* loss-free: with --loss-free LOAD ten trials of 4 s at it.

`--neighbour SHARE` runs a process beside that takes this share of a processor.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GOAL = 0.005
HALVINGS, STEP_S, CONFIRM_S, CONFIRMS = 8, 1.0, 1.0, 4
TRIES = 4
LEAST_FPS, MOST_FPS = 10e3, 6e6
SHARES = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.2)
OVERLOAD_S, AFTER_SHARE = 10.0, 0.8
FREE_S, FREE_TRIALS = 4.0, 10
#: A neighbour's period, seconds.
PERIOD_S = 0.1
NEIGHBOUR = (
    "import sys,time\n"
    "share, period = float(sys.argv[1]), float(sys.argv[2])\n"
    "while True:\n"
    "    end = time.perf_counter() + share * period\n"
    "    while time.perf_counter() < end: pass\n"
    "    time.sleep((1 - share) * period)\n"
)
#: Who is on which processor, in words: a checkout of before `sharing` has no more than the reason.
PLACED = """
def placed(plan, deployment):
    try:
        from vnetperf.analysis.sharing import sharing_of
    except ImportError:
        return plan.placement.reason
    found = sharing_of(deployment.facts)
    return found and found.sentence or plan.placement.reason
"""
#: Deploys a plan: a checkout of before `deploy_plan` has it as a method of a class.
DEPLOY = """
try:
    from vnetperf.deployment.one_host import deploy_plan
except ImportError:
    from vnetperf.deployment.deploy import LiveDeployment
    deploy_plan = LiveDeployment.deploy
"""
#: What one half runs in its own checkout: it may be one of before this file was written.
WORKER = (
    f"{PLACED}{DEPLOY}"
    """
import json, sys
from vnetperf.agent.inventory import take_inventory
from vnetperf.planning.planner import make_plan
from vnetperf.deployment.trial import run_trial
from vnetperf.model.trial import TrialSpec
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.stage import configuration
scenario, wishes = sys.argv[1], json.loads(sys.argv[2])
settings = configuration(wishes)
facts = take_inventory(settings.testbed)
plan = make_plan(make_scenario(scenario, settings), settings.testbed, facts)
deployment = deploy_plan(plan, facts)
try:
    where = placed(plan, deployment)
    print(json.dumps({"placement": where, "slices": deployment.slices}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        spec = TrialSpec(frame_size=wishes["frame_sizes"][0], load_fps=wanted["load"],
            duration_s=wanted["seconds"], drain_s=0.15, learning_wait_s=0.05,
            learning_frames=plan.scenario.learning_frames)
        print(run_trial(deployment, spec).model_dump_json(), flush=True)
finally:
    deployment.teardown()
"""
)


class Half:
    """One of the settings that are compared.

    Args:
        text: NAME=CHECKOUT;OPTIONS.
        frame_size: Octets including FCS.
    """

    def __init__(self, text: str, frame_size: int) -> None:
        self.name, _, rest = text.partition("=")
        checkout, _, options = rest.partition(";")
        self.checkout = Path(checkout or ".").resolve()
        self.wishes: dict[str, Any] = {"preset": "smoke", "frame_sizes": [frame_size]}
        self.testbed = ""
        for name, value in re.findall(r"--([\w-]+)[= ]+(\S+)", options):
            key = name.replace("-", "_")
            if key == "testbed":
                self.testbed = str(Path(value).resolve())
            elif key in ("set", "nat", "lb", "guest"):
                self.wishes.setdefault(key, []).append(value)
            else:
                self.wishes[key] = value

    @contextmanager
    def deployed(self, scenario: str) -> Iterator[Deployed]:
        """The scenario, deployed anew by this half."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")}
        if self.testbed:
            environment["VNETPERF_TESTBED"] = self.testbed
        argv = [sys.executable, "-c", WORKER, scenario, json.dumps(self.wishes)]
        with subprocess.Popen(
            argv,
            cwd=self.checkout,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield Deployed(process)
            finally:
                if process.stdin is not None:
                    process.stdin.close()
                process.wait()


class Deployed:
    """A deployment of a half, by the process that has it.

    Args:
        process: Reads trials and prints results.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.facts = self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("a half has ended; see its error above")
        found: dict[str, Any] = json.loads(line)
        return found

    def trial(self, load_fps: float, seconds: float) -> Row:
        """One trial at a load of each interface."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"load": load_fps, "seconds": seconds}) + "\n")
        self._process.stdin.flush()
        return Row(load_fps, seconds, self._line())


class Row:
    """What a trial shows.

    Args:
        load_fps: Load of each interface.
        seconds: Its length.
        result: The trial's result, as it is logged.
    """

    def __init__(self, load_fps: float, seconds: float, result: dict[str, Any]) -> None:
        self.load_fps, self.seconds, self.result = load_fps, seconds, result
        self.directions = result["directions"]
        if not self.directions:
            sys.exit(f"a trial failed: {result['failure']}")

    def sum(self, name: str) -> int:
        """A count of both directions."""
        return sum(one[name] for one in self.directions)

    @property
    def loss(self) -> float:
        """Share of what was to be sent that did not come back, of the worse direction."""
        return max(1 - d["received"] / max(1, d["intended"]) for d in self.directions)

    @property
    def dut_loss(self) -> float:
        """The same of what was sent."""
        return max(1 - d["received"] / max(1, d["sent"] + d["refused"]) for d in self.directions)

    @property
    def cycles(self) -> float | None:
        """Busy cycles of the switch's threads for a packet of theirs."""
        packets = sum(one["packets"] for one in self.result["datapath"])
        busy = sum(one["busy_cycles"] for one in self.result["datapath"])
        return busy / packets if packets else None

    @property
    def latency_us(self) -> float:
        """Mean latency of the worse direction."""
        known = [d["latency"]["mean_ns"] for d in self.directions if d["latency"]]
        return max(known, default=0.0) / 1e3

    def __str__(self) -> str:
        text = (
            f"{self.load_fps / 1e3:7.0f}k {self.seconds:4.1f} s  forwarded "
            f"{self.sum('received') / self.seconds / 1e3:7.1f}k  lost {self.dut_loss:7.3%}  unsent "
            f"{self.sum('unsent') / self.sum('intended'):6.2%}"
        )
        if self.cycles is not None:
            text += f"  {self.cycles:5.0f} cycles"
        text += f"  latency {self.latency_us:6.0f} us"
        for load in self.result["threads"]:
            if load["role"] == "kernel":
                continue
            switches = load["involuntary_switches"] + (load.get("voluntary_switches") or 0)
            seconds = load["watched_s"] or self.seconds
            text += (
                f"  {load['role']} {load['run_s'] / seconds:.2f} on {load['cpu']}, "
                f"{switches / seconds / 1e3:.1f}k/s, waited {load['wait_s'] / seconds:.1%}"
            )
        machine = self.result.get("machine") or {}
        if lines_ns := machine.get("line_ns"):
            text += f"  line {lines_ns[0]:.0f}, {lines_ns[1]:.0f} ns"
        if gathered_s := machine.get("gathered_s"):
            text += f", gathered in {gathered_s:.1f} s"
        for processor in machine.get("by_processor") or ():
            if processor["steal"]:
                stolen_ms = 1e3 * processor["steal"] * self.seconds
                text += f"  stolen of {processor['cpu']}: {stolen_ms:.0f} ms"
        if turns := self.result.get("turns"):
            text += f"  groups of {turns['group_frames']}, held back {turns['held_back']}"
        died = {"refused": self.sum("refused")}
        for hop in self.result["hops"]:
            died[f"{hop['port']} in"] = hop["rx_dropped"]
            died[f"{hop['port']} out"] = hop["tx_dropped"]
        died["tester"] = sum(port["missed"] or 0 for port in self.result["tester"])
        return text + "".join(f"  {name} {n}" for name, n in died.items() if n)


def _is_carried(deployed: Deployed, load_fps: float, loud: bool) -> bool:
    """Whether a trial loses no more than the goal's share."""
    for _ in range(TRIES):
        row = deployed.trial(load_fps, STEP_S)
        if loud:
            print(f"    search {row}", flush=True)
        if row.loss <= GOAL or row.dut_loss > GOAL:
            break  # else the tester left out what would have decided
    return row.loss <= GOAL


def throughput(deployed: Deployed, loud: bool) -> float:
    """The largest load of each interface of which the goal's share is lost at most."""
    low, high = LEAST_FPS, MOST_FPS
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        votes = [_is_carried(deployed, middle, loud) for _ in range(2)]
        if votes[0] != votes[1]:
            votes.append(_is_carried(deployed, middle, loud))
        low, high = (middle, high) if sum(votes) >= 2 else (low, middle)
    while low > LEAST_FPS:
        rows = [deployed.trial(low, CONFIRM_S) for _ in range(CONFIRMS)]
        if loud:
            print("".join(f"    again  {row}\n" for row in rows), end="", flush=True)
        if sum(row.loss <= GOAL for row in rows) * 2 >= CONFIRMS:
            return low
        low *= 0.95
    return low


def measure(half: Half, arguments: argparse.Namespace) -> dict[str, float]:
    """One deployment of a half; its figures."""
    found: dict[str, float] = {}
    loud = not arguments.brief
    with half.deployed(arguments.scenario) as deployed:
        print(f"  {half.name}: {deployed.facts['placement']}", flush=True)
        deployed.trial(100e3, 1.0)
        if arguments.loads:
            for load in arguments.loads:
                print(f"    {deployed.trial(load, arguments.seconds)}", flush=True)
            return found
        best = throughput(deployed, loud)
        found["throughput, M/s in sum"] = 2 * best / 1e6
        latency = deployed.trial(100e3, STEP_S)
        found["latency at 100k, us"] = latency.latency_us
        cycles = []
        for share in SHARES:
            row = deployed.trial(share * best, STEP_S)
            if loud:
                print(f"    {share:4.0%}   {row}", flush=True)
            if share <= 0.9 and row.cycles is not None:
                cycles.append(row.cycles)
            if share <= 0.8:
                found["loss at <= 0.8, %"] = max(found.get("loss at <= 0.8, %", 0), 100 * row.loss)
        if cycles:
            found["cycles, least"], found["cycles, most"] = min(cycles), max(cycles)
        over = deployed.trial(2 * best, OVERLOAD_S)
        after = [deployed.trial(AFTER_SHARE * best, STEP_S) for _ in range(3)]
        if loud:
            print(f"    2x     {over}", *(f"    after  {row}" for row in after), sep="\n")
        found["forwarded at 2x, M/s"] = over.sum("received") / over.seconds / 1e6
        found["loss after 2x, %"] = 100 * max(row.loss for row in after)
        if arguments.loss_free:
            rows = [deployed.trial(arguments.loss_free, FREE_S) for _ in range(FREE_TRIALS)]
            lost = [row.sum("intended") - row.sum("received") for row in rows]
            if loud:
                for row in (row for row, n in zip(rows, lost, strict=True) if n):
                    print(f"    lost   {row}", flush=True)
            print(f"    lost of {FREE_TRIALS} trials of {FREE_S:g} s: {lost}", flush=True)
            found["trials with loss"] = sum(n > 0 for n in lost)
    return found


@contextmanager
def neighbour(share: float) -> Iterator[None]:
    """A process beside that takes a share of a processor."""
    if not share:
        yield
        return
    argv = [sys.executable, "-c", NEIGHBOUR, str(share), str(PERIOD_S)]
    with subprocess.Popen(argv) as process:
        try:
            yield
        finally:
            process.kill()


def load(text: str) -> float:
    """Frames/s, as 100k or 1.5M."""
    factor = {"k": 1e3, "M": 1e6}.get(text[-1:], 1.0)
    return float(text.rstrip("kM")) * factor


def summary(found: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    """Medians with their range, by half, and the ratios of the last to the first."""
    medians: dict[str, dict[str, float]] = {}
    for name, rows in found.items():
        for key in rows[0] if rows else ():
            values = [row[key] for row in rows if key in row]
            middle = statistics.median(values)
            medians.setdefault(key, {})[name] = middle
            spread = max((abs(v / middle - 1) for v in values), default=0.0) if middle else 0.0
            shown = ", ".join(f"{value:.3g}" for value in values)
            yield f"{name:10} {key:24} median {middle:.4g} within {spread:.0%} ({shown})"
    for key, of in medians.items():
        names = [*of]
        if len(names) > 1 and of[names[0]]:
            yield f"{names[-1]} / {names[0]}: {key}: {of[names[-1]] / of[names[0]]:.2f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenario")
    parser.add_argument("--half", action="append", default=[])
    parser.add_argument("--deployments", type=int, default=1)
    parser.add_argument("--frame-size", type=int, default=64)
    parser.add_argument("--loads", type=lambda text: [load(one) for one in text.split(",")])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--loss-free", type=load, default=0.0)
    parser.add_argument("--neighbour", type=float, default=0.0)
    parser.add_argument("--brief", action="store_true")
    arguments = parser.parse_args(argv)
    halves = [Half(text, arguments.frame_size) for text in arguments.half or ["here=."]]
    found: dict[str, list[dict[str, float]]] = {half.name: [] for half in halves}
    with neighbour(arguments.neighbour):
        for number in range(arguments.deployments):
            print(f"deployment {number + 1}, {time.strftime('%H:%M:%S')}", flush=True)
            for half in halves:
                found[half.name].append(measure(half, arguments))
    for line in summary(found):
        print(line)


if __name__ == "__main__":
    main()
