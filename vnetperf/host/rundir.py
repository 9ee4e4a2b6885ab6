"""The private directory of a run: sockets, databases, logs; gone when the run is undone."""

from __future__ import annotations

from pathlib import Path

from vnetperf.host.files import create_tree, ensure_directory
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots, check_private
from vnetperf.model.errors import HostError

# sun_path holds 108 bytes with the final NUL.
MAX_SOCKET_PATH = 107


class RunDir:
    """One run's directory, mode 0700.

    Args:
        path: The directory itself, ``/run/vnetperf/<run_id>``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, journal: Journal, roots: HostRoots) -> RunDir:
        """Create the directory, journaled, with its subdirectory for logs.

        Args:
            journal: The run's journal; undoing removes the directory.
            roots: Where this machine keeps its state.

        Returns:
            The directory.

        Raises:
            HostError: It exists already, its parent is not private, or the disk refuses.
        """
        missing = [parent for parent in (roots.run, *roots.run.parents) if not parent.exists()]
        for parent in reversed(missing):
            ensure_directory(journal, parent)
        check_private(roots.run)
        path = roots.run / journal.run_id
        create_tree(journal, path)
        rundir = cls(path)
        rundir.subdir("log")
        return rundir

    @property
    def logs(self) -> Path:
        """Where the programs of the run write."""
        return self.path / "log"

    def subdir(self, name: str) -> Path:
        """A subdirectory, made when it is missing."""
        path = self.path / name
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def socket(self, name: str) -> Path:
        """Path for a unix socket, short enough for the kernel.

        Args:
            name: File name.

        Returns:
            The path; nothing is created.

        Raises:
            HostError: The path would be longer than a socket's address can be.
        """
        path = self.path / name
        length = len(str(path).encode())
        if length > MAX_SOCKET_PATH:
            raise HostError(
                f"the path of a socket would have {length} bytes",
                where=str(path),
                accepted=f"up to {MAX_SOCKET_PATH} bytes",
                cure="use a shorter run id or run root",
            )
        return path
