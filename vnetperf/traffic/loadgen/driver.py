"""loadgen as a backend of the traffic family.

Ports, memory and cores of the engine, its facts.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from math import inf
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import dpdk
from vnetperf.host.build import BUILD_PROGRAMS, BuildVariant
from vnetperf.host.facts import unknown
from vnetperf.host.machine import Machine
from vnetperf.host.wait import patient
from vnetperf.model import frames as tunnel
from vnetperf.model.deployment import Deployment, VnfPort, WireEnd, port_mac, tester_mac
from vnetperf.model.errors import DutError, GeneratorError, HostError
from vnetperf.model.frame_change import FrameChange
from vnetperf.model.frames import GTPU, MAX_FRAME_SIZE, TUNNELS
from vnetperf.model.options import GN_TESTER
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Plan, Pollers, Scenario
from vnetperf.model.testbed import Program
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import (
    CaptureSpec,
    LiveCounts,
    PartResult,
    PortCounts,
    TrialResult,
    TrialSpec,
    TrialWindow,
)
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic, mapping_places
from vnetperf.plugin.generator import (
    LEARN_FPS,
    GeneratorCapabilities,
    TrafficGenerator,
    learning_rate,
)
from vnetperf.traffic.devices import DpdkDevice, dpdk_device, memif_ring, required
from vnetperf.traffic.loadgen.build import ENGINE
from vnetperf.traffic.loadgen.engine import MAX_WORKERS, Engine, EngineConfig, NeighbourSpec
from vnetperf.traffic.loadgen.telemetry import CapturedFrame, EngineInfo, WorkerInfo, pcap_files
from vnetperf.traffic.loadgen.trials import (
    BURST,
    GRACE_S,
    MAX_LAG_S,
    PortRings,
    PreparedStreams,
    compile_parts,
    run_part,
)

log = logging.getLogger(__name__)

RING = 1 << dpdk.MEMIF_RING_LOG2
#: Receive descriptors of a NIC's queue, as far as its driver allows: they bridge the tester's
#: stalls. The rings of memif and virtio are the DUT's transmit rings as well, and stay as they are.
NIC_RX_RING = 4 * RING
#: Frames of a kernel interface's receive ring, likewise; of jumbo frames it would take 80 MiB.
KERNEL_RX_RING = 4 * dpdk.AF_PACKET_FRAMES
#: Fastest that a NAT's sessions are set up before a trial, frames/s: none is to be lost.
SET_UP_FPS = 40_000.0
#: Slowest, as a share of that: each time that they are set up anew before any trial, frames of the
#: last time were lost, and they are sent at half the rate.
LEAST_PACE = 1 / 8
#: Times that the frames from which bindings are learnt are sent, until all came out.
LEARN_ATTEMPTS = 5
#: Share of learning frames from which on all flows count as seen, and that of the rate at which
#: they were taken at which they are sent again.
ENOUGH_LEARNT, LEARN_TAKEN = 0.999, 0.8
#: Times that they are sent, and no slower than takes so long, seconds.
LEARN_TRIES, LEARN_LONGEST_S = 3, 8.0
#: Wait for the last of them, seconds.
LEARN_DRAIN_S = 0.1
#: Kinds by what they are: ends of wires, and places of VNFs, in order of preference.
WIRES = ("nic", "memif", "veth")
ATTACHMENTS = ("vhost-user", "memif", "vf", "veth", "tap", "macvtap", "macvlan", "ipvlan", "vlan")
#: Buffers of the engine's pools: by receive and by transmit queue with its full ring, and for each
#: port (see ports.c); memory beside them, MiB.
RX_BUFFERS, TX_BUFFERS, PORT_BUFFERS = 1024, RING + 3072, 512
BASE_MIB = 64
#: Queues of a NIC of the tester's own, at most; what memory is planned for.
NIC_QUEUES = 2


@dataclass(frozen=True)
class EnginePort(DpdkDevice):
    """A port of the engine.

    Attributes:
        tx_queues: Transmit queues, between which the sender chooses.
        hugepages: True when its memory must be shared with another process, or seen by hardware.
        resets: True when the driver changes the interface's address and MTU on the way.
        rings: What its rings hold; of a NIC the driver tells when it has started.
    """

    rx_queues: int = 1
    tx_queues: int = 1
    hugepages: bool = False
    resets: bool = False
    rings: PortRings = field(default_factory=PortRings)


def engine_port(
    number: int, end: WireEnd, scenario: Scenario, polled: int, *, vhost_net: bool, workers: int = 1
) -> EnginePort:
    """The port that plugs into an end."""
    mac, queues = end.mac or "", end.queues
    if end.kind == "vhost-user":
        argument = dpdk.virtio_user_devargs(
            number,
            required(end, "socket"),
            server=end.role == "server",
            queues=queues,
            ring=RING // 2,
            mac=mac,
        )
        return EnginePort(
            f"--vdev={argument}",
            rx_queues=queues,
            tx_queues=queues,
            hugepages=True,
            rings=PortRings(RING // 2, RING // 2),
        )
    if end.kind == "tap":
        return _tap(number, end, scenario.mtu, vhost_net=vhost_net)
    in_vnf_place = isinstance(scenario.deployment.ends[number], VnfPort)
    kinds = (*WIRES, *ATTACHMENTS)
    frames = KERNEL_RX_RING if scenario.mtu <= dpdk.STANDARD_MTU else dpdk.AF_PACKET_FRAMES
    memif = memif_ring(scenario, number)
    device = dpdk_device(
        *(number, end, scenario.mtu, kinds),
        own_socket=in_vnf_place,
        frames=frames,
        memif_frames=memif,
    )
    rx_queues = tx_queues = 1
    rings = PortRings(frames if device.netdev else None, end.peer_ring)
    if end.kind == "memif":
        # memif has no hash: the sender's queue is the receiver's. Nor does one connect whose other
        # end sends on fewer queues than it polls.
        rx_queues, tx_queues = max(polled, queues), scenario.options.rx_queues or 1
        rings = PortRings(memif, memif)
    elif device.pci:
        rx_queues = min(-(-workers // len(scenario.deployment.ends)), NIC_QUEUES)
        tx_queues = rx_queues
    return EnginePort(
        device.argument,
        rx_queues=rx_queues,
        tx_queues=tx_queues,
        hugepages=device.pci,
        pci=device.pci,
        netdev=device.netdev,
        rings=rings,
    )


def away_port(number: int, queues: int) -> EnginePort:
    """The place of a port that is on another host: nothing is sent there, and nothing comes."""
    return EnginePort(f"--vdev=net_null{number},no-rx=1", tx_queues=queues)


def _tap(number: int, end: WireEnd, mtu: int, *, vhost_net: bool) -> EnginePort:
    netdev, mac = required(end, "netdev"), end.mac or ""
    if not vhost_net:
        argument = dpdk.tap_devargs(number, netdev, mtu, mac)
        return EnginePort(f"--vdev={argument}", netdev=netdev, resets=True)
    argument = dpdk.virtio_user_devargs(
        number, dpdk.VHOST_NET, server=False, queues=1, ring=RING // 2, mac=mac, tap=netdev
    )
    return EnginePort(f"--vdev={argument}", hugepages=True, netdev=netdev, resets=True)


def memory_mib(ports: int, rx_queues: int, tx_queues: int, mtu: int, *, rx_ring: int = RING) -> int:
    """Memory of the engine."""
    rx_buffers = rx_ring + RX_BUFFERS
    buffers = ports * (rx_queues * rx_buffers + tx_queues * TX_BUFFERS + PORT_BUFFERS)
    return -(-(BASE_MIB + dpdk.mbuf_pool_mib(buffers, mtu)) // 64) * 64


#: Least memory without hugepages, MiB: it is touched only where it is used.
ORDINARY_MIB = 512


def engine_config(plan: Plan, ports: Sequence[EnginePort], ends: Sequence[WireEnd]) -> EngineConfig:
    """Configuration of the engine."""
    placement, scenario = plan.placement, plan.scenario
    turn_us = placement.turn_of("tester")
    if plan.ends:  # two that poll leave a small machine no processor for what calls them
        turn_us = turn_us or placement.turn_us
    priority = placement.fifo_priority("tester")
    rx_queues = tuple(port.rx_queues for port in ports)
    tx_queues = tuple(port.tx_queues for port in ports)
    # memif and kernel interfaces lose nothing by ordinary memory.
    hugepages = any(port.hugepages for port in ports)
    if hugepages:
        memory_mb = Loadgen.hugepage_mib(scenario, tuple(end.kind for end in ends))
    else:
        needed = memory_mib(len(ports), max(rx_queues), max(tx_queues), scenario.mtu)
        memory_mb = max(ORDINARY_MIB, needed)
    return EngineConfig(
        devices=tuple(port.argument for port in ports),
        # A queue is served by one worker: no more workers than queues.
        cpus=placement.cores["tester"][: max(sum(rx_queues), sum(tx_queues))],
        hugepages=hugepages,
        memory_mb=memory_mb,
        node=placement.node,
        pci=any(port.pci for port in ports),
        nic_time=plan.testbed.nic_timestamps,
        rx_queues=rx_queues,
        tx_queues=tx_queues,
        rx_descriptors=NIC_RX_RING if any(port.pci for port in ports) else RING,
        tx_descriptors=RING,
        mtu=scenario.mtu if scenario.mtu != dpdk.STANDARD_MTU else None,
        room=dpdk.mbuf_room(scenario.mtu),
        turn_us=turn_us,
        priority=priority,
        share=placement.fifo_share("tester") if priority else 100,
    )


def engine_facts(
    info: EngineInfo,
    config: EngineConfig | None,
    executable: str,
    plan: Plan,
    rings: Sequence[PortRings] = (),
) -> dict[str, Any]:
    """Version, launch line, ports and time stamp method."""
    catch_up = PreparedStreams(rings=tuple(rings)).catch_up
    return {
        "version": f"loadgen {info.version}, {info.dpdk}",
        "launch line": " ".join(config.argv(executable)) if config else "",
        "ports": [
            f"{port.number}: {port.name} ({port.driver}), {port.mac}, MTU {plan.scenario.mtu}, "
            f"{port.rx_queues}/{port.tx_queues} rx/tx queues"
            for port in info.ports
            if port.number in plan.own_ends
        ],
        "octets of a buffer": config.room if config else 0,
        "memory": "hugepages" if config and config.hugepages else "ordinary pages",
        "workers": [
            f"{worker.number} on processor {worker.cpu}: {worker.rx_queues} receive queues, "
            f"{worker.tx_queues} transmit queues"
            for worker in info.workers
        ],
        "workers allowed": plan.testbed.cores.tester,
        "time stamps": "TSC, taken before the transmit call and after the receive call "
        f"({info.tsc_hz / 1e6:.0f} MHz); latency is from the last bit handed over to the "
        "frame taken in, the driver's and the wire's rings included",
        "time stamp error": _timestamp_error(info),
        "clock offset between sockets": clock_offset(info.workers),
        "runs on": "the machine that carries the DUT",
        "arrivals": [
            f"{port.number}: by the NIC's clock, off by {port.nic_time_error_ns} ns at most when "
            "it was last compared"
            if port.nic_time
            else f"{port.number}: by the processor's clock, when the frame is found"
            for port in info.ports
            if port.number in plan.own_ends
        ],
        "neighbours": f"answers for {plan.scenario.traffic.answers} addresses; "
        f"{sum(port.answers for port in info.ports)} frames sent to them so far",
        "largest burst": BURST,
        "given up when late by (s)": patient(MAX_LAG_S),
        "catching up after a stall": f"at most {catch_up} overdue frames of each transmit queue, "
        f"{BURST} of them back to back, the others at up to twice its load; the rest is unsent",
        "receive rings (frames)": [p.tester or "unknown: its driver's" for p in rings],
        "receive rings of the DUT (frames)": [
            p.dut or f"unknown: not the tester's to see, taken for {catch_up}" for p in rings
        ],
        "length of a turn (us)": config.turn_us if config else 0,
    }


def _timestamp_error(info: EngineInfo) -> str:
    """How far off a latency can be, besides what `calibrations` measured of the tester itself."""
    nic = [port.nic_time_error_ns for port in info.ports if port.nic_time]
    worst = f"; NIC's clock off by {max(nic)} ns at most" if nic else ""
    nodes = {worker.numa_node for worker in info.workers}
    clock = "one clock for both ends"
    if len(nodes) > 1:
        clock = f"clocks of {len(nodes)} sockets (clock offset between sockets)"
    return (
        f"{clock}, of {1e9 / info.tsc_hz:.2f} ns resolution{worst}; a frame waits "
        "for the others of its call and for the next look at the ring: what that comes to without "
        "a DUT is the latency in `calibrations`"
    )


def clock_offset(workers: Sequence[WorkerInfo]) -> dict[str, Any] | str:
    """How far the TSCs of the tester's sockets are apart, where it has workers on several.

    Of the two workers on different sockets (NUMA nodes) that may differ most: "between", and
    "least_ns" and "most_ns", which the second one's TSC is ahead of the first one's by. A frame
    from one to the other has a latency that is wrong by no more. A text where there is none.
    """
    if len({worker.numa_node for worker in workers}) < 2:
        return "the tester's workers are on one socket"
    widest: dict[str, Any] = {}
    for first, second in itertools.combinations(workers, 2):
        if first.numa_node == second.numa_node:
            continue
        names = f"processor {first.cpu} and processor {second.cpu}"
        compared = [
            worker
            for worker in (first, second)
            if worker.clock_exchanges or worker.cpu == workers[0].cpu
        ]
        if len(compared) < 2:
            return unknown(f"the clocks of {names} were not compared")
        least = (second.clock_least_ns or 0) - (first.clock_most_ns or 0)
        most = (second.clock_most_ns or 0) - (first.clock_least_ns or 0)
        if not widest or max(-least, most) > max(-widest["least_ns"], widest["most_ns"]):
            widest = {"between": names, "least_ns": least, "most_ns": most}
    return widest


ETH_SRC, ETH_TYPE, ETH_LEN, TAG_LEN, MAC_LEN = 6, 12, 14, 4, 6
VLANS = (0x8100, 0x88A8)
#: Ethertype -> (offset of source, offset of destination, octets of an address).
ADDRESSES = {0x0800: (12, 16, 4), 0x86DD: (8, 24, 16)}
#: Octets of an address whose low part can vary.
LOW = 8


def list_neighbours(
    frames: Sequence[CompiledFrame], deployment: Deployment
) -> tuple[NeighbourSpec, ...]:
    """Addresses that each of the tester's ports has for those around it.

    A port has the outermost source addresses of what it sends, the innermost destination addresses
    of what it receives, and the tester's end of a tunnel. Where several chains have one address,
    the first one's MAC address counts.
    """
    neighbours: dict[tuple[int, bytes], NeighbourSpec] = {}
    for entry in (*_endpoints(deployment), *_derive_neighbours(frames, deployment)):
        previous = neighbours.setdefault((entry.port, entry.address), entry)
        if entry.count > previous.count:
            neighbours[entry.port, entry.address] = entry
    return tuple(neighbours.values())


def map_port_macs(deployment: Deployment) -> dict[int, bytes]:
    """MAC address of each of the tester's ports."""
    ends = enumerate(deployment.ends)
    return {port: _mac_octets(port_mac(deployment, end, 0)) for port, end in ends}


def _endpoints(deployment: Deployment) -> Iterator[NeighbourSpec]:
    for port, end in enumerate(deployment.ends):
        if end in deployment.tunnelled:
            address = IPv4Address(tunnel.TESTER_ADDRESS).packed
            yield NeighbourSpec(port, address, _mac_octets(tester_mac(port, 0)))
        if end in deployment.gtp:
            address = IPv4Address(GN_TESTER).packed
            yield NeighbourSpec(port, address, _mac_octets(port_mac(deployment, end, 0)))


def _derive_neighbours(
    frames: Sequence[CompiledFrame], deployment: Deployment
) -> Iterator[NeighbourSpec]:
    for frame in frames:
        stream = frame.stream
        if place := _address(frame, 0, source=True):
            mac = frame.template[ETH_SRC : ETH_SRC + MAC_LEN]
            yield _entry(frame, stream.tx_port, place, mac, ETH_SRC)
        # GTP-U carries no Ethernet: the packet's destination is behind the one Ethernet header.
        inner = 0 if stream.tunnel == tunnel.GTPU else tunnel.overhead(stream.tunnel)
        end = deployment.ends[stream.rx_port]
        if place := _address(frame, inner, source=False):
            mac = _mac_octets(port_mac(deployment, end, stream.chain))
            yield _entry(frame, stream.rx_port, place, mac, inner)


def _address(frame: CompiledFrame, start: int, *, source: bool) -> tuple[int, int] | None:
    """Offset and octets of the IP address behind the Ethernet header at an offset."""
    type_offset = start + ETH_TYPE
    while (kind := int.from_bytes(frame.template[type_offset : type_offset + 2])) in VLANS:
        type_offset += TAG_LEN
    if kind not in ADDRESSES:
        return None
    from_, to, width = ADDRESSES[kind]
    skip = tunnel.OVERHEAD[tunnel.GTPU] if frame.stream.tunnel == tunnel.GTPU and not source else 0
    return type_offset + 2 + skip + (from_ if source else to), width


def _entry(
    frame: CompiledFrame, port: int, place: tuple[int, int], mac: bytes, mac_at: int
) -> NeighbourSpec:
    offset, width = place
    values = _count_values(frame, offset, width)
    steps = (
        values > 1
        and _count_values(frame, mac_at, MAC_LEN) == values
        and frame.template[mac_at : mac_at + MAC_LEN] == mac
    )
    address = frame.template[offset : offset + width]
    return NeighbourSpec(port, address, mac, count=values, mac_steps=steps)


def _count_values(frame: CompiledFrame, offset: int, width: int) -> int:
    """How many consecutive values the address at an offset takes, at least."""
    for varied in frame.fields:
        ends_with_it = varied.offset + varied.width == offset + width
        if ends_with_it and varied.offset >= offset and varied.width <= LOW:
            return varied.span
    return 1


def _mac_octets(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def raise_unless_bound(bindings: Any, where: str) -> None:
    """Refuse an array of bindings in which one is missing (0), or is there twice."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    if missing := int((bindings == 0).sum()):
        raise DutError(
            f"{missing} of {len(bindings)} sessions did not come out after a frame of each was "
            f"sent {LEARN_ATTEMPTS} times",
            where=where,
            cure="choose fewer sessions with --nat, or a larger table with --set",
        )
    if twice := len(bindings) - len(np.unique(bindings)):
        raise DutError(
            f"{twice} of {len(bindings)} sessions have the public address and port of another one, "
            "so that answers to them cannot be told apart",
            where=where,
            cure="give the NAT more public addresses, or choose fewer sessions with --nat",
        )


class Loadgen(TrafficGenerator):
    """C on DPDK: paced from the TSC, every frame stamped, counted and timed."""

    name: ClassVar[str] = "loadgen"
    programs: ClassVar[tuple[Program, ...]] = BUILD_PROGRAMS
    capabilities: ClassVar[GeneratorCapabilities] = GeneratorCapabilities(
        wires=WIRES,
        attachments=ATTACHMENTS,
        tunnels=(*TUNNELS, GTPU),
        nic_drivers=("vfio-pci", "kernel"),
        latency_histogram=True,
        exact_bursts=True,
        answers=True,
        capture=True,
        changing_load=True,
        timelines=True,
        outlives_switch=True,
        tagged_latency=True,
        max_workers=MAX_WORKERS,
        apart=True,
        sessions=True,
        max_frame_size=MAX_FRAME_SIZE,
        asymmetric=True,
        broadcast=True,
        paced_bursts=True,
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.directory = machine.subdir("gen")
        self.config: EngineConfig | None = None
        self.executable: Path | None = None
        self._engine: Engine | None = None
        self._ports: tuple[EnginePort, ...] = ()
        self._requested: tuple[tuple[Stream, ...], TrafficProfile, int]
        self._prepared = PreparedStreams()
        #: What the DUT does to frames, with the clients that were seen behind it.
        self.learnt: FrameChange | None = None
        self._pace = 1.0  # at which the next sessions are set up
        self._taken_fps = inf  # what the wire takes of a stream's learning frames
        self._neighbours: tuple[tuple[NeighbourSpec, ...], dict[int, bytes]] | None = ((), {})
        self._announce = False
        self._capture = CaptureSpec()
        #: Frames of the last trial that kept some, where another has run since.
        self._kept: tuple[CapturedFrame, ...] | None = None
        self._ends: dict[int, WireEnd] = {}

    @classmethod
    def hugepage_mib(cls, scenario: Scenario, kinds: tuple[str, ...]) -> int:
        """Memory of the engine, where another process or hardware must see it."""
        if not {"vhost-user", "tap", "vf", "nic"} & set(kinds):
            return 0
        options = scenario.options
        senders = (options.workers or 1) + 1  # what a switch sends on: its workers and one more
        tx_queues = options.rx_queues or 1
        if {"nic", "vf"} & set(kinds):  # queues of the tester's own: as many for several workers
            senders, tx_queues = max(senders, NIC_QUEUES), max(tx_queues, NIC_QUEUES)
        rx_ring = NIC_RX_RING if {"nic", "vf"} & set(kinds) else RING
        return memory_mib(2, max(senders, tx_queues), tx_queues, scenario.mtu, rx_ring=rx_ring)

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """What DPDK takes."""
        return dpdk.library_mib(kinds)

    @classmethod
    def build_for_lab(cls) -> None:
        """Compile the engine for any processor, unless that has been done."""
        ENGINE.executable(BuildVariant.PORTABLE)

    @classmethod
    def identity(cls) -> str:
        """The build: DPDK's version, the compiler, the sources."""
        try:
            return ENGINE.identity()
        except HostError as error:
            return f"unknown: {error.what}"

    def connect(self, ends: tuple[WireEnd, ...]) -> None:
        """Build the engine if need be, and start it."""
        self._ends = dict(zip(self.plan.own_ends, ends, strict=True))
        scenario, polled = self.plan.scenario, self.plan.tester_rx_queues
        vhost_net = Path(dpdk.VHOST_NET).exists()
        # A tester on two hosts numbers its streams alike on both, whatever cores each of them has:
        # by a queue of a NIC's port there would be others.
        has_both_ends = len(self._ends) == len(scenario.deployment.ends)
        workers = len(self.plan.placement.cores["tester"]) if has_both_ends else 1
        local_ports = {
            number: engine_port(number, end, scenario, polled, vhost_net=vhost_net, workers=workers)
            for number, end in self._ends.items()
        }
        queues = max(port.tx_queues for port in local_ports.values())
        self._ports = tuple(local_ports.get(n) or away_port(n, queues) for n in (0, 1))
        self.config = engine_config(self.plan, self._ports, ends)
        for number, end in self._ends.items():
            port = self._ports[number]
            if port.netdev and end.mac and not port.resets:
                self.machine.set_link(port.netdev, mac=end.mac)
        links = {p.netdev: self.machine.link(p.netdev) for p in self._ports if p.resets}
        self.executable = ENGINE.executable()
        self._neighbours, self._capture, self.learnt = ((), {}), CaptureSpec(), None
        self._taken_fps = inf
        self._engine = Engine.open(
            self.config,
            run_dir=self.directory,
            executable=self.executable,
            spawn=lambda argv, env: self.machine.spawn("loadgen", argv, env=env),
        )
        for netdev, link in links.items():  # what the driver changed is the switch's
            self.machine.set_link(netdev, mac=link.mac, mtu=scenario.mtu)

    @property
    def _clients(self) -> tuple[int, ...]:
        """Ports that are memif clients: DPDK's connects but once, unless it is started again."""
        ends = self._ends.items()
        return tuple(n for n, end in ends if end.kind == "memif" and end.role == "client")

    def unplug(self) -> None:
        """Let go of what would not be found again; a trial goes on meanwhile."""
        for port in self._clients:
            self._running().unplug(port)

    def reconnect(self) -> None:
        """Take it up again."""
        for port in self._clients:
            self._running().plug(port)

    def _running(self) -> Engine:
        return self.started(self._engine)

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down."""
        ports = self._running().ports(len(self._ports))
        local_ports = (port for port in ports if port.number in self._ends)
        return tuple(f"tester port {p.number}" for p in local_ports if not p.link_up)

    def check_alive(self) -> None:
        """Raise when the engine has ended, or is stopped."""
        self._running().expect_running()

    def port_counters(self) -> tuple[PortCounts, ...]:
        """What drivers count, and the kernel of interfaces that are its own."""
        # Of a tap the driver is the other side: what the kernel counts there is the DUT's.
        netdevs = ["" if port.resets else port.netdev for port in self._ports]
        kernel = self.machine.link_statistics() if any(netdevs) else {}
        links = {link.name: link for link in self.machine.all_links()} if any(netdevs) else {}
        counts = []
        for port, netdev in zip(self._running().ports(len(netdevs)), netdevs, strict=True):
            if port.number not in self._ends:
                continue
            counted = PortCounts(
                port=port.number,
                missed=port.rx_missed,
                errors=port.rx_errors,
                no_buffers=port.rx_no_mbufs,
            )
            if netdev in kernel and netdev in links:
                counted += PortCounts(
                    port=port.number,
                    missed=kernel[netdev].rx_dropped,
                    carrier_changes=links[netdev].carrier_changes,
                )
            counts.append(counted)
        return tuple(counts)

    def prepare(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Hand the streams' headers and varied fields to the engine."""
        if frame_size > MAX_FRAME_SIZE:
            raise GeneratorError(f"frame size {frame_size}", accepted=f"up to {MAX_FRAME_SIZE}")
        self._requested = streams, profile, frame_size
        # Another NAT may be there, or the one that was has started again.
        self._pace, self._taken_fps = 1.0, inf
        self._hand_over(streams, profile, frame_size)
        self._meet_neighbours(streams, profile, frame_size)

    def _hand_over(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Compile the streams, with the clients that were seen behind the DUT."""
        if self.learnt is not None:
            streams = tuple(stream.through(self.learnt) for stream in streams)
        queues = {number: port.tx_queues for number, port in enumerate(self._ports)}
        away = tuple(number for number in queues if number not in self._ends)
        parts = compile_parts(streams, profile, frame_size, queues, away)
        config = self.config
        self._prepared = PreparedStreams(
            parts,
            profile.burst,
            self._rings(),
            away,
            turn_us=config.turn_us if config else 0,
            share=config.share if config else 100,
            workers=len(config.cpus) if config else 1,
        )
        self._running().set_streams(part.spec for part in self._prepared.parts)

    def _rings(self) -> tuple[PortRings, ...]:
        """What the rings at each port hold; a NIC's driver may give fewer descriptors.

        What the DUT sends to a tap waits in the queue of its kernel interface.
        """
        rings = [
            replace(port.rings, rx_queues=port.rx_queues, tx_queues=port.tx_queues)
            for port in self._ports
        ]
        if any(port.resets for port in self._ports):
            queue_lengths = {link.name: link.queue_length for link in self.machine.all_links()}
            rings = [
                replace(ring, tester=queue_lengths.get(port.netdev) or None)
                if port.resets
                else ring
                for port, ring in zip(self._ports, rings, strict=True)
            ]
        if not any(port.pci for port in self._ports):
            return tuple(rings)
        port_infos = self._running().info().ports
        return tuple(
            replace(ring, tester=info.rx_descriptors) if port.pci else ring
            for port, ring, info in zip(self._ports, rings, port_infos, strict=True)
        )

    def _meet_neighbours(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Set the addresses that the ports answer for, unless they are set."""
        graph = self.plan.scenario.deployment
        macs: dict[int, bytes] = {}
        neighbours: tuple[NeighbourSpec, ...] = ()
        if profile.answers != "none":
            neighbours = list_neighbours(compile_traffic(streams, profile, frame_size), graph)
        if profile.answers == "any":
            macs = map_port_macs(graph)
        if (neighbours, macs) != self._neighbours:
            self._neighbours = None  # unknown, should the engine refuse one of them
            self._running().set_neighbours(neighbours, macs)
        self._neighbours = neighbours, macs
        self._announce = profile.announce

    def learn(self, frames_per_stream: int) -> None:
        """Send learning frames."""
        if self._announce:
            self._running().announce()
        # A calibration of the same plan has a wire in place of the translator.
        if any(part.stream.change for part in self._prepared.parts):
            self._set_up_sessions(frames_per_stream)
            return
        sending_parts = [part for part in self._prepared.parts if part.stream.tx_port in self._ends]
        due, learnt = frames_per_stream * len(sending_parts), 0
        fastest = learning_rate(frames_per_stream)
        slowest = max(LEARN_FPS, frames_per_stream / LEARN_LONGEST_S)
        for _ in range(LEARN_TRIES):
            rate = min(fastest, max(slowest, self._taken_fps))
            learnt = self._running().learn(
                frames_per_stream, rate=rate, timeout_s=frames_per_stream / rate + GRACE_S
            )
            if learnt >= due * ENOUGH_LEARNT:
                return
            if not learnt:  # no link yet: a path check tries again
                log.debug("none of %d learning frames was sent", due)
                return
            # The wire, or what is behind it, takes no more: flows that it has not seen would be
            # set up in the trial.
            if fastest > slowest:
                self._taken_fps = LEARN_TAKEN * rate * learnt / due
        log.warning("of %d learning frames %d were sent: the wire takes no more", due, learnt)

    def _set_up_sessions(self, frames: int) -> None:
        """Send a frame of each session: first from inside, or clients, then from outside.

        In one size: each size of a mix has a stream of its own, which begins with the first session
        again, so that a frame of each session is not sent by their shares.
        """
        rate = min(learning_rate(frames), SET_UP_FPS) * self._pace
        self._pace = max(LEAST_PACE, self._pace / 2)
        change = self._prepared.parts[0].stream.change
        learns = change is not None and change.learns_ends
        if change is not None and learns:
            self._learn_bindings(change, min(frames, change.sessions), rate)
        streams, profile, _ = self._requested
        if profile.imix:
            one_size = profile.model_copy(update={"imix": ""})
            self._hand_over(streams, one_size, one_size.least_frame_size)
        try:
            for way in (1,) if learns else (0, 1):
                for part in self._prepared.parts:
                    if part.stream.direction == way and part.stream.tx_port in self._ends:
                        part_frames = max(1, round(frames * part.share))
                        self._running().learn(
                            part_frames,
                            stream_id=part.spec.id,
                            rate=rate,
                            timeout_s=part_frames / rate + GRACE_S,
                        )
        finally:
            if profile.imix:
                self._hand_over(*self._requested)

    def _learn_bindings(self, change: FrameChange, frames: int, rate: float) -> None:
        """Send a frame of each session from inside; expect what the DUT makes of it."""
        import numpy as np  # noqa: PLC0415 - takes 0.1 s

        streams, profile, size = self._requested
        outbound = tuple(stream for stream in streams if stream.direction == 0)
        one_size = profile.model_copy(update={"imix": ""})
        parts = compile_parts(outbound, one_size, one_size.least_frame_size, {})
        if len(self._ends) < len(self._ports) or len(parts) != 1:
            raise GeneratorError(
                "mappings are learnt by one tester with both of its ports, from one stream",
                cure="--nat mapping=preserved, or a testbed whose tester is on one host",
            )
        spec = replace(parts[0].spec, queue=0)  # which numbers all of its frames
        address, port = mapping_places(outbound[0], profile)
        engine = self._running()
        engine.set_streams([spec])
        engine.learn_bindings(spec.id, address=address, port=port, count=change.sessions)
        bindings = np.zeros(change.sessions, dtype=np.uint64)
        if self.learnt is not None:  # a path check learns those of its own frames alone
            ends = self.learnt.sides()[1]
            bindings |= np.frombuffer(ends.client, dtype=">u4").astype(np.uint64) << np.uint64(16)
            bindings |= np.frombuffer(ends.client_port, dtype=">u2").astype(np.uint64)
            bindings[:frames] = 0
        timeout_s = frames / rate + GRACE_S
        try:
            for _ in range(LEARN_ATTEMPTS):
                engine.learn(
                    frames, stream_id=spec.id, rate=rate, drain_s=LEARN_DRAIN_S, timeout_s=timeout_s
                )
                new_bindings = np.frombuffer(engine.bindings(spec.id), dtype=np.uint64)
                bindings = np.where(new_bindings, new_bindings, bindings)
                if bindings[:frames].all():
                    break
            raise_unless_bound(bindings[:frames], where=self.plan.scenario.vswitch)
            addresses, ports = bindings >> np.uint64(16), bindings & np.uint64(0xFFFF)
            as_sent = addresses.astype(">u4").tobytes(), ports.astype(">u2").tobytes()
            self.learnt = change.with_learnt_clients(*as_sent)
        finally:
            self._hand_over(streams, profile, size)

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send, drain, count."""
        if trial.new_sessions and self.learnt is not None:  # the DUT will choose again
            self.learnt = None
            self._hand_over(*self._requested)
        self._begin(trial)
        return run_part(
            self._running(),
            self._prepared,
            trial,
            watch,
            on_sent=self.on_sent,
            refusal_is_loss=self.refusal_is_loss(trial),
        ).result

    def run_part(
        self,
        trial: TrialSpec,
        window: TrialWindow,
        watch: Callable[[], None],
        receives: Callable[[], None],
    ) -> PartResult:
        """Send and count at the port that is here."""
        self._begin(trial)
        return run_part(
            self._running(),
            self._prepared,
            trial,
            watch,
            window=window,
            receives=receives,
            refusal_is_loss=self.refusal_is_loss(trial),
        )

    def _begin(self, trial: TrialSpec) -> None:
        """Capture what a trial requests; it begins since all sessions are there."""
        self._pace = 1.0
        capture = trial.capture or CaptureSpec()
        if capture.frames:
            self._kept = None
        elif self._capture.frames:  # a path check, before anybody has fetched them
            self._kept = self._running().captured()
        if capture != self._capture:
            self._running().capture(capture.frames, capture.what)
            self._capture = capture

    def live(self) -> LiveCounts | None:
        """Sums over all streams, from the engine."""
        status = self._running().status()
        return None if status.state == "done" else status.live

    def captured(self) -> dict[str, bytes]:
        """Frames that the engine kept of the last trial that was to keep some."""
        return pcap_files(self._running().captured() if self._kept is None else self._kept)

    def pollers(self) -> tuple[Pollers, ...]:
        """The engine's workers: its main thread, and others by their names."""
        if self._engine is None:
            return ()
        return (Pollers(role="tester", pid=self._engine.pid, thread_prefix="loadgen"),)

    def facts(self) -> dict[str, Any]:
        """Version, launch line, ports and time stamp method."""
        executable = str(self.executable)
        info = self._running().info()
        return engine_facts(info, self.config, executable, self.plan, self._rings())

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            self._engine.close(timeout_s=3.0)
            self._engine = None
