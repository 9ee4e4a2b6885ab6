"""What a host gives to a plan: NICs, a wire, processors and memory, and what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, Literal

from vnetperf import registry
from vnetperf.deployment.capability_check import attachment_kind, tester_roles
from vnetperf.deployment.pods import switch_class
from vnetperf.model.deployment import Deployment, VnfPort
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.scenario import MemoryPlan, NicUse, Placement, Plan, RoleDemand, Scenario
from vnetperf.model.testbed import VFS_CURE, MachineFacts, NicFacts, Testbed, vfs_kept
from vnetperf.vnfs.base import UserPlane, Vnf

#: Kernel drivers that DPDK works on top of: vfio-pci is nothing for their devices.
BIFURCATED = ("mlx4_core", "mlx5_core", "mana")


def choose_nics(
    scenario: Scenario, testbed: Testbed, facts: MachineFacts, tester: Any, dut: Any
) -> tuple[NicUse, ...]:
    """Choose drivers for the NICs of a scenario; the wire has checked that they are there."""
    uses = []
    far = dut if scenario.deployment.pods else tester  # pods have both ends of a cable
    for wire in wires_of(scenario):
        config = testbed.nics[wire]
        ends: tuple[tuple[Literal["tester", "dut"], str, Any], ...] = (
            ("tester", config.tester, far),
            ("dut", config.dut, dut),
        )
        for side, name, end in ends:
            nic = facts.nic(name)
            if nic is None:
                raise CapabilityError(f"there is no NIC {name}", where=f"nics[{wire}].{side}")
            uses.append(nic_use(wire, side, nic, end, facts, where=f"nics[{wire}].{side}"))
    chosen = tuple(uses)
    if problem := getattr(dut, "nics_missing", lambda *_: "")(chosen, facts, scenario):
        raise CapabilityError(problem, where=dut.name)
    return chosen


def wires_of(scenario: Scenario) -> tuple[int, ...]:
    """Numbers of the wires whose NICs a scenario takes."""
    if not scenario.vswitch:
        return (0,)
    return tuple(port.index for port in scenario.deployment.phy_ports) or (0,)


def preferred_node(nics: tuple[NicUse, ...]) -> int | None:
    """The NUMA node that pollers should be on: the DUT's NICs', or else the tester's."""
    for side in ("dut", "tester"):
        nodes = [nic.node for nic in nics if nic.side == side and nic.node >= 0]
        if nodes:
            return max(sorted(set(nodes)), key=nodes.count)
    return None


def nic_use(
    wire: int,
    side: Literal["tester", "dut"],
    nic: NicFacts,
    end: Any,
    facts: MachineFacts,
    *,
    where: str,
) -> NicUse:
    """A NIC with the first driver that its end wants and the machine has."""
    reasons: list[str] = []
    wanted: tuple[str, ...] = end.capabilities.nic_drivers
    for kind in wanted:
        driver, reason = _driver(kind, nic, facts)
        if driver:
            # They end with the driver that has the NIC.
            why = "" if nic.driver in ("", driver) else vfs_kept(nic.vfs_in_use)
            if why:
                raise CapabilityError(f"{nic.address}: {why}", where=where, cure=VFS_CURE)
            return NicUse(
                wire=wire,
                side=side,
                pci=nic.address,
                driver=driver,
                kernel=kind == "kernel",
                interface=next(iter(nic.interfaces), ""),
                node=nic.node,
                note="; ".join(reasons or ([reason] if reason else [])),
            )
        reasons.append(f"not {kind}: {reason}")
    raise CapabilityError(
        f"{end.name} can use {nic.address} through no driver: "
        + ("; ".join(reasons) or f"{end.name} uses no NICs"),
        where=where,
        accepted=", ".join(wanted) or "none",
    )


def _driver(kind: str, nic: NicFacts, facts: MachineFacts) -> tuple[str, str]:
    """The driver of a kind that a NIC can have, with a note; or "" and why not."""
    if kind == "kernel":
        cure = "install the package with this kernel's modules"
        return nic.kernel_driver, "" if nic.kernel_driver else f"the kernel has none for it; {cure}"
    if nic.kernel_driver in BIFURCATED:
        return "", f"programs use it on top of {nic.kernel_driver}"
    if nic.iommu_group is None:
        return _without_iommu(nic, facts)
    trouble = ""
    for module in ("vfio_pci", "vfio_iommu_type1"):
        if reason := facts.modules.get(module, ""):
            trouble = trouble or f"the kernel has no module {module}: {reason}"
    if nic.group_mates and not trouble:
        trouble = (
            f"IOMMU group {nic.iommu_group} is handed out as a whole, and the kernel drives "
            f"{', '.join(nic.group_mates)} of it; put the NIC into another slot"
        )
    return ("", trouble) if trouble else ("vfio-pci", "")


def _without_iommu(nic: NicFacts, facts: MachineFacts) -> tuple[str, str]:
    why = "the machine has no IOMMU, or it is off (intel_iommu=on, amd_iommu=on)"
    if nic.physical:
        return "", f"{why}, and uio_pci_generic takes no virtual function"
    if trouble := facts.modules.get("uio_pci_generic", ""):
        return "", f"{why}; nor is there uio_pci_generic: {trouble}"
    return "uio_pci_generic", f"without protection by an IOMMU: {why}"


def with_guests(
    placed: Placement, graph: Deployment, numbers: Sequence[int], cpus: tuple[int, ...]
) -> Placement:
    """The placement with processors for guests of endpoints, by the endpoints' numbers."""
    ends = [graph.ends[number] for number in numbers]
    roles = {f"vnf{end.vnf}": cpus for end in ends if isinstance(end, VnfPort)}
    return placed.model_copy(update={"unpinned": {**placed.unpinned, **roles}})


def require_backends(scenario: Scenario, facts: MachineFacts, parts: tuple[str, ...]) -> None:
    """Refuse what a host lacks for its parts of a deployment."""
    users: list[tuple[str, Any]] = []
    if "dut" in parts:
        users.append((scenario.vswitch, switch_class(scenario.deployment, scenario.vswitch)))
    if "tester" in parts:
        users.append((scenario.generator, registry.load("traffic", scenario.generator)))
    graph = scenario.deployment
    if "dut" in parts and (graph.vnf_count or (graph.pods and scenario.ends_in_guests)):
        users.append((scenario.vnf, registry.load_vnf(scenario.vnf)))
    for name, backend in users:
        problem = backend.missing(facts, scenario)
        if problem:
            raise CapabilityError(problem, where=f"{scenario.id}, {name}")


def demands_of(
    scenario: Scenario, testbed: Testbed, parts: tuple[str, ...]
) -> tuple[RoleDemand, ...]:
    """Busy threads of the parts that are on a host."""
    found: list[RoleDemand] = []
    if "tester" in parts:
        generator = registry.load("traffic", scenario.generator)
        found += tester_roles(scenario.generator, generator, testbed)
    if "dut" in parts:
        vnf = registry.load_vnf(scenario.vnf)
        found += switch_class(scenario.deployment, scenario.vswitch).roles(scenario)
        for number in (*scenario.deployment.vnf_numbers, *scenario.through_guests):
            found += vnf.roles(scenario, number)
    return tuple(found)


def with_memory_and_commands(plan: Plan, facts: MachineFacts) -> Plan:
    """The plan with hugepages, and with what is started."""
    scenario = plan.scenario
    vswitch = switch_class(scenario.deployment, scenario.vswitch)
    vnf = registry.load_vnf(scenario.vnf)
    generator = registry.load("traffic", scenario.generator)
    plan = plan.model_copy(update={"memory": _memory(plan, facts, vswitch, vnf, generator)})
    commands = dict(dedicated_commands(plan, facts))
    if plan.has_dut:
        commands |= vswitch.launch_lines(plan, facts)
        guests = (port.vnf for port in plan.guest_ends.values())
        for number in (*scenario.deployment.vnf_numbers, *guests):
            commands |= vnf.launch_lines(plan, facts, number)
    return plan.model_copy(update={"commands": commands})


def require_processors(
    scenario: Scenario, testbed: Testbed, parts: Sequence[str], placement: Placement
) -> None:
    """Refuse more workers than processors, where they were asked for: fewer would pass for as many.

    `testbed` is that of the host of these parts. A generator's own number of
    threads nobody asked for; where programs with sockets talk, it does not run.
    """
    kinds: list[tuple[str, tuple[RoleDemand, ...], str]] = []
    if "dut" in parts:
        vswitch = switch_class(scenario.deployment, scenario.vswitch)
        cure = "set fewer with --set workers=N, or allow more processors under [cores]"
        kinds.append((scenario.vswitch, vswitch.roles(scenario), cure))
    if "tester" in parts and testbed.cores.tester > 1 and not scenario.sockets:
        generator = registry.load("traffic", scenario.generator)
        roles = tester_roles(scenario.generator, generator, testbed)
        cure = "set fewer under cores.tester, or allow more processors under [cores]"
        kinds.append((scenario.generator, roles, cure))
    for name, demands, cure in kinds:
        for demand in demands:
            have = len(placement.cores.get(demand.role, ()))
            if have < demand.threads and not demand.sleeps:
                raise CapabilityError(
                    f"{demand.threads} workers need as many processors; there are {have} for them",
                    where=f"{scenario.id}, {name}",
                    cure=cure,
                )


def dedicated_commands(plan: Plan, facts: MachineFacts) -> dict[str, str]:
    """What is set of dedicated cores, for `--plan`; refuses a governor that they cannot have."""
    cores, pollers = plan.testbed.cores, plan.placement.pollers
    wanted = cores.governor or cores.irqs == "off-pollers"
    if plan.placement.shared or plan.follows or not wanted:
        return {}
    for cpu in (cpu for cpu in facts.cpus if cpu.cpu in pollers and cores.governor):
        if cores.governor not in cpu.governors:
            raise CapabilityError(
                f"processor {cpu.cpu} has no frequency governor {cores.governor}",
                where="cores.governor",
                accepted=", ".join(cpu.governors) or "none: the firmware or a hypervisor decides",
                cure="leave governor out of the testbed file, or name another one",
            )
    settings = [f"governor {cores.governor}"] if cores.governor else []
    settings += ["interrupts elsewhere"] if cores.irqs == "off-pollers" else []
    return {f"processors {', '.join(map(str, pollers))}": ", ".join(settings)}


def require_root(facts: MachineFacts) -> None:
    """Refuse an agent that may change nothing."""
    if not facts.is_root:
        raise CapabilityError(
            "the agent is not root and cannot reserve hugepages or start a switch",
            where="agent",
            cure="run as root, or allow `sudo` without a password for this user",
        )


def choose_wire(
    scenario: Scenario,
    testbed: Testbed,
    facts: MachineFacts,
    ends: tuple[Any, ...],
    place: Callable[[int | None], tuple[Placement, int]],
) -> tuple[str, tuple[NicUse, ...]]:
    """The first of the testbed's wires that both ends accept and the machine can have."""
    candidates = testbed.wires if scenario.wire == "auto" else (scenario.wire,)
    known = registry.names("wires")
    for kind in candidates:
        if kind not in known:
            raise ConfigError(
                f"unknown kind of wire {kind!r}", where="wires", accepted=", ".join(known)
            )
    # Some VNFs have business of their own at the tester's end.
    vnf: type[Vnf] = registry.load_vnf(scenario.vnf) if scenario.deployment.vnf_count else Vnf
    needed = vnf.wires if issubclass(vnf, UserPlane) and scenario.vswitch else ()

    def problem_of(kind: str) -> str:
        if needed and kind not in needed:
            return f"{scenario.vnf} needs {' or '.join(needed)}"
        mode = scenario.options.mode
        like = registry.load("wires", kind).like or kind  # at the tester's end
        kinds = [like, *[kind] * (len(ends) - 1)]
        if without := [
            end.name
            for end, one in zip(ends, kinds, strict=True)
            if one not in wires_taken(end.capabilities, mode)
        ]:
            return f"{' and '.join(without)} cannot plug it in"
        limit = getattr(ends[-1].capabilities, "wire_frame_sizes", {}).get(kind)
        if limit is not None and scenario.largest_on_wire > limit:
            return f"{ends[-1].name} carries frames of up to {limit} octets over it"
        placement, queues = place(None)
        problem: str = ends[0].cannot_plug(
            like, queues, scenario=scenario, placement=placement, testbed=testbed, facts=facts
        )
        return problem or registry.load("wires", kind).missing(facts, scenario, testbed)

    reasons = []
    for kind in candidates:
        problem = problem_of(kind)
        if not problem:
            if not registry.load("wires", kind).takes_nics:
                return kind, ()
            try:
                return kind, choose_nics(scenario, testbed, facts, ends[0], ends[-1])
            except CapabilityError as error:
                problem = str(error)
        reasons.append(f"{kind}: {problem}")
    raise CapabilityError(
        "no wire joins the tester and the vSwitch: " + "; ".join(reasons),
        where=scenario.id,
        accepted=", ".join(
            kind
            for kind in known
            if all(kind in wires_taken(end.capabilities, scenario.options.mode) for end in ends)
        ),
        cure="list another kind under `wires` in the testbed file, or leave --wire out",
    )


def wires_taken(capabilities: Any, mode: str) -> tuple[str, ...]:
    """Wires that an end takes in a mode; "" is its first."""
    of_modes: dict[str, tuple[str, ...]] = getattr(capabilities, "mode_wires", {})
    every: tuple[str, ...] = capabilities.wires
    return of_modes.get(mode or next(iter(getattr(capabilities, "modes", ())), ""), every)


#: A pool of hugepages: NUMA node and size of a page, KiB.
Pool = tuple[int, int]


def _memory(
    plan: Plan, facts: MachineFacts, vswitch: Any, vnf: Any, generator: Any
) -> tuple[MemoryPlan, ...]:
    """Hugepages by node: the pollers' and the NICs' nodes, unless the scenario names others."""
    scenario, placement, size = plan.scenario, plan.placement, plan.testbed.hugepage_kb
    graph = scenario.deployment
    like = registry.load("wires", plan.wire).like or plan.wire
    kinds = [like] if graph.phy_ports else []
    if graph.tester_vnf_ports and plan.has_tester:
        kinds.append(attachment_kind(vswitch, generator.capabilities.attachments))
    pools: dict[Pool, dict[str, int]] = {(placement.node, size): {}}
    mib = generator.hugepage_mib(scenario, tuple(kinds)) if plan.has_tester else 0
    for node in nodes_of(plan, ("tester",)):
        pools.setdefault((node, size), {})[scenario.generator] = mib
    if not plan.has_dut:
        return memory_of_pools(pools, plan, facts)
    # The wire decides too: a poll-mode NIC needs memory where an af_packet interface needs none.
    decided = scenario.model_copy(update={"wire": plan.wire})
    # Rings of a VNF lie in its memory, and a switch may want buffers beside them.
    nodes = dict.fromkeys((*nodes_of(plan, ("dut",)), placement.home_of_vnfs))
    needed = dict.fromkeys(nodes, vswitch.hugepage_mib(decided))
    for node, mib in dict(enumerate(scenario.options.memory_mib)).items() or needed.items():
        pools.setdefault((node, size), {})[scenario.vswitch] = mib
    for number in (*graph.vnf_numbers, *(port.vnf for port in plan.guest_ends.values())):
        role, kind = f"vnf{number}", attachment_kind(vswitch, vnf.accepts(scenario))
        if (memory := vnf.memory(scenario, kind)).mib:
            vnf_size = memory.page_kb or size
            loose = role in placement.unpinned and memory.floats
            homes = placement.nodes if loose else (placement.home_of_vnfs,)
            for node in homes if memory.node is None else (memory.node,):
                pools.setdefault((node, vnf_size), {})[role] = memory.mib
            for node in placement.far_nodes:
                pools.setdefault((node, size), {}).setdefault(role, vnf.far_mib)
    for node in placement.far_nodes:
        pools.setdefault((node, size), {}).setdefault(scenario.vswitch, vswitch.far_mib)
    return memory_of_pools(pools, plan, facts)


def nodes_of(plan: Plan, sides: tuple[str, ...]) -> list[int]:
    """The pollers' node, and those of NICs that programs drive: rings lie where the NIC is."""
    nics = [n.node for n in plan.nics if n.side in sides and not n.kernel and n.node >= 0]
    return list(dict.fromkeys((plan.placement.node, *nics)))


def memory_of_pools(
    pools: dict[Pool, dict[str, int]], plan: Plan, facts: MachineFacts
) -> tuple[MemoryPlan, ...]:
    """Hugepages of each pool that has users."""
    plans = (_memory_of(pool, users, plan, facts) for pool, users in sorted(pools.items()))
    return tuple(memory for memory in plans if memory is not None)


def _memory_of(
    wanted: Pool, demands: dict[str, int], plan: Plan, facts: MachineFacts
) -> MemoryPlan | None:
    node, size_kb = wanted
    users = {user: mib for user, mib in demands.items() if mib}
    pages = sum(ceil(mib * 1024 / size_kb) for mib in users.values())
    if not pages:
        return None
    pool = next((h for h in facts.hugepages if (h.node, h.size_kb) == (node, size_kb)), None)
    if pool is None:
        raise CapabilityError(
            f"the kernel has no hugepages of {size_kb} KiB on node {node}",
            where="hugepage_kb",
            accepted=", ".join(sorted({f"{h.size_kb} on node {h.node}" for h in facts.hugepages}))
            or "none",
        )
    missing_kb = max(0, pages - pool.free) * size_kb
    have_kb = facts.memory_free_kb.get(node)
    if have_kb is not None and missing_kb > have_kb:
        raise CapabilityError(
            f"{missing_kb // 1024} MiB must become hugepages on node {node}, "
            f"but only {have_kb // 1024} MiB are free there",
            where=f"{plan.scenario.id}, memory",
            cure="free memory, reserve hugepages at boot, or choose a deployment with fewer VNFs",
        )
    return MemoryPlan(node=node, size_kb=size_kb, pages=pages, users=users)
