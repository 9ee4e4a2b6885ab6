"""How sockets scale: over parallel instances of the tool, and over VNFs between the endpoints.

`pytest testcases/comparisons/test_endpoint_scale.py -k phy2phy_bridge --message-sizes 16384`: the
section "Traffic between sockets" has the rates, and the processor time for each gigabit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.model.transfer import Kind
    from vnetperf.runner.bench import Bench


@pytest.mark.transfers("TCP_STREAM")
@pytest.mark.deployments("phy2phy", "pvp", "v2v", "p2c2p", "v2c2v", "bmp2bmp")
@pytest.mark.vary("instances", [1, 2, 4, 8])
def test_stream_by_instances(bench: Bench, message_size: int) -> None:
    """Bandwidth of TCP streams of as many instances of the tool at once."""
    bench.between_endpoints("TCP_STREAM", message_size).check_expectations()


@pytest.mark.deployments("pvvp", "pvpv")
@pytest.mark.vary("vnfs", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["TCP_STREAM", "TCP_RR"])
def test_endpoints_by_vnfs(bench: Bench, message_size: int, kind: Kind) -> None:
    """Bandwidth and round trips through as many VNFs, in a row or side by side."""
    bench.between_endpoints(kind, message_size).check_expectations()
