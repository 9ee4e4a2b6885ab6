"""Statistics of queueing disciplines: what a kernel that forwards queued, sent and dropped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from vnetperf.host.linkstats import LinkStatistics

#: Prints what `joined` reads.
SHOW = ("tc", "-s", "-j", "qdisc", "show")


def joined(links: Mapping[str, LinkStatistics], shown: str) -> dict[str, LinkStatistics]:
    """Add what queueing disciplines know to the statistics of links.

    A discipline's drops are in no statistics of its link. And virtio-net counts a frame as sent
    when the ring's slot is cleaned, which may be seconds later; the discipline, when the driver
    takes it.

    Args:
        links: Interface name -> statistics, as the link has them.
        shown: Output of `SHOW`, taken at the same time.

    Returns:
        Interface name -> statistics with both.
    """
    found = dict(links)
    for entry in json.loads(shown or "[]"):
        name = entry.get("dev")
        if name in found and entry.get("root"):
            link = found[name]
            found[name] = replace(
                link,
                tx=max(link.tx, int(entry.get("packets", 0))),
                tx_dropped=link.tx_dropped + int(entry.get("drops", 0)),
            )
    return found
