"""How far two processors are apart: the time of a cache line from one to the other and back.

A hypervisor may move virtual processors to cores without a cache in common at any time, and back:
each frame then costs its sender and its receiver about twice as much, and nothing else shows it.
They can be brought together again.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vnetperf.host.build import compiled
from vnetperf.host.facts.system import is_virtual
from vnetperf.host.linux import is_stopped, run_program
from vnetperf.host.paths import cache_directory, make_private
from vnetperf.host.wait import virtual_lab
from vnetperf.model.errors import HostError
from vnetperf.model.machine_load import DISTURBING_LINE

log = logging.getLogger(__name__)
SOURCE = Path(__file__).with_name("lines.c")
FLAGS = ("-std=gnu11", "-O2", "-pthread")
#: Longest wait for the program beyond what it was given, seconds; it needs a tenth of that.
ANSWER_S = 1.0


def line_ns(first: int, second: int) -> float | None:
    """Time of a cache line from one processor to another and back, ns; None: not measured.

    The least of some thousand, in half a millisecond that the processors' threads do without. On
    bare metal processors do not move, and nothing is measured.
    """
    return _ask(first, second)


#: Longest attempts to bring two processors together, seconds: the first one does not know how near
#: they can be, and has to look for it.
FIRST_ATTEMPT_S, ATTEMPT_S = 1.0, 2.5
#: A failed attempt is followed by a pause as long as itself, the next one by one twice as long, and
#: so on, up to so many times its length.
LONGEST_PAUSE = 4


@dataclass
class _Pair:
    """Two processors: the shortest distance seen, and when the next attempt may begin.

    Attributes:
        pause: Length of the next pause, in attempts.
    """

    least_ns: float
    not_before: float = 0.0
    pause: int = 1


_pairs: dict[tuple[int, int], _Pair] = {}


def bring_together(first: int, second: int, pollers: Iterable[int] = ()) -> float:
    """Bring two processors of a virtual machine as near to each other as they have been.

    They wake each other in turn until they are: a hypervisor has processors that do so share a
    cache, and moves those apart that are always busy, which an overload makes them. Nothing
    happens on bare metal.

    Args:
        first: The one processor.
        second: The other.
        pollers: Processes that are always busy there: they are stopped meanwhile, since a
            processor that never sleeps is brought nowhere.

    Returns:
        The time it took, seconds; 0 where nothing had to be done, or could be.
    """
    key, began = (first, second), time.monotonic()
    now_ns = line_ns(first, second)
    if now_ns is None:
        return 0.0
    pair = _pairs.get(key)
    if pair is None:
        with _stopped(pollers):
            nearest = _ask(first, second, now_ns / DISTURBING_LINE, FIRST_ATTEMPT_S)
        _pairs[key] = _Pair(min(now_ns, nearest or now_ns))
        return time.monotonic() - began
    pair.least_ns = min(pair.least_ns, now_ns)
    enough_ns = DISTURBING_LINE * pair.least_ns
    if now_ns <= enough_ns or began < pair.not_before:
        return 0.0
    with _stopped(pollers):
        reached_ns = _ask(first, second, enough_ns, ATTEMPT_S)
    took_s = time.monotonic() - began
    if reached_ns is None or reached_ns > enough_ns:
        log.debug("processors %d and %d stay apart: %s ns", first, second, reached_ns)
        pair.not_before = began + (1 + pair.pause) * took_s
        pair.pause = min(2 * pair.pause, LONGEST_PAUSE)
    else:
        pair.pause = 1
    return took_s


@contextmanager
def _stopped(pids: Iterable[int]) -> Iterator[None]:
    """Processes stopped for a while; whoever has ended, or was stopped before, is left alone."""
    stopped: list[int] = []
    try:
        for pid in (pid for pid in pids if not is_stopped(pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _ask(first: int, second: int, enough_ns: float = 0.0, seconds: float = 0.0) -> float | None:
    """The distance, once it is short enough or the time is over; None: not measured."""
    program = _program()
    if program is None or first == second:
        return None
    argv = [str(program), str(first), str(second)]
    if seconds:
        argv += [f"{enough_ns:.1f}", f"{1000 * seconds:.0f}"]
    try:
        return float(run_program(argv, ANSWER_S + seconds, check=True).stdout)
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
