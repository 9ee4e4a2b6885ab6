"""What the kernel lets this process have at most: hugepages, memory, processor time, nodes.

Control groups of both versions; a limit holds for a group and all below it, so that the least of
them counts. What cannot be read is no limit that anybody could tell.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vnetperf.host.cpu import SYS, parse_cpus
from vnetperf.host.linux import PROC
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
    return {"control group": read_limits(sys=sys, proc=proc).model_dump()} | {
        name: [_limit_text(value) for value in resource.getrlimit(kind)]
        for name, kind in PROCESS_LIMITS.items()
    }


def _limit_text(value: int) -> int | str:
    return "unlimited" if value == resource.RLIM_INFINITY else value


def _groups(controller: str, sys: Path, proc: Path) -> Iterator[Path]:
    """Directories of this process's group of a controller and of those above it, where mounted."""
    root = sys / "fs/cgroup"
    for line in _text(proc / "self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controller in controllers.split(","):
            bases = [root / controller, root / controllers]
        elif not controllers and group:
            bases = [root, root / "unified"]
        else:
            continue
        own = Path(group.lstrip("/"))
        for base in dict.fromkeys(bases):
            yield from (base / part for part in (own, *own.parents) if ".." not in part.parts)


def _memory_kb(sys: Path, proc: Path) -> int | None:
    left = []
    for group in _groups("memory", sys, proc):
        for limit, usage in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most = _octets(group / limit)
            if most is not None:
                # The page cache of files is given back when others need it.
                cached = sum(
                    int(value)
                    for name, _, value in map(_words, _text(group / "memory.stat").splitlines())
                    if name in ("active_file", "inactive_file") and value.isdecimal()
                )
                used = (_octets(group / usage) or 0) - cached
                left.append(max(0, most - max(0, used)) // 1024)
    return min(left, default=None)


def _words(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


def _hugepages_kb(sys: Path, proc: Path) -> dict[int, int]:
    left: dict[int, int] = {}
    for group in _groups("hugetlb", sys, proc):
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
    for group in _groups("cpu", sys, proc):
        quota, _, period = _text(group / "cpu.max").partition(" ")
        if not quota:
            quota = _text(group / "cpu.cfs_quota_us")
            period = _text(group / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period):  # "max", or -1, is none
            shares.append(int(quota) / int(period))
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
    text = _text(path)
    value = int(text) if text.isdecimal() else NO_LIMIT
    return value if value < NO_LIMIT else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
