"""Final bounds are tried again after idle, and loads below them too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.outcomes import Confirmation
from vnetperf.model.parameters import ConfirmInputs, SearchGoal, SearchLimits
from vnetperf.model.trial import TrialOutcome, TrialRequest
from vnetperf.search import GoalOutcome, StopSearch, make_search, replay
from vnetperf.search.confirmation import confirmed_by_trials
from vnetperf.testing.sim import SimulatedDut, run

from .support import LIMITS, MAX_FPS, NDR, PDR, STEPPED, STRICT, Whimsical, duts, goals, lower_fps

CONFIRM = ConfirmInputs()
CONFIRMED = replace(LIMITS, confirm=CONFIRM)
CSIT = replace(NDR, initial_trial_s=1.0)
QUICK = replace(
    NDR, name="quick", initial_trial_s=0.5, final_trial_s=1.0, duration_sum_s=4.0, width=0.05
)
ALGORITHM = st.sampled_from(["binary", "mlr", "tst009"])


def confirmation(result: GoalOutcome) -> Confirmation:
    assert result.confirmation is not None
    return result.confirmation


def two_modes(seed: int, probability: float) -> SimulatedDut:
    return SimulatedDut(5e6, low_capacity_fps=3e6, low_probability=probability, seed=seed)


def is_between(result: GoalOutcome) -> bool:
    """Whether a lower bound is further from either mode than noise could be."""
    far = max(0.03, 2 * result.goal.width)
    return 3e6 * (1 + far) < lower_fps(result) < 5e6 * (1 - far)


@pytest.mark.parametrize("algorithm", ["mlr", "binary"])
@pytest.mark.parametrize("goal", [STRICT, CSIT, QUICK], ids=["strict", "csit", "quick"])
def test_no_result_between_two_modes_is_regular(goal: SearchGoal, algorithm: str) -> None:
    between = regular = 0
    for seed in range(200):
        dut = two_modes(seed, 0.3 if seed % 2 else 0.5)
        outcome, _ = run(make_search(algorithm, [goal], CONFIRMED), dut)
        [result] = outcome.results
        if not is_between(result):
            continue
        between += 1
        regular += result.regular
        if not result.regular:
            found = confirmation(result)
            assert found.status == "unstable"
            assert found.modes == pytest.approx((3e6, 5e6), rel=0.01)
    assert between > 15
    assert regular <= 0.05 * between


@pytest.mark.parametrize("goal", [STRICT, QUICK], ids=["strict", "quick"])
def test_a_dut_that_an_overload_leaves_slower_is_unstable(goal: SearchGoal) -> None:
    dut = SimulatedDut(5e6, wedged_s=60.0, between_s=7.0)
    before, _ = run(make_search("mlr", [goal], LIMITS), replace(dut))
    assert before.results[0].regular  # and wrong: it carries 5 Mfps
    assert lower_fps(before.results[0]) < 4.3e6
    outcome, log = run(make_search("mlr", [goal], CONFIRMED), replace(dut))
    [result] = outcome.results
    found = confirmation(result)
    assert not result.regular
    assert found.status == "unstable"
    assert "the upper bound was carried" in found.reason  # once the DUT has forgotten
    assert found.modes == pytest.approx((2.5e6, 5e6), rel=0.01)
    first = next(trial for trial in log if trial.request.phase == "confirm")
    assert first.request.rest_s == CONFIRM.idle_s


def test_two_modes_that_the_exceed_ratio_forgives_are_named() -> None:
    named = 0
    for seed in range(20):
        outcome, _ = run(make_search("mlr", [CSIT], CONFIRMED), two_modes(seed, 0.3))
        [result] = outcome.results
        if result.regular and lower_fps(result) > 4.9e6:
            named += confirmation(result).modes == pytest.approx((3e6, 5e6), rel=0.02)
    assert named > 10


@pytest.mark.parametrize("goal", [STRICT, CSIT, QUICK], ids=["strict", "csit", "quick"])
@pytest.mark.parametrize("algorithm", ["mlr", "binary"])
def test_loss_below_the_bound_is_found(goal: SearchGoal, algorithm: str) -> None:
    dut = SimulatedDut(5e6, lossy_loads_fps=(1.0e6, 1.2e6))
    outcome, log = run(make_search(algorithm, [goal], CONFIRMED), dut)
    [result] = outcome.results
    [inversion] = confirmation(result).inversions
    assert not result.regular
    assert confirmation(result).status == "unstable"
    assert 1.0e6 < inversion.load_fps < 1.2e6
    assert inversion.loss_ratio == pytest.approx(0.02, rel=0.01)
    assert len(confirmation(result).swept_fps) == 5
    assert "2.000% lost at" in result.reason
    assert sum(trial.request.phase == "sweep" for trial in log) > 5


@given(ALGORITHM, st.floats(0.01, 0.89), goals())
def test_a_clean_dut_is_confirmed(algorithm: str, share: float, goal: SearchGoal) -> None:
    limits = replace(STEPPED, confirm=CONFIRM)
    dut = SimulatedDut(share * MAX_FPS)
    plain, _ = run(make_search(algorithm, [goal], STEPPED), replace(dut))
    outcome, log = run(make_search(algorithm, [goal], limits), dut)
    [result] = outcome.results
    assert replace(result, confirmation=None) == plain.results[0]
    if result.regular or result.at_least:
        assert confirmation(result).status == "confirmed", confirmation(result).reason
        assert confirmation(result).modes == ()
    visited = [trial.load_fps for trial in log if trial.request.phase == "confirm"]
    if result.regular:
        # Lower, upper, lower: each as often as classifies it.
        turns = [load for n, load in enumerate(visited) if n == 0 or load != visited[n - 1]]
        low, high = result.relevant_lower_bound, result.relevant_upper_bound
        assert low is not None
        assert high is not None
        assert turns == [low.load_fps, high.load_fps, low.load_fps]


ANY_DUT = st.one_of(duts(), st.builds(Whimsical, st.just(1.0), seed=st.integers(0, 10**6)))
SMALL = replace(STEPPED, min_load_fps=1e6)


@given(ALGORITHM, st.lists(goals(), min_size=1, max_size=2), ANY_DUT)
def test_confirmation_is_counted_apart_and_moves_no_bound(
    algorithm: str, wanted: list[SearchGoal], dut: SimulatedDut
) -> None:
    wanted = [replace(goal, name=str(number)) for number, goal in enumerate(wanted)]
    outcome, log = run(make_search(algorithm, wanted, replace(SMALL, confirm=CONFIRM)), dut)
    found = [trial for trial in log if not trial.request.phase]
    plain = replay(make_search(algorithm, wanted, SMALL), found).found
    assert plain is not None
    assert (outcome.trial_count, outcome.trial_seconds) == (len(found), plain.trial_seconds)
    after = sum(trial.duration_s for trial in log) - outcome.trial_seconds
    assert outcome.confirm_seconds == pytest.approx(after)
    for result, before in zip(outcome.results, plain.results, strict=True):
        held = confirmation(result)
        assert result.relevant_lower_bound == before.relevant_lower_bound
        assert result.relevant_upper_bound == before.relevant_upper_bound
        assert result.regular == (before.regular and held.status != "unstable")
        assert (held.status == "unstable") == bool(
            result.reason == held.reason and held.reason and (held.modes or held.inversions)
        )
        assert sorted(held.modes) == list(held.modes)


@given(ALGORITHM, ANY_DUT, st.data())
def test_a_log_that_ends_in_the_confirmation_can_be_gone_on_with(
    algorithm: str, dut: SimulatedDut, data: st.DataObject
) -> None:
    limits = replace(SMALL, confirm=CONFIRM)
    outcome, log = run(make_search(algorithm, [NDR, PDR], limits), dut)
    assert replay(make_search(algorithm, [NDR, PDR], limits), log).found == outcome
    cut = data.draw(st.integers(0, len(log) - 1))
    search = make_search(algorithm, [NDR, PDR], limits)
    assert replay(search, log[:cut]).next_request == log[cut].request
    for trial in log[cut:-1]:
        search.send(trial)
    with pytest.raises(StopIteration) as end:
        search.send(log[-1])
    assert end.value.value == outcome


@given(st.sampled_from([STRICT, NDR, QUICK]), duts(), st.floats(10.0, 600.0))
def test_a_budget_of_wall_time_has_the_confirmation_in_it(
    goal: SearchGoal, dut: SimulatedDut, budget: float
) -> None:
    limits = replace(CONFIRMED, max_trial_seconds=budget, trial_overhead_s=0.5)
    outcome, log = run(make_search("mlr", [goal], limits), dut)
    assert outcome.trial_seconds + outcome.confirm_seconds + 0.5 * len(log) <= budget + 1e-6
    held = confirmation(outcome.results[0])
    if outcome.results[0].regular and held.status == "not confirmed":
        assert "does not fit the budget" in held.reason


def test_a_search_that_is_stopped_while_it_confirms_keeps_its_bounds() -> None:
    search = make_search("mlr", [STRICT], CONFIRMED)
    dut, request = SimulatedDut(5e6), next(search)
    while not request.phase:
        request = search.send(dut.measure(request))
    with pytest.raises(StopIteration) as end:
        search.throw(StopSearch("the run was interrupted"))
    [result] = end.value.value.results
    assert result.regular
    assert confirmation(result).status == "not confirmed"
    assert confirmation(result).reason == "the run was interrupted"


def by_trials(goal: SearchGoal, limits: SearchLimits, dut: SimulatedDut) -> list[Confirmation]:
    """A confirmation as the search itself has it, and as its trials have it."""
    outcome, log = run(make_search("mlr", [goal], limits), dut)
    [result] = outcome.results
    searched = [trial for trial in log if not trial.request.phase]
    after = [trial for trial in log if trial.request.phase]
    plain = replay(make_search("mlr", [goal], replace(limits, confirm=None)), searched).found
    assert plain is not None
    again = confirmed_by_trials(plain.results[0], searched, after, limits)
    assert again.regular == result.regular
    return [confirmation(result), confirmation(again)]


GOALS = pytest.mark.parametrize("goal", [STRICT, CSIT, QUICK], ids=["strict", "csit", "quick"])


@GOALS
def test_the_trials_of_a_log_confirm_a_maximum_load(goal: SearchGoal) -> None:
    found, again = by_trials(goal, CONFIRMED, SimulatedDut(2 * MAX_FPS))
    assert found.status == "confirmed"
    assert again == found


def searched_for(goal: SearchGoal, dut: SimulatedDut) -> tuple[GoalOutcome, list[TrialOutcome]]:
    outcome, log = run(make_search("mlr", [goal], CONFIRMED), dut)
    [result] = outcome.results
    assert confirmation(result).status == "confirmed"
    assert confirmation(result).inversions == ()
    return result, log


def for_no_loss(result: GoalOutcome, log: list[TrialOutcome]) -> GoalOutcome:
    """The same bounds, of a goal without loss, by the same trials."""
    goal = replace(result.goal, name="none", loss_ratio=0.0)
    after = [trial for trial in log if trial.request.phase]
    searched = [trial for trial in log if not trial.request.phase]
    bounds = replace(result, goal=goal, confirmation=None)
    return confirmed_by_trials(bounds, searched, after, CONFIRMED)


def test_one_short_trial_of_a_sweep_decides_nothing_for_another_goal() -> None:
    lossy = (0.3 * MAX_FPS, 0.4 * MAX_FPS)
    dut = SimulatedDut(2 * MAX_FPS, lossy_loads_fps=lossy, lossy_ratio=0.001)
    result, log = searched_for(PDR, dut)
    assert sum(trial.request.phase == "sweep" and trial.loss_ratio > 0 for trial in log) == 1
    again = for_no_loss(result, log)
    assert again.at_least
    assert confirmation(again).status == "confirmed"
    assert confirmation(again).inversions == ()
    assert "frames/s per interface is not known" in confirmation(again).reason


def test_a_visit_that_was_too_short_for_another_goal_confirms_nothing() -> None:
    """Three trials that all lost a little confirm a bound with loss, and none without."""
    again = for_no_loss(*searched_for(PDR, SimulatedDut(5e6)))
    assert again.regular
    assert confirmation(again).status == "not confirmed"
    assert "too few trials at its bounds" in confirmation(again).reason


class Thawing(SimulatedDut):
    """A DUT that carries everything once its bounds are found."""

    def measure(self, request: TrialRequest) -> TrialOutcome:
        if request.phase:
            self.capacity_fps = 2 * MAX_FPS
        return super().measure(request)


@GOALS
@pytest.mark.parametrize("share", [0.3, 0.9, 0.97, 0.99, 0.995, 0.999])
def test_the_trials_of_a_log_contradict_an_upper_bound_near_the_maximum(
    goal: SearchGoal, share: float
) -> None:
    found, again = by_trials(goal, CONFIRMED, Thawing(share * MAX_FPS))
    assert found.status == "unstable"
    assert again == found


def test_bounds_that_are_not_final_are_not_confirmed() -> None:
    outcome, log = run(make_search("mlr", [STRICT], CONFIRMED), SimulatedDut(5_000.0))
    assert confirmation(outcome.results[0]).status == "not confirmed"
    assert confirmation(outcome.results[0]).reason == "no load met the goal"
    assert not any(trial.request.phase for trial in log)


def stopped_at(
    wanted: list[SearchGoal], limits: SearchLimits, log: list[TrialOutcome]
) -> tuple[GoalOutcome, ...]:
    """What the search itself has when it is stopped after these trials."""
    search = make_search("mlr", wanted, limits)
    assert replay(search, log).next_request is not None
    with pytest.raises(StopIteration) as end:
        search.throw(StopSearch("the run was interrupted"))
    results: tuple[GoalOutcome, ...] = end.value.value.results
    return results


DOUBTFUL = st.one_of(
    ANY_DUT,
    st.builds(two_modes, st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.3, 0.5])),
    st.builds(Thawing, st.floats(0.3, 0.999).map(lambda share: share * MAX_FPS)),
    st.builds(SimulatedDut, st.just(2 * MAX_FPS), noise=st.sampled_from([0.0, 0.02])),
    st.builds(SimulatedDut, st.just(5e6), lossy_loads_fps=st.just((1.0e6, 1.2e6))),
)


@given(st.sampled_from([[STRICT], [CSIT], [QUICK], [NDR, PDR], [CSIT, PDR]]), DOUBTFUL, st.data())
def test_a_log_that_was_cut_confirms_what_the_search_had_confirmed_there(
    wanted: list[SearchGoal], dut: SimulatedDut, data: st.DataObject
) -> None:
    """A visit that broke off is none, wherever the log ends."""
    limits = replace(SMALL, confirm=CONFIRM)
    outcome, log = run(make_search("mlr", wanted, limits), dut)
    searched = [trial for trial in log if not trial.request.phase]
    plain = replay(make_search("mlr", wanted, SMALL), searched).found
    assert plain is not None
    after = data.draw(st.integers(0, len(log) - len(searched)))
    cut = log[: len(searched) + after]
    own = stopped_at(wanted, limits, cut) if len(cut) < len(log) else outcome.results
    for bound, held in zip(plain.results, own, strict=True):
        again = confirmed_by_trials(
            bound, searched, cut[len(searched) :], limits, ended=len(cut) == len(log)
        )
        assert confirmation(again).status == confirmation(held).status
        assert again.regular == held.regular
        assert confirmation(again).inversions == confirmation(held).inversions
        final = bound.regular or bound.at_least
        if final and len(cut) < len(log) and confirmation(again).status == "not confirmed":
            assert "broke off" in confirmation(again).reason
