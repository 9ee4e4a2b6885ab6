"""Facts about interrupts: where they go, and whether somebody moves them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vnetperf.host.cpulist import format_cpus
from vnetperf.host.fact import file_text, is_unknown, unknown
from vnetperf.host.irq import irqs_of_device


def interrupt_facts(*, proc: Path) -> dict[str, Any]:
    """Where interrupts go by default, where they may go now, and whether irqbalance moves them."""
    numbers = sorted(int(path.name) for path in (proc / "irq").glob("[0-9]*"))
    return {
        "default_affinity": _mask(file_text(proc / "irq/default_smp_affinity")),
        "affinity": _by_cpus(proc, numbers)
        if numbers
        else unknown(f"{proc / 'irq'} shows no interrupts"),
        "irqbalance": _irqbalance(proc),
    }


def of_device(address: str, *, sys: Path, proc: Path) -> Any:
    """Processors -> interrupts of a PCI device that may be served there.

    Args:
        address: PCI address.
        sys: Root of sysfs.
        proc: Root of procfs.

    Returns:
        {"0-3": "24-27"}, or why it is unknown.
    """
    reserved = irqs_of_device(address, sys=sys)
    # Numbers that a driver has reserved and not asked for yet have no file.
    numbers = [number for number in reserved if (proc / f"irq/{number}").exists()]
    if numbers:
        return _by_cpus(proc, numbers)
    why = "its driver asks for them when its interface comes up" if reserved else "it has none"
    return unknown(why)


def _by_cpus(proc: Path, numbers: list[int]) -> dict[str, str]:
    found: dict[str, list[int]] = {}
    for number in numbers:
        cpus = file_text(proc / f"irq/{number}/smp_affinity_list")
        found.setdefault(cpus, []).append(number)
    return {cpus: format_cpus(irqs) for cpus, irqs in sorted(found.items())}


def _mask(text: str) -> str:
    """A mask of the kernel's, "00000000,0000000f", as a list of processors."""
    if is_unknown(text):
        return text
    bits = int(text.replace(",", ""), 16)
    return format_cpus(bit for bit in range(bits.bit_length()) if bits >> bit & 1)


def _irqbalance(proc: Path) -> str:
    """Whether irqbalance runs: it moves interrupts on to processors that are in use."""
    if not (proc / "self").exists():
        return unknown(f"{proc} shows no processes")
    return "runs" if "irqbalance" in _names(proc) else "does not run"


def _names(proc: Path) -> Iterator[str]:
    for path in proc.glob("[0-9]*/comm"):
        yield file_text(path)
