"""Which NICs a scenario takes, and through which driver: pure, with the reason for each no."""

from __future__ import annotations

from typing import Any, Literal

from vnetperf.model.errors import CapabilityError
from vnetperf.model.machine import MachineFacts, NicFacts
from vnetperf.model.plan import NicUse
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed

#: Kernel drivers that DPDK works on top of: vfio-pci is nothing for their devices.
BIFURCATED = ("mlx4_core", "mlx5_core", "mana")


def choose_nics(
    scenario: Scenario, testbed: Testbed, facts: MachineFacts, tester: Any, dut: Any
) -> tuple[NicUse, ...]:
    """Choose drivers for the NICs of a scenario's wires; the wire has checked that they are there.

    Args:
        scenario: Says which wires are laid.
        testbed: Names the NICs.
        facts: The machine.
        tester: Class of the generator.
        dut: Class of the vSwitch; of the generator when it is looped to itself.

    Returns:
        Two entries a wire, the tester's first.

    Raises:
        CapabilityError: An end can use its NIC through no driver, or the vSwitch wants more of it
            than it has.
    """
    uses = []
    for wire in wires_of(scenario):
        config = testbed.nics[wire]
        ends: tuple[tuple[Literal["tester", "dut"], str, Any], ...] = (
            ("tester", config.tester, tester),
            ("dut", config.dut, dut),
        )
        for side, name, end in ends:
            nic = facts.nic(name)
            if nic is None:
                raise CapabilityError(f"there is no NIC {name}", where=f"nics[{wire}].{side}")
            uses.append(_use(wire, side, nic, end, facts))
    chosen = tuple(uses)
    if problem := getattr(dut, "nics_missing", lambda *_: "")(chosen, facts, scenario):
        raise CapabilityError(problem, where=dut.name)
    return chosen


def wires_of(scenario: Scenario) -> tuple[int, ...]:
    """Numbers of the wires whose NICs a scenario takes.

    Args:
        scenario: The scenario.

    Returns:
        One for each physical port; the first where there is none, for a vSwitch that lives in a
        NIC, and for a generator looped to itself.
    """
    if not scenario.vswitch:
        return (0,)
    return tuple(port.index for port in scenario.deployment.phy_ports) or (0,)


def preferred_node(nics: tuple[NicUse, ...]) -> int | None:
    """The NUMA node that pollers should be on: the DUT's NICs', or else the tester's.

    Args:
        nics: NICs of a plan.

    Returns:
        The node; None when there are no NICs or the firmware does not say.
    """
    for side in ("dut", "tester"):
        nodes = [nic.node for nic in nics if nic.side == side and nic.node >= 0]
        if nodes:
            return max(sorted(set(nodes)), key=nodes.count)
    return None


def _use(
    wire: int, side: Literal["tester", "dut"], nic: NicFacts, end: Any, facts: MachineFacts
) -> NicUse:
    reasons: list[str] = []
    wanted: tuple[str, ...] = end.capabilities.nic_drivers
    for kind in wanted:
        driver, reason = _driver(kind, nic, facts)
        if driver:
            return NicUse(
                wire=wire,
                side=side,
                pci=nic.address,
                driver=driver,
                kernel=kind == "kernel",
                interface=next(iter(nic.interfaces), ""),
                node=nic.node,
                note="; ".join(reasons or ([reason] if reason else [])),
            )
        reasons.append(f"not {kind}: {reason}")
    raise CapabilityError(
        f"{end.name} can use {nic.address} through no driver: "
        + ("; ".join(reasons) or f"{end.name} uses no NICs"),
        where=f"nics[{wire}].{side}",
        accepted=", ".join(wanted) or "none",
    )


def _driver(kind: str, nic: NicFacts, facts: MachineFacts) -> tuple[str, str]:
    """The driver of a kind that a NIC can have, with a note; or "" and why not."""
    if kind == "kernel":
        cure = "install the package with this kernel's modules"
        return nic.kernel_driver, "" if nic.kernel_driver else f"the kernel has none for it; {cure}"
    if nic.kernel_driver in BIFURCATED:
        return "", f"programs use it on top of {nic.kernel_driver}"
    if nic.iommu_group is None:
        return _without_iommu(nic, facts)
    trouble = ""
    for module in ("vfio_pci", "vfio_iommu_type1"):
        if reason := facts.modules.get(module, ""):
            trouble = trouble or f"the kernel has no module {module}: {reason}"
    if nic.group_mates and not trouble:
        trouble = (
            f"IOMMU group {nic.iommu_group} is handed out as a whole, and the kernel drives "
            f"{', '.join(nic.group_mates)} of it; put the NIC into another slot"
        )
    return ("", trouble) if trouble else ("vfio-pci", "")


def _without_iommu(nic: NicFacts, facts: MachineFacts) -> tuple[str, str]:
    why = "the machine has no IOMMU, or it is off (intel_iommu=on, amd_iommu=on)"
    if nic.physical:
        return "", f"{why}, and uio_pci_generic takes no virtual function"
    if trouble := facts.modules.get("uio_pci_generic", ""):
        return "", f"{why}; nor is there uio_pci_generic: {trouble}"
    return "uio_pci_generic", f"without protection by an IOMMU: {why}"
