"""Arguments of DPDK's virtual devices, and the buffers that frames of an MTU need."""

from __future__ import annotations

from vnetperf.model.errors import HostError

#: Room of a buffer: for frames of an MTU up to STANDARD_MTU, and for jumbo frames. The larger one
#: is virtio's limit, and eight of it make a whole number of pages.
STANDARD_ROOM, JUMBO_ROOM = 2048, 9728
#: 2048 octets hold the frame, a VLAN tag and the 66 octets that the kernel puts before it.
STANDARD_MTU, JUMBO_MTU = 1900, 9600
#: What DPDK keeps before a frame in its buffer, and the buffer's own header with its pool's.
HEADROOM, MBUF_OVERHEAD = 128, 192
#: Ring of a memif device, as a power of two.
MEMIF_RING_LOG2 = 11
AF_PACKET_FRAMES = 2048
#: net_tap drops longer frames and cannot be told otherwise.
TAP_MTU = 1504
PAGE = 4096


def room(mtu: int) -> int:
    """Octets of frame that one buffer must hold.

    Args:
        mtu: Largest packet, octets without Ethernet header and FCS.

    Returns:
        Octets, without headroom.

    Raises:
        HostError: No virtual device carries such frames.
    """
    if mtu > JUMBO_MTU:
        raise HostError(f"an MTU of {mtu}", where="virtual devices", accepted=f"up to {JUMBO_MTU}")
    return STANDARD_ROOM if mtu <= STANDARD_MTU else JUMBO_ROOM


def memif(number: int, *, role: str, identity: int, socket: str, mtu: int, mac: str = "") -> str:
    """A memif device.

    Args:
        number: Number in the device's name.
        role: "server" listens, "client" connects; the client's buffers and rings are used.
        identity: Number of the interface on the socket, the same at both ends.
        socket: Path of the socket.
        mtu: MTU, octets.
        mac: MAC address; "" for a random one.

    Returns:
        Device arguments.
    """
    return (
        f"net_memif{number},role={role},id={identity},socket={socket},"
        f"socket-abstract=no,bsize={room(mtu)},rsize={MEMIF_RING_LOG2}"
        + (f",mac={mac}" * bool(mac))
    )


def af_packet(number: int, netdev: str, mtu: int) -> str:
    """A kernel interface; it takes the interface's own MAC address.

    Args:
        number: Number in the device's name.
        netdev: Name of the interface, in the program's network namespace.
        mtu: MTU, octets.

    Returns:
        Device arguments.
    """
    size = room(mtu)
    block = PAGE if size == STANDARD_ROOM else 8 * size  # whole frames in whole pages
    return (
        f"net_af_packet{number},iface={netdev},framesz={size},framecnt={AF_PACKET_FRAMES},"
        f"blocksz={block},qdisc_bypass=1"
    )


def virtio_user(
    number: int, path: str, *, server: bool, queues: int, ring: int, mac: str = "", tap: str = ""
) -> str:
    """A virtio device: the guest's side of vhost-user, or of a tap by /dev/vhost-net.

    Args:
        number: Number in the device's name.
        path: Socket, or "/dev/vhost-net".
        server: True listens on the socket.
        queues: Queue pairs.
        ring: Descriptors of each ring.
        mac: MAC address; "" for a random one.
        tap: Name of the tap behind /dev/vhost-net.

    Returns:
        Device arguments.
    """
    parts = [f"net_virtio_user{number}", f"path={path}"]
    parts += ["server=1"] if server else []
    parts += [f"iface={tap}"] if tap else []
    parts += [f"queues={queues}", f"queue_size={ring}"]
    parts += [f"mac={mac}"] if mac else []
    return ",".join(parts)


def tap(number: int, netdev: str, mtu: int, mac: str = "") -> str:
    """A tap device opened as a file; when it is there already it is opened by its name.

    DPDK gives the interface a MAC address and an MTU of 1500: whoever made it must put its own
    back.

    Args:
        number: Number in the device's name.
        netdev: Name of the tap, in the program's network namespace.
        mtu: MTU, octets.
        mac: MAC address; "" for a random one.

    Returns:
        Device arguments.

    Raises:
        HostError: The driver carries no such frames.
    """
    if mtu > TAP_MTU:
        raise HostError(
            f"an MTU of {mtu}",
            where="DPDK's net_tap",
            accepted=f"up to {TAP_MTU}",
            cure="load the module vhost_net, which makes the tap a virtio device, "
            "or leave larger frames out",
        )
    return f"net_tap{number},iface={netdev}" + (f",mac={mac}" * bool(mac))


def pool_mib(buffers: int, mtu: int) -> int:
    """Memory of a pool of buffers.

    Args:
        buffers: How many.
        mtu: MTU, octets.

    Returns:
        MiB, rounded up.
    """
    return -(-buffers * (room(mtu) + HEADROOM + MBUF_OVERHEAD) // (1 << 20))
