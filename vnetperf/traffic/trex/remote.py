"""Where a server listens, and whether somebody else's still does."""

from __future__ import annotations

import socket
import time

from vnetperf.model.errors import GeneratorError

SYNC_PORT, ASYNC_PORT = 4501, 4500
#: Where the one listens that a run starts, in the run's network namespace.
OURS = ("127.0.0.1", SYNC_PORT, ASYNC_PORT)
#: How often it is knocked at, and how long it may take to open, seconds.
KNOCK_S = 1.0


class Remote:
    """A server that was there before us.

    Args:
        server: "HOST" or "HOST:SYNC-PORT:ASYNC-PORT".

    Attributes:
        address: Host, port of requests, port of news.
    """

    def __init__(self, server: str) -> None:
        host, sync, publisher = (*server.split(":"), "", "")[:3]
        self.address = (host, int(sync or SYNC_PORT), int(publisher or ASYNC_PORT))
        self._next = 0.0

    def check_alive(self) -> None:
        """Knock, now and then: its client would take a quarter of a minute to miss it.

        Raises:
            GeneratorError: Nobody listens any more.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + KNOCK_S
        host, port, _ = self.address
        try:
            socket.create_connection((host, port), timeout=KNOCK_S).close()
        except ConnectionRefusedError:
            raise GeneratorError(
                f"the server does not answer: nobody listens at {host}:{port} any more",
                where="trex",
                cure="see the server's log",
            ) from None
        except OSError:
            return  # slow, or not reachable for a moment: for the client to find out
