"""Waiting: time limits as a real machine needs them, scaled in the virtual lab."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vnetperf.host.facts.system import virtual_lab

#: An emulated processor is some twenty times slower; limits have room for four of that already.
LAB_TIME_FACTOR = 5.0


@cache
def time_factor(proc: Path = Path("/proc")) -> float:
    """How many times longer than elsewhere things take on this machine."""
    return LAB_TIME_FACTOR if virtual_lab(proc=proc) is True else 1.0


def patient(seconds: float) -> float:
    """A limit that is meant for a real machine, as this one needs it."""
    return seconds * time_factor()
