"""Runs the tests of a lane, in the order that suits a small machine.

fast    what needs neither root nor real software: parallel, in about a minute
merge   fast, slow and browser tests, then real software: the contract kit of each backend that runs
        here, a user's runs, kills, one guest, one boot of the lab
daily   every test: every form of guest, every generator, more kills, the whole matrix, the engine's
        tests on both of its builds, more examples of properties

Tests that drive real software own the machine's cores and hugepages and go one after the other.
The exit status is pytest's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

WORKERS = str(min(4, os.cpu_count() or 1))
MEMORY = "/dev/shm"
#: Guest images that a lane's tests boot: without them they would be skipped on a new machine.
IMAGES = {"fast": (), "merge": ("vloop",), "daily": ("vloop", "vepc")}
#: Examples of a test of a property that names no number of its own.
EXAMPLES = {"fast": 40, "merge": 40, "daily": 200}
#: Arguments of pytest, a list for each time that it is started.
LANES = {
    "fast": [["-n", WORKERS, "-m", "not real and not slow and not browser"]],
    "merge": [
        ["-n", WORKERS, "-m", "not real and not daily", "--durations=25"],
        ["-m", "real and not daily", "--durations=25"],
    ],
    "daily": [["-n", WORKERS, "-m", "not real"], ["-m", "real", "--durations=50"]],
}


def main(lane: str = "merge") -> int:
    """Run all parts of a lane; the first failure's status is the result."""
    if lane not in LANES:
        print(f"no lane {lane!r}; there are {', '.join(LANES)}", file=sys.stderr)  # noqa: T201
        return 2
    for image in IMAGES[lane]:  # one that cannot be built is the business of its own test
        build = [sys.executable, "-m", "vnetperf.cli", "image", "build", image]
        subprocess.run(build, check=False)
    statuses = [pytest(part, EXAMPLES[lane]) for part in LANES[lane]]
    return next((status for status in statuses if status), 0)


def pytest(arguments: list[str], examples: int) -> int:
    """Run pytest; its exit status."""
    # Every worker, agent and pytest in a test compiles all that it imports anew without its cache.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env.setdefault("TEST_EXAMPLES", str(examples))
    command = [sys.executable, "-m", "pytest", "tests", "-q", "-p", "no:cacheprovider", *arguments]
    if "-n" not in arguments or not os.access(MEMORY, os.W_OK):
        return subprocess.run(command, env=env, check=False).returncode
    # Thousands of logs are forced to the disk in these: most of their time on a slow one. The
    # name is short for the sake of sockets.
    memory = tempfile.TemporaryDirectory(dir=MEMORY, prefix="", ignore_cleanup_errors=True)
    with memory as folder:
        env["PYTEST_DEBUG_TEMPROOT"] = folder
        return subprocess.run(command, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
