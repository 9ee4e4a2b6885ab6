"""Settings for a Pktgen that someone else started: its own frame, as near to ours as it can be."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.traffic.compiled import CompiledFrame

PLAIN_OCTETS = 42


def refused(kinds: Sequence[CompiledFrame]) -> str:
    """What of the traffic cannot be set through the socket.

    Args:
        kinds: Kinds of frame of all ports.

    Returns:
        "" or what it is, with the cure.
    """
    for port in dict.fromkeys(kind.stream.tx_port for kind in kinds):
        if why := _why_not([kind for kind in kinds if kind.stream.tx_port == port]):
            return (
                f"a Pktgen that someone else started cannot send {why}, but one stream a port, of "
                "one flow, Ethernet, IPv4 and UDP; leave `server` under [pktgen] out, and vnetperf "
                "starts one that can"
            )
    return ""


def _why_not(kinds: Sequence[CompiledFrame]) -> str:
    first = kinds[0]
    if len(kinds) > 1:
        return f"{len(kinds)} kinds of frame"
    if first.fields:
        return "several flows"
    plain = first.header_octets == PLAIN_OCTETS and first.template[12:14] == b"\x08\x00"
    if not plain or first.template[23] != 17 or first.broadcast:
        return "tags, tunnels or other protocols"
    return ""


def settings(port: int, kind: CompiledFrame) -> str:
    """Lua that sets a port's frame.

    Pktgen numbers IP packets, and puts a checksum into the UDP header: those octets differ.

    Args:
        port: The port.
        kind: The frame.

    Returns:
        Source.
    """
    stream, number = kind.stream, f"'{port}'"
    return (
        f"pktgen.set_range({number},'off') pktgen.pcap({number},'off') "
        f"pktgen.set({number},'seq_cnt',0) "
        f"pktgen.set_type({number},'ipv4') pktgen.set_proto({number},'udp') "
        f"pktgen.set({number},'size',{kind.size}) pktgen.set({number},'ttl',64) "
        f"pktgen.set({number},'sport',{stream.udp_src}) "
        f"pktgen.set({number},'dport',{stream.udp_dst}) "
        f"pktgen.set_mac({number},'dst','{stream.eth_dst}') "
        f"pktgen.set_mac({number},'src','{stream.eth_src}') "
        f"pktgen.set_ipaddr({number},'dst','{stream.ipv4_dst}') "
        f"pktgen.set_ipaddr({number},'src','{stream.ipv4_src}/24') "
        f"pktgen.pattern({number},'zero') "
    )
