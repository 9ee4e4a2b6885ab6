"""Which drivers NICs get, and where pollers go for them."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import facts
from tests.fakes.nics import CABLES, DUT0, with_nics
from vnetperf.host.nic import vfs
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import NicUse, RoleDemand, Scenario
from vnetperf.model.testbed import CoresConfig, MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.host_plan import choose_nics, list_wires, preferred_node
from vnetperf.planning.placement import place_roles
from vnetperf.traffic.trex.driver import Trex
from vnetperf.wires.nic import Nic

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
    machine: MachineFacts,
    dut: Any = InKernel,
    wanted: Scenario | None = None,
    tester: Any = Program,
) -> tuple[NicUse, ...]:
    return choose_nics(wanted or scenario(), Testbed(nics=CABLES), machine, tester, dut)


def test_each_end_gets_the_first_driver_it_can_have() -> None:
    chosen = choose(with_nics(facts()))
    assert [(n.wire, n.side, n.driver, n.kernel) for n in chosen] == [
        (0, "tester", "vfio-pci", False),
        (0, "dut", "igb", True),
        (1, "tester", "vfio-pci", False),
        (1, "dut", "igb", True),
    ]
    assert chosen[1].node == 1
    for words in ("dut", DUT0, "enp65s0", "igb"):
        assert words in str(chosen[1])


@pytest.mark.parametrize(
    ("changes", "modules", "driver", "note"),
    [
        ({}, {"vfio_pci": "gone"}, "igb", "the kernel has no module vfio_pci: gone"),
        ({}, {"vfio_iommu_type1": "gone"}, "igb", "vfio_iommu_type1"),
        ({**NO_IOMMU, "intx": True}, {}, "uio_pci_generic", "without protection by an IOMMU"),
        ({**NO_IOMMU, "intx": True}, {"uio_pci_generic": "gone"}, "igb", "no IOMMU"),
        ({**NO_IOMMU, "physical": "0000:01:00.0"}, {}, "igb", "as virtual functions are"),
        (NO_IOMMU, {}, "igb", "without an interrupt line"),
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


@pytest.mark.parametrize(
    ("changes", "modules", "driver"),
    [
        ({"intx": True}, {}, "uio_pci_generic"),
        ({"intx": True}, {"uio_pci_generic": "gone"}, "vfio-pci"),
        ({}, {}, "vfio-pci"),
        ({"physical": "0000:01:00.0"}, {}, "vfio-pci"),
        ({}, {"vfio_pci": "gone"}, "igb"),
    ],
)
def test_vfio_may_do_without_an_iommu(
    changes: dict[str, Any], modules: dict[str, str], driver: str
) -> None:
    """As NICs of clouds and virtual functions must, which have no interrupt line."""
    machine = with_nics(facts(modules=modules, noiommu=True), dut0={**NO_IOMMU, **changes})
    use = choose(machine, Program)[1]
    assert use.driver == driver
    assert "no IOMMU" in use.note


@pytest.mark.parametrize("noiommu", [True, False])
def test_a_kernel_that_is_locked_down_gives_no_registers_to_uio(*, noiommu: bool) -> None:
    """Secure Boot: the binding works, and the program that maps the registers then does not."""
    locked = facts(lockdown="integrity", noiommu=noiommu)
    use = choose(with_nics(locked, dut0={**NO_IOMMU, "intx": True}), Program)[1]
    assert use.driver == ("vfio-pci" if noiommu else "igb")
    assert "locked down for integrity" in use.note


def test_no_driver_at_all_is_told_with_every_reason() -> None:
    bare = {"kernel_driver": "", "driver": "vfio-pci", **NO_IOMMU}
    machine = with_nics(facts(modules={"uio_pci_generic": "not there"}), dut0=bare)
    for dut, said in ((OnlyVfio, "no IOMMU"), (InKernel, "the kernel has none for it")):
        with pytest.raises(CapabilityError, match=said) as caught:
            choose(machine, dut)
        assert caught.value.where == "nics[0].dut"


@pytest.mark.parametrize("isolated", [False, True])
def test_a_nic_with_several_interfaces_is_not_planned(*, isolated: bool) -> None:
    """It was refused only when it was to be taken, in the same words."""
    two = {"interfaces": ("ens1", "ens1d1")}
    machine = with_nics(facts(is_root=True), dut0=two)
    testbed = Testbed(nics=CABLES, isolated=isolated)
    why = Nic.missing(machine, scenario(), testbed)
    for words in ("nics[0].dut", DUT0, "2 interfaces (ens1, ens1d1)", "name another NIC"):
        assert words in why


@pytest.mark.parametrize(
    ("tester", "deployment", "drivers"),
    [
        (Trex, "phy2phy", ["vfio-pci", "vfio-pci"]),
        (Trex, "p2v", ["igb"]),
        (Program, "p2v", ["vfio-pci"]),
    ],
)
def test_nics_and_other_devices_are_mixed_by_who_can(
    tester: Any, deployment: str, drivers: list[str]
) -> None:
    """TRex ends where its configuration has both."""
    chosen = choose(with_nics(facts()), Program, scenario(deployment), tester)
    assert [use.driver for use in chosen if use.side == "tester"] == drivers
    assert {use.driver for use in chosen if use.side == "dut"} == {"vfio-pci"}


def test_a_nic_that_only_the_kernel_can_drive_takes_the_other_one_along() -> None:
    machine = with_nics(facts(), tester0={"kernel_driver": "mlx5_core", "driver": "mlx5_core"})
    of_tester = [use for use in choose(machine, tester=Trex) if use.side == "tester"]
    assert [use.driver for use in of_tester] == ["mlx5_core", "igb"]
    assert "beside another device" in of_tester[1].note
    mixed = [use.driver for use in choose(machine) if use.side == "tester"]
    assert mixed == ["mlx5_core", "vfio-pci"]


VFS = {"vfs": 2, "vfs_in_use": "its virtual function 0000:41:01.1 is given to vfio-pci"}


def test_virtual_functions_in_use_are_not_planned_to_end() -> None:
    """In an isolated environment too; under the driver that the NIC has they do not."""
    machine = with_nics(facts(), dut0=VFS)
    with pytest.raises(CapabilityError, match="has virtual functions already") as caught:
        choose(machine, Program)
    assert caught.value.where == "nics[0].dut"
    assert "end what uses them" in caught.value.cure
    assert choose(machine, InKernel)[1].driver == "igb"
    assert not vfs.explain_too_few_vfs(with_nics(facts()), DUT0, 2, subject="pvp", cure="")
    why = vfs.explain_too_few_vfs(machine, DUT0, 2, subject="pvp", cure="")
    assert why.startswith(f"{DUT0}: ")
    assert VFS["vfs_in_use"] in why


def test_wires_are_those_of_physical_ports_or_the_first() -> None:
    assert list_wires(scenario()) == (0, 1)
    assert list_wires(scenario("p2v")) == (0,)
    assert list_wires(scenario("v2v")) == (0,)
    assert list_wires(scenario(vswitch="")) == (0,)


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
