"""How testpmd, as a process, plugs into each kind of attachment."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.host import vdev
from vnetperf.model.errors import DutError
from vnetperf.model.ports import Attachment

RING = 1024
VHOST_NET = "/dev/vhost-net"
#: Drivers that give a PCI function to a program; under any other it is a kernel interface.
USER_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
KINDS = ("vhost-user", "memif", "vf", "veth", "tap", "macvtap")


@dataclass(frozen=True)
class Device:
    """A port of testpmd.

    Attributes:
        argument: EAL argument that makes it.
        how: What plugs in, for the report.
        hugepages: True when its memory must be shared with another process, or seen by hardware.
        takes_mtu: True when the driver must be told of frames above 1518 octets; others refuse to
            be told and take every size.
        netdev: Kernel interface behind it, whose address is the port's; "" for none.
        resets: True when the driver changes the interface's address and MTU on the way.
    """

    argument: str
    how: str
    hugepages: bool = False
    takes_mtu: bool = False
    netdev: str = ""
    resets: bool = False


def device(number: int, attachment: Attachment, mtu: int, *, vhost_net: bool) -> Device:
    """The device that plugs into an attachment.

    Args:
        number: Number of the port.
        attachment: Where.
        mtu: MTU, octets.
        vhost_net: True when the machine has /dev/vhost-net, which makes a tap a virtio device.

    Returns:
        The device.

    Raises:
        DutError: The kind is unknown, or the attachment does not say where to plug in.
    """
    kind, mac = attachment.kind, attachment.mac or ""
    if kind == "vhost-user":
        path, server = _needs(attachment, "socket"), attachment.vnf_is_server
        argument = vdev.virtio_user(
            number, path, server=server, queues=attachment.queues, ring=RING, mac=mac
        )
        return Device(f"--vdev={argument}", "virtio-user", hugepages=True, takes_mtu=True)
    if kind == "memif":
        role = "server" if attachment.vnf_is_server else "client"
        # An attachment's socket is its own: the interface on it is number 0.
        argument = vdev.memif(
            number,
            role=role,
            identity=0,
            socket=_needs(attachment, "socket"),
            mtu=mtu,
            mac=mac,
        )
        return Device(f"--vdev={argument}", f"memif, {role}")
    if kind == "tap":
        return _tap(number, attachment, mtu, vhost_net=vhost_net)
    if kind == "vf" and attachment.driver in USER_DRIVERS:
        pci = _needs(attachment, "pci")
        how = f"{pci} through {attachment.driver}"
        return Device(f"-a{pci}", how, hugepages=True, takes_mtu=True)
    if kind in ("veth", "macvtap", "macvlan", "vf"):
        netdev = _needs(attachment, "netdev")
        note = "; a process cannot use the macvtap's character device, VMs do"
        how = f"af_packet on {netdev}{note if kind == 'macvtap' else ''}"
        # As many sockets as queue pairs; the kernel spreads flows over them.
        argument = f"{vdev.af_packet(number, netdev, mtu)},qpairs={attachment.queues}"
        return Device(f"--vdev={argument}", how, netdev=netdev)
    raise DutError(
        f"vloop cannot plug into a {kind} attachment",
        where=str(attachment.port),
        accepted=", ".join(KINDS),
    )


def _tap(number: int, attachment: Attachment, mtu: int, *, vhost_net: bool) -> Device:
    netdev, mac = _needs(attachment, "netdev"), attachment.mac or ""
    if vhost_net:
        argument = vdev.virtio_user(
            number,
            VHOST_NET,
            server=False,
            queues=attachment.queues,
            ring=RING,
            mac=mac,
            tap=netdev,
        )
        how = "virtio-user on vhost-net, which has the tap"
        return Device(
            f"--vdev={argument}", how, hugepages=True, takes_mtu=True, netdev=netdev, resets=True
        )
    how = (
        "net_tap, which opens the tap as a file (there is no /dev/vhost-net): a system call a frame"
    )
    argument = vdev.tap(number, netdev, mtu, mac)
    return Device(f"--vdev={argument}", how, netdev=netdev, resets=True)


def needs_hugepages(kind: str) -> bool:
    """Whether a kind of attachment may need hugepages.

    Args:
        kind: Kind of attachment.

    Returns:
        True for those whose memory the other side maps, or hardware reads.
    """
    return kind in ("vhost-user", "tap", "vf")


def _needs(attachment: Attachment, what: str) -> str:
    value = getattr(attachment, what)
    if not value:
        raise DutError(
            f"the {attachment.kind} attachment has no {what}", where=str(attachment.port)
        )
    return str(value)
