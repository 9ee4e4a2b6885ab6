"""Waiting for a lock that another has for a moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vnetperf.host import locks
from vnetperf.model.errors import HostError


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Two openings of one file, as two processes would have them."""
    path = tmp_path / "lock"
    path.touch()
    fds = (os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY))
    yield fds
    for fd in fds:
        os.close(fd)


def busy() -> HostError:
    return HostError("somebody has it")


def test_it_is_waited_for_and_then_had(two: tuple[int, int]) -> None:
    mine, theirs = two
    locks.lock_file(theirs, 0, busy)
    timer = threading.Timer(0.1, locks.unlock_file, (theirs,))
    timer.start()
    locks.lock_file(mine, 20, busy)
    timer.join()
    with pytest.raises(HostError, match="somebody has it"):
        locks.lock_file(theirs, 0.05, busy)
