"""The switch inside a NIC, measured as a user would, on the lab's NICs."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable

import pytest

from tests.real.conftest import UserRun
from tests.real.nics import needs_nics, nics_unchanged
from vnetperf.host.nic import pci, vfs

__all__ = ["nics_unchanged"]
pytestmark = [pytest.mark.daily, needs_nics, pytest.mark.slow]

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
LAB = ("--testbed=lab", "--frame-sizes=64")


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("phy2phy_sriov", ()),
        ("pvp_sriov", ()),
        ("pvp_sriov", ("--set", "vf_driver=kernel")),
        ("pvvp_sriov", ("--set", "vlan=7")),
        ("pvpv_sriov", ()),
        ("v2v_sriov", ()),
        ("phy2phy_ovs", ("--wire=nic",)),
        ("phy2phy_testpmd", ("--wire=nic",)),
    ],
)
def test_frames_come_through_and_the_nics_come_back(
    scenario: str, options: tuple[str, ...], start: Start, nics_unchanged: Unchanged
) -> None:
    run = start("-k", scenario, *LAB, *options)
    assert run.finish(900) == 0, run.output
    assert nics_unchanged() == ()
    trials = [r for r in run.records() if r["type"] == "trial" and r["verdict"] == "VALID"]
    assert trials, run.output
    for trial in trials:
        hops = {hop["port"]: hop for hop in trial["result"]["hops"]}
        for way in trial["result"]["directions"]:
            if f"phy{way['direction']}" in hops:
                assert hops[f"phy{way['direction']}"]["rx"] >= way["received"]


def test_functions_that_vanish_fail_the_trial_and_are_no_number(
    start: Start, nics_unchanged: Unchanged
) -> None:
    run = start("-k", "phy2phy_sriov", *LAB)
    run.wait_for(lambda records: any(r["type"] == "trial" for r in records), timeout_s=600)
    (pci.SYS / "bus/pci/devices/0000:41:00.0/sriov_numvfs").write_text("0")
    assert run.finish(900) != 0
    failed = [r for r in run.records() if r["type"] == "trial" and r["result"].get("failed")]
    assert failed, run.output
    assert failed[-1]["result"]["failed"] == "dut"
    assert "is gone" in failed[-1]["result"]["failure"]
    assert nics_unchanged() == ()


def test_functions_are_gone_after_a_run_that_was_killed(
    start: Start, nics_unchanged: Unchanged
) -> None:
    run = start("-k", "phy2phy_sriov", *LAB)
    deadline = time.monotonic() + 300
    while not vfs.vf_addresses("0000:41:00.0"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    run.process.kill()
    run.finish()
    assert nics_unchanged() == ()


@pytest.mark.parametrize(
    ("place", "options"), [("same", ()), ("other", ()), ("other", ("--set", "vlan=7"))]
)
def test_frames_pass_between_functions_of_pods(
    place: str, options: tuple[str, ...], start: Start, nics_unchanged: Unchanged
) -> None:
    run = start("-k", "bmp2bmp_sriov and test_throughput", *LAB, f"--hosts={place}", *options)
    assert run.finish(900) == 0, run.output
    assert nics_unchanged() == ()
    (result,) = run.json()["results"]
    assert result["goals"][0]["lower_bound_fps"] > 0
    (facts,) = run.json()["scenarios"]
    network = facts["facts"]["vswitch"]
    assert [*network["NICs"]] == (["host0"] if place == "same" else ["host0", "host1"])
    for number, pod in enumerate(("pod0", "pod1")):
        described = network["virtual functions"][pod]
        assert f"MAC 02:76:61:00:00:0{number}" in described
        assert "driver igbvf" in described
        assert ("VLAN 7" in described) == bool(options)


@pytest.mark.parametrize("place", ["same", "other"])
@pytest.mark.skipif(shutil.which("sockperf") is None, reason="sockperf is not installed")
def test_pods_with_functions_talk(place: str, start: Start, nics_unchanged: Unchanged) -> None:
    run = start(
        *("-k", "bmp2bmp_sriov and UDP_RR and not routed", "--message-sizes=64"),
        *("--testbed=lab", f"--hosts={place}"),
        path="testcases/test_endpoints.py",
    )
    assert run.finish(900) == 0, run.output
    assert nics_unchanged() == ()
    (found,) = run.json()["transfers"]
    assert found["transfers"][0]["transactions_per_second"] > 0


@pytest.mark.parametrize("seed", range(3))
def test_pods_with_functions_are_killed_at_a_random_moment(
    seed: int, start: Start, nics_unchanged: Unchanged
) -> None:
    moment = random.Random(f"functions {seed}").uniform(0.0, 20.0)
    run = start("-k", "bmp2bmp_sriov and test_throughput", *LAB)
    run.wait_for(bool, timeout_s=600)
    time.sleep(moment)
    run.process.kill()
    run.finish()
    assert nics_unchanged() == (), f"after {moment:.2f} s"
