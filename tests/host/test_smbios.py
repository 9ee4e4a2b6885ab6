"""The firmware's tables, read without dmidecode."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from vnetperf.host.facts import hardware, is_unknown
from vnetperf.host.facts.hardware import memory_facts


def structure(kind: int, body: dict[int, bytes], length: int, *strings: str) -> bytes:
    data = bytearray(length)
    struct.pack_into("=BBH", data, 0, kind, length, 0x100 + kind)
    for offset, value in body.items():
        data[offset : offset + len(value)] = value
    texts = b"".join(text.encode() + b"\0" for text in strings) or b"\0"
    return bytes(data) + texts + b"\0"


def module(locator: str, mib: int, *, speed: int = 4800, bank: str = "BANK 0") -> bytes:
    size = min(mib, 0x7FFF)
    body = {
        0x0C: struct.pack("=H", size),
        0x10: bytes([1]),
        0x11: bytes([2]),
        0x12: bytes([0x22]),
        0x15: struct.pack("=H", speed),
        0x17: bytes([3]),
        0x1A: bytes([4]),
        0x1B: bytes([2]),
        0x1C: struct.pack("=I", mib if size == 0x7FFF else 0),
        0x20: struct.pack("=H", 4400),
    }
    return structure(17, body, 0x5C, locator, bank, "Samsung", "M321R4GA0BB0")


ARRAY = structure(16, {0x06: bytes([6])}, 0x17)
SLOT_BODY = {0x04: bytes([1]), 0x0D: struct.pack("=H", 0), 0x0F: b"\x3b", 0x10: b"\x08"}
SLOT = structure(9, SLOT_BODY, 0x11, "PCIe Slot 3")
END = structure(127, {}, 4)


def machine(tmp_path: Path, *tables: bytes) -> Path:
    path = tmp_path / "sys" / hardware.SMBIOS_TABLE
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join([*tables, END]))
    return tmp_path / "sys"


def test_modules_channels_and_correction(tmp_path: Path) -> None:
    sys = machine(
        tmp_path,
        ARRAY,
        module("CPU1_DIMM_A1", 65536),
        module("CPU1_DIMM_A2", 0),
        module("CPU1_DIMM_B1", 16384),
        module("CPU2_DIMM_A1", 16384),
        module("CPU2_DIMM_B1", 0),
    )
    facts = memory_facts(sys=sys, proc=tmp_path / "proc")
    populated = facts["modules"]["populated"]
    assert [m["size_mib"] for m in populated] == [65536, 16384, 16384]
    assert populated[0] == {
        "locator": "CPU1_DIMM_A1",
        "bank": "BANK 0",
        "size_mib": 65536,
        "type": "DDR5",
        "speed_mts": 4800,
        "configured_mts": 4400,
        "ranks": 2,
        "maker": "Samsung",
        "part": "M321R4GA0BB0",
    }
    assert facts["modules"]["empty places"] == 2
    assert facts["channels"] == {"used": 3, "of": 4}
    assert facts["error_correction"] == "multi-bit ECC"


def test_channels_in_the_name_of_the_bank(tmp_path: Path) -> None:
    banks = [f"P0_Node0_Channel{n}_Dimm0" for n in range(8)]
    modules = [module(f"DIMM {n}", 32768 if n < 6 else 0, bank=b) for n, b in enumerate(banks)]
    facts = memory_facts(sys=machine(tmp_path, *modules), proc=tmp_path)
    assert facts["channels"] == {"used": 6, "of": 8}


def test_names_that_tell_no_channel_make_none_up(tmp_path: Path) -> None:
    sys = machine(tmp_path, module("DIMM 0", 1024, bank="Not Specified"))
    facts = memory_facts(sys=sys, proc=tmp_path)
    assert is_unknown(facts["channels"])
    assert is_unknown(facts["error_correction"])
    assert "bank" not in facts["modules"]["populated"][0]


def test_without_tables_every_fact_says_so(tmp_path: Path) -> None:
    facts = memory_facts(sys=tmp_path / "sys", proc=tmp_path / "proc")
    for name in ("modules", "channels", "error_correction"):
        assert facts[name] == (
            "unknown: the firmware's tables: the machine has none "
            "(/sys/firmware/dmi/tables/DMI is not there)"
        )


def test_slots_by_address() -> None:
    assert hardware.smbios_slots(tuple(hardware.smbios_structures(SLOT + END))) == {
        "0000:3b:01": "PCIe Slot 3"
    }


@given(st.binary(max_size=200))
def test_no_table_breaks_the_reading(table: bytes) -> None:
    for found in hardware.smbios_structures(table):
        hardware.memory_device(found)
        hardware.smbios_slots((found,))
        hardware.error_correction((found,))


@given(st.integers(0, 300))
def test_a_cut_table_gives_what_was_whole(cut: int) -> None:
    whole = ARRAY + module("A1", 1024) + module("B1", 1024)
    found = list(hardware.smbios_structures(whole[:cut]))
    assert found == list(hardware.smbios_structures(whole))[: len(found)]
