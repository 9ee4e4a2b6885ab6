"""Macvtaps forward for real: every mode and deployment, restarts, ports and devices that go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.conftest import UserRun
from tests.real.needs import module_problem
from tests.real.switches import SLOW, deployed, fails, forwards
from vnetperf.deployment.trial import run_trial
from vnetperf.model.deployment import VnfPort
from vnetperf.model.errors import DutError

Unchanged = Callable[[], tuple[str, ...]]
TROUBLES = [f"{m}: {module_problem(m)}" for m in ("macvtap", "act_mirred") if module_problem(m)]
pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(bool(TROUBLES), reason=", ".join(TROUBLES)),
]


@pytest.mark.parametrize(
    ("scenario", "mode"),
    [
        *(("phy2phy_macvtap", mode) for mode in ("bridge", "vepa", "private", "passthru")),
        *(("pvp_macvtap", mode) for mode in ("bridge", "vepa", "private", "passthru")),
        ("pvvp_macvtap", "bridge"),
        ("pvpv_macvtap", "bridge"),
        ("pvpv_macvtap", "private"),
        ("p2v_macvtap", "bridge"),
        ("v2p_macvtap", "vepa"),
        ("v2v_macvtap", "bridge"),
    ],
)
def test_every_port_counts_what_the_tester_sent(
    scenario: str, mode: str, unchanged: Unchanged
) -> None:
    with deployed(scenario, set=(f"mode={mode}",)) as deployment:
        result = forwards(deployment)
        facts = deployment.vswitch.facts()
        assert facts["mode"] == mode
        assert all(Path(made["tap"]).exists() for made in facts["macvtaps"].values())
        if scenario.startswith("phy2phy"):
            hops = {hop.port: hop for hop in result.hops}
            for port in ("phy0", "phy1"):  # what the macvtap on a wire's end saw is the same
                inside = hops[f"{port} (macvtap)"]
                assert (inside.rx, inside.tx) == (hops[port].rx, hops[port].tx)
    assert unchanged() == ()


def test_frames_for_another_address_are_not_forwarded(unchanged: Unchanged) -> None:
    with deployed("phy2phy_macvtap") as deployment:
        scenario = deployment.plan.scenario
        strangers = tuple(
            stream.model_copy(update={"eth_dst": "02:00:00:00:00:99"})
            for stream in scenario.streams
        )
        deployment.generator.prepare(strangers, scenario.traffic, 64)
        result = deployment.generator.run(SLOW, deployment.check_alive)
        assert {d.received for d in result.directions} == {0}
    assert unchanged() == ()


def test_jumbo_frames_cross(unchanged: Unchanged) -> None:
    with deployed("pvp_macvtap", set=("mtu=9000",), frame_sizes=(64, 9018)) as deployment:
        forwards(deployment, 9018)
    assert unchanged() == ()


@pytest.mark.parametrize("scenario", ["phy2phy_macvtap", "pvp_macvtap", "v2v_macvtap"])
def test_it_can_be_started_again(scenario: str, unchanged: Unchanged) -> None:
    with deployed(scenario) as deployment:
        deployment.restart_vswitch()
        run_trial(deployment, SLOW)  # what was sent into nothing meanwhile is over
        forwards(deployment)
    assert unchanged() == ()


def test_a_port_that_is_removed_leaves_the_others(unchanged: Unchanged) -> None:
    with deployed("pvpv_macvtap") as deployment:
        switch = deployment.vswitch
        switch.remove_port(VnfPort(vnf=1, index=0))
        with pytest.raises(DutError, match=r"no port vnf1\.0"):
            switch.remove_port(VnfPort(vnf=1, index=0))
        switch.check_alive()
        assert "vnf1.0" not in {c.port for c in switch.counters()}
        result = run_trial(deployment, SLOW)
        (to_vnf,) = (h for h in result.hops if h.port == "vnf0.0")
        assert to_vnf.tx == to_vnf.rx == result.directions[0].sent // 2  # the other chain's half
    assert unchanged() == ()


def test_a_macvtap_that_vanishes_in_a_trial_is_no_number(unchanged: Unchanged) -> None:
    with deployed("phy2phy_macvtap") as deployment:
        name = deployment.vswitch.facts()["macvtaps"]["phy0"]["interface"]
        result = fails(deployment, lambda: deployment.machine.delete_link(name))
        assert f"gone: the macvtap of phy0 ({name})" in result.failure
    assert unchanged() == ()


def test_a_user_measures(start: Callable[..., UserRun], unchanged: Unchanged) -> None:
    run = start("-k", "pvp_macvtap", "--frame-sizes=64")
    assert run.finish() == 0, run.output
    (result,) = run.json()["results"]
    assert result["status"] == "measured", run.output
    assert result["goals"][0]["lower_bound_fps"] > 0
    assert unchanged() == ()
