"""NICs of a machine: inventory, binding to a user-space driver, borrowing for a run."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial
from pathlib import Path

from vnetperf.host import kernel, links
from vnetperf.host.facts import attempt
from vnetperf.host.journal import Journal
from vnetperf.host.nic import netdev, pci, usage, vfs
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import NicFacts


def inventory(troubles: MutableMapping[str, str] | None = None) -> tuple[NicFacts, ...]:
    """All PCI network devices; nothing is changed.

    Nothing takes one of which it is not known who uses it; `troubles` gets the reason.
    """
    reasons: dict[str, str] = {}
    uses, named = attempt(usage.interface_uses), attempt(links.altnames)
    altnames: dict[str, tuple[str, ...]] = {} if isinstance(named, str) else named
    all_facts = []
    for nic in pci.nics():
        facts = attempt(partial(_nic_facts, nic, uses)) if not isinstance(uses, str) else uses
        if isinstance(facts, str):
            reasons[f"NIC {nic.address}"] = facts
            facts = NicFacts(
                address=nic.address,
                driver=nic.driver,
                interfaces=nic.interfaces,
                node=nic.node,
                physical=nic.physical,
                in_use=f"who uses it is {facts}",
                never=True,
            )
        names = tuple(name for interface in nic.interfaces for name in altnames.get(interface, ()))
        all_facts.append(facts.model_copy(update={"altnames": names}))
    if troubles is not None:
        troubles.update(reasons)
    return tuple(all_facts)


def _nic_facts(nic: pci.PciNic, uses: dict[str, usage.InterfaceUse]) -> NicFacts:
    interface_uses = [uses[name] for name in nic.interfaces if name in uses]
    use = max(interface_uses, key=lambda u: (u.session, u.lost), default=usage.InterfaceUse(""))
    mates = pci.group_mates(nic.address)
    vfs_in_use = vfs.explain_vf_use(nic.address, uses)
    return NicFacts(
        address=nic.address,
        driver=nic.driver,
        kernel_driver=pci.kernel_driver(nic.address),
        interfaces=nic.interfaces,
        node=nic.node,
        vfs=nic.vfs,
        max_vfs=nic.max_vfs,
        physical=nic.physical,
        iommu_group=None if nic.unprotected else nic.iommu_group,
        intx=nic.intx,
        group_mates=tuple(f"{address} ({driver})" for address, driver in mates.items()),
        in_use=use.reason or _other_use(nic) or vfs_in_use,
        vfs_in_use=vfs_in_use,
        never=use.never or _hidden(nic),
    )


def _other_use(nic: pci.PciNic) -> str:
    """Who has a device that a program drives, or a namespace that hides its interface."""
    # A kernel driver's too: by verbs a program drives a device that keeps its interface.
    if holder := usage.find_holder(usage.device_files(nic.address, nic.iommu_group, sys=pci.SYS)):
        return f"{holder} has it through {nic.driver}"
    if nic.driver in pci.USER_DRIVERS:
        return ""
    return _ELSEWHERE if _hidden(nic) else ""


_ELSEWHERE = "its interface is in another network namespace, or its driver made none"


def _hidden(nic: pci.PciNic) -> bool:
    """Whether nothing is known of its interface: it would not come back to where it is."""
    without = bool(nic.driver) and not nic.interfaces
    return without and nic.driver == pci.kernel_driver(nic.address)


def require_free(address: str, *, isolated: bool) -> None:
    """Refuse a device that is in use now, whatever was seen when the run was planned."""
    now = _nic_facts(pci.nic(address), usage.interface_uses())
    if reason := now.refusal(isolated=isolated):
        raise HostError(reason, where=f"NIC {address}")


def bind_nic(journal: Journal, address: str, driver: str, *, isolated: bool = False) -> None:
    """Give a device to a driver for programs; undoing gives it back with its interface."""
    for module in {"vfio-pci": ("vfio_pci", "vfio_iommu_type1")}.get(driver, (driver,)):
        kernel.load_module(journal, module)
    now = pci.nic(address)
    with netdev.interface_noted(journal, address):
        if driver == "vfio-pci" and (now.iommu_group is None or now.unprotected):
            kernel.write_value(journal, Path("/") / kernel.NOIOMMU, "Y")
        change_driver(journal, address, driver, isolated=isolated)


def change_driver(
    journal: Journal, address: str, driver: str, *, isolated: bool = False, sys: Path = pci.SYS
) -> None:
    """Give a device to another driver; its virtual functions end with the one that has it."""
    now = pci.nic(address, sys=sys)
    if now.vfs and now.driver not in ("", driver):
        # Before it goes, so that they are undone when it is back: it alone makes them anew.
        vfs.end_vfs(journal, address, sys=sys)
    pci.bind_driver(journal, address, driver, isolated=isolated, sys=sys)


def borrow_nic(
    journal: Journal, address: str, netns: Path, *, name: str = "", isolated: bool = False
) -> str:
    """Move the kernel interface of a device into a namespace; undoing brings it back as it was."""
    before = pci.nic(address)
    driver = pci.kernel_driver(address)
    if not driver:
        raise HostError(
            "the kernel has no network driver for the device",
            where=address,
            cure="install the package with this kernel's modules",
        )
    if before.driver != driver:
        kernel.load_module(journal, driver)
        change_driver(journal, address, pci.find_module_driver(driver), isolated=isolated)
        return netdev.move_interface(address, netns, name=name)
    with netdev.interface_noted(journal, address, netns=netns):
        moved = netdev.move_interface(address, netns, name=name)
        journal.require_heard(f"interface {moved} of {address} moved away")
    return moved


def borrow_interface(journal: Journal, name: str, netns: Path, *, isolated: bool = False) -> None:
    """Move an interface of any kind into a namespace; undoing brings it back as it was."""
    use = usage.interface_uses().get(name)
    if use is not None and (use.never or not isolated):
        raise HostError(
            f"{name} is in use: {use.reason}",
            where=f"interface {name}",
            cure="name another interface"
            if use.never
            else "name an interface that nothing uses, or set isolated = true if it is in an "
            "isolated test environment",
        )
    netdev.take_interface(journal, name, netns)
