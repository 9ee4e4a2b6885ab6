"""The tester's ends of wires as ports of a TRex server."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.host import vdev
from vnetperf.model.errors import GeneratorError
from vnetperf.model.ports import WireEnd

WIRES = ("nic", "memif", "veth")
ATTACHMENTS = ("memif", "veth")
USER_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
#: Largest frame, octets including FCS; its buffers hold 9280, a tunnel's headers included.
MAX_FRAME = 9000
#: A ring of jumbo frames that fit its buffers: octets of a frame and of a block.
JUMBO_FRAME, JUMBO_BLOCK = 9280, 593_920


@dataclass(frozen=True)
class Port:
    """A port of the server.

    Attributes:
        interface: As in `interfaces` of its configuration.
        mac: Address it has; "" for its own.
        many_queues: True when it has a receive queue for each of the server's workers.
        pci: True when it is a NIC that the server drives itself.
        netdev: Kernel interface behind it; "" for none.
    """

    interface: str
    mac: str = ""
    many_queues: bool = False
    pci: bool = False
    netdev: str = ""


def port_of(number: int, end: WireEnd, mtu: int, *, own_socket: bool = False) -> Port:
    """The port that plugs into an end.

    Args:
        number: Number of the port.
        end: Where.
        mtu: MTU, octets.
        own_socket: True when the socket is for this port alone, as an attachment's.

    Returns:
        The port.

    Raises:
        GeneratorError: The server has no driver for it, or the end does not say where it is.
    """
    mac = end.mac or ""
    if end.kind == "memif" and end.socket:
        identity = 0 if own_socket else end.wire
        role = end.role or "client"
        arguments = vdev.memif(
            number, role=role, identity=identity, socket=end.socket, mtu=mtu, mac=mac
        )
        return Port(f"--vdev={arguments}", mac=mac, many_queues=True)
    if end.pci and end.driver in USER_DRIVERS:
        return Port(end.pci, mac=mac, many_queues=True, pci=True)
    if end.netdev and end.kind in ("veth", "nic", "vf"):
        arguments = _af_packet(number, end.netdev, mtu)
        return Port(f"--vdev={arguments}", mac=mac, netdev=end.netdev)
    raise GeneratorError(
        f"cannot plug into a {end.kind}" + (f" under {end.driver}" if end.driver else ""),
        where="trex",
        accepted=", ".join(dict.fromkeys((*WIRES, *ATTACHMENTS))),
    )


def _af_packet(number: int, netdev: str, mtu: int) -> str:
    if mtu <= vdev.STANDARD_MTU:
        return vdev.af_packet(number, netdev, mtu)
    return (
        f"net_af_packet{number},iface={netdev},framesz={JUMBO_FRAME},"
        f"framecnt={vdev.AF_PACKET_FRAMES},blocksz={JUMBO_BLOCK},qdisc_bypass=1"
    )
