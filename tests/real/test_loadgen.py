"""The built-in generator's driver without a vSwitch: beside a router of the kernel, and alone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from vnetperf.host.machine import Machine
from vnetperf.host.session import HostRun
from vnetperf.model.deployment import make_deployment
from vnetperf.model.plan import Placement, Plan
from vnetperf.model.ports import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.testbed.deploy import MACHINE_LOCK
from vnetperf.testbed.inventory import take_inventory
from vnetperf.traffic.loadgen import Loadgen

Unchanged = Callable[[], tuple[str, ...]]
#: Trials until one is whole, on processors that others use too.
TRIES = 6
TRIAL = TrialSpec(frame_size=128, load_fps=2000.0, duration_s=0.3, drain_s=1.0)
ROUTER = "vnetperf-test-router"
V4 = ("198.18.255.254/16", "198.19.255.254/16")
V6 = ("2001:2::fffe/64", "2001:2:0:1::fffe/64")


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
        for _ in range(TRIES):
            generator.learn(16)
            result = generator.run(TRIAL, lambda: None)
            if all(d.sent == d.received for d in result.directions):
                break
        return result, ip("-n", ROUTER, "neigh", "show")
    finally:
        generator.close()


@pytest.mark.parametrize("network", ["ipv4", "ipv6"])
def test_a_router_finds_the_tester_by_itself(
    network: str, machine: Machine, router: tuple[tuple[WireEnd, WireEnd], tuple[str, str]]
) -> None:
    profile = TrafficProfile(headers=("ethernet", network, "udp"))  # type: ignore[arg-type]
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


def test_without_answers_it_finds_nobody(
    machine: Machine, router: tuple[tuple[WireEnd, WireEnd], tuple[str, str]]
) -> None:
    result, found = routed(machine, router, TrafficProfile(answers="none"))
    assert "lladdr" not in found
    assert all(d.received == 0 for d in result.directions)
    assert sum(result.foreign.values()) > 0  # its requests
