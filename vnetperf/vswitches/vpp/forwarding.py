"""A deployment's hops as VPP messages: cross-connects, patches, bridges, routes, tunnels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from typing import Any, Literal

from vnetperf.model.deployment import Hop, Port, port_mac
from vnetperf.model.frames import UDP_PORT
from vnetperf.model.scenario import HopAddresses, Scenario, TunnelEnd
from vnetperf.model.traffic import VALUES
from vnetperf.vswitches.vpp.api import ADMIN_UP, VppApi


def l2fib_entries(scenario: Scenario) -> dict[tuple[int, str], Port]:
    """Where a bridge must send each address, segment by segment."""
    ports: dict[tuple[int, str], Port] = {}
    unclear = set()
    for segment, hop in _by_segment(scenario):
        key = segment, hop.eth_dst
        if ports.setdefault(key, hop.dst) != hop.dst:
            unclear.add(key)
    return {key: port for key, port in ports.items() if key not in unclear}


def bridge_problem(scenario: Scenario, *, learning: bool) -> str:
    """Why a bridge could not carry the scenario."""
    sizes = [len(segment) for segment in scenario.deployment.segments()]
    if max(sizes, default=0) > 2 and "eth_dst" in scenario.traffic.vary:
        return (
            "a bridge distinguishes parallel chains by destination MAC, which this traffic varies; "
            "vary another field than eth_dst"
        )
    clear = l2fib_entries(scenario)
    learned: dict[tuple[int, str], Port] = {}
    for segment, hop in _by_segment(scenario):
        if sizes[segment] > 2 and (segment, hop.eth_dst) not in clear:
            return (
                f"frames to {hop.eth_dst} must leave a bridge by different ports, since the "
                f"VNF's mode {scenario.vnf_mode} sends them back to where they come from; "
                "use --vnf-mode io or mac"
            )
        if learning and learned.setdefault((segment, hop.eth_src), hop.src) != hop.src:
            return (
                f"a learning bridge would see {hop.eth_src} at two ports and move it with "
                f"every frame, since the VNF's mode is {scenario.vnf_mode}; use --vnf-mode io or "
                "mac"
            )
    if learning:
        for segment, hop in _by_segment(scenario):
            if sizes[segment] > 2 and learned.get((segment, hop.eth_dst)) != hop.dst:
                return (
                    f"a learning bridge would never see {hop.eth_dst} and flood what is sent "
                    "to it into every chain; send both ways, with --vnf-mode mac"
                )
    return ""


def _by_segment(scenario: Scenario) -> Iterator[tuple[int, HopAddresses]]:
    segments = scenario.deployment.segments()
    for hop in scenario.hop_addresses():
        yield next(n for n, ports in enumerate(segments) if hop.src in ports), hop


ForwardingKind = Literal["xconnect", "l2patch", "bridge", "l3"]
#: A mode of the ports and not of the forwarding, which is what it is without a mode.
AF_XDP = "af_xdp"
MODES: tuple[str, ...] = ("xconnect", "l2patch", "bridge", AF_XDP)
#: A message and its fields.
ApiMessage = tuple[str, dict[str, Any]]
#: Bridge domain of the first segment; 0 is VPP's own, which drops.
FIRST_BRIDGE = 1


def forwarding_kind(scenario: Scenario) -> ForwardingKind:
    """How a scenario is forwarded."""
    if scenario.routed:
        return "l3"
    mode = _requested_mode(scenario)
    if mode == "l2patch":
        return "l2patch"
    if mode == "bridge" or (
        not mode and (scenario.rules == "learning" or scenario.deployment.chains > 1)
    ):
        return "bridge"
    return "xconnect"


def _message(name: str, **fields: Any) -> ApiMessage:
    return name, fields


def _requested_mode(scenario: Scenario) -> str:
    """The requested mode of forwarding; "" for none."""
    mode = scenario.options.mode
    return "" if mode == AF_XDP else mode


def forwarding_problem(scenario: Scenario) -> str:
    """Why VPP cannot forward a scenario."""
    kind = forwarding_kind(scenario)
    if kind == "l3":
        return _routing_problem(scenario)
    if scenario.rules == "stream":
        return "one rule per flow is one route per flow: it needs --forwarding l3"
    if kind == "bridge":
        return bridge_problem(scenario, learning=scenario.rules == "learning")
    return _xconnect_problem(scenario, kind)


def _xconnect_problem(scenario: Scenario, kind: ForwardingKind) -> str:
    if scenario.rules == "learning":
        return f"the mode {kind} learns no addresses; use the mode bridge, or leave the mode out"
    if scenario.deployment.chains > 1:
        return (
            f"the mode {kind} sends all that a port receives to one other port and cannot tell "
            "parallel chains apart; use the mode bridge, or leave the mode out"
        )
    if kind == "l2patch" and scenario.deployment.tunnelled:
        return "the mode l2patch joins ports, not tunnels; use the mode xconnect or bridge"
    return ""


def _routing_problem(scenario: Scenario) -> str:
    graph = scenario.deployment
    if mode := _requested_mode(scenario):
        return (
            f"the mode {mode} switches and does not route; leave the mode out with --forwarding l3"
        )
    if graph.chains > 1:
        return "parallel chains have the same IP addresses, which routing cannot tell apart"
    if graph.tunnelled:
        return "tunnels carry switched frames here; leave out --forwarding l3"
    if graph.vnf_count and not scenario.vnf_addresses:
        return (
            f"a router takes only frames that are addressed to it, and a VNF in the mode "
            f"{scenario.vnf_mode} addresses them to others; use --vnf-mode mac"
        )
    traffic = scenario.traffic
    if scenario.rules == "stream" and traffic.flows > 1 and "ipv4_dst" not in traffic.vary:
        return "one route per flow needs traffic that varies ipv4_dst"
    return ""


def switch_messages(scenario: Scenario, index: Mapping[Port, int]) -> list[ApiMessage]:
    """Messages that install the forwarding of a switched scenario."""
    kind = forwarding_kind(scenario)
    if kind == "bridge":
        return _bridge_messages(scenario, index)
    hops = [(index[hop.src], index[hop.dst]) for hop in scenario.deployment.hops]
    joined = [_join(kind, rx, tx, on=True) for rx, tx in hops]
    if kind == "l2patch":
        return joined
    # What is cross-connected to an interface leaves it only when that one switches as well.
    silent = dict.fromkeys(tx for _, tx in hops if tx not in {rx for rx, _ in hops})
    for number, index_of_one in enumerate(silent, FIRST_BRIDGE):
        joined += [_bridge_domain(number, learn=False), _bridge_member(number, index_of_one)]
    return joined


def _join(kind: ForwardingKind, rx: int, tx: int, *, on: bool) -> ApiMessage:
    ends = {"rx_sw_if_index": rx, "tx_sw_if_index": tx}
    if kind == "l2patch":
        return _message("l2_patch_add_del", **ends, is_add=on)
    return _message("sw_interface_set_l2_xconnect", **ends, enable=on)


def _bridge_domain(number: int, *, learn: bool) -> ApiMessage:
    settings = {"flood": True, "uu_flood": True, "forward": True, "learn": learn}
    settings |= {"arp_term": False, "arp_ufwd": False}
    return _message("bridge_domain_add_del_v2", bd_id=number, is_add=True, mac_age=0, **settings)


def _bridge_member(number: int, index: int) -> ApiMessage:
    return _message("sw_interface_set_l2_bridge", rx_sw_if_index=index, bd_id=number, enable=True)


def _bridge_messages(scenario: Scenario, index: Mapping[Port, int]) -> list[ApiMessage]:
    learn = scenario.rules == "learning"
    done: list[ApiMessage] = []
    for number, segment in enumerate(scenario.deployment.segments(), FIRST_BRIDGE):
        done.append(_bridge_domain(number, learn=learn))
        done += [_bridge_member(number, index[port]) for port in segment]
    if learn or "eth_dst" in scenario.traffic.vary:
        return done
    for (number, mac), port in l2fib_entries(scenario).items():
        entry = {"mac": mac, "bd_id": FIRST_BRIDGE + number, "sw_if_index": index[port]}
        done.append(_message("l2fib_add_del", **entry, is_add=True, static_mac=True))
    return done


def release_messages(scenario: Scenario, index: Mapping[Port, int], port: Port) -> list[ApiMessage]:
    """Messages that let go of a port before it is deleted, so that nothing leads into the void."""
    kind = forwarding_kind(scenario)
    if kind not in ("l2patch", "xconnect"):
        return []
    return [
        _join(kind, index[hop.src], index[hop.dst], on=False)
        for hop in scenario.deployment.hops
        if {hop.src, hop.dst} <= index.keys()
        and (hop.dst == port or (kind == "l2patch" and hop.src == port))
    ]


#: Test addresses of RFC 2544 (RFC 2544 appendix C.2.2).
#: Links of the router, four addresses each, from RFC 6598's shared space.
ROUTER_LINKS = IPv4Address("100.64.0.0")
STATIC_NEIGHBOUR = 1
MAX_LABELS = 16


def routing_table(place: int) -> int:
    """Number of a port's routing table; 0 is the default one."""
    return place + 1


def router_address(place: int) -> IPv4Address:
    """VPP's address at a port."""
    return ROUTER_LINKS + 4 * place + 1


def route_messages(scenario: Scenario, index: Mapping[Port, int]) -> list[ApiMessage]:
    """Messages that make a router, apart from one route per flow."""
    graph = scenario.deployment
    done: list[ApiMessage] = []
    for place, port in enumerate(graph.ports):
        table, address = routing_table(place), router_address(place)
        table_fields = {"table_id": table, "is_ip6": False, "name": str(port)}
        done += [
            _message("ip_table_add_del", is_add=True, table=table_fields),
            _message(
                "sw_interface_set_table", sw_if_index=index[port], is_ipv6=False, vrf_id=table
            ),
            *address_messages(
                index[port], f"{address}/30", str(address + 1), port_mac(graph, port, 0)
            ),
        ]
    if scenario.rules != "stream":
        done += [_route(scenario, index, hop) for hop in graph.hops]
    return done


def address_messages(index: int, prefix: str, neighbour: str, mac: str) -> list[ApiMessage]:
    """Messages that give an interface its address and its only neighbour."""
    entry = {
        "sw_if_index": index,
        "flags": STATIC_NEIGHBOUR,
        "mac_address": mac,
        "ip_address": neighbour,
    }
    return [
        _message("sw_interface_add_del_address", sw_if_index=index, is_add=True, prefix=prefix),
        _message("ip_neighbor_add_del", is_add=True, neighbor=entry),
    ]


def _route(scenario: Scenario, index: Mapping[Port, int], hop: Hop) -> ApiMessage:
    ports = scenario.deployment.ports
    neighbour = router_address(ports.index(hop.dst)) + 1
    table = routing_table(ports.index(hop.src))
    return route_message(str(scenario.addresses.whole), index[hop.dst], str(neighbour), table=table)


def route_message(prefix: str, index: int, neighbour: str, *, table: int = 0) -> ApiMessage:
    """The message that routes a network to a neighbour at an interface."""
    path: dict[str, Any] = {
        "sw_if_index": index,
        "table_id": 0,
        "rpf_id": 0xFFFFFFFF,
        "weight": 1,
        "preference": 0,
        "type": 0,
        "flags": 0,
        "proto": 0,
        "nh": {"address": {"ip4": neighbour}},
        "n_labels": 0,
        "label_stack": [{"is_uniform": 0, "label": 0, "ttl": 0, "exp": 0}] * MAX_LABELS,
    }
    route = {"table_id": table, "prefix": prefix, "n_paths": 1, "paths": [path]}
    return _message("ip_route_add_del", is_add=True, is_multipath=False, route=route)


def flow_route_commands(scenario: Scenario, interface: Mapping[Port, str]) -> list[str]:
    """Commands that make one route per flow: a million messages would take minutes."""
    graph, traffic = scenario.deployment, scenario.traffic
    flows = min(traffic.flows, VALUES["ipv4_dst"]) if "ipv4_dst" in traffic.vary else 1
    commands = []
    for hop in scenario.hop_addresses():
        table = routing_table(graph.ports.index(hop.src))
        via = router_address(graph.ports.index(hop.dst)) + 1
        commands.append(
            f"ip route add count {flows} {hop.stream.ipv4_dst}/32 table {table} "
            f"via {via} {interface[hop.dst]}"
        )
    return commands


NO_INDEX = 0xFFFFFFFF
#: GRE that carries Ethernet.
GRE_TEB = 1
TUNNEL_PLUGINS = {"vxlan": "vxlan", "gre": "gre", "geneve": "geneve"}


def tunnel_message(kind: str, end: TunnelEnd) -> ApiMessage:
    """The message that makes a tunnel's interface."""
    if kind == "gre":
        ends: dict[str, Any] = {"src": end.local, "dst": end.remote, "outer_table_id": 0}
        about = {"type": GRE_TEB, "mode": 0, "flags": 0, "session_id": 0, "instance": NO_INDEX}
        tunnel = {**about, **ends, "sw_if_index": NO_INDEX}
        return _message("gre_tunnel_add_del", is_add=True, tunnel=tunnel)
    common = {
        "is_add": True,
        "mcast_sw_if_index": NO_INDEX,
        "encap_vrf_id": 0,
        "decap_next_index": NO_INDEX,
        "vni": end.vni,
    }
    if kind == "geneve":
        ends = {"local_address": end.local, "remote_address": end.remote}
        return _message("geneve_add_del_tunnel2", **common, **ends, l3_mode=False)
    ends = {"src_address": end.local, "dst_address": end.remote, "instance": NO_INDEX}
    udp = {"src_port": UDP_PORT["vxlan"], "dst_port": UDP_PORT["vxlan"]}
    return _message("vxlan_add_del_tunnel_v3", **common, **ends, **udp, is_l3=False)


def make_tunnel(api: VppApi, kind: str, end: TunnelEnd, index: int) -> tuple[int, list[ApiMessage]]:
    """Make a tunnel: outer address and only neighbour of the port below, and its interface."""
    below = address_messages(index, f"{end.local}/{end.prefix}", end.remote, end.peer_mac)
    sent = [*below, tunnel_message(kind, end)]
    answers = [api.call(message, **fields) for message, fields in sent]
    tunnel_index = int(answers[-1].sw_if_index)
    api.call("sw_interface_set_flags", sw_if_index=tunnel_index, flags=ADMIN_UP)
    return tunnel_index, sent
