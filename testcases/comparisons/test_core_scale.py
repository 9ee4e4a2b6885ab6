"""What processors bring: one worker of the vSwitch, two, and so on, each with a queue of each port.

Workers are OVS-DPDK's PMD threads, VPP's workers, testpmd's forwarding cores. A variant with more
of them than there are processors is skipped, and so is a vSwitch that has none: the kernel forwards
wherever frames come in. Many flows unless you ask for other traffic: one flow stays on one queue.
Where workers, tester and VNFs share processors the report says so, and more of them bring little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

pytestmark = pytest.mark.vnetperf(traffic="multi-flow")

WORKERS = (1, 2, 3, 4, 6, 8, 12, 16)


@pytest.mark.vary(
    "set",
    [pytest.param((f"workers={n}", f"rx_queues={n}"), id=f"workers={n}") for n in WORKERS],
)
def test_core_scale(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by workers of the vSwitch, with as many receive queues of each port."""
    bench.search_throughput(frame_size).check_expectations()


TWO = ("workers=2", "rx_queues=2")


@pytest.mark.vary(
    "set",
    [
        pytest.param(TWO, id="cores"),
        pytest.param((*TWO, "placement=siblings"), id="siblings"),
        pytest.param((*TWO, "placement=nodes"), id="nodes"),
    ],
)
def test_core_placement(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of two workers on two cores, on one core's threads, on two NUMA nodes."""
    bench.search_throughput(frame_size).check_expectations()
