"""Endpoints: a container or a guest with an address, in which programs talk by sockets."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vnetperf.host import links
from vnetperf.host.cpu import format_cpus
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import DutError, HostError
from vnetperf.virt.container import Container
from vnetperf.virt.guest import Guest
from vnetperf.virt.guest_agent import ProcessExit

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


class EndpointProgram(Protocol):
    """A program that runs in an endpoint."""

    def ended(self) -> int | None:
        """Its exit code, 128 and more or negative for a signal; None while it runs."""

    def output(self) -> str:
        """What it has written; all of it once it has ended."""

    def cpu(self) -> CpuTime | None:
        """Processor time until now, or until its end; None where it cannot be read."""

    def end(self, by: signal.Signals) -> None:
        """End it: by a signal, and by force when that does not do. Idempotent."""


class EndpointPlace(Protocol):
    """Where programs of an endpoint run."""

    @property
    def processors(self) -> str:
        """Processors that they may run on, as the report says it."""

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end; its output. Raises HostError or DutError when it fails."""

    def start(self, name: str, argv: Sequence[str]) -> EndpointProgram:
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
    place: EndpointPlace
    address: str
    netdev: str


@dataclass(frozen=True, slots=True)
class EndpointPair:
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
    """A program in a container."""

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
            return os.waitid(os.P_PID, self._process.pid, _WAIT_FLAGS) is not None
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
        what = "the end of a program"
        wait_at_most(lambda: self.ended() is not None, END_S, what, poll_s=POLL_S)
        self._process.stop(END_S)


_WAIT_FLAGS = os.WEXITED | os.WNOHANG | os.WNOWAIT


def cpu_time(stat: str) -> CpuTime:
    """Processor time by /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return CpuTime(int(fields[11]) / TICKS, int(fields[12]) / TICKS)


class ContainerPlace:
    """A container as the place of an endpoint."""

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


GUEST_POLL_S = 0.05
#: `kill` is the shell's own where an image has no program of that name.
_KILL = 'kill -"$0" "$1"'


class GuestProgram:
    """A program in a guest."""

    def __init__(self, guest: Guest, pid: int) -> None:
        self._guest, self._pid = guest, pid
        self._last: CpuTime | None = None
        self._end: ProcessExit | None = None

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._end is None:
            self._look()
            self._end = self._guest.agent.ended(self._pid)
        return None if self._end is None else self._end.status

    def _look(self) -> None:
        """Its times while it runs: the agent forgets it at once when it has ended."""
        with suppress(HostError, ValueError, IndexError):
            self._last = cpu_time(self._guest.agent.read(f"/proc/{self._pid}/stat"))

    def output(self) -> str:
        """What it has written; a guest tells it when the program has ended."""
        return self._end.output if self._end is not None else ""

    def cpu(self) -> CpuTime | None:
        """Processor time until now, or until the last look before its end."""
        if self._end is None:
            self._look()
        return self._last

    def end(self, by: signal.Signals) -> None:
        """End it; its last words are known then."""
        for number in (by, signal.SIGKILL):
            if self.ended() is not None:
                return
            with suppress(DutError):  # it may have ended since
                self._guest.agent.run(["sh", "-c", _KILL, str(int(number)), str(self._pid)])
            what = "the end of a program in the guest"
            poll_s = GUEST_POLL_S
            wait_at_most(lambda: self.ended() is not None, END_S, what, poll_s=poll_s)
        if self.ended() is None:
            raise DutError(
                f"process {self._pid} does not end in the guest, not even by SIGKILL",
                where=self._guest.domain.name,
            )


#: What keeps mounts of a tool from the host; all that a guest mounts is its own.
PRIVATE_MOUNTS = ("unshare", "--mount")
GUEST_DIR = "/run"


class GuestPlace:
    """A guest as the place of an endpoint, or of a kernel that forwards."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    @property
    def processors(self) -> str:
        """Its vCPUs, and where they are."""
        pins = sorted({cpu for cpus in self.guest.domain.vcpu_pins for cpu in cpus})
        where = f" on {format_cpus(pins)}" if pins else ""
        return f"{self.guest.domain.vcpus} vCPU{where}"

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end."""
        if tuple(argv[: len(PRIVATE_MOUNTS)]) == PRIVATE_MOUNTS:
            argv = argv[len(PRIVATE_MOUNTS) :]
        return self.guest.agent.run(argv)

    def write(self, name: str, content: bytes) -> str:
        """Write a file; its path there."""
        path = f"{GUEST_DIR}/{name}"
        self.guest.agent.write(path, content)
        return path

    def statistics(self) -> dict[str, links.LinkStatistics]:
        """Statistics of all interfaces there, and of what queues before them."""
        table = links.parse_statistics(self.guest.agent.read("/proc/net/dev"))
        return links.add_qdisc_counters(table, self.guest.agent.run(links.SHOW_QDISCS))

    def start(self, name: str, argv: Sequence[str]) -> GuestProgram:
        """Start a program."""
        del name
        return GuestProgram(self.guest, self.guest.agent.start(argv, capture=True))

    def received(self, netdev: str) -> int:
        """Packets that an interface has received."""
        table = links.parse_statistics(self.guest.agent.read("/proc/net/dev"))
        if netdev not in table:
            raise HostError(f"the interface {netdev} is gone", where=self.guest.domain.name)
        return table[netdev].rx
