"""VPP forwards for real: every mode, every kind of port, and what happens when it dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.conftest import UserRun, pids_of
from vnetperf.host.programs import find_programs

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
SHM = Path("/dev/shm")

pytestmark = pytest.mark.skipif(
    not find_programs({}, ("vpp",))[0]["vpp"],
    reason="no vpp on PATH: install VPP (its project has package repositories)",
)


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
        ("phy2phy_vpp", ["--wire=veth"]),
        ("phy2phy_vpp", ["--switch=jumbo", "--frame-sizes=9018"]),
        ("pvp_vpp", []),
        ("pvp_vpp", ["--wire=veth"]),
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
