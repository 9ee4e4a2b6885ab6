"""Final bounds are tried again after idle, and loads below them too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.outcomes import Confirmation
from vnetperf.model.parameters import ConfirmInputs, SearchGoal, SearchLimits, StepInputs
from vnetperf.model.trial import TrialOutcome, TrialRequest
from vnetperf.search import (
    GoalOutcome,
    Search,
    SearchOutcome,
    StopSearch,
    make_search,
    replay,
)
from vnetperf.search.classification import LoadClass
from vnetperf.search.confirmation import _Visited, confirmed_by_trials, confirming_trials
from vnetperf.testing.sim import SimulatedDut, run

from .support import (
    LIMITS,
    MAX_FPS,
    NDR,
    PDR,
    STEPPED,
    STRICT,
    Whimsical,
    daily,
    duts,
    goals,
    lower_fps,
    measured,
    slow,
)

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


@pytest.mark.parametrize("algorithm", ["mlr", slow("binary")])
@pytest.mark.parametrize(
    "goal", [STRICT, daily(CSIT), slow(QUICK)], ids=["strict", "csit", "quick"]
)
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


@pytest.mark.parametrize("algorithm", ["mlr", "binary"])
@pytest.mark.parametrize(
    ("goal", "ratio"),
    [(STRICT, 0.0045), (CSIT, 0.0045), (QUICK, 0.045)],
    ids=["strict", "csit", "quick"],
)
def test_a_bound_that_loses_frames_whenever_it_is_tried_again_is_not_confirmed(
    goal: SearchGoal, ratio: float, algorithm: str
) -> None:
    dut = SimulatedDut(  # less than the goal's width
        5e6, lossy_loads_fps=(3.1e6, 1e9), lossy_ratio=ratio, lossy_after_rest_s=1.0
    )
    outcome, _ = run(make_search(algorithm, [goal], CONFIRMED), dut)
    [result] = outcome.results
    found = confirmation(result)
    assert not result.regular
    assert found.status == "unstable"
    for inversion in found.inversions:
        assert inversion.load_fps == pytest.approx(lower_fps(result) * (1 - goal.width))
        assert inversion.loss_ratio == pytest.approx(ratio, rel=0.01)
    assert found.inversions
    assert found.modes == ()
    assert max(found.swept_fps) < 3.1e6  # all carried


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
        if held.status == "unstable":
            assert held.reason
            assert result.reason == held.reason
            assert not result.at_least
        if held.modes:
            low, high = held.modes
            assert high - low > result.goal.width * high  # else they are one, with its noise


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
        fits = "not repeatable within the goal's width" in held.reason
        assert fits or "does not fit the budget" in held.reason


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


def as_logged(
    wanted: Sequence[SearchGoal],
    limits: SearchLimits,
    log: Sequence[TrialOutcome],
    stopped: str = "",
    algorithm: str = "mlr",
) -> list[GoalOutcome]:
    """Results with the confirmation that the trials of a log give, each goal by itself."""
    searched = [trial for trial in log if not trial.request.phase]
    after = [trial for trial in log if trial.request.phase]
    plain = found(make_search(algorithm, wanted, replace(limits, confirm=None)), searched, stopped)
    return [
        confirmed_by_trials(one, searched, after, limits, own=True, stopped=stopped)
        for one in plain.results
    ]


def found(search: Search, log: Sequence[TrialOutcome], stopped: str) -> SearchOutcome:
    """What a search returns whose log ends here."""
    replayed = replay(search, log)
    if replayed.found is not None:
        return replayed.found
    with pytest.raises(StopIteration) as end:
        search.throw(StopSearch(stopped))
    outcome: SearchOutcome = end.value.value
    return outcome


def by_trials(goal: SearchGoal, limits: SearchLimits, dut: SimulatedDut) -> list[Confirmation]:
    """A confirmation as the search itself has it, and as its trials have it."""
    outcome, log = run(make_search("mlr", [goal], limits), dut)
    [again] = as_logged([goal], limits, log)
    assert again == outcome.results[0]
    return [confirmation(outcome.results[0]), confirmation(again)]


TWO_MODES = st.builds(
    SimulatedDut,
    st.sampled_from([5e6, MAX_FPS, 1.1 * MAX_FPS]),
    low_capacity_fps=st.sampled_from([3e6, 4.9e6, 14e6]),
    low_probability=st.sampled_from([0.3, 0.5]),
    noise=st.sampled_from([0.0, 0.003]),
    wedged_s=st.sampled_from([0.0, 60.0]),
    seed=st.integers(0, 10_000),
)
FEW = st.lists(st.sampled_from([STRICT, NDR, PDR, CSIT, QUICK]), min_size=1, max_size=3)


@given(ALGORITHM, FEW, st.one_of(TWO_MODES, ANY_DUT), st.floats(0.0, 1.0))
def test_the_trials_of_a_log_say_what_the_search_said(
    algorithm: str, wanted: list[SearchGoal], dut: SimulatedDut, share: float
) -> None:
    """Of several goals, whole or cut at any trial."""
    wanted = [replace(goal, name=str(number)) for number, goal in enumerate(wanted)]
    limits = replace(SMALL, confirm=CONFIRM)
    outcome, log = run(make_search(algorithm, wanted, limits), dut)
    assert as_logged(wanted, limits, log, algorithm=algorithm) == [*outcome.results]
    first = next((n for n, trial in enumerate(log) if trial.request.phase), len(log))
    cut = first + int(share * (len(log) - first))
    if cut < len(log):
        live = found(make_search(algorithm, wanted, limits), log[:cut], "it was killed")
        again = as_logged(wanted, limits, log[:cut], "it was killed", algorithm)
        assert again == [*live.results]


@given(ALGORITHM, st.sampled_from([STRICT, NDR, PDR, QUICK]), st.one_of(TWO_MODES, ANY_DUT))
def test_a_log_that_names_no_visits_replays_and_confirms_nothing_by_itself(
    algorithm: str, goal: SearchGoal, dut: SimulatedDut
) -> None:
    limits = replace(SMALL, confirm=CONFIRM)
    outcome, log = run(make_search(algorithm, [goal], limits), dut)
    older = [replace(one, request=one.request.model_copy(update={"visit": None})) for one in log]
    assert replay(make_search(algorithm, [goal], limits), older).found is not None
    [result], [again] = outcome.results, as_logged([goal], limits, older, algorithm=algorithm)
    assert again.relevant_lower_bound == result.relevant_lower_bound
    assert confirmation(again).status == "not confirmed"
    assert confirmation(again).reason


GOALS = pytest.mark.parametrize("goal", [STRICT, CSIT, QUICK], ids=["strict", "csit", "quick"])


@GOALS
def test_the_trials_of_a_log_confirm_a_maximum_load(goal: SearchGoal) -> None:
    found, again = by_trials(goal, CONFIRMED, SimulatedDut(2 * MAX_FPS))
    assert found.status == "confirmed"
    assert again == found


def test_one_short_trial_of_a_sweep_decides_nothing_for_another_goal() -> None:
    dut = SimulatedDut(5e6, lossy_loads_fps=(1.0e6, 1.2e6), lossy_ratio=0.0049)
    outcome, log = run(make_search("mlr", [PDR], CONFIRMED), dut)
    [result] = outcome.results
    assert confirmation(result).status == "confirmed"
    assert confirmation(result).inversions == ()
    after = [trial for trial in log if trial.request.phase]
    assert sum(trial.request.phase == "sweep" and trial.loss_ratio > 0 for trial in after) == 1
    stricter = replace(PDR, name="stricter", loss_ratio=0.0045)  # of the same bounds
    strict = replace(result, goal=stricter, confirmation=None)
    searched = [trial for trial in log if not trial.request.phase]
    again = confirmed_by_trials(strict, searched, after, CONFIRMED, own=False)
    assert again.regular
    assert confirmation(again).status == "confirmed"
    assert confirmation(again).inversions == ()
    assert "frames/s per interface is not known" in confirmation(again).reason


class Stepped(SimulatedDut):
    """A DUT that loses 0.1 % above 0.3 M, 2 % between 2.8 M and 3.2 M, and has a capacity."""

    def measure(self, request: TrialRequest) -> TrialOutcome:
        self.trials += 1
        load = request.load_fps
        losses = [
            0.001 if load > 0.3e6 else 0.0,
            0.02 if 2.8e6 < load < 3.2e6 else 0.0,
            1.0 - self.capacity_fps / load,
        ]
        return TrialOutcome(request=request, loss_ratio=max(losses), number=self.trials)


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


def test_loads_below_are_tried_for_every_goal_whose_bounds_were_found() -> None:
    wanted = [QUICK, replace(QUICK, name="pdr", loss_ratio=0.005)]
    unsteady = 0
    for seed in range(60):
        dut = replace(two_modes(seed, 0.3), lossy_loads_fps=(1.0e6, 1.2e6))
        outcome, _ = run(make_search("mlr", wanted, CONFIRMED), dut)
        held = [confirmation(result) for result in outcome.results]
        unsteady += len({one.modes for one in held if one.modes}) == 1
        for one in held:
            assert len(one.swept_fps) == 5
            assert one.status == "unstable"  # 2 % is too much for either goal
    assert unsteady > 5


@pytest.mark.slow  # statistics of 40 DUTs
@pytest.mark.parametrize("probability", [0.3, 0.5, 0.7])
@GOALS
def test_two_modes_are_as_far_apart_as_they_are(goal: SearchGoal, probability: float) -> None:
    shown = 0
    for seed in range(40):
        outcome, _ = run(make_search("mlr", [goal], CONFIRMED), two_modes(seed, probability))
        held = confirmation(outcome.results[0])
        if held.status == "unstable":
            shown += 1
            assert held.modes == pytest.approx((3e6, 5e6), rel=0.02)
    assert shown > 0


@GOALS
def test_a_maximum_load_that_is_not_carried_again_is_no_at_least(goal: SearchGoal) -> None:
    slower = SimulatedDut(2 * MAX_FPS, lossy_loads_fps=(0.5 * MAX_FPS, 1e9), lossy_ratio=0.3)
    outcome, _ = run(make_search("mlr", [goal], CONFIRMED), replace(slower, lossy_after_rest_s=1.0))
    [result] = outcome.results
    assert confirmation(result).status == "unstable"
    assert confirmation(result).modes == pytest.approx((0.7 * MAX_FPS, MAX_FPS), rel=0.01)
    assert (result.regular, result.at_least) == (False, False)
    assert "the lower bound was not carried again" in result.reason


def test_goals_far_apart_are_confirmed_within_the_forecast() -> None:
    """Each goal has loads of its own below its bound, where the bounds are not near each other."""
    lossy = SimulatedDut(5e6, lossy_loads_fps=(1.5e6, 1e9), lossy_ratio=0.001)
    goals = [NDR, PDR]
    outcome, log = run(make_search("mlr", goals, CONFIRMED), lossy)
    assert [confirmation(result).status for result in outcome.results] == ["confirmed"] * 2
    after = [trial for trial in log if trial.request.phase]
    sweep = [trial for trial in after if trial.request.phase == "sweep"]
    inputs = CONFIRMED.confirm
    assert inputs is not None
    assert len(sweep) == 2 * inputs.sweep_loads
    trials, seconds = confirming_trials(goals, inputs)
    assert (len(after), sum(trial.duration_s for trial in after)) <= (trials, seconds)


def test_bounds_that_are_not_final_are_not_confirmed() -> None:
    outcome, log = run(make_search("mlr", [STRICT], CONFIRMED), SimulatedDut(5_000.0))
    assert confirmation(outcome.results[0]).status == "not confirmed"
    assert confirmation(outcome.results[0]).reason == "no load met the goal"
    assert not any(trial.request.phase for trial in log)


@pytest.mark.slow  # statistics of 60 DUTs
@pytest.mark.parametrize("noise", [0.01, 0.02])
@GOALS
def test_noise_of_a_dut_with_one_mode_is_no_second_one(goal: SearchGoal, noise: float) -> None:
    unstable = 0
    for seed in range(60):
        dut = SimulatedDut(5e6, noise=noise, seed=seed)
        outcome, _ = run(make_search("mlr", [goal], CONFIRMED), dut)
        held = confirmation(outcome.results[0])
        unstable += held.status == "unstable"
        if held.status == "not confirmed":
            assert "not repeatable within the goal's width" in held.reason
            assert outcome.results[0].regular
        assert held.status == "unstable" or not held.modes
    assert unstable <= 3


@pytest.mark.parametrize("algorithm", ["mlr", "binary"])
def test_each_goal_has_loads_right_below_its_own_lower_bound(algorithm: str) -> None:
    # The lower goal ends far below: 2 % are lost at loads that only the higher one takes for good.
    pdr = replace(QUICK, name="pdr", loss_ratio=0.005)
    outcome, _ = run(make_search(algorithm, [QUICK, pdr], CONFIRMED), Stepped(5e6))
    low, high = outcome.results
    assert confirmation(low).status == "confirmed"
    assert lower_fps(high) > 4.5e6
    assert confirmation(high).status == "unstable"
    [inversion] = confirmation(high).inversions
    assert 2.8e6 < inversion.load_fps < 3.2e6
    for result in (low, high):
        swept = confirmation(result).swept_fps
        assert swept[0] == pytest.approx(0.6 * lower_fps(result))
        assert len(swept) == 5


class Flapping(SimulatedDut):
    """A DUT that loses 1 % above 300,000 frames/s, once its bounds are found every other time."""

    lossy = True

    def measure(self, request: TrialRequest) -> TrialOutcome:
        self.trials += 1
        above = request.load_fps > 300_001.0
        if above and request.phase:
            self.lossy = not self.lossy
        loss = 0.01 if above and self.lossy else 0.0
        return TrialOutcome(request=request, loss_ratio=loss, number=self.trials)


def coarse(max_r: int = 2, z: int | None = None) -> SearchLimits:
    """A hundred loads up to 1 M."""
    steps = StepInputs(step_fps=10_000.0, max_r=max_r, z=z)
    return SearchLimits(min_load_fps=1000.0, max_load_fps=1e6, steps=steps, confirm=CONFIRM)


@pytest.mark.parametrize(
    ("z", "status"), [(None, "unstable"), (1000, "confirmed"), (200_000, "unstable")]
)
def test_a_trial_that_lost_more_than_z_decides_a_visit_too(z: int | None, status: str) -> None:
    outcome, log = run(make_search("tst009", [STRICT], coarse(z=z)), Flapping(1e6))
    [result] = outcome.results
    assert lower_fps(result) == 300e3
    assert confirmation(result).status == status
    after = [t.request.visit.roles["strict"] for t in log if t.request.visit]
    assert after.count("above") == (1 if z == 1000 else 2)  # 1 % of 19 million frames are lost
    assert replay(make_search("tst009", [STRICT], coarse(z=z)), log).found == outcome


def test_a_trial_that_held_before_has_decided_whatever_another_goal_saw_after() -> None:
    steps = StepInputs(step_fps=1e5, max_r=2, z=1000)
    for losses, class_ in (((0.0, 0.01), LoadClass.LOWER), ((0.01, 0.0), LoadClass.UPPER)):
        trials = [measured(1e6, 60.0, loss) for loss in losses]
        goal = replace(STRICT, exceed_ratio=0.5, duration_sum_s=120.0)
        assert _Visited("upper", goal, 1e6, trials, steps=steps).class_ is class_
        assert _Visited("upper", goal, 1e6, trials).class_ is LoadClass.LOWER


def test_noise_within_the_step_of_an_array_is_no_contradiction() -> None:
    """The bounds are 9 % apart, and what decides is as far beyond them."""
    goal = replace(STRICT, width=0.01)
    for seed in range(30):
        dut = SimulatedDut(100e3 + seed * 333.0, noise=0.02, seed=seed)
        outcome, _ = run(make_search("tst009", [goal], coarse()), dut)
        [result] = outcome.results
        assert result.regular
        assert confirmation(result).status == "confirmed", confirmation(result).reason


def test_loads_that_begin_far_below_a_bound_leave_its_sweep_open() -> None:
    """As a log has them whose sweep began below the lowest bound of several goals."""
    outcome, log = run(make_search("mlr", [QUICK], CONFIRMED), SimulatedDut(5e6))
    searched = [trial for trial in log if not trial.request.phase]
    first = next(trial.load_fps for trial in log if trial.request.phase == "sweep")
    after = [trial for trial in log if trial.request.phase and trial.load_fps != first]
    plain = replace(outcome.results[0], confirmation=None)
    limits = replace(CONFIRMED, confirm=ConfirmInputs(sweep_loads=4))
    again = confirmed_by_trials(plain, searched, after, limits, own=True)
    assert confirmation(again).reason == "loads below it were not all tried"
