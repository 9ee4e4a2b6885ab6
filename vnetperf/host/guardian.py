"""The guardian: a process that undoes a run's journal when the agent dies.

It holds the testbed's lock, waits for the agent's end by pidfd and pipe, and ignores signals.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from vnetperf.host import locks
from vnetperf.host.journal import UNDO_LOCK_S, Journal, guardian_log
from vnetperf.host.linux import (
    PROC_MOUNTS,
    RUN_ID_VARIABLE,
    ProcessId,
    close_after,
    python_argv,
    raise_limits,
    read_file,
    read_mounts,
)
from vnetperf.host.locks import TestbedLock
from vnetperf.host.log import ROOT, UtcFormatter
from vnetperf.host.paths import open_private, remove_if_empty
from vnetperf.host.snapshot import undo_and_compare
from vnetperf.model.errors import HostError

log = logging.getLogger(__name__)
GUARDIAN_START_S, DISMISS_S = 120.0, 30.0
#: Guardians that are started in place of dead ones: where more die, something kills them.
REPLACEMENTS = 3
#: By these Jenkins and GitHub's runner find what a job left, and kill it.
CI_MARKS = (
    *("BUILD_ID", "JENKINS_NODE_COOKIE", "JENKINS_SERVER_COOKIE", "HUDSON_SERVER_COOKIE"),
    "RUNNER_TRACKING_ID",
)


class GuardianClient:
    """A running guardian, as seen by the agent that it guards."""

    def __init__(
        self, journal: Path, lock: TestbedLock, machine_lock: TestbedLock | None = None
    ) -> None:
        self._guarded = journal, lock, machine_lock
        self._popen, self._pipe_fd, self.identity = _start(*self._guarded)
        self._over_read, self._over = os.pipe2(os.O_CLOEXEC)
        self._watcher: threading.Thread | None = None
        #: Why nobody guards the run any more; "" while somebody does.
        self.trouble = ""

    @classmethod
    def start(
        cls, journal: Path, lock: TestbedLock, machine_lock: TestbedLock | None = None
    ) -> GuardianClient:
        """Start a guardian for the calling process; it is ready when this returns.

        To be called before the journal exists, so that no change is ever unguarded. It keeps the
        machine's lock too, where there is one besides, until it ends.
        """
        return cls(journal, lock, machine_lock)

    def watch(self, say: Callable[[str], None], note: Callable[[ProcessId], None]) -> None:
        """Start another guardian as soon as one dies; both are called by a thread.

        Args:
            say: Is told of a death at once, before another one is started, which takes its time
                where the machine is busy; and where none is.
            note: Gets the new one once it guards.
        """
        self._watcher = threading.Thread(
            target=self._replace_the_dead, args=(say, note), name="guardian", daemon=True
        )
        self._watcher.start()

    def _replace_the_dead(
        self, say: Callable[[str], None], note: Callable[[ProcessId], None]
    ) -> None:
        for remaining in reversed(range(REPLACEMENTS + 1)):
            self._wait_for_death()
            if _wait_readable(self._over_read, timeout_s=0):
                return
            cause = f"the guardian of this run died ({_describe_end(self._popen.wait())})"
            try:
                if not remaining:
                    raise HostError(f"{REPLACEMENTS} others died before it")
                say(f"{cause}; another one is started, and guards it from then on")
                os.close(self._pipe_fd)
                self._pipe_fd = -1
                self._popen, self._pipe_fd, self.identity = _start(*self._guarded)
            except (HostError, OSError) as error:
                self.trouble = f"{cause}, and no other one is started: {error}"
                say(self.trouble)
                return
            note(self.identity)

    def _wait_for_death(self) -> None:
        """Wait until the guardian is dead, or dismissed."""
        with (
            contextlib.suppress(ProcessLookupError),
            close_after(os.pidfd_open(self._popen.pid)) as fd,
        ):
            _wait_readable(fd, self._over_read)

    def dismiss(self) -> bool:
        """End the guardian, since the run is over, and wait until it is gone."""
        if self._over >= 0:
            os.close(self._over)
            self._over = -1
            if self._watcher is not None:
                self._watcher.join(GUARDIAN_START_S)
            os.close(self._over_read)
        if self._pipe_fd >= 0:
            os.close(self._pipe_fd)
            self._pipe_fd = -1
        try:
            return self._popen.wait(DISMISS_S) == 0
        except subprocess.TimeoutExpired:
            return False


def _describe_end(status: int) -> str:
    return f"by signal {-status}" if status < 0 else f"exit status {status}"


def _start(
    journal: Path, lock: TestbedLock, machine_lock: TestbedLock | None
) -> tuple[subprocess.Popen[bytes], int, ProcessId]:
    """Start a guardian: its process, and the pipe that dismisses it."""
    written = guardian_log(journal)
    output = open_private(written, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    locks.try_lock(output)  # the guardian's for as long as it lives: the log is no leftover
    pipe_read, pipe_write = os.pipe2(os.O_CLOEXEC)
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
    agent = os.pidfd_open(os.getpid())
    fds = {
        "--lock-fd": lock.fd,
        "--pipe-fd": pipe_read,
        "--agent-fd": agent,
        "--ready-fd": ready_write,
    }
    paths = {"--journal": journal, "--lock": lock.path}
    if machine_lock is not None:
        paths["--machine-lock"] = machine_lock.path
        fds["--machine-lock-fd"] = machine_lock.fd
    try:
        popen = subprocess.Popen(
            [
                *python_argv("vnetperf.host.guardian"),
                *(word for name, path in paths.items() for word in (name, str(path))),
                *(word for name, fd in fds.items() for word in (name, str(fd))),
            ],
            env=make_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            pass_fds=tuple(fds.values()),
            start_new_session=True,  # a Ctrl-C at the terminal is not for it
        )
    except BaseException:
        for fd in (pipe_write, ready_read):
            os.close(fd)
        raise
    finally:
        for fd in (pipe_read, ready_write, agent, output):
            os.close(fd)
    ready = _wait_readable(ready_read, timeout_s=GUARDIAN_START_S)
    ready = ready and os.read(ready_read, 1) == b"r"
    os.close(ready_read)
    identity = ProcessId.read(popen.pid)
    if not ready or identity is None:
        os.close(pipe_write)
        popen.kill()
        popen.wait()
        text = read_file(written)[-2000:]
        if not journal.exists():
            written.unlink(missing_ok=True)
        raise HostError(
            "the guardian that would restore this machine did not start",
            where="python -m vnetperf.host.guardian",
            cure=f"its last lines:\n{text}",
        )
    lock.name_guardian(popen.pid)
    log.info("guardian %d guards %s", popen.pid, journal.name)
    return popen, pipe_write, identity


def make_environment() -> dict[str, str]:
    """The agent's environment, without marks by which processes are ended."""
    marks = (RUN_ID_VARIABLE, *CI_MARKS)
    return {key: value for key, value in os.environ.items() if key not in marks}


def _wait_readable(*fds: int, timeout_s: float | None = None) -> bool:
    """Wait until one of them can be read, or is at its end."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return bool(poller.poll(None if timeout_s is None else timeout_s * 1000))


AGENT_EXIT_S = 3.0


def main(argv: list[str] | None = None) -> int:
    """Guard one run; returns 0 when nothing of it is left on the machine."""
    parser = argparse.ArgumentParser(prog="vnetperf.host.guardian", description=__doc__)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--lock", type=Path, required=True)
    for name in ("--lock-fd", "--pipe-fd", "--agent-fd", "--ready-fd"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--machine-lock", type=Path)
    parser.add_argument("--machine-lock-fd", type=int)
    arguments = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        # Memory running out is one way for an agent to die: the guardian must not go with it.
        Path("/proc/self/oom_score_adj").write_text("-900")
    leave_groups()
    raise_limits()
    with contextlib.suppress(OSError):  # the agent may be dead already: all the more to do
        os.write(arguments.ready_fd, b"r")
    os.close(arguments.ready_fd)
    # The agent has closed its end of the pipe, or is dead: a fork of it would keep the pipe open.
    _wait_readable(arguments.pipe_fd, arguments.agent_fd)
    clean = True
    if arguments.journal.exists():
        # An agent in its last moments must be gone before others change things. One that lives on
        # has closed its run and left a journal that it could not undo.
        _wait_readable(arguments.agent_fd, timeout_s=AGENT_EXIT_S)
        clean = undo_journal(arguments.journal)
    journal_dir: Path = arguments.journal.parent
    if clean:
        guardian_log(arguments.journal).unlink(missing_ok=True)
        remove_if_empty(journal_dir)
    locks.release_testbed_lock(arguments.lock_fd, arguments.lock)
    remove_if_empty(journal_dir.parent)
    if arguments.machine_lock is not None:
        locks.release_testbed_lock(arguments.machine_lock_fd, arguments.machine_lock)
    return 0 if clean else 1


def leave_groups(*, mounts: Path = PROC_MOUNTS) -> None:
    """Move to the top of the hierarchies by which services are stopped: cgroup v2 and systemd's.

    Who stops the agent's unit, session or job with all that is in it must not stop this process,
    which ends by itself once the machine is restored.
    """
    for _, where, kind, options, *_ in read_mounts(mounts):
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            with contextlib.suppress(OSError):  # read-only, or a container's
                Path(where, "cgroup.procs").write_text("0")


def undo_journal(path: Path) -> bool:
    """Undo all that a journal lists; return whether nothing is left, whatever fails."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(UtcFormatter("%(asctime)s %(message)s"))
    logging.raiseExceptions = False  # a full disk must not stop the undo
    ROOT.addHandler(handler)
    ROOT.setLevel(logging.INFO)
    log.info("the agent is gone, undoing %s", path.name)
    try:
        with Journal.open(path, wait_s=UNDO_LOCK_S) as journal:
            return undo_and_compare(journal).complete
    except FileNotFoundError:  # another process has undone it
        return True
    except HostError as error:
        log.error("%s", error)
        return False
    except Exception:  # the lock is still to be released, and the log to be kept
        log.exception("%s could not be undone", path.name)
        return False


if __name__ == "__main__":
    sys.exit(main())
