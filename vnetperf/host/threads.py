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

from vnetperf.host.linux import PROC, call_in_thread, close_after, raw_syscall, read_file
from vnetperf.model.errors import HostError

MAX_ROUNDS = 20
#: The kernel keeps so many characters of a thread's name.
COMM = 15


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread; its name has 15 bytes at most, such as ``pmd-c01/id:8``."""

    tid: int
    name: str
    cpus: frozenset[int]


def list_threads(pid: int) -> tuple[Thread, ...]:
    """Threads of a process by id; empty when it is gone."""
    threads = []
    for tid in thread_ids(pid):
        with contextlib.suppress(OSError):  # a thread may end while we look
            name = read_file(PROC / f"{pid}/task/{tid}/comm").strip()
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
    target = frozenset(cpus)
    try:
        os.sched_setaffinity(tid, target)
        actual = frozenset(os.sched_getaffinity(tid))
    except OSError as error:
        raise _cannot_pin(tid, target, error.strerror or str(error)) from error
    if actual != target:
        raise _cannot_pin(tid, target, f"the kernel took only {sorted(actual)}")


def pin_process(pid: int, cpus: Iterable[int]) -> int:
    """Bind all threads of a process to CPUs, also those that start meanwhile."""
    target = frozenset(cpus)
    bound = visit_threads(pid, lambda tid: pin_thread(tid, target))
    if not bound:
        raise _cannot_pin(pid, target, "it has no threads, it has ended")
    return bound


def visit_threads(pid: int, action: Callable[[int], None]) -> int:
    """Do something once to each thread, until a look finds no new one.

    Threads that end meanwhile are passed over.
    """
    visited: set[int] = set()
    done = 0
    for _ in range(MAX_ROUNDS):
        new = set(thread_ids(pid)) - visited
        if not new:
            break
        for tid in sorted(new):
            try:
                action(tid)
                done += 1
            except HostError:
                if tid in thread_ids(pid):
                    raise
        visited |= new
    return done


def _cannot_pin(tid: int, cpus: frozenset[int], reason: str) -> HostError:
    return HostError(
        f"thread {tid} cannot be bound to CPUs {sorted(cpus)}: {reason}",
        accepted=f"among {sorted(os.sched_getaffinity(0))}",
        cure="choose CPUs that are online and allowed by this process's cgroup",
    )


SLICE_NS = 100_000
_NO_THREADS = "the process has no threads"
# struct sched_attr, first version: size, policy, flags, nice, priority, runtime, deadline, period
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")
_NORMAL_POLICIES = frozenset({0, 3})  # SCHED_OTHER, SCHED_BATCH
_SCHED_SETATTR = {"x86_64": 314, "ppc64le": 355, "s390x": 345, "armv7l": 380, "i686": 351}
_SCHED_SETATTR_GENERIC = 274  # aarch64, riscv64, loongarch64
_SCHED_GETATTR = {"x86_64": 315, "ppc64le": 356, "s390x": 346, "armv7l": 381, "i686": 352}


@dataclass(frozen=True, slots=True)
class SchedAttributes:
    """Scheduling of one thread; policy 0 is SCHED_OTHER, `slice_ns` 0 before Linux 6.12."""

    policy: int
    nice: int
    slice_ns: int


def read_sched_attributes(tid: int) -> SchedAttributes:
    """Read the scheduling of a thread."""
    buffer = ctypes.create_string_buffer(_SCHED_ATTR.size)
    number = _SCHED_GETATTR.get(os.uname().machine, _SCHED_SETATTR_GENERIC + 1)
    with HostError.explain_os_error("sched_getattr", where=f"thread {tid}"):
        raw_syscall(
            number, ctypes.c_int(tid), buffer, ctypes.c_uint(_SCHED_ATTR.size), ctypes.c_uint(0)
        )
    _, policy, _, nice, _, runtime, _, _ = _SCHED_ATTR.unpack(buffer.raw)
    return SchedAttributes(policy, nice, runtime)


def set_autogroup_nice(pid: int, nice: int) -> str:
    """Let a process's session go before others on its CPUs.

    Where the kernel groups tasks by session (CONFIG_SCHED_AUTOGROUP), niceness of a thread only
    counts within its session; this sets the session's. Nothing is journaled: it ends with the
    session. The caller's own session is left alone: all that its user runs is in it.
    """
    path = Path(f"/proc/{pid}/autogroup")
    try:
        if os.getsid(pid) == os.getsid(0):
            return "left as it is: it is the session of this program too"
        path.write_text(f"{nice}\n")
        return read_file(path).strip()
    except FileNotFoundError:
        return "the kernel does not group by session"
    except OSError as error:
        return f"not available: {error.strerror}"


def set_nice(pid: int, nice: int) -> str:
    """Set the niceness of every thread of a process, and report in one line whether all took it.

    It ends with the process.
    """

    def set_thread(tid: int) -> str:
        try:
            os.setpriority(os.PRIO_PROCESS, tid, nice)
        except ProcessLookupError:
            raise
        except OSError as error:
            return error.strerror or str(error)
        return ""

    threads, reason = _set_threads(pid, set_thread)
    return (
        f"nice {nice}"
        if threads and not reason
        else f"nice {nice} not taken: {reason or _NO_THREADS}"
    )


def set_slice(pid: int, slice_ns: int = SLICE_NS) -> str:
    """Set the slice of every thread of a process, and report in one line whether all took it.

    Threads that it starts later inherit it; real-time threads are left alone. Nothing is
    journaled: it ends with the process.
    """

    def set_thread(tid: int) -> str | None:
        before = read_sched_attributes(tid)
        return _try_slice(tid, before, slice_ns) if before.policy in _NORMAL_POLICIES else None

    try:
        threads, reason = _set_threads(pid, set_thread)
    except HostError as error:
        threads, reason = 0, str(error)
    if threads and not reason:
        return f"{slice_ns / 1000:g} us on {threads} threads"
    return f"not available: {reason or _NO_THREADS}"


def _set_threads(pid: int, set_thread: Callable[[int], str | None]) -> tuple[int, str]:
    """Set something of each thread: how many there are, and why one of them did not take it.

    `set_thread` returns the reason, "" when it took it, and None for one that is to be left alone.
    """
    reasons: list[str] = []

    def collect(tid: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # a thread may end meanwhile
            if (reason := set_thread(tid)) is not None:
                reasons.append(reason)

    visit_threads(pid, collect)
    return len(reasons), next(filter(None, reversed(reasons)), "")


def _try_slice(tid: int, before: SchedAttributes, slice_ns: int) -> str:
    """Why a thread did not take a slice, empty when it did."""
    try:
        set_sched_attributes(tid, before, slice_ns)
    except ProcessLookupError:
        raise
    except OSError as error:
        return f"sched_setattr: {error.strerror}"
    now = read_sched_attributes(tid).slice_ns
    if now == slice_ns:
        return ""
    if now == 0:
        return f"kernel {os.uname().release} has no slices of threads, Linux 6.12 has"
    return f"the kernel made it {now} ns instead of {slice_ns} ns"


def explain_no_slices() -> str:
    """Why this machine gives no slices, empty when it does: tried on a thread of our own."""

    def probe() -> str:
        me = threading.get_native_id()
        try:
            return _try_slice(me, read_sched_attributes(me), SLICE_NS)
        except HostError as error:
            return error.what

    return call_in_thread(probe)


def set_sched_attributes(tid: int, before: SchedAttributes, slice_ns: int) -> None:
    """Give a thread a time slice, in nanoseconds; what else it has stays."""
    attributes = _SCHED_ATTR.pack(
        _SCHED_ATTR.size, before.policy, 0, before.nice, 0, slice_ns, 0, 0
    )
    number = _SCHED_SETATTR.get(os.uname().machine, _SCHED_SETATTR_GENERIC)
    raw_syscall(number, ctypes.c_int(tid), ctypes.c_char_p(attributes), ctypes.c_uint(0))


PERF_HARDWARE, PERF_HW_CACHE = 0, 3
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
    """What is counted: `kind` is a PERF_TYPE_*, `config` the number of an event of that kind."""

    name: str
    kind: int
    config: int


@dataclass(frozen=True, slots=True)
class PerfCount:
    """State of a counter: the thread ran for `enabled_ns`, and was counted for `running_ns`."""

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


CYCLES = PerfEvent("cycles", PERF_HARDWARE, 0)
_PROOF_LOOP = 20_000


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
        raise HostError(_explain_not_counted(error), where=event.name) from error


def read_counter(fd: int) -> PerfCount:
    """Read a counter."""
    return PerfCount(*_PERF_READ.unpack(os.read(fd, _PERF_READ.size)))


def explain_no_counts() -> str:
    """Why the processor's counters count nothing though they can be opened; "" where they count.

    Some hypervisors let them be opened and never count: a loop of our own is the proof.
    """
    try:
        fd = open_counter(CYCLES, threading.get_native_id())
    except (HostError, ProcessLookupError):
        return ""  # whoever opens one learns why it cannot
    with close_after(fd):
        sum(range(_PROOF_LOOP))
        counted = read_counter(fd).value
    return "" if counted else "a counter of cycles was opened, and counted nothing of a loop"


def _explain_not_counted(error: OSError) -> str:
    if error.errno in _PERF_UNSUPPORTED:
        return "neither this processor nor a hypervisor under this machine counts them"
    if error.errno == errno.ENOSYS:
        return "this kernel has no perf events (CONFIG_PERF_EVENTS)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "the kernel does not let this process count them: root and CAP_PERFMON are needed"
    return f"the kernel refused: {error.strerror}"
