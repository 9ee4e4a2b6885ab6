"""The engine's process and the socket it answers on, from its start to its end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vnetperf.model.errors import GeneratorError
from vnetperf.traffic.loadgen.process import Process, Spawn, connect, death
from vnetperf.traffic.loadgen.telemetry import TelemetryClient

PROTOCOL = 1
_POLL_S = 0.002


class Connection:
    """A running engine that answers; made by `Connection.open`.

    Args:
        process: The engine.
        client: Its socket.
        log: What it prints.

    Attributes:
        ports: How many ports it has.
    """

    def __init__(self, process: Process, client: TelemetryClient, log: Path) -> None:
        self._process = process
        self._client = client
        self._log = log
        self.ports = 0

    @classmethod
    def open(cls, argv: list[str], run_dir: Path, spawn: Spawn, timeout_s: float) -> Connection:
        """Start the engine and wait until it answers; what does not is killed.

        Args:
            argv: Program and arguments.
            run_dir: Directory for its socket and its log ``loadgen.log``.
            spawn: How to start it.
            timeout_s: Seconds until it must answer.

        Returns:
            The connection.

        Raises:
            GeneratorError: It does not start, or is of another version.
        """
        log = run_dir / "loadgen.log"
        process = spawn(argv, {**os.environ, "RUNTIME_DIRECTORY": str(run_dir)}, log)
        with contextlib.ExitStack() as undo_on_error:
            undo_on_error.callback(_end, process)
            client = connect(process, run_dir, log, timeout_s)
            undo_on_error.callback(client.close)
            made = cls(process, client, log)
            made._greet()
            undo_on_error.pop_all()
        return made

    def _greet(self) -> None:
        info = self.call("info")
        if info["protocol"] != PROTOCOL:
            raise GeneratorError(
                f"the engine speaks protocol {info['protocol']}",
                where="/loadgen/info",
                accepted=f"protocol {PROTOCOL}",
                cure="use the engine that this version builds",
            )
        self.ports = int(info["ports"])

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def directory(self) -> Path:
        """Where the engine puts its files."""
        return self._client.path.parent

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def call(self, command: str, **parameters: object) -> Any:
        """Ask the engine.

        Args:
            command: Such as ``trial/start``.
            **parameters: Its parameters; None is left out.

        Returns:
            Its answer.

        Raises:
            GeneratorError: It refuses, does not answer, or has died (the message has its log).
        """
        return self._told(lambda: self._client.call(f"/loadgen/{command}", **parameters))

    def call_all(self, command: str, parameters: Sequence[Mapping[str, object]]) -> list[Any]:
        """Ask the engine the same several times over, without waiting for each answer.

        Args:
            command: As in `call`.
            parameters: Of each time.

        Returns:
            Its answers.

        Raises:
            GeneratorError: As in `call`; what comes after a refusal is done all the same.
        """
        answers: list[Any] = self._told(
            lambda: self._client.call_all(f"/loadgen/{command}", parameters)
        )
        return answers

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except GeneratorError as error:
            if not error.accepted:  # not a refusal: the connection or the process
                self._check_alive(error)
            raise

    def _check_alive(self, cause: Exception) -> None:
        # The socket closes a moment before the process can be waited for.
        deadline = time.monotonic() + 1.0
        while self.alive and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        status = self._process.poll()
        if status is not None:
            raise death(status, self._log) from cause

    def close(self, timeout_s: float) -> None:
        """End the engine; may be called again.  A dead or deaf engine is killed, not complained of.

        Args:
            timeout_s: Seconds that it gets to end by itself.
        """
        if self.alive:
            try:
                self._client.call("/loadgen/quit")
                self._process.wait(timeout_s)
            except (GeneratorError, subprocess.TimeoutExpired):
                self._process.kill()
        self._client.close()
        self._process.wait(timeout_s)


def _end(process: Process) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
