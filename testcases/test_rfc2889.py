"""RFC 2889, benchmarks of switches: forwarding rate, address caching capacity and learning rate.

`--preset rfc2889 --rules learning -k phy2phy_bridge`, or `--tests forwarding_rate`. The tests of
addresses need a vSwitch that learns and nothing but it between the ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench


@pytest.mark.measures("forwarding_rate")
def test_forwarding_rate(bench: Bench, frame_size: int) -> None:
    """RFC 2889 section 5.6: what is forwarded at the maximum offered load, and at most."""
    bench.measure("forwarding_rate", frame_size).check_expectations()


@pytest.mark.measures("address_caching")
@pytest.mark.deployments("phy2phy")
def test_address_caching(bench: Bench, frame_size: int) -> None:
    """RFC 2889 section 5.7: how many addresses the DUT learns and keeps."""
    bench.with_addresses().measure("address_caching", frame_size).check_expectations()


@pytest.mark.measures("address_learning")
@pytest.mark.deployments("phy2phy")
def test_address_learning(bench: Bench, frame_size: int) -> None:
    """RFC 2889 section 5.8: how fast the DUT learns addresses."""
    bench.with_addresses().measure("address_learning", frame_size).check_expectations()
