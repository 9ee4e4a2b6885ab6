"""testpmd in a guest: how it gets NICs, by the drivers that the guest's kernel has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from vnetperf.model.errors import DutError
from vnetperf.virt.domain import BootFiles, Domain, GuestNic, NetdevBacking, VfBacking
from vnetperf.virt.guest import Guest
from vnetperf.vnfs.vloop.guest_forwarders import NOIOMMU, GuestTestpmd

MACS = ("02:76:61:00:00:00", "02:76:61:01:00:00")
#: The second NIC has the lower address: DPDK numbers it first.
PCIS = {"eth0": "0000:06:00.0", "eth1": "0000:05:00.0"}


class FakeAgent:
    """An agent that takes notes; its kernel has vfio without an IOMMU, or has not."""

    def __init__(self, *, noiommu: bool) -> None:
        self.noiommu = noiommu
        self.ran: list[str] = []
        self.written: list[tuple[str, str]] = []

    def run(self, argv: Sequence[str]) -> str:
        self.ran.append(" ".join(argv))
        name = argv[-1].split("/")[-2] if argv[0] == "readlink" else ""
        return f"/sys/devices/pci0000:00/{PCIS[name]}/virtio1\n" if name else ""

    def write(self, path: str, text: str) -> None:
        if path == NOIOMMU and not self.noiommu:
            raise DutError("no such file", where=path)
        self.written.append((path, text))


def taken(
    backing: NetdevBacking | VfBacking, *, noiommu: bool
) -> tuple[GuestTestpmd, FakeAgent, list[str]]:
    agent = FakeAgent(noiommu=noiommu)
    domain = Domain(
        name="vnf0",
        accelerator="tcg",
        emulator=Path("/q"),
        vcpus=2,
        memory_mib=512,
        boot=BootFiles(kernel=Path("/k")),
        nics=tuple(GuestNic(mac=mac, backing=backing) for mac in MACS),
        console=Path("/c"),
    )
    names = dict(zip(MACS, PCIS, strict=True))
    guest = SimpleNamespace(agent=agent, domain=domain, interface=names.__getitem__)
    testpmd = GuestTestpmd(cast("Guest", guest), "vnf0", {})
    return testpmd, agent, list(testpmd.take_nics(1500))


VF = VfBacking(pci="0000:41:10.0")


@pytest.mark.parametrize(
    ("backing", "noiommu", "driver"),
    [
        (NetdevBacking(netdev="t"), True, "vfio-pci"),
        (NetdevBacking(netdev="t"), False, "uio_pci_generic"),
        (VF, True, "vfio-pci"),
    ],
)
def test_it_drives_nics_itself_where_a_driver_gives_them_away(
    backing: NetdevBacking | VfBacking, noiommu: bool, driver: str
) -> None:
    testpmd, agent, devices = taken(backing, noiommu=noiommu)
    assert devices == ["-a0000:06:00.0", "-a0000:05:00.0"]
    assert (testpmd.number(0), testpmd.number(1)) == (1, 0)
    assert testpmd.driver == driver
    overridden = [text for path, text in agent.written if path.endswith("driver_override")]
    assert overridden == [driver, driver]


def test_a_function_without_an_interrupt_line_stays_the_kernels() -> None:
    testpmd, agent, devices = taken(VF, noiommu=False)
    assert [device.partition(",framesz")[0] for device in devices] == [
        "--vdev=net_af_packet0,iface=eth0",
        "--vdev=net_af_packet1,iface=eth1",
    ]
    assert (testpmd.number(0), testpmd.number(1)) == (0, 1)
    assert "packet sockets" in testpmd.driver
    assert "ip link set dev eth1 mtu 1500 up" in agent.ran
    assert not any(path.endswith("unbind") for path, _ in agent.written)
