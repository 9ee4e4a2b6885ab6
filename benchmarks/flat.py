"""Memory and open files of controller and agent over many trials of one session.

    python -m benchmarks.flat [--trials 10000]          the controller, on a simulated DUT
    python -m benchmarks.flat --agent                   the agent, on simulated backends; needs root
    python -m benchmarks.flat --agent --deployment pvp_dpdk --trials 1000       on OVS-DPDK

Printed are resident memory and open files at tenths of the way, and what grew after the first.
Each simulated trial of the controller carries as much text as a real one has in the log. The agent
on simulated backends is a real one, with folders of its own for its lock, its journal and its run:
it does all that it does in a trial but send frames.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.agent import FakeAgent
from tests.runner.support import Bench
from vnetperf import config
from vnetperf.agent.hosts import TestbedClient
from vnetperf.host.paths import HostRoots
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.plugin import registry
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.sim import SimulatedDut

#: Octets of a trial of a PVP deployment in a log.
TRIAL_OCTETS = 28 * 1024
#: Most that memory may grow over a session, MiB.
MOST_MIB = 50.0
SMALLEST, LARGEST = 64, 1518
#: The deployment of simulated backends.
SIMULATED = "phy2phy_simulated"


@dataclass
class Growth:
    """What a process has, as often as it was looked at."""

    pid: int
    every: int
    rows: list[tuple[int, float, int]] = field(default_factory=list)

    def look(self, trials: int) -> None:
        """Note it at tenths of the way."""
        if trials % self.every:
            return
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        mib = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        files = len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
        self.rows.append((trials, mib, files))
        print(f"{trials:6} trials: {mib:7.1f} MiB, {files} open files", flush=True)

    def judge(self) -> bool:
        """Whether it is flat from the first tenth on."""
        (_, mib, files), (_, mib_now, files_now) = self.rows[0], self.rows[-1]
        print(f"grown by {mib_now - mib:.1f} MiB and {files_now - files} open files")
        return mib_now - mib <= MOST_MIB and files_now <= files


def controller(trials: int) -> bool:
    """Search after search on a simulated DUT, in one run."""
    growth = Growth(os.getpid(), max(1, trials // 10))
    done = 0

    def pad(_: int, result: TrialResult) -> TrialResult:
        nonlocal done
        done += 1
        agent.calls.clear()  # the double's own notes
        agent.trials.clear()
        if done % growth.every == 0:
            gc.collect()
        growth.look(done)
        return result.model_copy(update={"uncollected": {"text": f"{done} " * (TRIAL_OCTETS // 6)}})

    agent = FakeAgent(duts=(SimulatedDut(640e3), SimulatedDut(610e3)), spoil=pad)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), agent)
        size = SMALLEST
        while done < trials:
            bench.throughput(size)
            size += 1
            if size > LARGEST:  # other deployments have the same sizes again
                bench.run.done.clear()
                size = SMALLEST
        bench.die()
    return growth.judge()


def apart() -> int:
    """Begin again with folders of its own for what agents keep."""
    roots = HostRoots()
    script = 'for d in "$0" "$1"; do mount -t tmpfs -o mode=700 tmpfs "$d" || exit; done; shift; '
    for folder in (roots.run, roots.state):
        folder.mkdir(mode=0o700, exist_ok=True)
    again = [sys.executable, "-m", "benchmarks.flat", *sys.argv[1:], "--apart"]
    argv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        script + 'exec "$@"',
        str(roots.run),
        str(roots.state),
    ]
    return subprocess.run([*argv, *again], check=False).returncode


def of_agent(trials: int, deployment: str) -> bool:
    """Short trials of one deployment, by an agent of this machine."""
    settings = {"preset": "smoke"}
    if deployment == SIMULATED:
        settings["generator"] = "simulated"
        registry.register("vswitches", "simulated", "tests.fakes.backends:SimulatedSwitch")
        registry.register("traffic", "simulated", "tests.fakes.backends:SimulatedGenerator")
    loaded = config.load(settings, environment={}, directory=Path("/nonexistent"))
    client = TestbedClient(loaded.testbed)
    try:
        scenario = make_scenario(deployment, loaded)
        client.deploy(make_plan(scenario, loaded.testbed, client.inventory()))
        growth = Growth(client.clients[""].process[0], max(1, trials // 10))
        spec = TrialSpec(frame_size=64, load_fps=20_000, duration_s=0.02, learning_frames=2)
        for number in range(1, trials + 1):
            client.run_trial(spec)
            growth.look(number)
        return growth.judge()
    finally:
        client.close()


def main() -> int:
    """Run trials and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--agent", action="store_true", help="a real agent")
    parser.add_argument("--deployment", default=SIMULATED)
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.agent:
        return int(not controller(arguments.trials))
    if arguments.deployment == SIMULATED and not arguments.apart:
        return apart()
    return int(not of_agent(arguments.trials, arguments.deployment))


if __name__ == "__main__":
    sys.exit(main())
