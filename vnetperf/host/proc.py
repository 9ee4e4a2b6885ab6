"""Threads as /proc lists them: a deployment's busy ones, and the kernel's that forward frames.

Hundreds of files are read around each trial, so that each is read with as few calls as possible.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from vnetperf.host.linux import read_file
from vnetperf.host.threads import Thread, list_threads
from vnetperf.model.machine_load import SOFTIRQ_THREAD
from vnetperf.model.scenario import Pollers


def busy_threads(pollers: tuple[Pollers, ...]) -> Iterator[tuple[Pollers, Thread]]:
    """Find the busy threads of a deployment."""
    for poller in pollers:
        for thread in list_threads(poller.pid):
            if thread.name.startswith(poller.thread_prefix):
                yield poller, thread


#: Beginnings of the names of the kernel's threads that do its work for frames.
_NAPI_THREAD, _VHOST_THREAD = "napi/", "vhost-"
_KERNEL_THREADS = (SOFTIRQ_THREAD, _NAPI_THREAD, _VHOST_THREAD)
#: Flag of a thread that the kernel has started, of stat's field 9 (linux/sched.h).
_PF_KTHREAD = 0x00200000
#: Numbers of all threads that kthreadd, which is process 2, has started, where the kernel lists it.
_KTHREADS = "proc/2/task/2/children"
#: What such a thread is called until it has its own name.
_NAMELESS = "kthreadd"
#: Those seen to have other names, by root, with the inodes of their folders: a thread keeps its
#: name, and of all files that are read around a trial these were most. The next thread that has the
#: number has another inode, which takes a third of the time of a name.
_OTHER_KTHREADS: dict[Path, dict[int, int]] = {}


def kernel_threads(pollers: tuple[Pollers, ...], root: Path = Path("/")) -> Iterator[Thread]:
    """Find the kernel's threads that do its work for frames, but for those that are pollers.

    Of vhost threads only the deployment's own count. Up to Linux 6.3 they are processes that have
    the number of the guest's in their names, then threads of it.
    """
    poller_pids = {poller.pid for poller in pollers}
    numbers = {int(word) for word in read_or_empty(root / _KTHREADS).split()}
    others = _OTHER_KTHREADS.get(root, {})
    listed = bool(numbers)
    if not listed:
        with os.scandir(root / "proc") as entries:
            numbers = {int(entry.name) for entry in entries if entry.name.isdecimal()}
    unrelated: dict[int, int] = {}
    for number in sorted(numbers - poller_pids):
        inode = read_inode(f"{root}/proc/{number}") if listed else None
        if inode is not None and others.get(number) == inode:
            unrelated[number] = inode
            continue
        # Names alone first: of all threads' files `stat` would take most of the time of watching.
        name = read_or_empty(f"{root}/proc/{number}/comm").rstrip("\n")
        if not name.startswith(_KERNEL_THREADS):
            if inode is not None and name not in ("", _NAMELESS):
                unrelated[number] = inode
            continue
        fields = read_stat(f"{root}/proc/{number}")
        if len(fields) <= STAT_FLAGS or not int(fields[STAT_FLAGS]) & _PF_KTHREAD:
            continue  # a program may have any name
        if name.partition("-")[0] != "vhost" or name.partition("-")[2] in map(str, poller_pids):
            yield Thread(number, name, frozenset())
    if listed:
        _OTHER_KTHREADS[root] = unrelated
    for pid in sorted(poller_pids):
        yield from (thread for thread in list_threads(pid) if thread.name.startswith(_VHOST_THREAD))


#: Places in /proc/TID/stat, proc(5), among the fields after the parenthesised name.
STAT_PARENT = 1
STAT_FLAGS, STAT_USER, STAT_SYSTEM, STAT_STARTED = 6, 11, 12, 19
STAT_CPU, STAT_GUEST = 36, 40


def read_stat(folder: str) -> list[str]:
    """Fields of a thread's `stat` behind its name."""
    return read_or_empty(f"{folder}/stat").rpartition(")")[2].split()


def read_or_empty(path: Path | str) -> str:
    """Read a text; "" where that is not possible."""
    try:
        return read_file(path)
    except OSError:
        return ""


def read_inode(path: str) -> int | None:
    """The inode of a folder; None where it is gone."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - Path takes as long again, of each thread
    except OSError:
        return None
