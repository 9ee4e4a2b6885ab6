"""Loss below the bounds, and what warms a DUT up: both are trials of the search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.search.support import LIMITS, STEPPED, STRICT, lower_fps, upper_fps
from tests.texts import Texts
from vnetperf.model.parameters import SearchGoal, SweepInputs
from vnetperf.search import make_search, replay
from vnetperf.testing.sim import SimulatedDut, run

MAJORITY = SearchGoal(
    name="ndr",
    exceed_ratio=0.5,
    initial_trial_s=0.5,
    final_trial_s=1.0,
    duration_sum_s=4.0,
    width=0.05,
)
SWEPT = replace(LIMITS, sweep=SweepInputs())


@pytest.mark.parametrize("algorithm", ["mlr", "binary", "tst009"])
@pytest.mark.parametrize("goal", [MAJORITY, STRICT])
def test_the_search_goes_on_below_a_load_that_is_not_carried(
    algorithm: str, goal: SearchGoal
) -> None:
    limits = replace(STEPPED, sweep=SweepInputs())
    lossy = (0.9e6, 1.15e6)
    dut = SimulatedDut(5e6, lossy_loads_fps=lossy)
    alone = run(make_search(algorithm, [goal], replace(limits, sweep=None)), dut)[0].results[0]
    assert alone.regular
    assert lower_fps(alone) > 4e6
    search = make_search(algorithm, [goal], limits)
    outcome, log = run(search, SimulatedDut(5e6, lossy_loads_fps=lossy))
    (found,) = outcome.results
    assert found.regular
    assert lower_fps(found) <= lossy[0] * (1 + 1e-6)
    assert lossy[0] <= upper_fps(found) <= lossy[1]
    assert replay(make_search(algorithm, [goal], limits), log).outcome == outcome


def test_one_trial_that_loses_is_no_upper_bound_where_most_must() -> None:
    """Each load of the sweep is seen once; one at which a trial loses is classified like others."""
    dut = SimulatedDut(5e6, low_capacity_fps=1e5, low_probability=0.2, seed=7)
    outcome, log = run(make_search("mlr", [MAJORITY], SWEPT), dut)
    (found,) = outcome.results
    assert found.regular
    swept = [t for t in log if t.request.phase == "sweep"]
    lossy = {t.load_fps for t in swept if t.loss_ratio}
    assert lossy
    for load in lossy:
        assert sum(t.duration_s for t in swept if t.load_fps == load) > SweepInputs().trial_s


def test_what_cannot_be_decided_below_within_the_budget_is_irregular(texts: Texts) -> None:
    dut = SimulatedDut(5e6, lossy_loads_fps=(2e6, 3.5e6))
    whole, log = run(make_search("mlr", [MAJORITY], SWEPT), dut)
    first = next(n for n, t in enumerate(log) if t.request.phase == "sweep" and t.loss_ratio)
    seconds = sum(t.duration_s for t in log[: first + 1])
    limits = replace(SWEPT, max_trial_seconds=seconds)
    cut, _ = run(
        make_search("mlr", [MAJORITY], limits), SimulatedDut(5e6, lossy_loads_fps=(2e6, 3.5e6))
    )
    (found,) = cut.results
    assert whole.results[0].regular
    assert not found.regular
    texts.check(found.reason)


@pytest.mark.parametrize("algorithm", ["mlr", "binary", "tst009"])
def test_a_budget_that_ends_before_the_loads_below_are_known_is_irregular(algorithm: str) -> None:
    limits = replace(STEPPED, sweep=SweepInputs())
    _, log = run(make_search(algorithm, [MAJORITY], limits), SimulatedDut(5e6))
    first = next(n for n, t in enumerate(log) if t.request.phase == "sweep")
    budget = sum(t.duration_s for t in log[: first + 1])
    cut, _ = run(
        make_search(algorithm, [MAJORITY], replace(limits, max_trial_seconds=budget)),
        SimulatedDut(5e6),
    )
    (found,) = cut.results
    assert found.relevant_lower_bound is not None
    assert found.relevant_upper_bound is not None
    assert not found.regular
    assert "not all tried" in found.reason


def test_a_dut_is_warm_when_two_seconds_agree() -> None:
    limits = replace(LIMITS, warm_up_s=10.0)
    outcome, log = run(make_search("mlr", [MAJORITY], limits), SimulatedDut(5e6))
    warm = [t for t in log if t.request.phase == "warm-up"]
    assert [*log[: len(warm)]] == warm
    assert [(t.load_fps, t.duration_s) for t in warm] == [(limits.max_load_fps, 1.0)] * 2
    # They are in no sum and no bound, and spare the search its overload.
    assert outcome.trial_count == len(log) - len(warm)
    assert outcome.trial_seconds == pytest.approx(sum(t.duration_s for t in log[len(warm) :]))
    assert log[len(warm)].load_fps < limits.max_load_fps


def test_a_dut_that_never_agrees_with_itself_is_warmed_up_for_so_long() -> None:
    limits = replace(LIMITS, warm_up_s=10.0)
    dut = SimulatedDut(5e6, low_capacity_fps=1e6, low_probability=0.5, seed=5)
    _, log = run(make_search("mlr", [MAJORITY], limits), dut)
    count = sum(t.request.phase == "warm-up" for t in log)
    assert 2 <= count <= 10


def test_a_round_begins_where_the_one_before_ended_without_an_overload() -> None:
    first, _ = run(make_search("mlr", [MAJORITY], LIMITS), SimulatedDut(5e6))
    start = lower_fps(first.results[0])
    limits = replace(LIMITS, starts_fps=(start,), warm_up_s=10.0)
    again, log = run(make_search("mlr", [MAJORITY], limits), SimulatedDut(5e6))
    assert {t.request.phase for t in log} == {""}
    assert max(t.load_fps for t in log) < 1.1 * start
    assert lower_fps(again.results[0]) == start
    assert again.trial_seconds < first.trial_seconds


def test_a_round_is_not_misled_by_what_an_overload_leaves_behind() -> None:
    """The DUT is at 0.7 of its capacity for a while after each overload."""

    def searched(dut: SimulatedDut, starts: tuple[float, ...]) -> float:
        limits = replace(LIMITS, starts_fps=starts)
        return lower_fps(run(make_search("mlr", [MAJORITY], limits), dut)[0].results[0])

    dut = SimulatedDut(5e6, wedged_s=100.0, wedged_share=0.7)
    found = [searched(dut, ())]
    for _ in range(2):
        dut.clock_s += 200.0
        found.append(searched(dut, (found[-1],)))
    assert found[0] < 0.72 * 5e6
    assert found[0] < found[1] <= found[2]
    assert found[2] > 0.8 * 5e6
