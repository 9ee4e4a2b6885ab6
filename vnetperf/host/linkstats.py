"""Statistics of network links: what rtnetlink's stats64 has, read in microseconds.

Counters are read several times around each trial. /proc/net/dev gives the numbers of
RTM_GETLINK in one read; a dump through pyroute2 takes some 20 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.netns import run_in

#: The calling thread's namespace, unlike /proc/net, which is that of the process's main thread.
TABLE = Path("/proc/thread-self/net/dev")


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """Statistics of a link, from the kernel's side of it.

    Attributes:
        rx: Frames the kernel received.
        tx: Frames the kernel sent.
        rx_dropped: Received and dropped, for want of room or of a taker.
        tx_dropped: To be sent and dropped.
    """

    rx: int
    tx: int
    rx_dropped: int
    tx_dropped: int


def statistics(netns: Path | None = None) -> dict[str, LinkStatistics]:
    """Statistics of all links of a namespace.

    Args:
        netns: File that names the namespace; None is the caller's.

    Returns:
        Interface name -> statistics.

    Raises:
        HostError: There is no such namespace.
    """
    return parse(run_in(netns, TABLE.read_text))


def parse(text: str) -> dict[str, LinkStatistics]:
    """Read the table of /proc/net/dev.

    Args:
        text: Two lines of headings, then "NAME: 8 numbers of receiving, 8 of sending".

    Returns:
        Interface name -> statistics.
    """
    found = {}
    for line in text.splitlines()[2:]:
        name, _, numbers = line.rpartition(":")  # an alias such as eth0:1 has a colon of its own
        fields = [int(number) for number in numbers.split()]
        found[name.strip()] = LinkStatistics(
            rx=fields[1], rx_dropped=fields[3], tx=fields[9], tx_dropped=fields[11]
        )
    return found
