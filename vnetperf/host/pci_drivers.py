"""Which drivers a PCI device can have: the kernel's by its identity, a program's by its group."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from vnetperf.host import pci
from vnetperf.host.modules import MODULES

#: Drivers that give a device to a program; the kernel makes no interface of it then.
USER_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub")
#: Kernel drivers that DPDK works on top of: their devices are not given to vfio-pci.
BIFURCATED = ("mlx4_core", "mlx5_core", "mana")
BRIDGE_CLASS = "0x06"


def kernel_driver(address: str, *, sys: Path = pci.SYS) -> str:
    """The kernel's network driver of a device: the one that has it, or that would take it.

    Args:
        address: PCI address.
        sys: Root of sysfs.

    Returns:
        Name of the driver or, while another driver has the device, of its module; "" when the
        kernel knows none.
    """
    now = pci.nic(address, sys=sys).driver
    if now and now not in USER_DRIVERS:
        return now
    alias = (sys / "bus/pci/devices" / address / "modalias").read_text().strip()
    return next((m for pattern, m in _aliases() if fnmatchcase(alias, pattern)), "")


def driver_of_module(module: str, *, sys: Path = pci.SYS) -> str:
    """The PCI driver that a loaded module has.

    Args:
        module: Name of the module.
        sys: Root of sysfs.

    Returns:
        Name of the driver; the module's own when none says it belongs to it.
    """
    for driver in sorted((sys / "bus/pci/drivers").glob("*")):
        link = driver / "module"
        if link.exists() and link.resolve().name == module.replace("-", "_"):
            return driver.name
    return module


def group_mates(address: str, *, sys: Path = pci.SYS) -> dict[str, str]:
    """Other devices that vfio hands out only together with this one, and that a driver has.

    Args:
        address: PCI address.
        sys: Root of sysfs.

    Returns:
        PCI address -> driver, of those with a driver of the kernel; bridges are left out, since
        vfio does not care for them.
    """
    found = {}
    for path in sorted((sys / "bus/pci/devices" / address / "iommu_group/devices").glob("*")):
        driver = path / "driver"
        name = driver.resolve().name if driver.exists() else ""
        bridge = (path / "class").read_text().startswith(BRIDGE_CLASS)
        if path.name != address and name and name not in USER_DRIVERS and not bridge:
            found[path.name] = name
    return found


@cache
def _aliases() -> tuple[tuple[str, str], ...]:
    """Patterns of PCI devices and their modules, of the running kernel."""
    file = MODULES / os.uname().release / "modules.alias"
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return ()
    return tuple((w[1], w[2]) for w in map(str.split, lines) if len(w) == 3 and w[1][:4] == "pci:")
