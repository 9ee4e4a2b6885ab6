from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from vnetperf.host.facts import UNKNOWN, attempt, is_unknown
from vnetperf.host.facts.hardware import collect
from vnetperf.host.nic import pci
from vnetperf.host.programs import kvm_facts, software_facts
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program


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
