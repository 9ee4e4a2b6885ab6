"""What container networks cost: every network, pods on one host and on two, by message size.

`-k bmp2bmp` compares all networks with the hosts' own, the baseline of the report's part
"Container networks"; `--message-sizes 64,1024,16384,65507`, `--repeat 5` for intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.model.transfer import Kind
    from vnetperf.runner.bench import Bench

pytestmark = pytest.mark.deployments("bmp2bmp")

PLACES = ("same", "other")


@pytest.mark.vary("hosts", PLACES)
@pytest.mark.parametrize("kind", ["UDP_RR", "UDP_LOAD", "TCP_RR", "TCP_STREAM"])
def test_networks(bench: Bench, message_size: int, kind: Kind) -> None:
    """Round trips, alone and under load, and rates of sockets, by where the pods are."""
    bench.between_endpoints(kind, message_size).check_expectations()


# Names of their own: what sockets are compared by is no frames.
@pytest.mark.vary("hosts", [pytest.param(one, id=f"frames,hosts={one}") for one in PLACES])
def test_frames_between_pods(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput between two pods, by where the pods are."""
    bench.search_throughput(frame_size).check_expectations()
