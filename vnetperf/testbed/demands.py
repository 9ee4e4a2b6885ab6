"""Compares what a scenario asks for with what its parts say they can, before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vnetperf.model.errors import CapabilityError
from vnetperf.model.plan import RoleDemand
from vnetperf.model.scenario import ETHERNET_OCTETS, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.testbed import traffic_demands


def check_demands(scenario: Scenario, vswitch: Any, vnf: Any, generator: Any) -> None:
    """Refuse what a part cannot do.

    Args:
        scenario: What is asked for.
        vswitch: Class of the vSwitch.
        vnf: Class of the VNF loader.
        generator: Class of the traffic generator.

    Raises:
        CapabilityError: The first thing that cannot be had, what is accepted, and the cure.
    """
    for error in (
        *_of_vswitch(scenario, vswitch.capabilities),
        *_of_attachments(scenario, vswitch.capabilities, vnf, generator.capabilities),
        *_of_generator(scenario, generator.capabilities),
        *traffic_demands.of_deployment(scenario),
        *traffic_demands.of_generator(scenario, generator.capabilities),
    ):
        raise error


def tester_roles(name: str, generator: Any, testbed: Testbed) -> tuple[RoleDemand, ...]:
    """Busy threads of a generator, as many as the testbed gives it.

    Args:
        name: Its registered name.
        generator: Its class.
        testbed: Says how many threads it may have.

    Returns:
        Demands.

    Raises:
        CapabilityError: It has no use for as many.
    """
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


def _of_vswitch(scenario: Scenario, can: Any) -> Iterator[CapabilityError]:
    name, where = scenario.vswitch, scenario.id
    mode = scenario.options.mode
    if mode and mode not in can.modes:
        yield CapabilityError(
            f"{name} has no mode {mode!r}", where="mode", accepted=", ".join(can.modes) or "none"
        )
    for option, value in scenario.options.given().items():
        if option not in can.options:
            yield CapabilityError(
                f"{name} has no option {option} (it is set to {value})",
                where=f"{where}, conf/switch/{scenario.options.name or 'default'}.toml or --set",
                accepted=", ".join(can.options) or "no options",
                cure="leave the option out, or measure another vSwitch with it",
            )
    for what, asked, offered in (
        ("rules", scenario.rules, can.rules),
        ("forwarding", scenario.forwarding, can.forwarding),
        ("tunnel", scenario.tunnel if scenario.deployment.tunnelled else None, can.tunnels),
    ):
        if asked is not None and asked not in offered:
            yield CapabilityError(
                f"{name} cannot do {what} = {asked}",
                where=where,
                accepted=", ".join(offered) or "none of them",
                cure=f"choose another with --{what}, or another vSwitch",
            )
    if scenario.routed and scenario.rules == "learning":
        yield CapabilityError(
            "a vSwitch that routes does not learn addresses", where="rules", accepted="port, stream"
        )
    if scenario.deployment.chains > 1 and not can.chains:
        yield CapabilityError(f"{name} cannot tell parallel chains apart", where=where)
    if scenario.largest_on_wire > scenario.mtu + ETHERNET_OCTETS:
        yield CapabilityError(
            f"an MTU of {scenario.mtu} carries no frames of {scenario.largest_on_wire} octets",
            where="mtu",
            accepted=f"{scenario.largest_on_wire - ETHERNET_OCTETS} or more",
            cure="leave mtu out: it then fits the frame sizes",
        )


def _of_attachments(
    scenario: Scenario, can: Any, vnf: Any, generator: Any
) -> Iterator[CapabilityError]:
    offered = can.attachments
    in_mode = vnf.accepts(scenario)
    narrowed = vnf.narrowed_by(scenario) if in_mode != vnf.attachments else ""
    for needed, taker, mode, accepts in (
        (scenario.deployment.vnf_count, scenario.vnf, narrowed, in_mode),
        (len(scenario.deployment.tester_vnf_ports), scenario.generator, "", generator.attachments),
    ):
        if needed and not set(offered) & set(accepts):
            yield CapabilityError(
                f"{scenario.vswitch} offers {', '.join(offered) or 'no attachment'}; "
                f"{taker}{mode} accepts {', '.join(accepts) or 'none'}",
                where=scenario.id,
                cure="choose another VNF loader with --vnf"
                + (", another --vnf-mode or --guest, or another vSwitch" if mode else "")
                if taker == scenario.vnf
                else "choose another generator with --generator, or a deployment without VNF ports",
            )


def _of_generator(scenario: Scenario, can: Any) -> Iterator[CapabilityError]:
    sends = {stream.tunnel for stream in scenario.streams} - {""}
    if sends - set(can.tunnels):
        yield CapabilityError(
            f"{scenario.generator} cannot send frames in a {scenario.encapsulation} tunnel",
            where=scenario.id,
            accepted=", ".join(can.tunnels) or "no tunnel",
        )


def attachment_kind(vswitch: Any, accepts: tuple[str, ...]) -> str:
    """The kind of attachment that a vSwitch and a VNF, or a tester in its place, meet at.

    Args:
        vswitch: Class of the vSwitch.
        accepts: Kinds the other side accepts.

    Returns:
        The first that the vSwitch offers and the other side accepts.
    """
    offered: tuple[str, ...] = vswitch.capabilities.attachments
    return next(kind for kind in offered if kind in accepts)
