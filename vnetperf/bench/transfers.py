"""Measures between sockets: users of a mobile core, and endpoints in place of the tester."""

from __future__ import annotations

from math import ceil

from vnetperf import registry
from vnetperf.bench.run import Run
from vnetperf.config import Configuration
from vnetperf.model.errors import CapabilityError, VnetperfError
from vnetperf.model.guest import GuestOptions
from vnetperf.model.machine import MachineFacts
from vnetperf.model.scenario import Scenario, variant_id
from vnetperf.model.transfer import AUTO, Kind, Transfer, Transfers, TransferSpec, Way
from vnetperf.results.records import NotMeasuredRecord, TransfersRecord
from vnetperf.testbed.ends import misfit

#: What it is called in a scenario's name: endpoints deploy it otherwise than a generator does.
VARIANT = "endpoints"
#: The tool of users' traffic.
OF_USERS = "iperf3"
#: Wires that endpoints plug into, where a user names none.
WIRE = "veth"
#: The image whose guests have the tools.
IMAGE = "endpoint"
#: Run before a benchmark and thrown away, seconds.
WARMUP_S = 1


def why_not(run: Run, scenario: Scenario) -> str:
    """What keeps users' traffic of a scenario from being measured; it is noted.

    Args:
        run: The run.
        scenario: The scenario.

    Returns:
        "" when nothing does; otherwise what and the cure, in one sentence.
    """
    if scenario.deployment.vnf_count:
        vnf = registry.load_vnf(scenario.vnf)
        why = str(vnf.no_users(run.facts(), run.plan(scenario)))
        why = why or registry.load("endpoints", OF_USERS)().missing(run.facts())
    else:
        why = f"{scenario.id} has no VNF, and so no users"
    if why:
        run.note_skipped(f"{scenario.id}, traffic of users", why)
    return why


def measure(run: Run, scenario: Scenario) -> Transfers:
    """TCP, then UDP, each both ways, as long as the preset's longest trial.

    Args:
        run: The run.
        scenario: The scenario.

    Returns:
        What they came to; where it ends a core's sessions, what was deployed is not used again.

    Raises:
        VnetperfError: There is no number; what was deployed is not used again.
    """
    kinds: tuple[Kind, ...] = ("TCP_STREAM", "UDP_STREAM")
    ways: tuple[Way, ...] = ("forth", "back")
    specs = [
        TransferSpec(
            tool=OF_USERS, kind=kind, way=way, duration_s=_duration_s(run), rate_of_tcp=True
        )
        for kind in kinds
        for way in ways
    ]
    found = _measured(run, scenario, "users_transfer", specs)
    if registry.load_vnf(scenario.vnf).ends_with_users:
        run.forget_deployment()
    return found


def as_endpoints(configuration: Configuration, scenario: Scenario) -> Scenario:
    """A scenario as it is deployed for endpoints.

    Args:
        configuration: Says where the second endpoint is.
        scenario: The scenario as it is for a generator.

    Returns:
        It on wires of the kernel, and with a VNF that routes, and has tools, where an endpoint is
        in it.
    """
    settings = configuration.settings
    changes: dict[str, object] = {
        "variant": ",".join(filter(None, (scenario.variant, VARIANT))),
        "wire": WIRE if scenario.wire == "auto" else scenario.wire,
    }
    if settings.endpoint_server == "vnf" and settings.vnf_mode == "auto":
        changes |= {"vnf_mode": "route", "addressing": "port"}
    if settings.endpoint_server == "vnf" and scenario.guest.image == GuestOptions().image:
        changes["guest"] = scenario.guest.model_copy(update={"image": IMAGE})
    return scenario.model_copy(update=changes)


def no_endpoints(run: Run, scenario: Scenario, kind: Kind, message_size: int) -> str:
    """What keeps endpoints from talking in a scenario; it is noted.

    Args:
        run: The run.
        scenario: The scenario.
        kind: What they are to do.
        message_size: Octets of a message.

    Returns:
        "" when nothing does; otherwise what and the cure, in one sentence.
    """
    deployed = as_endpoints(run.configuration, scenario)
    why = misfit(deployed) or _no_inside(run, deployed)
    if not why:
        try:
            _spec(run, deployed, kind, message_size)
            run.plan(deployed)
        except CapabilityError as error:
            why = str(error).replace("\n", ";")
    if why:
        run.note_skipped(variant_id(scenario.id, VARIANT), f"{kind}: {why}")
    return why


def _no_inside(run: Run, scenario: Scenario) -> str:
    if run.configuration.settings.endpoint_server != "vnf":
        return ""
    if not scenario.deployment.vnf_count:
        return f"{scenario.deployment.name} has no VNF to be in; leave --endpoint-server out"
    return str(registry.load_vnf(scenario.vnf).no_inside(run.facts(), scenario))


def between_endpoints(
    run: Run, scenario: Scenario, kind: Kind, message_size: int, way: Way = "forth"
) -> Transfers:
    """One transfer between endpoints, as long as the preset's longest trial.

    Args:
        run: The run.
        scenario: The scenario.
        kind: What they do.
        message_size: Octets of a message.
        way: From where.

    Returns:
        What it came to.

    Raises:
        VnetperfError: There is no number; what was deployed is not used again.
    """
    deployed = as_endpoints(run.configuration, scenario)
    spec = _spec(run, deployed, kind, message_size, way)
    server = run.configuration.settings.endpoint_server
    return _measured(run, deployed, "transfer", [spec], server=server)


def _spec(
    run: Run, deployed: Scenario, kind: Kind, message_size: int, way: Way = "forth"
) -> TransferSpec:
    settings, preset = run.configuration.settings, run.configuration.preset
    asked = TransferSpec(
        kind=kind,
        way=way,
        message_size=message_size,
        instances=settings.instances,
        duration_s=_duration_s(run),
        warmup_s=WARMUP_S if preset.benchmark else 0,
    )
    inside = deployed if settings.endpoint_server == "vnf" else None
    tool = choose(asked, settings.endpoint_tool, run.facts(), inside)
    return asked.model_copy(update={"tool": tool})


def choose(
    spec: TransferSpec, wanted: str, facts: MachineFacts, inside: Scenario | None = None
) -> str:
    """The tool for a transfer.

    Args:
        spec: What is asked.
        wanted: Name of a tool, or "auto".
        facts: The machine.
        inside: The scenario, where an endpoint is in its VNF.

    Returns:
        The tool's name; of "auto" the first, by name, that is here and can do it.

    Raises:
        CapabilityError: It is not here, or cannot do it: each one's reason.
    """
    reasons = []
    for name in registry.names("endpoints") if wanted == AUTO else (wanted,):
        tool = registry.load("endpoints", name)()
        why = tool.cannot(spec) or tool.missing(facts)
        if not why and inside is not None:
            why = str(registry.load_vnf(inside.vnf).lacks_inside(inside, tool.programs))
        if not why:
            return name
        reasons.append(why)
    raise CapabilityError("; ".join(reasons), where=f"endpoint tool for {spec.kind}")


def _duration_s(run: Run) -> int:
    return ceil(max(goal.final_trial_s for goal in run.configuration.preset.goals))


def _measured(
    run: Run, scenario: Scenario, call: str, specs: list[TransferSpec], **more: str
) -> Transfers:
    run.deploy(scenario, run.configuration.preset.frame_sizes[0], calibrated=call != "transfer")
    try:
        answer = run.client.call(
            call,
            length_s=sum(spec.length_s for spec in specs),
            specs=[spec.model_dump(mode="json") for spec in specs],
            **more,
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
                )
            )
        raise
    found = Transfers(
        scenario=scenario.id,
        transfers=tuple(Transfer.model_validate(one) for one in answer),
    )
    run.log.append(TransfersRecord(result=found))
    return found
