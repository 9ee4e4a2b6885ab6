"""Sessions of a NAT whose rate and table are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.procedures.support import CEILING, drive, inputs, spec_of
from vnetperf.analysis.compliance import rfc9693
from vnetperf.analysis.compliance.clause import ClauseContext
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import NoResultError
from vnetperf.model.machine_load import MachineLoad
from vnetperf.model.nat import Nat
from vnetperf.model.options import SwitchOptions
from vnetperf.model.parameters import SessionTest
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import (
    DirectionCounts,
    SessionCounts,
    TrialOutcome,
    TrialRequest,
    TrialResult,
)
from vnetperf.plugin.vswitch import HasSessions
from vnetperf.procedures import sessions
from vnetperf.procedures.sessions import connection_rate, session_capacity
from vnetperf.runner.scenarios import session_scenario
from vnetperf.search import Procedure, replay
from vnetperf.vswitches.bridge import LinuxBridge
from vnetperf.vswitches.cgnat.switch import Cgnat
from vnetperf.vswitches.lb.switch import ServiceBalancer


@dataclass
class Translator:
    """A NAT that makes so many sessions a second, and has room for so many.

    Attributes:
        rate_per_s: Sessions that it makes in a second; the first frame of others is dropped.
        room: Sessions of its table.
        evicts: True where a full table forgets a session for each new one, as the kernel's.
        ends_per_s: Sessions that it forgets in a second.
        offered_fps: Frames/s that the generator can offer.
        stalls: Whether the NAT loses its processor in the first trial of each rate, on a machine
            that is known to be disturbed.
        leaves_out: Share of the frames that it leaves out at any rate, for want of a core.
        late_s: How long after their time the last frames leave, none of which it leaves out.
    """

    rate_per_s: float = 1e9
    room: int = 1 << 30
    evicts: bool = False
    ends_per_s: float = 1e6
    offered_fps: float = 1e9
    leaves_out: float = 0.0
    late_s: float = 0.0
    stalls: bool = False
    held: int = 0
    asked: list[TrialRequest] = field(default_factory=list)

    def run(self, ask: TrialRequest) -> TrialOutcome:
        assert ask.new_sessions
        self.asked.append(ask)
        ended, due = self.held, round(ask.load_fps * ask.duration_s)
        offered = min(1.0, self.offered_fps / ask.load_fps) * (1 - self.leaves_out)
        sent = round(due * offered)
        made = round(sent * min(1.0, self.rate_per_s / ask.load_fps))
        stalled = self.stalls and self.asked.count(ask) == 1
        self.held = min(made - made // 50 if stalled else made, self.room)
        counts = DirectionCounts(
            direction=0,
            intended=due,
            sent=sent,
            refused=0,
            unsent=due - sent,
            received=made if self.evicts else self.held,
            tx_seconds=ask.duration_s + self.late_s,
        )
        seen = SessionCounts(held=self.held, ended=ended, ended_s=ended / self.ends_per_s)
        machine = MachineLoad(steal=0.5) if self.stalls else None
        result = TrialResult(directions=(counts,), sessions=seen, machine=machine)
        return TrialOutcome.of(spec_of(ask), result, number=len(self.asked))


@pytest.mark.parametrize("rate", [900.0, 12_345.0, 140_000.0, 1.9e6])
def test_the_rate_comes_back_with_that_of_ending(rate: float) -> None:
    dut = Translator(rate_per_s=rate, ends_per_s=3e6)
    test = SessionTest(searches=3, resolution=0.05)
    asked = inputs(test, sessions=64_512, min_load_fps=100.0)
    found, seen = drive(connection_rate(asked), dut)
    assert found.rate_per_s <= rate <= found.rate_per_s * 1.05 * 1.0001
    assert found.rates == (found.rate_per_s,) * 3
    assert (found.sessions, found.capped, found.note) == (64_512, False, "")
    assert found.ended_per_s == pytest.approx(3e6)
    assert {one.made for one in found.tried} == {True, False}
    assert replay(connection_rate(asked), seen).outcome == found


def test_a_generator_that_cannot_offer_more_is_no_limit_of_the_nat() -> None:
    asked = inputs(SessionTest(searches=1), sessions=1000)
    found, _ = drive(connection_rate(asked), Translator(offered_fps=50_000.0))
    assert found.capped
    assert "could not be offered" in found.note
    assert found.rate_per_s <= 50_000.0 <= found.rate_per_s * 1.06
    for offered in (CEILING * 0.99, CEILING / 2):
        near, seen = drive(connection_rate(asked), Translator(offered_fps=offered))
        assert near.rate_per_s <= offered <= near.rate_per_s * 1.06
        assert len(seen) < 30
    at_most, _ = drive(connection_rate(asked), Translator())
    assert (at_most.rate_per_s, at_most.capped) == (CEILING, True)


@pytest.mark.parametrize("leaves_out", [0.0002, 0.007, 0.03])
def test_what_a_generator_leaves_out_says_nothing_of_the_nat(leaves_out: float) -> None:
    asked = inputs(SessionTest(searches=1), sessions=64_512)
    dut = Translator(rate_per_s=50_000.0, leaves_out=leaves_out)
    found, seen = drive(connection_rate(asked), dut)
    # The sessions that were sent were all made, and counted as so many in the time of all.
    # Where it leaves out more than 1 %, a step that sends hardly more ends the search: "at least".
    steps = 1.05 * 1.001 if leaves_out < 0.01 else 1.05**2 * 1.001
    assert found.rate_per_s <= 50_000.0 <= found.rate_per_s * steps / (1 - leaves_out)
    assert found.capped == (leaves_out > 0.01)
    assert min(one.load_fps for one in seen) == SessionTest().filling_fps
    assert len(seen) < 30
    first = found.tried[0]
    assert first.sessions == first.came == first.held == round(64_512 * (1 - leaves_out))
    assert first.rate_per_s == pytest.approx(10_000.0 * (1 - leaves_out), rel=1e-4)
    assert first.made


def test_frames_that_left_late_were_no_faster_than_they_left() -> None:
    """At 500,000 a second 64,512 take 0.13 s: 4 ms of frames that are caught up are 3 % of it."""
    asked = inputs(SessionTest(searches=3), sessions=64_512)
    exact, seen = drive(connection_rate(asked), Translator(rate_per_s=500e3))
    late, slower = drive(connection_rate(asked), Translator(rate_per_s=500e3, late_s=0.004))
    assert [one.request for one in slower] == [one.request for one in seen]
    took_s = 64_512 / exact.rate_per_s
    assert late.rate_per_s == pytest.approx(64_512 / (took_s + 0.004), rel=1e-3)
    assert late.rates == (late.rate_per_s,) * 3
    assert late.tried[0].rate_per_s == pytest.approx(64_512 / (6.4512 + 0.004), rel=1e-6)


def test_a_trial_that_fails_on_a_disturbed_machine_is_run_again() -> None:
    asked = inputs(SessionTest(searches=1), sessions=64_512)
    found, seen = drive(connection_rate(asked), Translator(rate_per_s=50_000.0, stalls=True))
    assert found.rate_per_s <= 50_000.0 <= found.rate_per_s * 1.05 * 1.0001
    tried = [(one.rate_per_s, one.made) for one in found.tried]
    assert tried[:3] == [(10e3, True), (20e3, True), (40e3, True)]
    assert len(seen) > len(tried)
    assert all(seen.count(one) <= sessions.ATTEMPTS for one in seen)


def test_a_capacity_is_of_the_sessions_that_were_sent() -> None:
    dut = Translator(leaves_out=0.002)
    found, _ = drive(session_capacity(inputs(SessionTest(), sessions=64_512)), dut)
    assert (found.sessions, found.capped) == (round(64_512 * 0.998), True)
    limited = Translator(leaves_out=0.002, room=20_000)
    found, _ = drive(session_capacity(inputs(SessionTest(), sessions=64_512)), limited)
    assert found.sessions <= 20_000 <= found.sessions * 1.013
    with pytest.raises(NoResultError, match="left out more than 1 %"):
        drive(session_capacity(inputs(SessionTest(), sessions=64_512)), Translator(leaves_out=0.02))


@pytest.mark.parametrize(
    ("limited", "capped"),
    [
        ((False, True, False), False),  # what is faster than the median does not move it
        ((True, False, False), True),  # the slowest may be faster than the median
        ((True, True, False), True),
        ((False, False, False), False),
    ],
)
def test_a_median_is_at_least_where_the_generator_limited_a_search_that_moves_it(
    limited: tuple[bool, ...], capped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = iter((10e3, 30e3, 20e3))
    flags = iter(limited)

    def search(*_: object) -> Procedure[tuple[float, bool]]:
        yield from ()
        return next(rates), next(flags)

    monkeypatch.setattr(sessions, "_search_rate", search)
    found, _ = drive(
        connection_rate(inputs(SessionTest(searches=3), sessions=64_512)), Translator()
    )
    assert (found.rate_per_s, found.capped) == (20e3, capped)
    assert ("could not be offered" in found.note) == capped


def test_a_rate_of_few_sessions_is_qualified() -> None:
    few, _ = drive(
        connection_rate(inputs(SessionTest(searches=1), sessions=16_128)), Translator(50e3)
    )
    assert "rings of the wires" in few.note
    looked = cast("ClauseContext", SimpleNamespace(result=SimpleNamespace(sessions=few)))
    (search,) = (
        one for one in rfc9693.connection_rate(looked) if "binary search" in one.requirement
    )
    assert (search.status, search.reason) == ("deviated", few.note)


def test_a_nat_that_makes_no_sessions_has_no_rate() -> None:
    found, _ = drive(
        connection_rate(inputs(SessionTest(searches=1), sessions=1000)), Translator(rate_per_s=0.0)
    )
    assert (found.rate_per_s, found.capped, found.ended_per_s) == (0.0, False, None)
    assert "slowest rate" in found.note


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("room", [700, 1024, 20_000, 64_511])
def test_the_capacity_comes_back_whatever_a_full_table_does(room: int, evicts: bool) -> None:
    found, seen = drive(
        session_capacity(inputs(SessionTest(), sessions=64_512)),
        Translator(room=room, evicts=evicts),
    )
    assert found.sessions <= room <= found.sessions * 1.01 + 1
    assert not found.capped
    assert replay(session_capacity(inputs(SessionTest(), sessions=64_512)), seen).outcome == found


def test_a_capacity_is_that_of_a_limit_or_of_all() -> None:
    asked = inputs(SessionTest(), sessions=66_000)  # 65,536 and one doubling more are within 1 %
    found, _ = drive(session_capacity(asked), Translator())
    assert (found.sessions, found.capped) == (66_000, True)
    limited, seen = drive(session_capacity(asked), Translator(room=65_800))
    assert (limited.sessions, limited.capped) == (65_536, False)
    assert round(seen[-1].duration_s * seen[-1].load_fps) == 66_000


def test_a_table_with_room_for_all_is_not_the_limit() -> None:
    found, seen = drive(session_capacity(inputs(SessionTest(), sessions=5000)), Translator())
    assert (found.sessions, found.capped) == (5000, True)
    assert [round(one.duration_s * one.load_fps) for one in seen] == [1024, 2048, 4096, 5000]


def test_no_trial_lasts_longer_than_a_session_without_frames() -> None:
    few = inputs(
        SessionTest(searches=1), sessions=64_512, min_load_fps=100.0, session_timeout_s=25.0
    )
    # The first session is there until the last has been made and counted.
    found, seen = drive(connection_rate(few), Translator(rate_per_s=2000.0))
    assert found.rate_per_s == 0
    assert max(one.duration_s for one in seen) == pytest.approx(25 - sessions.COUNTED_S)
    found, seen = drive(session_capacity(few), Translator(room=50_000))
    assert found.sessions <= 50_000 <= found.sessions * 1.02
    many = few.model_copy(update={"sessions": 1_032_192})
    assert drive(session_capacity(many), Translator(room=50_000))[0].sessions <= 50_000
    # A limit below what can be told is found; else it is "at least" what can.
    assert drive(session_capacity(many), Translator(room=150_000))[0].sessions <= 150_000
    told, _ = drive(session_capacity(many), Translator())
    assert (told.sessions, told.capped) == (200_000, True)
    assert "by their timer" in told.note
    short = many.model_copy(update={"session_timeout_s": 5.05})
    for test, asked in ((connection_rate, many), (session_capacity, short)):
        with pytest.raises(NoResultError, match="ends by its timer after") as refused:
            drive(test(asked), Translator())
        assert "nat.filling_fps" in refused.value.cure
    forever = many.model_copy(update={"session_timeout_s": None})
    assert drive(session_capacity(forever), Translator())[0].capped


def test_the_time_that_a_session_is_held_is_that_of_its_protocol() -> None:
    def held(vswitch: type[Cgnat | ServiceBalancer], traffic: str, **options: Any) -> float | None:
        scenario = Scenario(
            deployment=make_deployment("phy2phy"),
            vswitch=vswitch.name,
            traffic=TrafficProfile.model_validate({"headers": ("ethernet", "ipv4", traffic)}),
            options=SwitchOptions.model_validate(options),
        )
        return vswitch.session_timeout_s(scenario)

    for mode in ("nft", "rtc", "vpp-nat44"):
        assert held(Cgnat, "udp", mode=mode) == 300
        assert held(Cgnat, "udp", mode=mode, udp_timeout=97) == 97
        assert held(Cgnat, "tcp", mode=mode) == 240
    assert held(ServiceBalancer, "udp", mode="nft") == 300
    assert held(ServiceBalancer, "udp", mode="xdp") is None
    assert not issubclass(LinuxBridge, HasSessions)


def test_what_is_no_nat_has_no_sessions() -> None:
    with pytest.raises(NoResultError, match="no NAT"):
        drive(connection_rate(inputs(SessionTest())), Translator())
    plain = Scenario(
        deployment=make_deployment("phy2phy"), vswitch="bridge", traffic=TrafficProfile()
    )
    with pytest.raises(NoResultError, match="bridge is no NAT"):
        session_scenario(plain)
    mixed = TrafficProfile(imix="aaaaaaabbbbc")
    with pytest.raises(NoResultError, match="frames of one size"):
        session_scenario(plain.model_copy(update={"change": Nat(), "traffic": mixed}))
    made = session_scenario(plain.model_copy(update={"change": Nat()}))
    assert [stream.direction for stream in made.streams] == [0]
