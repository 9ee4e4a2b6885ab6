"""Places roles on CPU cores.

Dedicated or shared, near a NIC, where memory can be had, and VNFs on the same or another NUMA node.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, groupby, islice, zip_longest

from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.scenario import Placement, RoleDemand, Scenario, VnfPlacement
from vnetperf.model.testbed import CoresConfig, CpuFacts, MachineFacts

#: Largest distance of NUMA nodes that are parts of one socket (sub-NUMA clusters, nodes by L3
#: cache), where one's own is 10; other sockets are at 20 and more.
NEAR_DISTANCE = 12


def place_roles(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    facts: MachineFacts,
    near: int | None = None,
    only: int | None = None,
    *,
    short: Collection[int] = (),
) -> Placement:
    """Choose processors, pollers' on one NUMA node only if it is named; the system's on any.

    Nodes in `short` cannot have the memory that is wanted there, and are taken last.
    """
    cpus = allowed_cpus(config, facts)
    short = {*short, *_list_nodes_without_memory(facts)}
    eligible = [cpu for cpu in cpus if only in {None, cpu.node}]
    threads = _count_threads(demands)
    if config.policy != "shared":
        nodes = sorted({cpu.node for cpu in eligible})
        dedicated = _place_dedicated(demands, config, cpus, facts, near, nodes=nodes, short=short)
        if dedicated is not None:
            return _note_shortage(dedicated, short, eligible)
        if config.policy == "dedicated":
            raise CapabilityError(
                f"{threads} dedicated cores and one for the system are needed on one NUMA node, or "
                f"on nodes near each other; there are {len(_physical(eligible))} physical cores",
                where="cores.policy",
                accepted='"auto" shares cores when there are too few',
                cure='set cores.policy = "auto" in the testbed file, or allow more cores',
            )
    return _note_shortage(
        _place_shared(demands, config, eligible, facts, near, short=short), short, eligible
    )


def _note_shortage(
    placement: Placement, short: Collection[int], cpus: Sequence[CpuFacts]
) -> Placement:
    """The placement with a note where nodes were avoided for their memory."""
    avoided = sorted({cpu.node for cpu in cpus} & {*short})
    if not avoided or placement.node in avoided:
        return placement
    nodes = f"node {avoided[0]}" if len(avoided) == 1 else f"nodes {', '.join(map(str, avoided))}"
    return _add_reason(placement, f"too little memory can be had on {nodes}")


def _list_nodes_without_memory(facts: MachineFacts) -> set[int]:
    """Nodes that have processors and no memory, neither free nor as hugepages."""
    pages = {pool.node for pool in facts.hugepages if pool.free}
    free = facts.memory_free_kb
    return {node for node in facts.nodes if free.get(node) == 0 and node not in pages}


def _count_threads(demands: tuple[RoleDemand, ...]) -> int:
    return sum(demand.threads for demand in demands)


def allowed_cpus(config: CoresConfig, facts: MachineFacts) -> list[CpuFacts]:
    """Processors that may be used."""
    facts_by_number = {cpu.cpu: cpu for cpu in facts.cpus}
    for key, cpus in (("allowed", config.allowed), ("housekeeping", config.housekeeping)):
        strange = sorted(set(cpus) - set(facts_by_number))
        if strange:
            raise ConfigError(
                f"processor {strange[0]} is not there or not allowed for this process",
                where=f"cores.{key}",
                accepted=", ".join(map(str, sorted(facts_by_number))),
                cure="name processors this machine has, or leave the key out",
            )
    numbers = dict.fromkeys(config.allowed)  # a number given twice counts once
    chosen = [facts_by_number[c] for c in numbers] if numbers else list(facts.cpus)
    return sorted(chosen, key=lambda cpu: cpu.cpu)


def _physical(cpus: list[CpuFacts]) -> list[CpuFacts]:
    """One logical processor of each physical core: SMT siblings would share a poller's units."""
    first: dict[int, CpuFacts] = {}
    for cpu in cpus:
        first.setdefault(cpu.core, cpu)
    return list(first.values())


def _place_dedicated(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    cpus: list[CpuFacts],
    facts: MachineFacts,
    near: int | None,
    *,
    nodes: list[int],
    short: Collection[int],
) -> Placement | None:
    """Cores of one NUMA node for all, else of nodes near each other; None where they are too few.

    A node without the memory is taken where no other will do: whoever plans memory refuses it.
    """
    threads = _count_threads(demands)
    node_of = {cpu.cpu: cpu.node for cpu in facts.cpus}
    fitting = []
    for node in nodes:
        housekeeping, free = _split_processors((node,), config, cpus, facts, threads)
        for kind, pool in _pools(free, threads) if housekeeping else ():
            isolated = min(sum(cpu.isolated for cpu in pool), threads)
            # Where the memory is; isolated cores first, which somebody has chosen; then the fastest
            # of one kind; then the NICs' node; then the system's core beside them, since what it
            # allocates for the pollers is local to it; then the most room, the lower number on a
            # tie.
            local = node_of[housekeeping[0]] == node
            rank = (node not in short, isolated, -kind, node == near, local, len(pool), -node)
            fitting.append((rank, housekeeping, pool))
    best = max(fitting, key=lambda offer: offer[0], default=None)
    if best is None or not best[0][0]:
        spread = _place_over_near_nodes(
            demands, config, cpus, facts, near, nodes=nodes, short=short
        )
        if spread is not None:
            return spread
    if best is None:
        return None
    (*_, minus_node), housekeeping, pool = best
    node, room, rest = -minus_node, len(pool), (cpu.cpu for cpu in pool)
    cores = {demand.role: tuple(islice(rest, demand.threads)) for demand in demands}
    return Placement(
        mode="dedicated",
        reason=f"{threads} pollers fit on the {room} free physical cores of node "
        f"{node}, with processor {housekeeping[0]} left to the system"
        + _describe_kinds(pool[:threads])
        + _far(near, {node}),
        cores=cores,
        housekeeping=housekeeping,
        dut=tuple(demand.role for demand in _select_group(demands, "switch")),
        turn_us=config.turn_us,
        node=node,
        nodes=_nodes(facts),
        emulated=_emulated(facts),
    )


def _place_over_near_nodes(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    cpus: list[CpuFacts],
    facts: MachineFacts,
    near: int | None,
    *,
    nodes: list[int],
    short: Collection[int],
) -> Placement | None:
    """Cores of as few nodes near each other as have enough; memory is on the first of them.

    Of one kind where that is enough, the fastest.
    """
    threads = _count_threads(demands)
    fitting = []
    for home in (node for node in nodes if node not in short):
        distance = facts.distances.get(home, {})
        others = [n for n in nodes if n != home and distance.get(n, 255) <= NEAR_DISTANCE]
        others.sort(key=lambda n: (n in short, distance[n], n))
        for count in range(1, len(others) + 1):
            group = (home, *others[:count])
            housekeeping, free = _split_processors(group, config, cpus, facts, threads)
            farthest = max(distance[n] for n in group[1:])
            for kind, pool in _pools(free, threads) if housekeeping else ():
                cores = _deal_by_node(demands, group, pool)
                if cores is not None:
                    rank = (kind, count, home != near, farthest, home)
                    fitting.append((rank, group, housekeeping, cores))
    if not fitting:
        return None
    (*_, farthest, home), group, housekeeping, cores = min(fitting, key=lambda offer: offer[0])
    numbers = {cpu for cpus_of_role in cores.values() for cpu in cpus_of_role}
    pollers = [cpu for cpu in facts.cpus if cpu.cpu in numbers]
    used = {cpu.node for cpu in pollers}
    return Placement(
        mode="dedicated",
        reason=f"{threads} pollers fit on free physical cores of nodes "
        f"{', '.join(map(str, sorted(group)))}, which are near each other (distance {farthest}), "
        f"with processor {housekeeping[0]} left to the system; memory is on node {home}"
        + _describe_kinds(pollers)
        + _far(near, used),
        cores=cores,
        housekeeping=housekeeping,
        dut=tuple(demand.role for demand in _select_group(demands, "switch")),
        turn_us=config.turn_us,
        node=home,
        nodes=_nodes(facts),
        far_nodes=tuple(sorted(used - {home})),
        emulated=_emulated(facts),
    )


def _pools(free: Sequence[CpuFacts], threads: int) -> list[tuple[int, list[CpuFacts]]]:
    """Cores of each kind that has enough, the fastest first, with its rank; all come last.

    With cores of several kinds, a poller's place decides what it can do.
    """
    kinds = sorted({cpu.kind for cpu in free})
    pools = [(kind, [cpu for cpu in free if cpu.kind == kind]) for kind in kinds]
    pools.append((max(kinds, default=0) + 1, [*free]))
    return [(kind, pool) for kind, pool in pools if len(pool) >= threads]


def _deal_by_node(
    demands: tuple[RoleDemand, ...], nodes: Sequence[int], pool: list[CpuFacts]
) -> dict[str, tuple[int, ...]] | None:
    """Cores of each role on one node if one has room for it; the vSwitch's are on the first.

    Returns:
        Role -> processors; None where the cores, or those of the first node, are too few.
    """
    room = {node: [cpu.cpu for cpu in pool if cpu.node == node] for node in nodes}
    switch = _select_group(demands, "switch")
    if len(pool) < _count_threads(demands) or len(room[nodes[0]]) < _count_threads(switch):
        return None
    cores: dict[str, tuple[int, ...]] = {}
    for demand in (*switch, *_select_group(demands, "vnf"), *_select_group(demands, "tester")):
        roomy = next((n for n in nodes if len(room[n]) >= demand.threads), None)
        order = [roomy] if roomy is not None else nodes
        picked = [*islice((cpu for node in order for cpu in room[node]), demand.threads)]
        room = {node: [cpu for cpu in room[node] if cpu not in picked] for node in nodes}
        cores[demand.role] = tuple(picked)
    return {demand.role: cores[demand.role] for demand in demands}


def _split_processors(
    nodes: Sequence[int],
    config: CoresConfig,
    cpus: list[CpuFacts],
    facts: MachineFacts,
    threads: int,
) -> tuple[tuple[int, ...], list[CpuFacts]]:
    """Housekeeping and the cores left for pollers, if these nodes were chosen."""
    on_nodes = _physical([cpu for cpu in cpus if cpu.node in nodes])
    housekeeping = config.housekeeping
    if not housekeeping:
        elsewhere = _physical([cpu for cpu in cpus if cpu.node not in nodes])
        choice = on_nodes if len(on_nodes) > threads else elsewhere
        if not choice:
            return (), []
        # One of the slowest: pollers need the others more.
        first = min(choice, key=lambda cpu: (cpu.isolated, -cpu.kind, cpu.cpu))
        housekeeping = (first.cpu,)
    kept_cores = _list_cores(housekeeping, facts)
    free = [cpu for cpu in on_nodes if cpu.core not in kept_cores]
    return housekeeping, sorted(free, key=lambda cpu: (not cpu.isolated, cpu.kind, cpu.cpu))


def _list_cores(numbers: Collection[int], facts: MachineFacts) -> set[int]:
    """Cores of processors: one that is not among the allowed may have a sibling that is."""
    return {cpu.core for cpu in facts.cpus if cpu.cpu in numbers}


def _place_shared(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    cpus: list[CpuFacts],
    facts: MachineFacts,
    near: int | None,
    *,
    short: Collection[int],
) -> Placement:
    threads = _count_threads(demands)
    order = _best_first(cpus, threads, near, short)
    kept = set(config.housekeeping)
    order = sorted(order, key=lambda cpu: cpu.cpu in kept)  # the system's come last
    numbers = [cpu.cpu for cpu in order]
    cores, siblings = _deal_out(demands, order)
    reason = (
        'the testbed file requires it (cores.policy = "shared")'
        if config.policy == "shared"
        else f"{threads} pollers and the system share {len(cpus)} processors: "
        f"{threads + 1} physical cores on one node would be needed"
    )
    used = [cpu for cpu in order if cpu.cpu in set().union(*cores.values())]
    return Placement(
        mode="shared",
        reason=reason + _compromises(used) + _far(near, {cpu.node for cpu in used}),
        cores=cores,
        housekeeping=config.housekeeping or (_choose_system_processor(demands, cores, numbers),),
        siblings_of_dut=siblings,
        dut=tuple(demand.role for demand in _select_group(demands, "switch")),
        turn_us=config.turn_us,
        node=order[0].node,
        nodes=_nodes(facts),
        far_nodes=tuple(sorted({cpu.node for cpu in used} - {order[0].node})),
        slice_us=0 if facts.slices else config.slice_us,
        slice_note=facts.slices,
        emulated=_emulated(facts),
    )


def _select_group(demands: tuple[RoleDemand, ...], group: str) -> tuple[RoleDemand, ...]:
    return tuple(demand for demand in demands if demand.group == group)


def _choose_system_processor(
    demands: tuple[RoleDemand, ...], cores: dict[str, tuple[int, ...]], numbers: Sequence[int]
) -> int:
    """A processor for the system: one that no poller has, else the tester's.

    Its loss of time is a load that is not offered, and so is seen.
    """
    polled = {cpu for cpus in cores.values() for cpu in cpus}
    tester = [cpu for d in _select_group(demands, "tester") for cpu in cores[d.role]]
    return next((cpu for cpu in numbers if cpu not in polled), [*numbers, *tester][-1])


def _deal_out(
    demands: tuple[RoleDemand, ...], order: Sequence[CpuFacts]
) -> tuple[dict[str, tuple[int, ...]], bool]:
    """Processors of each role, where they are too few for all: the first are the DUT's.

    It has them alone if one is left for the others, and its cores as well if another core is left.
    Of the others VNFs come first and the tester last, beside the system.

    Returns:
        Role -> processors, and whether others run on hardware threads of the DUT's cores.
    """
    dut, vnfs, tester = (_select_group(demands, group) for group in ("switch", "vnf", "tester"))
    numbers, alone, siblings = [cpu.cpu for cpu in order], _count_threads(dut), False
    if alone >= len(numbers):  # none is left: the others are where the fewest of the DUT's are
        rest = [*reversed(numbers)]
        pools = [(dut, [*numbers]), (tester, rest), (vnfs, rest[1:] + rest[:1])]
    else:
        dut_cores = {cpu.core for cpu in order[:alone]}
        apart = [cpu.cpu for cpu in order[alone:] if cpu.core not in dut_cores]
        siblings = not apart
        rest = (apart or numbers[alone:])[: _count_threads(vnfs) + _count_threads(tester)]
        # A VNF costs less a frame than the tester, which has the last ones for itself if it can.
        tester_count = min(_count_threads(tester), len(rest) - 1) if vnfs else len(rest)
        tester_cpus = rest[-tester_count:] if tester_count else rest
        others = rest[:-tester_count] if tester_count and vnfs else rest
        pools = [(dut, numbers[:alone]), (vnfs, others), (tester, tester_cpus)]
    cores: dict[str, tuple[int, ...]] = {}
    for members, pool in pools:
        turn = 0
        for demand in members:
            picked = [pool[(turn + i) % len(pool)] for i in range(demand.threads)]
            turn += demand.threads
            # Two poll-mode threads of one role cannot be on one processor: OVS starts one only.
            cores[demand.role] = tuple(dict.fromkeys(picked))
    return {demand.role: cores[demand.role] for demand in demands}, siblings


def _emulated(facts: MachineFacts) -> bool:
    """Whether a poller that never sleeps holds up whatever runs on other processors."""
    return facts.record.get("virtual_lab") is True


def _best_first(
    cpus: list[CpuFacts], threads: int, near: int | None, short: Collection[int]
) -> list[CpuFacts]:
    """Processors in the order to take them: one node if it has enough, siblings after cores."""
    by_node: dict[int, list[CpuFacts]] = {}
    for cpu in sorted(cpus, key=lambda c: (c.node in short, c.node, c.kind, c.cpu)):
        by_node.setdefault(cpu.node, []).append(cpu)

    def rank(node: int) -> tuple[bool, bool, bool, bool, int]:
        members = by_node[node]
        few = len(_physical(members)) < threads
        return node in short, few, len(members) < threads, node != near, node

    best = min(by_node, key=rank)
    enough = len(by_node[best]) >= threads
    candidates = by_node[best] if enough else [*chain.from_iterable(by_node.values())]
    first = _physical(candidates)
    return first + [cpu for cpu in candidates if cpu not in first]


def _compromises(used: list[CpuFacts]) -> str:
    """What else than taking turns disturbs the pollers."""
    text = ""
    if len(_physical(used)) < len(used):
        text += "; pollers sit on SMT siblings"
    text += _describe_kinds(used)
    nodes = sorted({cpu.node for cpu in used})
    if len(nodes) > 1:
        text += f"; pollers sit on several nodes ({', '.join(map(str, nodes))})"
    return text


def _describe_kinds(used: Sequence[CpuFacts]) -> str:
    """A note when pollers are on cores of several kinds, which are not equally fast."""
    by_kind: dict[int, list[str]] = {}
    for cpu in sorted(used, key=lambda processor: (processor.kind, processor.cpu)):
        by_kind.setdefault(cpu.kind, []).append(str(cpu.cpu))
    if len(by_kind) < 2:
        return ""
    groups = " and ".join(f"processor(s) {', '.join(cpus)}" for cpus in by_kind.values())
    return f"; pollers sit on cores of several kinds, the fastest first: {groups}"


def _far(near: int | None, nodes: set[int]) -> str:
    """A note when pollers are not where the NICs are."""
    if near is None or nodes <= {near}:
        return ""
    return f"; the NICs are on node {near}: every frame crosses between nodes"


def _nodes(facts: MachineFacts) -> tuple[int, ...]:
    return tuple(sorted({*facts.nodes, *(pool.node for pool in facts.hugepages)}))


VNF_PLACEMENT_KEY = "vnf_placement"


def place_scenario(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    facts: MachineFacts,
    near: int | None,
    scenario: Scenario,
    *,
    short: Collection[int] = (),
) -> Placement:
    """Choose processors, those of the vSwitch's threads and of VNFs as requested.

    Nodes in `short` cannot have the memory that is wanted there, and are taken last.
    """
    where, vnfs = scenario.options.placement, scenario.vnf_placement
    if where is None:
        return place_with_vnfs(demands, config, facts, near, vnfs, short=short)
    switch = _select_group(demands, "switch")
    others = tuple(demand for demand in demands if demand not in switch)
    # A node with room for all, if there is one: nobody requires it.
    hint = config.model_copy(update={"policy": "auto"} if config.policy == "dedicated" else {})
    home = place_with_vnfs(demands, hint, facts, near, vnfs, short=short)
    preferred = near if home.shared else home.node
    placed = place_with_vnfs(others, config, facts, preferred, vnfs, short=short)
    threads, pool = _count_threads(switch), _list_switch_processors(where, placed, config, facts)
    if problem := _find_switch_problem(where, threads, pool, placed):
        raise CapabilityError(
            f"placement = {where}: {problem}",
            where=f"{scenario.id}, options of {scenario.vswitch}",
            cure="leave placement out, "
            + ("" if threads > 1 else "--set workers=2 or more, ")
            + "or a machine with more cores",
        )
    cores, rest = {}, iter(pool)
    for demand in switch:
        cores[demand.role] = tuple(cpu.cpu for cpu in islice(rest, demand.threads))
    nodes = {cpu.node for cpu in pool[:threads]} - {placed.node}
    update = {
        "cores": placed.cores | cores,
        "dut": tuple(cores),
        "far_nodes": tuple(sorted({*placed.far_nodes, *nodes})),
    }
    on = "both hardware threads of cores" if where == "siblings" else "NUMA nodes in turn"
    return _add_reason(
        placed.model_copy(update=update),
        f"beside them the vSwitch's threads on {on}, as requested" + _far(near, {placed.node}),
    )


def _find_switch_problem(where: str, threads: int, pool: list[CpuFacts], placed: Placement) -> str:
    """Why the threads of a vSwitch cannot be placed so; "" where they can."""
    if threads < 2:
        return f"it is of two poll-mode threads or more, and the vSwitch has {threads or 'none'}"
    if placed.shared:
        return f"it requires dedicated cores, and {placed.reason}"
    if len(pool) >= threads:
        return ""
    kind = "hardware threads with a sibling" if where == "siblings" else "cores on several nodes"
    return f"{threads} threads require as many free {kind}; there are {len(pool)}"


def _list_switch_processors(
    where: str, placed: Placement, config: CoresConfig, facts: MachineFacts
) -> list[CpuFacts]:
    """Processors for the vSwitch's threads beside those of others, in the order to take them."""
    used = {*placed.pollers, *placed.housekeeping}
    cores = _list_cores(used, facts)
    free = [cpu for cpu in allowed_cpus(config, facts) if cpu.core not in cores]
    if where == "siblings":
        return _pairs([cpu for cpu in free if cpu.node == placed.node])
    return _alternate_nodes(_sort_isolated_first(_physical(free)), placed.node)


def _sort_isolated_first(cpus: list[CpuFacts]) -> list[CpuFacts]:
    return sorted(cpus, key=lambda cpu: (not cpu.isolated, cpu.kind, cpu.core, cpu.cpu))


def _pairs(free: list[CpuFacts]) -> list[CpuFacts]:
    """Those that have a sibling, siblings beside each other, isolated ones first."""
    by_core = groupby(_sort_isolated_first(free), key=lambda cpu: (cpu.isolated, cpu.core))
    several = [list(members) for _, members in by_core]
    return [cpu for members in several if len(members) > 1 for cpu in members]


def _alternate_nodes(free: list[CpuFacts], first: int) -> list[CpuFacts]:
    """Processors of NUMA nodes in turn, from a certain one on; none where one node has them all."""
    by_node: dict[int, list[CpuFacts]] = {first: []}
    for cpu in free:
        by_node.setdefault(cpu.node, []).append(cpu)
    if len(by_node) < 2 or not all(by_node.values()):
        return []
    return [cpu for turn in zip_longest(*by_node.values()) for cpu in turn if cpu is not None]


def place_with_vnfs(
    demands: tuple[RoleDemand, ...],
    config: CoresConfig,
    facts: MachineFacts,
    near: int | None,
    vnfs: VnfPlacement,
    *,
    short: Collection[int] = (),
) -> Placement:
    """Choose processors, those of VNFs as requested; nodes in `short` last."""
    vnf_demands = tuple(demand for demand in demands if demand.group == "vnf")
    if vnfs == "auto" or not vnf_demands:
        return place_roles(demands, config, facts, near, short=short)
    others = tuple(demand for demand in demands if demand.group != "vnf")
    if vnfs == "unpinned":
        placed = place_roles(others, config, facts, near, short=short)
        return _unpin_vnfs(placed, vnf_demands, config, facts, short)
    nodes = {cpu.node for cpu in allowed_cpus(config, facts)}
    if len(nodes) < 2:
        raise CapabilityError(
            f"processors of one NUMA node can be used: VNFs cannot be {vnfs} to anything",
            where=VNF_PLACEMENT_KEY,
            cure="measure on a machine with two nodes, or in the virtual lab (docs/machines.md)",
        )
    if vnfs == "local":
        home = place_roles(demands, config, facts, near, short=short).node
        placed = place_roles(demands, config, facts, near, home, short=short)
        return _add_reason(placed, f"VNFs on node {home}, as requested")
    home = place_roles(others, config, facts, near, short=short).node
    kept = place_roles(others, config, facts, near, home, short=short)
    return _place_vnfs_remotely(kept, vnf_demands, config, facts, short)


def _add_reason(placement: Placement, reason: str) -> Placement:
    return placement.model_copy(update={"reason": f"{placement.reason}; {reason}"})


def _unpin_vnfs(
    placement: Placement,
    vnfs: tuple[RoleDemand, ...],
    config: CoresConfig,
    facts: MachineFacts,
    short: Collection[int],
) -> Placement:
    everywhere = tuple(cpu.cpu for cpu in allowed_cpus(config, facts))
    loose = {demand.role: everywhere for demand in vnfs}
    reason = "VNFs are not pinned, as requested: the kernel moves them, onto pollers' cores too"
    # Wherever a thread comes to be, its little memory is, if there can be any.
    nodes = {cpu.node for cpu in allowed_cpus(config, facts)} - {
        *short,
        *_list_nodes_without_memory(facts),
    }
    far = tuple(sorted({*placement.far_nodes, *nodes} - {placement.node}))
    return _add_reason(placement.model_copy(update={"unpinned": loose, "far_nodes": far}), reason)


def _place_vnfs_remotely(
    placement: Placement,
    vnfs: tuple[RoleDemand, ...],
    config: CoresConfig,
    facts: MachineFacts,
    short: Collection[int],
) -> Placement:
    away = [cpu for cpu in allowed_cpus(config, facts) if cpu.node != placement.node]
    by_node = {node: [cpu for cpu in away if cpu.node == node] for node in {c.node for c in away}}
    short = {*short, *_list_nodes_without_memory(facts)}
    node, members = max(
        by_node.items(), key=lambda item: (item[0] not in short, len(_physical(item[1])), -item[0])
    )
    kept_cores = _list_cores(placement.housekeeping, facts)
    cores = _sort_isolated_first([cpu for cpu in _physical(members) if cpu.core not in kept_cores])
    threads = _count_threads(vnfs)
    enough = len(cores) >= threads and config.policy != "shared"
    if config.policy == "dedicated" and not enough:
        raise CapabilityError(
            f"{threads} dedicated cores for VNFs are needed on node {node}; there are {len(cores)}",
            where=VNF_PLACEMENT_KEY,
            cure='set cores.policy = "auto" in the testbed file, or allow more cores',
        )
    pool = cores if enough else cores + [cpu for cpu in members if cpu not in cores]
    picked_cores: dict[str, tuple[int, ...]] = {}
    turn = 0
    for demand in vnfs:
        picked = [pool[(turn + n) % len(pool)].cpu for n in range(demand.threads)]
        picked_cores[demand.role] = tuple(dict.fromkeys(picked))
        turn += demand.threads
    update = {
        "mode": placement.mode if enough else "shared",
        "cores": placement.cores | picked_cores,
        "vnf_node": node,
        "slice_us": placement.slice_us
        if enough or placement.shared or facts.slices
        else config.slice_us,
        "slice_note": placement.slice_note if enough else facts.slices,
    }
    reason = f"VNFs on node {node}, away from the pollers on node {placement.node}, as requested"
    used = {cpu for cpus in picked_cores.values() for cpu in cpus}
    reason += _describe_kinds([cpu for cpu in facts.cpus if cpu.cpu in {*used, *placement.pollers}])
    return _add_reason(placement.model_copy(update=update), reason)
