"""Locks of testbeds, of the machine and of files."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.agents import is_held
from vnetperf.host import locks
from vnetperf.host.locks import LockHolder, TestbedLock
from vnetperf.host.paths import HostRoots
from vnetperf.model.errors import HostError, TestbedBusyError

HOLDER = """
import sys, time
from pathlib import Path
from vnetperf.host.locks import TestbedLock
from vnetperf.host.paths import HostRoots
base = Path(sys.argv[1])
held = TestbedLock.acquire(HostRoots(base / "state", base / "run"), "bed", "other-run")
print("held", flush=True)
sys.stdin.read()
held.release()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_busy_testbed_names_its_holder(other: subprocess.Popen[str], roots: HostRoots) -> None:
    with pytest.raises(TestbedBusyError) as caught:
        TestbedLock.acquire(roots, "bed", "mine")
    text = str(caught.value)
    for words in ("other-run", locks.user_name(), f"pid {other.pid}", "vnetperf restore"):
        assert words in text
    TestbedLock.acquire(roots, "another bed", "mine").release()


def test_waiting_tells_the_holder_and_ends_when_it_ends(
    other: subprocess.Popen[str], roots: HostRoots
) -> None:
    seen: list[LockHolder | None] = []
    assert other.stdin is not None
    threading.Timer(0.3, other.stdin.close).start()
    held = TestbedLock.acquire(
        roots, "bed", "mine", timeout_s=10, on_wait=lambda holder, _: seen.append(holder)
    )
    assert seen[0] is not None
    assert seen[0].run_id == "other-run"
    assert held.holder.run_id == "mine"
    held.release()
    assert not roots.state.exists()


def test_a_lock_that_has_no_room_is_not_held(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        with pytest.raises(HostError, match=r"cannot be written: No space left on device"):
            TestbedLock.acquire(roots, "bed", "mine")
    TestbedLock.acquire(roots, "bed", "mine").release()
    assert not roots.state.exists()


def test_the_wait_has_an_end(other: subprocess.Popen[str], roots: HostRoots) -> None:
    begin = time.monotonic()
    with pytest.raises(TestbedBusyError):
        TestbedLock.acquire(roots, "bed", "mine", timeout_s=0.3)
    assert 0.2 < time.monotonic() - begin < 30
    assert other.poll() is None


def test_what_a_dead_run_left_is_taken(other: subprocess.Popen[str], roots: HostRoots) -> None:
    assert is_held(roots.lock("bed"))
    other.kill()
    other.wait()
    assert roots.lock("bed").exists()
    assert not is_held(roots.lock("bed"))
    held = TestbedLock.acquire(roots, "bed", "mine")
    locks.remove_stale_locks(roots)
    assert held.path.exists()
    held.release()
    held.release()
    assert not roots.state.exists()


def test_only_one_of_many_has_it(roots: HostRoots) -> None:
    """The file is removed at each release: a lock on a removed file must not count."""
    inside = []
    worst = []

    def work(name: str) -> None:
        for _ in range(15):
            held = TestbedLock.acquire(roots, "bed", name, timeout_s=30)
            inside.append(name)
            worst.append(len(inside))
            time.sleep(0.001)
            inside.remove(name)
            held.release()

    lock_poll, locks.TESTBED_LOCK_POLL_S = locks.TESTBED_LOCK_POLL_S, 0.001
    try:
        threads = [threading.Thread(target=work, args=(f"r{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        locks.TESTBED_LOCK_POLL_S = lock_poll
    assert worst == [1] * 60


FIRST_FILE = """
import os, sys
from pathlib import Path
from vnetperf.host.locks import TestbedLock
from vnetperf.host.paths import HostRoots
base = Path(sys.argv[1])
os.close(0)
print(TestbedLock.acquire(HostRoots(base / "state", base / "run"), "bed", "mine").fd)
"""


def test_a_process_without_standard_input_takes_the_lock(tmp_path: Path) -> None:
    taken = subprocess.run(
        [sys.executable, "-c", FIRST_FILE, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert taken.stdout == "0\n"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Two openings of one file, as two processes would have them."""
    path = tmp_path / "lock"
    path.touch()
    fds = (os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY))
    yield fds
    for fd in fds:
        os.close(fd)


def busy() -> HostError:
    return HostError("somebody has it")


def test_it_is_waited_for_and_then_had(two: tuple[int, int]) -> None:
    mine, theirs = two
    locks.lock_file(theirs, 0, busy)
    timer = threading.Timer(0.1, fcntl.flock, (theirs, fcntl.LOCK_UN))
    timer.start()
    locks.lock_file(mine, 20, busy)
    timer.join()
    with pytest.raises(HostError, match="somebody has it"):
        locks.lock_file(theirs, 0.05, busy)
