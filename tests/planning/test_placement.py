from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import cpus, facts
from vnetperf.analysis.sharing import OnMachine
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.scenario import SYSTEM, Placement, RoleDemand
from vnetperf.model.testbed import CoresConfig, HugepageFacts, MachineFacts
from vnetperf.planning.placement import place_roles

TESTER = RoleDemand(role="tester", group="tester")
PMD = RoleDemand(role="pmd", group="switch")


def demands(vnfs: int, pmds: int = 1) -> tuple[RoleDemand, ...]:
    return (
        TESTER,
        PMD.model_copy(update={"threads": pmds}),
        *(RoleDemand(role=f"vnf{n}", group="vnf") for n in range(vnfs)),
    )


DEMANDS = st.builds(demands, st.integers(0, 4), st.integers(1, 3))


@st.composite
def machines(draw: st.DrawFn) -> MachineFacts:
    nodes = draw(st.integers(1, 3))
    cores = nodes * draw(st.integers(1, 8))
    smt = draw(st.sampled_from([1, 2]))
    isolated = draw(st.frozensets(st.integers(0, cores * smt - 1)))
    present = cpus(cores, smt=smt, nodes=nodes, isolated=isolated)
    usable = draw(st.lists(st.sampled_from(present), min_size=1, unique=True))
    return facts(cpus=tuple(sorted(usable, key=lambda c: c.cpu)))


@st.composite
def wishes(draw: st.DrawFn) -> tuple[MachineFacts, CoresConfig]:
    machine = draw(machines())
    numbers = st.sampled_from([c.cpu for c in machine.cpus])
    return machine, CoresConfig(
        policy=draw(st.sampled_from(["auto", "shared"])),
        allowed=tuple(draw(st.lists(numbers, unique=True))),
        housekeeping=tuple(draw(st.lists(numbers, unique=True, max_size=2))),
    )


def taken(placement: Placement) -> list[int]:
    return [cpu for cores in placement.cores.values() for cpu in cores]


@given(wishes(), DEMANDS)
def test_a_dedicated_core_is_shared_with_nobody(
    wish: tuple[MachineFacts, CoresConfig], wanted: tuple[RoleDemand, ...]
) -> None:
    machine, config = wish
    placement = place_roles(wanted, config, machine)
    if placement.shared:
        return
    core = {c.cpu: c.core for c in machine.cpus}
    pollers = [core[cpu] for cpu in taken(placement)]
    assert len(set(pollers)) == len(pollers)
    assert not set(pollers) & {core[cpu] for cpu in placement.housekeeping}
    assert {c.node for c in machine.cpus if c.cpu in taken(placement)} == {placement.node}
    assert not any(placement.takes_turns(demand.role) for demand in wanted)
    assert placement.slice_us == 0


@given(wishes(), DEMANDS)
def test_every_role_gets_cores_it_may_use_and_the_system_keeps_one(
    wish: tuple[MachineFacts, CoresConfig], wanted: tuple[RoleDemand, ...]
) -> None:
    machine, config = wish
    placement = place_roles(wanted, config, machine)
    allowed = set(config.allowed) or {c.cpu for c in machine.cpus}
    assert placement.housekeeping
    assert set(taken(placement)) <= allowed
    for demand in wanted:
        cores = placement.cores[demand.role]
        assert 1 <= len(cores) <= demand.threads
        assert len(set(cores)) == len(cores)
        if not placement.shared:
            assert len(cores) == demand.threads
    if config.housekeeping:
        assert placement.housekeeping == config.housekeeping
    assert placement.reason


@given(wishes(), DEMANDS)
def test_the_same_machine_is_always_used_the_same_way(
    wish: tuple[MachineFacts, CoresConfig], wanted: tuple[RoleDemand, ...]
) -> None:
    machine, config = wish
    shuffled = machine.model_copy(update={"cpus": tuple(reversed(machine.cpus))})
    assert place_roles(wanted, config, machine) == place_roles(wanted, config, shuffled)


@given(machines(), DEMANDS)
def test_policy_dedicated_gives_dedicated_cores_or_refuses(
    machine: MachineFacts, wanted: tuple[RoleDemand, ...]
) -> None:
    auto = place_roles(wanted, CoresConfig(), machine)
    strict = CoresConfig(policy="dedicated")
    if auto.shared:
        with pytest.raises(CapabilityError, match="dedicated cores") as caught:
            place_roles(wanted, strict, machine)
        assert "auto" in caught.value.cure
    else:
        assert place_roles(wanted, strict, machine) == auto


def test_pvp_on_four_cores_is_dedicated_and_leaves_core_0_to_the_system() -> None:
    placement = place_roles(demands(1), CoresConfig(), facts(4))
    assert placement.cores == {"tester": (1,), "pmd": (2,), "vnf0": (3,)}
    assert placement.housekeeping == (0,)


@pytest.mark.parametrize("policy", ["auto", "shared"])
def test_in_the_lab_every_poller_lets_the_others_run(policy: Any) -> None:
    lab = facts(cpus=cpus(4)).model_copy(update={"record": {"virtual_lab": True}})
    placement = place_roles(demands(1), CoresConfig(policy=policy), lab)
    for role in ("tester", "pmd", "vnf0"):
        assert placement.takes_turns(role)
        assert placement.turn_of(role) == 100
        assert not placement.fifo_priority(role)


def test_siblings_do_not_count_as_cores() -> None:
    assert place_roles(demands(1), CoresConfig(), facts(cpus=cpus(3, smt=2))).shared
    assert not place_roles(demands(1), CoresConfig(), facts(cpus=cpus(4, smt=2))).shared


def test_isolated_cores_are_preferred() -> None:
    placement = place_roles(demands(0), CoresConfig(), facts(cpus=cpus(8, isolated={5, 6})))
    assert sorted(taken(placement)) == [5, 6]


def test_pollers_are_not_spread_over_nodes() -> None:
    two_nodes = facts(cpus=cpus(6, nodes=2))
    placement = place_roles(demands(0), CoresConfig(), two_nodes)
    assert (placement.node, placement.housekeeping) == (0, (0,))
    assert placement.cores == {"tester": (1,), "pmd": (2,)}
    assert placement.nodes == (0, 1)
    assert place_roles(demands(2), CoresConfig(), two_nodes).shared


def test_the_systems_core_is_on_the_pollers_node_where_it_fits() -> None:
    machine = facts(cpus=cpus(12, nodes=2, isolated={7, 8, 9}))
    placement = place_roles(demands(1), CoresConfig(), machine)
    assert (placement.node, placement.housekeeping) == (1, (6,))
    assert taken(placement) == [7, 8, 9]
    full = facts(cpus=cpus(6, nodes=2))
    placement = place_roles(demands(1), CoresConfig(), full)
    assert (placement.node, placement.housekeeping) == (0, (3,))
    placement = place_roles(demands(0), CoresConfig(housekeeping=(3,)), full)
    assert (placement.node, taken(placement)) == (1, [4, 5])


def test_shared_pollers_get_cores_of_one_node_then_siblings_then_other_nodes() -> None:
    asked = CoresConfig(policy="shared")
    machine = facts(cpus=cpus(8, smt=2, nodes=2))  # node 0 has 0-3 and 8-11
    placement = place_roles(demands(2), asked, machine)
    assert sorted(taken(placement)) == [0, 1, 2, 3]
    assert "siblings" not in placement.reason
    placement = place_roles(demands(4), asked, machine)
    assert sorted(taken(placement)) == [0, 1, 2, 3, 9, 10]  # 8 is the sibling of the DUT's 0
    assert "SMT siblings" in placement.reason
    assert "nodes" not in placement.reason
    placement = place_roles(demands(2), asked, facts(cpus=cpus(4, nodes=2)))
    assert sorted(taken(placement)) == [0, 1, 2, 3]
    assert "several nodes (0, 1)" in placement.reason
    assert (placement.node, placement.far_nodes) == (0, (1,))
    few = CoresConfig(policy="shared", allowed=(0, 4, 5, 6))
    placement = place_roles(demands(1), few, machine)
    assert (placement.node, sorted(taken(placement))) == (1, [4, 5, 6])


@given(machines(), DEMANDS)
def test_the_reason_of_sharing_tells_siblings_and_nodes(
    machine: MachineFacts, wanted: tuple[RoleDemand, ...]
) -> None:
    placement = place_roles(wanted, CoresConfig(policy="shared"), machine)
    used = [c for c in machine.cpus if c.cpu in taken(placement)]
    siblings = len({c.core for c in used}) < len(used)
    assert ("SMT siblings" in placement.reason) == siblings
    assert ("several nodes" in placement.reason) == (len({c.node for c in used}) > 1)
    assert {c.node for c in used} <= {placement.node, *placement.far_nodes}
    assert placement.node in {c.node for c in used}


def test_the_node_with_isolated_cores_is_chosen() -> None:
    machine = facts(cpus=cpus(12, nodes=2, isolated={1, 2, 3}))
    assert place_roles(demands(0), CoresConfig(), machine).node == 0


def test_a_sibling_of_a_housekeeping_processor_is_no_core_for_a_poller() -> None:
    """Also where the housekeeping processor itself is not among the allowed."""
    machine = facts(cpus=cpus(4, smt=2))  # 4 is the sibling of 0
    config = CoresConfig(allowed=(0, 1, 2), housekeeping=(4,))
    placement = place_roles(demands(0), config, machine)
    assert placement.cores == {"tester": (1,), "pmd": (2,)}


@pytest.mark.parametrize("vnfs", [0, 1, 2])
def test_one_core_carries_everything(vnfs: int) -> None:
    placement = place_roles(demands(vnfs), CoresConfig(), facts(1))
    assert placement.shared
    assert set(taken(placement)) == {0}
    assert placement.housekeeping == (0,)
    assert placement.slice_us == 100
    assert placement.takes_turns("pmd")


def test_stages_of_a_switch_use_every_core_where_no_vnf_has_one() -> None:
    stages = tuple(RoleDemand(role=f"stage{n}", group="switch") for n in range(4))
    placement = place_roles((TESTER, *stages), CoresConfig(), facts(2))
    assert placement.cores["tester"] == (1,)
    assert [placement.cores[f"stage{n}"] for n in range(4)] == [(0,), (1,), (0,), (1,)]
    assert not placement.dut_alone


def test_on_two_cores_the_switch_has_one_and_the_others_take_turns_on_the_other() -> None:
    placement = place_roles(demands(1), CoresConfig(), facts(2))
    assert placement.cores == {"tester": (1,), "pmd": (0,), "vnf0": (1,)}
    assert placement.housekeeping == (1,)
    assert placement.dut_alone
    assert placement.sharers("tester") == ("vnf0", SYSTEM)
    assert (placement.turn_of("tester"), placement.turn_of("vnf0")) == (100, 100)
    assert not placement.turn_of("pmd")
    assert (placement.turn_phase("tester"), placement.turn_phase("vnf0")) == (0, 50)
    three = place_roles(demands(2), CoresConfig(turn_us=90), facts(2))
    assert [three.turn_phase(role) for role in ("tester", "vnf0", "vnf1")] == [0, 30, 60]
    assert "processor 0" not in placement.reason  # they may change afterwards


@given(machines(), DEMANDS)
def test_the_dut_has_processors_of_its_own_where_one_is_left_for_the_others(
    machine: MachineFacts, wanted: tuple[RoleDemand, ...]
) -> None:
    placement = place_roles(wanted, CoresConfig(policy="shared"), machine)
    threads = sum(demand.threads for demand in wanted if demand.group == "switch")
    assert placement.dut == ("pmd",)
    core = {cpu.cpu: cpu.core for cpu in machine.cpus}
    mine = {core[cpu] for cpu in placement.cores["pmd"]}
    others = {core[cpu] for role, cpus in placement.cores.items() for cpu in cpus if role != "pmd"}
    if threads < len(machine.cpus):
        assert not any(placement.sharers(role) for role in placement.dut)
        assert placement.siblings_of_dut == bool(mine & others)
    assert placement.dut_alone == (threads < len(machine.cpus) and not mine & others)
    if placement.dut_alone:
        assert len(placement.cores["pmd"]) == threads
        assert not set(placement.cores["pmd"]) & set(placement.housekeeping)


@given(machines(), DEMANDS, st.integers(0, 1000))
def test_who_shares_takes_turns_and_one_who_does_not_never_sleeps(
    machine: MachineFacts, wanted: tuple[RoleDemand, ...], turn_us: int
) -> None:
    config = CoresConfig(policy="shared", turn_us=turn_us)
    placement = place_roles(wanted, config, machine)
    for role in placement.cores:
        others = placement.sharers(role)
        assert placement.turn_of(role) <= turn_us
        assert bool(placement.turn_of(role)) == bool(others and turn_us)
        assert bool(placement.fifo_priority(role)) == bool(placement.turn_of(role))
    sentence = "; ".join(OnMachine(placement).texts)
    for cpu in placement.pollers:
        assert re.search(rf"\b{cpu}\b", sentence)


@given(machines(), DEMANDS)
def test_shares_leave_a_tenth_of_each_processor_to_the_system(
    machine: MachineFacts, wanted: tuple[RoleDemand, ...]
) -> None:
    placement = place_roles(wanted, CoresConfig(policy="shared"), machine)
    for cpu in placement.pollers:
        roles = [role for role, cpus in placement.cores.items() if cpu in cpus]
        assert sum(placement.fifo_share(role) for role in roles) <= 90
        assert min(placement.fifo_share(role) for role in roles) >= 90 // (len(placement.cores))


def test_others_keep_off_hardware_threads_of_the_duts_cores() -> None:
    two = facts(cpus=cpus(2, smt=2))  # 2 and 3 are the siblings of 0 and 1
    placement = place_roles(demands(1), CoresConfig(), two)
    assert placement.cores == {"tester": (3,), "pmd": (0,), "vnf0": (1,)}
    assert placement.dut_alone
    one = place_roles(demands(1), CoresConfig(), facts(cpus=cpus(1, smt=2)))
    assert one.cores["pmd"] == (0,)
    assert one.siblings_of_dut
    assert not one.dut_alone


def test_the_dut_is_not_put_on_the_systems_processor() -> None:
    placement = place_roles(demands(1), CoresConfig(housekeeping=(0,)), facts(2))
    assert placement.cores == {"tester": (0,), "pmd": (1,), "vnf0": (0,)}
    assert placement.dut_alone


def test_a_tester_alone_with_the_system_takes_short_turns() -> None:
    placement = place_roles(demands(0), CoresConfig(), facts(2))
    assert placement.sharers("tester") == (SYSTEM,)
    assert not placement.takes_turns("tester")
    assert placement.turn_of("tester") == 20
    assert placement.fifo_share("tester") == 90
    assert place_roles(demands(1), CoresConfig(), facts(2)).fifo_share("tester") == 45


def test_threads_of_one_role_are_on_processors_of_their_own() -> None:
    for cores in (2, 3):
        placed = place_roles(demands(1, pmds=2), CoresConfig(), facts(cores))
        assert len(set(placed.cores["pmd"])) == 2


def test_without_slices_none_are_asked_for_and_the_reason_is_kept() -> None:
    placement = place_roles(demands(1), CoresConfig(), facts(2, slices="kernel 6.1 has no EEVDF"))
    assert placement.slice_us == 0
    assert placement.slice_note == "kernel 6.1 has no EEVDF"


def test_shared_policy_shares_even_where_there_are_cores_enough() -> None:
    placement = place_roles(demands(1), CoresConfig(policy="shared"), facts(16))
    assert placement.shared
    assert "the testbed file requires it" in placement.reason


@pytest.mark.parametrize("key", ["allowed", "housekeeping"])
def test_processors_that_are_not_there_are_refused(key: str) -> None:
    config = CoresConfig.model_validate({key: (1, 99)})
    with pytest.raises(ConfigError, match="processor 99") as caught:
        place_roles(demands(0), config, facts(4))
    assert caught.value.where == f"cores.{key}"
    assert caught.value.accepted == "0, 1, 2, 3"


def kinds(machine: MachineFacts, *kinds: int) -> MachineFacts:
    """The machine with cores of several kinds, 0 the fastest."""
    pairs = zip(machine.cpus, kinds, strict=True)
    return facts(cpus=tuple(cpu.model_copy(update={"kind": kind}) for cpu, kind in pairs))


def test_pollers_get_cores_of_one_kind_the_fastest_first() -> None:
    little_first = kinds(facts(8), 1, 1, 1, 1, 0, 0, 0, 0)
    placed = place_roles(demands(1), CoresConfig(), little_first)
    assert placed.mode == "dedicated"
    assert sorted(taken(placed)) == [4, 5, 6]
    assert placed.housekeeping == (0,)
    assert "several kinds" not in placed.reason
    big_first = kinds(facts(8), 0, 0, 0, 0, 1, 1, 1, 1)
    placed = place_roles(demands(2), CoresConfig(), big_first)
    assert sorted(taken(placed)) == [0, 1, 2, 3]
    assert placed.housekeeping == (4,)


def test_where_no_kind_has_enough_cores_the_mixture_is_told() -> None:
    placed = place_roles(demands(2, pmds=2), CoresConfig(), kinds(facts(8), 0, 0, 1, 1, 1, 1, 2, 2))
    assert placed.mode == "dedicated"
    assert sorted(taken(placed)) == [0, 1, 2, 3, 4]
    assert "several kinds" in placed.reason
    slow = place_roles(demands(1), CoresConfig(), kinds(facts(8), 0, 0, 1, 1, 1, 1, 1, 1))
    assert sorted(taken(slow)) == [3, 4, 5]  # three alike rather than two that are faster
    assert slow.housekeeping == (2,)


def test_shared_pollers_take_the_fastest_cores_too() -> None:
    shared = CoresConfig(policy="shared")
    placed = place_roles(demands(0), shared, kinds(facts(4), 1, 1, 0, 0))
    assert sorted(taken(placed)) == [2, 3]
    mixed = place_roles(demands(2), shared, kinds(facts(4), 1, 1, 1, 0))
    assert "several kinds" in mixed.reason


def test_cores_that_somebody_has_isolated_come_before_faster_ones() -> None:
    machine = facts(cpus=cpus(8, isolated=(5, 6, 7)))
    placed = place_roles(demands(1), CoresConfig(), kinds(machine, 0, 0, 0, 0, 1, 1, 1, 1))
    assert sorted(taken(placed)) == [5, 6, 7]


def with_distances(machine: MachineFacts, near: int, far: int, socket: int) -> MachineFacts:
    """The machine with nodes by sockets of so many, near each other within one."""
    nodes = machine.nodes
    distances = {
        a: {b: 10 if a == b else near if a // socket == b // socket else far for b in nodes}
        for a in nodes
    }
    return machine.model_copy(update={"distances": distances})


def test_nodes_of_one_socket_serve_one_plan_with_dedicated_cores() -> None:
    """A machine whose nodes are its L3 caches has enough cores, though no node has."""
    wanted = demands(1, 2)
    wanted = (*wanted[:2], wanted[2].model_copy(update={"threads": 2}))
    machine = with_distances(facts(32, nodes=8), 11, 32, 4)
    placement = place_roles(wanted, CoresConfig(policy="dedicated"), machine)
    node = {cpu.cpu: cpu.node for cpu in machine.cpus}
    assert placement.mode == "dedicated"
    assert {role: {node[cpu] for cpu in cpus} for role, cpus in placement.cores.items()} == {
        "tester": {0},
        "pmd": {0},
        "vnf0": {1},
    }
    assert (placement.node, placement.far_nodes, placement.housekeeping) == (0, (1,), (0,))
    assert "near each other (distance 11)" in placement.reason


@pytest.mark.parametrize(
    ("near", "far", "socket", "mode"),
    [(12, 32, 2, "dedicated"), (20, 20, 2, "shared"), (11, 21, 1, "shared")],
)
def test_only_near_nodes_serve_one_plan(near: int, far: int, socket: int, mode: str) -> None:
    machine = with_distances(facts(8, nodes=4), near, far, socket)
    placement = place_roles(demands(1), CoresConfig(), machine)
    assert placement.mode == mode


def test_near_nodes_give_cores_of_one_kind_the_fastest_first() -> None:
    wanted = (*demands(1, 1), RoleDemand(role="vnf1", group="vnf", threads=2))
    slow_first = kinds(facts(16, nodes=4), *(1,) * 8, *(0,) * 8)
    placed = place_roles(wanted, CoresConfig(), with_distances(slow_first, 11, 32, 2))
    assert placed.mode == "dedicated"
    assert set(taken(placed)) <= set(range(8, 16))
    assert "several kinds" not in placed.reason
    both = with_distances(kinds(facts(8, nodes=4), *(0, 1) * 4), 11, 32, 4)
    placed = place_roles(demands(1), CoresConfig(), both)
    assert set(taken(placed)) <= {0, 2, 4, 6}
    placed = place_roles(demands(3), CoresConfig(), both)
    assert placed.mode == "dedicated"
    assert "several kinds" in placed.reason


def test_threads_of_the_dut_are_not_spread_over_near_nodes() -> None:
    machine = with_distances(facts(16, nodes=8), 11, 32, 8)
    assert place_roles(demands(0, 3), CoresConfig(), machine).shared


@given(
    st.integers(1, 8), st.integers(1, 6), st.sampled_from([1, 2]), DEMANDS, st.sampled_from([1, 2])
)
def test_dedicated_cores_are_on_the_first_node_or_on_near_ones(
    nodes: int, cores: int, socket: int, wanted: tuple[RoleDemand, ...], smt: int
) -> None:
    present = cpus(nodes * cores, smt=smt, nodes=nodes)
    machine = with_distances(facts(cpus=present), 12, 32, socket)
    placement = place_roles(wanted, CoresConfig(), machine)
    if placement.shared:
        return
    node = {cpu.cpu: cpu.node for cpu in present}
    core = {cpu.cpu: cpu.core for cpu in present}
    used = {node[cpu] for cpu in taken(placement)}
    assert {n // socket for n in used} == {placement.node // socket}
    assert used - {placement.node} == {*placement.far_nodes}
    assert {node[cpu] for cpu in placement.cores["pmd"]} == {placement.node}
    assert len({core[cpu] for cpu in taken(placement)}) == len(taken(placement))
    assert not {core[c] for c in placement.housekeeping} & {core[c] for c in taken(placement)}
    for demand in wanted:
        assert len(placement.cores[demand.role]) == demand.threads


def test_a_node_without_memory_is_taken_last() -> None:
    """There are machines some of whose nodes have processors alone."""
    pools = (HugepageFacts(node=1, size_kb=2048, total=0, free=0),)
    bare = facts(24, nodes=3, hugepages=pools, memory_free_kb={0: 0, 1: 16 << 20, 2: 0})
    for config in (CoresConfig(), CoresConfig(policy="shared")):
        placement = place_roles(demands(1), config, bare)
        assert placement.node == 1
        assert "memory can be had on nodes 0, 2" in placement.reason
