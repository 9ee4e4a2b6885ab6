"""Replaying a procedure's log: any cut leads to the same outcome, a foreign trial is refused."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.procedures.support import Dut, drive, inputs, latency_of, limited
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.parameters import BackToBackTest, FrameLossTest, LatencyLoadTest, LatencyTest
from vnetperf.model.parameters import ProcedureParameters as Parameters
from vnetperf.model.preset import Preset
from vnetperf.model.trial import (
    SAME_RTOL,
    EventSpec,
    EventTimes,
    LoadStep,
    TrialOutcome,
    TrialRequest,
    Verdict,
)
from vnetperf.plugin import registry
from vnetperf.plugin.procedure import ProcedureInputs, load_test
from vnetperf.search import replay

ALL: dict[str, Parameters] = {
    "latency": LatencyTest(shares=(1.0, 0.5), duration_s=2, tag_at_s=1, repeats=3),
    "frame_loss": FrameLossTest(step=0.1, duration_s=1),
    "back_to_back": BackToBackTest(searches=2, max_burst_s=0.01, idle_s=0),
    "latency_load": LatencyLoadTest(loads_fps=(1e5, 9e5), duration_s=1, tag_at_s=0, repeats=2),
}


@cache
def whole(test: str) -> tuple[ProcedureInputs[Parameters], object, list[TrialOutcome]]:
    given_ = inputs(ALL[test])
    dut = Dut(delay=lambda n, _: latency_of({1000 + n: 10, 2000: 5}))
    found, seen = drive(load_test(test).run(given_), dut)
    return given_, found, seen


@pytest.mark.parametrize("test", ALL)
@given(data=st.data())
def test_a_log_cut_anywhere_leads_to_the_next_trial_and_the_same_outcome(
    test: str, data: st.DataObject
) -> None:
    given_, found, seen = whole(test)
    cut = data.draw(st.integers(0, len(seen)))
    procedure = load_test(test).run(given_)
    replayed = replay(procedure, seen[:cut])
    if cut == len(seen):
        assert replayed.next_request is None
        assert replayed.outcome == found
        return
    assert replayed.next_request is not None
    assert replayed.next_request.matches(seen[cut].request)
    for following in seen[cut:-1]:
        procedure.send(following)
    with pytest.raises(StopIteration) as end:
        procedure.send(seen[-1])
    assert end.value.value == found


#: Tests that repeat their trials themselves, and count those they discard.
COUNTING = ("latency", "latency_load", "back_to_back")


@pytest.mark.parametrize("test", [t for t in ALL if t not in COUNTING])
def test_trials_that_were_repeated_change_nothing(test: str) -> None:
    given_, found, seen = whole(test)
    again = [trial for one in seen for trial in (limited(one), one)]
    assert replay(load_test(test).run(given_), again).outcome == found


@pytest.mark.parametrize("test", ALL)
def test_a_trial_too_many_or_another_one_is_told(test: str) -> None:
    given_, _, seen = whole(test)
    with pytest.raises(LogError, match="where the test has ended"):
        replay(load_test(test).run(given_), [*seen, seen[-1]])
    other = seen[0].request.model_copy(update={"load_fps": 123.0, "burst": 0})
    with pytest.raises(LogError, match=r"trial 1 .* at 123 frames/s"):
        replay(load_test(test).run(given_), [TrialOutcome.of(other, seen[0].result, number=1)])


def test_every_field_that_is_asked_for_tells_trials_apart() -> None:
    ask = TrialRequest(load_fps=1000, duration_s=2, steps=(LoadStep(load_fps=1000, duration_s=2),))
    spec = Dut().run(ask).request
    assert ask.matches(spec)
    assert ask.matches(spec.model_copy(update={"load_fps": 1000 * (1 + SAME_RTOL / 2)}))
    for change in (
        {"load_fps": 1001.0},
        {"duration_s": 3.0},
        {"burst": 5},
        {"steps": ()},
        {"steps": (LoadStep(load_fps=1000, duration_s=1),)},
        {"event": EventSpec(what="vswitch", at_s=1)},
    ):
        assert not ask.matches(spec.model_copy(update=change))


def test_what_is_taken_as_it_is_counts_although_it_is_limited() -> None:
    def procedure():  # type: ignore[no-untyped-def]  # a double
        seen = yield TrialRequest(load_fps=1000, duration_s=1, when_limited="count")
        return seen.number

    seen = limited(Dut().run(TrialRequest(load_fps=1000, duration_s=1)))
    assert replay(procedure(), [seen]).outcome == 1
    dead = TrialOutcome.of(
        seen.request, seen.result.model_copy(update={"failed": "generator"}), seen.verdict, number=1
    )
    assert replay(procedure(), [dead]).next_request is not None


@pytest.mark.parametrize("test", registry.names("procedures"))
def test_inputs_come_back_from_a_log_as_they_were(test: str) -> None:
    kind = load_test(test)
    parameters = kind.parameters(Preset(goals=({"name": "ndr"},)))
    given_ = kind.inputs_model().model_validate(inputs(parameters).model_dump())
    assert kind.inputs_model().model_validate_json(given_.model_dump_json()) == given_


def test_an_unknown_test_is_told_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'jitter'") as caught:
        load_test("jitter")
    assert "latency" in caught.value.accepted.split(", ")


def test_a_test_that_needs_no_trial_ends_at_once_and_takes_none() -> None:
    def procedure():  # type: ignore[no-untyped-def]  # a double
        return "nothing to do"
        yield

    assert replay(procedure(), []).outcome == "nothing to do"
    with pytest.raises(LogError, match="where the test has ended"):
        replay(procedure(), [Dut().run(TrialRequest(load_fps=1000, duration_s=1))])


def test_a_dut_that_did_not_come_back_is_not_tried_again() -> None:
    ask = TrialRequest(load_fps=1000, duration_s=1, event=EventSpec(what="vnf0", at_s=0.5))
    seen = Dut().run(ask)
    event = EventTimes(what="vnf0", began_s=0.5, ended_s=30, failure="vnf0 does not come back")
    broken = seen.result.model_copy(update={"event": event})
    assert TrialOutcome.of(seen.request, broken, Verdict.INCONSISTENT, number=1).answers(ask)
    dead = broken.model_copy(update={"failed": "dut"})
    assert not TrialOutcome.of(seen.request, dead, Verdict.DUT_FAILED, number=1).answers(ask)
    well = broken.model_copy(update={"event": event.model_copy(update={"failure": ""})})
    assert not TrialOutcome.of(seen.request, well, Verdict.INCONSISTENT, number=1).answers(ask)
