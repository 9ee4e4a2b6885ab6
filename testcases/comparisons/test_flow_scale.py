"""What flows cost: from one to a million of them in each direction, by their addresses.

A switch that caches decisions per flow is fast while its cache holds them. Profile
`million-flows` unless you ask for other traffic; `--rules stream` has a rule for each flow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

pytestmark = pytest.mark.vnetperf(traffic="million-flows")

FLOWS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


@pytest.mark.vary("flows", [pytest.param(str(n), id=f"flows={n}") for n in FLOWS])
def test_flow_scale(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by the number of flows in each direction."""
    bench.search_throughput(frame_size).check_expectations()
