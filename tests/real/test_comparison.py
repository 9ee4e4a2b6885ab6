"""Variants of a scenario are deployed one after the other, and VNFs are where they should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.conftest import UserRun
from tests.real.switches import deployed, forwards
from vnetperf.host.cpu import parse_cpus

pytestmark = pytest.mark.daily

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]


def test_more_queues_than_the_switch_sends_on(start: Start, unchanged: Unchanged) -> None:
    wanted = "phy2phy_dpdk-rx_queues:1 or phy2phy_dpdk-rx_queues:4"
    run = start("-k", wanted, "--frame-sizes=64")
    assert run.finish() == 0, run.output
    assert unchanged() == ()
    results = run.json()
    (comparison,) = results["comparisons"]
    measured = {r["scenario"]: r["goals"][0]["lower_bound_fps"] for r in results["results"]}
    assert set(measured) == {"phy2phy_dpdk,rx_queues=1", "phy2phy_dpdk,rx_queues=4"}
    assert all(measured.values())
    assert [v["scenario"] in measured for v in comparison["variants"]] == [True, False, True]
    assert "throughput by queues" in (run.results / "latest/report.md").read_text()


def test_an_unpinned_vnf_may_run_anywhere(unchanged: Unchanged) -> None:
    with deployed("pvp_dpdk", vnf_placement="unpinned") as deployment:
        assert deployment.plan.placement.cores.keys() == {"tester", "pmd"}
        everywhere = set(deployment.plan.placement.unpinned["vnf0"])
        allowed = [
            set(parse_cpus((task / "status").read_text().split("Cpus_allowed_list:")[1].split()[0]))
            for poller in deployment.vnfs[0].pollers()
            for task in Path(f"/proc/{poller.pid}/task").iterdir()
            if (task / "comm").read_text().startswith(poller.thread_prefix)
        ]
        assert allowed == [everywhere]
        threads = {(load.role, load.cpu in everywhere) for load in forwards(deployment).threads}
        assert ("vnf0", True) in threads
    assert unchanged() == ()
