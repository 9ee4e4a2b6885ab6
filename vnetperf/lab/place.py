"""Where the lab keeps what it makes: its kernel, its proofs, and one directory for each run."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vnetperf.model.errors import HostError


def lab_dir() -> Path:
    """The lab's directory, ``$XDG_CACHE_HOME/vnetperf/lab``; all in it can be made again.

    Returns:
        Its path; it may not exist yet.
    """
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "vnetperf" / "lab"


def make_lab_dir() -> Path:
    """The lab's directory, made when it is missing.

    Returns:
        Its path.

    Raises:
        HostError: It cannot be written.
    """
    path = lab_dir()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"the lab's directory cannot be made: {error.strerror}",
            where=str(path),
            accepted="a directory that you may write to",
            cure="set XDG_CACHE_HOME to one",
        ) from error
    return path


@contextmanager
def run_dir() -> Iterator[Path]:
    """A private directory for one run of the lab, removed at its end.

    Yields:
        Its path.
    """
    runs = make_lab_dir() / "runs"
    runs.mkdir(exist_ok=True)
    _remove_dead(runs)
    path = runs / f"{os.getpid()}-{secrets.token_hex(3)}"
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _remove_dead(runs: Path) -> None:
    """Remove the directories of runs that were killed; their names begin with their pid."""
    for path in runs.iterdir():
        pid = path.name.partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(path, ignore_errors=True)
