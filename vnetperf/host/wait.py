"""Waiting: time limits as a real machine needs them, scaled in the virtual lab."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vnetperf.host.facts import file_text, is_unknown

#: On the kernel's command line in the virtual lab.
LAB_MARK = "vnetperf.virt=1"
#: On the command line of a lab whose own guests get their timers' interrupts.
LAB_GUESTS_MARK = "vnetperf.virt.guests=1"

#: An emulated processor is some twenty times slower; limits have room for four of that already.
LAB_TIME_FACTOR = 5.0


def virtual_lab(*, proc: Path = Path("/proc")) -> bool | str:
    """Whether this is a guest of `vnetperf lab`, whose speeds mean nothing."""
    cmdline = file_text(proc / "cmdline")
    return cmdline if is_unknown(cmdline) else LAB_MARK in cmdline.split()


def lab_takes_guests(*, proc: Path = Path("/proc")) -> bool:
    """Whether a guest of `vnetperf lab` can have guests of its own."""
    return LAB_GUESTS_MARK in file_text(proc / "cmdline").split()


@cache
def time_factor(proc: Path = Path("/proc")) -> float:
    """How many times longer than elsewhere things take on this machine."""
    return LAB_TIME_FACTOR if virtual_lab(proc=proc) is True else 1.0


def patient(seconds: float) -> float:
    """A limit that is meant for a real machine, as this one needs it."""
    return seconds * time_factor()
