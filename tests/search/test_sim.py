from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.parameters import SearchGoal
from vnetperf.model.trial import TrialRequest
from vnetperf.search import make_search
from vnetperf.testing.sim import SimulatedDut, run

from .support import LIMITS, NDR, PDR, STRICT, TST009, daily, duts, slow


def share_of_high_loss(dut: SimulatedDut, load: float, seconds: float, loss: float) -> float:
    trials = [dut.measure(TrialRequest(load_fps=load, duration_s=seconds)) for _ in range(4000)]
    return statistics.mean(trial.loss_ratio > loss for trial in trials)


def test_a_clean_dut_forwards_its_capacity_and_no_more() -> None:
    dut = SimulatedDut(1e6)
    assert dut.measure(TrialRequest(load_fps=1e6, duration_s=10.0)).loss_ratio == 0.0
    assert dut.measure(TrialRequest(load_fps=2e6, duration_s=10.0)).loss_ratio == 0.5
    assert dut.truth_fps(STRICT) == pytest.approx(1e6)
    assert dut.truth_fps(PDR) == pytest.approx(1e6 / 0.995)


def test_a_buffer_lets_short_trials_pass_above_capacity() -> None:
    dut = SimulatedDut(1e6, buffer_frames=1e5)
    assert dut.measure(TrialRequest(load_fps=1.05e6, duration_s=1.0)).loss_ratio == 0.0
    assert dut.measure(TrialRequest(load_fps=1.05e6, duration_s=60.0)).loss_ratio > 0.0
    assert dut.truth_fps(NDR) == pytest.approx(1.1e6)
    assert dut.truth_fps(STRICT) == pytest.approx(1e6 + 1e5 / 60.0)


def test_overload_costs_capacity_but_not_throughput() -> None:
    dut = SimulatedDut(1e6, overload_cost=0.5)
    assert dut.measure(TrialRequest(load_fps=1e6, duration_s=1.0)).loss_ratio == 0.0
    assert dut.measure(
        TrialRequest(load_fps=2e6, duration_s=1.0)
    ).forwarding_rate_fps == pytest.approx(0.75e6)
    assert dut.truth_fps(STRICT) == pytest.approx(1e6)
    assert 1e6 < dut.truth_fps(PDR) < 1e6 / 0.995


def test_what_the_generator_cannot_send_counts_as_lost() -> None:
    dut = SimulatedDut(1e6, generator_limit_fps=5e5)
    assert dut.offered_fps(8e5) == 5e5
    assert dut.measure(TrialRequest(load_fps=1e6, duration_s=1.0)).loss_ratio == 0.5
    assert dut.truth_fps(STRICT) == pytest.approx(5e5)


@pytest.mark.parametrize(
    "dut",
    [
        SimulatedDut(1e6, noise=0.01, seed=1),
        SimulatedDut(1e6, low_capacity_fps=9e5, low_probability=0.3, seed=2),
        SimulatedDut(1e6, drop_probability=1e-7, seed=3),
        SimulatedDut(1e6, noise=0.01, overload_cost=0.5, buffer_frames=2e3, seed=4),
        SimulatedDut(1e6, noise=0.002, low_capacity_fps=9e5, low_probability=0.2, seed=5),
    ],
)
@pytest.mark.parametrize("loss", [0.0, daily(0.005)])
@pytest.mark.parametrize("load", [slow(0.85e6), 0.99e6, slow(1.001e6), daily(1.01e6)])
def test_its_truth_is_what_it_does(dut: SimulatedDut, loss: float, load: float) -> None:
    stated = dut.high_loss_probability(load, 1.0, loss)
    assert share_of_high_loss(dut, load, 1.0, loss) == pytest.approx(stated, abs=0.04)


@pytest.mark.parametrize("goal", [NDR, PDR, TST009])
def test_a_noisy_duts_truth_is_the_quantile_of_the_exceed_ratio(goal: SearchGoal) -> None:
    dut = SimulatedDut(1e6, noise=0.01, seed=7)
    bad = dut.high_loss_probability(dut.truth_fps(goal), goal.final_trial_s, goal.loss_ratio)
    assert bad == pytest.approx(0.5)


def test_a_strict_goals_truth_is_the_worst_case() -> None:
    dut = SimulatedDut(1e6, noise=0.01)
    assert dut.truth_fps(STRICT) == pytest.approx(0.97e6)
    assert share_of_high_loss(dut, 0.97e6, 1.0, 0.0) == 0.0


@given(duts(), st.integers(0, 1000))
def test_the_same_seed_gives_the_same_run(dut: SimulatedDut, seed: int) -> None:
    def go() -> object:
        again = SimulatedDut(dut.capacity_fps, noise=dut.noise, drop_probability=1e-8, seed=seed)
        return run(make_search("mlr", [NDR], LIMITS), again)

    assert go() == go()


def test_a_stall_costs_what_the_ring_does_not_hold_and_is_recorded() -> None:
    dut = SimulatedDut(2e6, stall_s=0.01, seed=3)
    result = dut.count(TrialRequest(load_fps=1e6, duration_s=1.0))
    (counts,) = result.directions
    assert result.gaps is not None
    stall = result.gaps.poll.max_s
    assert 0.005 <= stall <= 0.01
    assert counts.intended == counts.sent + counts.unsent
    assert counts.unsent == pytest.approx(stall * 1e6 - 2048, abs=2)
    assert result.lost(counts) == pytest.approx(stall * counts.sent - 2048, abs=2)
    assert result.gaps.poll.over_s == stall
    slow = dut.count(TrialRequest(load_fps=1e5, duration_s=1.0))
    assert slow.lost(slow.directions[0]) == slow.directions[0].unsent == 0
    assert slow.gaps is not None
    assert slow.gaps.poll.over_s == 0
