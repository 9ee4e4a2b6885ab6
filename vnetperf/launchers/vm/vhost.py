"""Threads of vhost-net, which move the frames of a guest's taps in the kernel."""

from __future__ import annotations

from pathlib import Path

from vnetperf.host.cpulist import format_cpus
from vnetperf.host.threads import Thread, list_threads, pin_thread

PROC = Path("/proc")


def vhost_threads(pid: int) -> tuple[Thread, ...]:
    """Threads that vhost-net runs for a guest.

    Since Linux 6.4 they are threads of QEMU, before they are threads of the kernel; both are
    called after QEMU's process.

    Args:
        pid: Process id of its QEMU.

    Returns:
        The threads; none where QEMU moves the frames itself.
    """
    inside = tuple(thread for thread in list_threads(pid) if thread.name.startswith("vhost-"))
    return inside or tuple(
        thread
        for path in PROC.glob("[0-9]*/comm")
        if _says(path) == f"vhost-{pid}"[:15]
        for thread in list_threads(int(path.parent.name))
    )


def _says(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def pin_vhost(pid: int, cpus: tuple[int, ...]) -> None:
    """Bind the threads of vhost-net to processors, and verify it.

    Args:
        pid: Process id of the guest's QEMU.
        cpus: Processors.

    Raises:
        HostError: A thread may run elsewhere.
    """
    for thread in vhost_threads(pid):
        pin_thread(thread.tid, cpus)


def vhost_placement(pid: int) -> dict[str, str]:
    """Where the threads of vhost-net are, read back from the kernel.

    Args:
        pid: Process id of the guest's QEMU.

    Returns:
        "vhost 0" -> "2"; empty without vhost-net.
    """
    threads = vhost_threads(pid)
    return {f"vhost {number}": format_cpus(t.cpus) for number, t in enumerate(threads)}
