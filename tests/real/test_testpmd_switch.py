"""testpmd as the switch: every mode and kind of port, restarts, ports that go, a sudden death."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.real.conftest import UserRun, pids_of
from tests.real.needs import program
from tests.real.switches import SLOW, deployed, fails, forwards
from vnetperf.deployment.trial import run_trial
from vnetperf.model.deployment import VnfPort
from vnetperf.model.errors import DutError

Unchanged = Callable[[], tuple[str, ...]]
pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(
        not program("dpdk-testpmd"),
        reason="no dpdk-testpmd on PATH: install the package dpdk-dev",
    ),
]
#: Part of the command line that only the switch has, of all the testpmds of a run.
SWITCH = "--port-topology=paired"


@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        ("phy2phy_testpmd", {}),
        ("phy2phy_testpmd", {"set": ("mode=mac",)}),
        ("phy2phy_testpmd", {"set": ("mode=macswap",), "wire": "veth"}),
        ("pvp_testpmd", {}),
        ("pvp_testpmd", {"wire": "veth"}),
        ("pvp_testpmd", {"set": ("rx_queues=2", "workers=2")}),
        ("pvvp_testpmd", {}),
        ("p2v_testpmd", {}),
        ("v2p_testpmd", {}),
        ("v2v_testpmd", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value or "plain"),
)
def test_every_port_counts_what_the_tester_sent(
    scenario: str, settings: dict[str, str], unchanged: Unchanged
) -> None:
    with deployed(scenario, **settings) as deployment:
        forwards(deployment)
        assert deployment.vswitch.links_down() == ()
    assert unchanged() == ()


def test_jumbo_frames_cross(unchanged: Unchanged) -> None:
    with deployed("pvp_testpmd", set=("mtu=9000",), frame_sizes=(64, 9018)) as deployment:
        forwards(deployment, 9018)
    assert unchanged() == ()


def test_it_can_be_started_again(unchanged: Unchanged) -> None:
    with deployed("pvp_testpmd", wire="veth") as deployment:
        deployment.restart_vswitch()
        run_trial(deployment, SLOW)  # what was sent into nothing meanwhile is over
        forwards(deployment)
    assert unchanged() == ()


def test_a_port_that_is_removed_leaves_the_others(unchanged: Unchanged) -> None:
    with deployed("pvvp_testpmd", wire="veth") as deployment:
        switch = deployment.vswitch
        switch.remove_port(VnfPort(vnf=1, index=1))
        with pytest.raises(DutError, match=r"no port vnf1\.1"):
            switch.remove_port(VnfPort(vnf=1, index=1))
        switch.check_alive()
        before = deployment.counters()
        result = run_trial(deployment, SLOW)
        assert "in direction 0 and 1" in result.failure
        after = deployment.counters()
        assert "vnf1.1" not in after
        # phy0 - vnf0 - vnf1 go on; frames of the look for a way through besides.
        assert after["vnf1.0"].tx - before["vnf1.0"].tx >= SLOW.load_fps * SLOW.duration_s
    assert unchanged() == ()


def test_a_testpmd_that_dies_in_a_trial_is_no_number(unchanged: Unchanged) -> None:
    with deployed("phy2phy_testpmd") as deployment:
        (pid,) = pids_of(SWITCH)
        result = fails(deployment, lambda: os.kill(pid, signal.SIGKILL))
        assert "dpdk-testpmd has ended" in result.failure
    assert unchanged() == ()


def test_a_user_measures(start: Callable[..., UserRun], unchanged: Unchanged) -> None:
    run = start("-k", "pvp_testpmd", "--frame-sizes=64")
    assert run.finish() == 0, run.output
    (result,) = run.json()["results"]
    assert result["status"] == "measured", run.output
    assert result["goals"][0]["lower_bound_fps"] > 0
    assert unchanged() == ()
