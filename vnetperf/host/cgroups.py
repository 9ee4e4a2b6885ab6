"""Groups of processes that the kernel keeps on chosen processors (cgroup v2, cpuset)."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from vnetperf.host.cpulist import format_cpus
from vnetperf.host.journal import Journal
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

MOUNTS = Path("/proc/self/mounts")
GONE_S = 2.0
#: Joins a group, then becomes the program: threads it starts are in the group from the first.
_JOIN = (
    "import os,sys\n"
    "with open(sys.argv[1], 'w') as procs: procs.write('0')\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


def root(mounts: Path = MOUNTS) -> Path | None:
    """Where the machine's cgroup v2 hierarchy is mounted.

    Args:
        mounts: Table of mounts.

    Returns:
        The directory; None when it is not.
    """
    for line in mounts.read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    return None


def why_no_cpusets(mounts: Path = MOUNTS) -> str:
    """What keeps a run from making cpusets; nothing on the machine is changed to have them.

    Args:
        mounts: Table of mounts.

    Returns:
        "" when it can make them.
    """
    top = root(mounts)
    if top is None:
        return "no cgroup v2 file system is mounted"
    try:
        given = (top / "cgroup.subtree_control").read_text().split()
        there = (top / "cgroup.controllers").read_text().split()
    except OSError as error:
        return f"{top} cannot be read: {error.strerror}"
    if "cpuset" not in there:
        return f"{top} has no cpuset controller (cgroup v1 may have it)"
    if "cpuset" not in given:
        return f"{top}/cgroup.subtree_control does not hand cpuset on"
    return "" if os.access(top, os.W_OK) else f"{top} is read-only"


def create_cpuset(
    journal: Journal, name: str, cpus: Iterable[int], *, mounts: Path = MOUNTS
) -> Path:
    """Make a group whose processes run on some processors only.

    Args:
        journal: The run's journal; undoing removes the group once its processes have ended.
        name: Its name, which no other group of the machine has.
        cpus: Processors.
        mounts: Table of mounts.

    Returns:
        Its directory.

    Raises:
        HostError: The kernel refuses, or gives it other processors.
    """
    top = root(mounts)
    if top is None or (trouble := why_no_cpusets(mounts)):
        trouble = trouble if top else "no cgroup v2 file system is mounted"
        raise HostError(f"no cpuset can be made: {trouble}", where=f"cgroup {name}")
    group, wanted = top / name, format_cpus(cpus)
    with journal.changing("cgroup", f"cgroup {group}", {"path": str(group)}):
        try:
            group.mkdir()
            (group / "cpuset.cpus").write_text(wanted)
            taken = (group / "cpuset.cpus.effective").read_text().strip()
        except OSError as error:
            raise HostError(
                f"the cpuset could not be made: {error.strerror}", where=str(group)
            ) from error
        if taken != wanted:
            raise HostError(
                f"the cpuset asked for processors {wanted} and has {taken or 'none'}",
                where=str(group),
                cure="choose processors that are online and allowed",
            )
    return group


def joining(group: Path, argv: Sequence[str]) -> list[str]:
    """A command that joins a group before it becomes the program.

    Args:
        group: Directory of the group.
        argv: Program and arguments.

    Returns:
        Program and arguments.
    """
    return [sys.executable, "-I", "-S", "-c", _JOIN, str(group / "cgroup.procs"), *argv]


def undo_cgroup(data: Data) -> str:
    """Remove a group; processes that were killed leave it a moment later."""
    group = Path(data["path"])
    deadline = time.monotonic() + GONE_S
    while True:
        try:
            group.rmdir()
            return "removed"
        except FileNotFoundError:
            return "already gone"
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)
