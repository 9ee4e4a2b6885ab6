"""VPP forwards for real: every mode, every kind of port, and what happens when it dies."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import UserRun, pids_of
from tests.real.needs import program
from tests.real.switches import LONG, deployed, fails, forwards
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.path_check import check_path
from vnetperf.deployment.trial import run_trial
from vnetperf.model.trial import TrialResult

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
SHM = Path("/dev/shm")

pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(
        not program("vpp"),
        reason="no vpp on PATH: install VPP (its project has package repositories)",
    ),
]


@pytest.fixture(autouse=True)
def nothing_left_in_shared_memory() -> Iterator[None]:
    before = {path.name for path in SHM.iterdir()}
    yield
    left = {path.name for path in SHM.iterdir()} - before
    assert not {name for name in left if "vnetperf" in name or "vpe-api" in name}


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("phy2phy_vpp", []),
        ("phy2phy_vpp", ["--set=mode=l2patch"]),
        ("phy2phy_vpp", ["--set=mode=bridge"]),
        ("phy2phy_vpp", ["--rules=learning"]),
        ("phy2phy_vpp", ["--forwarding=l3"]),
        ("phy2phy_vpp", ["--set=workers=1"]),
        ("phy2phy_vpp", ["--wire=veth"]),
        ("phy2phy_vpp", ["--wire=veth", "--set=mode=af_xdp"]),
        ("phy2phy_vpp", ["--switch=jumbo", "--frame-sizes=9018"]),
        ("pvp_vpp", []),
        ("pvp_vpp", ["--wire=veth"]),
        ("pvp_vpp", ["--wire=veth", "--set=mode=af_xdp"]),
        ("pvp_vpp", ["--rules=learning"]),
        ("pvp_vpp", ["--forwarding=l3"]),
        ("pvvp_vpp", []),
        ("pvpv_vpp", []),
        ("pvpv_vpp", ["--rules=learning"]),
        ("p2v_vpp", []),
        ("v2v_vpp", []),
        ("op2p_vpp", ["--tunnel=vxlan"]),
        ("op2p_vpp", ["--tunnel=gre"]),
        ("op2p_vpp", ["--tunnel=geneve"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "".join(value) or "plain",
)
def test_throughput(scenario: str, options: list[str], start: Start, unchanged: Unchanged) -> None:
    sizes = [] if any("frame-sizes" in option for option in options) else ["--frame-sizes=64"]
    run = start("-k", scenario, *sizes, *options)
    assert run.finish() == 0, run.output
    assert unchanged() == ()
    results = run.json()["results"]
    assert results
    for result in results:
        assert result["status"] == "measured", run.output
        (goal,) = result["goals"]
        assert goal["lower_bound_fps"] > result["directions"] * result["min_load_fps"]


@pytest.mark.parametrize("wire", ["memif", "veth"])
def test_counters_of_every_hop_account_for_the_frames(
    wire: str, start: Start, unchanged: Unchanged
) -> None:
    run = start("-k", "pvp_vpp", "--frame-sizes=64", f"--wire={wire}")
    assert run.finish() == 0, run.output
    trials = [r for r in run.records() if r["type"] == "trial" and r["verdict"] == "VALID"]
    assert trials
    for trial in trials:
        hops = {hop["port"]: hop for hop in trial["result"]["hops"]}
        directions = {d["direction"]: d for d in trial["result"]["directions"]}
        if wire == "memif":
            assert hops["phy0"]["rx"] == directions[0]["sent"]
            assert hops["phy1"]["rx"] == directions[1]["sent"]
            assert hops["phy1"]["tx"] == directions[0]["received"]
            assert hops["phy0"]["tx"] == directions[1]["received"]
        assert hops["phy1"]["tx"] >= directions[0]["received"]
        assert hops["vnf0.0 (inside)"]["rx"] == hops["vnf0.0"]["tx"]
        assert hops["vnf0.1 (inside)"]["tx"] == hops["vnf0.1"]["rx"]
    assert unchanged() == ()


WIRES: tuple[dict[str, Any], ...] = (
    {"wire": "memif"},
    {"wire": "veth"},
    {"wire": "veth", "set": ("mode=af_xdp",)},
    {"wire": "veth", "set": ("mode=af_xdp",), "forwarding": "l3"},
    {"wire": "veth", "set": ("mode=af_xdp",), "rules": "learning"},
)


@pytest.mark.parametrize("settings", WIRES, ids=str)
def test_every_port_counts_what_the_tester_sent(
    settings: dict[str, Any], unchanged: Unchanged
) -> None:
    with deployed("phy2phy_vpp", **settings) as deployment:
        for size in (64, 1518):
            forwards(deployment, size)
        assert deployment.vswitch.links_down() == ()
        ports = deployment.facts.facts["vswitch"]["ports"]
        prefix = "memif" if settings["wire"] == "memif" else "host-"
        prefix = "xdp-" if "set" in settings else prefix
        assert all(port["interface"].startswith(prefix) for port in ports), ports
    assert unchanged() == ()


@pytest.mark.parametrize("settings", WIRES[:3], ids=str)
def test_a_sudden_death_is_the_duts(settings: dict[str, Any], unchanged: Unchanged) -> None:
    with deployed("phy2phy_vpp", **settings) as deployment:
        result = fails(deployment, lambda: _signal(vpp_of(deployment), signal.SIGKILL))
        assert "vpp has ended" in result.failure
    assert unchanged() == ()


def test_af_xdp_comes_back_after_a_restart(unchanged: Unchanged) -> None:
    with deployed("phy2phy_vpp", **WIRES[2]) as deployment:
        deployment.restart_vswitch()
        check_path(deployment)
        forwards(deployment)
    assert unchanged() == ()


def test_what_af_xdp_has_no_room_for_is_counted_by_the_kernel(unchanged: Unchanged) -> None:
    with deployed("phy2phy_vpp", **WIRES[2]) as deployment:
        result = pauses(deployment, vpp_of(deployment))
        hops = {hop.port: hop for hop in result.hops}
        for d in result.directions:
            hop = hops[f"phy{d.direction}"]
            assert hop.rx_dropped > 0
            assert hop.rx + hop.rx_dropped == d.sent
            assert d.received == d.sent - hop.rx_dropped
    assert unchanged() == ()


def test_what_a_vnf_has_no_room_for_was_not_sent(unchanged: Unchanged) -> None:
    with deployed("pvp_vpp") as deployment:
        (vnf,) = {p.pid for p in deployment.vnfs[0].pollers()}
        result = pauses(deployment, vnf)
        hops = {hop.port: hop for hop in result.hops}
        for d in result.directions:
            entered, left = hops[f"phy{d.direction}"], hops[f"vnf0.{d.direction}"]
            assert entered.rx == d.sent
            assert left.tx_dropped > 0
            assert left.tx + left.tx_dropped == d.sent
            assert d.received == d.sent - left.tx_dropped
    assert unchanged() == ()


def pauses(deployment: LiveDeployment, pid: int) -> TrialResult:
    """Run a trial in which a process stands still for a time, long enough to fill its rings."""
    begin = threading.Timer(1.0, _signal, (pid, signal.SIGSTOP))
    end = threading.Timer(3.0, _signal, (pid, signal.SIGCONT))
    begin.start()
    end.start()
    try:
        result = run_trial(deployment, LONG)
    finally:
        begin.cancel()
        end.join()
    assert not result.failed, result.failure
    return result


def vpp_of(deployment: LiveDeployment) -> int:
    (poller,) = deployment.vswitch.pollers()
    return poller.pid


def _signal(pid: int, number: int) -> None:
    os.kill(pid, number)


def test_a_vpp_that_dies_in_a_trial_is_no_number(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "pvp_vpp", "--frame-sizes=64,1518")
    run.wait_for(lambda records: sum(r["type"] == "trial" for r in records) >= 2)
    pids = pids_of("vpp/startup.conf")
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert run.finish() == 1
    first, second = run.json()["results"]
    assert first["status"] == "not measured", run.output
    assert "vpp has ended" in first["why"]
    assert second["status"] == "measured", run.output  # the next case was deployed anew
    assert "Traceback" not in run.output
    assert unchanged() == ()


def test_a_vpp_that_hangs_does_not_hang_the_run(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "phy2phy_vpp", "--frame-sizes=64")
    run.wait_for(lambda records: sum(r["type"] == "trial" for r in records) >= 1)
    for pid in pids_of("vpp/startup.conf"):
        os.kill(pid, signal.SIGSTOP)
    assert run.finish(120) in {0, 1}
    assert "Traceback" not in run.output
    assert unchanged() == ()


def test_a_killed_run_leaves_nothing(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "pvp_vpp", "--frame-sizes=64")
    run.wait_for(lambda records: sum(r["type"] == "trial" for r in records) >= 1)
    run.process.kill()
    run.finish()
    assert unchanged() == ()


def test_the_plan_shows_what_vpp_would_be_started_with(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "pvp_vpp", "--plan")
    assert run.finish() == 0, run.output
    assert "corelist-workers" in run.output
    assert unchanged() == ()
