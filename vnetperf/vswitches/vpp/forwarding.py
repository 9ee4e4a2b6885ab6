"""A deployment's hops as VPP messages: cross-connects, patches, bridges, routes, tunnels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from typing import Any, Literal, NamedTuple

from vnetperf.model.deployment import Hop, Port, VnfPort, port_mac, vnf_mac
from vnetperf.model.frames import DUT_ADDRESS, PREFIX, TESTER_ADDRESS, UDP_PORT, VNI
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import VALUES
from vnetperf.vswitches.vpp.api import ADMIN_UP, VppApi


class HopAddresses(NamedTuple):
    """Frames of one stream on one hop.

    Attributes:
        src: Port they enter by.
        dst: Port they must leave by.
        eth_src: Source MAC address.
        eth_dst: Destination MAC address.
    """

    src: Port
    dst: Port
    eth_src: str
    eth_dst: str


def hop_addresses(scenario: Scenario) -> Iterator[HopAddresses]:
    """Follow every stream through the deployment."""
    graph = scenario.deployment
    for stream in scenario.streams:
        eth_src, eth_dst = stream.eth_src, stream.eth_dst
        path = graph.path(graph.ends[stream.direction], stream.chain)
        for src, dst in zip(path[0::2], path[1::2], strict=True):
            if src != path[0]:
                eth_src, eth_dst = _after_vnf(scenario, src, eth_src, eth_dst)
            yield HopAddresses(src, dst, eth_src, eth_dst)


def _after_vnf(scenario: Scenario, out: Port, eth_src: str, eth_dst: str) -> tuple[str, str]:
    """Addresses of a frame that a VNF sends from its port `out`."""
    if scenario.vnf_swaps:
        return eth_dst, eth_src
    if scenario.vnf_addresses and isinstance(out, VnfPort):
        return vnf_mac(out), scenario.peer_mac(out)
    return eth_src, eth_dst


def l2fib_entries(scenario: Scenario) -> dict[tuple[int, str], Port]:
    """Where a bridge must send each address, segment by segment."""
    found: dict[tuple[int, str], Port] = {}
    unclear = set()
    for segment, passage in _by_segment(scenario):
        key = segment, passage.eth_dst
        if found.setdefault(key, passage.dst) != passage.dst:
            unclear.add(key)
    return {key: port for key, port in found.items() if key not in unclear}


def bridge_problem(scenario: Scenario, *, learning: bool) -> str:
    """Why a bridge could not carry the scenario."""
    sizes = [len(segment) for segment in scenario.deployment.segments()]
    if max(sizes, default=0) > 2 and "eth_dst" in scenario.traffic.vary:
        return (
            "a bridge tells parallel chains apart by destination MAC, which this traffic varies; "
            "vary another field than eth_dst"
        )
    clear = l2fib_entries(scenario)
    seen: dict[tuple[int, str], Port] = {}
    for segment, passage in _by_segment(scenario):
        if sizes[segment] > 2 and (segment, passage.eth_dst) not in clear:
            return (
                f"frames to {passage.eth_dst} must leave a bridge by different ports, since the "
                f"VNF's mode {scenario.vnf_mode} sends them back to where they come from; "
                "use --vnf-mode io or mac"
            )
        if learning and seen.setdefault((segment, passage.eth_src), passage.src) != passage.src:
            return (
                f"a learning bridge would see {passage.eth_src} at two ports and move it with "
                f"every frame, since the VNF's mode is {scenario.vnf_mode}; use --vnf-mode io or "
                "mac"
            )
    if learning:
        for segment, passage in _by_segment(scenario):
            if sizes[segment] > 2 and seen.get((segment, passage.eth_dst)) != passage.dst:
                return (
                    f"a learning bridge would never see {passage.eth_dst} and flood what is sent "
                    "to it into every chain; send both ways, with --vnf-mode mac"
                )
    return ""


def _by_segment(scenario: Scenario) -> Iterator[tuple[int, HopAddresses]]:
    segments = scenario.deployment.segments()
    for passage in hop_addresses(scenario):
        yield next(n for n, ports in enumerate(segments) if passage.src in ports), passage


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


def _requested_mode(scenario: Scenario) -> str:
    """The mode of forwarding that is asked for; "" for none."""
    mode = scenario.options.mode
    return "" if mode == AF_XDP else mode


def forwarding_problem(scenario: Scenario) -> str:
    """Why VPP could not forward a scenario as it is asked."""
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
    if kind == "l2patch":
        return [
            ("l2_patch_add_del", {"rx_sw_if_index": rx, "tx_sw_if_index": tx, "is_add": True})
            for rx, tx in hops
        ]
    joined: list[ApiMessage] = [
        (
            "sw_interface_set_l2_xconnect",
            {"rx_sw_if_index": rx, "tx_sw_if_index": tx, "enable": True},
        )
        for rx, tx in hops
    ]
    # What is cross-connected to an interface leaves it only when that one switches as well.
    silent = dict.fromkeys(tx for _, tx in hops if tx not in {rx for rx, _ in hops})
    return joined + [
        operation
        for number, index_of_one in enumerate(silent, FIRST_BRIDGE)
        for operation in (_bridge_domain(number, learn=False), _bridge_member(number, index_of_one))
    ]


def _bridge_domain(number: int, *, learn: bool) -> ApiMessage:
    settings = {"flood": True, "uu_flood": True, "forward": True, "learn": learn}
    settings |= {"arp_term": False, "arp_ufwd": False}
    return "bridge_domain_add_del_v2", {"bd_id": number, "is_add": True, "mac_age": 0, **settings}


def _bridge_member(number: int, index: int) -> ApiMessage:
    fields = {"rx_sw_if_index": index, "bd_id": number, "enable": True}
    return "sw_interface_set_l2_bridge", fields


def _bridge_messages(scenario: Scenario, index: Mapping[Port, int]) -> list[ApiMessage]:
    learn = scenario.rules == "learning"
    done: list[ApiMessage] = []
    for number, segment in enumerate(scenario.deployment.segments(), FIRST_BRIDGE):
        done.append(_bridge_domain(number, learn=learn))
        done += [_bridge_member(number, index[port]) for port in segment]
    if not learn and "eth_dst" not in scenario.traffic.vary:
        done += [
            (
                "l2fib_add_del",
                {
                    "mac": mac,
                    "bd_id": FIRST_BRIDGE + segment,
                    "sw_if_index": index[port],
                    "is_add": True,
                    "static_mac": True,
                },
            )
            for (segment, mac), port in l2fib_entries(scenario).items()
        ]
    return done


def release_messages(scenario: Scenario, index: Mapping[Port, int], port: Port) -> list[ApiMessage]:
    """Messages that let go of a port before it is deleted, so that nothing leads into the void."""
    kind, gone = forwarding_kind(scenario), index[port]
    hops = [hop for hop in scenario.deployment.hops if port in (hop.src, hop.dst)]
    there = [hop for hop in hops if hop.src in index and hop.dst in index]
    if kind == "l2patch":
        pairs = [(index[hop.src], index[hop.dst]) for hop in there]
        return [
            ("l2_patch_add_del", {"rx_sw_if_index": rx, "tx_sw_if_index": tx, "is_add": False})
            for rx, tx in pairs
        ]
    if kind == "xconnect":
        return [
            (
                "sw_interface_set_l2_xconnect",
                {"rx_sw_if_index": index[hop.src], "tx_sw_if_index": gone, "enable": False},
            )
            for hop in there
            if hop.dst == port
        ]
    return []


#: Test addresses of RFC 2544 (RFC 2544 appendix C.2.2).
TEST_NET = "198.18.0.0/15"
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
                        "flags": STATIC_NEIGHBOUR,
                        "mac_address": port_mac(graph, port, 0),
                        "ip_address": str(address + 1),
                    },
                },
            ),
        ]
    if scenario.rules != "stream":
        done += [_route(scenario, index, hop) for hop in graph.hops]
    return done


def _route(scenario: Scenario, index: Mapping[Port, int], hop: Hop) -> ApiMessage:
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
        "label_stack": [{"is_uniform": 0, "label": 0, "ttl": 0, "exp": 0}] * MAX_LABELS,
    }
    route = {"table_id": routing_table(ports.index(hop.src)), "prefix": TEST_NET}
    return "ip_route_add_del", {
        "is_add": True,
        "is_multipath": False,
        "route": {**route, "n_paths": 1, "paths": [path]},
    }


def flow_route_commands(scenario: Scenario, interface: Mapping[Port, str]) -> list[str]:
    """Commands that make one route per flow: a million messages would take minutes."""
    graph, traffic = scenario.deployment, scenario.traffic
    flows = min(traffic.flows, VALUES["ipv4_dst"]) if "ipv4_dst" in traffic.vary else 1
    commands = []
    for stream in scenario.streams:
        path = graph.path(graph.ends[stream.direction], stream.chain)
        for src, dst in zip(path[0::2], path[1::2], strict=True):
            table = routing_table(graph.ports.index(src))
            via = router_address(graph.ports.index(dst)) + 1
            commands.append(
                f"ip route add count {flows} {stream.ipv4_dst}/32 table {table} "
                f"via {via} {interface[dst]}"
            )
    return commands


NO_INDEX = 0xFFFFFFFF
#: GRE that carries Ethernet.
GRE_TEB, STATIC_ENTRY = 1, 1
TUNNEL_PLUGINS = {"vxlan": "vxlan", "gre": "gre", "geneve": "geneve"}


def underlay_messages(scenario: Scenario, port: Port, index: int) -> list[ApiMessage]:
    """Messages that give a tunnelled port its outer address and its only neighbour."""
    neighbour = {
        "sw_if_index": index,
        "flags": STATIC_ENTRY,
        "mac_address": port_mac(scenario.deployment, port, 0),
        "ip_address": TESTER_ADDRESS,
    }
    return [
        (
            "sw_interface_add_del_address",
            {"sw_if_index": index, "is_add": True, "prefix": f"{DUT_ADDRESS}/{PREFIX}"},
        ),
        ("ip_neighbor_add_del", {"is_add": True, "neighbor": neighbour}),
    ]


def tunnel_message(kind: str) -> ApiMessage:
    """The message that makes a tunnel's interface."""
    if kind == "gre":
        ends: dict[str, Any] = {"src": DUT_ADDRESS, "dst": TESTER_ADDRESS, "outer_table_id": 0}
        about = {"type": GRE_TEB, "mode": 0, "flags": 0, "session_id": 0, "instance": NO_INDEX}
        return "gre_tunnel_add_del", {
            "is_add": True,
            "tunnel": {**about, **ends, "sw_if_index": NO_INDEX},
        }
    common = {
        "is_add": True,
        "mcast_sw_if_index": NO_INDEX,
        "encap_vrf_id": 0,
        "decap_next_index": NO_INDEX,
        "vni": VNI,
    }
    if kind == "geneve":
        ends = {"local_address": DUT_ADDRESS, "remote_address": TESTER_ADDRESS}
        return "geneve_add_del_tunnel2", {**common, **ends, "l3_mode": False}
    ends = {"src_address": DUT_ADDRESS, "dst_address": TESTER_ADDRESS}
    udp = {"src_port": UDP_PORT["vxlan"], "dst_port": UDP_PORT["vxlan"]}
    return "vxlan_add_del_tunnel_v3", {
        **common,
        **ends,
        **udp,
        "instance": NO_INDEX,
        "is_l3": False,
    }


def make_tunnel(
    api: VppApi, scenario: Scenario, port: Port, index: int
) -> tuple[int, list[ApiMessage]]:
    """Make the tunnel of a tunnelled port."""
    sent = [*underlay_messages(scenario, port, index), tunnel_message(scenario.tunnel)]
    answers = [api.call(message, **fields) for message, fields in sent]
    made = int(answers[-1].sw_if_index)
    api.call("sw_interface_set_flags", sw_if_index=made, flags=ADMIN_UP)
    return made, sent
