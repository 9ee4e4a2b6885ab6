"""One run on one machine, from taking the testbed to leaving it exactly as it was."""

from __future__ import annotations

import contextlib
import os
import secrets
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from vnetperf.host.guard import Guard
from vnetperf.host.identity import check_run_id
from vnetperf.host.journal import Journal
from vnetperf.host.lock import OnWait, TestbedLock
from vnetperf.host.paths import HostRoots
from vnetperf.host.process import Processes
from vnetperf.host.restore import RestoreReport, restore
from vnetperf.host.rundir import RunDir
from vnetperf.host.undo import UndoReport


class HostRun:
    """A run's hold on a machine. Made by `open`; ended by `close` or by leaving ``with``.

    Args:
        journal: Its journal.
        lock: The testbed's lock, held.
        guard: The guardian, watching.
        rundir: Its private directory.
        restored: What was restored of dead runs before this one began.

    Attributes:
        run_id: Identity of the run.
        journal: Pass it to everything that changes the machine.
        rundir: The private directory of the run.
        processes: Starts the programs of the run.
        restored: What was restored of dead runs before this one began.
    """

    def __init__(
        self,
        journal: Journal,
        lock: TestbedLock,
        guard: Guard,
        rundir: RunDir,
        restored: RestoreReport,
    ) -> None:
        self.run_id = journal.run_id
        self.journal = journal
        self.rundir = rundir
        self.processes = Processes(journal, rundir.logs)
        self.restored = restored
        self._lock = lock
        self._guard = guard
        self._report: UndoReport | None = None

    @classmethod
    def open(
        cls,
        *,
        testbed: str = "local",
        run_id: str | None = None,
        roots: HostRoots | None = None,
        timeout_s: float = 0.0,
        on_wait: OnWait | None = None,
    ) -> HostRun:
        """Take the testbed, restore what dead runs left, and begin a guarded run.

        Args:
            testbed: Name of the testbed; one run at a time holds it.
            run_id: Identity of the run; made from time and chance when None.
            roots: Where this machine keeps its state.
            timeout_s: Seconds to wait while another run holds the testbed.
            on_wait: Told about the waiting, see `TestbedLock.acquire`.

        Returns:
            The run; close it, or use it in a ``with`` statement.

        Raises:
            TestbedBusyError: Another run holds the testbed.
            HostError: The machine refuses; it is then as it was.
        """
        roots = roots or HostRoots()
        run_id = check_run_id(run_id or new_run_id())
        with contextlib.ExitStack() as undo_on_error:
            lock = TestbedLock.acquire(roots, testbed, run_id, timeout_s=timeout_s, on_wait=on_wait)
            undo_on_error.callback(lock.release)
            restored = restore(roots)
            guard = Guard.start(roots.journal(run_id), lock)
            undo_on_error.callback(guard.dismiss)
            journal = Journal.create(roots, run_id, testbed=testbed, guardian=guard.identity)
            undo_on_error.callback(journal.undo)
            run = cls(journal, lock, guard, RunDir.create(journal, roots), restored)
            undo_on_error.pop_all()
        return run

    def guarded(self) -> bool:
        """Whether the guardian still lives, so that the machine is restored whatever happens."""
        return self._guard.alive()

    def close(self) -> UndoReport:
        """End the run: stop its programs, undo its changes, give the testbed free.

        What cannot be undone stays in the journal for the guardian's try, which follows at once,
        and for `vnetperf restore`. Calling it again returns the same report.
        """
        if self._report is None:
            self.processes.stop_all()  # what does not stop is in the journal too
            self._report = self.journal.undo()
            self.journal.close()
            self._guard.dismiss()
            self._lock.release()
        return self._report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        report = self.close()
        if error is None:
            report.raise_if_incomplete()
        elif not report.complete:
            troubles = [f"{step.what}: {step.outcome}" for step in report.failed]
            error.add_note("this machine was not fully restored: " + "; ".join(troubles))


def new_run_id() -> str:
    """A run id that is unique and sorts by time, e.g. ``20250131-120501-a3f9``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def is_root() -> bool:
    """Whether this process may change the machine."""
    return os.geteuid() == 0
