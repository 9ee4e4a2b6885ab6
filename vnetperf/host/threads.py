"""Threads of a process, and the CPUs that each may run on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vnetperf.model.errors import HostError

PROC = Path("/proc")
ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread.

    Attributes:
        tid: Thread id.
        name: Its name (up to 15 bytes), such as ``pmd-c01/id:8``.
        cpus: CPUs it may run on.
    """

    tid: int
    name: str
    cpus: frozenset[int]


def list_threads(pid: int) -> tuple[Thread, ...]:
    """Threads of a process by id; empty when it is gone."""
    threads = []
    for tid in thread_ids(pid):
        with contextlib.suppress(OSError):  # a thread may end while we look
            name = (PROC / f"{pid}/task/{tid}/comm").read_text(errors="replace").strip()
            threads.append(Thread(tid, name, frozenset(os.sched_getaffinity(tid))))
    return tuple(threads)


def thread_ids(pid: int) -> tuple[int, ...]:
    """Thread ids of a process; empty when it is gone."""
    try:
        return tuple(sorted(int(name) for name in os.listdir(PROC / f"{pid}/task")))  # noqa: PTH208
    except OSError:
        return ()


def pin_thread(tid: int, cpus: Iterable[int]) -> None:
    """Bind one thread to CPUs, and verify it.

    Args:
        tid: Thread id.
        cpus: CPU numbers.

    Raises:
        HostError: The thread is gone, or a CPU is offline or not allowed.
    """
    wanted = frozenset(cpus)
    try:
        os.sched_setaffinity(tid, wanted)
        taken = frozenset(os.sched_getaffinity(tid))
    except OSError as error:
        raise _unpinned(tid, wanted, error.strerror or str(error)) from error
    if taken != wanted:
        raise _unpinned(tid, wanted, f"the kernel took only {sorted(taken)}")


def pin_process(pid: int, cpus: Iterable[int]) -> int:
    """Bind all threads of a process to CPUs, also those that start meanwhile.

    Args:
        pid: Process id.
        cpus: CPU numbers.

    Returns:
        How many threads were bound.

    Raises:
        HostError: The process is gone, or a CPU is offline or not allowed.
    """
    wanted = frozenset(cpus)
    bound = for_each_thread(pid, lambda tid: pin_thread(tid, wanted))
    if not bound:
        raise _unpinned(pid, wanted, "it has no threads, it has ended")
    return bound


def for_each_thread(pid: int, action: Callable[[int], None]) -> int:
    """Do something once to each thread, until a look finds no new one.

    Threads that end meanwhile are passed over.

    Args:
        pid: Process id.
        action: Called with the id of each thread.

    Returns:
        How many threads it was done to.
    """
    seen: set[int] = set()
    done = 0
    for _ in range(ROUNDS):
        new = set(thread_ids(pid)) - seen
        if not new:
            break
        for tid in sorted(new):
            try:
                action(tid)
                done += 1
            except HostError:
                if tid in thread_ids(pid):
                    raise
        seen |= new
    return done


def _unpinned(tid: int, cpus: frozenset[int], why: str) -> HostError:
    return HostError(
        f"thread {tid} cannot be bound to CPUs {sorted(cpus)}: {why}",
        accepted=f"among {sorted(os.sched_getaffinity(0))}",
        cure="choose CPUs that are online and allowed by this process's cgroup",
    )
