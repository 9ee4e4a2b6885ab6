"""Counters of the kernel's perf subsystem, for single threads: perf_event_open(2).

The layout is PERF_ATTR_SIZE_VER0 of include/uapi/linux/perf_event.h, which every kernel takes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from dataclasses import dataclass

from vnetperf.host.syscalls import raw_syscall
from vnetperf.model.errors import HostError

SOFTWARE, HW_CACHE = 1, 3
#: Type, size, config, sample period and type, read format, flags, wakeup, breakpoint type, address.
_ATTR = struct.Struct("=IIQQQQQIIQ")
_FORMAT_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_READ = struct.Struct("=QQQ")
_CLOEXEC = 8
_NUMBER = {"x86_64": 298, "ppc64le": 319, "s390x": 331}
_ASM_GENERIC = 241
#: What the kernel answers where nothing can count such events.
_ABSENT = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Event:
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
class Count:
    """State of a counter.

    Attributes:
        value: Events while it counted.
        enabled_ns: Time that the thread ran while the counter was open.
        running_ns: Part of that in which a counter of the processor was free for it.
    """

    value: int
    enabled_ns: int
    running_ns: int

    def since(self, before: Count) -> int | None:
        """Events since an earlier state, scaled up where the counter was shared.

        Args:
            before: The earlier state.

        Returns:
            Events; None when the thread ran and nothing of it was counted.
        """
        counted = self.running_ns - before.running_ns
        ran = self.enabled_ns - before.enabled_ns
        if not counted:
            return None if ran else 0
        return round((self.value - before.value) * ran / counted)


def open_counter(event: Event, tid: int) -> int:
    """Count an event of one thread from now on, in user mode, kernel and guest alike.

    Args:
        event: What to count.
        tid: The thread.

    Returns:
        File descriptor, to be read by `read_counter` and closed.

    Raises:
        ProcessLookupError: The thread has ended.
        HostError: Nothing here can count it, or this process may not.
    """
    attributes = _ATTR.pack(event.kind, _ATTR.size, event.config, 0, 0, _FORMAT_TIMES, 0, 0, 0, 0)
    number = _NUMBER.get(os.uname().machine, _ASM_GENERIC)
    any_cpu = no_group = ctypes.c_int(-1)
    flags = ctypes.c_ulong(_CLOEXEC)
    try:
        return raw_syscall(
            number, ctypes.c_char_p(attributes), ctypes.c_int(tid), any_cpu, no_group, flags
        )
    except ProcessLookupError:
        raise
    except OSError as error:
        raise HostError(_why(error), where=event.name) from error


def read_counter(fd: int) -> Count:
    """Read a counter.

    Args:
        fd: As of `open_counter`.

    Returns:
        Its state.

    Raises:
        OSError: The counter is in an error state.
    """
    return Count(*_READ.unpack(os.read(fd, _READ.size)))


def _why(error: OSError) -> str:
    if error.errno in _ABSENT:
        return "neither this processor nor a hypervisor under this machine counts them"
    if error.errno == errno.ENOSYS:
        return "this kernel has no perf events (CONFIG_PERF_EVENTS)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "the kernel does not let this process count them: root and CAP_PERFMON are needed"
    return f"the kernel refused: {error.strerror}"
