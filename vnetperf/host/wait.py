"""Waiting: one loop for all deadlines, with time limits as the virtual lab needs them."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from vnetperf.host.facts import file_text, is_unknown
from vnetperf.model.errors import HostError

log = logging.getLogger(__name__)
T = TypeVar("T")

#: On the kernel's command line in the virtual lab.
LAB_MARK = "vnetperf.virt=1"
#: On the command line of a lab whose own guests get their timers' interrupts.
LAB_GUESTS_MARK = "vnetperf.virt.guests=1"
#: An emulated CPU is some twenty times slower; limits have room for four of that already.
LAB_TIME_FACTOR = 5.0
POLL_S = 0.02


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


def wait_for(
    predicate: Callable[[], T | None],
    timeout_s: float,
    description: str,
    *,
    poll_s: float = POLL_S,
    check: Callable[[], object] | None = None,
    error: Callable[[], Exception] | None = None,
) -> T:
    """Call a predicate until its value is true, and return the value.

    It is called once more after the deadline: a machine that stood still meanwhile fails nothing.
    `check` is called after each call that returned nothing, and raises when waiting is pointless;
    `error` makes what is raised after the deadline. In the virtual lab `timeout_s` is longer.
    """
    value = _poll(predicate, timeout_s, description, poll_s, check)
    if not value:
        raise error() if error else HostError(f"{description}: not there after {timeout_s:g} s")
    return value


def wait_at_most(
    predicate: Callable[[], T], timeout_s: float, description: str, *, poll_s: float = POLL_S
) -> T:
    """Call a predicate until its value is true or the time is over, and return the value."""
    return _poll(predicate, timeout_s, description, poll_s, None)


#: Time between two looks at a program whose answer is waited for, seconds.
CHECK_S = 0.25


def receive(
    connection: socket.socket, octets: int, timeout_s: float, check: Callable[[], object]
) -> bytes:
    """Receive `octets` at most from a program, and `check` it every `CHECK_S` meanwhile.

    TimeoutError after `timeout_s`, which is the connection's own time limit afterwards.
    """
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            remaining_s = deadline - time.monotonic()
            connection.settimeout(max(0.001, min(CHECK_S, remaining_s)))
            try:
                return connection.recv(octets)
            except TimeoutError:
                if remaining_s <= CHECK_S:
                    raise
            check()
    finally:
        if connection.fileno() >= 0:
            connection.settimeout(timeout_s)


def _poll(
    predicate: Callable[[], T],
    timeout_s: float,
    description: str,
    poll_s: float,
    check: Callable[[], object] | None,
) -> T:
    began = time.monotonic()
    deadline = began + patient(timeout_s)
    waited = False
    while True:
        late = time.monotonic() >= deadline
        value = predicate()
        if not value:
            if not waited:
                log.debug("waiting for %s, at most %g s", description, deadline - began)
                waited = True
            if check is not None:
                check()
        if value or late:
            if waited:
                outcome = "there" if value else "missing"
                log.debug("%s: %s after %.2f s", description, outcome, time.monotonic() - began)
            return value
        time.sleep(poll_s)
