from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.trial import TrialRequest
from vnetperf.search import (
    Bound,
    GoalOutcome,
    StopSearch,
    binary_search,
)
from vnetperf.search.classification import Criterion, DurationSums, LoadClass, classify
from vnetperf.search.session import GeometricGrid
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


def worst_case_trial_seconds(goal: SearchGoal, limits: SearchLimits) -> float:
    """Upper bound of the trial time of one goal, known before the first trial."""
    halvings = (GeometricGrid(limits, goal.width).top + 1).bit_length()
    trials_per_load = ceil(round(goal.duration_sum_s / goal.final_trial_s, 9))
    coarse = (1 + halvings) * goal.initial_trial_s
    # The candidate, then doubling steps away from it, then halving what they enclose.
    verified = (2 + 2 * halvings) * trials_per_load * goal.final_trial_s
    return coarse + verified


@given(st.floats(0.01, 0.89), goals())
def test_a_clean_dut_is_found_within_the_goals_width(share: float, goal: SearchGoal) -> None:
    dut = SimulatedDut(share * MAX_FPS)
    outcome, _ = run(binary_search([goal], LIMITS), dut)
    [result] = outcome.results
    assert result.regular
    # A frame more or less in a trial is below what the truth is known to.
    frame = 2.0 / goal.initial_trial_s
    assert lower_fps(result) <= dut.truth_fps(goal) + frame
    assert upper_fps(result) >= dut.truth_fps(goal) - frame
    assert upper_fps(result) - lower_fps(result) <= goal.width * upper_fps(result)


@given(goals(), st.one_of(duts(), st.builds(Whimsical, st.just(1.0), seed=st.integers(0, 10**6))))
def test_trial_time_is_bounded_up_front_on_any_dut(goal: SearchGoal, dut: SimulatedDut) -> None:
    outcome, log = run(binary_search([goal], LIMITS), dut)
    stated = worst_case_trial_seconds(goal, LIMITS)
    assert outcome.trial_seconds == pytest.approx(sum(trial.duration_s for trial in log))
    assert outcome.trial_seconds <= stated + 1e-6
    # The bound is true of the algorithm; it is not that the search was cut off at it.
    assert "budget" not in outcome.results[0].reason


@given(goals(), st.one_of(duts(), st.builds(Whimsical, st.just(1.0), seed=st.integers(0, 10**6))))
def test_nothing_is_reported_at_or_above_a_load_seen_to_fail(
    goal: SearchGoal, dut: SimulatedDut
) -> None:
    outcome, log = run(binary_search([goal], LIMITS), dut)
    [result] = outcome.results
    if result.relevant_lower_bound is None:
        assert result.at_most
        return
    criterion = Criterion.from_goal(goal)
    for load in {request.load_fps for request in log}:
        at_load = [trial for trial in log if trial.load_fps == load]
        if classify(DurationSums.sum_trials(at_load, criterion), criterion) is LoadClass.UPPER:
            assert result.relevant_lower_bound.load_fps < load
    if goal.exceed_ratio == 0.0:
        failed = [trial.load_fps for trial in log if trial.loss_ratio > goal.loss_ratio]
        assert all(result.relevant_lower_bound.load_fps < load for load in failed)


@given(goals(), duts())
def test_what_is_reported_was_verified_at_full_length(goal: SearchGoal, dut: SimulatedDut) -> None:
    outcome, _ = run(binary_search([goal], LIMITS), dut)
    bound = outcome.results[0].relevant_lower_bound
    if bound is not None:
        good = [
            trial.duration_s
            for trial in bound.trials
            if trial.duration_s >= goal.final_trial_s and trial.loss_ratio <= goal.loss_ratio
        ]
        assert sum(good) >= goal.duration_sum_s * (1.0 - goal.exceed_ratio) - 1e-6


def test_a_short_trial_that_passes_is_not_believed() -> None:
    # 1 s trials pass 10 % above what 60 s ones do: the buffer hides the loss.
    dut = SimulatedDut(5e6, buffer_frames=5e5)
    outcome, _ = run(binary_search([STRICT], LIMITS), dut)
    assert lower_fps(outcome.results[0]) <= dut.truth_fps(STRICT) < 5.1e6
    assert outcome.results[0].regular


def test_rfc2544_direction_up_without_loss_down_with_loss() -> None:
    # Errata 422 and 423.
    search = binary_search([replace(STRICT, initial_trial_s=60.0)], LIMITS)
    first = next(search)
    down = search.send(measured(first.load_fps, first.duration_s, 0.1))
    assert down.load_fps < first.load_fps
    up = search.send(measured(down.load_fps, down.duration_s, 0.0))
    assert down.load_fps < up.load_fps < first.load_fps


def test_an_exceed_ratio_of_a_half_forgives_one_trial_of_two() -> None:
    search = binary_search([replace(TST009, initial_trial_s=60.0)], LIMITS)
    request = next(search)
    # The maximum load passes at once in the first trial: 60 s of 120 s are low-loss.
    with pytest.raises(StopIteration) as end:
        request = search.send(measured(request.load_fps, 60.0, 0.0))
    assert end.value.value.results[0].at_least


def test_the_maximum_load_is_reported_as_at_least() -> None:
    outcome, log = run(binary_search([STRICT], LIMITS), SimulatedDut(2 * MAX_FPS))
    [result] = outcome.results
    assert result.at_least
    assert not result.regular
    assert lower_fps(result) == MAX_FPS
    assert result.relevant_upper_bound is None
    assert [trial.duration_s for trial in log] == [1.0, 60.0]


def test_less_than_the_minimum_load_is_reported_as_at_most() -> None:
    outcome, _ = run(binary_search([STRICT], LIMITS), SimulatedDut(9_000.0))
    [result] = outcome.results
    assert result.at_most
    assert not result.regular
    assert result.conditional_throughput_fps is None
    assert upper_fps(result) == LIMITS.min_load_fps


def bounds(result: GoalOutcome) -> tuple[Bound, Bound]:
    """Both bounds, which must be there."""
    assert result.relevant_lower_bound is not None
    assert result.relevant_upper_bound is not None
    return result.relevant_lower_bound, result.relevant_upper_bound


def test_goals_are_searched_one_after_the_other_as_if_alone() -> None:
    both, _ = run(binary_search([NDR, PDR], LIMITS), SimulatedDut(5e6))
    alone = [run(binary_search([goal], LIMITS), SimulatedDut(5e6))[0] for goal in (NDR, PDR)]
    for together, [by_itself] in zip(both.results, (one.results for one in alone), strict=True):
        for a, b in zip(bounds(together), bounds(by_itself), strict=True):
            assert [(t.load_fps, t.duration_s, t.loss_ratio) for t in a.trials] == [
                (t.load_fps, t.duration_s, t.loss_ratio) for t in b.trials
            ]
        assert together.conditional_throughput_fps == by_itself.conditional_throughput_fps
    assert both.trial_seconds == sum(outcome.trial_seconds for outcome in alone)


@settings(max_examples=40)
@given(goals(), duts(), st.floats(1.0, 500.0))
def test_a_budget_is_kept_and_said(goal: SearchGoal, dut: SimulatedDut, budget: float) -> None:
    limits = replace(LIMITS, max_trial_seconds=budget)
    outcome, _ = run(binary_search([goal], limits), dut)
    assert outcome.trial_seconds <= budget + 1e-6
    [result] = outcome.results
    assert result.regular or result.at_least or result.at_most or "budget" in result.reason


def test_a_stopped_search_returns_the_goals_it_has_done() -> None:
    search = binary_search([NDR, PDR], LIMITS)
    alone, _ = run(binary_search([NDR], LIMITS), SimulatedDut(5e6))
    dut, request = SimulatedDut(5e6), next(search)
    for _ in range(alone.trial_count):
        request = search.send(dut.measure(request))
    assert isinstance(request, TrialRequest)
    with pytest.raises(StopIteration) as end:
        search.throw(StopSearch("the DUT died"))
    ndr, pdr = end.value.value.results
    assert ndr.regular
    assert not pdr.regular
    assert pdr.reason == "no bounds: the DUT died"
