"""File systems mounted for a run, in its private directory."""

from __future__ import annotations

import errno
from pathlib import Path

from vnetperf.host import syscalls
from vnetperf.host.files import mounts_below
from vnetperf.host.journal import Change, Journal
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError


def mount(journal: Journal, source: str, target: Path, fstype: str, *, options: str = "") -> Change:
    """Mount a file system on an existing directory for this run.

    Args:
        journal: The run's journal.
        source: Device, or a name for file systems without one.
        target: The directory.
        fstype: E.g. ``hugetlbfs``.
        options: Mount options, comma separated.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: The directory is missing or a mount point already, or the kernel refused.
    """
    if not target.is_dir() or str(target) in mounts_below(target):
        raise HostError(
            "a directory that is there and not yet a mount point is needed",
            where=str(target),
            cure="use a fresh subdirectory of the run directory",
        )
    with journal.changing("mount", f"mount {fstype} on {target}", {"target": str(target)}) as done:
        try:
            syscalls.mount(source, target, fstype, options=options)
        except OSError as error:
            raise HostError(
                f"{fstype} could not be mounted: {error.strerror}",
                where=str(target),
                cure="run as root on a kernel that has this file system",
            ) from error
    return done


def mount_hugetlbfs(journal: Journal, target: Path, size_kb: int) -> Change:
    """Mount a private hugetlbfs, for programs that map hugepages as files (libvirt guests).

    Args:
        journal: The run's journal.
        target: Fresh directory below the run directory.
        size_kb: Page size in kB.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: See `mount`.
    """
    return mount(journal, "none", target, "hugetlbfs", options=f"pagesize={size_kb}K,mode=0700")


def undo_mount(data: Data) -> str:
    """Unmount; what is still open there is detached and goes with its last user."""
    target = Path(data["target"])
    if str(target) not in mounts_below(target):
        return "already gone"
    try:
        syscalls.unmount(target)
    except OSError as error:
        if error.errno == errno.EINVAL:  # somebody unmounted it just now
            return "already gone"
        if error.errno != errno.EBUSY:
            raise
        syscalls.unmount(target, syscalls.MNT_DETACH)
        return "detached, somebody still has files open there"
    return "unmounted"
