"""Deploys a plan, keeps what is deployed, restarts parts of it, and takes everything away again."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from vnetperf.host import cpu, threads
from vnetperf.host.affinity import free_processors
from vnetperf.host.facts import attempt
from vnetperf.host.journal import Confirm
from vnetperf.host.locks import OnWait
from vnetperf.host.machine import Machine
from vnetperf.host.paths import HostRoots
from vnetperf.host.proc import busy_threads
from vnetperf.host.session import HostRun, OnNotice, OnRestored
from vnetperf.host.wait import wait_at_most
from vnetperf.model.deployment import (
    MOVABLE_WIRES,
    Attachment,
    PhyPort,
    Port,
    VnfPort,
    WireEnd,
    vnf_mac,
)
from vnetperf.model.errors import (
    CapabilityError,
    DutError,
    GeneratorError,
    HostError,
    VnetperfError,
)
from vnetperf.model.result import ScenarioFacts
from vnetperf.model.scenario import Plan, Pollers
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.trial import HopCounters
from vnetperf.planning.backends import Backends
from vnetperf.planning.capability_check import attachment_kind, require_frames
from vnetperf.planning.hosts import WIRE_WITHIN
from vnetperf.plugin import registry
from vnetperf.plugin.dut import Dut
from vnetperf.plugin.generator import TrafficGenerator, count_session_flows
from vnetperf.plugin.vnf import EndpointHost, UserPlane, Vnf

log = logging.getLogger(__name__)
#: Niceness of pollers: they go before whatever else the machine does, also on cores of their own,
#: for other programs know of no plan. The tester comes last where time is short, by its share: that
#: shows as a load that was not offered.
POLLER_NICE = -10


def _for_a_guest(offer: Attachment) -> Attachment:
    """Where QEMU plugs in, which opens a tap for several queues only where it has them."""
    return offer.model_copy(update={"multi_queue": offer.queues > 1})


def set_slices_and_nice(pollers: tuple[Pollers, ...], slice_us: int) -> dict[str, str]:
    """Set slice and niceness of every thread of the pollers' processes.

    Nothing is lasting: it ends with the processes.
    """
    slices = {}
    for poller in (poller for poller in pollers if not poller.sleeps):
        # Apart from each other: who may not be preferred can still have short turns.
        preferred = threads.set_nice(poller.pid, POLLER_NICE)
        described = (
            threads.set_slice(poller.pid, slice_us * 1000)
            if slice_us
            else "the kernel's own slices"
        )
        group = threads.set_autogroup_nice(poller.pid, POLLER_NICE)
        slices[poller.role] = f"{described}, {preferred} (session: {group})"
    return slices


def dedicate_cores(machine: Machine, plan: Plan) -> None:
    """Set the governor of dedicated cores and move interrupts off them, where configured.

    They are the machine's: of several hosts within it the first writes them, for all, so that they
    stand in one journal, whichever host is restored first.
    """
    cores, cpus = plan.testbed.cores, plan.placement.pollers
    if plan.placement.shared or plan.follows:
        return
    if cores.governor:
        cpu.set_governor(machine.journal, cpus, cores.governor)
    if cores.irqs == "off-pollers":
        cpu.move_interrupts(machine.journal, cpus)


def dedicated_facts(plan: Plan) -> dict[str, Any]:
    """Governor and interrupts of the pollers' processors as the kernel has them now."""
    cores, cpus = plan.testbed.cores, plan.placement.pollers
    if not cores.governor and cores.irqs == "anywhere":
        return {}
    if plan.placement.shared:
        return {"processors": "cores are shared: governor and interrupts are left as they are"}
    interrupts = cpu.interrupts_on(cpus)
    return {
        "processors": {
            "pollers": cpu.format_cpus(cpus),
            "governors": {str(n): cpu.read_governor(n) or "none to choose" for n in cpus},
            "interrupts on pollers": [f"{n} ({users})" for n, users in interrupts.items()]
            or "none",
        }
    }


def read_part_facts(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Facts of a part of the deployment, or why they cannot be read: nothing measured needs them.

    What has died is found by `check_alive`.
    """
    facts = attempt(read)
    return facts if isinstance(facts, dict) else {"unreadable": facts}


def _require_end(end: WireEnd | None, port: Port) -> WireEnd:
    """The tester's end of a wire, which its own host must have."""
    if end is None:
        raise HostError("the tester's end is at another host", where=str(port))
    return end


def _describe_place(end: WireEnd | Attachment) -> str:
    """Where something plugs in, for the log."""
    return f"{end.kind} {end.netdev or end.socket or end.pci}"


def run_all(calls: Iterable[Callable[[], object]]) -> None:
    """Make calls at the same time, and return when all have."""
    with _start_calls(calls) as futures:
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future in done:
                future.result()


def run_all_to_end(calls: Iterable[Callable[[], object]]) -> list[Exception]:
    """Make calls at the same time, each to its end."""
    with _start_calls(calls) as futures:
        wait(futures)
        errors = (future.exception() for future in futures)
        return [error for error in errors if isinstance(error, Exception)]


@contextlib.contextmanager
def _start_calls(calls: Iterable[Callable[[], object]]) -> Iterator[list[Future[object]]]:
    """Start each call in a thread of its own; a single one needs none."""
    jobs = list(calls)
    if len(jobs) == 1:
        yield [_done_future(jobs[0])]
        return
    pool = ThreadPoolExecutor(max(1, len(jobs)), thread_name_prefix="vnf")
    try:
        yield [pool.submit(call) for call in jobs]
    finally:
        pool.shutdown(wait=False)


def _done_future(call: Callable[[], object]) -> Future[object]:
    future: Future[object] = Future()
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - handed to the caller
        future.set_exception(error)
    return future


VNF_READY_S = 30.0
#: Longest time between a process's last answer and its end, seconds.
DYING_S = 2.0
#: Cores and hugepages belong to one run at a time, whatever its testbed file is called.
MACHINE_LOCK = "machine"


class RunOptions(TypedDict, total=False):
    """What `HostRun.open` is given by whoever has a plan carried out."""

    roots: HostRoots | None
    on_wait: OnWait | None
    confirm: Confirm | None
    on_restored: OnRestored | None
    on_notice: OnNotice | None


def open_run(plan: Plan, **options: Unpack[RunOptions]) -> HostRun:
    """Take the host of a plan."""
    timeout_s, follows = plan.testbed.lock_timeout_s, plan.follows
    return HostRun.open(testbed=MACHINE_LOCK, timeout_s=timeout_s, follows=follows, **options)


def reserve(machine: Machine, plan: Plan) -> None:
    """Take the cores and the memory of a plan."""
    dedicate_cores(machine, plan)
    for memory in plan.memory:
        machine.reserve_hugepages(memory.node, memory.size_kb, memory.pages)


class LiveDeployment:
    """A deployed scenario. Made by `open`; `teardown` leaves the machine as it was."""

    def __init__(self, plan: Plan, facts: MachineFacts, run: HostRun) -> None:
        self.plan = plan
        self.run = run
        self.machine = Machine(run, facts)
        scenario, self.backends = plan.scenario, Backends(plan.scenario)
        self.vswitch: Dut = self.backends.vswitch(self.machine, plan)
        vnf: Any = self.backends.vnf  # an `EndpointHost` where there are guests at ends
        self.vnfs: list[Vnf] = [
            vnf(self.machine, plan, number) for number in scenario.deployment.vnf_numbers
        ]
        #: Guests of endpoints, or between pods and the tester's ports, by the ends' numbers.
        self.end_guests: dict[int, EndpointHost] = {
            number: (vnf if number in scenario.through_guests else vnf.alone)(
                self.machine, plan, port.vnf
            )
            for number, port in plan.guest_ends.items()
        }
        self.generator: TrafficGenerator = self.backends.generator(self.machine, plan.for_tester)
        self.facts = ScenarioFacts(scenario=scenario.id)
        self.slices: dict[str, str] = {}
        #: Threads that were moved off the processors of the DUT's pollers.
        self.moved = 0
        #: When all sessions of a NAT were set up, by the monotonic clock.
        self.sessions_seen = -math.inf
        #: Flows of the sessions of a mobile core in each stream; 0 without them.
        self.session_flows = 0
        self._prepared_size = 0
        self.dut_ends: list[WireEnd] = []
        #: Where the tester's ports are plugged in.
        self.tester_ends: tuple[WireEnd, ...] = ()
        self._nic_ends: dict[int, WireEnd] = {}
        #: Where endpoints plug in that are on several hosts: those on this one, by their numbers.
        self.ends: dict[int, WireEnd] = {}
        self._attachments: list[Attachment] = []
        self._offers: list[tuple[Attachment, Attachment]] = []
        self._began = time.monotonic()

    @classmethod
    def open(cls, plan: Plan, facts: MachineFacts, **options: Unpack[RunOptions]) -> LiveDeployment:
        """Take the host, its cores and its memory; nothing runs yet."""
        if plan.sends_frames:
            require_frames(plan.scenario)
        began = time.monotonic()
        run = open_run(plan, **options)
        with contextlib.ExitStack() as on_error:
            on_error.callback(run.close)
            deployment = cls(plan, facts, run)
            deployment._began = began
            reserve(deployment.machine, plan)
            on_error.pop_all()
        return deployment

    def note_facts(self, path_check: dict[str, Any]) -> None:
        """Collect what is known of all parts, once frames come through."""
        self.facts = ScenarioFacts(
            scenario=self.plan.scenario.id,
            plan=self.plan.model_dump(mode="json"),
            facts=self._collect_facts(),
            path_check=path_check,
            deploy_s=round(time.monotonic() - self._began, 3),
        )

    def plug_nics(self) -> dict[int, int | None]:
        """Give the NICs of cables to other machines their drivers.

        Returned are frames of the receive ring of a DUT's end here, by cable; None where unknown.
        """
        rings: dict[int, int | None] = {}
        for use in self.plan.cables:
            wire = self._wire(use.port)
            end = self._nic_ends[use.cable] = wire.plug(use.side)
            if use.side == "dut":
                rings[use.cable] = wire.ring(end)
        return rings

    def bring_up(
        self,
        cables: Mapping[int, str] | None = None,
        rings: Mapping[int, int | None] | None = None,
    ) -> None:
        """Wires, vSwitch, VNFs, connections, tester; what can start together does.

        `cables` has the interface of each cable to another host, by its number, where that is no
        NIC; `rings` the receive rings of NICs at DUTs' ends.
        """
        scenario = self.plan.scenario
        graph = scenario.deployment
        all_ends = self.plan.for_tester.scenario.deployment.ends
        of_tester = {n: all_ends[n] for n in self.plan.own_ends} if self.plan.has_tester else {}
        ports = list(graph.phy_ports) if self.plan.has_dut else []
        ports += [
            end for end in of_tester.values() if isinstance(end, PhyPort) and end not in ports
        ]
        ends = {port: self._lay_ends(port, cables or {}, rings or {}) for port in ports}
        self.dut_ends = [dut_end for _, dut_end in ends.values() if dut_end is not None]
        places: dict[VnfPort, Attachment] = {}
        listening: list[bool] = []
        if self.plan.has_dut:
            offers = [(self._offer_vnf(vnf, 0), self._offer_vnf(vnf, 1)) for vnf in self.vnfs]
            self._offers = offers
            accepts = self.backends.generator.capabilities.attachments
            if self.plan.ends and not self.plan.has_tester:  # namespaces or guests take their place
                accepts = MOVABLE_WIRES
            in_guests = [*self.plan.guest_ends.values()]
            kinds_by_port = dict.fromkeys(graph.tester_vnf_ports, accepts)
            if in_guests:
                kinds_by_port |= dict.fromkeys(in_guests, self.backends.vnf.accepts(scenario))
            places = {port: self._offer(port, kinds) for port, kinds in kinds_by_port.items()}
            for port in in_guests:  # as of other guests
                places[port] = _for_a_guest(places[port])
            self._launch_ends(places, listening=True)
            listening = [all(a.vnf_is_server for a in pair) for pair in offers]
            self._launch(offers, [n for n, listens in enumerate(listening) if listens])
            self._attachments = [*places.values(), *(a for pair in offers for a in pair)]
            # The tester finds nothing to plug into before; where it listens, its driver waits for
            # the vSwitch, which tries again until somebody does.
            self._start_vswitch(places.values())
            self._launch_ends(places, listening=False)
        if self.plan.has_tester:
            self.tester_ends = tuple(
                self._choose_tester_attachment(end, places[end]).as_tester_end(number)
                if isinstance(end, VnfPort)
                else _require_end(ends[end][0], end)
                for number, end in of_tester.items()
            )
            self.connect_tester()
        for number in self.plan.ends if not self.plan.has_tester else ():
            end = graph.ends[number]
            wire_end = (
                places[end].as_tester_end(number) if isinstance(end, VnfPort) else ends[end][0]
            )
            self.ends[number] = _require_end(wire_end, end)
        for vepc in self._mobile_cores():
            vepc.tester_ends = self.tester_ends
        if self.plan.has_dut:
            self._add_vnf_ports(attachment for pair in self._offers for attachment in pair)
            self._launch(self._offers, [n for n, listens in enumerate(listening) if not listens])
            self._connect()
        elif self.plan.has_tester:
            self.slices = self.prefer_pollers()

    def connect_tester(self) -> None:
        """Connect the generator to the tester's ends.

        Raises:
            DutError: The vSwitch at the other ends has died.
            GeneratorError: It does not connect.
        """
        if self.plan.sends_frames:
            log.info("connecting %s", self.plan.scenario.generator)
            try:
                self.generator.connect(self.tester_ends)
            except GeneratorError as error:
                if self.plan.has_dut:  # the VNFs may be still to come
                    raise self._cause(error, self.vswitch.check_alive) from None
                raise

    def _wire(self, number: int, kind: str = "") -> Any:
        wire = registry.load("wires", kind or self.plan.wire)
        return wire(self.machine, self.plan, number)

    def _lay_ends(
        self, port: PhyPort, cables: Mapping[int, str], rings: Mapping[int, int | None]
    ) -> tuple[WireEnd | None, WireEnd | None]:
        """The tester's end and the DUT's of the wire at a port; None for one at another host."""
        use = next((use for use in self.plan.cables if use.port == port.index), None)
        if use is None:
            kind = WIRE_WITHIN if self.plan.cables else self.plan.wire
            tester_end, dut_end = self._wire(port.index, kind).lay()
            places = f"tester {_describe_place(tester_end)}, DUT {_describe_place(dut_end)}"
            log.info("wire of %s: %s", port, places)
            return tester_end, dut_end
        if (end := self._nic_ends.get(use.cable)) is None:
            netdev = cables[use.cable]
            end = WireEnd(wire=port.index, kind=self.plan.wire, side=use.side, netdev=netdev)
        else:
            end = end.model_copy(update={"peer_ring": rings.get(use.cable)})
        if use.in_kernel:
            self._wire(port.index).wait_for_carrier(f"{use.nic} - {use.far}", end)
        log.info("cable of %s to %s: %s", port, use.far, _describe_place(end))
        return (end, None) if use.side == "tester" else (None, end)

    def _start_vswitch(self, attachments: Iterable[Attachment]) -> None:
        log.info("starting %s", self.plan.scenario.vswitch)
        self.vswitch.start()
        for end in self.dut_ends:
            log.info("adding port phy%d: %s", end.wire, _describe_place(end))
            self.vswitch.add_phy_port(end)
        self._add_vnf_ports(attachments)

    def _add_vnf_ports(self, attachments: Iterable[Attachment]) -> None:
        for attachment in attachments:
            log.info("adding port %s: %s", attachment.port, _describe_place(attachment))
            self.vswitch.add_vnf_port(attachment)

    def _connect(self) -> None:
        """Let the vSwitch forward; virtio-user takes a connection when it is looked at."""
        log.info("connecting the ports of %s", self.plan.scenario.vswitch)
        self.vswitch.connect(self.plan.scenario.streams)
        self._wait_vnfs()
        self.slices = self.prefer_pollers()

    def _mobile_cores(self) -> list[UserPlane]:
        return [vnf for vnf in self.vnfs if isinstance(vnf, UserPlane)]

    def _offer_vnf(self, vnf: Vnf, index: int) -> Attachment:
        """Where a port of a VNF plugs in."""
        accepts = vnf.accepts(self.plan.scenario)
        offer = self._offer(VnfPort(vnf=vnf.number, index=index), accepts)
        multi_queue = vnf.opens_multi_queue or offer.queues > 1
        return offer.model_copy(update={"multi_queue": multi_queue})

    def _offer(self, port: VnfPort, accepts: tuple[str, ...]) -> Attachment:
        """Where something plugs in, with the addresses that frames carry there."""
        kind = attachment_kind(self.backends, accepts)
        queues = self.plan.scenario.options.rx_queues or 1
        offer = self.vswitch.offer_vnf_port(port, kind, queues)
        sends = any(hop.src == port for hop in self.plan.scenario.deployment.hops)
        return offer.model_copy(
            update={
                "mac": vnf_mac(port),
                "peer_mac": self.plan.scenario.peer_mac(port) if sends else None,
            }
        )

    def _launch(self, offers: list[tuple[Attachment, Attachment]], numbers: list[int]) -> None:
        for number in numbers:
            vnf = self.vnfs[number]
            log.info("launching vnf%d: %s", vnf.number, self.plan.scenario.vnf)
            for offer in offers[number]:
                if offer.socket and offer.vnf_is_server:  # of one before that was killed or crashed
                    Path(offer.socket).unlink(missing_ok=True)
            vnf.launch(offers[number])  # begins: its end is waited for below

    def _launch_ends(self, places: Mapping[VnfPort, Attachment], *, listening: bool) -> None:
        """Launch guests of endpoints whose attachments wait for a connection, or the others."""
        for number, guest in self.end_guests.items():
            attachment = places[self.plan.guest_ends[number]]
            if attachment.vnf_is_server != listening:
                continue
            log.info("launching the guest of end %d", number)
            if number in self.plan.scenario.through_guests:
                beyond = self._offer(attachment.port.opposite, guest.accepts(self.plan.scenario))
                guest.launch((attachment, _for_a_guest(beyond)))
            else:
                guest.launch_alone(attachment)

    def _choose_tester_attachment(self, end: VnfPort, attachment: Attachment) -> Attachment:
        """Where the tester plugs in: at an end, or behind the guest that forwards there.

        There it has the guest's tap from the host's side, as a kernel interface, and the address
        of the pod, whose frames it sends.
        """
        if end.vnf not in self.plan.scenario.through_guests:
            return attachment
        tap = self._offer(end.opposite, (attachment.kind,))
        return tap.model_copy(update={"kind": "veth", "mac": attachment.mac})

    def _wait_vnfs(self) -> None:
        """Wait for all VNFs; the first that fails ends the waiting for the others."""
        run_all([partial(vnf.wait_ready, VNF_READY_S) for vnf in self.guests])

    @property
    def guests(self) -> list[Vnf]:
        """VNFs, and guests at ends."""
        return [*self.vnfs, *self.end_guests.values()]

    def restart_vswitch(self) -> None:
        """End the vSwitch and bring it back with the same ports and rules."""
        tester = self.generator if self.plan.has_tester else None
        if tester is not None:
            tester.unplug()
        log.info("stopping %s", self.plan.scenario.vswitch)
        self.vswitch.stop()
        self._start_vswitch(self._attachments)
        if tester is not None:
            tester.reconnect()
        self._prepared_size = 0
        self._connect()

    def restart_vnf(self, number: int) -> None:
        """End a VNF and bring it back at the same attachments."""
        log.info("stopping vnf%d", number)
        place = self.plan.scenario.deployment.vnf_numbers.index(number)
        self.vnfs[place].stop()
        self._launch(self._offers, [place])
        self.vnfs[place].wait_ready(VNF_READY_S)
        self.slices = self.prefer_pollers()

    def dut_netdev(self, port: str) -> str:
        """The kernel's interface at a physical port."""
        for end in self.dut_ends:
            if f"phy{end.wire}" == port and end.netdev:
                return end.netdev
        raise CapabilityError("no interface of the kernel is there", where=port)

    def prefer_pollers(self) -> dict[str, str]:
        """Let pollers go before others, as the tester does when it is calibrated.

        On shared cores they have short slices besides. What they took is read back.
        """
        placement = self.plan.placement
        # Of several hosts within one machine one alone moves threads: two journals of one thread's
        # processors would have to be undone in one order.
        if placement.shared and placement.dut_alone and not self.plan.follows:
            self._free_dut_processors()
        return set_slices_and_nice(self.pollers(), placement.slice_us)

    def _free_dut_processors(self) -> None:
        """Keep all but the DUT's pollers off their processors, other threads of the DUT too."""
        placement = self.plan.placement
        cpus = {number for role in placement.dut for number in placement.cores.get(role, ())}
        pollers = (poller for poller in self.pollers() if poller.role in placement.dut)
        keep = {thread.tid for _, thread in busy_threads(tuple(pollers))}
        moved = free_processors(self.machine.journal, cpus, keep)
        self.moved += moved
        log.info("%d threads moved off processors %s", moved, cpu.format_cpus(cpus))

    def pollers(self) -> tuple[Pollers, ...]:
        """Busy threads of everything deployed here."""
        pollers: list[Pollers] = []
        if self.plan.has_dut:
            pollers += self.vswitch.pollers()
            pollers += (poller for vnf in self.guests for poller in vnf.pollers())
        if self.plan.has_tester:
            pollers += self.generator.pollers()
        return tuple(pollers)

    def _collect_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if self.plan.has_dut:
            facts["vswitch"] = read_part_facts(self.vswitch.facts)
            facts["vnfs"] = [read_part_facts(vnf.facts) for vnf in self.guests]
        if self.plan.sends_frames:
            facts["generator"] = read_part_facts(self.generator.facts)
        return facts | {
            "wire": self.plan.wire,
            "MTU": self.plan.scenario.mtu,
            "scheduler slices": self.slices or "the kernel's own",
            **self._collect_moved_facts(),
            **read_part_facts(partial(dedicated_facts, self.plan)),
        }

    def _collect_moved_facts(self) -> dict[str, Any]:
        placement = self.plan.placement
        if not (placement.shared and placement.dut_alone):
            return {}
        return {"threads moved off the DUT's processors": self.moved}

    def prepare(self, frame_size: int) -> None:
        """Compile the traffic for a frame size, unless it is compiled already."""
        if frame_size != self._prepared_size:
            scenario = self.plan.for_tester.scenario
            streams = scenario.streams
            for vepc in self._mobile_cores():
                streams = vepc.streams(streams)
            self.generator.prepare(streams, scenario.traffic, frame_size)
            self.session_flows = count_session_flows(streams, scenario.traffic)
            self._prepared_size = frame_size

    def counters(self) -> dict[str, HopCounters]:
        """Counters of every port of the DUT here, those kept inside VNFs too."""
        if not self.plan.has_dut:
            return {}
        counters = [*self.vswitch.counters()]
        for vnf in self.guests:
            counters += vnf.counters()
        return {c.port: c for c in counters}

    def carrier_changes(self) -> dict[str, int]:
        """Times that links of the DUT here have come or gone: by port, or by the link's name."""
        if not self.plan.has_dut:
            return {}
        ports = {end.netdev: f"phy{end.wire}" for end in self.dut_ends}
        ports |= {attachment.netdev: str(attachment.port) for attachment in self._attachments}
        of_tester = {end.netdev for end in self.tester_ends}  # which counts by itself
        return {
            ports.get(name, name): link.carrier_changes or 0
            for name, link in self.machine.links_by_place().items()
            if name not in of_tester
        }

    def check_alive(self) -> None:
        """Raise when a part of the DUT here has ended, or nobody guards the run any more."""
        self.run.require_guard()
        if not self.plan.has_dut:
            return
        self.vswitch.check_alive()
        for vnf in self.guests:
            vnf.check_alive()

    def watching(self, watch: Callable[[], None]) -> Callable[[], None]:
        """A watch that also raises when a part of the DUT here has ended."""

        def watch_all() -> None:
            watch()
            self.check_alive()

        return watch_all

    @contextlib.contextmanager
    def without_tester(self) -> Iterator[tuple[WireEnd, ...]]:
        """Take the tester away for a while, for something else in its place."""
        self.check_alive()
        self.generator.close()
        self._prepared_size = 0
        try:
            yield self.tester_ends
        except (DutError, HostError, GeneratorError) as error:
            raise self.cause(error) from None
        finally:
            self.connect_tester()
            self.slices = self.prefer_pollers()

    def cause(self, error: VnetperfError) -> VnetperfError:
        """The error of a part that has died, rather than of the call that found it gone.

        A process closes its sockets a while before its end can be seen: it gives its memory back
        first.
        """
        return self._cause(error, self.check_alive)

    def _cause(self, error: VnetperfError, check_alive: Callable[[], None]) -> VnetperfError:
        def death() -> VnetperfError | None:
            try:
                check_alive()
            except VnetperfError as failure:
                return failure
            return None

        awaited = "the end of what has failed"
        return wait_at_most(death, DYING_S, awaited, poll_s=0.05) or error

    def _stop_backends(self) -> list[str]:
        """Stop everything in the opposite order; what fails is left to the journal."""
        troubles: list[str] = []
        tester = [self.generator.close] if self.plan.has_tester else []
        vnfs = [v.stop for v in self.guests] if self.plan.has_dut else []
        vswitch = [self.vswitch.stop] if self.plan.has_dut else []
        stages: tuple[list[Callable[[], object]], ...] = ([*tester], [*vnfs], [*vswitch])
        for parts in stages:
            for error in run_all_to_end(parts):
                if not isinstance(error, VnetperfError | OSError):
                    raise error
                troubles.append(str(error))
        return troubles

    def teardown(self) -> list[str]:
        """Take everything away."""
        try:
            self._stop_backends()  # what does not stop is ended with the run's processes
        finally:
            report = self.run.close()
        return list(report.troubles)
