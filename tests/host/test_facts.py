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
from vnetperf.host.facts.system import (
    cpu_facts,
    find_compiler,
    kernel_facts,
    uptime,
    virtualisation,
)
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
            assert is_unknown(value) or value in ([], 0) or name == "hugepages", (area, name, value)


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


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"version": "1.2.3"}, "1.2.3"),
        ({}, "the kernel's own"),
        ({"taint": ""}, "the kernel's own"),
        ({"taint": "E"}, "the kernel's own"),
        ({"taint": "OE"}, None),
    ],
)
def test_a_driver_is_the_kernels_own_unless_the_kernel_says_otherwise(
    tmp_path: Path, files: dict[str, str], version: str | None
) -> None:
    for name, text in files.items():
        path = tmp_path / "module/ice" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    found = hardware.read_driver_version(tmp_path / "device", tmp_path, "ice")
    assert found == version if version else is_unknown(found)


def test_a_module_of_another_name_than_its_driver_is_found(tmp_path: Path) -> None:
    module, device = tmp_path / "module/rvu_nicpf", tmp_path / "device/driver"
    for folder in (module, device):
        folder.mkdir(parents=True)
    (device / "module").symlink_to(module)
    (module / "taint").write_text("O\n")
    assert is_unknown(hardware.read_driver_version(device.parent, tmp_path, "rvu-nicpf"))
    (module / "version").write_text("2.1\n")
    assert hardware.read_driver_version(device.parent, tmp_path, "rvu-nicpf") == "2.1"


@pytest.mark.parametrize(
    ("lines", "runs_it"),
    [
        ("LPAR Number: 3\nVM00 Name: g\nVM00 Control Program: KVM/Linux\n", "kvm"),
        ("LPAR Number: 3\nVM00 Control Program: z/VM    6.4.0\n", "zvm"),
        ("Manufacturer: IBM\nLPAR Number: 3\nLPAR Name: A\n", "lpar"),
    ],
)
def test_what_runs_an_s390x_is_in_its_sysinfo(tmp_path: Path, lines: str, runs_it: str) -> None:
    proc = put(tmp_path / "proc", {"sysinfo": lines, "cpuinfo": "processor 0: version = 00\n"})
    assert virtualisation(sys=tmp_path / "sys", proc=proc) == runs_it


def test_a_subsystem_of_windows_is_known_by_its_kernel(tmp_path: Path) -> None:
    kernel_name = {"sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"}
    proc = put(tmp_path / "proc", kernel_name | {"cpuinfo": f"processor: 0\n{X86_GUEST}\n"})
    assert virtualisation(sys=tmp_path / "sys", proc=proc) == "wsl"


def test_how_a_kernel_preempts_is_not_guessed(tmp_path: Path) -> None:
    proc = put(tmp_path / "proc", {"sys/kernel/version": "#1 SMP Thu Jan 1\n"})
    facts = kernel_facts(sys=tmp_path / "sys", proc=proc)
    assert facts["preempt"] == "PREEMPT_NONE or PREEMPT_VOLUNTARY"
    (proc / "sys/kernel/version").unlink()
    assert is_unknown(kernel_facts(sys=tmp_path / "sys", proc=proc)["preempt"])


@pytest.mark.parametrize("speed", ["Unknown", "Unknown speed", "unknown"])
def test_a_speed_of_pcie_that_stands_for_none_is_unknown(tmp_path: Path, speed: str) -> None:
    device = "bus/pci/devices/0000:3b:00.0"
    files = {"class": "0x020000", "current_link_speed": speed, "max_link_speed": "16.0 GT/s PCIe"}
    sys = put(tmp_path, {f"{device}/{name}": text for name, text in files.items()})
    (found,) = nic_facts(sys=sys, proc=tmp_path)
    assert is_unknown(found["link_speed"])
    assert found["max_link_speed"] == "16.0 GT/s PCIe"


@pytest.mark.parametrize("package", ["-1", "4294967295", None])
def test_sockets_that_nobody_knows_are_not_one(tmp_path: Path, package: str | None) -> None:
    files = {f"devices/system/cpu/cpu{n}/topology/core_id": str(n) for n in range(2)}
    files["devices/system/cpu/cpu0/topology/physical_package_id"] = "0"
    if package is not None:
        files["devices/system/cpu/cpu1/topology/physical_package_id"] = package
    sys = put(tmp_path / "sys", files)
    assert is_unknown(cpu_facts(sys=sys, proc=tmp_path)["topology"]["packages"])
    assert is_unknown(kernel_facts(sys=sys, proc=tmp_path)["clock_offset"])
    put(sys, {"devices/system/cpu/cpu1/topology/physical_package_id": "0"})
    assert cpu_facts(sys=sys, proc=tmp_path)["topology"]["packages"] == 1
    assert kernel_facts(sys=sys, proc=tmp_path)["clock_offset"] == "one socket"


@pytest.mark.parametrize("hidden", ["namespace", "process 1"])
def test_irqbalance_that_could_not_be_seen_is_not_said_not_to_run(
    tmp_path: Path, hidden: str
) -> None:
    proc = put(tmp_path, {"self/x": "", "77/comm": "bash\n"})
    if hidden == "namespace":
        put(proc, {"1/comm": "pause\n"})
        (proc / "self/ns").mkdir()
        (proc / "self/ns/pid").symlink_to("pid:[4026532400]")
    assert is_unknown(interrupt_facts(proc=proc)["irqbalance"])
    put(proc, {"78/comm": "irqbalance\n"})
    assert interrupt_facts(proc=proc)["irqbalance"] == "runs"


UNNAMED = "a hypervisor that does not report its name"
ACME, POWER = {"sys_vendor": "Acme Cloud"}, "cpu : POWER9 (architected), altivec supported"
X86, X86_GUEST, ARM = "flags : fpu avx2", "flags : fpu hypervisor", "Features : fp asimd"
EC2 = {"product_name": "c5.metal", "sys_vendor": "Amazon EC2", "board_vendor": "Amazon EC2"}
GCE = {"product_name": "Google Compute Engine", "sys_vendor": "Google"}
QEMU = {"product_name": "KVM Virtual Machine", "sys_vendor": "QEMU"}
DELL = {"product_name": "PowerEdge R750", "sys_vendor": "Dell Inc."}


@pytest.mark.parametrize(
    ("cpuinfo", "firmware", "runs_it"),
    [
        (X86, (EC2, {}, None), "none"),
        (X86, (GCE, {}, True), "none"),
        (X86, (EC2 | {"bios_vendor": "Xen"}, {}, None), "none"),
        (X86_GUEST, (EC2, {}, None), "amazon"),
        (X86_GUEST, (GCE, {}, False), "google"),
        (X86_GUEST, (EC2 | {"bios_vendor": "Xen"}, {}, None), "xen"),
        (X86_GUEST, (DELL, {}, None), UNNAMED),
        (X86, (DELL, {}, None), "none"),
        (X86, (QEMU, {}, None), "kvm"),  # its flag can be hidden, and nobody else is called so
        (X86, (DELL | {"product_name": "ProLiant Xenial"}, {}, None), "none"),
        (ARM, ({}, {"hypervisor/compatible": "linux,kvm\0"}, None), "kvm"),
        (ARM, ({}, {"hypervisor/compatible": "xen,xen-4.17\0xen,xen\0"}, None), "xen"),
        (ARM, ({}, {"hypervisor/compatible": "acme,visor\0"}, None), UNNAMED),
        (ARM, ({}, {"compatible": "linux,dummy-virt\0", "fw-cfg@9020000/reg": ""}, None), "qemu"),
        (ARM, ({}, {"compatible": "raspberrypi,4-model-b\0"}, None), "none"),
        (ARM, (EC2, {}, True), "amazon"),
        (ARM, (EC2, {}, False), "none"),
        (ARM, (EC2, {}, None), None),
        ("", (DELL, {}, None), None),
        # Boards of Firecracker and kvmtool; a partition of PowerVM; Apple's framework.
        (ARM, ({}, {"compatible": "linux,dummy-virt\0"}, None), UNNAMED),
        (
            POWER,
            ({}, {"compatible": "IBM,pSeries\0", "ibm,partition-name": "a\0"}, None),
            "powervm",
        ),
        (POWER, ({}, {"compatible": "ibm,powernv\0"}, None), "none"),
        (ARM, ({"product_name": "Apple Virtualization Generic Platform"}, {}, None), "apple"),
        # A cloud that nobody has heard of: only the tables' own bit tells.
        (ARM, (ACME, {}, True), UNNAMED),
        (ARM, (ACME, {}, False), "none"),
        (ARM, ({}, {}, None), None),
        (ARM, ({}, {}, True), UNNAMED),
    ],
)
def test_what_runs_a_machine_is_told_by_evidence(
    tmp_path: Path,
    cpuinfo: str,
    firmware: tuple[dict[str, str], dict[str, str], bool | None],
    runs_it: str | None,
) -> None:
    """Clouds let whole servers under the names of their virtual machines. None: not known."""
    (tmp_path / "proc").mkdir()
    if cpuinfo:
        (tmp_path / "proc/cpuinfo").write_text(f"processor : 0\n{cpuinfo}\n")
    dmi, tree, vm_bit = firmware
    for root, files in (("class/dmi/id", dmi), ("firmware/devicetree/base", tree)):
        for name, text in files.items():
            path = tmp_path / "sys" / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    found = virtualisation(sys=tmp_path / "sys", proc=tmp_path / "proc", vm_bit=vm_bit)
    assert found == runs_it if runs_it else is_unknown(found)


@pytest.mark.parametrize(("octets", "vm"), [(b"\x03\x1d", True), (b"\x03\x0d", False), (b"", None)])
def test_firmware_states_that_it_is_a_virtual_machines(octets: bytes, vm: bool | None) -> None:
    table = structure(0, {0x12: octets}, 0x12 + len(octets), "vendor")
    assert hardware.vm_bit(tuple(hardware.smbios_structures(table + END))) is vm


def test_a_distribution_states_itself_in_either_place(tmp_path: Path) -> None:
    file = tmp_path / "usr/lib/os-release"
    file.parent.mkdir(parents=True)
    file.write_text("ID=fedora\nVERSION_ID='42'\nPRETTY_NAME=\"Fedora Linux 42\"\n")
    found = collect(tmp_path)["distribution"]
    assert found == {"name": "Fedora Linux 42", "id": "fedora", "version": "42"}


def test_facts_of_a_server(tmp_path: Path) -> None:
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "product_name").write_text("PowerEdge R750\n")
    (dmi / "bios_version").write_text("1.10.2\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx2\n")
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
    put(proc, {"irq/default_smp_affinity": "00000001,00000003", "self/x": "", "1/comm": "init"})
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
    assert is_unknown(found)
    assert "its driver" in str(found)


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


@pytest.mark.parametrize(
    ("locators", "channels"),
    [
        # Letters that are a socket's on one board and a channel's on another.
        (("A1", "A2", "A3", "A4"), None),
        ((*(f"A{n}" for n in range(1, 9)), *(f"B{n}" for n in range(1, 9))), None),
        (("DIMM_A1", "DIMM_A2", "DIMM_B1", "DIMM_B2"), None),
        (("DIMM 1", "DIMM 2"), None),
        # One name for several places.
        (("ChannelA-DIMM0", "ChannelA-DIMM0"), None),
        # Two controllers of one channel each.
        (("Controller0-ChannelA-DIMM0", "Controller1-ChannelA-DIMM0"), {"used": 2, "of": 2}),
        (("ChannelA-DIMM0", "ChannelA-DIMM1", "ChannelB-DIMM0"), {"used": 2, "of": 2}),
        (("P1-DIMMA1", "P1-DIMMA2", "P1-DIMMB1", "P2-DIMMA1"), {"used": 3, "of": 3}),
    ],
)
def test_channels_are_told_by_names_that_tell_them(
    tmp_path: Path, locators: tuple[str, ...], channels: dict[str, int] | None
) -> None:
    sys = machine(tmp_path, *(module(name, 16384, bank="BANK 0") for name in locators))
    found = memory_facts(sys=sys, proc=tmp_path)["channels"]
    assert found == channels if channels else is_unknown(found)


def test_channels_are_those_of_the_controllers_driver_where_there_is_one(tmp_path: Path) -> None:
    for number in range(2):
        controller = tmp_path / f"sys/devices/system/edac/mc/mc{number}"
        for at, (channel, slot, size) in enumerate([(0, 0, 16384), (0, 1, 16384), (1, 0, 0)]):
            (controller / f"dimm{at}").mkdir(parents=True)
            place = f"channel {channel} slot {slot} \n"
            (controller / f"dimm{at}/dimm_location").write_text(place)
            (controller / f"dimm{at}/size").write_text(f"{size}\n")
        (controller / "max_location").write_text("channel 2 slot 1 \n")
    sys = machine(tmp_path, *(module(name, 16384) for name in ("A1", "A2", "B1", "B2")))
    assert memory_facts(sys=sys, proc=tmp_path)["channels"] == {"used": 2, "of": 6}
    (tmp_path / "sys/devices/system/edac/mc/mc1/max_location").write_text("csrow 3 \n")
    assert is_unknown(memory_facts(sys=sys, proc=tmp_path)["channels"])


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
        assert is_unknown(facts[name])
        assert "/sys/firmware/dmi/tables/DMI" in facts[name]


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
    assert find_compiler(text) == expected
