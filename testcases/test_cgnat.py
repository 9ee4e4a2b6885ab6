"""Sessions of a carrier-grade NAT, RFC 9693: how fast they are made and end, and how many it holds.

`-k phy2phy_cgnat --nat subscribers=1024,ports=63`. Throughput, latency and loss of established
sessions are those of the other tests: the same scenario in test_rfc2544.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench


@pytest.mark.measures("connection_rate")
@pytest.mark.deployments("phy2phy")
def test_connection_rate(bench: Bench, frame_size: int) -> None:
    """RFC 9693 sections 4.5 and 4.8: maximum connection establishment rate, and tear-down rate."""
    bench.with_new_sessions().measure("connection_rate", frame_size).check_expectations()


@pytest.mark.measures("session_capacity")
@pytest.mark.deployments("phy2phy")
def test_session_capacity(bench: Bench, frame_size: int) -> None:
    """RFC 9693 section 4.9: how many sessions the connection tracking table holds."""
    bench.with_new_sessions().measure("session_capacity", frame_size).check_expectations()
