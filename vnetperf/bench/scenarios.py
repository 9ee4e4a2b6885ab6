"""Which scenarios there are: every deployment on every registered vSwitch."""

from __future__ import annotations

from vnetperf import registry
from vnetperf.config import Configuration
from vnetperf.model.deployment import DEPLOYMENTS, make_deployment
from vnetperf.model.scenario import Scenario, split_id


def scenario_ids() -> list[str]:
    """Ids of all scenarios.

    Returns:
        "phy2phy_dpdk", "pvp_dpdk", ... by deployment, then vSwitch.
    """
    return [f"{d}_{v}" for d in DEPLOYMENTS for v in registry.names("vswitches")]


def make_scenario(scenario_id: str, configuration: Configuration) -> Scenario:
    """A scenario by its id.

    Args:
        scenario_id: "pvp_dpdk".
        configuration: Says which VNF, traffic and wire.

    Returns:
        The scenario.
    """
    deployment, vswitch = split_id(scenario_id)
    settings = configuration.settings
    return Scenario(
        deployment=make_deployment(deployment, settings.vnfs),
        vswitch=vswitch,
        vnf=settings.vnf,
        vnf_mode=settings.vnf_mode,
        traffic=configuration.traffic,
        generator=settings.generator,
        wire=settings.wire,
    )
