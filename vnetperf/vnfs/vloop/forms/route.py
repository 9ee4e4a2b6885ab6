"""Form "route": the kernel routes IPv4 between two interfaces, to neighbours that are told."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.deployment import Deployment
from vnetperf.model.ports import VnfPort
from vnetperf.vnfs.vloop.forms.form import Form, Port, Step, tool

#: Test networks beyond the tester's ports 0 and 1 (RFC 2544 appendix C.2.2).
NETWORKS = ("198.18.0.0/16", "198.19.0.0/16")
#: Next hop of each port; a link-local address that nobody answers for and nobody is asked for.
NEXT_HOPS = ("169.254.0.1", "169.254.0.2")


def network(deployment: Deployment, port: VnfPort) -> str:
    """The test network that lies beyond a port of a VNF.

    Args:
        deployment: The graph.
        port: The port.

    Returns:
        The network of the tester's port that frames sent by it travel to.
    """
    chain = port.vnf if deployment.chains > 1 else 0
    for number, end in enumerate(deployment.ends):
        path = deployment.path(end, chain) if number in deployment.directions else ()
        if port in path[2::2]:  # where it enters the vSwitch again
            return NETWORKS[1 - number]
    return NETWORKS[port.index]


class Route(Form):
    """IPv4 forwarding: a frame for the port's address leaves with new addresses and a lower TTL."""

    name: ClassVar[str] = "route"
    attachments: ClassVar[tuple[str, ...]] = ("veth", "macvlan", "vf", "virtio")

    @classmethod
    def steps(cls, ports: tuple[Port, Port]) -> tuple[Step, ...]:
        """Forwarding on; a neighbour and a route for each port. Nothing is ever asked by ARP."""
        steps: list[Step] = [
            tool("sysctl -q -w net.ipv4.ip_forward=1"),
            # A frame's source lies beyond the port it comes from; checking that costs a look-up.
            tool("sysctl -q -w net.ipv4.conf.all.rp_filter=0"),
        ]
        for port, hop in zip(ports, NEXT_HOPS, strict=True):
            name = port.netdev
            steps += [
                tool(f"sysctl -q -w net.ipv4.conf.{name}.rp_filter=0"),
                tool(f"sysctl -q -w net.ipv4.conf.{name}.send_redirects=0"),
            ]
            if port.peer_mac:
                steps += [
                    tool(f"ip neigh replace {hop} lladdr {port.peer_mac} dev {name} nud permanent"),
                    tool(f"ip route replace {port.network} via {hop} dev {name} onlink"),
                ]
        return tuple(steps)
