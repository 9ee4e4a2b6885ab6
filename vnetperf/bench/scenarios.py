"""Which scenarios there are: every deployment on every registered vSwitch."""

from __future__ import annotations

from vnetperf import registry
from vnetperf.config import Configuration
from vnetperf.model.core import CoreOptions
from vnetperf.model.deployment import DEPLOYMENTS, make_deployment
from vnetperf.model.guest import GuestOptions
from vnetperf.model.scenario import ADDRESSING_MODES, STANDARD_FRAME_SIZE, Scenario, split_id
from vnetperf.model.tunnel import GTPU, overhead

#: The VNF of deployments that are for a mobile core.
CORE = "vepc"


def scenario_ids() -> list[str]:
    """Ids of all scenarios.

    Returns:
        "phy2phy_dpdk", "pvp_dpdk", ... by deployment, then vSwitch.
    """
    return [f"{d}_{v}" for d in DEPLOYMENTS for v in registry.names("vswitches")]


def make_scenario(scenario_id: str, configuration: Configuration, variant: str = "") -> Scenario:
    """A scenario by its id.

    Args:
        scenario_id: "pvp_dpdk".
        configuration: Says which VNF, traffic and wire; that of the variant, if there is one.
        variant: Id of the variant, "" outside of a comparison.

    Returns:
        The scenario.
    """
    deployment, vswitch = split_id(scenario_id)
    settings = configuration.settings
    graph = make_deployment(deployment, settings.vnfs)
    capabilities = registry.load("vswitches", vswitch).capabilities
    # A chain that is not told apart by its port is told apart by address.
    learned = settings.rules == "learning" and graph.chains > 1
    by_port = learned or capabilities.addressing == "port"
    vnf = settings.vnf
    if graph.gtp and not registry.load_vnf(vnf).user_plane:
        vnf = CORE  # whatever else is asked for, only a mobile core takes users' packets
    rewrites = (by_port or settings.forwarding == "l3") and graph.vnf_count > 0
    usual = "route" if graph.gtp else "mac" if rewrites else "io"
    mode = settings.vnf_mode if settings.vnf_mode != "auto" else usual
    guest, stack = configuration.guest, configuration.stack if graph.gtp else None
    if stack is not None and guest.image == GuestOptions().image:
        guest = guest.model_copy(update={"image": stack.image})
    # A wire that carries no more than usual is enough while frames in GTP-U are no longer.
    usual_size = STANDARD_FRAME_SIZE - (overhead(GTPU) if graph.gtp else 0)
    mix = configuration.traffic.mix
    sizes = configuration.preset.frame_sizes if mix is None else (mix.largest,)
    return Scenario(
        deployment=graph,
        vswitch=vswitch,
        vnf=vnf,
        vnf_mode=mode,
        vnf_placement=settings.vnf_placement,
        traffic=configuration.traffic,
        generator=settings.generator,
        wire=settings.wire,
        forwarding=settings.forwarding,
        rules=settings.rules,
        addressing="port" if by_port or mode in ADDRESSING_MODES else "far",
        tunnel=settings.tunnel,
        options=configuration.switch,
        guest=guest,
        core=configuration.core if graph.gtp else CoreOptions(),
        stack=stack,
        max_frame_size=max(usual_size, *sizes),
        variant=variant,
    )
