"""What a guest's NIC costs: models of NICs, offloads and rings, and who moves the frames.

The attachment is the vSwitch's: `-k pvp_bridge` and `pvp_ovs` give taps, `pvp_macvtap` macvtaps,
`pvp_dpdk` and `pvp_vpp` vhost-user. What a NIC cannot be on an attachment is skipped, and says why:
all of it on `pvp_sriov`, where the NIC is a function of the machine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

OFFLOADS = ("csum", "tso", "ufo", "ecn", "gso", "gro")


def _nic(name: str, *options: str) -> object:
    return pytest.param(options, id=name)


@pytest.mark.vary("vnf", [pytest.param("vloop:vm", id="vm")])
@pytest.mark.vary("vnf_mode", [pytest.param("route", id="route")])
@pytest.mark.vary(
    "guest",
    [
        _nic("virtio", "nic=virtio", *(f"{name}=true" for name in OFFLOADS)),
        _nic("no-offloads", "nic=virtio", *(f"{name}=false" for name in OFFLOADS)),
        _nic("no-vhost", "nic=virtio", "vhost=false"),
        _nic("e1000", "nic=e1000"),
        _nic("rtl8139", "nic=rtl8139"),
    ],
)
def test_throughput_by_nic(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of a guest whose kernel routes, by what its NICs are."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.vary("vnf", [pytest.param("vloop:vm", id="vm")])
@pytest.mark.vary(
    "guest",
    [
        _nic("virtio", "nic=virtio"),
        _nic("packed", "nic=virtio", "packed=true"),
        _nic("not-mergeable", "nic=virtio", "mergeable=false"),
        _nic("short-rings", "nic=virtio", "rx_ring=256", "tx_ring=256"),
        _nic("e1000", "nic=e1000"),
    ],
)
def test_throughput_by_nic_with_dpdk(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of a guest in which testpmd has the NICs, by what they are."""
    bench.search_throughput(frame_size).check_expectations()
