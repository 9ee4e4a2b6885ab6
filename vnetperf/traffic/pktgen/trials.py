"""A trial with Pktgen.

Rates it can pace, counters that have settled, latency probes, the result.

A thread of Pktgen refreshes its counters once a second; they mean nothing until a second after
the last frame. Probes come on top of the set rate and are counted with the frames.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetperf.host.wait import patient, wait_for
from vnetperf.model.errors import GeneratorError
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import DirectionCounts, Latency, TrialResult, TrialSpec
from vnetperf.plugin.compiled_frames import CompiledFrame
from vnetperf.plugin.generator import NUMBERED, WATCH_S, sleep_watching
from vnetperf.statistics.samples import contradiction
from vnetperf.traffic.pktgen.process import LuaClient, port_list
from vnetperf.traffic.pktgen.streams import address_settings

#: Counters are believed this long after the last frame can have come back, seconds.
SETTLE_S = 2.0
POLL_S = 0.05
READ_COUNTERS = "return {{stats=pktgen.portStats('{0}','port'),packets=pktgen.pktStats('{0}')}}"


@dataclass(frozen=True)
class ProbeCounts:
    """What a port saw of latency probes.

    Attributes:
        timed: Probes that came back in order, whose times are below.
        skipped: Probes that came back after one that did not.
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
    """Counters of one port since they were cleared; octets are without FCS."""

    sent: int
    sent_octets: int
    received: int
    arp: int = 0
    ipv6: int = 0
    probes: ProbeCounts = ProbeCounts()


def read_counters(client: LuaClient, ports: int) -> tuple[PortCounters, ...]:
    """Read the counters of all ports, as fresh as they are."""
    reply = client.call(READ_COUNTERS.format(port_list(ports)))
    return tuple(read_port_counters(reply, port) for port in range(ports))


def read_port_counters(reply: Mapping[str, Any], port: int) -> PortCounters:
    """Read the counters of a port from what Pktgen has answered for all of them."""
    try:
        stats, packets = reply["stats"][str(port)], reply["packets"][str(port)]
        latency = packets.get("latency", {})
        counters = PortCounters(
            sent=int(stats["opackets"]),
            sent_octets=int(stats["obytes"]),
            received=int(stats["ipackets"]),
            arp=int(packets.get("arp_pkts", 0)),
            ipv6=int(packets.get("ipv6_pkts", 0)),
            probes=ProbeCounts(
                timed=int(latency.get("num_pkts", 0)),
                skipped=int(latency.get("num_skipped", 0)),
                min_cycles=int(latency.get("min_cycles", 0)),
                avg_cycles=int(latency.get("avg_cycles", 0)),
                max_cycles=int(latency.get("max_cycles", 0)),
            ),
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise GeneratorError(
            f"Pktgen has no counters of port {port}",
            where="portStats, pktStats",
            cure="check that the server has as many ports as the deployment, and its version",
        ) from None
    for name, value in (("sent", counters.sent), ("received", counters.received)):
        if value < 0:
            raise GeneratorError(
                f"port {port} reports {value} frames {name}",
                where="portStats",
                cure="another client may have cleared the counters meanwhile",
            )
    return counters


def settled_counters(
    client: LuaClient,
    ports: int,
    drained_at: float,
    complete: Callable[[tuple[PortCounters, ...]], bool],
    watch: Callable[[], None],
) -> tuple[PortCounters, ...]:
    """Counters when the last frame can have come back and they have been refreshed since."""
    settled_at = drained_at + SETTLE_S
    watched = time.monotonic()
    while (remaining_s := settled_at - time.monotonic()) > 0:
        counters = read_counters(client, ports)
        if complete(counters):
            return counters
        time.sleep(min(remaining_s, POLL_S))
        if time.monotonic() - watched > WATCH_S:
            watched = time.monotonic()
            watch()

    def counted() -> tuple[PortCounters, ...] | None:
        counters = read_counters(client, ports)
        return counters if any(port.sent for port in counters) else None

    def frozen() -> GeneratorError:
        return GeneratorError(
            "Pktgen's counters are frozen: ports were started and no frame is counted",
            where="portStats",
            cure="see its terminal; its link may be down, or its statistics' thread may be stuck",
        )

    # Where processors are shared, the thread that refreshes them may be late.
    return wait_for(counted, SETTLE_S, "Pktgen's counters", poll_s=POLL_S, error=frozen)


#: Octets of a probe without FCS (LATENCY_PKT_SIZE).
PROBE_OCTETS = 72
#: Time between two probes: no more often than this, and no more than this share of the load.
SHORTEST_US, LONGEST_US, SHARE = 1000, 1_000_000, 0.01


def probe_interval_us(load_fps: float) -> int:
    """Time between two probes of a port."""
    return max(SHORTEST_US, min(LONGEST_US, round(1e6 / (SHARE * load_fps))))


def can_probe(kinds: Sequence[CompiledFrame], *, equal: bool) -> bool:
    """Whether probes take the frames' way, and can be counted apart."""
    plain = all(kind.template[12:14] == b"\x08\x00" and not kind.stream.tunnel for kind in kinds)
    return plain and equal and len(kinds[0].template) != PROBE_OCTETS


def probe_settings(port: int, stream: Stream) -> str:
    """Lua that gives a port's probes the addresses of a stream."""
    kind = f"pktgen.set_proto('{port}','udp') pktgen.set_type('{port}','ipv4') "
    return address_settings(port, stream) + kind


def probes_sent(counters: PortCounters, octets: int) -> int:
    """Probes among what a port sent, which have another size."""
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


def probe_latency(probes: ProbeCounts, hz: int) -> Latency | None:
    """Latency of one direction."""
    if not probes.timed:
        return None
    nanoseconds = 1e9 / hz
    return Latency(
        count=probes.timed,
        min_ns=round(probes.min_cycles * nanoseconds, 1),
        mean_ns=round(probes.avg_cycles * nanoseconds, 1),
        max_ns=round(probes.max_cycles * nanoseconds, 1),
    )


def probe_time_problem(probes: ProbeCounts, hz: int, longest_s: float) -> str:
    """Why times of probes cannot be those of one trial of that length; "" where they can."""
    if not probes.timed:
        return ""
    least, mean, most = (
        cycles / hz for cycles in (probes.min_cycles, probes.avg_cycles, probes.max_cycles)
    )
    # Its mean is whole cycles, rounded down.
    if reason := contradiction({"min": least, "mean": mean + 1 / hz, "max": most + 1 / hz}):
        return f"times that cannot be: {reason} s"
    return f"a largest time of {most:.3g} s in {longest_s:.3g} s" if most > longest_s else ""


#: Frames handed over at once are those of this time, so that low rates are not sent in clumps.
BURST_S = 8e-6
MAX_BURST = 64
#: Largest relative difference of the read-back rate from the one that was set.
RATE_TOLERANCE = 0.05


@dataclass(frozen=True)
class LinkRate:
    """What Pktgen's rates of one port are made of.

    Attributes:
        full_fps: Frames/s that it takes for all of the link, at the frame size that is loaded.
        hz: Cycles of its clock in a second.
    """

    full_fps: int
    hz: int

    def percent(self, fps: float) -> float:
        """What to set for a load."""
        rounded_fps = self.frames(fps)
        return min(100.0, 100.0 * (rounded_fps + 0.5) / self.full_fps)

    def frames(self, fps: float) -> int:
        """Frames/s to set, whose whole cycles come closest to a load."""
        gap = max(1, round(self.hz / fps))
        return max(1, min(self.full_fps, self.hz // gap))

    def effective(self, tx_pps: int) -> float:
        """Frames/s that leave when Pktgen reports that it paces for `tx_pps`."""
        return self.hz / (self.hz // tx_pps) if 0 < tx_pps <= self.hz else 0.0


def burst_size(fps: float) -> int:
    """Frames in one transmit call."""
    return max(1, min(MAX_BURST, int(fps * BURST_S)))


def check_read_back(fps: float, effective: float, full_fps: int) -> None:
    """Refuse a rate that Pktgen silently made another of."""
    expected = min(fps, full_fps)
    if effective <= 0 or abs(effective - expected) > RATE_TOLERANCE * expected + 1:
        raise GeneratorError(
            f"Pktgen was set to {fps:.0f} frames/s and paces for {effective:.0f}",
            where="rate, read back from tx_debug.tx_pps",
            cure="another client may have changed it: Pktgen must be ours alone",
        )


MAX_COUNT = (1 << 32) - 1
#: What is not sent this long after it was due is not sent any more: a share of the trial, seconds.
LATE_SHARE, LATE_S = 0.02, 0.05
#: Looks at whether it still sends: rarely on the way, often at the end, seconds.
NEAR_S, LOOK_S, WAKE_S = 0.02, 0.0003, 0.01
#: Of a sending time that is longer than it should be, so much can be the clock's.
CLOCK_SHARE, CLOCK_S = 0.002, 0.0005
#: The sending thread looks at the link at the very time that a rate is set, and Pktgen may compute
#: it for another speed then.
ATTEMPTS = 5
UNCOUNTED = "not measured: Pktgen puts no number into its frames"
#: What a result of Pktgen cannot have, and why.
UNCOLLECTED = {
    **dict.fromkeys(NUMBERED, UNCOUNTED),
    "stale": "not measured: Pktgen's frames do not tell of which trial they are",
    **dict.fromkeys(
        ("max_lag_s", "mean_lag_s"), "not measured: Pktgen keeps no account of when frames left"
    ),
    "corrupted": "not measured: Pktgen's frames do not tell of which stream they are",
    "gaps": "not recorded: Pktgen keeps no account of when it stood still",
}
#: Why there is no latency: probes cannot be sent, or were lost with all others.
UNPROBED = (
    "not measured: Pktgen's probes go with IPv4 over Ethernet, without a tunnel, in frames of one "
    f"size other than {PROBE_OCTETS + 4} octets"
)
NO_PROBE = "not measured: no probe came back"


@dataclass(frozen=True)
class SendingPort:
    """A port that sends.

    Attributes:
        load: Its frames/s as a share of the trial's load.
        octets: Octets of its frames without FCS, 0 when they differ.
        probes: True when it can send latency probes.
        ipv6_is_own: True when its frames are IPv6, so that such frames are not another's.
    """

    load: float
    octets: int
    probes: bool
    ipv6_is_own: bool = False


@dataclass(frozen=True)
class Pace:
    """What was set for a trial, and read back.

    Attributes:
        fps: Frames/s of each port that sends.
        effective: Frames/s it really paces for.
        burst: Frames in one transmit call.
        waits_s: Longest time until the first burst: to the end of the gap it was in.
    """

    fps: float
    effective: float
    burst: int
    waits_s: float


@dataclass(frozen=True)
class SendTimes:
    """How long it sent, on the monotonic clock.

    Attributes:
        least_s: It sent at least so long.
        ended: When it was seen to have ended.
        complete: True when every frame was sent.
    """

    least_s: float
    ended: float
    complete: bool


class PktgenTrials:
    """Conducts trials over a connection."""

    def __init__(
        self, client: LuaClient, links: tuple[LinkRate, ...], senders: Mapping[int, SendingPort]
    ) -> None:
        self._client = client
        self._links = links
        self._senders = dict(senders)
        self._all = port_list(len(links))
        self._gap_s = 0.0

    def wake(self, limit_s: float, watch: Callable[[], None]) -> None:
        """Send one frame from each port, however long it takes.

        A Pktgen that has just started has set the time of its first burst while links were down,
        and keeps to it: seconds can go by.
        """
        pace = self._set(self._links[0].full_fps, dict.fromkeys(self._senders, 1), probes=False)
        if not self._send(limit_s, watch, pace, at_once=True).complete:
            raise GeneratorError(
                f"Pktgen does not send a frame within {limit_s:g} s",
                where=f"ports {self._all}",
                cure="see its terminal, and whether the other ends of the wires are there",
            )

    def learn(self, frames: int, fps: float, watch: Callable[[], None]) -> None:
        """Send frames that nobody counts."""
        pace = self._set(fps, dict.fromkeys(self._senders, frames), probes=False)
        self._send(frames / fps, watch, pace)

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send for the trial's duration, drain, count."""
        loads = {port: trial.load_fps * s.load for port, s in self._senders.items()}
        counts = {port: max(1, round(fps * trial.duration_s)) for port, fps in loads.items()}
        if max(counts.values()) > MAX_COUNT:
            raise GeneratorError(
                f"a trial of {max(counts.values())} frames per port",
                where="Pktgen, which counts to 32 bits",
                accepted=f"up to {MAX_COUNT}",
                cure="shorten the trial or lower the load",
            )
        pace = self._set(max(loads.values()), counts, probes=True)
        sending = self._send(trial.duration_s, watch, pace)
        drained_at = sending.ended + trial.drain_s
        if trial.full_drain:
            sleep_watching(drained_at, watch)

        def accounted(ports: tuple[PortCounters, ...]) -> bool:
            try:
                return sending.complete and all(
                    ports[port].sent - self._probes_sent(port, ports[port]) == count
                    and self._received(port, ports[1 - port]) == count
                    for port, count in counts.items()
                )
            except GeneratorError:
                return False  # it was read while it was being refreshed

        counters = settled_counters(self._client, len(self._links), drained_at, accounted, watch)
        return self._result(trial, pace, sending, counts, counters)

    def stop(self) -> None:
        """End traffic, whoever started it."""
        self._client.call(f"pktgen.stop('{self._all}')")

    @property
    def _probing(self) -> bool:
        """Whether trials have probes: on all ports, or on none."""
        return all(sender.probes for sender in self._senders.values())

    def _set(self, fps: float, counts: Mapping[int, int], *, probes: bool) -> Pace:
        """Set rate, counts and probes; read back what became of the rate.

        All ports have the rate of those that send: one thread serves them, by the first's clock.
        """
        link = self._links[0]
        burst = burst_size(fps)
        probing = probes and self._probing
        interval_us, ports = probe_interval_us(fps), self._all
        source = f"pktgen.stop('{ports}') "
        source += f"pktgen.set('{ports}','burst',{burst}) "
        source += f"pktgen.set('{ports}','rate',{link.percent(fps):.12g}) "
        source += "".join(f"pktgen.set('{p}','count',{n}) " for p, n in counts.items())
        state = "on" if probing else "off"
        source += (
            f"pktgen.latency('{ports}','rate',{interval_us}) pktgen.latency('{ports}','{state}') "
        )
        source += f"pktgen.clear('{ports}') "
        for attempt in range(ATTEMPTS):
            self._client.call(source)
            # In a call of its own: the sending thread may still be at it.
            debug = self._client.call("return pktgen.portInfo('0')[0].info.tx_debug")
            effective = link.effective(int(debug["tx_pps"]))
            try:
                check_read_back(fps, effective, link.full_fps)
            except GeneratorError:
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                break
        gap_s = burst / effective
        waits_s, self._gap_s = max(gap_s, self._gap_s), gap_s
        return Pace(fps=fps, effective=effective, burst=burst, waits_s=waits_s)

    def _send(
        self, duration_s: float, watch: Callable[[], None], pace: Pace, *, at_once: bool = False
    ) -> SendTimes:
        """Start, and wait until all frames are sent or late; traffic has stopped afterwards."""
        ports = ",".join(str(port) for port in self._senders)
        still = (
            f"local n=0 for _,v in pairs(pktgen.isSending('{ports}')) do if v=='y' then n=n+1 end "
            "end return n"
        )
        due_s = max(duration_s, duration_s * pace.fps / pace.effective)
        self._client.call(f"pktgen.start('{ports}')")
        began = time.monotonic()
        limit = began + due_s + pace.waits_s + patient(LATE_S + LATE_SHARE * duration_s)
        last_seen, sending = began, 1
        try:
            while True:
                near = began + due_s - time.monotonic()
                far = near > NEAR_S and not at_once
                if far:
                    time.sleep(min(near - NEAR_S, WATCH_S))
                    watch()
                looked_at = time.monotonic()
                sending = self._client.call(still)
                if not sending:
                    break
                last_seen = looked_at
                if far:
                    continue
                if last_seen > limit:
                    break
                time.sleep(WAKE_S if at_once else LOOK_S)
        finally:
            if sending:
                last_seen = time.monotonic()  # what it sends until then counts as well
                with contextlib.suppress(GeneratorError):  # it has died, which is raised already
                    self.stop()
        return SendTimes(least_s=last_seen - began, ended=time.monotonic(), complete=not sending)

    def _probes_sent(self, port: int, counters: PortCounters) -> int:
        sender = self._senders[port]
        return probes_sent(counters, sender.octets) if sender.probes else 0

    def _foreign(self, port: int, counters: PortCounters) -> int:
        return counters.arp + (0 if self._senders[port].ipv6_is_own else counters.ipv6)

    def _received(self, port: int, counters: PortCounters) -> int:
        return counters.received - counters.probes.received - self._foreign(port, counters)

    def _result(
        self,
        trial: TrialSpec,
        pace: Pace,
        sending: SendTimes,
        counts: Mapping[int, int],
        counters: tuple[PortCounters, ...],
    ) -> TrialResult:
        directions, troubles = [], []
        longest_s = max(trial.duration_s, sending.least_s) + trial.drain_s + CLOCK_S
        for port, count in counts.items():
            probes, hz = counters[1 - port].probes, self._links[0].hz
            if trouble := probe_time_problem(probes, hz, longest_s):
                troubles.append(trouble)
            sent = counters[port].sent - self._probes_sent(port, counters[port])
            # All frames, but in more time: more were due in that time.
            seconds = max(sent / pace.effective, sending.least_s)
            due_s = max(trial.duration_s, count / pace.effective) * (1 + CLOCK_SHARE)
            overdue = seconds > due_s + pace.waits_s + CLOCK_S
            intended = max(count, sent)
            if overdue and sending.complete:
                intended = max(intended, round(count / trial.duration_s * seconds))
            directions.append(
                DirectionCounts(
                    direction=port,
                    intended=intended,
                    sent=sent,
                    refused=0,
                    unsent=intended - sent,
                    received=self._received(port, counters[1 - port]),
                    **dict.fromkeys(NUMBERED),
                    tx_seconds=round(seconds, 9),
                    latency=None if trouble else probe_latency(probes, hz),
                )
            )
        unprobed = ""
        if not any(counts.latency for counts in directions):
            unprobed = NO_PROBE if self._probing else UNPROBED
        if troubles:
            unprobed = f"not measured: Pktgen reports {'; '.join(dict.fromkeys(troubles))}"
        return TrialResult(
            directions=tuple(directions),
            foreign={
                str(1 - port): foreign
                for port in counts
                if (foreign := self._foreign(port, counters[1 - port]))
            },
            drain_s=trial.drain_s,
            max_burst=pace.burst,
            uncollected=UNCOLLECTED | ({"latency": unprobed} if unprobed else {}),
        )
