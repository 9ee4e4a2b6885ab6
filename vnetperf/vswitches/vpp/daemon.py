"""A private VPP: its own directory, sockets and shared memory, in the run's network namespace."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

from vnetperf.backend import check_process
from vnetperf.host.machine import Machine
from vnetperf.host.process import ManagedProcess
from vnetperf.model.errors import DutError, HostError
from vnetperf.vswitches.vpp import xdp
from vnetperf.vswitches.vpp.api import VppApi
from vnetperf.vswitches.vpp.install import Installation
from vnetperf.vswitches.vpp.startup import Startup
from vnetperf.vswitches.vpp.stats import StatsSegment

START_S = 60.0  # a process that ends is told at once; one on starved cores is slow
STOP_S = 3.0
#: VPP aborts when a worker does not come to a standstill within a second, as happens where threads
#: wait for a processor; the function at which it does so stands in its log.
STARVED, START_TRIES = "vlib_worker_thread_barrier_sync", 3


class PrivateVpp:
    """One VPP process with its API client and its counters.

    Args:
        machine: The machine.
        installation: The installed VPP.
        version: Its version.
    """

    def __init__(
        self, machine: Machine, installation: Installation, version: tuple[int, int]
    ) -> None:
        self._machine = machine
        self._installation = installation
        self._version = version
        self._startup: Startup | None = None
        self._api: VppApi | None = None
        self._stats: StatsSegment | None = None
        self.process: ManagedProcess | None = None

    @property
    def directory(self) -> Path:
        """Its private directory."""
        return self._machine.subdir("vpp")

    @property
    def api(self) -> VppApi:
        """Its API.

        Raises:
            DutError: It has not been started.
        """
        if self._api is None:
            raise DutError("VPP has not been started", where="vpp")
        return self._api

    @property
    def stats(self) -> StatsSegment:
        """Its counters.

        Raises:
            DutError: It has not been started.
        """
        if self._stats is None:
            raise DutError("VPP has not been started", where="vpp")
        return self._stats

    def argv(self) -> list[str]:
        """Launch line.

        Returns:
            Program and arguments.
        """
        return [str(self._installation.binary), "-c", str(self.directory / "startup.conf")]

    def start(self, startup: Startup) -> None:
        """Start it and wait until it answers.

        Args:
            startup: Its configuration.

        Raises:
            DutError: It ends, or does not answer in time; with the log's tail.
        """
        for last in (False,) * (START_TRIES - 1) + (True,):
            try:
                self._launch(startup)
            except HostError as error:
                if not last and self._starved():
                    self.stop()
                    continue
                raise DutError(error.what, where=error.where, cure=error.cure) from error
            break
        self._stats = StatsSegment.open(startup.stats_socket)

    def _starved(self) -> bool:
        """Whether VPP gave up because a worker of its had no processor for too long."""
        process = self.process
        if process is None or process.returncode != -signal.SIGABRT:
            return False
        return STARVED in process.log_text()

    def _launch(self, startup: Startup) -> None:
        self._startup = startup
        file = self.directory / "startup.conf"
        file.write_text(startup.text())
        for socket in (startup.api_socket, startup.stats_socket):
            socket.unlink(missing_ok=True)  # of the one before: it would look ready
        for path in startup.shared_memory:
            self._machine.remove_at_end(path)
        libraries = self._installation.library_dir
        self.process = self._machine.spawn(
            "vpp",
            self.argv(),
            env={**xdp.ENVIRONMENT, **({"LD_LIBRARY_PATH": str(libraries)} if libraries else {})},
            isolated=True,
        )
        self.process.wait_for(
            lambda: startup.api_socket.exists() and startup.stats_socket.exists(),
            timeout_s=START_S,
            what="its sockets",
            poll_s=0.01,
        )
        self._api = VppApi(startup.api_socket, self._installation, self._version)
        self.process.wait_for(self._answers, timeout_s=START_S, what="its API", poll_s=0.01)

    def _answers(self) -> bool:
        """A socket file does not mean ready: nobody may listen yet."""
        try:
            self.api.connect()
            self.api.call("show_version")
        except DutError as error:
            if isinstance(error.__cause__, OSError):
                return False
            raise
        return True

    def check_alive(self) -> None:
        """Raise when VPP has ended.

        Raises:
            DutError: With the log's tail.
        """
        check_process(self.process, "vpp")

    def stop(self) -> None:
        """End it, and remove what it leaves behind. Idempotent."""
        if self._stats is not None:
            self._stats.close()
            self._stats = None
        if self.process is not None:
            self.process.stop(timeout_s=STOP_S)
            self.process = None
        if self._api is not None:  # after its end: a VPP that hangs would not be told
            self._api.close()
            self._api = None
        if self._startup is not None:
            for path in self._startup.shared_memory:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
