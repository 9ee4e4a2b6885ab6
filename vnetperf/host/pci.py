"""PCI network devices: what there is, which driver has them, and their virtual functions."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.journal import Change, Journal
from vnetperf.host.undo import Data
from vnetperf.host.values import read_value, write_value
from vnetperf.model.errors import HostError

SYS = Path("/sys")
NETWORK_CLASS = "0x02"


@dataclass(frozen=True, slots=True)
class PciNic:
    """A network device on the PCI bus.

    Attributes:
        address: PCI address, ``0000:3b:00.0``.
        vendor: PCI vendor id, ``0x8086``.
        device: PCI device id.
        driver: Driver that has it, empty when none has.
        node: NUMA node, -1 when the firmware does not say.
        interfaces: Its network interfaces, none under a DPDK driver.
        vfs: Virtual functions it has now.
        max_vfs: Virtual functions it can have; 0 without SR-IOV.
        physical: Address of its physical function when it is a virtual one, else empty.
        iommu_group: Number of its IOMMU group; None without an IOMMU.
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


def nics(*, sys: Path = SYS) -> tuple[PciNic, ...]:
    """All network devices on the PCI bus, by address."""
    devices = sorted((sys / "bus/pci/devices").glob("*"))
    return tuple(
        _read(path) for path in devices if _text(path / "class", "").startswith(NETWORK_CLASS)
    )


def nic(address: str, *, sys: Path = SYS) -> PciNic:
    """One device.

    Args:
        address: E.g. ``0000:3b:00.0``.
        sys: Root of sysfs.

    Returns:
        The device.

    Raises:
        HostError: There is none at this address.
    """
    return _read(_device(address, sys))


def exists(address: str, *, sys: Path = SYS) -> bool:
    """Whether there is a PCI device at an address."""
    return (sys / "bus/pci/devices" / address).exists()


def bind_driver(
    journal: Journal, address: str, driver: str, *, isolated: bool = False, sys: Path = SYS
) -> Change | None:
    """Give a device to another driver for this run; None when that driver has it already.

    A kernel interface on it vanishes meanwhile and comes back without the addresses it had.

    Args:
        journal: The run's journal.
        address: PCI address.
        driver: Name of the driver.
        isolated: Whoever asks knows that the device may be taken even if it carries a route.
        sys: Root of sysfs.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: No such device or driver, the device carries the machine's default route, or
            the driver does not take it. The previous driver then has it again.
    """
    device = _device(address, sys)
    before = _read(device)
    if before.driver == driver:
        return None
    if not (sys / "bus/pci/drivers" / driver).is_dir():
        raise HostError(
            f"there is no driver {driver!r} in the kernel",
            where=address,
            accepted="a loaded driver, such as vfio-pci",
            cure=f"load it first (modprobe {driver})",
        )
    in_use = sorted(set(before.interfaces) & _routed_interfaces())
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
        "override": _override(device),
        "sys": str(sys),
    }
    what = f"driver of {address}: {before.driver or 'none'} -> {driver}"
    with journal.changing("driver", what, data) as change:
        _bind(device, driver, driver, sys)
    return change


def set_vfs(journal: Journal, address: str, count: int, *, sys: Path = SYS) -> Change:
    """Set the number of virtual functions for this run.

    Args:
        journal: The run's journal.
        address: PCI address of the physical function.
        count: Virtual functions wanted.
        sys: Root of sysfs.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: No such device, no SR-IOV, or more than it can have.
    """
    device = _device(address, sys)
    most = _read(device).max_vfs
    if not 0 <= count <= most:
        raise HostError(
            f"{count} virtual functions are asked for",
            where=address,
            accepted=f"0 to {most}" if most else "0: the device has no SR-IOV",
            cure="ask for fewer, or turn SR-IOV on in the firmware",
        )
    return write_value(journal, device / "sriov_numvfs", str(count), zero_first=True)


def undo_driver(data: Data) -> str:
    """Give a device back to the driver that had it."""
    device, previous = Path(data["device"]), str(data["previous"])
    if not device.exists():
        return "gone, it was a virtual function"
    if _driver(device) == previous and _override(device) == data["override"]:
        return f"already {previous or 'without driver'}"
    now = _driver(device)
    _bind(device, previous, str(data["override"]), Path(data["sys"]))
    return f"{now or 'none'} -> {previous or 'none'}"


def _bind(device: Path, driver: str, override: str, sys: Path) -> None:
    now = _driver(device)
    drivers = sys / "bus/pci/drivers"
    try:
        if now and now != driver:
            (drivers / now / "unbind").write_text(device.name)
        # The override comes first: without it a driver like vfio-pci takes no device.
        if (device / "driver_override").exists():
            (device / "driver_override").write_text(f"{override}\n")
        if driver and now != driver:
            (drivers / driver / "bind").write_text(device.name)
    except OSError as error:
        raise HostError(
            f"driver {driver or 'none'} does not take the device: {error.strerror}",
            where=device.name,
            cure="see dmesg; vfio-pci needs an IOMMU (intel_iommu=on or amd_iommu=on)",
        ) from error
    if _driver(device) != driver:
        raise HostError(
            f"driver is {_driver(device) or 'none'} and not {driver or 'none'}",
            where=device.name,
            cure="see dmesg for why the driver does not take the device",
        )


def _read(path: Path) -> PciNic:
    return PciNic(
        address=path.name,
        vendor=_text(path / "vendor", ""),
        device=_text(path / "device", ""),
        driver=_driver(path),
        node=int(_text(path / "numa_node", "-1")),
        # A virtio device hangs one level below its PCI function.
        interfaces=tuple(
            sorted(entry.name for at in ("net/*", "virtio*/net/*") for entry in path.glob(at))
        ),
        vfs=int(_text(path / "sriov_numvfs", "0")),
        max_vfs=int(_text(path / "sriov_totalvfs", "0")),
        physical=(path / "physfn").resolve().name if (path / "physfn").exists() else "",
        iommu_group=_group(path),
    )


def _group(path: Path) -> int | None:
    link = path / "iommu_group"
    return int(link.resolve().name) if link.exists() else None


def _device(address: str, sys: Path) -> Path:
    path = sys / "bus/pci/devices" / address
    if path.exists():
        return path
    there = ", ".join(found.address for found in nics(sys=sys))
    raise HostError(
        f"there is no PCI device {address!r}",
        where=str(path.parent),
        accepted=there or "no network device is on this machine's PCI bus",
        cure="correct the address in the testbed's configuration",
    )


def _driver(device: Path) -> str:
    link = device / "driver"
    return link.resolve().name if link.exists() else ""


def _override(device: Path) -> str:
    text = _text(device / "driver_override", "")
    return "" if text == "(null)" else text


def _routed_interfaces() -> set[str]:
    """Interfaces with a route in the main table: unbinding one may cut this machine off."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/net/route").read_text().splitlines()[1:]
        return {line.split()[0] for line in lines if line.split()}
    return set()


def _text(path: Path, default: str) -> str:
    try:
        return read_value(path)
    except HostError:
        return default
