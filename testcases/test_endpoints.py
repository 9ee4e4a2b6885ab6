"""Sockets instead of frames: TCP and UDP between two endpoints in place of the tester.

They run when this file is named, e.g. `pytest testcases/test_endpoints.py -k phy2phy_bridge`:
`--endpoint-tool iperf3|netperf|sockperf`, `--message-sizes 64,1024`, `--instances 4`, and
`--endpoint-server vnf` for a second endpoint in the VNF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.model.transfer import Kind, Way
    from vnetperf.runner.bench import Bench

pytestmark = pytest.mark.deployments(
    *("phy2phy", "pvp", "pvvp", "pvpv", "v2v", "p2c2p", "v2c2v"),
    *("bmp2bmp", "bmp2vmp", "vmp2vmp"),
)


@pytest.mark.parametrize("kind", ["TCP_STREAM", "UDP_STREAM", "TCP_RR"])
def test_messages(bench: Bench, message_size: int, kind: Kind) -> None:
    """Bandwidth of streams, and rate and time of round trips, from port 0 to the other end."""
    bench.between_endpoints(kind, message_size).check_expectations()


@pytest.mark.transfers("TCP_STREAM")
@pytest.mark.parametrize("way", ["back", "both"])
def test_stream(bench: Bench, message_size: int, way: Way) -> None:
    """Bandwidth of TCP from the other end, and both ways at once."""
    bench.between_endpoints("TCP_STREAM", message_size, way).check_expectations()


@pytest.mark.parametrize("kind", ["UDP_RR", "TCP_LOAD", "UDP_LOAD"])
def test_latency(bench: Bench, message_size: int, kind: Kind) -> None:
    """Times of round trips: of UDP alone, and of a given rate of messages."""
    bench.between_endpoints(kind, message_size).check_expectations()
