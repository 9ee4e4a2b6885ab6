"""Talks to an OVS daemon's control socket, as ovs-appctl does, without starting a process.

Counters are read before and after every trial; a fork on a machine whose cores are all polled
takes tens of milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

from vnetperf.host.patience import patient
from vnetperf.model.errors import DutError


class UnixCtl:
    """A connection to a control socket (JSON-RPC 1.0 over a stream).

    Args:
        path: The socket.
        timeout_s: Longest wait for an answer, seconds.
    """

    def __init__(self, path: str, timeout_s: float = 10.0) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._number = 0

    def call(self, command: str, *parameters: str) -> str:
        """Run a command.

        Args:
            command: E.g. "dpctl/show".
            *parameters: Its parameters.

        Returns:
            What it prints.

        Raises:
            DutError: The daemon has gone, or refuses.
        """
        try:
            answer = self._exchange(command, parameters)
        except (OSError, ValueError) as error:
            self.close()
            raise DutError(f"no answer to {command}: {error}", where=self.path) from error
        if answer.get("error"):
            raise DutError(f"{command}: {answer['error']}", where=self.path)
        return str(answer["result"])

    def _exchange(self, command: str, parameters: tuple[str, ...]) -> dict[str, Any]:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(patient(self.timeout_s))
            self._socket.connect(self.path)
        self._number += 1
        request = {"id": self._number, "method": command, "params": list(parameters)}
        self._socket.sendall(json.dumps(request).encode())
        text = b""
        while True:
            piece = self._socket.recv(65536)
            if not piece:
                raise OSError("the daemon closed the connection")
            text += piece
            with contextlib.suppress(ValueError):  # not whole yet
                answer: dict[str, Any] = json.loads(text)
                return answer

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
