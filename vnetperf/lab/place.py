"""Where the lab keeps what it makes: its kernel, its proofs, and one directory for each run."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vnetperf.host.paths import cache_directory, make_cache
from vnetperf.model.errors import HostError


def lab_dir() -> Path:
    """The lab's directory in the cache; all in it can be made again.

    Returns:
        Its path; it may not exist yet.
    """
    return cache_directory() / "lab"


def make_lab_dir() -> Path:
    """The lab's directory, made when it is missing.

    Returns:
        Its path.

    Raises:
        HostError: It cannot be written.
    """
    return make_cache("lab", "the lab")


@contextmanager
def run_dir() -> Iterator[Path]:
    """A private directory for one run of the lab, removed at its end.

    Yields:
        Its path.

    Raises:
        HostError: It cannot be made.
    """
    path = make_lab_dir() / "runs" / f"{os.getpid()}-{secrets.token_hex(3)}"
    try:
        path.parent.mkdir(exist_ok=True)
        remove_dead(path.parent)
        path.mkdir(mode=0o700)
    except OSError as error:
        raise HostError(
            f"a directory for this run cannot be made: {error.strerror}",
            where=str(path),
            accepted="a disk with room that you may write to",
            cure="set XDG_CACHE_HOME to a directory on one",
        ) from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_dead(folder: Path) -> None:
    """Remove what processes that were killed have left.

    Args:
        folder: Where directories are named by the pid of their maker: ``1234-x``, ``.1234.x``.
    """
    for path in folder.iterdir():
        named = re.match(r"(\d+)-|\.(\d+)\.", path.name)
        if named and not Path(f"/proc/{named[1] or named[2]}").exists():
            shutil.rmtree(path, ignore_errors=True)
