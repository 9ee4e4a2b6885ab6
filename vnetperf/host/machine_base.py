"""What all parts of a machine in the hands of a run share: its journal, directory, namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from vnetperf.host import cgroups, modules, netns
from vnetperf.host.session import HostRun
from vnetperf.model.machine import MachineFacts

T = TypeVar("T")


class MachineBase:
    """A machine in the hands of one run.

    Args:
        run: The run's hold on the machine.
        facts: What is known of it.
    """

    def __init__(self, run: HostRun, facts: MachineFacts) -> None:
        self._run = run
        self.facts = facts
        self.run_id = run.run_id
        self.run_dir = run.rundir.path
        self._netns: Path | None = None
        #: Links that are in another namespace of the run than its own.
        self._elsewhere: dict[str, Path] = {}

    @property
    def netns(self) -> Path:
        """The run's own network namespace, made when first asked for.

        Test links and the kernel interfaces of a private switch live in it: nothing on the machine
        listens there, and no name there meets one of the machine's.
        """
        if self._netns is None:
            path = self.run_dir / "netns"
            netns.create_netns(self._run.journal, path)
            self._netns = path
        return self._netns

    def create_netns(self, path: Path) -> Path:
        """Make a network namespace that ends with the run.

        Args:
            path: File that is to name it, in the run's directory; not there yet.

        Returns:
            The file.

        Raises:
            HostError: The file is there, or the kernel refuses.
        """
        netns.create_netns(self._run.journal, path)
        return path

    def create_cpuset(self, name: str, cpus: Iterable[int]) -> Path:
        """Make a group of processes that run on some processors only; it ends with the run.

        Args:
            name: What it is for; the run's id is added.
            cpus: Processors.

        Returns:
            Directory of the group, for `vnetperf.host.cgroups.joining`.

        Raises:
            HostError: The kernel refuses; `vnetperf.host.cgroups.why_no_cpusets` says beforehand.
        """
        group = f"vnetperf-{self.run_id}-{name}"
        return cgroups.create_cpuset(self._run.journal, group, cpus)

    def load_module(self, name: str) -> None:
        """Load a kernel module; it is unloaded with the run's end if it was not there before.

        Args:
            name: Its name.

        Raises:
            HostError: The kernel has no such module.
        """
        modules.load_module(self._run.journal, name)

    def in_netns(self, function: Callable[[], T]) -> T:
        """Call a function in the run's network namespace, in a thread of its own.

        Args:
            function: What to call, e.g. one that speaks netlink.

        Returns:
            What it returns.
        """
        return netns.run_in(self.netns, function)
