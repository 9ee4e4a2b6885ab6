"""Finding and ending every process of a run, however far it has gone from its parent.

All processes of a run carry ``VNETPERF_RUN_ID`` in their environment, so grandchildren that
started a session of their own, and children whose spawn the journal could not follow, are found.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

from vnetperf.host.identity import PROC, ProcessId
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

RUN_ID_VARIABLE = "VNETPERF_RUN_ID"
GRACE_S = 1.0
GIVE_UP_AFTER_S = 8.0


def carries_run_id(pid: int, run_id: str) -> bool:
    """Whether a living process was started for this run."""
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{RUN_ID_VARIABLE}={run_id}".encode() in environment.split(b"\0")


def find_processes(run_id: str) -> list[int]:
    """Pids of all living processes of a run, without the caller (zombies are not living)."""
    me = os.getpid()
    pids = (int(entry) for entry in os.listdir(PROC) if entry.isdecimal())  # noqa: PTH208
    return [pid for pid in pids if pid != me and carries_run_id(pid, run_id)]


def end_processes(
    run_id: str, known: Iterable[ProcessId] = (), *, grace_s: float = GRACE_S
) -> list[int]:
    """End every process of a run: SIGTERM, a short wait, SIGKILL.

    Args:
        run_id: Every process carrying this id is ended.
        known: More processes of the run, for those that overwrite their environment.
        grace_s: Seconds between the two signals.

    Returns:
        The pids that were ended.

    Raises:
        HostError: Some live on after SIGKILL (stuck in the kernel).
    """
    known = tuple(known)
    ended: set[int] = set()
    begin = time.monotonic()
    while True:
        targets = _open_targets(run_id, known)
        try:
            if not targets:
                return sorted(ended)
            waited = time.monotonic() - begin
            if waited > GIVE_UP_AFTER_S:
                raise HostError(
                    f"processes {sorted(target.pid for target in targets)} do not end",
                    where=f"run {run_id}",
                    cure="see /proc/<pid>/stack for what in the kernel holds them",
                )
            ended.update(target.pid for target in targets)
            # Processes born between two looks get SIGKILL once the grace of all is over.
            gentle = waited < grace_s
            for target in targets:
                target.signal(signal.SIGTERM if gentle else signal.SIGKILL)
            _wait_ended(targets, grace_s - waited if gentle else 0.5)
        finally:
            for target in targets:
                os.close(target.fd)


def undo_processes(data: Data) -> str:
    """End the processes of a run, as its journal asks."""
    known = [ProcessId(pid, start) for pid, start in data.get("known", ())]
    ended = end_processes(data["run_id"], known)
    return f"ended {len(ended)} processes" if ended else "none left"


@dataclass(frozen=True, slots=True)
class _Target:
    pid: int
    fd: int

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.fd, number)


def _open_targets(run_id: str, known: tuple[ProcessId, ...]) -> list[_Target]:
    """Handles of the processes to end, each checked *after* its handle was opened.

    A pid could be reused between finding and signalling; a pidfd that was checked cannot.
    """
    me = os.getpid()
    candidates = set(find_processes(run_id)) | {who.pid for who in known if who.pid != me}
    targets = []
    for pid in candidates:
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            continue
        if carries_run_id(pid, run_id) or ProcessId.of(pid) in known:
            targets.append(_Target(pid, fd))
        else:
            os.close(fd)
    return targets


def _wait_ended(targets: list[_Target], timeout_s: float) -> None:
    """Wait until all have ended (a pidfd is readable then) or the time is over."""
    poller = select.poll()
    for target in targets:
        poller.register(target.fd, select.POLLIN)
    left = len(targets)
    deadline = time.monotonic() + max(timeout_s, 0.01)
    while left and (rest := deadline - time.monotonic()) > 0:
        for fd, _ in poller.poll(rest * 1000):
            poller.unregister(fd)
            left -= 1
