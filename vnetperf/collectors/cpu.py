"""Processor use by thread, from /proc/PID/task/TID/stat and status."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from vnetperf.collectors.base import Collector, busy_threads
from vnetperf.model.plan import Pollers
from vnetperf.model.trial import ThreadLoad


@dataclass(frozen=True, slots=True)
class _Sample:
    name: str
    role: str
    cpu: int
    user_ticks: int
    system_ticks: int
    involuntary: int


class CpuCollector(Collector[ThreadLoad]):
    """User and system time, last processor and involuntary switches of each polling thread.

    The kernel counts time in ticks of 10 ms (at 100 Hz): over a trial of one second a share is
    known to about 1 %.
    """

    name: ClassVar[str] = "cpu"

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        super().__init__(pollers)
        self._before: dict[int, _Sample] = {}
        self._began = 0.0

    def start(self) -> None:
        """Take the first sample."""
        self._before = self._samples()
        self._began = time.monotonic()

    def stop(self) -> tuple[ThreadLoad, ...]:
        """Take the second sample.

        Returns:
            One entry per thread seen both times.
        """
        wall = time.monotonic() - self._began
        ticks = wall * os.sysconf("SC_CLK_TCK")
        if ticks <= 0:
            return ()
        loads = []
        for tid, now in self._samples().items():
            before = self._before.get(tid)
            if before is None:
                continue
            loads.append(
                ThreadLoad(
                    role=now.role,
                    thread=now.name,
                    cpu=now.cpu,
                    user=round((now.user_ticks - before.user_ticks) / ticks, 3),
                    system=round((now.system_ticks - before.system_ticks) / ticks, 3),
                    involuntary_switches=now.involuntary - before.involuntary,
                )
            )
        return tuple(loads)

    def _samples(self) -> dict[int, _Sample]:
        samples = {}
        for poller, thread in busy_threads(self.pollers):
            task = Path(f"/proc/{poller.pid}/task/{thread.tid}")
            # The thread may end while it is read.
            with contextlib.suppress(OSError, ValueError, IndexError):
                samples[thread.tid] = _sample(task, thread.name, poller.role)
        return samples


def _sample(task: Path, name: str, role: str) -> _Sample:
    # Fields after the parenthesised name, proc(5): utime 14, stime 15, processor 39.
    fields = (task / "stat").read_text().rpartition(")")[2].split()
    status = (task / "status").read_text()
    involuntary = int(status.rpartition("nonvoluntary_ctxt_switches:")[2].split()[0])
    return _Sample(name, role, int(fields[36]), int(fields[11]), int(fields[12]), involuntary)
