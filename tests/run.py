"""Runs the tests of a lane, in the order that suits a small machine.

fast    what needs neither root nor real software: parallel, in about a minute
merge   fast, slow and browser tests, then real software: the contract kit of each backend that runs
        here, a user's runs, kills, one guest, one boot of the lab
daily   every test: every form of guest, every generator, more kills, the whole matrix

Tests that drive real software own the machine's cores and hugepages and go one after the other.
The lab emulates a machine on one processor for minutes: it is tested beside the parallel tests.
The exit status is pytest's own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile

WORKERS = str(min(4, os.cpu_count() or 1))
MEMORY = "/dev/shm"
#: Guest images that a lane's tests boot: without them they would be skipped on a new machine.
IMAGES = {"fast": (), "merge": ("vloop",), "daily": ("vloop", "vepc")}
#: It stands still for minutes on one processor, and shares nothing with other tests.
LAB = "tests/virt/test_lab_real.py"
#: Steps of a lane: arguments of the pytests that run beside each other.
LANES = {
    "fast": [[["-n", WORKERS, "-m", "not real and not slow and not browser"]]],
    "merge": [
        [["-n", WORKERS, "-m", "not real and not daily"], [LAB]],
        [["-m", "real and not daily", "--durations=25", f"--ignore={LAB}"]],
    ],
    "daily": [
        [["-n", WORKERS, "-m", "not real"], [LAB]],
        [["-m", "real", "--durations=50", f"--ignore={LAB}"]],
    ],
}


def main(lane: str = "merge") -> int:
    """Run all parts of a lane; the first failure's status is the result."""
    if lane not in LANES:
        print(f"no lane {lane!r}; there are {', '.join(LANES)}", file=sys.stderr)  # noqa: T201
        return 2
    for image in IMAGES[lane]:  # one that cannot be built is the business of its own test
        build = [sys.executable, "-m", "vnetperf.cli", "image", "build", image]
        subprocess.run(build, check=False)
    statuses = [status for step in LANES[lane] for status in run(step)]
    return next((status for status in statuses if status), 0)


def run(step: list[list[str]]) -> list[int]:
    """Run a step; the exit status of each pytest."""
    # Every worker, agent and pytest in a test compiles all that it imports anew without its cache.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    first, *others = step
    with contextlib.ExitStack() as last:
        logs = [last.enter_context(tempfile.TemporaryFile()) for _ in others]
        beside = [
            subprocess.Popen([*pytest, *arguments], env=env, stdout=log, stderr=log)
            for arguments, log in zip(others, logs, strict=True)
        ]
        if "-n" in first and os.access(MEMORY, os.W_OK):
            # Thousands of logs are forced to the disk in these: most of their time on a slow one.
            # The name is short for the sake of sockets.
            memory = tempfile.TemporaryDirectory(dir=MEMORY, prefix="", ignore_cleanup_errors=True)
            env["PYTEST_DEBUG_TEMPROOT"] = last.enter_context(memory)
        statuses = [subprocess.run([*pytest, "tests", *first], env=env, check=False).returncode]
        for process, log in zip(beside, logs, strict=True):
            statuses.append(process.wait())
            log.seek(0)
            sys.stdout.buffer.write(log.read())
            sys.stdout.flush()
    return statuses


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
