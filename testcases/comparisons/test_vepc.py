"""What sessions, the mover of packets, offloads and NICs cost the user plane of a mobile core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

OFFLOADS = ("csum", "tso", "ufo", "ecn", "gso", "gro")


@pytest.mark.deployments("vepc")
@pytest.mark.vary("core", ["sessions=1", "sessions=100", "sessions=1000"])
def test_throughput_by_sessions(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by the number of UEs whose packets are carried."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.deployments("vepc")
@pytest.mark.vary("core", ["gtpu_mode=tun", "gtpu_mode=kernel"])
def test_throughput_by_gtpu_mode(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput by what moves users' packets: its program or the kernel."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.deployments("vepc")
@pytest.mark.vary("set", ["offloads=false", "offloads=true"])
def test_throughput_by_offloads(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput with and without checksum and segmentation offloads of the ports."""
    bench.search_throughput(frame_size).check_expectations()


def _nic(name: str, *options: str) -> object:
    return pytest.param(options, id=name)


@pytest.mark.deployments("vepc")
@pytest.mark.vary("vnf", [pytest.param("vepc:vm", id="core,vm")])
@pytest.mark.vary(
    "guest",
    [
        _nic("virtio", "nic=virtio", *(f"{name}=true" for name in OFFLOADS)),
        _nic("no-offloads", "nic=virtio", *(f"{name}=false" for name in OFFLOADS)),
        _nic("e1000", "nic=e1000"),
        _nic("rtl8139", "nic=rtl8139"),
    ],
)
def test_throughput_by_nic(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of a mobile core in a VM, by what its NICs are.

    The attachment is the vSwitch's: `-k vepc_bridge` and `vepc_ovs` give taps,
    `vepc_macvtap` macvtaps.
    """
    bench.search_throughput(frame_size).check_expectations()
