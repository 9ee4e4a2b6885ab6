"""The trial log: one JSON record a line, chained by digests so that a changed line is detected."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vnetperf.model.errors import ConfigError, LogError, VnetperfError
from vnetperf.results.records import LOG_VERSION, SEALED_SINCE, BeginRecord, Record, TrialRecord

_DIGITS = 16
_SEAL = re.compile(rb',"digest":"([0-9a-f]{%d})"\}$' % _DIGITS)


def digest_of(body: bytes, before: str) -> str:
    """Digest of a line."""
    return sha256(before.encode() + b"\n" + body).hexdigest()[:_DIGITS]


def seal(body: bytes, before: str) -> tuple[bytes, str]:
    """Put a record's digest into its line."""
    digest = digest_of(body, before)
    return b'%s,"digest":"%s"}' % (body[:-1], digest.encode()), digest


def unseal(line: bytes) -> tuple[bytes, str]:
    """Take the digest out of a line again."""
    found = _SEAL.search(line)
    if found is None:
        return line, ""
    return line[: found.start()] + b"}", found[1].decode()


LOG_NAME = "trials.jsonl"
_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


class TrialLog:
    """A log being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        held = read_log(path) if path.exists() else []
        self._trials = max((r.number for r in held if isinstance(r, TrialRecord)), default=0)
        self._searches = max((r.search for r in held if isinstance(r, BeginRecord)), default=0)
        mend_end(path)
        self._digest = _last_digest(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def next_trial(self) -> int:
        """Number for the next trial."""
        self._trials += 1
        return self._trials

    def next_search(self) -> int:
        """Number for the next search."""
        self._searches += 1
        return self._searches

    def append(self, record: Record) -> None:
        """Write a record."""
        line, self._digest = seal(record.model_dump_json().encode(), self._digest)
        os.write(self._fd, line + b"\n")  # one write: a line is whole or cut, never mixed
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1


def lines_of(records: Iterable[Record]) -> Iterator[bytes]:
    """The lines of a log that holds records."""
    digest = ""
    for record in records:
        line, digest = seal(record.model_dump_json().encode(), digest)
        yield line + b"\n"


def read_log(path: Path) -> list[Record]:
    """Read a log.

    A last line cut in the middle is what a killed run leaves; it is left out. Anything else that
    is no record is damage, and so is a line that is not as it was written.
    """
    return list(_read(path))


def _read(path: Path) -> Iterator[Record]:
    lines = _lines(path)
    written = LOG_VERSION  # by the record that opened the log, or opened it again
    before = ""
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        where = f"{path}:{number}"
        torn = number == len(lines)  # a whole line is followed by an empty piece
        body, digest = unseal(line)
        try:
            content = json.loads(body)
            if isinstance(content, dict) and content.get("type") == "run":
                written = _version(content, where)
            is_sealed = digest or before or written >= SEALED_SINCE
            if is_sealed and digest != digest_of(body, before):
                raise _changed(content, where)
            record = _RECORD.validate_python(content)
        except (json.JSONDecodeError, UnicodeDecodeError, ValidationError, ConfigError) as error:
            if torn:
                return
            raise _no_record(error, written, where) from None
        before = digest
        yield record


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")
    except OSError as error:
        raise LogError(
            f"the trial log cannot be read: {error.strerror}",
            where=str(path),
            cure=f"name a results folder that holds {LOG_NAME}",
        ) from error


def _version(content: dict[str, Any], where: str) -> int:
    """Version of the log's layout, by a record that opens it."""
    version = content.get("version", LOG_VERSION)
    if not isinstance(version, int):
        return LOG_VERSION
    if version > LOG_VERSION:
        raise LogError(
            f"written by a newer vnetperf (log version {version} > {LOG_VERSION})",
            where=where,
            cure="use the vnetperf that wrote it, or a newer one",
        )
    return version


def _changed(content: Any, where: str) -> LogError:
    """The error of a line that is not as it was written."""
    kind = content.get("type") if isinstance(content, dict) else None
    number = content.get("number") if isinstance(content, dict) else None
    what = f"trial {number}" if kind == "trial" else f"the record {kind!r}"
    return LogError(
        f"{what} is not as it was written: its checksum does not match; the line was edited, or "
        "one before it was edited, taken away, put in or moved",
        where=where,
        cure="restore the log from a copy, or measure again; no number of it is used",
    )


def _no_record(error: Exception, written: int, where: str) -> LogError:
    detail = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    if written < LOG_VERSION:
        return LogError(
            f"written by an older vnetperf (log version {written} < {LOG_VERSION}), and "
            f"this line is no record any more: {detail}",
            where=where,
            cure="use the vnetperf that wrote it, or measure again",
        )
    return LogError(
        f"this line is no record: {detail}",
        where=where,
        cure="the log was damaged or edited; restore it from a copy, or measure again",
    )


def _last_digest(path: Path) -> str:
    """Digest of the last line, for the next one to go on from."""
    content = path.read_bytes() if path.exists() else b""
    return unseal(content.removesuffix(b"\n").rpartition(b"\n")[2])[1]


def mend_end(path: Path) -> None:
    """Make a log ready to be appended to: end its last line, or take it away if it was cut."""
    content = path.read_bytes() if path.exists() else b""
    if not content or content.endswith(b"\n"):
        return
    with path.open("r+b") as file:
        try:
            _RECORD.validate_json(unseal(content.rpartition(b"\n")[2])[0])
        except (ValidationError, VnetperfError):
            file.truncate(content.rfind(b"\n") + 1)
        else:  # only its end is missing: `read_log` takes it for a record
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
