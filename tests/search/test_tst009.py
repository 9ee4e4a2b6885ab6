"""Binary search with and without loss verification (TST009 sections 12.3.2 and 12.3.3)."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.texts import Texts
from vnetperf.model.errors import ConfigError
from vnetperf.model.parameters import SearchLimits, StepInputs
from vnetperf.model.trial import DirectionCounts, TrialOutcome, TrialResult
from vnetperf.search import (
    GoalOutcome,
    Search,
    StopSearch,
    make_search,
    search_inputs,
    tst009_search,
)
from vnetperf.search.tst009 import OfferedLoads
from vnetperf.testing.sim import SimulatedDut, run

from .support import (
    LIMITS,
    MAX_FPS,
    PDR,
    STRICT,
    Whimsical,
    duts,
    goals,
    lower_fps,
    measured,
    upper_fps,
)

ANY_DUT = st.one_of(duts(), st.builds(Whimsical, st.just(1.0), seed=st.integers(0, 10**6)))
STEPS = st.builds(
    StepInputs,
    step_fps=st.sampled_from([10_000.0, 148_809.52, 1e6, 7.1e6]),
    max_r=st.integers(2, 4),
    z=st.sampled_from([None, 0, 1000]),
)


def stepped(step_fps: float = 1e5, max_r: int = 1, z: int | None = None) -> SearchLimits:
    return replace(LIMITS, max_load_fps=1e7, steps=StepInputs(step_fps=step_fps, max_r=max_r, z=z))


@example(load=1.0000000000000002, step=1.0)
@given(st.floats(1.0, 1e8), st.floats(1.0, 1e8))
def test_offered_loads_are_as_many_as_the_standard_says(load: float, step: float) -> None:
    array = OfferedLoads(load, step)
    assert array.count * step >= load * (1 - 1e-8)  # it reaches the largest load
    assert array.count == 1 or (array.count - 1) * step < load  # and needs its last step for it
    loads = [array.load(place) for place in range(min(array.count, 50))]
    assert loads == sorted(loads)
    assert array.load(array.top) == load
    if array.count > 1:
        assert array.load(0) == step


@example(least=1000.0, load=50_000.0, step=300.0)
@given(st.floats(1.0, 1e6), st.floats(1.1e6, 1e8), st.floats(1.0, 1e6))
def test_the_array_begins_at_the_minimum_load(least: float, load: float, step: float) -> None:
    array, whole = OfferedLoads(load, step, least), OfferedLoads(load, step)
    assert array.count == whole.count - array.skipped >= 1
    assert array.load(0) == whole.load(array.skipped)
    assert array.load(0) >= least * (1 - 1e-8)
    assert not array.skipped or whole.load(array.skipped - 1) < least


@pytest.mark.parametrize(
    ("capacity", "lower", "upper"), [(700.0, None, 1200.0), (1300.0, 1200.0, 1500.0)]
)
def test_no_trial_is_below_the_minimum_load(
    capacity: float, lower: float | None, upper: float
) -> None:
    steps = StepInputs(step_fps=300.0, max_r=2)
    limits = SearchLimits(min_load_fps=1000.0, max_load_fps=50_000.0, steps=steps)
    outcome, log = run(tst009_search([STRICT], limits), SimulatedDut(capacity))
    [result] = outcome.results
    assert upper_fps(result) == upper
    assert min(trial.load_fps for trial in log) == 1200.0
    if lower is None:
        assert result.at_most
        assert "from the minimum load on" in result.reason
    else:
        assert lower_fps(result) == lower
    assert search_inputs(limits)["n"] == "164"  # of 167
    # The others are halved as they were before: an older log is one of the same search.
    _, before = run(tst009_search([STRICT], replace(limits, min_load_fps=1.0)), SimulatedDut(9e3))
    _, now = run(tst009_search([STRICT], limits), SimulatedDut(9e3))
    assert [trial.request for trial in now] == [trial.request for trial in before]


@pytest.mark.parametrize("capacity", [0.25e6, 4.44e6, 2e7])
def test_the_width_of_a_result_is_no_less_than_its_step(capacity: float) -> None:
    outcome, _ = run(tst009_search([STRICT], stepped()), SimulatedDut(capacity))
    [result] = outcome.results
    found = {0.25e6: 1 / 3, 4.44e6: 1 / 45, 2e7: 1 / 100}[capacity]
    assert result.goal.width == pytest.approx(found)
    wide = replace(STRICT, width=0.4)
    assert run(tst009_search([wide], stepped()), SimulatedDut(capacity))[0].results[0].goal == (
        replace(result.goal, width=0.4)
    )


def test_it_ends_at_neighbours_of_the_array() -> None:
    outcome, log = run(tst009_search([STRICT], stepped()), SimulatedDut(4.4444e6))
    [result] = outcome.results
    assert result.regular
    assert lower_fps(result) == pytest.approx(4.4e6)
    assert upper_fps(result) == pytest.approx(4.5e6)
    places = [trial.load_fps / 1e5 for trial in log]
    assert places == pytest.approx([round(place) for place in places])
    assert {trial.duration_s for trial in log} == {60.0}


@given(goals(), STEPS, ANY_DUT)
def test_what_is_reported_held_and_its_neighbour_did_not(
    goal: object, steps: StepInputs, dut: SimulatedDut
) -> None:
    limits = replace(LIMITS, steps=steps)
    outcome, log = run(tst009_search([goal], limits), dut)  # type: ignore[list-item]
    [result] = outcome.results
    assert [result.regular, result.at_least, result.at_most].count(True) == 1, result.reason
    asked = result.goal
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    if lower is not None:
        assert lower.trials[-1].loss_ratio <= asked.loss_ratio
        assert 1 <= len(lower.trials) <= steps.max_r
        assert result.conditional_throughput_fps is not None
    if upper is not None:
        assert all(trial.loss_ratio > asked.loss_ratio for trial in upper.trials)
        lost = [round(t.loss_ratio * t.load_fps * t.duration_s) for t in upper.trials]
        overridden = steps.z is not None and lost[-1] > steps.z
        assert len(upper.trials) == steps.max_r or overridden
    if lower is not None and upper is not None:
        assert upper.load_fps - lower.load_fps <= steps.step_fps * (1.0 + 1e-9)
    halvings = ceil(log2(OfferedLoads(MAX_FPS, steps.step_fps).count + 1))
    assert outcome.trial_count == len(log) <= halvings * steps.max_r


def answers(search: Search, losses: list[float]) -> GoalOutcome:
    """Answer a search's trials in turn until it ends."""
    request = next(search)
    for loss in losses:
        answer = measured(request.load_fps, request.duration_s, loss)
        try:
            request = search.send(answer)
        except StopIteration as end:
            result: GoalOutcome = end.value.results[0]
            return result
    raise AssertionError(f"the search goes on with {request}")


def test_a_lossy_trial_is_repeated_up_to_max_r() -> None:
    # An array of two loads: 5e6 fails once and holds at the second try, 1e7 fails twice.
    limits = stepped(5e6, max_r=2)
    result = answers(tst009_search([STRICT], limits), [1e-9, 0.0, 0.1, 0.1])
    assert lower_fps(result) == 5e6
    assert len(result.relevant_lower_bound.trials) == 2  # type: ignore[union-attr]
    assert result.conditional_throughput_fps == 5e6
    assert (result.goal.duration_sum_s, result.goal.exceed_ratio) == (120.0, 0.5)


def test_more_than_z_lost_frames_are_not_tried_again() -> None:
    # 1e-3 of 5e6 frames/s in 60 s are 300,000 frames.
    limits = stepped(5e6, max_r=3, z=299_999)
    assert answers(tst009_search([STRICT], limits), [1e-3]).at_most
    limits = stepped(5e6, max_r=3, z=300_000)
    assert answers(tst009_search([STRICT], limits), [1e-3, 1e-3, 1e-3]).at_most


def test_z_is_of_the_frames_that_a_direction_has_lost_at_its_own_load() -> None:
    limits = stepped(5e6, max_r=2, z=1000)
    search, outcomes = tst009_search([STRICT], limits), []
    request = next(search)
    for lost in (600, 0):  # of 1e6 in the direction with the lower load: 6e-4 of 3e8 would be more
        sent = {0: 300_000_000, 1: 1_000_000}
        counts = [
            DirectionCounts(
                direction=n, intended=most, sent=most, received=most - lost * n, refused=0, unsent=0
            )
            for n, most in sent.items()
        ]
        outcomes.append(TrialOutcome.of(request, TrialResult(directions=tuple(counts))))
        request = search.send(outcomes[-1])
    assert request.load_fps > outcomes[0].load_fps


def test_without_loss_verification_one_lossy_trial_decides(texts: Texts) -> None:
    result = answers(tst009_search([STRICT], stepped(5e6)), [1e-9])
    assert result.at_most
    texts.check(result.reason)


def test_the_maximum_load_is_reported_as_at_least() -> None:
    outcome, _ = run(tst009_search([STRICT, PDR], stepped()), SimulatedDut(2e7))
    assert all(result.at_least and not result.regular for result in outcome.results)


def test_it_needs_its_inputs() -> None:
    with pytest.raises(ConfigError, match=r"TST009 section 12\.3\.2"):
        next(make_search("tst009", [STRICT], LIMITS))


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"step_fps": 0.0}, "step_fps = 0"),
        ({"step_fps": 1.0, "max_r": 0}, "max_r = 0"),
        ({"step_fps": 1.0, "max_r": 2, "z": -1}, "z = -1"),
        ({"step_fps": 1.0, "z": 5}, "overrides loss verification"),
    ],
)
def test_inputs_that_say_nothing_are_refused(inputs: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        StepInputs(**inputs)  # type: ignore[arg-type]


def test_a_step_beyond_the_maximum_load_is_refused() -> None:
    with pytest.raises(ConfigError, match="StepSize"):
        stepped(1e7)


def test_a_stopped_search_returns_what_it_knows(texts: Texts) -> None:
    search = tst009_search([STRICT], stepped())
    request = next(search)
    request = search.send(measured(request.load_fps, 60.0, 0.0))
    search.send(measured(request.load_fps, 60.0, 0.5))
    with pytest.raises(StopIteration) as end:
        search.throw(StopSearch("the DUT died"))
    [result] = end.value.value.results
    assert not result.regular
    assert lower_fps(result) == 5e6
    texts.check(result.reason)
