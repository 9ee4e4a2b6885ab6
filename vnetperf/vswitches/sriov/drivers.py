"""Which driver a virtual function goes to, and what keeps it from one: pure."""

from __future__ import annotations

from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import NicUse, Plan
from vnetperf.model.ports import PhyPort
from vnetperf.vswitches.sriov.layout import Place

VFIO = "vfio-pci"


def why_no_vfio(use: NicUse, facts: MachineFacts) -> str:
    """Why virtual functions of a NIC cannot be given to programs.

    Args:
        use: The NIC.
        facts: The machine.

    Returns:
        "" when they can.
    """
    nic = facts.nic(use.pci)
    if nic is None or nic.iommu_group is None:
        return "the machine has no IOMMU, or it is off (boot with intel_iommu=on or amd_iommu=on)"
    for module in ("vfio_pci", "vfio_iommu_type1"):
        if trouble := facts.missing_module(module, "a virtual function in a program"):
            return trouble
    return ""


def driver_of(place: Place, plan: Plan, facts: MachineFacts | None) -> str:
    """Driver of a virtual function: the kernel's where tc joins them, a program's where it can.

    Args:
        place: The virtual function.
        plan: The plan.
        facts: The machine; None when it is not known.

    Returns:
        "vfio-pci" or "kernel".
    """
    if isinstance(place.port, PhyPort):
        return "kernel"
    if plan.scenario.options.vf_driver is not None:
        return plan.scenario.options.vf_driver
    use = plan.nic(place.physical, "dut")
    return "kernel" if use is None or facts is None or why_no_vfio(use, facts) else VFIO
