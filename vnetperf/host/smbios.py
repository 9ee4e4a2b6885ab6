"""Reads the firmware's own tables (SMBIOS) from sysfs: what dmidecode prints, without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

#: Where the kernel shows the tables; only root may read them.
TABLES: Final = "firmware/dmi/tables/DMI"
END: Final = 127
SYSTEM_SLOT, MEMORY_ARRAY, MEMORY_DEVICE = 9, 16, 17
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
_NOT_SAID = ("", "not specified", "unknown", "none", "no dimm", "to be filled by o.e.m.", "n/a")


@dataclass(frozen=True)
class Structure:
    """One structure of the tables.

    Attributes:
        kind: Its type: 17 is a memory device.
        data: Its formatted part, header included, so that offsets are those of the specification.
        strings: Its strings, the first has number 1.
    """

    kind: int
    data: bytes
    strings: tuple[str, ...] = field(default=())

    def number(self, offset: int, size: int) -> int | None:
        """A little-endian number; None when the firmware's version does not have it yet."""
        part = self.data[offset : offset + size]
        return int.from_bytes(part, "little") if len(part) == size else None

    def text(self, offset: int) -> str:
        """A string; "" when there is none, or one that says nothing."""
        index = self.number(offset, 1) or 0
        found = self.strings[index - 1].strip() if 0 < index <= len(self.strings) else ""
        return "" if found.lower() in _NOT_SAID else found


def structures(table: bytes) -> Iterator[Structure]:
    """Take the tables apart; what is cut or makes no sense ends them.

    Args:
        table: Content of the kernel's file.

    Yields:
        Structures in order.
    """
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        end = table.find(b"\0\0", at + length)
        if length < 4 or kind == END or end < 0:
            return
        texts = table[at + length : end].split(b"\0")
        strings = tuple(text.decode("latin-1") for text in texts) if texts != [b""] else ()
        yield Structure(kind, table[at : at + length], strings)
        at = end + 2


def read(*, sys: Path) -> tuple[Structure, ...]:
    """The tables of this machine.

    Args:
        sys: Root of sysfs.

    Returns:
        All structures.

    Raises:
        OSError: There are none, or this user may not read them.
    """
    return tuple(structures((sys / TABLES).read_bytes()))


def memory_device(structure: Structure) -> dict[str, Any]:
    """A memory module, or the empty place of one.

    Args:
        structure: A structure of type 17.

    Returns:
        "locator", "bank", "size_mib" (0: empty), and of a module "type", "speed_mts",
        "configured_mts", "ranks", "maker" and "part"; what the firmware leaves out is absent.
    """
    size = structure.number(0x0C, 2) or 0
    if size == 0x7FFF:
        mib = (structure.number(0x1C, 4) or 0) & 0x7FFFFFFF
    elif size == 0xFFFF:
        mib = -1
    else:
        mib = (size & 0x7FFF) // 1024 if size & 0x8000 else size
    kind = structure.number(0x12, 1) or 0
    found: dict[str, Any] = {
        "locator": structure.text(0x10),
        "bank": structure.text(0x11),
        "size_mib": mib,
    }
    if mib:
        found |= {
            "type": _MEMORY_TYPES.get(kind, ""),
            "speed_mts": _speed(structure, 0x15, 0x54),
            "configured_mts": _speed(structure, 0x20, 0x58),
            "ranks": (structure.number(0x1B, 1) or 0) & 0x0F,
            "maker": structure.text(0x17),
            "part": structure.text(0x1A),
        }
    return {key: value for key, value in found.items() if value or key == "size_mib"}


def _speed(structure: Structure, offset: int, longer: int) -> int:
    """Transfers/s in millions; 0 when the firmware does not say."""
    speed = structure.number(offset, 2) or 0
    return (structure.number(longer, 4) or 0) if speed == 0xFFFF else speed


def error_correction(found: tuple[Structure, ...]) -> str:
    """How the first memory array corrects errors; "" when the firmware does not say."""
    arrays = (s for s in found if s.kind == MEMORY_ARRAY)
    return next((_CORRECTIONS.get(s.number(0x06, 1) or 0, "") for s in arrays), "")


def slots(found: tuple[Structure, ...]) -> dict[str, str]:
    """What the board calls the slots of PCI devices.

    Args:
        found: The tables.

    Returns:
        Address of the slot's bus and device, "0000:3b:00" -> "PCIe Slot 3".
    """
    named = {}
    for structure in found:
        segment = structure.number(0x0D, 2)
        bus, function = structure.number(0x0F, 1), structure.number(0x10, 1)
        name = structure.text(0x04)
        if structure.kind != SYSTEM_SLOT or None in (segment, bus, function) or not name:
            continue
        if (segment, bus, function) != (0xFFFF, 0xFF, 0xFF):  # empty, or not PCI
            named[f"{segment:04x}:{bus:02x}:{(function or 0) >> 3:02x}"] = name
    return named
