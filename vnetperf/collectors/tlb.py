"""Misses of the translation buffers by thread, as far as the processor lets them be counted."""

from __future__ import annotations

import os
from typing import ClassVar

from vnetperf.collectors.base import Collector, busy_threads
from vnetperf.host import perf
from vnetperf.host.perf import Count, Event
from vnetperf.model.errors import HostError
from vnetperf.model.plan import Pollers
from vnetperf.model.trial import ThreadEvents

_DTLB, _ITLB, _READ, _MISS = 3, 4, 0 << 8, 1 << 16


class TlbCollector(Collector[ThreadEvents]):
    """Load misses of the data and of the instruction TLB of each polling thread.

    The kernel chooses the processor's event for it: on Intel's processors, since Haswell, misses of
    all levels that made the processor walk the page tables.
    """

    name: ClassVar[str] = "tlb"
    events: ClassVar[tuple[Event, ...]] = (
        Event("dTLB load misses", perf.HW_CACHE, _DTLB | _READ | _MISS),
        Event("iTLB load misses", perf.HW_CACHE, _ITLB | _READ | _MISS),
    )

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        super().__init__(pollers)
        self._open: list[tuple[str, str, dict[str, int], dict[str, Count]]] = []

    def start(self) -> None:
        """Open the counters of every thread, as many as there are."""
        refused: dict[str, str] = {}
        for poller, thread in busy_threads(self.pollers):
            fds: dict[str, int] = {}
            for event in self.events:
                try:
                    fds[event.name] = perf.open_counter(event, thread.tid)
                except ProcessLookupError:  # it has just ended
                    break
                except HostError as error:
                    refused.setdefault(event.name, error.what)
            if fds:
                self._open.append((poller.role, thread.name, fds, {}))
        self.why = _said(refused, len(self.events))
        for _, _, fds, before in self._open:
            for name, fd in fds.items():
                before[name] = perf.read_counter(fd)

    def stop(self) -> tuple[ThreadEvents, ...]:
        """Read the counters and close them.

        Returns:
            One entry per thread; none where nothing can be counted, and then `why` says why.
        """
        found = []
        for role, thread, fds, before in self._open:
            counts = {name: perf.read_counter(fd).since(before[name]) for name, fd in fds.items()}
            counted = {name: count for name, count in counts.items() if count is not None}
            found.append(ThreadEvents(role=role, thread=thread, counts=counted))
        self._close()
        return tuple(found)

    def _close(self) -> None:
        for _, _, fds, _ in self._open:
            for fd in fds.values():
                os.close(fd)
        self._open = []


def _said(refused: dict[str, str], count: int) -> str:
    """Why events cannot be counted; once when it is the same for all."""
    reasons = set(refused.values())
    if len(refused) == count and len(reasons) == 1:
        return f"not measured: {reasons.pop()}"
    said = "; ".join(f"{name}: {what}" for name, what in refused.items())
    return f"not measured: {said}" if said else ""
