"""The tester's ends of wires, and attachments in a VNF's place, as ports of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetperf.host import vdev
from vnetperf.model.errors import GeneratorError
from vnetperf.model.ports import VnfPort, WireEnd
from vnetperf.model.scenario import Scenario

RING = 1 << vdev.MEMIF_RING_LOG2
VHOST_NET = "/dev/vhost-net"
USER_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
#: Kinds by what they are: ends of wires, and places of VNFs, in order of preference.
WIRES = ("nic", "memif", "veth")
ATTACHMENTS = ("vhost-user", "memif", "vf", "veth", "tap", "macvtap")
#: Buffers of the engine's pools: by receive and by transmit queue with its full ring, and for each
#: port (see ports.c); memory beside them, MiB.
RX_BUFFERS, TX_BUFFERS, PORT_BUFFERS = RING + 1024, RING + 3072, 512
BASE_MIB = 64
#: Queues of a NIC of the tester's own, at most; what memory is planned for.
NIC_QUEUES = 2


@dataclass(frozen=True)
class Port:
    """A port of the engine.

    Attributes:
        argument: EAL argument that makes it.
        rx_queues: Receive queues.
        tx_queues: Transmit queues, between which the sender chooses.
        hugepages: True when its memory must be shared with another process, or seen by hardware.
        pci: True when EAL must look for PCI devices.
        netdev: Kernel interface behind it; "" for none.
        resets: True when the driver changes the interface's address and MTU on the way.
    """

    argument: str
    rx_queues: int = 1
    tx_queues: int = 1
    hugepages: bool = False
    pci: bool = False
    netdev: str = ""
    resets: bool = False


def port_of(
    number: int,
    end: WireEnd,
    scenario: Scenario,
    polled: int,
    *,
    vhost_net: bool,
    workers: int = 1,
) -> Port:
    """The port that plugs into an end.

    Args:
        number: Number of the port.
        end: Where.
        scenario: Its MTU, queues, and whether a VNF would be here.
        polled: Queues that the other end of a wire sends on.
        vhost_net: True when the machine has /dev/vhost-net.
        workers: Threads that serve all ports; they get queues of a NIC to share.

    Returns:
        The port.

    Raises:
        GeneratorError: The kind is unknown, or the end does not say where to plug in.
    """
    mtu, mac, queues = scenario.mtu, end.mac or "", end.queues
    if end.kind == "memif":
        in_vnf_place = isinstance(scenario.deployment.ends[number], VnfPort)
        identity = 0 if in_vnf_place else end.wire  # an attachment's socket is its own
        argument = vdev.memif(
            number,
            role=end.role or "client",
            identity=identity,
            socket=_needs(end, "socket"),
            mtu=mtu,
            mac=mac,
        )
        # memif has no hash: the sender's queue is the receiver's. Nor does one connect whose other
        # end sends on fewer queues than it polls.
        tx_queues = scenario.options.rx_queues or 1
        rx_queues = max(polled, queues)
        return Port(f"--vdev={argument}", rx_queues=rx_queues, tx_queues=tx_queues)
    if end.kind == "vhost-user":
        argument = vdev.virtio_user(
            number,
            _needs(end, "socket"),
            server=end.role == "server",
            queues=queues,
            ring=RING // 2,
            mac=mac,
        )
        return Port(f"--vdev={argument}", rx_queues=queues, tx_queues=queues, hugepages=True)
    if end.kind == "tap":
        return _tap(number, end, mtu, vhost_net=vhost_net)
    if end.pci and end.driver in USER_DRIVERS:
        queues = min(-(-workers // len(scenario.deployment.ends)), NIC_QUEUES)
        return Port(f"-a{end.pci}", rx_queues=queues, tx_queues=queues, hugepages=True, pci=True)
    if end.kind in ("veth", "macvtap", "nic", "vf"):
        netdev = _needs(end, "netdev")
        return Port(f"--vdev={vdev.af_packet(number, netdev, mtu)}", netdev=netdev)
    accepted = ", ".join(dict.fromkeys((*WIRES, *ATTACHMENTS)))
    raise GeneratorError(f"cannot plug into a {end.kind}", where="loadgen", accepted=accepted)


def _tap(number: int, end: WireEnd, mtu: int, *, vhost_net: bool) -> Port:
    netdev, mac = _needs(end, "netdev"), end.mac or ""
    if not vhost_net:
        argument = vdev.tap(number, netdev, mtu, mac)
        return Port(f"--vdev={argument}", netdev=netdev, resets=True)
    argument = vdev.virtio_user(
        number, VHOST_NET, server=False, queues=1, ring=RING // 2, mac=mac, tap=netdev
    )
    return Port(f"--vdev={argument}", hugepages=True, netdev=netdev, resets=True)


def needs_hugepages(kinds: Sequence[str]) -> bool:
    """Whether ports of these kinds may need hugepages.

    Args:
        kinds: Kinds of wire and attachment.

    Returns:
        True when the other side maps the memory of one, or hardware reads it.
    """
    return any(kind in ("vhost-user", "tap", "vf", "nic") for kind in kinds)


def memory_mib(ports: int, rx_queues: int, tx_queues: int, mtu: int) -> int:
    """Memory of the engine.

    Args:
        ports: Number of ports.
        rx_queues: Receive queues of each, at most.
        tx_queues: Transmit queues of each, at most.
        mtu: MTU, octets.

    Returns:
        MiB, a multiple of 64.
    """
    buffers = ports * (rx_queues * RX_BUFFERS + tx_queues * TX_BUFFERS + PORT_BUFFERS)
    return -(-(BASE_MIB + vdev.pool_mib(buffers, mtu)) // 64) * 64


def _needs(end: WireEnd, what: str) -> str:
    value = getattr(end, what)
    if not value:
        raise GeneratorError(f"the {end.kind} end has no {what}", where=f"tester port {end.wire}")
    return str(value)
