"""The built-in generator's driver without a vSwitch: beside a router of the kernel, and alone."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapReader

from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment.deploy import MACHINE_LOCK
from vnetperf.host.machine import Machine
from vnetperf.host.session import HostRun
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import CoresConfig, Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.model.trial import CaptureSpec, TrialResult, TrialSpec
from vnetperf.testing.stage import repeat_trial
from vnetperf.traffic.loadgen.driver import Loadgen

Unchanged = Callable[[], tuple[str, ...]]
TRIAL = TrialSpec(frame_size=128, load_fps=2000.0, duration_s=0.3, drain_s=1.0)
ROUTER = "vnetperf-test-router"
V4 = ("198.18.255.254/16", "198.19.255.254/16")
V6 = ("2001:2::fffe/64", "2001:2:0:1::fffe/64")


def frames(pcap: bytes) -> list[bytes]:
    """Octets of each frame of a pcap file."""
    with RawPcapReader(io.BytesIO(pcap)) as packets:
        return [octets for octets, _ in packets]


def plan_of(profile: TrafficProfile) -> Plan:
    return Plan(
        scenario=Scenario(deployment=make_deployment("phy2phy"), vswitch="none", traffic=profile),
        testbed=Testbed(),
        wire="veth",
        placement=Placement(
            mode="shared", reason="a test", cores={"tester": (0,)}, housekeeping=(0,)
        ),
        memory=(),
    )


@pytest.fixture
def machine(unchanged: Unchanged) -> Iterator[Machine]:
    del unchanged  # compares when all is undone
    with HostRun.open(testbed=MACHINE_LOCK, timeout_s=300.0) as run:
        yield Machine(run, take_inventory(Testbed()))


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def router(machine: Machine) -> Iterator[tuple[tuple[WireEnd, WireEnd], tuple[str, str]]]:
    """A kernel that routes between two networks and knows nobody in them: ends, its addresses."""
    ends, macs = [], []
    ip("netns", "add", ROUTER)
    try:
        for n in (0, 1):
            tester, dut = machine.interface_name(f"t{n}"), machine.interface_name(f"d{n}")
            machine.create_veth(tester, dut, mtu=1500)
            mac = f"02:00:00:00:00:0{n + 1}"
            moved = ["ip", "link", "set", dut, "netns", ROUTER, "address", mac]
            subprocess.run(["nsenter", f"--net={machine.netns}", *moved], check=True)
            inside = ("netns", "exec", ROUTER)
            ip("-n", ROUTER, "link", "set", dut, "arp", "on", "up")
            ip("-n", ROUTER, "address", "add", V4[n], "dev", dut)
            for key in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
                ip(*inside, "sh", "-c", f"echo 1 > /proc/sys/net/{key}")
            ip(*inside, "sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{dut}/disable_ipv6")
            ip("-n", ROUTER, "address", "add", V6[n], "dev", dut, "nodad")
            ends.append(WireEnd(wire=n, kind="veth", side="tester", netdev=tester))
            macs.append(mac)
        yield (ends[0], ends[1]), (macs[0], macs[1])
    finally:
        ip("netns", "delete", ROUTER)


def routed(
    machine: Machine,
    router: tuple[tuple[WireEnd, WireEnd], tuple[str, str]],
    profile: TrafficProfile,
) -> tuple[TrialResult, str]:
    """A trial through the router, and whom it knows then.

    On shared processors several trials may be needed until one is whole.
    """
    ends, macs = router
    plan = plan_of(profile)
    streams = make_streams(plan.scenario.deployment, profile)
    streams = tuple(s.model_copy(update={"eth_dst": macs[s.direction]}) for s in streams)
    generator = Loadgen(machine, plan)
    try:
        generator.connect(ends)
        generator.prepare(streams, profile, TRIAL.frame_size)

        def run() -> TrialResult:
            generator.learn(16)
            return generator.run(TRIAL, lambda: None)

        result = repeat_trial(run, all_sent=True)
        return result, ip("-n", ROUTER, "neigh", "show")
    finally:
        generator.close()


@pytest.mark.parametrize("network", ["ipv4", "ipv6"])
def test_a_router_finds_the_tester_by_itself(
    network: Any, machine: Machine, router: tuple[tuple[WireEnd, WireEnd], tuple[str, str]]
) -> None:
    profile = TrafficProfile(headers=("ethernet", network, "udp"))
    if network == "ipv6":
        values = {
            "ipv6_src": V6[0].replace("fffe/64", "1"),
            "ipv6_dst": V6[1].replace("fffe/64", "1"),
        }
        profile = profile.model_copy(update={"values": values})
    result, found = routed(machine, router, profile)
    for d in result.directions:
        assert d.sent > 500
        assert d.received == d.sent
    assert sum("lladdr 02:76:65" in line for line in found.splitlines()) == 2, found


@pytest.mark.daily  # the other half of the test above, and waits for answers that do not come
def test_without_answers_it_finds_nobody(
    machine: Machine, router: tuple[tuple[WireEnd, WireEnd], tuple[str, str]]
) -> None:
    result, found = routed(machine, router, TrafficProfile(answers="none"))
    assert "lladdr" not in found
    assert all(d.received == 0 for d in result.directions)
    assert sum(result.foreign.values()) > 0  # its requests
    assert result.answered == 0


def looped(machine: Machine) -> tuple[WireEnd, WireEnd]:
    """Both ends of one memif."""
    socket = str(machine.run_dir / "loop.sock")
    server, client = (
        WireEnd(wire=0, kind="memif", side="tester", socket=socket, role=role)
        for role in ("server", "client")
    )
    return server, client


def test_two_workers_share_queues_and_account_for_a_million_flows(machine: Machine) -> None:
    profile = TrafficProfile(flows=1_000_000, vary=("eth_src",), learning_frames=0)
    plan = plan_of(profile)
    plan = plan.model_copy(
        update={
            "wire": "memif",
            "tester_rx_queues": 2,
            "scenario": plan.scenario.model_copy(update={"options": SwitchOptions(rx_queues=2)}),
            "testbed": Testbed(cores=CoresConfig(tester=2)),
            "placement": plan.placement.model_copy(update={"cores": {"tester": (0, 1)}}),
        }
    )
    generator = Loadgen(machine, plan)
    spec = TRIAL.model_copy(
        update={"load_fps": 20_000.0, "capture": CaptureSpec(frames=5000, what="streams")}
    )
    try:
        generator.connect(looped(machine))
        workers = generator.facts()["workers"]
        assert [w.partition(":")[2].strip() for w in workers] == [
            "2 receive queues, 2 transmit queues"
        ] * 2
        (pollers,) = generator.pollers()
        names = {
            path.read_text().strip() for path in Path(f"/proc/{pollers.pid}/task").glob("*/comm")
        }
        busy = {name for name in names if name.startswith(pollers.thread_prefix)}
        assert busy == {"loadgen", "loadgen-1"}, names
        generator.prepare(make_streams(plan.scenario.deployment, profile), profile, spec.frame_size)

        def run() -> TrialResult:
            result = generator.run(spec, lambda: None)
            for d in result.directions:
                assert d.sent + d.refused + d.unsent == d.intended == 6000
                assert (d.duplicated, d.misrouted, d.late, d.reordered) == (0, 0, 0, 0)
            return result

        result = repeat_trial(run, all_sent=True)
        for d in result.directions:
            assert d.received == d.sent
        assert result.foreign == {"0": 0, "1": 0}
        files = generator.captured()
        flows = {octets[6:12] for octets in frames(files["port0-sent.pcap"])}
        back = {octets[6:12] for octets in frames(files["port1-received.pcap"])}
        assert flows == back
        assert (
            len(flows) == result.directions[0].sent
        )  # each frame is another flow's, on either queue
    finally:
        generator.close()


def test_addresses_are_announced_before_learning(machine: Machine) -> None:
    profile = TrafficProfile(announce=True, flows=10, vary=("ipv4_src",))
    plan = plan_of(profile)
    generator = Loadgen(machine, plan)
    try:
        generator.connect(looped(machine))
        generator.prepare(make_streams(plan.scenario.deployment, profile), profile, 64)
        assert "; 0 frames" in generator.facts()["neighbours"]
        generator.learn(10)
        assert "; 20 frames" in generator.facts()["neighbours"]
        result = generator.run(TRIAL.model_copy(update={"frame_size": 64}), lambda: None)
        assert result.foreign == {"0": 0, "1": 0}
    finally:
        generator.close()


def test_a_worker_without_a_queue_is_not_started(machine: Machine) -> None:
    plan = plan_of(TrafficProfile())
    cores = {"tester": (0, 1, 0)}  # three, for two ports with one queue each
    plan = plan.model_copy(update={"placement": plan.placement.model_copy(update={"cores": cores})})
    generator = Loadgen(machine, plan)
    try:
        generator.connect(looped(machine))
        assert len(generator.facts()["workers"]) == 2
    finally:
        generator.close()
