"""The engine's process: how it is started, found by its socket, and what it said when it ended."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from vnetperf.host.patience import patient
from vnetperf.model.errors import GeneratorError
from vnetperf.traffic.loadgen.telemetry import TelemetryClient

_TAIL_LINES = 15
_POLL_S = 0.002
#: Longer than the engine gives its workers (worker.c), so that its own message arrives.
_CALL_TIMEOUT_S = 30.0


class Process(Protocol):
    """What the engine needs of a process; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Process id."""

    def poll(self) -> int | None:
        """Exit status, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raises `subprocess.TimeoutExpired` after timeout seconds."""

    def kill(self) -> None:
        """End it at once."""


Spawn = Callable[[Sequence[str], Mapping[str, str], Path], Process]
"""Starts a command (argv, environment, log file for its output) as a process."""


def plain_spawn(argv: Sequence[str], env: Mapping[str, str], log: Path) -> Process:
    """Start the command as a plain child process.

    Args:
        argv: Program and arguments.
        env: The whole environment.
        log: File that takes what it prints.

    Returns:
        The process.
    """
    with log.open("wb") as output:
        return subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def connect(process: Process, run_dir: Path, log: Path, timeout_s: float) -> TelemetryClient:
    """Wait for the socket of this very process to answer."""
    timeout_s = patient(timeout_s)
    deadline = time.monotonic() + timeout_s
    reason = "no telemetry socket"
    while time.monotonic() < deadline:
        status = process.poll()
        if status is not None:
            raise death(status, log)
        # EAL adds ":1" and so on to the name when it finds it taken.
        for path in (run_dir / "dpdk").rglob("dpdk_telemetry.v2*"):
            try:
                client = TelemetryClient(path, timeout_s=_CALL_TIMEOUT_S)
            except GeneratorError as error:
                reason = str(error)
                continue
            if client.pid == process.pid and _answers(client):
                return client
            client.close()
        time.sleep(_POLL_S)
    raise GeneratorError(
        f"the engine does not answer after {timeout_s:g} s ({reason}){_tail(log)}",
        where=str(run_dir),
    )


def _answers(client: TelemetryClient) -> bool:
    """Whether it works: DPDK opens the socket before the ports are up and the workers run."""
    try:
        return bool(client.call("/loadgen/worker", worker=0)["tid"])
    except GeneratorError:
        return False


def death(status: int, log: Path) -> GeneratorError:
    """The error for an engine that has ended, with its log's last lines."""
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return GeneratorError(f"the engine has ended {how}{_tail(log)}", where=str(log))


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:
        return ""
    return "".join(f"\n  | {line}" for line in lines)
