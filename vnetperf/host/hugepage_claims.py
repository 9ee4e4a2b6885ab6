"""Which run added how many hugepages: read from the journals of all runs that have not ended."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from vnetperf.host import flock, journal_file, undoing
from vnetperf.host.identity import boot_id
from vnetperf.host.journal import Journal
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

#: Longest wait for another process that is changing the same pool, seconds.
TURN_S = 30.0


def make(journal: Journal, directory: Path, total: int) -> dict[str, str | int]:
    """What undoing needs to tell a run's pages from those of others; the caller has the turn.

    Args:
        journal: The run's journal.
        directory: The pool in sysfs.
        total: Pages in the pool before the run adds any.

    Returns:
        ``journals``, where the others' claims are; ``claim``, to know the own one; ``floor``, pages
        that no run added.
    """
    others = _all(journal.path.parent, directory)
    floor = total - sum(map(added, others))
    # One that was announced and never made must not push it below what there was at first.
    least = min((int(other["floor"]) for other in others), default=floor)
    return {
        "journals": str(journal.path.parent),
        "claim": secrets.token_hex(8),
        "floor": max(floor, least),
    }


def added(data: Data) -> int:
    """Pages that a change adds."""
    return int(data["wanted"]) - int(data["previous"])


def lowest(data: Data, directory: Path) -> int:
    """Pages that must stay when a change is undone: nobody's, and those that others claim.

    Args:
        data: The change.
        directory: The pool in sysfs.

    Returns:
        Pages.
    """
    if "claim" not in data:  # of an earlier version
        return int(data["previous"])
    others = [o for o in _all(Path(data["journals"]), directory) if o["claim"] != data["claim"]]
    return int(data["floor"]) + sum(map(added, others))


def _all(journals: Path, directory: Path) -> list[Data]:
    """Changes of a pool, by any run since the machine was booted, that are not undone."""
    found: list[Data] = []
    for path in journals.glob("*.jsonl"):
        with contextlib.suppress(OSError):  # that run has just ended
            for record in undoing.pending(journal_file.read(path).records):
                data = record["data"]
                mine = record["kind"] == "hugepages" and record["boot"] == boot_id()
                if mine and data["directory"] == str(directory) and "claim" in data:
                    found.append(data)
    return found


@contextlib.contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Hold a pool against other processes that would read and write it at the same time.

    Args:
        directory: The pool in sysfs.

    Raises:
        HostError: The pool is gone, or another process does not let go of it.
    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(
            f"cannot be opened: {error.strerror}",
            where=str(directory),
            cure="check that this kernel still has these pages, and run as root",
        ) from error
    try:
        flock.take(
            fd,
            TURN_S,
            lambda: HostError(
                f"another process has been changing this pool for {TURN_S:.0f} s",
                where=str(directory),
                cure="wait for it, or find and end it",
            ),
        )
        yield
    finally:
        os.close(fd)
