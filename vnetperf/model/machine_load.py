"""What the machine did over a trial: threads, processors, energy, the vSwitch's own counts."""

from __future__ import annotations

from pydantic import Field

from vnetperf.model.base import Frozen


class ThreadLoad(Frozen):
    """Processor use of one thread over one trial.

    Attributes:
        role: "pmd", "vnf0", "tester", ..., or "kernel": of its own threads those that ran.
        cpu: Processor it last ran on.
        user: Share of wall time in user mode, 0..1.
        system: Share of wall time in kernel mode, 0..1.
        guest: Share of wall time as a virtual processor of a guest, 0..1, which is in `user`, too
            (proc(5)); None: not recorded.
        involuntary_switches: Times it was descheduled against its will.
        voluntary_switches: Times it gave its processor up by itself; None: not recorded.
        run_s: Time that it ran, as the scheduler counts it in nanoseconds (/proc/TID/schedstat; of
            one that is running known to a tick of the kernel; on a processor of nohz_full to 10 ms,
            by /proc/TID/stat), seconds; None: not recorded.
        wait_s: Time that it could run and had no processor, seconds, from there too.
        watched_s: Time between the two samples that these are of, seconds; None: not recorded, and
            about `TrialResult.collected_s`.
    """

    role: str
    thread: str
    cpu: int
    user: float
    system: float
    guest: float | None = None
    involuntary_switches: int = 0
    voluntary_switches: int | None = None
    run_s: float | None = None
    wait_s: float | None = None
    watched_s: float | None = None


class ProcessorLoad(Frozen):
    """Use of one processor over one trial, by everything on it: shares of wall time, 0..1.

    Attributes:
        user: In user mode; the guests' time is in it.
        system: In kernel mode, without interrupts.
        irq: In interrupts.
        softirq: In what the kernel puts off from interrupts: most of its forwarding of frames.
        guest: In guests.
        steal: Taken by a hypervisor.
        idle: In nothing, waits for disks among it, which a kernel without ticks on idle processors
            measures; None: not recorded. So are the next three.
        backlog_frames: Frames that the kernel took from its receive queues there, of all namespaces
            (/proc/net/softnet_stat).
        backlog_dropped: Frames that found its queue between interfaces full.
        backlog_squeezed: Times that it stopped with frames left, its budget being spent.
    """

    cpu: int
    user: float
    system: float
    irq: float
    softirq: float
    guest: float
    steal: float
    idle: float | None = None
    backlog_frames: int | None = None
    backlog_dropped: int | None = None
    backlog_squeezed: int | None = None

    @property
    def busy(self) -> float:
        """Its time that was neither idle nor stolen: shares by ticks miss short stretches."""
        if self.idle is not None:
            return max(0.0, 1.0 - self.idle - self.steal)
        return self.user + self.system + self.irq + self.softirq


class EnergyUse(Frozen):
    """Energy that a part of a machine took over one trial.

    Attributes:
        part: What is metered: "package-0", "dram of package-0"; of a power meter what it calls
            itself and its place, "Server, hwmon1": a machine or a part of it.
        source: Who meters it: "RAPL", "power meter".
        watched_s: Time over which it is, seconds; None: not recorded.
    """

    part: str
    joules: float
    source: str
    watched_s: float | None = None


class ThreadEvents(Frozen):
    """Events of the processor that one thread met with over one trial.

    Attributes:
        role: "pmd", "vnf0", "tester", ...
        counts: Event -> how often; an event for which no counter was free is left out.
    """

    role: str
    thread: str
    counts: dict[str, int] = Field(default_factory=dict)


class NodeWork(Frozen):
    """What one node of a vSwitch's graph did on one thread, over one trial or since some start.

    Attributes:
        calls: Times that it was called.
        packets: Packets that it was given, or, of an input node, took from a port.
        clocks: TSC cycles in it; of an input node those of polls without packets, too.
        input: Whether it is an input node.
    """

    calls: int
    packets: int
    clocks: float
    input: bool = False

    def since(self, before: NodeWork) -> NodeWork:
        """What was counted since an earlier state."""
        counts = ("calls", "packets", "clocks")
        return self.model_copy(
            update={name: getattr(self, name) - getattr(before, name) for name in counts}
        )


def counted_since(before: int | None, now: int | None) -> int | None:
    """What was counted in between; None where one of the two is not known."""
    return None if before is None or now is None else now - before


class DatapathWork(Frozen):
    """What one thread of a vSwitch counted by itself, over one trial or since some start.

    Attributes:
        thread: Name of the thread, e.g. "core 1".
        packets: Packets that it took from ports.
        busy_cycles: TSC cycles of rounds in which there were packets; of a graph those of its nodes
            but for the input nodes.
        idle_cycles: TSC cycles of rounds in which there were none; None: it does not tell these.
        polls: Rounds; None: it does not tell these, or not recorded.
        empty_polls: Rounds in which there were no packets; None likewise.
        lookups: How a packet's rule was found -> packets, e.g. "emc hits".
        nodes: Node of the graph -> what it did; empty where there is no graph.
    """

    thread: str
    packets: int
    busy_cycles: int
    idle_cycles: int | None
    polls: int | None = None
    empty_polls: int | None = None
    lookups: dict[str, int] = Field(default_factory=dict)
    nodes: dict[str, NodeWork] = Field(default_factory=dict)

    def since(self, before: DatapathWork) -> DatapathWork:
        """What was counted since an earlier state of the same thread."""
        return DatapathWork(
            thread=self.thread,
            packets=self.packets - before.packets,
            busy_cycles=self.busy_cycles - before.busy_cycles,
            idle_cycles=counted_since(before.idle_cycles, self.idle_cycles),
            polls=counted_since(before.polls, self.polls),
            empty_polls=counted_since(before.empty_polls, self.empty_polls),
            lookups={n: count - before.lookups.get(n, 0) for n, count in self.lookups.items()},
            nodes={
                name: node.since(before.nodes[name]) if name in before.nodes else node
                for name, node in self.nodes.items()
            },
        )


#: From these on the machine is disturbed: share of the time that a hypervisor took, change of the
#: frequency, ratio of times of a cache line, and runnable threads beside the busy ones of the
#: deployment.
DISTURBING_STEAL = 0.01
DISTURBING_LINE = 1.5
DISTURBING_FREQUENCY = 0.05
DISTURBING_LOAD = 1.0


class MachineLoad(Frozen):
    """The machine that carries tester and DUT, over one trial; None: cannot be read there.

    Attributes:
        steal: Share of wall time that a hypervisor took from the processor it took most from, of
            those that busy threads run on, 0..1.
        throttled: Times that a processor of the machine was slowed down because of its heat.
        quota_s: Time for which a control group's quota stopped the processes, seconds.
        frequency_mhz: Mean frequency of those processors at the beginning and at the end, MHz.
        line_ns: Time of a cache line from the processor of the DUT's first busy thread to the
            tester's and back, before and after, ns; None: not measured, as on bare metal, where
            processors do not move.
        load_average: Runnable threads, mean of the last minute (getloadavg).
        busy_threads: Busy threads of the deployment, which are among them.
        processors: Processors that are online.
        context_switches_per_s: Context switches of the whole machine, 1/s.
        clock_sources: The kernel's clock source at the beginning and at the end; empty: not
            recorded. Leaving "tsc" means that the processors' counters disagree, which every
            stamp of the tester is taken from.
        by_processor: Use of each processor; empty: not recorded.
        interrupts_apart: Whether the kernel keeps the time of interrupts apart from that of the
            threads they come upon (CONFIG_IRQ_TIME_ACCOUNTING); None: not known.
    """

    steal: float | None = None
    throttled: int | None = None
    quota_s: float | None = None
    frequency_mhz: tuple[float, float] | None = None
    line_ns: tuple[float, float] | None = None
    load_average: float | None = None
    busy_threads: int = 0
    processors: int = 0
    context_switches_per_s: float | None = None
    clock_sources: tuple[str, ...] = ()
    by_processor: tuple[ProcessorLoad, ...] = ()
    interrupts_apart: bool | None = None

    @property
    def clock_change(self) -> str:
        """What became of the kernel's clock source during the trial, in words; "": nothing."""
        named = [name for name in self.clock_sources if name]
        if len(set(named)) < 2:
            return ""
        return f"the kernel's clock source went from {named[0]} to {named[-1]}"

    @property
    def disturbances(self) -> tuple[str, ...]:
        """What disturbed a trial, in words; empty: nothing that could be read."""
        found = []
        if self.steal is not None and self.steal > DISTURBING_STEAL:
            found.append(f"a hypervisor took {self.steal:.1%} of a processor")
        if self.throttled:
            found.append(f"processors were throttled {self.throttled} times")
        if self.quota_s:
            found.append(f"a control group's quota stopped processes for {self.quota_s:.3g} s")
        if self.frequency_mhz is not None:
            before, after = self.frequency_mhz
            if before > 0 and abs(after / before - 1) > DISTURBING_FREQUENCY:
                found.append(f"the frequency went from {before:.0f} to {after:.0f} MHz")
        if self.line_ns is not None and max(self.line_ns) > DISTURBING_LINE * min(self.line_ns):
            before, after = self.line_ns
            found.append(
                "the hypervisor moved the processors of DUT and tester: a cache line took "
                f"{before:.0f} ns there and back before, {after:.0f} ns after"
            )
        usual = max(self.busy_threads, self.processors) + DISTURBING_LOAD
        if self.load_average is not None and self.load_average > usual:
            found.append(
                f"load average {self.load_average:.1f}, with {self.busy_threads} busy threads of "
                f"this deployment on {self.processors} processors"
            )
        return tuple(found)
