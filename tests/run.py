"""Runs the tests of a lane, in the order that suits a small machine.

fast    what needs neither root nor real software: parallel, in about a minute
merge   fast, slow and browser tests, and real software: the contract kit of each backend that runs
        here, a user's runs, kills, one guest, one boot of the lab
daily   every test: every form of guest, every generator, more kills, the whole matrix, the engine's
        tests on both of its builds, more and new examples of properties

Tests that drive real software own the machine's cores and hugepages and go one after the other.
Half of their time they wait: in the merge lane the other tests, which leave the machine as it is,
use what they leave of the processors, and are printed when they have ended. The exit status is
pytest's own.

A test that hangs fails by its name after the time limit of its part, and a part that hangs outside
of a test ends with the stack of every thread, those of its workers first. What starts a lane makes
no difference to it: SIGINT has its usual effect again where it was ignored, and standard input is
empty.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

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
#: Rounds of a lane, one after the other; of a round the parts, which run side by side: arguments of
#: pytest. Of each the last has the terminal.
LANES = {
    "fast": [[[*PARALLEL, "-m", "not real and not slow and not browser"]]],
    "merge": [
        [
            [*PARALLEL, "-m", "not real and not daily", "--durations=25"],
            [*ALONE, "-m", "isolated and not daily"],  # each worker would start the lab anew
            [*ALONE, "-m", "real and not isolated and not daily", "--durations=25"],
        ]
    ],
    "daily": [
        [["-n", WORKERS, *DAILY, "-m", "not real"]],
        [[*DAILY, "-m", "real", "--durations=50"]],
    ],
}
#: Longest time of a parallel part and of one whose tests go one after the other, seconds. What runs
#: side by side is less than the 90 minutes that CI has.
LIMITS = {"fast": (1500, 0), "merge": (3600, 4500), "daily": (7200, 28800)}
#: Nice value, as far as the kernel has sched_autogroup(7), of the session of tests that run beside
#: those on real software.
NICE = 5
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
    # A part beside is in a session of its own: whoever ends this one has to end that, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    for image in IMAGES[lane]:  # one that cannot be built is the business of its own test
        build = [sys.executable, "-m", "vnetperf.cli", "image", "build", image]
        subprocess.run(build, check=False, stdin=subprocess.DEVNULL)
    statuses = [
        status
        for parts in LANES[lane]
        for status in side_by_side(parts, EXAMPLES[lane], LIMITS[lane])
    ]
    return next((status for status in statuses if status), 0)


def side_by_side(parts: list[list[str]], examples: int, limits: tuple[float, float]) -> list[int]:
    """Run parts at the same time; their exit statuses. All but the last are printed at the end."""
    with ExitStack() as stack:
        texts = [stack.enter_context(tempfile.TemporaryFile()) for _ in parts[1:]]
        for text in texts:  # after the ends of all, whatever ends them
            stack.callback(show, text)
        begun, started, statuses = time.monotonic(), list[subprocess.Popen[bytes]](), list[int]()
        try:
            for part, text in zip(parts, [*texts, None], strict=True):
                started.append(stack.enter_context(started_part(part, examples, text)))
            for part, process in reversed([*zip(parts, started, strict=True)]):
                limit_s = limits["-n" not in part]
                late = f"no end of {part} within {limit_s:g} s"
                left_s = begun + limit_s - time.monotonic()
                statuses.insert(0, end_within(left_s, process, late))
                for other in started[: -len(statuses)]:
                    weigh(other, 0)  # what was in a hurry has ended
        except BaseException as error:
            for process in started[: len(texts)]:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGINT)  # its workers too, as a terminal does
            if not isinstance(error, KeyboardInterrupt):  # else the terminal's part has it already
                for process in started[len(texts) :]:
                    process.send_signal(signal.SIGINT)
            raise
    return statuses


def show(text: IO[bytes]) -> None:
    """Print what a part beside has printed."""
    text.seek(0)
    sys.stdout.flush()
    shutil.copyfileobj(text, sys.stdout.buffer)
    sys.stdout.flush()


def folders(mark: str) -> list[str]:
    """Folders with tests of a mark, or of none ("not real"): others need not be collected."""
    found = []
    for folder in sorted(path for path in TESTS.iterdir() if any(path.rglob("test_*.py"))):
        if folder.name in ("real", "contract"):  # all of their tests are
            mine = mark == "real"
        else:
            texts = (path.read_text() for path in folder.rglob("*.py"))
            mine = mark == "not real" or any(f"mark.{mark}" in text for text in texts)
        found += [f"tests/{folder.name}"] * mine
    return found


def real_files() -> list[Path]:
    """Files all of whose tests are on real software: a part without them need not import them."""
    whole = re.compile(r"^pytestmark = (\[[^\]]*)?pytest\.mark\.real\b", re.M)
    return [path for path in sorted(TESTS.rglob("test_*.py")) if whole.search(path.read_text())]


def command_of(part: list[str]) -> list[str]:
    """The command of a part."""
    mark = part[part.index("-m") + 1].partition(" and ")[0]
    command = [sys.executable, "-m", "pytest", *folders(mark)]
    command += [f"--ignore={path}" for path in real_files()] if mark == "not real" else []
    return [*command, "-q", "-p", "no:cacheprovider", *part]


@contextmanager
def started_part(
    arguments: list[str], examples: int, text: IO[bytes] | None
) -> Iterator[subprocess.Popen[bytes]]:
    """pytest, started; with a file for what it prints it runs beside, and has less weight."""
    # Every worker, agent and pytest in a test compiles all that it imports anew without its cache.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env.setdefault("TEST_EXAMPLES", str(examples))
    parallel = "-n" in arguments
    with ExitStack() as stack:
        if parallel and os.access(MEMORY, os.W_OK):
            # Thousands of logs are forced to the disk in these: most of their time on a slow one.
            # The name is short for the sake of sockets.
            memory = tempfile.TemporaryDirectory(dir=MEMORY, prefix="", ignore_cleanup_errors=True)
            env["PYTEST_DEBUG_TEMPROOT"] = stack.enter_context(memory)
        output = {"stdout": text, "stderr": subprocess.STDOUT} if text else {}
        process = stack.enter_context(
            subprocess.Popen(
                command_of(arguments),
                env=env,
                stdin=subprocess.DEVNULL,
                start_new_session=text is not None,
                **output,
            )
        )
        try:
            if text:
                weigh(process, NICE)
            yield process
        except BaseException:
            process.wait()  # it ends in order
            raise


def weigh(process: subprocess.Popen[bytes], nice: int) -> None:
    """Set the weight of a process's session, in as far as it differs from the terminal's."""
    with suppress(OSError):  # it has ended, or the kernel is without sched_autogroup(7)
        Path(f"/proc/{process.pid}/autogroup").write_text(str(nice))


def end_within(limit_s: float, process: subprocess.Popen[bytes], late: str) -> int:
    """Wait for the end of a part; its exit status. `late` is printed where it has none."""
    try:
        return process.wait(max(0.0, limit_s))
    except subprocess.TimeoutExpired:
        print(late, file=sys.stderr)  # noqa: T201 - a script
        end_with_stacks(process)
        return TIMED_OUT


def end_with_stacks(process: subprocess.Popen[Any]) -> None:
    """End pytest and its workers, each of which prints its stacks at SIGABRT."""
    process.send_signal(signal.SIGSTOP)  # it would start others in the place of its workers
    try:
        for worker in children(process.pid):
            os.kill(worker, signal.SIGABRT)
            # One after the other, so that no stack stands within another's.
            wait_at_most(lambda worker=worker: has_ended(worker), PRINT_S, "a worker's stacks")
    finally:  # who interrupts this would wait for a stopped process
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


def has_ended(pid: int) -> bool:
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
