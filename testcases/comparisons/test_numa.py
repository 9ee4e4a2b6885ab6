"""What distance costs: VNFs on the pollers' NUMA node, on another one, or where the kernel likes.

Both processors and memory move. The virtual lab has two nodes, but its speeds mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench


@pytest.mark.vary("vnf_placement", ["local", "remote", "unpinned"])
def test_throughput_by_placement(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by where VNFs are, seen from the pollers."""
    bench.search_throughput(frame_size).check_expectations()
