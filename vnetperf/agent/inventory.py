"""The inventory of a machine: processors, memory, NICs, programs, kernel modules, versions."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TypeVar

from vnetperf.host import cpu, hugepages, kernel, limits, nic
from vnetperf.host.environment import VARIABLES
from vnetperf.host.facts import attempt, describe_error, file_text, read_meminfo, unknown
from vnetperf.host.facts.hardware import collect
from vnetperf.host.facts.security import lockdown_mode
from vnetperf.host.linux import (
    PROC,
    boot_id,
    explain_writable_mounts,
    is_root,
    missing_capabilities,
    numbered_entries,
    parse_number,
)
from vnetperf.host.programs import (
    COMMON_PROGRAMS,
    build_id,
    find_programs,
    linked_libraries,
    no_package,
    owning_packages,
    python_distributions,
    software_facts,
)
from vnetperf.host.threads import explain_no_slices
from vnetperf.host.xdp import explain_no_bpf, explain_no_tcx
from vnetperf.model.testbed import (
    EXTRAS,
    LOCATED_AT,
    CpuFacts,
    HugepageFacts,
    Limits,
    MachineFacts,
    Program,
    Testbed,
)
from vnetperf.plugin import registry
from vnetperf.virt import images

log = logging.getLogger(__name__)
T = TypeVar("T")

NO_BUILD_ID = unknown("the program has none")


class _Parts:
    """Takes an inventory part by part: what fails costs its own part, and is told in the record."""

    def __init__(self) -> None:
        self.unreadable: dict[str, str] = {}

    def read(self, name: str, function: Callable[[], T]) -> T | None:
        """What a function finds; None if it fails, and the reason is kept."""
        try:
            return function()
        except Exception as error:
            log.debug("the inventory lacks %s", name, exc_info=True)
            self.unreadable[name] = unknown(describe_error(error))
            return None

    def read_reason(self, name: str, function: Callable[[], str]) -> str:
        """Why something cannot be used, which is so too where that cannot be found out."""
        return self.read(name, function) or self.unreadable.get(name, "")


def take_inventory(testbed: Testbed) -> MachineFacts:
    """Read all facts of this machine; nothing is changed.

    No file and no program can end it: what cannot be read is left out, or "unknown: REASON", and
    `record["unreadable"]` has all of these reasons.
    """
    parts = _Parts()
    declared = {program.name: program for program in COMMON_PROGRAMS} | registry.programs()
    modules = {module.name: module for module in kernel.COMMON_MODULES} | registry.kernel_modules()
    programs = find_programs(declared.values(), testbed.programs)
    # A missing optional one matters only to a scenario that requires it.
    paths = {
        n: located.path
        for n, located in programs.items()
        if located.path or not declared[n].optional
    }
    backend_facts: dict[str, object] = {}
    for name, backend in registry.backends().items():
        looked = parts.read(f"what {name} looks at", partial(backend.look, testbed))
        if looked is not None:
            backend_facts[backend.name] = looked
        if first := next(iter(getattr(backend, "programs", ())), None):
            paths[first.name] = backend.external_program(testbed, paths.get(first.name, ""))
    versions = {name: program.version for name, program in programs.items() if program.version}
    topology = parts.read("processors", cpu.read_topology) or _flat_topology()
    pool_troubles: list[str] = []
    pools = parts.read("hugepages", lambda: hugepages.pools(troubles=pool_troubles)) or ()
    parts.unreadable |= {
        f"processors, {n}": reason for n, reason in enumerate(topology.troubles, 1)
    }
    parts.unreadable |= {f"hugepages, {n}": reason for n, reason in enumerate(pool_troubles, 1)}
    versions |= _builds(declared.values(), paths) | _python_packages()
    software = attempt(lambda: software_facts(declared.values(), paths))
    lacks = () if os.geteuid() else missing_capabilities()
    nic_troubles: dict[str, str] = {}
    facts = MachineFacts(
        boot=parts.read("the boot's identity", boot_id) or "",
        cpus=tuple(
            CpuFacts(
                cpu=c.number,
                core=min(c.siblings),
                node=c.node,
                isolated=c.isolated,
                governors=cpu.available_governors(c.number),
                kind=c.kind,
            )
            for c in topology.allowed
        ),
        hugepages=tuple(
            HugepageFacts(node=p.node, size_kb=p.size_kb, total=p.total, free=p.free) for p in pools
        ),
        memory_free_kb=parts.read("free memory", read_free_memory) or {},
        distances=parts.read("distances of nodes", read_distances) or {},
        limits=parts.read("limits of control groups", limits.read_limits) or Limits(),
        is_root=is_root(),
        lacks=lacks,
        slices=parts.read_reason("slices", explain_no_slices),
        confinement=parts.read_reason("confinement", explain_writable_mounts),
        bpf=parts.read_reason("BPF", explain_no_bpf),
        tcx=parts.read_reason("tcx", explain_no_tcx),
        programs=paths,
        versions=versions,
        program_troubles={
            name: located.problem for name, located in programs.items() if located.problem
        },
        libraries={
            name: linked_libraries(paths[name])
            for name, program in declared.items()
            if program.records_libraries and paths.get(name)
        },
        modules={
            name: parts.read_reason(f"module {name}", partial(kernel.module_problem, module))
            for name, module in modules.items()
        },
        nics=parts.read("NICs", lambda: nic.inventory(nic_troubles)) or (),
        noiommu=bool(parts.read("vfio without an IOMMU", kernel.has_noiommu)),
        lockdown=read_lockdown(),
        seen=backend_facts,
        images=parts.read("guest images", images.problems) or {},
        record=collect()
        | {
            "software": software,
            "variables": VARIABLES.facts(),
            "programs": _programs(paths, versions),
            "limits": attempt(limits.limit_facts),
            "runs as root": attempt(lambda: _as_root(paths, versions)),
        },
    )
    unreadable = parts.unreadable | nic_troubles
    record = facts.record | ({"unreadable": unreadable} if unreadable else {})
    return facts.model_copy(update={"record": record})


def read_lockdown(*, sys: Path = cpu.SYS) -> str:
    """What the kernel is locked down for; "" where it is not, or does not tell."""
    mode = lockdown_mode(sys / "kernel/security")
    return mode if mode in ("integrity", "confidentiality") else ""


def _flat_topology() -> cpu.CpuTopology:
    """The processors that this process may use, of which nothing else is known."""
    return cpu.CpuTopology(
        tuple(
            cpu.Cpu(number, number, cpu.NO_PACKAGE, 0, (number,), isolated=False, allowed=True)
            for number in sorted(os.sched_getaffinity(0))
        )
    )


def _as_root(paths: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, object]:
    """What of this machine's software a run executes as root, or may: a bill of materials.

    Programs of users in guests and containers are not in it, nor libraries of programs.
    """
    files = {name: path for name, path in paths.items() if path.startswith("/")}
    packages = owning_packages([sys.executable, *files.values()])
    components: dict[str, object] = {}
    for name, path in sorted(files.items()):
        printed = versions.get(name, "").splitlines()[:1]
        components[name] = ", ".join((path, *printed, packages.get(path, no_package())))
    python = f"{os.path.realpath(sys.executable)}, {platform.python_version()}"
    points = entry_points()
    owners = {
        id(point.dist): point.dist
        for family in registry.FAMILIES
        for point in points.select(group=f"vnetperf.{family}")
        if point.dist is not None
    }
    plugins = [owner.name for owner in owners.values()]  # a distribution parses a file for it
    return {
        "kernel": platform.release(),
        "python": f"{python}, {packages.get(sys.executable, no_package())}",
        "python package versions": python_distributions("vnetperf", *EXTRAS, *plugins),
        "built here with versions": {
            name: build
            for name in registry.names("traffic")
            if (build := registry.load("traffic", name).identity())
        },
        "programs with versions": components,
    }


def _builds(programs: Iterable[Program], paths: Mapping[str, str]) -> dict[str, str]:
    """What identifies a build of a program: a stored calibration is of one."""
    builds = {}
    for name in (program.name for program in programs if program.records_build):
        path = paths.get(name, "")
        with contextlib.suppress(OSError):
            if path.startswith(LOCATED_AT):
                builds[name] = path
            elif path:
                file = Path(path).stat()
                builds[name] = (
                    f"{path}, {file.st_size} octets of {file.st_mtime_ns // 1_000_000_000}"
                )
    return builds


def _programs(paths: dict[str, str], versions: dict[str, str]) -> dict[str, object]:
    """Build of each program, and the version of those that print it."""
    records: dict[str, object] = {}
    for name, path in paths.items():
        if not path.startswith("/"):  # missing, or a server of somebody else's
            continue
        build = attempt(partial(build_id, Path(path))) or NO_BUILD_ID
        printed = versions.get(name, "").splitlines()[:1]
        version_entry = {"version": printed[0]} if printed else {}
        records[name] = {"path": path, "build id": build, **version_entry}
    return records


def _python_packages() -> dict[str, str]:
    """Versions of Python packages that only some scenarios require."""
    versions = {}
    for package in EXTRAS:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def read_free_memory(*, sys: Path = cpu.SYS, proc: Path = PROC) -> dict[int, int]:
    """Memory that could become hugepages, by node: free pages and files' cache, in KiB.

    Nodes that tell nothing are left out: the planner then does not check.
    """
    nodes = numbered_entries(sys / "devices/system/node", "node")
    if len(nodes) < 2:  # memory added while running may be missing in the node's own figures
        kb = read_meminfo(proc / "meminfo").get("MemAvailable")
        return {} if kb is None else {next(iter(nodes), 0): kb}
    free: dict[int, int] = {}
    for node, folder in nodes.items():
        values = read_meminfo(folder / "meminfo")
        if "MemFree" in values:
            # What lies in memory file systems (Shmem) is no cache, though FilePages counts it.
            cached = values.get("Active(file)", 0) + values.get("Inactive(file)", 0)
            free[node] = values["MemFree"] + cached
    return free


def read_distances(*, sys: Path = cpu.SYS) -> dict[int, dict[int, int]]:
    """Distances of NUMA nodes; rows that are no numbers, one for each node, are left out."""
    nodes, distances = numbered_entries(sys / "devices/system/node", "node"), {}
    for node, folder in nodes.items():
        row = [*map(parse_number, file_text(folder / "distance").split())]
        numbers = [number for number in row if number is not None]
        if len(numbers) == len(row) == len(nodes):
            distances[node] = dict(zip(nodes, numbers, strict=True))
    return distances
