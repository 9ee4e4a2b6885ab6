"""The journal: a change is on disk before it is made, and is undone from there.

One checked JSON record a line, written with fsync: a last line without its newline announces a
change that was never made, any other unreadable line is damage and reported. Who may undo it is a
question of its lock alone: the run holds it for as long as it lives.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import secrets
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Self

from vnetperf import __version__
from vnetperf.host import locks
from vnetperf.host.linux import (
    ProcessId,
    boot_id,
    caller_uid,
    check_run_id,
    close_after,
    machine_id,
    parse_json,
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
from vnetperf.model.errors import HostError

log = logging.getLogger(__name__)

UndoData = Mapping[str, Any]
UndoFunction = Callable[[UndoData], str]
#: Given a change that was made, makes sure that the controller still hears us; raises otherwise.
Confirm = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """One kind of change.

    Attributes:
        function: ``module:function`` that undoes it; imported only when needed, so that the
            guardian starts fast.
        volatile: A reboot undoes it: nothing is to be done (and nothing written) after one.
        first: Undone before all others: processes, which hold on to everything else, and what
            devices take over when their drivers have them again.
        confirmed: It may cut off who controls the run, and is undone at once unless that confirms
            that it still hears this machine.
        turn: ``module:function`` of what is held, by a change's data, until it is marked as undone:
            other journals of the machine decide by that mark.
    """

    function: str
    volatile: bool = True
    first: bool = False
    confirmed: bool = False
    turn: str = ""

    def load(self) -> UndoFunction:
        """Import the function that undoes this kind."""
        function: UndoFunction = resolve_name(self.function)
        return function

    def hold_turn(self, data: UndoData) -> contextlib.AbstractContextManager[None]:
        """Hold the turn, as of a pool, in which a change is undone and marked."""
        lock: contextlib.AbstractContextManager[None] = (
            resolve_name(self.turn)(data) if self.turn else contextlib.nullcontext()
        )
        return lock


CHANGE_KINDS: dict[str, ChangeKind] = {
    "processes": ChangeKind("vnetperf.host.processes:undo_processes", first=True),
    "value": ChangeKind("vnetperf.host.kernel:undo_value"),
    "irq-default": ChangeKind("vnetperf.host.kernel:undo_value", first=True),
    "hugepages": ChangeKind(
        "vnetperf.host.hugepages:undo_hugepages", turn="vnetperf.host.hugepages:hold_pool"
    ),
    "driver": ChangeKind("vnetperf.host.nic.pci:undo_driver", confirmed=True),
    "link": ChangeKind("vnetperf.host.links:undo_link"),
    "netdev": ChangeKind("vnetperf.host.nic.netdev:undo_netdev"),
    "moved": ChangeKind("vnetperf.host.links:undo_move"),
    "eswitch": ChangeKind("vnetperf.host.nic.eswitch:undo_mode"),
    "uplink": ChangeKind("vnetperf.host.nic.eswitch:undo_uplink"),
    "netns": ChangeKind("vnetperf.host.links:undo_netns"),
    "affinity": ChangeKind("vnetperf.host.affinity:undo_affinity"),
    "cgroup": ChangeKind("vnetperf.host.cpu:undo_cgroup"),
    "modules": ChangeKind("vnetperf.host.kernel:undo_modules"),
    # Files outlive a reboot, and on some systems /run does too.
    "tree": ChangeKind("vnetperf.host.files:undo_tree", volatile=False),
    "directory": ChangeKind("vnetperf.host.files:undo_directory", volatile=False),
    # A cluster knows nothing of this machine's reboot.
    "pod": ChangeKind("vnetperf.host.cluster:undo_pod", volatile=False),
}


def find_kind(name: str) -> ChangeKind:
    """Look a kind up."""
    try:
        return CHANGE_KINDS[name]
    except KeyError:
        raise HostError(
            f"unknown kind of change {name!r}",
            accepted=", ".join(sorted(CHANGE_KINDS)),
            cure="restore with the version of vnetperf that wrote the journal",
        ) from None


@dataclass(frozen=True, slots=True)
class UndoStep:
    """One change and what became of it; `outcome` is an error where that stopped it."""

    kind: str
    what: str
    outcome: str


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What undoing one journal did.

    Attributes:
        failed: Steps that failed; the journal stays on disk for another try.
        damaged: Unreadable journal lines; what they announced is unknown.
        differences: What differs from the machine before the run, whoever changed it, one sentence
            each; None where no picture was taken before, or the machine was rebooted since.
    """

    run_id: str
    undone: tuple[UndoStep, ...] = ()
    failed: tuple[UndoStep, ...] = ()
    damaged: tuple[str, ...] = ()
    differences: tuple[str, ...] | None = None

    @property
    def complete(self) -> bool:
        """Whether the machine is known to be as it was before the run."""
        return not self.failed and not self.damaged

    @property
    def troubles(self) -> tuple[str, ...]:
        """What may still be on the machine, one sentence each."""
        return (*(f"{step.what}: {step.outcome}" for step in self.failed), *self.damaged)

    def raise_if_incomplete(self) -> None:
        """Turn what could not be undone into one error."""
        if self.complete:
            return
        raise HostError(
            "not all changes to this machine could be undone: " + "; ".join(self.troubles),
            where=f"journal of run {self.run_id}",
            cure="remove the cause, then run `vnetperf restore`",
        )


Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JournalContent:
    """Content of a journal file.

    Attributes:
        damage: One sentence for each unreadable line that was written to its end.
        torn_at: Offset in bytes of a last line that was not, so that it has no newline; else None.
        open_line: Whether the last record is whole but lacks its newline.
    """

    records: tuple[Record, ...]
    damage: tuple[str, ...]
    torn_at: int | None
    open_line: bool


def encode_record(record: Record) -> bytes:
    """One journal line, with its checksum."""
    body = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return json.dumps({"crc": _checksum(body), "r": record}, sort_keys=True).encode() + b"\n"


def decode_record(line: bytes) -> Record | None:
    """The record of a line, or None when the line is not one that `encode` made."""
    try:
        outer = parse_json(line)
        record = outer["r"]
        body = json.dumps(record, sort_keys=True, separators=(",", ":"))
        is_intact = outer["crc"] == _checksum(body)
    except (ValueError, KeyError, TypeError):
        return None
    return record if is_intact and isinstance(record, dict) and _has_fields(record) else None


#: Fields without which a record cannot be used, by its type.
_FIELDS: Mapping[Any, Mapping[str, type]] = {
    "header": {"version": int},
    "change": {"n": int, "kind": str, "what": str, "boot": str, "data": dict},
    "undone": {"n": int},
    "before": {"boot": str, "run": str, "areas": dict},
}


def _has_fields(record: Record) -> bool:
    fields = _FIELDS.get(record.get("t"), {})
    return all(isinstance(record.get(name), kind) for name, kind in fields.items())


def guardian_record(process: ProcessId) -> Record:
    """The record of a guardian in place of the header's, which has died."""
    return {"t": "guardian", "process": [process.pid, process.start]}


def find_header(content: JournalContent) -> Record:
    """The header; empty where there is none."""
    return next((record for record in content.records if record.get("t") == "header"), {})


def read_journal(path: Path) -> JournalContent:
    """Read a journal, whatever state it is in."""
    return parse_journal(path.read_bytes(), path.name)


def parse_journal(data: bytes, name: str) -> JournalContent:
    """The content of a journal's octets; the name is for what is reported of it."""
    records: list[Record] = []
    damage: list[str] = []
    changes: dict[int, Record] = {}
    torn_at: int | None = None
    offset = 0
    for number, line in enumerate(io.BytesIO(data), start=1):
        record = decode_record(line)
        is_change = record is not None and record.get("t") == "change"
        if record is not None and is_change and changes.setdefault(record["n"], record) != record:
            damage.append(f"line {number} of {name} announces change {record['n']} once more")
        elif record is not None:
            records.append(record)
        elif not line.endswith(b"\n") and decode_record(line[:-1]) is None:
            torn_at = offset
        else:
            damage.append(f"line {number} of {name} is unreadable ({len(line)} bytes)")
        offset += len(line)
    open_line = torn_at is None and bool(data) and not data.endswith(b"\n")
    return JournalContent(tuple(records), tuple(damage), torn_at, open_line)


def append_record(fd: int, record: Record) -> None:
    """Write one record and wait until it is on disk."""
    line = encode_record(record)
    end = os.fstat(fd).st_size
    try:
        view = memoryview(line)
        while view:
            view = view[os.write(fd, view) :]
        os.fdatasync(fd)
    except OSError:
        os.ftruncate(fd, end)  # half a line before later ones would read as damage
        raise


def truncate_torn_line(fd: int, content: JournalContent) -> None:
    """Make the file end on a whole line, so that more can be appended."""
    if content.torn_at is not None:
        os.ftruncate(fd, content.torn_at)
    elif content.open_line:
        os.write(fd, b"\n")


def sync_directory(directory: Path) -> None:
    """Make the directory's own entries (a new or removed file) last through a power cut."""
    with close_after(os.open(directory, os.O_RDONLY | os.O_DIRECTORY)) as fd:
        os.fsync(fd)


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"


class JournalHeldError(HostError):
    """The run that owns a journal lives, or somebody is undoing it now."""


class ForeignJournalError(HostError):
    """A journal of another machine, in a directory that machines share."""


def check_origin(content: JournalContent, path: Path) -> None:
    """Refuse a journal whose changes are not this machine's, or not known to this version."""
    header = find_header(content)
    if not content.records and not content.damage and content.torn_at is None:
        return  # nothing was announced
    where = str(path)
    version, writer = header.get("version"), header.get("tool", "an unknown version of vnetperf")
    if not header:
        raise HostError(
            "the journal has no readable header: nothing of it is undone, since neither its "
            "version nor its machine are known",
            where=where,
            cure="read it and undo what it lists by hand, then remove it",
        )
    if version != FORMAT_VERSION:
        raise HostError(
            f"the journal has format {version}, written by {writer}: nothing of it is undone",
            where=where,
            accepted=f"format {FORMAT_VERSION}",
            cure="run `vnetperf restore` of the version that wrote it",
        )
    if header.get("boot") != boot_id() and header.get("machine") != machine_id():
        raise ForeignJournalError(
            f"the journal is of another machine ({header.get('host', 'unknown')})",
            where=where,
            cure="run `vnetperf restore` there; state directories need not be shared",
        )
    place = str(header.get("place", _place(path)))
    if place != _place(path) and path.parents[2].joinpath(place).parents[1].is_dir():
        raise ForeignJournalError(
            f"the journal is a copy of {place}, which is undone where it is",
            where=where,
            cure="keep copies elsewhere than beside the state directory",
        )


def _place(path: Path) -> str:
    """Where a journal is in the state of its host, wherever that is mounted."""
    return "/".join(path.parts[-3:])


#: Ending of a journal that is being begun.
DRAFT = ".new"


def _begin_file(path: Path, header: Record) -> int:
    """Make a journal that has its header and its lock from the moment it has its name.

    Raises FileExistsError when the name is taken.
    """
    while True:
        draft = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{DRAFT}")
        fd = open_private(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND)
        try:
            if locks.try_lock(fd):
                append_record(fd, header)  # on disk before it has its name
                os.link(draft, path)
                sync_directory(path.parent)
                return fd
            os.close(fd)
        except FileNotFoundError:  # it was taken for a leftover before it was locked
            os.close(fd)
        except BaseException:
            os.close(fd)
            raise
        finally:
            draft.unlink(missing_ok=True)


def remove_stale_drafts(roots: HostRoots) -> None:
    """Remove journals whose owners died before they had a name: nothing was changed by then."""
    for draft in list_files(roots.journals, f".*{DRAFT}"):
        with (
            contextlib.suppress(OSError, HostError),
            close_after(open_trusted(draft, os.O_RDWR)) as fd,
        ):
            if locks.try_lock(fd):
                draft.unlink(missing_ok=True)


RETRY_AFTER_S = 0.3
#: Longest wait for another process that is undoing the same journal, seconds.
UNDO_LOCK_S = 30.0


def pending_changes(records: Iterable[Record]) -> list[Record]:
    """The changes not undone yet, in the order to undo them."""
    changes: dict[int, Record] = {}
    for record in records:
        if record.get("t") == "change":
            changes[record["n"]] = record
        elif record.get("t") == "undone":
            changes.pop(record["n"], None)
    return sorted(changes.values(), key=lambda record: (not _is_undone_first(record), -record["n"]))


def _processes_together(records: Iterable[Record]) -> list[Record]:
    """The changes, with one for all of a run's processes: the undo of each ends all of them.

    One that does not end is then waited for once, and not for each program that was started.
    """
    changes: list[Record] = []
    together: dict[tuple[Any, ...], Record] = {}
    for record in records:
        data = record["data"]
        key = (record["boot"], str(data.get("run_id")), str(data.get("scope")))
        if record["kind"] != "processes":
            changes.append(record)
        elif (first := together.get(key)) is None:
            known_processes = [*(data.get("known") or ())]
            together[key] = {**record, "others": [], "data": {**data, "known": known_processes}}
            changes.append(together[key])
        else:
            first["what"] = record["what"]  # of the first, as they come latest first
            first["others"].append(record["n"])
            first["data"]["known"] += data.get("known") or ()
    return changes


def undo_record(record: Record, mark: Callable[[], None]) -> str:
    """Undo one change, and mark it."""
    kind = find_kind(record["kind"])
    if kind.volatile and record["boot"] != boot_id():
        # Writing an old value now would overwrite what the new boot configured.
        mark()
        return "gone with the reboot"
    try:
        with kind.hold_turn(record["data"]):
            outcome = kind.load()(record["data"])
            mark()
        return outcome
    except HostError:
        raise
    except Exception as error:
        raise HostError(
            f"{type(error).__name__}: {error}",
            where=str(record["what"]),
            cure="remove the cause, then run `vnetperf restore`",
        ) from error


def _is_undone_first(record: Record) -> bool:
    try:
        return find_kind(record["kind"]).first
    except HostError:
        return False


#: 2 has machine and tool in its header, and is locked by its owner.
FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True)
class Change:
    """One journaled change, as a handle to undo it before the run ends."""

    journal: Journal
    number: int
    description: str

    def undo(self) -> str:
        """Undo this one change now; undoing it again does nothing."""
        return self.journal.undo_change(self.number)


class Journal:
    """The append-only record of one run's changes on this machine.

    Use `changing` around every lasting change. One journal belongs to one process (the agent);
    its threads may share it. It holds the file's lock until `close`, and whoever would undo the
    journal takes that lock: the kernel gives it back with the last of the owner's threads.
    """

    def __init__(self, path: Path, run_id: str, fd: int, next_number: int) -> None:
        self.path = path
        self.run_id = run_id
        self.roots = HostRoots(state=path.parent.parent)
        self._fd = fd
        self._next = next_number
        self._finished = False
        self.confirm: Confirm | None = None
        self._lock = threading.RLock()

    @classmethod
    def create(
        cls, roots: HostRoots, run_id: str, *, testbed: str = "", guardian: ProcessId | None = None
    ) -> Journal:
        """Begin the journal of a new run; the caller becomes its owner."""
        check_state(roots)
        path = roots.journal(check_run_id(run_id))
        owner = ProcessId.me()
        header = {
            "t": "header",
            "version": FORMAT_VERSION,
            "tool": f"vnetperf {__version__}",
            "run_id": run_id,
            "machine": machine_id(),
            "host": os.uname().nodename,
            "boot": boot_id(),
            "owner": [owner.pid, owner.start],
            "guardian": [guardian.pid, guardian.start] if guardian else None,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "testbed": testbed,
            "argv": sys.argv[:20],
            "user": user_name(),
            "uid": caller_uid(),
            "place": _place(path),
        }
        try:
            journal = cls(path, run_id, _begin_file(path, header), 1)
            journal.roots = roots
            return journal
        except FileExistsError:
            raise HostError(
                f"run {run_id} already has a journal",
                where=str(path),
                cure="choose another run id, or run `vnetperf restore` if that run is dead",
            ) from None
        except OSError as error:
            raise _cannot_write_journal(path, error) from error

    @classmethod
    def open(cls, path: Path, *, wait_s: float = 0.0) -> Journal:
        """Take the journal of a dead run, to undo it.

        Raises FileNotFoundError when it is gone, since somebody else has undone it;
        JournalHeldError when it stays locked; HostError when it must not be undone from here, or
        when others could have written it.
        """
        try:
            fd = open_trusted(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _cannot_write_journal(path, error) from error
        try:
            locks.lock_file(
                fd,
                wait_s,
                lambda: JournalHeldError(
                    "the run that owns this journal lives, or somebody is undoing it"
                    + (f", for {wait_s:.0f} s already" if wait_s else ""),
                    where=str(path),
                    cure="wait for it, or find and end it",
                ),
            )
            if not locks.is_current_file(fd, path):
                raise FileNotFoundError(path)
            content = parse_journal(_read_all(fd), path.name)
            check_origin(content, path)
        except BaseException:
            os.close(fd)
            raise
        numbers = [int(record["n"]) for record in content.records if record.get("t") == "change"]
        return cls(path, path.stem, fd, max(numbers, default=0) + 1)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record to disk."""
        with self._lock:
            if self._fd < 0:
                raise HostError(
                    "a change was tried after the run's journal was closed",
                    where=str(self.path),
                    cure="make all changes before the run is closed",
                )
            try:
                append_record(self._fd, dict(record))
            except OSError as error:
                raise _cannot_write_journal(self.path, error) from error

    def intend(self, kind: str, description: str, data: Mapping[str, Any]) -> Change:
        """Write down a change that is about to be made; it is on disk when this returns."""
        find_kind(kind)
        with self._lock:
            number = self._next
            self.append(
                {
                    "t": "change",
                    "n": number,
                    "kind": kind,
                    "what": description,
                    "boot": boot_id(),
                    "data": dict(data),
                }
            )
            self._next += 1
        log.info("change %d: %s", number, description)
        return Change(self, number, description)

    @contextlib.contextmanager
    def changing(self, kind: str, description: str, data: Mapping[str, Any]) -> Iterator[Change]:
        """Journal a change, let the block make it, and undo it at once when the block fails.

        If that undo fails as well the change stays pending, so the end of the run tries again.
        """
        change = self.intend(kind, description, data)
        try:
            yield change
            if find_kind(kind).confirmed:
                self.require_heard(description)
        except BaseException:
            with contextlib.suppress(HostError):
                change.undo()
            raise

    def supersede(self, change: Change, kind: str, data: Mapping[str, Any]) -> Change:
        """Write a change down again, with what is known now that it is made."""
        replacement = self.intend(kind, change.description, data)
        self._mark_undone(change.number)
        return replacement

    def require_heard(self, description: str) -> None:
        """Have whoever controls the run confirm that it hears us after a change; else raise."""
        if self.confirm is not None:
            self.confirm(description)

    def undo_change(self, number: int) -> str:
        """Undo one change by its number; see `Change.undo`."""
        with self._lock:
            if self._fd < 0:
                return "already undone"
            pending = pending_changes(self._content().records)
            for record in pending:
                if record["n"] == number:
                    outcome = undo_record(record, partial(self._mark_undone, number))
                    log.info("undone: %s: %s", record["what"], outcome)
                    return outcome
        return "already undone"

    def undo(self) -> UndoReport:
        """Undo all that is not undone yet: processes first, then the latest change first.

        An error stops only its own step. When all is undone the journal is removed from disk;
        a journal with unreadable lines is kept beside as ``.damaged``. One that lost its name is
        undone from the open file, and reported: who removed it may have undone things too.
        """
        with self._lock:
            if self._finished:
                return UndoReport(self.run_id)
            if self._fd < 0:
                raise HostError(
                    "the journal was closed before its changes were undone",
                    where=str(self.path),
                    cure="run `vnetperf restore`",
                )
            content = self._content()
            damage = content.damage
            try:
                truncate_torn_line(self._fd, content)
            except OSError as error:
                damage += (f"{self.path} cannot be written: {error.strerror or error}",)
            named = locks.is_current_file(self._fd, self.path)
            if not named:
                damage += (f"{self.path} was removed or replaced while its run lived",)
            undone, failed = self._undo_all(pending_changes(content.records))
            if not failed:
                try:
                    self._finish(damaged=bool(content.damage), named=named)
                except OSError as error:  # the disk is read-only by now, or broken
                    reason = error.strerror or error
                    damage += (f"all is undone, but {self.path} cannot be removed: {reason}",)
            for line in damage:
                log.error("damaged journal: %s", line)
            return UndoReport(self.run_id, tuple(undone), tuple(failed), damage)

    def _undo_all(self, remaining: list[Record]) -> tuple[list[UndoStep], list[UndoStep]]:
        """Undo each change; what fails is tried once more at the end."""
        undone: list[UndoStep] = []
        failed: list[UndoStep] = []
        remaining = _processes_together(remaining)
        for attempt in (1, 2):
            failed, again = [], []
            for record in remaining:
                try:
                    numbers = (record["n"], *record.get("others", ()))
                    outcome = undo_record(record, partial(self._try_to_mark, *numbers))
                except HostError as error:
                    # Udev may just rename a link, and the kernel frees what the dead held later.
                    level, yet = (logging.INFO, " yet") if attempt == 1 else (logging.WARNING, "")
                    log.log(level, "cannot undo%s: %s: %s", yet, record["what"], error)
                    failed.append(UndoStep(record["kind"], record["what"], str(error)))
                    again.append(record)
                    continue
                log.info("undone: %s: %s", record["what"], outcome)
                undone.append(UndoStep(record["kind"], record["what"], outcome))
            remaining = again
            if remaining and attempt == 1:
                time.sleep(RETRY_AFTER_S)  # the kernel frees what the dead held a little later
        return undone, failed

    def _mark_undone(self, number: int) -> None:
        self.append({"t": "undone", "n": number})

    def _try_to_mark(self, *numbers: int) -> None:
        # A full disk must not stop the undo: a step without its mark is merely repeated.
        for number in numbers:
            with contextlib.suppress(HostError):
                self._mark_undone(number)

    def close(self) -> None:
        """Close the file; what is pending stays on disk."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def records(self, kind: str) -> list[Record]:
        """The records of a type; none once the journal is closed."""
        if self._fd < 0:
            return []
        return [record for record in self._content().records if record.get("t") == kind]

    def record(self, kind: str) -> Record:
        """The first record of a type that is no change; empty when there is none."""
        return next(iter(self.records(kind)), {})

    def _content(self) -> JournalContent:
        return parse_journal(_read_all(self._fd), self.path.name)

    def _finish(self, *, damaged: bool, named: bool) -> None:
        if damaged and named:
            self.path.replace(self.path.with_suffix(".damaged"))
        elif named:
            self.path.unlink(missing_ok=True)
            guardian_log(self.path).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):  # empty now, and another run has removed it
            sync_directory(self.path.parent)
        self._finished = True
        self.close()
        remove_if_empty(self.path.parent, self.path.parent.parent)


def _read_all(fd: int) -> bytes:
    """The whole file, wherever its position is."""
    pieces = []
    offset = 0
    while piece := os.pread(fd, 1 << 20, offset):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


def guardian_log(journal: Path) -> Path:
    """Where the guardian of a journal writes what it did."""
    return journal.with_suffix(".log")


def _cannot_write_journal(path: Path, error: OSError) -> HostError:
    return HostError(
        f"the journal cannot be written: {error.strerror or error}",
        where=str(path),
        accepted="a disk that can be written, as root",
        cure="run as root and free space; nothing was changed without a journal entry",
    )
