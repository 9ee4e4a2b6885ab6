"""A carrier-grade NAT by its mode, its number of sessions at CSIT's densities, its stages on cores.

`-k phy2phy_cgnat`. A vSwitch that only forwards has none of these; its throughput on the same wire
is that of test_rfc2544.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

#: Those that are there on wires of veth; VPP's where a `vpp` is.
MODES = ("nft", "iptables", "xdp", "rtc", "pipeline", "vpp-det44", "vpp-nat44")


#: Stages of the pipeline that share a thread (+), and rings between threads (/).
STAGES = ("rx+val+nat+ct+tx", "rx+val+nat/ct+tx", "rx+val/nat/ct+tx", "rx/val/nat/ct/tx")


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


@pytest.mark.vary("traffic", ["unidirectional", "downstream", "single-flow"])
def test_nat_directions(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput from inside, from outside (but for a thousandth of it), and both ways."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.vary(
    "set",
    [
        pytest.param(("mode=rtc",), id="rtc"),
        *(pytest.param(("mode=pipeline", f"stages={stages}"), id=stages) for stages in STAGES),
    ],
)
def test_nat_stages(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by the stages that have a core of their own; run to completion first."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.vary(
    "set",
    [
        pytest.param(("mode=pipeline",), id="pipeline,cores"),
        pytest.param(("mode=pipeline", "placement=siblings"), id="pipeline,siblings"),
        pytest.param(("mode=pipeline", "placement=nodes"), id="pipeline,nodes"),
    ],
)
def test_nat_cores(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of the pipeline on cores, on hardware threads of them, on NUMA nodes."""
    bench.search_throughput(frame_size).check_expectations()
