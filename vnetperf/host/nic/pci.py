"""NICs on the PCI bus: what they are, their kernel and user-space drivers, SR-IOV count."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from vnetperf.host.journal import Change, Journal, UndoData
from vnetperf.host.kernel import MODULES, read_number, read_text, write_value
from vnetperf.host.linux import parse_number, read_file
from vnetperf.host.nic import usage
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import HostError

SYS = Path("/sys")
NETWORK_CLASS = "0x02"
#: Virtual functions that a device can have: TotalVFs is a number of 16 bits.
MOST_VFS = 0xFFFF
#: Longest wait until a program that was ended has let go of its device, seconds.
LET_GO_S = 2.0


@dataclass(frozen=True, slots=True)
class PciNic:
    """A network device on the PCI bus.

    Attributes:
        driver: Driver that has it, empty when none has.
        node: NUMA node, -1 when the firmware does not state it.
        interfaces: Its network interfaces, none under a DPDK driver.
        max_vfs: Virtual functions it can have; 0 without SR-IOV.
        physical: Address of its physical function when it is a virtual one, else empty.
        iommu_group: Number of its IOMMU group; None without an IOMMU.
        unprotected: Whether vfio made the group, without an IOMMU, when it got the device.
        intx: Whether it has an interrupt line, by its configuration space.
    """

    address: str
    vendor: str
    device: str
    driver: str
    node: int
    interfaces: tuple[str, ...]
    vfs: int
    max_vfs: int
    physical: str = ""
    iommu_group: int | None = None
    unprotected: bool = False
    intx: bool = False


def nics(*, sys: Path = SYS) -> tuple[PciNic, ...]:
    """All network devices on the PCI bus, by address."""
    devices = sorted((sys / "bus/pci/devices").glob("*"))
    return tuple(
        _read_nic(path) for path in devices if read_text(path / "class").startswith(NETWORK_CLASS)
    )


def nic(address: str, *, sys: Path = SYS) -> PciNic:
    """One device."""
    return _read_nic(_device_directory(address, sys))


def exists(address: str, *, sys: Path = SYS) -> bool:
    """Whether there is a PCI device at an address."""
    return (sys / "bus/pci/devices" / address).exists()


def bind_driver(
    journal: Journal, address: str, driver: str, *, isolated: bool = False, sys: Path = SYS
) -> Change | None:
    """Give a device to another driver for this run; None when that driver has it already.

    A kernel interface on it vanishes meanwhile and comes back without the addresses it had.
    """
    device = _device_directory(address, sys)
    before = _read_nic(device)
    if before.driver == driver:
        return None
    if not (sys / "bus/pci/drivers" / driver).is_dir():
        raise HostError(
            f"there is no driver {driver!r} in the kernel",
            where=address,
            accepted="a loaded driver, such as vfio-pci",
            cure=f"load it first (modprobe {driver})",
        )
    in_use = sorted(set(before.interfaces) & find_routed_interfaces())
    if in_use and not isolated:
        raise HostError(
            f"interface {in_use[0]} of this device carries a route of this machine",
            where=address,
            accepted="a device that nothing but tests uses",
            cure="choose another device, or take its addresses away first",
        )
    data = {
        "device": str(device),
        "previous": before.driver,
        "override": _driver_override(device),
        "wanted": driver,
        "sys": str(sys),
    }
    description = f"driver of {address}: {before.driver or 'none'} -> {driver}"
    with journal.changing("driver", description, data) as change:
        _bind(device, driver, driver, sys)
    return change


def set_vfs(journal: Journal, address: str, count: int, *, sys: Path = SYS) -> Change:
    """Set the number of virtual functions for this run."""
    device = _device_directory(address, sys)
    most = _read_nic(device).max_vfs
    if not 0 <= count <= most:
        raise HostError(
            f"{count} virtual functions are requested",
            where=address,
            accepted=f"0 to {most}" if most else "0: the device has no SR-IOV",
            cure="request fewer, or turn SR-IOV on in the firmware",
        )
    return write_value(journal, device / "sriov_numvfs", str(count), zero_first=True)


def undo_driver(data: UndoData) -> str:
    """Give a device back to the driver that had it."""
    device, previous = Path(data["device"]), str(data["previous"])
    if not device.exists():
        return "gone, it was a virtual function"
    if _bound_driver(device) == previous and _driver_override(device) == data["override"]:
        return f"already {previous or 'without driver'}"
    now = _bound_driver(device)
    if now not in ("", previous, data.get("wanted", now)):
        return f"left at {now}: somebody else has bound it since"
    _bind(device, previous, str(data["override"]), Path(data["sys"]))
    return f"{now or 'none'} -> {previous or 'none'}"


def reprobe_vf(physical: str, number: int, *, sys: Path = SYS) -> None:
    """Take a virtual function's driver away and give it back: it reads its address only then."""
    device = (_device_directory(physical, sys) / f"virtfn{number}").resolve()
    if driver := _bound_driver(device):
        for driver_name in ("", driver):
            _bind(device, driver_name, _driver_override(device), sys)


def _require_unused(device: Path, driver: str, sys: Path) -> None:
    """Refuse to take a device away from a program: the kernel would wait for it, for ever."""
    files = usage.device_files(device.name, _iommu_group(device), sys=sys)
    # What has just been ended lets go of it a moment later.
    if not wait_at_most(lambda: not usage.find_holder(files), LET_GO_S, f"users of {device.name}"):
        raise HostError(
            f"{usage.find_holder(files) or 'a process'} has it through {driver}",
            where=device.name,
            cure="end it, then run `vnetperf restore`",
        )


def _bind(device: Path, driver: str, override: str, sys: Path) -> None:
    now = _bound_driver(device)
    drivers = sys / "bus/pci/drivers"
    if now in USER_DRIVERS and now != driver:
        _require_unused(device, now, sys)
    with HostError.explain_os_error(
        f"driver {driver or 'none'} does not take the device",
        where=device.name,
        cure="see dmesg; vfio-pci needs an IOMMU (intel_iommu=on or amd_iommu=on) or its "
        "no-IOMMU mode, and uio_pci_generic an interrupt line (INTx) that can be masked",
    ):
        if now and now != driver:
            (drivers / now / "unbind").write_text(device.name)
        # The override comes first: without it a driver like vfio-pci takes no device.
        if (device / "driver_override").exists():
            (device / "driver_override").write_text(f"{override}\n")
        if driver and now != driver:
            (drivers / driver / "bind").write_text(device.name)
    if _bound_driver(device) != driver:
        raise HostError(
            f"driver is {_bound_driver(device) or 'none'} and not {driver or 'none'}",
            where=device.name,
            cure="see dmesg for why the driver does not take the device",
        )


def _read_nic(path: Path) -> PciNic:
    return PciNic(
        address=path.name,
        vendor=read_text(path / "vendor"),
        device=read_text(path / "device"),
        driver=_bound_driver(path),
        node=read_number(path / "numa_node", -1),
        # A virtio device hangs one level below its PCI function.
        interfaces=tuple(
            sorted(
                entry.name for pattern in ("net/*", "virtio*/net/*") for entry in path.glob(pattern)
            )
        ),
        vfs=read_number(path / "sriov_numvfs", 0, most=MOST_VFS),
        max_vfs=read_number(path / "sriov_totalvfs", 0, most=MOST_VFS),
        physical=(path / "physfn").resolve().name if (path / "physfn").exists() else "",
        iommu_group=_iommu_group(path),
        unprotected=read_text(path / "iommu_group/name") == NOIOMMU_GROUP,
        intx=_interrupt_pin(path) > 0,
    )


#: What vfio calls groups that it made without an IOMMU.
NOIOMMU_GROUP = "vfio-noiommu"
#: Where a configuration space has the interrupt pin: 1 to 4, or 0 for none (PCI 3.0, 6.2.4).
INTERRUPT_PIN = 0x3D


def _interrupt_pin(device: Path) -> int:
    """The pin that a device interrupts by; 0 for none, and where that cannot be read."""
    try:
        with (device / "config").open("rb") as file:
            header = file.read(INTERRUPT_PIN + 1)
    except OSError:
        return 0
    return header[INTERRUPT_PIN] if len(header) > INTERRUPT_PIN else 0


def _iommu_group(path: Path) -> int | None:
    link = path / "iommu_group"
    return parse_number(link.resolve().name) if link.exists() else None


def _device_directory(address: str, sys: Path) -> Path:
    path = sys / "bus/pci/devices" / address
    if path.exists():
        return path
    addresses = ", ".join(nic.address for nic in nics(sys=sys))
    raise HostError(
        f"there is no PCI device {address!r}",
        where=str(path.parent),
        accepted=addresses or "no network device is on this machine's PCI bus",
        cure="correct the address in the testbed's configuration",
    )


def _bound_driver(device: Path) -> str:
    link = device / "driver"
    return link.resolve().name if link.exists() else ""


def _driver_override(device: Path) -> str:
    text = read_text(device / "driver_override")
    return "" if text == "(null)" else text


def find_routed_interfaces() -> set[str]:
    """Interfaces with a route: unbinding one may cut this machine off."""
    network = usage.read_network()
    return {i.name for i in network.interfaces if network.routes.get(i.index)}


#: Drivers by which DPDK has a device.
DPDK_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
#: Drivers that give a device to a program; the kernel makes no interface of it then.
USER_DRIVERS = (*DPDK_DRIVERS, "pci-stub")
BRIDGE_CLASS = "0x06"


def kernel_driver(address: str, *, sys: Path = SYS) -> str:
    """The kernel's network driver of a device: the one that has it, or that would take it."""
    now = nic(address, sys=sys).driver
    if now and now not in USER_DRIVERS:
        return now
    alias = read_text(sys / "bus/pci/devices" / address / "modalias")
    return next((m for pattern, m in _aliases() if fnmatchcase(alias, pattern)), "")


def find_module_driver(module: str, *, sys: Path = SYS) -> str:
    """The PCI driver that a loaded module has."""
    for driver in sorted((sys / "bus/pci/drivers").glob("*")):
        link = driver / "module"
        if link.exists() and link.resolve().name == module.replace("-", "_"):
            return driver.name
    return module


def group_mates(address: str, *, sys: Path = SYS) -> dict[str, str]:
    """Other devices that vfio hands out only together with this one, and that a driver has."""
    mates = {}
    for path in sorted((sys / "bus/pci/devices" / address / "iommu_group/devices").glob("*")):
        driver = path / "driver"
        name = driver.resolve().name if driver.exists() else ""
        bridge = read_text(path / "class").startswith(BRIDGE_CLASS)
        if path.name != address and name and name not in USER_DRIVERS and not bridge:
            mates[path.name] = name
    return mates


@cache
def _aliases() -> tuple[tuple[str, str], ...]:
    """Patterns of PCI devices and their modules, of the running kernel."""
    file = MODULES / os.uname().release / "modules.alias"
    try:
        lines = read_file(file).splitlines()
    except OSError:
        return ()
    return tuple((w[1], w[2]) for w in map(str.split, lines) if len(w) == 3 and w[1][:4] == "pci:")
