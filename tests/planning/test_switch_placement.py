"""Where a vSwitch's threads go when a user says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import cpus, facts
from tests.planning.test_placement import demands, machines
from tests.planning.test_plan import scenario
from vnetperf.model.errors import CapabilityError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Placement
from vnetperf.model.testbed import CoresConfig, MachineFacts
from vnetperf.planning.placement import place_scenario, place_with_vnfs


def placed(
    machine: MachineFacts, where: str | None, threads: int, policy: str = "auto"
) -> Placement:
    config = CoresConfig.model_validate({"policy": policy})
    wish = scenario().model_copy(
        update={"options": SwitchOptions.model_validate({"placement": where})}
    )
    return place_scenario(demands(1, threads), config, machine, None, wish)


@given(machines(), st.integers(1, 4))
def test_without_a_wish_it_is_the_plain_placement(machine: MachineFacts, threads: int) -> None:
    plain = place_with_vnfs(demands(1, threads), CoresConfig(), machine, None, "auto")
    assert placed(machine, None, threads) == plain


@given(machines(), st.integers(2, 4), st.sampled_from(["siblings", "nodes"]))
def test_it_is_as_wished_or_refused(machine: MachineFacts, threads: int, where: str) -> None:
    core = {cpu.cpu: cpu.core for cpu in machine.cpus}
    node = {cpu.cpu: cpu.node for cpu in machine.cpus}
    try:
        found = placed(machine, where, threads)
    except CapabilityError:
        return
    pmd = found.cores["pmd"]
    assert len(set(pmd)) == threads
    others = [*found.cores["tester"], *found.cores["vnf0"], *found.housekeeping]
    assert not {core[cpu] for cpu in pmd} & {core[cpu] for cpu in others if cpu in core}
    if where == "siblings":
        assert {node[cpu] for cpu in pmd} == {found.node}
        assert all(core[a] == core[b] for a, b in zip(pmd[0::2], pmd[1::2], strict=False))
    else:
        assert node[pmd[0]] == found.node != node[pmd[1]]
        assert {node[cpu] for cpu in pmd} == {found.node, *found.far_nodes}
    assert "as requested" in found.reason


def test_siblings_of_eight_cores() -> None:
    found = placed(facts(cpus=cpus(8, smt=2)), "siblings", 4)
    assert found.cores == {"tester": (1,), "vnf0": (2,), "pmd": (3, 11, 4, 12)}
    assert found.dut == ("pmd",)


def test_two_nodes_in_turn() -> None:
    found = placed(facts(cpus=cpus(12, nodes=2)), "nodes", 3)
    assert found.cores == {"tester": (1,), "vnf0": (2,), "pmd": (3, 6, 4)}
    assert (found.node, found.far_nodes) == (0, (1,))


@pytest.mark.parametrize(
    ("machine", "where", "pmd"),
    [
        (facts(cpus=cpus(8, smt=2, isolated=(3, 4, 5, 13))), "siblings", (5, 13)),
        (facts(cpus=cpus(12, nodes=2, isolated=(3, 4, 5, 11))), "nodes", (5, 11)),
    ],
)
def test_isolated_processors_come_first(
    machine: MachineFacts, where: str, pmd: tuple[int, ...]
) -> None:
    assert placed(machine, where, 2).cores == {"tester": (3,), "vnf0": (4,), "pmd": pmd}


@pytest.mark.parametrize(
    ("machine", "where", "threads", "words"),
    [
        (facts(cpus=cpus(8, smt=2)), "siblings", 1, "two poll-mode threads or more"),
        (facts(cpus=cpus(8)), "siblings", 2, "2 threads require .* with a sibling; there are 0"),
        (facts(cpus=cpus(8, smt=2)), "nodes", 2, "cores on several nodes; there are 0"),
        (facts(cpus=cpus(2)), "siblings", 2, "requires dedicated cores"),
    ],
)
def test_what_a_machine_cannot_do_is_refused(
    machine: MachineFacts, where: str, threads: int, words: str
) -> None:
    with pytest.raises(CapabilityError, match=words) as caught:
        placed(machine, where, threads)
    assert "leave placement out" in str(caught.value)


@pytest.mark.parametrize(
    ("machine", "where", "threads"),
    [(facts(cpus=cpus(4, smt=2)), "siblings", 2), (facts(cpus=cpus(8, nodes=2)), "nodes", 4)],
)
def test_dedicated_cores_need_not_suffice_without_the_wish(
    machine: MachineFacts, where: str, threads: int
) -> None:
    found = placed(machine, where, threads, "dedicated")
    assert found == placed(machine, where, threads)
    assert not found.shared
    with pytest.raises(CapabilityError, match="cores and one for the system"):
        placed(machine, None, threads, "dedicated")
