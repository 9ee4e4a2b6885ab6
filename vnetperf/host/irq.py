"""Interrupts: which belong to a device, and on which CPUs they are served."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vnetperf.host.cpulist import format_cpus
from vnetperf.host.journal import Change, Journal
from vnetperf.host.values import write_value

PROC = Path("/proc")
SYS = Path("/sys")


def irqs_of_device(address: str, *, sys: Path = SYS) -> tuple[int, ...]:
    """Interrupt numbers of a PCI device; empty when it has none."""
    directory = sys / "bus/pci/devices" / address / "msi_irqs"
    return tuple(sorted(int(path.name) for path in directory.glob("[0-9]*")))


def set_irq_affinity(
    journal: Journal, irq: int, cpus: Iterable[int], *, proc: Path = PROC
) -> Change:
    """Have an interrupt served on these CPUs only, for this run.

    Args:
        journal: The run's journal.
        irq: Interrupt number.
        cpus: CPU numbers.
        proc: Root of procfs.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: No such interrupt, or the kernel manages it itself and refuses.
    """
    return write_value(journal, proc / f"irq/{irq}/smp_affinity_list", format_cpus(cpus))
