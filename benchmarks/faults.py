"""Faults in the middle of trials: whether each is noticed, how soon, and what is left behind.

    python -m benchmarks.faults [--faults 30] [--seconds 150] [--add FILE] [--seed 1]
    python -m benchmarks.faults --table FILE [FILE ...]

Each fault has a deployment of its own, through the agent, as a run has: one trial is begun, and at
a random moment a part of it is killed or stopped (SIGSTOP), a wire's link goes down and up, or the
engine stands still for a moment. Then everything is taken away, and the machine is compared with
what it was. `--add` keeps each fault as a line of JSON, so that many short calls make one table.
Needs root, OVS-DPDK and testpmd; `--deployments` names others, a guest's among them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from vnetperf import config
from vnetperf.agent.client import AgentClient
from vnetperf.deployment.planner import make_plan
from vnetperf.host import snapshot
from vnetperf.host.linux import RUN_ID_VARIABLE
from vnetperf.host.paths import HostRoots
from vnetperf.model.errors import VnetperfError
from vnetperf.model.scenario import Plan
from vnetperf.model.trial import TrialResult, TrialSpec, Verdict
from vnetperf.runner.scenarios import make_scenario
from vnetperf.runner.verdict import judge

#: Deployment -> settings that it is made with.
DEPLOYMENTS: dict[str, dict[str, str]] = {
    "pvp_dpdk": {},
    "phy2phy_dpdk": {"wire": "veth"},
    "phy2phy_bridge": {"wire": "veth"},
    "pvp_bridge": {"wire": "veth"},
    "pvp_dpdk vm": {"vnf": "vloop:vm"},
}
#: Part -> what its command line contains.
PARTS = {
    "switch": "ovs-vswitchd",
    "VNF": "dpdk-testpmd",
    "guest": "qemu-system",
    "engine": "--rx-burst=",
}
#: Low, so that nothing is lost without a fault.
LOAD_FPS, TRIAL_S = 5_000.0, 3.0
TOLERANCE = 0.01
#: Longest times until a fault is named, seconds.
KILLED_S, STOPPED_S = 1.0, 10.0
#: Longest wait until the machine is as it was: a guardian may be at work.
RESTORED_S = 25.0
#: What a fault may not change, besides processes of runs: those of others come and go.
AREAS = ("hugepages", "mounts", "links", "modules", "values")


@dataclass(frozen=True)
class Outcome:
    """What became of a fault.

    Attributes:
        deployment: What was deployed.
        fault: What was done.
        noticed: Whether it was named, in time and by a verdict that is no measurement.
        wrong: Whether the trial was a valid one with loss.
        seconds: From the fault to the end of the trial's call.
        words: The verdict and its reason, or the error.
        left: What was left behind.
    """

    deployment: str
    fault: str
    noticed: bool
    wrong: bool
    seconds: float
    words: str
    left: tuple[str, ...] = ()


def run_processes() -> dict[int, str]:
    """Processes of runs, by the mark in their environment: pid -> command line."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{RUN_ID_VARIABLE}=".encode() in (entry / "environ").read_bytes():
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(entry.name)] = line.decode(errors="replace")
        except OSError:
            continue
    return found


def pids_of(part: str) -> list[int]:
    """Processes of a part of what is deployed."""
    return [pid for pid, line in run_processes().items() if PARTS[part] in line]


def send(part: str, number: signal.Signals) -> None:
    """Send a signal to a part."""
    for pid in pids_of(part):
        os.kill(pid, number)


def stall() -> None:
    """Let the engine stand still for so long that its rings overflow."""
    send("engine", signal.SIGSTOP)
    time.sleep(0.6)
    send("engine", signal.SIGCONT)


def flap(draw: random.Random) -> None:
    """Take a link of the run's namespace down and up again."""
    engine = str(pids_of("engine")[0])
    inside = ["nsenter", "-t", engine, "-n", "ip"]
    shown = subprocess.run(
        [*inside, "-o", "link", "show", "type", "veth"], capture_output=True, text=True, check=True
    )
    names = [line.split()[1].partition("@")[0].rstrip(":") for line in shown.stdout.splitlines()]
    name = draw.choice(names)
    for state in ("down", "up"):
        subprocess.run([*inside, "link", "set", name, state], check=True)
        time.sleep(draw.uniform(0.02, 0.2))


@dataclass(frozen=True)
class Fault:
    """Something that is done in the middle of a trial.

    Attributes:
        act: Does it; is given the agent's process and random numbers.
        limit_s: Longest time until it is named; None: in the same trial.
        words: One of these is in the reason.
    """

    act: Callable[[int, random.Random], None]
    limit_s: float | None
    words: tuple[str, ...]


def faults_of(deployment: str) -> dict[str, Fault]:
    """The faults that a deployment can have."""
    parts = ["engine"]
    parts += ["switch"] if "dpdk" in deployment else []
    parts += ["guest"] if "vm" in deployment else ["VNF"] if deployment == "pvp_dpdk" else []
    found = {}
    for part in parts:

        def killed(_: int, __: random.Random, part: str = part) -> None:
            send(part, signal.SIGKILL)

        def stopped(_: int, __: random.Random, part: str = part) -> None:
            send(part, signal.SIGSTOP)

        found[f"{part} killed"] = Fault(killed, KILLED_S, ("ended", "closed"))
        found[f"{part} stopped"] = Fault(stopped, STOPPED_S, ("is stopped",))
    # Its end is noticed at once; the call also restores the machine.
    found["agent killed"] = Fault(
        lambda pid, _: os.kill(pid, signal.SIGKILL), STOPPED_S, ("the agent ended",)
    )
    stalled = ("did not poll", "did not send", "is stopped", "less than intended", "ring")
    found["engine stalled"] = Fault(lambda _, __: stall(), None, stalled)
    if DEPLOYMENTS[deployment].get("wire") == "veth":
        found["link flap"] = Fault(lambda _, draw: flap(draw), None, ("a link went down",))
    return found


def machine() -> snapshot.Snapshot:
    """The machine as far as a fault may not change it."""
    taken = snapshot.take_snapshot(HostRoots())
    areas = {name: dict(taken.areas.get(name, {})) for name in AREAS}
    areas["processes of runs"] = {str(pid): line for pid, line in run_processes().items()}
    files = taken.areas.get("files", {})
    ours = (str(HostRoots().run), str(HostRoots().state))
    areas["files"] = {name: value for name, value in files.items() if name.startswith(ours)}
    return snapshot.Snapshot(areas)


def left_behind(before: snapshot.Snapshot) -> tuple[str, ...]:
    """What differs from before, once guardians have had their time."""
    deadline = time.monotonic() + RESTORED_S
    while found := snapshot.compare_snapshots(before, machine()):
        if time.monotonic() > deadline:
            return found
        time.sleep(0.2)
    return ()


def plan_of(deployment: str, client: AgentClient) -> Plan:
    """The plan of a deployment on this machine."""
    settings = {**DEPLOYMENTS[deployment], "preset": "smoke"}
    loaded = config.load(settings, environment={}, directory=Path("/nonexistent"))
    scenario = make_scenario(deployment.partition(" ")[0], loaded)
    return make_plan(scenario, loaded.testbed, client.inventory())


def inject(deployment: str, name: str, fault: Fault, draw: random.Random) -> Outcome:
    """Deploy, begin a trial, do it at a random moment, and take everything away."""
    before = machine()
    loaded = config.load({}, environment={}, directory=Path("/nonexistent"))
    client = AgentClient(loaded.testbed)
    happened: list[float] = []
    try:
        client.deploy(plan_of(deployment, client))

        def act() -> None:
            time.sleep(draw.uniform(0.4, TRIAL_S - 0.8))
            happened.append(time.monotonic())
            fault.act(client.pid, draw)

        acting = threading.Thread(target=act)
        acting.start()
        spec = TrialSpec(frame_size=64, load_fps=LOAD_FPS, duration_s=TRIAL_S, learning_frames=8)
        result: TrialResult | None = None
        try:
            result = client.run_trial(spec)
            verdict, words = judge(result, TOLERANCE)
        except VnetperfError as error:
            verdict, words = Verdict.DUT_FAILED, str(error)
        ended = time.monotonic()
        acting.join()
    finally:
        client.close()
    seconds = ended - happened[0]
    valid = verdict is Verdict.VALID
    lossy = result is not None and bool(result.directions) and result.worst_loss_ratio() > 0
    named = any(word in words for word in fault.words) or (name == "engine stalled" and not lossy)
    in_time = fault.limit_s is None or seconds <= fault.limit_s
    return Outcome(
        deployment=deployment,
        fault=name,
        noticed=named and in_time,
        wrong=valid and lossy,
        seconds=round(seconds, 3),
        words=f"{verdict} {words}"[:300],
        left=left_behind(before),
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """What became of all faults, a line for each kind."""
    head = f"{'deployment':16} {'fault':16} {'faults':>6} {'noticed':>7} {'wrong':>5}"
    lines = [f"{head} {'median s':>8} {'max s':>7} {'left behind':>11}"]
    kinds = sorted({(o.deployment, o.fault) for o in outcomes})
    for kind in [*kinds, ("all", "")]:
        mine = [o for o in outcomes if kind[0] == "all" or (o.deployment, o.fault) == kind]
        if mine:
            times = [o.seconds for o in mine]
            lines.append(
                f"{kind[0]:16} {kind[1]:16} {len(mine):6} {sum(o.noticed for o in mine):7} "
                f"{sum(o.wrong for o in mine):5} {statistics.median(times):8.2f} {max(times):7.2f} "
                f"{sum(bool(o.left) for o in mine):11}"
            )
    for one in outcomes:
        if not one.noticed or one.wrong or one.left:
            lines.append(f"! {one.deployment}, {one.fault}, {one.seconds:.2f} s: {one.words}")
            lines += [f"    left: {line}" for line in one.left[:5]]
    return "\n".join(lines)


def main() -> int:
    """Inject faults and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no fault after these")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deployments", default="pvp_dpdk,phy2phy_dpdk,phy2phy_bridge")
    parser.add_argument("--add", type=Path, help="file that each fault is appended to")
    parser.add_argument("--table", type=Path, nargs="+", help="print what these files hold")
    arguments = parser.parse_args()
    outcomes: list[Outcome] = []
    for path in arguments.table or ():
        lines = (json.loads(line) for line in path.read_text().splitlines())
        outcomes += [Outcome(**{**line, "left": tuple(line["left"])}) for line in lines]
    if arguments.table is None:
        draw, began = random.Random(arguments.seed), time.monotonic()  # noqa: S311 - no secret
        every = [
            (deployment, name, fault)
            for deployment in arguments.deployments.split(",")
            for name, fault in faults_of(deployment).items()
        ]
        draw.shuffle(every)
        for number in range(arguments.faults):
            if time.monotonic() - began > arguments.seconds:
                break
            outcomes.append(inject(*every[number % len(every)], draw))
            print(table(outcomes[-1:]).splitlines()[1], flush=True)
            if arguments.add is not None:
                with arguments.add.open("a") as file:
                    file.write(json.dumps(asdict(outcomes[-1])) + "\n")
    print(table(outcomes))
    return int(any(not o.noticed or o.wrong or o.left for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
