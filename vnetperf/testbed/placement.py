"""Which thread runs on which core: pure, deterministic, with its reason.

A poll-mode thread wants a physical core of its own, on the node its memory is on. Where there are
too few, pollers share cores: the tester and the switch's PMD take turns on one (each needs the
other's work done anyway), VNFs run on the rest, and short scheduler slices keep the turns short.
"""

from __future__ import annotations

from vnetperf.model.errors import CapabilityError
from vnetperf.model.machine import CpuFacts, MachineFacts
from vnetperf.model.plan import Placement, RoleDemand
from vnetperf.model.testbed import CoresConfig


def place(demands: tuple[RoleDemand, ...], config: CoresConfig, facts: MachineFacts) -> Placement:
    """Choose processors.

    Args:
        demands: Roles that want cores, in order of importance.
        config: The testbed's wishes.
        facts: The machine.

    Returns:
        The placement.

    Raises:
        CapabilityError: When cores are asked for that are not there, or sharing is refused.
    """
    cpus = _allowed(config, facts)
    wanted = sum(demand.threads for demand in demands)
    if config.policy != "shared":
        dedicated = _dedicated(demands, config, cpus, facts, wanted)
        if dedicated is not None:
            return dedicated
        if config.policy == "dedicated":
            raise CapabilityError(
                f"{wanted} dedicated cores and one for the system are needed on one NUMA node; "
                f"there are {len(_physical(cpus))} physical cores",
                where="cores.policy",
                accepted='"auto" shares cores when there are too few',
                cure='set cores.policy = "auto" in the testbed file, or allow more cores',
            )
    return _shared(demands, config, cpus, facts, wanted)


def _allowed(config: CoresConfig, facts: MachineFacts) -> list[CpuFacts]:
    known = {cpu.cpu: cpu for cpu in facts.cpus}
    for key, cpus in (("allowed", config.allowed), ("housekeeping", config.housekeeping)):
        strange = sorted(set(cpus) - set(known))
        if strange:
            raise CapabilityError(
                f"processor {strange[0]} is not there or not allowed for this process",
                where=f"cores.{key}",
                accepted=", ".join(map(str, sorted(known))),
                cure="name processors this machine has, or leave the key out",
            )
    wanted = dict.fromkeys(config.allowed)  # a number given twice counts once
    chosen = [known[c] for c in wanted] if wanted else list(facts.cpus)
    return sorted(chosen, key=lambda cpu: cpu.cpu)


def _physical(cpus: list[CpuFacts]) -> list[CpuFacts]:
    """One logical processor of each physical core: SMT siblings would share a poller's units."""
    first: dict[int, CpuFacts] = {}
    for cpu in cpus:
        first.setdefault(cpu.core, cpu)
    return list(first.values())


def _dedicated(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    cpus: list[CpuFacts],
    facts: MachineFacts,
    wanted: int,
) -> Placement | None:
    housekeeping = config.housekeeping or (_physical(cpus)[0].cpu,)
    # A housekeeping processor need not be among the allowed, but its sibling may be.
    kept_cores = {cpu.core for cpu in facts.cpus if cpu.cpu in housekeeping}
    free = [cpu for cpu in _physical(cpus) if cpu.core not in kept_cores]
    by_node: dict[int, list[CpuFacts]] = {}
    for cpu in free:
        by_node.setdefault(cpu.node, []).append(cpu)
    # Isolated cores first; then the node with the most room, the lower number on a tie.
    fitting = [
        (sum(c.isolated for c in members), len(members), -node)
        for node, members in by_node.items()
        if len(members) >= wanted
    ]
    if not fitting:
        return None
    node = -max(fitting)[2]
    pool = sorted(by_node[node], key=lambda cpu: (not cpu.isolated, cpu.cpu))
    cores: dict[str, tuple[int, ...]] = {}
    for demand in demands:
        taken, pool = pool[: demand.threads], pool[demand.threads :]
        cores[demand.role] = tuple(cpu.cpu for cpu in taken)
    return Placement(
        mode="dedicated",
        reason=f"{wanted} pollers fit on the {len(by_node[node])} free physical cores of node "
        f"{node}, with processor {housekeeping[0]} left to the system",
        cores=cores,
        housekeeping=housekeeping,
        node=node,
    )


def _shared(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    cpus: list[CpuFacts],
    facts: MachineFacts,
    wanted: int,
) -> Placement:
    numbers = [cpu.cpu for cpu in cpus]
    cores: dict[str, tuple[int, ...]] = {}
    if wanted <= len(numbers):
        pool = list(numbers)
        for demand in demands:
            cores[demand.role] = tuple(pool[: demand.threads])
            pool = pool[demand.threads :]
    else:
        split = 1 if len(numbers) < 3 else 2
        pools = {"switch": numbers[:split], "vnf": numbers[split:] or numbers}
        turn = {"switch": 0, "vnf": 0}
        for demand in demands:
            pool = pools[demand.group]
            picked = [pool[(turn[demand.group] + i) % len(pool)] for i in range(demand.threads)]
            turn[demand.group] += demand.threads
            cores[demand.role] = tuple(dict.fromkeys(picked))
    return Placement(
        mode="shared",
        reason='the testbed file asks for it (cores.policy = "shared")'
        if config.policy == "shared"
        else f"{wanted} pollers and the system share {len(numbers)} processors: "
        f"{wanted + 1} physical cores on one node would be needed",
        cores=cores,
        housekeeping=config.housekeeping or (numbers[0],),
        node=cpus[0].node,
        slice_us=0 if facts.slices else config.slice_us,
        slice_note=facts.slices,
    )
