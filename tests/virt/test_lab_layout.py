"""The lab's machine as QEMU is told of it, and as its testbed file names it."""

from __future__ import annotations

import re

import pytest

from vnetperf import config
from vnetperf.model.errors import ConfigError
from vnetperf.model.testbed import Testbed
from vnetperf.virt.lab_boot import NICS, LabMachine


def devices(machine: LabMachine, kind: str) -> list[dict[str, str]]:
    """Properties of each device of a kind, in order."""
    options = machine.qemu_options()
    found = [options[n + 1] for n, option in enumerate(options) if option == "-device"]
    return [
        dict(part.split("=") for part in text.split(",")[1:])
        for text in found
        if text.split(",")[0] == kind
    ]


def test_every_nic_has_a_port_of_its_own_on_a_bus_of_its_node() -> None:
    machine = LabMachine()
    buses = {bus["id"]: bus for bus in devices(machine, "pxb-pcie")}
    ports = {port["id"]: port for port in devices(machine, "pcie-root-port")}
    assert len({port["chassis"] for port in ports.values()}) == len(NICS)
    for nic, device in zip(NICS, devices(machine, "igb"), strict=True):
        port = ports[device["bus"]]
        bus = buses[port["bus"]]
        assert int(bus["numa_node"]) == nic.node
        # Firmware numbers the buses behind a bus's ports in the order of their slots.
        expected = int(bus["bus_nr"], 16) + 1 + int(port["addr"], 16)
        assert nic.pci == f"0000:{expected:02x}:00.0"


def test_cables_join_a_tester_and_a_dut() -> None:
    options = " ".join(LabMachine().qemu_options())
    ends: dict[str, list[str]] = {}
    for name, hub in re.findall(r"hubport,id=cable-(\w+),hubid=(\d+)", options):
        ends.setdefault(hub, []).append(name)
    assert ends == {"0": ["tester0", "dut0"], "1": ["tester1", "dut1"]}
    assert len({nic.mac for nic in NICS}) == len(NICS)


def test_the_testbed_file_names_the_nics_of_the_layout() -> None:
    testbed = config.load_model(Testbed, config.find_file("testbeds", "lab"))
    named = [(wire.tester, wire.dut) for wire in testbed.nics]
    by_cable = {(nic.cable, nic.side): nic.pci for nic in NICS}
    assert named == [(by_cable[n, "tester"], by_cable[n, "dut"]) for n in range(2)]


def test_processors_and_memory_are_spread_over_the_nodes() -> None:
    assert LabMachine(cpus=8, memory_mib=6144).numa() == ("3072M,cpus=0-3", "3072M,cpus=4-7")


def test_emulation_unless_told_otherwise() -> None:
    assert "kvm" not in " ".join(LabMachine().qemu_options())
    assert LabMachine(accelerator="kvm").qemu_options()[:2] == ["-accel", "kvm"]


@pytest.mark.parametrize(
    ("cpus", "memory", "where"), [(3, 4096, "--cpus"), (0, 4096, "--cpus"), (4, 512, "--memory")]
)
def test_a_machine_that_cannot_be_is_refused(cpus: int, memory: int, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LabMachine(cpus=cpus, memory_mib=memory)
    assert caught.value.where == where
    assert caught.value.accepted


def test_guests_of_the_lab_need_a_thread_for_each_processor_or_hardware() -> None:
    assert not LabMachine().takes_guests
    several = LabMachine(threads="multi")
    assert several.takes_guests
    assert several.qemu_options()[:2] == ["-accel", "tcg,thread=multi"]
    assert LabMachine(accelerator="kvm").takes_guests
