"""How far a machine's time of day may be from its reference, as the service that keeps it states.

chrony (`chronyc tracking`), or linuxptp (`pmc`). With time stamps by software ptp4l keeps the time
of day itself; with those by hardware a NIC's clock, and the kernel tells how far the time of day is
from that.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import struct
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, isfinite
from pathlib import Path

from vnetperf.host import ethtool
from vnetperf.host.linux import run_program
from vnetperf.host.programs import EXTRA_PATH, find_trusted
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
    "GET TIME_PROPERTIES_DATA_SET",
)
#: Fields of `chronyc -c tracking` (chronyc(1)): reference, its address or name, offset, root delay
#: and dispersion, leap status.
_REFERENCE, _SOURCE, _OFFSET, _DELAY, _DISPERSION, _LEAP = 0, 1, 4, 10, 11, 13
#: Reference of a clock that follows itself alone (`local` in chrony.conf), and of none.
_NO_REFERENCE = ("7F7F0101", "00000000", "")
_FIELD = re.compile(r"^\s+(\w+)\s+(\S+)\s*$", re.MULTILINE)
#: Who answers: an instance, by its port 0 or by one of its ports; and which of its data sets.
_RECORD = re.compile(r"^\s+(\S+)-(\d+) seq \d+ RESPONSE MANAGEMENT (\w+)[^\S\n]*$", re.MULTILINE)
_OF_PORTS = ("PORT_PROPERTIES_NP", "PORT_DATA_SET")
#: The port's `delayMechanism` where the delay of the whole path is measured (IEEE 1588, 8.2.5.4.4).
_END_TO_END = "1"
#: linux/ptp_clock.h: a NIC's clock between two looks at the time of day, 25 times; the second one
#: of drivers that do not read the time of day themselves.
PTP_SYS_OFFSET_EXTENDED, PTP_SYS_OFFSET = 0xC4C03D09, 0x43403D05
SAMPLES = 25
Run = Callable[[Sequence[str]], str]
#: Interface -> how far its NIC's clock is ahead of the time of day, ns, and how wrong that may be.
ReadPhc = Callable[[str], tuple[int, float]]


def read_sync(run: Run | None = None, read_phc: ReadPhc | None = None) -> ClockSync:
    """What this machine's services state of its clock now."""
    run, read_phc = run or _run, read_phc or phc_ahead_ns
    troubles = []
    for read in (_by_chrony, partial(_by_ptp, read_phc=read_phc)):
        sync = read(run)
        if sync.bound_s is not None:
            return sync
        troubles.append(sync.why)
    return ClockSync(why="; ".join(troubles))


def wider(earlier: ClockSync, later: ClockSync) -> ClockSync:
    """What holds from one reading to the next: a clock may be slewed to its reference meanwhile."""
    for reading in (earlier, later):
        if reading.bound_s is None:
            return reading
    if earlier.reference != later.reference:
        return ClockSync(why=f"it followed {earlier.reference}, then {later.reference}")
    return max(earlier, later, key=lambda reading: reading.bound_s or 0.0)


def _by_chrony(run: Run) -> ClockSync:
    """The bound that chronyc(1) gives, if its source is right: one source, one error of both."""
    try:
        fields = run(CHRONYC).strip().split(",")
        reference, source, leap = fields[_REFERENCE], fields[_SOURCE], fields[_LEAP]
        offset, delay, dispersion = (
            _number(name, fields[column], least)
            for name, column, least in (
                ("offset", _OFFSET, -inf),
                ("root delay", _DELAY, 0),
                ("root dispersion", _DISPERSION, 0),
            )
        )
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


def _by_ptp(run: Run, read_phc: ReadPhc) -> ClockSync:
    """The offset from the master, and the path's delay: its two ways differ by no more.

    With time stamps by hardware these are of a NIC's clock; how far the time of day is from that
    comes besides.
    """
    try:
        printed = run(PMC)
        if (answer := _answer(printed)) is None:
            # pmc then prints what it has sent, and exits with 0.
            return ClockSync(why="ptp4l: no answer")
        identity, fields, all_ports = answer
        offset = _number("master_offset", fields["master_offset"], -inf)
        delay = _number("meanPathDelay", fields["meanPathDelay"], 0)
        master, state = fields["gmIdentity"], _state(all_ports)
        ports = [port for port in all_ports if port["portState"] == state]
        steps, mechanisms = int(fields["stepsRemoved"]), {p["delayMechanism"] for p in ports}
        apart_ns = _nic_apart_ns(ports, state, fields, read_phc)
    except (HostError, ValueError, KeyError) as error:
        return ClockSync(why=f"ptp4l: {_line(error)}")
    reason = ""
    if state == "MASTER" and master == identity:
        # Its clock is what the others follow.
        return ClockSync(service="ptp4l", reference=master, bound_s=apart_ns / 1e9)
    if state != "SLAVE":
        # Without a master the offset is that of the last one, as is `gmPresent` (linuxptp 3.1).
        reason = f"it follows no master now (port state: {state})"
    elif steps != 1:
        reason = (
            f"{steps} steps from the grandmaster, and the error of a boundary clock between is not "
            "known"
        )
    elif mechanisms != {_END_TO_END}:
        reason = (
            "it measures the delay to its neighbour (P2P), which may not be the path's; "
            "`delay_mechanism E2E` measures that"
        )
    if reason:
        return ClockSync(why=f"ptp4l: {reason}")
    bound_s = (abs(offset) + delay + apart_ns) / 1e9
    return ClockSync(service="ptp4l", reference=master, bound_s=bound_s)


def _answer(printed: str) -> tuple[str, dict[str, str], list[dict[str, str]]] | None:
    """The identity of the instance that answers, its fields, and those of each of its ports.

    Ports have fields of the same names: a field is one of its record, never of the whole output.
    """
    heads = list(_RECORD.finditer(printed))
    identity = next(
        (record[1] for record in heads if record[2] == "0" and record[3] == "TIME_STATUS_NP"), None
    )
    if identity is None:
        return None
    fields: dict[str, str] = {}
    ports: dict[str, dict[str, str]] = {}
    ends = [*(head.start() for head in heads[1:]), len(printed)]
    for head, end in zip(heads, ends, strict=True):
        if head[1] == identity:
            of_port = head[3] in _OF_PORTS
            into = ports.setdefault(head[2], {}) if of_port else fields
            into.update(_FIELD.findall(printed, head.end(), end))
    return identity, fields, [port for port in ports.values() if "portState" in port]


def _nic_apart_ns(
    all_ports: Sequence[dict[str, str]], state: str, fields: dict[str, str], read_phc: ReadPhc
) -> float:
    """Most that the time of day is from the NICs' clocks that are kept; 0 where it is kept itself.

    Those are of the ports that count, which are in one state. A NIC's clock tells TAI, unless its
    grandmaster keeps another time scale: then what that tells is UTC.
    """
    ports = [
        (port["timestamping"], port["interface"])
        for port in all_ports
        if "timestamping" in port and "interface" in port
    ]
    if not ports and state in ("SLAVE", "MASTER"):
        raise KeyError("timestamping and interface")
    kept = [port for stamps, port in ports if stamps != "SOFTWARE"]
    if not kept:
        return 0.0
    tai_s = int(fields["currentUtcOffset"]) if fields["ptpTimescale"] == "1" else 0
    read = [read_phc(interface) for interface in kept]
    return max(abs(ahead_ns - tai_s * 10**9) + wrong_ns for ahead_ns, wrong_ns in read)


def phc_ahead_ns(interface: str) -> tuple[int, float]:
    """How far the clock of an interface's NIC is ahead of the time of day, and half of the look."""
    number = ethtool.phc_index(interface)
    if number is None:
        raise HostError(f"{interface} has no clock of its NIC")
    device = f"/dev/ptp{number}"
    with (
        HostError.explain_os_error(f"the clock of {interface}, {device}"),
        Path(device).open("rb") as clock,
    ):
        looks = _looks(clock.fileno())
    before, nic_ns, after = min(looks, key=lambda look: look[2] - look[0])
    return nic_ns - (before + after) // 2, (after - before + 1) / 2


def _looks(device: int) -> list[tuple[int, int, int]]:
    """Time of day before, a NIC's clock, and time of day after each look at it, ns."""
    for request, step, octets in (
        (PTP_SYS_OFFSET_EXTENDED, 3, 16 * (1 + 3 * SAMPLES)),
        (PTP_SYS_OFFSET, 2, 16 * (1 + 2 * SAMPLES + 1)),
    ):
        answer = bytearray(octets)
        struct.pack_into("=I", answer, 0, SAMPLES)
        try:
            fcntl.ioctl(device, request, answer)
        except OSError:
            if request == PTP_SYS_OFFSET:
                raise
            continue
        times = [s * 10**9 + ns for s, ns, _ in struct.iter_unpack("=qII", answer[16:])]
        return [(times[n], times[n + 1], times[n + 2]) for n in range(0, step * SAMPLES, step)]
    raise AssertionError("the last request is answered or fails")


def _number(name: str, text: str, least: float) -> float:
    """A field that is a finite number, and not less than it can be."""
    value = float(text)
    if not isfinite(value) or value < least:
        raise ValueError(f"{name} is {text}, which cannot be")
    return value


def _state(ports: Sequence[dict[str, str]]) -> str:
    """State of the port that follows a master, or of all ports of an instance that are in use."""
    states = {port["portState"] for port in ports}
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
    path, problem = find_trusted(argv[0], f"{os.environ.get('PATH', '')}:{EXTRA_PATH}")
    if not path:
        raise HostError(problem or f"no {argv[0]}")
    try:
        done = run_program([path, *argv[1:]], 5)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(str(error)) from None
    if done.returncode:
        raise HostError((done.stderr or done.stdout).strip()[-200:] or f"exit {done.returncode}")
    return done.stdout
