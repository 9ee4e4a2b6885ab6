"""Where VNFs go when a user says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import cpus, facts
from tests.planning.test_placement import PMD, TESTER, demands, machines
from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import Placement, VnfPlacement
from vnetperf.model.testbed import CoresConfig, MachineFacts
from vnetperf.planning.placement import place_roles, place_with_vnfs


def placed(
    machine: MachineFacts,
    where: VnfPlacement,
    vnfs: int = 1,
    policy: str = "auto",
    *,
    pmds: int = 1,
    housekeeping: tuple[int, ...] = (),
) -> Placement:
    config = CoresConfig.model_validate({"policy": policy, "housekeeping": housekeeping})
    return place_with_vnfs(demands(vnfs, pmds), config, machine, None, where)


def nodes_of(placement: Placement, machine: MachineFacts, *roles: str) -> set[int]:
    node = {cpu.cpu: cpu.node for cpu in machine.cpus}
    return {node[cpu] for role in roles for cpu in placement.cores[role]}


@given(machines(), st.integers(1, 3))
def test_auto_is_the_plain_placement(machine: MachineFacts, vnfs: int) -> None:
    plain = place_roles(demands(vnfs), CoresConfig(), machine)
    assert placed(machine, "auto", vnfs) == plain


@given(machines(), st.integers(1, 3), st.sampled_from(["auto", "shared"]))
def test_remote_is_another_node_and_local_the_same(
    machine: MachineFacts, vnfs: int, policy: str
) -> None:
    names = tuple(f"vnf{n}" for n in range(vnfs))
    if len({cpu.node for cpu in machine.cpus}) < 2:
        for where in ("local", "remote"):
            with pytest.raises(CapabilityError, match="one NUMA node"):
                placed(machine, where, vnfs, policy)
        return
    near, far = (placed(machine, where, vnfs, policy) for where in ("local", "remote"))
    assert nodes_of(near, machine, *names, "tester", "pmd") == {near.node} == {near.vnf_home_node}
    assert nodes_of(far, machine, "tester", "pmd") == {far.node}
    assert nodes_of(far, machine, *names) == {far.vnf_node}
    assert far.vnf_node != far.node
    for placement in (near, far):
        assert placement.shared or not any(map(placement.takes_turns, placement.cores))


@given(machines(), st.integers(1, 3))
def test_unpinned_leaves_pollers_as_they_would_be_alone(machine: MachineFacts, vnfs: int) -> None:
    placement = placed(machine, "unpinned", vnfs)
    alone = place_roles((TESTER, PMD), CoresConfig(), machine)
    assert (placement.mode, placement.cores) == (alone.mode, alone.cores)
    everywhere = tuple(sorted(cpu.cpu for cpu in machine.cpus))
    assert placement.unpinned == {f"vnf{n}": everywhere for n in range(vnfs)}


def test_two_nodes_of_four_cores() -> None:
    machine = facts(cpus=cpus(8, nodes=2))
    far = placed(machine, "remote")
    assert (far.mode, far.node, far.vnf_node) == ("dedicated", 0, 1)
    assert "VNFs on node 1" in far.reason
    assert "pollers on node 0" in far.reason
    assert placed(machine, "local").cores["vnf0"] == (3,)


def test_a_policy_of_dedicated_cores_is_kept() -> None:
    machine = facts(cpus=cpus(8, nodes=2))
    assert not placed(machine, "remote", 3, "dedicated").shared
    with pytest.raises(CapabilityError, match=r"5 dedicated cores .* on node 1"):
        placed(machine, "remote", 5, "dedicated")


@pytest.mark.parametrize("policy", ["auto", "dedicated"])
def test_the_systems_processor_may_be_on_another_node(policy: str) -> None:
    machine = facts(cpus=cpus(8, nodes=2))
    plain = placed(machine, "auto", policy=policy, pmds=2)
    near = placed(machine, "local", policy=policy, pmds=2)
    assert (near.mode, near.cores, near.housekeeping) == ("dedicated", plain.cores, (4,))
    far = placed(machine, "remote", policy=policy, pmds=3)
    assert (far.mode, far.housekeeping, far.cores["vnf0"]) == ("dedicated", (4,), (5,))


def test_remote_vnfs_are_on_isolated_cores_first() -> None:
    machine = facts(cpus=cpus(16, nodes=2, isolated=(4, 5, 6, 7, 12, 13, 14, 15)))
    far = placed(machine, "remote", 2)
    assert (far.cores["vnf0"], far.cores["vnf1"]) == ((12,), (13,))


def test_no_remote_vnf_is_on_a_sibling_of_the_systems_processor() -> None:
    machine = facts(cpus=cpus(8, smt=2, nodes=2, isolated=(1, 2, 3)))  # 12 is the sibling of 4
    far = placed(machine, "remote", housekeeping=(12,))
    assert (far.mode, far.node, far.cores["vnf0"]) == ("dedicated", 0, (5,))
    with pytest.raises(CapabilityError, match="node 1; there are 3"):
        placed(machine, "remote", 4, "dedicated", housekeeping=(12,))
