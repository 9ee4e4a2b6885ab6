"""What chrony and linuxptp state of a clock, as their own programs print it."""

from __future__ import annotations

import errno
import math
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import odd
from vnetperf.host import clock
from vnetperf.host.clock import read_sync, wider
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import ClockSync, clocks_apart_s

TRACKING = (
    "C0000201,192.0.2.1,2,1790000000.123456789,{offset},0.000001,0.000002,-12.3,0.001,0.01,"
    "0.000200000,0.000030000,64.2,{leap}\n"
)
#: As `pmc` of linuxptp 3.1 prints it: requests and answers as they come.
PMC = """sending: GET TIME_STATUS_NP
sending: GET CURRENT_DATA_SET
\tf67454.fffe.abbe60-0 seq 0 RESPONSE MANAGEMENT TIME_STATUS_NP
\t\tmaster_offset              {offset}
\t\tingress_time               1790000000123456789
\t\tcumulativeScaledRateOffset +0.000000000
\t\tscaledLastGmPhaseChange    0
\t\tgmTimeBaseIndicator        0
\t\tlastGmPhaseChange          0x0000'0000000000000000.0000
\t\tgmPresent                  true
\t\tgmIdentity                 {master}
sending: GET PORT_PROPERTIES_NP
\tf67454.fffe.abbe60-0 seq 1 RESPONSE MANAGEMENT CURRENT_DATA_SET
\t\tstepsRemoved     {steps}
\t\toffsetFromMaster {offset}.0
\t\tmeanPathDelay    7000.0
sending: GET PORT_DATA_SET
\tf67454.fffe.abbe60-1 seq 2 RESPONSE MANAGEMENT PORT_PROPERTIES_NP
\t\tportIdentity            f67454.fffe.abbe60-1
\t\tportState               {state}
\t\ttimestamping            {stamps}
\t\tinterface               eth0
\tf67454.fffe.abbe60-1 seq 3 RESPONSE MANAGEMENT PORT_DATA_SET
\t\tportIdentity            f67454.fffe.abbe60-1
\t\tportState               {state}
\t\tdelayMechanism          {mechanism}
\tf67454.fffe.abbe60-0 seq 4 RESPONSE MANAGEMENT TIME_PROPERTIES_DATA_SET
\t\tcurrentUtcOffset      37
\t\tleap61                0
\t\tleap59                0
\t\tcurrentUtcOffsetValid 0
\t\tptpTimescale          {tai}
"""
ANSWERED = {
    "offset": -3000,
    "master": "ae6c59.fffe.602785",
    "steps": 1,
    "state": "SLAVE",
    "stamps": "SOFTWARE",
    "mechanism": 1,
    "tai": 1,
}
#: A NIC's clock that tells TAI and is 2 us ahead of that of the time of day, read within 1 us.
TAI_NS = 37 * 10**9
AHEAD_NS, WRONG_NS = 2000, 500.0


def tracking(offset: str = "-0.000004", leap: str = "Normal") -> str:
    return TRACKING.format(offset=offset, leap=leap)


def pmc(**other: str | int) -> str:
    return PMC.format(**(ANSWERED | other))


def sync(ahead_ns: int | None = TAI_NS + AHEAD_NS, **printed: str) -> ClockSync:
    """What is read where these programs are, and print that, and a NIC's clock is so far ahead."""

    def run(argv: Sequence[str]) -> str:
        if argv[0] not in printed:
            raise HostError(f"no {argv[0]}")
        return printed[argv[0]]

    def read_phc(interface: str) -> tuple[int, float]:
        assert interface == "eth0"
        if ahead_ns is None:
            raise HostError(f"{interface} has no clock of its NIC")
        return ahead_ns, WRONG_NS

    return read_sync(run, read_phc)


#: A second port of the same instance, which answers to both requests for ports.
SECOND = """\tf67454.fffe.abbe60-2 seq 2 RESPONSE MANAGEMENT PORT_PROPERTIES_NP
\t\tportIdentity            f67454.fffe.abbe60-2
\t\tportState               LISTENING
\t\ttimestamping            HARDWARE
\t\tinterface               eth1
\tf67454.fffe.abbe60-2 seq 3 RESPONSE MANAGEMENT PORT_DATA_SET
\t\tportIdentity            f67454.fffe.abbe60-2
\t\tportState               LISTENING
\t\tdelayMechanism          {mechanism}
"""


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("mechanism", "other"), [(1, 2), (2, 1)])
def test_of_several_ports_the_one_that_follows_the_master_decides(
    mechanism: int, other: int, first: bool
) -> None:
    printed = pmc(mechanism=mechanism)
    at = printed.index("\tf67454.fffe.abbe60-1" if first else "\tf67454.fffe.abbe60-0 seq 4")
    printed = printed[:at] + SECOND.format(mechanism=other) + printed[at:]
    found = sync(pmc=printed)
    assert found == sync(pmc=pmc(mechanism=mechanism))
    assert (found.bound_s is not None) == (mechanism == 1)


def test_another_clock_that_answers_is_not_this_one() -> None:
    """Its port follows a master; this one's listens."""
    printed = pmc(state="LISTENING") + SECOND.replace("LISTENING", "SLAVE").replace(
        "f67454", "aaaaaa"
    ).format(mechanism=1)
    assert "port state: LISTENING" in sync(pmc=printed).why


@pytest.mark.parametrize(
    "printed",
    [
        {"chronyc": tracking(offset="nan")},
        {"chronyc": tracking().replace("0.000030000", "-0.1")},
        {"pmc": pmc().replace("7000.0", "-7000.0")},
        {"pmc": pmc(offset="inf")},
    ],
)
def test_a_bound_of_numbers_that_cannot_be_is_none(printed: dict[str, str]) -> None:
    found = sync(**printed)
    assert found.bound_s is None
    assert "cannot be" in found.why


def test_chronys_bound_is_offset_dispersion_and_half_of_the_delay() -> None:
    found = sync(chronyc=tracking())
    assert (found.service, found.reference) == ("chrony", "chrony's source C0000201")
    assert found.bound_s == pytest.approx(4e-6 + 30e-6 + 100e-6)


def test_ptp4l_is_not_asked_where_chrony_has_answered() -> None:
    asked = []

    def run(argv: Sequence[str]) -> str:
        asked.append(argv[0])
        return tracking()

    assert read_sync(run).service == "chrony"
    assert asked == ["chronyc"]


def test_ptps_bound_is_offset_and_path_delay() -> None:
    found = sync(pmc=pmc())
    assert (found.service, found.reference) == ("ptp4l", "ae6c59.fffe.602785")
    assert found.bound_s == pytest.approx(10e-6)


def test_the_grandmaster_is_the_reference_of_those_that_follow_it() -> None:
    found = sync(pmc=pmc(state="MASTER", master="f67454.fffe.abbe60", steps=0, offset=0))
    assert (found.reference, found.bound_s) == ("f67454.fffe.abbe60", 0.0)


@pytest.mark.parametrize(("tai", "ahead_ns"), [(1, TAI_NS + AHEAD_NS), (0, -AHEAD_NS)])
def test_a_nics_clock_bounds_the_time_of_day_by_what_is_between_them(
    tai: int, ahead_ns: int
) -> None:
    """TAI is seconds ahead; a grandmaster that keeps another time scale has its NIC tell UTC."""
    found = sync(ahead_ns, pmc=pmc(stamps="HARDWARE", tai=tai))
    assert (found.service, found.reference) == ("ptp4l", "ae6c59.fffe.602785")
    assert found.bound_s == pytest.approx(10e-6 + 2e-6 + 0.5e-6)
    master = pmc(stamps="HARDWARE", tai=tai, state="MASTER", master="f67454.fffe.abbe60", offset=0)
    assert sync(ahead_ns, pmc=master).bound_s == pytest.approx(2e-6 + 0.5e-6)


def test_a_time_of_day_that_nobody_keeps_by_the_nic_is_bounded_by_how_far_it_is() -> None:
    """As where phc2sys does not run, or takes the NIC's time for UTC."""
    assert sync(0, pmc=pmc(stamps="HARDWARE")).bound_s == pytest.approx(37.0, rel=1e-3)


def test_a_nic_whose_clock_cannot_be_read_bounds_nothing() -> None:
    found = sync(None, pmc=pmc(stamps="HARDWARE"))
    assert found.bound_s is None
    chrony, ptp = found.why.split("; ")
    assert chrony.startswith("chrony: ")
    assert ptp.startswith("ptp4l: eth0 ")
    assert sync(None, pmc=pmc()).bound_s is not None  # it keeps the time of day itself


class Looks:
    """A device that answers the requests of `linux/ptp_clock.h`; a middle look is the shortest."""

    def __init__(self, *refused: int) -> None:
        self.refused = refused

    def ioctl(self, _device: int, request: int, answer: bytearray) -> None:
        if request in self.refused:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        assert struct.unpack_from("=I", answer) == (clock.SAMPLES,)
        now, times = 5 * 10**9, []
        for number in range(clock.SAMPLES):
            half = 300 if number == 12 else 4000
            look = [now, now + half + AHEAD_NS, now + 2 * half]
            now += 2 * half if request == clock.PTP_SYS_OFFSET else 10**6
            times += look[:2] if request == clock.PTP_SYS_OFFSET else look
        times += [now] if request == clock.PTP_SYS_OFFSET else []
        assert len(answer) == 16 * (1 + len(times))
        for number, at in enumerate(times):
            struct.pack_into("=qII", answer, 16 * (1 + number), at // 10**9, at % 10**9, 0)


@pytest.mark.parametrize("refused", [(), (clock.PTP_SYS_OFFSET_EXTENDED,)])
def test_the_shortest_look_at_a_nics_clock_counts(
    refused: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock.ethtool, "phc_index", lambda _: 3)
    monkeypatch.setattr(
        clock, "Path", lambda name: Path("/dev/null" if name == "/dev/ptp3" else "/")
    )
    monkeypatch.setattr(clock.fcntl, "ioctl", Looks(*refused).ioctl)
    assert clock.phc_ahead_ns("eth0") == (AHEAD_NS, 300.5)


def test_a_clock_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError, match="lo has no clock of its NIC"):
        clock.phc_ahead_ns("lo")
    monkeypatch.setattr(clock.ethtool, "phc_index", lambda _: 9999)
    with pytest.raises(HostError, match="the clock of eth0, /dev/ptp9999: No such file"):
        clock.phc_ahead_ns("eth0")
    monkeypatch.setattr(clock, "Path", lambda _: Path("/dev/null"))
    with pytest.raises(HostError, match="/dev/ptp9999: Inappropriate ioctl"):
        clock.phc_ahead_ns("eth0")


def test_a_clock_follows_by_any_of_its_ports() -> None:
    answer = pmc(state="LISTENING")

    def other(state: str) -> str:
        own = {"portState": state, "timestamping": "SOFTWARE", "interface": "eth1"}
        own |= {"delayMechanism": "1"}
        head = "\tf67454.fffe.abbe60-2 seq 2 RESPONSE MANAGEMENT PORT_DATA_SET\n"
        return head + "".join(f"\t\t{name:<24}{value}\n" for name, value in own.items())

    for state, bound_s in (("SLAVE", pytest.approx(10e-6)), ("PASSIVE", None), ("FAULTY", None)):
        assert sync(pmc=f"{other(state)}{answer}").bound_s == bound_s
        assert sync(pmc=f"{answer}{other(state)}").bound_s == bound_s
    master = pmc(state="MASTER", master="f67454.fffe.abbe60", steps=0, offset=0)
    assert sync(pmc=f"{master}{other('FAULTY')}").bound_s == 0.0
    assert "(port state: LISTENING/MASTER)" in sync(pmc=f"{master}{other('LISTENING')}").why


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ({}, "chrony: no chronyc; ptp4l: no pmc"),
        ({"chronyc": tracking(leap="Not synchronised")}, "chrony: not synchronised"),
        ({"chronyc": tracking().replace("C0000201", "7F7F0101")}, "chrony: not synchronised"),
        ({"chronyc": "506 Cannot talk to daemon"}, "chrony: "),
        (
            {"chronyc": tracking().replace("C0000201,192.0.2.1", "50484330,PHC0")},
            "chrony: it follows PHC0, a clock of this machine",
        ),
        (
            {"chronyc": tracking().replace("192.0.2.1", "169.254.169.123")},
            "chrony: it follows 169.254.169.123, a clock of this machine",
        ),
        ({"pmc": pmc(state="LISTENING")}, "follows no master now (port state: LISTENING)"),
        ({"pmc": pmc(state="UNCALIBRATED")}, "(port state: UNCALIBRATED)"),
        ({"pmc": pmc(mechanism=2)}, "measures the delay to its neighbour (P2P)"),
        ({"pmc": pmc(stamps="HARDWARE", state="LISTENING")}, "follows no master now"),
        ({"pmc": pmc(stamps="HARDWARE", mechanism=2)}, "measures the delay to its neighbour (P2P)"),
        (
            {"pmc": pmc(stamps="HARDWARE").replace("ptpTimescale", "x")},
            "ptp4l: no ptpTimescale in its answer",
        ),
        (
            {"pmc": pmc().replace("timestamping", "x")},
            "ptp4l: no timestamping and interface in its answer",
        ),
        ({"pmc": pmc(steps=2)}, "2 steps from the grandmaster"),
        ({"pmc": "sending: GET TIME_STATUS_NP\n"}, "ptp4l: no answer"),
        ({"pmc": pmc().replace("gmIdentity", "x")}, "ptp4l: no gmIdentity in its answer"),
    ],
)
def test_a_clock_that_nothing_bounds_has_no_bound(printed: dict[str, str], why: str) -> None:
    found = sync(**printed)
    assert found.bound_s is None
    assert why in found.why


def test_two_clocks_are_apart_by_both_bounds_where_they_follow_the_same() -> None:
    utc, slow = (ClockSync(service="chrony", reference="UTC", bound_s=b) for b in (3e-5, 5e-5))
    ptp = ClockSync(service="ptp4l", reference="0242ac.fffe.110003", bound_s=1e-6)
    assert clocks_apart_s([utc, slow]) == pytest.approx(8e-5)
    assert clocks_apart_s([ptp, ptp]) == pytest.approx(2e-6)
    for one in (ptp, ClockSync(why="no chronyc"), None):
        assert clocks_apart_s([utc, one]) is None


A, B = (ClockSync(service="chrony", reference=name, bound_s=1e-6) for name in "AB")


@pytest.mark.parametrize(
    ("then", "now", "bound_s", "why"),
    [
        (A.model_copy(update={"bound_s": 5e-4}), A, 5e-4, ""),  # slewed to its reference meanwhile
        (A, A.model_copy(update={"bound_s": 2e-6}), 2e-6, ""),
        (A, B, None, "it followed A, then B"),
        (A, ClockSync(why="chrony: not synchronised"), None, "chrony: not synchronised"),
        (ClockSync(why="no chronyc"), A, None, "no chronyc"),
    ],
)
def test_the_wider_bound_of_two_readings_holds(
    then: ClockSync, now: ClockSync, bound_s: float | None, why: str
) -> None:
    found = wider(then, now)
    assert (found.bound_s, found.why) == (bound_s, why)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("0.000200000", "-0.000200000"),  # root delay
        ("0.000030000", "-1"),  # root dispersion
        ("0.000200000", "nan"),
        ("0.000030000", "inf"),
        ("0.000200000", "(null)"),
    ],
)
def test_numbers_of_chrony_that_cannot_be_bound_nothing(part: str, instead: str) -> None:
    printed = TRACKING.format(offset=0.001, leap="Normal").replace(part, instead)

    def run(argv: Sequence[str]) -> str:
        if argv[0] == "chronyc":
            return printed
        raise HostError("no pmc")

    assert read_sync(run).bound_s is None


@pytest.mark.parametrize("delay", ["-7000.0", "nan", "inf", "x"])
def test_a_delay_of_ptp_that_cannot_be_bounds_nothing(delay: str) -> None:
    printed = PMC.format(**ANSWERED).replace("7000.0", delay)

    def run(argv: Sequence[str]) -> str:
        if argv[0] == "pmc":
            return printed
        raise HostError("no chronyc")

    assert read_sync(run).bound_s is None


@given(st.data())
def test_no_output_of_a_time_service_is_an_error(data: st.DataObject) -> None:
    """Of what they print, one piece is another; or they print something else altogether."""
    whole = data.draw(
        st.sampled_from([TRACKING.format(offset=0.1, leap="Normal"), PMC.format(**ANSWERED)])
    )
    words = whole.replace(",", ", ").split()
    piece, instead = data.draw(st.sampled_from(words)), data.draw(odd.contents)
    text = instead.decode(errors="replace")
    printed = data.draw(st.sampled_from([whole.replace(piece.strip(","), text, 1), text]))
    bound_s = read_sync(lambda _: printed, lambda _: (0, 0.0)).bound_s
    assert bound_s is None or (math.isfinite(bound_s) and bound_s >= 0)
