"""A small client of DPDK's telemetry socket (protocol v2)."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Self

from vnetperf.model.errors import GeneratorError

REQUEST_MAX = 1023  # DPDK reads a request into 1 KiB; what is longer is cut off without a word
_PATH_MAX = 107  # sun_path, without its terminator


class TelemetryClient:
    """One connection to a DPDK process, usable from one thread.

    Args:
        path: The socket, usually ``<runtime directory>/dpdk_telemetry.v2``.
        timeout_s: Seconds to wait for each answer.

    Raises:
        GeneratorError: Nobody answers at the path, or not like DPDK.
    """

    def __init__(self, path: Path, *, timeout_s: float = 10.0) -> None:
        self.path = path
        if len(str(path).encode()) > _PATH_MAX:
            raise GeneratorError(
                f"path of {len(str(path))} characters is too long for a socket",
                where=str(path),
                accepted=f"at most {_PATH_MAX} characters",
                cure="use a shorter run directory",
            )
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
            greeting = json.loads(self._socket.recv(4096))
            self.pid = int(greeting["pid"])
            """Process that answers."""
            self.version = str(greeting["version"])
            """Its DPDK version, as it says: ``DPDK 22.11.0``."""
            self._max_reply = int(greeting["max_output_len"])
        except (OSError, ValueError, KeyError) as error:
            self._socket.close()
            raise GeneratorError(
                f"no DPDK telemetry: {error or type(error).__name__}", where=str(path)
            ) from error

    def call(self, command: str, **parameters: object) -> Any:
        """Run one command and return the value of its answer.

        Args:
            command: Such as ``/loadgen/info``.
            **parameters: Sent as ``key=value``, floats with all their digits; None is left out.

        Returns:
            What DPDK answers for the command: a dict, list, string or None.

        Raises:
            GeneratorError: The request is too long, the command refuses (the message says what it
                accepts), the answer does not come in time or the connection is lost.
        """
        request = ",".join(
            [command, *(f"{key}={_text(v)}" for key, v in parameters.items() if v is not None)]
        )
        return self.raw(request)

    def raw(self, request: str) -> Any:
        """Send a whole request as it is; see `call`."""
        command = request.partition(",")[0]
        data = request.encode()
        if len(data) > REQUEST_MAX:
            raise GeneratorError(
                f"request of {len(data)} octets",
                where=command,
                accepted=f"at most {REQUEST_MAX} octets",
            )
        try:
            self._socket.send(data)
            answer = self._socket.recv(self._max_reply)
        except TimeoutError as error:
            self.close()  # a late answer would be taken for the next one
            raise GeneratorError("no answer in time", where=command) from error
        except OSError as error:
            raise GeneratorError(f"connection lost: {error}", where=command) from error
        if not answer:
            raise GeneratorError("connection lost: closed by the engine", where=command)
        value = _value(answer, command)
        if isinstance(value, dict) and "error" in value:
            raise GeneratorError(
                str(value["error"]), where=command, accepted=str(value.get("accepted", ""))
            )
        return value

    def close(self) -> None:
        """Close the connection; may be called again."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _value(answer: bytes, command: str) -> Any:
    try:
        reply = json.loads(answer)
        value = reply[command]
    except (ValueError, KeyError, TypeError) as error:
        raise GeneratorError(
            f"answer is not understood: {answer[:200]!r}", where=command
        ) from error
    if value is None:
        raise GeneratorError("the command is unknown or failed", where=command)
    return value
