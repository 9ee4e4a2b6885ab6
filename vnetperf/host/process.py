"""Processes of a run: started with its id and a log file, watched, stopped, never left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from vnetperf.host import spawner
from vnetperf.host.identity import ProcessId
from vnetperf.host.journal import Journal
from vnetperf.host.kill import RUN_ID_VARIABLE
from vnetperf.host.patience import patient
from vnetperf.model.errors import HostError

POLL_S = 0.02
TAIL_LINES = 20
TAIL_BYTES = 16384


class ManagedProcess:
    """One running program of a run.

    Args:
        name: What it is called in messages.
        argv: How it was started.
        log: File that holds its stdout and stderr.
        popen: The started process.
    """

    def __init__(
        self, name: str, argv: tuple[str, ...], log: Path, popen: subprocess.Popen[bytes]
    ) -> None:
        self.name = name
        self.argv = argv
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        """Process id."""
        return self._popen.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its standard input, when it was started with ``stdin=True``."""
        return self._popen.stdin

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit code, minus the signal's number when a signal ended it, None while it runs."""
        return self._popen.poll()

    def log_text(self) -> str:
        """All that it has written so far."""
        try:
            return self.log.read_text(errors="replace")
        except OSError as error:
            return f"(no log: {error})"

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines that it wrote, for a message."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-lines:])

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when it has ended."""
        self._popen.send_signal(number)

    def stop(self, timeout_s: float = 5.0) -> int:
        """End it: SIGTERM, and SIGKILL when it has not ended in time. Its descendants stay.

        Args:
            timeout_s: Seconds to wait after SIGTERM.

        Returns:
            Its exit code, as `returncode`.

        Raises:
            HostError: It lives on after SIGKILL (stuck in the kernel).
        """
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()
        if self.alive():
            self._popen.terminate()
            try:
                return self._popen.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._popen.kill()
        try:
            return self._popen.wait(timeout_s + 5)
        except subprocess.TimeoutExpired:
            raise HostError(
                f"{self.name} (pid {self.pid}) does not end, not even by SIGKILL",
                where=str(self.log),
                cure=f"see /proc/{self.pid}/stack for what in the kernel holds it",
            ) from None

    def wait_for(
        self, predicate: Callable[[], bool], timeout_s: float, what: str, poll_s: float = POLL_S
    ) -> None:
        """Wait until the predicate holds.

        Args:
            predicate: Asked every `poll_s` seconds; must be quick.
            timeout_s: Seconds to wait at most.
            what: What is waited for, for the message, e.g. ``its control socket``.
            poll_s: Seconds between two askings.

        Raises:
            HostError: It ended while waited for (told at once), or the time is over.
        """
        deadline = time.monotonic() + patient(timeout_s)
        while not predicate():
            if not self.alive():
                self.expect_alive(f"while waiting for {what}")
            if time.monotonic() > deadline:
                raise HostError(
                    f"{self.name} runs, but {what} did not come within {timeout_s:g} s",
                    where=str(self.log),
                    cure=f"its last lines:\n{self.log_tail()}",
                )
            time.sleep(poll_s)

    def expect_alive(self, context: str = "") -> None:
        """Raise with its last words when it has ended.

        Args:
            context: What was going on, for the message.

        Raises:
            HostError: It has ended.
        """
        code = self.returncode
        if code is None:
            return
        ending = f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}"
        raise HostError(
            f"{self.name} ended by {ending}{' ' + context if context else ''}",
            where=str(self.log),
            cure=f"its command: {' '.join(self.argv)}\nits last lines:\n{self.log_tail()}",
        )


class Processes:
    """The processes of one run.

    Args:
        journal: The run's journal.
        log_dir: Existing directory for the log files.
    """

    def __init__(self, journal: Journal, log_dir: Path) -> None:
        self._journal = journal
        self._log_dir = log_dir
        self._started: list[ManagedProcess] = []
        # Once a run is enough: undoing ends all that carry its id, whoever started them.
        journal.intend("processes", "start processes", {"run_id": journal.run_id})

    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cpus: Iterable[int] | None = None,
        netns: Path | None = None,
        cwd: Path | None = None,
        stdin: bool = False,
    ) -> ManagedProcess:
        """Start a program of this run; any thread may ask.

        It leads a session of its own, gets SIGKILL when this process dies, and is found by its
        environment when the run is undone, as are all its descendants.

        Args:
            name: Names its log file and its messages; letters, digits, ``-`` and ``_``.
            argv: Program and arguments.
            env: Added to (or replacing parts of) this process's environment.
            cpus: CPUs it may run on; None: as this process.
            netns: File of the network namespace it starts in; None: as this process.
            cwd: Working directory; None: as this process.
            stdin: Whether it gets a pipe as its standard input, else ``/dev/null``.

        Returns:
            The program, started.

        Raises:
            HostError: The program does not exist or the machine refused.
        """
        command = tuple(str(part) for part in argv)
        environment = {**os.environ, **(env or {}), RUN_ID_VARIABLE: self._journal.run_id}
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise HostError(
                f"program {command[0]!r} is not installed",
                where=name,
                accepted="an executable file or a name found in PATH",
                cure="install its package, or give its path in the testbed's configuration",
            )
        log = self._new_log(name)
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            popen = spawner.spawn(
                spawner.SpawnRequest(
                    argv=command,
                    env=environment,
                    stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                    output=output,
                    cpus=None if cpus is None else frozenset(cpus),
                    netns=netns,
                    cwd=cwd,
                )
            )
        except OSError as error:
            raise HostError(
                f"{name} could not be started: {error}",
                where=" ".join(command),
                cure="check that the program, its CPUs and its network namespace exist",
            ) from error
        finally:
            os.close(output)
        process = ManagedProcess(name, command, log, popen)
        self._started.append(process)
        self._remember(popen.pid)
        return process

    def stop_all(self, timeout_s: float = 3.0) -> list[HostError]:
        """Stop all that still run, the latest first.

        Args:
            timeout_s: Seconds that each has after SIGTERM.

        Returns:
            What could not be stopped.
        """
        errors = []
        for process in reversed(self._started):
            try:
                process.stop(timeout_s)
            except HostError as error:
                errors.append(error)
        return errors

    def __iter__(self) -> Iterator[ManagedProcess]:
        return iter(tuple(self._started))

    def _remember(self, pid: int) -> None:
        """Journal the pid too, for programs that overwrite their environment (setproctitle)."""
        identity = ProcessId.of(pid)
        if identity is not None:
            data = {"run_id": self._journal.run_id, "known": [[identity.pid, identity.start]]}
            self._journal.intend("processes", f"process {pid}", data)

    def _new_log(self, name: str) -> Path:
        for number in range(1, 10000):
            log = self._log_dir / (f"{name}.log" if number == 1 else f"{name}-{number}.log")
            if not log.exists():
                return log
        raise HostError(f"{name} was started too often in one run", where=str(self._log_dir))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
