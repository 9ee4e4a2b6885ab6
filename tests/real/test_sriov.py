"""The switch inside a NIC, measured as a user would, on the lab's NICs."""

from __future__ import annotations

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
