"""Collector `events`: what the processor's counters count of each polling thread."""

from __future__ import annotations

import os
from typing import ClassVar

from vnetperf.host import threads
from vnetperf.host.threads import PerfCount, PerfEvent
from vnetperf.model.errors import HostError
from vnetperf.model.machine_load import ThreadEvents
from vnetperf.model.scenario import Pollers
from vnetperf.plugin.collector import Collector, busy_threads

_DTLB, _ITLB, _READ, _MISS = 3, 4, 0 << 8, 1 << 16


class EventCollector(Collector[ThreadEvents]):
    """Cycles, instructions, cache misses and TLB load misses of each polling thread.

    The kernel chooses the processor's events: "cache misses" are those of the last level; misses of
    a TLB are, on Intel's processors since Haswell, those of all levels that made the processor walk
    the page tables. A thread that polls spends cycles and instructions without frames too.
    """

    name: ClassVar[str] = "events"
    events: ClassVar[tuple[PerfEvent, ...]] = (
        threads.CYCLES,
        PerfEvent("instructions", threads.PERF_HARDWARE, 1),
        PerfEvent("cache misses", threads.PERF_HARDWARE, 3),
        PerfEvent("dTLB load misses", threads.PERF_HW_CACHE, _DTLB | _READ | _MISS),
        PerfEvent("iTLB load misses", threads.PERF_HW_CACHE, _ITLB | _READ | _MISS),
    )

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        super().__init__(pollers)
        self._open: list[tuple[str, str, dict[str, int], dict[str, PerfCount]]] = []

    def start(self) -> None:
        """Open the counters of every thread, as many as there are."""
        refused: dict[str, str] = {}
        if threads.CYCLES in self.events and (reason := threads.explain_no_counts()):
            self.reason = f"not measured: {reason}"
            return
        for poller, thread in busy_threads(self.pollers):
            fds: dict[str, int] = {}
            for event in self.events:
                try:
                    fds[event.name] = threads.open_counter(event, thread.tid)
                except ProcessLookupError:  # it has just ended
                    break
                except HostError as error:
                    refused.setdefault(event.name, error.what)
            if fds:
                self._open.append((poller.role, thread.name, fds, {}))
        self.reason = _not_measured(refused, len(self.events))
        for _, _, fds, before in self._open:
            for name, fd in fds.items():
                before[name] = threads.read_counter(fd)

    def stop(self) -> tuple[ThreadEvents, ...]:
        """Read the counters and close them."""
        thread_events = []
        for role, thread, fds, before in self._open:
            counts = {
                name: threads.read_counter(fd).since(before[name]) for name, fd in fds.items()
            }
            counted = {name: count for name, count in counts.items() if count is not None}
            thread_events.append(ThreadEvents(role=role, thread=thread, counts=counted))
        self._close()
        return tuple(thread_events)

    def _close(self) -> None:
        for _, _, fds, _ in self._open:
            for fd in fds.values():
                os.close(fd)
        self._open = []

    def __del__(self) -> None:
        """Close what a trial that failed has left open: it would take the next ones' turns."""
        self._close()


def _not_measured(refused: dict[str, str], count: int) -> str:
    """Why events cannot be counted; once when it is the same for all."""
    reasons = set(refused.values())
    if len(refused) == count and len(reasons) == 1:
        return f"not measured: {reasons.pop()}"
    details = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return f"not measured: {details}" if details else ""
