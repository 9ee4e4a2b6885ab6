"""A run's hold on a machine: lock, guardian, journal, directory; and restoring dead runs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from vnetperf.host import journal as journal_file
from vnetperf.host import locks, snapshot
from vnetperf.host.files import create_tree, ensure_directory
from vnetperf.host.guardian import GuardianClient
from vnetperf.host.journal import (
    Confirm,
    ForeignJournalError,
    Journal,
    JournalHeldError,
    UndoReport,
    guardian_record,
)
from vnetperf.host.linux import ProcessId, check_run_id, close_after, require_time
from vnetperf.host.locks import OnWait, TestbedLock
from vnetperf.host.paths import (
    HostRoots,
    check_private,
    check_state,
    list_files,
    open_trusted,
    remove_if_empty,
)
from vnetperf.host.processes import Processes
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import HostError, TestbedBusyError

log = logging.getLogger(__name__)


OnRestored = Callable[[UndoReport], None]
#: Given what whoever controls the run has to be told at once; called by another thread.
OnNotice = Callable[[str], None]

#: Longest wait of a new run for those who still undo an earlier one of its testbed, seconds.
OTHERS_S = 60.0


class RunDir:
    """One run's directory, mode 0700."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, journal: Journal, roots: HostRoots) -> RunDir:
        """Create the directory, journaled, with its subdirectory for logs."""
        missing = [parent for parent in (roots.run, *roots.run.parents) if not parent.exists()]
        for parent in reversed(missing):
            ensure_directory(journal, parent)
        check_private(roots.run)
        path = roots.run / journal.run_id
        create_tree(journal, path)
        rundir = cls(path)
        rundir.subdir("log")
        return rundir

    @property
    def logs(self) -> Path:
        """Where the programs of the run write."""
        return self.path / "log"

    def subdir(self, name: str) -> Path:
        """A subdirectory, made when it is missing."""
        path = self.path / name
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def new_subdir(self, name: str) -> Path:
        """A subdirectory that was not there, of this name or with a number behind it."""
        for number in itertools.count(1):
            path = self.path / (name if number == 1 else f"{name}{number}")
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
                break
        return path


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run whose journal was left alone, because its lock is held.

    Attributes:
        pid: The living process, 0 where it is not known.
        start: Its start time in clock ticks since boot, 0 where it is not known.
        role: ``agent``, ``guardian`` (which is restoring right now) or ``restore`` (somebody else
            is).
        uid: The user that it runs for, -1 where that was not recorded.
    """

    run_id: str
    testbed: str
    user: str
    since: str
    pid: int
    role: str
    start: int = 0
    uid: int = -1

    @property
    def is_undone(self) -> bool:
        """Whether somebody restores the machine right now."""
        return self.role != "agent"

    def matches(self, process: Sequence[int]) -> bool:
        """Whether it is a process, given by pid and start time."""
        return self.pid > 0 and (self.pid, self.start) == tuple(process)

    def describe(self) -> str:
        """The run in one line, for a terminal."""
        doing = {
            "agent": "is running",
            "guardian": "is being restored by its guardian",
            "restore": "is being restored by another process",
        }[self.role]
        pid = f"pid {self.pid}, " if self.pid else ""
        return f"run {self.run_id} of {self.user} {doing} ({pid}since {self.since})"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What `restore` found and did.

    Attributes:
        unreadable: Journals that could not even be opened, and directories of them that others
            could have written to, with why.
        damaged: Journals kept earlier because some lines were unreadable, for a human to read.
        foreign: Journals of other machines that share the directory, left alone.
    """

    restored: tuple[UndoReport, ...] = ()
    live: tuple[LiveRun, ...] = ()
    unreadable: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing of any dead run is left on this machine."""
        return not self.troubles

    @property
    def troubles(self) -> tuple[str, ...]:
        """What of dead runs may still be on this machine, one sentence each."""
        failures = [text for report in self.restored for text in report.troubles]
        undone = [run.describe() for run in self.live if run.is_undone]
        return (*failures, *undone, *self.unreadable)


def restore(
    roots: HostRoots | None = None, *, on_run: Callable[[str], None] | None = None
) -> RestoreReport:
    """Undo the journals that nobody holds, a machine's with those of the hosts within it.

    Safe to call at any time: a run holds its journal's lock from the moment that the journal has a
    name until it is closed; process ids decide nothing here.
    """
    roots = roots or HostRoots()
    all_roots = (roots,) if roots.machine else roots.on_machine
    reports = [_restore_host(host_roots, on_run) for host_roots in all_roots]
    return RestoreReport(
        *(
            tuple(finding for report in reports for finding in getattr(report, field.name))
            for field in fields(RestoreReport)
        )
    )


def restore_patiently(
    roots: HostRoots,
    timeout_s: float,
    is_waited_for: Callable[[LiveRun], bool],
    on_run: Callable[[str], None] | None = None,
) -> RestoreReport:
    """Restore, and again while there are runs that are waited for; what all passes have found."""
    passes: list[RestoreReport] = []

    def all_have_ended() -> bool:
        passes.append(restore(roots, on_run=on_run))
        return not any(is_waited_for(run) for run in passes[-1].live)

    wait_at_most(all_have_ended, timeout_s, "the undo of an earlier run", poll_s=0.1)
    last_of = {
        undo_report.run_id: undo_report for report in passes for undo_report in report.restored
    }
    return replace(passes[-1], restored=tuple(last_of.values()))


def _restore_host(roots: HostRoots, on_run: Callable[[str], None] | None) -> RestoreReport:
    """Undo the journals of one host that nobody holds."""
    restored: list[UndoReport] = []
    live: list[LiveRun] = []
    unreadable: list[str] = []
    foreign: list[str] = []
    try:
        check_state(roots)
    except HostError as error:
        return RestoreReport(unreadable=(str(error),))
    for path in _list_journals(roots):
        try:
            with Journal.open(path) as journal:
                if on_run is not None:
                    on_run(path.stem)
                log.info("undoing what dead run %s left", path.stem)
                restored.append(snapshot.undo_and_compare(journal))
        except FileNotFoundError:
            continue  # its owner has just ended in order
        except JournalHeldError:
            live += find_owners(path)
        except ForeignJournalError as error:
            foreign.append(str(error))
        except (HostError, OSError) as error:
            if path.exists():
                unreadable.append(str(error))
    # The first host of a machine holds that one's lock too.
    for whose in filter(None, (roots, roots.machine)):
        locks.remove_stale_locks(whose)
    damaged = tuple(path.name for path in list_files(roots.journals, "*.damaged"))
    journal_file.remove_stale_drafts(roots)
    _tidy(roots)
    return RestoreReport(tuple(restored), tuple(live), tuple(unreadable), damaged, tuple(foreign))


def find_owners(path: Path) -> list[LiveRun]:
    """Who holds a journal, of whatever version, as its header has it; none when it is gone."""
    try:
        content = journal_file.read_journal(path)
    except FileNotFoundError:
        return []
    header = {**journal_file.find_header(content)}
    for later in content.records:
        header |= {"guardian": later.get("process")} if later.get("t") == "guardian" else {}
    role, pid, start = "restore", 0, 0
    for name, key in (("agent", "owner"), ("guardian", "guardian")):
        with contextlib.suppress(KeyError, TypeError):  # of another version
            if ProcessId(*header[key]).alive():
                role, (pid, start) = name, header[key]
                break
    names = {key: str(header.get(key, "unknown")) for key in ("testbed", "user", "since")}
    uid = header.get("uid", -1)
    return [LiveRun(run_id=path.stem, pid=pid, start=start, role=role, uid=uid, **names)]


def _list_journals(roots: HostRoots) -> list[Path]:
    with HostError.explain_os_error(
        "the journals cannot be listed", where=str(roots.journals), cure="run as root"
    ):
        return list_files(roots.journals, "*.jsonl")


def _remove_orphan_logs(roots: HostRoots) -> None:
    """Remove logs of guardians that never saw a journal: nothing was changed by those runs.

    A guardian that lives holds the lock of its log.
    """
    for log in list_files(roots.journals, "*.log"):
        journals = (log.with_suffix(".jsonl"), log.with_suffix(".damaged"))
        with (
            contextlib.suppress(OSError, HostError),  # its guardian has removed it
            close_after(open_trusted(log, os.O_RDWR)) as fd,
        ):
            empty = os.fstat(fd).st_size == 0 and not any(map(Path.exists, journals))
            if empty and locks.try_lock(fd):
                log.unlink()


def _tidy(roots: HostRoots) -> None:
    """Remove what nobody keeps anything in."""
    _remove_orphan_logs(roots)
    remove_if_empty(roots.journals, roots.locks, roots.state)


class HostRun:
    """A run's hold on a machine. Made by `open`; ended by `close` or by leaving ``with``."""

    def __init__(
        self,
        journal: Journal,
        lock: TestbedLock,
        guard: GuardianClient,
        rundir: RunDir,
        restored: RestoreReport,
        *,
        machine_lock: TestbedLock | None = None,
    ) -> None:
        self.run_id = journal.run_id
        self.journal = journal
        self.rundir = rundir
        self.processes = Processes(journal, rundir.logs)
        self.restored = restored
        self._lock = lock
        self._machine_lock = machine_lock
        self.guard = guard
        self._report: UndoReport | None = None
        self._on_restored: OnRestored | None = None

    @classmethod
    def open(
        cls,
        *,
        testbed: str = "local",
        run_id: str | None = None,
        roots: HostRoots | None = None,
        timeout_s: float = 0.0,
        on_wait: OnWait | None = None,
        confirm: Confirm | None = None,
        on_restored: OnRestored | None = None,
        on_notice: OnNotice | None = None,
        follows: bool = False,
    ) -> HostRun:
        """Take the testbed, restore what dead runs left, and begin a guarded run.

        `confirm` is called after each change that may cut the controller off, `on_restored` when
        all is undone, `on_notice` when the guardian has died. A host that is namespaces of a
        machine takes that machine first, unless it `follows` another of the same deployment, which
        has taken it; it is compared with what it was only as far as it is its own then. Who takes a
        machine waits for all hosts within it: those that followed one that died may still measure.
        """
        require_time()
        roots = roots or HostRoots()
        run_id = check_run_id(run_id or new_run_id())
        with contextlib.ExitStack() as undo_on_error:
            undo_on_error.callback(_tidy, roots)  # after a guardian that did not start
            machine_lock = None
            if roots.machine is not None and not follows:
                machine_lock = TestbedLock.acquire(
                    roots.machine, testbed, run_id, timeout_s=timeout_s, on_wait=on_wait
                )
                undo_on_error.callback(machine_lock.release)
            lock = TestbedLock.acquire(roots, testbed, run_id, timeout_s=timeout_s, on_wait=on_wait)
            undo_on_error.callback(lock.release)
            machine = roots.machine or roots
            for other in () if follows else machine.on_machine[1:]:
                if other.state != roots.state:
                    TestbedLock.acquire(
                        other, testbed, run_id, timeout_s=timeout_s, on_wait=on_wait
                    ).release()

            def blocks_testbed(run: LiveRun) -> bool:
                return run.is_undone and run.testbed == testbed

            restored = restore_patiently(
                roots if follows else machine, max(timeout_s, OTHERS_S), blocks_testbed
            )
            if others := [*filter(blocks_testbed, restored.live)]:
                raise TestbedBusyError(
                    f"what an earlier run changed is not undone yet: {others[0].describe()}",
                    where=f"testbed {testbed}",
                    cure="wait for it, then run `vnetperf restore`",
                )
            guard = GuardianClient.start(roots.journal(run_id), lock, machine_lock)
            undo_on_error.callback(guard.dismiss)
            journal = Journal.create(roots, run_id, testbed=testbed, guardian=guard.identity)
            journal.confirm = confirm
            undo_on_error.callback(journal.close)  # what could not be undone is the guardian's
            undo_on_error.callback(journal.undo)
            snapshot.take_picture(journal, roots.run, whole_machine=not follows)
            rundir = RunDir.create(journal, roots)
            run = cls(journal, lock, guard, rundir, restored, machine_lock=machine_lock)
            run._on_restored = on_restored
            undo_on_error.pop_all()
        guard.watch(functools.partial(run._tell, on_notice), run._note_guardian)
        log.info("run %s holds testbed %s", run_id, testbed)
        return run

    def close(self) -> UndoReport:
        """End the run: stop its programs, undo its changes, release the testbed.

        What cannot be undone stays in the journal for the guardian's try, which follows at once,
        and for `vnetperf restore`. Calling it again returns the same report.
        """
        if self._report is None:
            with contextlib.ExitStack() as ends:  # whatever fails: nobody else could end these
                ends.callback(self._release_locks)
                ends.callback(self.guard.dismiss)
                ends.callback(self.journal.close)
                self.processes.stop_all()  # what does not stop is in the journal too
                self._report = snapshot.undo_and_compare(self.journal)
            if self._on_restored is not None:
                self._on_restored(self._report)
            log.info("run %s has released the testbed", self.run_id)
        return self._report

    def require_guard(self) -> None:
        """Raise where nobody would restore the machine if this process died."""
        if self.guard.trouble:
            raise HostError(
                f"{self.guard.trouble}; the run ends, since nobody would restore this machine "
                "if the agent died too",
                where=f"run {self.run_id}",
                cure="find what kills it (the kernel's log names processes that memory ran out "
                "for), then run again",
            )

    @staticmethod
    def _tell(on_notice: OnNotice | None, text: str) -> None:
        log.warning("%s", text)
        if on_notice is not None:
            on_notice(text)

    def _note_guardian(self, identity: ProcessId) -> None:
        log.info("process %d guards the run now", identity.pid)
        with contextlib.suppress(HostError):  # it is closed, or the disk is full
            self.journal.append(guardian_record(identity))

    def _release_locks(self) -> None:
        for lock in filter(None, (self._lock, self._machine_lock)):
            if self.guard.identity.alive():  # it still undoes, and releases them at its end
                lock.leave()
            else:
                lock.release()

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
            error.add_note("this machine was not fully restored: " + "; ".join(report.troubles))


def new_run_id() -> str:
    """A run id that is unique and sorts by time, e.g. ``20250131-120501-a3f9``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
