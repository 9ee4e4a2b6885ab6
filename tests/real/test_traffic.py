"""Every shipped profile through a real switch: all frames come back, of every kind."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.real.needs import program
from tests.real.switches import SLOW, deployed
from vnetperf.config.files import available, find_file, load_model
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.testing.stage import repeat_trial

Unchanged = Callable[[], tuple[str, ...]]
#: Profiles for deployments of their own.
ELSEWHERE = ("vepc", "overlay-flows")
#: Flows of which each is sent once here; a million would take a second each way.
FEW = 2000
#: Learning frames come faster than those of a trial, and may still fill a ring.
SETTLE_S = 0.05

pytestmark = pytest.mark.skipif(
    not program("dpdk-testpmd"),
    reason="no dpdk-testpmd on PATH: install the package dpdk-dev",
)


def carried(deployment: LiveDeployment, profile: TrafficProfile) -> None:
    """Send some of a profile's frames, and see that the switch forwards them all."""
    scenario = deployment.plan.scenario.model_copy(update={"traffic": profile})
    size = max(128, profile.least_frame_size)
    deployment.generator.prepare(scenario.streams, profile, size)
    deployment.generator.learn(min(FEW, profile.learning_frames_per_stream))
    time.sleep(SETTLE_S)
    trial = SLOW.model_copy(update={"frame_size": size, "learning_frames": 0})
    result = on_time(deployment, trial)
    assert [d.direction for d in result.directions] == list(profile.directions), profile.name
    for d in result.directions:
        due = trial.load_fps * trial.duration_s * profile.loads[d.direction]
        assert d.intended == pytest.approx(due * (1 - profile.broadcast), abs=1), profile.name
        assert d.received == d.sent == d.intended, profile.name
        assert d.broadcast_sent == pytest.approx(due * profile.broadcast, abs=1), profile.name
        assert d.broadcast_received == d.broadcast_sent, profile.name
        assert d.misrouted == d.duplicated == 0, profile.name


def on_time(deployment: LiveDeployment, trial: TrialSpec) -> TrialResult:
    """A trial in which the tester offered all that it was to offer.

    What was offered is the DUT's to forward: that is for the caller to look at, in every trial.
    """

    def run() -> TrialResult:
        result = deployment.generator.run(trial, deployment.check_alive)
        assert [result.lost(d) for d in result.directions] == [0] * len(result.directions)
        return result

    result = repeat_trial(run, all_sent=True)
    assert not any(d.unsent for d in result.directions), result.directions
    return result


@pytest.mark.parametrize(
    ("scenario", "wire"),
    [
        ("phy2phy_testpmd", "memif"),
        ("phy2phy_testpmd", "veth"),
    ],
)
@pytest.mark.daily  # every frame of every profile is compared with Scapy's in the fast lane
def test_every_profile_crosses_a_switch(scenario: str, wire: str, unchanged: Unchanged) -> None:
    with deployed(scenario, wire=wire) as deployment:
        for name in available("traffic"):
            if name not in ELSEWHERE:
                profile = load_model(TrafficProfile, find_file("traffic", name))
                carried(deployment, profile)
    assert unchanged() == ()


def test_a_mix_is_deployed_and_its_path_checked(unchanged: Unchanged) -> None:
    with deployed("pvp_testpmd", traffic="imix") as deployment:
        carried(deployment, deployment.plan.scenario.traffic)
    assert unchanged() == ()
