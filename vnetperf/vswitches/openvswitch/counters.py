"""Counters of OVS ports, read live from `dpctl/show -s` (the database's are up to 5 s old)."""

from __future__ import annotations

import re

from vnetperf.model.trial import HopCounters

_PORT = re.compile(r"^\s*port \d+: (\S+)", re.MULTILINE)
_LINE = re.compile(r"\b(RX|TX) packets:(\d+|\?).*?dropped:(\d+|\?)")


def parse_dpctl_show(text: str, names: dict[str, str]) -> tuple[HopCounters, ...]:
    """Counters from the command's text.

    Args:
        text: What `dpctl/show -s` prints.
        names: Interface name -> port of the deployment.

    Returns:
        One entry per port named, by name.
    """
    pieces = _PORT.split(text)
    found = []
    for interface, block in zip(pieces[1::2], pieces[2::2], strict=True):
        if interface not in names:
            continue
        counts = {side: (packets, dropped) for side, packets, dropped in _LINE.findall(block)}
        (rx, rx_dropped), (tx, tx_dropped) = (counts.get(side, ("?", "?")) for side in ("RX", "TX"))
        if "?" in (rx, tx):
            continue  # a port that is not counted is unknown, not empty
        found.append(
            HopCounters(
                port=names[interface],
                rx=int(rx),
                tx=int(tx),
                rx_dropped=_number(rx_dropped),
                tx_dropped=_number(tx_dropped),
            )
        )
    return tuple(sorted(found, key=lambda counters: counters.port))


def _number(text: str) -> int:
    return 0 if text == "?" else int(text)
