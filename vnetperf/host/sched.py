"""Scheduler slices: how long a thread runs before another on its CPU has its turn.

With more poll-mode threads than CPUs the default of some milliseconds lets rings overflow. Linux
since 6.12 gives a thread of the normal policy the slice that it asks for.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.syscalls import in_thread, raw_syscall
from vnetperf.host.threads import for_each_thread
from vnetperf.model.errors import HostError

SLICE_NS = 100_000
# struct sched_attr, first version: size, policy, flags, nice, priority, runtime, deadline, period
_ATTR = struct.Struct("=IIQiIQQQ")
_NORMAL_POLICIES = frozenset({0, 3})  # SCHED_OTHER, SCHED_BATCH
_SETATTR = {"x86_64": 314, "ppc64le": 355, "s390x": 345, "armv7l": 380, "i686": 351}
_ASM_GENERIC = 274  # aarch64, riscv64, loongarch64
_GETATTR = {"x86_64": 315, "ppc64le": 356, "s390x": 346, "armv7l": 381, "i686": 352}


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


def read_attributes(tid: int) -> SchedAttributes:
    """Read the scheduling of a thread.

    Args:
        tid: Thread id.

    Returns:
        Policy, niceness, real-time priority and slice.

    Raises:
        HostError: It is gone, or the kernel refuses.
    """
    buffer = ctypes.create_string_buffer(_ATTR.size)
    number = _GETATTR.get(os.uname().machine, _ASM_GENERIC + 1)
    try:
        raw_syscall(number, ctypes.c_int(tid), buffer, ctypes.c_uint(_ATTR.size), ctypes.c_uint(0))
    except OSError as error:
        raise HostError(f"sched_getattr: {error.strerror}", where=f"thread {tid}") from error
    _, policy, _, nice, priority, runtime, _, _ = _ATTR.unpack(buffer.raw)
    return SchedAttributes(policy, nice, priority, runtime)


def favour(pid: int, nice: int) -> str:
    """Let a process's session go before others on its CPUs.

    Where the kernel groups tasks by session (CONFIG_SCHED_AUTOGROUP), niceness of a thread only
    counts within its session; this sets the session's. Nothing is journaled: it ends with the
    session.

    Args:
        pid: A process of this run that leads a session of its own.
        nice: Niceness of the session, -20 to 19.

    Returns:
        What was done, for a result; a kernel without such groups needs nothing.
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
    """Set the niceness of every thread of a process; it ends with the process.

    Args:
        pid: A process of this run.
        nice: -20 to 19.

    Returns:
        How many threads took it, and why others did not: below the present one it needs
        CAP_SYS_NICE, which a container's root may not have.
    """
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

    Args:
        pid: A process of this run.
        slice_ns: Slice in ns; the kernel accepts 100 us to 100 ms.

    Returns:
        How many threads took it, and why others did not.
    """
    asked = 0
    took = 0
    why = ""

    def ask(tid: int) -> None:
        nonlocal asked, took, why
        before = read_attributes(tid)
        if before.policy not in _NORMAL_POLICIES:
            return
        try:
            _set(tid, before, slice_ns)
        except ProcessLookupError:  # a thread may end while we look
            return
        except OSError as error:
            asked += 1
            why = f"sched_setattr: {error.strerror}"
            return
        asked += 1
        problem = _why_not_taken(read_attributes(tid).slice_ns, slice_ns)
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
            _set(me, read_attributes(me), slice_ns)
        except OSError as error:
            return f"sched_setattr: {error.strerror}"
        except HostError as error:
            return error.what
        return _why_not_taken(read_attributes(me).slice_ns, slice_ns)

    return in_thread(probe)


def _why_not_taken(now_ns: int, asked_ns: int) -> str:
    if now_ns == asked_ns:
        return ""
    if now_ns == 0:
        return f"kernel {os.uname().release} has no slices of threads, Linux 6.12 has"
    return f"the kernel made it {now_ns} ns instead of {asked_ns} ns"


def _set(tid: int, before: SchedAttributes, slice_ns: int) -> None:
    attributes = _ATTR.pack(_ATTR.size, before.policy, 0, before.nice, 0, slice_ns, 0, 0)
    number = _SETATTR.get(os.uname().machine, _ASM_GENERIC)
    raw_syscall(number, ctypes.c_int(tid), ctypes.c_char_p(attributes), ctypes.c_uint(0))
