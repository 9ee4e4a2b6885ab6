"""Counters of OVS ports, read live from `ovs-ofctl dump-ports` (the database's are 5 s old)."""

from __future__ import annotations

import re

from vnetperf.model.trial import HopCounters

#: Counters that mean "dropped going out"; tx drop itself already contains some of them, so the
#: larger of both is taken.
TX_DROPS = ("ovs_tx_failure_drops", "ovs_tx_mtu_exceeded_drops", "ovs_tx_qos_drops")
RX_DROPS = ("ovs_rx_qos_drops", "rx_missed_errors", "rx_mbuf_allocation_errors")
_BLOCK = re.compile(r'^\s*port\s+"?([^":\s]+)"?:', re.MULTILINE)
_PAIR = re.compile(r"(\w+)=(\d+|\?)")


def parse_dump_ports(text: str, names: dict[str, str]) -> tuple[HopCounters, ...]:
    """Counters from the tool's text.

    Args:
        text: Output of `ovs-ofctl -O OpenFlow14 dump-ports`.
        names: OpenFlow number or interface name -> port of the deployment.

    Returns:
        One entry per port named, by name.
    """
    pieces = _BLOCK.split(text)
    found = []
    for key, block in zip(pieces[1::2], pieces[2::2], strict=True):
        port = names.get(key)
        if port is not None:
            found.append(_counters(port, block))
    return tuple(sorted(found, key=lambda counters: counters.port))


def _counters(port: str, block: str) -> HopCounters:
    rx_part, _, rest = block.partition("tx ")
    tx_part = rest.split("\n", 1)[0]
    rx, tx, custom = (_pairs(part) for part in (rx_part, tx_part, rest))
    return HopCounters(
        port=port,
        rx=rx.get("pkts", 0),
        tx=tx.get("pkts", 0),
        rx_dropped=max(rx.get("drop", 0), sum(custom.get(name, 0) for name in RX_DROPS)),
        tx_dropped=max(tx.get("drop", 0), sum(custom.get(name, 0) for name in TX_DROPS)),
    )


def _pairs(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in _PAIR.findall(text) if value != "?"}
