"""Endpoints in place of the tester: a namespace at each of its ports, or one and the VNF."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

from vnetperf.host.machine import Machine
from vnetperf.launchers.container import Container
from vnetperf.launchers.endpoint import ContainerPlace, Endpoint, Ends
from vnetperf.model.errors import CapabilityError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan
from vnetperf.model.ports import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.vnfs.base import Vnf

#: Addresses are those of RFC 2544 appendix C.2.2, on one link for the ends themselves.
PREFIX = 15
#: An endpoint in the VNF has the last address of the network at port 0, which no flow has.
INSIDE = "198.18.255.254"
#: Kinds of wire and attachment whose end is an interface that a namespace can take.
MOVABLE = ("veth", "nic", "vf", "macvlan")
#: Namespaces stay until the run ends: those of one call are not those of the next.
_NUMBERS = count()


def misfit(scenario: Scenario) -> str:
    """What keeps endpoints from talking in a scenario, whatever the machine is.

    Args:
        scenario: The scenario.

    Returns:
        "" when nothing does; otherwise what and the cure.
    """
    graph = scenario.deployment
    if graph.gtp:
        return f"{graph.name} has users of its own; run testcases/test_vepc.py"
    if graph.tunnelled:
        return f"endpoints send no {scenario.tunnel} frames; choose a deployment without a tunnel"
    if len(graph.directions) < 2:
        return f"{graph.name} forwards one way only, and tools need an answer; choose v2v"
    if scenario.vnf_swaps and graph.vnf_count:
        return (
            f"VNFs in mode {scenario.vnf_mode} send frames back by their address; leave "
            "--vnf-mode out"
        )
    if scenario.rules == "stream":
        return "rules = stream are for the generator's flows; use --rules port or learning"
    return ""


def processors(plan: Plan, facts: MachineFacts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Processors of both ends: the tester's, and those that nobody has.

    Args:
        plan: The plan.
        facts: The machine.

    Returns:
        The client's and the server's; the same where there is one only.
    """
    placement, config = plan.placement, plan.testbed.cores
    mine = placement.cores.get("tester", ())
    others = [*placement.cores.values(), *placement.unpinned.values(), placement.housekeeping]
    used = {cpu for cpus in others for cpu in cpus}
    allowed = set(config.allowed) or {cpu.cpu for cpu in facts.cpus}
    pool = (*mine, *sorted(allowed - used))
    return (pool[0::2], pool[1::2]) if len(pool) > 1 else (pool, pool)


def _streams(scenario: Scenario) -> tuple[Stream, Stream]:
    """The first chain's stream of each direction."""
    both = scenario.model_copy(update={"traffic": TrafficProfile()})
    forth, back = (
        next(s for s in both.streams if (s.direction, s.chain) == (way, 0)) for way in (0, 1)
    )
    return forth, back


@contextmanager
def in_place_of_tester(
    machine: Machine, plan: Plan, ends: tuple[WireEnd, ...], inside: Vnf | None
) -> Iterator[Ends]:
    """Put endpoints at the tester's ports, and take them away again.

    Args:
        machine: The machine.
        plan: What is deployed.
        ends: The tester's ends; the tester has let go of them.
        inside: The VNF that the second endpoint is in; None for the tester's port 1.

    Yields:
        The endpoints; their addresses, and who is behind which, are known to both.

    Raises:
        CapabilityError: An end is none that a namespace can take.
    """
    forth, back = _streams(plan.scenario)
    cpus = processors(plan, machine.facts)
    with ExitStack() as undo:
        first = undo.enter_context(_at(machine, plan.scenario, ends, 0, cpus[0]))
        if inside is not None:
            second = undo.enter_context(inside.inside(INSIDE))
        else:
            second = undo.enter_context(_at(machine, plan.scenario, ends, 1, cpus[1]))
        _neighbour(first, second.address, forth.eth_dst)
        if inside is None:
            _neighbour(second, first.address, back.eth_dst)
        yield Ends(first, second)


@contextmanager
def _at(
    machine: Machine,
    scenario: Scenario,
    ends: tuple[WireEnd, ...],
    number: int,
    cpus: tuple[int, ...],
) -> Iterator[Endpoint]:
    end, streams = ends[number], _streams(scenario)
    if end.netdev is None or end.kind not in MOVABLE:
        raise CapabilityError(
            f"an endpoint takes an interface of the kernel at port {number}; there is a {end.kind}",
            where="endpoints",
            cure="--wire veth, on a vSwitch that takes them",
        )
    sent, received = streams[number], streams[1 - number]
    # Where nobody writes addresses anew, frames come with those that the other end sent them to.
    rewritten = scenario.routed or (scenario.vnf_addresses and scenario.deployment.vnf_count)
    mac = sent.eth_src if rewritten else received.eth_dst
    before = machine.link(end.netdev).mac
    container = Container(machine, f"end{number}-{next(_NUMBERS)}", cpus)
    container.create(cpuset=False)
    try:
        container.take(end.netdev, mac=mac)
        container.run(["ip", "address", "replace", f"{sent.ipv4_src}/{PREFIX}", "dev", end.netdev])
        yield Endpoint(
            f"namespace at port {number}", ContainerPlace(container), sent.ipv4_src, end.netdev
        )
    finally:
        container.give_back()
        machine.set_link(end.netdev, mac=before)


def _neighbour(end: Endpoint, peer: str, mac: str) -> None:
    """Who is behind an address is told; nothing is ever asked by ARP."""
    line = f"ip neigh replace {peer} lladdr {mac} dev {end.netdev} nud permanent"
    end.place.run(line.split())
