"""A deployment's hops as OpenFlow rules."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.addresses import dut_mac, port_mac
from vnetperf.model.deployment import Deployment, Hop
from vnetperf.model.flows import Flow, flow_count, flows, why_uncountable
from vnetperf.model.ports import Port, VnfPort
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream
from vnetperf.vswitches.openvswitch.layout import TUNNEL_NUMBER, UNDERLAY, Bridge, ofport


def why_no_rules(scenario: Scenario) -> str:
    """Why there can be no rules for a scenario.

    Args:
        scenario: The scenario.

    Returns:
        "" when there can; otherwise the reason and the cure, in one sentence.
    """
    graph = scenario.deployment
    reason = _why_not_routed(scenario) if scenario.routed else ""
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
        reason = reason or why_uncountable(scenario.traffic)
    return reason


def _why_not_routed(scenario: Scenario) -> str:
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


def of_bridge(scenario: Scenario, bridge: Bridge) -> Iterator[str]:
    """OpenFlow rules of a bridge.

    Args:
        scenario: The scenario; `why_no_rules` has nothing against it.
        bridge: One of the scenario's bridges.

    Yields:
        Rules as ovs-ofctl takes them, none twice; frames that match none are dropped.
    """
    if bridge.name == UNDERLAY:
        # What comes in is for the tunnel's end; what that sends goes out.
        for port in bridge.ports:
            yield f"in_port={ofport(port)},actions=LOCAL"
            yield f"in_port=LOCAL,actions=output:{ofport(port)}"
    elif bridge.learns:
        yield "actions=NORMAL"
    else:
        by = _by_stream if scenario.rules == "stream" else _by_port
        for hop in scenario.deployment.hops:
            yield from by(scenario, hop)


def rule_count(scenario: Scenario) -> int:
    """About how many rules a scenario takes, for the time it takes to install them.

    Args:
        scenario: The scenario.

    Returns:
        Rules, never fewer than there will be.
    """
    each = flow_count(scenario.traffic) * len(scenario.streams)
    return len(scenario.deployment.hops) * (each if scenario.rules == "stream" else 1) + 2


def _number(scenario: Scenario, port: Port) -> int:
    """OpenFlow number by which frames as they are sent enter or leave."""
    return TUNNEL_NUMBER if port in scenario.deployment.tunnelled else ofport(port)


def _by_port(scenario: Scenario, hop: Hop) -> Iterator[str]:
    match, graph = f"in_port={_number(scenario, hop.src)}", scenario.deployment
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


def _by_stream(scenario: Scenario, hop: Hop) -> Iterator[str]:
    graph, actions = scenario.deployment, _actions(scenario, hop)
    in_port = f"in_port={_number(scenario, hop.src)},udp"
    # A VNF may have rewritten the addresses of frames that come out of it.
    macs = scenario.vnf_mode == "io" or hop.src in graph.ends
    seen: set[str] = set()
    for stream in scenario.streams:
        if not _passes(graph, stream, hop):
            continue
        routed = f",dl_dst={dut_mac(hop.src)}" if scenario.routed else ""
        for flow in flows(stream, scenario.traffic):
            match = in_port + (_macs(flow, routed) if macs else routed) + _packet(flow)
            if not macs:  # flows that differ by address only have become one
                if match in seen:
                    continue
                seen.add(match)
            yield f"{match},{actions}"


def _macs(flow: Flow, routed: str) -> str:
    return f",dl_src={flow.eth_src}" + (routed or f",dl_dst={flow.eth_dst}")


def _packet(flow: Flow) -> str:
    return (
        f",nw_src={flow.ipv4_src},nw_dst={flow.ipv4_dst}"
        f",tp_src={flow.udp_src},tp_dst={flow.udp_dst}"
    )


def _passes(graph: Deployment, stream: Stream, hop: Hop) -> bool:
    path = graph.path(graph.ends[stream.direction], stream.chain)
    return (hop.src, hop.dst) in zip(path[0::2], path[1::2], strict=True)


def _actions(scenario: Scenario, hop: Hop) -> str:
    output = f"output:{_number(scenario, hop.dst)}"
    if not scenario.routed:
        return f"actions={output}"
    next_mac = port_mac(scenario.deployment, hop.dst, _chain(scenario.deployment, hop))
    return f"actions=mod_dl_src:{dut_mac(hop.dst)},mod_dl_dst:{next_mac},dec_ttl,{output}"


def _chain(graph: Deployment, hop: Hop) -> int:
    """Chain of a hop: VNF v of parallel chains is that of chain v."""
    if hop.chain is not None:
        return hop.chain
    return hop.src.vnf if graph.chains > 1 and isinstance(hop.src, VnfPort) else 0
