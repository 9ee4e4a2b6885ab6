"""Talks to VPP's binary API: one refusal is one error, and a VPP that hangs is given up."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from vnetperf.model.errors import DutError
from vnetperf.vswitches.vpp.install import TELLS_MESSAGES, Installation
from vnetperf.vswitches.vpp.retval import cure_of, text_of

#: Longest wait for an answer, seconds: a main thread on a shared core may be slow.
TIMEOUT_S = 10.0
ADMIN_UP, LINK_UP = 1, 2
#: Files of the definitions of messages that are used here; each has all types that it needs.
DEFINITIONS = frozenset(
    (
        *("memclnt", "vlib", "vpe", "interface", "l2", "ip", "ip_neighbor"),
        *("memif", "vhost_user", "af_packet", "af_xdp", "vxlan", "gre", "geneve"),
    )
)


class VppApi:
    """A client of one VPP's binary API.

    Args:
        socket: The API's socket.
        installation: Where message definitions are, for a VPP that does not tell them itself.
        version: Version of VPP.
        timeout_s: Longest wait for an answer, seconds.
    """

    def __init__(
        self,
        socket: Path,
        installation: Installation,
        version: tuple[int, int],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.socket = socket
        self.timeout_s = timeout_s
        #: Set when an interface has come up, gone down or been deleted since it was cleared.
        self.interfaces_changed = threading.Event()
        self._installation = installation
        self._version = version
        self._client: Any = None

    def connect(self) -> None:
        """Connect, and learn the messages.

        Raises:
            DutError: VPP does not answer, or nothing says what its messages look like.
        """
        self.close()  # of a try before that got no answer
        from vpp_papi import VPPApiClient  # noqa: PLC0415 - takes 0.15 s to import

        files = self._definitions()
        settings: dict[str, Any] = {"apifiles": files} if files else {"bootstrapapi": True}
        if not files and self._version < TELLS_MESSAGES:
            raise DutError(
                "a VPP before 24.06 does not tell its messages, and no definitions are beside it",
                where=str(self._installation.binary),
                accepted="*.api.json files in ../share/vpp/api",
                cure="install VPP's packages whole, or use VPP 24.06 or newer",
            )
        with _answers("connecting", self):
            client = VPPApiClient(
                server_address=str(self.socket),
                read_timeout=self.timeout_s,
                async_thread=False,  # the transport's own thread hands events over
                **settings,
            )
            client.register_event_callback(self._on_event)
            client.connect("vnetperf")
        self._client = client

    def _definitions(self) -> list[str]:
        """Files of message definitions beside VPP, as far as they are used here.

        All of them take ten times as long to read.
        """
        if self._installation.api_dir is None:
            return []
        there = self._installation.api_dir.rglob("*.api.json")
        return sorted(str(path) for path in there if path.name.partition(".")[0] in DEFINITIONS)

    def _on_event(self, name: str, message: Any) -> None:
        del message
        if name == "sw_interface_event":
            self.interfaces_changed.set()

    def watch_interfaces(self) -> None:
        """Have `interfaces_changed` set from now on."""
        self.call("want_interface_events", enable_disable=1, pid=os.getpid())
        self.interfaces_changed.set()

    def knows(self, message: str) -> bool:
        """Whether this VPP has a message.

        Args:
            message: Its name.

        Returns:
            True when it can be sent.
        """
        return self._client is not None and hasattr(self._client.api, message)

    def call(
        self,
        message: str,
        *,
        timeout_s: float | None = None,
        tolerated: Collection[int] = (),
        **fields: Any,
    ) -> Any:
        """Send a message and wait for its answer.

        Args:
            message: Its name.
            timeout_s: Longest wait, seconds; None for the client's.
            tolerated: Return values, besides 0, that are no refusal.
            **fields: Its fields.

        Returns:
            The answer; of a dump all of them.

        Raises:
            DutError: VPP has no such message, refuses it, or does not answer.
        """
        if self._client is None:
            raise DutError("VPP has not been started", where=message)
        function = getattr(self._client.api, message, None)
        if function is None:
            raise DutError(
                f"this VPP ({self._version[0]}.{self._version[1]:02}) has no message {message}",
                where="vpp",
                accepted="VPP 23.06 to 26.06 with its plugins",
                cure="install the plugin it belongs to (vpp-plugin-core), or a supported version",
            )
        with _answers(message, self):
            answer = function(_timeout=timeout_s or self.timeout_s, **fields)
        retval = getattr(answer, "retval", 0)
        if retval and retval not in tolerated:
            raise DutError(
                f"VPP refuses {message}: {text_of(retval)} ({retval})",
                where=", ".join(f"{name}={value}" for name, value in fields.items())[:300],
                cure=cure_of(retval),
            )
        return answer

    def cli(self, command: str, timeout_s: float | None = None) -> str:
        """Run a command of the debug CLI; for what the API cannot say.

        Args:
            command: The command.
            timeout_s: Longest wait, seconds; None for the client's.

        Returns:
            What it prints; an error too is only printed.
        """
        return str(self.call("cli_inband", timeout_s=timeout_s, cmd=command).reply)

    def interfaces(self) -> dict[int, Any]:
        """All interfaces.

        Returns:
            Index -> its details.
        """
        return {int(d.sw_if_index): d for d in self.call("sw_interface_dump")}

    def close(self) -> None:
        """Hang up; at once when VPP has ended, otherwise it is told."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # whatever it says of a dead VPP is no news
                client.disconnect()


@contextlib.contextmanager
def _answers(message: str, api: VppApi) -> Any:
    """Make one error of all that the client library raises."""
    try:
        yield
    except DutError:
        raise
    except OSError as error:
        raise DutError(
            f"no answer to {message} within {api.timeout_s:g} s: {error}",
            where=str(api.socket),
            cure="see the end of VPP's log; its main thread may be stuck",
        ) from error
    except Exception as error:  # the library has exceptions without a common ancestor
        raise DutError(
            f"{message} cannot be sent: {type(error).__name__}: {error}", where=str(api.socket)
        ) from error
