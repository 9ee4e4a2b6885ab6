"""What a plan says a test takes is no less than what it asks for."""

from __future__ import annotations

import pytest

from tests.procedures.support import CEILING, Dut, drive, inputs, latency_of
from vnetperf.model.parameters import (
    STANDARD_TESTS,
    BackToBackTest,
    FrameLossTest,
    LatencyLoadTest,
    LatencyTest,
    MrrTest,
    SearchGoal,
    SoakTest,
)
from vnetperf.model.preset import Preset, TrialTimes
from vnetperf.plugin.procedure import DurationEstimate, duration_estimate, load_test

PRESET = Preset(
    goals=(SearchGoal(name="ndr"),),
    trial=TrialTimes(learning_wait_s=2, drain_s=1, settle_s=3),
    latency=LatencyTest(shares=(1, 0.5), loads_fps=(1000.0,), duration_s=5, tag_at_s=1, repeats=4),
    frame_loss=FrameLossTest(step=0.07, duration_s=3),
    back_to_back=BackToBackTest(searches=3, max_burst_s=0.01, idle_s=4, repeats_after_loss=1),
    mrr=MrrTest(duration_s=2, repeats=7),
    latency_load=LatencyLoadTest(loads_fps=(1e3, 1e6, 5e6), repeats=4),
    soak=SoakTest(duration_s=130, trial_s=60),
)


@pytest.mark.parametrize(
    "test",
    ["latency", "frame_loss", "back_to_back", "mrr", "soak", "forwarding_rate", "latency_load"],
)
@pytest.mark.parametrize("buffer", [10, 5_000, 10**9])
def test_no_test_takes_longer_than_planned(test: str, buffer: int) -> None:
    planned = duration_estimate(test, PRESET, CEILING)
    assert planned is not None
    dut = Dut(1.0, lambda _: buffer, delay=lambda n, d: latency_of({1000: 1}))
    kind = load_test(test)
    _, seen = drive(kind.run(inputs(kind.parameters(PRESET))), dut)
    assert len(seen) <= planned.trials <= 2 * len(seen)
    if test != "back_to_back":
        assert sum(s.duration_s for s in seen) <= planned.traffic_s


def test_waits_count() -> None:
    assert DurationEstimate(10, 50.0).wall_s(PRESET) == 50 + 10 * (2 + 1 + 3)
    assert DurationEstimate(10, 50.0, idle_s=4).wall_s(PRESET) == 50 + 10 * (2 + 1 + 4)


def test_the_full_latency_test_takes_its_time() -> None:
    full = Preset(goals=(SearchGoal(name="ndr"),))
    planned = duration_estimate("latency", full, CEILING)
    tries = 3  # of the throughput, which is to be carried
    assert planned == DurationEstimate(20 + tries, 20 * 120.0 + tries * 60.0)


@pytest.mark.parametrize("test", STANDARD_TESTS)
def test_every_test_has_a_plan_or_takes_as_many_trials_as_it_needs(test: str) -> None:
    unknown = {"throughput", "address_caching", "address_learning"}
    unknown |= {"connection_rate", "session_capacity"}
    assert (duration_estimate(test, PRESET, CEILING) is None) == (test in unknown)
