"""Plans a scenario on a testbed: wire, NICs, cores, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, Literal

from vnetperf import registry
from vnetperf.deployment.capability_check import attachment_kind, check_capabilities, tester_roles
from vnetperf.deployment.endpoints import MOVABLE_WIRES
from vnetperf.deployment.hosts import (
    CABLE_OF_NICS,
    WIRE_WITHIN,
    HostShare,
    cable_wire,
    share_ends,
    share_out,
)
from vnetperf.deployment.placement import allowed_cpus, place_roles, place_scenario
from vnetperf.deployment.pods import switch_class
from vnetperf.model.deployment import Deployment, VnfPort
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.nat import NEW_SESSIONS
from vnetperf.model.scenario import MemoryPlan, NicUse, Placement, Plan, RoleDemand, Scenario
from vnetperf.model.testbed import (
    VFS_CURE,
    CoresConfig,
    MachineFacts,
    NicFacts,
    Testbed,
    clocks_apart_s,
    vfs_kept,
)
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
            uses.append(_nic_use(wire, side, nic, end, facts, where=f"nics[{wire}].{side}"))
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


def _nic_use(
    wire: int,
    side: Literal["tester", "dut"],
    nic: NicFacts,
    end: Any,
    facts: MachineFacts,
    *,
    where: str,
) -> NicUse:
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


def make_plan(scenario: Scenario, testbed: Testbed, facts: MachineFacts) -> Plan:
    """Plan a scenario; nothing on the machine is touched."""
    vswitch = switch_class(scenario.deployment, scenario.vswitch)
    generator = registry.load("traffic", scenario.generator)
    vnf = registry.load_vnf(scenario.vnf)
    check_capabilities(scenario, vswitch, vnf, generator)
    apart = scenario.apart  # endpoints talk: there is no tester
    if not apart and (problem := generator.cannot_send(scenario, testbed)):
        raise CapabilityError(
            f"{scenario.generator} cannot send this traffic: {problem}",
            where=f"{scenario.id}, traffic profile {scenario.traffic.name}",
            cure="choose another generator with --generator (loadgen can), or another profile",
        )
    if apart:
        return _plan_ends(scenario, testbed, facts)
    if testbed.hosts:
        return _plan_hosts(scenario, testbed, facts)
    if scenario.deployment.sites:
        raise CapabilityError(
            f"{scenario.deployment.name} has a vSwitch on each of "
            f"{len(scenario.deployment.sites)} hosts, and testbed {testbed.name} is one",
            where=scenario.id,
            cure="--testbed two-hosts has two on this machine; docs/hosts.md describes others",
        )
    _require_root(facts)
    _require_backends(scenario, facts, ("tester", "dut"))
    demands = _demands(scenario, testbed, ("tester", "dut"))

    def place(near: int | None) -> tuple[Placement, int]:
        placed = place_scenario(demands, testbed.cores, facts, near, scenario)
        return placed, vswitch.tx_queues(scenario, placed)

    wire, nics = _choose_wire(scenario, testbed, facts, (generator, vswitch), place)
    placement, queues = place(preferred_node(nics))
    _require_processors(scenario, testbed, ("tester", "dut"), placement)
    cpus = tuple(cpu.cpu for cpu in allowed_cpus(testbed.cores, facts))  # no poller works then
    if scenario.sockets:
        placement = _with_guests(placement, scenario.deployment, scenario.ends_in_guests, cpus)
    plan = Plan(
        scenario=scenario,
        testbed=registry.completed(testbed),
        wire=wire,
        nics=nics,
        placement=placement,
        tester_rx_queues=queues,
        memory=(),
        refusal_is_loss=registry.load("wires", wire).refusal_is_loss,
    )
    return _with_memory_and_commands(plan, facts)


def _with_guests(
    placed: Placement, graph: Deployment, numbers: Sequence[int], cpus: tuple[int, ...]
) -> Placement:
    """The placement with processors for guests of endpoints, by the endpoints' numbers."""
    ends = [graph.ends[number] for number in numbers]
    roles = {f"vnf{end.vnf}": cpus for end in ends if isinstance(end, VnfPort)}
    return placed.model_copy(update={"unpinned": {**placed.unpinned, **roles}})


def _require_backends(scenario: Scenario, facts: MachineFacts, parts: tuple[str, ...]) -> None:
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


def _demands(
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


def _with_memory_and_commands(plan: Plan, facts: MachineFacts) -> Plan:
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


def _cables_with_nics(
    shares: tuple[HostShare, ...],
    own: Mapping[str, Scenario],
    testbed: Testbed,
    facts: MachineFacts,
) -> tuple[tuple[HostShare, ...], dict[str, tuple[NicUse, ...]]]:
    """NICs of each host that are ends of cables, and the shares, with what both ends' drivers are.

    Cables between hosts of namespaces have none.
    """
    if cable_wire(testbed) != CABLE_OF_NICS:
        return shares, {}
    nics: dict[str, tuple[NicUse, ...]] = {}
    by_program: set[int] = set()
    for share in shares:
        scenario, here = own[share.host], facts.hosts[share.host]
        dut = switch_class(scenario.deployment, scenario.vswitch)
        ends = {"dut": dut, "tester": registry.load("traffic", scenario.generator)}
        found: list[NicUse] = []
        for use in share.cables:
            where = f"cables.{use.cable}.ends, {share.host}:{use.nic}"
            nic = here.nic(use.nic)
            if nic is None:
                there = ", ".join(n.address for n in here.nics) or "none"
                raise CapabilityError(
                    f"there is no such NIC; PCI network devices of {share.host}: {there}",
                    where=where,
                    cure="name one of them in the testbed file",
                )
            if why := nic.refusal(isolated=testbed.isolated):
                raise CapabilityError(why, where=where)
            found.append(_nic_use(use.port, use.side, nic, ends[use.side], here, where=where))
            if not found[-1].kernel:
                by_program.add(use.cable)
        nics[share.host] = tuple(found)
        if "dut" in share.parts and (why := dut.nics_missing(nics[share.host], here, scenario)):
            raise CapabilityError(why, where=f"{scenario.vswitch}, host {share.host}")
    seen = tuple(
        replace(
            share,
            cables=tuple(
                use.model_copy(update={"in_kernel": use.cable not in by_program})
                for use in share.cables
            ),
        )
        for share in shares
    )
    return seen, nics


def _plan_hosts(scenario: Scenario, testbed: Testbed, facts: MachineFacts) -> Plan:
    """Plan a scenario over the hosts of a testbed: a plan of the whole, with one for each host."""
    shares = share_out(scenario, testbed)
    testers = [share for share in shares if "tester" in share.parts]
    _require_apart(scenario, testers)
    _require_sessions_here(scenario, testers)
    _require_cable_wire(scenario, testbed, facts, shares)
    own = _scenarios_here(scenario, shares, facts)
    shares, nics = _cables_with_nics(shares, own, testbed, facts)
    placements = _place_hosts(shares, own, testbed, facts, nics)
    testers = sorted((s for s in shares if "tester" in s.parts), key=lambda share: share.ends)
    duts = [share for share in shares if "dut" in share.parts]
    tester = testers[0]
    dut = tester if tester in duts else duts[0]
    bound_s = _clock_bound_s([share.host for share in testers], facts, placements)
    wire, queues = _wire_of_tester(own, testbed, facts, (tester.host, dut.host), placements)
    whole = scenario.deployment if scenario.deployment.sites else None
    plugged = wire if scenario.deployment.tester_vnf_ports else cable_wire(testbed)
    refusal_is_loss = registry.load("wires", plugged).refusal_is_loss
    more = {
        share.host: {
            "scenario": own[share.host],
            "placement": placements[share.host],
            "tester_rx_queues": queues,
            "refusal_is_loss": refusal_is_loss,
            "whole": whole if share in testers else None,
            "ends": share.ends,
            "clock_bound_s": bound_s,
            "nics": nics.get(share.host, ()),
        }
        for share in shares
    }
    plans = _host_plans(shares, more, testbed, facts)
    return _of_all(
        plans,
        scenario=scenario,
        testbed=registry.completed(testbed),
        wire=wire,
        placement=_placement_of_all(tester.host, placements),
        tester_rx_queues=queues,
        refusal_is_loss=plans[0].refusal_is_loss,
        clock_bound_s=bound_s,
    )


def _scenarios_here(
    scenario: Scenario, shares: tuple[HostShare, ...], facts: MachineFacts
) -> dict[str, Scenario]:
    """The scenario with each host's part of the graph; refuses what a host lacks for its part."""
    own = {s.host: scenario.model_copy(update={"deployment": s.deployment}) for s in shares}
    for share in shares:
        _require_root(facts.hosts[share.host])
        _require_backends(own[share.host], facts.hosts[share.host], share.parts)
    return own


def _require_sessions_here(scenario: Scenario, testers: Sequence[HostShare]) -> None:
    """Refuse tests of sessions where the NAT's table is on another host than the tester."""
    if NEW_SESSIONS in scenario.variant.split(",") and not any("dut" in s.parts for s in testers):
        raise CapabilityError(
            "sessions of a NAT on another host are neither counted nor ended between trials",
            where=scenario.id,
            cure="measure on a testbed with tester and NAT on one host",
        )


def _clock_bound_s(
    testers: Sequence[str], facts: MachineFacts, placements: Mapping[str, Placement]
) -> float | None:
    """Most that the clocks of the tester's ports differ by; None where nothing bounds it.

    Hosts of one boot have one clock, which is what their kernels are read for; the counters of two
    sockets are compared within an engine alone, and two hosts have two. Of others the services
    that keep their clocks state it, for now: each trial has what they state at its end.
    """
    if len(testers) == 1:
        return 0.0
    boots = {facts.hosts[host].boot for host in testers}
    nodes = {
        cpu.node
        for host in testers
        for cpu in facts.hosts[host].cpus
        for role, cpus in placements[host].cores.items()
        if role.startswith("tester") and cpu.cpu in cpus
    }
    if len(boots) == len(nodes) == 1 and "" not in boots:
        return 0.0
    return clocks_apart_s([facts.hosts[host].clock for host in testers])


def _require_apart(scenario: Scenario, testers: Sequence[HostShare]) -> None:
    """Refuse what cannot have the tester's ports on two hosts."""
    if len(testers) == 1:
        return
    generator = registry.load("traffic", scenario.generator)
    where = f"{scenario.id}, {' and '.join(share.host for share in testers)}"
    if not generator.capabilities.apart:
        able = [
            name
            for name in registry.names("traffic")
            if registry.load("traffic", name).capabilities.apart
        ]
        raise CapabilityError(
            f"{scenario.generator} has both its ports in one process, and the testbed has a host "
            "for each",
            where=where,
            cure=f"--generator {' or '.join(able)}, or give the tester one host",
        )
    if (queues := scenario.options.rx_queues or 1) > 1:
        raise CapabilityError(
            f"{queues} queues of a port are not told apart at the other host",
            where=where,
            cure="leave rx_queues out, or give the tester one host",
        )


def _plan_ends(scenario: Scenario, testbed: Testbed, facts: MachineFacts) -> Plan:
    """Plan two vSwitches on two hosts with an endpoint at each, and no tester."""
    _require_places_of_ends(scenario)
    shares = share_ends(scenario, testbed)
    shares = tuple(sorted(shares, key=lambda share: share.host))  # the order of locks
    own = _scenarios_here(scenario, shares, facts)
    _require_cable_wire(scenario, testbed, facts, shares)
    shares, nics = _cables_with_nics(shares, own, testbed, facts)
    placements = _place_beside_ends(shares, own, testbed, facts, nics)
    for share in shares:
        numbers = [number for number in share.ends if number in scenario.ends_in_guests]
        if not numbers:
            continue
        here, placed = facts.hosts[share.host], placements[share.host]
        if problem := registry.load_vnf(scenario.vnf).missing(here, own[share.host]):
            raise CapabilityError(problem, where=f"{scenario.id}, host {share.host}")
        free = _unpolled(placed, testbed.of_host(share.host), here)
        placements[share.host] = _with_guests(placed, share.deployment, numbers, free)
    more = {
        share.host: {
            "scenario": own[share.host],
            "placement": placements[share.host],
            "ends": share.ends,
            "nics": nics.get(share.host, ()),
        }
        for share in shares
    }
    plans = _host_plans(shares, more, testbed, facts)
    return _of_all(
        plans,
        scenario=scenario,
        testbed=registry.completed(testbed),
        wire=WIRE_WITHIN,
        placement=_placement_of_all(plans[0].host, placements),
    )


def _require_places_of_ends(scenario: Scenario) -> None:
    """Refuse endpoints in VMs' places where the vSwitch offers them nothing to plug into."""
    if not scenario.deployment.tester_vnf_ports:
        return
    offered = switch_class(scenario.deployment, scenario.vswitch).capabilities.attachments
    vnf: type[Vnf] = registry.load_vnf(scenario.vnf)
    accepts: tuple[str, ...] = MOVABLE_WIRES
    what = "a namespace, which takes an interface of the kernel"
    cure = f"--vnf vloop:vm has them in guests; -k p2c2p_{scenario.vswitch} at its wires"
    if scenario.ends_in_guests:
        accepts = vnf.accepts(scenario)
        what = f"in a guest, which takes {' or '.join(accepts)}"
        cure = f"-k p2c2p_{scenario.vswitch} has the endpoints at its wires"
    if not set(offered) & set(accepts):
        raise CapabilityError(
            f"{scenario.vswitch} offers {' and '.join(offered) or 'nothing'} to VNFs, and an "
            f"endpoint here is {what}",
            where=scenario.id,
            cure=cure,
        )


def _unpolled(placed: Placement, testbed: Testbed, facts: MachineFacts) -> tuple[int, ...]:
    """Processors that no poller has."""
    polled = {cpu for cpus in placed.cores.values() for cpu in cpus}
    return tuple(c.cpu for c in allowed_cpus(testbed.cores, facts) if c.cpu not in polled)


def _place_beside_ends(
    shares: tuple[HostShare, ...],
    own: dict[str, Scenario],
    testbed: Testbed,
    facts: MachineFacts,
    nics: Mapping[str, tuple[NicUse, ...]],
) -> dict[str, Placement]:
    """Processors for two vSwitches, with one that no poller has for the endpoints on each host.

    Where pollers would have them all, they take turns on all but the last.
    """
    placements = _place_hosts(shares, own, testbed, facts, nics)
    allowed = {
        host: [cpu.cpu for cpu in allowed_cpus(testbed.of_host(host).cores, facts.hosts[host])]
        for host in placements
    }

    if all(
        _unpolled(placed, testbed.of_host(host), facts.hosts[host])
        for host, placed in placements.items()
    ):
        return placements
    for host, cpus in allowed.items():
        if len(cpus) < 2:
            raise CapabilityError(
                "endpoints need a processor that no poller has, and there is one alone",
                where=f"{own[host].id}, host {host}",
                cure="allow more processors under [cores] (allowed), use a machine that has more, "
                "or choose a vSwitch in the kernel",
            )

    def without_last(name: str) -> CoresConfig:
        update = {"allowed": tuple(allowed[name][:-1])}
        return testbed.of_host(name).cores.model_copy(update=update)

    hosts = {
        name: host.model_copy(update={"cores": without_last(name)} if name in allowed else {})
        for name, host in testbed.hosts.items()
    }
    placements = _place_hosts(shares, own, testbed.model_copy(update={"hosts": hosts}), facts, nics)
    reason = "endpoints have the last processor for themselves"
    return {
        host: placed.model_copy(update={"reason": f"{placed.reason}; {reason}"})
        for host, placed in placements.items()
    }


def _host_plans(
    shares: Sequence[HostShare],
    more: Mapping[str, Mapping[str, Any]],
    testbed: Testbed,
    facts: MachineFacts,
) -> list[Plan]:
    """The plan of each share with what else is its own, in the order of the hosts' locks."""
    plans: list[Plan] = []
    wire = cable_wire(testbed)
    within = wire == WIRE_WITHIN
    for share in shares:
        plan = Plan(
            testbed=registry.completed(testbed.of_host(share.host)),
            wire=wire,
            memory=(),
            host=share.host,
            parts=share.parts,
            cables=share.cables,
            # Hosts of namespaces are of one machine, which the first of them holds.
            follows=bool(plans) and within,
            **more[share.host],
        )
        plan = _with_memory_and_commands(plan, facts.hosts[share.host])
        if within:
            plan = plan.model_copy(update={"memory": _beside(plan.memory, plans)})
        plans.append(plan)
    return plans


def _of_all(plans: list[Plan], **fields: Any) -> Plan:
    """The plan of all hosts, from their own and the fields that are no host's."""
    return Plan(
        memory=_memory_of_all(plans),
        commands={f"{p.host}: {n}": line for p in plans for n, line in p.commands.items()},
        hosts=tuple(plans),
        **fields,
    )


def _memory_of_all(plans: list[Plan]) -> tuple[MemoryPlan, ...]:
    """Hugepages of all hosts: those of one machine are with the last of them."""
    if not plans[-1].nics:
        return plans[-1].memory
    return tuple(
        memory.model_copy(
            update={"users": {f"{plan.host}:{user}": mib for user, mib in memory.users.items()}}
        )
        for plan in plans
        for memory in plan.memory
    )


def _beside(own: tuple[MemoryPlan, ...], before: list[Plan]) -> tuple[MemoryPlan, ...]:
    """What must be free when a host is the next one of its machine to take memory.

    Those before it have made theirs free, and take it only when all have.
    """
    found = {(memory.node, memory.size_kb): memory for memory in own}
    for plan in before[-1:]:  # which has those of all before it
        for memory in plan.memory:
            key = (memory.node, memory.size_kb)
            mine = found.get(key, memory.model_copy(update={"pages": 0, "users": {}}))
            others = {
                user if ":" in user else f"{plan.host}:{user}": mib
                for user, mib in memory.users.items()
            }
            update = {"pages": mine.pages + memory.pages, "users": {**others, **mine.users}}
            found[key] = mine.model_copy(update=update)
    return tuple(found[key] for key in sorted(found))


def _require_cable_wire(
    scenario: Scenario, testbed: Testbed, facts: MachineFacts, shares: tuple[HostShare, ...]
) -> None:
    """Refuse parts that cannot plug into what the cables are."""
    vswitch = switch_class(scenario.deployment, scenario.vswitch)
    generator = registry.load("traffic", scenario.generator)
    in_place = bool(scenario.deployment.tester_vnf_ports)
    users = [vswitch] if in_place or scenario.apart else [vswitch, generator]
    mode, kind = scenario.options.mode, cable_wire(testbed)
    beside = any({"tester", "dut"} <= {*share.parts} for share in shares)
    beside = (beside or scenario.apart) and not in_place
    wanted = {kind, WIRE_WITHIN} if beside else {kind}
    cannot = {u.name: wanted - {*_wires(u.capabilities, mode)} for u in users}
    without = [name for name, kinds in cannot.items() if kinds]
    within = kind not in {one for kinds in cannot.values() for one in kinds}
    limit = getattr(vswitch.capabilities, "wire_frame_sizes", {}).get(kind)
    problem = ""
    if kind == WIRE_WITHIN:
        here = facts.hosts[shares[0].host]
        problem = registry.load("wires", kind).missing(here, scenario, testbed)
    if without and within:
        problem = f"{' and '.join(without)} cannot plug in the {WIRE_WITHIN} beside it"
    elif without:
        problem = f"{' and '.join(without)} cannot plug it in"
    elif limit is not None and scenario.largest_on_wire > limit:
        problem = f"{vswitch.name} carries frames of up to {limit} octets over it"
    elif scenario.wire not in {"auto", *wanted} and not in_place:
        problem = f"--wire {scenario.wire} is no cable between hosts"
    if problem:
        raise CapabilityError(
            f"a cable between {'hosts of namespaces' if kind == WIRE_WITHIN else 'machines'} is "
            f"{kind}: {problem}",
            where=scenario.id,
            cure="choose another vSwitch or generator, or a testbed of one host",
        )


def _place_hosts(
    shares: tuple[HostShare, ...],
    own: dict[str, Scenario],
    testbed: Testbed,
    facts: MachineFacts,
    nics: Mapping[str, tuple[NicUse, ...]] | None = None,
) -> dict[str, Placement]:
    """Processors for each host: of its own, near its NICs, or one machine's for all together.

    In a placement on a machine that others have a part of, their roles have their host's name
    before them.
    """
    wanted = {
        share.host: _demands(own[share.host], testbed.of_host(share.host), share.parts)
        for share in shares
    }
    found: dict[str, Placement] = {}
    roles_of: dict[str, dict[str, dict[str, tuple[int, ...]]]] = {}
    for group in _placed_together(testbed, list(wanted)):
        demands = tuple(
            demand.model_copy(update={"role": f"{host}:{demand.role}"})
            for host in group
            for demand in wanted[host]
        )
        of, config = own[group[0]], testbed.of_host(group[0]).cores
        near = preferred_node((nics or {}).get(group[0], ()))
        placed = place_scenario(demands, config, facts.hosts[group[0]], near, of)
        found |= dict.fromkeys(group, placed)
        roles_of[group[0]] = {"cores": placed.cores, "unpinned": placed.unpinned}
    one_machine = cable_wire(testbed) == WIRE_WITHIN
    for host, placed in found.items():
        update = {
            key: {
                r.removeprefix(f"{host}:"): cpus
                for group, of in roles_of.items()
                if one_machine or group == host
                for r, cpus in of[key].items()
            }
            for key in ("cores", "unpinned")
        }
        found[host] = placed.model_copy(update=update)
    for share in shares:
        local = testbed.of_host(share.host)
        _require_processors(own[share.host], local, share.parts, found[share.host])
    return found


def _placement_of_all(tester: str, placements: Mapping[str, Placement]) -> Placement:
    """The tester's placement with the roles of all hosts, others' with their host's name."""
    whole = placements[tester]
    for host, placed in placements.items():
        update = {
            key: getattr(whole, key)
            | {f"{host}:{r}": cpus for r, cpus in getattr(placed, key).items() if ":" not in r}
            for key in ("cores", "unpinned")
        }
        if host != tester:
            whole = whole.model_copy(update=update)
    return whole


def _placed_together(testbed: Testbed, hosts: list[str]) -> list[list[str]]:
    """Hosts of one machine by groups that share processors: all, or each has some of its own.

    What their processors are set to is the machine's, and the same for all.
    """
    if cable_wire(testbed) == CABLE_OF_NICS:
        return [[host] for host in hosts]
    cores = {host: testbed.of_host(host).cores for host in hosts}
    first = cores[hosts[0]]
    if all(c.model_copy(update={"tester": first.tester}) == first for c in cores.values()):
        return [hosts]
    owner: dict[int, str] = {}
    for host, config in cores.items():
        taken = sorted(set(config.allowed) & set(owner))
        if taken or not config.allowed:
            raise ConfigError(
                f"processor {taken[0]} is host {owner[taken[0]]}'s too"
                if taken
                else "hosts of one machine whose cores differ in more than the tester's threads "
                "each need processors of their own",
                where=f"hosts.{host}.cores.allowed",
                accepted="processors that no other host of the machine has",
                cure="name some for each host, or leave [hosts.NAME.cores] out: hosts are then "
                "placed on the machine's processors together",
            )
        owner |= dict.fromkeys(config.allowed, host)
        for key in ("governor", "irqs"):
            if getattr(config, key) != getattr(first, key):
                raise ConfigError(
                    "hosts of one machine cannot differ in this",
                    where=f"hosts.{host}.cores.{key}",
                    accepted=repr(getattr(first, key)),
                    cure="set it once, under [cores]",
                )
    return [[host] for host in hosts]


def _wire_of_tester(
    own: Mapping[str, Scenario],
    testbed: Testbed,
    facts: MachineFacts,
    hosts: tuple[str, str],
    placements: Mapping[str, Placement],
) -> tuple[str, int]:
    """The kind of wire that the tester is calibrated over, and receive queues that it polls.

    `hosts` are that of the tester and that of the vSwitch which it meets.
    """
    tester, dut = hosts
    scenario = own[tester]
    vswitch = switch_class(scenario.deployment, scenario.vswitch)
    generator = registry.load("traffic", scenario.generator)
    placement, here = placements[tester], facts.hosts[tester]
    queues: int = vswitch.tx_queues(scenario, placements[dut])
    kind, local = cable_wire(testbed), testbed.of_host(tester)
    at_vnf = bool(scenario.deployment.tester_vnf_ports)
    offered = {*_wires(vswitch.capabilities, scenario.options.mode)} & {*local.wires}
    if at_vnf and kind == CABLE_OF_NICS and not offered:
        return WIRE_WITHIN, queues  # it plugs nothing but those NICs in (SR-IOV)
    if at_vnf:  # in a VNF's place, as on one host
        wire, _ = _choose_wire(
            scenario, local, here, (generator, vswitch), lambda _: (placement, queues)
        )
        return wire, queues
    problem = generator.cannot_plug(
        kind,
        queues,
        scenario=scenario,
        placement=placement,
        testbed=local,
        facts=here,
    )
    if problem:
        raise CapabilityError(problem, where=f"{scenario.id}, host {tester}")
    # A NIC whose cable leads to another machine is looped to nothing here.
    return WIRE_WITHIN, queues


def _require_processors(
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


def make_loop_plan(scenario: Scenario, testbed: Testbed, facts: MachineFacts) -> Plan:
    """Plan the generator alone, looped to itself; for calibration without a DUT."""
    host = ""
    if scenario.apart:
        raise CapabilityError(
            f"{scenario.deployment.name} has an endpoint on each of two hosts, and no tester",
            where=scenario.id,
            cure="it is for testcases/test_endpoints.py",
        )
    if testbed.hosts:
        shares = [s for s in share_out(scenario, testbed) if "tester" in s.parts]
        tester = min(shares, key=lambda share: share.ends)  # of two, that of port 0
        host, testbed, facts = tester.host, testbed.of_host(tester.host), facts.hosts[tester.host]
    generator = registry.load("traffic", scenario.generator)
    _require_root(facts)
    problem = generator.missing(facts, scenario)
    if problem:
        raise CapabilityError(problem, where=scenario.generator)
    loop = registry.load("wires", scenario.wire).like if scenario.wire != "auto" else ""
    alone = scenario.model_copy(update={"vswitch": "", "wire": loop or scenario.wire})
    roles = tester_roles(scenario.generator, generator, testbed)

    def place(near: int | None) -> tuple[Placement, int]:
        # Looped to itself it gets what it sends.
        return place_roles(roles, testbed.cores, facts, near), scenario.options.rx_queues or 1

    wire, nics = _choose_wire(alone, testbed, facts, (generator,), place)
    placement, queues = place(preferred_node(nics))
    _require_processors(scenario, testbed, ("tester",), placement)
    plan = Plan(
        scenario=scenario,
        testbed=testbed,
        wire=wire,
        nics=nics,
        placement=placement,
        memory=(),
        refusal_is_loss=False,  # there is no DUT whose ring could be full
        tester_rx_queues=queues,
        host=host,
        parts=("tester",),
    )
    users = {scenario.generator: generator.hugepage_mib(scenario, (wire,))}
    pools = {(node, int(testbed.hugepage_kb)): users for node in _nodes(plan, ("tester", "dut"))}
    return plan.model_copy(update={"memory": _memory_of_pools(pools, plan, facts)})


def largest_frame(scenario: Scenario) -> int:
    """Largest frame that everything on a scenario's path carries."""
    limits = [registry.load("traffic", scenario.generator).capabilities.max_frame_size]
    if scenario.vswitch:
        limits.append(switch_class(scenario.deployment, scenario.vswitch).largest_frame(scenario))
    if scenario.deployment.vnf_count:
        limits.append(registry.load_vnf(scenario.vnf).max_frame_size)
    return int(min(limits))


def _require_root(facts: MachineFacts) -> None:
    if not facts.is_root:
        raise CapabilityError(
            "the agent is not root and cannot reserve hugepages or start a switch",
            where="agent",
            cure="run as root, or allow `sudo` without a password for this user",
        )


def _choose_wire(
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
            if one not in _wires(end.capabilities, mode)
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
            if all(kind in _wires(end.capabilities, scenario.options.mode) for end in ends)
        ),
        cure="list another kind under `wires` in the testbed file, or leave --wire out",
    )


def _wires(capabilities: Any, mode: str) -> tuple[str, ...]:
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
    for node in _nodes(plan, ("tester",)):
        pools.setdefault((node, size), {})[scenario.generator] = mib
    if not plan.has_dut:
        return _memory_of_pools(pools, plan, facts)
    # The wire decides too: a poll-mode NIC needs memory where an af_packet interface needs none.
    decided = scenario.model_copy(update={"wire": plan.wire})
    # Rings of a VNF lie in its memory, and a switch may want buffers beside them.
    nodes = dict.fromkeys((*_nodes(plan, ("dut",)), placement.home_of_vnfs))
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
    return _memory_of_pools(pools, plan, facts)


def _nodes(plan: Plan, sides: tuple[str, ...]) -> list[int]:
    """The pollers' node, and those of NICs that programs drive: rings lie where the NIC is."""
    nics = [n.node for n in plan.nics if n.side in sides and not n.kernel and n.node >= 0]
    return list(dict.fromkeys((plan.placement.node, *nics)))


def _memory_of_pools(
    pools: dict[Pool, dict[str, int]], plan: Plan, facts: MachineFacts
) -> tuple[MemoryPlan, ...]:
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
