"""Runs a program under a terminal of its own, and copies what it writes there to standard output.

Pktgen draws a screen: without a terminal it does not start, and with one that nobody reads it
stops. This runs as a process of its own, so that reading never waits for anything else, and so that
the program ends (SIGHUP) when this is killed.
"""

from __future__ import annotations

import os
import pty
import signal
import sys
from types import FrameType

#: Most octets kept; a screen that is drawn for days must not fill a disk.
KEEP = 4 << 20


def main(argv: list[str]) -> int:
    """Start the program, copy its output, wait for its end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(argv[0], argv)  # noqa: S606 - the caller's program

    def end(number: int, frame: FrameType | None) -> None:
        os.kill(pid, number)

    signal.signal(signal.SIGTERM, end)
    _copy(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status < 0:  # end as it did: whoever waits for this sees the same signal
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    return status


def _copy(terminal: int) -> None:
    written = 0
    while True:
        try:
            octets = os.read(terminal, 65536)
        except OSError:  # EIO: the other end is closed
            return
        if not octets:
            return
        if written + len(octets) > KEEP:
            os.ftruncate(sys.stdout.fileno(), 0)
            written = 0
        written += os.write(sys.stdout.fileno(), octets)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
