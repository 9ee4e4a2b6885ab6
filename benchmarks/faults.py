"""Faults in the middle of trials: whether each is noticed, how soon, and what is left behind.

    python -m benchmarks.faults [--faults 30] [--seconds 500] [--append FILE] [--seed 1]
    python -m benchmarks.faults --table FILE [FILE ...]

A controller, an agent and a deployment are made as a run makes them: a trial is begun, and at a
random moment a part is killed or stopped (SIGSTOP), a wire's link goes down and up, the engine
stands still or its ring is flooded, no space is left, or the clock is a year off. Each fault has a
trial of its own; those that were injected least are next. What a deployment outlives comes first: a
part that was stopped goes on, and a trial without a fault has to be valid. After a fault that it
does not outlive all is taken away, the machine is compared with what it was, and the controller
deploys anew, as a run does; of those a guest, which takes a minute to boot, has one. Last are those
that end the controller. Controllers are stopped for good several at a time, each with a state
directory, and thus a lock, of its own. `--append` keeps each fault as a line of JSON, so that many
short calls make one table. Needs root, OVS-DPDK and testpmd.

The machine itself is left alone by faults that would reach others: space ends on a small tmpfs in a
mount namespace of the controller's, and the clock is off in the run's own processes (a library that
is loaded before the C library adds to CLOCK_REALTIME, time() and gettimeofday()).
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import json
import logging
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.controllers import (
    ANSWER_S,
    DEPLOY_S,
    RESTORED_S,
    TOP,
    Controller,
    differences,
    left_behind,
    left_inside,
)
from benchmarks.fault_kinds import (
    DEPLOYMENTS,
    DROPPED,
    LOAD_FPS,
    NO_SPACE,
    RESULTS,
    SILENT_S,
    STOPPED,
    TRIAL_S,
    YEAR_S,
    Fault,
    Values,
    faults_of,
    fill,
    make_clock,
    send,
    setting,
    split_words,
)
from vnetperf import config
from vnetperf.agent import client as agent_client
from vnetperf.agent.hosts import TestbedClient
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_for
from vnetperf.log.folder import read_up_to_damage
from vnetperf.model.calibration import Calibration
from vnetperf.model.errors import HostError, VnetperfError
from vnetperf.model.scenario import Plan
from vnetperf.model.trial import TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.runner.calibration_cache import CalibrationCache
from vnetperf.runner.scenarios import make_scenario
from vnetperf.runner.verdict import judge

TOLERANCE = 0.01
#: From the end of sending until a trial's result is there, at most: what is done then is too late.
COUNTED_S = 0.5
#: Faults of a controller, of those that a deployment outlives and of those that it does not.
MOST = 4
USUAL = "pvp_dpdk,phy2phy_dpdk,phy2phy_bridge,pvp_bridge,pytest"


@dataclass(frozen=True)
class Outcome:
    """What became of a fault.

    Attributes:
        deployment: What was deployed.
        fault: What was done.
        noticed: Whether it was named, in time and by a verdict that is no measurement; or, of a
            fault that a measurement does not depend on, whether the measurement was right.
        wrong: Whether the trial was a valid one with loss.
        seconds: From the fault until it was named.
        words: The verdict and its reason, or the error.
        left: What was left behind.
        load: Load average of the machine over a minute.
        lives: Whether the deployment is as it was.
    """

    deployment: str
    fault: str
    noticed: bool
    wrong: bool
    seconds: float
    words: str
    left: tuple[str, ...] = ()
    load: float = 0.0
    lives: bool = False


def plan_of(deployment: str, client: TestbedClient) -> Plan:
    """The plan of a deployment on this machine."""
    settings = {**DEPLOYMENTS[deployment][0], "preset": "smoke"}
    loaded = config.load(settings, environment={}, directory=Path("/nonexistent"))
    scenario = make_scenario(deployment.partition("+")[0], loaded)
    return make_plan(scenario, loaded.testbed, client.inventory())


class Noticing(logging.Handler):
    """Reports when the end of the agent was noticed, before another one restores the machine."""

    def emit(self, record: logging.LogRecord) -> None:
        """A record of the client's."""
        report("noticed", words=record.getMessage())


def report(kind: str, **values: object) -> None:
    """A line for whoever started this controller."""
    print(json.dumps({"is": kind, "at": time.monotonic(), **values}), flush=True)


def control(deployment: str) -> int:
    """Be the controller: deploy, run trials as ordered, report, and take everything away."""
    faulthandler.register(signal.SIGUSR1)
    # PR_SET_PDEATHSIG: one that is stopped would stay when who started it is killed.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    loaded = config.load({}, environment={}, directory=Path("/nonexistent"))

    def on_event(event: dict[str, Any]) -> None:
        if event.get("event") == "wait":
            report("wait", holder=event["holder"])

    client = TestbedClient(loaded.testbed, on_event)
    logging.getLogger(agent_client.__name__).addHandler(Noticing(logging.WARNING))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory() as folder:
        cache = CalibrationCache(Path(folder))
        stored = Calibration(generator="g", wire="w", cores=(), when=when, points=())
        cache.add("key", stored)
        order = ["deploy"]
        while order:
            try:
                if order[0] == "trial":
                    report("result", **trial(client, float(order[1]), when, cache))
                elif order[0] == "teardown":
                    report("down", troubles=client.teardown())
                else:
                    plan = plan_of(deployment, client)
                    report("begins", agent=client.clients[""].process[0])
                    client.deploy(plan)
                    report("deployed", agent=client.clients[""].process[0])
            except VnetperfError as error:
                report("result", verdict="DUT_FAILED", words=str(error))
            order = sys.stdin.readline().split()
        with suppress(VnetperfError):
            client.close()
    report("closed")
    sys.stdin.readline()
    return 0


def trial(client: TestbedClient, load_fps: float, when: str, cache: CalibrationCache) -> Values:
    """What becomes of a trial, and whether its times and calibrations are those of the clock.

    Args:
        client: The agent.
        load_fps: Load in each direction, frames/s.
        when: When it was deployed.
        cache: Has a calibration of that moment.
    """
    spec = TrialSpec(frame_size=64, load_fps=load_fps, duration_s=TRIAL_S, learning_frames=8)
    began = time.monotonic()
    result = client.run_trial(spec)
    took = time.monotonic() - began
    verdict, words = judge(result, TOLERANCE)
    truth = ""
    year_off = abs(time.time() - datetime.fromisoformat(when).timestamp()) > YEAR_S / 2
    # A controller that was stopped meanwhile has waited for longer than the trial took.
    known = result.wall_s is not None and 0 <= took - result.wall_s < took / 2
    if year_off and not known:
        truth = f"it took {took:.3f} s, and says {result.wall_s} s; "
    if year_off and cache.load("key") is not None:
        truth += "a calibration of another year is used"
    lossy = bool(result.directions) and result.worst_loss_ratio() > 0
    lives = not result.failed  # else a run deploys anew
    if missed := sum(port.missed or 0 for port in result.tester):
        words += f"; {DROPPED} {missed} frames"
    return {"verdict": verdict, "words": words, "lossy": lossy, "wrong": truth, "lives": lives}


def control_run(folder: str) -> int:
    """Be a session of pytest, in the middle of whose trials its results find no space."""
    argv = ["-m", "pytest", "testcases", "-q", "-k", "phy2phy_dpdk", "--frame-sizes=64"]
    argv += ["--preset=smoke", f"--results-dir={folder}", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, check=False, cwd=TOP
    )
    report("result", status=done.returncode, words=done.stdout + done.stderr)
    sys.stdin.readline()
    return 0


def inject_results(draw: random.Random) -> Outcome:
    """Leave no space for the results of a run of pytest, after one of its first trials."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        controller = Controller(["--control-run", folder], tmpfs=folder)
        inside = controller.inside(Path(folder))
        log = inside / "latest/trials.jsonl"

        def trials() -> int:
            with suppress(OSError):
                return log.read_text().count('"type":"trial"')
            return 0

        least = draw.randint(1, 4)
        wait_for(lambda: trials() >= least, ANSWER_S, "trials in the log", poll_s=0.005)
        time.sleep(draw.uniform(0.0, 0.3))
        held_by = re.search(r"run (\S+) holds testbed", (inside / "latest/run.log").read_text())
        controller.has_run(held_by[1] if held_by else "")
        fill(inside)
        happened, held = time.monotonic(), trials()
        line = controller.next("result", ANSWER_S)
        kept = sum(record.type == "trial" for record in read_up_to_damage(log)[0])
        controller.end()
    words = str(line.get("words", "nothing"))
    lines = [text for text in words.splitlines() if NO_SPACE[0] in text]
    return Outcome(
        deployment=RESULTS[0],
        fault=RESULTS[1],
        noticed=bool(lines) and bool(line.get("status")) and "Traceback" not in words,
        wrong=kept < held,
        seconds=round(line["at"] - happened, 3),
        words=f"{held} trials before, {kept} after; {lines[0] if lines else words[-300:]}",
        left=left_behind(controller),
        load=load,
    )


@contextmanager
def clock_of(faults: Iterable[Fault]) -> Iterator[Path | None]:
    """A folder with a clock that can be set, where one of the faults is to set one."""
    wanted = any(fault.clock for fault in faults)
    with tempfile.TemporaryDirectory() as folder:
        if wanted:
            make_clock(Path(folder))
        yield Path(folder) if wanted else None


def inject(
    deployment: str, chain: Mapping[str, Fault], draw: random.Random, until: float
) -> list[Outcome]:
    """Deploy, do each at a random moment of a trial of its own, and take everything away.

    After one that the deployment does not outlive the same controller deploys anew.

    Returns:
        What became of each that was done by `until`; without those that the machine was too busy to
        do within the trial.
    """
    last = list(chain.values())[-1]
    outcomes: list[Outcome] = []
    lives, looked = True, 0
    with clock_of(chain.values()) as clock:
        controller = Controller(["--control", deployment], tmpfs=last.tmpfs, clock=clock)
        controller.agent = controller.next("begins", DEPLOY_S).get("agent", 0)
        if last.deploying or controller.deployed(deployment):
            for name, fault in chain.items():
                if not lives:
                    controller.go_on("deploy")
                    if time.monotonic() > until or not controller.deployed(deployment):
                        break
                outcome = inject_one(controller, deployment, name, fault, draw)
                outcomes += [outcome] if outcome else []
                lives = outcome is not None and outcome.lives
                if fault.ends or (lives and time.monotonic() > until):
                    break
                if not lives:
                    controller.go_on("teardown")
                    controller.next("down result", ANSWER_S)
                    left = left_behind(controller)
                    outcomes[looked:] = [replace(one, left=left) for one in outcomes[looked:]]
                    looked = len(outcomes)
        left = take_away(controller, last)
    outcomes[looked:] = [replace(one, left=left) for one in outcomes[looked:]]
    return outcomes


def take_away(controller: Controller, last: Fault) -> tuple[str, ...]:
    """End a controller after its last fault; what is left behind."""
    left: tuple[str, ...] = ()
    controller.go_on()  # no further trial
    if not last.restored:
        controller.next("closed", ANSWER_S)
    if last.tmpfs:
        left = left_inside(controller, last.tmpfs)
    controller.end()
    if last.tmpfs:
        with suppress(OSError):  # it is there while others have runs
            Path(last.tmpfs).rmdir()
    return left + left_behind(controller)


def inject_stops(deployments: Sequence[str], draw: random.Random) -> list[Outcome]:
    """Stop several controllers for good, each in a trial of a deployment of its own.

    Only the first of those with a switch, which needs hugepages: whose these are is in the state
    directories, and the runs do not see each other's.
    """
    state = str(HostRoots().state)
    switched = [one for one in deployments if "switch" in DEPLOYMENTS[one][1]]
    found: dict[str, Controller] = {}
    for deployment in [one for one in deployments if one not in switched[1:]]:
        controller = Controller(["--control", deployment], tmpfs=state)
        controller.agent = controller.next("begins", DEPLOY_S).get("agent", 0)
        if controller.deployed(deployment):
            found[deployment] = controller
        else:
            take_away(controller, replace(faults_of(deployment)[STOPPED], tmpfs=state))
    load = os.getloadavg()[0]
    for controller in found.values():
        controller.go_on(f"trial {LOAD_FPS}")
    time.sleep(draw.uniform(0.2, TRIAL_S - 0.8))
    happened = time.monotonic()
    for controller in found.values():
        os.kill(controller.pid, signal.SIGSTOP)
    seen = dict.fromkeys(found, ("nothing was looked at",))
    seconds: dict[str, float] = {}
    while found.keys() - seconds.keys() and time.monotonic() < happened + SILENT_S:
        for deployment in found.keys() - seconds.keys():
            controller = found[deployment]
            now = differences(controller.before, controller.marks) + left_inside(controller, state)
            if now:
                seen[deployment] = now
            else:
                seconds[deployment] = round(time.monotonic() - happened, 3)
        time.sleep(0.2)
    outcomes = []
    for deployment, controller in found.items():
        os.kill(controller.pid, signal.SIGCONT)
        outcomes.append(
            Outcome(
                deployment=deployment,
                fault=STOPPED,
                noticed=deployment in seconds,
                wrong=False,
                seconds=seconds.get(deployment, SILENT_S),
                words=f"there until then: {'; '.join(seen[deployment])}"[:400],
                load=load,
                left=take_away(controller, replace(faults_of(deployment)[STOPPED], tmpfs=state)),
            )
        )
    return outcomes


def inject_one(
    controller: Controller, deployment: str, name: str, fault: Fault, draw: random.Random
) -> Outcome | None:
    """Begin a trial, or see the deployment begin, and do it at a random moment."""
    load = os.getloadavg()[0]
    if fault.deploying:
        time.sleep(draw.uniform(0.0, 4.0))
    else:
        controller.go_on(f"trial {fault.load_fps}")
        time.sleep(draw.uniform(0.2, TRIAL_S - 0.8))
    happened, at = time.monotonic(), 0.0
    try:
        fault.act(controller, draw)
    except (OSError, IndexError, HostError) as error:
        print(f"  {deployment}, {name}: nothing to do it to: {error}", flush=True)
        return None
    if fault.restored:
        left = left_behind(controller, fault.limit_s or RESTORED_S)
        line: Values = {"at": time.monotonic(), "words": "everything was taken away"}
        if not left:
            line["is"] = "restored"
        with suppress(ProcessLookupError):
            os.kill(controller.pid, signal.SIGCONT)
    elif fault.deploying:
        line = controller.next("deployed result", ANSWER_S)
        if line["is"] == "deployed":
            controller.go_on(f"trial {fault.load_fps}")
            line = controller.next("result", ANSWER_S)
    else:
        line = controller.next("noticed result", ANSWER_S)
        if line["is"] == "noticed":
            at, line = line["at"], controller.next("result", ANSWER_S)
    named = line.get("is") == "restored" if fault.restored else fault.is_named(line)
    is_late = line["at"] < happened or (not named and line["at"] < controller.acted + COUNTED_S)
    if is_late and not fault.deploying:  # it was not injected in the trial
        print(f"  {deployment}, {name}: too late: {str(line)[:300]}", flush=True)
        return None
    valid, lossy = line.get("verdict") == "VALID", bool(line.get("lossy"))
    words = split_words(line)
    seconds = (at or line["at"]) - happened
    lives = bool(line.get("lives"))
    if fault.stops and named:
        send(controller, fault.stops, signal.SIGCONT)
        controller.go_on(f"trial {fault.load_fps}")
        after = controller.next("result", ANSWER_S)
        lives = after.get("verdict") == "VALID" and not after.get("lossy")
    if fault.clock:
        setting(0)(controller, draw)
    return Outcome(
        deployment=deployment,
        fault=name,
        noticed=named and (fault.limit_s is None or seconds <= fault.limit_s),
        wrong=(valid and lossy) or bool(line.get("wrong")),
        seconds=round(seconds, 3),
        words=words[:400],
        load=load,
        lives=lives,
    )


COLUMNS = (
    "Fault",
    "Deployments",
    "Injected",
    "Noticed",
    "Wrong",
    "Median, s",
    "Longest, s",
    "Left behind",
)


def row(name: str, mine: Sequence[Outcome]) -> str:
    """A line of the table."""
    times = [o.seconds for o in mine]
    counts = (len(mine), sum(o.noticed for o in mine), sum(o.wrong for o in mine))
    seconds = (f"{statistics.median(times):.2f}", f"{max(times):.2f}")
    left = sum(bool(o.left) for o in mine)
    deployments = ", ".join(sorted({o.deployment for o in mine})) if name != "all" else ""
    return f"| {' | '.join(map(str, (name, deployments, *counts, *seconds, left)))} |"


def table(outcomes: Sequence[Outcome]) -> str:
    """What became of all faults, a line for each kind, in Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    names = [name for deployment in DEPLOYMENTS for name in faults_of(deployment)]
    for name in [*dict.fromkeys([*names, RESULTS[1]]), "all"]:
        if mine := [o for o in outcomes if name in (o.fault, "all")]:
            lines.append(row(name, mine))
    if loads := [o.load for o in outcomes]:
        lines.append(f"load average: median {statistics.median(loads):.1f}, max {max(loads):.1f}")
    for one in outcomes:
        if not one.noticed or one.wrong or one.left:
            lines.append(f"! {one.deployment}, {one.fault}, {one.seconds:.2f} s: {one.words}")
            lines += [f"    left: {line}" for line in one.left[:5]]
    return "\n".join(lines)


def read(path: Path | None) -> list[Outcome]:
    """The faults that a file holds; none without one."""
    text = path.read_text() if path is not None and path.exists() else ""
    lines = (json.loads(line) for line in text.splitlines())
    return [Outcome(**{**line, "left": tuple(line["left"])}) for line in lines]


Done = Counter[tuple[str, str]]


def choose(
    deployments: Sequence[str], only: Sequence[str], done: Done, draw: random.Random
) -> tuple[str, dict[str, Fault]]:
    """The faults to inject next, in one deployment: those that were injected least."""
    every = {
        (deployment, name): fault
        for deployment in deployments
        for name, fault in faults_of(deployment).items()
        if (name in only if only else name != STOPPED)
    }
    first = min(every, key=lambda key: (done[key], draw.random()))
    if first == RESULTS or every[first].tmpfs:
        return first[0], {first[1]: every[first]}
    mine = [(key, f) for key, f in every.items() if key[0] == first[0] and not f.tmpfs]
    mine.sort(key=lambda one: (done[one[0]], draw.random()))
    lasting = [(key[1], fault) for key, fault in mine if fault.lives or fault.stops]
    others = [(key[1], fault) for key, fault in mine if not (fault.lives or fault.stops)]
    if "vm" in first[0]:  # a guest takes a minute to boot
        return first[0], dict(lasting + others[:1])
    going_on = [one for one in others if not one[1].ends]
    return first[0], dict(lasting[:MOST] + going_on[:MOST] + [o for o in others if o[1].ends][:1])


def main() -> int:
    """Inject faults and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no fault after these")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deployments", default=USUAL)
    parser.add_argument("--only", default="", help="names of faults; those that take long too")
    parser.add_argument("--append", type=Path, help="file that each fault is appended to")
    parser.add_argument("--table", type=Path, nargs="+", help="print what these files hold")
    parser.add_argument("--control", help=argparse.SUPPRESS)
    parser.add_argument("--control-run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.control:
        return control(arguments.control)
    if arguments.control_run:
        return control_run(arguments.control_run)
    outcomes: list[Outcome] = []
    for path in arguments.table or ():
        outcomes += read(path)
    if arguments.table is None:
        draw, began = random.Random(arguments.seed), time.monotonic()  # noqa: S311 - no secret
        only = [name for name in arguments.only.split(",") if name]
        # It sleeps nearly all the time, and has to be on time beside pollers of high priority.
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        deployments = [name for name in arguments.deployments.split(",") if name]
        # Those that were injected least come first, also over many short calls.
        done: Done = Counter((o.deployment, o.fault) for o in read(arguments.append))
        while len(outcomes) < arguments.faults and time.monotonic() - began < arguments.seconds:
            deployment, chain = choose(deployments, only, done, draw)
            done.update((deployment, name) for name in chain)
            if STOPPED in only:
                found = inject_stops(deployments, draw)
            elif deployment == RESULTS[0]:
                found = [inject_results(draw)]
            else:
                found = inject(deployment, chain, draw, began + arguments.seconds)
            outcomes += found
            for outcome in found:
                print(row(outcome.fault, [outcome]), flush=True)
            if arguments.append is not None:
                with arguments.append.open("a") as file:
                    file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in found)
    print(table(outcomes))
    return int(any(not o.noticed or o.wrong or o.left for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
