"""Hugepages of a plan: on which nodes, for whom, and whether they can be had there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any, Protocol

from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import MemoryPlan, Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.planning.backends import Backends
from vnetperf.planning.capability_check import attachment_kind
from vnetperf.plugin import registry

#: A pool of hugepages: NUMA node and size of a page, KiB.
Pool = tuple[int, int]
#: Host -> nodes that cannot have the memory that was wanted there.
ShortNodes = Mapping[str, frozenset[int]]


class HugepageShortageError(CapabilityError):
    """Hugepages that a plan wants and cannot have.

    Attributes:
        wire: The plan's kind of wire: over another one it may want fewer.
    """

    wire: str = ""


class MemoryShortageError(HugepageShortageError):
    """A node that cannot have the hugepages that a plan wants there.

    Attributes:
        host: The host, "" where there is one.
        node: The NUMA node.
    """

    host: str = ""
    node: int = 0


def plan_where_memory_is(make: Callable[[ShortNodes], Plan]) -> Plan:
    """A plan whose memory can be had: nodes that turn out to have too little are avoided.

    Args:
        make: Makes a plan, with nodes that are to be taken last.

    Raises:
        MemoryShortageError: A node has too little, and there is no way around it.
    """
    short: dict[str, frozenset[int]] = {}
    first: MemoryShortageError | None = None
    while True:
        try:
            return make(short)
        except MemoryShortageError as error:
            first = first or error
            short_nodes = short.get(error.host, frozenset())
            if error.node in short_nodes:  # it cannot be avoided
                raise first from None
            short[error.host] = short_nodes | {error.node}


class _Planner(Protocol):
    def __call__(self, short: ShortNodes, *, lacking: Mapping[str, str]) -> Plan: ...


def plan_over_first_wire(make: _Planner) -> Plan:
    """A plan over the first of the testbed's wires that memory can be had for.

    Args:
        make: Makes a plan, with nodes that are to be taken last, and with kinds of wire that
            cannot have their memory: kind -> why.

    Raises:
        HugepageShortageError: No wire that fits can have it; of the first one.
    """
    lacking: dict[str, str] = {}
    first: HugepageShortageError | None = None
    while True:
        try:
            return plan_where_memory_is(partial(make, lacking=lacking))
        except HugepageShortageError as error:
            first = first or error
            if error.wire in lacking:  # it was asked for by name
                raise first from None
            lacking = lacking | {error.wire: error.what}
        except CapabilityError:  # no other wire fits
            if first is not None:
                raise first from None
            raise


def plan_memory(plan: Plan, backends: Backends, facts: MachineFacts) -> tuple[MemoryPlan, ...]:
    """Hugepages by node: the pollers' and the NICs' nodes, unless the scenario names others."""
    scenario, placement, size = plan.scenario, plan.placement, plan.testbed.hugepage_kb
    graph, generator = scenario.deployment, backends.generator
    vswitch, vnf = backends.vswitch, backends.vnf
    like = registry.load("wires", plan.wire).like or plan.wire
    kinds = [like] if graph.phy_ports else []
    if graph.tester_vnf_ports and plan.has_tester:
        kinds.append(attachment_kind(backends, generator.capabilities.attachments))
    pools: dict[Pool, dict[str, int]] = {(placement.node, size): {}}
    mib = generator.hugepage_mib(scenario, tuple(kinds)) if plan.has_tester else 0
    for node in list_nodes(plan, ("tester",)):
        pools.setdefault((node, size), {})[scenario.generator] = mib

    def add_fixed(user: str, backend: Any, plugged: Collection[str]) -> None:
        for node, least in backend.fixed_mib(scenario, plugged).items():
            users = pools.setdefault((node, size), {})
            users[user] = max(least, users.get(user, 0))

    if mib:  # without hugepages a program has memory of no node
        add_fixed(scenario.generator, generator, kinds)
    if not plan.has_dut:
        return plan_pool_memory(pools, plan, facts)
    # The wire decides too: a poll-mode NIC needs memory where an af_packet interface needs none.
    decided = scenario.model_copy(update={"wire": plan.wire})
    # Rings of a VNF lie in its memory, and a switch may want buffers beside them.
    nodes = dict.fromkeys((*list_nodes(plan, ("dut",)), placement.vnf_home_node))
    needed = dict.fromkeys(nodes, vswitch.hugepage_mib(decided))
    for node, mib in dict(enumerate(scenario.options.memory_mib)).items() or needed.items():
        pools.setdefault((node, size), {})[scenario.vswitch] = mib
    vnf_kinds = [attachment_kind(backends, vnf.accepts(scenario))] if graph.vnf_count else []
    if not scenario.options.memory_mib:  # else the user says where it is
        add_fixed(scenario.vswitch, vswitch, {*kinds, *vnf_kinds})
    for number in (*graph.vnf_numbers, *(port.vnf for port in plan.guest_ends.values())):
        role, kind = f"vnf{number}", attachment_kind(backends, vnf.accepts(scenario))
        if (memory := vnf.memory(scenario, kind)).mib:
            vnf_size = memory.page_kb or size
            loose = role in placement.unpinned and memory.floats
            homes = _homes(memory.mib, vnf_size, plan, facts) if loose else ()
            homes = homes or (placement.vnf_home_node,)
            for node in homes if memory.node is None else (memory.node,):
                pools.setdefault((node, vnf_size), {})[role] = memory.mib
            for node in placement.far_nodes:
                pools.setdefault((node, size), {}).setdefault(role, vnf.far_mib)
            add_fixed(role, vnf, (kind,))
    for node in placement.far_nodes:
        pools.setdefault((node, size), {}).setdefault(scenario.vswitch, vswitch.far_mib)
    return plan_pool_memory(pools, plan, facts)


def _homes(mib: int, size_kb: int, plan: Plan, facts: MachineFacts) -> tuple[int, ...]:
    """Nodes on which memory that may be anywhere can be had."""
    pages = ceil(mib * 1024 / size_kb)
    candidates = (MemoryPlan(node=n, size_kb=size_kb, pages=pages) for n in plan.placement.nodes)
    return tuple(memory.node for memory in candidates if _shortage(memory, plan, facts) is None)


def list_nodes(plan: Plan, sides: tuple[str, ...]) -> list[int]:
    """The pollers' node, and those of NICs that programs drive: rings lie where the NIC is."""
    nics = [n.node for n in plan.nics if n.side in sides and not n.kernel and n.node >= 0]
    return list(dict.fromkeys((plan.placement.node, *nics)))


def plan_pool_memory(
    pools: Mapping[Pool, Mapping[str, int]], plan: Plan, facts: MachineFacts
) -> tuple[MemoryPlan, ...]:
    """Hugepages of each pool that has users; refuses what cannot be had."""
    memory = tuple(
        MemoryPlan(node=node, size_kb=size_kb, pages=pages, users=users)
        for (node, size_kb), demands in sorted(pools.items())
        if (users := {user: mib for user, mib in demands.items() if mib})
        and (pages := sum(ceil(mib * 1024 / size_kb) for mib in users.values()))
    )
    require_memory(memory, plan, facts)
    return memory


def require_memory(memory: Sequence[MemoryPlan], plan: Plan, facts: MachineFacts) -> None:
    """Refuse hugepages that the kernel has not, has no memory for, or does not let us have.

    Raises:
        MemoryShortageError: A node cannot have them; another may.
        HugepageShortageError: The control group lets this process have fewer.
    """
    for pool in memory:
        if error := _shortage(pool, plan, facts):
            error.host, error.node, error.wire = plan.host, pool.node, plan.wire
            raise error
    for size_kb, left_kb in facts.limits.hugepages_kb.items():
        wanted_kb = sum(pool.pages * size_kb for pool in memory if pool.size_kb == size_kb)
        if wanted_kb > left_kb:
            limited = HugepageShortageError(
                f"{wanted_kb // 1024} MiB of hugepages of {size_kb} KiB are needed, and the "
                f"control group of this process lets it have {left_kb // 1024} MiB",
                where=f"{plan.scenario.id}, memory",
                cure="raise hugetlb.*.max of the control group (of a container: "
                "its limits of hugepages), or run outside of it",
            )
            limited.wire = plan.wire
            raise limited


def _shortage(memory: MemoryPlan, plan: Plan, facts: MachineFacts) -> MemoryShortageError | None:
    """Why a node cannot have hugepages, and what to do about it; None where it can."""
    node, size_kb, where = memory.node, memory.size_kb, f"{plan.scenario.id}, memory"
    pool = next((h for h in facts.hugepages if (h.node, h.size_kb) == (node, size_kb)), None)
    if pool is None:
        pools = sorted({(h.size_kb, h.node) for h in facts.hugepages})
        return MemoryShortageError(
            f"the kernel has no hugepages of {size_kb} KiB on node {node}",
            where="hugepage_kb",
            accepted=", ".join(f"{size} on node {node}" for size, node in pools) or "none",
            cure="set hugepage_kb to one of these, in the testbed file or for the guest (--guest)",
        )
    if facts.limits.nodes is not None and node not in facts.limits.nodes:
        return MemoryShortageError(
            f"this process may take no memory on node {node}",
            where=where,
            accepted=f"nodes {', '.join(map(str, facts.limits.nodes))}",
            cure="allow the node in its control group (cpuset.mems)",
        )
    missing_kb = max(0, memory.pages - pool.free) * size_kb
    have_kb = facts.memory_free_kb.get(node)
    if have_kb is not None and missing_kb > have_kb:
        return MemoryShortageError(
            f"{missing_kb // 1024} MiB must become hugepages on node {node}, "
            f"but only {have_kb // 1024} MiB are free there: {', '.join(memory.users)} "
            f"{'need' if len(memory.users) > 1 else 'needs'} {memory.pages * size_kb // 1024} MiB",
            where=where,
            cure="free memory, reserve hugepages at boot, or choose another wire, or a deployment "
            "with fewer VNFs",
        )
    return None
