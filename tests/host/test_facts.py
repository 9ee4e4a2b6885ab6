"""What a machine says of its system and hardware, and what none of it breaks."""

from __future__ import annotations

import json
import re
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.agent.inventory import take_inventory
from vnetperf.host import kernel
from vnetperf.host.facts import UNKNOWN, attempt, hardware, is_unknown
from vnetperf.host.facts.hardware import (
    collect,
    device_interrupts,
    interrupt_facts,
    memory_facts,
    nic_facts,
)
from vnetperf.host.facts.system import _compiler, uptime
from vnetperf.host.nic import pci
from vnetperf.host.programs import build_id, kvm_facts, software_facts
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program, Testbed


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def test_this_machine_in_plain_values_and_fast() -> None:
    collect()
    begin = time.monotonic()
    facts = collect()
    assert time.monotonic() - begin < 10
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cpu"]["topology"]["online"]
    assert facts["memory"]["total_kb"] > 0
    assert None not in leaves(facts)


def test_a_machine_that_tells_nothing_has_every_key_all_the_same(tmp_path: Path) -> None:
    facts, real = collect(tmp_path), collect()
    assert facts.keys() == real.keys()
    for area in ("memory", "kernel", "distribution", "firmware", "cpu"):
        assert facts[area].keys() == real[area].keys()
        for name, value in facts[area].items():
            # Lists of what there is can be empty; all else must say why it is not there.
            assert (
                is_unknown(value)
                or value in ([], 0, "PREEMPT_NONE or PREEMPT_VOLUNTARY")
                or (name == "hugepages")
            ), (area, name, value)


def test_a_fact_that_cannot_be_had_says_why() -> None:
    def fail() -> None:
        raise HostError("refused", where="/sys/x", cure="c")

    assert attempt(fail) == f"{UNKNOWN}/sys/x: refused"
    assert attempt(lambda: 1 / 0).startswith("unknown: ZeroDivisionError")


def test_versions_from_the_list_of_packages(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(
        "Package: dpdk\nStatus: install ok installed\nVersion: 22.11.1\n\n"
        "Package: vpp\nStatus: deinstall ok config-files\nVersion: 26.06\n\n"
    )
    programs = (
        Program(name="dpdk-testpmd", software="dpdk", debian=("dpdk", "libdpdk-dev")),
        Program(name="vpp", package="vpp", software="vpp"),
        Program(name="gcc", package="gcc", software="gcc"),
        Program(name="tc", package="iproute2"),
    )
    facts = software_facts(programs, {"vpp": "", "gcc": "/usr/bin/gcc"}, dpkg_status=status)
    assert facts["dpdk"] == "22.11.1"
    assert facts["vpp"] == "not installed"
    assert is_unknown(facts["gcc"])
    assert "tc" not in facts


def test_kvm_is_not_said_to_work_because_it_is_there(tmp_path: Path) -> None:
    assert kvm_facts(dev=tmp_path)["present"] == "no"
    (tmp_path / "kvm").write_text("")
    assert kvm_facts(dev=tmp_path)["usable"].startswith("not proved")


def test_facts_of_a_server(tmp_path: Path) -> None:
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "product_name").write_text("PowerEdge R750\n")
    (dmi / "bios_version").write_text("1.10.2\n")
    device = tmp_path / "sys/devices/pci0/0000:3b:00.0"
    (device / "net/ens1f0").mkdir(parents=True)
    (tmp_path / "sys/class/net/ens1f0").mkdir(parents=True)
    (tmp_path / "sys/class/net/ens1f0/speed").write_text("25000\n")
    for name, value in {
        "class": "0x020000",
        "vendor": "0x8086",
        "device": "0x158b",
        "numa_node": "1",
        "sriov_totalvfs": "64",
        "sriov_numvfs": "2",
    }.items():
        (device / name).write_text(f"{value}\n")
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    (bus / device.name).symlink_to(device)
    facts = collect(tmp_path)
    assert facts["firmware"]["bios_version"] == "1.10.2"
    assert facts["virtualisation"] == "none"
    [nic] = facts["nics"]
    assert (nic["pci"], nic["speed_mbps"], nic["node"]) == ("0000:3b:00.0", 25000, 1)
    assert nic["vfs"] == 2
    assert "8086:158b" in nic["model"]
    assert pci.nic("0000:3b:00.0", sys=tmp_path / "sys").max_vfs == 64


def test_the_virtual_lab_is_known_by_its_command_line(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    for option, expected in {"vnetperf.virt=1": True, "vnetperf.virt=10": False}.items():
        (tmp_path / "proc/cmdline").write_text(f"quiet {option} ro\n")
        assert collect(tmp_path)["virtual_lab"] is expected
    assert is_unknown(collect(tmp_path / "nowhere")["virtual_lab"])


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_boot_options_with_their_meaning() -> None:
    found = kernel.boot_options("ro isolcpus=managed_irq,domain,2-7 rcu-nocbs=2-7 nosmt iommu=pt")
    assert found["isolcpus"]["value"] == "managed_irq,domain,2-7"
    assert "scheduler" in found["isolcpus"]["means"]
    assert found["rcu_nocbs"]["value"] == "2-7"
    assert found["nosmt"]["value"] == "yes"
    assert found["nohz_full"] == kernel.NOT_GIVEN
    assert "tsx" not in found


def test_an_option_given_twice_keeps_both() -> None:
    found = kernel.boot_options("hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=512")
    assert found["hugepages"]["value"] == "4; 512"


def test_a_quoted_value_is_one_word() -> None:
    assert kernel.boot_options('dyndbg="file x +p" idle=poll')["idle"]["value"] == "poll"


@given(st.text())
def test_no_command_line_breaks_it(text: str) -> None:
    kernel.boot_options(text)


def test_an_unknown_command_line_is_unknown() -> None:
    assert kernel.boot_options("unknown: no /proc") == "unknown: no /proc"


def test_interrupts_by_the_processors_they_may_go_to(tmp_path: Path) -> None:
    files = {f"irq/{n}/smp_affinity_list": "0-1" for n in (4, 5, 6)}
    proc = put(tmp_path / "proc", {**files, "irq/9/smp_affinity_list": "3"})
    put(proc, {"irq/default_smp_affinity": "00000001,00000003", "self/x": "", "77/comm": "bash"})
    facts = interrupt_facts(proc=proc)
    assert facts == {
        "default_affinity": "0-1,32",
        "affinity": {"0-1": "4-6", "3": "9"},
        "irqbalance": "does not run",
    }
    put(proc, {"78/comm": "irqbalance"})
    assert interrupt_facts(proc=proc)["irqbalance"] == "runs"


def test_interrupts_of_a_device(tmp_path: Path) -> None:
    put(tmp_path, {f"sys/bus/pci/devices/0000:3b:00.0/msi_irqs/{n}": "msi" for n in (24, 25)})
    put(tmp_path, {"proc/irq/24/smp_affinity_list": "2", "proc/irq/25/smp_affinity_list": "3"})
    sys, proc = tmp_path / "sys", tmp_path / "proc"
    assert device_interrupts("0000:3b:00.0", sys=sys, proc=proc) == {"2": "24", "3": "25"}
    assert is_unknown(device_interrupts("0000:3c:00.0", sys=sys, proc=proc))


def test_interrupts_that_a_driver_has_not_asked_for_are_not_made_up(tmp_path: Path) -> None:
    put(tmp_path, {"sys/bus/pci/devices/0000:3b:00.0/msi_irqs/24": "msi"})
    found = device_interrupts("0000:3b:00.0", sys=tmp_path / "sys", proc=tmp_path / "proc")
    assert found == "unknown: its driver requests them when its interface comes up"


@pytest.mark.parametrize("text", ["", "nothing of the kind"])
def test_uptime_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    if text:
        put(tmp_path, {"loadavg": text})
    assert is_unknown(uptime(proc=tmp_path))


def test_a_nic_with_slot_and_width(tmp_path: Path) -> None:
    device = tmp_path / "sys/devices/pci/0000:3a:00.0/0000:3b:00.0"
    put(
        device,
        {
            "class": "0x020000",
            "vendor": "0x8086",
            "device": "0x158b",
            "current_link_width": "8",
            "current_link_speed": "8.0 GT/s PCIe",
            "max_link_width": "16",
            "max_link_speed": "16.0 GT/s PCIe",
        },
    )
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    (bus / device.name).symlink_to(device)
    put(tmp_path, {"sys/bus/pci/slots/4/address": "0000:3b:00"})
    [nic] = nic_facts(sys=tmp_path / "sys", proc=tmp_path / "proc")
    assert (nic["slot"], nic["link_width"], nic["max_link_width"]) == ("4", "8", "16")
    assert nic["max_link_speed"] == "16.0 GT/s PCIe"
    assert is_unknown(nic["irqs"])
    assert is_unknown(nic["mac"])


def test_memory_of_each_node(tmp_path: Path) -> None:
    for node in (0, 1):
        text = f"Node {node} MemTotal:       {1024 * (node + 1)} kB\nNode {node} MemFree: 5 kB"
        folder = f"devices/system/node/node{node}"
        put(tmp_path, {f"{folder}/meminfo": text, f"{folder}/distance": "10 21"})
    facts = memory_facts(sys=tmp_path, proc=tmp_path)
    assert facts["nodes"] == [
        {"node": 0, "total_kb": 1024, "distances": "10 21"},
        {"node": 1, "total_kb": 2048, "distances": "10 21"},
    ]


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


def test_a_program_has_one_and_a_script_has_none(tmp_path: Path) -> None:
    shell = Path("/bin/sh").resolve()
    assert re.fullmatch("[0-9a-f]{16,}", build_id(shell))
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert build_id(script) == ""


@given(st.binary(max_size=400))
def test_no_file_breaks_it(tmp_path_factory: pytest.TempPathFactory, rest: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "elf"
    path.write_bytes(b"\x7fELF\x02\x01" + rest)
    build_id(path)


@given(st.integers(64, 3000))
def test_a_program_that_was_cut(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.getbasetemp() / "cut"
    path.write_bytes(Path(sys.executable).resolve().read_bytes()[:cut])
    build_id(path)


@pytest.mark.slow
def test_the_record_names_builds_by_path() -> None:
    programs = take_inventory(Testbed()).record["programs"]
    assert isinstance(programs, dict)
    for told in programs.values():
        assert told["path"].startswith("/")
        assert told["build id"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Linux version 6.1.0 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) "
            "12.2.0, GNU ld (GNU Binutils for Debian) 2.40) #1 SMP",
            "gcc-12 (Debian 12.2.0-14) 12.2.0",
        ),
        (
            "Linux version 6.6 (me@box7) (clang version 17.0.6, LLD 17.0.6) #1",
            "clang version 17.0.6",
        ),
        ("Linux version 4.4 (me@box7) #1 SMP", "unknown: /proc/version does not state it"),
    ],
)
def test_the_kernels_compiler_without_who_built_it(text: str, expected: str) -> None:
    assert _compiler(text) == expected
