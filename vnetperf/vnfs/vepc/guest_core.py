"""A core's programs in a guest, and what its kernel is told."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.patience import patient
from vnetperf.launchers.vm.guest import Guest
from vnetperf.model.core import CoreOptions, Stack
from vnetperf.model.errors import DutError
from vnetperf.model.trial import HopCounters
from vnetperf.vnfs.vepc import network, stack
from vnetperf.vnfs.vloop.forms import Form, Port, Step
from vnetperf.vnfs.vloop.forms.form import tool
from vnetperf.vnfs.vloop.guest_domain import SYSTEM_VCPU
from vnetperf.vnfs.vloop.guest_kernel import GuestPlace

#: Where a guest's files of a core are.
DIRECTORY = "/run"
#: Longest wait for each program of a core in an emulated guest, and between two looks, seconds.
PROGRAM_S, POLL_S = 60.0, 0.2
#: The interface goes with its program; the agent hears of the program's end a moment later.
REAPED_S = 2.0
TAIL_LINES = 15
#: What moves users' packets keeps to the vCPUs that forward: the plan gives them a processor, while
#: the system's shares its own with QEMU. Some interrupts cannot be moved.
PINNED = "busybox taskset {mask}"
INTERRUPTS = "for i in /proc/irq/*/smp_affinity; do echo {mask} >$i || true; done 2>/dev/null"


class CoreForm(Form):
    """The addresses and routes of a core: Gn at port 0, SGi at port 1."""

    name: ClassVar[str] = "route"
    attachments: ClassVar[tuple[str, ...]] = ("virtio",)

    @classmethod
    def steps(cls, ports: tuple[Port, Port]) -> tuple[Step, ...]:
        """As in a container."""
        gn, sgi = ports
        interfaces = stack.Interfaces(gn=gn.netdev, sgi=sgi.netdev)
        return tuple(map(tool, network.lines(interfaces, gn.peer_mac, sgi.peer_mac)))


class GuestCore:
    """The programs of a core in a guest.

    Args:
        guest: The guest, its network set up.
        what: The core.
        options: What is asked of it.
        role: What it is called in messages.
    """

    def __init__(self, guest: Guest, what: Stack, options: CoreOptions, role: str) -> None:
        self.guest, self.stack, self.options, self.role = guest, what, options, role
        self.place = GuestPlace(guest)
        self.pids: list[int] = []
        self.lines: list[str] = []

    def start(self, names: Sequence[str], modules: Sequence[str], mtu: int) -> None:
        """Start the programs, each once the one before is up.

        Args:
            names: Interfaces Gn and SGi in the guest.
            modules: Kernel modules that users' traffic goes through.
            mtu: MTU of the interface to the core's program, octets.

        Raises:
            DutError: One does not start, with its log's tail.
        """
        agent = self.guest.agent
        for module in modules:
            agent.run(["modprobe", module])
        mask = self._forwarding()
        if mask:
            agent.run(["sh", "-c", INTERRUPTS.format(mask=mask)])
        interfaces = stack.Interfaces(*names)
        known = stack.values(self.stack, self.options, interfaces, Path(DIRECTORY))
        for name, text in stack.files_of(self.stack, known).items():
            known[name] = self.place.write(name, text.encode())
        for number, program in enumerate(self.stack.programs):
            line = shlex.join(stack.command(program, known, self.stack))
            agent.write(self._log(number), "")  # it is read before the program can write
            pinned = f"{PINNED.format(mask=mask)} {line}" if mask else line
            self.pids.append(agent.start(["sh", "-c", f"exec {pinned} >{self._log(number)} 2>&1"]))
            self.lines.append(line)
            self._wait(number, program.ready)
        if self.stack.tun not in self.place.statistics():
            raise self._error(0, f"runs, but has made no interface {self.stack.tun}")
        agent.run(["ip", "link", "set", "dev", self.stack.tun, "mtu", str(mtu)])

    def _forwarding(self) -> str:
        """The vCPUs that forward, those beside the system's; "" where there is one for all."""
        count = self.guest.domain.vcpus
        return f"{(1 << count) - 1 - (1 << SYSTEM_VCPU):x}" if count > 1 else ""

    @staticmethod
    def _log(number: int) -> str:
        return f"{DIRECTORY}/core{number}.log"

    def _wait(self, number: int, ready: str) -> None:
        deadline = time.monotonic() + patient(PROGRAM_S)
        while ready not in self.guest.agent.read(self._log(number)):
            self.check()
            if time.monotonic() > deadline:
                raise self._error(number, f"runs, but {ready!r} did not come in {PROGRAM_S:g} s")
            time.sleep(POLL_S)

    def check(self) -> None:
        """Raise when a program has ended.

        Raises:
            DutError: With its log's tail.
        """
        for number, pid in enumerate(self.pids):
            ended = self.guest.agent.ended(pid)
            if ended is not None:
                raise self._error(number, f"has ended (status {ended.status})")

    def _error(self, number: int, what: str) -> DutError:
        program = self.stack.programs[number].argv[0]
        return DutError(
            f"{program} in the guest {what}; log ends with:\n{self.tail(number)}",
            where=f"{self.role} ({program})",
        )

    def tail(self, number: int = 0) -> str:
        """The last lines of a program's log.

        Args:
            number: Which of the programs.

        Returns:
            Text.
        """
        lines = self.guest.agent.read(self._log(number)).splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def counters(self) -> tuple[HopCounters, ...]:
        """The interface to the core's program, and its GTP-U socket.

        Returns:
            One entry for each.

        Raises:
            DutError: The interface is gone: the program has ended.
        """
        there = self.place.statistics().get(self.stack.tun)
        if there is None:
            deadline = time.monotonic() + patient(REAPED_S)
            while time.monotonic() < deadline:
                self.check()
                time.sleep(POLL_S)
            raise DutError(f"gone: the core's interface {self.stack.tun}", where=self.role)
        found = HopCounters(
            port=f"{self.role}.tun (inside)",
            rx=there.rx,
            tx=there.tx,
            rx_dropped=there.rx_dropped,
            tx_dropped=there.tx_dropped,
        )
        if self.options.gtpu_mode == "kernel":
            return (found,)
        text = self.guest.agent.read("/proc/net/snmp")
        return found, network.udp_of(text, f"{self.role}.gtp-u (inside)")

    def facts(self) -> dict[str, Any]:
        """What runs.

        Returns:
            JSON values.
        """
        return {"application": self.stack.description or self.stack.name, "programs": self.lines}
