"""Linux bridges forward for real: every deployment, restarts, ports that go, bridges that do."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import pytest

from tests.real.conftest import UserRun
from tests.real.needs import module_problem
from tests.real.switches import IN_THE_MIDDLE_S, LONG, SLOW, deployed, fails, forwards
from vnetperf.deployment.trial import run_trial
from vnetperf.model.deployment import VnfPort
from vnetperf.model.errors import DutError
from vnetperf.model.trial import Verdict
from vnetperf.runner.verdict import judge

Unchanged = Callable[[], tuple[str, ...]]
pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(
        bool(module_problem("bridge")),
        reason=f"no bridge: {module_problem('bridge')}",
    ),
]


@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        ("phy2phy_bridge", {}),
        ("phy2phy_bridge", {"rules": "learning"}),
        ("pvp_bridge", {}),
        ("pvp_bridge", {"rules": "learning", "vnf_mode": "macswap"}),
        ("pvvp_bridge", {"rules": "learning", "vnf_mode": "mac"}),
        ("pvpv_bridge", {}),
        ("pvpv_bridge", {"rules": "learning"}),
        ("pvpv_bridge", {"vnf_mode": "mac"}),
        ("p2v_bridge", {}),
        ("v2p_bridge", {}),
        ("v2v_bridge", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value.values()) or "plain",
)
def test_every_port_counts_what_the_tester_sent(
    scenario: str, settings: dict[str, str], unchanged: Unchanged
) -> None:
    with deployed(scenario, **settings) as deployment:
        forwards(deployment)
        facts = deployment.vswitch.facts()
        learns = settings.get("rules") == "learning"
        for bridge in facts["bridges"].values():
            assert (bridge["stp"], bridge["multicast snooping"]) == (0, 0)
            assert {port["learning"] for port in bridge["ports"].values()} == {int(learns)}
    assert unchanged() == ()


def test_no_direction_is_slower_for_what_the_tester_sends_the_other_way() -> None:
    """The bridge forwards within the tester's own call."""
    ratios = []
    with deployed("phy2phy_bridge") as deployment:
        for _ in range(7):  # other work makes one of them longer, now this one and now that
            result = run_trial(deployment, SLOW)
            there, back = (d.latency.percentiles["50"] for d in result.directions if d.latency)
            ratios.append(there / back)
    assert statistics.median(ratios) == pytest.approx(1.0, rel=0.4), ratios


def test_jumbo_frames_cross(unchanged: Unchanged) -> None:
    with deployed("pvp_bridge", set=("mtu=9000",), frame_sizes=(64, 9018)) as deployment:
        forwards(deployment, 9018)
        (first, *_) = deployment.vswitch.facts()["bridges"].values()
        assert {port["mtu"] for port in first["ports"].values()} == {9000}
    assert unchanged() == ()


def test_it_can_be_started_again(unchanged: Unchanged) -> None:
    with deployed("pvp_bridge") as deployment:
        deployment.restart_vswitch()
        run_trial(deployment, SLOW)  # what VNFs sent into nothing meanwhile is over
        forwards(deployment)
    assert unchanged() == ()


def test_a_port_that_is_removed_leaves_the_others(unchanged: Unchanged) -> None:
    with deployed("pvpv_bridge") as deployment:
        switch = deployment.vswitch
        switch.remove_port(VnfPort(vnf=1, index=0))
        with pytest.raises(DutError, match=r"no port vnf1\.0"):
            switch.remove_port(VnfPort(vnf=1, index=0))
        switch.check_alive()
        before = {c.port: c for c in switch.counters()}
        assert "vnf1.0" not in before
        result = run_trial(deployment, SLOW)
        (to_vnf,) = (h for h in result.hops if h.port == "vnf0.0")
        assert to_vnf.tx == to_vnf.rx == result.directions[0].sent // 2  # the other chain's half
    assert unchanged() == ()


def test_a_bridge_that_vanishes_in_a_trial_is_no_number(unchanged: Unchanged) -> None:
    with deployed("phy2phy_bridge") as deployment:
        (bridge,) = deployment.vswitch.facts()["bridges"]
        result = fails(deployment, lambda: deployment.machine.delete_link(bridge))
        assert f"gone: a bridge ({bridge})" in result.failure
        with pytest.raises(DutError, match="gone"):
            deployment.vswitch.check_alive()
    assert unchanged() == ()


def test_a_vnfs_link_that_flaps_is_no_measurement(unchanged: Unchanged) -> None:
    """The tester's own links stay up, and it lasts shorter than the time between two looks."""
    with deployed("pvp_bridge", wire="veth") as deployment:
        link = deployment.vswitch.facts()["ports"]["vnf0.0"]

        def flap() -> None:
            deployment.machine.set_link(link, up=False)
            time.sleep(0.05)
            deployment.machine.set_link(link, up=True)

        timer = threading.Timer(IN_THE_MIDDLE_S, flap)
        timer.start()
        verdict, why = judge(run_trial(deployment, LONG), 0.01)
        timer.join()
        assert (verdict, "vnf0.0" in why) == (Verdict.INCONSISTENT, True), why
        assert judge(run_trial(deployment, SLOW), 0.01)[0] is Verdict.VALID
    assert unchanged() == ()


def test_a_user_measures(start: Callable[..., UserRun], unchanged: Unchanged) -> None:
    run = start("-k", "pvp_bridge", "--frame-sizes=64")
    assert run.finish() == 0, run.output
    (result,) = run.json()["results"]
    assert result["status"] == "measured", run.output
    assert result["goals"][0]["lower_bound_fps"] > 0
    assert unchanged() == ()
