"""Where this machine keeps what vnetperf must remember; tests give other roots."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostRoots:
    """The directories of vnetperf on a machine. All of them are root's, mode 0700.

    Attributes:
        state: Survives a reboot: journals and locks.
        run: Parent of the run directories; short, since sockets live below it.
    """

    state: Path = Path("/var/lib/vnetperf")
    run: Path = Path("/run/vnetperf")

    @property
    def journals(self) -> Path:
        """Directory of the journals, ``<run_id>.jsonl``."""
        return self.state / "journal"

    @property
    def locks(self) -> Path:
        """Directory of the testbed locks, ``<testbed>.lock``."""
        return self.state / "lock"

    def journal(self, run_id: str) -> Path:
        """Path of one run's journal."""
        return self.journals / f"{run_id}.jsonl"

    def lock(self, testbed: str) -> Path:
        """Path of one testbed's lock file."""
        return self.locks / f"{testbed}.lock"


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, each mode 0700.

    Another run that ends at this moment removes the parents when they are empty, so a vanished
    parent is made again.
    """
    while True:
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            return
        except FileNotFoundError:
            make_private(directory.parent)
        except FileExistsError:  # it was there, and went away before it could be looked at
            if directory.exists() and not directory.is_dir():
                raise


def remove_if_empty(*directories: Path) -> None:
    """Remove each directory, in the order given, that is there and empty."""
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()
