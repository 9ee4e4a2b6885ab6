"""Pktgen's counters: read for all ports at once, settled, checked, free of what is not ours.

A thread of Pktgen's refreshes them once a second from a base that clearing them sets. So they say
nothing until a second after the last frame, and a base that is set while frames are under way makes
them negative.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vnetperf.host.patience import patient
from vnetperf.model.errors import GeneratorError
from vnetperf.traffic.pktgen.repl import Repl

#: Counters are believed this long after the last frame can have come back, seconds.
SETTLE_S = 2.0
POLL_S = 0.05
WATCH_S = 0.25
READ = "return {{stats=pktgen.portStats('{0}','port'),packets=pktgen.pktStats('{0}')}}"


@dataclass(frozen=True)
class Probes:
    """What a port saw of latency probes.

    Attributes:
        timed: Probes that came back in order, whose times are below.
        skipped: Probes that came back after one that did not.
        min_cycles: Shortest way, cycles of Pktgen's clock.
        avg_cycles: Mean.
        max_cycles: Longest.
    """

    timed: int = 0
    skipped: int = 0
    min_cycles: int = 0
    avg_cycles: int = 0
    max_cycles: int = 0

    @property
    def received(self) -> int:
        """Probes that came back."""
        return self.timed + self.skipped


@dataclass(frozen=True)
class PortCounters:
    """Counters of one port since they were cleared.

    Attributes:
        sent: Frames, probes included.
        sent_octets: Their octets without FCS.
        received: Frames, whoever sent them.
        arp: Those of them that were ARP.
        ipv6: Those of them that were IPv6.
        probes: Latency probes that came back here.
    """

    sent: int
    sent_octets: int
    received: int
    arp: int = 0
    ipv6: int = 0
    probes: Probes = Probes()


def read(repl: Repl, ports: int) -> tuple[PortCounters, ...]:
    """Read the counters of all ports, as fresh as they are.

    Args:
        repl: The connection.
        ports: Number of ports.

    Returns:
        Counters, by port.

    Raises:
        GeneratorError: A counter is missing or negative.
    """
    found = repl.call(READ.format(f"0-{ports - 1}" if ports > 1 else "0"))
    return tuple(_port(found, port) for port in range(ports))


def _port(found: Mapping[str, Any], port: int) -> PortCounters:
    try:
        stats, packets = found["stats"][str(port)], found["packets"][str(port)]
        latency = packets.get("latency", {})
        counters = PortCounters(
            sent=stats["opackets"],
            sent_octets=stats["obytes"],
            received=stats["ipackets"],
            arp=packets.get("arp_pkts", 0),
            ipv6=packets.get("ipv6_pkts", 0),
            probes=Probes(
                timed=latency.get("num_pkts", 0),
                skipped=latency.get("num_skipped", 0),
                min_cycles=latency.get("min_cycles", 0),
                avg_cycles=latency.get("avg_cycles", 0),
                max_cycles=latency.get("max_cycles", 0),
            ),
        )
    except (KeyError, TypeError):
        raise GeneratorError(
            f"Pktgen has no counters of port {port}",
            where="portStats, pktStats",
            cure="check that the server has as many ports as the deployment, and its version",
        ) from None
    for name, value in (("sent", counters.sent), ("received", counters.received)):
        if value < 0:
            raise GeneratorError(
                f"port {port} says {value} frames {name}",
                where="portStats",
                cure="another client may have cleared the counters meanwhile",
            )
    return counters


def settle(
    repl: Repl,
    ports: int,
    drained_at: float,
    complete: Callable[[tuple[PortCounters, ...]], bool],
    watch: Callable[[], None],
) -> tuple[PortCounters, ...]:
    """Counters when the last frame can have come back and they have been refreshed since.

    Args:
        repl: The connection.
        ports: Number of ports.
        drained_at: When the last frame can have come back, on the monotonic clock.
        complete: Whether counters account for every frame, so that nothing more can come.
        watch: Called while waiting.

    Returns:
        Counters, by port.

    Raises:
        GeneratorError: They are frozen: not one frame is counted.
    """
    settled_at = drained_at + SETTLE_S
    watched = time.monotonic()
    while (left := settled_at - time.monotonic()) > 0:
        counters = read(repl, ports)
        if complete(counters):
            return counters
        time.sleep(min(left, POLL_S))
        if time.monotonic() - watched > WATCH_S:
            watched = time.monotonic()
            watch()
    counters = read(repl, ports)
    # Where processors are shared, the thread that refreshes them may be late.
    last = time.monotonic() + patient(SETTLE_S)
    while not any(port.sent for port in counters) and time.monotonic() < last:
        time.sleep(POLL_S)
        counters = read(repl, ports)
    if not any(port.sent for port in counters):
        raise GeneratorError(
            "Pktgen's counters are frozen: ports were started and no frame is counted",
            where="portStats",
            cure="see its terminal; its link may be down, or its statistics' thread may be stuck",
        )
    return counters
