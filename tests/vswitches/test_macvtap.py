"""The parts of the macvtap backend that need no kernel."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.fakes.machine import facts
from vnetperf.host import tc_redirect
from vnetperf.host.links import LinkStatistics
from vnetperf.model.deployment import (
    DEPLOYMENTS,
    PHY_PORTS,
    Deployment,
    PhyPort,
    VnfPort,
    WireEnd,
    dut_mac,
    make_deployment,
    vnf_mac,
)
from vnetperf.model.errors import DutError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.planner import make_plan
from vnetperf.vswitches import macvtap
from vnetperf.vswitches.kernelports import hop_counters
from vnetperf.vswitches.macvtap import Macvtap, make_interface_index

PLAIN = sorted(set(DEPLOYMENTS) - {"encap", "decap", "op2p"})
GRAPHS = [
    *(make_deployment(name) for name in PLAIN),
    *(make_deployment(name, vnfs) for name in ("pvvp", "pvpv") for vnfs in (1, 3, 4)),
]
every_deployment = pytest.mark.parametrize(
    "deployment", GRAPHS, ids=lambda g: f"{g.name}-{g.vnf_count}"
)


def scenario(deployment: str, mode: str = "", **changes: Any) -> Scenario:
    graph = make_deployment(deployment)
    asked = {
        "traffic": TrafficProfile(),
        "vnf_mode": "mac" if graph.vnf_count else "io",
        "addressing": "port",
        "options": SwitchOptions(mode=mode),
        **changes,
    }
    return Scenario(deployment=graph, vswitch="macvtap", **asked)


@every_deployment
def test_frames_meet_the_next_port_on_the_device_under_it(deployment: Deployment) -> None:
    for hop in deployment.hops:
        if hop not in {
            h for h in deployment.hops if (h.src, h.dst) in tc_redirect.joined_phy_ports(deployment)
        }:
            assert macvtap.lower_device(deployment, hop.src) == macvtap.lower_device(
                deployment, hop.dst
            )


@every_deployment
def test_a_device_of_its_own_is_for_vnfs_alone(deployment: Deployment) -> None:
    for port in deployment.ports:
        lower = macvtap.lower_device(deployment, port)
        assert isinstance(lower, PhyPort) or lower in macvtap.vnf_only_segments(deployment)
    for number in macvtap.vnf_only_segments(deployment):
        assert all(isinstance(port, VnfPort) for port in deployment.segments()[number])


def test_wires_are_joined_only_without_a_vnf() -> None:
    assert tc_redirect.joined_phy_ports(make_deployment("phy2phy")) == (PHY_PORTS, PHY_PORTS[::-1])
    assert tc_redirect.joined_phy_ports(make_deployment("pvp")) == ()


@pytest.mark.parametrize(
    ("deployment", "modes"),
    [
        ("phy2phy", {"bridge", "vepa", "private", "passthru"}),
        ("pvp", {"bridge", "vepa", "private", "passthru"}),
        ("p2v", {"bridge", "vepa", "private", "passthru"}),
        ("pvpv", {"bridge", "vepa", "private"}),
        ("pvvp", {"bridge"}),
        ("v2v", {"bridge"}),
    ],
)
def test_which_mode_can_carry_what(deployment: str, modes: set[str]) -> None:
    for mode in macvtap.MODES:
        problem = Macvtap.missing(facts(), scenario(deployment, mode))
        assert (problem == "") == (mode in modes), problem
        assert problem == "" or "choose" in problem


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (scenario("pvvp", vnf_mode="io"), "choose --vnf-mode mac"),
        (scenario("pvvp", vnf_mode="macswap"), "choose --vnf-mode mac"),
        (scenario("pvp", vnf_mode="io"), ""),
        (scenario("v2v"), ""),
        (scenario("p2c2p"), ""),
        (scenario("p2c2p", "passthru"), ""),
        (scenario("p2c2p", "bridge"), "choose the mode passthru, or none"),
        (scenario("v2c2v", "bridge"), ""),
        (scenario("pvp", traffic=TrafficProfile(flows=2, vary=("eth_dst",))), "than eth_dst"),
        (
            scenario("pvp", "passthru", traffic=TrafficProfile(flows=2, vary=("eth_dst",))),
            "",
        ),
    ],
)
def test_addresses_that_macvtap_cannot_go_by_are_refused(asked: Scenario, says: str) -> None:
    problem = Macvtap.missing(facts(), asked)
    assert (says in problem) if says else not problem


def test_a_kernel_without_the_modules_is_told() -> None:
    gone = "it is not loaded"
    without = facts(modules={"macvtap": gone})
    problem = Macvtap.missing(without, scenario("pvp"))
    assert "module macvtap" in problem
    for module in ("sch_ingress", "act_mirred"):
        machine = facts(modules={module: gone})
        problem = Macvtap.missing(machine, scenario("phy2phy"))
        assert f"module {module}" in problem
        assert Macvtap.missing(machine, scenario("pvp")) == ""


def test_the_filter_is_the_simplest_the_kernel_has() -> None:
    assert tc_redirect.available_matcher(facts()) == "matchall"
    assert tc_redirect.available_matcher(facts(modules={"cls_matchall": "no"})) == "u32"
    neither = facts(modules={"cls_matchall": "no", "cls_u32": "no"})
    assert tc_redirect.available_matcher(neither) is None
    problem = Macvtap.missing(neither, scenario("phy2phy"))
    assert "cls_u32" in problem


def test_what_a_vnf_sends_the_switch_receives() -> None:
    counts = LinkStatistics(rx=10, tx=3, rx_dropped=2, tx_dropped=1)
    turned = hop_counters("vnf0.0", counts, from_vnf=True)
    assert (turned.rx, turned.tx, turned.rx_dropped, turned.tx_dropped) == (3, 10, 1, 2)
    plain = hop_counters("phy0", counts)
    assert (plain.rx, plain.tx, plain.rx_dropped, plain.tx_dropped) == (10, 3, 2, 1)


def test_interface_indexes_are_large_and_told_apart() -> None:
    # A machine's own are small; /dev/tapN has one N for all namespaces.
    names = [f"vp1a2bm{vnf}{side}" for vnf in range(64) for side in "ab"]
    found = {make_interface_index(name) for name in names}
    assert len(found) == len(names)
    assert all(1 << 30 <= index < 1 << 31 for index in found)


def test_a_cable_between_macvtaps_alone_has_them_take_every_address() -> None:
    whole = scenario("p2c2p")
    part = whole.model_copy(update={"deployment": whole.deployment.site(0)})
    assert macvtap.macvtap_mode(whole) == macvtap.macvtap_mode(part) == "passthru"
    for name in ("phy2phy", "v2c2v", "pvp2pvp"):
        assert macvtap.macvtap_mode(scenario(name)) == "bridge"


def test_the_plan_shows_each_macvtap() -> None:
    made = make_plan(scenario("pvp", "vepa"), Testbed(), facts())
    assert made.commands["macvtap vnf0.1"] == (
        f"on phy1, mode vepa, MAC {vnf_mac(VnfPort(vnf=0, index=1))}"
    )
    joined = make_plan(scenario("phy2phy"), Testbed(), facts())
    assert dut_mac(PHY_PORTS[0]) in joined.commands["macvtap phy0"]
    assert "redirect to the macvtap on phy1" in joined.commands["macvtap phy0"]
    inner = make_plan(scenario("v2v"), Testbed(), facts())
    assert "on a veth pair (0)" in inner.commands["macvtap vnf0.0"]


def test_a_wire_that_is_removed_carries_nothing_until_it_is_back() -> None:
    machine: Any = MagicMock(facts=facts())
    switch = Macvtap(machine, make_plan(scenario("pvp"), Testbed(), facts()))
    ends = [WireEnd(wire=n, kind="veth", side="dut", netdev=f"d{n}") for n in (0, 1)]
    for end in ends:
        switch.add_phy_port(end)
    switch.remove_port(PHY_PORTS[0])
    machine.set_link.assert_called_with("d0", up=False)
    with pytest.raises(DutError, match=r"no port phy0.*accepted: phy1"):
        switch.remove_port(PHY_PORTS[0])
    switch.stop()
    switch.add_phy_port(ends[0])
    machine.set_link.assert_called_with("d0", up=True)
