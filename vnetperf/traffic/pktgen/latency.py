"""Latency with Pktgen: probes of its own beside the traffic, and how they are kept out of loss.

A probe is a frame of 76 octets to UDP port 1028 with a time stamp. It comes on top of the set rate
and is counted with the frames. Pktgen tells the shortest, mean and longest time, and no histogram.
"""

from __future__ import annotations

from vnetperf.model.errors import GeneratorError
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import Latency
from vnetperf.traffic.compiled import CompiledFrame
from vnetperf.traffic.pktgen.counters import PortCounters, Probes

#: Octets of a probe without FCS (LATENCY_PKT_SIZE).
PROBE_OCTETS = 72
#: Time between two probes: no more often than this, and no more than this share of the load.
SHORTEST_US, LONGEST_US, SHARE = 1000, 1_000_000, 0.01


def interval_us(load_fps: float) -> int:
    """Time between two probes of a port.

    Args:
        load_fps: Its load, frames/s.

    Returns:
        Microseconds.
    """
    return max(SHORTEST_US, min(LONGEST_US, round(1e6 / (SHARE * load_fps))))


def can_probe(kinds: tuple[CompiledFrame, ...], *, equal: bool) -> bool:
    """Whether probes go the frames' way, and can be told from them.

    Args:
        kinds: What one port sends.
        equal: True when all frames have the same size.

    Returns:
        False for frames with tags, tunnels or other than IPv4, and those as long as a probe.
    """
    plain = all(kind.template[12:14] == b"\x08\x00" and not kind.stream.tunnel for kind in kinds)
    return plain and equal and len(kinds[0].template) != PROBE_OCTETS


def probe_settings(port: int, stream: Stream) -> str:
    """Lua that gives a port's probes the addresses of a stream.

    Args:
        port: The port.
        stream: The stream.

    Returns:
        Source.
    """
    number = f"'{port}'"
    return (
        f"pktgen.set_mac({number},'dst','{stream.eth_dst}') "
        f"pktgen.set_mac({number},'src','{stream.eth_src}') "
        f"pktgen.set_ipaddr({number},'dst','{stream.ipv4_dst}') "
        f"pktgen.set_ipaddr({number},'src','{stream.ipv4_src}/24') "
        f"pktgen.set_proto({number},'udp') pktgen.set_type({number},'ipv4') "
    )


def probes_sent(counters: PortCounters, octets: int) -> int:
    """Probes among what a port sent: two sizes in a sum of octets tell them apart.

    Args:
        counters: The port's.
        octets: Octets of every other frame, without FCS.

    Returns:
        Probes.

    Raises:
        GeneratorError: The sum is of other frames too.
    """
    surplus = counters.sent_octets - counters.sent * octets
    number, rest = divmod(surplus, PROBE_OCTETS - octets)
    if rest or not 0 <= number <= counters.sent:
        raise GeneratorError(
            f"{counters.sent} frames of {octets} octets and probes of {PROBE_OCTETS} "
            f"do not make {counters.sent_octets} octets",
            where="portStats",
            cure="another client may use this Pktgen",
        )
    return number


def latency_of(probes: Probes, hz: int) -> Latency | None:
    """Latency of one direction.

    Args:
        probes: What came back.
        hz: Cycles of Pktgen's clock in a second.

    Returns:
        Shortest, mean, longest; None when no probe came back.
    """
    if not probes.timed:
        return None
    nanoseconds = 1e9 / hz
    return Latency(
        count=probes.timed,
        min_ns=round(probes.min_cycles * nanoseconds, 1),
        mean_ns=round(probes.avg_cycles * nanoseconds, 1),
        max_ns=round(probes.max_cycles * nanoseconds, 1),
    )
