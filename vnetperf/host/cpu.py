"""The CPUs of this machine: which there are, how they hang together, which we may use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.cpulist import parse_cpus
from vnetperf.model.errors import HostError

SYS = Path("/sys")
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Cpu:
    """One online logical CPU.

    Attributes:
        number: The kernel's number of it.
        core: Number of its core, unique only within its package.
        package: Number of its package (socket).
        node: NUMA node of its memory; 0 on a machine without NUMA.
        siblings: All logical CPUs of its core, itself among them.
        isolated: Kept free of other tasks by ``isolcpus``.
        allowed: Whether this run may use it (cgroup, and affinity of one that is not root).
        max_khz: Highest frequency in kHz, None when the machine does not say.
    """

    number: int
    core: int
    package: int
    node: int
    siblings: tuple[int, ...]
    isolated: bool
    allowed: bool
    max_khz: int | None


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """All online CPUs, by number."""

    cpus: tuple[Cpu, ...]

    @property
    def allowed(self) -> tuple[Cpu, ...]:
        """CPUs that this process may use."""
        return tuple(cpu for cpu in self.cpus if cpu.allowed)

    @property
    def isolated(self) -> tuple[Cpu, ...]:
        """Allowed CPUs that nothing else uses."""
        return tuple(cpu for cpu in self.allowed if cpu.isolated)

    @property
    def nodes(self) -> tuple[int, ...]:
        """NUMA nodes that have CPUs."""
        return tuple(sorted({cpu.node for cpu in self.cpus}))

    @property
    def smt(self) -> bool:
        """Whether any core runs two threads at once."""
        return any(len(cpu.siblings) > 1 for cpu in self.cpus)

    def cores(self) -> tuple[tuple[Cpu, ...], ...]:
        """Allowed CPUs grouped by physical core, in the order of their first CPU."""
        groups: dict[tuple[int, ...], list[Cpu]] = {}
        for cpu in self.allowed:
            groups.setdefault(cpu.siblings, []).append(cpu)
        return tuple(tuple(group) for group in groups.values())

    def on_node(self, node: int) -> tuple[Cpu, ...]:
        """Allowed CPUs of one NUMA node."""
        return tuple(cpu for cpu in self.allowed if cpu.node == node)

    def get(self, number: int) -> Cpu:
        """One CPU.

        Args:
            number: Its number in the kernel.

        Returns:
            The CPU.

        Raises:
            HostError: It is not online.
        """
        for cpu in self.cpus:
            if cpu.number == number:
                return cpu
        raise HostError(
            f"CPU {number} is not online",
            accepted=", ".join(str(cpu.number) for cpu in self.cpus),
            cure="correct the cores in the testbed's configuration",
        )


def read_topology(
    *, sys: Path = SYS, proc: Path = PROC, as_root: bool | None = None
) -> CpuTopology:
    """Read the CPUs of this machine.

    Args:
        sys: Root of sysfs.
        proc: Root of procfs.
        as_root: Whether affinity can be set at will; None asks the system.

    Returns:
        All online CPUs.

    Raises:
        HostError: sysfs cannot be read.
    """
    root = sys / "devices/system/cpu"
    try:
        online = parse_cpus((root / "online").read_text())
    except OSError as error:
        raise HostError(
            f"the online CPUs cannot be read: {error.strerror}",
            where=str(root),
            cure="mount sysfs",
        ) from error
    isolated = set(parse_cpus(_text(root / "isolated", "")))
    if os.geteuid() == 0 if as_root is None else as_root:
        allowed = _cgroup_cpus(sys, proc, online)
    else:
        allowed = _allowed(proc, online)
    node_of = _nodes(sys)
    return CpuTopology(
        tuple(
            Cpu(
                number=number,
                core=int(_text(root / f"cpu{number}/topology/core_id", str(number))),
                package=int(_text(root / f"cpu{number}/topology/physical_package_id", "0")),
                node=node_of.get(number, 0),
                siblings=_siblings(root, number, online),
                isolated=number in isolated,
                allowed=number in allowed,
                max_khz=_max_khz(root / f"cpu{number}"),
            )
            for number in online
        )
    )


def _siblings(root: Path, number: int, online: Iterable[int]) -> tuple[int, ...]:
    topology = root / f"cpu{number}/topology"
    # thread_siblings_list is the name before Linux 5.x; offline siblings do not disturb.
    text = _text(topology / "core_cpus_list", "") or _text(topology / "thread_siblings_list", "")
    together = set(parse_cpus(text)) & set(online)
    return tuple(sorted(together | {number}))


def _nodes(sys: Path) -> dict[int, int]:
    return {
        cpu: int(path.name.removeprefix("node"))
        for path in (sys / "devices/system/node").glob("node[0-9]*")
        for cpu in parse_cpus(_text(path / "cpulist", ""))
    }


def _allowed(proc: Path, online: tuple[int, ...]) -> set[int]:
    # The kernel has already cut this list by the cgroup's cpuset.
    for line in _text(proc / "self/status", "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return set(parse_cpus(value)) & set(online)
    return set(online)


def _cgroup_cpus(sys: Path, proc: Path, online: tuple[int, ...]) -> set[int]:
    """What the cgroup lets root choose from; isolated CPUs are in no task's inherited affinity."""
    root = sys / "fs/cgroup"
    for line in _text(proc / "self/cgroup", "").splitlines():
        _, controllers, group = line.split(":", maxsplit=2)
        if "cpuset" in controllers.split(","):
            bases = [root / "cpuset", root / controllers]
            names = ["cpuset.effective_cpus", "cpuset.cpus"]
        elif not controllers:
            bases, names = [root, root / "unified"], ["cpuset.cpus.effective"]
        else:
            continue
        own = Path(group.lstrip("/"))
        # A group without the controller has what the next one above it has.
        for part in (own, *own.parents):
            for file in (base / part / name for base in bases for name in names):
                if cpus := _text(file, ""):
                    return set(parse_cpus(cpus)) & set(online)
    return set(online)


def _max_khz(cpu: Path) -> int | None:
    for name in ("cpufreq/cpuinfo_max_freq", "cpufreq/scaling_max_freq"):
        text = _text(cpu / name, "")
        if text.isdecimal():
            return int(text)
    return None


def _text(path: Path, default: str) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return default
