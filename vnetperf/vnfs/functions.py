"""Virtual functions for VNFs that work on the kernel's interfaces."""

from __future__ import annotations

from vnetperf import registry
from vnetperf.model.machine import MachineFacts
from vnetperf.model.scenario import Scenario

KIND = "vf"


def trouble(facts: MachineFacts, scenario: Scenario, what: str) -> str:
    """Whether a VNF would be given PCI devices where it needs interfaces.

    Args:
        facts: The machine.
        scenario: The scenario.
        what: What needs interfaces, for the message: "mode route".

    Returns:
        "" when it is given interfaces; otherwise why not, with the cure.
    """
    offered = registry.load("vswitches", scenario.vswitch).capabilities.attachments
    driver = scenario.options.vf_driver
    if KIND not in offered or driver == "kernel":
        return ""
    if driver is not None:
        why = f"vf_driver is {driver}"
    elif any(nic.max_vfs and nic.iommu_group is not None for nic in facts.nics):
        why = "where there is an IOMMU they go to vfio-pci"
    else:
        return ""
    return (
        f"{what} needs interfaces of the kernel, and virtual functions would be PCI devices "
        f"({why}); --set vf_driver=kernel"
    )
