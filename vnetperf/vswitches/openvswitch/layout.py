"""Which bridges a scenario takes, and which ports are on each.

Rules need one bridge. A learning vSwitch has a bridge for each broadcast domain: each learns in a
table of its own, so that an address seen on both sides of a VNF does not move to and fro, and no
VLAN tag takes part in the lookup. Tunnelled ports are on a bridge of the underlay, whose own
interface has the tunnel's address.
"""

from __future__ import annotations

from vnetperf.model.base import Frozen
from vnetperf.model.ports import PhyPort, Port
from vnetperf.model.scenario import Scenario

UNDERLAY = "under0"
#: Interface and OpenFlow number of the tunnel; OpenFlow numbers of physical ports begin at 1, those
#: of VNF ports at 11.
TUNNEL, TUNNEL_NUMBER = "tunnel0", 9
FIRST_PHY, FIRST_VNF = 1, 11


class Bridge(Frozen):
    """A bridge.

    Attributes:
        name: Its name.
        ports: Ports of the deployment on it.
        tunnel: True when the tunnel's port is on it as well.
        learns: True when it forwards by the addresses it learns.
    """

    name: str
    ports: tuple[Port, ...]
    tunnel: bool = False
    learns: bool = False


def bridges(scenario: Scenario) -> tuple[Bridge, ...]:
    """Bridges of a scenario.

    Args:
        scenario: The scenario.

    Returns:
        Those that carry frames as they are sent, then that of the underlay, if there is one.
    """
    graph = scenario.deployment
    below = graph.tunnelled
    learns = scenario.rules == "learning"
    groups = graph.segments() if learns else (graph.ports,)
    made = [
        Bridge(
            name=f"br{number}",
            ports=tuple(port for port in group if port not in below),
            tunnel=any(port in below for port in group),
            learns=learns,
        )
        for number, group in enumerate(groups)
    ]
    if below:
        made.append(Bridge(name=UNDERLAY, ports=below))
    return tuple(made)


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
