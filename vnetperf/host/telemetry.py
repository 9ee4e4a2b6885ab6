"""Client of DPDK's telemetry socket (version 2), which every DPDK program opens.

https://doc.dpdk.org/guides/howto/telemetry.html: a SOCK_SEQPACKET socket that greets with a JSON
object and answers each "/command,parameters" with `{"/command": answer}`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vnetperf.host.patience import patient
from vnetperf.model.errors import HostError

#: DPDK's own limit of a request, octets; it cuts off what is longer without a word.
MAX_REQUEST = 1023
GREETING_MAX = 16384
#: Requests under way at most: the socket's buffers hold them and their answers.
WINDOW = 8


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
        (answer,) = self.ask_all((command,))
        return answer

    def ask_all(self, commands: Sequence[str]) -> list[Any]:
        """Ask several things, the next before the last is answered: each answer costs a wait.

        Args:
            commands: As in `ask`.

        Returns:
            The answers, in the same order.

        Raises:
            HostError: As in `ask`. Where several were asked the connection is closed: further
                answers may be under way.
        """
        requests = [_encoded(command) for command in commands]
        answers: list[Any] = []
        sent = 0
        try:
            while len(answers) < len(requests):
                while sent < min(len(requests), len(answers) + WINDOW):
                    self._send(requests[sent], _name(commands[sent]))
                    sent += 1
                answers.append(self._receive(_name(commands[len(answers)])))
        except HostError:
            if len(requests) > 1:
                self.close()
            raise
        return answers

    def _send(self, request: bytes, name: str) -> None:
        try:
            self._socket.send(request)
        except OSError as error:
            raise HostError(f"no answer to {name}: {error}", where=str(self.path)) from error

    def _receive(self, name: str) -> Any:
        try:
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


def _name(command: str) -> str:
    return command.partition(",")[0]


def _encoded(command: str) -> bytes:
    request = command.encode()
    if len(request) > MAX_REQUEST:
        raise HostError(
            f"request of {len(request)} octets",
            where=_name(command),
            accepted=f"at most {MAX_REQUEST} octets",
        )
    return request
