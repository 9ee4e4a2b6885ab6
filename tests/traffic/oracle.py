"""scapy as the judge of a frame: built anew from its own fields, it must be the same octets."""

from __future__ import annotations

from typing import Any

from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from vnetperf.model.frames import OCTETS, HeaderKind, VaryField, index_of, plain_name

CLASSES: dict[HeaderKind, type[Packet]] = {
    "ethernet": Ether,
    "qinq": Dot1AD,
    "vlan": Dot1Q,
    "mpls": MPLS,
    "ipv4": IP,
    "ipv6": IPv6,
    "udp": UDP,
    "tcp": TCP,
    "vxlan": VXLAN,
    "gre": GRE,
    "geneve": GENEVE,
    "gtpu": GTP_U_Header,
}
#: What scapy works out by itself from what follows.
DERIVED: dict[HeaderKind, tuple[str, ...]] = {
    "ethernet": ("type",),
    "qinq": ("type",),
    "vlan": ("type",),
    "mpls": ("s",),
    "ipv4": ("len", "chksum", "proto", "ihl"),
    "ipv6": ("plen", "nh"),
    "udp": ("len",),
    "tcp": ("chksum", "dataofs"),
    "gre": ("proto",),
    "geneve": ("proto", "optionlen"),
    "gtpu": ("length",),
}
ATTRIBUTES: dict[str, tuple[str, str]] = {
    "eth_src": ("ethernet", "src"),
    "eth_dst": ("ethernet", "dst"),
    "qinq_id": ("qinq", "vlan"),
    "vlan_id": ("vlan", "vlan"),
    "mpls_label": ("mpls", "label"),
    "ipv4_src": ("ipv4", "src"),
    "ipv4_dst": ("ipv4", "dst"),
    "ipv4_ttl": ("ipv4", "ttl"),
    "ipv6_src": ("ipv6", "src"),
    "ipv6_dst": ("ipv6", "dst"),
    "ipv6_flow": ("ipv6", "fl"),
    "udp_src": ("udp", "sport"),
    "udp_dst": ("udp", "dport"),
    "tcp_src": ("tcp", "sport"),
    "tcp_dst": ("tcp", "dport"),
    "vni": ("", "vni"),
    "teid": ("gtpu", "teid"),
}


def dissected(frame: bytes, stack: tuple[HeaderKind, ...], raw: bytes = b"") -> list[Packet]:
    """The frame's headers as scapy reads them, one by one.

    Args:
        frame: Octets without FCS.
        stack: What they are said to be.
        raw: Octets of the header "raw".

    Returns:
        A packet for each header, without payload.
    """
    found, at = [], 0
    for kind in stack:
        if kind == "raw":
            assert frame[at : at + len(raw)] == raw
            at += len(raw)
            continue
        layer = CLASSES[kind](frame[at : at + OCTETS[kind]])
        layer.remove_payload()
        found.append(layer)
        at += OCTETS[kind]
    return found


def rebuilt(frame: bytes, stack: tuple[HeaderKind, ...], raw: bytes = b"") -> bytes:
    """The frame as scapy builds it: lengths, types and checksums are scapy's own.

    Args:
        frame: Octets without FCS.
        stack: Its headers.
        raw: Octets of the header "raw".

    Returns:
        Octets.
    """
    layers = dissected(frame, stack, raw)
    kinds = [kind for kind in stack if kind != "raw"]
    size = sum(OCTETS[kind] for kind in kinds)
    whole: Any = Raw(frame[size:]) if len(frame) > size else None
    for place in reversed(range(len(layers))):
        layer, kind = layers[place], kinds[place]
        after = kinds[place + 1] if place + 1 < len(kinds) else None
        for name in DERIVED.get(kind, ()):
            known = after is not None or name in ("len", "chksum", "plen", "dataofs", "ihl", "s")
            if known:
                layer.fields.pop(name, None)
        if kind == "udp" and place and kinds[place - 1] == "ipv6":
            layer.fields.pop("chksum", None)
        if kind == "mpls" and after is None:
            layer.fields["s"] = 1
        layer.raw_packet_cache = None
        whole = layer / whole if whole is not None else layer
    return bytes(whole)


def field_of(
    frame: bytes, stack: tuple[HeaderKind, ...], name: VaryField, raw: bytes = b""
) -> int | str:
    """A field's value as scapy reads it.

    Args:
        frame: Octets without FCS.
        stack: Its headers.
        name: The field.
        raw: Octets of the header "raw".

    Returns:
        A number, or an address as text.
    """
    place = index_of(name, stack)
    assert place is not None
    layer = dissected(frame, stack, raw)[place]
    plain = plain_name(name)
    if plain in ("ipv4_src_net", "ipv4_dst_net"):
        address = layer.src if plain == "ipv4_src_net" else layer.dst
        return int(address.split(".")[2])
    if plain == "ipv4_dscp":
        return int(layer.tos) >> 2
    found: int | str = getattr(layer, ATTRIBUTES[plain][1])
    return found
