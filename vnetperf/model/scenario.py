"""A scenario: deployment x vSwitch x VNF x traffic."""

from __future__ import annotations

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Deployment, make_deployment
from vnetperf.model.errors import ConfigError
from vnetperf.model.traffic import Stream, TrafficProfile, make_streams


class Scenario(Frozen):
    """What is deployed and measured.

    Attributes:
        deployment: The graph.
        vswitch: Registered name of the vSwitch.
        vnf: Registered name of the VNF loader.
        vnf_mode: The VNF's forwarding mode: "io", "mac", "macswap".
        traffic: The traffic profile.
        generator: Registered name of the traffic generator.
        wire: Kind of wire, or "auto" for the best both ends accept.
    """

    deployment: Deployment
    vswitch: str
    vnf: str = "vloop"
    vnf_mode: str = "io"
    traffic: TrafficProfile
    generator: str = "loadgen"
    wire: str = "auto"

    @property
    def id(self) -> str:
        """Name as it stands in test ids and results: "pvp_dpdk"."""
        return f"{self.deployment.name}_{self.vswitch}"

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Streams of the scenario's traffic."""
        return make_streams(self.deployment, self.traffic)


def split_id(scenario_id: str) -> tuple[str, str]:
    """Split "pvp_dpdk" into deployment and vSwitch.

    Args:
        scenario_id: Name of a scenario.

    Returns:
        Deployment name, vSwitch name.

    Raises:
        ConfigError: When it has no underscore or names an unknown deployment.
    """
    deployment, _, vswitch = scenario_id.partition("_")
    if not vswitch:
        raise ConfigError(
            f"{scenario_id!r} names no vSwitch", where="scenario", accepted="DEPLOYMENT_VSWITCH"
        )
    make_deployment(deployment)
    return deployment, vswitch
