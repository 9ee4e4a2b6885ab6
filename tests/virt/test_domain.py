"""Guests as libvirt's XML: golden files for review, and what cannot be a guest."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vnetperf.virt.domain import (
    BootFiles,
    Domain,
    GuestNic,
    NetdevBacking,
    Offloads,
    VfBacking,
    VhostUserBacking,
    domain_xml,
)

GOLDEN = Path(__file__).parent / "golden"
MACS = ("02:76:61:00:00:00", "02:76:61:01:00:00")
BOOT = BootFiles(kernel=Path("/i/vmlinuz"), initrd=Path("/i/initrd"), cmdline="console=ttyS0")


def nic(number: int = 0, **changes: Any) -> GuestNic:
    backing = changes.pop("backing", VhostUserBacking(socket=f"/r/{number}.sock", server=True))
    return GuestNic(mac=MACS[number], backing=backing, **changes)


def guest(**changes: Any) -> Domain:
    plain: dict[str, Any] = {
        "name": "vnf0",
        "accelerator": "tcg",
        "emulator": Path("/usr/bin/qemu-system-x86_64"),
        "vcpus": 2,
        "memory_mib": 512,
        "boot": BOOT,
        "console": Path("/r/console.log"),
    }
    return Domain(**(plain | changes))


def tree_of(domain: Domain) -> Element:
    return fromstring(domain_xml(domain))  # noqa: S314 - our own text


GUESTS = {
    "vhost_user_pinned_on_hugepages": guest(
        nics=(
            nic(0, rx_ring=1024, tx_ring=1024, queues=2, mergeable=False, packed=True),
            nic(1, backing=VhostUserBacking(socket="/r/1.sock", server=False), mtu=9000),
        ),
        vcpu_pins=((0,), (2, 3)),
        emulator_pin=(0,),
        hugepage_kb=2048,
        output=Path("/r/output.log"),
        node=1,
    ),
    "taps_with_and_without_vhost": guest(
        accelerator="kvm",
        nics=(
            nic(
                0,
                backing=NetdevBacking(netdev="t0", vhost=True),
                offloads=Offloads(csum=True, tso=False, ufo=False, ecn=True, gso=False),
            ),
            nic(1, backing=NetdevBacking(netdev="t1"), model="e1000"),
        ),
        iothread_pins=((1,),),
        boot=BOOT.model_copy(update={"disk": Path("/i/root.img")}),
    ),
    "macvtaps_of_models": guest(
        nics=(
            nic(
                0,
                backing=NetdevBacking(kind="macvtap", netdev="m0", vhost=True),
                queues=2,
                mtu=9000,
            ),
            nic(1, backing=NetdevBacking(kind="macvtap", netdev="m1"), model="rtl8139"),
        ),
    ),
    "a_function_and_a_disk_of_its_own": guest(
        nics=(nic(0, backing=VfBacking(pci="0000:3b:02.1")),),
        boot=BootFiles(disk=Path("/i/user.qcow2"), disk_format="qcow2"),
        hugepage_kb=1048576,
        memory_mib=2048,
        node=0,
    ),
}


@pytest.mark.parametrize("name", GUESTS)
def test_a_guest_is_rendered_as_reviewed(name: str) -> None:
    assert domain_xml(GUESTS[name]) == (GOLDEN / f"{name}.xml").read_text()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vcpu_pins": ((0,),)}, "1 pins for 2 vCPUs"),
        ({"node": -1}, "node"),
        ({"hugepage_kb": 4095}, "hugepage_kb"),
        ({"hugepage_kb": 4}, "hugepage_kb"),
        ({"name": "a b"}, "name"),
    ],
)
def test_what_does_not_add_up_is_no_guest(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        guest(**changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": "e1000"}, "a vhost-user NIC is virtio, not e1000"),
        (
            {"model": "e1000", "queues": 2, "backing": NetdevBacking(netdev="t")},
            "has one queue pair",
        ),
        ({"rx_ring": 300}, "power of two"),
        ({"backing": {"kind": "vf", "pci": "eth0"}}, "pci"),
    ],
)
def test_what_no_nic_can_be(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        nic(0, **changes)


def test_a_guest_boots_something() -> None:
    with pytest.raises(ValidationError, match="boots a kernel or a disk"):
        BootFiles()


def test_memory_is_shared_exactly_when_another_process_maps_it() -> None:
    shared = tree_of(guest(nics=(nic(),)))
    assert shared.find("memoryBacking/access[@mode='shared']") is not None
    alone = tree_of(guest(nics=(nic(0, backing=NetdevBacking(netdev="t")),)))
    assert alone.find("memoryBacking") is None


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_whatever_a_command_line_holds_comes_back(text: str) -> None:
    boot = BOOT.model_copy(update={"cmdline": text})
    assert (tree_of(guest(boot=boot)).findtext("os/cmdline") or "") == text


@given(st.lists(st.sets(st.integers(0, 200), min_size=1), min_size=1, max_size=8))
def test_every_vcpu_has_its_pin(pins: list[set[int]]) -> None:
    wanted = tuple(tuple(sorted(cpus)) for cpus in pins)
    tree = tree_of(guest(vcpus=len(pins), vcpu_pins=wanted))
    assert [pin.get("vcpu") for pin in tree.findall("cputune/vcpupin")] == [
        str(number) for number in range(len(pins))
    ]
