"""What the kernel lets this process have at most: hugepages, memory, processor time, nodes.

Control groups of both versions; a limit holds for a group and all below it, so that the least of
them counts. What cannot be read is no limit that anybody could tell.
"""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any

from vnetperf.host.cpu import SYS, parse_cpus
from vnetperf.host.linux import PROC, cgroup_folders, parse_number, read_file
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
    """The limits of this process's control groups."""
    return Limits(
        memory_kb=_memory_kb(sys, proc),
        hugepages_kb=_hugepages_kb(sys, proc),
        processors=_processors(sys, proc),
        nodes=_nodes(proc),
    )


def limit_facts(*, sys: Path = SYS, proc: Path = PROC) -> dict[str, Any]:
    """All limits for the record: of control groups, and of the process (soft and hard)."""
    return {"control group": read_limits(sys=sys, proc=proc).model_dump(mode="json")} | {
        name: [_limit_text(value) for value in resource.getrlimit(kind)]
        for name, kind in PROCESS_LIMITS.items()
    }


def _limit_text(value: int) -> int | str:
    return "unlimited" if value == resource.RLIM_INFINITY else value


def _memory_kb(sys: Path, proc: Path) -> int | None:
    left = []
    for group in cgroup_folders("memory", sys=sys, proc=proc):
        for limit, usage in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most = _octets(group / limit)
            if most is not None:
                # Caches are given back when others need memory: of files, and of the kernel.
                cached = sum(
                    parse_number(value) or 0
                    for name, _, value in map(_words, _text(group / "memory.stat").splitlines())
                    if name in ("active_file", "inactive_file", "slab_reclaimable")
                )
                used = (_octets(group / usage) or 0) - cached
                left.append(max(0, most - max(0, used)) // 1024)
    return min(left, default=None)


def _words(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


def _hugepages_kb(sys: Path, proc: Path) -> dict[int, int]:
    left: dict[int, int] = {}
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
            left[size_kb] = min(kb, left.get(size_kb, kb))
    return left


def _files(directory: Path, pattern: str) -> list[Path]:
    try:
        return sorted(directory.glob(pattern))
    except OSError:
        return []


def _processors(sys: Path, proc: Path) -> float | None:
    shares = []
    for group in cgroup_folders("cpu", sys=sys, proc=proc):
        text = _text(group / "cpu.max")
        if not text:
            text = f"{_text(group / 'cpu.cfs_quota_us')} {_text(group / 'cpu.cfs_period_us')}"
        quota, period = map(parse_number, text.partition(" ")[::2])
        if quota and period and min(quota, period) > 0:  # "max", or -1, is none
            shares.append(quota / period)
    return min(shares, default=None)


def _nodes(proc: Path) -> tuple[int, ...] | None:
    for line in _text(proc / "self/status").splitlines():
        name, _, value = line.partition(":")
        if name == "Mems_allowed_list":
            try:
                return parse_cpus(value) or None
            except HostError:
                return None
    return None


def _octets(path: Path) -> int | None:
    """A limit or a usage; None for no limit, and where there is no such file."""
    value = parse_number(_text(path))
    return value if value is not None and 0 <= value < NO_LIMIT else None


def _text(path: Path) -> str:
    try:
        return read_file(path).strip()
    except OSError:
        return ""
