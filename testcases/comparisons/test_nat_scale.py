"""A carrier-grade NAT by its mode and by its number of sessions, at CSIT's densities.

`-k phy2phy_cgnat`. A vSwitch that only forwards has none of these; its throughput on the same wire
is that of test_rfc2544.py.
"""

import pytest

from vnetperf.runner.bench import Bench

#: Those that are there on wires of veth; VPP's where a `vpp` is.
MODES = ("nft", "iptables", "xdp", "rtc", "pipeline", "vpp-det44", "vpp-nat44")


@pytest.mark.vnetperf(wire="veth")
@pytest.mark.vary("set", [(f"mode={mode}",) for mode in MODES])
def test_nat_modes(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of established sessions by the NAT's mode, all on wires of veth."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.vary("nat", [f"subscribers={n}" for n in (256, 1024, 4096, 16384)])
def test_nat_sessions(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by number of established sessions, 63 of each subscriber."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.measures("connection_rate")
@pytest.mark.vary("nat", [f"subscribers={n}" for n in (1024, 4096)])
def test_nat_connections(bench: Bench, frame_size: int) -> None:
    """RFC 9693 connection establishment rate by number of sessions (section 5.1)."""
    bench.with_new_sessions().measure("connection_rate", frame_size).check_expectations()
