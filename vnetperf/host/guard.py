"""The agent's side of its guardian: starting it, and letting it go."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import vnetperf
from vnetperf.host.identity import ProcessId
from vnetperf.host.journal import guardian_log
from vnetperf.host.kill import RUN_ID_VARIABLE
from vnetperf.host.lock import TestbedLock
from vnetperf.host.paths import make_private
from vnetperf.model.errors import HostError

START_TIMEOUT_S = 120.0


class Guard:
    """A running guardian, as seen by the agent that it guards."""

    def __init__(self, popen: subprocess.Popen[bytes], pipe_fd: int, identity: ProcessId) -> None:
        self._popen = popen
        self._pipe_fd = pipe_fd
        self.identity = identity

    @classmethod
    def start(cls, journal: Path, lock: TestbedLock) -> Guard:
        """Start a guardian for the calling process; it is ready when this returns.

        To be called before the journal exists, so that no change is ever unguarded.

        Args:
            journal: Path that the run's journal will have.
            lock: The testbed's lock, which the guardian holds as well from now on.

        Returns:
            The guardian.

        Raises:
            HostError: It did not start.
        """
        make_private(journal.parent)
        log = guardian_log(journal)
        pipe_read, pipe_write = os.pipe2(os.O_CLOEXEC)
        ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
        agent = os.pidfd_open(os.getpid())
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fds = {
            "--lock-fd": lock.fd,
            "--pipe-fd": pipe_read,
            "--agent-fd": agent,
            "--ready-fd": ready_write,
        }
        try:
            popen = subprocess.Popen(
                [
                    *(sys.executable, "-m", "vnetperf.host.guardian"),
                    *("--journal", str(journal), "--lock", str(lock.path)),
                    *(word for name, fd in fds.items() for word in (name, str(fd))),
                ],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                pass_fds=tuple(fds.values()),
                start_new_session=True,  # a Ctrl-C at the terminal is not for it
            )
        finally:
            for fd in (pipe_read, ready_write, agent, output):
                os.close(fd)
        ready = _read_ready(ready_read)
        identity = ProcessId.of(popen.pid)
        if not ready or identity is None:
            os.close(pipe_write)
            popen.kill()
            popen.wait()
            text = log.read_text(errors="replace")[-2000:]
            log.unlink(missing_ok=True)
            raise HostError(
                "the guardian that would restore this machine did not start",
                where="python -m vnetperf.host.guardian",
                cure=f"nothing was changed; its last words:\n{text}",
            )
        lock.name_guardian(popen.pid)
        return cls(popen, pipe_write, identity)

    def alive(self) -> bool:
        """Whether the machine is still guarded."""
        return self._popen.poll() is None

    def dismiss(self, timeout_s: float = 30.0) -> bool:
        """Tell the guardian that the run is over, and wait until it is gone.

        Args:
            timeout_s: Seconds to wait.

        Returns:
            Whether it ended in time with nothing left on the machine.
        """
        if self._pipe_fd >= 0:
            os.close(self._pipe_fd)
            self._pipe_fd = -1
        try:
            return self._popen.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            return False


def _environment() -> dict[str, str]:
    """The agent's environment, without the mark of a run's processes, able to import us."""
    environment = {key: value for key, value in os.environ.items() if key != RUN_ID_VARIABLE}
    package_root = str(Path(vnetperf.__file__).resolve().parent.parent)
    paths = [package_root, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


def _read_ready(fd: int) -> bool:
    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(START_TIMEOUT_S * 1000)) and os.read(fd, 1) == b"r"
    finally:
        os.close(fd)
