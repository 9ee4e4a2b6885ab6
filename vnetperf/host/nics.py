"""PCI network devices for the planner, and how a run takes one."""

from __future__ import annotations

from pathlib import Path

from vnetperf.host import modules, netdevs, nic_use, pci, pci_drivers, vfs
from vnetperf.host.journal import Journal
from vnetperf.model.errors import HostError
from vnetperf.model.machine import NicFacts


def inventory() -> tuple[NicFacts, ...]:
    """All PCI network devices; nothing is changed.

    Returns:
        Devices by address, virtual functions among them.
    """
    uses = nic_use.interface_uses()
    return tuple(_facts(nic, uses) for nic in pci.nics())


def _facts(nic: pci.PciNic, uses: dict[str, nic_use.Use]) -> NicFacts:
    found = [uses[name] for name in nic.interfaces if name in uses]
    use = max(found, key=lambda u: u.session, default=nic_use.Use(""))
    mates = pci_drivers.group_mates(nic.address)
    return NicFacts(
        address=nic.address,
        driver=nic.driver,
        kernel_driver=pci_drivers.kernel_driver(nic.address),
        interfaces=nic.interfaces,
        node=nic.node,
        vfs=nic.vfs,
        max_vfs=nic.max_vfs,
        physical=nic.physical,
        iommu_group=nic.iommu_group,
        group_mates=tuple(f"{address} ({driver})" for address, driver in mates.items()),
        in_use=use.reason or _held(nic) or vfs.in_use(nic.address, uses),
        session=use.session,
    )


def _held(nic: pci.PciNic) -> str:
    """Who has a device that a program drives, or a namespace that hides its interface."""
    if nic.driver in pci_drivers.USER_DRIVERS:
        holder = "" if nic.iommu_group is None else nic_use.holder_of_vfio(nic.iommu_group)
        return f"{holder} has it through {nic.driver}" if holder else ""
    if nic.driver and not nic.interfaces and nic.driver == pci_drivers.kernel_driver(nic.address):
        return "its interface is in another network namespace, or its driver made none"
    return ""


def give(journal: Journal, address: str, driver: str, *, isolated: bool = False) -> None:
    """Give a device to a driver for programs; undoing gives it back with its interface.

    Args:
        journal: The run's journal.
        address: PCI address.
        driver: "vfio-pci" or "uio_pci_generic".
        isolated: It may be taken even if it carries a route.

    Raises:
        HostError: The driver is not there or does not take it; everything is as it was then.
    """
    for module in {"vfio-pci": ("vfio_pci", "vfio_iommu_type1")}.get(driver, (driver,)):
        modules.load_module(journal, module)
    netdevs.keep(journal, address)
    pci.bind_driver(journal, address, driver, isolated=isolated)


def borrow(
    journal: Journal, address: str, netns: Path, *, name: str = "", isolated: bool = False
) -> str:
    """Move the kernel interface of a device into a namespace; undoing brings it back as it was.

    Args:
        journal: The run's journal.
        address: PCI address.
        netns: The namespace.
        name: New name; "" keeps it.
        isolated: It may be taken even if it carries a route.

    Returns:
        Name of the interface there; it is down.

    Raises:
        HostError: The kernel has no driver for it, or refuses.
    """
    before = pci.nic(address)
    wanted = pci_drivers.kernel_driver(address)
    if not wanted:
        raise HostError(
            "the kernel has no network driver for the device",
            where=address,
            cure="install the package with this kernel's modules",
        )
    if before.driver != wanted:
        modules.load_module(journal, wanted)
        pci.bind_driver(journal, address, pci_drivers.driver_of_module(wanted), isolated=isolated)
    else:
        netdevs.keep(journal, address, netns=netns)
    return netdevs.move(address, netns, name=name)
