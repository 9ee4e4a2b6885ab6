"""CPUs: lists, topology, cpusets, frequency governor, CPUs that interrupts go to."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.facts import SHOWN, file_text
from vnetperf.host.journal import Journal, UndoData
from vnetperf.host.kernel import read_number, read_text, write_value
from vnetperf.host.linux import (
    PROC,
    PROC_MOUNTS,
    cgroup_folders,
    cgroup_root,
    is_root,
    numbered_entries,
    parse_number,
    read_file,
)
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError

#: One more than the highest number of a CPU; Linux can be built for 8192 (NR_CPUS).
MOST_CPUS = 1 << 16
#: What the kernel writes for no CPU: "(null)" where a mask is compiled in and was never made
#: (`isolated`, `nohz_full`).
_NO_CPUS = ("", "(null)")


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPUs of a list, in ascending order; an empty text is no CPU."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        lowest, highest = parse_number(first), parse_number(last if dash else first)
        if lowest is None or highest is None or not 0 <= lowest <= highest < MOST_CPUS:
            raise HostError(
                f"{text.strip()[:SHOWN]!r} is not a list of CPUs",
                accepted=f"numbers and ranges, such as 0-3,8,10-11, below {MOST_CPUS}",
                cure="correct the list",
            )
        cpus.update(range(lowest, highest + 1))
    return tuple(sorted(cpus))


def read_cpus(path: Path, default: Iterable[int] = ()) -> tuple[int, ...]:
    """CPUs of a list of the kernel's; the default where there is no such file, or no list in it."""
    try:
        text = read_file(path).strip(" \n\0")
        return () if text in _NO_CPUS else parse_cpus(text)
    except (OSError, HostError):
        return tuple(default)


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


#: What stands for the socket of a CPU that is not known, for the kernel too.
NO_PACKAGE = -1


@dataclass(frozen=True, slots=True)
class Cpu:
    """One online logical CPU.

    Attributes:
        core: Number of its core, unique only within its package.
        package: Number of its socket; NO_PACKAGE where the kernel does not know it.
        node: NUMA node of its memory; 0 on a machine without NUMA.
        isolated: Kept free of other tasks by ``isolcpus``.
        allowed: Whether this run may use it (cgroup, and affinity of one that is not root).
        kind: Kind of its core, among those that the machine has; 0 is the fastest.
        model: What the kernel calls it; "" where it does not.
    """

    number: int
    core: int
    package: int
    node: int
    siblings: tuple[int, ...]
    isolated: bool
    allowed: bool
    kind: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """All online CPUs, by number.

    Attributes:
        troubles: What could not be read, and what was taken instead.
    """

    cpus: tuple[Cpu, ...]
    troubles: tuple[str, ...] = ()

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
    """Read the CPUs of this machine.

    A file that cannot be read, or has something else than it should, changes what is known of its
    CPU alone; lists of CPUs have one more source each, and `troubles` tells of it.
    """
    root, troubles = sys / "devices/system/cpu", list[str]()

    def listed(path: Path, otherwise: Iterable[int], meaning: str) -> tuple[int, ...]:
        try:
            text = read_file(path).strip(" \n\0")
            return () if text in _NO_CPUS else parse_cpus(text)
        except FileNotFoundError:
            return tuple(otherwise)
        except OSError as error:
            reason = error.strerror or str(error)
        except HostError as error:
            reason = error.what
        troubles.append(f"{path}: {reason}; {meaning}")
        return tuple(otherwise)

    folders = tuple(numbered_entries(root, "cpu"))
    online = listed(root / "online", folders, "all that have a folder there are taken") or folders
    if strange := set(online) - set(folders or online):
        troubles.append(f"{root / 'online'}: {format_cpus(strange)} have no folder; not taken")
        online = tuple(sorted(set(online) - strange)) or folders
    if not online:
        raise HostError(
            "the online CPUs cannot be read", where=str(root / "online"), cure="mount sysfs"
        )
    isolated = listed(root / "isolated", (), "none is taken for isolated")
    if is_root() if as_root is None else as_root:
        allowed = _cgroup_cpus(sys, proc, online)
    else:
        allowed = _affinity_cpus(proc, online)
    node_of = {
        cpu: node
        for node, path in numbered_entries(sys / "devices/system/node", "node").items()
        for cpu in listed(path / "cpulist", (), f"no CPU is taken for one of node {node}")
    }
    models = cpu_models(sys=sys, proc=proc)
    kinds = _kinds(online, models, {number: _speeds(root / f"cpu{number}") for number in online})

    siblings = {number: {number} for number in online}
    for number in online:
        # thread_siblings_list is the name before Linux 5.x; offline siblings do not disturb.
        for name in ("core_cpus_list", "thread_siblings_list"):
            meaning = f"the others tell whether CPU {number} has siblings"
            for cpu in listed(root / f"cpu{number}/topology" / name, (), meaning):
                if cpu in siblings:
                    siblings[number].add(cpu)
                    siblings[cpu].add(number)

    def read_cpu(number: int) -> Cpu:
        topology = root / f"cpu{number}/topology"
        return Cpu(
            number=number,
            core=read_number(topology / "core_id", number, most=MOST_CORE_ID),
            package=read_number(topology / "physical_package_id", NO_PACKAGE, most=MOST_CORE_ID),
            node=node_of.get(number, 0),
            siblings=tuple(sorted(siblings[number])),
            isolated=number in isolated,
            allowed=number in allowed,
            kind=kinds[number],
            model=models.get(number, ""),
        )

    return CpuTopology(tuple(map(read_cpu, online)), tuple(dict.fromkeys(troubles)))


#: Highest number of a core or package that is one: -1 and 4294967295 are "not known".
MOST_CORE_ID = 1 << 24
#: Of the speed of the fastest core of a kind, what others of it have at least: one maker's favoured
#: cores are 2 to 8 % faster than others of their kind, its small ones 25 % slower and more.
_ALIKE = 0.9


def _speeds(cpu: Path) -> tuple[int, ...]:
    """How fast a CPU is, only to be compared with others of its machine; 0 where that is not known.

    What the scheduler reckons with (1024: the fastest), the highest frequency and the one that the
    maker guarantees, both in kHz.
    """
    names = ("cpu_capacity", "cpufreq/cpuinfo_max_freq", "cpufreq/base_frequency")
    return tuple(read_number(cpu / name, 0, most=2**32 - 2) for name in names)


def _kinds(
    cpus: Iterable[int], models: Mapping[int, str], speeds: Mapping[int, tuple[int, ...]]
) -> dict[int, int]:
    """The kind of each CPU, the fastest first: alike are those of one model and speed."""

    def alike(number: int, other: int) -> bool:
        pairs = zip(speeds[number], speeds[other], strict=True)
        close = all(min(pair) >= _ALIKE * max(pair) for pair in pairs if all(pair))
        return close and models.get(number, "") == models.get(other, "")

    first_of: list[int] = []
    kinds: dict[int, int] = {}
    for cpu in sorted(cpus, key=lambda number: (*(-speed for speed in speeds[number]), number)):
        kind = next((k for k, first in enumerate(first_of) if alike(first, cpu)), len(first_of))
        if kind == len(first_of):
            first_of.append(cpu)
        kinds[cpu] = kind
    return kinds


def read_cpuinfo(*, proc: Path = PROC) -> tuple[dict[int, dict[str, str]], dict[str, str]]:
    """What /proc/cpuinfo has of each processor, and of the machine as a whole; keys in lower case.

    Its words are each architecture's own. s390x has a line for a processor ("processor 0: version =
    00, ..."), or says "cpu number"; others begin or end with what holds for all.
    """
    processors: dict[int, dict[str, str]] = {}
    machine: dict[str, str] = {}
    try:
        text = read_file(proc / "cpuinfo")
    except OSError:
        return {}, {}
    for block in re.split(r"\n\s*\n", text.replace("\0", "")):
        entries: dict[str, str] = {}
        for line in block.splitlines():
            name, _, value = (part.strip() for part in line.partition(":"))
            name = name.lower()
            if line_of := re.fullmatch(r"processor ([0-9]{1,6})", name):
                pairs = (part.partition("=") for part in value.split(","))
                fields = {key.strip(): word.strip() for key, _, word in pairs}
                processors.setdefault(int(line_of[1]), {}).update(fields)
            elif name:
                entries[name] = value
        number = parse_number(entries.pop("processor", entries.get("cpu number", "")))
        if number is None or number < 0:
            machine |= entries
        else:
            processors.setdefault(number, {}).update(entries)
    return processors, machine


def read_model_name(entries: Mapping[str, str]) -> str:
    """What /proc/cpuinfo calls a processor; "" where it does not.

    `model name` is of x86, LoongArch and 32-bit Arm, `cpu` of POWER, `cpu model` of MIPS, `uarch`
    or `isa` of RISC-V, `machine` of s390x, whose `identification` is another for each processor.
    """
    for key in ("model name", "cpu", "cpu model", "uarch", "isa"):
        if entries.get(key):
            return entries[key]
    if part := _arm_part(entries):
        return part
    return f"machine {entries['machine']}" if entries.get("machine") else ""


def _arm_part(entries: Mapping[str, str]) -> str:
    if "cpu implementer" not in entries:
        return ""
    return f"implementer {entries['cpu implementer']} part {entries.get('cpu part', '?')}"


def cpu_flags(*, proc: Path = PROC) -> frozenset[str]:
    """Features that all processors have, by the kernel's names; for RISC-V its extensions."""
    processors, machine = read_cpuinfo(proc=proc)
    of_each = [machine | entries for entries in processors.values()] or [machine]
    keys = ("flags", "features", "isa", "cpu")
    alike = {tuple(entries.get(key, "") for key in keys) for entries in of_each}  # mostly one
    return frozenset.intersection(*(_parse_flags(*texts) for texts in alike))


def _parse_flags(flags: str, features: str, isa_text: str, name: str) -> frozenset[str]:
    words = flags or features
    if isa := re.fullmatch(r"rv\d+([a-z]+)((?:_\w+)*)", isa_text.strip()):
        # "rv64imafdcv_zba_zbb": letters, then longer names.
        words = " ".join([words, *isa[1], *isa[2].split("_")])
    if "altivec supported" in name:
        words += " altivec"
    return frozenset(words.split())


def cpu_models(*, sys: Path = SYS, proc: Path = PROC) -> dict[int, str]:
    """What the kernel calls each CPU.

    Cores of one x86 processor that are not alike have one name in /proc/cpuinfo, and a unit of
    performance counters for each kind: /sys/devices/cpu_core, /sys/devices/cpu_atom.
    """
    processors, _ = read_cpuinfo(proc=proc)
    # The name of a 32-bit Arm is one for all of its cores.
    models = {
        cpu: _arm_part(entries) or read_model_name(entries) for cpu, entries in processors.items()
    }
    for path in sorted((sys / "devices").glob("cpu_*/cpus")):
        for cpu in read_cpus(path):
            models[cpu] = f"{models.get(cpu, '')} ({path.parent.name})".strip()
    return {cpu: model for cpu, model in models.items() if model}


def _affinity_cpus(proc: Path, online: tuple[int, ...]) -> set[int]:
    # The kernel has already cut this list by the cgroup's cpuset.
    for line in _read_lines(proc / "self/status"):
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            with contextlib.suppress(HostError):
                return set(parse_cpus(value)) & set(online) or set(online)
    return set(online)


def _cgroup_cpus(sys: Path, proc: Path, online: tuple[int, ...]) -> set[int]:
    """What the cgroup lets root choose from; isolated CPUs are in no task's inherited affinity."""
    # Of version 2, and of version 1, where older kernels have the last one alone.
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    # A group without the controller has what the next one above it has.
    for folder in cgroup_folders("cpuset", sys=sys, proc=proc):
        for name in names:
            if cpus := set(read_cpus(folder / name)) & set(online):
                return cpus
    return set(online)


def _read_lines(path: Path) -> list[str]:
    """Lines as they are: in `read_text` a word in brackets would stand for the whole file."""
    try:
        return read_file(path).strip().splitlines()
    except OSError:
        return []


def read_governor(cpu: int, *, sys: Path = SYS) -> str | None:
    """The frequency governor of a CPU; None when the machine has none to choose from.

    "unknown: REASON" where it cannot be read.
    """
    path = _governor_file(cpu, sys)
    return file_text(path) if path.exists() else None


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
    return tuple(numbered_entries(sys / "bus/pci/devices" / address / "msi_irqs"))


def move_interrupts(
    journal: Journal, cpus: Iterable[int], *, sys: Path = SYS, proc: Path = PROC
) -> None:
    """Have interrupts served by other CPUs for this run, those of devices that come later too.

    Some belong to one CPU, or their driver has spread them: those stay, see `interrupts_on`.
    """
    avoided = set(cpus)
    online = {cpu.number for cpu in read_topology(sys=sys, proc=proc).cpus}
    if not (others := online - avoided):
        raise HostError(
            "no processor is left for interrupts",
            where="cores.irqs",
            cure="leave a processor to the system, or leave irqs out",
        )
    default = proc / "irq/default_smp_affinity"
    usual = parse_mask(read_text(default)) - avoided or others
    write_value(journal, default, _format_mask(usual), kind="irq-default")
    for number in interrupts_on(avoided, proc=proc):
        file = proc / f"irq/{number}/smp_affinity_list"
        served = set(read_cpus(file))
        if _accepts(file, format_cpus(served)):
            with contextlib.suppress(HostError):  # it may have gone with its device meanwhile
                write_value(journal, file, format_cpus(served - avoided or others))


def interrupts_on(cpus: Iterable[int], *, proc: Path = PROC) -> dict[int, str]:
    """Interrupts that CPUs may serve: number -> what they are of.

    One that was moved is served elsewhere from the next time on that it comes.
    """
    cpu_set, users_by_interrupt = set(cpus), {}
    for number, directory in numbered_entries(proc / "irq").items():
        if cpu_set & set(read_cpus(directory / "smp_affinity_list")):
            users = sorted(path.name for path in directory.glob("*/"))
            users_by_interrupt[number] = ", ".join(users)
    return users_by_interrupt


def _accepts(file: Path, value: str) -> bool:
    """Whether the kernel lets an interrupt be moved: it refuses even what is already so if not."""
    try:
        file.write_text(value)
    except OSError:
        return False
    return True


def parse_mask(mask: str) -> set[int]:
    """CPUs of a mask as the kernel has it, "00000000,0000000f"; none where a text is no mask."""
    digits = mask.strip().replace(",", "")
    bits = int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]+", digits) else 0
    return {number for number in range(bits.bit_length()) if bits >> number & 1}


def _format_mask(cpus: Iterable[int]) -> str:
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


def explain_no_cpusets(mounts: Path = PROC_MOUNTS) -> str:
    """What keeps a run from making cpusets; nothing on the machine is changed to have them."""
    top = cgroup_root(mounts)
    if top is None:
        return "no cgroup v2 file system is mounted"
    try:
        delegated = read_file(top / "cgroup.subtree_control").split()
        available = read_file(top / "cgroup.controllers").split()
    except OSError as error:
        return f"{top} cannot be read: {error.strerror}"
    if "cpuset" not in available:
        return f"{top} has no cpuset controller (cgroup v1 may have it)"
    if "cpuset" not in delegated:
        return f"{top}/cgroup.subtree_control does not hand cpuset on"
    return "" if os.access(top, os.W_OK) else f"{top} is read-only"


def create_cpuset(
    journal: Journal, name: str, cpus: Iterable[int], *, mounts: Path = PROC_MOUNTS
) -> Path:
    """Make a group whose processes run on some processors only."""
    top, trouble = cgroup_root(mounts), explain_no_cpusets(mounts)
    if top is None or trouble:
        raise HostError(f"no cpuset can be made: {trouble}", where=f"cgroup {name}")
    group, requested = top / name, format_cpus(cpus)
    with journal.changing("cgroup", f"cgroup {group}", {"path": str(group)}):
        with HostError.explain_os_error("the cpuset could not be made", where=str(group)):
            group.mkdir()
            (group / "cpuset.cpus").write_text(requested)
            effective = read_file(group / "cpuset.cpus.effective").strip()
        if effective != requested:
            raise HostError(
                f"processors {requested} were requested for the cpuset, and it has "
                f"{effective or 'none'}",
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
