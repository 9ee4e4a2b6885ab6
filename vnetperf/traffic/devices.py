"""How DPDK programs of a tester reach the tester's ends of wires."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host import dpdk
from vnetperf.host.nic.pci import DPDK_DRIVERS
from vnetperf.model.deployment import VnfPort, WireEnd
from vnetperf.model.errors import GeneratorError
from vnetperf.model.scenario import Scenario

#: Frames of a memif's rings: where nothing else is wanted, and at most.
MEMIF_FRAMES, MOST_MEMIF_FRAMES = 1 << dpdk.MEMIF_RING_LOG2, 1 << 14
KERNEL_KINDS = ("veth", "macvtap", "macvlan", "ipvlan", "vlan", "nic", "vf")


@dataclass(frozen=True)
class DpdkDevice:
    """A device for one end; `pci`: EAL must look for PCI devices."""

    argument: str
    netdev: str = ""
    pci: bool = False


def dpdk_device(
    number: int,
    end: WireEnd,
    mtu: int,
    accepted: Iterable[str],
    *,
    own_socket: bool = False,
    frames: int = dpdk.AF_PACKET_FRAMES,
    memif_frames: int = MEMIF_FRAMES,
) -> DpdkDevice:
    """The device that plugs into an end.

    An attachment's memif socket is its own (`own_socket`), a wire's is shared by all wires. A
    kernel interface has rings of so many `frames`, a memif of so many `memif_frames`.
    """
    if end.kind == "memif":
        argument = dpdk.memif_devargs(
            number,
            role=end.role or "client",
            identity=0 if own_socket else end.wire,
            socket=required(end, "socket"),
            mtu=mtu,
            mac=end.mac or "",
            ring_log2=memif_frames.bit_length() - 1,
        )
        return DpdkDevice(f"--vdev={argument}")
    if end.pci and end.driver in DPDK_DRIVERS:
        return DpdkDevice(f"-a{end.pci}", pci=True)
    if end.kind in accepted and end.kind in KERNEL_KINDS:
        netdev = required(end, "netdev")
        return DpdkDevice(f"--vdev={dpdk.af_packet_devargs(number, netdev, mtu, frames)}", netdev)
    raise GeneratorError(
        f"cannot plug into a {end.kind}" + (f" under {end.driver}" if end.driver else ""),
        where=f"tester port {number}",
        accepted=", ".join(dict.fromkeys(accepted)),
    )


def memif_ring(scenario: Scenario, number: int) -> int:
    """Frames of the memif rings at an end.

    The client has the say, which the tester is on a wire: it takes what the DUT is to have, up to
    what memif allows. What plugs in in place of a VNF is that VNF's business.
    """
    if isinstance(scenario.deployment.ends[number], VnfPort):
        return MEMIF_FRAMES
    options = scenario.options
    descriptors = options.rx_descriptors or options.tx_descriptors or MEMIF_FRAMES
    return min(descriptors, MOST_MEMIF_FRAMES)


def required(end: WireEnd, property_name: str) -> str:
    """A property that an end of its kind must have."""
    value = getattr(end, property_name)
    if not value:
        raise GeneratorError(
            f"the {end.kind} end has no {property_name}", where=f"tester port {end.wire}"
        )
    return str(value)


def remove_stale_sockets(ends: Iterable[WireEnd]) -> None:
    """Remove sockets that a killed program has left where these ends listen."""
    for end in ends:
        if end.socket and end.role == "server":
            Path(end.socket).unlink(missing_ok=True)
