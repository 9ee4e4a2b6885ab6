"""MAC addresses of everything in a deployment: locally administered, fixed, and told by eye."""

from __future__ import annotations

from vnetperf.model.deployment import Deployment
from vnetperf.model.ports import PhyPort, Port, VnfPort

#: Third octet by owner: "e" a tester's port, "a" a VNF's port, "d" a port of the DUT.
_TESTER, _VNF, _DUT = 0x65, 0x61, 0x64


def _mac(owner: int, a: int, b: int) -> str:
    return f"02:76:{owner:02x}:{a:02x}:{b >> 8:02x}:{b & 255:02x}"


def tester_mac(port: int, chain: int) -> str:
    """Address of a tester port's stream.

    Args:
        port: Number of the tester port.
        chain: Number of the chain, 0..65535.

    Returns:
        Six hexadecimal octets.
    """
    return _mac(_TESTER, port, chain)


def vnf_mac(port: VnfPort) -> str:
    """Address of a VNF's port.

    Args:
        port: The port.

    Returns:
        Six hexadecimal octets.
    """
    return _mac(_VNF, port.index, port.vnf)


def dut_mac(port: Port) -> str:
    """Address of the DUT at a port: what a router or a steering NIC takes frames by.

    Args:
        port: Port of the deployment.

    Returns:
        Six hexadecimal octets.
    """
    if isinstance(port, PhyPort):
        return _mac(_DUT, 0, port.index)
    return _mac(_DUT, 1 + port.index, port.vnf)


def port_mac(deployment: Deployment, port: Port, chain: int) -> str:
    """Address of what is plugged into a port: a tester's port or a VNF's.

    Args:
        deployment: The graph.
        port: One of its ports.
        chain: Number of the chain.

    Returns:
        Six hexadecimal octets.
    """
    if port in deployment.ends:
        number = deployment.ends.index(port)
        # A tester in a VNF's place has the VNF's address: a steering NIC knows no other there.
        return vnf_mac(port) if isinstance(port, VnfPort) else tester_mac(number, chain)
    if isinstance(port, PhyPort):
        raise ValueError(f"{deployment.name}: nothing is plugged into {port}")
    return vnf_mac(port)


def peer_mac(deployment: Deployment, port: Port, chain: int = 0, *, routed: bool = False) -> str:
    """Address that a frame must carry when it enters the vSwitch by a port.

    Args:
        deployment: The graph.
        port: Port by which the frame enters.
        chain: Number of the chain it travels.
        routed: True when the vSwitch routes: frames are then addressed to it.

    Returns:
        Address of what is plugged in where the frame leaves; the DUT's own when it routes, and
        when the frame leaves again without meeting a VNF (nobody is there to be addressed).

    Raises:
        ValueError: When nothing is forwarded from the port.
    """
    hop = next((h for h in deployment.hops if h.src == port and h.chain in (None, chain)), None)
    if hop is None:
        raise ValueError(f"{deployment.name}: nothing is forwarded from {port}")
    if routed or (isinstance(port, PhyPort) and isinstance(hop.dst, PhyPort)):
        return dut_mac(port)
    return port_mac(deployment, hop.dst, chain)
