"""Which drivers NICs get, and where pollers go for them."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import facts
from tests.fakes.nics import CABLES, DUT0, with_nics
from vnetperf.deployment.placement import place_roles
from vnetperf.deployment.planner import choose_nics, preferred_node, wires_of
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import NicUse, RoleDemand, Scenario
from vnetperf.model.testbed import CoresConfig, MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile

NO_IOMMU: dict[str, Any] = {"iommu_group": None}


class Can:
    def __init__(self, *drivers: str) -> None:
        self.nic_drivers = drivers


class Program:
    name: ClassVar[str] = "program"
    capabilities: ClassVar[Can] = Can("vfio-pci", "kernel")


class InKernel:
    name: ClassVar[str] = "inkernel"
    capabilities: ClassVar[Can] = Can("kernel")


class OnlyVfio:
    name: ClassVar[str] = "onlyvfio"
    capabilities: ClassVar[Can] = Can("vfio-pci")


def scenario(deployment: str = "pvp", vswitch: str = "fake") -> Scenario:
    graph = make_deployment(deployment)
    return Scenario(deployment=graph, vswitch=vswitch, traffic=TrafficProfile())


def choose(
    machine: MachineFacts, dut: Any = InKernel, wanted: Scenario | None = None
) -> tuple[NicUse, ...]:
    return choose_nics(wanted or scenario(), Testbed(nics=CABLES), machine, Program, dut)


def test_each_end_gets_the_first_driver_it_can_have() -> None:
    chosen = choose(with_nics(facts()))
    assert [(n.wire, n.side, n.driver, n.kernel) for n in chosen] == [
        (0, "tester", "vfio-pci", False),
        (0, "dut", "igb", True),
        (1, "tester", "vfio-pci", False),
        (1, "dut", "igb", True),
    ]
    assert str(chosen[1]) == f"dut {DUT0} (enp65s0) through igb, node 1"


@pytest.mark.parametrize(
    ("changes", "modules", "driver", "note"),
    [
        ({}, {"vfio_pci": "gone"}, "igb", "the kernel has no module vfio_pci: gone"),
        ({}, {"vfio_iommu_type1": "gone"}, "igb", "vfio_iommu_type1"),
        (NO_IOMMU, {}, "uio_pci_generic", "without protection by an IOMMU"),
        (NO_IOMMU, {"uio_pci_generic": "gone"}, "igb", "no IOMMU"),
        ({**NO_IOMMU, "physical": "0000:01:00.0"}, {}, "igb", "takes no virtual function"),
        ({"group_mates": ("0000:41:00.1 (ahci)",)}, {}, "igb", "0000:41:00.1 (ahci)"),
        ({"kernel_driver": "mlx5_core"}, {}, "mlx5_core", "on top of mlx5_core"),
    ],
)
def test_why_not_the_preferred_driver_is_noted(
    changes: dict[str, Any], modules: dict[str, str], driver: str, note: str
) -> None:
    machine = with_nics(facts(modules=modules), dut0=changes)
    use = choose(machine, Program)[1]
    assert use.driver == driver
    assert note in use.note


def test_no_driver_at_all_is_told_with_every_reason() -> None:
    bare = {"kernel_driver": "", "driver": "vfio-pci", **NO_IOMMU}
    machine = with_nics(facts(modules={"uio_pci_generic": "not there"}), dut0=bare)
    for dut, said in ((OnlyVfio, "no IOMMU"), (InKernel, "the kernel has none for it")):
        with pytest.raises(CapabilityError, match=said) as caught:
            choose(machine, dut)
        assert caught.value.where == "nics[0].dut"


def test_wires_are_those_of_physical_ports_or_the_first() -> None:
    assert wires_of(scenario()) == (0, 1)
    assert wires_of(scenario("p2v")) == (0,)
    assert wires_of(scenario("v2v")) == (0,)
    assert wires_of(scenario(vswitch="")) == (0,)


def test_pollers_prefer_the_node_of_the_duts_nics() -> None:
    chosen = choose(with_nics(facts()))
    assert preferred_node(chosen) == 1
    assert preferred_node(chosen[:1]) == 0
    assert preferred_node(()) is None
    unknown = choose(with_nics(facts(), dut0={"node": -1}, dut1={"node": -1}))
    assert preferred_node(unknown) == 0


@given(
    st.integers(1, 12), st.integers(1, 3), st.integers(1, 4), st.sampled_from(["auto", "shared"])
)
def test_a_preference_moves_pollers_but_never_makes_them_share(
    cores: int, nodes: int, wanted: int, policy: Any
) -> None:
    machine = facts(cores * nodes, nodes=nodes)
    demands = tuple(RoleDemand(role=f"r{n}", group="vnf") for n in range(wanted))
    config = CoresConfig(policy=policy)
    plain = place_roles(demands, config, machine)
    for near in range(nodes):
        placement = place_roles(demands, config, machine, near)
        assert placement.mode == plain.mode
        if cores > wanted:  # room for all and the system on any node
            assert placement.node == near
        used = {c.node for c in machine.cpus for on in placement.cores.values() if c.cpu in on}
        assert ("the NICs are on node" in placement.reason) == (used != {near})
