"""What the core's kernel is told of its two networks, and what it counts besides interfaces."""

from __future__ import annotations

from pathlib import Path

from vnetperf.host.netns import run_in
from vnetperf.model.core import GN_CORE, GN_PREFIX, GN_TESTER, SERVER_NETWORK
from vnetperf.model.trial import HopCounters
from vnetperf.vnfs.vepc.stack import Interfaces

#: Next hop towards the servers; a link-local address that nobody is asked for.
SGI_HOP = "169.254.0.2"
SNMP = Path("/proc/thread-self/net/snmp")


def lines(interfaces: Interfaces, radio_mac: str, server_mac: str) -> tuple[str, ...]:
    """Commands that address the core's interfaces; nothing is ever asked by ARP.

    Args:
        interfaces: The core's.
        radio_mac: Address that frames towards the radio network carry.
        server_mac: Address that frames towards the servers carry.

    Returns:
        Command lines in order; no word has a blank.
    """
    gn, sgi = interfaces.gn, interfaces.sgi
    return (
        # The interface to the core's program is made by that program: silent from the start, on a
        # kernel that has IPv6 at all.
        "sysctl -q -e -w net.ipv6.conf.default.disable_ipv6=1",
        "sysctl -q -w net.ipv4.ip_forward=1",
        # Users' packets come in by one interface and are answered by another.
        "sysctl -q -w net.ipv4.conf.all.rp_filter=0",
        "sysctl -q -w net.ipv4.conf.default.rp_filter=0",
        f"sysctl -q -w net.ipv4.conf.{gn}.rp_filter=0",
        f"sysctl -q -w net.ipv4.conf.{sgi}.rp_filter=0",
        f"sysctl -q -w net.ipv4.conf.{sgi}.send_redirects=0",
        f"ip address replace {GN_CORE}/{GN_PREFIX} dev {gn}",
        f"ip neigh replace {GN_TESTER} lladdr {radio_mac} dev {gn} nud permanent",
        f"ip neigh replace {SGI_HOP} lladdr {server_mac} dev {sgi} nud permanent",
        f"ip route replace {SERVER_NETWORK} via {SGI_HOP} dev {sgi} onlink",
    )


def udp_counters(netns: Path, port: str) -> HopCounters:
    """What went through the UDP sockets of a namespace: GTP-U, where a program handles it.

    Args:
        netns: File that names the namespace.
        port: What the entry is called.

    Returns:
        Datagrams read and sent; those that found a full buffer count as dropped.
    """
    return udp_of(run_in(netns, SNMP.read_text), port)


def udp_of(text: str, port: str) -> HopCounters:
    """What a namespace's table of protocols says of UDP.

    Args:
        text: /proc/net/snmp.
        port: What the entry is called.

    Returns:
        Datagrams read, sent and dropped.
    """
    names, numbers = (line.split()[1:] for line in text.splitlines() if line.startswith("Udp:"))
    table = dict(zip(names, map(int, numbers), strict=True))
    return HopCounters(
        port=port,
        rx=table["InDatagrams"],
        tx=table["OutDatagrams"],
        rx_dropped=table["RcvbufErrors"] + table["NoPorts"],
        tx_dropped=table["SndbufErrors"],
    )
