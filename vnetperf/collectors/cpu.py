"""Collector `cpu`: what each polling thread, and each of the kernel's that forwards, has run."""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from vnetperf.host.cpu import read_cpus
from vnetperf.host.linux import counts_running_time, parse_number
from vnetperf.host.proc import (
    STAT_CPU,
    STAT_GUEST,
    STAT_STARTED,
    STAT_SYSTEM,
    STAT_USER,
    kernel_threads,
    read_or_empty,
    read_stat,
)
from vnetperf.host.threads import Thread
from vnetperf.model.machine_load import KERNEL, ThreadLoad, counted_since
from vnetperf.model.scenario import Pollers
from vnetperf.plugin.collector import Collector, busy_threads


@dataclass(frozen=True, slots=True)
class _Sample:
    time_s: float
    name: str
    role: str
    started: int
    cpu: int
    user_ticks: int
    system_ticks: int
    guest_ticks: int
    involuntary: int
    voluntary: int
    run_ns: int | None
    wait_ns: int | None


class CpuCollector(Collector[ThreadLoad]):
    """Time, last processor and switches of each polling thread, and of the kernel's.

    User, system and guest time come in ticks of 10 ms (at 100 Hz): over a trial of one second a
    share is known to about 1 %. The time that a thread ran, and waited to run, is the scheduler's
    own, in nanoseconds. Of the kernel's threads those that ran at all are reported.
    """

    name: ClassVar[str] = "cpu"

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        super().__init__(pollers)
        self._threads: dict[int, tuple[str, Thread]] = {}
        self._before: dict[int, _Sample] = {}
        self._tickless = frozenset[int]()

    def start(self) -> None:
        """Find the threads, which are looked for in each trial anew, and take the first sample."""
        pollers = ((poller.role, thread) for poller, thread in busy_threads(self.pollers))
        of_kernel = ((KERNEL, thread) for thread in kernel_threads(self.pollers))
        self._tickless = tickless_processors()
        self._threads = {thread.tid: (role, thread) for role, thread in (*pollers, *of_kernel)}
        self._before = self._samples()

    def stop(self) -> tuple[ThreadLoad, ...]:
        """Take the second sample."""
        loads = []
        for tid, now in self._samples().items():
            before = self._before.get(tid)
            if before is None or before.started != now.started:
                continue  # another thread, with the number of one that has ended
            # To read all of them takes milliseconds where they are many.
            wall = now.time_s - before.time_s
            ticks = wall * os.sysconf("SC_CLK_TCK")
            run_ns = _ran_ns(before, now, self._tickless)
            wait_ns = counted_since(before.wait_ns, now.wait_ns)
            worked = now.user_ticks + now.system_ticks - before.user_ticks - before.system_ticks
            if now.role == KERNEL and not (worked if run_ns is None else run_ns):
                continue
            loads.append(
                ThreadLoad(
                    role=now.role,
                    thread=now.name,
                    cpu=now.cpu,
                    user=round((now.user_ticks - before.user_ticks) / ticks, 3),
                    system=round((now.system_ticks - before.system_ticks) / ticks, 3),
                    guest=round((now.guest_ticks - before.guest_ticks) / ticks, 3),
                    involuntary_switches=now.involuntary - before.involuntary,
                    voluntary_switches=now.voluntary - before.voluntary,
                    run_s=None if run_ns is None else run_ns / 1e9,
                    wait_s=None if wait_ns is None else wait_ns / 1e9,
                    watched_s=round(wall, 6),
                )
            )
        return tuple(loads)

    def _samples(self) -> dict[int, _Sample]:
        samples = {}
        for role, thread in self._threads.values():
            # The thread may end while it is read.
            with contextlib.suppress(ValueError, IndexError):
                task = f"/proc/{thread.tid}/task/{thread.tid}"
                samples[thread.tid] = _sample(task, thread.name, role)
        return samples


#: The first kernel that brings a running thread's times up to date where they are read, also on a
#: processor without ticks ("sched/cputime: Fix getrusage(RUSAGE_THREAD) with nohz_full").
_READ_UP_TO_DATE = (5, 16)


def tickless_processors(root: Path = Path("/")) -> frozenset[int]:
    """Find the processors without a timer tick while one thread runs (nohz_full)."""
    return frozenset(read_cpus(root / "sys/devices/system/cpu/nohz_full"))


def _ran_ns(before: _Sample, now: _Sample, tickless: frozenset[int]) -> int | None:
    """What a thread ran between samples; None: not known.

    The scheduler's count of a running thread is as old as the last tick, which is up to a second
    on a processor without them. Its times in /proc/TID/stat are of now, in 10 ms.
    """
    if not {before.cpu, now.cpu} & tickless:
        return counted_since(before.run_ns, now.run_ns)
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < _READ_UP_TO_DATE:
        return None
    earlier, later = before.user_ticks + before.system_ticks, now.user_ticks + now.system_ticks
    return round((later - earlier) * 1e9 / os.sysconf("SC_CLK_TCK"))


def _sample(task: str, name: str, role: str) -> _Sample:
    fields = read_stat(task)
    status = read_or_empty(f"{task}/status")
    involuntary = int(status.rpartition("nonvoluntary_ctxt_switches:")[2].split()[0])
    voluntary = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    # Nanoseconds that it ran and that it waited for a processor.
    words = read_or_empty(f"{task}/schedstat").split() if _tells_running_time() else ()
    ran = [*map(parse_number, words)]
    return _Sample(
        time_s=time.monotonic(),
        name=name,
        role=role,
        started=int(fields[STAT_STARTED]),
        cpu=int(fields[STAT_CPU]),
        user_ticks=int(fields[STAT_USER]),
        system_ticks=int(fields[STAT_SYSTEM]),
        guest_ticks=int(fields[STAT_GUEST]),
        involuntary=involuntary,
        voluntary=voluntary,
        run_ns=ran[0] if len(ran) > 1 else None,
        wait_ns=ran[1] if len(ran) > 1 else None,
    )


@cache
def _tells_running_time() -> bool:
    """Asked once: it is a matter of the kernel's configuration."""
    return counts_running_time()
