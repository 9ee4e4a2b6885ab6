"""How far a machine's time of day may be from its reference, as the service that keeps it states.

chrony (`chronyc tracking`), or linuxptp with time stamps by software (`pmc`), which then keeps the
time of day itself. With time stamps by hardware ptp4l keeps a NIC's clock, and nothing that can be
read bounds how far the time of day is from that.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence

from vnetperf.host.programs import EXTRA_PATH
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import ClockSync

CHRONYC = ("chronyc", "-c", "-n", "tracking")
#: The data sets of the local instance; `-b 0` has none of another machine answer.
PMC = (
    "pmc",
    "-u",
    "-b",
    "0",
    "GET TIME_STATUS_NP",
    "GET CURRENT_DATA_SET",
    "GET PORT_PROPERTIES_NP",
    "GET PORT_DATA_SET",
)
#: Fields of `chronyc -c tracking` (chronyc(1)): reference, its address or name, offset, root delay
#: and dispersion, leap status.
_REFERENCE, _SOURCE, _OFFSET, _DELAY, _DISPERSION, _LEAP = 0, 1, 4, 10, 11, 13
#: Reference of a clock that follows itself alone (`local` in chrony.conf), and of none.
_NO_REFERENCE = ("7F7F0101", "00000000", "")
_FIELD = re.compile(r"^\s+(\w+)\s+(\S+)\s*$", re.MULTILINE)
#: The identity of the instance that answers.
_OWN = re.compile(r"^\s+(\S+)-0 seq \d+ RESPONSE MANAGEMENT TIME_STATUS_NP", re.MULTILINE)
#: The port's `delayMechanism` where the delay of the whole path is measured (IEEE 1588, 8.2.5.4.4).
_END_TO_END = "1"
Run = Callable[[Sequence[str]], str]


def read_sync(run: Run | None = None) -> ClockSync:
    """What this machine's services state of its clock now."""
    troubles = []
    for read in (_by_chrony, _by_ptp):
        found = read(run or _run)
        if found.bound_s is not None:
            return found
        troubles.append(found.why)
    return ClockSync(why="; ".join(troubles))


def wider(then: ClockSync, now: ClockSync) -> ClockSync:
    """What holds from one reading to the next: a clock may be slewed to its reference meanwhile."""
    for one in (then, now):
        if one.bound_s is None:
            return one
    if then.reference != now.reference:
        return ClockSync(why=f"it followed {then.reference}, then {now.reference}")
    return max(then, now, key=lambda one: one.bound_s or 0.0)


def _by_chrony(run: Run) -> ClockSync:
    """The bound that chronyc(1) gives, if its source is right: one source, one error of both."""
    try:
        fields = run(CHRONYC).strip().split(",")
        reference, source, leap = fields[_REFERENCE], fields[_SOURCE], fields[_LEAP]
        offset, delay, dispersion = (float(fields[n]) for n in (_OFFSET, _DELAY, _DISPERSION))
    except (HostError, ValueError, IndexError) as error:
        return ClockSync(why=f"chrony: {_line(error)}")
    if reference in _NO_REFERENCE or leap == "Not synchronised":
        return ClockSync(why="chrony: not synchronised")
    if not _elsewhere(source):
        return ClockSync(
            why=f"chrony: it follows {source}, a clock of this machine or of its own link, and "
            "another host's of that name may be another clock"
        )
    return ClockSync(
        service="chrony",
        reference=f"chrony's source {reference}",
        bound_s=abs(offset) + dispersion + delay / 2,
    )


def _elsewhere(source: str) -> bool:
    """Whether the same source of two hosts is one server: not for reference clocks, by name."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_link_local)


def _by_ptp(run: Run) -> ClockSync:
    """The offset from the master, and the path's delay: its two ways differ by no more."""
    try:
        printed = run(PMC)
        if (own := _OWN.search(printed)) is None:
            # pmc then prints what it has sent, and exits with 0.
            return ClockSync(why="ptp4l: no answer")
        found = dict(_FIELD.findall(printed))
        offset, delay = float(found["master_offset"]), float(found["meanPathDelay"])
        master, state = found["gmIdentity"], _state(printed)
        stamps, steps = found["timestamping"], int(found["stepsRemoved"])
        mechanism = found["delayMechanism"]
    except (HostError, ValueError, KeyError) as error:
        return ClockSync(why=f"ptp4l: {_line(error)}")
    why = ""
    if stamps != "SOFTWARE":
        why = (
            f"it keeps a NIC's clock (time stamps: {stamps}), from which nothing bounds the time "
            "of day"
        )
    elif state == "MASTER" and master == own[1]:
        # Its time of day is what the others follow.
        return ClockSync(service="ptp4l", reference=master, bound_s=0.0)
    elif state != "SLAVE":
        # Without a master the offset is that of the last one, as is `gmPresent` (linuxptp 3.1).
        why = f"it follows no master now (port state: {state})"
    elif steps != 1:
        why = (
            f"{steps} steps from the grandmaster, and the error of a boundary clock between is not "
            "known"
        )
    elif mechanism != _END_TO_END:
        why = (
            "it measures the delay to its neighbour (P2P), which may not be the path's; "
            "`delay_mechanism E2E` measures that"
        )
    if why:
        return ClockSync(why=f"ptp4l: {why}")
    return ClockSync(service="ptp4l", reference=master, bound_s=(abs(offset) + delay) / 1e9)


def _state(printed: str) -> str:
    """Of the port that follows a master, or of all of an instance's ports that are in use.

    Raises:
        KeyError: It tells of none.
    """
    states = {value for name, value in _FIELD.findall(printed) if name == "portState"}
    if not states:
        raise KeyError("portState")
    for state in ("SLAVE", "UNCALIBRATED"):
        if state in states:
            return state
    return "/".join(sorted(states - {"FAULTY", "DISABLED"} or states))


def _line(error: Exception) -> str:
    """Its message; for a field that is not there, which."""
    if isinstance(error, KeyError):
        return f"no {error.args[0]} in its answer"
    return " ".join(str(error).split()) or type(error).__name__


def _run(argv: Sequence[str]) -> str:
    path = shutil.which(argv[0], path=os.environ.get("PATH", "") + ":" + EXTRA_PATH)
    if path is None:
        raise HostError(f"no {argv[0]}")
    try:
        done = subprocess.run(
            [path, *argv[1:]], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(str(error)) from None
    if done.returncode:
        raise HostError((done.stderr or done.stdout).strip()[-200:] or f"exit {done.returncode}")
    return done.stdout
