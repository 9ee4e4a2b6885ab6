"""What keeps NICs from being wires."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fakes.machine import facts
from tests.fakes.nics import CABLES, DUT0, TESTER0, nic, with_nics
from vnetperf import config
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import CableUse, NicUse, Placement, Plan, Scenario
from vnetperf.model.testbed import MachineFacts, NicConfig, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.runner.scenarios import make_scenario
from vnetperf.traffic.loadgen.driver import KERNEL_RX_RING, engine_port
from vnetperf.traffic.loadgen.trials import PortRings
from vnetperf.wires.nic import Nic


def missing(machine: MachineFacts, deployment: str = "pvp", **testbed: Any) -> str:
    scenario = Scenario(
        deployment=make_deployment(deployment), vswitch="fake", traffic=TrafficProfile()
    )
    return Nic.missing(machine, scenario, Testbed(**{"nics": CABLES, **testbed}))


def test_two_cables_of_free_nics_are_enough() -> None:
    assert missing(with_nics(facts())) == ""
    assert missing(with_nics(facts()), "p2v", nics=CABLES[:1]) == ""


def test_interfaces_can_be_named_instead_of_addresses() -> None:
    named = (NicConfig(tester="enp33s0", dut="enp65s0"), CABLES[1])
    assert missing(with_nics(facts()), nics=named) == ""


@pytest.mark.parametrize(
    "spelled", ["ab:00.0", "0000:AB:00.0", "00000000:ab:00.0", "AB:00.0", "front-left-port0"]
)
def test_a_nic_may_be_named_as_tools_and_people_spell_it(spelled: str) -> None:
    """Without the usual domain, in capitals, or by another name of its interface."""
    wanted = nic("0000:ab:00.0", altnames=("front-left-port0", "eno1"))
    others = (nic("0001:ab:00.0"), nic("0000:ab:00.1"))
    machine = facts().model_copy(update={"nics": (*others, wanted)})
    assert machine.nic(spelled) == wanted
    assert machine.nic("0001:AB:00.0") == others[0]
    assert machine.nic("ab:00.2") is None
    same = (NicConfig(tester=spelled, dut="0000:ab:00.0"),)
    problem = missing(machine, "p2v", nics=same)
    assert "same device as nics[0].tester" in problem


@pytest.mark.parametrize(
    ("machine", "testbed", "said"),
    [
        (facts(is_root=False), {}, "run with sudo"),
        (facts(), {"nics": ()}, "names no NICs; add [[nics]]"),
        (facts(), {"nics": CABLES[:1]}, "pvp has 2 wires and the testbed file names NICs of 1"),
        (facts(nics=()), {}, f"nics[0].tester: there is no NIC '{TESTER0}'"),
        (
            facts(),
            {"nics": (CABLES[0], NicConfig(tester=TESTER0, dut="enp66s0"))},
            f"nics[1].tester is the same device as nics[0].tester: {TESTER0}",
        ),
        (
            facts(),
            {"nics": (NicConfig(tester="enp65s0", dut=DUT0), CABLES[1])},
            f"nics[0].dut is the same device as nics[0].tester: {DUT0}",
        ),
    ],
)
def test_what_is_missing_is_told(machine: MachineFacts, testbed: dict[str, Any], said: str) -> None:
    wired = machine if not machine.is_root or testbed == {} else with_nics(machine)
    assert said in missing(wired, **testbed)


def test_a_nic_in_use_is_taken_only_from_an_isolated_environment() -> None:
    used = with_nics(facts(), dut1={"in_use": "it carries the address 192.0.2.1"})
    text = missing(used)
    for words in ("nics[1].dut: 0000:42:00.0 ", "192.0.2.1", "isolated = true"):
        assert words in text
    assert missing(used, isolated=True) == ""


class Borrower:
    """A machine that gives NICs, whose driver tells the ring of the DUT's."""

    ring: int | None = 512

    def __init__(self) -> None:
        self.promiscuous: dict[str, bool] = {}

    def borrow_nic(self, address: str, *, promiscuous: bool, **_: Any) -> str:
        self.promiscuous[address] = promiscuous
        return f"of-{address}"

    def give_nic(self, address: str, driver: str, *, isolated: bool) -> None:
        del address, driver, isolated

    def link(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, carrier=True)

    def receive_ring(self, name: str) -> int | None:
        assert name == f"of-{DUT0}"
        return self.ring


@pytest.mark.parametrize(
    ("kernel", "driver_has", "wanted", "told"),
    [(True, 512, None, 512), (True, None, 2048, None), (False, 512, 2048, 2048)],
    ids=["the driver tells it", "the driver tells none", "a program was told"],
)
def test_the_tester_knows_the_ring_of_the_duts_nic(
    kernel: bool, driver_has: int | None, wanted: int | None, told: int | None
) -> None:
    machine = Borrower()
    machine.ring = driver_has
    driver = "ixgbe" if kernel else "vfio-pci"
    plan = Plan(
        scenario=Scenario(
            deployment=make_deployment("phy2phy"),
            vswitch="bridge",
            traffic=TrafficProfile(),
            options=SwitchOptions(rx_descriptors=wanted),
        ),
        testbed=Testbed(nics=CABLES),
        wire="nic",
        placement=Placement(mode="dedicated", reason="", cores={"tester": (0,)}, housekeeping=(0,)),
        memory=(),
        nics=(
            NicUse(wire=0, side="tester", pci=TESTER0, driver="ixgbe", kernel=True),
            NicUse(wire=0, side="dut", pci=DUT0, driver=driver, kernel=kernel),
        ),
    )
    tester, dut = Nic(cast("Machine", machine), plan, 0).lay()
    assert (tester.peer_ring, dut.peer_ring) == (told, None)
    port = engine_port(0, tester, plan.scenario, 1, vhost_net=False)
    assert port.rings == PortRings(KERNEL_RX_RING, told)


@pytest.mark.parametrize(
    ("scenario", "takes_all"),
    [("pvp_xdp", True), ("phy2phy_xdp", True), ("pvp_macvtap", False), ("bmp2bmp_macvlan", False)],
)
def test_a_vswitch_that_does_not_steer_takes_every_frame(
    scenario: str, takes_all: bool, tmp_path: Path
) -> None:
    """With --vnf-mode mac frames are addressed to a VNF, whose address no NIC knows."""
    settings = config.load({"vnf_mode": "mac"}, environment={}, directory=tmp_path)
    made = make_scenario(scenario, settings)
    assert made.addressing == "port"
    machine = Borrower()
    plan = Plan(
        scenario=made,
        testbed=Testbed(nics=CABLES),
        wire="nic",
        placement=Placement(mode="dedicated", reason="", cores={"tester": (0,)}, housekeeping=(0,)),
        memory=(),
        nics=(
            NicUse(wire=0, side="tester", pci=TESTER0, driver="ixgbe", kernel=True),
            NicUse(wire=0, side="dut", pci=DUT0, driver="ixgbe", kernel=True),
        ),
    )
    Nic(cast("Machine", machine), plan, 0).lay()
    assert machine.promiscuous == {TESTER0: True, DUT0: takes_all}


def test_the_end_of_a_cable_to_another_machine_is_plugged_alone() -> None:
    machine = Borrower()
    cables = (
        CableUse(cable=4, port=0, side="dut", nic=DUT0, far="a:x", in_kernel=True),
        CableUse(cable=5, port=3, side="tester", nic=TESTER0, far="a:y"),
    )
    plan = Plan(
        scenario=Scenario(
            deployment=make_deployment("phy2phy"), vswitch="bridge", traffic=TrafficProfile()
        ),
        testbed=Testbed(),
        wire="nic",
        placement=Placement(mode="dedicated", reason="", cores={"tester": (0,)}, housekeeping=(0,)),
        memory=(),
        nics=(
            NicUse(wire=0, side="dut", pci=DUT0, driver="ixgbe", kernel=True),
            NicUse(wire=3, side="tester", pci=TESTER0, driver="vfio-pci", kernel=False),
        ),
        cables=cables,
    )
    ends: dict[int, WireEnd] = {}
    deployed = SimpleNamespace(
        plan=plan,
        _nic_ends=ends,
        _wire=lambda number: Nic(cast("Machine", machine), plan, number),
    )
    assert LiveDeployment.plug_nics(cast("LiveDeployment", deployed)) == {4: 512}
    assert (ends[4].netdev, ends[4].side) == (f"of-{DUT0}", "dut")
    assert (ends[5].pci, ends[5].driver, ends[5].netdev) == (TESTER0, "vfio-pci", None)


def test_a_nic_with_a_session_is_never_taken() -> None:
    used = with_nics(facts(), tester0={"in_use": "an SSH session goes over it", "never": True})
    text = missing(used, isolated=True)
    assert "an SSH session" in text
    assert "isolated = true" not in text


def test_the_isolation_statement_says_what_it_was_used_for() -> None:
    plain = Testbed(isolation="a lab")
    assert plain.isolation_statement == "a lab"
    undeclared = Testbed(isolation="a lab", isolated=True)
    assert undeclared.isolation_statement == plain.isolation_statement
    declared = Testbed(isolation="a lab", isolated=True, nics=CABLES)
    assert declared.isolation_statement.startswith("a lab; NICs ")
