"""Facts about network devices."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from pathlib import Path
from typing import Any

from vnetperf.host import pci, smbios
from vnetperf.host.fact import attempt, file_number, file_text, is_unknown, unknown
from vnetperf.host.facts_irq import of_device

SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 0x03
_PCI_IDS = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))


def nic_facts(*, sys: Path, proc: Path) -> list[dict[str, Any]]:
    """One entry for each network device on the PCI bus, and each other device with hardware.

    Speed is in Mbit/s.
    """
    slots = _slots(sys)
    found = [_pci_entry(nic, slots, sys, proc) for nic in pci.nics(sys=sys)]
    named = {name for entry in found for name in entry["interfaces"]}
    for path in sorted((sys / "class/net").glob("*")):
        # Links without a device (bridges, veth) are not hardware.
        if path.name not in named and (path / "device").exists():
            found.append(_other_entry(path))
    return found


def _pci_entry(nic: pci.PciNic, slots: dict[str, str], sys: Path, proc: Path) -> dict[str, Any]:
    device = sys / "bus/pci/devices" / nic.address
    no_interface = unknown("no kernel interface: the driver is not the kernel's")
    interface = sys / "class/net" / nic.interfaces[0] if nic.interfaces else None
    return {
        "pci": nic.address,
        "slot": _slot(device, slots),
        "model": _model(nic),
        "driver": nic.driver or "none",
        "driver_version": _driver_version(sys, nic.driver),
        "interfaces": list(nic.interfaces),
        "node": nic.node if nic.node >= 0 else unknown("the firmware does not say"),
        "link_width": file_text(device / "current_link_width"),
        "link_speed": file_text(device / "current_link_speed"),
        "max_link_width": file_text(device / "max_link_width"),
        "max_link_speed": file_text(device / "max_link_speed"),
        "speed_mbps": _speed(interface) if interface else no_interface,
        "mtu": file_number(interface / "mtu") if interface else no_interface,
        "mac": file_text(interface / "address") if interface else no_interface,
        "irqs": attempt(lambda: of_device(nic.address, sys=sys, proc=proc)),
        "firmware": attempt(lambda: _firmware(nic.interfaces[0])) if interface else no_interface,
        "vfs": nic.vfs,
        "max_vfs": nic.max_vfs,
    }


def _other_entry(path: Path) -> dict[str, Any]:
    not_pci = unknown("not a PCI device")
    driver = path / "device/driver"
    return {
        "pci": not_pci,
        "slot": not_pci,
        "model": not_pci,
        "driver": driver.resolve().name if driver.exists() else unknown("sysfs names no driver"),
        "driver_version": not_pci,
        "interfaces": [path.name],
        "node": not_pci,
        "link_width": not_pci,
        "link_speed": not_pci,
        "max_link_width": not_pci,
        "max_link_speed": not_pci,
        "speed_mbps": _speed(path),
        "mtu": file_number(path / "mtu"),
        "mac": file_text(path / "address"),
        "irqs": not_pci,
        "firmware": not_pci,
        "vfs": 0,
        "max_vfs": 0,
    }


def _slots(sys: Path) -> dict[str, str]:
    """Names of slots: the kernel's where a hotplug driver knows them, else the firmware's."""
    tables = attempt(lambda: smbios.read(sys=sys))
    named = {} if isinstance(tables, str) else smbios.slots(tables)
    kernels = (sys / "bus/pci/slots").glob("*/address")
    return named | {file_text(path): path.parent.name for path in kernels}


def _slot(device: Path, slots: dict[str, str]) -> str:
    """The slot that a device is in, or the bridge that it is behind."""
    for name in (device.name, device.resolve().parent.name):
        if slot := slots.get(name.partition(".")[0]):
            return slot
    return unknown("neither kernel nor firmware names the slot")


def _driver_version(sys: Path, driver: str) -> str:
    if not driver:
        return unknown("it has no driver")
    text = file_text(sys / "module" / driver / "version")
    return "the kernel's own" if is_unknown(text) else text


def _speed(interface: Path) -> int | str:
    speed = file_number(interface / "speed")
    if isinstance(speed, int) and speed < 0:
        return unknown("the driver does not say, or the link is down")
    return speed


def _firmware(interface: str) -> str:
    """Firmware version, by the ethtool ioctl: starting a program would take longer."""
    # struct ethtool_drvinfo: command, then driver, version and fw_version of 32 bytes each.
    information = bytearray(196)
    struct.pack_into("=I", information, 0, ETHTOOL_GDRVINFO)
    buffer = (ctypes.c_char * len(information)).from_buffer(information)
    request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, SIOCETHTOOL, request)
    text = bytes(information[68:100]).partition(b"\0")[0].decode(errors="replace").strip()
    return text or unknown("the driver does not say")


def _model(nic: pci.PciNic) -> str:
    numbers = f"{nic.vendor.removeprefix('0x')}:{nic.device.removeprefix('0x')}"
    vendor, _, device = numbers.partition(":")
    for path in _PCI_IDS:
        if path.exists():
            name = _look_up(path, vendor, device)
            return f"{name} [{numbers}]" if name else f"[{numbers}]"
    return f"[{numbers}]"


def _look_up(path: Path, vendor: str, device: str) -> str:
    maker = ""
    with path.open(errors="replace") as lines:
        for line in lines:
            if line.startswith(f"{vendor}  "):
                maker = line.split("  ", 1)[1].strip()
            elif maker and line.startswith(f"\t{device}  "):
                return f"{maker} {line.split('  ', 1)[1].strip()}"
            elif maker and not line.startswith(("\t", "#")):
                break
    return maker
