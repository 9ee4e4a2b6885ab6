"""The scenarios: every deployment on every registered vSwitch, and their variants.

Their names are known without a backend: what backends need is imported where one is looked at.
"""

from __future__ import annotations

from vnetperf.config import Configuration, Settings
from vnetperf.model.deployment import OF_NETWORKS, OF_VSWITCHES, make_deployment
from vnetperf.model.errors import (
    ConfigError,
    NoResultError,
    VnetperfError,
    did_you_mean,
    join_errors,
)
from vnetperf.model.frame_change import NEW_SESSIONS
from vnetperf.model.frames import GTPU, overhead
from vnetperf.model.options import GuestOptions, MobileCoreOptions
from vnetperf.model.parameters import SPARE_ADDRESSES
from vnetperf.model.preset import Preset
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import ADDRESSING_MODES, STANDARD_FRAME_SIZE, Scenario, split_id
from vnetperf.plugin import registry
from vnetperf.plugin.dut import load_dut


def scenario_ids() -> list[str]:
    """Ids of all scenarios."""
    return [name for name in possible_ids() if exists(name)]


def possible_ids() -> list[str]:
    """Ids of every deployment with every vSwitch, in order; no backend is loaded for them."""
    kinds = ((OF_VSWITCHES, registry.names("vswitches")), (OF_NETWORKS, registry.names("networks")))
    return [f"{d}_{name}" for deployments, names in kinds for d in deployments for name in names]


def exists(possible: str) -> bool:
    """Whether a vSwitch has the deployment of a possible id."""
    deployment, name = split_id(possible)
    return deployment in OF_NETWORKS or deployment in _list_deployments(name)


def _list_deployments(vswitch: str) -> tuple[str, ...]:
    try:
        return registry.load("vswitches", vswitch).deployments or OF_VSWITCHES
    except VnetperfError:  # its own cases give the reason
        return OF_VSWITCHES


def can_be_loaded(scenario_id: str) -> bool:
    """Whether a scenario's own vSwitch or network can be: others are measured all the same."""
    deployment, name = split_id(scenario_id)
    try:
        load_dut(make_deployment(deployment), name)
    except VnetperfError:
        return False
    return True


def _mobile_core() -> str:
    """The VNF of deployments that are for a mobile core."""
    from vnetperf.plugin.vnf import UserPlane

    names = [
        name for name in registry.names("vnfs") if issubclass(registry.load_vnf(name), UserPlane)
    ]
    if not names:
        raise ConfigError("no mobile core is registered", where="vnfs")
    return names[0]


def _guest(chosen: str) -> str:
    """The VNF whose guests pods in VMs are: the one that is chosen, where it has such."""
    from vnetperf.plugin.vnf import EndpointHost, UserPlane

    names = registry.names("vnfs")
    places = (f"{name}:{place}" for name in names for place in registry.load_vnf(name).places)
    for name in (chosen, *places):
        vnf = registry.load_vnf(name)
        plain = issubclass(vnf, EndpointHost) and not issubclass(vnf, UserPlane)
        if plain and vnf.alone is not None:
            return name
    raise ConfigError("no VNF is registered that has guests for pods", where="vnfs")


def make_scenario(scenario_id: str, configuration: Configuration, variant: str = "") -> Scenario:
    """A scenario by its id."""
    from vnetperf.plugin.vnf import UserPlane

    deployment, vswitch = split_id(scenario_id)
    settings = configuration.settings
    graph = make_deployment(deployment, settings.vnfs)
    tunnel = settings.tunnel if settings.tunnel != "auto" else "none" if graph.sites else "vxlan"
    if settings.tunnel != "auto":
        graph = graph.in_tunnels()
    backend = load_dut(graph, vswitch)
    capabilities = backend.capabilities
    # Chains that no port distinguishes are distinguished by address.
    learned = settings.rules == "learning" and graph.chains > 1
    by_port = learned or capabilities.addressing == "port"
    vnf = settings.vnf
    if graph.gtp and not issubclass(registry.load_vnf(vnf), UserPlane):
        vnf = _mobile_core()  # whatever --vnf is: only a mobile core takes users' packets
    if graph.guests:
        vnf = _guest(vnf)
    rewrites = (by_port or settings.forwarding == "l3") and graph.vnf_count > 0
    usual = "route" if graph.gtp else "mac" if rewrites else "io"
    mode = settings.vnf_mode if settings.vnf_mode != "auto" else usual
    guest, stack = configuration.guest, configuration.stack if graph.gtp else None
    if stack is not None and guest.image == GuestOptions().image:
        guest = guest.model_copy(update={"image": stack.image})
    # A wire that carries no more than usual is enough while frames in a tunnel are no longer.
    added = GTPU if graph.gtp else tunnel if graph.sites or graph.tunnelled else ""
    usual_size = STANDARD_FRAME_SIZE - overhead(added)
    mix = configuration.traffic.mix
    sizes = configuration.preset.frame_sizes if mix is None else (mix.largest,)
    scenario = Scenario(
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
        tunnel=tunnel,
        **(settings.network_fields if graph.dut_family == "networks" else {}),
        options=configuration.switch,
        guest=guest,
        core=configuration.mobile_core if graph.gtp else MobileCoreOptions(),
        stack=stack,
        change=configuration.changes.get(capabilities.frame_change),
        max_frame_size=max(usual_size, *sizes),
        variant=variant,
    )
    adapted: Scenario = backend.adapted(scenario, configuration.testbed)
    return adapted


def check_backends(configuration: Configuration) -> None:
    """Refuse names that no backend has, and what a backend cannot do, before anything starts."""
    check_names(configuration)
    check_mode(configuration.settings)
    name = configuration.settings.generator
    if configuration.capture and not registry.load("traffic", name).capabilities.capture:
        raise ConfigError(
            f"{name} keeps no frames of a trial",
            where="pcap",
            accepted="0",
            cure="leave --pcap out, or measure with --generator loadgen",
        )


#: Settings that name a backend, and the family it is of.
_FAMILIES: dict[str, registry.Family] = {
    "generator": "traffic",
    "wire": "wires",
    "endpoint_tool": "endpoints",
    "mpi_program": "mpi",
    "vnf": "vnfs",
}


def check_names(configuration: Configuration) -> None:
    """Refuse names that no backend has, all at once."""
    errors: list[ConfigError] = []
    for key, family in _FAMILIES.items():
        name, where = getattr(configuration.settings, key), f"{configuration.sources[key]}: {key}"
        of_vnf = family == "vnfs"
        kind = name.partition(":")[0] if of_vnf else name
        if kind not in registry.names(family) and (of_vnf or kind != "auto"):
            errors.append(registry.unknown(family, kind, where))
        elif of_vnf and configuration.sources[key] != "default":
            try:
                registry.load_vnf(name, where)
                check_mode(configuration.settings)
            except ConfigError as error:
                errors.append(error)
    if errors:
        raise join_errors(errors)


def check_mode(settings: Settings) -> None:
    """Refuse a mode that the VNF does not have."""
    if settings.vnf_mode == "auto":
        return
    modes = ("auto", *registry.load_vnf(settings.vnf).modes)
    if settings.vnf_mode not in modes:
        raise ConfigError(
            f"{settings.vnf} has no mode {settings.vnf_mode!r}"
            f"{did_you_mean(settings.vnf_mode, modes)}",
            where="vnf_mode",
            accepted=", ".join(modes),
        )


ADDRESSES_VARIANT = "addresses"
#: Locally administered, of nobody else here; the last three octets count.
_FIRST_MAC = "02:ad:d2:00:00"


def variant_with(scenario: Scenario, variant: str) -> str:
    """The scenario's variant with another one besides."""
    return ",".join(part for part in (scenario.variant, variant) if part)


def session_scenario(scenario: Scenario) -> Scenario:
    """A scenario whose frames come from one side alone: each trial makes sessions anew."""
    if scenario.change is None:
        raise NoResultError(
            f"{scenario.vswitch} is no NAT and balances no services: it makes no sessions",
            where=scenario.id,
            cure="measure a vSwitch that translates, e.g. -k phy2phy_cgnat, or -k phy2phy_lb",
        )
    if scenario.traffic.imix:
        raise NoResultError(
            "sessions are made by frames of one size: each size of a mix begins with the first "
            "session again, and a frame of each session would not be sent",
            where=scenario.id,
            cure="choose --traffic without a mix",
        )
    traffic = scenario.traffic.model_copy(update={"bidirectional": False, "loads": (1.0, 1.0)})
    return scenario.model_copy(
        update={"traffic": traffic, "variant": variant_with(scenario, NEW_SESSIONS)}
    )


def address_scenario(scenario: Scenario, preset: Preset) -> Scenario:
    """A scenario whose traffic comes from, and goes to, more and more addresses."""
    if scenario.rules != "learning":
        raise NoResultError(
            f"with rules {scenario.rules!r} the vSwitch learns no addresses (RFC 2889 sections "
            "5.7 and 5.8)",
            where=scenario.id,
            cure="measure with --rules learning",
        )
    if scenario.deployment.vnf_count:
        raise NoResultError(
            "a VNF between the ports has or hides addresses of its own (RFC 2889 is of switches)",
            where=scenario.id,
            cure="measure a phy2phy scenario",
        )
    profile = TrafficProfile(
        name=ADDRESSES_VARIANT,
        description="from and to many addresses, one way, to see which of them were learned",
        bidirectional=False,
        flows=preset.rfc2889.max_addresses + SPARE_ADDRESSES,
        vary=("eth_src", "eth_dst"),
        values={"eth_src": f"{_FIRST_MAC}:00", "eth_dst": f"{_FIRST_MAC}:{SPARE_ADDRESSES:02x}"},
        learning_frames=0,
        answers="none",
    )
    return scenario.model_copy(update={"traffic": profile, "variant": ADDRESSES_VARIANT})
