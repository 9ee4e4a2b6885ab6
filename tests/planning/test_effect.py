"""A variant that changes nothing is refused: it would be the same number under another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vnetperf import config
from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import Scenario, Variant
from vnetperf.model.testbed import MachineFacts
from vnetperf.planning.capability_check import check_variant_effect
from vnetperf.runner.scenarios import make_scenario

NO_VHOST = {"vhost_net": "not in this kernel"}
VM = ("vnf", "vloop:vm")


def varied(
    scenario_id: str,
    *settings: tuple[str, Any],
    modules: dict[str, str] | None = None,
    **typed: Any,
) -> Scenario:
    """The scenario of a variant, once it is found to change something."""
    variant = Variant(id="this", settings=settings)
    loaded = config.load(typed, environment={}, directory=Path("/nonexistent")).varied(variant)
    scenario = make_scenario(scenario_id, loaded, variant.id)
    facts = MachineFacts.model_construct(modules=modules or {})
    check_variant_effect(scenario, variant, facts)
    return scenario


NOTHING = {
    "phy2phy has no VNF": [
        ("phy2phy_bridge", VM),
        ("phy2phy_bridge", ("vnf_mode", "mac")),
        ("phy2phy_dpdk", ("vnf_placement", "remote")),
        ("phy2phy_dpdk", ("guest", ("hugepage_kb=0",))),
    ],
    "vepc is for a mobile core, and runs vepc": [("vepc_bridge", VM, ("guest", ("nic=e1000",)))],
    "vloop is no guest": [("pvp_dpdk", ("guest", ("nic=virtio",)))],
    "vepc is no guest": [("vepc_bridge", ("guest", ("nic=virtio",)))],
    "pvp has no mobile core": [("pvp_dpdk", ("core", "sessions=100"))],
    "pvp always has as many": [("pvp_dpdk", ("vnfs", 3))],
    "pvp has no tunnel": [("pvp_dpdk", ("tunnel", "gre"))],
    "v2v has no wires": [("v2v_dpdk", ("wire", "memif"))],
    "the host's kernel forwards": [
        (
            "pvp_bridge",
            ("vnf", "vloop:container"),
            ("vnf_mode", "bridge"),
            ("vnf_placement", "remote"),
        )
    ],
    "a function of the machine's": [("pvp_sriov", VM, ("guest", ("nic=virtio",)))],
    "attachment of the kind vhost-user": [("pvp_dpdk", VM, ("guest", ("vhost=false",)))],
}


@pytest.mark.parametrize(
    ("said", "asked"), [(said, case) for said, cases in NOTHING.items() for case in cases], ids=str
)
def test_what_has_nothing_to_act_on_is_refused(said: str, asked: tuple[Any, ...]) -> None:
    with pytest.raises(CapabilityError, match=f"changes nothing: .*{said}"):
        varied(*asked)


@pytest.mark.parametrize(
    "asked",
    [
        ("pvp_bridge", VM, ("vnf_mode", "route"), ("guest", ("nic=e1000",))),
        ("pvp_dpdk", VM, ("guest", ("hugepage_kb=0", "memory_mib=1024"))),
        ("pvp_dpdk", ("vnf_placement", "remote")),
        ("pvp_sriov", VM, ("guest", ("hugepage_kb=0",))),
        ("pvvp_dpdk", ("vnfs", 3)),
        ("vepc_bridge", ("vnf", "vepc:vm"), ("guest", ("nic=e1000",))),
        ("vepc_bridge", ("core", "sessions=100")),
        ("encap_bridge", ("tunnel", "gre")),
        ("phy2phy_dpdk", ("wire", "memif"), ("set", ("rx_queues=2",)), ("guest", ())),
    ],
    ids=str,
)
def test_what_matters_is_measured(asked: tuple[Any, ...]) -> None:
    varied(*asked)


def test_vhost_net_can_be_turned_off_only_where_it_is() -> None:
    off = ("guest", ("nic=virtio", "vhost=false"))
    varied("pvp_bridge", VM, off)
    with pytest.raises(CapabilityError, match="vhost-net is not to be had here"):
        varied("pvp_bridge", VM, off, modules=NO_VHOST)


def test_what_the_user_types_may_be_for_another_scenario() -> None:
    typed = {"vnf": "vloop:vm", "vnf_placement": "unpinned", "guest": ("vhost=false",)}
    wire = ("wire", "veth")
    made = varied("phy2phy_bridge", wire, modules=NO_VHOST, **typed)
    assert made.vnf == "vloop:vm"
    assert varied("pvp_bridge", wire, modules=NO_VHOST, **typed).has_guests
    assert varied("vepc_bridge", wire, **typed).vnf == "vepc"


def test_options_of_guests_are_no_conditions_where_there_are_none() -> None:
    options = {"vnf": "vloop:vm", "guest": ("nic=e1000",)}
    assert "guest nic = e1000" in varied("pvp_bridge", **options).conditions
    for scenario in ("phy2phy_bridge", "vepc_bridge"):
        assert not any("guest" in said for said in varied(scenario, **options).conditions)
