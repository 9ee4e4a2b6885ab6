"""What the machine did over a trial: threads, processors, energy, the vSwitch's own counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import Field

from vnetperf.model.base import Frozen

#: Role of what the kernel did by itself, and beginning of the names of its threads for soft
#: interrupts, whose time counts as that of soft interrupts, too.
KERNEL, SOFTIRQ_THREAD = "kernel", "ksoftirqd/"


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
    """What was counted in between; None where one of the two is not known, or it fell."""
    return None if before is None or now is None or now < before else now - before


class DatapathWork(Frozen):
    """What one thread counted by itself, over one trial or since some start.

    Attributes:
        thread: Name of the thread, e.g. "core 1"; of a VNF its role.
        packets: Packets that it took from ports; of the tester those that it sent, too.
        busy_cycles: TSC cycles of rounds in which there were packets; of a graph those of its nodes
            but for the input nodes.
        idle_cycles: TSC cycles of rounds in which there were none; None: it does not tell these.
        polls: Rounds; None: it does not tell these, or not recorded.
        empty_polls: Rounds in which there were no packets; None likewise.
        still_cycles: TSC cycles of rounds without packets right after others of the kind; None:
            not told apart from `idle_cycles`.
        still_polls: How many of these; None likewise.
        lookups: How a packet's rule was found -> packets, e.g. "emc hits".
        nodes: Node of the graph -> what it did; empty where there is no graph.
    """

    thread: str
    packets: int
    busy_cycles: int
    idle_cycles: int | None
    polls: int | None = None
    empty_polls: int | None = None
    still_cycles: int | None = None
    still_polls: int | None = None
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
            still_cycles=counted_since(before.still_cycles, self.still_cycles),
            still_polls=counted_since(before.still_polls, self.still_polls),
            lookups={n: count - before.lookups.get(n, 0) for n, count in self.lookups.items()},
            nodes={
                name: node.since(before.nodes[name]) if name in before.nodes else node
                for name, node in self.nodes.items()
            },
        )


#: From these on the machine is disturbed: ratio of times of a cache line, change of the frequency.
DISTURBING_LINE = 1.5
DISTURBING_FREQUENCY = 0.05
#: And what others or a hypervisor take, in processors, where no search has a goal whose width would
#: say what matters.
DISTURBING_SHARE = 0.05
#: Times of processors come in ticks of this length (USER_HZ), seconds; and fewest ticks by which a
#: hypervisor is judged: one tick of a short trial is a large share of it.
TICK_S, FEWEST_TICKS = 0.01, 100
#: So many of the others are named, and what those are called together that ran next to nothing.
NAMED, UNNAMED = 3, "others"


class OtherThreads(Frozen):
    """What threads that are not the deployment's, of one name, ran on one processor over one trial.

    Attributes:
        thread: Their name.
        cpu: Processor that they last ran on.
        run_s: Time that they ran together, seconds.
    """

    thread: str
    cpu: int
    run_s: float


class ProcessorTime(NamedTuple):
    """Time of one processor that pollers run on, seconds."""

    others_s: float | None  # Taken by others than the deployment; None: not known
    stolen_s: float  # Taken by a hypervisor
    watched_s: float


@dataclass(frozen=True, slots=True)
class TakenTime:
    """What others took of the processors that the pollers of a machine run on.

    Sums of several trials are told by more ticks than a single one.
    """

    processors: Mapping[int, ProcessorTime] = field(default_factory=dict)  # By number
    #: Name of others' threads -> what they ran there, seconds; empty: not known.
    by_thread: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: TakenTime) -> TakenTime:
        """Both together."""
        processors = dict(self.processors)
        for cpu, addend in other.processors.items():
            earlier = processors.get(cpu, ProcessorTime(0.0, 0.0, 0.0))
            is_known = earlier.others_s is not None and addend.others_s is not None
            others_s = (earlier.others_s or 0.0) + (addend.others_s or 0.0) if is_known else None
            seconds = earlier.watched_s + addend.watched_s
            processors[cpu] = ProcessorTime(others_s, earlier.stolen_s + addend.stolen_s, seconds)
        names = {**self.by_thread, **other.by_thread}
        ran = {n: self.by_thread.get(n, 0.0) + other.by_thread.get(n, 0.0) for n in names}
        return TakenTime(processors, ran)

    @property
    def most(self) -> str:
        """Which threads took it, as far as that is known: "most of it chrome"; "" for none."""
        total_s = sum(processor.others_s or 0.0 for processor in self.processors.values())
        named = {name: ran for name, ran in self.by_thread.items() if name != UNNAMED}
        order = sorted(named, key=lambda name: -named[name])[:NAMED]
        names = [name for name in order if named[name] > total_s / 10]
        if not names:
            return ""
        most = sum(named[name] for name in names) > total_s / 2
        return f"{'most of it' if most else 'among them'} {', '.join(names)}"

    @property
    def watched_s(self) -> float:
        """How long the processors were watched, seconds."""
        return max((processor.watched_s for processor in self.processors.values()), default=0.0)

    def others(self, least: float = 0.0) -> float | None:
        """Processors that others took, of which one may be a part; None: not known.

        Only of processors of which they took a share of `least` or more: of many, what the kernel
        does on each adds up to nothing that matters to any. No more than they took of all of them
        together: a thread that the kernel moved counts where it ran last.
        """
        measured = [
            processor for processor in self.processors.values() if processor.others_s is not None
        ]
        if not measured or not all(processor.watched_s for processor in measured):
            return None
        shares = [(processor.others_s or 0.0) / processor.watched_s for processor in measured]
        return max(0.0, min(sum(share for share in shares if share >= least), sum(shares)))

    @property
    def stolen(self) -> float | None:
        """Share that a hypervisor took of the one it took most of; None: too short to tell."""
        if self.watched_s < FEWEST_TICKS * TICK_S:
            return None
        measured = [processor for processor in self.processors.values() if processor.watched_s]
        return max(processor.stolen_s / processor.watched_s for processor in measured)

    def exceeds(self, limit: float) -> bool:
        """Whether others took more than a limit, by more than a tick may be wrong."""
        others = self.others(limit / 2)
        return others is not None and others > limit + TICK_S / self.watched_s

    def texts(self, limit: float) -> tuple[str, ...]:
        """What was taken beyond a limit, in words; empty: nothing, or not known."""
        sentences = []
        if self.exceeds(limit):
            most = f", {self.most}" if self.most else ""
            sentences.append(
                f"others took {self.others(limit / 2):.2g} processors on those of the pollers{most}"
            )
        if self.stolen is not None and self.stolen > limit:
            sentences.append(f"a hypervisor took {self.stolen:.1%} of a processor")
        return tuple(sentences)


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
        gathered_s: Time that it took before the trial to bring these two together, seconds; 0:
            they were, or they do not move.
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
        boot: Start of the kernel's boot id, by which hosts that are one machine are told; "": not
            recorded.
        others: What others' threads ran; None: not recorded, or some began or ended meanwhile, so
            that their time is known by what is left of the processors' alone.
    """

    steal: float | None = None
    throttled: int | None = None
    quota_s: float | None = None
    frequency_mhz: tuple[float, float] | None = None
    line_ns: tuple[float, float] | None = None
    gathered_s: float = 0.0
    load_average: float | None = None
    busy_threads: int = 0
    processors: int = 0
    context_switches_per_s: float | None = None
    clock_sources: tuple[str, ...] = ()
    by_processor: tuple[ProcessorLoad, ...] = ()
    interrupts_apart: bool | None = None
    boot: str = ""
    others: tuple[OtherThreads, ...] | None = None

    @property
    def clock_change(self) -> str:
        """What became of the kernel's clock source during the trial, in words; "": nothing."""
        named = [name for name in self.clock_sources if name]
        if len(set(named)) < 2:
            return ""
        return f"the kernel's clock source went from {named[0]} to {named[-1]}"

    @property
    def disturbances(self) -> tuple[str, ...]:
        """What the machine itself did to a trial, in words; empty: nothing that could be read."""
        disturbances = []
        if self.throttled:
            disturbances.append(f"processors were throttled {self.throttled} times")
        if self.quota_s:
            disturbances.append(
                f"a control group's quota stopped processes for {self.quota_s:.3g} s"
            )
        if self.frequency_mhz is not None:
            before, after = self.frequency_mhz
            if before > 0 and abs(after / before - 1) > DISTURBING_FREQUENCY:
                disturbances.append(f"the frequency went from {before:.0f} to {after:.0f} MHz")
        if self.line_ns is not None and max(self.line_ns) > DISTURBING_LINE * min(self.line_ns):
            before, after = self.line_ns
            disturbances.append(
                "the hypervisor moved the processors of DUT and tester: a cache line took "
                f"{before:.0f} ns there and back before, {after:.0f} ns after"
            )
        return tuple(disturbances)

    def taken(
        self, threads: Iterable[ThreadLoad], watched_s: float, *, is_whole: bool = True
    ) -> TakenTime:
        """What others took of the processors that pollers ran on.

        Args:
            threads: The deployment's threads on this machine, and the kernel's that worked for it.
            watched_s: Time that this load is of, seconds.
            is_whole: Whether these are all of its threads there: else nobody knows who the others
                are.

        Returns:
            Processor -> what others, and a hypervisor, took of it.
        """
        if not self.by_processor:  # not recorded: the share is of the processor with the most
            stolen_s = (self.steal or 0.0) * watched_s
            return TakenTime({-1: ProcessorTime(None, stolen_s, watched_s)})
        deployed = list(threads)
        are_measured = is_whole and all(thread.run_s is not None for thread in deployed)
        used = {thread.cpu for thread in deployed if thread.role.rpartition(":")[2] != KERNEL}
        processors = {}
        for load in self.by_processor:
            if load.cpu not in used:
                continue
            on_processor = [thread for thread in deployed if thread.cpu == load.cpu]
            if self.others is not None and is_whole:
                others_s: float | None = sum(o.run_s for o in self.others if o.cpu == load.cpu)
            else:
                share = self._others(load, on_processor, watched_s) if are_measured else None
                others_s = None if share is None else share * watched_s
            processors[load.cpu] = ProcessorTime(others_s, load.steal * watched_s, watched_s)
        ran: dict[str, float] = {}
        for other in self.others or ():
            if other.cpu in processors:
                ran[other.thread] = ran.get(other.thread, 0.0) + other.run_s
        return TakenTime(processors, ran)

    def _others(
        self, load: ProcessorLoad, threads: Sequence[ThreadLoad], watched_s: float
    ) -> float:
        """Share of a processor that neither the deployment's threads nor interrupts took.

        Timers and switches that no thread's time has are in it: of a deployment that sleeps in
        turns they are its own, some microseconds for each time that it wakes.
        """
        softirq = [thread for thread in threads if thread.thread.startswith(SOFTIRQ_THREAD)]
        rest = [thread for thread in threads if thread not in softirq]
        ran, in_softirq = (
            sum((thread.run_s or 0.0) / (thread.watched_s or watched_s or 1.0) for thread in some)
            for some in (rest, softirq)
        )
        interrupts = load.irq + load.softirq
        if not self.interrupts_apart:  # what came upon a thread counts as its time, too
            in_kernel = sum(thread.system for thread in rest)
            ran -= min(in_kernel, max(0.0, interrupts - in_softirq))
        return load.busy - interrupts - ran
