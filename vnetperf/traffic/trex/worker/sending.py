"""Sends an exact number of frames within a time, and counts until they are back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

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


class Look(NamedTuple):
    """Frames that a port had sent.

    Attributes:
        when: Time, seconds.
        sent: Frames since the start.
        within: How long the answer took, seconds: `when` is its middle.
    """

    when: float
    sent: int
    within: float


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
        self.looks: dict[int, list[Look]] = {port: [] for port in self.senders}
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
        except BaseException as error:
            self._stop_after(error)
            raise
        self._stop()
        ended = time.monotonic()
        return {
            "ports": {str(p): self._counts(p, started, stopped) for p in self.session.ports},
            "dropped": self.session.dropped() - self.dropped_before,
            "latency": latency,
            "took": {
                "load": round(loaded - began, 6),
                "start": round(started - loaded, 6),
                "send": round(stopped - started, 6),
                "drain": round(ended - stopped, 6),
            },
        }

    def _stop_after(self, error: BaseException) -> None:
        """Stop, unless there is nobody to be told; what went wrong first says more than this."""
        known = error if isinstance(error, TroubleError) else trouble_of(error)
        if known.kind != "gone":
            with contextlib.suppress(TroubleError):
                self._stop()

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
        """Read all counters: each is of a time between asking and knowing."""
        for port in self.session.ports:
            asked = time.monotonic()
            now = self.session.counters_of(port)
            known = time.monotonic()
            self.sent[port], self.received[port] = self._since(port, now)
            if port in self.looks:
                look = Look((asked + known) / 2, self.sent[port], known - asked)
                self.looks[port].append(look)
        return time.monotonic()

    def _since(self, port: int, now: tuple[int, int]) -> tuple[int, int]:
        base = self.base[port]
        sent, received = now[0] - base[0], now[1] - base[1]
        if sent < 0 or received < 0:
            raise TroubleError(
                "counters",
                f"the counters of port {port} went back: {base} before the trial, {now} in it",
            )
        return sent, received

    def _watch(self, started: float) -> bool:
        """Wait until all frames have been sent; False when the time is over before."""
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
    looks: list[Look], planned: int, started: float, stopped: float, duration: float
) -> float:
    """Time that the frames took which were sent, at the pace they were seen to leave at.

    It lies between the last look at which some were missing and the first at which none were.
    """
    sent = min(planned, max((look.sent for look in looks), default=0))
    most = min((look.when for look in looks if look.sent >= sent), default=stopped) - started
    least = max((look.when for look in looks if look.sent < sent), default=started) - started
    moving = [look for look in looks if 0 < look.sent < planned and look.when <= stopped]
    pace = _pace(moving, SPAN * duration)
    return round(min(max(sent / pace, least), most) if pace else most, 9)


def _pace(looks: list[Look], span: float) -> float:
    """Frames/s between the two looks that tell it best; 0 when none are far enough apart."""
    best, pace = 0.0, 0.0
    firsts = [look for look in looks if look.when - looks[0].when <= span]
    for last in looks:
        for first in firsts:
            apart = last.when - first.when
            if apart >= span and last.sent > first.sent:
                worth = apart / (first.within + last.within + 1e-9)
                if worth > best:
                    best, pace = worth, (last.sent - first.sent) / apart
    return pace


def _measured(said: dict[str, Any]) -> dict[str, Any]:
    """What is wanted of a probe's statistics, as JSON values."""
    latency = said["latency"]
    return {
        "histogram": {str(k): v for k, v in latency.get("histogram", {}).items()},
        "hdrh": latency.get("hdrh", ""),
    }
