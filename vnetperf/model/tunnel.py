"""Overlay tunnels between the DUT and the tester: who the ends are and what a header costs."""

from __future__ import annotations

from typing import Literal, get_args

TunnelKind = Literal["vxlan", "gre", "geneve"]
TUNNELS: tuple[TunnelKind, ...] = get_args(TunnelKind)
#: What carries users' packets between a radio network and a mobile core (3GPP TS 29.281). Its ends
#: are the tester and a VNF, and not the vSwitch as those of the overlays.
GTPU: Literal["gtpu"] = "gtpu"
Encapsulation = Literal["vxlan", "gre", "geneve", "gtpu"]

#: Octets that encapsulation adds to a frame: outer Ethernet 14, IPv4 20, then UDP 8 and VXLAN 8
#: (RFC 7348), UDP 8 and Geneve 8 without options (RFC 8926), or GRE 4 without a key (RFC 2784).
OVERHEAD: dict[TunnelKind, int] = {"vxlan": 50, "gre": 38, "geneve": 50}

#: Octets that GTP-U adds to a packet: IPv4 20, UDP 8, GTP 8 without options. The packet is in it
#: without Ethernet, so that a frame has one Ethernet header on either side.
GTPU_OVERHEAD = 36

#: Ends of the tunnel, from TEST-NET-1 (RFC 5737): test streams use 198.18.0.0/15.
DUT_ADDRESS, TESTER_ADDRESS, PREFIX = "192.0.2.1", "192.0.2.2", 24
#: Network identifier of VXLAN and Geneve; GRE carries Ethernet (protocol 0x6558) without a key.
VNI = 42
UDP_PORT: dict[TunnelKind, int] = {"vxlan": 4789, "geneve": 6081}
#: Source port of the tester's tunnelled frames, whatever flow they carry: one outer flow, the
#: hardest case for a DUT that spreads load by outer headers.
UDP_SOURCE = 49152
#: What follows is an Ethernet frame (Transparent Ethernet Bridging), in GRE and Geneve.
ETHERTYPE_TEB = 0x6558


def overhead(kind: str) -> int:
    """Octets that a tunnel adds to a frame.

    Args:
        kind: "vxlan", "gre", "geneve", "gtpu", or "" for none.

    Returns:
        Octets.
    """
    if kind == GTPU:
        return GTPU_OVERHEAD
    return next((octets for name, octets in OVERHEAD.items() if name == kind), 0)
