"""The engine's process as one of the run's own, so that it ends with the run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from vnetperf.host.machine import Machine
from vnetperf.host.process import ManagedProcess


class SpawnedEngine:
    """A process of the run in the shape the engine's wrapper wants.

    Args:
        process: The process.
    """

    def __init__(self, process: ManagedProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Look whether it has ended.

        Returns:
            Exit status, or None while it runs.
        """
        return self._process.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Args:
            timeout: Seconds.

        Returns:
            Exit status.

        Raises:
            TimeoutExpired: It still runs.
        """
        deadline = time.monotonic() + (timeout if timeout is not None else 3600.0)
        while (status := self._process.returncode) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
            time.sleep(0.005)
        return status

    def kill(self) -> None:
        """End it at once."""
        self._process.stop(timeout_s=0.0)


def spawn_in_run(
    machine: Machine, argv: Sequence[str], env: Mapping[str, str], log: Path
) -> SpawnedEngine:
    """Start the engine as a process of the run.

    Args:
        machine: The tester's machine.
        argv: Program and arguments.
        env: The whole environment.
        log: Where the engine's wrapper looks for its last words.

    Returns:
        The process.
    """
    process = machine.spawn("loadgen", list(argv), env=env, isolated=True)
    log.unlink(missing_ok=True)
    log.symlink_to(process.log)
    return SpawnedEngine(process)
