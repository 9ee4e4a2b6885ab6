"""What others than a deployment take of the processors that its programs run on.

Programs that exchange packets are not pinned one by one, so that what they take is told by
processes and not by processors, as that of the pollers in a trial is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from vnetperf.collectors import MachineSampler, busy_threads, kernel_threads
from vnetperf.host.linux import TICKS_PER_S, ProcessTimes, process_times
from vnetperf.model.machine_load import SOFTIRQ_THREAD, MachineLoad
from vnetperf.model.scenario import Pollers
from vnetperf.virt.container import Container
from vnetperf.virt.endpoint import GuestPlace, Place


def processors_of(places: Iterable[Place]) -> frozenset[int]:
    """Processors that programs at some places may run on; empty where one of them is not pinned."""
    found = [place.cpus if isinstance(place, Container | GuestPlace) else () for place in places]
    return frozenset(cpu for cpus in found for cpu in cpus) if all(found) else frozenset()


def own_seconds(pollers: tuple[Pollers, ...]) -> float:
    """Processor time until now of a deployment's processes, seconds.

    They are those that this process has started, with what has ended of them, those that have
    pollers, and the kernel's threads that forward, but for soft interrupts. Of this process itself
    nothing counts: it has no part in the work.
    """
    every, me = process_times(), os.getpid()
    children: dict[int, list[int]] = {}
    for pid, one in every.items():
        children.setdefault(one.parent, []).append(pid)
    own: set[int] = set()
    left = [me, *(poller.pid for poller in pollers)]
    while left:
        pid = left.pop()
        if pid not in own:
            own.add(pid)
            left += children.get(pid, ())
    kernel = (one for one in kernel_threads(pollers) if not one.name.startswith(SOFTIRQ_THREAD))
    own |= {one.tid for one in kernel}
    nothing = ProcessTimes(parent=0, used=0, ended=0)
    ticks = sum(one.used + one.ended for pid, one in every.items() if pid in own)
    return (ticks - every.get(me, nothing).used) / TICKS_PER_S


class MachineWatch:
    """The whole machine while programs exchange packets, and what others take of their processors.

    Args:
        pollers: Where the deployment's busy threads are.
        cpus: Processors that the programs may run on; empty for all, None where it is not known
            who has started them.
    """

    def __init__(
        self, pollers: tuple[Pollers, ...] = (), cpus: frozenset[int] | None = frozenset()
    ) -> None:
        self._pollers, self._cpus = pollers, cpus
        self._sampler = MachineSampler(pollers)
        self._used = frozenset[int]()
        self._own_s = self._began = 0.0

    def start(self) -> None:
        """Take the first sample."""
        self._sampler.prepare()
        self._used = frozenset(
            cpu for _, thread in busy_threads(self._pollers) for cpu in thread.cpus
        )
        self._own_s = own_seconds(self._pollers)
        self._began = time.monotonic()
        self._sampler.begin()

    def stop(self) -> dict[str, Any]:
        """Take the second one; fields of a transfer."""
        self._sampler.end()
        wall_s = max(time.monotonic() - self._began, 1e-9)
        own_s = own_seconds(self._pollers) - self._own_s
        load = self._sampler.stop()
        if not load.by_processor:
            return {}
        interrupts = sum(one.irq + one.softirq for one in load.by_processor)
        busy = sum(one.busy for one in load.by_processor)
        return {
            "machine_busy_s": round(busy * wall_s, 3),
            "machine_interrupts_s": round(interrupts * wall_s, 3),
            **self._taken(load, own_s / wall_s),
        }

    def _taken(self, load: MachineLoad, own: float) -> dict[str, float]:
        """Shares of the processors that others, and a hypervisor, took; `own` is in processors."""
        if self._cpus is None:
            return {}
        wanted = self._cpus | self._used if self._cpus else frozenset()
        there = [one for one in load.by_processor if one.cpu in wanted or not wanted]
        if not there:
            return {}
        interrupts = sum(one.irq + one.softirq for one in there)
        # Else what came upon a process is in its time, too.
        known = own + interrupts if load.interrupts_apart else max(own, interrupts)
        others = max(0.0, sum(one.busy for one in there) - known) / len(there)
        return {"others": round(others, 4), "stolen": max(one.steal for one in there)}
