"""Where VNFs run, when a user says so: on the pollers' node, on another one, or anywhere."""

from __future__ import annotations

from vnetperf.model.errors import CapabilityError
from vnetperf.model.machine import CpuFacts, MachineFacts
from vnetperf.model.plan import Placement, RoleDemand
from vnetperf.model.scenario import VnfPlacement
from vnetperf.model.testbed import CoresConfig
from vnetperf.testbed.placement import allowed_cpus, place

WHERE = "vnf_placement"


def place_with_vnfs(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    facts: MachineFacts,
    near: int | None,
    vnfs: VnfPlacement,
) -> Placement:
    """Choose processors, those of VNFs as asked for.

    Args:
        demands: Roles that want cores, in order of importance.
        config: The testbed's wishes.
        facts: The machine.
        near: NUMA node to prefer, where the NICs are; None for no preference.
        vnfs: Where VNFs are to be.

    Returns:
        The placement.

    Raises:
        ConfigError: Processors are named that are not there.
        CapabilityError: The machine has no such place.
    """
    mine = tuple(demand for demand in demands if demand.group == "vnf")
    if vnfs == "auto" or not mine:
        return place(demands, config, facts, near)
    others = tuple(demand for demand in demands if demand.group != "vnf")
    if vnfs == "unpinned":
        return _unpinned(place(others, config, facts, near), mine, config, facts)
    nodes = {cpu.node for cpu in allowed_cpus(config, facts)}
    if len(nodes) < 2:
        raise CapabilityError(
            f"processors of one NUMA node can be used: VNFs cannot be {vnfs} to anything",
            where=WHERE,
            cure="measure on a machine with two nodes, or in the virtual lab (docs/lab.md)",
        )
    if vnfs == "local":
        home = place(demands, config, facts, near).node
        found = place(demands, _only(home, config, facts), facts, near)
        return _told(found, f"VNFs on node {home}, as asked for")
    home = place(others, config, facts, near).node
    kept = place(others, _only(home, config, facts), facts, near)
    return _remote(kept, mine, config, facts)


def _only(node: int, config: CoresConfig, facts: MachineFacts) -> CoresConfig:
    """The testbed's wishes with the processors of one node."""
    here = tuple(cpu.cpu for cpu in allowed_cpus(config, facts) if cpu.node == node)
    return config.model_copy(update={"allowed": here})


def _told(placement: Placement, said: str) -> Placement:
    return placement.model_copy(update={"reason": f"{placement.reason}; {said}"})


def _unpinned(
    placement: Placement, vnfs: tuple[RoleDemand, ...], config: CoresConfig, facts: MachineFacts
) -> Placement:
    everywhere = tuple(cpu.cpu for cpu in allowed_cpus(config, facts))
    loose = {demand.role: everywhere for demand in vnfs}
    said = "VNFs are not pinned, as asked for: the kernel moves them, onto pollers' cores too"
    # Wherever a thread comes to be, its little memory must be.
    nodes = {cpu.node for cpu in allowed_cpus(config, facts)}
    far = tuple(sorted({*placement.far_nodes, *nodes} - {placement.node}))
    return _told(placement.model_copy(update={"unpinned": loose, "far_nodes": far}), said)


def _remote(
    placement: Placement, vnfs: tuple[RoleDemand, ...], config: CoresConfig, facts: MachineFacts
) -> Placement:
    away = [cpu for cpu in allowed_cpus(config, facts) if cpu.node != placement.node]
    node = min({cpu.node for cpu in away}, key=lambda n: (-len(_cores(away, n)), n))
    there = [cpu for cpu in away if cpu.node == node]
    cores = [cpu for cpu in _cores(away, node) if cpu.cpu not in placement.housekeeping]
    wanted = sum(demand.threads for demand in vnfs)
    enough = len(cores) >= wanted and config.policy != "shared"
    if config.policy == "dedicated" and not enough:
        raise CapabilityError(
            f"{wanted} dedicated cores for VNFs are needed on node {node}; there are {len(cores)}",
            where=WHERE,
            cure='set cores.policy = "auto" in the testbed file, or allow more cores',
        )
    pool = cores if enough else cores + [cpu for cpu in there if cpu not in cores]
    given: dict[str, tuple[int, ...]] = {}
    turn = 0
    for demand in vnfs:
        picked = [pool[(turn + n) % len(pool)].cpu for n in range(demand.threads)]
        given[demand.role] = tuple(dict.fromkeys(picked))
        turn += demand.threads
    update = {
        "mode": placement.mode if enough else "shared",
        "cores": placement.cores | given,
        "vnf_node": node,
        "slice_us": placement.slice_us
        if enough or placement.shared or facts.slices
        else config.slice_us,
        "slice_note": placement.slice_note if enough else facts.slices,
    }
    said = f"VNFs on node {node}, away from the pollers on node {placement.node}, as asked for"
    return _told(placement.model_copy(update=update), said)


def _cores(cpus: list[CpuFacts], node: int) -> list[CpuFacts]:
    """One logical processor of each physical core of a node."""
    first: dict[int, CpuFacts] = {}
    for cpu in cpus:
        if cpu.node == node:
            first.setdefault(cpu.core, cpu)
    return list(first.values())
