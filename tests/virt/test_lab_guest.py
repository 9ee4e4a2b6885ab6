"""What carries a command in the lab: output, input, status, signals, and every way to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vnetperf.virt import lab_guest

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[2]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `vnetperf lab run` with a play of fake_qemu for its guest."""
    started: list[subprocess.Popen[str]] = []

    def begin(*play: str, timeout: float = 0) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "tests.virt.drive", str(tmp_path), str(timeout), *play]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=TOP)
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def guests(parent: int | None = None) -> list[int]:
    """Living guests, of one `vnetperf` or of any."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
            above = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"fake_qemu.py" in line and parent in (None, above):
            found.append(int(entry.name))
    return found


def wait_for(what: Callable[[], object], timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def nothing_left(tmp_path: Path) -> bool:
    runs = tmp_path / "vnetperf/lab/runs"
    return not runs.exists() or not list(runs.iterdir())


def test_status_and_both_outputs_come_back_whole(start: Start, tmp_path: Path) -> None:
    process = start("status", "7")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 7
    assert out == "said\n" * 20000
    assert err == "complained\n"
    assert nothing_left(tmp_path)


def test_input_goes_in_to_its_end(start: Start) -> None:
    process = start("echo")
    out, _ = process.communicate("a word\n" * 5000, timeout=120)
    assert process.returncode == 0
    assert out == "a word\n" * 5000


@pytest.mark.parametrize(
    ("play", "words"),
    [
        ("die", ("ended while the command ran", "qemu: out of luck", "lab doctor")),
        ("fail", ("could not be prepared: no such directory",)),
        ("mute", ("did not start within 1 s",)),
    ],
)
def test_a_guest_that_fails_is_one_clear_error(
    start: Start, tmp_path: Path, play: str, words: tuple[str, ...]
) -> None:
    process = start(play)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    tries = [line for line in err.splitlines() if line.startswith("lab: QEMU hung")]
    assert len(tries) == (lab_guest.STARTS - 1 if play == "mute" else 0)
    assert err.removeprefix("".join(f"{line}\n" for line in tries)).startswith(
        "vnetperf: vnetperf lab: "
    )
    assert all(word in err for word in words)
    assert "Traceback" not in err
    assert nothing_left(tmp_path)


def test_a_qemu_that_crashes_at_its_start_is_started_again(start: Start, tmp_path: Path) -> None:
    process = start("crash", str(tmp_path / "crashed"))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert err.count("qemu: Assertion failed") == 1
    assert nothing_left(tmp_path)


def test_a_qemu_that_hangs_at_its_start_is_started_again(start: Start, tmp_path: Path) -> None:
    process = start("hang", str(tmp_path / "hung"))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert err.count("lab: QEMU hung") == 1
    assert nothing_left(tmp_path)


def test_a_command_is_ended_when_its_time_is_over(start: Start, tmp_path: Path) -> None:
    process = start("stubborn", timeout=1)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 124
    assert "did not end within 1 s" in err
    assert nothing_left(tmp_path)


def running(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"


def test_ctrl_c_interrupts_the_command_and_its_status_is_returned(start: Start) -> None:
    process = start("signals")
    running(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == "got INT\n"
    assert "once more" in err


@pytest.mark.parametrize("presses", [1, 2])
def test_a_command_that_does_not_mind_is_ended(start: Start, tmp_path: Path, presses: int) -> None:
    process = start("stubborn")
    running(process)
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted" in err
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_all(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    process = start("stubborn")
    running(process)
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert nothing_left(tmp_path)


def test_the_guest_dies_with_us_and_the_next_run_cleans_up(start: Start, tmp_path: Path) -> None:
    process = start("stubborn")
    running(process)
    (guest,) = guests(process.pid)
    process.kill()
    process.communicate(timeout=120)
    wait_for(lambda: guest not in guests())
    assert not nothing_left(tmp_path)
    start("status", "0").communicate(timeout=120)
    assert nothing_left(tmp_path)


def test_a_full_reader_does_not_lose_output(start: Start) -> None:
    process = start("status", "0")
    time.sleep(1)  # nobody reads yet, and the pipe is full
    out, _ = process.communicate(timeout=120)
    assert len(out) == len("said\n") * 20000


def test_a_closed_output_ends_it(start: Start, tmp_path: Path) -> None:
    process = start("status", "0")
    assert process.stdout is not None
    os.close(os.dup(process.stdout.fileno()))
    process.stdout.close()
    process.stdout = None
    process.wait(30)
    wait_for(lambda: nothing_left(tmp_path))
