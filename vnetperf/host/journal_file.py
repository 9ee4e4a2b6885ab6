"""The journal's form on disk: one checked JSON record a line, written so that a kill cannot lie.

A line is on disk (fsync) before the change it announces. So an unreadable *last* line announces
a change that was never made and is dropped; an unreadable line before others is damage and told.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JournalContent:
    """What a journal file says.

    Attributes:
        records: The readable records in order of writing.
        damage: One sentence for each unreadable line that is not the last.
        torn_at: Offset in bytes of a last line that was not written to its end, else None.
        open_line: Whether the last record is whole but lacks its newline.
    """

    records: tuple[Record, ...]
    damage: tuple[str, ...]
    torn_at: int | None
    open_line: bool


def encode(record: Record) -> bytes:
    """One journal line, with its checksum."""
    body = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return json.dumps({"crc": _crc(body), "r": record}, sort_keys=True).encode() + b"\n"


def decode(line: bytes) -> Record | None:
    """The record of a line, or None when the line is not one that `encode` made."""
    try:
        outer = json.loads(line)
        record = outer["r"]
        body = json.dumps(record, sort_keys=True, separators=(",", ":"))
        whole = outer["crc"] == _crc(body)
    except (ValueError, KeyError, TypeError):
        return None
    return record if whole and isinstance(record, dict) else None


def read(path: Path) -> JournalContent:
    """Read a journal, whatever state it is in.

    Args:
        path: The journal.

    Returns:
        Its records, and what is damaged.

    Raises:
        OSError: The file cannot be read at all.
    """
    data = path.read_bytes()
    records: list[Record] = []
    damage: list[str] = []
    torn_at: int | None = None
    offset = 0
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        record = decode(line)
        last = offset + len(line) == len(data)
        if record is not None:
            records.append(record)
        elif last:
            torn_at = offset
        else:
            damage.append(f"line {number} of {path.name} is unreadable ({len(line)} bytes)")
        offset += len(line)
    open_line = torn_at is None and bool(data) and not data.endswith(b"\n")
    return JournalContent(tuple(records), tuple(damage), torn_at, open_line)


def append(fd: int, record: Record) -> None:
    """Write one record and wait until it is on disk.

    Args:
        fd: The journal, opened for appending.
        record: Plain JSON values.

    Raises:
        OSError: The disk refused; the file is then as it was before.
    """
    line = encode(record)
    end = os.fstat(fd).st_size
    try:
        view = memoryview(line)
        while view:
            view = view[os.write(fd, view) :]
        os.fdatasync(fd)
    except OSError:
        os.ftruncate(fd, end)  # half a line before later ones would read as damage
        raise


def repair(fd: int, content: JournalContent) -> None:
    """Make the file end on a whole line, so that more can be appended."""
    if content.torn_at is not None:
        os.ftruncate(fd, content.torn_at)
    elif content.open_line:
        os.write(fd, b"\n")


def sync_directory(directory: Path) -> None:
    """Make the directory's own entries (a new or removed file) last through a power cut."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _crc(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
