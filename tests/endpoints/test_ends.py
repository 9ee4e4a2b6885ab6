"""Endpoints in the tester's place: where they cannot be, and which processors they have."""

from __future__ import annotations

from typing import Any

import pytest

from vnetperf import config
from vnetperf.deployment.endpoints import endpoint_processors, why_no_endpoints
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import CpuFacts, MachineFacts, Testbed
from vnetperf.runner.scenarios import make_scenario


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
        ("p2v_bridge", {}, "one way only"),
        ("pvp_dpdk", {"vnf_mode": "macswap"}, "send frames back"),
        ("phy2phy_dpdk", {"vnf_mode": "macswap"}, ""),  # there is no VNF
        ("phy2phy_dpdk", {"rules": "stream"}, "--rules port"),
    ],
)
def test_where_endpoints_cannot_be_is_told(name: str, settings: dict[str, str], why: str) -> None:
    said = why_no_endpoints(scenario(name, **settings))
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
