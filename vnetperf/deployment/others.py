"""What others than a deployment take of the processors that its programs run on.

Programs that exchange packets are not pinned one by one, so that what they take is told by
processes and not by processors, as that of the pollers in a trial is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from vnetperf.host.linux import TICKS_PER_S, ProcessTimes, process_times
from vnetperf.host.machine_load import MachineSampler
from vnetperf.host.proc import busy_threads, kernel_threads
from vnetperf.model.machine_load import SOFTIRQ_THREAD, MachineLoad
from vnetperf.model.scenario import Pollers
from vnetperf.virt.container import Container
from vnetperf.virt.endpoint import GuestPlace, Place


def list_processors(places: Iterable[Place]) -> frozenset[int]:
    """Processors that programs at some places may run on; empty where one of them is not pinned."""
    cpus_by_place = [
        place.cpus if isinstance(place, Container | GuestPlace) else () for place in places
    ]
    if not all(cpus_by_place):
        return frozenset()
    return frozenset(cpu for cpus in cpus_by_place for cpu in cpus)


def measure_processor_time(pollers: tuple[Pollers, ...]) -> float:
    """Processor time until now of a deployment's processes, seconds.

    They are those that this process has started, with what has ended of them, those that have
    pollers, and the kernel's threads that forward, but for soft interrupts. Of this process itself
    nothing counts: it has no part in the work.
    """
    processes, me = process_times(), os.getpid()
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    pids: set[int] = set()
    waiting = [me, *(poller.pid for poller in pollers)]
    while waiting:
        pid = waiting.pop()
        if pid not in pids:
            pids.add(pid)
            waiting += children.get(pid, ())
    pids |= {
        thread.tid
        for thread in kernel_threads(pollers)
        if not thread.name.startswith(SOFTIRQ_THREAD)
    }
    nothing = ProcessTimes(parent=0, used=0, ended=0)
    ticks = sum(process.used + process.ended for pid, process in processes.items() if pid in pids)
    return (ticks - processes.get(me, nothing).used) / TICKS_PER_S


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
        self._own_s = measure_processor_time(self._pollers)
        self._began = time.monotonic()
        self._sampler.begin()

    def stop(self) -> dict[str, Any]:
        """Take the second one; fields of a transfer."""
        self._sampler.end()
        wall_s = max(time.monotonic() - self._began, 1e-9)
        own_s = measure_processor_time(self._pollers) - self._own_s
        load = self._sampler.stop()
        if not load.by_processor:
            return {}
        interrupts = sum(processor.irq + processor.softirq for processor in load.by_processor)
        busy = sum(processor.busy for processor in load.by_processor)
        return {
            "machine_busy_s": round(busy * wall_s, 3),
            "machine_interrupts_s": round(interrupts * wall_s, 3),
            **self._compute_shares(load, own_s / wall_s),
        }

    def _compute_shares(self, load: MachineLoad, own_processors: float) -> dict[str, float]:
        if self._cpus is None:
            return {}
        cpus = self._cpus | self._used if self._cpus else frozenset[int]()
        return compute_shares(load, cpus, own_processors)


def compute_shares(
    load: MachineLoad, cpus: frozenset[int], own_processors: float
) -> dict[str, float]:
    """Compute the shares of processors that others ("others") and a hypervisor ("stolen") took.

    Args:
        load: What all processors did.
        cpus: The processors that count; empty for all.
        own_processors: Processors that our own processes were busy on, in the mean.
    """
    loads = [processor for processor in load.by_processor if processor.cpu in cpus or not cpus]
    if not loads:
        return {}
    interrupts = sum(processor.irq + processor.softirq for processor in loads)
    # Where interrupts are not counted apart, they are in the time of the process that they hit.
    if load.interrupts_apart:
        explained = own_processors + interrupts
    else:
        explained = max(own_processors, interrupts)
    others = max(0.0, sum(processor.busy for processor in loads) - explained) / len(loads)
    return {"others": round(others, 4), "stolen": max(processor.steal for processor in loads)}
