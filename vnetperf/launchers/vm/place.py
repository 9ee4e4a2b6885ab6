"""A guest as the place of an endpoint: programs by its agent."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from vnetperf.host import linkstats
from vnetperf.host.cpulist import format_cpus
from vnetperf.host.patience import patient
from vnetperf.launchers.endpoint import END_S, CpuTime, cpu_time
from vnetperf.launchers.vm.agent import Ended
from vnetperf.launchers.vm.guest import Guest
from vnetperf.model.errors import DutError, HostError

POLL_S = 0.05
#: `kill` is the shell's own where an image has no program of that name.
_KILL = 'kill -"$0" "$1"'


class GuestProgram:
    """A program in a guest.

    Args:
        guest: The guest.
        pid: Its process id there.
    """

    def __init__(self, guest: Guest, pid: int) -> None:
        self._guest, self._pid = guest, pid
        self._last: CpuTime | None = None
        self._end: Ended | None = None

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
            deadline = time.monotonic() + patient(END_S)
            while self.ended() is None and time.monotonic() < deadline:
                time.sleep(POLL_S)
        if self.ended() is None:
            raise DutError(
                f"process {self._pid} does not end in the guest, not even by SIGKILL",
                where=self._guest.domain.name,
            )


class GuestEndpoint:
    """A guest in which endpoint tools run.

    Args:
        guest: The guest, its agent answering.
    """

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
        return self.guest.agent.run(argv)

    def start(self, name: str, argv: Sequence[str]) -> GuestProgram:
        """Start a program."""
        del name
        return GuestProgram(self.guest, self.guest.agent.start(argv, capture=True))

    def received(self, netdev: str) -> int:
        """Packets that an interface has received."""
        table = linkstats.parse(self.guest.agent.read("/proc/net/dev"))
        if netdev not in table:
            raise HostError(f"the interface {netdev} is gone", where=self.guest.domain.name)
        return table[netdev].rx
