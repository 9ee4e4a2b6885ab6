"""Kills at random moments of deployments over two hosts: what is left on either.

    python -m benchmarks.host_kills [--kills 1-50] [--seconds 160] [--seed 1] [--append FILE]

Kill number N of a seed has the same victim at the same moment after the controller began, whichever
others are made before it, so that many short calls make one series. The victim is the agent or
guardian of a host, or both, the controller, or a cable. A controller looks at the hosts, deploys,
and runs trials until it fails; what died is then restored by whoever is to do it. Both hosts must
be gone within `PATIENCE_S`, and the machine must be as it was. Needs root and the Linux bridge.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from benchmarks.controllers import differences, machine
from vnetperf import config
from vnetperf.agent.hosts import connect
from vnetperf.deployment.planner import make_plan
from vnetperf.host import links, snapshot
from vnetperf.host.journal import header_of, read_journal
from vnetperf.host.linux import run_in
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import VnetperfError
from vnetperf.model.trial import TrialSpec
from vnetperf.runner.scenarios import make_scenario

HOSTS = ("east", "west")
SETTINGS = {
    **{"testbed": "two-hosts", "preset": "smoke", "frame_sizes": "64"},
    **{"vnf": "vloop:container", "vnf_mode": "bridge"},
}
SCENARIOS = ("v2p2v_bridge", "pvp2pvp_bridge")
SPEC = TrialSpec(frame_size=64, load_fps=5000, duration_s=0.3, learning_frames=4)
VICTIMS = (
    *(f"{what} of {host}" for host in HOSTS for what in ("agent", "guardian", "both")),
    *("controller", "controller", "cable"),
)
#: The latest moment of a kill after the controller began, and how long it goes on without one.
LATEST_S, LONGEST_S = 7.0, 12.0
#: Longest wait until nothing is left, seconds.
PATIENCE_S = 30.0


def control(name: str) -> int:
    """The controller: deploy and run trials until something fails, or for a while."""
    loaded = config.load(dict(SETTINGS))
    client = connect(loaded.testbed)
    until = time.monotonic() + LONGEST_S
    try:
        print("inventory", flush=True)
        plan = make_plan(make_scenario(name, loaded), loaded.testbed, client.inventory())
        print("deploy", flush=True)
        client.deploy(plan)
        while time.monotonic() < until:
            print("trial", flush=True)
            if failure := client.run_trial(SPEC).failure:
                print(f"failed: {failure.splitlines()[0]}", flush=True)
                break
    except VnetperfError as error:
        print(f"failed: {str(error).splitlines()[0]}", flush=True)
    finally:
        with suppress(VnetperfError):
            client.close()
    return 0


def agent_of(host: str) -> int:
    """The agent of a host, by the journal of its run; 0 where it has none yet."""
    for journal in HostRoots.of_host(host).journals.glob("*.jsonl"):
        with suppress(VnetperfError, OSError, KeyError):
            return int(header_of(read_journal(journal))["owner"][0])
    return 0


def guardian_of(host: str) -> int:
    """The guardian of a host; 0 where it has none yet."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_bytes()
            if b"vnetperf.host.guardian" in line and f"vnetperf-{host}".encode() in line:
                return int(process.name)
    return 0


def cut_cable() -> bool:
    """Delete the first cable between the hosts; False where there is none yet."""
    for netns in HostRoots.of_host("west").run.glob("*/netns"):
        with suppress(VnetperfError, OSError):
            there = (link.name for link in run_in(netns, links.links))
            names = [name for name in there if re.fullmatch(r"vp[0-9a-f]{4}c\d", name)]
            for name in names[:1]:
                run_in(netns, partial(links.delete, name))
                return True
    return False


def kill(victim: str, controller: subprocess.Popen[str]) -> bool:
    """Kill what is to be killed; False where it is not there (yet)."""
    if victim == "cable":
        return cut_cable()
    what, _, host = victim.partition(" of ")
    pids = {
        "controller": lambda: [controller.pid],
        "agent": lambda: [agent_of(host)],
        "guardian": lambda: [guardian_of(host)],
        "both": lambda: [guardian_of(host), agent_of(host)],
    }[what]()
    for pid in filter(None, pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return any(pids)


def names_of_runs() -> set[str]:
    """Names of the runs that both hosts have now."""
    roots = [HostRoots.of_host(name) for name in HOSTS]
    return {journal.stem for one in roots for journal in one.journals.glob("*.jsonl")}


def left(before: snapshot.Snapshot, runs: set[str]) -> list[str]:
    """What is left of both hosts, and what else of these runs, or of new ones, on the machine."""
    roots = [HostRoots.of_host(name) for name in HOSTS]
    runs |= names_of_runs()
    found = [str(path) for one in roots for path in (one.run, one.state) if path.exists()]
    found += [f"guardian {pid}" for host in HOSTS if (pid := guardian_of(host))]
    marks = {*runs, *(f"vp{run.rpartition('-')[2]}" for run in runs)}
    return [*found, *differences(before, {*marks, *(one.run.name for one in roots)})]


def one(number: int, seed: int) -> dict[str, object]:
    """One kill."""
    draw = random.Random(f"{seed}-{number}")  # noqa: S311 - moments, not secrets
    victim, at_s, name = draw.choice(VICTIMS), draw.uniform(0, LATEST_S), draw.choice(SCENARIOS)
    before, runs = machine(), set[str]()
    argv = [sys.executable, "-m", "benchmarks.host_kills", "--control", name]
    began = time.monotonic()
    controller = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    time.sleep(at_s)
    # Who is not there yet is waited for: an agent of a run that has begun, a cable that is laid.
    made: list[bool] = []

    def is_made() -> bool:
        runs.update(names_of_runs())
        made.append(controller.poll() is None and kill(victim, controller))
        return made[-1] or controller.poll() is not None

    wait_at_most(is_made, LONGEST_S, victim, poll_s=0.02)
    killed = time.monotonic()
    output, _ = controller.communicate(timeout=2 * LONGEST_S + PATIENCE_S)
    wait_at_most(lambda: not left(before, runs), PATIENCE_S, "the end of both hosts", poll_s=0.1)
    gone_s = time.monotonic() - killed
    unrestored = left(before, runs)
    # A controller and a guardian that died with its agent leave the rest to `restore` or the next.
    restored = subprocess.run(
        [sys.executable, "-m", "vnetperf.cli", "restore", "--testbed", "two-hosts"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = output.splitlines()
    return {
        "number": number,
        "victim": victim,
        "scenario": name,
        "at_s": round(killed - began, 3),
        "made": made[-1],
        "phase": next((line for line in reversed(lines) if not line.startswith("failed")), "start"),
        "failure": next((line for line in lines if line.startswith("failed")), "")[:160],
        "gone_s": round(gone_s, 3),
        "unrestored": unrestored,
        "restore": restored.stdout.count("nothing to restore") == len(HOSTS),
        "left": left(before, runs),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Make kills and count what they left."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", default="1-50", metavar="FIRST-LAST")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--append", type=Path)
    parser.add_argument("--control", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.control:
        return control(options.control)
    first, _, last = options.kills.partition("-")
    until, found = time.monotonic() + options.seconds, []
    for number in range(int(first), int(last or first) + 1):
        if time.monotonic() > until:
            break
        found.append(one(number, options.seed))
        line = json.dumps(found[-1])
        print(line, flush=True)
        if options.append:
            with options.append.open("a") as file:
                file.write(f"{line}\n")
    bad = [kill["number"] for kill in found if kill["unrestored"] or not kill["restore"]]
    made = sum(bool(kill["made"]) for kill in found)
    print(f"{made} kills, {len(bad)} left something: {', '.join(map(str, bad)) or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
