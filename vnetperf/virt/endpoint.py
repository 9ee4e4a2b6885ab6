"""Endpoints: a container or a guest with an address, in which programs exchange packets."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from vnetperf.host import links
from vnetperf.host.cpu import format_cpus
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import DutError, HostError
from vnetperf.virt.guest import Guest
from vnetperf.virt.guest_agent import ProcessExit

#: Longest wait for the end of a program after a signal, seconds.
END_S = 3.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Processor time of a process, all its threads: in itself and in the kernel, seconds."""

    user_s: float
    system_s: float


class EndpointProgram(ABC):
    """A program that runs in an endpoint."""

    _last: CpuTime | None = None

    @abstractmethod
    def ended(self) -> int | None:
        """Its exit code, 128 and more or negative for a signal; None while it runs."""

    @abstractmethod
    def read_stat(self) -> str:
        """The text of its /proc/PID/stat. Raises HostError or OSError when it is gone."""

    @abstractmethod
    def output(self) -> str:
        """What it has written; all of it once it has ended."""

    @abstractmethod
    def end(self, by: signal.Signals) -> None:
        """End it: by a signal, and by force when that does not do. Idempotent."""

    def cpu(self) -> CpuTime | None:
        """Processor time until now, or as last read before its end; None where it is unknown."""
        if self.ended() is None:  # afterwards its number may be another process's
            self.update_cpu()
        return self._last

    def update_cpu(self) -> None:
        """Read its processor time, where it can be read."""
        with suppress(HostError, OSError, ValueError, IndexError):
            self._last = cpu_time(self.read_stat())


class Place(Protocol):
    """A container or a guest: where programs of an endpoint run, or where the kernel forwards."""

    @property
    def processors(self) -> str:
        """Processors that programs may run on, for the report."""

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end; its output. Raises HostError or DutError when it fails."""

    def start(self, name: str, argv: Sequence[str]) -> EndpointProgram:
        """Start a program."""

    def write(self, name: str, content: bytes) -> str:
        """Write a file; its path there."""

    def statistics(self) -> dict[str, links.LinkStatistics]:
        """Statistics of all interfaces there."""

    def received(self, netdev: str) -> int:
        """Packets that an interface has received."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a transfer.

    `netdev` is the interface that has its IPv4 address. `notes` are what is to be said wherever its
    transfers are shown, in words.
    """

    what: str
    place: Place
    address: str
    netdev: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndpointPair:
    """The two ends of transfers: "forth" is from the client.

    `attach_s` is a mobile core's: seconds from the start of the UE to its address.
    """

    client: Endpoint
    server: Endpoint
    attach_s: float | None = None


def cpu_time(stat: str) -> CpuTime:
    """Processor time by /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return CpuTime(int(fields[11]) / TICKS, int(fields[12]) / TICKS)


GUEST_POLL_S = 0.05
#: Sends a process a signal. `kill` is the shell's own where an image has no such program.
KILL = 'kill -"$0" "$1"'


class GuestProgram(EndpointProgram):
    """A program in a guest."""

    def __init__(self, guest: Guest, pid: int) -> None:
        self._guest, self._pid = guest, pid
        self._end: ProcessExit | None = None

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._end is None:
            self.update_cpu()  # the agent drops a program that has ended
            self._end = self._guest.agent.ended(self._pid)
        return None if self._end is None else self._end.status

    def cpu(self) -> CpuTime | None:
        """Processor time until now, or as last read; an agent that fails is no error."""
        if self._end is None:
            self.update_cpu()
        return self._last

    def read_stat(self) -> str:
        """The text of its stat file in the guest."""
        return self._guest.agent.read(f"/proc/{self._pid}/stat")

    def output(self) -> str:
        """What it has written; the agent returns it when the program has ended."""
        return self._end.output if self._end is not None else ""

    def end(self, by: signal.Signals) -> None:
        """End it; its last output is known then."""
        for number in (by, signal.SIGKILL):
            if self.ended() is not None:
                return
            with suppress(DutError):  # it may have ended since
                self._guest.agent.run(["sh", "-c", KILL, str(int(number)), str(self._pid)])
            description = "the end of a program in the guest"
            wait_at_most(lambda: self.ended() is not None, END_S, description, poll_s=GUEST_POLL_S)
        if self.ended() is None:
            raise DutError(
                f"process {self._pid} does not end in the guest, not even by SIGKILL",
                where=self._guest.domain.name,
            )


#: What keeps mounts of a tool from the host; all that a guest mounts is its own.
PRIVATE_MOUNTS = ("unshare", "--mount")
GUEST_DIR = "/run"


class GuestPlace:
    """A guest as a place."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    @property
    def cpus(self) -> tuple[int, ...]:
        """Processors of the host that its vCPUs are pinned to; none: they are not."""
        return tuple(sorted({cpu for cpus in self.guest.domain.vcpu_pins for cpu in cpus}))

    @property
    def processors(self) -> str:
        """Its vCPUs, and where they are."""
        where = f" on {format_cpus(self.cpus)}" if self.cpus else ""
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
        return GuestProgram(self.guest, self.guest.agent.start(argv, capture=True))

    def received(self, netdev: str) -> int:
        """Packets that an interface has received."""
        table = links.parse_statistics(self.guest.agent.read("/proc/net/dev"))
        if netdev not in table:
            raise HostError(f"the interface {netdev} is gone", where=self.guest.domain.name)
        return table[netdev].rx
