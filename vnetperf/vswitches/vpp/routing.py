"""A deployment's hops as routes: each port has a routing table of its own.

With one table per port a frame leaves by the hop of the port it came in by, so that the hops of
PVP, which have the same destination, do not meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any

from vnetperf.model.addresses import port_mac
from vnetperf.model.deployment import Hop
from vnetperf.model.ports import Port
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import VALUES
from vnetperf.vswitches.vpp.forwarding import Operation

#: Test addresses of RFC 2544 (RFC 2544 appendix C.2.2).
TEST_NET = "198.18.0.0/15"
#: Links of the router, four addresses each, from RFC 6598's shared space.
LINKS = IPv4Address("100.64.0.0")
STATIC = 1
LABELS = 16


def table_of(place: int) -> int:
    """Number of a port's routing table; 0 is the default one.

    Args:
        place: Place of the port in the deployment.

    Returns:
        Number.
    """
    return place + 1


def router_address(place: int) -> IPv4Address:
    """VPP's address at a port.

    Args:
        place: Place of the port in the deployment.

    Returns:
        The first of the link's two.
    """
    return LINKS + 4 * place + 1


def operations(scenario: Scenario, index: Mapping[Port, int]) -> list[Operation]:
    """Messages that make a router, apart from one route per flow.

    Args:
        scenario: The scenario.
        index: Port -> interface index.

    Returns:
        Messages in order.
    """
    graph = scenario.deployment
    done: list[Operation] = []
    for place, port in enumerate(graph.ports):
        table, address = table_of(place), router_address(place)
        table_fields = {"table_id": table, "is_ip6": False, "name": str(port)}
        done += [
            ("ip_table_add_del", {"is_add": True, "table": table_fields}),
            (
                "sw_interface_set_table",
                {"sw_if_index": index[port], "is_ipv6": False, "vrf_id": table},
            ),
            (
                "sw_interface_add_del_address",
                {"sw_if_index": index[port], "is_add": True, "prefix": f"{address}/30"},
            ),
            (
                "ip_neighbor_add_del",
                {
                    "is_add": True,
                    "neighbor": {
                        "sw_if_index": index[port],
                        "flags": STATIC,
                        "mac_address": port_mac(graph, port, 0),
                        "ip_address": str(address + 1),
                    },
                },
            ),
        ]
    if scenario.rules != "stream":
        done += [_route(scenario, index, hop) for hop in graph.hops]
    return done


def _route(scenario: Scenario, index: Mapping[Port, int], hop: Hop) -> Operation:
    ports = scenario.deployment.ports
    path: dict[str, Any] = {
        "sw_if_index": index[hop.dst],
        "table_id": 0,
        "rpf_id": 0xFFFFFFFF,
        "weight": 1,
        "preference": 0,
        "type": 0,
        "flags": 0,
        "proto": 0,
        "nh": {"address": {"ip4": str(router_address(ports.index(hop.dst)) + 1)}},
        "n_labels": 0,
        "label_stack": [{"is_uniform": 0, "label": 0, "ttl": 0, "exp": 0}] * LABELS,
    }
    route = {"table_id": table_of(ports.index(hop.src)), "prefix": TEST_NET}
    return "ip_route_add_del", {
        "is_add": True,
        "is_multipath": False,
        "route": {**route, "n_paths": 1, "paths": [path]},
    }


def flow_routes(scenario: Scenario, interface: Mapping[Port, str]) -> list[str]:
    """Commands that make one route per flow: a million messages would take minutes.

    Args:
        scenario: The scenario.
        interface: Port -> name of its interface.

    Returns:
        Commands of the debug CLI.
    """
    graph, traffic = scenario.deployment, scenario.traffic
    flows = min(traffic.flows, VALUES["ipv4_dst"]) if "ipv4_dst" in traffic.vary else 1
    commands = []
    for stream in scenario.streams:
        path = graph.path(graph.ends[stream.direction], stream.chain)
        for src, dst in zip(path[0::2], path[1::2], strict=True):
            table = table_of(graph.ports.index(src))
            via = router_address(graph.ports.index(dst)) + 1
            commands.append(
                f"ip route add count {flows} {stream.ipv4_dst}/32 table {table} "
                f"via {via} {interface[dst]}"
            )
    return commands
