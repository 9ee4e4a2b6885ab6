"""Pktgen's process: started under a terminal, found by its socket, ended by SIGTERM."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from functools import partial
from pathlib import Path

from vnetperf.host import sched
from vnetperf.host.machine import Machine
from vnetperf.host.patience import patient
from vnetperf.host.process import ManagedProcess
from vnetperf.host.threads import list_threads
from vnetperf.model.errors import GeneratorError, HostError
from vnetperf.traffic.pktgen.launch import Launch
from vnetperf.traffic.pktgen.repl import Repl, address

START_S, STOP_S = 30.0, 3.0
POLL_S = 0.02
LOG_LINES = 12
#: What it writes when it draws its screen, not what it has to say.
ESCAPE = "\x1b"
#: Niceness of the thread that makes statistics.
STATISTICS_NICE = 10


class Started:
    """A Pktgen of this run, in the run's own network namespace: nobody else can reach its socket.

    Args:
        machine: The machine.
        launch: What to start.

    Raises:
        GeneratorError: It does not come up.
    """

    def __init__(self, machine: Machine, launch: Launch) -> None:
        self._machine = machine
        self._launch = launch
        for path in launch.sockets:  # it does not replace one that a predecessor left
            path.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "vnetperf.traffic.pktgen.tty", *launch.argv]
        try:
            self._process: ManagedProcess = machine.spawn(
                "pktgen",
                argv,
                isolated=True,
                # DPDK leaves files there; they go with the run's directory.
                env={"TERM": "xterm", "RUNTIME_DIRECTORY": str(machine.subdir("pktgen"))},
            )
        except HostError as error:
            raise GeneratorError(error.what, where="pktgen", cure=error.cure) from error

    def connect(self) -> Repl:
        """Wait until it listens, and connect.

        Returns:
            The connection.

        Raises:
            GeneratorError: It ended, or does not answer.
        """
        deadline = time.monotonic() + patient(START_S)
        while True:
            if why := self.death():
                raise GeneratorError(why, where=" ".join(self._launch.argv))
            if (opened := self._try_open()) is not None:
                return Repl(partial(_same, opened), f"127.0.0.1:{self._launch.port}", self.death)
            if time.monotonic() > deadline:
                raise GeneratorError(
                    f"Pktgen does not listen after {START_S:g} s; its terminal ends with:\n"
                    + self.last_words(),
                    where=str(self._process.log),
                )
            time.sleep(POLL_S)

    def _try_open(self) -> socket.socket | None:
        try:
            return self._machine.in_netns(
                lambda: socket.create_connection(("127.0.0.1", self._launch.port), timeout=2.0)
            )
        except OSError:
            return None

    @property
    def pid(self) -> int:
        """Process id of Pktgen itself, 0 when it has ended."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            here = self._process.pid
            children = Path(f"/proc/{here}/task/{here}/children").read_text().split()
            return int(children[0])
        return 0

    def worker_prefix(self) -> str:
        """What the names of its sending and receiving threads begin with.

        Returns:
            "lcore-worker" or, of a newer DPDK, "dpdk-worker".
        """
        names = {thread.name for thread in list_threads(self.pid)}
        known = ("lcore-worker", "rte-worker", "dpdk-worker")
        return next((k for k in known if any(name.startswith(k) for name in names)), known[0])

    def calm_others(self) -> None:
        """Let the threads that only spin come last wherever they run.

        The first one asks its terminal for keys, without a pause; the one of the statistics must
        run now and then, or counters are frozen.
        """
        pid = self.pid
        for thread in list_threads(pid) if pid else ():
            with contextlib.suppress(OSError):
                if thread.tid == pid:
                    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
                elif thread.name == "pktgen":
                    os.setpriority(os.PRIO_PROCESS, thread.tid, STATISTICS_NICE)

    def prefer(self, nice: int, slice_us: int) -> None:
        """Let it go first on shared cores, as the deployment does with what it starts.

        Args:
            nice: Niceness.
            slice_us: Scheduler slice, microseconds; 0 for the kernel's own.
        """
        pid = self.pid
        sched.set_nice(pid, nice)
        if slice_us:
            sched.set_slice(pid, slice_us * 1000)
        sched.favour(pid, nice)

    def death(self) -> str:
        """Why it has ended.

        Returns:
            "" while it runs.
        """
        deadline = time.monotonic() + 0.2
        while self._process.alive():
            # Its child ends a moment before it does; who asks because a socket closed may be early.
            if self.pid or time.monotonic() > deadline:
                return ""
            time.sleep(0.01)
        status = self._process.returncode
        return f"Pktgen has ended (status {status}); its terminal ends with:\n{self.last_words()}"

    def last_words(self) -> str:
        """What it wrote last, without the drawing.

        Returns:
            Lines.
        """
        lines = (line.strip() for line in self._process.log_tail(200).splitlines())
        said = [line for line in lines if line and not line.startswith("vp(")]
        return "\n".join(line.replace(ESCAPE, "") for line in said[-LOG_LINES:])

    def stop(self) -> None:
        """End it; its sockets are removed."""
        self._process.stop(timeout_s=STOP_S)
        for path in self._launch.sockets:
            path.unlink(missing_ok=True)


def _same(opened: socket.socket) -> socket.socket:
    return opened


def connect_to(server: str) -> Repl:
    """Connect to someone else's Pktgen.

    Args:
        server: "HOST" or "HOST:PORT".

    Returns:
        The connection.

    Raises:
        GeneratorError: Nobody listens, or it is busy.
    """
    host, port = address(server)
    return Repl(lambda: socket.create_connection((host, port), timeout=5.0), f"{host}:{port}")
