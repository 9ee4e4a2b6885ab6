"""Client of DPDK's telemetry socket (version 2), which every DPDK program opens.

https://doc.dpdk.org/guides/howto/telemetry.html: a SOCK_SEQPACKET socket that greets with a JSON
object and answers each "/command,parameters" with `{"/command": answer}`.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from vnetperf.host.patience import patient
from vnetperf.model.errors import HostError

#: DPDK's own limit of a request, octets; it cuts off what is longer without a word.
MAX_REQUEST = 1023
GREETING_MAX = 16384


class DpdkTelemetry:
    """A connection to one program.

    Args:
        path: The socket, RUNTIME_DIRECTORY/dpdk/FILE_PREFIX/dpdk_telemetry.v2.
        timeout_s: Longest wait for an answer, seconds.

    Raises:
        OSError: When nobody listens there.
        ValueError: When what listens there does not greet like DPDK.
    """

    def __init__(self, path: Path, timeout_s: float = 5.0) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self._socket.settimeout(patient(timeout_s))
            self._socket.connect(str(path))
            greeting = json.loads(self._socket.recv(GREETING_MAX))
            if not isinstance(greeting, dict):
                raise ValueError(f"this greeting is not DPDK's: {greeting!r}"[:200])
            self.greeting: dict[str, Any] = greeting
            self._max_answer = int(greeting.get("max_output_len", GREETING_MAX))
        except BaseException:
            self._socket.close()
            raise

    def ask(self, command: str) -> Any:
        """Ask one thing.

        Args:
            command: Command and parameters, e.g. "/ethdev/stats,0".

        Returns:
            The answer; None when the program knows no such command or refuses it.

        Raises:
            HostError: The program has gone, does not answer (its cause is then TimeoutError, and
                the connection is closed), or answers no JSON.
        """
        name = command.partition(",")[0]
        request = command.encode()
        if len(request) > MAX_REQUEST:
            raise HostError(
                f"request of {len(request)} octets",
                where=name,
                accepted=f"at most {MAX_REQUEST} octets",
            )
        try:
            self._socket.send(request)
            answer = self._socket.recv(self._max_answer + 1024)
            if not answer:
                raise HostError("the program closed its telemetry socket", where=str(self.path))
            return json.loads(answer)[name]
        except TimeoutError as error:
            self.close()  # a late answer would be taken for the next one
            raise HostError(f"no answer to {name} in time", where=str(self.path)) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HostError(f"no answer to {name}: {error}", where=str(self.path)) from error

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()
