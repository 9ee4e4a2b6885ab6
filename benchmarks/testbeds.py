"""How much sooner cases are done on several testbeds: simulated DUTs whose trials take time.

`python -m benchmarks.testbeds [--testbeds 4] [--cases 200] [--trial-s 0.5]`. Each trial waits as
one of real traffic would, so that two processors show what many machines have. Exits with 1 where
all of pytest takes more than `LIMIT` of the time that it takes with one testbed. The time from the
first trial to the last is printed as well: it has no start of Python, which a busy machine delays.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

#: Most that four testbeds may take of one testbed's wall time.
LIMIT = 0.3
CONFTEST = """
from tests.fakes import agent
agent.install()
"""
CASE = """
def test_throughput(bench, frame_size):
    bench.search_throughput(frame_size).check_expectations()
"""
PRESET = """
frame_sizes = {sizes}
warm_up_s = 0
[[goals]]
name = "ndr"
loss_ratio = 0.0
width = 0.2
initial_trial_s = 0.5
final_trial_s = 0.5
duration_sum_s = 0.5
[trial]
learning_wait_s = 0
settle_s = 0
full_drain = false
[sweep]
loads = 0
"""
#: Scenarios of a vSwitch that the simulated machine carries; the cases are these times the sizes.
SCENARIOS = (
    "phy2phy_dpdk", "pvp_dpdk", "pvvp_dpdk", "pvpv_dpdk", "p2v_dpdk",
    "phy2phy_testpmd", "pvp_testpmd", "pvvp_testpmd",
)  # fmt: skip


class Measured(NamedTuple):
    """A run of all cases.

    Attributes:
        seconds: Wall time of pytest.
        trials_s: Time from its first trial to its last, seconds.
        cpu_s: Processor time of all its processes: workers that start and collect, trials, reports.
        passed: Cases that passed.
    """

    seconds: float
    trials_s: float
    cpu_s: float
    passed: int


def run(folder: Path, testbeds: int, cases: int, trial_s: float) -> Measured:
    """Measure all cases on as many testbeds."""
    names = [f"lab{n}" for n in range(testbeds)]
    for name in names:
        (folder / f"{name}.toml").write_text('isolation = "simulated"\n')
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(testbeds)]
    argv += ["--testbed", ",".join(f"./{name}.toml" for name in names), "--preset", "./fast.toml"]
    argv += ["-k", " or ".join(SCENARIOS), f"--results-dir=results{testbeds}"]
    top = str(Path(__file__).parents[1])
    wishes = json.dumps({"deploy_s": trial_s, "trial_s": trial_s})
    environment = os.environ | {"PYTHONPATH": top, "FAKE_AGENT": wishes}
    environment |= {"XDG_CACHE_HOME": str(folder / f"cache{testbeds}")}
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        argv, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr[-300:]]
    passed = [word for word in last[0].replace("=", " ").split(",") if "passed" in word]
    count = int(passed[0].split()[0]) if passed else 0
    if count != cases:
        print(f"{testbeds} testbeds: {last[0]}")
    logs = folder.glob(f"results{testbeds}/2*/trials*.jsonl")
    records = (json.loads(line) for log in logs for line in log.read_text().splitlines())
    begun = [datetime.fromisoformat(r["started"]) for r in records if r["type"] == "trial"]
    return Measured(seconds, (max(begun) - min(begun)).total_seconds(), cpu_s, count)


def main() -> int:
    """Measure on one and on several.

    Returns:
        0 where that is fast enough.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--testbeds", type=int, default=4)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--trial-s", type=float, default=0.5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        sizes = given.cases // len(SCENARIOS)
        (folder / "test_cases.py").write_text(CASE)
        # Of the preset: each testbed is calibrated for all of them before its first deployment.
        (folder / "fast.toml").write_text(PRESET.format(sizes=[*range(64, 64 + sizes)]))
        cases = sizes * len(SCENARIOS)
        several = run(folder, given.testbeds, cases, given.trial_s)
        alone = run(folder, 1, cases, given.trial_s)
    share = several.seconds / alone.seconds
    print(
        f"{cases} cases: {alone.seconds:.1f} s on one testbed, {several.seconds:.1f} s on "
        f"{given.testbeds}: {share:.3f} of it (limit {LIMIT} with 4); first to last trial "
        f"{alone.trials_s:.1f} s and {several.trials_s:.1f} s: "
        f"{several.trials_s / alone.trials_s:.3f}; processor time {alone.cpu_s:.1f} s and "
        f"{several.cpu_s:.1f} s"
    )
    return int(share > LIMIT or several.passed != cases or alone.passed != cases)


if __name__ == "__main__":
    sys.exit(main())
