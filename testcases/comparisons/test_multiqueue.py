"""What receive queues bring with the workers there are; test_core_scale.py has a worker for each.

Many flows unless you ask for other traffic: one flow stays on one queue. Where the VNF runs is
yours to choose: `--vnf vloop:vm` gives its NICs as many queue pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

pytestmark = pytest.mark.vnetperf(traffic="multi-flow")


@pytest.mark.vary("set", ["rx_queues=1", "rx_queues=2", "rx_queues=4"])
def test_throughput_by_queues(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by receive queues of each port, with the workers there are."""
    bench.search_throughput(frame_size).check_expectations()
