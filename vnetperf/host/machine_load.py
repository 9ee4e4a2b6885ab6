"""The machine as a whole over a trial: its processors, its clock, and what others' threads ran."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from vnetperf.host import kernel
from vnetperf.host.lines import bring_together, line_ns
from vnetperf.host.linux import counts_running_time, parse_number, sees_all_processes
from vnetperf.host.proc import (
    STAT_CPU,
    STAT_PARENT,
    busy_threads,
    kernel_threads,
    read_or_empty,
    read_stat,
)
from vnetperf.host.threads import list_threads
from vnetperf.model.machine_load import (
    UNNAMED,
    MachineLoad,
    OtherThreads,
    ProcessorLoad,
    counted_since,
)
from vnetperf.model.scenario import Pollers

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
    rest = read_or_empty(root / "proc/stat").partition("\nprocesses ")[2]
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
        fields = read_stat(f"{root}/proc/{pid}")
        pid = int(fields[STAT_PARENT]) if len(fields) > STAT_PARENT else 0
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
                fields = read_stat(task)
                name = read_or_empty(f"{task}/comm").rstrip("\n")
                cpu = int(fields[STAT_CPU]) if len(fields) > STAT_CPU else -1
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
        texts = map(read_or_empty, _places(self._root, f"{folders}*/{name}"))
        return _valid_numbers(map(parse_number, texts))

    def _text(self, name: str) -> str:
        return read_or_empty(self._root / name)


@cache
def _places(root: Path, pattern: str) -> tuple[Path, ...]:
    """Files of processors by a pattern; they are looked for once."""
    return tuple(root.glob(pattern))


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
        return int(read_stat(f"/proc/{pid}/task/{tid}")[STAT_CPU])
    except (ValueError, IndexError):
        return -1
