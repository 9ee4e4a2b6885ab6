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
        wire: 0-based number of the wire, equal to its PhyPort's index.
        kind: Name of the wire family's backend: "memif", "veth".
        side: Who plugs in here.
        socket: Unix socket path (memif).
        role: "server" listens, "client" connects (memif).
        netdev: Kernel interface name (veth).
        pci: PCI address (nic).
    """

    wire: int
    kind: str
    side: Literal["tester", "dut"]
    socket: str | None = None
    role: Literal["server", "client"] | None = None
    netdev: str | None = None
    pci: str | None = None


class Attachment(Frozen):
    """What a vSwitch offers a VNF to plug into.

    Attributes:
        port: The VNF port it belongs to.
        kind: "vhost-user", "tap", "veth", "memif", "vf", "macvtap".
        socket: Unix socket path (vhost-user, memif).
        vnf_is_server: True when the VNF must listen on the socket and the vSwitch connects.
        netdev: Kernel interface name (tap, veth, macvtap).
        queues: Number of queue pairs.
        mac: MAC address of the VNF's port.
    """

    port: VnfPort
    kind: str
    socket: str | None = None
    vnf_is_server: bool = False
    netdev: str | None = None
    queues: int = 1
    mac: str | None = None
