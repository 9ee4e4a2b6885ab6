"""What a traffic profile asks of a deployment and of a generator, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from vnetperf.model.errors import CapabilityError, FrameSizeError
from vnetperf.model.fields import VaryField, index_of, number_of, plain_name, same_octets
from vnetperf.model.headers import CARRIERS, PLAIN
from vnetperf.model.scenario import Scenario
from vnetperf.model.stacks import fields_sent_by, own_ethernet, stack_of
from vnetperf.traffic.base import GeneratorCapabilities

#: Networks that a deployment knows ways to (RFC 2544 appendix C.2.2).
TEST_NETWORK = ip_network("198.18.0.0/15")
#: From a tester port's MAC address to that of the next (model/addresses.py).
MACS_OF_A_PORT = 1 << 16


def require_size(scenario: Scenario, frame_size: int, largest: int) -> None:
    """Refuse a frame size that a scenario cannot carry or its headers do not fit.

    Args:
        scenario: The scenario.
        frame_size: Octets including FCS; with a mix of sizes it stands for all of them.
        largest: Largest frame that everything on the path carries, octets including FCS.

    Raises:
        FrameSizeError: What is accepted, and the cure.
    """
    profile = scenario.traffic
    mix = profile.mix
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
    if mix is None and frame_size < profile.least_frame_size:
        raise FrameSizeError(
            f"frames of {frame_size} octets are too small: {profile.why_that_size}",
            where=scenario.id,
            accepted=f"{profile.least_frame_size} octets or more",
            cure="choose sizes with --frame-sizes, or another profile with --traffic",
        )


def of_deployment(scenario: Scenario) -> Iterator[CapabilityError]:
    """What a deployment cannot do with a profile's frames, whichever generator sends them.

    Args:
        scenario: The scenario.

    Yields:
        What is wrong, and the cure.
    """
    profile, graph = scenario.traffic, scenario.deployment
    where = f"{scenario.id}, traffic profile {profile.name}"
    cure = "choose another profile with --traffic, or another deployment"
    tunnelled = {stream.tunnel for stream in scenario.streams} - {""}
    if profile.carrier and tunnelled:
        yield CapabilityError(
            f"the frames have a {profile.carrier} header, and {graph.name} puts them into "
            f"{', '.join(sorted(tunnelled))}: one tunnel at most",
            where=where,
            cure=cure,
        )
        return
    routed = scenario.routed or bool(graph.gtp)
    if routed and profile.headers[1] != "ipv4":
        yield CapabilityError(
            f"{'a router' if scenario.routed else graph.name} takes packets of IPv4 right behind "
            f"Ethernet, and these are {', '.join(profile.headers)}",
            where=where,
            cure=cure,
        )
    if routed and graph.chains > 1 and "udp" not in profile.headers:
        yield CapabilityError(
            "parallel chains that are routed are told apart by the UDP port", where=where, cure=cure
        )
    beyond = [
        str(value)
        for name, value in profile.values.items()
        if name in ("ipv4_src", "ipv4_dst") and ip_address(value) not in TEST_NETWORK
    ]
    if routed and beyond:
        yield CapabilityError(
            f"there is no way to {', '.join(beyond)}", where=where, accepted=str(TEST_NETWORK)
        )
    if scenario.rules == "stream" and not profile.plain:
        yield CapabilityError(
            f"rules for each flow are made for frames of {', '.join(PLAIN)} with their usual "
            "values only",
            where=where,
            cure="choose another profile with --traffic, or leave --rules out",
        )
    if profile.broadcast and graph.chains > 1:
        yield CapabilityError(
            "broadcast frames would circle in parallel chains", where=where, cure=cure
        )
    steered = scenario.addressing == "port" or scenario.routed or graph.chains > 1
    varied = profile.vary if profile.flows > 1 else ()
    # What is the source in direction 0 is the destination in direction 1.
    asked = {
        *(name for name in profile.values if plain_name(name) in ("eth_src", "eth_dst")),
        *(name for name in varied if plain_name(name) == "eth_dst"),
    }
    kept = sorted(name for name in asked if _is_looked_at(name, scenario))
    if kept and steered:
        yield CapabilityError(
            f"frames of {scenario.id} have to be addressed to what takes them in, and the profile "
            f"sets or varies {', '.join(kept)}",
            where=where,
            cure="set or vary another field of the profile, or choose another deployment",
        )
    if scenario.rules == "learning" and (shared := _on_both_sides(scenario)):
        yield CapabilityError(
            f"a switch that learns would find {shared} on both sides",
            where=where,
            accepted=f"up to {MACS_OF_A_PORT} flows by MAC address, from the usual ones",
            cure="choose --rules port where the vSwitch has them, or fewer flows",
        )
    if profile.loads != (1.0, 1.0) and len({s.direction for s in scenario.streams}) < 2:
        yield CapabilityError(
            f"{graph.name} sends one way, and loads are of two directions", where=where, cure=cure
        )
    stacks = {stack_of(stream, profile) for stream in scenario.streams}
    for names in (profile.vary, tuple(profile.values)):
        for both in sorted({same_octets(names, stack) for stack in stacks} - {""}):
            yield CapabilityError(
                f"{both} are one in the frames of {graph.name}",
                where=where,
                cure="leave one of them out of the profile",
            )
    named = {*profile.vary, *profile.values}
    sent = {name for stream in scenario.streams for name in fields_sent_by(stream, profile)}
    if missing := sorted(named - sent):
        yield CapabilityError(
            f"no frame of {graph.name} has {', '.join(missing)}: it is not sent in a tunnel",
            where=where,
            cure="leave the fields out of the profile, or choose an overlay deployment",
        )


def _is_looked_at(name: VaryField, scenario: Scenario) -> bool:
    """Whether a field of Ethernet is in a header that frames are forwarded by."""
    profile = scenario.traffic
    return any(
        index_of(name, stack_of(stream, profile)) in (0, own_ethernet(stream, profile))
        for stream in scenario.streams
    )


def _on_both_sides(scenario: Scenario) -> str:
    """The first MAC address that frames come from at both of the tester's ports; "" for none."""
    profile, ranges = scenario.traffic, dict[int, range]()
    for stream in scenario.streams:
        stack = stack_of(stream, profile)
        names = [n for n in ("eth_src", "outer_eth_src") if index_of(n, stack) == 0]
        many = profile.flows if {*names} & {*profile.vary} else 1
        values = [profile.value(name, stream.direction) for name in names]
        given = next((value for value in values if value is not None), None)
        first = number_of("eth_src", stream.eth_src if given is None else given)
        other = ranges.get(1 - stream.direction, range(0))
        mine = range(first, first + many)
        if both := range(max(mine.start, other.start), min(mine.stop, other.stop)):
            return both.start.to_bytes(6, "big").hex(":")
        ranges[stream.direction] = mine
    return ""


def of_generator(scenario: Scenario, can: GeneratorCapabilities) -> Iterator[CapabilityError]:
    """What a generator cannot do of a profile.

    Args:
        scenario: The scenario.
        can: Its capabilities.

    Yields:
        What it cannot, what it can, and the cure.
    """
    profile = scenario.traffic
    where = f"{scenario.id}, traffic profile {profile.name}"
    cure = "choose another generator with --generator (loadgen can), or another profile"

    def cannot(what: str, accepted: str = "") -> CapabilityError:
        return CapabilityError(
            f"{scenario.generator} cannot {what}", where=where, accepted=accepted, cure=cure
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
    if profile.flows > can.max_flows:
        yield cannot(f"send {profile.flows} flows", f"up to {can.max_flows}")
    if profile.mix is not None and not can.imix:
        yield cannot("send a mix of frame sizes", "one size")
    if profile.loads != (1.0, 1.0) and not can.asymmetric:
        yield cannot("send different loads into the two ports", "equal loads")
    if profile.broadcast and not can.broadcast:
        yield cannot("send broadcast frames and count them apart", "broadcast = 0")
    if profile.burst > 1 and not can.paced_bursts:
        yield cannot(f"meet a load with bursts of {profile.burst} frames", "burst = 1")
    if (profile.answers == "any" or profile.announce) and not can.answers:
        asked = 'answers = "any"' if profile.answers == "any" else "announce"
        yield cannot(f"answer neighbours, as {asked} wants", 'answers = "none", announce = false')
