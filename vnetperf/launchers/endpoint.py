"""Endpoints: places with an address of their own, in which programs talk by sockets."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vnetperf.host.cpulist import format_cpus
from vnetperf.host.process import ManagedProcess
from vnetperf.launchers.container import Container
from vnetperf.model.errors import HostError

#: Longest wait for a program that was asked to end in order, seconds.
END_S = 3.0
POLL_S = 0.01
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Processor time of a process, all its threads.

    Attributes:
        user_s: Seconds in itself.
        system_s: Seconds in the kernel.
    """

    user_s: float
    system_s: float


class Program(Protocol):
    """A program that runs in an endpoint."""

    def ended(self) -> int | None:
        """Its exit code, 128 and more or negative for a signal; None while it runs."""

    def output(self) -> str:
        """What it has written; all of it once it has ended."""

    def cpu(self) -> CpuTime | None:
        """Processor time until now, or until its end; None where it cannot be read."""

    def end(self, by: signal.Signals) -> None:
        """End it: by a signal, and by force when that does not do. Idempotent."""


class Place(Protocol):
    """Where programs of an endpoint run."""

    @property
    def processors(self) -> str:
        """Processors that they may run on, as the report says it."""

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end; its output. Raises HostError or DutError when it fails."""

    def start(self, name: str, argv: Sequence[str]) -> Program:
        """Start a program."""

    def received(self, netdev: str) -> int:
        """Packets that an interface has received."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a transfer.

    Attributes:
        what: What it is, as the report says it: "namespace at port 0", "UE".
        place: Where its programs run.
        address: Its IPv4 address.
        netdev: The interface that has it.
    """

    what: str
    place: Place
    address: str
    netdev: str


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of transfers.

    Attributes:
        client: The one that "forth" comes from.
        server: The one that it goes to.
        attach_s: Of a mobile core: seconds from the start of the UE to its address.
    """

    client: Endpoint
    server: Endpoint
    attach_s: float | None = None


class ContainerProgram:
    """A program in a container.

    Args:
        process: The process.
    """

    def __init__(self, process: ManagedProcess) -> None:
        self._process = process
        self._last: CpuTime | None = None
        self._code: int | None = None

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._code is None and self._is_dead():
            self._look()  # until it is asked for its code the kernel keeps its times
            self._code = self._process.returncode
        return self._code

    def _is_dead(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._process.pid, _JUST_LOOK) is not None
        except ChildProcessError:
            return True

    def _look(self) -> None:
        with suppress(OSError, ValueError, IndexError):
            self._last = cpu_time(Path(f"/proc/{self._process.pid}/stat").read_text())

    def output(self) -> str:
        """What it has written."""
        return self._process.log_text()

    def cpu(self) -> CpuTime | None:
        """Processor time until now, or until its end."""
        if self.ended() is None:  # afterwards its number may be another process's
            self._look()
        return self._last

    def end(self, by: signal.Signals) -> None:
        """End it; its last words are in its log then."""
        if self.ended() is None:
            self._process.signal(by)
        deadline = time.monotonic() + END_S
        while self.ended() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        self._process.stop(END_S)


_JUST_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT


def cpu_time(stat: str) -> CpuTime:
    """Processor time by /proc/PID/stat.

    Args:
        stat: Its text.

    Returns:
        The times.

    Raises:
        ValueError: It is no such text.
        IndexError: It is no such text.
    """
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return CpuTime(int(fields[11]) / TICKS, int(fields[12]) / TICKS)


class ContainerPlace:
    """A container as the place of an endpoint.

    Args:
        container: The container, made.
    """

    def __init__(self, container: Container) -> None:
        self.container = container

    @property
    def processors(self) -> str:
        """Processors of the container."""
        return format_cpus(self.container.cpus)

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end."""
        return self.container.run(self._found(argv))

    def _found(self, argv: Sequence[str]) -> list[str]:
        """A command line with the program that the machine's facts name."""
        known = self.container.machine.facts.programs.get(argv[0], "")
        return [known or argv[0], *argv[1:]]

    def start(self, name: str, argv: Sequence[str]) -> ContainerProgram:
        """Start a program."""
        process = self.container.spawn(name, self._found(argv), env={}, keep_stdin_open=False)
        return ContainerProgram(process)

    def received(self, netdev: str) -> int:
        """Packets that an interface has received."""
        try:
            return self.container.statistics()[netdev].rx
        except KeyError:
            raise HostError(f"the interface {netdev} is gone", where=self.container.name) from None
