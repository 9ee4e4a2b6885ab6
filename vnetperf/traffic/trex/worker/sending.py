"""Sends an exact number of frames within a time, and counts until they are back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from vnetperf.traffic.trex.worker.library import Saying, TroubleError
from vnetperf.traffic.trex.worker.session import Session, trouble_of
from vnetperf.traffic.trex.worker.streams import build

#: Seconds between two looks while little happens, and when the end is near.
SELDOM_S, OFTEN_S = 0.2, 0.002
#: How long before the end it is near, seconds.
NEAR_S = 0.004
#: Share of the time at which the first look is taken: the pace is measured from there on.
EARLY = 0.1
#: Least share of the time that lies between the two looks which the pace is measured by.
SPAN = 0.3
#: Longest wait for the counters to stand still before they are read, seconds.
STILL_S = 0.5


class Sending:
    """One trial.

    Args:
        session: The ports.
        order: "streams", "duration", "slack", "drain", "full_drain", "probes", "core_mask".
        look: Called often; raises when the trial is to be given up.
    """

    def __init__(self, session: Session, order: dict[str, Any], look: Callable[[], None]) -> None:
        self.session = session
        self.order = order
        self.look = look
        self.planned = dict.fromkeys(session.ports, 0)
        for stream in order["streams"]:
            self.planned[stream["port"]] += stream["frames"]
        self.senders = [port for port, frames in self.planned.items() if frames]
        #: Port -> when, and how many had been sent since the start.
        self.looks: dict[int, list[tuple[float, int]]] = {port: [] for port in self.senders}
        self.base: dict[int, tuple[int, int]] = {}
        self.dropped_before = 0
        self.sent: dict[int, int] = {}
        self.received: dict[int, int] = {}

    def run(self) -> dict[str, Any]:
        """Send, drain, count; nothing is being sent afterwards, whatever happens.

        Returns:
            Counts by port, frames dropped, latencies by probe.

        Raises:
            TroubleError: The server or its counters cannot be trusted any more.
        """
        began = time.monotonic()
        with Saying(trouble_of):
            return self._run(began)

    def _run(self, began: float) -> dict[str, Any]:
        self.session.quiet()
        for port in self.senders:
            mine = [build(self.session.api, s) for s in self.order["streams"] if s["port"] == port]
            self.session.client.add_streams(mine, ports=[port])
        self._remember()
        loaded = time.monotonic()
        try:
            # By force: a virtual port's speed is invented, and so is "too little bandwidth".
            self.session.client.start(
                ports=self.senders, force=True, core_mask=self.order["core_mask"]
            )
            started = time.monotonic()
            in_time = self._watch(started)
            latency = {} if in_time else self._latency()
            if not in_time:
                self._stop()
            stopped = time.monotonic()
            self._drain(stopped)
            latency = latency or self._latency()
        finally:
            self._stop()
        ended = time.monotonic()
        return {
            "ports": {str(p): self._counts(p, started, stopped) for p in self.session.ports},
            "dropped": self.session.dropped() - self.dropped_before,
            "in_time": in_time,
            "latency": latency,
            "took": {
                "load": round(loaded - began, 6),
                "start": round(started - loaded, 6),
                "send": round(stopped - started, 6),
                "drain": round(ended - stopped, 6),
            },
        }

    def _stop(self) -> None:
        self.session.stop(self.senders)

    def _remember(self) -> None:
        """Counters before the start; they must stand still, or frames of before are counted."""
        deadline = time.monotonic() + STILL_S
        now = self.session.counters()
        while True:
            before, now = now, self.session.counters()
            if before == now or time.monotonic() > deadline:
                break
            time.sleep(OFTEN_S)
        self.base, self.dropped_before = now, self.session.dropped()

    def _read(self) -> float:
        """Read all counters; the time between asking and knowing is halved."""
        asked = time.monotonic()
        now = self.session.counters()
        when = (asked + time.monotonic()) / 2
        for port, (sent, received) in now.items():
            self.sent[port] = sent - self.base[port][0]
            self.received[port] = received - self.base[port][1]
            if self.sent[port] < 0 or self.received[port] < 0:
                raise TroubleError(
                    "counters",
                    f"the counters of port {port} went back: {self.base[port]} before the trial, "
                    f"{now[port]} in it",
                )
            if port in self.looks:
                self.looks[port].append((when, self.sent[port]))
        return when

    def _watch(self, started: float) -> bool:
        """Wait until all frames have been sent, or the time is over.

        Returns:
            Whether they were sent in time.
        """
        duration = self.order["duration"]
        due = started + duration
        last = due + self.order["slack"]
        until = min(started + EARLY * duration, due - NEAR_S)
        while True:
            self._sleep(until)
            when = self._read()
            if all(self.sent[port] >= self.planned[port] for port in self.senders):
                return True
            if self._dropped_the_rest():
                return True
            if when >= last:
                return False
            until = min(when + SELDOM_S, due - NEAR_S) if when < due - NEAR_S else when + OFTEN_S

    def _dropped_the_rest(self) -> bool:
        """Whether what has not been sent was offered, and not taken."""
        short = sum(self.planned[port] - self.sent[port] for port in self.senders)
        return self.session.dropped() - self.dropped_before >= short > 0

    def _drain(self, stopped: float) -> None:
        """Wait for frames on their way; counters have been read after it."""
        last = stopped + self.order["drain"]
        while True:
            when = self._read()
            if when >= last:
                return
            if not self.order["full_drain"] and self._all_back():
                return
            self._sleep(min(last, when + OFTEN_S))

    def _all_back(self) -> bool:
        pairs = ((port, port ^ 1) for port in self.senders)
        return all(self.received.get(far, 0) >= self.sent[port] for port, far in pairs)

    def _sleep(self, until: float) -> None:
        """Sleep, but look up often: the trial may be given up."""
        while (left := until - time.monotonic()) > 0:
            self.look()
            time.sleep(min(left, SELDOM_S))
        self.look()

    def _latency(self) -> dict[str, Any]:
        probes = self.order["probes"]
        if not probes:
            return {}
        said = self.session.client.get_pgid_stats(probes).get("latency", {})
        return {str(p): _measured(said[p]) for p in probes if p in said}

    def _counts(self, port: int, started: float, stopped: float) -> dict[str, Any]:
        counts: dict[str, Any] = {
            "planned": self.planned[port],
            "sent": self.sent[port],
            "received": self.received[port],
        }
        if port in self.looks:
            looks, frames = self.looks[port], self.planned[port]
            counts["seconds"] = _seconds(looks, frames, started, stopped, self.order["duration"])
        return counts


def _seconds(
    looks: list[tuple[float, int]], planned: int, started: float, stopped: float, duration: float
) -> float:
    """Time that the frames took which were sent, at the pace they were seen to leave at.

    It lies between the last look at which some were missing and the first at which none were.
    """
    moving = [(when, sent) for when, sent in looks if 0 < sent < planned and when <= stopped]
    sent = min(planned, max((n for _, n in looks), default=0))
    most = min((when for when, n in looks if n >= sent), default=stopped) - started
    least = max((when for when, n in looks if n < sent), default=started) - started
    pace = most
    if len(moving) > 1:
        (first, a), (last, b) = moving[0], moving[-1]
        if last - first >= SPAN * duration and b > a:
            pace = sent * (last - first) / (b - a)
    return round(min(max(pace, least), most), 9)


def _measured(said: dict[str, Any]) -> dict[str, Any]:
    """What is wanted of a probe's statistics, as JSON values."""
    latency = said["latency"]
    plain = {k: v for k, v in latency.items() if isinstance(v, (int, float))}
    return {
        "average": plain.get("average"),
        "max": plain.get("total_max"),
        "min": plain.get("total_min"),
        "jitter": plain.get("jitter"),
        "histogram": {str(k): v for k, v in latency.get("histogram", {}).items()},
        "hdrh": latency.get("hdrh", ""),
        "errors": said.get("err_cntrs", {}),
    }
