"""The few system calls that Python 3.11 does not have: namespaces, mounts, modules."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
MNT_DETACH = 2
O_NONBLOCK = os.O_NONBLOCK

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def set_namespace(namespace: int | Path) -> None:
    """Move the calling *thread* into a network namespace (an open file or its path).

    Args:
        namespace: File descriptor or path.

    Raises:
        OSError: No such namespace, or not root.
    """
    if isinstance(namespace, int):
        _check(_libc.setns(namespace, CLONE_NEWNET), "setns")
        return
    fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(fd, CLONE_NEWNET), str(namespace))
    finally:
        os.close(fd)


def unshare_network() -> None:
    """Give the calling *thread* a new network namespace.

    Raises:
        OSError: Not root, or the kernel has no namespaces.
    """
    _check(_libc.unshare(CLONE_NEWNET), "unshare")


def mount(source: str, target: Path, fstype: str, flags: int = 0, options: str = "") -> None:
    """Attach a file system to a directory.

    Args:
        source: Device or name.
        target: Directory.
        fstype: File system type.
        flags: MS_* flags.
        options: Data for the file system.

    Raises:
        OSError: The kernel refused.
    """
    result = _libc.mount(
        source.encode(),
        os.fsencode(target),
        fstype.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, str(target))


def unmount(target: Path, flags: int = 0) -> None:
    """umount2(2).

    Args:
        target: The mount point.
        flags: MNT_* flags.

    Raises:
        OSError: The kernel refused: busy, or not a mount point (EINVAL).
    """
    _check(_libc.umount2(os.fsencode(target), flags), str(target))


def delete_module(name: str) -> None:
    """Unload a kernel module, unless something uses it.

    Args:
        name: Module name.

    Raises:
        OSError: In use, not loaded, or the kernel has no modules.
    """
    _check(_libc.syscall(_delete_module_number(), name.encode(), O_NONBLOCK), name)


def in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread of its own, so that namespaces it enters end with it."""
    results: list[T] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            errors.append(error)

    thread = threading.Thread(target=body, name="vnetperf-namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def raw_syscall(number: int, *arguments: Any) -> int:
    """syscall(2) by number, for calls without a C library function.

    Args:
        number: The architecture's number of the call.
        *arguments: Passed on.

    Returns:
        What the kernel returned, not negative.

    Raises:
        OSError: The kernel refused.
    """
    return _check(int(_libc.syscall(number, *arguments)), f"system call {number}")


def _delete_module_number() -> int:
    # asm-generic architectures (aarch64, riscv, loongarch) share one table.
    return {"x86_64": 176, "ppc64le": 129, "s390x": 129}.get(os.uname().machine, 106)
