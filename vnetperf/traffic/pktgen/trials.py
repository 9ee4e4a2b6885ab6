"""One trial: frames by count, time by the clock, and what both say about each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vnetperf.host.patience import patient
from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import DirectionCounts, TrialResult, TrialSpec
from vnetperf.traffic.pktgen import latency
from vnetperf.traffic.pktgen.counters import PortCounters, settle
from vnetperf.traffic.pktgen.rate import Link, burst_for, check_read_back
from vnetperf.traffic.pktgen.repl import Repl

MAX_COUNT = (1 << 32) - 1
#: What is not sent this long after it was due is not sent any more: a share of the trial, seconds.
LATE_SHARE, LATE_S = 0.02, 0.05
#: Looks at whether it still sends: rarely on the way, often at the end, seconds.
WATCH_S, NEAR_S, LOOK_S, WAKE_S = 0.25, 0.02, 0.0003, 0.01
#: Of a sending time that is longer than it should be, so much can be the clock's.
CLOCK_SHARE, CLOCK_S = 0.002, 0.0005
#: The sending thread looks at the link at the very time that a rate is set, and Pktgen may compute
#: it for another speed then.
ATTEMPTS = 5
UNCOUNTED = "not measured: Pktgen puts no number into its frames"


@dataclass(frozen=True)
class Sender:
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
class Sending:
    """How long it sent, on the monotonic clock.

    Attributes:
        least_s: It sent at least so long.
        ended: When it was seen to have ended.
        complete: True when every frame was sent.
    """

    least_s: float
    ended: float
    complete: bool


class Trials:
    """Conducts trials over a connection.

    Args:
        repl: The connection.
        links: What rates are made of, by port.
        senders: Ports that send.
    """

    def __init__(self, repl: Repl, links: tuple[Link, ...], senders: Mapping[int, Sender]) -> None:
        self._repl = repl
        self._links = links
        self._senders = dict(senders)
        self._gap_s = 0.0

    def wake(self, limit_s: float, watch: Callable[[], None]) -> None:
        """Send one frame from each port, however long it takes.

        A Pktgen that has just started has set the time of its first burst while links were down,
        and keeps to it: seconds can go by.

        Args:
            limit_s: Longest wait, seconds.
            watch: Called while waiting.

        Raises:
            GeneratorError: Nothing is sent.
        """
        pace = self._set(self._links[0].full_fps, dict.fromkeys(self._senders, 1), probes=False)
        if not self._send(limit_s, watch, pace, at_once=True).complete:
            raise GeneratorError(
                f"Pktgen does not send a frame within {limit_s:g} s",
                where=f"ports {self._all}",
                cure="see its terminal, and whether the other ends of the wires are there",
            )

    def learn(self, frames: int, fps: float, watch: Callable[[], None]) -> None:
        """Send frames that nobody counts.

        Args:
            frames: Of each port.
            fps: Rate of each port.
            watch: Called while they are sent.
        """
        pace = self._set(fps, dict.fromkeys(self._senders, frames), probes=False)
        self._send(frames / fps, watch, pace)

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send for the trial's duration, drain, count.

        Args:
            trial: The trial.
            watch: Called while it runs; what it raises goes through when traffic has stopped.

        Returns:
            The counts.
        """
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
            _sleep(drained_at, watch)

        def accounted(ports: tuple[PortCounters, ...]) -> bool:
            try:
                return sending.complete and all(
                    ports[port].sent - self._probes_sent(port, ports[port]) == count
                    and self._received(port, ports[1 - port]) == count
                    for port, count in counts.items()
                )
            except GeneratorError:
                return False  # it was read while it was being refreshed

        found = settle(self._repl, len(self._links), drained_at, accounted, watch)
        return self._result(trial, pace, sending, counts, found)

    def stop(self) -> None:
        """End traffic, whoever started it."""
        self._repl.call(f"pktgen.stop('{self._all}')")

    @property
    def _all(self) -> str:
        return f"0-{len(self._links) - 1}" if len(self._links) > 1 else "0"

    def _set(self, fps: float, counts: Mapping[int, int], *, probes: bool) -> Pace:
        """Set rate, counts and probes; read back what became of the rate.

        All ports have the rate of those that send: one thread serves them, by the first's clock.
        """
        link = self._links[0]
        burst = burst_for(fps)
        probing = probes and all(s.probes for s in self._senders.values())
        every, ports = latency.interval_us(fps), self._all
        source = f"pktgen.stop('{ports}') "
        source += f"pktgen.set('{ports}','burst',{burst}) "
        source += f"pktgen.set('{ports}','rate',{link.percent(fps):.12g}) "
        source += "".join(f"pktgen.set('{p}','count',{n}) " for p, n in counts.items())
        state = "on" if probing else "off"
        source += f"pktgen.latency('{ports}','rate',{every}) pktgen.latency('{ports}','{state}') "
        source += f"pktgen.clear('{ports}') "
        for attempt in range(ATTEMPTS):
            self._repl.call(source)
            # In a call of its own: the sending thread may still be at it.
            debug = self._repl.call("return pktgen.portInfo('0')[0].info.tx_debug")
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
    ) -> Sending:
        """Start, and wait until all frames are sent or late; traffic has stopped afterwards."""
        asked = ",".join(str(port) for port in self._senders)
        still = (
            f"local n=0 for _,v in pairs(pktgen.isSending('{asked}')) do if v=='y' then n=n+1 end "
            "end return n"
        )
        due_s = max(duration_s, duration_s * pace.fps / pace.effective)
        self._repl.call(f"pktgen.start('{asked}')")
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
                asked_at = time.monotonic()
                sending = self._repl.call(still)
                if not sending:
                    break
                last_seen = asked_at
                if far:
                    continue
                if last_seen > limit:
                    break
                time.sleep(WAKE_S if at_once else LOOK_S)
        finally:
            if sending:
                self._stop_quietly()
        return Sending(least_s=last_seen - began, ended=time.monotonic(), complete=not sending)

    def _stop_quietly(self) -> None:
        try:
            self.stop()
        except GeneratorError:
            return  # it has died, which is being told already

    def _probes_sent(self, port: int, counters: PortCounters) -> int:
        sender = self._senders[port]
        return latency.probes_sent(counters, sender.octets) if sender.probes else 0

    def _foreign(self, port: int, at: PortCounters) -> int:
        return at.arp + (0 if self._senders[port].ipv6_is_own else at.ipv6)

    def _received(self, port: int, at: PortCounters) -> int:
        return at.received - at.probes.received - self._foreign(port, at)

    def _result(
        self,
        trial: TrialSpec,
        pace: Pace,
        sending: Sending,
        counts: Mapping[int, int],
        found: tuple[PortCounters, ...],
    ) -> TrialResult:
        directions = []
        for port, count in counts.items():
            sent = found[port].sent - self._probes_sent(port, found[port])
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
                    received=self._received(port, found[1 - port]),
                    duplicated=None,
                    reordered=None,
                    late=None,
                    misrouted=None,
                    tx_seconds=round(seconds, 9),
                    latency=latency.latency_of(found[1 - port].probes, self._links[0].hz),
                )
            )
        names = ("duplicated", "reordered", "late", "misrouted")
        return TrialResult(
            directions=tuple(directions),
            foreign={
                str(1 - port): foreign
                for port in counts
                if (foreign := self._foreign(port, found[1 - port]))
            },
            drain_s=trial.drain_s,
            max_burst=pace.burst,
            uncollected=dict.fromkeys(names, UNCOUNTED),
        )


def _sleep(until: float, watch: Callable[[], None]) -> None:
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, WATCH_S))
        watch()
