"""Runs the tests of a lane, in the order that suits a small machine.

fast    what needs neither root nor real software: parallel, in about a minute
merge   fast, slow and browser tests, then real software: the contract kit of each backend that runs
        here, a user's runs, kills, one guest, one boot of the lab
daily   every test: every form of guest, every generator, more kills, the whole matrix, the engine's
        tests on both of its builds, more and new examples of properties

Tests that drive real software own the machine's cores and hugepages and go one after the other.
The exit status is pytest's own.

A test that hangs fails by its name after the time limit of its part, and a part that hangs outside
of a test ends with the stack of every thread, those of its workers first. What starts a lane makes
no difference to it: SIGINT has its usual effect again where it was ignored, and standard input is
empty.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from vnetperf.host.wait import wait_at_most

#: Many tests wait for what they started: three for two cores took 148 s where two took 184 s.
WORKERS = str(min(6, (os.cpu_count() or 1) * 3 // 2))
MEMORY = "/dev/shm"
TESTS = Path(__file__).parent
#: Guest images that a lane's tests boot: without them they would be skipped on a new machine.
IMAGES = {"fast": (), "merge": ("vloop",), "daily": ("vloop", "vepc", "endpoint")}
#: Examples of a test of a property that names no number of its own.
EXAMPLES = {"fast": 15, "merge": 40, "daily": 200}
#: Limits of a test, seconds, far beyond what any takes on a machine that others use too.
PARALLEL = ["-n", WORKERS, "--dist=worksteal", "--timeout=300"]
ALONE = ["--timeout=900"]
DAILY = ["--timeout=1800"]
#: Arguments of pytest, a list for each time that it is started.
LANES = {
    "fast": [[*PARALLEL, "-m", "not real and not slow and not browser"]],
    "merge": [
        [*PARALLEL, "-m", "not real and not daily", "--durations=25"],
        [*ALONE, "-m", "real and not daily", "--durations=25"],
    ],
    "daily": [
        ["-n", WORKERS, *DAILY, "-m", "not real"],
        [*DAILY, "-m", "real", "--durations=50"],
    ],
}
#: Limits of a parallel part and of one whose tests go one after the other, seconds. Both together
#: are less than the 90 minutes that CI has.
LIMITS = {"fast": (1500, 0), "merge": (1500, 3300), "daily": (7200, 28800)}
TIMED_OUT = 124
#: Longest wait for a worker to print its stacks, seconds.
PRINT_S = 20.0


def main(lane: str = "merge") -> int:
    """Run all parts of a lane; the first failure's status is the result."""
    if lane not in LANES:
        print(f"no lane {lane!r}; there are {', '.join(LANES)}", file=sys.stderr)  # noqa: T201 - a script
        return 2
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # every child would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for image in IMAGES[lane]:  # one that cannot be built is the business of its own test
        build = [sys.executable, "-m", "vnetperf.cli", "image", "build", image]
        subprocess.run(build, check=False, stdin=subprocess.DEVNULL)
    parallel_s, alone_s = LIMITS[lane]
    statuses = [
        pytest(part, EXAMPLES[lane], parallel_s if "-n" in part else alone_s)
        for part in LANES[lane]
    ]
    return next((status for status in statuses if status), 0)


def folders(*, real: bool) -> list[str]:
    """Folders that have tests on real software, or tests without: others need not be collected."""
    found = []
    for folder in sorted(path for path in TESTS.iterdir() if any(path.rglob("test_*.py"))):
        if folder.name in ("real", "contract"):  # all of their tests are
            mine = real
        else:
            mine = not real or any("mark.real" in path.read_text() for path in folder.rglob("*.py"))
        found += [f"tests/{folder.name}"] * mine
    return found


def real_files() -> list[Path]:
    """Files all of whose tests are on real software: a part without them need not import them."""
    whole = re.compile(r"^pytestmark = (\[[^\]]*)?pytest\.mark\.real\b", re.M)
    return [path for path in sorted(TESTS.rglob("test_*.py")) if whole.search(path.read_text())]


def pytest(arguments: list[str], examples: int, limit_s: float) -> int:
    """Run pytest; its exit status."""
    # Every worker, agent and pytest in a test compiles all that it imports anew without its cache.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env.setdefault("TEST_EXAMPLES", str(examples))
    parallel = "-n" in arguments
    command = [sys.executable, "-m", "pytest", *folders(real=not parallel)]
    command += [f"--ignore={path}" for path in real_files()] if parallel else []
    command += ["-q", "-p", "no:cacheprovider", *arguments]
    if not parallel or not os.access(MEMORY, os.W_OK):
        return _within(limit_s, command, env)
    # Thousands of logs are forced to the disk in these: most of their time on a slow one. The
    # name is short for the sake of sockets.
    memory = tempfile.TemporaryDirectory(dir=MEMORY, prefix="", ignore_cleanup_errors=True)
    with memory as folder:
        env["PYTEST_DEBUG_TEMPROOT"] = folder
        return _within(limit_s, command, env)


def _within(limit_s: float, command: list[str], env: dict[str, str]) -> int:
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL) as process:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            print(f"no end within {limit_s:g} s", file=sys.stderr)  # noqa: T201 - a script
            end_with_stacks(process)
            return TIMED_OUT
        except KeyboardInterrupt:  # it got the signal as well, and ends in order
            process.wait()
            raise


def end_with_stacks(process: subprocess.Popen[Any]) -> None:
    """End pytest and its workers, each of which prints its stacks at SIGABRT."""
    process.send_signal(signal.SIGSTOP)  # it would start others in the place of its workers
    for worker in children(process.pid):
        os.kill(worker, signal.SIGABRT)
        # One after the other, so that no stack stands within another's.
        wait_at_most(lambda worker=worker: _has_ended(worker), PRINT_S, "a worker's stacks")
    process.send_signal(signal.SIGABRT)
    process.send_signal(signal.SIGCONT)
    process.wait()


def children(pid: int) -> list[int]:
    """Processes that one has started and that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        state, parent = _state(int(folder.name))
        if parent == pid and state != "Z":
            found.append(int(folder.name))
    return found


def _has_ended(pid: int) -> bool:
    return _state(pid)[0] in ("", "Z")


def _state(pid: int) -> tuple[str, int]:
    """State and parent of a process; without a letter when there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:  # it ended meanwhile
        return "", 0
    return state, int(parent)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
