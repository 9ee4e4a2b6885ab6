"""The guardian: a process that outlives a run's agent and undoes its journal.

Started by `vnetperf.host.guard`. It waits for the agent's end, by whatever cause: it holds the
read end of a pipe that only the agent can write to, and a handle (pidfd) of the agent. If the
agent leaves a journal behind, it is undone; the testbed stays locked until that is done.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from vnetperf.host import lock
from vnetperf.host.journal import Journal, guardian_log
from vnetperf.host.paths import remove_if_empty
from vnetperf.model.errors import HostError

AGENT_EXIT_S = 3.0


def main(argv: list[str] | None = None) -> int:
    """Guard one run; returns 0 when nothing of it is left on the machine."""
    parser = argparse.ArgumentParser(prog="vnetperf.host.guardian", description=__doc__)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--lock", type=Path, required=True)
    for name in ("--lock-fd", "--pipe-fd", "--agent-fd", "--ready-fd"):
        parser.add_argument(name, type=int, required=True)
    arguments = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        # Memory running out is one way for an agent to die: the guardian must not go with it.
        Path("/proc/self/oom_score_adj").write_text("-900")
    with contextlib.suppress(OSError):  # the agent may be dead already: all the more to do
        os.write(arguments.ready_fd, b"r")
    os.close(arguments.ready_fd)
    _wait_for_end(arguments.pipe_fd, arguments.agent_fd)
    clean = True
    if arguments.journal.exists():
        _wait_for_death(arguments.agent_fd)
        clean = _undo(arguments.journal)
    journal_dir: Path = arguments.journal.parent
    if clean:
        guardian_log(arguments.journal).unlink(missing_ok=True)
        remove_if_empty(journal_dir)
    lock.release(arguments.lock_fd, arguments.lock)
    remove_if_empty(journal_dir.parent)
    return 0 if clean else 1


def _wait_for_end(pipe_fd: int, agent_fd: int) -> None:
    """Return when the agent has closed its end of the pipe or is dead.

    The pidfd covers an agent that forked without exec: its copy would keep the pipe open.
    """
    poller = select.poll()
    poller.register(pipe_fd, select.POLLIN)
    poller.register(agent_fd, select.POLLIN)
    poller.poll()


def _wait_for_death(agent_fd: int) -> None:
    """Give an agent in its last moments the time to be gone, so that nobody else changes things.

    An agent that lives on has closed its run and left a journal that it could not undo.
    """
    poller = select.poll()
    poller.register(agent_fd, select.POLLIN)
    poller.poll(AGENT_EXIT_S * 1000)


def _undo(path: Path) -> bool:
    _log(f"the agent is gone, undoing {path.name}")
    try:
        journal = Journal.open(path)
        report = journal.undo()
    except HostError as error:
        if not path.exists():  # another process has undone it
            return True
        _log(str(error))
        return False
    for step in report.undone:
        _log(f"undone: {step.what}: {step.outcome}")
    for step in report.failed:
        _log(f"FAILED: {step.what}: {step.outcome}")
    for line in report.damaged:
        _log(f"DAMAGED: {line}")
    return report.complete


def _log(text: str) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{now} {text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
