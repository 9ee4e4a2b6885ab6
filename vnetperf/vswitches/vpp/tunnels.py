"""Overlay tunnels: an interface whose outer packets enter and leave by a port."""

from __future__ import annotations

from typing import Any

from vnetperf.model.addresses import port_mac
from vnetperf.model.ports import Port
from vnetperf.model.scenario import Scenario
from vnetperf.model.tunnel import DUT_ADDRESS, PREFIX, TESTER_ADDRESS, UDP_PORT, VNI
from vnetperf.vswitches.vpp.api import ADMIN_UP, VppApi
from vnetperf.vswitches.vpp.forwarding import Operation

NOTHING = 0xFFFFFFFF
#: GRE that carries Ethernet.
TEB, STATIC = 1, 1
PLUGINS = {"vxlan": "vxlan", "gre": "gre", "geneve": "geneve"}


def underlay(scenario: Scenario, port: Port, index: int) -> list[Operation]:
    """Messages that give a tunnelled port its outer address and its only neighbour.

    Args:
        scenario: The scenario.
        port: The tunnelled port.
        index: Its interface.

    Returns:
        Messages in order.
    """
    neighbour = {
        "sw_if_index": index,
        "flags": STATIC,
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


def tunnel(kind: str) -> Operation:
    """The message that makes a tunnel's interface.

    Args:
        kind: "vxlan", "gre" or "geneve".

    Returns:
        Message.
    """
    if kind == "gre":
        ends: dict[str, Any] = {"src": DUT_ADDRESS, "dst": TESTER_ADDRESS, "outer_table_id": 0}
        about = {"type": TEB, "mode": 0, "flags": 0, "session_id": 0, "instance": NOTHING}
        return "gre_tunnel_add_del", {
            "is_add": True,
            "tunnel": {**about, **ends, "sw_if_index": NOTHING},
        }
    common = {
        "is_add": True,
        "mcast_sw_if_index": NOTHING,
        "encap_vrf_id": 0,
        "decap_next_index": NOTHING,
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
        "instance": NOTHING,
        "is_l3": False,
    }


def make(api: VppApi, scenario: Scenario, port: Port, index: int) -> tuple[int, list[Operation]]:
    """Make the tunnel of a tunnelled port.

    Args:
        api: The running VPP.
        scenario: The scenario.
        port: The port.
        index: Its interface.

    Returns:
        The tunnel's interface, and the messages sent.
    """
    sent = [*underlay(scenario, port, index), tunnel(scenario.tunnel)]
    answers = [api.call(message, **fields) for message, fields in sent]
    made = int(answers[-1].sw_if_index)
    api.call("sw_interface_set_flags", sw_if_index=made, flags=ADMIN_UP)
    return made, sent
