"""Endpoints for real: sockets through a bridge and OVS-DPDK, and what dies meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.real.conftest import UserRun, pids_of
from tests.real.switches import deployed, forwards
from vnetperf.deployment import endpoints
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.transfers import transfer_endpoints
from vnetperf.model.errors import DutError, GeneratorError
from vnetperf.model.transfer import Kind, TransferSpec

Unchanged = Callable[[], tuple[str, ...]]
IN_THE_MIDDLE_S = 1.5

TCP = TransferSpec(kind="TCP_STREAM", message_size=1024, duration_s=1)
UDP = TransferSpec(kind="UDP_STREAM", message_size=512, duration_s=1, rate_bps=5e6)
LONG = TCP.model_copy(update={"duration_s": 8})

pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed"),
]
PROGRAMS: dict[str, tuple[str, Kind]] = {
    "sockperf": ("sockperf", "UDP_RR"),
    "netserver": ("netperf", "TCP_RR"),
}
#: Tool -> what it does, of those that are here.
ROUND_TRIPS = dict(
    tool_and_kind for program, tool_and_kind in PROGRAMS.items() if shutil.which(program)
)


@contextmanager
def meanwhile(accident: Callable[[], None]) -> Iterator[None]:
    """Let something happen in the middle of a transfer."""
    timer = threading.Timer(IN_THE_MIDDLE_S, accident)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def both_ends_worked(deployment: LiveDeployment, *specs: TransferSpec, **more: Any) -> list[Any]:
    """Run transfers: something arrived in each flow, and processors of both ends are known."""
    found = transfer_endpoints(deployment, specs, **more)
    assert [one.spec for one in found] == list(specs)
    for one in found:
        assert len(one.flows) == one.spec.instances * len(one.spec.ways)
        assert all(flow.figures.bits_per_second for flow in one.flows)
        assert one.elapsed_s >= one.spec.duration_s
        for end in (one.client, one.server):
            assert end.user_s is not None
            assert end.system_s is not None
            assert 0 <= end.user_s + end.system_s < 2 * one.elapsed_s * os.cpu_count()
    streams = [one for one in found if one.spec.kind == "TCP_STREAM"]
    assert all(one.client.user_s + one.client.system_s > 0 for one in streams)
    assert all(one.server.user_s + one.server.system_s > 0 for one in streams)
    return list(found)


def test_two_namespaces_talk_through_a_bridge_and_the_tester_comes_back(
    unchanged: Unchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "STALL_S", 1.5)
    three = TCP.model_copy(update={"instances": 3, "way": "both"})
    with deployed("phy2phy_bridge", wire="veth") as deployment:
        tcp, udp, many = both_ends_worked(deployment, TCP, UDP, three)
        assert (tcp.client.address, tcp.server.address) == ("198.18.0.1", "198.19.0.1")
        assert tcp.retransmits is not None
        assert tcp.bits_per_second <= tcp.sent_bits_per_second * 1.01
        assert udp.loss_ratio == pytest.approx(0, abs=0.05)
        assert udp.bits_per_second == pytest.approx(5e6, rel=0.1)
        assert [flow.way for flow in many.flows] == ["forth"] * 3 + ["back"] * 3
        assert many.bits_per_second == pytest.approx(
            sum(flow.figures.bits_per_second for flow in many.flows)
        )
        forwards(deployment)
        netdev = str(deployment.dut_ends[1].netdev)
        with (
            pytest.raises(DutError, match=r"nothing has arrived .*: the path is down"),
            meanwhile(lambda: deployment.machine.set_link(netdev, up=False)),
        ):
            transfer_endpoints(deployment, [LONG])
    assert unchanged() == ()


@pytest.mark.skipif(shutil.which("ovs-vsctl") is None, reason="no OVS")
def test_two_namespaces_talk_through_ovs_dpdk(unchanged: Unchanged) -> None:
    with deployed("phy2phy_dpdk", wire="veth") as deployment:
        both_ends_worked(deployment, TCP, UDP)
        (pid,) = {poller.pid for poller in deployment.vswitch.pollers()}
        with (
            pytest.raises(DutError, match=r"ovs-vswitchd.* has ended"),
            meanwhile(lambda: os.kill(pid, signal.SIGKILL)),
        ):
            transfer_endpoints(deployment, [LONG])
        assert pids_of("iperf3") == []
    assert unchanged() == ()


def test_an_endpoint_in_a_vnf_talks_both_ways_and_what_is_killed_is_no_number(
    unchanged: Unchanged,
) -> None:
    settings = {"vnf": "vloop:container", "vnf_mode": "route"}
    with deployed("pvp_bridge", **settings) as deployment:
        both_ends_worked(deployment, TCP, server="vnf")
        back = TCP.model_copy(update={"way": "back"})
        (other,) = both_ends_worked(deployment, back, server="vnf")  # its routes are still there
        assert other.server.place == "vnf0 (container)"

        def kill(word: str) -> None:
            for pid in pids_of(word):
                os.kill(pid, signal.SIGKILL)

        for word, message in (
            ("--client", "its client in the namespace at port 0 has ended by signal 9"),
            ("--server", "its server in the namespace at port 1 has ended by signal 9"),
        ):
            with (
                pytest.raises(GeneratorError, match=message),
                meanwhile(lambda word=word: kill(word)),
            ):
                transfer_endpoints(deployment, [LONG])
            assert pids_of("iperf3") == []
        forwards(deployment)
    assert unchanged() == ()


@pytest.mark.skipif(not ROUND_TRIPS, reason="neither sockperf nor netperf is installed")
def test_round_trips_have_percentiles(unchanged: Unchanged) -> None:
    specs = [
        TransferSpec(tool=tool, kind=kind, message_size=64, duration_s=1)
        for tool, kind in ROUND_TRIPS.items()
    ]
    with deployed("phy2phy_bridge", wire="veth") as deployment:
        for found in transfer_endpoints(deployment, specs):
            times = found.round_trip_us
            assert 0 < times["min"] <= times["50"] <= times["99"] <= times["max"]
            assert found.transactions_per_second == pytest.approx(1e6 / times["mean"], rel=0.5)
    assert unchanged() == ()


def test_a_user_who_is_killed_leaves_nothing(
    start: Callable[..., UserRun], unchanged: Unchanged
) -> None:
    run = start(
        *("-k", "phy2phy_bridge and test_stream", "--message-sizes=1024"),
        preset="quick",
        path="testcases/test_endpoints.py",
    )
    run.wait_until_begun()
    run.wait_for(lambda records: bool(pids_of("--client")))
    run.process.kill()
    run.finish()
    assert run.process.returncode == -signal.SIGKILL
    assert unchanged() == ()
