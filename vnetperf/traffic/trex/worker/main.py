"""The client's process: takes orders from a socket, one after the other, until it closes."""

from __future__ import annotations

import contextlib
import select
import socket
import sys
from typing import Any

from vnetperf.traffic.trex.worker import library, wire
from vnetperf.traffic.trex.worker.library import GivenUpError, Saying, TroubleError
from vnetperf.traffic.trex.worker.sending import Sending
from vnetperf.traffic.trex.worker.session import Session, trouble_of

#: Changes with the orders and answers; both ends are of one version of this project.
PROTOCOL = 1


class Worker:
    """Carries out orders.

    Args:
        sock: Where they come from.
        place: Directory of TRex's client.
    """

    def __init__(self, sock: socket.socket, place: str) -> None:
        self._sock = sock
        self._place = place
        self._session: Session | None = None

    def serve(self) -> None:
        """Answer until told to end; when the other end has vanished, let go of the ports.

        Raises:
            OSError: The other end vanished in the middle of something.
            ValueError: The other end sends what is no order.
        """
        try:
            while (order := wire.receive(self._sock)) is not None and order["do"] != "end":
                self._obey(order)
        except (OSError, ValueError):
            self._leave()
            raise
        if order is None:
            self._leave()

    def _leave(self) -> None:
        """Let go of ports that nobody else could take otherwise, of somebody else's server."""
        if self._session is not None:
            with contextlib.suppress(Exception):
                self._session.close()

    def _obey(self, order: dict[str, Any]) -> None:
        if order["do"] != "give-up":  # one that crossed the answer of what it was for
            wire.send(self._sock, {"number": order["number"], **self._answer(order)})

    def _answer(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            with Saying(trouble_of):
                return {"result": getattr(self, f"do_{order['do']}")(order)}
        except TroubleError as trouble:
            return {"trouble": trouble.kind, "text": trouble.text}
        except GivenUpError:
            return {"trouble": "given-up", "text": "given up"}

    @property
    def session(self) -> Session:
        """The connection.

        Raises:
            TroubleError: There is none.
        """
        if self._session is None:
            raise TroubleError("gone", "not connected to a server")
        return self._session

    def do_open(self, order: dict[str, Any]) -> dict[str, Any]:
        """Import the client, connect.

        Args:
            order: "server", "sync", "publisher", "user", "patience".

        Returns:
            What is known of both.
        """
        api = library.load(self._place)
        self._session = Session(api, order)
        return {**library.versions(api), **self._session.connect(order["patience"])}

    def do_acquire(self, order: dict[str, Any]) -> dict[str, Any]:
        """Take ports.

        Args:
            order: "ports", "force".

        Returns:
            Nothing.
        """
        self.session.acquire(order["ports"], order["force"])
        return {}

    def do_links(self, order: dict[str, Any]) -> dict[str, Any]:
        """See which links are down.

        Args:
            order: Nothing.

        Returns:
            "down": numbers of ports.
        """
        del order
        return {"down": self.session.links_down()}

    def do_run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run a trial.

        Args:
            order: As `Sending`.

        Returns:
            Its counts.
        """
        return Sending(self.session, order, self._look).run()

    def do_release(self, order: dict[str, Any]) -> dict[str, Any]:
        """Stop everything, let go of the ports, disconnect.

        Args:
            order: Nothing.

        Returns:
            Nothing.
        """
        del order
        self.session.close()
        return {}

    def _look(self) -> None:
        """Give the trial up when the other end says anything before it has its answer."""
        readable, _, _ = select.select([self._sock], [], [], 0)
        if readable:
            wire.receive(self._sock)
            raise GivenUpError


def main(path: str, place: str) -> int:
    """Connect to who started us, and serve.

    Args:
        path: Its socket.
        place: Directory of TRex's client.

    Returns:
        Exit code.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    wire.send(sock, {"protocol": PROTOCOL, "python": sys.version.split()[0]})
    worker = Worker(sock, place)
    try:
        worker.serve()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"the other end: {error}\n")
        return 1
    return 0
