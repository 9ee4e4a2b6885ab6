"""The process that TRex's client lives in, from our side: orders out, answers in."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vnetperf.host.machine import Machine
from vnetperf.host.patience import patient
from vnetperf.host.process import ManagedProcess
from vnetperf.model.errors import GeneratorError, TrialTimeoutError
from vnetperf.traffic.trex.versions import ClientPlace
from vnetperf.traffic.trex.worker import wire
from vnetperf.traffic.trex.worker.main import PROTOCOL

#: Importing the client's scapy takes one to three seconds.
START_S = 30.0
#: Longest time an order takes that waits for nothing but the server.
ANSWER_S = 20.0
#: How often who waits for a trial is given a look, seconds.
WATCH_S = 0.25
#: Kind of trouble -> what the user can do.
CURES = {
    "missing": "give the directory of TRex's client: client under [trex] of the testbed file; "
    "the server's tree has one, and `pip install lbr-trex-client` brings one",
    "broken": "lbr-trex-client works with Python 3.8 to 3.11; from 3.12 on use the client of the "
    "server's tree (client under [trex] of the testbed file)",
    "too-old": "use the client of the server's tree, or lbr-trex-client 3.4 or newer",
    "version": "use the client of the server's own tree (client under [trex] of the testbed file)",
    "owned": "ask who has the ports to release them, or take them with force = true under [trex] "
    "of the testbed file",
    "gone": "see the server's log",
    "counters": "nobody else may use the server's ports or clear its counters",
}
WHERE = "trex"


class TrexClient:
    """A client process that answers; made by `TrexClient.start`.

    Args:
        process: The process.
        sock: The socket it answers on.
        alive: Raises when the server is known to have ended; asked while waiting.
    """

    def __init__(
        self, process: ManagedProcess, sock: socket.socket, alive: Callable[[], None]
    ) -> None:
        self._process = process
        self._sock = sock
        self._alive = alive
        self._number = 0

    @classmethod
    def start(
        cls,
        machine: Machine,
        directory: Path,
        place: ClientPlace,
        *,
        isolated: bool,
        alive: Callable[[], None],
    ) -> TrexClient:
        """Start the process and wait until it has connected to us.

        Args:
            machine: Where it runs.
            directory: Directory for its socket.
            place: TRex's client and the interpreter for it.
            isolated: True starts it where our own server is.
            alive: Raises when the server is known to have ended.

        Returns:
            The client.

        Raises:
            GeneratorError: It does not start.
        """
        path = directory / "client.sock"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(WATCH_S)
            argv = place.argv(path)
            process = machine.spawn("trex-client", argv, isolated=isolated)
            deadline = time.monotonic() + patient(START_S)
            while True:
                with contextlib.suppress(TimeoutError):
                    sock, _ = listener.accept()
                    break
                if not process.alive() or time.monotonic() > deadline:
                    process.stop(timeout_s=0.0)
                    raise GeneratorError(
                        f"the process for TRex's client did not start; log ends with:\n"
                        f"{process.log_tail()}",
                        where=f"{WHERE}, {place.python}",
                        cure=CURES["broken"],
                    )
        made = cls(process, sock, alive)
        hello = made._receive(time.monotonic() + patient(ANSWER_S), lambda: None)
        if hello.get("protocol") != PROTOCOL:
            made.close()
            raise GeneratorError("the client's process is of another version", where=WHERE)
        return made

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def call(
        self,
        do: str,
        *,
        within_s: float = ANSWER_S,
        watch: Callable[[], None] = lambda: None,
        **values: Any,
    ) -> dict[str, Any]:
        """Give an order and wait for its answer.

        Args:
            do: What to do.
            within_s: Longest wait, seconds.
            watch: Called every quarter of a second; what it raises gives the order up, and goes
                through once that has been done.
            **values: Of the order.

        Returns:
            The result.

        Raises:
            GeneratorError: The server or the client failed; one message, with its cure.
        """
        self._number += 1
        number = self._number
        with self._telling():
            wire.send(self._sock, {"do": do, "number": number, **values})
        deadline = time.monotonic() + patient(within_s)
        # An order that was not answered in time may have been answered since.
        while (answer := self._wait(deadline, watch)).get("number") != number:
            continue
        if "trouble" in answer:
            self._alive()  # a server that has died says more than the call that found it gone
            raise _error(answer["trouble"], answer["text"])
        result: dict[str, Any] = answer["result"]
        return result

    def _wait(self, deadline: float, watch: Callable[[], None]) -> dict[str, Any]:
        try:
            return self._receive(deadline, watch)
        except TrialTimeoutError:
            raise
        except BaseException:
            with contextlib.suppress(OSError, ValueError, GeneratorError):
                wire.send(self._sock, {"do": "give-up"})
                self._receive(time.monotonic() + patient(ANSWER_S), self._alive)
            raise

    def _receive(self, deadline: float, watch: Callable[[], None]) -> dict[str, Any]:
        while True:
            self._alive()
            watch()
            if not select.select([self._sock], [], [], WATCH_S)[0]:
                if not self._process.alive():
                    raise self._died("it has ended")
                if time.monotonic() > deadline:
                    raise TrialTimeoutError("TRex does not answer", where=WHERE)
                continue
            with self._telling():
                self._sock.settimeout(patient(ANSWER_S))
                if (answer := wire.receive(self._sock)) is not None:
                    return answer
            self._alive()
            raise self._died("it has closed its socket")

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell trouble of the socket as what it means."""
        try:
            yield
        except (OSError, ValueError) as error:
            self._alive()
            raise self._died(str(error)) from None

    def _died(self, how: str) -> GeneratorError:
        return GeneratorError(
            f"the process of TRex's client failed ({how}); log ends with:\n"
            + self._process.log_tail(),
            where=WHERE,
        )

    def close(self) -> None:
        """End the process; idempotent."""
        with contextlib.suppress(OSError):
            wire.send(self._sock, {"do": "end", "number": 0})
        self._sock.close()
        self._process.stop(timeout_s=1.0)


def _error(kind: str, text: str) -> GeneratorError:
    what = {
        "missing": "TRex's Python client was not found",
        "broken": "TRex's Python client cannot be imported",
        "too-old": "TRex's Python client is too old",
        "version": "the server refuses this version of TRex's client",
        "owned": "the ports are somebody else's",
        "gone": "the server does not answer",
        "counters": "the server's counters cannot be trusted",
    }.get(kind, "the server or its client refused")
    return GeneratorError(f"{what}: {text}", where=WHERE, cure=CURES.get(kind, ""))
