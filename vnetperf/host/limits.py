"""What the kernel lets this process have at most: hugepages, memory, processor time, processes.

Control groups of both versions; a limit holds for a group and all below it, so that the least of
them counts. Of the process's own limits (`ulimit`) those that a run cannot raise. What cannot be
read is no limit that anybody could tell.
"""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any

from vnetperf.host.cpu import SYS, parse_cpus
from vnetperf.host.linux import (
    LEAST_OPEN_FILES,
    PROC,
    cgroup_folders,
    parse_number,
    read_capabilities,
    read_mounts,
    try_read,
)
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Limits

#: Numbers from here on are how version 1 writes "no limit", octets.
NO_LIMIT = 1 << 60
_UNITS_KB = {"KB": 1, "MB": 1 << 10, "GB": 1 << 20, "TB": 1 << 30}
#: A file with a limit of hugepages, as faulted in or as reserved: version 2's, and version 1's.
_HUGETLB = re.compile(
    r"hugetlb\.(?P<size>\d+)(?P<unit>[KMGT]B)\.(?P<reserved>rsvd\.)?(max|limit_in_bytes)"
)
#: Limits of processes that DPDK, QEMU and others run into, by resource.getrlimit's names.
PROCESS_LIMITS = {
    "open files": resource.RLIMIT_NOFILE,
    "locked memory, octets": resource.RLIMIT_MEMLOCK,
    "address space, octets": resource.RLIMIT_AS,
    "data, octets": resource.RLIMIT_DATA,
    "processes": resource.RLIMIT_NPROC,
    "file size, octets": resource.RLIMIT_FSIZE,
    "realtime priority": resource.RLIMIT_RTPRIO,
}


def read_limits(*, sys: Path = SYS, proc: Path = PROC) -> Limits:
    """The limits of this process: of its control groups, of the machine, and its own."""
    return Limits(
        memory_kb=_memory_kb(sys, proc),
        hugepages_in_memory=_hugepages_in_memory(proc),
        hugepages_kb=_hugepages_kb(sys, proc),
        processors=_processors(sys, proc),
        nodes=_nodes(proc),
        tasks=_tasks(sys, proc),
        **_process_limits(proc),
    )


def limit_facts(*, sys: Path = SYS, proc: Path = PROC) -> dict[str, Any]:
    """All limits for the record: of control groups, and of the process (soft and hard)."""
    process_fields = {field for field, _, _ in _OWN.values()}
    of_group = read_limits(sys=sys, proc=proc).model_dump(mode="json", exclude=process_fields)
    return {"control group": of_group} | {
        name: [_limit_text(value) for value in resource.getrlimit(kind)]
        for name, kind in PROCESS_LIMITS.items()
    }


def _limit_text(value: int) -> int | str:
    return "unlimited" if value == resource.RLIM_INFINITY else value


def _memory_kb(sys: Path, proc: Path) -> int | None:
    free_kb = []
    for group in cgroup_folders("memory", sys=sys, proc=proc):
        for limit, usage in (
            ("memory.max", "memory.current"),
            ("memory.high", "memory.current"),  # beyond it processes stand still to give some back
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most = _octets(group / limit)
            if most is not None:
                # Caches are given back when others need memory: of files, and of the kernel.
                cached = sum(
                    parse_number(value) or 0
                    for name, _, value in map(_words, try_read(group / "memory.stat").splitlines())
                    if name in ("active_file", "inactive_file", "slab_reclaimable")
                )
                used = (_octets(group / usage) or 0) - cached
                free_kb.append(max(0, most - max(0, used)) // 1024)
    return min(free_kb, default=None)


def _hugepages_in_memory(proc: Path) -> bool:
    """Whether control groups of version 2 count hugepages as memory (from Linux 6.7 on)."""
    try:
        mounts = read_mounts(proc / "self/mountinfo")
    except OSError:
        return False
    return any("memory_hugetlb_accounting" in words[-1].split(",") for words in mounts if words)


def _words(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


def _hugepages_kb(sys: Path, proc: Path) -> dict[int, int]:
    free_kb: dict[int, int] = {}
    for group in cgroup_folders("hugetlb", sys=sys, proc=proc):
        for file in _files(group, "hugetlb.*"):
            match, most = _HUGETLB.fullmatch(file.name), _octets(file)
            if match is None or most is None:
                continue
            stem = f"hugetlb.{match['size']}{match['unit']}.{match['reserved'] or ''}"
            usage = _octets(group / f"{stem}current")
            usage = usage if usage is not None else _octets(group / f"{stem}usage_in_bytes")
            size_kb = int(match["size"]) * _UNITS_KB[match["unit"]]
            kb = max(0, most - (usage or 0)) // 1024
            free_kb[size_kb] = min(kb, free_kb.get(size_kb, kb))
    return free_kb


def _files(directory: Path, pattern: str) -> list[Path]:
    try:
        return sorted(directory.glob(pattern))
    except OSError:
        return []


def _processors(sys: Path, proc: Path) -> float | None:
    shares = []
    for group in cgroup_folders("cpu", sys=sys, proc=proc):
        text = try_read(group / "cpu.max")
        if not text:
            text = f"{try_read(group / 'cpu.cfs_quota_us')} {try_read(group / 'cpu.cfs_period_us')}"
        quota, period = map(parse_number, text.partition(" ")[::2])
        if quota and period and min(quota, period) > 0:  # "max", or -1, is none
            shares.append(quota / period)
    return min(shares, default=None)


def _tasks(sys: Path, proc: Path) -> int | None:
    """Processes and threads that may be started: of control groups, and of the whole machine.

    RLIMIT_NPROC holds for no process with the rights that a run needs (fork(2)).
    """
    free_tasks = []
    for group in cgroup_folders("pids", sys=sys, proc=proc):
        if (most := _octets(group / "pids.max")) is not None:
            free_tasks.append(most - (_octets(group / "pids.current") or 0))
    # "0.20 0.18 0.12 1/80 11206": of 80 that there are, one runs.
    existing = parse_number(try_read(proc / "loadavg").partition("/")[2].partition(" ")[0])
    for name in ("threads-max", "pid_max"):
        most = _octets(proc / "sys/kernel" / name)
        if most is not None and existing is not None:
            free_tasks.append(most - existing)
    return max(0, min(free_tasks)) if free_tasks else None


#: Limits of a process, by their names in /proc/self/limits -> field, what one is there, and the
#: capability that frees of it.
_OWN = {
    "Max address space": ("address_kb", 1024, ""),
    "Max data size": ("data_kb", 1024, ""),
    "Max locked memory": ("locked_kb", 1024, "IPC_LOCK"),
    "Max file size": ("file_kb", 1024, ""),
    "Max open files": ("open_files", 1, ""),
}
#: What the user namespace of the machine itself maps: all users to themselves.
_ALL_USERS = ["0", "0", "4294967295"]


def _process_limits(proc: Path) -> dict[str, int]:
    """Limits of each process that nobody here can raise; a run raises the others (raise_limits)."""
    capabilities = read_capabilities(proc=proc) or frozenset()
    # In a user namespace of its own root has the capability, and may raise nothing all the same.
    everywhere = try_read(proc / "self/uid_map").split() == _ALL_USERS
    if "SYS_RESOURCE" in capabilities and everywhere:
        return {}
    limits = {}
    for line in try_read(proc / "self/limits").splitlines():
        field, unit, freed_by = _OWN.get(line[:_NAME_WIDTH].strip(), ("", 1, ""))
        soft, _, hard = line[_NAME_WIDTH:].partition(" ")
        most = parse_number(hard.split()[0]) if hard.split() else None
        if field and most is not None and not (freed_by in capabilities and everywhere):
            if field == "open_files":  # raised to no more than programs are made for
                most = min(most, max(parse_number(soft) or 0, LEAST_OPEN_FILES))
            limits[field] = most // unit
    return limits


#: Width of the first column of /proc/self/limits (fs/proc/base.c).
_NAME_WIDTH = 26


def _nodes(proc: Path) -> tuple[int, ...] | None:
    for line in try_read(proc / "self/status").splitlines():
        name, _, value = line.partition(":")
        if name == "Mems_allowed_list":
            try:
                return parse_cpus(value) or None
            except HostError:
                return None
    return None


def _octets(path: Path) -> int | None:
    """A limit or a usage; None for no limit, and where there is no such file."""
    value = parse_number(try_read(path))
    return value if value is not None and 0 <= value < NO_LIMIT else None
