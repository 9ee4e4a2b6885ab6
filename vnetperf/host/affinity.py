"""Keeps processors free of other threads for a run, and gives these their processors back."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from vnetperf.host.journal import Journal, UndoData
from vnetperf.host.linux import PROC, read_file

#: Fields of /proc/TID/stat behind the name: the parent, and ticks from boot to the thread's start.
_PARENT, _STARTED = 1, 19
#: Looks for threads that were started meanwhile by one that had not been moved.
_LOOKS = 5


class _Task(NamedTuple):
    tid: int
    pid: int
    parent: int
    started: int
    cpus: frozenset[int]


def free_processors(
    journal: Journal, cpus: Collection[int], keep: Collection[int] = (), *, proc: Path = PROC
) -> int:
    """Move threads off processors for this run, as far as the kernel lets them be moved.

    Threads of the kernel that belong to a processor stay, and so do those that may run nowhere
    else. What a moved thread starts runs where it does.

    Args:
        journal: Where the threads' processors are noted before.
        cpus: Processors to keep free.
        keep: Ids of threads that stay.
        proc: Where the kernel's view of processes is.

    Returns:
        How many threads were moved.
    """
    free, kept, moved = frozenset(cpus), set(keep), 0
    for _ in range(_LOOKS):
        movable = [t for t in _tasks(proc) if t.tid not in kept and t.cpus & free and t.cpus - free]
        if not movable:
            break
        tasks = [[t.tid, t.started, sorted(t.cpus)] for t in movable]
        data = {"free": sorted(free), "since": _ticks(), "tasks": tasks}
        with journal.changing("affinity", f"processors of {len(movable)} threads", data):
            for task in movable:
                moved += _move(task.tid, task.cpus - free)
        kept |= {task.tid for task in movable}
    return moved


def undo_affinity(data: UndoData, *, proc: Path = PROC) -> str:
    """Give threads their processors back, those too that moved ones have started since.

    A thread that has other processors by now than it was given was moved by somebody else. Of one
    that was started since, nobody knows whether it has what it inherited or was given the same.
    """
    free = frozenset(data["free"])
    before = {(tid, started): frozenset(cpus) for tid, started, cpus in data["tasks"]}
    if not before:
        return "none was moved"
    # What a thread that was started since would have without the run: as most of those had.
    reductions = Counter((cpus - free, cpus) for cpus in before.values())
    inherited = {reduced: cpus for (reduced, cpus), _ in reversed(reductions.most_common())}
    restored = 0
    for _ in range(_LOOKS):
        again, tasks = 0, list(_tasks(proc))
        moved = {task.pid for task in tasks if (task.tid, task.started) in before}
        parents = {task.pid: task.parent for task in tasks}
        for task in tasks:
            cpus = before.get((task.tid, task.started))
            if cpus is None and task.started >= data["since"] and _descends(task, moved, parents):
                cpus = inherited.get(task.cpus)
            if cpus is not None and task.cpus == cpus - free:
                again += _move(task.tid, cpus)
        restored += again
        if not again:
            break
    return f"{restored} threads may run on processors {sorted(free)} again"


def _descends(task: _Task, moved: Collection[int], parents: Mapping[int, int]) -> bool:
    """Whether a process is one of some, or was started by one of them or its descendants."""
    pid = task.pid
    while pid:
        if pid in moved:
            return True
        pid = parents.get(pid, 0)
    return False


def _ticks() -> int:
    """Time since boot, as threads' starts are in."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _move(tid: int, cpus: frozenset[int]) -> bool:
    """Whether a thread was moved: it may have ended, or belong to its processor."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(tid, cpus)
        return True
    return False


def _tasks(proc: Path) -> Iterator[_Task]:
    """Every thread of the machine that has not ended meanwhile."""
    for process in proc.glob("[0-9]*"):
        try:
            tids = os.listdir(process / "task")  # noqa: PTH208 - a path for each takes as long again
        except OSError:
            continue
        for tid in tids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = read_file(process / "task" / tid / "stat")
                fields = text.rpartition(")")[2].split()
                yield _Task(
                    *(int(tid), int(process.name), int(fields[_PARENT]), int(fields[_STARTED])),
                    cpus=frozenset(os.sched_getaffinity(int(tid))),
                )
