"""Directories that a run makes, journaled."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from vnetperf.host.journal import Change, Journal, UndoData
from vnetperf.host.linux import read_mounts
from vnetperf.model.errors import HostError

PROC_MOUNTS = Path("/proc/self/mountinfo")


def create_tree(journal: Journal, path: Path) -> Change:
    """Create a directory that, with all that will be in it, is removed on undo."""
    if os.path.lexists(path):
        raise HostError(
            "it exists already and is not ours to replace",
            where=str(path),
            cure="choose another name, or remove it if it is a leftover",
        )
    return _create(journal, "tree", path, exist_ok=False)


def ensure_directory(journal: Journal, path: Path) -> Change | None:
    """Create a shared directory if it is missing; undoing removes it only once it is empty."""
    return None if path.is_dir() else _create(journal, "directory", path, exist_ok=True)


def _create(journal: Journal, kind: str, path: Path, *, exist_ok: bool) -> Change:
    with (
        journal.changing(kind, f"create {path}/", {"path": str(path)}) as change,
        HostError.explain_os_error(
            "cannot be created", where=str(path), cure="check free space and that you are root"
        ),
    ):
        path.mkdir(mode=0o700, exist_ok=exist_ok)
    return change


def undo_tree(data: UndoData) -> str:
    """Remove a file or a directory with all that is in it, but never what is mounted there."""
    path = Path(data["path"])
    mounted = mounts_below(path)
    if mounted:
        raise HostError(
            f"{', '.join(mounted)} is still mounted: not removed, so that its content is safe",
            where=str(path),
            cure="unmount it, then run `vnetperf restore`",
        )
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
    else:
        return "already gone"
    return "removed"


def undo_directory(data: UndoData) -> str:
    """Remove a shared directory that nobody uses any more."""
    path = Path(data["path"])
    with contextlib.suppress(OSError):
        path.rmdir()
        return "removed"
    return "kept, others use it" if path.exists() else "already gone"


def mounts_below(path: Path) -> list[str]:
    """Mount points at or below a path, deepest last."""
    targets = (words[4] for words in read_mounts(PROC_MOUNTS))
    return sorted(t for t in targets if t == str(path) or t.startswith(f"{path}/"))
