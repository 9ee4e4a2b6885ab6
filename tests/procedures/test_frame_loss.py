"""Frame loss rate of a DUT whose loss curve is known comes back, and ends where the clause says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.procedures.support import CEILING, Dut, asks, drive, inputs
from vnetperf.model.parameters import FrameLossTest
from vnetperf.model.trial import TrialOutcome, TrialRequest
from vnetperf.procedures.rates import frame_loss, preferred_below

TEST = FrameLossTest(step=0.1, duration_s=60)


@settings(deadline=None)
@given(st.floats(1e4, 3e6))
def test_the_loss_curve_comes_back_down_to_two_trials_without_loss(capacity: float) -> None:
    steps, seen = drive(frame_loss(inputs(TEST)), Dut(capacity))
    assert steps[0].input_ratio == 1
    assert asks(seen)[0] == CEILING
    for number, step in enumerate(steps):
        share = 1 - 0.1 * number if number < 10 else 0.1 / 2 ** (number - 9)
        load = CEILING * share
        assert step.input_ratio == pytest.approx(share)
        assert step.load_fps == pytest.approx(2 * load)
        assert step.loss_ratio == pytest.approx(max(0, 1 - capacity / load), abs=1e-6)
        assert step.forwarded_fps == pytest.approx(2 * min(load, capacity), rel=1e-5)
        assert step.trials == (number + 1,)
    clean = [step.loss_ratio == 0 for step in steps]
    assert clean[-2:] == [True, True]
    assert not any(a and b for a, b in pairwise(clean[:-1]))


def test_the_worse_direction_decides_and_both_are_told() -> None:
    steps, _ = drive(frame_loss(inputs(TEST)), Dut(1e6, share=(1.0, 0.5)))
    assert steps[0].per_direction == {"phy0->phy1": 0.5, "phy1->phy0": 0.75}
    assert steps[0].loss_ratio == 0.75
    assert steps[0].forwarded_fps == pytest.approx(1.5e6)
    assert [s.loss_ratio for s in steps[-2:]] == [0, 0]
    assert steps[-2].load_fps <= 2 * 0.5e6


def test_a_loss_that_comes_back_begins_the_count_anew() -> None:
    class Odd(Dut):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            self.capacity_fps = 1e3 if len(self.asked) == 1 else 1e9
            return super().run(ask)

    steps, _ = drive(frame_loss(inputs(TEST)), Odd())
    assert [s.loss_ratio == 0 for s in steps] == [True, False, True, True]


def test_the_smallest_load_of_the_preset_ends_it() -> None:
    steps, seen = drive(frame_loss(inputs(TEST, min_load_fps=0.75 * CEILING)), Dut(1.0))
    assert asks(seen) == pytest.approx([CEILING, 0.9 * CEILING, 0.8 * CEILING])
    assert len(steps) == 3


@pytest.mark.parametrize("step", [0.03, 0.07, 0.1, 0.25, 0.5])
def test_loads_are_above_nothing_for_any_step(step: float) -> None:
    found, seen = drive(frame_loss(inputs(FrameLossTest(step=step))), Dut(1.0))
    loads = asks(seen)
    assert len(found) == len(loads)
    for higher, lower in pairwise(loads):
        assert higher - lower <= step * CEILING * 1.000001
        assert lower >= higher / 2 - 1e-6 or higher - lower == pytest.approx(step * CEILING)
    assert loads[-1] < 2 * inputs(TEST).min_load_fps  # as far down as the preset goes


def test_only_the_first_load_may_lower_the_largest() -> None:
    _, seen = drive(frame_loss(inputs(TEST)), dut := Dut())
    assert [a.when_limited for a in dut.asked] == ["lower"] + ["fail"] * (len(seen) - 1)


@given(st.floats(1e3, 1e9))
def test_a_preferred_number_is_near_and_not_above(number: float) -> None:
    found = preferred_below(number)
    assert number * (1.4 / 1.6) * (1 - 1e-9) < found <= number  # the widest step of R20
    assert preferred_below(found) == found


def test_calibrations_that_differ_by_some_percent_mostly_share_one() -> None:
    assert {preferred_below(n) for n in (2.01e6, 2.1e6, 2.2e6)} == {2e6}
    assert preferred_below(2.25e6) == pytest.approx(2.24e6)
