"""Threads of a process: CPUs, nice value, scheduler slice, perf counters."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.linux import call_in_thread, raw_syscall
from vnetperf.model.errors import HostError

PROC = Path("/proc")
MAX_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread.

    Attributes:
        tid: Thread id.
        name: Its name (up to 15 bytes), such as ``pmd-c01/id:8``.
        cpus: CPUs it may run on.
    """

    tid: int
    name: str
    cpus: frozenset[int]


def list_threads(pid: int) -> tuple[Thread, ...]:
    """Threads of a process by id; empty when it is gone."""
    threads = []
    for tid in thread_ids(pid):
        with contextlib.suppress(OSError):  # a thread may end while we look
            name = (PROC / f"{pid}/task/{tid}/comm").read_text(errors="replace").strip()
            threads.append(Thread(tid, name, frozenset(os.sched_getaffinity(tid))))
    return tuple(threads)


def thread_ids(pid: int) -> tuple[int, ...]:
    """Thread ids of a process; empty when it is gone."""
    try:
        return tuple(sorted(int(name) for name in os.listdir(PROC / f"{pid}/task")))  # noqa: PTH208
    except OSError:
        return ()


def pin_thread(tid: int, cpus: Iterable[int]) -> None:
    """Bind one thread to CPUs, and verify it."""
    wanted = frozenset(cpus)
    try:
        os.sched_setaffinity(tid, wanted)
        taken = frozenset(os.sched_getaffinity(tid))
    except OSError as error:
        raise _cannot_pin(tid, wanted, error.strerror or str(error)) from error
    if taken != wanted:
        raise _cannot_pin(tid, wanted, f"the kernel took only {sorted(taken)}")


def pin_process(pid: int, cpus: Iterable[int]) -> int:
    """Bind all threads of a process to CPUs, also those that start meanwhile."""
    wanted = frozenset(cpus)
    bound = for_each_thread(pid, lambda tid: pin_thread(tid, wanted))
    if not bound:
        raise _cannot_pin(pid, wanted, "it has no threads, it has ended")
    return bound


def for_each_thread(pid: int, action: Callable[[int], None]) -> int:
    """Do something once to each thread, until a look finds no new one.

    Threads that end meanwhile are passed over.
    """
    seen: set[int] = set()
    done = 0
    for _ in range(MAX_ROUNDS):
        new = set(thread_ids(pid)) - seen
        if not new:
            break
        for tid in sorted(new):
            try:
                action(tid)
                done += 1
            except HostError:
                if tid in thread_ids(pid):
                    raise
        seen |= new
    return done


def _cannot_pin(tid: int, cpus: frozenset[int], why: str) -> HostError:
    return HostError(
        f"thread {tid} cannot be bound to CPUs {sorted(cpus)}: {why}",
        accepted=f"among {sorted(os.sched_getaffinity(0))}",
        cure="choose CPUs that are online and allowed by this process's cgroup",
    )


SLICE_NS = 100_000
# struct sched_attr, first version: size, policy, flags, nice, priority, runtime, deadline, period
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")
_NORMAL_POLICIES = frozenset({0, 3})  # SCHED_OTHER, SCHED_BATCH
_SCHED_SETATTR = {"x86_64": 314, "ppc64le": 355, "s390x": 345, "armv7l": 380, "i686": 351}
_SCHED_SETATTR_GENERIC = 274  # aarch64, riscv64, loongarch64
_SCHED_GETATTR = {"x86_64": 315, "ppc64le": 356, "s390x": 346, "armv7l": 381, "i686": 352}


@dataclass(frozen=True, slots=True)
class SliceReport:
    """How many threads of a process took a slice.

    Attributes:
        threads: Threads with a normal scheduling policy that were asked.
        took: Threads whose slice reads back as asked.
        slice_ns: The slice asked for, in ns.
        why: Why not all took it, empty when all did.
    """

    threads: int
    took: int
    slice_ns: int
    why: str = ""

    @property
    def complete(self) -> bool:
        """Whether the process now runs with this slice."""
        return self.took > 0 and self.took == self.threads

    def describe(self) -> str:
        """The report in one line, for a result."""
        if self.complete:
            return f"{self.slice_ns / 1000:g} us on {self.took} threads"
        return f"not available: {self.why or 'the process has no threads'}"


@dataclass(frozen=True, slots=True)
class NiceReport:
    """How many threads of a process took a niceness.

    Attributes:
        threads: Threads that were asked.
        took: Threads that have it now.
        nice: The niceness asked for.
        why: Why not all took it, empty when all did.
    """

    threads: int
    took: int
    nice: int
    why: str = ""

    def describe(self) -> str:
        """The report in one line, for a result."""
        if self.took and self.took == self.threads:
            return f"nice {self.nice}"
        return f"nice {self.nice} not taken: {self.why or 'the process has no threads'}"


@dataclass(frozen=True, slots=True)
class SchedAttributes:
    """Scheduling of one thread.

    Attributes:
        policy: Number of the policy, 0 is SCHED_OTHER.
        nice: Nice value.
        priority: Real-time priority.
        slice_ns: Slice of a normal thread in ns; 0 before Linux 6.12.
    """

    policy: int
    nice: int
    priority: int
    slice_ns: int


def read_sched_attributes(tid: int) -> SchedAttributes:
    """Read the scheduling of a thread."""
    buffer = ctypes.create_string_buffer(_SCHED_ATTR.size)
    number = _SCHED_GETATTR.get(os.uname().machine, _SCHED_SETATTR_GENERIC + 1)
    try:
        raw_syscall(
            number, ctypes.c_int(tid), buffer, ctypes.c_uint(_SCHED_ATTR.size), ctypes.c_uint(0)
        )
    except OSError as error:
        raise HostError(f"sched_getattr: {error.strerror}", where=f"thread {tid}") from error
    _, policy, _, nice, priority, runtime, _, _ = _SCHED_ATTR.unpack(buffer.raw)
    return SchedAttributes(policy, nice, priority, runtime)


def set_autogroup_nice(pid: int, nice: int) -> str:
    """Let a process's session go before others on its CPUs.

    Where the kernel groups tasks by session (CONFIG_SCHED_AUTOGROUP), niceness of a thread only
    counts within its session; this sets the session's. Nothing is journaled: it ends with the
    session.
    """
    path = Path(f"/proc/{pid}/autogroup")
    try:
        path.write_text(f"{nice}\n")
        return path.read_text().strip()
    except FileNotFoundError:
        return "the kernel does not group by session"
    except OSError as error:
        return f"not available: {error.strerror}"


def set_nice(pid: int, nice: int) -> NiceReport:
    """Set the niceness of every thread of a process; it ends with the process."""
    asked = 0
    took = 0
    why = ""

    def ask(tid: int) -> None:
        nonlocal asked, took, why
        try:
            os.setpriority(os.PRIO_PROCESS, tid, nice)
        except ProcessLookupError:  # a thread may end while we look
            return
        except OSError as error:
            why = error.strerror or str(error)
        else:
            took += 1
        asked += 1

    for_each_thread(pid, ask)
    return NiceReport(asked, took, nice, why)


def set_slice(pid: int, slice_ns: int = SLICE_NS) -> SliceReport:
    """Ask for a slice for every thread of a process; threads it starts later inherit it.

    Real-time threads are left alone. Nothing is journaled: it ends with the process.
    """
    asked = 0
    took = 0
    why = ""

    def ask(tid: int) -> None:
        nonlocal asked, took, why
        before = read_sched_attributes(tid)
        if before.policy not in _NORMAL_POLICIES:
            return
        try:
            _sched_setattr(tid, before, slice_ns)
        except ProcessLookupError:  # a thread may end while we look
            return
        except OSError as error:
            asked += 1
            why = f"sched_setattr: {error.strerror}"
            return
        asked += 1
        problem = _why_slice_refused(read_sched_attributes(tid).slice_ns, slice_ns)
        took += not problem
        why = problem or why

    try:
        for_each_thread(pid, ask)
    except HostError as error:
        why = str(error)
    return SliceReport(asked, took, slice_ns, why if took < asked or not asked else "")


def why_no_slices(slice_ns: int = SLICE_NS) -> str:
    """Why this machine gives no slices, empty when it does: tried on a thread of our own."""

    def probe() -> str:
        me = threading.get_native_id()
        try:
            _sched_setattr(me, read_sched_attributes(me), slice_ns)
        except OSError as error:
            return f"sched_setattr: {error.strerror}"
        except HostError as error:
            return error.what
        return _why_slice_refused(read_sched_attributes(me).slice_ns, slice_ns)

    return call_in_thread(probe)


def _why_slice_refused(now_ns: int, asked_ns: int) -> str:
    if now_ns == asked_ns:
        return ""
    if now_ns == 0:
        return f"kernel {os.uname().release} has no slices of threads, Linux 6.12 has"
    return f"the kernel made it {now_ns} ns instead of {asked_ns} ns"


def _sched_setattr(tid: int, before: SchedAttributes, slice_ns: int) -> None:
    attributes = _SCHED_ATTR.pack(
        _SCHED_ATTR.size, before.policy, 0, before.nice, 0, slice_ns, 0, 0
    )
    number = _SCHED_SETATTR.get(os.uname().machine, _SCHED_SETATTR_GENERIC)
    raw_syscall(number, ctypes.c_int(tid), ctypes.c_char_p(attributes), ctypes.c_uint(0))


PERF_SOFTWARE, PERF_HW_CACHE = 1, 3
#: Type, size, config, sample period and type, read format, flags, wakeup, breakpoint type, address.
_PERF_ATTR = struct.Struct("=IIQQQQQIIQ")
_PERF_READ_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_PERF_READ = struct.Struct("=QQQ")
_PERF_FLAG_CLOEXEC = 8
_PERF_EVENT_OPEN = {"x86_64": 298, "ppc64le": 319, "s390x": 331}
_PERF_EVENT_OPEN_GENERIC = 241
#: What the kernel answers where nothing can count such events.
_PERF_UNSUPPORTED = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """What is counted.

    Attributes:
        name: For people and results.
        kind: PERF_TYPE_*.
        config: Number of the event among those of its kind.
    """

    name: str
    kind: int
    config: int


@dataclass(frozen=True, slots=True)
class PerfCount:
    """State of a counter.

    Attributes:
        value: Events while it counted.
        enabled_ns: Time that the thread ran while the counter was open.
        running_ns: Part of that in which a counter of the processor was free for it.
    """

    value: int
    enabled_ns: int
    running_ns: int

    def since(self, before: PerfCount) -> int | None:
        """Events since an earlier state, scaled up where the counter was shared."""
        counted = self.running_ns - before.running_ns
        ran = self.enabled_ns - before.enabled_ns
        if not counted:
            return None if ran else 0
        return round((self.value - before.value) * ran / counted)


def open_counter(event: PerfEvent, tid: int) -> int:
    """Count an event of one thread from now on, in user mode, kernel and guest alike."""
    attributes = _PERF_ATTR.pack(
        event.kind, _PERF_ATTR.size, event.config, 0, 0, _PERF_READ_TIMES, 0, 0, 0, 0
    )
    number = _PERF_EVENT_OPEN.get(os.uname().machine, _PERF_EVENT_OPEN_GENERIC)
    any_cpu = no_group = ctypes.c_int(-1)
    flags = ctypes.c_ulong(_PERF_FLAG_CLOEXEC)
    try:
        return raw_syscall(
            number, ctypes.c_char_p(attributes), ctypes.c_int(tid), any_cpu, no_group, flags
        )
    except ProcessLookupError:
        raise
    except OSError as error:
        raise HostError(_why_not_counted(error), where=event.name) from error


def read_counter(fd: int) -> PerfCount:
    """Read a counter."""
    return PerfCount(*_PERF_READ.unpack(os.read(fd, _PERF_READ.size)))


def _why_not_counted(error: OSError) -> str:
    if error.errno in _PERF_UNSUPPORTED:
        return "neither this processor nor a hypervisor under this machine counts them"
    if error.errno == errno.ENOSYS:
        return "this kernel has no perf events (CONFIG_PERF_EVENTS)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "the kernel does not let this process count them: root and CAP_PERFMON are needed"
    return f"the kernel refused: {error.strerror}"
