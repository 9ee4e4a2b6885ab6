"""Undoing what dead runs left on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vnetperf.host import journal_file, lock
from vnetperf.host.identity import ProcessId, boot_id
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots, remove_if_empty
from vnetperf.host.undo import UndoReport
from vnetperf.model.errors import HostError


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run whose journal was left alone, because a process still answers for it.

    Attributes:
        run_id: Identity of the run.
        testbed: The testbed that it holds.
        user: Account that it runs for.
        since: Its start, ISO 8601, UTC.
        pid: The living process.
        role: ``agent`` or ``guardian`` (which is restoring right now).
    """

    run_id: str
    testbed: str
    user: str
    since: str
    pid: int
    role: str

    def describe(self) -> str:
        """The run in one line, for a terminal."""
        doing = "is running" if self.role == "agent" else "is being restored by its guardian"
        return f"run {self.run_id} of {self.user} {doing} (pid {self.pid}, since {self.since})"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What `restore` found and did.

    Attributes:
        restored: One report for each dead run.
        live: Runs that were left alone.
        unreadable: Journals that could not even be opened, with why.
        stale_locks: Testbeds whose lock file a dead run had left.
        damaged: Journals kept earlier because some lines were unreadable, for a human to read.
    """

    restored: tuple[UndoReport, ...] = ()
    live: tuple[LiveRun, ...] = ()
    unreadable: tuple[str, ...] = ()
    stale_locks: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing of any dead run is left on this machine."""
        return not self.unreadable and all(report.complete for report in self.restored)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


def restore(
    roots: HostRoots | None = None, *, on_run: Callable[[str], None] | None = None
) -> RestoreReport:
    """Undo the journals whose agent and guardian are both dead. Safe to call at any time.

    Args:
        roots: Where this machine keeps its state.
        on_run: Called with the run's id before its journal is undone.

    Returns:
        What was undone, and what could not be.

    Raises:
        HostError: The journals cannot be listed (not root).
    """
    roots = roots or HostRoots()
    restored: list[UndoReport] = []
    live: list[LiveRun] = []
    unreadable: list[str] = []
    for path in _journals(roots):
        try:
            owner = living_owner(path)
            if owner is not None:
                live.append(owner)
                continue
            if on_run is not None:
                on_run(path.stem)
            restored.append(Journal.open(path).undo())
        except (HostError, OSError) as error:
            if path.exists():
                unreadable.append(str(error))
    stale = lock.remove_stale(roots)
    damaged = tuple(path.name for path in roots.journals.glob("*.damaged"))
    _remove_orphan_logs(roots)
    remove_if_empty(roots.journals, roots.locks, roots.state)
    return RestoreReport(tuple(restored), tuple(live), tuple(unreadable), tuple(stale), damaged)


def living_owner(path: Path) -> LiveRun | None:
    """The process that still answers for a journal, or None when all are dead.

    Args:
        path: The journal.

    Returns:
        The run and its process.

    Raises:
        OSError: The journal cannot be read.
    """
    records = journal_file.read(path).records
    header = next((record for record in records if record.get("t") == "header"), None)
    if header is None or header["boot"] != boot_id():
        return None
    for role, key in (("agent", "owner"), ("guardian", "guardian")):
        if header[key] and ProcessId(*header[key]).alive():
            return LiveRun(
                run_id=path.stem,
                testbed=header["testbed"],
                user=header["user"],
                since=header["since"],
                pid=header[key][0],
                role=role,
            )
    return None


def _journals(roots: HostRoots) -> list[Path]:
    try:
        return sorted(roots.journals.glob("*.jsonl"))
    except FileNotFoundError:
        return []  # the last run to end has just removed the folder
    except OSError as error:
        raise HostError(
            f"the journals cannot be listed: {error.strerror}",
            where=str(roots.journals),
            cure="run as root",
        ) from error


def _remove_orphan_logs(roots: HostRoots) -> None:
    """Remove logs of guardians that never saw a journal: nothing was changed by those runs."""
    for log in roots.journals.glob("*.log"):
        journals = (log.with_suffix(".jsonl"), log.with_suffix(".damaged"))
        if log.stat().st_size == 0 and not any(journal.exists() for journal in journals):
            log.unlink(missing_ok=True)
