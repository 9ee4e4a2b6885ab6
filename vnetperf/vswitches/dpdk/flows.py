"""A deployment's hops as OpenFlow rules."""

from __future__ import annotations

from vnetperf.model.deployment import Deployment, Hop
from vnetperf.model.ports import PhyPort, Port
from vnetperf.model.traffic import Stream

#: OpenFlow numbers: physical ports from 1, VNF ports from 11.
FIRST_PHY, FIRST_VNF = 1, 11


def ofport(port: Port) -> int:
    """OpenFlow number of a port.

    Args:
        port: Port of the deployment.

    Returns:
        Number.
    """
    if isinstance(port, PhyPort):
        return FIRST_PHY + port.index
    return FIRST_VNF + 2 * port.vnf + port.index


def rules(deployment: Deployment, streams: tuple[Stream, ...]) -> list[str]:
    """OpenFlow rules of a deployment.

    Args:
        deployment: The graph.
        streams: Streams; a hop with a chain matches its destination MAC.

    Returns:
        Rules as ovs-ofctl takes them; frames that match none are dropped.
    """
    return [rule for hop in deployment.hops for rule in _rules_of(hop, streams)]


def _rules_of(hop: Hop, streams: tuple[Stream, ...]) -> list[str]:
    match = f"in_port={ofport(hop.src)}"
    action = f"actions=output:{ofport(hop.dst)}"
    if hop.chain is None:
        return [f"{match},{action}"]
    return [
        f"{match},dl_dst={stream.eth_dst},{action}"
        for stream in streams
        if stream.chain == hop.chain
        and isinstance(hop.src, PhyPort)
        and stream.tx_port == hop.src.index
    ]
