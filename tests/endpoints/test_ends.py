"""Endpoints in the tester's place: where they cannot be, and which processors they have."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.fakes.machine import facts as machine
from vnetperf import config
from vnetperf.deployment import transfers
from vnetperf.deployment.endpoints import (
    addresses_apart,
    endpoint_processors,
    find_endpoint_problem,
    processors_apart,
)
from vnetperf.model.deployment import ACROSS, make_deployment
from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import CpuFacts, MachineFacts, Testbed
from vnetperf.planning.planner import make_loop_plan, make_plan
from vnetperf.runner.scenarios import make_scenario

if TYPE_CHECKING:
    from vnetperf.deployment.deploy import LiveDeployment


def scenario(name: str, **settings: Any) -> Scenario:
    return make_scenario(name, config.load(settings, environment={}))


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("phy2phy_bridge", {}, ""),
        ("pvp_dpdk", {}, ""),
        ("v2v_bridge", {}, ""),
        ("pvp_sriov", {}, ""),
        ("vepc_bridge", {}, "test_vepc.py"),
        ("op2p_dpdk", {}, "no vxlan frames"),
        ("v2c2v_bridge", {"tunnel": "vxlan"}, ""),  # the vSwitches put frames in and take them out
        ("p2v_bridge", {}, "one way only"),
        ("pvp_dpdk", {"vnf_mode": "macswap"}, "send frames back"),
        ("phy2phy_dpdk", {"vnf_mode": "macswap"}, ""),  # there is no VNF
        ("phy2phy_dpdk", {"rules": "stream"}, "--rules port"),
    ],
)
def test_where_endpoints_cannot_be_is_told(name: str, settings: dict[str, str], why: str) -> None:
    said = find_endpoint_problem(scenario(name, **settings))
    assert (why in said) if why else said == ""


def plan(cores: dict[str, tuple[int, ...]], housekeeping: tuple[int, ...]) -> Plan:
    placement = Placement(mode="shared", reason="", cores=cores, housekeeping=housekeeping)
    return Plan.model_construct(
        scenario=scenario("phy2phy_bridge"), testbed=Testbed(), placement=placement
    )


def facts(cpus: int) -> MachineFacts:
    return MachineFacts.model_construct(
        cpus=tuple(CpuFacts.model_construct(cpu=cpu, core=cpu, node=0) for cpu in range(cpus))
    )


@pytest.mark.parametrize(
    ("cpus", "cores", "both"),
    [
        (2, {"tester": (1,)}, ((1,), (1,))),
        (4, {"tester": (1,), "pmd": (2,)}, ((1,), (3,))),
        (8, {"tester": (1,), "pmd": (2,), "vnf0": (3,)}, ((1, 5, 7), (4, 6))),
    ],
)
def test_ends_have_the_testers_processors_and_those_that_nobody_has(
    cpus: int, cores: dict[str, tuple[int, ...]], both: tuple[tuple[int, ...], ...]
) -> None:
    assert endpoint_processors(plan(cores, (0,)), facts(cpus)) == both


def test_what_is_not_pinned_leaves_the_ends_their_processors() -> None:
    made = plan({"tester": (1,), "pmd": (2,)}, (0,))
    loose = made.placement.model_copy(update={"unpinned": {"vnf0": tuple(range(8))}})
    made = made.model_copy(update={"placement": loose})
    assert endpoint_processors(made, facts(8)) == ((1, 4, 6), (3, 5, 7))


def plan_over(name: str, testbed: str = "two-hosts", **settings: str) -> Plan:
    """A plan of endpoints on two hosts."""
    loaded = config.load({"testbed": testbed, "wire": "veth", **settings}, environment={})
    one = machine(8)
    both = one.model_copy(update={"hosts": dict.fromkeys(loaded.testbed.hosts, one)})
    scenario = make_scenario(name, loaded).model_copy(update={"sockets": True})
    return make_plan(scenario, loaded.testbed, both)


@pytest.mark.parametrize("name", ["p2c2p_bridge", "p2c2p_dpdk", "v2c2v_bridge", "v2c2v_macvtap"])
def test_each_host_has_a_vswitch_and_one_endpoint(name: str) -> None:
    plan = plan_over(name)
    east, west = plan.hosts
    assert [(p.host, p.parts, p.ends) for p in plan.hosts] == [
        ("east", ("dut",), (0,)),
        ("west", ("dut",), (1,)),
    ]
    assert [str(use) for use in east.cables] == ["phy1: c0 to west:c0"]
    assert [use.port for use in west.cables] == [2]
    assert not any("tester" in role for role in east.placement.cores)
    ends = plan.scenario.deployment.ends
    assert plan.port_hosts[str(ends[0])] == "east"
    assert plan.port_hosts[str(ends[1])] == "west"


@pytest.mark.parametrize(
    ("name", "testbed", "says"),
    [
        ("v2c2v_dpdk", "two-hosts", "offers vhost-user to VNFs, and an endpoint here is a names"),
        ("p2c2p_sriov", "two-hosts", "sriov"),
        ("p2c2p_bridge", "local", "needs two hosts with a cable"),
        ("p2c2p_bridge", "machines", "there is no such NIC; PCI network devices of a: none"),
    ],
)
def test_endpoints_that_cannot_be_on_two_hosts_are_refused(
    name: str, testbed: str, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "machines.toml"
    file.write_text(
        '[hosts.a]\ntransport = "ssh=a"\n[hosts.b]\ntransport = "ssh=b"\n'
        '[[cables]]\nends = ["a:eth1", "b:eth1"]\n'
    )
    with pytest.raises(CapabilityError, match=says):
        plan_over(name, str(file) if testbed == "machines" else testbed)


def test_endpoints_on_two_hosts_are_forwarded_by_port() -> None:
    with pytest.raises(CapabilityError, match="forwarded by port"):
        plan_over("p2c2p_bridge", rules="learning")


@pytest.mark.parametrize("name", ACROSS)
def test_where_endpoints_are_apart_there_is_no_tester(name: str) -> None:
    assert make_deployment(name).apart
    assert not make_deployment("v2p2v").apart
    loaded = config.load({"testbed": "two-hosts"}, environment={})
    sockets = make_scenario(f"{name}_bridge", loaded).model_copy(update={"sockets": True})
    with pytest.raises(CapabilityError, match=r"testcases/test_endpoints\.py"):
        make_loop_plan(sockets, loaded.testbed, machine())


@pytest.mark.parametrize("vswitch", ["bridge", "macvtap"])  # the second steers by address
def test_endpoints_on_two_hosts_address_each_other(vswitch: str) -> None:
    first, second = addresses_apart(scenario(f"v2c2v_{vswitch}"))
    assert (first.peer_mac, first.peer) == (second.mac, second.address)
    assert (second.peer_mac, second.peer) == (first.mac, first.address)
    assert first.mac != second.mac


@pytest.mark.parametrize(
    ("settings", "mtu"),
    [
        ({"tunnel": "vxlan"}, 1500),
        ({"tunnel": "gre"}, 1500),
        ({"tunnel": "vxlan", "set": ["mtu=1500"]}, 1450),  # what is left of the user's own
        ({}, 0),
    ],
)
def test_packets_of_endpoints_fit_into_the_tunnel_on_their_way(
    settings: dict[str, Any], mtu: int
) -> None:
    for end in addresses_apart(scenario("v2c2v_bridge", **settings)):
        assert end.mtu == mtu


def test_endpoints_at_a_way_over_two_hosts_have_the_addresses_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = config.load({"testbed": "two-hosts", "vnf_mode": "mac"}, environment={})
    one = machine()
    both = one.model_copy(update={"hosts": {"east": one, "west": one}})
    east, _ = make_plan(make_scenario("v2p2v_bridge", loaded), loaded.testbed, both).hosts
    plans: list[Plan] = []
    monkeypatch.setattr(
        transfers, "plug_in_endpoints", lambda _machine, plan, *_: plans.append(plan)
    )
    monkeypatch.setattr(transfers, "run_without_tester", lambda _deployed, plug_in, *_: plug_in(()))
    here = SimpleNamespace(endpoints=lambda: None)
    deployed = SimpleNamespace(plan=east, machine=None, vswitch=here, vnfs=[], end_guests={})
    transfers.transfer_endpoints(cast("LiveDeployment", deployed), [])
    assert east.scenario.deployment.vnf_count == 0  # what writes addresses anew is elsewhere
    (whole,) = (plan.scenario for plan in plans)
    assert whole.vnf_addresses
    assert whole.deployment.vnf_count == 1


@pytest.mark.parametrize(
    ("cpus", "cores", "both"),
    [
        (2, {}, ((0,), (1,))),
        (2, {"east:pmd": (0,), "pmd": (1,)}, ((0,), (1,))),
        (4, {"pmd": (1,)}, ((2,), (3,))),
    ],
)
def test_ends_on_two_hosts_share_out_what_nobody_has(
    cpus: int, cores: dict[str, tuple[int, ...]], both: tuple[tuple[int, ...], ...]
) -> None:
    found = (processors_apart(plan(cores, (0,)), facts(cpus), number) for number in (0, 1))
    assert tuple(found) == both
