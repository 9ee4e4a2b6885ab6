"""The journal: what a run changes on a machine, written down before it is changed."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vnetperf.host import flock, journal_file, undoing
from vnetperf.host.identity import ProcessId, boot_id, check_run_id, user_name
from vnetperf.host.paths import HostRoots, make_private, remove_if_empty
from vnetperf.host.undo import UndoReport, kind_of
from vnetperf.model.errors import HostError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Change:
    """One journaled change, as a handle to undo it before the run ends."""

    journal: Journal
    number: int
    what: str

    def undo(self) -> str:
        """Undo this one change now; undoing it again does nothing.

        Returns:
            What was done, in a few words.

        Raises:
            HostError: The machine refused; the change stays in the journal.
        """
        return self.journal.undo_one(self.number)


class Journal:
    """The append-only record of one run's changes on this machine.

    Use `changing` around every lasting change. One journal belongs to one process (the agent);
    its threads may share it. Others only read it, or undo it once the agent is dead.
    """

    def __init__(self, path: Path, run_id: str, fd: int, next_number: int) -> None:
        self.path = path
        self.run_id = run_id
        self._fd = fd
        self._next = next_number
        self._lock = threading.RLock()

    @classmethod
    def create(
        cls,
        roots: HostRoots,
        run_id: str,
        *,
        testbed: str = "",
        guardian: ProcessId | None = None,
    ) -> Journal:
        """Begin the journal of a new run; the caller becomes its owner.

        Args:
            roots: Where this machine keeps its state.
            run_id: Identity of the run; also the name of the journal.
            testbed: Name of the testbed that the run holds.
            guardian: The process that undoes this journal should the owner die.

        Returns:
            The journal, on disk.

        Raises:
            HostError: A journal of this id exists, or the disk refuses.
        """
        path = roots.journal(check_run_id(run_id))
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        while True:
            try:
                make_private(path.parent)
                fd = os.open(path, flags, 0o600)
                break
            except FileExistsError:
                raise HostError(
                    f"run {run_id} already has a journal",
                    where=str(path),
                    cure="choose another run id, or run `vnetperf restore` if that run is dead",
                ) from None
            except FileNotFoundError:
                continue  # a run that ended just now removed the empty directory
            except OSError as error:
                raise _refused(path, error) from error
        journal = cls(path, run_id, fd, 1)
        owner = ProcessId.me()
        journal.append(
            {
                "t": "header",
                "version": FORMAT_VERSION,
                "run_id": run_id,
                "boot": boot_id(),
                "owner": [owner.pid, owner.start],
                "guardian": [guardian.pid, guardian.start] if guardian else None,
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
                "testbed": testbed,
                "argv": sys.argv[:20],
                "user": user_name(),
            }
        )
        journal_file.sync_directory(path.parent)
        return journal

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open the journal of a dead run, to undo it.

        Args:
            path: Its file.

        Returns:
            The journal, ready for more records.

        Raises:
            HostError: It cannot be opened.
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            records = journal_file.read(path).records
        except OSError as error:
            raise _refused(path, error) from error
        numbers = [int(record["n"]) for record in records if record.get("t") == "change"]
        return cls(path, path.stem, fd, max(numbers, default=0) + 1)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record to disk.

        Args:
            record: Plain JSON values.

        Raises:
            HostError: The journal is closed, or the disk refuses; nothing may then be changed.
        """
        with self._lock:
            if self._fd < 0:
                raise HostError(
                    "a change was tried after the run's journal was closed",
                    where=str(self.path),
                    cure="make all changes before the run is closed",
                )
            try:
                journal_file.append(self._fd, dict(record))
            except OSError as error:
                raise _refused(self.path, error) from error

    def intend(self, kind: str, what: str, data: Mapping[str, Any]) -> Change:
        """Write down a change that is about to be made; it is on disk when this returns.

        Args:
            kind: A key of `vnetperf.host.undo.KINDS`.
            what: The change for a human, e.g. ``node0 2048 kB hugepages 0 -> 512``.
            data: Plain JSON values: all that undoing needs, the previous value among them.

        Returns:
            The change, announced.
        """
        kind_of(kind)
        with self._lock:
            number = self._next
            self.append(
                {
                    "t": "change",
                    "n": number,
                    "kind": kind,
                    "what": what,
                    "boot": boot_id(),
                    "data": dict(data),
                }
            )
            self._next += 1
        return Change(self, number, what)

    @contextlib.contextmanager
    def changing(self, kind: str, what: str, data: Mapping[str, Any]) -> Iterator[Change]:
        """Journal a change, let the block make it, and undo it at once when the block fails.

        If that undo fails as well the change stays pending, so the end of the run tries again.
        """
        change = self.intend(kind, what, data)
        try:
            yield change
        except BaseException:
            with contextlib.suppress(HostError):
                change.undo()
            raise

    def undo_one(self, number: int) -> str:
        """Undo one change by its number; see `Change.undo`."""
        with self._lock, self.exclusive():
            pending = undoing.pending(journal_file.read(self.path).records)
            for record in pending:
                if record["n"] == number:
                    outcome = undoing.undo_record(record)
                    self.append({"t": "undone", "n": number})
                    return outcome
        return "already undone"

    def undo(self) -> UndoReport:
        """Undo all that is not undone yet: processes first, then the latest change first.

        An error stops only its own step. When all is undone the journal is removed from disk;
        a journal with unreadable lines is kept beside as ``.damaged``.
        """
        with self._lock, self.exclusive():
            if not self.path.exists():  # another process has undone it while we waited
                self.close()
                return UndoReport(self.run_id)
            report = undoing.undo_all(self)
            if not report.failed:
                self._finish(damaged=bool(report.damaged))
            return report

    @property
    def fd(self) -> int:
        """The open file, for the code that undoes."""
        return self._fd

    def close(self) -> None:
        """Close the file; what is pending stays on disk."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    @contextlib.contextmanager
    def exclusive(self, timeout_s: float = 30.0) -> Iterator[None]:
        """Hold the journal against other processes that would undo it at the same time.

        Args:
            timeout_s: Seconds to wait for the other process.

        Raises:
            HostError: Another process has been undoing it for longer than the timeout.
        """
        if self._fd < 0:
            yield
            return
        fd = self._fd
        flock.take(
            fd,
            timeout_s,
            lambda: HostError(
                f"another process has been undoing this journal for {timeout_s:.0f} s",
                where=str(self.path),
                cure="wait for it, or find and end it",
            ),
        )
        try:
            yield
        finally:
            if self._fd == fd:
                flock.release(fd)

    def _finish(self, *, damaged: bool) -> None:
        if damaged:
            self.path.replace(self.path.with_suffix(".damaged"))
        else:
            self.path.unlink(missing_ok=True)
            guardian_log(self.path).unlink(missing_ok=True)
        journal_file.sync_directory(self.path.parent)
        self.close()
        remove_if_empty(self.path.parent, self.path.parent.parent)


def guardian_log(journal: Path) -> Path:
    """Where the guardian of a journal writes what it did."""
    return journal.with_suffix(".log")


def _refused(path: Path, error: OSError) -> HostError:
    return HostError(
        f"the journal cannot be written: {error.strerror or error}",
        where=str(path),
        accepted="a disk that can be written, as root",
        cure="run as root and free space; nothing was changed without a journal entry",
    )
