"""Ports of the deployment as testpmd's devices."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.host import vdev
from vnetperf.model.errors import DutError
from vnetperf.model.ports import Attachment, WireEnd


@dataclass(frozen=True)
class Device:
    """A device of testpmd.

    Attributes:
        name: DPDK's name of it.
        argument: EAL argument that makes it.
        netdev: Kernel interface behind it; "" for none.
        takes_mtu: The driver must be told of frames above 1518 octets; others refuse to be told
            and take every size.
        listens: Socket that it makes; "" for none. One that a killed testpmd left must go first.
    """

    name: str
    argument: str
    netdev: str = ""
    takes_mtu: bool = False
    listens: str = ""


def phy_device(number: int, end: WireEnd, mtu: int, queues: int = 1) -> Device:
    """The device of a physical port.

    Args:
        number: Number in the device's name.
        end: The DUT's end of the wire.
        mtu: MTU, octets.
        queues: Queue pairs.

    Returns:
        The device.

    Raises:
        DutError: It cannot plug into such an end.
    """
    where = f"testpmd, phy{end.wire}"
    if end.kind == "memif" and end.socket:
        role = end.role or "server"
        argument = vdev.memif(number, role=role, identity=end.wire, socket=end.socket, mtu=mtu)
        listens = end.socket if role == "server" else ""
        return Device(f"net_memif{number}", f"--vdev={argument}", listens=listens)
    if end.kind == "veth" and end.netdev:
        argument = f"{vdev.af_packet(number, end.netdev, mtu)},qpairs={queues}"
        return Device(f"net_af_packet{number}", f"--vdev={argument}", netdev=end.netdev)
    if end.kind == "nic" and end.pci and not end.netdev:
        return Device(end.pci, f"-a{end.pci}", takes_mtu=True)
    raise DutError(
        f"cannot plug into a {end.kind} wire" + f" under driver {end.driver}" * bool(end.driver),
        where=where,
        accepted="memif, veth, a NIC under vfio-pci",
    )


def vnf_device(number: int, attachment: Attachment, mtu: int) -> Device:
    """The device of a VNF port.

    Args:
        number: Number in the device's name.
        attachment: As offered.
        mtu: MTU, octets.

    Returns:
        The device.
    """
    socket = str(attachment.socket)
    if attachment.kind == "memif":
        argument = vdev.memif(number, role="server", identity=0, socket=socket, mtu=mtu)
        return Device(f"net_memif{number}", f"--vdev={argument}", listens=socket)
    argument = f"net_vhost{number},iface={socket},queues={attachment.queues},client=1"
    return Device(f"net_vhost{number}", f"--vdev={argument}", takes_mtu=True)
