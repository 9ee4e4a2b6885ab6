"""The parts of the SR-IOV backend that need no NIC."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import facts
from tests.fakes.nics import CABLES, DUT0, DUT1, with_nics
from vnetperf.host import tc_redirect
from vnetperf.model.deployment import (
    DEPLOYMENTS,
    PHY_PORTS,
    Attachment,
    PhyPort,
    VnfPort,
    dut_mac,
    make_deployment,
    vnf_mac,
)
from vnetperf.model.errors import DutError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import NicUse, Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.planner import make_plan
from vnetperf.vswitches.sriov import Sriov
from vnetperf.vswitches.sriov.eswitch import LegacyMode
from vnetperf.vswitches.sriov.switch import phy_port_counters
from vnetperf.vswitches.sriov.virtual_functions import UNUSED_VLAN, VfPort, list_vf_specs


def scenario(deployment: str = "pvp", **changes: Any) -> Scenario:
    return Scenario(
        deployment=make_deployment(deployment, changes.pop("vnfs", None)),
        vswitch="sriov",
        vnf_mode=changes.pop("vnf_mode", "mac"),
        traffic=changes.pop("traffic", TrafficProfile()),
        addressing="port",
        **changes,
    )


def second_of(deployment: str) -> Scenario:
    whole = scenario(deployment)
    return whole.model_copy(update={"deployment": whole.deployment.site(1)})


def plan(wanted: Scenario, machine: MachineFacts | None = None) -> Plan:
    testbed = Testbed(nics=CABLES, wires=("nic",))
    return make_plan(wanted, testbed, machine or with_nics(facts()))


def layout_of(deployment: str) -> list[tuple[str, int, int, bool]]:
    found = list_vf_specs(make_deployment(deployment))
    return [(str(p.port), p.physical, p.number, p.inner) for p in found]


@pytest.mark.parametrize(
    ("deployment", "expected"),
    [
        ("phy2phy", [("phy0", 0, 0, False), ("phy1", 1, 0, False)]),
        ("pvp", [("vnf0.0", 0, 0, False), ("vnf0.1", 1, 0, False)]),
        (
            "pvvp",
            [
                ("vnf0.0", 0, 0, False),
                ("vnf0.1", 0, 1, True),
                ("vnf1.0", 0, 2, True),
                ("vnf1.1", 1, 0, False),
            ],
        ),
        (
            "pvpv",
            [
                ("vnf0.0", 0, 0, False),
                ("vnf1.0", 0, 1, False),
                ("vnf0.1", 1, 0, False),
                ("vnf1.1", 1, 1, False),
            ],
        ),
        ("p2v", [("vnf0.0", 0, 0, False)]),
        ("v2p", [("vnf0.0", 0, 0, False)]),
        ("v2v", [("vnf0.0", 0, 0, True), ("vnf1.0", 0, 1, True)]),
    ],
)
def test_a_port_is_on_the_nic_of_the_wire_it_meets(
    deployment: str, expected: list[tuple[str, int, int, bool]]
) -> None:
    assert layout_of(deployment) == expected


@given(st.sampled_from(sorted(DEPLOYMENTS)), st.integers(1, 9))
def test_every_vnf_port_is_one_function_and_numbers_have_no_gaps(name: str, vnfs: int) -> None:
    deployment = make_deployment(name, vnfs)
    found = list_vf_specs(deployment)
    assert {p.port for p in found} >= set(deployment.vnf_ports())
    assert len({p.port for p in found}) == len({p.mac for p in found}) == len(found)
    for nic in (0, 1):
        numbers = [p.number for p in found if p.physical == nic]
        assert numbers == list(range(len(numbers)))


def test_functions_have_the_addresses_that_frames_are_sent_to() -> None:
    for name in ("phy2phy", "pvp", "pvvp", "pvpv", "p2v", "v2v"):
        wanted = scenario(name)
        macs = {place.mac for place in list_vf_specs(wanted.deployment)}
        assert {stream.eth_dst for stream in wanted.streams} <= macs
    by_port = {p.port: p.mac for p in list_vf_specs(make_deployment("pvp"))}
    assert by_port[VnfPort(vnf=0, index=1)] == vnf_mac(VnfPort(vnf=0, index=1))
    assert {p.mac for p in list_vf_specs(make_deployment("phy2phy"))} == {
        dut_mac(p) for p in PHY_PORTS
    }


def test_physical_ports_are_joined_only_where_no_vnf_is_between() -> None:
    a, b = PHY_PORTS
    assert tc_redirect.joined_phy_ports(make_deployment("phy2phy")) == ((a, b), (b, a))
    assert tc_redirect.joined_phy_ports(make_deployment("pvp")) == ()


@pytest.mark.parametrize(
    ("deployment", "expected"),
    [
        ("phy2phy", ["sch_ingress", "cls_matchall", "act_mirred", "functions"]),
        ("pvp", ["functions"]),
    ],
)
def test_modules_of_filters_are_undone_after_the_functions_that_have_them(
    deployment: str, expected: list[str]
) -> None:
    made: list[str] = []
    machine = MagicMock(facts=facts())
    machine.load_module.side_effect = lambda module: made.append(module.name)
    machine.make_vfs.side_effect = lambda *_: made.append("functions")
    mode = LegacyMode(machine, scenario(deployment), {}, set())
    use = NicUse(wire=0, side="dut", pci=DUT0, driver="igb", kernel=True)
    mode.make_functions(0, use, PHY_PORTS[:1])
    assert made == expected  # the last one is undone first


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (scenario("pvvp", vnf_mode="io"), "choose --vnf-mode mac"),
        (scenario("pvvp", vnf_mode="macswap"), "choose --vnf-mode mac"),
        (scenario(traffic=TrafficProfile(flows=2, vary=("eth_dst",))), "than eth_dst"),
        (scenario(options=SwitchOptions(vlan=7)), "pvp has none"),
        (scenario("v2v", options=SwitchOptions(vlan=7)), ""),
        (scenario("p2c2p"), "--set mode=switchdev takes every frame"),
        (second_of("p2c2p"), "--set mode=switchdev takes every frame"),
        (scenario("p2c2p", options=SwitchOptions(mode="switchdev")), ""),
        (scenario("pvp2pvp"), ""),
        (scenario(vnf_mode="io"), ""),
        (scenario("pvpv", vnf_mode="macswap"), ""),
    ],
)
def test_what_a_nic_cannot_switch_is_told(wanted: Scenario, said: str) -> None:
    found = Sriov.missing(with_nics(facts()), wanted)
    assert (said in found) if said else (found == "")


def test_without_sriov_the_lab_is_named() -> None:
    assert "vnetperf lab run" in Sriov.missing(facts(), scenario())


@pytest.mark.parametrize(
    ("changes", "options", "vnfs", "said"),
    [
        ({"max_vfs": 0}, {}, None, f"{DUT0} has no SR-IOV"),
        ({"max_vfs": 2}, {}, 3, f"pvpv needs 3 virtual functions of {DUT0}, which can have 2"),
        ({"iommu_group": None}, {"vf_driver": "vfio-pci"}, None, "no IOMMU, or it is off"),
        ({}, {"vf_driver": "kernel"}, None, ""),
    ],
)
def test_what_the_nics_lack_is_told(
    changes: dict[str, Any], options: dict[str, Any], vnfs: int | None, said: str
) -> None:
    machine = with_nics(facts(), dut0=changes)
    wanted = scenario("pvpv", vnfs=vnfs, options=SwitchOptions(**options))
    chosen = plan(scenario("pvpv", vnfs=vnfs)).nics
    found = Sriov.nics_missing(chosen, machine, wanted)
    assert (said in found) if said else (found == "")


def test_a_guest_needs_an_iommu_for_its_functions() -> None:
    wanted = scenario(vnf="vloop:vm")
    chosen = plan(scenario()).nics
    machine = with_nics(facts(), dut0={"iommu_group": None})
    assert "no IOMMU" in Sriov.nics_missing(chosen, machine, wanted)
    assert Sriov.nics_missing(chosen, with_nics(facts()), wanted) == ""


def test_the_plan_says_which_function_is_what() -> None:
    made = plan(scenario("pvvp", options=SwitchOptions(vlan=7)))
    assert made.wire == "nic"
    words = made.commands[f"VF 0 of {DUT0}"].split(", ")
    assert words == ["vnf0.0", "MAC 02:76:61:00:00:00", "driver vfio-pci"]
    assert made.commands[f"VF 1 of {DUT0}"].endswith("driver vfio-pci, VLAN 7")
    assert made.commands[f"VF 0 of {DUT1}"].startswith("vnf1.1")
    assert [n.driver for n in made.nics if n.side == "dut"] == ["igb", "igb"]


@pytest.mark.parametrize(
    ("deployment", "nic", "options", "driver"),
    [
        ("pvp", {}, {}, "vfio-pci"),
        ("pvp", {}, {"vf_driver": "kernel"}, "kernel"),
        ("pvp", {"iommu_group": None}, {}, "kernel"),
        ("phy2phy", {}, {}, "kernel"),
    ],
)
def test_functions_go_to_programs_where_they_can(
    deployment: str, nic: dict[str, Any], options: dict[str, Any], driver: str
) -> None:
    machine = with_nics(facts(), dut0=nic)
    made = plan(scenario(deployment, options=SwitchOptions(**options)), machine)
    assert f"driver {driver}" in made.commands[f"VF 0 of {DUT0}"]


def test_a_ports_counters_are_those_of_the_wire() -> None:
    statistics = {"rx_packets": 7, "tx_packets": 5, "rx_missed_errors": 2, "rx_bytes": 448}
    found = phy_port_counters("phy0", "igb", statistics)
    assert found is not None
    assert (found.port, found.rx, found.tx, found.rx_dropped) == ("phy0", 7, 5, 2)
    assert phy_port_counters("phy0", "some_driver", statistics) is None
    assert (
        phy_port_counters("phy0", "ice", statistics) is None
    )  # an older driver without these names


def test_ports_of_a_driver_with_kinds_of_frames_are_summed() -> None:
    names = [f"port.{way}_{kind}cast" for way in ("rx", "tx") for kind in ("uni", "multi", "broad")]
    found = phy_port_counters("phy1", "i40e", {name: 10**n for n, name in enumerate(names)})
    assert found is not None
    assert (found.rx, found.tx) == (111, 111000)


def test_only_physical_ports_are_named_phy() -> None:
    assert all(isinstance(p.port, PhyPort) for p in list_vf_specs(make_deployment("phy2phy")))


class Netlink:
    """A NIC's driver without link states of virtual functions, as igb's."""

    def __init__(self) -> None:
        self.vlans: dict[int, int] = {}
        self.links: dict[str, bool] = {}
        self.netns = Path("/nowhere")

    def try_configure_vf(self, name: str, number: int, netns: Path, **settings: Any) -> bool:
        del name, number, netns
        return "link" not in settings

    def configure_vf(self, name: str, number: int, netns: Path, **settings: Any) -> None:
        del name, netns
        self.vlans[number] = settings["vlan"]

    def set_link(self, name: str, *, up: bool) -> None:
        self.links[name] = up

    def link(self, name: str) -> Any:
        return SimpleNamespace(carrier=self.links.get(name, True))

    def link_statistics(self) -> dict[str, Any]:
        return dict.fromkeys(("f0", "f1"), SimpleNamespace(rx=5, tx=7, rx_dropped=1))


def deployed(monkeypatch: pytest.MonkeyPatch, wanted: Scenario) -> tuple[Any, Netlink]:
    netlink = Netlink()
    monkeypatch.setattr("vnetperf.vswitches.sriov.virtual_functions.vfs", netlink)
    monkeypatch.setattr("vnetperf.vswitches.sriov.switch.vfs.read_vfs", lambda *_: ())
    statistics = {"rx_packets": 7, "tx_packets": 5}
    monkeypatch.setattr(
        "vnetperf.vswitches.sriov.switch.ethtool.statistics", lambda *_, **__: statistics
    )
    switch: Any = Sriov(netlink, plan(wanted))  # type: ignore[arg-type]  # a double
    found = list_vf_specs(wanted.deployment)
    switch.eswitch.parents = {place.physical: f"pf{place.physical}" for place in found}
    for number, place in enumerate(found):
        function = VfPort(place, "", f"pf{place.physical}", netdev=f"f{number}")
        switch.functions[str(place.port)] = function
    return switch, netlink


@pytest.mark.parametrize(("deployment", "vlan"), [("pvp", 0), ("v2v", 7)])
def test_a_function_that_was_cut_off_comes_back_into_its_vlan(
    deployment: str, vlan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SwitchOptions(vlan=vlan or None)
    switch, netlink = deployed(monkeypatch, scenario(deployment, options=options))
    port = VnfPort(vnf=0, index=0)
    switch.remove_port(port)
    assert netlink.vlans == {0: UNUSED_VLAN}
    switch.add_vnf_port(Attachment(port=port, kind="vf"))
    assert netlink.vlans == {0: vlan}


def test_a_removed_port_is_no_port_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, _ = deployed(monkeypatch, scenario())
    assert {c.port for c in switch.counters()} == {"phy0", "phy1", "vnf0.0", "vnf0.1"}
    switch.remove_port(VnfPort(vnf=0, index=0))
    switch.remove_port(PHY_PORTS[1])
    assert {c.port for c in switch.counters()} == {"phy0", "vnf0.1"}
    assert switch.links_down() == ()
    for gone in (VnfPort(vnf=0, index=0), PHY_PORTS[1], VnfPort(vnf=3, index=0)):
        with pytest.raises(DutError, match=r"there is no port .*accepted: phy0, vnf0\.1"):
            switch.remove_port(gone)


def test_what_a_function_sends_the_switch_takes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, _ = deployed(monkeypatch, scenario())
    found = next(c for c in switch.counters() if c.port == "vnf0.0")
    assert (found.rx, found.tx, found.tx_dropped) == (7, 5, 1)


def test_frames_that_a_mellanox_port_had_no_room_for_are_drops() -> None:
    found = phy_port_counters(
        "phy0",
        "mlx5_core",
        {"rx_packets_phy": 3, "tx_packets_phy": 2, "rx_discards_phy": 4},
    )
    assert found is not None
    assert found.rx_dropped == 4
