"""Containers of a run: a network namespace and a set of processors, without an image.

A container shares the machine's files: a container engine would add nothing to the path of a
frame.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vnetperf.host import cpu, links
from vnetperf.host.cpu import format_cpus
from vnetperf.host.linux import read_file
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import HostError
from vnetperf.virt import endpoint

log = logging.getLogger(__name__)

NETNS = "netns"


class Container:
    """A container of a run; what is in it is gone with the run, whatever ends the run."""

    def __init__(self, machine: Machine, name: str, cpus: Sequence[int]) -> None:
        self.machine = machine
        self.name = name
        self.cpus = tuple(sorted(set(cpus)))
        self.directory = machine.subdir(name)
        self.netns: Path | None = None
        self.group: Path | None = None
        self.why_no_group = ""
        self._netdevs: list[str] = []
        self._namespaces = 0

    def create(self, *, cpuset: bool = True) -> None:
        """Make its namespace, and its cpuset where the machine has them; it is empty each time."""
        self._namespaces += 1  # what an earlier one had stays there until the run ends
        name = NETNS if self._namespaces == 1 else f"{NETNS}{self._namespaces}"
        self.netns = self.directory / name
        self.machine.create_netns(self.netns)
        log.info("container %s: namespace %s", self.name, self.netns)
        if self.group:
            return
        self.why_no_group = cpu.explain_no_cpusets() if cpuset else "affinity is enough"
        if not self.why_no_group:
            self.group = self.machine.create_cpuset(self.name, self.cpus)

    def enter(self, netns: Path) -> None:
        """Be in a namespace that there is already; nothing is made."""
        self.netns, self.why_no_group = netns, "affinity is enough"

    def _namespace(self) -> Path:
        if self.netns is None:
            raise HostError("the container has not been made", where=self.name)
        return self.netns

    def take(self, netdev: str, *, mac: str = "") -> None:
        """Move an interface from the run's namespace into the container, quiet and up."""
        log.info("container %s takes %s", self.name, netdev)
        self.machine.move_link(netdev, self._namespace())
        self._netdevs.append(netdev)
        # The kernel's settings of an interface by its name stay behind in the namespace it leaves.
        links.silence(netdev, netns=self.netns)
        self.machine.set_link(netdev, mac=mac or None, up=True)

    def give_back(self) -> None:
        """Move what was taken back into the run's namespace, as far as it is still there."""
        for netdev in self._netdevs:
            with contextlib.suppress(HostError):
                self.machine.move_link(netdev)
                links.silence(netdev, netns=self.machine.netns)
                self.machine.set_link(netdev, up=True)
        self._netdevs = []

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool of the machine in the container's namespace, to its end."""
        return self.machine.run(self._with_path(argv), netns=self._namespace())

    def _with_path(self, argv: Sequence[str]) -> list[str]:
        """A command line with the path of the program, where the machine's facts have it."""
        return [self.machine.facts.programs.get(argv[0]) or argv[0], *argv[1:]]

    def start(self, name: str, argv: Sequence[str]) -> ContainerProgram:
        """Start a program of an endpoint."""
        return ContainerProgram(self.spawn(name, self._with_path(argv)))

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        keep_stdin_open: bool = False,
        cpus: Sequence[int] = (),
    ) -> ManagedProcess:
        """Start a program in the container."""
        if self.group:  # joining gives it all of the group's processors
            pinned = ["taskset", "-c", format_cpus(cpus), *argv] if cpus else argv
            argv = cpu.join_cpuset(self.group, pinned)
        return self.machine.spawn(
            name,
            argv,
            env=env or {},
            cpus=None if self.group else tuple(cpus) or self.cpus,
            keep_stdin_open=keep_stdin_open,
            netns=self._namespace(),
        )

    def entry(self, host: str) -> tuple[str, ...]:
        """What goes before a command line that is to run in it, from outside, as a host's."""
        named = ("sh", "-c", 'hostname "$0" && exec "$@"', host)
        return ("nsenter", f"--net={self._namespace()}", "unshare", "--uts", *named)

    def write(self, name: str, content: bytes) -> str:
        """Write a file that the container's tools can read."""
        path = self.directory / name
        path.write_bytes(content)
        return str(path)

    def statistics(self) -> dict[str, links.LinkStatistics]:
        """Statistics of all interfaces in the container."""
        return links.statistics(self._namespace())

    def received(self, netdev: str) -> int:
        """Packets that an interface has received."""
        table = self.statistics()
        if netdev not in table:
            raise HostError(f"the interface {netdev} is gone", where=self.name)
        return table[netdev].rx

    @property
    def processors(self) -> str:
        """Its processors, for the report."""
        return format_cpus(self.cpus)

    def facts(self) -> dict[str, Any]:
        """What it is made of, for the result."""
        means = f"cgroup v2 cpuset {self.group}"
        if not self.group:
            means = f"scheduler affinity ({self.why_no_group})"
        return {
            "kind": "network namespace of its own, the machine's files",
            "processors": f"{self.processors}, by {means}",
        }


class ContainerProgram(endpoint.EndpointProgram):
    """A program in a container."""

    def __init__(self, process: ManagedProcess) -> None:
        self._process = process
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._code is None and self._is_dead():
            self.update_cpu()  # the kernel keeps its times until its exit code is read
            self._code = self._process.returncode
        return self._code

    def _is_dead(self) -> bool:
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self._process.pid, flags) is not None
        except ChildProcessError:
            return True

    def read_stat(self) -> str:
        """The text of its stat file."""
        return read_file(Path(f"/proc/{self._process.pid}/stat"))

    def output(self) -> str:
        """What it has written."""
        return self._process.log_text()

    def end(self, by: signal.Signals) -> None:
        """End it; its last output is in its log then."""
        if self.ended() is None:
            self._process.signal(by)
        description = "the end of a program"
        wait_at_most(lambda: self.ended() is not None, endpoint.END_S, description, poll_s=0.01)
        self._process.stop(endpoint.END_S)
