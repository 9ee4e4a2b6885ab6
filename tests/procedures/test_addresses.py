"""What a switch learns, told from what it floods: switches whose tables are known."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.procedures.support import drive, inputs, spec_of
from tests.texts import Texts
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import NoResultError
from vnetperf.model.parameters import SPARE_ADDRESSES, Rfc2889Test, SearchGoal
from vnetperf.model.preset import Preset
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import DirectionCounts, TrialOutcome, TrialRequest, TrialResult
from vnetperf.procedures.addresses import address_caching, address_learning
from vnetperf.runner.scenarios import address_scenario
from vnetperf.search import replay


@dataclass
class Learner:
    """A switch with a table of a size, that can learn so many addresses a second.

    Attributes:
        size: Addresses it holds.
        evicts: True when a new address takes the place of the oldest; False when a full table
            stays as it is.
        rate_fps: Addresses it can learn in a second; frames beyond are forwarded and not learned.
        drops: Frames of a flood that it loses at the end of each of so many checks.
        forgets: True when it forgets as its port goes down.
        floods: False when it drops what is for an address that it does not know.
    """

    size: int = 1_000_000
    evicts: bool = True
    rate_fps: float = 1e9
    forgets: bool = True
    floods: bool = True
    drops: tuple[int, ...] = ()
    checks: int = 0
    table: OrderedDict[int, None] = field(default_factory=OrderedDict)
    asked: list[TrialRequest] = field(default_factory=list)

    def run(self, ask: TrialRequest) -> TrialOutcome:
        self.asked.append(ask)
        if ask.event is not None and self.forgets:
            self.table.clear()
        frames = round(ask.load_fps * ask.duration_s)
        arrived = learned = 0
        for i in range(frames):
            if i in self.table:
                self.table.move_to_end(i)
            elif learned * ask.load_fps < self.rate_fps * (i + 1):
                learned += 1
                self._learn(i)
            arrived += self.floods and i + SPARE_ADDRESSES not in self.table
        if ask.idle_s:
            self.table.clear()
        if ask.when_limited == "fail":  # addresses are checked
            arrived -= self.drops[self.checks] if self.checks < len(self.drops) else 0
            self.checks += 1
        counts = DirectionCounts(
            direction=0, intended=frames, sent=frames, refused=0, unsent=0, received=arrived
        )
        return TrialOutcome.of(
            spec_of(ask), TrialResult(directions=(counts,)), number=len(self.asked)
        )

    def _learn(self, address: int) -> None:
        if len(self.table) >= self.size:
            if not self.evicts:
                return
            self.table.popitem(last=False)
        self.table[address] = None


def parameters(**changes: float) -> Rfc2889Test:
    return Rfc2889Test.model_validate({"max_addresses": 2048, "learning_fps": 10_000.0, **changes})


@settings(max_examples=25)
@given(st.integers(100, 3000), st.booleans())
def test_the_capacity_comes_back(size: int, evicts: bool) -> None:
    found, _ = drive(
        address_caching(inputs(parameters())),
        Learner(size, evicts),
    )
    if size >= 2048 + SPARE_ADDRESSES:
        assert (found.addresses, found.capped) == (2048, True)
        assert "max_addresses" in found.note
        return
    # A hundredth, and the addresses beyond those that are checked, which take room as well.
    assert min(size, 2048) - found.addresses <= 0.01 * size + SPARE_ADDRESSES + 1
    if size < 2048 - SPARE_ADDRESSES:
        assert found.addresses <= size
        assert not found.capped


def test_each_number_is_learned_first_and_checked_then() -> None:
    switch = Learner(600)
    found, seen = drive(address_caching(inputs(parameters())), switch)
    assert [row[0] for row in found.tried][:3] == [256, 512, 1024]
    assert [row[2] for row in found.tried][:3] == [True, True, False]
    frames = [round(s.load_fps * s.duration_s) for s in seen if s.load_fps > 50]
    assert frames[::2] == frames[1::2] == [row[0] + SPARE_ADDRESSES for row in found.tried]
    # Once a series was too long, the table has what a shorter one must not find there.
    events = [s.request.event is not None for s in seen]
    assert events == [False] * 6 + [True, False, False, False] * ((len(seen) - 6) // 4)
    assert replay(address_caching(inputs(parameters())), seen).outcome == found


def test_the_most_is_tried_however_near_it_is() -> None:
    found, _ = drive(address_caching(inputs(parameters(max_addresses=2060))), Learner())
    assert (found.addresses, found.capped) == (2060, True)


def test_a_switch_that_does_not_flood_has_no_number() -> None:
    with pytest.raises(NoResultError, match="does not flood"):
        drive(address_caching(inputs(parameters())), Learner(floods=False))


def test_a_flood_that_lost_frames_shows_nothing_of_what_was_learned() -> None:
    # 14 addresses are not learned in the second check, and 20 frames of its flood are lost.
    limits = parameters(max_addresses=350)
    found, seen = drive(address_caching(inputs(limits)), Learner(400, False, drops=(0, 20)))
    assert found.addresses < 350
    assert (350, False) in [(row[0], row[2]) for row in found.tried]
    assert replay(address_caching(inputs(limits)), seen).outcome == found
    with pytest.raises(NoResultError, match="in each of 5 attempts"):
        drive(address_caching(inputs(limits)), Learner(drops=(1,) * 9))


@settings(max_examples=15)
@given(st.one_of(st.floats(2e4, 1.8e6), st.floats(2e6, 1e7)))
def test_the_learning_rate_comes_back_within_a_tenth(rate: float) -> None:
    switch = Learner(rate_fps=rate)
    found, _ = drive(address_learning(inputs(parameters())), switch)
    assert found.addresses == 2048
    if rate >= 2e6:  # what can be offered
        assert found.capped
        assert found.learning_fps == 2e6
    else:
        assert found.learning_fps == pytest.approx(rate, rel=0.12)
        assert not found.capped
    assert "port going down" in found.note


def test_a_switch_that_remembers_is_waited_for_or_has_no_number() -> None:
    stubborn = Learner(forgets=False)
    drive(address_caching(inputs(parameters())), stubborn)
    with pytest.raises(NoResultError, match="kept addresses") as refused:
        drive(address_learning(inputs(parameters())), stubborn)
    assert "ageing_s" in refused.value.cure
    patient = Learner(forgets=False)
    asked = parameters(ageing_s=300.0)
    found, seen = drive(address_learning(inputs(asked)), patient)
    assert found.capped
    assert "300 s of waiting" in found.note
    assert all(ask.event is None for ask in patient.asked)
    assert [ask.idle_s for ask in patient.asked] == [300.0, 0.0, 0.0, 0.0] * (len(seen) // 4)


def test_a_capacity_between_two_numbers_is_said_where_nothing_is_forgotten(texts: Texts) -> None:
    stubborn = Learner(600, evicts=False, forgets=False)
    found, _ = drive(address_caching(inputs(parameters())), stubborn)
    assert (found.addresses, found.capped) == (512, False)
    texts.check(found.note)


@pytest.mark.parametrize("evicts", [False, True])
def test_a_small_table_learns_as_fast_as_a_large_one(evicts: bool, texts: Texts) -> None:
    found, seen = drive(address_learning(inputs(parameters())), Learner(1000, evicts))
    assert (found.addresses, found.capped, found.learning_fps) == (512, True, 2e6)
    assert [row[:3] for row in found.tried][:2] == [(2048, 1e4, False), (1024, 1e4, False)]
    texts.check(found.note)
    assert replay(address_learning(inputs(parameters())), seen).outcome == found
    slow, _ = drive(address_learning(inputs(parameters())), Learner(1000, evicts, rate_fps=3e5))
    assert slow.addresses == 512
    assert slow.learning_fps == pytest.approx(3e5, rel=0.12)


@pytest.mark.parametrize("switch", [Learner(rate_fps=100.0), Learner(50)])
def test_a_switch_too_slow_or_too_small_has_no_learning_rate(switch: Learner) -> None:
    said = r"not even 64 addresses were all learned at 10000 frames/s, the slowest rate tried"
    with pytest.raises(NoResultError, match=said) as refused:
        drive(address_learning(inputs(parameters())), switch)
    assert refused.value.cure


PRESET = Preset(name="p", goals=(SearchGoal(name="ndr"),))


def scenario(name: str, rules: str) -> Scenario:
    return Scenario(
        deployment=make_deployment(name),
        vswitch="bridge",
        traffic=TrafficProfile(),
        rules=rules,  # type: ignore[arg-type]
    )


def test_the_traffic_is_of_one_series_of_addresses() -> None:
    found = address_scenario(scenario("phy2phy", "learning"), PRESET)
    assert found.id == "phy2phy_bridge,addresses"
    assert found.traffic.flows == 65536 + SPARE_ADDRESSES
    assert found.traffic.vary == ("eth_src", "eth_dst")
    first, second = (
        int(str(found.traffic.values[name]).replace(":", ""), 16)  # type: ignore[index]
        for name in ("eth_src", "eth_dst")
    )
    assert second - first == SPARE_ADDRESSES
    assert found.traffic.learning_frames_per_stream == 0
    assert len(found.streams) == 1


@pytest.mark.parametrize(
    ("name", "rules", "said"), [("phy2phy", "port", "learns no"), ("pvp", "learning", "VNF")]
)
def test_what_learns_nothing_is_left_out_with_the_reason(name: str, rules: str, said: str) -> None:
    with pytest.raises(NoResultError, match=said) as refused:
        address_scenario(scenario(name, rules), PRESET)
    assert refused.value.cure


def test_a_series_that_the_generator_cut_short_is_learned_anew() -> None:
    class Hasty(Learner):
        """Its tester leaves out frames of the first series, and of the second attempt."""

        def run(self, ask: TrialRequest) -> TrialOutcome:
            seen = super().run(ask)
            if len(self.asked) in (1, 4):
                (counts,) = seen.result.directions
                sent = counts.sent - 9
                received = min(sent, counts.received)
                update = {"sent": sent, "unsent": 9, "received": received}
                short = counts.model_copy(update=update)
                return TrialOutcome.of(
                    seen.request, TrialResult(directions=(short,)), number=seen.number
                )
            return seen

    switch = Hasty(1000)
    found, seen = drive(address_caching(inputs(parameters())), switch)
    events = [s.request.event is not None for s in seen[:8]]
    assert events == [False, True, False, False, True, False, False, False]
    assert 900 <= found.addresses <= 1000


def test_a_link_that_takes_its_time_is_waited_for() -> None:
    class Slow(Learner):
        """Forwards nothing in the first two trials after its link was down."""

        dead = 0

        def run(self, ask: TrialRequest) -> TrialOutcome:
            seen = super().run(ask)
            self.dead = 3 if ask.event is not None else max(0, self.dead - 1)
            if not self.dead:
                return seen
            (counts,) = seen.result.directions
            none = counts.model_copy(update={"received": 0})
            return TrialOutcome.of(
                seen.request, TrialResult(directions=(none,)), number=seen.number
            )

    found, _ = drive(address_learning(inputs(parameters())), Slow())
    assert found.capped
