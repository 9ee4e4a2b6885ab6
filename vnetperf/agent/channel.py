"""The agent's end of its connection: what it sends never waits, and whom it hears no more is gone.

Messages are JSON texts over an execnet channel: {"call", "args"} in; {"event", ...} any number of
times and then {"ok"} or {"error"} out. Besides, the controller sends {"beat"} every few seconds and
{"confirm"} after an event that is to be confirmed.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from vnetperf.host.linux import parse_json
from vnetperf.host.wait import wait_at_most

#: A controller that was not heard for so long is taken for gone, seconds: it may be stopped, or the
#: machine it is on, or the network between. It beats every `BEAT_S` of client.py.
SILENCE_S = 60.0
#: Time between two looks at how long the controller was silent, seconds.
LOOK_S = 1.0
#: Longest time that counts as silence between two looks, seconds: when more has gone by, this
#: process was stopped itself, and what the controller sent meanwhile is still to be read.
LOOK_COUNTS_S = 5.0
#: Longest wait for what was sent last to leave, seconds.
FLUSH_S = 1.0


class Channel(Protocol):
    """What an execnet channel gives us."""

    def send(self, item: str) -> None:
        """Send a text."""

    def receive(self) -> str:
        """Wait for a text; EOFError when the controller has gone."""

    def isclosed(self) -> bool:
        """Whether the controller has gone."""

    def confirmation(self, number: int, timeout_s: float) -> dict[str, Any] | None:
        """Wait until the controller has confirmed an event; None when it does not in time."""


class ControllerGoneError(BaseException):
    """The controller went away in the middle of a call: no error of the call's own."""


class Line:
    """The agent's end of an execnet channel.

    Sending never blocks, since a controller that is stopped reads nothing; and a controller
    that is silent for too long is gone. Only time in which this process ran counts.

    Attributes:
        silence_s: How long it may be silent, seconds.
        silent: True once it was silent for longer.
    """

    def __init__(
        self,
        channel: Any,
        *,
        silence_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel = channel
        self.silence_s = SILENCE_S if silence_s is None else silence_s
        self._clock = clock
        self.silent = False
        self._unheard_s = 0.0
        self._looked = clock()
        self._looking = threading.Lock()
        self._incoming: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None is the end
        self._confirmations: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._outgoing: queue.Queue[str] = queue.Queue()
        self._closed = False
        threading.Thread(target=self._send_all, name="vnetperf-sender", daemon=True).start()
        channel.setcallback(self._take, endmarker=None)
        threading.Thread(target=self._look_on, name="vnetperf-silence", daemon=True).start()

    def look(self) -> None:
        """Count the time since the last look as silence, as far as this process ran."""
        with self._looking:
            now = self._clock()
            self._unheard_s += min(now - self._looked, LOOK_COUNTS_S)
            self._looked = now
            self.silent |= self._unheard_s > self.silence_s

    def _look_on(self) -> None:
        """Look every second, and wake up who waits for a call once none will come."""
        while not self.isclosed():
            time.sleep(LOOK_S)
            self.look()
        self._incoming.put(None)

    def send(self, item: str) -> None:
        """Send a text, some time soon."""
        if self._closed:
            raise ControllerGoneError
        self._outgoing.put(item)

    def send_record(self, record: Any) -> None:
        """Send a log record, unless the controller has gone."""
        with contextlib.suppress(ControllerGoneError):
            self.send(json.dumps({"event": "log", "record": record}))

    def receive(self) -> str:
        """Wait for a call; EOFError when the controller has gone or is silent."""
        text = self._incoming.get()
        if text is None:
            raise EOFError
        return text

    def isclosed(self) -> bool:
        """Whether the controller has gone, or is silent."""
        return self._closed or self.silent

    def confirmation(self, number: int, timeout_s: float) -> dict[str, Any] | None:
        """Wait until the controller has confirmed an event; None when it does not in time."""
        deadline = time.monotonic() + timeout_s
        while (remaining_s := deadline - time.monotonic()) > 0 and not self._closed:
            try:
                message = self._confirmations.get(timeout=min(remaining_s, 1.0))
            except queue.Empty:
                continue
            if message["confirm"] == number:
                return message
        return None

    def flush(self, timeout_s: float = FLUSH_S) -> None:
        """Wait a little until all is sent."""
        awaited = "the end of what is sent"
        wait_at_most(
            lambda: self._closed or not self._outgoing.unfinished_tasks, timeout_s, awaited
        )

    def _take(self, text: str | None) -> None:
        """A message, in execnet's own thread; None is the end."""
        with self._looking:
            self._unheard_s = 0.0
        if text is None:
            self._closed = True
            self._incoming.put(None)
            return
        message = parse_json(text)
        if "confirm" in message:
            self._confirmations.put(message)
        elif "beat" not in message:
            self._incoming.put(text)

    def _send_all(self) -> None:
        while not self._closed:
            item = self._outgoing.get()
            try:
                self._channel.send(item)
            except OSError:
                self._closed = True
            self._outgoing.task_done()
