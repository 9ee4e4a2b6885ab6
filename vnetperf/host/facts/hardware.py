"""Facts of memory, NICs, slots and interrupts; and `collect`, the machine's whole record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

from vnetperf.host import ethtool, hugepages
from vnetperf.host.cpu import device_irqs, format_cpus, parse_mask
from vnetperf.host.facts import (
    SHOWN,
    attempt,
    file_number,
    file_text,
    is_placeholder,
    is_unknown,
    unknown,
)
from vnetperf.host.facts.security import read_filter_hooks, security_facts
from vnetperf.host.facts.system import (
    cpu_facts,
    firmware_facts,
    hostname,
    kernel_facts,
    parse_release,
    uptime,
    virtualisation,
)
from vnetperf.host.linux import numbered_entries, read_file, read_octets, sees_all_processes
from vnetperf.host.nic import pci
from vnetperf.host.programs import kvm_facts
from vnetperf.host.wait import virtual_lab

#: Where the kernel shows the tables; only root may read them.
SMBIOS_TABLE: Final = "firmware/dmi/tables/DMI"
END_OF_TABLE: Final = 127
BIOS, SYSTEM_SLOT, MEMORY_ARRAY, MEMORY_DEVICE = 0, 9, 16, 17
# SMBIOS 3.7, tables 76, 77: what matters of them.
_MEMORY_TYPES: Final[Mapping[int, str]] = {
    0x07: "RAM",
    0x12: "DDR",
    0x13: "DDR2",
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1B: "LPDDR",
    0x1C: "LPDDR2",
    0x1D: "LPDDR3",
    0x1E: "LPDDR4",
    0x1F: "non-volatile",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}
_CORRECTIONS: Final[Mapping[int, str]] = {
    3: "none",
    4: "parity",
    5: "single-bit ECC",
    6: "multi-bit ECC",
    7: "CRC",
}


@dataclass(frozen=True)
class SmbiosStructure:
    """One structure of the tables; `data` has the header too: offsets are the specification's."""

    kind: int
    data: bytes
    strings: tuple[str, ...] = field(default=())

    def number(self, offset: int, size: int) -> int | None:
        """A little-endian number; None when the firmware's version does not have it yet."""
        part = self.data[offset : offset + size]
        return int.from_bytes(part, "little") if len(part) == size else None

    def text(self, offset: int) -> str:
        """A string; "" when there is none, or one without information."""
        index = self.number(offset, 1) or 0
        string = self.strings[index - 1].strip() if 0 < index <= len(self.strings) else ""
        return "" if is_placeholder(string) else string


def smbios_structures(table: bytes) -> Iterator[SmbiosStructure]:
    """Take the tables apart; what is cut or makes no sense ends them."""
    offset = 0
    while offset + 4 <= len(table):
        kind, length = table[offset], table[offset + 1]
        end = table.find(b"\0\0", offset + length)
        if length < 4 or kind == END_OF_TABLE or end < 0:
            return
        texts = table[offset + length : end].split(b"\0")
        strings = tuple(text.decode("latin-1") for text in texts) if texts != [b""] else ()
        yield SmbiosStructure(kind, table[offset : offset + length], strings)
        offset = end + 2


def read_smbios(*, sys: Path) -> tuple[SmbiosStructure, ...]:
    """The tables of this machine."""
    return tuple(smbios_structures(read_octets(sys / SMBIOS_TABLE)))


def memory_device(structure: SmbiosStructure) -> dict[str, Any]:
    """A memory module, or the empty place of one."""
    size = structure.number(0x0C, 2) or 0
    if size == 0x7FFF:
        mib = (structure.number(0x1C, 4) or 0) & 0x7FFFFFFF
    elif size == 0xFFFF:
        mib = -1
    else:
        mib = (size & 0x7FFF) // 1024 if size & 0x8000 else size
    kind = structure.number(0x12, 1) or 0
    device: dict[str, Any] = {
        "locator": structure.text(0x10),
        "bank": structure.text(0x11),
        "size_mib": unknown("the firmware does not know it") if mib < 0 else mib,
    }
    if mib:
        device |= {
            "type": _MEMORY_TYPES.get(kind, ""),
            "speed_mts": _memory_speed(structure, 0x15, 0x54),
            "configured_mts": _memory_speed(structure, 0x20, 0x58),
            "ranks": (structure.number(0x1B, 1) or 0) & 0x0F,
            "maker": structure.text(0x17),
            "part": structure.text(0x1A),
        }
    return {key: value for key, value in device.items() if value or key == "size_mib"}


def _memory_speed(structure: SmbiosStructure, offset: int, longer: int) -> int:
    """Transfers/s in millions; 0 when the firmware does not state it."""
    speed = structure.number(offset, 2) or 0
    if speed != 0xFFFF:
        return speed
    wide = structure.number(longer, 4) or 0
    return 0 if wide >= 0x7FFFFFFF else wide  # 31 bits; all ones of 32: not known


def error_correction(structures: tuple[SmbiosStructure, ...]) -> str:
    """How the first memory array corrects errors; "" when the firmware does not state it."""
    arrays = (s for s in structures if s.kind == MEMORY_ARRAY)
    return next((_CORRECTIONS.get(s.number(0x06, 1) or 0, "") for s in arrays), "")


def vm_bit(structures: tuple[SmbiosStructure, ...]) -> bool | None:
    """Whether the tables say that they describe a virtual machine; None if they say nothing."""
    second_byte = next((s.number(0x13, 1) for s in structures if s.kind == BIOS), None)
    return None if second_byte is None else bool(second_byte & 0x10)


def smbios_slots(structures: tuple[SmbiosStructure, ...]) -> dict[str, str]:
    """What the board calls the slots of PCI devices."""
    named = {}
    for structure in structures:
        segment = structure.number(0x0D, 2)
        bus, function = structure.number(0x0F, 1), structure.number(0x10, 1)
        name = structure.text(0x04)
        if structure.kind != SYSTEM_SLOT or None in (segment, bus, function) or not name:
            continue
        if (segment, bus, function) != (0xFFFF, 0xFF, 0xFF):  # empty, or not PCI
            named[f"{segment:04x}:{bus:02x}:{(function or 0) >> 3:02x}"] = name
    return named


def interrupt_facts(*, proc: Path) -> dict[str, Any]:
    """Where interrupts go by default, where they may go now, and whether irqbalance moves them."""
    numbers = list(numbered_entries(proc / "irq"))
    default = file_text(proc / "irq/default_smp_affinity")
    no_mask = default if is_unknown(default) else unknown(f"{default[:SHOWN]!r} is no mask of CPUs")
    return {
        "default_affinity": format_cpus(parse_mask(default)) or no_mask,
        "affinity": _by_cpus(proc, numbers)
        if numbers
        else unknown(f"{proc / 'irq'} shows no interrupts"),
        "irqbalance": _irqbalance(proc),
    }


def device_interrupts(address: str, *, sys: Path, proc: Path) -> Any:
    """Processors -> interrupts of a PCI device that may be served there."""
    reserved = device_irqs(address, sys=sys)
    # Numbers that a driver has reserved and not requested yet have no file.
    numbers = [number for number in reserved if (proc / f"irq/{number}").exists()]
    if numbers:
        return _by_cpus(proc, numbers)
    reason = "its driver requests them when its interface comes up" if reserved else "it has none"
    return unknown(reason)


def _by_cpus(proc: Path, numbers: list[int]) -> dict[str, str]:
    numbers_by_cpus: dict[str, list[int]] = {}
    for number in numbers:
        cpus = file_text(proc / f"irq/{number}/smp_affinity_list")
        numbers_by_cpus.setdefault(cpus, []).append(number)
    return {cpus: format_cpus(irqs) for cpus, irqs in sorted(numbers_by_cpus.items())}


def _irqbalance(proc: Path) -> str:
    """Whether irqbalance runs: it moves interrupts on to processors that are in use."""
    if not (proc / "self").exists():
        return unknown(f"{proc} shows no processes")
    if "irqbalance" in _process_names(proc):
        return "runs"
    return "does not run" if sees_all_processes(proc) else unknown("it would not be seen from here")


def _process_names(proc: Path) -> Iterator[str]:
    for path in proc.glob("[0-9]*/comm"):
        yield file_text(path)


# Names of boards that tell the channel: "P0_Node0_Channel1_Dimm0", "Controller0-ChannelA-DIMM0",
# and letters of a socket that is named too ("CPU1_DIMM_A1"): alone they are the socket's on some.
_CHANNEL_NAME: Final = re.compile(r".*?channel[ _-]?[a-z0-9]+", re.IGNORECASE)
_LETTER_NAME: Final = re.compile(r"dimm[ _-]?(?P<channel>[a-p])\d?\b", re.IGNORECASE)
_SOCKET_NAME: Final = re.compile(r"(?:node|cpu|proc|p|socket)[ _-]?(\d)(?![0-9])", re.IGNORECASE)
_EDAC_LAYERS: Final = re.compile(r"([a-z]+) (\d+)")


def memory_facts(*, sys: Path, proc: Path) -> dict[str, Any]:
    """Memory in kB, hugepages in pages, modules in MiB."""
    info = file_text(proc / "meminfo")
    tables: Any = attempt(lambda: read_smbios(sys=sys))
    channels = attempt(lambda: _driver_channels(sys))
    if isinstance(tables, str):
        modules = correction = unknown(f"the firmware's tables: {_explain_no_smbios(tables)}")
        channels = channels or modules
    else:
        modules = attempt(lambda: _memory_modules(tables))
        channels = channels or attempt(lambda: _memory_channels(tables))
        correction = error_correction(tables) or unknown("the firmware does not state it")
    return {
        "total_kb": _meminfo_kb(info, "MemTotal"),
        "available_kb": _meminfo_kb(info, "MemAvailable"),
        "swap_total_kb": _meminfo_kb(info, "SwapTotal"),
        "nodes": attempt(lambda: _node_facts(sys)),
        "hugepages": attempt(lambda: _hugepage_facts(sys)),
        "modules": modules,
        "channels": channels,
        "error_correction": correction,
    }


def _explain_no_smbios(text: str) -> str:
    """Why the tables cannot be read, in fewer words than the error has."""
    if "FileNotFoundError" in text:
        return f"the machine has none (/sys/{SMBIOS_TABLE} is not there)"
    return f"only root may read /sys/{SMBIOS_TABLE}" if "PermissionError" in text else text


def _hugepage_facts(sys: Path) -> Any:
    troubles: list[str] = []
    pools: list[Any] = [asdict(pool) for pool in hugepages.pools(sys=sys, troubles=troubles)]
    return [*pools, *map(unknown, troubles)] or unknown("the kernel shows no hugepages")


def _node_facts(sys: Path) -> Any:
    """Memory and distances of NUMA nodes, those without processors too."""
    nodes = []
    for node, path in numbered_entries(sys / "devices/system/node", "node").items():
        info = file_text(path / "meminfo")
        nodes.append(
            {
                "node": node,
                "total_kb": _meminfo_kb(info, "MemTotal"),
                "distances": file_text(path / "distance"),
            }
        )
    return nodes or unknown("the kernel shows no NUMA nodes")


def _memory_devices(tables: tuple[SmbiosStructure, ...]) -> list[dict[str, Any]]:
    return [memory_device(s) for s in tables if s.kind == MEMORY_DEVICE]


def _memory_modules(tables: tuple[SmbiosStructure, ...]) -> Any:
    """Modules that are there, and how many places are empty."""
    devices = _memory_devices(tables)
    if not devices:
        return unknown("the firmware's tables hold no memory devices")
    populated = [device for device in devices if device["size_mib"]]
    return {"populated": populated, "empty places": len(devices) - len(populated)}


def _driver_channels(sys: Path) -> dict[str, int] | None:
    """Channels as the memory controllers' driver counts them (EDAC); None without one."""
    used: set[tuple[str, tuple[str, ...]]] = set()
    places = 0
    for controller in (sys / "devices/system/edac/mc").glob("mc[0-9]*"):
        most = dict(_EDAC_LAYERS.findall(file_text(controller / "max_location")))
        if "channel" not in most:
            return None
        # Modules behind one channel differ in slot, or chip select.
        layers = [layer for layer in ("branch", "channel") if layer in most]
        places += prod(int(most[layer]) + 1 for layer in layers)
        for module in (*controller.glob("dimm[0-9]*"), *controller.glob("rank[0-9]*")):
            place = dict(_EDAC_LAYERS.findall(file_text(module / "dimm_location")))
            size = file_number(module / "size")
            if isinstance(size, int) and size > 0 and "channel" in place:
                used.add((controller.name, tuple(place.get(layer, "") for layer in layers)))
    return {"used": len(used), "of": places} if used else None


def _memory_channels(tables: tuple[SmbiosStructure, ...]) -> Any:
    """Channels with a module, out of those that there are, where names on the board tell them."""
    devices = _memory_devices(tables)
    names = [(device.get("locator", ""), device.get("bank", "")) for device in devices]
    named = [_find_channel(device) for device in devices]
    if not named or None in named:
        return unknown("the board's names of memory slots do not tell the channels")
    if len({*names}) < len(names):
        return unknown("the board has several memory slots of one name")
    pairs = zip(named, devices, strict=True)
    used = {channel for channel, device in pairs if device["size_mib"]}
    return {"used": len(used), "of": len({*named})}


def _find_channel(device: dict[str, Any]) -> tuple[str, str] | None:
    """Socket and channel of a place; None when its names do not tell both."""
    names = (device.get("bank", ""), device.get("locator", ""))
    socket = _SOCKET_NAME.search(" ".join(reversed(names)))
    for name in names:
        if match := _CHANNEL_NAME.match(name):
            # All that stands before it counts: a socket, a node, a controller.
            return (socket[1] if socket else ""), match[0].upper()
    for name in names:
        if socket and (match := _LETTER_NAME.search(name)):
            return socket[1], match["channel"].upper()
    return None


def _meminfo_kb(info: str, name: str) -> int | str:
    match = re.search(rf"\b{name}:\s*([0-9]{{1,18}})\b", info)
    if match:
        return int(match[1])
    return info if is_unknown(info) else unknown(f"meminfo has no {name}")


UNREPORTED = unknown("the driver does not report it")
#: Facts of a network device, in their order in the record.
_NIC_FACTS = (
    *("pci", "slot", "model", "driver", "driver_version", "interfaces", "node"),
    *("link_width", "link_speed", "max_link_width", "max_link_speed"),
    *("speed_mbps", "mtu", "mac", "irqs", "firmware", "vfs", "max_vfs"),
)
_PCI_IDS = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))


def nic_facts(*, sys: Path, proc: Path) -> list[dict[str, Any]]:
    """One entry for each network device on the PCI bus, and each other device with hardware.

    Speed is in Mbit/s.
    """
    slots = _slot_names(sys)
    nics = pci.nics(sys=sys)
    entries = [_read_entry(nic.address, partial(_pci_entry, nic, slots, sys, proc)) for nic in nics]
    named = {name for nic in nics for name in nic.interfaces}
    for path in sorted((sys / "class/net").glob("*")):
        # Links without a device (bridges, veth) are not hardware.
        if path.name not in named and (path / "device").exists():
            entries.append(_read_entry(path.name, partial(_other_entry, path)))
    return entries


def _read_entry(name: str, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A device's entry, or one that says why it cannot be read."""
    entry = attempt(read)
    return entry if isinstance(entry, dict) else dict.fromkeys(_NIC_FACTS, entry) | {"pci": name}


def _pci_entry(nic: pci.PciNic, slots: dict[str, str], sys: Path, proc: Path) -> dict[str, Any]:
    device = sys / "bus/pci/devices" / nic.address
    no_interface = unknown("no kernel interface: the driver is not the kernel's")
    interface = sys / "class/net" / nic.interfaces[0] if nic.interfaces else None
    return {
        "pci": nic.address,
        "slot": _find_slot(device, slots),
        "model": _model(nic),
        "driver": nic.driver or "none",
        "driver_version": read_driver_version(device, sys, nic.driver),
        "interfaces": list(nic.interfaces),
        "node": nic.node if nic.node >= 0 else unknown("the firmware does not state it"),
        "link_width": _lanes(device / "current_link_width"),
        "link_speed": _pace(device / "current_link_speed"),
        "max_link_width": _lanes(device / "max_link_width"),
        "max_link_speed": _pace(device / "max_link_speed"),
        **(
            _interface_facts(interface)
            if interface
            else dict.fromkeys(("speed_mbps", "mtu", "mac"), no_interface)
        ),
        "irqs": attempt(lambda: device_interrupts(nic.address, sys=sys, proc=proc)),
        "firmware": attempt(lambda: _firmware(interface.name)) if interface else no_interface,
        "vfs": nic.vfs,
        "max_vfs": nic.max_vfs,
    }


def _firmware(interface: str) -> str:
    """Version of an interface's firmware; drivers without one say "N/A", or nothing."""
    version = ethtool.firmware_version(interface)
    return UNREPORTED if is_placeholder(version) else version


def _other_entry(path: Path) -> dict[str, Any]:
    driver = path / "device/driver"
    return {
        **dict.fromkeys(_NIC_FACTS, unknown("not a PCI device")),
        "driver": driver.resolve().name if driver.exists() else unknown("sysfs names no driver"),
        "interfaces": [path.name],
        **_interface_facts(path),
        "vfs": 0,
        "max_vfs": 0,
    }


def _interface_facts(interface: Path) -> dict[str, Any]:
    return {
        "speed_mbps": _link_speed(interface),
        "mtu": file_number(interface / "mtu"),
        "mac": file_text(interface / "address"),
    }


def _slot_names(sys: Path) -> dict[str, str]:
    """Names of slots: the kernel's where a hotplug driver knows them, else the firmware's."""
    tables = attempt(lambda: read_smbios(sys=sys))
    named = {} if isinstance(tables, str) else smbios_slots(tables)
    kernels = (sys / "bus/pci/slots").glob("*/address")
    return named | {file_text(path): path.parent.name for path in kernels}


def _find_slot(device: Path, slots: dict[str, str]) -> str:
    """The slot that a device is in, or the bridge that it is behind."""
    for name in (device.name, device.resolve().parent.name):
        if slot := slots.get(name.partition(".")[0]):
            return slot
    return unknown("neither kernel nor firmware names the slot")


def read_driver_version(device: Path, sys: Path, driver: str) -> str:
    """Read the version of a PCI device's driver, or that it is the kernel's own."""
    if not driver:
        return unknown("it has no driver")
    # A module may have another name than its driver; a driver without one is the kernel's.
    link = device / "driver/module"
    module = link if link.exists() else sys / "module" / driver
    text = file_text(module / "version")
    if not is_unknown(text):
        return text
    # "O" marks a module that is not of the kernel's sources (tainted-kernels.rst).
    taint = file_text(module / "taint")
    if not is_unknown(taint) and "O" in taint:
        return unknown("its module is not of the kernel's sources, and states no version")
    return "the kernel's own"


#: Numbers of Mbit/s by which drivers say that they do not know: SPEED_UNKNOWN (-1, linux/ethtool.h)
#: in 32 bits or 16 and with either sign, and none.
_NO_SPEED: Final = (-1, 0, 0xFFFF, 0xFFFFFFFF)


def _link_speed(interface: Path) -> int | str:
    speed = file_number(interface / "speed")
    if isinstance(speed, int) and (speed < 0 or speed in _NO_SPEED):
        return unknown("the driver does not report it, or the link is down")
    return speed


#: Lanes of a PCIe link that is not there: none, and all ones of a device that does not answer.
_NO_LANES: Final = ("0", "63", "255")
_NO_LINK: Final = unknown("the device reports no link")


def _lanes(file: Path) -> str:
    text = file_text(file)
    return _NO_LINK if text in _NO_LANES else text


def _pace(file: Path) -> str:
    """Speed of a PCIe link, of which the kernel says "Unknown" where it has no name for it."""
    text = file_text(file)
    return _NO_LINK if text.lower().startswith("unknown") and not is_unknown(text) else text


def _model(nic: pci.PciNic) -> str:
    numbers = f"{nic.vendor.removeprefix('0x')}:{nic.device.removeprefix('0x')}"
    vendor, _, device = numbers.partition(":")
    for path in _PCI_IDS:
        if path.exists():
            name = _pci_id_name(path, vendor, device)
            return f"{name} [{numbers}]" if name else f"[{numbers}]"
    return f"[{numbers}]"


def _pci_id_name(path: Path, vendor: str, device: str) -> str:
    maker = ""
    try:
        lines = read_file(path).splitlines()
    except OSError:
        return ""
    for line in lines:
        if line.startswith(f"{vendor}  "):
            maker = line.split("  ", 1)[1].strip()
        elif maker and line.startswith(f"\t{device}  "):
            return f"{maker} {line.split('  ', 1)[1].strip()}"
        elif maker and not line.startswith(("\t", "#")):
            break
    return maker


def _vm_bit(sys: Path) -> bool | None:
    tables: Any = attempt(lambda: read_smbios(sys=sys))
    return None if isinstance(tables, str) else vm_bit(tables)


def _os_release(root: Path) -> str:
    """The distribution's statement of itself, in either of its places (os-release(5))."""
    text = file_text(root / "etc/os-release")
    return file_text(root / "usr/lib/os-release") if is_unknown(text) else text


def collect(root: Path = Path("/")) -> dict[str, Any]:
    """Collect the facts of this machine; takes some ten milliseconds and starts no program."""
    sys, proc = root / "sys", root / "proc"
    read_hooks = read_filter_hooks if root == Path("/") else None
    return {
        "collected": datetime.now(UTC).isoformat(timespec="seconds"),
        "hostname": attempt(hostname),
        "uptime_s": attempt(lambda: uptime(proc=proc)),
        "load_average": file_text(proc / "loadavg"),
        "virtual_lab": attempt(lambda: virtual_lab(proc=proc)),
        "cpu": attempt(lambda: cpu_facts(sys=sys, proc=proc)),
        "memory": attempt(lambda: memory_facts(sys=sys, proc=proc)),
        "kernel": attempt(lambda: kernel_facts(sys=sys, proc=proc)),
        "distribution": attempt(lambda: parse_release(_os_release(root))),
        "interrupts": attempt(lambda: interrupt_facts(proc=proc)),
        "security": attempt(lambda: security_facts(sys=sys, proc=proc, read_hooks=read_hooks)),
        "firmware": attempt(lambda: firmware_facts(sys=sys)),
        "virtualisation": attempt(lambda: virtualisation(sys=sys, proc=proc, vm_bit=_vm_bit(sys))),
        "kvm": attempt(lambda: kvm_facts(dev=root / "dev")),
        "nics": attempt(lambda: nic_facts(sys=sys, proc=proc)),
    }
