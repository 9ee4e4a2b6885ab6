"""The inventory of a machine: processors, memory, NICs, programs, kernel modules, versions."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

from vnetperf import registry
from vnetperf.host import cpu, hugepages, kernel, limits, nic
from vnetperf.host.environment import VARIABLES
from vnetperf.host.facts import attempt, file_text, unknown
from vnetperf.host.facts.hardware import collect
from vnetperf.host.linux import PROC, boot_id, why_mounts_stay_writable
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
from vnetperf.host.threads import why_no_slices
from vnetperf.host.xdp import why_no_bpf, why_no_tcx
from vnetperf.model.testbed import (
    EXTRAS,
    LOCATED_AT,
    CpuFacts,
    HugepageFacts,
    MachineFacts,
    Program,
    Testbed,
)
from vnetperf.virt import images

NO_BUILD_ID = unknown("the program has none")


def take_inventory(testbed: Testbed) -> MachineFacts:
    """Read all facts of this machine; nothing is changed."""
    declared = {program.name: program for program in COMMON_PROGRAMS} | registry.programs()
    modules = {module.name: module for module in kernel.COMMON_MODULES} | registry.kernel_modules()
    found = find_programs(declared.values(), testbed.programs)
    # A missing optional one matters only to a scenario that requires it.
    paths = {n: one.path for n, one in found.items() if one.path or not declared[n].optional}
    seen: dict[str, object] = {}
    for backend in registry.backends().values():
        if (looked := backend.look(testbed)) is not None:
            seen[backend.name] = looked
        if first := next(iter(getattr(backend, "programs", ())), None):
            paths[first.name] = backend.external_program(testbed, paths.get(first.name, ""))
    versions = {name: program.version for name, program in found.items() if program.version}
    topology = cpu.read_topology()
    pools = hugepages.pools()
    versions |= _builds(declared.values(), paths) | _python_packages()
    software = attempt(lambda: software_facts(declared.values(), paths))
    return MachineFacts(
        boot=boot_id(),
        cpus=tuple(
            CpuFacts(
                cpu=c.number,
                core=min(c.siblings),
                node=c.node,
                isolated=c.isolated,
                governors=cpu.available_governors(c.number),
            )
            for c in topology.allowed
        ),
        hugepages=tuple(
            HugepageFacts(node=p.node, size_kb=p.size_kb, total=p.total, free=p.free) for p in pools
        ),
        memory_free_kb=_free_memory(),
        distances=_distances(),
        limits=limits.read_limits(),
        is_root=os.geteuid() == 0,
        slices=why_no_slices(),
        confinement=why_mounts_stay_writable(),
        bpf=why_no_bpf(),
        tcx=why_no_tcx(),
        programs=paths,
        versions=versions,
        program_troubles={name: one.problem for name, one in found.items() if one.problem},
        libraries={
            name: linked_libraries(paths[name])
            for name, program in declared.items()
            if program.records_libraries and paths.get(name)
        },
        modules={name: kernel.module_problem(module) for name, module in modules.items()},
        nics=nic.inventory(),
        noiommu=kernel.has_noiommu(),
        seen=seen,
        images=images.problems(),
        record=collect()
        | {
            "software": software,
            "variables": VARIABLES.facts(),
            "programs": _programs(paths, versions),
            "limits": attempt(limits.limit_facts),
            "runs as root": attempt(lambda: _as_root(paths, versions)),
        },
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
    found = {}
    for name in (program.name for program in programs if program.records_build):
        path = paths.get(name, "")
        with contextlib.suppress(OSError):
            if path.startswith(LOCATED_AT):
                found[name] = path
            elif path:
                file = Path(path).stat()
                found[name] = (
                    f"{path}, {file.st_size} octets of {file.st_mtime_ns // 1_000_000_000}"
                )
    return found


def _programs(paths: dict[str, str], versions: dict[str, str]) -> dict[str, object]:
    """Build of each program, and the version of those that print it."""
    found: dict[str, object] = {}
    for name, path in paths.items():
        if not path.startswith("/"):  # missing, or a server of somebody else's
            continue
        build = attempt(partial(build_id, Path(path))) or NO_BUILD_ID
        printed = versions.get(name, "").splitlines()[:1]
        version_entry = {"version": printed[0]} if printed else {}
        found[name] = {"path": path, "build id": build, **version_entry}
    return found


def _python_packages() -> dict[str, str]:
    """Versions of Python packages that only some scenarios require."""
    found = {}
    for package in EXTRAS:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _free_memory(*, sys: Path = cpu.SYS, proc: Path = PROC) -> dict[int, int]:
    """Memory that could become hugepages, by node: free pages and files' cache, in KiB.

    Nodes that tell nothing are left out: the planner then does not check.
    """
    files = {
        int(path.name.removeprefix("node")): path / "meminfo"
        for path in (sys / "devices/system/node").glob("node[0-9]*")
    }
    if len(files) < 2:  # memory added while running may be missing in the node's own figures
        kb = _meminfo(proc / "meminfo").get("MemAvailable")
        return {} if kb is None else {next(iter(files), 0): kb}
    free: dict[int, int] = {}
    for node, file in files.items():
        values = _meminfo(file)
        if "MemFree" in values:
            # What lies in memory file systems (Shmem) is no cache, though FilePages counts it.
            cached = values.get("Active(file)", 0) + values.get("Inactive(file)", 0)
            free[node] = values["MemFree"] + cached
    return free


def _meminfo(file: Path) -> dict[str, int]:
    """Figures in KiB of the machine's memory or of a node's, whose lines begin with its name."""
    values: dict[str, int] = {}
    for line in file_text(file).splitlines():
        name, _, rest = line.partition(":")
        figure = rest.split()[:1]
        if figure and figure[0].isdecimal():
            values[name.split()[-1]] = int(figure[0])
    return values


def _distances(*, sys: Path = cpu.SYS) -> dict[int, dict[int, int]]:
    """Distances of NUMA nodes; rows that are no numbers, one for each node, are left out."""
    files = {
        int(path.name.removeprefix("node")): path / "distance"
        for path in (sys / "devices/system/node").glob("node[0-9]*")
    }
    nodes, found = sorted(files), {}
    for node in nodes:
        row = file_text(files[node]).split()
        if len(row) == len(nodes) and all(one.isdecimal() for one in row):
            found[node] = dict(zip(nodes, map(int, row), strict=True))
    return found
