"""The engine's commands over DPDK's telemetry socket: parameters, refusals, GeneratorError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from vnetperf.host.telemetry import MAX_REQUEST, DpdkTelemetry
from vnetperf.model.errors import GeneratorError, HostError

REQUEST_MAX = MAX_REQUEST
_PATH_MAX = 107  # sun_path, without its terminator


class TelemetryClient:
    """One connection to a DPDK process, usable from one thread.

    Args:
        path: The socket, usually ``<runtime directory>/dpdk_telemetry.v2``.
        timeout_s: Seconds to wait for each answer.

    Raises:
        GeneratorError: Nobody answers at the path, or not like DPDK.
    """

    def __init__(self, path: Path, *, timeout_s: float = 30.0) -> None:
        self.path = path
        if len(str(path).encode()) > _PATH_MAX:
            raise GeneratorError(
                f"path of {len(str(path))} characters is too long for a socket",
                where=str(path),
                accepted=f"at most {_PATH_MAX} characters",
                cure="use a shorter run directory",
            )
        try:
            self._telemetry = DpdkTelemetry(path, timeout_s)
        except (OSError, ValueError) as error:
            raise _nobody(path, error) from error
        try:
            greeting = self._telemetry.greeting
            self.pid = int(greeting["pid"])
            """Process that answers."""
            self.version = str(greeting["version"])
            """Its DPDK version, as it says: ``DPDK 22.11.0``."""
        except (ValueError, KeyError, TypeError) as error:
            self.close()
            raise _nobody(path, error) from error

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
        return self.raw(_request(command, parameters))

    def call_all(self, command: str, parameters: Sequence[Mapping[str, object]]) -> list[Any]:
        """Run one command several times; all of them, also when one is refused.

        Args:
            command: As in `call`.
            parameters: Of each time.

        Returns:
            The answers.

        Raises:
            GeneratorError: As in `call`, for the first that is refused.
        """
        if not parameters:
            return []
        try:
            values = self._telemetry.ask_all([_request(command, one) for one in parameters])
        except HostError as error:
            raise GeneratorError(error.what, where=command, accepted=error.accepted) from error
        return [_accepted(command, value) for value in values]

    def raw(self, request: str) -> Any:
        """Send a whole request as it is; see `call`."""
        command = request.partition(",")[0]
        try:
            value = self._telemetry.ask(request)
        except HostError as error:
            raise GeneratorError(error.what, where=command, accepted=error.accepted) from error
        return _accepted(command, value)

    def close(self) -> None:
        """Close the connection; may be called again."""
        self._telemetry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _request(command: str, parameters: Mapping[str, object]) -> str:
    given = (f"{key}={_text(v)}" for key, v in parameters.items() if v is not None)
    return ",".join([command, *given])


def _accepted(command: str, value: Any) -> Any:
    """An answer that is no refusal."""
    if value is None:
        raise GeneratorError("the command is unknown or failed", where=command)
    if isinstance(value, dict) and "error" in value:
        raise GeneratorError(
            str(value["error"]), where=command, accepted=str(value.get("accepted", ""))
        )
    return value


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _nobody(path: Path, error: Exception) -> GeneratorError:
    return GeneratorError(f"no DPDK telemetry: {error or type(error).__name__}", where=str(path))
