from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.errors import LogError
from vnetperf.model.trial import Verdict
from vnetperf.search import ReplayMismatchError, make_search, replay
from vnetperf.testing.sim import SimulatedDut, run

from .support import LIMITS, NDR, PDR, STEPPED, duts, measured

ALGORITHM = st.sampled_from(["binary", "mlr", "tst009"])


@pytest.mark.slow
@given(ALGORITHM, duts())
def test_a_complete_log_gives_the_identical_outcome(algorithm: str, dut: SimulatedDut) -> None:
    outcome, log = run(make_search(algorithm, [NDR, PDR], STEPPED), dut)
    replayed = replay(make_search(algorithm, [NDR, PDR], STEPPED), log)
    assert replayed.outcome == outcome
    assert replayed.next_request is None


@given(ALGORITHM, duts(), st.data())
def test_a_truncated_log_gives_the_next_trial_and_can_be_gone_on_with(
    algorithm: str, dut: SimulatedDut, data: st.DataObject
) -> None:
    outcome, log = run(make_search(algorithm, [NDR, PDR], STEPPED), dut)
    cut = data.draw(st.integers(0, len(log) - 1))
    search = make_search(algorithm, [NDR, PDR], STEPPED)
    replayed = replay(search, log[:cut])
    assert replayed.outcome is None
    assert replayed.next_request == log[cut].request
    for outcome_ in log[cut:-1]:
        search.send(outcome_)
    with pytest.raises(StopIteration) as end:
        search.send(log[-1])
    assert end.value.value == outcome


def test_a_log_of_another_goal_is_refused_at_the_first_trial_that_differs() -> None:
    _, log = run(make_search("mlr", [NDR], LIMITS), SimulatedDut(5e6))
    with pytest.raises(ReplayMismatchError) as refused:
        replay(make_search("mlr", [replace(NDR, width=0.01)], LIMITS), log)
    mismatch = refused.value
    assert isinstance(mismatch, LogError)
    assert mismatch.index > 0
    assert mismatch.expected is not None
    assert mismatch.logged == log[mismatch.index].request
    assert f"trial {mismatch.index + 1} of" in str(mismatch)


def test_trials_after_the_end_are_refused() -> None:
    _, log = run(make_search("mlr", [NDR], LIMITS), SimulatedDut(5e6))
    with pytest.raises(ReplayMismatchError, match="the test has ended") as refused:
        replay(make_search("mlr", [NDR], LIMITS), [*log, log[-1]])
    assert refused.value.index == len(log)
    assert refused.value.expected is None


def test_a_load_that_went_through_text_is_still_the_same() -> None:
    outcome, log = run(make_search("mlr", [NDR], LIMITS), SimulatedDut(5e6))
    printed = [
        measured(float(f"{one.load_fps:.12g}"), one.duration_s, one.loss_ratio) for one in log
    ]
    replayed = replay(make_search("mlr", [NDR], LIMITS), printed).outcome
    assert replayed is not None
    assert [r.regular for r in replayed.results] == [r.regular for r in outcome.results]
    assert replayed.trial_count == outcome.trial_count


@given(ALGORITHM, duts())
def test_trials_that_are_no_measurement_change_nothing(algorithm: str, dut: SimulatedDut) -> None:
    outcome, log = run(make_search(algorithm, [NDR], STEPPED), dut)
    limited = [replace(one, verdict=Verdict.GENERATOR_LIMITED) for one in log]
    both = [trial for pair in zip(limited, log, strict=True) for trial in pair]
    assert replay(make_search(algorithm, [NDR], STEPPED), both).outcome == outcome
