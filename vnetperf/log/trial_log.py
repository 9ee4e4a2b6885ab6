"""The trial log: one JSON record a line, chained by digests so that a changed line is detected."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vnetperf.log.records import LOG_VERSION, BeginRecord, Record, TrialRecord
from vnetperf.log.stored import StoredLines, StoredTrial, rare_collections
from vnetperf.model.base import share_field_sets
from vnetperf.model.errors import ConfigError, LogError, VnetperfError

_DIGITS = 16
#: Characters of what a damaged line calls itself that a message shows.
_SHOWN = 60
#: How files begin that hold a log in another form: what made them, and what undoes it.
_WRAPPED = {
    b"\xef\xbb\xbf": ("it begins with a byte order mark, which an editor has put there", ""),
    b"\xff\xfe": ("it is text of UTF-16, as a shell's redirection may make it", ""),
    b"\xfe\xff": ("it is text of UTF-16, as a shell's redirection may make it", ""),
    b"\x1f\x8b": ("it is compressed by gzip", "gunzip"),
    b"\xfd7zXZ\x00": ("it is compressed by xz", "unxz"),
    b"BZh": ("it is compressed by bzip2", "bunzip2"),
    b"\x28\xb5\x2f\xfd": ("it is compressed by zstd", "unzstd"),
    b"\x04\x22\x4d\x18": ("it is compressed by lz4", "unlz4"),
    b"PK\x03\x04": ("it is in an archive of zip", "unzip"),
    b"7z\xbc\xaf\x27\x1c": ("it is in an archive of 7-Zip", "7z x"),
    b"version https://git-lfs": ("Git LFS has left a pointer in its place", "git lfs pull"),
    b"<<<<<<< ": ("Git has put two versions of it into one file", ""),
    b"<": ("it is a page of a web server, as a download without a login is", ""),
    b"\0": ("zero octets stand in it, as a loss of power leaves them", ""),
}
#: Where an archive of tar has its mark, behind the name of its first file.
_TAR = slice(257, 262)
#: Ends of the names that they have then.
COMPRESSED = (".gz", ".xz", ".bz2", ".zst", ".lz4", ".zip", ".7z")
#: How the line of a trial begins, which is all but a few of a log.
_TRIAL = b'{"type":"trial",'
_SEAL = re.compile(rb',"digest":"([0-9a-f]{%d})"\}$' % _DIGITS)


def digest_line(body: bytes, before: str) -> str:
    """Digest of a line."""
    return sha256(before.encode() + b"\n" + body).hexdigest()[:_DIGITS]


def seal(body: bytes, before: str) -> tuple[bytes, str]:
    """Put a record's digest into its line."""
    digest = digest_line(body, before)
    return b'%s,"digest":"%s"}' % (body[:-1], digest.encode()), digest


def unseal(line: bytes) -> tuple[bytes, str]:
    """Take the digest out of a line again."""
    seal = _SEAL.search(line)
    if seal is None:
        return line, ""
    return line[: seal.start()] + b"}", seal[1].decode()


LOG_NAME = "trials.jsonl"
_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


log = logging.getLogger(__name__)


class TrialLog:
    """A log being written, by one process at a time: it holds a lock (flock) on the file.

    Attributes:
        trouble: Why a record could not be written; "" while all are.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        self._lock = threading.Lock()
        self._fd = _open(path)
        try:
            self._locked = lock_log(self._fd, path)
            self._trials = self._searches = 0
            for record in iter_log(path):
                if isinstance(record, TrialRecord):
                    self._trials = max(self._trials, record.number)
                elif isinstance(record, BeginRecord):
                    self._searches = max(self._searches, record.search)
            #: Octets of the file, with a line that was cut, as far as this process knows.
            self._size = os.fstat(self._fd).st_size
            content = _last_lines(self._fd, self._size)
        except BaseException:
            os.close(self._fd)
            raise
        whole_size = _count_complete_octets(content)
        self._end = self._size - len(content) + whole_size
        last = content[:whole_size].removesuffix(b"\n").rpartition(b"\n")[2]
        self._digest = unseal(last)[1]
        #: A last line that lacks nothing but its end is a record.
        self._before = b"" if content[:whole_size].endswith(b"\n") or not last else b"\n"

    def next_trial(self) -> int:
        """Number for the next trial; it is taken once that is written."""
        return self._trials + 1

    def next_search(self) -> int:
        """Number for the next search; it is taken once that is written."""
        return self._searches + 1

    @property
    def octets(self) -> int:
        """Octets of all records that are written."""
        return self._end

    def read(self, start: int, end: int) -> list[Record]:
        """The records between two octets of the log, as it was written by this process."""
        try:
            lines = os.pread(self._fd, end - start, start).splitlines()
            return [_RECORD.validate_json(unseal(line)[0]) for line in lines if line]
        except (OSError, ValueError) as error:
            raise LogError(
                f"records of the trial log cannot be read again: {error}",
                where=str(self.path),
                cure="see whether the file is as it was written, with `vnetperf report`",
            ) from error

    def append(self, record: Record) -> None:
        """Write a record; one that cannot be written leaves the log as it was before it.

        More can be appended once the cause is gone. Hosts are heard by threads.
        """
        with self._lock:
            self._append(record)

    def _append(self, record: Record) -> None:
        line, digest = seal(record.model_dump_json().encode(), self._digest)
        octets = self._before + line + b"\n"
        self._require_no_other_writer()
        try:
            if os.fstat(self._fd).st_size != self._end:  # of a line that was cut
                os.ftruncate(self._fd, self._end)
            rest = memoryview(octets)
            while rest:  # a full disk takes a part of a write, and refuses the next one
                rest = rest[os.write(self._fd, rest) :]
            os.fdatasync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):  # the next record tries again
                self._size = os.fstat(self._fd).st_size
                os.ftruncate(self._fd, self._end)
                self._size = self._end
            self.trouble = f"the trial log cannot be written: {error.strerror}"
            raise LogError(
                self.trouble,
                where=str(self.path),
                cure="remove the cause, then go on with `pytest --resume="
                f"{self.path.parent}`: the {self._trials} trials before it are in the log",
            ) from error
        self._digest, self._before = digest, b""
        self._end += len(octets)
        self._size = self._end
        self.trouble = ""
        if isinstance(record, TrialRecord):
            self._trials = record.number
        elif isinstance(record, BeginRecord):
            self._searches = record.search

    def _require_no_other_writer(self) -> None:
        """Refuse to cut what somebody else has written, where no lock keeps others away."""
        size = self._size if self._locked else os.fstat(self._fd).st_size
        if size == self._size:
            return
        self.trouble = f"another process writes the trial log too: it has {size} octets, not the "
        self.trouble += f"{self._size} that were written here"
        raise LogError(
            self.trouble,
            where=str(self.path),
            cure="nothing of it was cut; measure into a folder of its own, on a file system with "
            "locks (flock)",
        )

    def close(self) -> None:
        """Close the file, and let others write it."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            try:
                os.fsync(fd)
            except OSError as error:  # each record has been on the disk when it was written
                log.warning("%s: %s", self.path, error)
            finally:
                os.close(fd)


def open_log(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a log: a regular file, and no link, which could lead to a file of somebody else.

    Raises OSError; a pipe is not waited for.
    """
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link, and no file") from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file")
    return fd


def _open(path: Path) -> int:
    with LogError.explain_os_error(
        "the trial log cannot be opened",
        where=str(path),
        cure="check that its folder is there and that you may write to it",
    ):
        return open_log(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)


def lock_log(fd: int, path: Path) -> bool:
    """Take the one right to write a log, which ends when the file is closed.

    False where the file system has no locks. An error where another process, or another `TrialLog`
    of this one, writes it.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            log.warning("%s is not locked against another run: %s", path, error.strerror)
            return False
        raise LogError(
            "a run that is still going on writes this log",
            where=str(path),
            cure="wait for its end, or end it; then continue it with --resume",
        ) from None
    return True


def _last_lines(fd: int, size: int) -> bytes:
    """The end of a log, with the last line that is whole, and one that was cut behind it."""
    octets = 2**16
    while True:
        content = os.pread(fd, octets, max(0, size - octets))
        if octets >= size or content.count(b"\n") > 2:
            return content
        octets *= 2


def _count_complete_octets(content: bytes) -> int:
    """Octets of the end of a log without a last line that was cut."""
    last = content.rpartition(b"\n")[2]
    try:
        _RECORD.validate_json(unseal(last)[0])
    except (ValueError, VnetperfError, RecursionError):
        return len(content) - len(last)
    return len(content)


def encode_records(records: Iterable[Record]) -> Iterator[bytes]:
    """The lines of a log that holds records."""
    digest = ""
    for record in records:
        line, digest = seal(record.model_dump_json().encode(), digest)
        yield line + b"\n"


def read_log(path: Path) -> list[Record]:
    """Read a log.

    A last line cut in the middle is what a killed run leaves; it is left out. Anything else that
    is no record is damage, and so is a line that is not as it was written.

    Trials are read again when they are used: all of a large log's would need ten times its size.
    """
    with rare_collections():
        return list(_stored(path))


def read_undamaged(path: Path) -> tuple[list[Record], LogError | None]:
    """Read a log as far as it is as it was written; and what its damage is, None without any."""
    records: list[Record] = []
    try:
        for record in _stored(path):
            records.append(record)
    except LogError as error:
        return records, error
    return records, None


def iter_log(path: Path) -> Iterator[Record]:
    """Read a log record by record, as `read_log` does: of one that is not kept nothing stays."""
    for record, _, _ in _records_and_places(path):
        yield record


def _records_and_places(path: Path) -> Iterator[tuple[Record, int, int]]:
    """Each record of a log, with the octet at which its line begins and the length of that."""
    before = ""
    start = end = 0
    for number, piece in enumerate(_lines(path), 1):
        start, end = end, end + len(piece)
        line = piece.removesuffix(b"\n")
        if not line:
            continue
        where = f"{path}:{number}"
        torn = line == piece  # the last one, cut in the middle
        if not line.startswith(b"{") and line.strip(b"\0") and (number == 1 or not torn):
            _expect_plain(line, where if number > 1 else str(path))
        if line.endswith(b"\r"):
            raise _refuse_line_ends(where)
        body, digest = unseal(line)
        try:
            if not body.startswith(_TRIAL):
                content = json.loads(body)
                if isinstance(content, dict) and content.get("type") == "run":
                    _require_version(content, where)
            if digest != digest_line(body, before):
                raise _changed(json.loads(body), where)
            record = _parse(body)
        # ValueError: no JSON, no UTF-8, no record, and integers of thousands of digits.
        except (ValueError, RecursionError, ConfigError) as error:
            # A first line that begins as no record is none that was cut: the file is no log.
            if torn and (number > 1 or line.startswith(b"{") or not line.strip(b"\0")):
                return
            raise _no_record(error, where) from None
        before = digest
        yield record, start, len(line)


def _stored(path: Path) -> Iterator[Record]:
    """Every record of a log; those of trials stay in the file."""
    lines: StoredLines[Record] | None = None
    for record, start, length in _records_and_places(path):
        if not isinstance(record, TrialRecord):
            share_field_sets(record)
            yield record
            continue
        if lines is None:
            lines = _stored_lines(path)
        lines.keep(start, length, record)
        yield StoredTrial.at(lines, start, length, record)


def _stored_lines(path: Path) -> StoredLines[Record]:
    try:
        return StoredLines(open_log(path), lambda line: _parse(unseal(line)[0]), str(path))
    except OSError as error:
        raise _unreadable(path, error) from error


def _parse(body: bytes) -> Record:
    """The record of a line; pydantic's own reading of JSON is twice as fast as that by Python."""
    try:
        return _RECORD.validate_json(body)
    except ValueError:  # what is wrong is said as Python says it
        return _RECORD.validate_python(json.loads(body))


#: What code meets that was made for other values. Not OSError: that is the machine's.
_OF_RECORDS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)


@contextlib.contextmanager
def foreign_log(doing: str) -> Iterator[None]:
    """Make one error of whatever a log leads to whose lines are records that do not fit together.

    Such a log was put together by hand, or is damaged where no checksum is; or what uses it is
    wrong: then the error's cause has the traceback.
    """
    try:
        yield
    except VnetperfError:
        raise
    except _OF_RECORDS as error:
        text = (str(error).splitlines() or [""])[0][:200]
        raise LogError(
            f"{doing} fails on records of the log that do not fit together: "
            f"{type(error).__name__}: {text}",
            cure="where the log is as vnetperf wrote it, this is a fault of vnetperf: report it "
            "with the log, `vnetperf redact` makes a copy to give away",
        ) from error


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a log with their ends, one at a time: a log may be larger than the memory."""
    try:
        with os.fdopen(open_log(path), "rb") as file:
            yield from file
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> LogError:
    return LogError(
        f"the trial log cannot be read: {error.strerror}",
        where=str(path),
        cure=f"name a results folder that holds {LOG_NAME}",
    )


def _expect_plain(line: bytes, where: str) -> None:
    """Refuse a file that holds a log in another form, by a line that is no record's."""
    if line[_TAR] == b"ustar":
        raise LogError(
            "this is no log as it was written: it is in an archive of tar",
            where=where,
            cure="undo that: `tar -xf`",
        )
    for beginning, (description, undone_by) in _WRAPPED.items():
        if line.startswith(beginning):
            cure = f"undo that: `{undone_by}`" if undone_by else ""
            raise LogError(
                f"this is no log as it was written: {description}",
                where=where,
                cure=cure
                or "take the log from a copy that nothing has converted; its lines have "
                "checksums, so that one that is converted back by hand is read again",
            )


def _refuse_line_ends(where: str) -> LogError:
    """The error of a log whose lines end as on Windows."""
    return LogError(
        "its lines end in CR LF, which it was not written with: Git (core.autocrlf) or a transfer "
        "as text has changed them",
        where=where,
        cure="convert it back by `dos2unix`; in Git, a line `*.jsonl -text` in .gitattributes "
        "keeps logs as they are",
    )


def _require_version(content: dict[str, Any], where: str) -> None:
    """Refuse a log of another version, by a record that opens it."""
    version = content.get("version", LOG_VERSION)
    if isinstance(version, int) and version != LOG_VERSION:
        raise LogError(
            f"another version of vnetperf wrote this log: its log version is {version}",
            where=where,
            accepted=f"log version {LOG_VERSION}",
            cure="use the vnetperf that wrote it, or measure again",
        )


def _changed(content: Any, where: str) -> LogError:
    """The error of a line that is not as it was written."""
    kind = content.get("type") if isinstance(content, dict) else None
    number = content.get("number") if isinstance(content, dict) else None
    name = f"trial {number}" if kind == "trial" else f"the record {kind!r}"
    name = name if len(name) < _SHOWN else f"{name[:_SHOWN]}..."
    return LogError(
        f"{name} is not as it was written: its checksum does not match; the line was edited, or "
        "one before it was edited, taken away, put in or moved",
        where=where,
        cure="restore the log from a copy, or measure again; no number of it is used, but by "
        "`vnetperf report --up-to-damage`, which takes the records before that line",
    )


def _no_record(error: Exception, where: str) -> LogError:
    detail = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    damaged = "the log was damaged or edited; restore it from a copy, measure again, or have the "
    damaged += "records before that line by `vnetperf report --up-to-damage`"
    unknown = {"union_tag_invalid", "extra_forbidden"}
    if isinstance(error, ValidationError) and unknown & {e["type"] for e in error.errors()}:
        damaged = f"use the vnetperf that wrote it, which may be newer; otherwise {damaged}"
    return LogError(f"this line is no record: {detail}", where=where, cure=damaged)
