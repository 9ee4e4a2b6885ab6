"""What the pages under a guest's memory cost: ordinary ones, 2 MiB and 1 GiB.

vhost-user shares the guest's memory, with pages of any size. TLB misses, where the processor lets
us count them, stand with each variant's trials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench


@pytest.mark.vary("vnf", [pytest.param("vloop:vm", id="vm")])
@pytest.mark.vary(
    "guest",
    [
        # 1 GiB each, so that a page of any size fits it.
        pytest.param(("hugepage_kb=0", "memory_mib=1024"), id="pages=4K"),
        pytest.param(("hugepage_kb=2048", "memory_mib=1024"), id="pages=2M"),
        pytest.param(("hugepage_kb=1048576", "memory_mib=1024"), id="pages=1G"),
    ],
)
def test_throughput_by_pages(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of a guest by the size of the pages under its memory."""
    bench.search_throughput(frame_size).check_expectations()
