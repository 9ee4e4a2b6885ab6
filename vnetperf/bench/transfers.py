"""Measures users' own traffic: deploys, lets them talk, and notes what it came to."""

from __future__ import annotations

from math import ceil

from vnetperf import registry
from vnetperf.bench.run import Run
from vnetperf.model.errors import VnetperfError
from vnetperf.model.scenario import Scenario
from vnetperf.model.transfer import Transfer, Transfers, TransferSpec
from vnetperf.results.records import TransfersRecord


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
    preset = run.configuration.preset
    duration = ceil(max(goal.final_trial_s for goal in preset.goals))
    specs = [
        TransferSpec(protocol=protocol, way=way, duration_s=duration)
        for protocol in ("tcp", "udp")
        for way in ("uplink", "downlink")
    ]
    run.deploy(scenario, preset.frame_sizes[0])
    try:
        answer = run.client.call(
            "transfer",
            length_s=sum(spec.duration_s for spec in specs),
            specs=[spec.model_dump(mode="json") for spec in specs],
        )
    except VnetperfError:
        run.forget_deployment()
        raise
    if registry.load_vnf(scenario.vnf).ends_with_users:
        run.forget_deployment()
    found = Transfers(
        scenario=scenario.id,
        transfers=tuple(Transfer.model_validate(one) for one in answer),
    )
    run.log.append(TransfersRecord(result=found))
    return found
