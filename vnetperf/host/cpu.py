"""CPUs: lists, topology, cpusets, frequency governor, CPUs that interrupts go to."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.journal import Journal, UndoData
from vnetperf.host.kernel import read_text, read_value, write_value
from vnetperf.host.linux import PROC, PROC_MOUNTS, cgroup_root
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPUs of a list, in ascending order; an empty text is no CPU."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        numbers = all(one.strip().isdecimal() for one in ((first, last) if dash else (first,)))
        if not numbers or (dash and int(last) < int(first)):
            raise HostError(
                f"{text.strip()!r} is not a list of CPUs",
                accepted="numbers and ranges, such as 0-3,8,10-11",
                cure="correct the list",
            )
        cpus.update(range(int(first), int(last if dash else first) + 1))
    return tuple(sorted(cpus))


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list for a set of CPUs."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1] = [parts[-1][0], cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)


SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class Cpu:
    """One online logical CPU.

    Attributes:
        core: Number of its core, unique only within its package.
        node: NUMA node of its memory; 0 on a machine without NUMA.
        isolated: Kept free of other tasks by ``isolcpus``.
        allowed: Whether this run may use it (cgroup, and affinity of one that is not root).
    """

    number: int
    core: int
    package: int
    node: int
    siblings: tuple[int, ...]
    isolated: bool
    allowed: bool


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """All online CPUs, by number."""

    cpus: tuple[Cpu, ...]

    @property
    def allowed(self) -> tuple[Cpu, ...]:
        """CPUs that this process may use."""
        return tuple(cpu for cpu in self.cpus if cpu.allowed)

    @property
    def nodes(self) -> tuple[int, ...]:
        """NUMA nodes that have CPUs."""
        return tuple(sorted({cpu.node for cpu in self.cpus}))

    @property
    def smt(self) -> bool:
        """Whether any core runs two threads at once."""
        return any(len(cpu.siblings) > 1 for cpu in self.cpus)


def read_topology(
    *, sys: Path = SYS, proc: Path = PROC, as_root: bool | None = None
) -> CpuTopology:
    """Read the CPUs of this machine."""
    root = sys / "devices/system/cpu"
    try:
        online = parse_cpus((root / "online").read_text())
    except OSError as error:
        raise HostError(
            f"the online CPUs cannot be read: {error.strerror}", where=str(root), cure="mount sysfs"
        ) from error
    isolated = set(parse_cpus(read_text(root / "isolated")))
    if os.geteuid() == 0 if as_root is None else as_root:
        allowed = _cgroup_cpus(sys, proc, online)
    else:
        allowed = _affinity_cpus(proc, online)
    node_of = _node_of_cpu(sys)
    return CpuTopology(
        tuple(
            Cpu(
                number=number,
                core=int(read_text(root / f"cpu{number}/topology/core_id", str(number))),
                package=int(read_text(root / f"cpu{number}/topology/physical_package_id", "0")),
                node=node_of.get(number, 0),
                siblings=_siblings(root, number, online),
                isolated=number in isolated,
                allowed=number in allowed,
            )
            for number in online
        )
    )


def _siblings(root: Path, number: int, online: Iterable[int]) -> tuple[int, ...]:
    topology = root / f"cpu{number}/topology"
    # thread_siblings_list is the name before Linux 5.x; offline siblings do not disturb.
    text = read_text(topology / "core_cpus_list") or read_text(
        topology / "thread_siblings_list", ""
    )
    together = set(parse_cpus(text)) & set(online)
    return tuple(sorted(together | {number}))


def _node_of_cpu(sys: Path) -> dict[int, int]:
    return {
        cpu: int(path.name.removeprefix("node"))
        for path in (sys / "devices/system/node").glob("node[0-9]*")
        for cpu in parse_cpus(read_text(path / "cpulist"))
    }


def _affinity_cpus(proc: Path, online: tuple[int, ...]) -> set[int]:
    # The kernel has already cut this list by the cgroup's cpuset.
    for line in _read_lines(proc / "self/status"):
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return set(parse_cpus(value)) & set(online)
    return set(online)


def _cgroup_cpus(sys: Path, proc: Path, online: tuple[int, ...]) -> set[int]:
    """What the cgroup lets root choose from; isolated CPUs are in no task's inherited affinity."""
    root = sys / "fs/cgroup"
    for line in _read_lines(proc / "self/cgroup"):
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
                if cpus := read_text(file):
                    return set(parse_cpus(cpus)) & set(online)
    return set(online)


def _read_lines(path: Path) -> list[str]:
    """Lines as they are: in `read_text` a word in brackets would stand for the whole file."""
    try:
        return path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return []


def read_governor(cpu: int, *, sys: Path = SYS) -> str | None:
    """The frequency governor of a CPU; None when the machine has none to choose from."""
    path = _governor_file(cpu, sys)
    return read_value(path) if path.exists() else None


def available_governors(cpu: int, *, sys: Path = SYS) -> tuple[str, ...]:
    """Frequency governors that a CPU can have; empty when the machine has none to choose from."""
    file = _governor_file(cpu, sys).with_name("scaling_available_governors")
    return tuple(read_text(file).split())


def set_governor(journal: Journal, cpus: Iterable[int], name: str, *, sys: Path = SYS) -> None:
    """Set the frequency governor of CPUs for this run."""
    for cpu in cpus:
        path = _governor_file(cpu, sys)
        if not path.exists():
            raise HostError(
                "this machine has no frequency governor to choose",
                where=f"cpu{cpu}",
                cure="leave it out: a virtual machine or the firmware decides",
            )
        write_value(journal, path, name)


def _governor_file(cpu: int, sys: Path) -> Path:
    return sys / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"


def device_irqs(address: str, *, sys: Path = SYS) -> tuple[int, ...]:
    """Interrupt numbers of a PCI device; empty when it has none."""
    directory = sys / "bus/pci/devices" / address / "msi_irqs"
    return tuple(sorted(int(path.name) for path in directory.glob("[0-9]*")))


def move_interrupts(
    journal: Journal, cpus: Iterable[int], *, sys: Path = SYS, proc: Path = PROC
) -> None:
    """Have interrupts served by other CPUs for this run, those of devices that come later too.

    Some belong to one CPU, or their driver has spread them: those stay, see `interrupts_on`.
    """
    avoided = set(cpus)
    online = set(parse_cpus((sys / "devices/system/cpu/online").read_text()))
    if not (others := online - avoided):
        raise HostError(
            "no processor is left for interrupts",
            where="cores.irqs",
            cure="leave a processor to the system, or leave irqs out",
        )
    default = proc / "irq/default_smp_affinity"
    usual = cpus_of_mask(read_text(default)) - avoided or others
    write_value(journal, default, _mask_of_cpus(usual), kind="irq-default")
    for number in interrupts_on(avoided, proc=proc):
        file = proc / f"irq/{number}/smp_affinity_list"
        served = set(parse_cpus(read_text(file)))
        if _accepts(file, format_cpus(served)):
            with contextlib.suppress(HostError):  # it may have gone with its device meanwhile
                write_value(journal, file, format_cpus(served - avoided or others))


def interrupts_on(cpus: Iterable[int], *, proc: Path = PROC) -> dict[int, str]:
    """Interrupts that CPUs may serve: number -> what they are of.

    One that was moved is served elsewhere from the next time on that it comes.
    """
    wanted, found = set(cpus), {}
    for directory in sorted((proc / "irq").glob("[0-9]*"), key=lambda path: int(path.name)):
        if wanted & set(parse_cpus(read_text(directory / "smp_affinity_list"))):
            users = sorted(path.name for path in directory.glob("*/"))
            found[int(directory.name)] = ", ".join(users)
    return found


def _accepts(file: Path, value: str) -> bool:
    """Whether the kernel lets an interrupt be moved: it refuses even what is already so if not."""
    try:
        file.write_text(value)
    except OSError:
        return False
    return True


def cpus_of_mask(mask: str) -> set[int]:
    """CPUs of a mask as the kernel has it, "00000000,0000000f"."""
    bits = int(mask.replace(",", "") or "0", 16)
    return {number for number in range(bits.bit_length()) if bits >> number & 1}


def _mask_of_cpus(cpus: Iterable[int]) -> str:
    """A mask as /proc/irq has it: groups of eight hexadecimal digits."""
    digits = f"{sum(1 << cpu for cpu in cpus):x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8) if len(digits) > 8 else digits
    return ",".join(digits[i : i + 8] for i in range(0, len(digits), 8)) or "0"


CPUSET_EMPTY_S = 2.0
#: Joins a group, then becomes the program: threads it starts are in the group from the first.
_JOIN_CGROUP = (
    "import os,sys\n"
    "with open(sys.argv[1], 'w') as procs: procs.write('0')\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


def why_no_cpusets(mounts: Path = PROC_MOUNTS) -> str:
    """What keeps a run from making cpusets; nothing on the machine is changed to have them."""
    top = cgroup_root(mounts)
    if top is None:
        return "no cgroup v2 file system is mounted"
    try:
        given = (top / "cgroup.subtree_control").read_text().split()
        there = (top / "cgroup.controllers").read_text().split()
    except OSError as error:
        return f"{top} cannot be read: {error.strerror}"
    if "cpuset" not in there:
        return f"{top} has no cpuset controller (cgroup v1 may have it)"
    if "cpuset" not in given:
        return f"{top}/cgroup.subtree_control does not hand cpuset on"
    return "" if os.access(top, os.W_OK) else f"{top} is read-only"


def create_cpuset(
    journal: Journal, name: str, cpus: Iterable[int], *, mounts: Path = PROC_MOUNTS
) -> Path:
    """Make a group whose processes run on some processors only."""
    top, trouble = cgroup_root(mounts), why_no_cpusets(mounts)
    if top is None or trouble:
        raise HostError(f"no cpuset can be made: {trouble}", where=f"cgroup {name}")
    group, wanted = top / name, format_cpus(cpus)
    with journal.changing("cgroup", f"cgroup {group}", {"path": str(group)}):
        try:
            group.mkdir()
            (group / "cpuset.cpus").write_text(wanted)
            taken = (group / "cpuset.cpus.effective").read_text().strip()
        except OSError as error:
            raise HostError(
                f"the cpuset could not be made: {error.strerror}", where=str(group)
            ) from error
        if taken != wanted:
            raise HostError(
                f"processors {wanted} were requested for the cpuset, and it has {taken or 'none'}",
                where=str(group),
                cure="choose processors that are online and allowed",
            )
    return group


def join_cpuset(group: Path, argv: Sequence[str]) -> list[str]:
    """A command that joins a group before it becomes the program."""
    return [sys.executable, "-I", "-S", "-c", _JOIN_CGROUP, str(group / "cgroup.procs"), *argv]


def undo_cgroup(data: UndoData) -> str:
    """Remove a group, or one in each hierarchy; killed processes leave it a moment later.

    What a run's own group still has is killed: a daemon in it may have cleared the environment that
    the run's processes are found by.
    """
    if "paths" not in data:
        return _remove_group(Path(data["path"]), kill=True)
    return ", ".join(dict.fromkeys(_remove_group(Path(group)) for group in data["paths"]))


def _remove_group(group: Path, *, kill: bool = False) -> str:
    """Remove a group with those that an engine of containers has made in it."""

    def removed() -> str:
        try:
            for inner in [path for path, *_ in os.walk(group, topdown=False)][:-1]:
                with contextlib.suppress(FileNotFoundError):  # its engine has just removed it
                    Path(inner).rmdir()
            group.rmdir()
        except FileNotFoundError:
            return "already gone"
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            if kill:
                with contextlib.suppress(OSError):  # a kernel before 5.14
                    (group / "cgroup.kill").write_text("1")
            return ""
        return "removed"

    def busy() -> HostError:
        return HostError("processes are still in it", where=str(group), cure="end them")

    return wait_for(removed, CPUSET_EMPTY_S, f"the end of {group}", error=busy)
