"""Checks before deployment whether vSwitch, VNF, generator and traffic fit each other.

Each refusal names its cure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Any

from vnetperf.config.settings import CHANGE_SETTINGS
from vnetperf.model.addresses import TEST_ADDRESSES
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError, FrameSizeError, NoResultError, accepted_names
from vnetperf.model.frames import (
    CARRIERS,
    PLAIN,
    HeaderKind,
    VaryField,
    field_number,
    index_of,
    plain_name,
    same_octets,
)
from vnetperf.model.scenario import ETHERNET_OCTETS, RoleDemand, Scenario, Variant
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import fields_sent_by, header_stack, profile_ethernet
from vnetperf.model.trial import TrialSpec
from vnetperf.planning.backends import Backends
from vnetperf.plugin import registry
from vnetperf.plugin.generator import GeneratorCapabilities
from vnetperf.plugin.vnf import UserPlane

#: Networks that a deployment knows ways to (RFC 2544 appendix C.2.2).
#: Headers of frames through a NAT.
SESSION_HEADERS: tuple[tuple[HeaderKind, ...], ...] = (PLAIN, ("ethernet", "ipv4", "tcp"))
#: From a tester port's MAC address to that of the next (model/deployment.py).
MACS_OF_A_PORT = 1 << 16


def find_size_problem(scenario: Scenario, frame_size: int, largest: int) -> str:
    """Why a scenario has no frames of a size, of those up to the largest; "" where it has."""
    mix = scenario.traffic.mix
    if (frame_size if mix is None else mix.largest) > largest:
        return f"carries up to {largest}"
    too_small = mix is None and frame_size < scenario.traffic.least_frame_size
    return scenario.traffic.explain_smallest if too_small else ""


def require_size(scenario: Scenario, frame_size: int, largest: int) -> None:
    """Refuse a frame size that a scenario cannot carry or its headers do not fit."""
    profile = scenario.traffic
    mix = profile.mix
    if not (problem := find_size_problem(scenario, frame_size, largest)):
        return
    longest = frame_size if mix is None else mix.largest
    if longest > largest:
        raise FrameSizeError(
            f"{scenario.id} carries no frames of {longest} octets",
            where="" if mix is None else f"traffic profile {profile.name}, imix",
            accepted=f"up to {largest}",
            cure="choose sizes with --frame-sizes"
            if mix is None
            else "choose another profile with --traffic",
        )
    raise FrameSizeError(
        f"frames of {frame_size} octets are too small: {problem}",
        where=scenario.id,
        accepted=f"{profile.least_frame_size} octets or more",
        cure="choose sizes with --frame-sizes, or another profile with --traffic",
    )


def require_frames(scenario: Scenario) -> None:
    """Refuse a scenario through which no tester can send frames."""
    if problem := Backends(scenario).vswitch.find_frames_problem(scenario):
        raise NoResultError(problem, where=scenario.id)


def require_trial(
    name: str, generator: Any, trial: TrialSpec, where: str, *, apart: bool = False
) -> None:
    """Refuse a trial that a generator cannot do, whatever is deployed.

    `apart`: its ports are on two hosts.
    """
    if apart and (trial.event is not None or trial.bin_s):
        raise CapabilityError(
            "a tester with its ports on two hosts does not count frames over time, since the two "
            "do not begin at the same moment",
            where=where,
            cure="measure it with both ports on one host",
        )
    if action := generator.lacks(trial):
        names = registry.names("traffic")
        able = [
            candidate for candidate in names if not registry.load("traffic", candidate).lacks(trial)
        ]
        cure = f"--generator {' or '.join(able)} can" if able else ""
        raise CapabilityError(f"{name} cannot {action}", where=where, cure=cure)


def deployment_errors(scenario: Scenario) -> Iterator[CapabilityError]:
    """What a deployment cannot do with a profile's frames, whichever generator sends them."""
    profile, graph = scenario.traffic, scenario.deployment
    where = f"{scenario.id}, traffic profile {profile.name}"

    def error(
        problem: str,
        accepted: str = "",
        cure: str = "choose another profile with --traffic, or another deployment",
    ) -> CapabilityError:
        return CapabilityError(problem, where=where, accepted=accepted, cure=cure)

    tunnelled = {stream.tunnel for stream in scenario.streams} - {""}
    if profile.carrier and tunnelled:
        yield error(
            f"the frames have a {profile.carrier} header, and {graph.name} puts them into "
            f"{', '.join(sorted(tunnelled))}: one tunnel at most",
        )
        return
    routed = scenario.routed or bool(graph.gtp)
    if routed and profile.headers[1] != "ipv4":
        yield error(
            f"{'a router' if scenario.routed else graph.name} takes packets of IPv4 right behind "
            f"Ethernet, and these are {', '.join(profile.headers)}",
        )
    if routed and graph.chains > 1 and "udp" not in profile.headers:
        yield error("parallel chains that are routed are distinguished by the UDP port")
    beyond = [
        str(value)
        for name, value in profile.values.items()
        if name in ("ipv4_src", "ipv4_dst") and ip_address(value) not in TEST_ADDRESSES.whole
    ]
    if routed and beyond:
        yield error(f"there is no way to {', '.join(beyond)}", accepted=str(TEST_ADDRESSES.whole))
    yield from map(error, _change_reasons(scenario))
    if scenario.rules == "stream" and not profile.plain:
        yield error(
            f"rules for each flow are made for frames of {', '.join(PLAIN)} with their usual "
            "values only",
            cure="choose another profile with --traffic, or leave --rules out",
        )
    if profile.broadcast and graph.chains > 1:
        yield error("broadcast frames would circle in parallel chains")
    steered = scenario.addressing == "port" or scenario.routed or graph.chains > 1
    varied = profile.vary if profile.flows > 1 else ()
    # What is the source in direction 0 is the destination in direction 1.
    addressed = {
        *(name for name in profile.values if plain_name(name) in ("eth_src", "eth_dst")),
        *(name for name in varied if plain_name(name) == "eth_dst"),
    }
    kept = sorted(name for name in addressed if _is_examined(name, scenario))
    if kept and steered:
        yield error(
            f"frames of {scenario.id} have to be addressed to what takes them in, and the profile "
            f"sets or varies {', '.join(kept)}",
            cure="set or vary another field of the profile, or choose another deployment",
        )
    if scenario.rules == "learning" and (shared := _find_shared_mac(scenario)):
        yield error(
            f"a switch that learns would find {shared} on both sides",
            accepted=f"up to {MACS_OF_A_PORT} flows by MAC address, from the usual ones",
            cure="choose --rules port where the vSwitch has them, or fewer flows",
        )
    if profile.loads != (1.0, 1.0) and len({s.direction for s in scenario.streams}) < 2:
        yield error(f"{graph.name} sends one way, and loads are of two directions")
    stacks = {header_stack(stream, profile) for stream in scenario.streams}
    for names in (profile.vary, tuple(profile.values)):
        for synonyms in sorted({same_octets(names, stack) for stack in stacks} - {""}):
            yield error(
                f"{synonyms} are one in the frames of {graph.name}",
                cure="leave one of them out of the profile",
            )
    named = {*profile.vary, *profile.values}
    sent = {name for stream in scenario.streams for name in fields_sent_by(stream, profile)}
    if missing := sorted(named - sent):
        yield error(
            f"no frame of {graph.name} has {', '.join(missing)}: it is not sent in a tunnel",
            cure="leave the fields out of the profile, or choose an overlay deployment",
        )


def _change_reasons(scenario: Scenario) -> Iterator[str]:
    """What sessions through a DUT that changes frames do not allow in a profile."""
    profile, change = scenario.traffic, scenario.change
    if change is None:
        return
    middlebox = change.middlebox
    setting = next(name for name, kind in CHANGE_SETTINGS.items() if isinstance(change, kind))
    if problem := change.find_profile_problem(profile):
        yield problem
    if profile.headers not in SESSION_HEADERS:
        stacks = " or ".join(", ".join(stack) for stack in SESSION_HEADERS)
        headers = ", ".join(profile.headers)
        yield f"sessions of {middlebox} are of {stacks}, and these frames of {headers}"
    if profile.flows > 1 or profile.values:
        rule = f"the flows through {middlebox} are the sessions of --{setting}"
        cure = "" if profile.values else "; --flows 1 leaves them out"
        yield f"{rule}, and the profile has others{cure}"
    if not profile.learning_frames:
        yield f"sessions of {middlebox} are set up by learning frames, and the profile has none"
    if profile.broadcast:
        yield f"{middlebox} forwards no broadcast frames"


def _is_examined(name: VaryField, scenario: Scenario) -> bool:
    """Whether a field of Ethernet is in a header that frames are forwarded by."""
    profile = scenario.traffic
    return any(
        index_of(name, header_stack(stream, profile)) in (0, profile_ethernet(stream, profile))
        for stream in scenario.streams
    )


def _find_shared_mac(scenario: Scenario) -> str:
    """The first MAC address that frames come from at both of the tester's ports; "" for none."""
    profile, ranges = scenario.traffic, dict[int, range]()
    for stream in scenario.streams:
        stack = header_stack(stream, profile)
        names = [n for n in ("eth_src", "outer_eth_src") if index_of(n, stack) == 0]
        many = profile.flows if {*names} & {*profile.vary} else 1
        values = [profile.value(name, stream.direction) for name in names]
        configured = next((value for value in values if value is not None), None)
        first = field_number("eth_src", stream.eth_src if configured is None else configured)
        other = ranges.get(1 - stream.direction, range(0))
        macs = range(first, first + many)
        if shared := range(max(macs.start, other.start), min(macs.stop, other.stop)):
            return shared.start.to_bytes(6, "big").hex(":")
        ranges[stream.direction] = macs
    return ""


def generator_errors(scenario: Scenario, can: GeneratorCapabilities) -> Iterator[CapabilityError]:
    """What a generator cannot do of a profile."""
    profile = scenario.traffic
    where = f"{scenario.id}, traffic profile {profile.name}"
    cure = "choose another generator with --generator (loadgen can), or another profile"

    def cannot(action: str, accepted: str = "") -> CapabilityError:
        return CapabilityError(
            f"{scenario.generator} cannot {action}", where=where, accepted=accepted, cure=cure
        )

    if lacking := [kind for kind in profile.headers if kind not in can.headers]:
        yield cannot(
            f"send frames with a header {', '.join(dict.fromkeys(lacking))}",
            ", ".join(kind for kind in (*PLAIN, *sorted(can.headers - set(PLAIN)))),
        )
    if profile.carrier in CARRIERS and profile.carrier not in can.tunnels:
        yield cannot(f"send frames in a {profile.carrier} tunnel", ", ".join(can.tunnels))
    varied = profile.vary if profile.flows > 1 else ()
    if fixed := [name for name in varied if name not in can.vary]:
        yield cannot(f"vary {', '.join(fixed)}", ", ".join(sorted(can.vary)))
    if varied and profile.vary_mode == "random" and not can.random_fields:
        yield cannot("vary fields at random", 'vary_mode = "inc"')
    if can.max_flows is not None and (flows := profile.flow_count) > can.max_flows:
        mode = "at random" if profile.vary_mode == "random" else "out of step"
        remark = f", as fields {mode} make of {profile.flows}" if flows > profile.flows else ""
        yield cannot(f"send {flows} flows{remark}", f"up to {can.max_flows}")
    if profile.mix is not None and not can.imix:
        yield cannot("send a mix of frame sizes", "one size")
    if profile.loads != (1.0, 1.0) and not can.asymmetric:
        yield cannot("send different loads into the two ports", "equal loads")
    if profile.broadcast and not can.broadcast:
        yield cannot("send broadcast frames and count them apart", "broadcast = 0")
    if profile.burst > 1 and not can.paced_bursts:
        yield cannot(f"meet a load with bursts of {profile.burst} frames", "burst = 1")
    if scenario.change is not None and not can.sessions:
        yield cannot(f"send through {scenario.change.middlebox}, and look at what comes back")
    if (profile.answers == "any" or profile.announce) and not can.answers:
        setting = 'answers = "any"' if profile.answers == "any" else "announce"
        yield cannot(
            f"answer neighbours, as {setting} requires", 'answers = "none", announce = false'
        )


def check_capabilities(scenario: Scenario, vswitch: Any, vnf: Any, generator: Any) -> None:
    """Refuse what a part cannot do; where endpoints are apart there is no tester."""
    can, tester = generator.capabilities, not scenario.apart
    for error in (
        *_vswitch_errors(scenario, vswitch),
        *_attachment_errors(scenario, vswitch.list_attachments(scenario), vnf, can),
        *(_tester_errors(scenario, can) if tester else ()),
        *deployment_errors(scenario),
        *(generator_errors(scenario, can) if tester else ()),
    ):
        raise error


def tester_roles(name: str, generator: Any, testbed: Testbed) -> tuple[RoleDemand, ...]:
    """Busy threads of a generator, as many as the testbed gives it."""
    threads, most = testbed.cores.tester, generator.capabilities.max_workers
    roles: tuple[RoleDemand, ...] = generator.roles()
    if threads == 1:
        return roles
    if threads > most:
        raise CapabilityError(
            f"{name} sends from {most} thread{'s' * (most > 1)}, not from {threads}",
            where=f"cores.tester of testbed {testbed.name}",
            accepted=f"1..{most}" if most > 1 else "1",
            cure="set cores.tester in the testbed file, or choose another generator",
        )
    return tuple(
        role.model_copy(update={"threads": threads}) if role.role == "tester" else role
        for role in roles
    )


def mode_error(scenario: Scenario, can: Any) -> CapabilityError | None:
    """What is wrong with a scenario's mode of what joins its ports."""
    name, mode = scenario.vswitch, scenario.options.mode
    if not mode or mode in can.modes:
        return None
    if not can.modes:
        return CapabilityError(f"{name} has no modes; leave --set mode out", where="mode")
    accepted = ", ".join(can.modes)
    return CapabilityError(f"{name} has no mode {mode!r}", where="mode", accepted=accepted)


def _vswitch_errors(scenario: Scenario, vswitch: Any) -> Iterator[CapabilityError]:
    can, option_names = (
        vswitch.capabilities,
        (*vswitch.capabilities.options, *vswitch.Options.model_fields),
    )
    name, where = scenario.vswitch, scenario.id
    if error := mode_error(scenario, can):
        yield error
    for option, value in scenario.options.given().items():
        if option not in option_names:
            yield CapabilityError(
                f"{name} has no option {option} (it is set to {value})",
                where=f"{where}, conf/switch/{scenario.options.name or 'default'}.toml or --set",
                accepted=accepted_names(option, option_names) or "no options",
                cure="leave the option out, or measure another vSwitch with it",
            )
        elif (mode := scenario.options.mode or next(iter(can.modes), "")) not in (
            modes := can.option_modes.get(option, (mode,))
        ):
            yield CapabilityError(
                f"{name} has no option {option} in mode {mode} (it is set to {value})",
                where=where,
                accepted=f"{option} in mode {', '.join(modes)}",
                cure="leave the option out, or choose another mode",
            )
    for setting, value, offered in (
        ("rules", scenario.rules, can.rules),
        ("forwarding", scenario.forwarding, can.forwarding),
        ("tunnel", scenario.tunnel if scenario.deployment.tunnelled else None, can.tunnels),
    ):
        if value is not None and value not in offered:
            yield CapabilityError(
                f"{name} cannot do {setting} = {value}",
                where=where,
                accepted=", ".join(offered) or "none of them",
                cure=f"choose another with --{setting}, or another vSwitch",
            )
    if scenario.routed and scenario.rules == "learning":
        yield CapabilityError(
            "a vSwitch that routes does not learn addresses", where="rules", accepted="port, stream"
        )
    if scenario.deployment.chains > 1 and not can.chains:
        yield CapabilityError(f"{name} cannot distinguish parallel chains", where=where)
    if scenario.largest_on_wire > scenario.mtu + ETHERNET_OCTETS:
        yield CapabilityError(
            f"an MTU of {scenario.mtu} carries no frames of {scenario.largest_on_wire} octets",
            where="mtu",
            accepted=f"{scenario.largest_on_wire - ETHERNET_OCTETS} or more",
            cure="leave mtu out: it then fits the frame sizes",
        )


def _other_vnfs(scenario: Scenario, offered: Iterable[str]) -> str:
    """How to have a VNF of the same kind that plugs into what the vSwitch offers."""
    loaders = registry.names("vnfs")
    vnf_names = [
        n
        for loader in loaders
        for n in (loader, *(f"{loader}:{p}" for p in registry.load_vnf(loader).places))
    ]
    fitting = [
        f"--vnf {name}"
        for name in vnf_names
        if issubclass(other := registry.load_vnf(name), UserPlane) == bool(scenario.deployment.gtp)
        and {*offered} & {*other.accepts(scenario)}
    ]
    return f"choose {' or '.join(fitting[:2])}" if fitting else "no VNF that is there fits"


def _attachment_errors(
    scenario: Scenario, offered: tuple[str, ...], vnf: Any, generator: Any
) -> Iterator[CapabilityError]:
    in_mode = vnf.accepts(scenario)
    narrowed = vnf.narrowed_by(scenario) if in_mode != vnf.attachments else ""
    graph = scenario.deployment
    of_tester = () if scenario.apart else graph.tester_vnf_ports
    for needed, taker, mode, accepts in (
        (graph.vnf_count, scenario.vnf, narrowed, in_mode),
        (len(of_tester), scenario.generator, "", generator.attachments),
    ):
        if needed and not set(offered) & set(accepts):
            yield CapabilityError(
                f"{scenario.vswitch} offers {', '.join(offered) or 'no attachment'}; "
                f"{taker}{mode} accepts {', '.join(accepts) or 'none'}",
                where=scenario.id,
                cure=_other_vnfs(scenario, offered)
                + (", another --vnf-mode or --guest" if mode else "")
                + ", or another vSwitch"
                if taker == scenario.vnf
                else "choose another generator with --generator, or a deployment without VNF ports",
            )


def _tester_errors(scenario: Scenario, can: Any) -> Iterator[CapabilityError]:
    sends = {stream.tunnel for stream in scenario.streams} - {""}
    if sends - set(can.tunnels):
        yield CapabilityError(
            f"{scenario.generator} cannot send frames in a {scenario.encapsulation} tunnel",
            where=scenario.id,
            accepted=", ".join(can.tunnels) or "no tunnel",
        )


def attachment_kind(backends: Backends, accepts: tuple[str, ...]) -> str:
    """The kind of attachment that the DUT and a VNF, or a tester in its place, meet at."""
    offered = backends.vswitch.list_attachments(backends.scenario)
    return next(kind for kind in offered if kind in accepts)


#: Settings that are about VNFs.
_VNF_SETTINGS = ("vnf", "vnf_mode", "vnf_placement", "vnfs", "guest", "core")
#: Kinds of attachment whose frames vhost-net can move.
_VHOST_NET_KINDS = ("tap", "macvtap")


def check_variant_effect(scenario: Scenario, variant: Variant, facts: MachineFacts) -> None:
    """Refuse a variant one of whose settings has nothing to act on.

    A user may type such a setting, for a selection in which it matters to others. Where it is what
    is compared, equal things would stand under different names.
    """
    if not variant.settings:
        return
    settings: dict[str, tuple[str, ...]] = {}
    for key, value in variant.settings:
        values = value if isinstance(value, tuple) else (str(value),)
        settings[key] = settings.get(key, ()) + values
    settings = {key: values for key, values in settings.items() if values}
    for key, reason in _find_idle_settings(scenario, settings, facts):
        raise CapabilityError(
            f"{key} = {', '.join(settings[key])} changes nothing: {reason}",
            where=scenario.id,
            cure="leave this scenario out of the comparison",
        )


def _find_idle_settings(
    scenario: Scenario, settings: dict[str, tuple[str, ...]], facts: MachineFacts
) -> Iterator[tuple[str, str]]:
    graph = scenario.deployment
    numbers = (*graph.vnf_numbers, *scenario.through_guests)
    if not numbers:
        yield from ((key, f"{graph.name} has no VNF") for key in _VNF_SETTINGS if key in settings)
    if "vnf" in settings and scenario.vnf != settings["vnf"][-1]:
        yield "vnf", f"{graph.name} is for a mobile core, and runs {scenario.vnf}"
    if (
        "vnfs" in settings
        and make_deployment(graph.name, graph.vnf_count + 1).vnf_count == graph.vnf_count
    ):
        yield "vnfs", f"{graph.name} always has as many"
    if "core" in settings and not graph.gtp:
        yield "core", f"{graph.name} has no mobile core"
    yield from (
        (name, f"{scenario.vswitch} {kind.missing_part}")
        for name, kind in CHANGE_SETTINGS.items()
        if name in settings and not isinstance(scenario.change, kind)
    )
    if "tunnel" in settings and not graph.tunnelled:
        yield "tunnel", f"{graph.name} has no tunnel"
    if graph.dut_family != "networks":
        keys = ("hosts", "pod", "pods", "ranks")
        yield from ((key, f"{graph.name} has no pods") for key in keys if key in settings)
    if "wire" in settings and not graph.phy_ports:
        yield "wire", f"{graph.name} has no wires"
    if not numbers:
        return
    if "guest" in settings and not scenario.has_guests:
        yield "guest", f"{scenario.vnf} is no guest"
    backends = Backends(scenario)
    if "vnf_placement" in settings and not any(backends.vnf.roles(scenario, n) for n in numbers):
        yield "vnf_placement", f"no thread of {scenario.vnf} is placed, the host's kernel forwards"
    if "guest" in settings:
        yield from (
            ("guest", reason) for reason in _guest_nic_reasons(backends, settings["guest"], facts)
        )


def _guest_nic_reasons(
    backends: Backends, pairs: tuple[str, ...], facts: MachineFacts
) -> Iterator[str]:
    """What guests' NICs are, where the attachment leaves no choice."""
    keys = {pair.partition("=")[0] for pair in pairs}
    scenario = backends.scenario
    accepted = backends.vnf.accepts(scenario)
    if not set(backends.vswitch.list_attachments(scenario)) & set(accepted):
        return  # which the plan reports better
    kind = attachment_kind(backends, accepted)
    if "nic" in keys and kind == "vf":
        yield "the guest's NIC is a function of the machine's"
    if "vhost" in keys and scenario.guest.vhost is False:
        if kind not in _VHOST_NET_KINDS:
            yield f"vhost-net has no part in an attachment of the kind {kind}"
        elif facts.modules.get("vhost_net"):
            yield "vhost-net is not to be had here, so no variant has it"
