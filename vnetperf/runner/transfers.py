"""Measures transfers between sockets, ranks of MPI, and the speed of VNFs.

Users of a mobile core, and endpoints in place of the tester.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from vnetperf.config import Configuration
from vnetperf.deployment.endpoints import find_endpoint_problem
from vnetperf.log.records import NotMeasuredRecord, TransfersRecord
from vnetperf.model.errors import CapabilityError, VnetperfError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import ENDPOINTS_VARIANT, MPI_VARIANT, Plan, Scenario, variant_id
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import (
    AUTO,
    MPI_PAIRS,
    MPI_WITHOUT_SIZE,
    GuestKind,
    Kind,
    MpiKind,
    Transfer,
    Transfers,
    TransferSpec,
    Way,
)
from vnetperf.plugin import registry
from vnetperf.plugin.mpi_program import MpiProgram, guest_rank_problem
from vnetperf.plugin.vnf import EndpointHost, UserPlane, Vnf
from vnetperf.runner.calm import await_calm
from vnetperf.runner.run import Run
from vnetperf.runner.scenarios import variant_with

#: The tool of users' traffic.
USERS_TOOL = "iperf3"
#: Wires that endpoints plug into, where a user names none.
WIRE = "veth"
#: The images whose guests have the tools, and what ranks of MPI need.
IMAGE, MPI_IMAGE = "endpoint", "mpi"
#: How much longer than its time a tool in a VNF may take, whose last unit of work is not cut short.
OVER_S = 120.0
#: Run before a benchmark and thrown away, seconds.
WARMUP_S = 1


class Planning(Protocol):
    """What transfers are planned with: a run, or a `Planner`."""

    @property
    def configuration(self) -> Configuration:
        """The configuration."""

    def facts(self) -> MachineFacts:
        """The machine."""

    def plan(self, scenario: Scenario, /) -> Plan:
        """Plan a scenario on this testbed."""

    def note_skipped(self, scenario_id: str, reason: str, /) -> None:
        """Note that the testbed cannot carry a scenario."""


@dataclass(frozen=True)
class Planner:
    """What transfers are planned with for a variant, or without a run."""

    configuration: Configuration
    facts: Callable[[], MachineFacts]
    plan: Callable[[Scenario], Plan]
    note_skipped: Callable[[str, str], None] = lambda *_: None


def _find_problem(run: Planning, noted: str, kind: str, reasons: Iterator[str]) -> str:
    """The first reason, or what the planner refuses; it is noted.

    The generator is advanced to the first reason only: what follows a reason in it may rely on
    that one not being there.
    """
    try:
        problem = next(filter(None, reasons), "")
    except CapabilityError as error:
        problem = str(error).replace("\n", ";")
    if problem:
        run.note_skipped(noted, f"{kind}: {problem}")
    return problem


def find_users_problem(run: Planning, scenario: Scenario) -> str:
    """What keeps users' traffic of a scenario from being measured; it is noted."""
    if scenario.deployment.vnf_count:
        vnf: type[Vnf] = registry.load_vnf(scenario.vnf)
        if issubclass(vnf, UserPlane):
            problem = vnf.no_users(run.facts(), run.plan(scenario))
        else:
            problem = f"{vnf.name} has no users of its own; choose one with a mobile core: -k vepc"
        problem = problem or registry.load("endpoints", USERS_TOOL)().missing(run.facts())
    else:
        problem = f"{scenario.id} has no VNF, and so no users"
    if problem:
        run.note_skipped(f"{scenario.id}, traffic of users", problem)
    return problem


def users_specs(run: Planning) -> list[TransferSpec]:
    """Transfers of users: TCP, then UDP, each both ways, as long as the preset's longest trial."""
    kinds: tuple[Kind, ...] = ("TCP_STREAM", "UDP_STREAM")
    ways: tuple[Way, ...] = ("forth", "back")
    return [
        TransferSpec(
            tool=USERS_TOOL, kind=kind, way=way, duration_s=_duration_s(run), rate_of_tcp=True
        )
        for kind in kinds
        for way in ways
    ]


def measure_users_traffic(run: Run, planning: Planning, scenario: Scenario) -> Transfers:
    """Measure the transfers of users."""
    transfers = _measure_or_replay(run, scenario, "users_transfer", users_specs(planning))
    vnf = registry.load_vnf(scenario.vnf)
    if issubclass(vnf, UserPlane) and vnf.ends_with_users:
        run.forget_deployment()
    return transfers


def endpoint_scenario(
    configuration: Configuration, scenario: Scenario, *, inside: bool = False
) -> Scenario:
    """A scenario as it is deployed for endpoints; `inside` for programs in VNFs in any case."""
    settings, graph = configuration.settings, scenario.deployment
    wire = WIRE
    if graph.dut_family == "networks":  # what the network's hosts are joined by
        wire = registry.load_dut(graph, scenario.vswitch).capabilities.wires[0]
    changes: dict[str, object] = {
        "variant": variant_with(scenario, ENDPOINTS_VARIANT),
        "wire": wire if scenario.wire == "auto" else scenario.wire,
    }
    if graph.dut_family == "networks" or graph.apart:
        changes |= {"sockets": True, "pods": 2}
    inside = inside or settings.endpoint_server == "vnf"
    if inside and settings.vnf_mode == "auto":
        changes |= {"vnf_mode": "route", "addressing": "port"}
    if scenario.model_copy(update=changes).ends_in_guests:
        inside, changes["vnf_mode"] = True, "route"  # the kernel, with an address
    if inside and scenario.guest.image == GuestOptions().image:
        changes["guest"] = scenario.guest.model_copy(update={"image": IMAGE})
    return scenario.model_copy(update=changes)


def find_endpoint_traffic_problem(
    run: Planning,
    scenario: Scenario,
    kind: Kind,
    message_size: int,
    clients: int | None = None,
) -> str:
    """What keeps endpoints from talking in a scenario; it is noted."""
    deployed = endpoint_scenario(run.configuration, scenario)

    def reasons() -> Iterator[str]:
        yield find_endpoint_problem(deployed)
        yield _find_inside_problem(run, deployed)
        # First what keeps it from being deployed: without a cluster no tool is of use.
        plan = run.plan(deployed)
        endpoint_spec(run, deployed, kind, message_size, clients=clients)
        if len(plan.testers) > 1:
            yield (
                f"endpoints of {deployed.deployment.name} are at the tester's ports, which are "
                "on two hosts; choose p2c2p or v2c2v"
            )
        if plan.hosts and run.configuration.settings.endpoint_server == "vnf":
            yield (
                "an endpoint in a VNF talks to one on its own host only; choose a testbed of "
                "one host, or leave --endpoint-server out"
            )

    return _find_problem(run, variant_id(scenario.id, ENDPOINTS_VARIANT), kind, reasons())


def _find_inside_problem(run: Planning, scenario: Scenario) -> str:
    if run.configuration.settings.endpoint_server != "vnf":
        return ""
    if not scenario.deployment.vnf_count:
        return f"{scenario.deployment.name} has no VNF to be in; leave --endpoint-server out"
    vnf: type[Vnf] = registry.load_vnf(scenario.vnf)
    if issubclass(vnf, EndpointHost):
        return vnf.no_inside(run.facts(), scenario)
    return (
        f"{vnf.name} has no kernel with an address of its own; choose --vnf vloop:container or "
        "vloop:vm with --vnf-mode route, or --endpoint-server far"
    )


def measure_endpoints(
    run: Run,
    planning: Planner,
    scenario: Scenario,
    kind: Kind,
    message_size: int,
    *,
    way: Way,
    clients: int | None = None,
) -> Transfers:
    """One transfer between endpoints, as long as the preset's longest trial."""
    deployed = endpoint_scenario(planning.configuration, scenario)
    spec = endpoint_spec(planning, deployed, kind, message_size, way, clients=clients)
    server = planning.configuration.settings.endpoint_server
    return _measure_or_replay(run, deployed, "transfer", [spec], server=server)


def endpoint_spec(
    run: Planning,
    deployed: Scenario,
    kind: Kind,
    message_size: int,
    way: Way = "forth",
    *,
    clients: int | None = None,
) -> TransferSpec:
    """One transfer between endpoints, with the tool that can do it; refused when none can."""
    settings, preset = run.configuration.settings, run.configuration.preset
    spec = TransferSpec(
        kind=kind,
        way=way,
        message_size=message_size,
        instances=clients or settings.instances,
        duration_s=_duration_s(run),
        warmup_s=WARMUP_S if preset.benchmark else 0,
    )
    in_vnf = settings.endpoint_server == "vnf" or deployed.ends_in_guests
    inside = deployed if in_vnf else None
    facts = run.facts()
    of_image = registry.load_dut(deployed.deployment, deployed.vswitch).tools(facts)
    # Of several hosts those with an endpoint: where the tester would be, or one of two apart.
    hosts = run.plan(deployed).hosts if facts.hosts else ()
    having = {p.host for p in hosts if p.ends} or {p.host for p in hosts if p.has_tester}
    places = [facts.hosts[host] for host in sorted(having)] or [facts]
    requested = settings.endpoint_tool
    firsts = [choose_tool(spec, requested, host_facts, inside, of_image) for host_facts in places]

    def all_have(name: str) -> bool:
        return not any(
            _find_tool_problem(spec, name, host_facts, inside, of_image) for host_facts in places
        )

    tool = next(filter(all_have, _tool_names(spec, requested)), "")
    if not tool:
        raise CapabilityError(
            f"no tool is on all hosts with an endpoint: they have {' or '.join(sorted(firsts))}",
            where=f"endpoint tool for {kind}",
            cure="install the same on all, or name one with --endpoint-tool",
        )
    return spec.model_copy(update={"tool": tool})


def choose_tool(
    spec: TransferSpec,
    requested: str,
    facts: MachineFacts,
    inside: Scenario | None = None,
    of_image: Sequence[str] | None = None,
) -> str:
    """The tool for a transfer; `of_image` has those of pods that are not on a machine."""
    reasons = []
    for name in _tool_names(spec, requested):
        problem = _find_tool_problem(spec, name, facts, inside, of_image)
        if not problem:
            return name
        reasons.append(problem)
    raise CapabilityError("; ".join(reasons), where=f"endpoint tool for {spec.kind}")


def _tool_names(spec: TransferSpec, requested: str) -> Sequence[str]:
    """Tools to choose among, in their order: those that are made for such a transfer."""
    if requested != AUTO:
        return (requested,)
    names = registry.names("endpoints")
    return [n for n in names if registry.load("endpoints", n).alone is spec.is_guest]


def _find_tool_problem(
    spec: TransferSpec,
    name: str,
    facts: MachineFacts,
    inside: Scenario | None,
    of_image: Sequence[str] | None,
) -> str:
    """What keeps a tool from a transfer on a machine, or where its programs are; "" for nothing."""
    tool = registry.load("endpoints", name)()
    # Where both ends are in guests, no program runs on the machine.
    in_guests = inside is not None and not spec.is_guest and len(inside.ends_in_guests) == 2
    on_machine = of_image is None and not in_guests
    problem: str = tool.cannot(spec) or (tool.missing(facts) if on_machine else "")
    if of_image is not None and name not in of_image:
        problem = problem or f"{name} is not among the tools of the pods' image"
    if not problem and inside is not None:
        names = [program.name for program in tool.programs]
        vnf: type[Vnf] = registry.load_vnf(inside.vnf)
        problem = vnf.lacks_inside(inside, names) if issubclass(vnf, EndpointHost) else ""
    return problem


def guest_scenario(configuration: Configuration, scenario: Scenario) -> Scenario:
    """A scenario as it is deployed for programs that measure its VNFs."""
    return endpoint_scenario(configuration, scenario, inside=True)


def find_guest_problem(run: Planning, scenario: Scenario, kind: GuestKind) -> str:
    """What keeps a scenario's VNFs from being measured, before it is deployed; it is noted."""

    def reasons() -> Iterator[str]:
        if not scenario.deployment.vnf_count:
            yield f"{scenario.deployment.name} has no VNF; choose pvp, pvvp or pvpv"
        vnf: type[Vnf] = registry.load_vnf(scenario.vnf)
        if not issubclass(vnf, EndpointHost):
            yield (
                f"{scenario.vnf} is no place for programs; choose --vnf vloop:vm or vloop:container"
            )
            return  # never reached: for the type checker
        if run.facts().hosts:
            yield "VNFs are measured on one host; choose a testbed of one"
        deployed = guest_scenario(run.configuration, scenario)
        yield vnf.no_inside(run.facts(), deployed)
        guest_spec(run, deployed, kind)
        run.plan(deployed)

    return _find_problem(run, variant_id(scenario.id, ENDPOINTS_VARIANT), kind, reasons())


def measure_guests(run: Run, planning: Planner, scenario: Scenario, kind: GuestKind) -> Transfers:
    """What VNFs' processors or memory do, as long as the preset's longest trial, and the host's."""
    deployed = guest_scenario(planning.configuration, scenario)
    spec = guest_spec(planning, deployed, kind)
    return _measure_or_replay(run, deployed, "transfer", [spec], more_s=OVER_S, server="vnf")


def guest_spec(run: Planning, deployed: Scenario, kind: GuestKind) -> TransferSpec:
    """What is run in each VNF, with the tool that can do it; refused when none can."""
    configuration = run.configuration
    spec = TransferSpec(
        kind=kind,
        instances=configuration.settings.instances,
        duration_s=_duration_s(run),
        warmup_s=WARMUP_S if configuration.preset.benchmark else 0,
    )
    tool = choose_tool(spec, configuration.settings.endpoint_tool, run.facts(), deployed)
    return spec.model_copy(update={"tool": tool})


def mpi_scenario(scenario: Scenario) -> Scenario:
    """A scenario as it is deployed for ranks of MPI."""
    variant = variant_with(scenario, MPI_VARIANT)
    changes: dict[str, object] = {"variant": variant, "sockets": True}
    if scenario.deployment.guests:
        changes["vnf_mode"] = "route"  # the kernel, with an address
        if scenario.guest.image == GuestOptions().image:
            changes["guest"] = scenario.guest.model_copy(update={"image": MPI_IMAGE})
    return scenario.model_copy(update=changes)


def find_mpi_problem(
    run: Planning, scenario: Scenario, kind: MpiKind, message_size: int | None
) -> str:
    """What keeps ranks of MPI from running in a scenario, before it is deployed; it is noted."""
    graph = scenario.deployment

    def reasons() -> Iterator[str]:
        if graph.dut_family != "networks":
            yield f"{graph.name} has no pods for ranks of MPI; choose bmp2bmp"
        if 0 in graph.guests:
            yield "ranks are launched in the network of the first pod, on its host; choose bmp2vmp"
        if run.facts().hosts:
            yield "ranks run in pods on one machine; choose a testbed of one host"
        if registry.load_dut(graph, scenario.vswitch).owns_endpoints:
            yield (
                "no ranks of MPI are launched in pods of a cluster; choose another than "
                f"{scenario.vswitch}"
            )
        last = max(graph.guests, default=-1)
        if scenario.pods <= last:
            yield f"no rank would be in the VM, which is pod {last}; choose --pods {last + 1}"
        mpi_spec(run, scenario, kind, message_size)
        run.plan(mpi_scenario(scenario))

    return _find_problem(run, variant_id(scenario.id, MPI_VARIANT), kind, reasons())


def measure_mpi(
    run: Run, planning: Planner, scenario: Scenario, kind: MpiKind, message_size: int | None
) -> Transfers:
    """One run of a program of MPI, as long as the preset's longest trial."""
    spec = mpi_spec(planning, scenario, kind, message_size)
    more_s = longest_s(spec) - spec.length_s
    return _measure_or_replay(
        run, mpi_scenario(scenario), "transfer", [spec], more_s=more_s, server="far"
    )


def longest_s(spec: TransferSpec) -> float:
    """Longest time of a program of MPI, seconds."""
    program: MpiProgram = registry.load("mpi", spec.tool)()
    return spec.length_s + program.longest_s


def mpi_spec(
    run: Planning, scenario: Scenario, kind: MpiKind, message_size: int | None
) -> TransferSpec:
    """What is run: between two ranks one in each of two pods, or both in the only one."""
    pods, ranks = scenario.pods, scenario.ranks
    if kind in MPI_PAIRS:
        pods, ranks = (2, 1) if pods > 1 else (1, 2)
    spec = TransferSpec(
        kind=kind,
        message_size=None if kind in MPI_WITHOUT_SIZE else message_size,
        duration_s=_duration_s(run),
        pods=pods,
        ranks=ranks,
    )
    requested = run.configuration.settings.mpi_program
    reasons = []
    for name in registry.names("mpi") if requested == AUTO else (requested,):
        program: MpiProgram = registry.load("mpi", name)()
        if requested == AUTO and kind not in program.kinds:
            continue
        problem = program.cannot(spec) or program.missing(run.facts(), spec)
        if not problem and scenario.deployment.guests and not program.in_guests:
            problem = f"{name} needs libraries that guests do not have; choose bmp2bmp for it"
        if not problem and scenario.deployment.guests:
            problem = guest_rank_problem(run.facts())
        if not problem:
            return spec.model_copy(update={"tool": name})
        reasons.append(problem)
    raise CapabilityError("; ".join(dict.fromkeys(reasons)), where=f"program for {kind}")


def _duration_s(run: Planning) -> int:
    return ceil(max(goal.final_trial_s for goal in run.configuration.preset.goals))


def _measure_or_replay(
    run: Run,
    scenario: Scenario,
    call: str,
    specs: list[TransferSpec],
    *,
    more_s: float = 0.0,
    **parameters: str,
) -> Transfers:
    if (logged := run.resumed.transfers(scenario, specs)) is not None:
        return logged  # measured before the run was interrupted
    try:
        size = run.configuration.preset.frame_sizes[0]
        run.deploy(scenario, size, calibrated=call != "transfer")
        await_calm(run)
        answer = run.client.call(
            call,
            length_s=sum(spec.length_s for spec in specs) + more_s,
            specs=[spec.model_dump(mode="json") for spec in specs],
            **parameters,
        )
    except VnetperfError as error:
        run.forget_deployment()
        for spec in specs:
            run.log.append(
                NotMeasuredRecord(
                    scenario=scenario.id,
                    test=f"{spec.kind} {spec.way}",
                    frame_size=spec.message_size or 0,
                    why=str(error),
                    kind="incapable" if isinstance(error, CapabilityError) else "failed",
                    transfer=spec,
                )
            )
        raise
    transfers = Transfers(
        scenario=scenario.id,
        transfers=tuple(Transfer.model_validate(transfer) for transfer in answer),
    )
    run.log.append(TransfersRecord(result=transfers))
    return transfers
