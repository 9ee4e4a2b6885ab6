"""Bridges of a scenario, their OpenFlow ports and rules, and the size of learning tables.

Rules need one bridge. A learning vSwitch has a bridge for each broadcast domain. Tunnelled ports
are on a bridge of the underlay, whose own interface has the tunnel's address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Deployment, Hop, PhyPort, Port, VnfPort, dut_mac, port_mac
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import FlowKey, Stream, explain_uncountable, flows
from vnetperf.openvswitch.private import PrivateOvs

#: Bridges of underlays and interfaces of tunnels, a number after each.
UNDERLAY, TUNNEL_PORT = "under", "tunnel"
#: OpenFlow number of the first tunnel, the next one's is less by one; those of physical ports begin
#: at 1, those of VNF ports at 11.
TUNNEL_OFPORT = 9
FIRST_PHY_OFPORT, FIRST_VNF_OFPORT = 1, 11


class OvsBridge(Frozen):
    """A bridge.

    Attributes:
        tunnels: Ports whose tunnel's interface is on it.
        learns: True when it forwards by the addresses it learns.
        underlay: True when its own interface has the tunnel's address.
    """

    name: str
    ports: tuple[Port, ...]
    tunnels: tuple[Port, ...] = ()
    learns: bool = False
    underlay: bool = False


def bridges(scenario: Scenario) -> tuple[OvsBridge, ...]:
    """Bridges of a scenario."""
    graph = scenario.deployment
    below = graph.tunnelled
    learns = scenario.rules == "learning"
    groups = graph.segments() if learns else (graph.ports,)
    upper = [
        OvsBridge(
            name=f"br{number}",
            ports=tuple(port for port in group if port not in below),
            tunnels=tuple(port for port in group if port in below),
            learns=learns,
        )
        for number, group in enumerate(groups)
    ]
    under = [
        OvsBridge(name=f"{UNDERLAY}{number}", ports=(port,), underlay=True)
        for number, port in enumerate(below)
    ]
    return (*upper, *under)


def ofport(port: Port) -> int:
    """OpenFlow number of a port."""
    if isinstance(port, PhyPort):
        return FIRST_PHY_OFPORT + port.index
    return FIRST_VNF_OFPORT + 2 * port.vnf + port.index


def tunnel_ofport(number: int) -> int:
    """OpenFlow number of a tunnel's interface."""
    return TUNNEL_OFPORT - number


#: OVS's own limit of the datapath's flows.
DEFAULT_FLOW_LIMIT = 200_000


def flow_limit(scenario: Scenario) -> dict[str, str]:
    """Room for a flow of the datapath for each rule or address.

    Beyond the limit every frame of a flow that found no room takes the slow way through the
    daemon.
    """
    if scenario.rules == "port":
        return {}
    flows = scenario.traffic.flow_count * len(scenario.streams) * len(scenario.deployment.hops)
    return {"flow-limit": str(2 * flows)} if 2 * flows > DEFAULT_FLOW_LIMIT else {}


#: Size of a bridge's table since OVS 3.2 (2048 before), and the largest there can be.
MAC_TABLE, LARGEST_MAC_TABLE = 8192, 1_000_000
#: Seconds after which an address that is not seen is forgotten: OVS's own.
MAC_AGEING_S = 300


def learned_address_count(scenario: Scenario) -> int:
    """Addresses that a bridge of a scenario sees at most."""
    varied = scenario.traffic.flow_count if "eth_src" in scenario.traffic.vary else 1
    return varied * len(scenario.streams) + len(scenario.deployment.ports)


def learning_problem(scenario: Scenario) -> str:
    """Why a bridge cannot learn a scenario's addresses."""
    if scenario.rules != "learning" or learned_address_count(scenario) <= LARGEST_MAC_TABLE:
        return ""
    flows_per_stream = (LARGEST_MAC_TABLE - len(scenario.deployment.ports)) // max(
        1, len(scenario.streams)
    )
    return (
        f"a bridge of OVS learns at most {LARGEST_MAC_TABLE} addresses and this traffic has "
        f"{learned_address_count(scenario)}; set flows to {flows_per_stream} or fewer"
    )


def learning_settings(scenario: Scenario) -> list[str]:
    """Settings of a bridge that learns: room for every address, so that none is forgotten."""
    size = min(LARGEST_MAC_TABLE, max(MAC_TABLE, learned_address_count(scenario)))
    return [f"other_config:mac-table-size={size}", f"other_config:mac-aging-time={MAC_AGEING_S}"]


def learning_facts(ovs: PrivateOvs, bridges: tuple[OvsBridge, ...]) -> dict[str, Any]:
    """What the bridges have learned so far."""
    learning = {
        bridge.name: ovs.appctl("fdb/stats-show", bridge.name).splitlines()
        for bridge in bridges
        if bridge.learns
    }
    return {"address tables": learning} if learning else {}


def rules_problem(scenario: Scenario) -> str:
    """Why there can be no rules for a scenario."""
    graph = scenario.deployment
    reason = _routing_problem(scenario) if scenario.routed else ""
    if "eth_dst" in scenario.traffic.vary and graph.chains > 1:
        reason = (
            "parallel chains are told apart by destination MAC, which this traffic varies; "
            "vary another field than eth_dst"
        )
    steered = scenario.addressing == "port" and scenario.vnf_addresses
    if scenario.rules == "learning" and graph.chains > 1 and not steered:
        reason = (
            "parallel chains are loops to a vSwitch that learns, unless frames are addressed to "
            "the next port and VNFs write addresses; leave --vnf-mode out"
        )
    if scenario.rules == "stream":
        reason = reason or explain_uncountable(scenario.traffic)
    return reason


def _routing_problem(scenario: Scenario) -> str:
    graph, vary = scenario.deployment, scenario.traffic.vary
    if "eth_dst" in vary:
        return (
            "a router takes frames that are addressed to it, and this traffic varies their "
            "destination MAC; vary another field than eth_dst"
        )
    if graph.vnf_count and not scenario.vnf_addresses:
        return (
            "a router takes frames that are addressed to it, which a VNF sends in mode mac only, "
            f"not in {scenario.vnf_mode}; leave --vnf-mode out"
        )
    if graph.chains > 1 and _chain_field(scenario) == "":
        return (
            "parallel chains that are routed are told apart by source MAC or source port, and "
            "this traffic varies both; vary another field than eth_src or udp_src"
        )
    return ""


def bridge_rules(scenario: Scenario, bridge: OvsBridge) -> Iterator[str]:
    """OpenFlow rules of a bridge."""
    if bridge.underlay:
        # What comes in is for the tunnel's end; what that sends goes out.
        for port in bridge.ports:
            yield f"in_port={ofport(port)},actions=LOCAL"
            yield f"in_port=LOCAL,actions=output:{ofport(port)}"
    elif bridge.learns:
        yield "actions=NORMAL"
    else:
        by = _rules_by_stream if scenario.rules == "stream" else _rules_by_port
        for hop in scenario.deployment.hops:
            yield from by(scenario, hop)


def rule_count(scenario: Scenario) -> int:
    """About how many rules a scenario takes, for the time it takes to install them."""
    flow_count = scenario.traffic.flow_count * len(scenario.streams)
    return len(scenario.deployment.hops) * (flow_count if scenario.rules == "stream" else 1) + 2


def _port_number(scenario: Scenario, port: Port) -> int:
    """OpenFlow number by which frames as they are sent enter or leave."""
    tunnelled = scenario.deployment.tunnelled
    return tunnel_ofport(tunnelled.index(port)) if port in tunnelled else ofport(port)


def _rules_by_port(scenario: Scenario, hop: Hop) -> Iterator[str]:
    match, graph = f"in_port={_port_number(scenario, hop.src)}", scenario.deployment
    if scenario.routed:
        match += f",ip,dl_dst={dut_mac(hop.src)}"
    if hop.chain is None or graph.chains == 1:
        yield f"{match},{_actions(scenario, hop)}"
        return
    for stream in scenario.streams:
        if stream.chain == hop.chain and graph.ends[stream.direction] == hop.src:
            told_by = f"dl_dst={stream.eth_dst}"
            if scenario.routed:
                field = _chain_field(scenario)
                by_mac, by_port = f"dl_src={stream.eth_src}", f"nw_proto=17,tp_src={stream.udp_src}"
                told_by = by_mac if field == "dl_src" else by_port
            yield f"{match},{told_by},{_actions(scenario, hop)}"


def _chain_field(scenario: Scenario) -> str:
    """What tells chains apart that are all addressed to the router."""
    for varied, field in (("eth_src", "dl_src"), ("udp_src", "tp_src")):
        if varied not in scenario.traffic.vary:
            return field
    return ""


def _rules_by_stream(scenario: Scenario, hop: Hop) -> Iterator[str]:
    graph, actions = scenario.deployment, _actions(scenario, hop)
    in_port = f"in_port={_port_number(scenario, hop.src)},udp"
    # A VNF may have rewritten the addresses of frames that come out of it.
    macs = scenario.vnf_mode == "io" or hop.src in graph.ends
    matches: set[str] = set()
    for stream in scenario.streams:
        if not _passes_hop(graph, stream, hop):
            continue
        routed = f",dl_dst={dut_mac(hop.src)}" if scenario.routed else ""
        for flow in flows(stream, scenario.traffic):
            match = in_port + (_match_macs(flow, routed) if macs else routed) + _match_packet(flow)
            if not macs:  # flows that differ by address only have become one
                if match in matches:
                    continue
                matches.add(match)
            yield f"{match},{actions}"


def _match_macs(flow: FlowKey, routed: str) -> str:
    return f",dl_src={flow.eth_src}" + (routed or f",dl_dst={flow.eth_dst}")


def _match_packet(flow: FlowKey) -> str:
    return (
        f",nw_src={flow.ipv4_src},nw_dst={flow.ipv4_dst}"
        f",tp_src={flow.udp_src},tp_dst={flow.udp_dst}"
    )


def _passes_hop(graph: Deployment, stream: Stream, hop: Hop) -> bool:
    path = graph.path(graph.ends[stream.direction], stream.chain)
    return (hop.src, hop.dst) in zip(path[0::2], path[1::2], strict=True)


def _actions(scenario: Scenario, hop: Hop) -> str:
    output = f"output:{_port_number(scenario, hop.dst)}"
    if not scenario.routed:
        return f"actions={output}"
    next_mac = port_mac(scenario.deployment, hop.dst, _find_chain(scenario.deployment, hop))
    return f"actions=mod_dl_src:{dut_mac(hop.dst)},mod_dl_dst:{next_mac},dec_ttl,{output}"


def _find_chain(graph: Deployment, hop: Hop) -> int:
    """Chain of a hop: VNF v of parallel chains is that of chain v."""
    if hop.chain is not None:
        return hop.chain
    return hop.src.vnf if graph.chains > 1 and isinstance(hop.src, VnfPort) else 0
