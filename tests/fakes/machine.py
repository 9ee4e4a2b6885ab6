"""Machines that do not exist, as the planner sees them."""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType

from vnetperf.model.testbed import CpuFacts, HugepageFacts, MachineFacts

PROGRAMS = {
    name: f"/usr/bin/{name}"
    for name in (
        *(
            "ovs-vswitchd-dpdk",
            "ovs-vswitchd",
            "ovsdb-server",
            "ovs-vsctl",
            "ovs-ofctl",
            "ovsdb-tool",
        ),
        *("dpdk-testpmd", "gcc", "pkg-config", "clang"),
    )
}
VERSIONS = {
    "ovs-vswitchd-dpdk": "ovs-vswitchd (Open vSwitch) 3.1.0\nDPDK 22.11.7",
    "ovs-vswitchd": "ovs-vswitchd (Open vSwitch) 3.1.0",
}


def cpus(
    cores: int, *, smt: int = 1, nodes: int = 1, isolated: Collection[int] = ()
) -> tuple[CpuFacts, ...]:
    """Processors numbered as Linux does: first threads of all cores, then their siblings."""
    return tuple(
        CpuFacts(
            cpu=thread * cores + core,
            core=core,
            node=core * nodes // cores,
            isolated=thread * cores + core in isolated,
        )
        for thread in range(smt)
        for core in range(cores)
    )


def facts(cores: int = 8, *, nodes: int = 1, **changes: object) -> MachineFacts:
    """A machine that can carry every shipped scenario, but for the changes."""
    whole = MachineFacts(
        cpus=cpus(cores, nodes=nodes),
        hugepages=tuple(
            HugepageFacts(node=n, size_kb=kb, total=0, free=0)
            for n in range(nodes)
            for kb in (2048, 1048576)
        ),
        memory_free_kb=dict.fromkeys(range(nodes), 16 << 20),
        is_root=True,
        programs=PROGRAMS,
        versions=VERSIONS,
        record={"cpu": "a processor", "kernel": {"release": "6.6.6"}},
    )
    return whole.model_copy(update=changes)


def forget_cached(module: ModuleType) -> None:
    """Have a module read the machine again: empty the caches of its functions."""
    for function in vars(module).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()
