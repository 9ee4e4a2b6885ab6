"""Who is on which processor, alone or with whom, as a log's plan and facts have it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.turns import PLACED
from tests.planning.test_hosts import plan_of
from tests.texts import Texts
from vnetperf.analysis.environment import comparability
from vnetperf.analysis.sharing import Sharing, read_turns, refused_priorities
from vnetperf.model.result import RunIdentity, RunResults, ScenarioFacts
from vnetperf.model.scenario import Placement

#: A machine of two: the DUT's poller has one of them.
ALONE: dict[str, Any] = {
    "mode": "shared",
    "reason": "3 pollers and the system share 2 processors",
    "cores": {"tester": [1], "pmd": [0], "vnf0": [1]},
    "housekeeping": [1],
    "dut": ["pmd"],
    "turn_us": 100,
}
BESIDE = ALONE | {"cores": {"tester": [0], "pmd": [0], "vnf0": [1]}, "housekeeping": [0]}
FACTS: dict[str, Any] = {
    "generator": {"length of a turn (us)": 100},
    "vnfs": [{"turn, us": 100, "priority": "fifo 1", "ports": ["vnf0.0: vhost-user"]}],
}


def sharing(placement: dict[str, Any], facts: dict[str, Any] | None = None, **plan: Any) -> Sharing:
    found = Sharing.of({"placement": placement, **plan}, facts)
    assert found is not None
    return found


def test_a_dut_with_processors_of_its_own_is_said_to_have_them(texts: Texts) -> None:
    found = sharing(ALONE, FACTS)
    assert (found.label, found.dut_alone) == ("shared: tester and VNF", True)
    texts.check([found.sentence, found.warning])


def test_a_dut_that_shares_is_measured_with_whom_it_shares(texts: Texts) -> None:
    found = sharing(BESIDE, {"generator": {"length of a turn (us)": 100}})
    assert (found.label, found.dut_alone) == ("shared: DUT and tester", False)
    texts.check([found.sentence, found.warning])


def test_those_that_never_sleep_are_not_said_to_take_turns() -> None:
    """TRex, testpmd: the plan has a length for them, the facts have none."""
    assert "turns" not in sharing(ALONE, {"generator": {}, "vnfs": [{}]}).sentence
    assert read_turns({"generator": {"length of a turn (us)": 0}}) == {}


def test_a_vnf_that_the_kernel_moves_may_be_beside_the_dut(texts: Texts) -> None:
    loose = {"cores": {"tester": [1], "pmd": [0]}, "unpinned": {"vnf0": [0, 1]}}
    assert not Placement.model_validate(ALONE | loose).dut_alone
    found = sharing(ALONE | loose)
    assert not found.dut_alone
    texts.check(found.sentence)


def test_dedicated_processors_need_no_warning(texts: Texts) -> None:
    found = sharing(ALONE | {"mode": "dedicated", "housekeeping": [2], "cores": {"pmd": [0, 1]}})
    assert (found.label, found.warning) == ("dedicated", "")
    texts.check(found.sentence)


def test_programs_in_the_testers_place_are_not_on_its_processor() -> None:
    found = sharing(ALONE, scenario={"sockets": True})
    assert "tester" not in found.sentence


def test_a_plan_is_read_without_those_who_will_not_be_there() -> None:
    plan = plan_of("pvp2pvp_dpdk", 2)
    assert Sharing.planned(plan) == Sharing.of(plan.model_dump(mode="json"))
    assert "east:tester" in Sharing.planned(plan).sentence
    found = Sharing.planned(plan, {"tester"})
    assert "tester" not in found.sentence
    assert found.machines


@pytest.mark.parametrize("sockets", [False, True])
def test_who_shares_is_said_once_and_as_it_is(sockets: bool) -> None:
    """Hosts give roles other names, and the tester is taken away, after processors were chosen."""
    for name in ("pvp_dpdk", "pvp2pvp_dpdk"):
        plan = plan_of(name, 2).model_dump(mode="json")
        for part in (plan, *plan["hosts"]):
            part["scenario"]["sockets"] = sockets
        found = Sharing.of(plan)
        assert found is not None
        assert found.shared
        assert found.warning.count(found.sentence) == 1
        others = found.warning.replace(found.sentence, "").partition(";")[0]
        assert "pmd" not in others


def test_a_benchmark_says_it_in_older_checkouts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    there: dict[str, Any] = {}
    exec(PLACED, there)  # noqa: S102 - our own text
    plan = SimpleNamespace(placement=SimpleNamespace(reason="why"))
    facts = ScenarioFacts(scenario="pvp_dpdk", plan={"placement": ALONE}, facts=FACTS)
    deployment = SimpleNamespace(facts=facts)
    assert "pmd has processor 0 to itself" in there["placed"](plan, deployment)
    monkeypatch.setitem(sys.modules, "vnetperf.analysis.sharing", None)
    assert there["placed"](plan, deployment) == "why"


def test_a_dut_elsewhere_is_not_judged_by_this_machine(texts: Texts) -> None:
    tester = ALONE | {"cores": {"tester": [0]}, "housekeeping": [0], "dut": []}
    found = sharing(tester, wire="external")
    texts.check([found.label, found.warning])


def test_roles_of_several_hosts_have_their_names() -> None:
    plan = plan_of("pvp2pvp_dpdk").model_dump(mode="json")
    facts = {"hosts": {"east": {"generator": {"length of a turn (us)": 20}}}}
    found = Sharing.of(plan, facts)
    assert found is not None
    (machine,) = found.machines  # both hosts are namespaces of one
    assert machine.hosts == ("east", "west")
    assert machine.turns == {"east:tester": 20}
    assert {"east:pmd", "west:pmd"} <= set(machine.placement.cores)
    assert found.dut_alone


@pytest.mark.parametrize("placement", [{}, {"mode": "shared", "cores": "many"}, None])
def test_what_cannot_be_read_is_not_made_up(placement: Any) -> None:
    found = Sharing.of({"placement": placement})
    assert found is None or (found.sentence, found.dut_alone) == ("", False)


def test_a_refusal_of_the_kernel_is_told_apart() -> None:
    refused = {"vnfs": [{"priority": "refused: EPERM"}, {"priority": "none"}, {}]}
    assert refused_priorities(refused) == {"vnf0": "EPERM"}
    assert refused_priorities({"hosts": {"west": refused}}) == {"west:vnf0": "EPERM"}
    assert refused_priorities(FACTS) == {}


def test_a_dut_that_shares_is_not_compared_with_one_that_does_not() -> None:
    def cores(placement: dict[str, Any]) -> str:
        identity = RunIdentity(tool="", git="", command="", started="now")
        plan = {"placement": placement, "scenario": {"deployment": {}}}
        facts = ScenarioFacts(scenario="pvp_dpdk", plan=plan)
        results = RunResults(run=identity, preset="quick", scenarios=(facts,))
        return comparability(results, "pvp_dpdk")["cores"]

    dedicated = ALONE | {"mode": "dedicated", "housekeeping": [2], "turn_us": 0}
    kinds = [cores(one) for one in (ALONE, BESIDE, ALONE | {"turn_us": 50}, dedicated)]
    assert len(set(kinds)) == len(kinds)
    assert kinds[-1] == "dedicated"
    assert cores(ALONE) == cores(ALONE | {"reason": "another"})
