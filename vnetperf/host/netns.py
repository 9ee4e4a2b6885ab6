"""Network namespaces of a run, kept in its private directory and not in the machine's list."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from vnetperf.host import syscalls
from vnetperf.host.files import mounts_below
from vnetperf.host.journal import Change, Journal
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

T = TypeVar("T")

MS_BIND = 4096


def create_netns(journal: Journal, path: Path) -> Change:
    """Create a network namespace that lives until the run is undone; its loopback is up.

    Args:
        journal: The run's journal.
        path: File that names it, e.g. ``rundir.subdir("netns") / "tester"``; enter it with
            ``nsenter --net=PATH``.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: The file exists, or the kernel refused.
    """
    if path.exists():
        raise HostError("it exists already", where=str(path), cure="choose another name")

    def make() -> None:
        syscalls.unshare_network()
        syscalls.mount("/proc/thread-self/ns/net", path, "", MS_BIND)

    with journal.changing("netns", f"network namespace {path}", {"path": str(path)}) as change:
        try:
            path.touch(mode=0o600, exist_ok=False)
            syscalls.in_thread(make)
        except OSError as error:
            raise HostError(
                f"the network namespace could not be made: {error.strerror}",
                where=str(path),
                cure="run as root, outside containers without CAP_SYS_ADMIN",
            ) from error
        from vnetperf.host import links  # noqa: PLC0415 - it loads pyroute2, which is slow

        links.set_up("lo", netns=path)
    return change


def run_in(netns: Path | None, function: Callable[[], T]) -> T:
    """Run a function in a network namespace; None is the caller's.

    It runs in a thread of its own. Processes it starts belong to no run: use `Processes.spawn`.

    Args:
        netns: File that names the namespace.
        function: What to call.

    Returns:
        What the function returns.

    Raises:
        HostError: There is no such namespace.
    """
    if netns is None:
        return function()

    def body() -> T:
        try:
            syscalls.set_namespace(netns)
        except OSError as error:
            raise HostError(
                f"cannot enter the network namespace: {error.strerror}",
                where=str(netns),
                cure="create it first, as root",
            ) from error
        return function()

    return syscalls.in_thread(body)


def undo_netns(data: Data) -> str:
    """Remove a namespace's name; the kernel ends it with its last process."""
    path = Path(data["path"])
    outcome = "already gone"
    if str(path) in mounts_below(path):
        try:
            syscalls.unmount(path, syscalls.MNT_DETACH)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: somebody unmounted it just now
                raise
        outcome = "removed"
    if path.exists():
        path.unlink()
        outcome = "removed"
    return outcome
