"""A load that drops in the middle of a trial, for real."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.real.switches import deployed, forwards
from vnetperf.deployment.trial import run_trial
from vnetperf.model.trial import LoadStep, TrialSpec

pytestmark = pytest.mark.daily

Unchanged = Callable[[], tuple[str, ...]]


def test_the_load_drops_and_the_curve_shows_it(unchanged: Unchanged) -> None:
    steps = (LoadStep(load_fps=4000, duration_s=1.0), LoadStep(load_fps=1000, duration_s=1.0))
    spec = TrialSpec(
        frame_size=64,
        load_fps=4000,
        duration_s=2.0,
        drain_s=2.0,
        learning_frames=8,
        steps=steps,
        bin_s=0.1,
    )
    with deployed("phy2phy_bridge") as deployment:
        result = run_trial(deployment, spec)
        assert not result.failed, result.failure
        for counts, timeline in zip(result.directions, result.timelines, strict=True):
            assert counts.intended == 5000
            assert sum(timeline.sent) == counts.sent
            assert sum(timeline.received) == sum(timeline.arrived) == counts.received
            before, after = sum(timeline.sent[:10]), sum(timeline.sent[10:])
            late = 4000 * result.max_lag_s + counts.unsent + 10
            assert 4000 - late <= before <= 4000
            assert 1000 - counts.unsent <= after <= 1000 + late
        forwards(deployment)
    assert unchanged() == ()


def test_an_overload_is_recovered_from(unchanged: Unchanged) -> None:
    """A ring that is full when the load drops is drained: loss ends soon after."""
    steps = (LoadStep(load_fps=3e6, duration_s=0.5), LoadStep(load_fps=2000, duration_s=2.5))
    spec = TrialSpec(
        frame_size=64, load_fps=3e6, duration_s=3.0, drain_s=1.0, steps=steps, bin_s=0.01
    )
    with deployed("phy2phy_dpdk", wire="memif") as deployment:
        result = run_trial(deployment, spec)
        assert not result.failed, result.failure
        for timeline in result.timelines:
            lost = [s - r for s, r in zip(timeline.sent, timeline.received, strict=True)]
            assert sum(lost[:50]) > 0  # else 3 million frames/s are too few for an overload here
            assert timeline.last_lost_s is not None
            assert timeline.last_lost_s < 2.9
            last = max(n for n, frames in enumerate(lost) if frames)
            # It is told better than by its bin.
            assert last * 0.01 - 1e-6 <= timeline.last_lost_s <= (last + 1) * 0.01 + 1e-6
    assert unchanged() == ()
