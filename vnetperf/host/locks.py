"""Locks between processes: on a file, and on a testbed with the name of its holder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from vnetperf.host.linux import (
    ProcessId,
    parse_json,
    read_file,
    user_name,
)
from vnetperf.host.paths import (
    HostRoots,
    check_state,
    list_files,
    open_private,
    open_trusted,
    remove_if_empty,
)
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError, TestbedBusyError


def lock_file(fd: int, timeout_s: float, busy: Callable[[], HostError]) -> None:
    """Take the lock; closing the file gives it back."""
    wait_for(lambda: try_lock(fd), timeout_s, "the lock of a file", error=busy)


TESTBED_LOCK_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds a testbed; `guardian` is its process, 0 before there is one."""

    pid: int
    start: int
    user: str
    run_id: str
    since: str
    argv: tuple[str, ...] = ()
    guardian: int = 0

    def describe(self) -> str:
        """The holder in one line, for a terminal."""
        text = f"run {self.run_id} of {self.user} (pid {self.pid}, since {self.since})"
        if ProcessId(self.pid, self.start).alive():
            return text
        return f"{text}, which is dead; its guardian (pid {self.guardian}) restores the machine"


OnWait = Callable[[LockHolder | None, float], None]


class TestbedLock:
    """A held lock."""

    __test__ = False  # pytest would otherwise try to collect the name

    def __init__(self, path: Path, fd: int, holder: LockHolder) -> None:
        self.path = path
        self.fd = fd
        self.holder = holder

    @classmethod
    def acquire(
        cls,
        roots: HostRoots,
        testbed: str,
        run_id: str,
        *,
        timeout_s: float = 0.0,
        on_wait: OnWait | None = None,
    ) -> TestbedLock:
        """Take a testbed for a run. What a dead run left is taken silently."""
        check_state(roots)
        path = roots.lock(testbed)
        begin = time.monotonic()

        def take() -> tuple[int] | None:  # a tuple: 0 is a file descriptor too
            with HostError.explain_os_error(
                "the testbed cannot be locked",
                where=str(path),
                cure="run as root on a disk that can be written",
            ):
                fd = open_private(path, os.O_RDWR | os.O_CREAT)
            if _try_flock(fd, path):
                return (fd,)
            os.close(fd)
            return None

        def busy() -> TestbedBusyError:
            return _testbed_busy(path, testbed, read_holder(path), time.monotonic() - begin)

        def progress() -> None:
            if on_wait is not None and timeout_s > 0:
                on_wait(read_holder(path), time.monotonic() - begin)

        (fd,) = wait_for(
            take,
            timeout_s,
            f"the lock of testbed {testbed}",
            poll_s=TESTBED_LOCK_POLL_S,
            check=progress,
            error=busy,
        )
        me = ProcessId.me()
        lock = cls(
            path,
            fd,
            LockHolder(
                pid=me.pid,
                start=me.start,
                user=user_name(),
                run_id=run_id,
                since=datetime.now(UTC).isoformat(timespec="seconds"),
                argv=tuple(sys.argv[:20]),
            ),
        )
        try:
            lock._write()
        except OSError as error:  # the file was made, its content has no room
            lock.release()
            raise HostError(
                f"the testbed's lock cannot be written: {error.strerror}",
                where=str(path),
                cure="make room there, and run it again",
            ) from error
        return lock

    def name_guardian(self, pid: int) -> None:
        """Name, for those who wait, the process that keeps the lock when the agent dies."""
        self.holder = replace(self.holder, guardian=pid)
        self._write()

    def release(self) -> None:
        """Release the testbed and remove the file; calling it again does nothing."""
        if self.fd < 0:
            return
        release_testbed_lock(self.fd, self.path)
        self.fd = -1

    def leave(self) -> None:
        """Close it without its release: a process that has inherited it holds the testbed on."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _write(self) -> None:
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, json.dumps(asdict(self.holder)).encode(), 0)


def release_testbed_lock(fd: int, path: Path) -> None:
    """Remove the lock's file, if it is still the one held, then close it."""
    # Removed while held: whoever opened the old file meanwhile sees that its name is gone.
    if is_current_file(fd, path):
        path.unlink(missing_ok=True)
    os.close(fd)
    remove_if_empty(path.parent, path.parent.parent)


def read_holder(path: Path) -> LockHolder | None:
    """Who a lock file names, held or not; None when it names nobody (yet)."""
    try:
        data = parse_json(read_file(path))
        return LockHolder(**{**data, "argv": tuple(data["argv"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remove_stale_locks(roots: HostRoots) -> None:
    """Remove lock files that nobody holds."""
    for path in list_files(roots.locks, "*.lock"):
        with contextlib.suppress(OSError, HostError):
            fd = open_trusted(path, os.O_RDWR)
            if _try_flock(fd, path):
                release_testbed_lock(fd, path)
            else:
                os.close(fd)


def try_lock(fd: int) -> bool:
    """Take the lock of an open file, unless somebody has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_flock(fd: int, path: Path) -> bool:
    return try_lock(fd) and is_current_file(fd, path)


def is_current_file(fd: int, path: Path) -> bool:
    """Whether the open file is the one that the path names now."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _testbed_busy(
    path: Path, testbed: str, holder: LockHolder | None, waited: float
) -> TestbedBusyError:
    owner = holder.describe() if holder else "a run that is just beginning or ending"
    after = f" after waiting {waited:.0f} s" if waited >= 1 else ""
    return TestbedBusyError(
        f"the {testbed} is held by {owner}{after}",
        where=str(path),
        accepted="one run at a time",
        cure="wait for it (with a longer timeout for the testbed), or end that process: its "
        "guardian then restores the machine; `vnetperf restore` does so when both are dead",
    )
