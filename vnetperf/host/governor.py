"""CPU frequency governors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vnetperf.host.journal import Change, Journal
from vnetperf.host.values import read_value, write_value
from vnetperf.model.errors import HostError

SYS = Path("/sys")


def governor(cpu: int, *, sys: Path = SYS) -> str | None:
    """The frequency governor of a CPU, or None when the machine lets nobody choose one."""
    path = _path(cpu, sys)
    return read_value(path) if path.exists() else None


def set_governor(
    journal: Journal, cpus: Iterable[int], name: str, *, sys: Path = SYS
) -> tuple[Change, ...]:
    """Set the frequency governor of CPUs for this run.

    Args:
        journal: The run's journal.
        cpus: CPU numbers.
        name: E.g. ``performance``.
        sys: Root of sysfs.

    Returns:
        One change for each CPU.

    Raises:
        HostError: This machine has no such governor, or lets nobody choose one.
    """
    changes = []
    for cpu in cpus:
        path = _path(cpu, sys)
        if not path.exists():
            raise HostError(
                "this machine lets nobody choose a frequency governor",
                where=f"cpu{cpu}",
                cure="leave it out: a virtual machine or the firmware decides",
            )
        changes.append(write_value(journal, path, name))
    return tuple(changes)


def _path(cpu: int, sys: Path) -> Path:
    return sys / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"
