"""One connection to a TRex server: whose ports they are, and what runs on them."""

from __future__ import annotations

import contextlib
import getpass
import socket
import time
from collections.abc import Callable
from typing import Any

from vnetperf.traffic.trex.worker.library import Saying, TroubleError

#: Pieces of what the client and the server say -> kind of trouble.
_SAID = (
    ("version", ("version mismatch", "mismatch between client and server")),
    ("owned", ("owned by", "already taken", "is owned", "not owned", "acquire")),
    (
        "gone",
        (
            "failed to get server response",
            "failed to send message",
            "connection to the server",
            "subscriber timeout",
            "not connected",
            "is not valid while disconnected",
            "failed to establish",
        ),
    ),
)
#: What the client says when it thinks that a port is not in the state for something.
WRONG_STATE = "on current state"
SETTLING_S = 3.0


def trouble_of(error: BaseException) -> TroubleError:
    """What a client's exception means.

    Args:
        error: Most are of one class: only their text tells them apart.

    Returns:
        The trouble, with the text without its colours.
    """
    text = plain(str(error) or type(error).__name__)
    low = text.lower()
    kind = next((kind for kind, words in _SAID if any(w in low for w in words)), "refused")
    return TroubleError(kind, text)


def _not_acquired(error: BaseException) -> TroubleError:
    trouble = trouble_of(error)
    return TroubleError("owned" if trouble.kind == "refused" else trouble.kind, trouble.text)


def plain(text: str) -> str:
    """Text without escape sequences, on one line.

    Args:
        text: What the client said.

    Returns:
        The words.
    """
    out, skipping = [], False
    for char in text:
        if char == "\x1b":
            skipping = True
        elif not skipping:
            out.append(char)
        elif char.isalpha():
            skipping = False
    return " ".join("".join(out).split())


class Session:
    """A connected client with its ports.

    Args:
        api: The module `trex.stl.api`.
        where: "server", "sync", "publisher", "user": where to connect, and as whom;
            "sync_timeout", "async_timeout": when a server is given up, whole seconds.

    Attributes:
        client: The client.
        ports: Numbers of the ports that are ours.
    """

    def __init__(self, api: Any, where: dict[str, Any]) -> None:
        self.api = api
        self.ports: list[int] = []
        self._address = (where["server"], where["sync"])
        self.client = api.STLClient(
            username=getpass.getuser() if not where.get("user") else where["user"],
            server=where["server"],
            sync_port=where["sync"],
            async_port=where["publisher"],
            verbose_level="none",
            sync_timeout=where["sync_timeout"],
            async_timeout=where["async_timeout"],
        )

    def connect(self, patience_s: float) -> dict[str, Any]:
        """Connect; a server that is just starting is waited for.

        Args:
            patience_s: Longest wait, seconds.

        Returns:
            The server's version and ports.

        Raises:
            TroubleError: It does not answer, or refuses this client.
        """
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._knock(deadline)
                with Saying(trouble_of):
                    self.client.connect()
                return self.describe()
            except TroubleError as trouble:
                if trouble.kind == "version" or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _knock(self, deadline: float) -> None:
        """Wait until somebody listens: the client would try for seconds before it says so."""
        while time.monotonic() < deadline:
            try:
                socket.create_connection(self._address, timeout=1.0).close()
                return
            except OSError:
                time.sleep(0.05)
        raise TroubleError("gone", "nobody listens at {}:{}".format(*self._address))

    def describe(self) -> dict[str, Any]:
        """What the server says of itself.

        Returns:
            Version, ports with link, owner, speed and driver.
        """
        version = self.client.get_server_version()
        info = self.client.get_server_system_info()
        return {
            "version": version.get("version", "unknown"),
            "mode": version.get("mode", ""),
            "cores": info.get("dp_core_count"),
            "ports": [self._port(n) for n in self.client.get_all_ports()],
        }

    def _port(self, number: int) -> dict[str, Any]:
        attributes = self.client.get_port_attr(number)
        keys = ("driver", "speed", "src_mac", "link", "owner", "status", "description")
        return {"port": number, **{key: attributes.get(key) for key in keys}}

    def acquire(self, ports: list[int], force: bool) -> None:
        """Take ports, and stop what a client that vanished has left running on them.

        Args:
            ports: Their numbers.
            force: Whether to take them from whoever has them.

        Raises:
            TroubleError: They are somebody else's.
        """
        with Saying(_not_acquired):
            self.client.acquire(ports=ports, force=force)
        self.ports = list(ports)
        self.quiet(everything=True)
        self._see_everything()

    def _see_everything(self) -> None:
        """Have frames for any address counted, where the driver can be told so."""
        with contextlib.suppress(self.api.TRexError):  # virtual ones see all, and cannot be told
            self.client.set_port_attr(ports=self.ports, promiscuous=True)

    def quiet(self, everything: bool = False) -> None:
        """Stop traffic and take the streams away.

        Args:
            everything: True for what this client does not know of, too.
        """
        which = [f"{port}.*" for port in self.ports] if everything else self.ports
        self.stop(which)
        self._settled(lambda: self.client.remove_all_streams(ports=which))

    def stop(self, ports: list[Any]) -> None:
        """Stop traffic.

        Args:
            ports: Numbers or profiles of ports.
        """
        self._settled(lambda: self.client.stop(ports=ports, rx_delay_ms=0))

    def _settled(self, step: Callable[[], None]) -> None:
        """Take a step that the client refuses while news of the ports' state are on their way."""
        deadline = time.monotonic() + SETTLING_S
        while True:
            try:
                with Saying(trouble_of):
                    step()
                return
            except TroubleError as trouble:
                if WRONG_STATE not in trouble.text or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def links_down(self) -> list[int]:
        """Ports without a link.

        Returns:
            Their numbers.
        """
        known = {port: self.client.get_port_attr(port) for port in self.ports}
        return [port for port, it in known.items() if str(it.get("link")).upper() != "UP"]

    def counters(self) -> dict[int, tuple[int, int]]:
        """Frames of our ports since the server began.

        Returns:
            Port -> frames sent and received.
        """
        return {port: self.counters_of(port) for port in self.ports}

    def counters_of(self, port: int) -> tuple[int, int]:
        """Frames of one port since the server began.

        Args:
            port: Its number.

        Returns:
            Frames sent and received.
        """
        said = self.ask("get_port_stats", {"port_id": port})
        return int(said["opackets"]), int(said["ipackets"])

    def dropped(self) -> int:
        """Frames that the server dropped since it began because a port took no more.

        Returns:
            Frames of all ports.
        """
        return int(self.ask("get_global_stats").get("m_total_queue_drop", 0))

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request of the server's, as the client's own counters are made of.

        What the client makes of them is relative to when it last cleared them.

        Args:
            method: Name of the request.
            params: Its parameters.

        Returns:
            The answer.

        Raises:
            TroubleError: The server does not answer, or refuses.
        """
        said = self.client.conn.rpc.transmit(method, params or {})
        if not said:
            raise trouble_of(RuntimeError(str(said.err())))
        answer: dict[str, Any] = said.data()
        return answer

    def close(self) -> None:
        """Stop, let go of the ports, disconnect."""
        if self.client.is_connected():
            self.client.disconnect(stop_traffic=True, release_ports=True)
