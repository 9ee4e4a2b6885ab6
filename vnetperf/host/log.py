"""Log records: their format, the log file of a run, and their way from the agent to the controller.

Every module logs to the logger of its own name, so that one level or handler at ``vnetperf``
serves them all. Commands, changes, ports and trials are INFO, waits and requests are DEBUG.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vnetperf.host.paths import open_regular

ROOT = logging.getLogger("vnetperf")
LINE = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
LAST_LINES = 8
#: Attributes of a record that travel to the controller, besides its message.
FORWARDED = ("name", "levelno", "levelname", "created", "filename", "lineno")


class UtcFormatter(logging.Formatter):
    """Times in UTC, ISO 8601 with milliseconds."""

    def formatTime(  # noqa: N802 - the name is that of logging
        self, record: logging.LogRecord, datefmt: str | None = None
    ) -> str:
        """The time of a record."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class ForwardingHandler(logging.Handler):
    """The agent's side of the way: hands each record over as plain values."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record over; when the controller has gone nobody reads it."""
        values = {key: getattr(record, key) for key in FORWARDED}
        with contextlib.suppress(OSError, EOFError):
            self._send({**values, "msg": record.getMessage()})


def replay_record(data: Mapping[str, Any]) -> None:
    """The controller's side of the way: log a record, if root's level admits it, as if made here.

    The log of the run takes every record.
    """
    record = logging.makeLogRecord(dict(data))
    if record.levelno >= logging.getLogger().level:
        logging.getLogger(record.name).handle(record)
        return
    for handler in _run_logs():
        handler.handle(record)


def _run_logs() -> list[logging.Handler]:
    return [handler for handler in ROOT.handlers if isinstance(handler, RunLog)]


class RunLog(logging.Handler):
    """The log file of a run; while it is open, the controller's own records are made from INFO."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        # Unbuffered: what a full disk refuses is not kept.
        self._file = os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab", 0)
        os.fchmod(self._file.fileno(), 0o600)
        self._unwritten = 0
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._failed = False
        self.setFormatter(UtcFormatter(LINE))
        for other in _run_logs():
            other.close()  # a process has one run at a time
        ROOT.addHandler(self)
        ROOT.setLevel(min(logging.INFO, logging.getLogger().level))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        text = self.format(record)
        self._write(text)
        self._failed = self._failed or record.levelno >= logging.ERROR
        if record.levelno >= logging.INFO and not self._failed:
            self._last.append(record.getMessage())

    def _write(self, text: str) -> None:
        """Write a line; one that cannot be written stops nothing, and is counted."""
        if self._unwritten:
            text = f"\n({self._unwritten} records before could not be written)\n{text}"
        line = f"{text}\n".encode(errors="backslashreplace")
        try:
            is_complete = self._file.write(line) == len(line)
        except (OSError, ValueError):  # no space, or closed
            is_complete = False
        self._unwritten = 0 if is_complete else self._unwritten + 1

    def forget_lines(self) -> None:
        """Begin something new: `last_lines` are of what follows."""
        self._last.clear()
        self._failed = False

    def last_lines(self) -> str:
        """The last records before the first error, without the waits, for its message."""
        return "\n".join(f"    {line}" for line in self._last)

    def close(self) -> None:
        """End the file; calling it again does nothing."""
        ROOT.removeHandler(self)
        ROOT.setLevel(logging.NOTSET)
        self._file.close()
        super().close()
