"""Restarts and broken links in the middle of a trial, for real."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.conftest import UserRun
from tests.real.switches import deployed, forwards
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.trial import run_trial
from vnetperf.model.errors import CapabilityError
from vnetperf.model.trial import EventSpec, TrialResult, TrialSpec

pytestmark = pytest.mark.daily

Unchanged = Callable[[], tuple[str, ...]]
LOAD = 2000.0
TRIAL = TrialSpec(
    frame_size=64, load_fps=LOAD, duration_s=4.0, drain_s=2.0, learning_frames=8, bin_s=0.01
)


def interrupted(
    deployment: LiveDeployment, what: str, *, duration_s: float = 4.0, down_s: float = 0.0
) -> TrialResult:
    event = EventSpec(what=what, at_s=1.0, down_s=down_s)
    result = run_trial(
        deployment, TRIAL.model_copy(update={"event": event, "duration_s": duration_s})
    )
    assert not result.failed, result.failure
    assert result.event is not None
    assert result.event.began_s >= 1.0
    for timeline in result.timelines:
        assert sum(timeline.sent) == result.offered(result.directions[timeline.direction])
        assert sum(timeline.received) == result.directions[timeline.direction].received
    return result


def outage_s(result: TrialResult, queues: int | None = None) -> float:
    """By time stamps, of the direction that took longer; lost frames must say the same.

    Args:
        result: The trial.
        queues: The direction whose frames wait in a queue instead of being lost.

    Returns:
        Seconds.
    """
    for counts, timeline in zip(result.directions, result.timelines, strict=True):
        # Frames that a tester without a core of its own did not send may have been lost as well.
        least, most = result.lost(counts) / LOAD, (result.lost(counts) + counts.unsent) / LOAD
        queued = 0.25 * timeline.gap_s + 0.1  # in rings, and stalls of a busy machine
        assert least - queued < timeline.gap_s < most + queued or (timeline.direction == queues)
    return max(t.gap_s for t in result.timelines)


@pytest.mark.parametrize(
    ("scenario", "settings", "duration_s"),  # several times what it takes on a machine at rest
    [
        ("phy2phy_bridge", {}, 4.0),
        pytest.param("pvp_bridge", {}, 5.0, marks=pytest.mark.daily),
        ("phy2phy_dpdk", {"wire": "veth"}, 12.0),
        ("pvp_dpdk", {"wire": "memif"}, 12.0),
        ("phy2phy_testpmd", {"wire": "memif"}, 8.0),
    ],
    ids=["bridge", "pvp-bridge", "dpdk-veth", "pvp-dpdk", "testpmd"],
)
def test_a_vswitch_is_restarted_under_traffic(
    scenario: str, settings: dict[str, str], duration_s: float, unchanged: Unchanged
) -> None:
    with deployed(scenario, **settings) as deployment:
        result = interrupted(deployment, "vswitch", duration_s=duration_s)
        assert result.event is not None
        assert result.event.failure == ""
        by_time = outage_s(result)
        assert by_time > 0.01, "nobody noticed a restart"
        # It was away while it was restarted, and for a moment until traffic found its way.
        assert by_time < result.event.ended_s - result.event.began_s + 2.0
        assert "began anew" in result.uncollected["hops"]
        forwards(deployment)  # and it is as it was
    assert unchanged() == ()


def test_a_link_is_taken_down_and_up(unchanged: Unchanged) -> None:
    with deployed("phy2phy_bridge") as deployment:
        result = interrupted(deployment, "link phy0", down_s=0.5)
        by_time = outage_s(result, queues=0)  # towards the link, the tester's own ring fills
        assert 0.5 <= by_time < 1.8  # the kernel looks at links once a second
        assert result.hops
        forwards(deployment)
    assert unchanged() == ()


def test_a_vnf_is_restarted_under_traffic(unchanged: Unchanged) -> None:
    with deployed("pvp_bridge") as deployment:
        before = deployment.vnfs[0].pollers()[0].pid
        result = interrupted(deployment, "vnf0", duration_s=10.0)
        assert result.event is not None
        assert result.event.failure == ""
        assert outage_s(result) > 0.1
        assert deployment.vnfs[0].pollers()[0].pid != before
        forwards(deployment)
    assert unchanged() == ()


def test_a_vnf_that_crashed_when_it_was_ended_comes_back(unchanged: Unchanged) -> None:
    """Its sockets were left, and the next one could not listen on them."""
    with deployed("pvp_dpdk", wire="memif") as deployment:
        os.kill(deployment.vnfs[0].pollers()[0].pid, signal.SIGKILL)
        deployment.restart_vnf(0)
        forwards(deployment)
    assert unchanged() == ()


def test_a_vswitch_that_does_not_come_back(
    unchanged: Unchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial counts what was lost and says why; the machine is as it was afterwards."""
    with deployed("phy2phy_dpdk", wire="veth") as deployment:
        monkeypatch.setattr(deployment.vswitch.ovs, "vswitchd", "/bin/false")  # type: ignore[attr-defined]  # OVS
        result = interrupted(deployment, "vswitch")
        assert result.event is not None
        assert "vswitch does not come back" in result.event.failure
        for counts in result.directions:
            assert 0 < counts.received < counts.sent
        after = run_trial(deployment, TRIAL)
        assert after.failed == "dut"  # nobody takes the ruin for a DUT
    assert unchanged() == ()


def test_what_has_no_link_is_refused_and_stays_whole(unchanged: Unchanged) -> None:
    with deployed("phy2phy_testpmd", wire="memif") as deployment:
        event = EventSpec(what="link phy0", at_s=1.0)
        with pytest.raises(CapabilityError, match="a memif wire has no link"):
            run_trial(deployment, TRIAL.model_copy(update={"event": event}))
        forwards(deployment)
    assert unchanged() == ()


PRESET = """
benchmark = false
note = "for a test"
tests = ["throughput", "recovery", "reset"]
algorithm = "mlr"
frame_sizes = [64]
min_load_fps = 1000
max_trial_seconds = 5
[[goals]]
name = "short"
loss_ratio = 0.0
exceed_ratio = 0.5
initial_trial_s = 0.2
final_trial_s = 0.3
duration_sum_s = 0.3
width = 0.2
[trial]
learning_wait_s = 0.05
drain_s = 0.2
full_drain = false
settle_s = 0
[recovery]
overload_s = 1.0
relaxed_s = 1.0
repeats = 1
[reset]
what = ["vswitch", "vnf", "link"]
share = 0.2
before_s = 1.0
after_s = 4.0
link_down_s = 0.5
repeats = 1
"""


def test_a_user_measures_recovery_and_reset(
    start: Callable[..., UserRun], tmp_path: Path, unchanged: Unchanged
) -> None:
    preset = tmp_path / "short.toml"
    preset.write_text(PRESET)
    run = start("-k", "phy2phy_bridge", f"--preset={preset}", "--tests=recovery,reset")
    assert run.finish(300) == 0, run.output
    results = {result["test"]: result for result in run.json()["results"]}
    recovery = results["recovery"]["recovery"]
    assert recovery["overload_fps"] > recovery["relaxed_fps"] > 0
    assert len(recovery["curves"]) == 1
    if recovery["seconds"] is None:  # on shared processors the throughput may be an underestimate
        assert recovery["not_overloaded"] or recovery["censored"]
        assert recovery["why"].startswith("not measured")
    else:
        assert recovery["seconds"]["n"] == 1
    switch, vnf, link = results["reset"]["resets"]
    assert "phy2phy has no vnf0" in vnf["why"]
    assert (switch["why"], link["why"]) == ("", "")
    assert 0.4 < link["by_time_s"]["mean"] < 2.5
    assert switch["by_time_s"]["mean"] > 0.01
    assert unchanged() == ()
