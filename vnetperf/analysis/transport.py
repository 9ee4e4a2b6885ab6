"""What transfers between sockets show of a network: RFC 6349 and RFC 9097.

Both are given from secondary sources: the RFCs' own texts were not at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetperf.model.transfer import OneWay, Transfer
from vnetperf.model.units import percent

#: Octets of the headers of IPv4 with UDP, and with TCP without options.
UDP_HEADERS, TCP_HEADERS = 28, 40
#: Least and longest sub-interval that a rate is taken of, seconds: RFC 9097 has 1 s.
SUB_INTERVAL_S = (0.9, 1.1)
#: A sub-interval with a larger loss ratio shows no capacity: its criterion is not met.
MOST_LOST = 0.01


_GIGABIT = 1e9


@dataclass(frozen=True, slots=True)
class CpuPerGigabit:
    """Processor time for each gigabit of payload of a stream; None: not recorded, or no stream."""

    tools_s: float | None = None  # Of the tool's programs at both ends, seconds
    machine_s: float | None = None  # Of the whole machine, whoever spent it, seconds
    #: Of that in interrupts and what the kernel puts off from them, seconds.
    interrupts_s: float | None = None


def cpu_per_gigabit(transfer: Transfer) -> CpuPerGigabit:
    """What a stream took of the processors."""
    carried = (transfer.bits_per_second or 0.0) * transfer.spec.duration_s / _GIGABIT
    if not transfer.spec.is_stream or not carried:
        return CpuPerGigabit()
    ends = (transfer.client, transfer.server)
    times = [time for end in ends for time in (end.user_s, end.system_s) if time is not None]
    spent = (
        sum(times) if len(times) == 2 * len(ends) else None,
        transfer.machine_busy_s,
        transfer.machine_interrupts_s,
    )
    return CpuPerGigabit(*(None if seconds is None else seconds / carried for seconds in spent))


@dataclass(frozen=True, slots=True)
class IpCapacity:
    """Maximum IP-layer capacity (RFC 9097 section 5)."""

    #: The most bits of IP packets that arrived in a sub-interval that meets the criterion of loss,
    #: over its length, bit/s; None where there is none.
    bits_per_second: float | None = None
    loss_ratio: float | None = None  # Loss ratio there, 0..1
    met: int = 0  # Sub-intervals that meet the criterion
    intervals: int = 0  # All that are about a second long
    why: str = ""  # Why there is no number; ""


def ip_capacity(transfer: Transfer, way: OneWay) -> IpCapacity:
    """The capacity one way, of all instances of a UDP stream there, or why it is not known."""
    flows = [flow.figures.intervals for flow in transfer.flows if flow.way == way]
    if not flows or not all(flows):
        return IpCapacity(why="the tool does not tell what arrived second by second")
    least, longest = SUB_INTERVAL_S
    sub_intervals = []
    for parts in zip(*flows, strict=False):  # instances begin together
        seconds = max(part.seconds for part in parts)
        if not least <= seconds <= longest:
            continue
        received, lost = (sum(getattr(p, name) for p in parts) for name in ("received", "lost"))
        bits = 8 * sum(part.octets + UDP_HEADERS * part.received for part in parts)
        loss = lost / (received + lost) if received + lost else 1.0
        sub_intervals.append((bits / seconds, loss))
    met = [sub_interval for sub_interval in sub_intervals if sub_interval[1] <= MOST_LOST]
    if not met:
        best = min((loss for _, loss in sub_intervals), default=1.0)
        reason = (
            f"no sub-interval of 1 s lost {percent(MOST_LOST)} or less (the least is "
            f"{percent(best)})"
            if sub_intervals
            else "it is shorter than a sub-interval of 1 s"
        )
        return IpCapacity(intervals=len(sub_intervals), why=reason)
    rate, loss = max(met)
    return IpCapacity(rate, loss, met=len(met), intervals=len(sub_intervals))


@dataclass(frozen=True, slots=True)
class TcpQuality:
    """RFC 6349 section 4; None where what it needs is not known."""

    #: Transmitted less retransmitted octets over those transmitted, 0..1.
    efficiency: float | None = None
    #: Mean round-trip time of the transfer over the baseline, less 1: 0.2 is 20 %.
    buffer_delay: float | None = None
    why: str = ""  # Why there is no buffer delay though its parts were measured; ""
    baseline_us: float | None = None  # Least round-trip time that was seen, microseconds
    baseline_of: str = ""  # What that is of
    #: Transfer time over that of an ideal TCP at the IP-layer capacity; not where TCP carried more
    #: than the stream of UDP that the capacity is of.
    time_ratio: float | None = None


def tcp_quality(transfer: Transfer, siblings: Sequence[Transfer]) -> TcpQuality:
    """What a TCP stream shows; all transfers of its scenario give baseline and capacity."""
    baseline, source = _baseline(transfer, siblings)
    mean, delay, reason = transfer.tcp_round_trip_us.get("mean"), None, ""
    if mean is not None and _is_single_sample(transfer.tcp_round_trip_us):
        reason = "the tool took one sample of the round trip"
    elif mean is not None and baseline:
        delay = mean / baseline - 1
        if delay < 0:
            reason = f"its mean round trip, {mean:.3g} us, is below the baseline, {baseline:.3g} us"
            delay = None
    return TcpQuality(
        efficiency=_efficiency(transfer),
        buffer_delay=delay,
        why=reason,
        baseline_us=baseline,
        baseline_of=source,
        time_ratio=_time_ratio(transfer, siblings),
    )


def _is_single_sample(trips: Mapping[str, float]) -> bool:
    """Whether a mean of round trips is of one: it has no spread, and may be its own baseline."""
    samples = trips.get("samples")
    return samples is not None and samples <= 1


def _efficiency(transfer: Transfer) -> float | None:
    """Tools count payload once and segments that were sent again: both were transmitted."""
    octets, again, segment = transfer.sent_octets, transfer.retransmits, transfer.segment_octets
    if octets is None or again is None or segment is None or octets <= 0:
        return None
    return octets / (octets + again * segment)


def _baseline(transfer: Transfer, siblings: Sequence[Transfer]) -> tuple[float | None, str]:
    """The least time of a round trip without load, or the connection's own where that is less."""
    kinds = ("TCP_RR", "UDP_RR")
    candidates = [
        (sibling.round_trip_us["min"], "the least round trip of single messages")
        for sibling in siblings
        if sibling.spec.kind in kinds and "min" in sibling.round_trip_us
    ]
    least_us = transfer.tcp_round_trip_us.get("min")
    if least_us is not None:
        candidates.append((least_us, "the least of the connection itself, under load"))
    return min(candidates, default=(None, ""))


def _time_ratio(transfer: Transfer, siblings: Sequence[Transfer]) -> float | None:
    if len(transfer.spec.ways) > 1 or not transfer.bits_per_second or not transfer.segment_octets:
        return None
    (way,) = transfer.spec.ways
    streams = [
        stream for stream in siblings if stream.spec.kind == "UDP_STREAM" and stream.spec.way == way
    ]
    rates = [ip_capacity(stream, way).bits_per_second for stream in streams]
    capacities = [rate for rate in rates if rate is not None]
    if not capacities:
        return None
    payload = transfer.segment_octets / (transfer.segment_octets + TCP_HEADERS)
    ratio = max(capacities) * payload / transfer.bits_per_second
    return ratio if ratio >= 1 else None  # the stream of UDP offered less than there is room for
