"""A deployment's hops as messages to VPP: cross-connects, patches, bridges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from vnetperf.model.ports import Port
from vnetperf.model.scenario import Scenario
from vnetperf.vswitches.vpp.passages import bridge_trouble, entries

Kind = Literal["xconnect", "l2patch", "bridge", "l3"]
#: A mode of the ports and not of the forwarding, which is what it is without a mode.
AF_XDP = "af_xdp"
MODES: tuple[str, ...] = ("xconnect", "l2patch", "bridge", AF_XDP)
#: A message and its fields.
Operation = tuple[str, dict[str, Any]]
#: Bridge domain of the first segment; 0 is VPP's own, which drops.
FIRST_BRIDGE = 1


def kind_of(scenario: Scenario) -> Kind:
    """How a scenario is forwarded.

    Args:
        scenario: The scenario.

    Returns:
        The mode that is asked for; otherwise a bridge where chains must be told apart or addresses
        learned, and a cross-connect elsewhere.
    """
    if scenario.routed:
        return "l3"
    mode = _asked(scenario)
    if mode == "l2patch":
        return "l2patch"
    if mode == "bridge" or (
        not mode and (scenario.rules == "learning" or scenario.deployment.chains > 1)
    ):
        return "bridge"
    return "xconnect"


def _asked(scenario: Scenario) -> str:
    """The mode of forwarding that is asked for; "" for none."""
    mode = scenario.options.mode
    return "" if mode == AF_XDP else mode


def trouble(scenario: Scenario) -> str:
    """Why VPP could not forward a scenario as it is asked.

    Args:
        scenario: The scenario.

    Returns:
        "" or the reason with its cure, in one sentence.
    """
    kind = kind_of(scenario)
    if kind == "l3":
        return _routing_trouble(scenario)
    if scenario.rules == "stream":
        return "one rule per flow is one route per flow: it needs --forwarding l3"
    if kind == "bridge":
        return bridge_trouble(scenario, learning=scenario.rules == "learning")
    return _joining_trouble(scenario, kind)


def _joining_trouble(scenario: Scenario, kind: Kind) -> str:
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


def _routing_trouble(scenario: Scenario) -> str:
    graph = scenario.deployment
    if mode := _asked(scenario):
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


def operations(scenario: Scenario, index: Mapping[Port, int]) -> list[Operation]:
    """Messages that install the forwarding of a switched scenario.

    Args:
        scenario: The scenario.
        index: Port -> interface index; for a tunnelled port the tunnel's.

    Returns:
        Messages in order.
    """
    kind = kind_of(scenario)
    if kind == "bridge":
        return _bridges(scenario, index)
    hops = [(index[hop.src], index[hop.dst]) for hop in scenario.deployment.hops]
    if kind == "l2patch":
        return [
            ("l2_patch_add_del", {"rx_sw_if_index": rx, "tx_sw_if_index": tx, "is_add": True})
            for rx, tx in hops
        ]
    joined: list[Operation] = [
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
        for operation in (_domain(number, learn=False), _member(number, index_of_one))
    ]


def _domain(number: int, *, learn: bool) -> Operation:
    settings = {"flood": True, "uu_flood": True, "forward": True, "learn": learn}
    settings |= {"arp_term": False, "arp_ufwd": False}
    return "bridge_domain_add_del_v2", {"bd_id": number, "is_add": True, "mac_age": 0, **settings}


def _member(number: int, index: int) -> Operation:
    fields = {"rx_sw_if_index": index, "bd_id": number, "enable": True}
    return "sw_interface_set_l2_bridge", fields


def _bridges(scenario: Scenario, index: Mapping[Port, int]) -> list[Operation]:
    learn = scenario.rules == "learning"
    done: list[Operation] = []
    for number, segment in enumerate(scenario.deployment.segments(), FIRST_BRIDGE):
        done.append(_domain(number, learn=learn))
        done += [_member(number, index[port]) for port in segment]
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
            for (segment, mac), port in entries(scenario).items()
        ]
    return done


def release(scenario: Scenario, index: Mapping[Port, int], port: Port) -> list[Operation]:
    """Messages that let go of a port before it is deleted, so that nothing leads into the void.

    Args:
        scenario: The scenario.
        index: Port -> interface index of the ports that are there.
        port: The port that goes.

    Returns:
        Messages in order.
    """
    kind, gone = kind_of(scenario), index[port]
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
