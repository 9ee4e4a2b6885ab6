from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.texts import Texts
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.search import StopSearch, make_search, mlr_search
from vnetperf.search.classification import Criterion, DurationSums, LoadClass, classify
from vnetperf.testing.sim import SimulatedDut, run

from .support import (
    LIMITS,
    MAX_FPS,
    NDR,
    PDR,
    STRICT,
    TST009,
    Whimsical,
    duts,
    goals,
    lower_fps,
    measured,
    upper_fps,
)

#: Few widths between the limits, so that a search without rhyme or reason ends soon.
SMALL = SearchLimits(min_load_fps=1e6, max_load_fps=MAX_FPS)
ANY_DUT = st.one_of(duts(), st.builds(Whimsical, st.just(1.0), seed=st.integers(0, 10**6)))
ONE_OR_TWO = st.one_of(
    goals().map(lambda goal: [goal]), st.tuples(goals("first"), goals("second")).map(list)
)


@given(st.floats(0.01, 0.99), ONE_OR_TWO, st.sampled_from([0.0, 0.5]))
def test_a_clean_dut_is_found_within_each_goals_width(
    share: float, wanted: list[SearchGoal], overload_cost: float
) -> None:
    dut = SimulatedDut(share * MAX_FPS, overload_cost=overload_cost)
    outcome, _ = run(mlr_search(wanted, LIMITS), dut)
    for goal, result in zip(wanted, outcome.results, strict=True):
        assert result.goal is goal
        truth, frame = dut.truth_fps(goal), 2.0 / min(goal.initial_trial_s for goal in wanted)
        if truth > MAX_FPS - frame:
            continue
        assert result.regular, result.reason
        assert lower_fps(result) <= truth + frame
        assert upper_fps(result) >= truth - frame
        assert upper_fps(result) - lower_fps(result) <= goal.width * upper_fps(result)
        assert result.conditional_throughput_fps == pytest.approx(
            lower_fps(result), rel=goal.loss_ratio + 1e-9
        )


@given(ONE_OR_TWO, ANY_DUT)
def test_it_ends_with_a_result_on_any_dut(wanted: list[SearchGoal], dut: SimulatedDut) -> None:
    outcome, log = run(mlr_search(wanted, SMALL), dut)
    for result in outcome.results:
        # Exactly one of these is how a search without a budget may end.
        assert [result.regular, result.at_least, result.at_most].count(True) == 1, result.reason
        assert (result.conditional_throughput_fps is None) == (result.relevant_lower_bound is None)
    assert outcome.trial_count == len(log)
    assert outcome.trial_seconds == pytest.approx(sum(trial.duration_s for trial in log))
    assert all(SMALL.min_load_fps <= request.load_fps <= MAX_FPS for request in log)


@given(ONE_OR_TWO, ANY_DUT)
def test_bounds_are_those_of_the_whole_log(wanted: list[SearchGoal], dut: SimulatedDut) -> None:
    # Reported are the largest lower bound below the smallest upper bound of all trials run: so it
    # is never above a load seen to fail, unless the exceed ratio forgives.
    outcome, log = run(mlr_search(wanted, SMALL), dut)
    for goal, result in zip(wanted, outcome.results, strict=True):
        criterion = Criterion.from_goal(goal)
        by_class: dict[LoadClass, list[float]] = {one: [] for one in LoadClass}
        for load in {request.load_fps for request in log}:
            at_load = [trial for trial in log if trial.load_fps == load]
            by_class[classify(DurationSums.sum_trials(at_load, criterion), criterion)].append(load)
        upper = min(by_class[LoadClass.UPPER], default=None)
        lowers = [load for load in by_class[LoadClass.LOWER] if upper is None or load < upper]
        low, high = result.relevant_lower_bound, result.relevant_upper_bound
        assert (high and high.load_fps) == upper
        assert (low and low.load_fps) == max(lowers, default=None)
        if low is not None and goal.exceed_ratio == 0.0:
            failed = [trial.load_fps for trial in log if trial.loss_ratio > goal.loss_ratio]
            assert all(low.load_fps < load for load in failed)
        if low is not None:
            assert low.trials == tuple(t for t in log if t.load_fps == low.load_fps)


@given(ANY_DUT, st.sampled_from([NDR, STRICT, TST009]))
def test_a_goal_that_tolerates_more_is_never_reached_at_less(
    dut: SimulatedDut, strict: SearchGoal
) -> None:
    lax = replace(strict, name="lax", loss_ratio=0.01)
    outcome, _ = run(mlr_search([lax, strict], SMALL), dut)
    for bound in ("relevant_lower_bound", "relevant_upper_bound"):
        less, more = (getattr(outcome.result(name), bound) for name in (strict.name, "lax"))
        if less is not None and more is not None:
            assert less.load_fps <= more.load_fps


@given(ONE_OR_TWO, ANY_DUT, st.floats(0.5, 300.0))
def test_a_budget_is_kept_and_said(
    wanted: list[SearchGoal], dut: SimulatedDut, budget: float
) -> None:
    limits = replace(SMALL, max_trial_seconds=budget)
    outcome, _ = run(mlr_search(wanted, limits), dut)
    assert outcome.trial_seconds <= budget + 1e-6
    for result in outcome.results:
        done = result.regular or result.at_least or result.at_most
        assert done or "does not fit the budget" in result.reason


def test_a_budget_that_suffices_changes_nothing() -> None:
    free, _ = run(mlr_search([NDR, PDR], LIMITS), SimulatedDut(5e6, noise=0.003))
    limits = replace(LIMITS, max_trial_seconds=free.trial_seconds)
    assert run(mlr_search([NDR, PDR], limits), SimulatedDut(5e6, noise=0.003))[0] == free


def test_a_clean_dut_costs_little_more_than_the_evidence_itself() -> None:
    # 11 of 21 seconds classify a load when all agree; PDR's lower bound is NDR's upper one.
    outcome, _ = run(mlr_search([NDR, PDR], LIMITS), SimulatedDut(5e6))
    assert outcome.trial_seconds == 34.0
    # Two full trials are the least for two strict goals.
    strict_pdr = replace(STRICT, name="PDR", loss_ratio=0.005)
    outcome, _ = run(mlr_search([STRICT, strict_pdr], LIMITS), SimulatedDut(5e6))
    assert outcome.trial_seconds < 140.0


def test_an_upper_bound_is_not_worth_a_long_trial() -> None:
    outcome, log = run(mlr_search([STRICT], LIMITS), SimulatedDut(5e6))
    [result] = outcome.results
    assert result.relevant_upper_bound is not None
    assert {trial.duration_s for trial in result.relevant_upper_bound.trials} == {1.0}
    assert sum(request.duration_s == 60.0 for request in log) == 1


def test_the_maximum_load_is_reported_as_at_least() -> None:
    outcome, _ = run(mlr_search([STRICT, TST009], LIMITS), SimulatedDut(2 * MAX_FPS))
    for result in outcome.results:
        assert (result.at_least, result.at_most, result.regular) == (True, False, False)
        assert lower_fps(result) == MAX_FPS
        assert result.conditional_throughput_fps == MAX_FPS


def test_no_lower_bound_is_a_result_and_not_an_exception(texts: Texts) -> None:
    outcome, _ = run(mlr_search([STRICT, NDR], LIMITS), SimulatedDut(5_000.0))
    for result in outcome.results:
        assert (result.at_least, result.at_most, result.regular) == (False, True, False)
        texts.check(result.reason)


def test_a_dut_that_forwards_nothing_ends_quickly() -> None:
    outcome, _ = run(mlr_search([STRICT], LIMITS), SimulatedDut(0.0))
    assert outcome.results[0].at_most
    assert outcome.trial_count == 2


def test_stopping_keeps_what_is_known() -> None:
    search = mlr_search([STRICT], LIMITS)
    dut, request = SimulatedDut(5e6), next(search)
    while request.duration_s < 60.0:
        request = search.send(dut.measure(request))
    with pytest.raises(StopIteration) as end:
        search.throw(StopSearch("the DUT died"))
    [result] = end.value.value.results
    assert not result.regular
    assert "the DUT died" in result.reason


def test_a_measurement_of_something_else_is_refused() -> None:
    search = mlr_search([STRICT], LIMITS)
    request = next(search)
    with pytest.raises(ValueError, match="does not answer"):
        search.send(measured(request.load_fps / 2, request.duration_s, 0.0))


@pytest.mark.parametrize("loss", [-0.1, 1.1])
def test_an_inconsistent_trial_is_no_measurement(loss: float) -> None:
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        measured(1e6, 1.0, loss)


@settings(max_examples=30)
@given(ONE_OR_TWO, ANY_DUT)
def test_the_same_answers_give_the_same_search(wanted: list[SearchGoal], dut: SimulatedDut) -> None:
    seed = dut.seed
    first = run(mlr_search(wanted, SMALL), type(dut)(5e6, noise=0.01, seed=seed))
    assert run(mlr_search(wanted, SMALL), type(dut)(5e6, noise=0.01, seed=seed)) == first


@given(ONE_OR_TWO, st.floats(0.02, 0.95), st.floats(0.01, 1.0), st.sampled_from(["mlr", "binary"]))
def test_where_a_search_begins_limits_nothing(
    wanted: list[SearchGoal], share: float, start: float, algorithm: str
) -> None:
    dut = SimulatedDut(share * MAX_FPS)
    limits = replace(LIMITS, starts_fps=(start * MAX_FPS,) * len(wanted))
    outcome, log = run(make_search(algorithm, wanted, limits), dut)
    assert log[0].load_fps <= start * MAX_FPS * (1 + 1e-9)
    for goal, result in zip(wanted, outcome.results, strict=True):
        frame = 2.0 / min(goal.initial_trial_s for goal in wanted)
        if dut.truth_fps(goal) < MAX_FPS - frame:
            assert result.regular, result.reason
            assert lower_fps(result) <= dut.truth_fps(goal) + frame
            assert upper_fps(result) >= dut.truth_fps(goal) - frame
