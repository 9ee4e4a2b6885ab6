"""What chrony and linuxptp state of a clock, as their own programs print it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

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
"""
ANSWERED = {
    "offset": -3000,
    "master": "ae6c59.fffe.602785",
    "steps": 1,
    "state": "SLAVE",
    "stamps": "SOFTWARE",
    "mechanism": 1,
}


def tracking(offset: str = "-0.000004", leap: str = "Normal") -> str:
    return TRACKING.format(offset=offset, leap=leap)


def pmc(**other: str | int) -> str:
    return PMC.format(**(ANSWERED | other))


def sync(**printed: str) -> ClockSync:
    """What is read where these programs are, and print that."""

    def run(argv: Sequence[str]) -> str:
        if argv[0] not in printed:
            raise HostError(f"no {argv[0]}")
        return printed[argv[0]]

    return read_sync(run)


def test_chronys_bound_is_offset_dispersion_and_half_of_the_delay() -> None:
    found = sync(chronyc=tracking())
    assert (found.service, found.reference) == ("chrony", "chrony's source C0000201")
    assert found.bound_s == pytest.approx(4e-6 + 30e-6 + 100e-6)


def test_ptps_bound_is_offset_and_path_delay() -> None:
    found = sync(pmc=pmc())
    assert (found.service, found.reference) == ("ptp4l", "ae6c59.fffe.602785")
    assert found.bound_s == pytest.approx(10e-6)


def test_the_grandmaster_is_the_reference_of_those_that_follow_it() -> None:
    found = sync(pmc=pmc(state="MASTER", master="f67454.fffe.abbe60", steps=0, offset=0))
    assert (found.reference, found.bound_s) == ("f67454.fffe.abbe60", 0.0)


def test_a_clock_follows_by_any_of_its_ports() -> None:
    answer = pmc(state="LISTENING")
    other = "\t\tportState               "
    for more, bound_s in (("SLAVE", pytest.approx(10e-6)), ("PASSIVE", None), ("FAULTY", None)):
        assert sync(pmc=f"{other}{more}\n{answer}").bound_s == bound_s
        assert sync(pmc=f"{answer}{other}{more}\n").bound_s == bound_s
    master = pmc(state="MASTER", master="f67454.fffe.abbe60", steps=0, offset=0)
    assert sync(pmc=f"{master}{other}FAULTY\n").bound_s == 0.0
    assert "(port state: LISTENING/MASTER)" in sync(pmc=f"{master}{other}LISTENING\n").why


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
        ({"pmc": pmc(stamps="HARDWARE")}, "it keeps a NIC's clock"),
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
