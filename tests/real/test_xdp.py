"""XDP programs forward for real: modes, programs, VNFs, threads, accidents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.real.conftest import UserRun
from tests.real.needs import program
from tests.real.switches import LONG, deployed, fails, forwards
from vnetperf.deployment.trial import run_trial
from vnetperf.host import xdp
from vnetperf.model.deployment import PhyPort
from vnetperf.vswitches.xdp import Xdp

Unchanged = Callable[[], tuple[str, ...]]
WHY = "clang is not installed" if not program("clang") else xdp.explain_no_bpf()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
daily = pytest.mark.daily
CONTAINER = {"vnf": "vloop:container"}


@pytest.mark.parametrize(
    ("scenario", "settings", "program"),
    [
        ("phy2phy_xdp", {}, "redirect"),
        ("phy2phy_xdp", {"set": ("mode=generic",)}, "redirect"),
        ("phy2phy_xdp", {"set": ("program=fib",)}, "fib"),
        pytest.param("phy2phy_xdp", {"set": ("program=fib", "mode=generic")}, "fib", marks=daily),
        ("pvp_xdp", CONTAINER | {"vnf_mode": "xdp"}, "redirect"),
        pytest.param("pvp_xdp", {}, "redirect", marks=daily),
        pytest.param(
            "pvp_xdp", CONTAINER | {"vnf_mode": "mac", "forwarding": "l3"}, "fib", marks=daily
        ),
        pytest.param("pvvp_xdp", CONTAINER | {"vnf_mode": "bridge"}, "redirect", marks=daily),
    ],
)
def test_every_port_counts_what_the_tester_sent(
    scenario: str, settings: dict[str, Any], program: str, unchanged: Unchanged
) -> None:
    with deployed(scenario, **settings) as deployment:
        forwards(deployment)
        facts = deployment.vswitch.facts()
        mode = deployment.plan.scenario.options.mode or "native"
        assert facts["program"] == program
        assert set(facts["modes as the kernel has them"].values()) == {mode}
        assert set(facts["dropped by programs until then"].values()) == {"none"}
    assert unchanged() == ()


@daily
def test_jumbo_frames_cross(unchanged: Unchanged) -> None:
    with deployed("phy2phy_xdp", set=("mtu=9000",), frame_sizes=(64, 9018)) as deployment:
        forwards(deployment, 9018)
    assert unchanged() == ()


@pytest.mark.parametrize(
    ("scenario", "settings", "roles"),
    [
        ("phy2phy_xdp", {}, {"napi": 2}),
        ("pvp_bridge", CONTAINER | {"vnf_mode": "route"}, {"napi": 4, "vnf0": 2}),
    ],
)
def test_the_kernels_work_is_in_threads_that_collectors_see(
    scenario: str, settings: dict[str, Any], roles: dict[str, int], unchanged: Unchanged
) -> None:
    with deployed(scenario, **settings, set=("napi=threaded",)) as deployment:
        result = forwards(deployment)
        loads = [load for load in result.threads if load.role in roles]
        assert all(load.thread.startswith("napi/") for load in loads)
        seen = {role: sum(load.role == role for load in loads) for role in roles}
        assert seen == roles
        cores = deployment.plan.placement.cores
        assert all(load.cpu in cores[load.role] for load in loads)
        # A link that was down has other threads than before.
        before = {poller.pid for poller in deployment.vswitch.pollers()}
        netdev = deployment.vswitch.facts()["ports"]["phy0"]
        for up in (False, True):
            deployment.machine.set_link(netdev, up=up)
        deployment.vswitch.link_came_up(PhyPort(index=0))
        after = {poller.pid for poller in deployment.vswitch.pollers()}
        assert len(after) == len(before)
        assert len(after - before) == 1
        forwards(deployment)
    assert unchanged() == ()


def test_a_program_that_vanishes_in_a_trial_is_no_number(unchanged: Unchanged) -> None:
    with deployed("phy2phy_xdp") as deployment:
        switch = deployment.vswitch
        assert isinstance(switch, Xdp)
        result = fails(deployment, switch.ports[PhyPort(index=1)].code.close)
        assert "gone: the program of port phy1" in result.failure
    assert unchanged() == ()


def test_what_is_too_much_is_counted_where_it_was_dropped(unchanged: Unchanged) -> None:
    with deployed("phy2phy_xdp", set=("napi=threaded",)) as deployment:
        flood = LONG.model_copy(update={"load_fps": 2e6, "duration_s": 0.5})
        result = run_trial(deployment, flood)
        assert not result.failed, result.failure
        hops = {hop.port: hop for hop in result.hops}
        for counts in result.directions:
            entered, left = hops[f"phy{counts.direction}"], hops[f"phy{1 - counts.direction}"]
            assert entered.rx == left.tx + left.tx_dropped
            assert counts.received <= left.tx
            assert entered.rx <= counts.sent <= entered.rx + entered.rx_dropped
    assert unchanged() == ()


@daily
def test_a_user_measures(start: Callable[..., UserRun], unchanged: Unchanged) -> None:
    run = start("-k", "phy2phy_xdp", "--frame-sizes=64", "--set", "mode=generic")
    assert run.finish() == 0, run.output
    (result,) = run.json()["results"]
    assert result["status"] == "measured", run.output
    assert result["goals"][0]["lower_bound_fps"] > 0
    assert unchanged() == ()
