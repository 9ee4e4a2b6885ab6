"""Collectors: the contract, processor use (`cpu`) and events (`events`) by thread, `energy`.

And the machine as a whole, which is sampled with them, and the sampler of call stacks, which is
used in trials of its own (`--profile`).
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from vnetperf.host import kernel, threads
from vnetperf.host.cpu import read_cpus
from vnetperf.host.lines import bring_together, line_ns
from vnetperf.host.linux import counts_running_time, parse_number, sees_all_processes
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.programs import find_trusted
from vnetperf.host.threads import PerfCount, PerfEvent, Thread, list_threads
from vnetperf.host.trust import refuse_untrusted
from vnetperf.model.errors import HostError
from vnetperf.model.machine_load import (
    KERNEL,
    SOFTIRQ_THREAD,
    UNNAMED,
    EnergyUse,
    MachineLoad,
    OtherThreads,
    ProcessorLoad,
    ThreadEvents,
    ThreadLoad,
    counted_since,
)
from vnetperf.model.scenario import Pollers
from vnetperf.plugin.requirements import Requirements

#: What it measures of a thread, or of the machine.
SampleT = TypeVar("SampleT", ThreadLoad, ThreadEvents, EnergyUse)


class Collector(Requirements, ABC, Generic[SampleT]):
    """Samples a deployment's threads, or its machine, from `start` to `stop`; made for each trial.

    Args:
        pollers: Where the deployment's busy threads are.

    Attributes:
        name: Its name in the registry, and in results.
        asks: Its second sample takes a while, so that it is the last to be stopped.
        why: "not measured: " and the reason when it has no measurement; "".
    """

    name: ClassVar[str]
    asks: ClassVar[bool] = False

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        self.pollers = pollers
        self.why = ""

    @abstractmethod
    def start(self) -> None:
        """Take the first sample."""

    @abstractmethod
    def stop(self) -> tuple[SampleT, ...]:
        """Take the second sample.

        Returns:
            What was between the samples, by thread; a thread that ended meanwhile may be left out.
            Events may have names of a plugin's own.
        """


def busy_threads(pollers: tuple[Pollers, ...]) -> Iterator[tuple[Pollers, Thread]]:
    """Find the busy threads of a deployment."""
    for poller in pollers:
        for thread in list_threads(poller.pid):
            if thread.name.startswith(poller.thread_prefix):
                yield poller, thread


#: Beginnings of the names of the kernel's threads that do its work for frames.
_NAPI_THREAD, _VHOST_THREAD = "napi/", "vhost-"
_KERNEL_THREADS = (SOFTIRQ_THREAD, _NAPI_THREAD, _VHOST_THREAD)
#: Flag of a thread that the kernel has started, of stat's field 9 (linux/sched.h).
_PF_KTHREAD = 0x00200000
#: Numbers of all threads that kthreadd, which is process 2, has started, where the kernel lists it.
_KTHREADS = "proc/2/task/2/children"
#: What such a thread is called until it has its own name.
_NAMELESS = "kthreadd"
#: Those seen to have other names, by root, with the inodes of their folders: a thread keeps its
#: name, and of all files that are read around a trial these were most. The next thread that has the
#: number has another inode, which takes a third of the time of a name.
_OTHER_KTHREADS: dict[Path, dict[int, int]] = {}


def kernel_threads(pollers: tuple[Pollers, ...], root: Path = Path("/")) -> Iterator[Thread]:
    """Find the kernel's threads that do its work for frames, but for those that are pollers.

    Of vhost threads only the deployment's own count. Up to Linux 6.3 they are processes that have
    the number of the guest's in their names, then threads of it.
    """
    poller_pids = {poller.pid for poller in pollers}
    numbers = {int(word) for word in _text(root / _KTHREADS).split()}
    others = _OTHER_KTHREADS.get(root, {})
    listed = bool(numbers)
    if not listed:
        with os.scandir(root / "proc") as entries:
            numbers = {int(entry.name) for entry in entries if entry.name.isdecimal()}
    unrelated: dict[int, int] = {}
    for number in sorted(numbers - poller_pids):
        inode = _inode(f"{root}/proc/{number}") if listed else None
        if inode is not None and others.get(number) == inode:
            unrelated[number] = inode
            continue
        # Names alone first: of all threads' files `stat` would take most of the time of watching.
        name = _text(f"{root}/proc/{number}/comm").rstrip("\n")
        if not name.startswith(_KERNEL_THREADS):
            if inode is not None and name not in ("", _NAMELESS):
                unrelated[number] = inode
            continue
        fields = _stat(f"{root}/proc/{number}")
        if len(fields) <= _STAT_FLAGS or not int(fields[_STAT_FLAGS]) & _PF_KTHREAD:
            continue  # a program may have any name
        if name.partition("-")[0] != "vhost" or name.partition("-")[2] in map(str, poller_pids):
            yield Thread(number, name, frozenset())
    if listed:
        _OTHER_KTHREADS[root] = unrelated
    for pid in sorted(poller_pids):
        yield from (thread for thread in list_threads(pid) if thread.name.startswith(_VHOST_THREAD))


#: Places in /proc/TID/stat, proc(5), among the fields after the parenthesised name.
_STAT_PARENT = 1
_STAT_FLAGS, _STAT_USER, _STAT_SYSTEM, _STAT_STARTED = 6, 11, 12, 19
_STAT_CPU, _STAT_GUEST = 36, 40


def _stat(folder: str) -> list[str]:
    """Fields of a thread's `stat` behind its name."""
    return _text(f"{folder}/stat").rpartition(")")[2].split()


def _text(path: Path | str) -> str:
    """The text of a file; "" where it cannot be read. Many are read around each trial."""
    parts = []
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while part := os.read(fd, _READ_OCTETS):
                parts.append(part)
        finally:
            os.close(fd)
    except OSError:
        return ""
    return b"".join(parts).decode(errors="replace")


_READ_OCTETS = 1 << 16


def _inode(path: str) -> int | None:
    """The inode of a folder; None where it is gone."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - Path takes as long again, of each thread
    except OSError:
        return None


@cache
def _places(root: Path, pattern: str) -> tuple[Path, ...]:
    """Files of processors by a pattern; they are looked for once."""
    return tuple(root.glob(pattern))


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
    fields = _stat(task)
    status = _text(f"{task}/status")
    involuntary = int(status.rpartition("nonvoluntary_ctxt_switches:")[2].split()[0])
    voluntary = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    # Nanoseconds that it ran and that it waited for a processor.
    words = _text(f"{task}/schedstat").split() if _tells_running_time() else ()
    ran = [*map(parse_number, words)]
    return _Sample(
        time_s=time.monotonic(),
        name=name,
        role=role,
        started=int(fields[_STAT_STARTED]),
        cpu=int(fields[_STAT_CPU]),
        user_ticks=int(fields[_STAT_USER]),
        system_ticks=int(fields[_STAT_SYSTEM]),
        guest_ticks=int(fields[_STAT_GUEST]),
        involuntary=involuntary,
        voluntary=voluntary,
        run_ns=ran[0] if len(ran) > 1 else None,
        wait_ns=ran[1] if len(ran) > 1 else None,
    )


@cache
def _tells_running_time() -> bool:
    """Asked once: it is a matter of the kernel's configuration."""
    return counts_running_time()


#: Role of the tester's threads.
TESTER = "tester"
#: Shares of a trial's time that others' threads took and that are not worth a line of the log.
_NO_LINE = 0.0005
#: Files that a process keeps for everything else.
_OTHER_FILES = 256


class _RunTimes:
    """Time that each thread of the machine has run, from files that stay open between trials.

    To open the files of all threads takes tens of milliseconds, to read those that are open one.
    More than there may be files open are not looked for again, nor are threads of a container's
    own, which has others that it does not see.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[int, int] = {}
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES
        self._sees_all = sees_all_processes(root / "proc") and counts_running_time(root / "proc")

    def look(self) -> bool:
        """Find the threads anew; False where not all of the machine's can be told."""
        if not self._sees_all:
            return False
        self.read()  # a number may have been given to another thread since
        tids: set[int] = set()
        try:
            for process in os.scandir(self._root / "proc"):
                if process.name.isdecimal():
                    with contextlib.suppress(OSError):
                        tids.update(map(int, os.listdir(f"{process.path}/task")))  # noqa: PTH208 - as often as there are processes
        except OSError:
            return False
        for tid in self._files.keys() - tids:
            self._forget(tid)
        if len(tids) > self._most:
            self._sees_all = False
            return False
        for tid in tids - self._files.keys():
            name = f"{self._root}/proc/{tid}/task/{tid}/schedstat"
            try:
                self._files[tid] = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # it has ended
                continue
            except OSError:
                return False
        return bool(self._files)

    def read(self) -> dict[int, int]:
        """Thread -> nanoseconds that it has run; without those that have ended."""
        run_ns = {}
        for tid, fd in [*self._files.items()]:
            try:
                run_ns[tid] = int(os.pread(fd, 32, 0).partition(b" ")[0])
            except (OSError, ValueError):
                self._forget(tid)
        return run_ns

    def _forget(self, tid: int) -> None:
        os.close(self._files.pop(tid))


@cache
def _run_times(root: Path) -> _RunTimes:
    return _RunTimes(root)


def _started(root: Path) -> int | None:
    """Threads that the machine has started since its boot; None: not known."""
    rest = _text(root / "proc/stat").partition("\nprocesses ")[2]
    return parse_number(rest.partition("\n")[0])


#: A controller is the agent's parent, or with sudo in between the parent of that.
_ABOVE = 3


@cache
def _framework(root: Path) -> set[int]:
    """This process, and its controller where that is on the same machine.

    They take the same of every trial, and of a processor that is shared what its pollers leave.
    """
    own_pid = os.getpid()
    pids, pid = {own_pid}, own_pid
    for _ in range(_ABOVE):
        fields = _stat(f"{root}/proc/{pid}")
        pid = int(fields[_STAT_PARENT]) if len(fields) > _STAT_PARENT else 0
        if pid <= 1:
            break
        with contextlib.suppress(OSError):
            if Path(f"{root}/proc/{pid}/exe").samefile(sys.executable):
                return pids | {pid}
    return pids


class _OthersWatch:
    """What threads that are neither the deployment's nor ours run, from one moment to another.

    Args:
        pollers: Where the deployment's busy threads are: all threads of these processes are its
            own, and of the kernel those that forward.
        root: Where /proc is.
    """

    def __init__(self, pollers: tuple[Pollers, ...], root: Path) -> None:
        self._root = root
        self._times = _run_times(root)
        self._started = _started(root)
        self._complete = self._times.look()
        self._processes = {poller.pid for poller in pollers} | _framework(root)
        self._watched: set[int] = set()
        if self._complete:
            self._watched |= {thread.tid for pid in self._processes for thread in list_threads(pid)}
            self._watched |= {thread.tid for thread in kernel_threads(pollers, root)}
        self._before: dict[int, int] = {}
        self._now: dict[int, int] = {}

    def begin(self) -> None:
        """Take the first sample."""
        self._before = self._times.read() if self._complete else {}

    def end(self) -> None:
        """Take the second sample."""
        self._now = self._times.read() if self._complete else {}
        self._complete = self._complete and self._started == _started(self._root)

    def ran(self, seconds: float) -> tuple[OtherThreads, ...] | None:
        """What they ran; None where a thread began or ended, so that nobody knows what it did.

        Args:
            seconds: Time between the samples.

        Returns:
            Those that took a share worth a name, and all others together.
        """
        if not self._complete or self._before.keys() - self._now.keys():
            return None
        run_ns: dict[tuple[str, int], int] = {}
        for tid, ran in self._now.items():
            used = ran - self._before.get(tid, 0)
            if used and tid not in self._watched:
                task = f"{self._root}/proc/{tid}"
                fields = _stat(task)
                name = _text(f"{task}/comm").rstrip("\n")
                cpu = int(fields[_STAT_CPU]) if len(fields) > _STAT_CPU else -1
                run_ns[name, cpu] = run_ns.get((name, cpu), 0) + used
        small: dict[int, int] = {}
        for (name, cpu), used in [*run_ns.items()]:
            if used < _NO_LINE * seconds * 1e9:
                small[cpu] = small.get(cpu, 0) + run_ns.pop((name, cpu))
        run_ns |= {(UNNAMED, cpu): used for cpu, used in small.items()}
        return tuple(
            OtherThreads(thread=name, cpu=cpu, run_s=round(used / 1e9, 6))
            for (name, cpu), used in sorted(run_ns.items())
        )


class MachineSampler:
    """The machine as a whole, from one moment to another: what disturbs every thread."""

    def __init__(self, pollers: tuple[Pollers, ...], root: Path = Path("/")) -> None:
        self._pollers = pollers
        self._root = root
        self._threads: list[int] = []
        self._busy = 0
        self._before = _MachineCounters()
        self._end: tuple[_MachineCounters, float] | None = None
        self._mhz: float | None = None
        self._clock_source = ""
        self._began = 0.0
        #: Processors of the DUT's first busy thread and of the tester's.
        self._ends: tuple[int, int] | None = None
        self._line_ns: float | None = None
        self._gathered_s = 0.0
        self._others: _OthersWatch | None = None

    def gather(self) -> None:
        """Bring the deployment's processors together, where a hypervisor moves them."""
        busy = self._find_threads()
        if self._ends is None:
            return
        first, began = self._ends[0], time.monotonic()
        for cpu in sorted({cpu for cpu in self._threads if cpu >= 0} - {first}):
            # A tester is not stopped: some (TRex) take that for a thread that hangs, and end.
            polling = {
                poller.pid
                for used, poller in zip(self._threads, busy, strict=True)
                if used in (first, cpu) and poller.role != TESTER and not poller.sleeps
            }
            if bring_together(first, cpu, polling):
                self._gathered_s = round(time.monotonic() - began, 4)

    def prepare(self) -> None:
        """Find the threads, and look at what takes a while."""
        self._find_threads()
        self._line_ns = line_ns(*self._ends) if self._ends else None
        # Kernels before 5.19 sleep 10 ms over the frequency of each processor.
        self._mhz = self._frequency()
        self._clock_source = self._text(_CLOCK_SOURCE).strip()
        self._others = _OthersWatch(self._pollers, self._root)

    def _find_threads(self) -> list[Pollers]:
        threads = tuple(busy_threads(self._pollers))
        self._threads = [_last_processor(poller.pid, thread.tid) for poller, thread in threads]
        roles = [poller.role for poller, _ in threads]
        if self._root == Path("/") and TESTER in roles and roles[0] != TESTER:
            self._ends = self._threads[0], self._threads[roles.index(TESTER)]
        self._busy = sum(not poller.sleeps for poller, _ in threads)
        return [poller for poller, _ in threads]

    def start(self) -> None:
        """Take the first sample."""
        self.prepare()
        self.begin()

    def begin(self) -> None:
        """Take the first sample of the processors' times."""
        self._end = None
        if self._others is not None:
            self._others.begin()
        self._before, self._began = self._counters(), time.monotonic()

    def end(self) -> None:
        """Take the second sample of these."""
        self._end = self._counters(), time.monotonic()
        if self._others is not None:
            self._others.end()

    def stop(self) -> MachineLoad:
        """Take the second sample of all."""
        if self._end is None:
            self.end()
        assert self._end is not None  # noqa: S101 - for the type checker
        (now, ended), before = self._end, self._before
        wall = max(ended - self._began, 1e-9)
        mhz = self._frequency()
        lines = (self._line_ns, line_ns(*self._ends) if self._ends else None)
        ticks = wall * os.sysconf("SC_CLK_TCK")
        by_processor = tuple(
            _processor_load(cpu, before, now, ticks) for cpu in now.times if cpu in before.times
        )
        # All of them where it is not known which ones the threads run on.
        used = {cpu for cpu in self._threads if cpu in now.times} or set(now.times)
        stolen = [processor.steal for processor in by_processor if processor.cpu in used]
        switches = counted_since(before.switches, now.switches)
        quota_us = counted_since(before.quota_us, now.quota_us)
        return MachineLoad(
            steal=max(stolen, default=None),
            throttled=counted_since(before.throttled, now.throttled),
            quota_s=None if quota_us is None else quota_us / 1e6,
            frequency_mhz=None if self._mhz is None or mhz is None else (self._mhz, mhz),
            line_ns=None if lines[0] is None or lines[1] is None else (lines[0], lines[1]),
            gathered_s=self._gathered_s,
            load_average=self._load(),
            busy_threads=self._busy,
            processors=len(now.times) or os.cpu_count() or 0,
            context_switches_per_s=None if switches is None else round(switches / wall, 1),
            clock_sources=tuple(
                name for name in (self._clock_source, self._text(_CLOCK_SOURCE).strip()) if name
            ),
            by_processor=by_processor,
            interrupts_apart=interrupts_apart(self._root),
            boot=self._text(_BOOT_ID)[:_BOOT_DIGITS],
            others=self._others.ran(wall) if self._others is not None else None,
        )

    def _load(self) -> float | None:
        try:
            return os.getloadavg()[0]
        except OSError:  # the C library reads a file that may be masked
            return None

    def _counters(self) -> _MachineCounters:
        times_by_cpu: dict[int, tuple[int, ...]] = {}
        switches: int | None = None
        # cpuN user nice system idle iowait irq softirq steal ..., proc(5).
        for line in self._text("proc/stat").splitlines():
            name, _, values = line.partition(" ")
            if name.startswith("cpu") and name != "cpu":
                cpu = parse_number(name.removeprefix("cpu"))
                times = _valid_numbers(map(parse_number, values.split()))
                if cpu is not None and len(times) > _STEAL:
                    times_by_cpu[cpu] = times
            elif name == "ctxt":
                switches = parse_number(values)
        throttled = self._numbers("core_throttle_count", "sys/devices/system/cpu/cpu[0-9]*/thermal")
        quota = _valid_numbers(
            parse_number(line.removeprefix("throttled_usec"))
            for line in self._text("sys/fs/cgroup/cpu.stat").splitlines()
            if line.startswith("throttled_usec")
        )
        return _MachineCounters(
            times=times_by_cpu,
            backlogs=_backlogs(self._text("proc/net/softnet_stat"), list(times_by_cpu)),
            switches=switches,
            throttled=sum(throttled) if throttled else None,
            quota_us=sum(quota) if quota else None,
        )

    def _frequency(self) -> float | None:
        names = [f"cpu{cpu}" for cpu in set(self._threads)] or ["cpu[0-9]*"]
        folders = (f"sys/devices/system/cpu/{name}/cpufreq" for name in names)
        khz = [
            number
            for folder in folders
            for number in self._numbers("scaling_cur_freq", folder)
            if 0 < number < _NO_KHZ
        ]
        return round(sum(khz) / len(khz) / 1000, 1) if khz else None

    def _numbers(self, name: str, folders: str) -> tuple[int, ...]:
        texts = map(_text, _places(self._root, f"{folders}*/{name}"))
        return _valid_numbers(map(parse_number, texts))

    def _text(self, name: str) -> str:
        return _text(self._root / name)


#: A frequency that the driver does not know, in kHz; 0 is another.
_NO_KHZ = 0xFFFFFFFF


def _valid_numbers(numbers: Iterable[int | None]) -> tuple[int, ...]:
    """Numbers that are some and not negative: -1 stands for "not known"."""
    return tuple(number for number in numbers if number is not None and number >= 0)


@dataclass(frozen=True, slots=True)
class _MachineCounters:
    """Counters that only rise; None and nothing where they cannot be read."""

    times: dict[int, tuple[int, ...]] = field(default_factory=dict)
    backlogs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    switches: int | None = None
    throttled: int | None = None
    quota_us: int | None = None


#: As much of the boot id as tells the machines of a testbed apart.
_BOOT_ID, _BOOT_DIGITS = "proc/sys/kernel/random/boot_id", 8
_CLOCK_SOURCE = "sys/devices/system/clocksource/clocksource0/current_clocksource"
#: Places of times among the values of a line of /proc/stat, proc(5); later kernels have more.
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL, _GUEST, _GUEST_NICE = range(10)


#: Columns of /proc/net/softnet_stat, hexadecimal: frames, drops, times without a budget; the
#: processor's number is the 13th from Linux 5.10 on.
_BACKLOG, _BACKLOG_CPU = 3, 12


def _backlogs(text: str, online: list[int]) -> dict[int, tuple[int, ...]]:
    """Frames, drops and squeezes of the kernel's queue of each processor."""
    backlogs = {}
    for place, line in enumerate(text.splitlines()):
        try:
            columns = [int(word, 16) for word in line.split()]
        except ValueError:
            continue
        if len(columns) > _BACKLOG_CPU:
            backlogs[columns[_BACKLOG_CPU]] = tuple(columns[:_BACKLOG])
        elif len(columns) >= _BACKLOG and place < len(online):
            backlogs[online[place]] = tuple(columns[:_BACKLOG])
    return backlogs


@cache
def interrupts_apart(root: Path = Path("/")) -> bool | None:
    """Whether the kernel keeps the time of interrupts apart from that of the threads they hit.

    By its configuration; None where that cannot be read.
    """
    text = kernel.configuration(root)
    return "\nCONFIG_IRQ_TIME_ACCOUNTING=y\n" in text if text else None


def _processor_load(
    cpu: int, earlier: _MachineCounters, later: _MachineCounters, ticks: float
) -> ProcessorLoad:
    before, now = earlier.times[cpu], later.times[cpu]
    shortest = min(len(before), len(now))

    def share(*places: int) -> float:
        # Times of waiting, and those that a hypervisor tells, may be less than they were (proc(5)).
        differences = [
            max(0, b - a) for a, b in ((before[p], now[p]) for p in places if p < shortest)
        ]
        return round(sum(differences) / ticks, 4)

    backlog_before, backlog = earlier.backlogs.get(cpu, ()), later.backlogs.get(cpu, ())
    counted = [(b - a) % 2**32 for a, b in zip(backlog_before, backlog, strict=False)]
    frames, dropped, squeezed = counted or (None, None, None)
    return ProcessorLoad(
        cpu=cpu,
        user=share(_USER, _NICE),
        system=share(_SYSTEM),
        irq=share(_IRQ),
        softirq=share(_SOFTIRQ),
        guest=share(_GUEST, _GUEST_NICE),
        steal=share(_STEAL),
        idle=share(_IDLE, _IOWAIT),
        backlog_frames=frames,
        backlog_dropped=dropped,
        backlog_squeezed=squeezed,
    )


def _last_processor(pid: int, tid: int) -> int:
    """The processor that a thread last ran on; -1 when it has ended."""
    try:
        return int(_stat(f"/proc/{pid}/task/{tid}")[_STAT_CPU])
    except (ValueError, IndexError):
        return -1


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
            self.why = f"not measured: {reason}"
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
        self.why = _not_measured(refused, len(self.events))
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


#: How often counters of energy are read: one of 32 bits at 15.3 uJ goes round in 65 s at 1 kW.
_READ_EVERY_S = 20.0
#: More than any socket takes, watts: a counter that fell and would have gone round at more than
#: that began anew, as after a sleep of the machine.
_MOST_WATTS = 3000.0


class EnergyCollector(Collector[EnergyUse]):
    """Energy of each part of the machine that a meter has, over one trial.

    RAPL counts by package, and often by cores and memory; a power meter of the platform (ACPI,
    mostly the management controller's) tells its mean power over an interval of its own: what it
    says at the end counts where all of that interval was within the trial. Where the kernel has
    none the controller itself is asked, by IPMI (DCMI): its interval ends when it answers, which
    is after the trial.
    """

    name: ClassVar[str] = "energy"
    asks: ClassVar[bool] = True

    def __init__(self, pollers: tuple[Pollers, ...], root: Path = Path("/")) -> None:
        super().__init__(pollers)
        self._root = root
        self._last: dict[Path, int] = {}
        self._microjoules: dict[Path, int] = {}
        self._anew: set[Path] = set()
        self._looked = 0.0
        self._over = threading.Event()
        self._watch: threading.Thread | None = None
        self._began = 0.0

    def start(self) -> None:
        """Take the first sample."""
        self._last = self._counted()
        self._microjoules = dict.fromkeys(self._last, 0)
        self._anew = set()
        self._began = self._looked = time.monotonic()
        if self._last:
            # Of a trial that failed nobody stops it: it ends when the collector is gone.
            arguments = (weakref.ref(self), self._over)
            self._watch = threading.Thread(target=self._keep_up, args=arguments, daemon=True)
            self._watch.start()
        if not self._last and not self._metered() and not self._controller():
            self.why = "not measured: " + self._explain_absence()

    def stop(self) -> tuple[EnergyUse, ...]:
        """Take the second sample."""
        wall = time.monotonic() - self._began
        self._over.set()
        if self._watch is not None:
            self._watch.join()
            self._watch = None
            self._add(self._began + wall)
        uses, too_slow, over = [], [], {"watched_s": round(wall, 6)}
        for zone in self._last:
            joules = self._microjoules[zone] / 1e6
            if zone in self._anew:
                too_slow.append(f"{_zone_name(zone)}: its counter began anew")
                continue
            uses.append(EnergyUse(part=_zone_name(zone), joules=joules, source="RAPL", **over))
        meters, late_s, of_trial = self._metered(), 0.0, f"the trial was of {wall:.3g} s"
        program = "" if meters else self._controller()
        if program and wall < _SHORTEST_S:
            too_slow.append(f"{_IPMI}: its mean is over {_SHORTEST_S:g} s or more, {of_trial}")
        elif program:
            try:
                meters = {_IPMI: _read_controller_power(program)}
            except HostError as error:
                too_slow.append(f"{_IPMI}: {error}")
            late_s = time.monotonic() - self._began - wall
        for part, (watts, interval_s) in meters.items():
            late = late_s > _LATE_SHARE * (interval_s or 0.0)  # idle, what was after the trial
            if interval_s is None or late or interval_s + late_s > wall:
                mean = "unknown" if interval_s is None else f"{interval_s:g} s"
                after = f" that ended {late_s:.2g} s after it" if late_s else ""
                too_slow.append(f"{part}: its mean is over {mean}{after}, {of_trial}")
                continue
            uses.append(EnergyUse(part=part, joules=wall * watts, source="power meter", **over))
        moved = [use for use in uses if use.joules > 0]
        if uses and not moved:
            self.why = "not measured: its meters stand still, as those of a virtual machine do"
        elif too_slow and not (program and moved):  # beside RAPL nobody misses a controller
            self.why = f"not measured: {'; '.join(too_slow)}"
        return tuple(moved)

    @staticmethod
    def _keep_up(collector_ref: weakref.ref[EnergyCollector], over: threading.Event) -> None:
        while not over.wait(_READ_EVERY_S) and (collector := collector_ref()) is not None:
            collector._add(time.monotonic())
            del collector

    def _add(self, time_s: float) -> None:
        """Add what was used since the last look; a counter begins anew at its range."""
        now = self._counted()
        self._last = {zone: before for zone, before in self._last.items() if zone in now}
        for zone, before in self._last.items():
            used = (now[zone] - before) % (self._number(zone / _RANGE) or 2**32)
            if now[zone] < before and used > _MOST_WATTS * 1e6 * (time_s - self._looked):
                self._anew.add(zone)
            self._microjoules[zone] += used
            self._last[zone] = now[zone]
        self._looked = time_s

    def _counted(self) -> dict[Path, int]:
        zones = sorted((self._root / _POWERCAP).glob("intel-rapl:*"))
        readings = {zone: self._number(zone / "energy_uj") for zone in zones}
        return {zone: number for zone, number in readings.items() if number is not None}

    def _metered(self) -> dict[str, tuple[float, float | None]]:
        """Power meters by what they are of: their mean power, and the seconds that it is over."""
        meters: dict[str, tuple[float, float | None]] = {}
        folders = (self._root / _HWMON).glob("hwmon*")
        # The driver's files are those of the ACPI device on most kernels.
        for folder in sorted(
            place
            for device_folder in folders
            for place in (device_folder, device_folder / "device")
        ):
            microwatts = self._number(folder / "power1_average")
            if _text(folder / "name").strip() != "power_meter":
                continue
            if microwatts is None or microwatts in _NO_MICROWATTS:
                continue
            interval_ms = self._number(folder / "power1_average_interval")
            interval_ms = None if interval_ms in _NO_INTERVAL_MS else interval_ms
            hwmon = folder.parent if folder.name == "device" else folder
            part = f"{_text(folder / 'power1_oem_info').strip() or 'power meter'}, {hwmon.name}"
            meters.setdefault(
                part, (microwatts / 1e6, None if interval_ms is None else interval_ms / 1000)
            )
        return meters

    def _controller(self) -> str:
        """The program that asks a management controller which is no power meter of the kernel's."""
        has_device = (self._root / _IPMI_DEVICE).exists()
        return find_trusted("ipmitool", os.environ.get("PATH", ""))[0] if has_device else ""

    def _number(self, path: Path) -> int | None:
        number = parse_number(_text(path))
        return number if number is not None and number >= 0 else None

    def _explain_absence(self) -> str:
        if any((self._root / _POWERCAP).glob("intel-rapl:*")):
            return "the kernel does not let this process read RAPL: root is needed"
        if (self._root / _IPMI_DEVICE).exists():
            return "no RAPL, and the management controller is asked by ipmitool; install it"
        return "neither RAPL (CONFIG_POWERCAP, intel_rapl) nor a platform's power meter here"


#: A management controller's mean power, in whole seconds and watts.
_IPMI, _SHORTEST_S = "power by IPMI", 1.0
#: How much of the interval of such a mean may be after the trial.
_LATE_SHARE = 0.1
_IPMI_DEVICE = "dev/ipmi0"
_ASKED_S = 5.0
#: What stands for "not known": all ones of DCMI's 16 bits, and of ACPI's 32 in mW and in uW. No
#: machine has 65 kW.
_NO_WATTS = 0xFFFF
_NO_MICROWATTS = (0xFFFFFFFF, 0xFFFFFFFF * 1000, _NO_WATTS * 1_000_000)
#: An interval that ACPI's driver does not know.
_NO_INTERVAL_MS = (0, 0xFFFFFFFF)
_SAYS = (
    r"Average power reading over sample period\s*:\s*([0-9]{1,9})\s+Watts",
    r"Sampling period\s*:\s*([0-9]{1,9})\s+Seconds",
    r"Power reading state is\s*:\s*(activated)",
)


def _read_controller_power(program: str) -> tuple[float, float]:
    """Mean power that a management controller tells, and the seconds that it is over."""
    argv = [program, "dcmi", "power", "reading"]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False, timeout=_ASKED_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"ipmitool: {error}") from error
    watts, seconds, active = (re.search(pattern, done.stdout) for pattern in _SAYS)
    if watts and seconds and active:
        mean, interval_s = float(watts[1]), float(seconds[1])
        if mean >= _NO_WATTS:
            raise HostError(f"ipmitool tells {mean:g} W, which is the controller's word for none")
        if interval_s:
            return mean, interval_s
    said = (
        " ".join((done.stderr or done.stdout).split())[:200] or f"it ended with {done.returncode}"
    )
    raise HostError(f"ipmitool tells no mean power: {said}")


_POWERCAP, _HWMON, _RANGE = "sys/class/powercap", "sys/class/hwmon", "max_energy_range_uj"


def _zone_name(zone: Path) -> str:
    """What a zone of RAPL is of: "package-0", "dram of package-0"."""
    name = _text(zone / "name").strip() or zone.name
    if zone.name.count(":") < 2:
        return name
    parent = zone.with_name(zone.name.rpartition(":")[0])
    return f"{name} of {_text(parent / 'name').strip() or parent.name}"


def _not_measured(refused: dict[str, str], count: int) -> str:
    """Why events cannot be counted; once when it is the same for all."""
    reasons = set(refused.values())
    if len(refused) == count and len(reasons) == 1:
        return f"not measured: {reasons.pop()}"
    details = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return f"not measured: {details}" if details else ""


PERF = "perf"
#: Samples a second: no multiple of the kernel's tick, which would always meet the same work.
PROFILE_HZ = 499
#: Octets of the stack that are kept of each sample: DPDK's programs have no frame pointers.
_STACK_OCTETS = 4096
_LONGEST_PROFILE_S = 300
_FRAME = re.compile(
    r"^\s+[0-9a-f]+ (?P<symbol>.*?)(?:\+0x[0-9a-f]+)? \((?P<object>[^()]*)(?: \(deleted\))?\)$"
)


class StackSampler:
    """Call stacks of threads by `perf`, from `start` to `stop`; `why` is set where it has none."""

    def __init__(self, machine: Machine, pollers: tuple[Pollers, ...]) -> None:
        self.why = ""
        self._machine = machine
        self._pollers = pollers
        self._process: ManagedProcess | None = None
        self._file = machine.run_dir / "profile.data"

    def start(self) -> None:
        """Begin to sample."""
        tids = [str(thread.tid) for _, thread in busy_threads(self._pollers)]
        if not tids:
            self.why = "not measured: the vSwitch has no threads of its own, the kernel forwards"
            return
        argv = [PERF, "record", "--freq", str(PROFILE_HZ), "--tid", ",".join(tids)]
        argv += ["--call-graph", f"dwarf,{_STACK_OCTETS}", "--output", str(self._file)]
        argv += ["--no-buildid-cache"]  # which is in a home
        pause = ["sleep", str(_LONGEST_PROFILE_S)]
        try:
            refuse_untrusted(pause)  # perf starts it, and only perf is looked at
            self._process = self._machine.spawn(PERF, [*argv, "--", *pause])
        except HostError as error:
            self.why = f"not measured: {error.what}"

    def stop(self) -> dict[str, int]:
        """End sampling; samples by call stack."""
        process, self._process = self._process, None
        if process is None:
            return {}
        try:
            ended = not process.alive()
            process.signal(signal.SIGINT)
            process.stop()  # perf writes what it has; the second signal is ignored meanwhile
            if ended:
                self.why = f"not measured: perf ended: {process.log_tail(3)}"
                return {}
            argv = [PERF, "script", "--input", str(self._file), "--fields", "comm,tid,ip,sym,dso"]
            stacks = fold_stacks(self._machine.run(argv, timeout=_SCRIPT_S))
        except (HostError, OSError) as error:
            self.why = f"not measured: {getattr(error, 'what', error)}"
            return {}
        finally:
            self._file.unlink(missing_ok=True)
        if not stacks:
            self.why = "not measured: perf took no sample"
        return stacks


#: Longest time for turning samples into call stacks, seconds.
_SCRIPT_S = 90.0


def fold_stacks(text: str) -> dict[str, int]:
    """Samples by call stack, its names joined by ";", of `perf script`: thread, then frames.

    The text has fields comm, tid, ip, sym and dso: a line for each sample, then one for each frame
    from the innermost on. What has no symbol has its file's name in brackets.
    """
    samples: Counter[str] = Counter()
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        head, *frames = block.splitlines() or [""]
        names = []
        for line in frames:
            if frame := _FRAME.match(line):
                symbol, file = frame["symbol"].strip(), frame["object"].rpartition("/")[2]
                names.append(symbol if symbol != "[unknown]" else f"[{file.strip('[]')}]")
        if names:
            thread = head.strip().rpartition(" ")[0].strip() or head.strip()
            stack = (name.replace(";", ":") for name in (thread, *reversed(names)))
            samples[";".join(stack)] += 1
    return dict(samples)
