"""How far two processors are apart: the time of a cache line from one to the other and back.

A hypervisor may move virtual processors to cores without a cache in common at any time, and back:
each frame then costs its sender and its receiver about twice as much, and nothing else shows it.
"""

from __future__ import annotations

import logging
import subprocess
from functools import cache
from pathlib import Path

from vnetperf.host.build import compiled
from vnetperf.host.facts.system import is_virtual
from vnetperf.host.paths import cache_directory, make_private
from vnetperf.host.wait import virtual_lab
from vnetperf.model.errors import HostError

log = logging.getLogger(__name__)
SOURCE = Path(__file__).with_name("lines.c")
FLAGS = ("-std=gnu11", "-O2", "-pthread")
#: Longest wait for the program, seconds; it ends by itself after a tenth of that.
ANSWER_S = 1.0


def line_ns(first: int, second: int) -> float | None:
    """Time of a cache line from one processor to another and back, ns; None: not measured.

    The least of some thousand, in half a millisecond that the processors' threads do without. On
    bare metal processors do not move, and nothing is measured.
    """
    program = _program()
    if program is None or first == second:
        return None
    argv = [str(program), str(first), str(second)]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=True, timeout=ANSWER_S
        )
        return float(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.debug("%s: %s", " ".join(argv), error)
        return None


@cache
def _program() -> Path | None:
    """The program, compiled; None on bare metal, in the virtual lab, or where it cannot be."""
    if not is_virtual() or virtual_lab():
        return None
    folder = cache_directory()
    try:
        make_private(folder)
        cure = "install the package gcc: without it, it is not known how far processors are apart"
        return compiled(SOURCE, ["cc", *FLAGS], folder, cure=cure)
    except (HostError, OSError) as error:
        log.info("distances of processors are not measured: %s", error)
        return None
