"""Looks at the machine the agent runs on, for the planner and for the result."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from vnetperf.host import cpu, hugepages, modules, nics
from vnetperf.host.build_id import build_id
from vnetperf.host.fact import attempt, unknown
from vnetperf.host.facts import collect
from vnetperf.host.programs import find_programs, libraries
from vnetperf.host.sched import why_no_slices
from vnetperf.host.values import read_value
from vnetperf.images import image
from vnetperf.model.errors import HostError
from vnetperf.model.machine import AT, LIBVIRT_PYTHON, CpuFacts, HugepageFacts, MachineFacts
from vnetperf.model.testbed import Testbed

NO_BUILD_ID = unknown("the program has none")

#: Generators whose builds tell no version without being started.
SILENT = ("pktgen", "trex")


def take_inventory(testbed: Testbed) -> MachineFacts:
    """Look at this machine; nothing is changed.

    Args:
        testbed: Names programs to use instead of those on PATH.

    Returns:
        The facts.
    """
    paths, versions, troubles = find_programs(
        {
            "ovs-vswitchd-dpdk": testbed.programs.ovs_vswitchd,
            "ovs-vswitchd": testbed.programs.ovs_kernel,
            "ovsdb-server": testbed.programs.ovsdb_server,
            "dpdk-testpmd": testbed.programs.testpmd,
            "vpp": testbed.programs.vpp,
            "trex": testbed.programs.trex,
            "pktgen": testbed.programs.pktgen,
        }
    )
    if testbed.pktgen.server:  # the one that runs there is used, whatever is installed here
        paths["pktgen"] = f"{AT}{testbed.pktgen.server}"
    if testbed.trex.server:  # its client may be beside one that is installed here
        paths["trex"] = paths["trex"] or f"{AT}{testbed.trex.server}"
    topology = cpu.read_topology()
    pools = hugepages.pools()
    versions |= _builds(paths) | _python_packages()
    return MachineFacts(
        cpus=tuple(
            CpuFacts(cpu=c.number, core=min(c.siblings), node=c.node, isolated=c.isolated)
            for c in topology.allowed
        ),
        hugepages=tuple(
            HugepageFacts(node=p.node, size_kb=p.size_kb, total=p.total, free=p.free) for p in pools
        ),
        memory_free_kb=_free_memory(),
        is_root=os.geteuid() == 0,
        slices=why_no_slices(),
        programs=paths,
        versions=versions,
        program_troubles=troubles,
        libraries=libraries(paths),
        modules={name: modules.trouble(name) for name in modules.ASKED},
        nics=nics.inventory(),
        images=image.look(),
        record=collect() | {"programs": _programs(paths, versions)},
    )


def _builds(paths: Mapping[str, str]) -> dict[str, str]:
    """What tells one build of a generator from another: a stored calibration is of one."""
    found = {}
    for name in SILENT:
        path = paths.get(name, "")
        with contextlib.suppress(OSError):
            if path.startswith(AT):
                found[name] = path
            elif path:
                file = Path(path).stat()
                found[name] = (
                    f"{path}, {file.st_size} octets of {file.st_mtime_ns // 1_000_000_000}"
                )
    return found


def _programs(paths: dict[str, str], versions: dict[str, str]) -> dict[str, object]:
    """Which build of each program is there; the version of those that are asked before they run."""
    found: dict[str, object] = {}
    for name, path in paths.items():
        if not path.startswith("/"):  # missing, or a server of somebody else's
            continue
        build = attempt(partial(build_id, Path(path))) or NO_BUILD_ID
        asked = versions.get(name, "").splitlines()[:1]
        told = {"path": path, "build id": build}
        found[name] = told | ({"version": asked[0]} if asked else {})
    return found


def _python_packages() -> dict[str, str]:
    """Versions of Python packages that only some VNFs need."""
    with contextlib.suppress(PackageNotFoundError):
        return {LIBVIRT_PYTHON: version(LIBVIRT_PYTHON)}
    return {}


def _free_memory() -> dict[int, int]:
    """Memory that could become hugepages, by node: free pages and the page cache, in KiB."""
    nodes = cpu.read_topology().nodes
    if len(nodes) == 1:  # memory added while running may be missing in the node's own figures
        text = read_value(Path("/proc/meminfo"))
        return {nodes[0]: int(text.partition("MemAvailable:")[2].split()[0])}
    free: dict[int, int] = {}
    for node in nodes:
        try:
            text = read_value(cpu.SYS / f"devices/system/node/node{node}/meminfo")
        except HostError:
            continue  # a kernel without NUMA: the planner then does not check
        values = {
            line.split(":")[0].split()[-1]: int(line.split(":")[1].split()[0])
            for line in text.splitlines()
            if ":" in line
        }
        free[node] = values.get("MemFree", 0) + values.get("FilePages", 0)
    return free
