"""The one thread that starts processes.

The kernel sends the parent-death signal when the *thread* that forked ends. All processes are
therefore started by one thread that lives as long as this process, so any thread may ask for
one. CPU affinity and network namespace are inherited from the forking thread, which takes them
on for the moment of the fork: no code of ours runs between fork and exec, where it could
deadlock in a process with many threads.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.syscalls import set_namespace

_FALLBACK = (
    "import ctypes,os,sys\n"
    "ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n"  # PR_SET_PDEATHSIG, SIGKILL
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """What to start.

    Attributes:
        argv: Program and arguments; never goes through a shell.
        env: The whole environment.
        stdin: File descriptor number or subprocess constant.
        output: File descriptor for stdout and stderr.
        cpus: CPUs it may run on; None leaves the caller's.
        netns: File of the network namespace to start in; None is the caller's.
        cwd: Working directory; None is the caller's.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    stdin: int
    output: int
    cpus: frozenset[int] | None = None
    netns: Path | None = None
    cwd: Path | None = None


class _SpawnThread:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[SpawnRequest, Future[subprocess.Popen[bytes]]]] = (
            queue.SimpleQueue()
        )
        # A daemon: it must outlive everything else in this process.
        threading.Thread(target=self._serve, name="vnetperf-spawner", daemon=True).start()

    def spawn(self, request: SpawnRequest) -> subprocess.Popen[bytes]:
        future: Future[subprocess.Popen[bytes]] = Future()
        self._queue.put((request, future))
        return future.result()

    def _serve(self) -> None:
        while True:
            request, future = self._queue.get()
            try:
                future.set_result(_start(request))
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                future.set_exception(error)


_thread: _SpawnThread | None = None
_thread_owner = -1
_guard = threading.Lock()


def spawn(request: SpawnRequest) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills when this process ends, however it ends.

    Args:
        request: Program, environment, CPUs and namespace.

    Returns:
        The process.

    Raises:
        OSError: The program, namespace or CPUs do not exist.
    """
    global _thread, _thread_owner  # one spawner a process
    with _guard:
        if _thread is None or _thread_owner != os.getpid():  # a fork does not copy threads
            _thread, _thread_owner = _SpawnThread(), os.getpid()
    return _thread.spawn(request)


def _start(request: SpawnRequest) -> subprocess.Popen[bytes]:
    home_cpus = os.sched_getaffinity(0)
    home_netns = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if request.netns is not None:
            set_namespace(request.netns)
        if request.cpus is not None:
            os.sched_setaffinity(0, request.cpus)
        return subprocess.Popen(
            [*_death_signal_prefix(), *request.argv],
            env=dict(request.env),
            stdin=request.stdin,
            stdout=request.output,
            stderr=request.output,
            cwd=request.cwd,
            start_new_session=True,
        )
    finally:
        if request.cpus is not None:
            os.sched_setaffinity(0, home_cpus)
        if request.netns is not None:
            set_namespace(home_netns)
        os.close(home_netns)


def _death_signal_prefix() -> list[str]:
    """A command that asks for the parent-death signal, then becomes the program."""
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin:/usr/sbin:/sbin")
    if setpriv:
        return [setpriv, "--pdeathsig", "KILL", "--"]
    return [sys.executable, "-I", "-S", "-c", _FALLBACK]
