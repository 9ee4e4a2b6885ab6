"""Where things are plugged: wire ends, attachments, and the ports of a deployment."""

from __future__ import annotations

from typing import Literal

from vnetperf.model.base import Frozen


class PhyPort(Frozen):
    """A physical port of the DUT, the DUT's end of a wire.

    Attributes:
        index: 0-based number of the port and of its wire.
    """

    kind: Literal["phy"] = "phy"
    index: int

    def __str__(self) -> str:
        return f"phy{self.index}"


class VnfPort(Frozen):
    """A port of a VNF.

    Attributes:
        vnf: 0-based number of the VNF.
        index: 0-based number of the port on that VNF.
    """

    kind: Literal["vnf"] = "vnf"
    vnf: int
    index: int

    def __str__(self) -> str:
        return f"vnf{self.vnf}.{self.index}"


Port = PhyPort | VnfPort


class WireEnd(Frozen):
    """One end of a wire between a tester port and a DUT physical port.

    Attributes:
        wire: 0-based number of the wire, equal to its PhyPort's index; of a tester in the place
            of a VNF, the number of the tester's port.
        kind: Name of the wire family's backend, "memif", "veth", "nic"; of a tester in the place
            of a VNF, the attachment's kind.
        side: Who plugs in here.
        socket: Unix socket path (memif, vhost-user).
        role: "server" listens, "client" connects (memif, vhost-user).
        netdev: Kernel interface name (veth, tap, macvtap, nic under its kernel driver), in the
            run's network namespace.
        pci: PCI address (nic, vf).
        driver: Driver the PCI device is bound to: "vfio-pci", "uio_pci_generic", or the kernel's.
        mac: Address that frames for the port carry, where it has one of its own.
        queues: Queue pairs.
    """

    wire: int
    kind: str
    side: Literal["tester", "dut"]
    socket: str | None = None
    role: Literal["server", "client"] | None = None
    netdev: str | None = None
    pci: str | None = None
    driver: str | None = None
    mac: str | None = None
    queues: int = 1


class Attachment(Frozen):
    """What a vSwitch offers a VNF to plug into.

    Attributes:
        port: The VNF port it belongs to.
        kind: "vhost-user", "tap", "veth", "memif", "vf", "macvtap", "macvlan".
        socket: Unix socket path (vhost-user, memif).
        vnf_is_server: True when the VNF must listen on the socket and the vSwitch connects.
        netdev: Kernel interface name (tap, veth, macvtap, vf under its kernel driver), in the
            run's network namespace; of a veth pair the VNF's end.
        pci: PCI address (vf).
        driver: Driver a PCI function is bound to: "vfio-pci" or the kernel's.
        queues: Number of queue pairs.
        multi_queue: False when who plugs into a tap opens it for one queue, without
            IFF_MULTI_QUEUE; the kernel wants to know when the tap is made.
        mac: MAC address of the VNF's port.
        peer_mac: MAC address that frames sent by the VNF's port must carry as destination.
    """

    port: VnfPort
    kind: str
    socket: str | None = None
    vnf_is_server: bool = False
    netdev: str | None = None
    pci: str | None = None
    driver: str | None = None
    queues: int = 1
    multi_queue: bool = True
    mac: str | None = None
    peer_mac: str | None = None

    def as_tester_end(self, number: int) -> WireEnd:
        """The attachment as an end for the tester, which plugs in where a VNF would.

        Args:
            number: Number of the tester's port.

        Returns:
            The end.
        """
        role: Literal["server", "client"] | None = None
        if self.socket is not None:
            role = "server" if self.vnf_is_server else "client"
        return WireEnd(
            wire=number,
            kind=self.kind,
            side="tester",
            socket=self.socket,
            role=role,
            netdev=self.netdev,
            pci=self.pci,
            driver=self.driver,
            mac=self.mac,
            queues=self.queues,
        )
