"""What the NAT on DPDK is planned with: wires, threads, memory, command line."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.fakes.machine import facts
from vnetperf.deployment.planner import make_plan
from vnetperf.model.deployment import PHY_PORTS, dut_mac, make_deployment, port_mac
from vnetperf.model.errors import CapabilityError
from vnetperf.model.nat import Nat
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.vswitches.cgnat.dpdk import DpdkNat, nat_arguments


def scenario(nat: Nat | None = None, wire: str = "", **options: Any) -> Scenario:
    return Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="cgnat",
        traffic=TrafficProfile(),
        options=SwitchOptions(**options),
        forwarding="l3",
        nat=nat or Nat(),
        **({"wire": wire} if wire else {}),
    )


def planned(cpus: int = 8, **asked: Any) -> Plan:
    return make_plan(scenario(**asked), Testbed(), facts(cores=cpus))


def given(plan: Plan) -> dict[str, str]:
    pairs = (a.removeprefix("--").partition("=") for a in nat_arguments(plan))
    return {name: value for name, _, value in pairs}


def test_modes_on_dpdk_take_memif_and_the_kernels_do_not() -> None:
    assert planned(mode="rtc").wire == "memif"
    assert planned(mode="pipeline", wire="veth").wire == "veth"
    for mode in ("nft", "iptables", ""):
        with pytest.raises(CapabilityError):
            planned(mode=mode, wire="memif")


def test_run_to_completion_is_one_thread() -> None:
    plan = planned(mode="rtc")
    assert set(plan.placement.cores) == {"pmd", "tester"}
    assert given(plan)["stages"] == "rx+val+nat+ct+tx"


def test_each_group_of_stages_is_a_role_with_a_core_of_its_own() -> None:
    plan = planned(mode="pipeline")
    roles = ("rx+val", "nat", "ct+tx")
    assert set(roles) < set(plan.placement.cores)
    cpus = [plan.placement.cores[role] for role in roles]
    assert len({cpu for of in cpus for cpu in of}) == 3
    words = given(plan)
    assert words["stages"] == "rx+val/nat/ct+tx"
    assert words["lcores-of-stages"] == ",".join(str(cpu) for (cpu,) in cpus)


def test_stages_are_the_users_to_group() -> None:
    plan = planned(mode="pipeline", stages="rx/val+nat+ct/tx")
    assert [d.role for d in DpdkNat.roles(plan.scenario)] == ["rx", "val+nat+ct", "tx"]
    with pytest.raises(ValidationError, match="in this order"):
        planned(mode="pipeline", stages="rx+nat+val+ct+tx")
    with pytest.raises(CapabilityError, match="stages are those of a pipeline"):
        planned(mode="rtc", stages="rx/val+nat+ct+tx")
    with pytest.raises(CapabilityError, match="the mode has no option stages"):
        planned(mode="nft", stages="rx/val+nat+ct+tx")


def test_the_engine_has_the_subscribers_of_the_scenario() -> None:
    nat = Nat(subscribers=4096, ports=10, block=63)
    plan = planned(nat=nat, mode="rtc", blocks="dynamic", filtering="address-and-port")
    words = given(plan)
    assert words["inside"] == "100.64.0.1"
    assert (words["pool"], words["addresses"], words["block"]) == ("198.18.0.0", "4", "63")
    assert int(words["sessions"]) >= nat.sessions
    assert (words["blocks"], words["filtering"]) == ("dynamic", "address-and-port")
    assert words["own"] == ",".join(dut_mac(port) for port in PHY_PORTS)
    graph = plan.scenario.deployment
    assert words["next-hop"] == ",".join(port_mac(graph, port, 0) for port in PHY_PORTS)


def test_a_machine_without_compiler_is_refused_with_the_cure() -> None:
    bare = facts(programs={k: v for k, v in facts().programs.items() if k != "gcc"})
    assert "gcc" in DpdkNat.missing(bare, scenario(mode="rtc"))


def test_a_table_is_as_large_as_requested() -> None:
    assert given(planned(mode="rtc", max_sessions=1000))["sessions"] == "1000"


def test_memory_grows_with_sessions() -> None:
    few = DpdkNat.hugepage_mib(scenario(mode="rtc"))
    many = DpdkNat.hugepage_mib(scenario(nat=Nat(subscribers=16384), mode="rtc"))
    # 40 octets of a mapping and of a session each, two tables at half load, 16 addresses.
    assert 100 < many - few < 260
