"""Interrupts, boot options, slots: facts of a made-up server."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.host import kernel
from vnetperf.host.facts import is_unknown
from vnetperf.host.facts.hardware import device_interrupts, interrupt_facts, memory_facts, nic_facts
from vnetperf.host.facts.system import uptime


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
