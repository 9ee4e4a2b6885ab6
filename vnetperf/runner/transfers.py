"""Measures transfers between sockets, and workloads.

Users of a mobile core, and endpoints in place of the tester.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from vnetperf.config import Configuration
from vnetperf.deployment.endpoints import find_endpoint_problem
from vnetperf.log.records import NotMeasuredRecord, TransfersRecord
from vnetperf.model.errors import CapabilityError, VnetperfError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import ENDPOINTS_VARIANT, Plan, Scenario, variant_id
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import (
    AUTO,
    Kind,
    Transfer,
    Transfers,
    TransferSpec,
    Way,
)
from vnetperf.planning.backends import Backends
from vnetperf.plugin import registry
from vnetperf.plugin.dut import load_dut
from vnetperf.plugin.endpoint_tool import choose_tool, find_tool_problem, tool_names
from vnetperf.plugin.vnf import EndpointHost, UserPlane
from vnetperf.plugin.workload import Workload, WorkloadRequest, require_workload
from vnetperf.runner.calm import await_calm
from vnetperf.runner.run import Run
from vnetperf.runner.scenarios import variant_with

#: The tool of users' traffic.
USERS_TOOL = "iperf3"
#: Wires that endpoints plug into, where a user names none.
WIRE = "veth"
#: The image whose guests have the tools.
IMAGE = "endpoint"
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
        vnf = Backends(scenario).vnf
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
    vnf = Backends(scenario).vnf
    if issubclass(vnf, UserPlane) and vnf.ends_with_users:
        run.forget_deployment()
    return transfers


def endpoint_scenario(configuration: Configuration, scenario: Scenario) -> Scenario:
    """A scenario as it is deployed for endpoints."""
    settings, graph = configuration.settings, scenario.deployment
    wire = WIRE
    if graph.dut_family == "networks":  # what the network's hosts are joined by
        wire = load_dut(graph, scenario.vswitch).capabilities.wires[0]
    changes: dict[str, object] = {
        "variant": variant_with(scenario, ENDPOINTS_VARIANT),
        "wire": wire if scenario.wire == "auto" else scenario.wire,
    }
    if graph.dut_family == "networks" or graph.apart:
        changes |= {"sockets": True, "pods": 2}
    inside = settings.endpoint_server == "vnf"
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
    vnf = Backends(scenario).vnf
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
    of_image = load_dut(deployed.deployment, deployed.vswitch).tools(facts)
    # Of several hosts those with an endpoint: where the tester would be, or one of two apart.
    hosts = run.plan(deployed).hosts if facts.hosts else ()
    having = {p.host for p in hosts if p.ends} or {p.host for p in hosts if p.has_tester}
    places = [facts.hosts[host] for host in sorted(having)] or [facts]
    requested = settings.endpoint_tool
    firsts = [choose_tool(spec, requested, host_facts, inside, of_image) for host_facts in places]

    def all_have(name: str) -> bool:
        return not any(
            find_tool_problem(spec, name, host_facts, inside, of_image) for host_facts in places
        )

    tool = next(filter(all_have, tool_names(spec, requested)), "")
    if not tool:
        raise CapabilityError(
            f"no tool is on all hosts with an endpoint: they have {' or '.join(sorted(firsts))}",
            where=f"endpoint tool for {kind}",
            cure="install the same on all, or name one with --endpoint-tool",
        )
    return spec.model_copy(update={"tool": tool})


def workload_scenario(workload: Workload, scenario: Scenario, vnf_mode: str = AUTO) -> Scenario:
    """A scenario as it is deployed for a workload, with the mode of VNFs that the user named."""
    variant = variant_with(scenario, workload.variant)
    return workload.adapt(scenario.model_copy(update={"variant": variant}), vnf_mode)


def _request(
    run: Planning, workload: Workload, scenario: Scenario, kind: Kind, message_size: int | None
) -> WorkloadRequest:
    settings, preset = run.configuration.settings, run.configuration.preset
    return WorkloadRequest(
        kind=kind,
        message_size=message_size,
        instances=settings.instances,
        duration_s=_duration_s(run),
        warmup_s=WARMUP_S if preset.benchmark else 0,
        tool=getattr(settings, workload.tool_setting),
        vnf_mode=settings.vnf_mode,
        scenario=scenario,
        facts=run.facts(),
    )


def find_workload_problem(
    run: Planning, scenario: Scenario, kind: Kind, message_size: int | None
) -> str:
    """What keeps a workload from running in a scenario, before it is deployed; it is noted."""
    workload = require_workload(kind)

    def reasons() -> Iterator[str]:
        request = _request(run, workload, scenario, kind, message_size)
        yield from workload.refusals(request)
        workload.specify(request)
        run.plan(workload_scenario(workload, scenario, request.vnf_mode))

    return _find_problem(run, variant_id(scenario.id, workload.variant), kind, reasons())


def measure_workload(
    run: Run, planning: Planner, scenario: Scenario, kind: Kind, message_size: int | None
) -> Transfers:
    """One run of a workload's programs, as long as the preset's longest trial."""
    workload = require_workload(kind)
    spec = workload_spec(planning, scenario, kind, message_size)
    deployed = workload_scenario(workload, scenario, planning.configuration.settings.vnf_mode)
    more_s = workload.longest_s(spec) - spec.length_s + workload.grace_s
    return _measure_or_replay(run, deployed, "transfer", [spec], more_s=more_s, server="far")


def workload_spec(
    run: Planning, scenario: Scenario, kind: Kind, message_size: int | None
) -> TransferSpec:
    """What a workload's programs do; refused when none can."""
    workload = require_workload(kind)
    return workload.specify(_request(run, workload, scenario, kind, message_size))


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
