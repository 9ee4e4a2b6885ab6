"""What receive queues bring, alone and with a worker for each.

Many flows unless you ask for other traffic: one flow stays on one queue. Where the VNF runs is
yours to choose: `--vnf vloop:vm` gives its NICs as many queue pairs.
"""

import pytest

from vnetperf.runner.bench import Bench

pytestmark = pytest.mark.vnetperf(traffic="multi-flow")


@pytest.mark.vary("set", ["rx_queues=1", "rx_queues=2", "rx_queues=4"])
def test_throughput_by_queues(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by receive queues of each port, with the workers there are."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.vary(
    "set",
    [
        pytest.param(("rx_queues=1", "workers=1"), id="workers=1"),
        pytest.param(("rx_queues=2", "workers=2"), id="workers=2"),
        pytest.param(("rx_queues=4", "workers=4"), id="workers=4"),
    ],
)
def test_throughput_by_workers(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by workers of the vSwitch, with as many receive queues of each port."""
    bench.search_throughput(frame_size).check_expectations()
