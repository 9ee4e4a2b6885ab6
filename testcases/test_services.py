"""Load balancing of services by how it is done and by number of services: kube-proxy's rules, eBPF.

`pytest testcases/test_services.py -k phy2phy_lb`: established flows are measured by RFC 2544's
throughput, new ones by RFC 9693's rate of connections. A vSwitch that only forwards is no load
balancer; its throughput on the same wire is that of test_rfc2544.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

MODES = [f"mode={mode}" for mode in ("iptables", "nft", "ipvs", "tc", "xdp")]
SERVICES = [f"services={n}" for n in (1, 100, 1000, 5000)]

pytestmark = [
    pytest.mark.deployments("phy2phy"),
    pytest.mark.vary("set", MODES),
    pytest.mark.vary("lb", SERVICES),
]


def test_established_flows(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of flows that have their backends, by mode and number of services."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.measures("connection_rate")
def test_new_flows(bench: Bench, frame_size: int) -> None:
    """RFC 9693 rate at which new flows are given backends, by mode and number of services."""
    bench.with_new_sessions().measure("connection_rate", frame_size).check_expectations()
