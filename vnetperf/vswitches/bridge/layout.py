"""Which ports share a bridge, and what a bridge must know of addresses: pure."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.model.deployment import Deployment
from vnetperf.model.ports import Port, VnfPort
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream


@dataclass(frozen=True, slots=True)
class PortSettings:
    """Settings of a port of a bridge.

    Attributes:
        learning: Sources of frames that come in are remembered.
        flood: Frames for addresses that nobody knows go out of it.
    """

    learning: bool
    flood: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A static entry of a bridge's forwarding database.

    Attributes:
        mac: Destination address.
        port: Port that frames for it leave by.
    """

    mac: str
    port: Port


def settings(deployment: Deployment, port: Port, *, learns: bool) -> PortSettings:
    """Settings of a port.

    A bridge of two ports that learns nothing floods every frame to the other one: it forwards by
    port. Where there are more, VNFs join two bridges several times over, and what is flooded to
    them would go round for ever; static entries say where frames go then.

    Args:
        deployment: The graph.
        port: One of its ports.
        learns: The scenario forwards by learned addresses.

    Returns:
        The settings.
    """
    segment = next((s for s in deployment.segments() if port in s), ())
    loops = len(segment) > 2 and isinstance(port, VnfPort)
    return PortSettings(learning=learns, flood=learns or not loops)


def entries(scenario: Scenario, streams: tuple[Stream, ...]) -> tuple[Entry, ...]:
    """Static entries that keep parallel chains apart; none where two ports are all there are.

    Args:
        scenario: What is deployed.
        streams: Streams of the traffic.

    Returns:
        Entries, each once.
    """
    deployment = scenario.deployment
    if scenario.rules == "learning":
        return ()
    crowded = {port for segment in deployment.segments() if len(segment) > 2 for port in segment}
    found: dict[Entry, None] = {}
    for stream in streams:
        mac = stream.eth_dst
        path = deployment.path(deployment.ends[stream.direction], stream.chain)
        # Ports of a path come in pairs: into the vSwitch, out of it.
        for source, target in zip(path[0::2], path[1::2], strict=True):
            if isinstance(source, VnfPort) and source != path[0] and scenario.vnf_addresses:
                mac = scenario.peer_mac(source)
            if target in crowded:
                found[Entry(mac, target)] = None
    return tuple(found)
