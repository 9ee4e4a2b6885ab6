"""What a host gives to a plan: NICs, a wire, processors and memory, and what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from vnetperf.model.deployment import Deployment, VnfPort
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.scenario import NicUse, Placement, Plan, RoleDemand, Scenario
from vnetperf.model.testbed import VFS_CURE, MachineFacts, NicFacts, Testbed, vfs_kept
from vnetperf.planning.backends import Backends
from vnetperf.planning.capability_check import tester_roles
from vnetperf.planning.limits import require_limits
from vnetperf.planning.memory import plan_memory
from vnetperf.plugin import registry
from vnetperf.plugin.vnf import UserPlane

#: Kernel drivers that DPDK works on top of: vfio-pci is nothing for their devices.
BIFURCATED = ("mlx4_core", "mlx5_core", "mana")


def choose_nics(
    scenario: Scenario, testbed: Testbed, facts: MachineFacts, tester: Any, dut: Any
) -> tuple[NicUse, ...]:
    """Choose drivers for the NICs of a scenario; the wire has checked that they are there."""
    requests = []
    # A cable of NICs joins a network's hosts, or the tester and the DUT.
    far = dut if scenario.deployment.dut_family == "networks" else tester
    for wire in list_wires(scenario):
        config = testbed.nics[wire]
        ends: tuple[tuple[Literal["tester", "dut"], str, Any], ...] = (
            ("tester", config.tester, far),
            ("dut", config.dut, dut),
        )
        for side, name, end in ends:
            nic = facts.nic(name)
            if nic is None:
                raise CapabilityError(f"there is no NIC {name}", where=f"nics[{wire}].{side}")
            requests.append(NicRequest(wire, side, nic, end, f"nics[{wire}].{side}"))
    chosen = nic_uses(requests, facts, scenario)
    if problem := getattr(dut, "nics_missing", lambda *_: "")(chosen, facts, scenario):
        raise CapabilityError(problem, where=dut.name)
    return chosen


def list_wires(scenario: Scenario) -> tuple[int, ...]:
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


class NicRequest(NamedTuple):
    """A NIC that an end is to drive: number of the wire, side, and who is told of what is wrong."""

    wire: int
    side: Literal["tester", "dut"]
    nic: NicFacts
    end: Any
    where: str


def nic_uses(
    requests: Sequence[NicRequest], facts: MachineFacts, scenario: Scenario
) -> tuple[NicUse, ...]:
    """NICs, each with the first driver that its end wants and the machine has.

    A generator that drives NICs itself or other devices, and never both in one process, has all its
    NICs through the kernel where one of its ports is something else.
    """
    uses = tuple(_nic_use(request, facts) for request in requests)
    in_kernel = {use.kernel for use in uses if use.side == "tester"}
    if len(scenario.deployment.tester_vnf_ports) == 1:
        in_kernel.add(True)  # its other port is an attachment
    if len(in_kernel) < 2:
        return uses
    return tuple(
        use
        if request.side == "dut" or getattr(request.end.capabilities, "mixes_devices", True)
        else _nic_use(request, facts, kernel_only="it drives no NIC itself beside another device")
        for use, request in zip(uses, requests, strict=True)
    )


def _nic_use(request: NicRequest, facts: MachineFacts, kernel_only: str = "") -> NicUse:
    """A NIC with its driver; `kernel_only` is why its end cannot have any but the kernel's."""
    wire, side, nic, end, where = request
    kinds: tuple[str, ...] = end.capabilities.nic_drivers
    reasons: list[str] = []
    if kernel_only:
        kinds, reasons = tuple({*kinds} & {"kernel"}), [kernel_only]
    for kind in kinds:
        driver, reason = _driver(kind, nic, facts)
        if driver:
            # They end with the driver that has the NIC.
            obstacle = "" if nic.driver in ("", driver) else vfs_kept(nic.vfs_in_use)
            if obstacle:
                raise CapabilityError(f"{nic.address}: {obstacle}", where=where, cure=VFS_CURE)
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
        accepted=", ".join(kinds) or "none",
    )


def _driver(kind: str, nic: NicFacts, facts: MachineFacts) -> tuple[str, str]:
    """The driver of a kind that a NIC can have, with a note; or "" and why not."""
    if kind == "kernel":
        cure = "install the package with this kernel's modules"
        return nic.kernel_driver, "" if nic.kernel_driver else f"the kernel has none for it; {cure}"
    if nic.kernel_driver in BIFURCATED:
        return "", f"programs use it on top of {nic.kernel_driver}"
    if nic.iommu_group is None:
        return _choose_driver_without_iommu(nic, facts)
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


def _choose_driver_without_iommu(nic: NicFacts, facts: MachineFacts) -> tuple[str, str]:
    """uio_pci_generic for a NIC with an interrupt line, else vfio's mode without an IOMMU."""
    cause = "the machine has no IOMMU, or it is off (intel_iommu=on, amd_iommu=on)"
    if not nic.intx:
        trouble = "uio_pci_generic takes none without an interrupt line (INTx)"
        trouble += ", as virtual functions are" if nic.physical else ""
    elif facts.lockdown:
        trouble = (
            f"a kernel that is locked down for {facts.lockdown}, as by Secure Boot, lets no "
            "program map the registers of uio_pci_generic's"
        )
    elif missing := facts.modules.get("uio_pci_generic", ""):
        trouble = f"there is no uio_pci_generic: {missing}"
    else:
        return "uio_pci_generic", f"without protection by an IOMMU: {cause}"
    if not facts.noiommu:
        return (
            "",
            f"{cause}; {trouble}; and vfio has no mode without one here (CONFIG_VFIO_NOIOMMU)",
        )
    if missing := facts.modules.get("vfio_pci", ""):
        return "", f"{cause}; {trouble}; and the kernel has no module vfio_pci: {missing}"
    return (
        "vfio-pci",
        f"without protection by an IOMMU, which taints the kernel: {cause}; {trouble}",
    )


def with_guests(
    placed: Placement, graph: Deployment, numbers: Sequence[int], cpus: tuple[int, ...]
) -> Placement:
    """The placement with processors for guests of endpoints, by the endpoints' numbers."""
    ends = [graph.ends[number] for number in numbers]
    roles = {f"vnf{end.vnf}": cpus for end in ends if isinstance(end, VnfPort)}
    return placed.model_copy(update={"unpinned": {**placed.unpinned, **roles}})


def require_backends(backends: Backends, facts: MachineFacts, parts: tuple[str, ...]) -> None:
    """Refuse what a host lacks for its parts of a deployment."""
    scenario = backends.scenario
    users: list[tuple[str, Any]] = []
    if "dut" in parts:
        users.append((scenario.vswitch, backends.vswitch))
    if "tester" in parts:
        users.append((scenario.generator, backends.generator))
    graph = scenario.deployment
    if "dut" in parts and (graph.vnf_count or graph.guests):
        users.append((scenario.vnf, backends.vnf))
    for name, backend in users:
        problem = backend.missing(facts, scenario)
        if problem:
            raise CapabilityError(problem, where=f"{scenario.id}, {name}")


def list_demands(
    backends: Backends, testbed: Testbed, parts: tuple[str, ...]
) -> tuple[RoleDemand, ...]:
    """Busy threads of the parts that are on a host."""
    scenario = backends.scenario
    demands: list[RoleDemand] = []
    if "tester" in parts:
        demands += tester_roles(scenario.generator, backends.generator, testbed)
    if "dut" in parts:
        demands += backends.vswitch.roles(scenario)
        for number in (*scenario.deployment.vnf_numbers, *scenario.through_guests):
            demands += backends.vnf.roles(scenario, number)
    return tuple(demands)


def with_memory_and_commands(plan: Plan, backends: Backends, facts: MachineFacts) -> Plan:
    """The plan with hugepages, and with what is started."""
    plan = plan.model_copy(update={"memory": plan_memory(plan, backends, facts)})
    require_limits((plan,), facts)
    commands = dict(dedicated_commands(plan, facts))
    if plan.has_dut:
        commands |= backends.vswitch.launch_lines(plan, facts)
        guests = (port.vnf for port in plan.guest_ends.values())
        for number in (*plan.scenario.deployment.vnf_numbers, *guests):
            commands |= backends.vnf.launch_lines(plan, facts, number)
    return plan.model_copy(update={"commands": commands})


def require_processors(
    backends: Backends, testbed: Testbed, parts: Sequence[str], placement: Placement
) -> None:
    """Refuse more workers than processors, where they were asked for: fewer would pass for as many.

    `testbed` is that of the host of these parts. A generator's own number of
    threads nobody asked for; where programs with sockets talk, it does not run.
    """
    scenario = backends.scenario
    kinds: list[tuple[str, tuple[RoleDemand, ...], str]] = []
    if "dut" in parts:
        cure = "set fewer with --set workers=N, or allow more processors under [cores]"
        kinds.append((scenario.vswitch, backends.vswitch.roles(scenario), cure))
    if "tester" in parts and testbed.cores.tester > 1 and not scenario.sockets:
        roles = tester_roles(scenario.generator, backends.generator, testbed)
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


def require_processor_time(placement: Placement, facts: MachineFacts, *, where: str) -> None:
    """Refuse pollers that the kernel would stop in each period, for their control group's share."""
    limit, needed = facts.limits.processors, len(placement.pollers)
    if limit is not None and limit < needed:
        raise CapabilityError(
            f"pollers take the whole time of {needed} processors, and the control group of this "
            f"process lets it have that of {limit:g}: the kernel would stop them in each period",
            where=where,
            cure="raise cpu.max of the control group (docker run --cpus), or leave it",
        )


def dedicated_commands(plan: Plan, facts: MachineFacts) -> dict[str, str]:
    """What is set of dedicated cores, for `--plan`; refuses a governor that they cannot have."""
    cores, pollers = plan.testbed.cores, plan.placement.pollers
    tuned = cores.governor or cores.irqs == "off-pollers"
    if plan.placement.shared or plan.follows or not tuned:
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
            "the agent is root without "
            f"{', '.join(facts.lacks)} and cannot make links or start a switch"
            if facts.lacks
            else "the agent is not root and cannot reserve hugepages or start a switch",
            where="agent",
            cure=facts.root_cure
            if facts.lacks
            else "run as root, or allow `sudo` without a password for this user",
        )


def choose_wire(
    scenario: Scenario,
    backends: Backends,
    testbed: Testbed,
    facts: MachineFacts,
    place: Callable[[int | None], tuple[Placement, int]],
    *,
    lacking: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, tuple[NicUse, ...]]:
    """The first of the testbed's wires that both ends accept and the machine can have.

    Without a vSwitch the generator alone is at both. `lacking` has those that cannot have their
    memory: kind -> why. One named with --wire is taken.
    """
    ends: tuple[Any, ...] = (backends.generator,)
    if scenario.vswitch:
        ends += (backends.vswitch,)
    candidates = testbed.wires if scenario.wire == "auto" else (scenario.wire,)
    wire_kinds = registry.names("wires")
    for kind in candidates:
        if kind not in wire_kinds:
            raise ConfigError(
                f"unknown kind of wire {kind!r}", where="wires", accepted=", ".join(wire_kinds)
            )
    needed: tuple[str, ...] = ()
    if scenario.vswitch and scenario.deployment.vnf_count and issubclass(backends.vnf, UserPlane):
        needed = backends.vnf.wires  # it has business of its own at the tester's end

    def find_problem(kind: str) -> str:
        if kind in lacking and scenario.wire == "auto":
            return lacking[kind]
        if needed and kind not in needed:
            return f"{scenario.vnf} needs {' or '.join(needed)}"
        mode = scenario.options.mode
        wire = registry.load("wires", kind)
        like = wire.like or kind  # at the tester's end
        kinds = [like, *[kind] * (len(ends) - 1)]
        if without := [
            end.name
            for end, end_kind in zip(ends, kinds, strict=True)
            if end_kind not in list_accepted_wires(end.capabilities, mode)
        ]:
            return f"{' and '.join(without)} cannot plug it in"
        limit = getattr(ends[-1].capabilities, "wire_frame_sizes", {}).get(kind)
        if limit is not None and scenario.largest_on_wire > limit:
            return f"{ends[-1].name} carries frames of up to {limit} octets over it"
        placement, queues = place(None)
        problem: str = ends[0].cannot_plug(
            like, queues, scenario=scenario, placement=placement, testbed=testbed, facts=facts
        )
        return problem or wire.missing(facts, scenario, testbed)

    reasons = []
    for kind in candidates:
        problem = find_problem(kind)
        if not problem:
            if not registry.load("wires", kind).takes_nics:
                return kind, ()
            try:
                return kind, choose_nics(scenario, testbed, facts, ends[0], ends[-1])
            except CapabilityError as error:
                problem = str(error)
        reasons.append(f"{kind}: {problem}")
    raise CapabilityError(
        f"no wire joins {_describe_ends(scenario)}: {'; '.join(reasons)}",
        where=scenario.id,
        accepted=", ".join(
            kind
            for kind in wire_kinds
            if all(
                kind in list_accepted_wires(end.capabilities, scenario.options.mode) for end in ends
            )
        ),
        cure="list another kind under `wires` in the testbed file, or leave --wire out",
    )


def _describe_ends(scenario: Scenario) -> str:
    """What a wire is between: there is no tester where programs talk by sockets."""
    if scenario.deployment.dut_family == "networks":
        return "the pods and their hosts" if scenario.sockets else "the tester and the pods"
    return f"the {'endpoints' if scenario.sockets else 'tester'} and the vSwitch"


def list_accepted_wires(capabilities: Any, mode: str) -> tuple[str, ...]:
    """Wires that an end takes in a mode; "" is its first."""
    of_modes: dict[str, tuple[str, ...]] = getattr(capabilities, "mode_wires", {})
    wires: tuple[str, ...] = capabilities.wires
    return of_modes.get(mode or next(iter(getattr(capabilities, "modes", ())), ""), wires)
