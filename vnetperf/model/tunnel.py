"""Overlay tunnels between the DUT and the tester: who the ends are and what a header costs."""

from __future__ import annotations

from typing import Literal, get_args

TunnelKind = Literal["vxlan", "gre", "geneve"]
TUNNELS: tuple[TunnelKind, ...] = get_args(TunnelKind)

#: Octets that encapsulation adds to a frame: outer Ethernet 14, IPv4 20, then UDP 8 and VXLAN 8
#: (RFC 7348), UDP 8 and Geneve 8 without options (RFC 8926), or GRE 4 without a key (RFC 2784).
OVERHEAD: dict[TunnelKind, int] = {"vxlan": 50, "gre": 38, "geneve": 50}

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
        kind: "vxlan", "gre", "geneve", or "" for none.

    Returns:
        Octets.
    """
    return next((octets for name, octets in OVERHEAD.items() if name == kind), 0)
