"""Endpoints in place of the tester.

Where they are, their addresses, and a watchdog on what arrives at them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vnetperf.host.machine import Machine
from vnetperf.host.wait import patient
from vnetperf.model.deployment import MOVABLE_WIRES, WireEnd, port_mac
from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.frames import overhead
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Plan, PodKind, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.plugin.site import INSIDE_ADDRESS, LOOPBACK, PREFIX_LENGTH
from vnetperf.plugin.vnf import EndpointHost
from vnetperf.virt.endpoint import Endpoint, EndpointPair, EndpointProgram, Place
from vnetperf.virt.pods import make_pod

if TYPE_CHECKING:
    from vnetperf.deployment.deploy import LiveDeployment

#: What an endpoint is in, where that is more than a namespace.
_WHAT = {"runc": "container of runc", "podman": "container of podman", "cri": "container by CRI"}
#: Namespaces stay until the run ends: those of one call are not those of the next.
_NUMBERS = count()


def find_endpoint_problem(scenario: Scenario) -> str:
    """What keeps endpoints from talking in a scenario, whatever the machine is."""
    graph = scenario.deployment
    if graph.gtp:
        return f"{graph.name} has users of its own; run testcases/test_vepc.py"
    if {*graph.tunnelled} & {*graph.ends}:
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


def endpoint_processors(plan: Plan, facts: MachineFacts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Processors of both ends: the tester's, and those that nobody has."""
    placement, config = plan.placement, plan.testbed.cores
    tester_cpus = placement.cores.get("tester", ())
    # Not of what is not pinned: the kernel may move it to any, and there would be none left.
    others = [*placement.cores.values(), placement.housekeeping]
    used = {cpu for cpus in others for cpu in cpus}
    allowed = set(config.allowed) or {cpu.cpu for cpu in facts.cpus}
    pool = (*tester_cpus, *sorted(allowed - used))
    return (pool[0::2], pool[1::2]) if len(pool) > 1 else (pool, pool)


def _streams(scenario: Scenario) -> tuple[Stream, Stream]:
    """The first chain's stream of each direction."""
    plain = scenario.model_copy(update={"traffic": TrafficProfile()})
    forth, back = (
        next(s for s in plain.streams if (s.direction, s.chain) == (way, 0)) for way in (0, 1)
    )
    return forth, back


@contextmanager
def plug_in_endpoints(
    machine: Machine,
    plan: Plan,
    ends: tuple[WireEnd, ...],
    inside: EndpointHost | None,
    guests: Mapping[int, EndpointHost],
) -> Iterator[EndpointPair]:
    """Put endpoints at the tester's ports, or into guests there, and take them away again."""
    forth, back = _streams(plan.scenario)
    cpus = endpoint_processors(plan, machine.facts)
    with ExitStack() as undo:

        def end(number: int) -> AbstractContextManager[Endpoint]:
            addresses, guest = _make_addresses(plan.scenario, number), guests.get(number)
            if guest is not None:
                return _enter_guest(guest, addresses)
            kind = plan.scenario.pod
            return _enter_namespace(
                machine, ends[number], number, addresses, cpus[number], kind=kind
            )

        first = undo.enter_context(end(0))
        if inside is not None:
            second = undo.enter_context(inside.inside(INSIDE_ADDRESS))
        else:
            second = undo.enter_context(end(1))
        _add_neighbour(first, second.address, forth.eth_dst)
        if inside is None:
            _add_neighbour(second, first.address, back.eth_dst)
        yield EndpointPair(first, second)


class EndAddresses(NamedTuple):
    """Addresses of an endpoint, and of the one that it talks to.

    Attributes:
        mac: Its own.
        address: Its own.
        peer_mac: What its frames are addressed to.
        peer: The other's.
        mtu: What its interface is limited to, so that its packets fit into a tunnel on the way; 0:
            left as it is.
    """

    mac: str
    address: str
    peer_mac: str
    peer: str
    mtu: int = 0


def addresses_apart(scenario: Scenario) -> tuple[EndAddresses, EndAddresses]:
    """Addresses of endpoints on two hosts: nothing but a router between them writes any anew."""
    graph = scenario.deployment
    macs = [port_mac(graph, end, 0) for end in graph.ends]
    forth, back = streams = _streams(scenario)
    ips = [stream.ipv4_src for stream in streams]
    taken_by = [forth.eth_dst, back.eth_dst] if scenario.routed else macs[::-1]
    mtu = _mtu_outside(scenario)
    return (
        EndAddresses(macs[0], ips[0], taken_by[0], ips[1], mtu),
        EndAddresses(macs[1], ips[1], taken_by[1], ips[0], mtu),
    )


def _mtu_outside(scenario: Scenario) -> int:
    """MTU of endpoints whose packets a tunnel carries on their way; 0 where none does."""
    if not scenario.deployment.tunnelled:
        return 0
    return scenario.mtu - overhead(scenario.encapsulation)


class LocalEnd:
    """An endpoint of this host whose counterpart is on another, driven from afar."""

    def __init__(self, deployment: LiveDeployment, number: int, addresses: EndAddresses) -> None:
        self._undo = ExitStack()
        self._programs: list[EndpointProgram] = []
        machine, guest = deployment.machine, deployment.end_guests.get(number)
        with ExitStack() as undo:
            if guest is not None:
                place = _enter_guest(guest, addresses)
            else:
                cpus = processors_apart(deployment.plan, machine.facts, number)
                end = deployment.ends[number]
                kind = deployment.plan.scenario.pod
                place = _enter_namespace(machine, end, number, addresses, cpus, kind=kind)
            self.endpoint = undo.enter_context(place)
            _add_neighbour(self.endpoint, addresses.peer, addresses.peer_mac)
            self._undo = undo.pop_all()

    def start(self, name: str, argv: Sequence[str]) -> int:
        """Start a program; its number."""
        self._programs.append(self.endpoint.place.start(name, argv))
        return len(self._programs) - 1

    def program(self, number: int) -> EndpointProgram:
        """One that was started."""
        return self._programs[number]

    def look(self) -> tuple[list[int | None], int]:
        """Exit codes of all programs, None for one that runs; packets that have arrived."""
        arrived = self.endpoint.place.received(self.endpoint.netdev)
        return [program.ended() for program in self._programs], arrived

    def close(self) -> None:
        """End its programs and give the interface back. Idempotent."""
        with self._undo:
            for program in self._programs:
                program.end(signal.SIGKILL)
            self._programs = []


def processors_apart(plan: Plan, facts: MachineFacts, number: int) -> tuple[int, ...]:
    """Processors that nobody has: every other one each where both ends are of one machine."""
    placement = plan.placement
    used = {cpu for cpus in placement.cores.values() for cpu in cpus}
    allowed = set(plan.testbed.cores.allowed) or {cpu.cpu for cpu in facts.cpus}
    # The system's own too, rather than one for both, or one that a poller has.
    free = allowed - used
    choices = (free - {*placement.housekeeping}, free)
    pool = sorted(next((cpus for cpus in choices if len(cpus) > 1), free or allowed))
    return tuple(pool[number::2] or pool)


def _make_addresses(scenario: Scenario, number: int) -> EndAddresses:
    """Addresses of an endpoint in the place of a tester's port."""
    streams = _streams(scenario)
    sent, received = streams[number], streams[1 - number]
    # Where nobody writes addresses anew, frames come with those that the other end sent them to.
    rewritten = scenario.routed or (scenario.vnf_addresses and scenario.deployment.vnf_count)
    mac = sent.eth_src if rewritten else received.eth_dst
    peer_mac, peer = sent.eth_dst, received.ipv4_src
    return EndAddresses(mac, sent.ipv4_src, peer_mac, peer, _mtu_outside(scenario))


@contextmanager
def _enter_guest(guest: EndpointHost, addresses: EndAddresses) -> Iterator[Endpoint]:
    """A guest at an end, with the address and the network of it."""
    with guest.inside(addresses.address) as endpoint:
        _set_address(endpoint.place, addresses, endpoint.netdev)
        yield endpoint


@contextmanager
def _enter_namespace(
    machine: Machine,
    end: WireEnd,
    number: int,
    addresses: EndAddresses,
    cpus: tuple[int, ...],
    *,
    kind: PodKind = "netns",
) -> Iterator[Endpoint]:
    """A namespace with the interface at an end, or the one where that stays."""
    if end.netdev is None or not (end.netns or end.kind in MOVABLE_WIRES):
        raise CapabilityError(
            f"an endpoint takes an interface of the kernel at port {number}; there is a {end.kind}",
            where="endpoints",
            cure="--wire veth, on a vSwitch that takes them",
        )
    before = machine.link(end.netdev).mac if end.netns is None else ""
    container = make_pod(kind, machine, f"end{number}-{next(_NUMBERS)}", cpus)
    if end.netns is not None:  # it stays where it is, with whatever else is there
        container.enter(Path(end.netns))
    else:
        container.create(cpuset=False)
    try:
        if end.netns is None:
            container.take(end.netdev, mac=addresses.mac)
        _set_address(container, addresses, end.netdev)
        label = _WHAT.get(kind, "namespace" if end.netns is None else "host's namespace")
        yield Endpoint(f"{label} at port {number}", container, addresses.address, end.netdev)
    finally:
        container.give_back()
        if end.netns is None:
            machine.set_link(end.netdev, mac=before)


def _set_address(place: Place, addresses: EndAddresses, netdev: str) -> None:
    if addresses.mtu:
        place.run(f"ip link set {netdev} mtu {addresses.mtu}".split())
    place.run(f"ip address replace {addresses.address}/{PREFIX_LENGTH} dev {netdev}".split())


def _add_neighbour(end: Endpoint, peer: str, mac: str) -> None:
    """Set the address of a peer, so that no ARP request is sent; a host knows its own."""
    if end.netdev == LOOPBACK:
        return
    line = f"ip neigh replace {peer} lladdr {mac} dev {end.netdev} nud permanent"
    end.place.run(line.split())


#: Longest time without a packet, and between two looks, seconds.
STALL_S, LOOK_S = 5.0, 0.5
_TCP_LISTEN = "0A"


class TrafficWatchdog:
    """Packets that arrive at either end.

    A client of `waits` sends nothing more once a message of it was lost: that packets had arrived
    before shows that there is a path, and what its standstill is worth its tool's rule says.
    """

    def __init__(self, ends: EndpointPair, *, waits: bool = False) -> None:
        self._waits = waits
        self._ends = (ends.client, ends.server)
        self._first = self._last = self._counts()
        self._changed = self._looked = time.monotonic()

    def _counts(self) -> tuple[int, ...]:
        return tuple(end.place.received(end.netdev) for end in self._ends)

    def expect_some(self, where: str) -> None:
        """Look now and then; nothing for a while is an error."""
        now = time.monotonic()
        if now < self._looked + LOOK_S:
            return
        self._looked, counts = now, self._counts()
        if counts != self._last:
            self._last, self._changed = counts, now
        elif now > self._changed + patient(STALL_S) and not self._has_gone_on(counts):
            raise self._nothing(where, f"for {STALL_S:g} s")

    def _has_gone_on(self, counts: Sequence[int]) -> bool:
        """Whether a client that waits for an answer was answered before."""
        return self._waits and all(
            now > first for now, first in zip(counts, self._first, strict=True)
        )

    def expect_any(self, where: str) -> None:
        """Look once, when a client has failed."""
        counts, quiet_s = self._counts(), time.monotonic() - self._changed
        stalled = counts == self._last and quiet_s > patient(STALL_S) / 2
        stalled = stalled and not self._has_gone_on(counts)
        self._last = counts
        if counts[1] == self._first[1]:
            raise self._nothing(where, "at the server's end")
        if stalled:
            raise self._nothing(where, f"for {quiet_s:.1f} s")

    def _nothing(self, where: str, extent: str) -> DutError:
        came = ", ".join(
            f"{now - first} packets at the {end.what}"
            for end, first, now in zip(self._ends, self._first, self._last, strict=True)
        )
        return DutError(
            f"nothing has arrived {extent} (since its begin {came}): the path is down",
            where=where,
            cure="the path check of the deployment had passed; see whether the vSwitch, a VNF or a "
            "link has failed since",
        )


def listening_ports(place: Place, *, udp: bool) -> set[int]:
    """Ports at which something waits."""
    text = place.run(["cat", "/proc/net/udp" if udp else "/proc/net/tcp"])
    rows = [line.split() for line in text.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if udp or row[3] == _TCP_LISTEN}
