"""The best estimate within a time: what a search makes of a budget that does not suffice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.parameters import SearchGoal
from vnetperf.search import make_search, mlr_search
from vnetperf.search.classification import Criterion, DurationSums, LoadClass, classify
from vnetperf.testing.sim import SimulatedDut, run

from .support import LIMITS, MAX_FPS, STRICT, Whimsical, duts, goals, lower_fps, upper_fps

STRICT_PDR = replace(STRICT, name="PDR", loss_ratio=0.005)
ANY_DUT = st.one_of(duts(), st.builds(Whimsical, st.just(1.0), seed=st.integers(0, 10**6)))


@pytest.mark.parametrize("budget", [15.0, 40.0, 70.0, 100.0, 130.0])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_every_goal_gets_an_estimate(budget: float, share: float) -> None:
    # The two goals need 138 s; 15 s is a tenth of it.
    dut = SimulatedDut(share * MAX_FPS)
    limits = replace(LIMITS, max_trial_seconds=budget)
    outcome, _ = run(mlr_search([STRICT, STRICT_PDR], limits), dut)
    assert outcome.trial_seconds <= budget
    assert not all(result.regular for result in outcome.results)
    for result in outcome.results:
        truth = dut.truth_fps(result.goal)
        assert lower_fps(result) <= truth + 2.0
        assert upper_fps(result) >= truth - 2.0
        assert upper_fps(result) - lower_fps(result) <= 4 * result.goal.width * upper_fps(result)
        if not result.regular:
            assert f"the budget of {budget:g} s" in result.reason
            estimate = f"an estimate by trials of {result.goal.final_trial_s:g} s"
            assert result.reason.startswith(estimate) == (result.goal.final_trial_s < 60.0)


def test_time_that_is_left_is_used() -> None:
    # 60 s do not fit 58 s; a longer trial than the 8 s of the ladder does, twice.
    limits = replace(LIMITS, max_trial_seconds=58.0)
    outcome, log = run(mlr_search([STRICT], limits), SimulatedDut(5e6))
    [result] = outcome.results
    assert result.goal.final_trial_s > 15.0
    assert max(request.duration_s for request in log) == result.goal.final_trial_s
    assert outcome.trial_seconds > 20.0


def test_a_goal_that_still_fits_is_not_held_up_by_one_that_does_not() -> None:
    short = SearchGoal(name="short", final_trial_s=1.0, duration_sum_s=1.0, loss_ratio=0.005)
    limits = replace(LIMITS, max_trial_seconds=50.0)
    outcome, _ = run(mlr_search([STRICT, short], limits), SimulatedDut(5e6))
    assert outcome.result("short").regular
    assert not outcome.result("strict").regular


def test_waits_around_trials_count_in_the_budget_and_nowhere_else() -> None:
    for budget in (100.0, 200.0, 400.0):
        limits = replace(LIMITS, max_trial_seconds=budget, trial_overhead_s=9.0)
        outcome, log = run(mlr_search([STRICT], limits), SimulatedDut(5e6))
        assert outcome.trial_seconds == sum(request.duration_s for request in log)
        assert outcome.trial_seconds + 9.0 * len(log) <= budget
    assert outcome.results[0].regular


@given(st.lists(goals(), min_size=1, max_size=2), ANY_DUT, st.floats(0.5, 300.0), st.floats(0, 5))
def test_no_estimate_is_at_or_above_a_load_known_to_be_too_much(
    wanted: list[SearchGoal], dut: SimulatedDut, budget: float, around: float
) -> None:
    wanted = [replace(goal, name=str(number)) for number, goal in enumerate(wanted)]
    limits = replace(LIMITS, min_load_fps=1e6, max_trial_seconds=budget, trial_overhead_s=around)
    outcome, log = run(mlr_search(wanted, limits), dut)
    assert outcome.trial_seconds + around * len(log) <= budget + 1e-6
    for goal, result in zip(wanted, outcome.results, strict=True):
        assert result.goal.final_trial_s <= goal.final_trial_s
        if result.goal != goal:
            assert not result.regular
        if result.relevant_lower_bound is None:
            continue
        criterion = Criterion.from_goal(goal)
        for load in {request.load_fps for request in log}:
            at_load = [trial for trial in log if trial.load_fps == load]
            if classify(DurationSums.sum_trials(at_load, criterion), criterion) is LoadClass.UPPER:
                assert lower_fps(result) < load


@given(st.sampled_from(["binary", "mlr"]), goals(), duts())
def test_a_budget_that_suffices_changes_nothing(
    algorithm: str, goal: SearchGoal, dut: SimulatedDut
) -> None:
    seed = dut.seed
    free, _ = run(make_search(algorithm, [goal], LIMITS), SimulatedDut(5e6, seed=seed, noise=0.01))
    limits = replace(LIMITS, max_trial_seconds=free.trial_seconds)
    same = run(make_search(algorithm, [goal], limits), SimulatedDut(5e6, seed=seed, noise=0.01))
    assert same[0] == free
