"""How long to wait for what may be slow: longer where processors are emulated."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vnetperf.host.facts_system import virtual_lab

#: An emulated processor is some twenty times slower; limits have room for four of that already.
IN_THE_LAB = 5.0


@cache
def factor(proc: Path = Path("/proc")) -> float:
    """How many times longer than elsewhere things take on this machine.

    Args:
        proc: Root of /proc.

    Returns:
        1 on a real machine.
    """
    return IN_THE_LAB if virtual_lab(proc=proc) is True else 1.0


def patient(seconds: float) -> float:
    """A limit that is meant for a real machine, as this one needs it.

    Args:
        seconds: Longest wait on a real machine, seconds.

    Returns:
        Longest wait here, seconds.
    """
    return seconds * factor()
