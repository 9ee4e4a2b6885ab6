"""Waiting for the kernel's lock on an open file that another process holds for a moment."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable

from vnetperf.model.errors import HostError

POLL_S = 0.02


def take(fd: int, timeout_s: float, busy: Callable[[], HostError]) -> None:
    """Take the lock; closing the file, or `release`, gives it back.

    Args:
        fd: The open file.
        timeout_s: Longest wait, seconds.
        busy: Makes the error for when it is over.

    Raises:
        HostError: As `busy` makes it.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise busy() from None
            time.sleep(POLL_S)
        else:
            return


def release(fd: int) -> None:
    """Give the lock back.

    Args:
        fd: The open file.
    """
    fcntl.flock(fd, fcntl.LOCK_UN)
