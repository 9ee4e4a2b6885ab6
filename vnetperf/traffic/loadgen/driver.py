"""The built-in generator as a backend of the traffic family."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.capture import CaptureSpec
from vnetperf.model.errors import GeneratorError, HostError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan, Pollers, RoleDemand
from vnetperf.model.ports import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.trial import LiveCounts, TrialResult, TrialSpec
from vnetperf.model.tunnel import GTPU, TUNNELS
from vnetperf.model.units import MAX_FRAME_SIZE
from vnetperf.traffic.base import GeneratorCapabilities, TrafficGenerator
from vnetperf.traffic.compiled import compile_traffic
from vnetperf.traffic.loadgen.build import Variant, build_identity, engine_executable
from vnetperf.traffic.loadgen.captured import pcap_files
from vnetperf.traffic.loadgen.devices import ATTACHMENTS, VHOST_NET, WIRES, Port, port_of
from vnetperf.traffic.loadgen.engine import Engine
from vnetperf.traffic.loadgen.facts import facts_of
from vnetperf.traffic.loadgen.launch import engine_config, hugepages_mib
from vnetperf.traffic.loadgen.neighbours import macs_of, neighbours_of
from vnetperf.traffic.loadgen.spawned import spawn_in_run
from vnetperf.traffic.loadgen.spec import MAX_WORKERS, EngineConfig, NeighbourSpec
from vnetperf.traffic.loadgen.streams import parts_of
from vnetperf.traffic.loadgen.trials import Prepared, run_burst, run_trial

#: Learning frames are sent slowly, unless there are so many that it would take too long.
LEARN_FPS, LEARN_S = 10_000.0, 2.0


class Loadgen(TrafficGenerator):
    """C on DPDK: paced from the TSC, every frame stamped, counted and timed."""

    name: ClassVar[str] = "loadgen"
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
        self._ports: tuple[Port, ...] = ()
        self._prepared = Prepared()
        self._neighbours: tuple[tuple[NeighbourSpec, ...], dict[int, bytes]] | None = ((), {})
        self._announce = False
        self._capture = CaptureSpec()
        self._ends: tuple[WireEnd, ...] = ()

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the engine from being built here.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            "" or what is missing with its cure; headers are looked for when it is built.
        """
        del scenario
        for program in ("gcc", "pkg-config"):
            if trouble := facts.missing_program(program, program):
                return trouble
        return ""

    @classmethod
    def roles(cls) -> tuple[RoleDemand, ...]:
        """One thread sends and receives on all ports.

        Returns:
            The "tester" demand.
        """
        return (RoleDemand(role="tester", threads=1, group="switch"),)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario, kinds: tuple[str, ...]) -> int:
        """Memory of the engine, where another process or hardware must see it.

        Args:
            scenario: Its MTU and queues.
            kinds: Kinds of wire and attachment its ports plug into.

        Returns:
            MiB.
        """
        return hugepages_mib(scenario, kinds)

    @classmethod
    def build_for_lab(cls) -> None:
        """Compile the engine for any processor, unless that has been done."""
        engine_executable(Variant.PORTABLE)

    @classmethod
    def identity(cls) -> str:
        """The build: DPDK's version, the compiler, the sources.

        Returns:
            A digest, or why there is none.
        """
        try:
            return build_identity()
        except HostError as error:
            return f"unknown: {error.what}"

    def connect(self, ends: tuple[WireEnd, ...]) -> None:
        """Build the engine if need be, start it, and wait for its links.

        Args:
            ends: One end per port.
        """
        self._ends = ends
        scenario, polled = self.plan.scenario, self.plan.tester_rx_queues
        vhost_net = Path(VHOST_NET).exists()
        workers = len(self.plan.placement.cores["tester"])
        self._ports = tuple(
            port_of(number, end, scenario, polled, vhost_net=vhost_net, workers=workers)
            for number, end in enumerate(ends)
        )
        self.config = engine_config(self.plan, self._ports, ends)
        for port, end in zip(self._ports, ends, strict=True):
            if port.netdev and end.mac and not port.resets:
                self.machine.set_link(port.netdev, mac=end.mac)
        found = {p.netdev: self.machine.link(p.netdev) for p in self._ports if p.resets}
        self.executable = engine_executable()
        spawn = partial(spawn_in_run, self.machine)
        self._neighbours, self._capture = ((), {}), CaptureSpec()
        self._engine = Engine.open(
            self.config, run_dir=self.directory, executable=self.executable, spawn=spawn
        )
        for netdev, link in found.items():  # what the driver changed is the switch's
            self.machine.set_link(netdev, mac=link.mac, mtu=scenario.mtu)

    @property
    def _clients(self) -> tuple[int, ...]:
        """Ports that are memif clients: DPDK's connects but once, unless it is started again."""
        ends = enumerate(self._ends)
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
        if self._engine is None:
            raise GeneratorError("the generator has not been started", where=self.name)
        return self._engine

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down.

        Returns:
            Names.
        """
        ports = self._running().info().ports
        return tuple(f"tester port {p.number}" for p in ports if not p.link_up)

    def prepare(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Hand the streams' headers and varied fields to the engine.

        Args:
            streams: What is sent.
            profile: Headers, flows, mix of sizes.
            frame_size: Octets including FCS.
        """
        if frame_size > MAX_FRAME_SIZE:
            raise GeneratorError(f"frame size {frame_size}", accepted=f"up to {MAX_FRAME_SIZE}")
        queues = {number: port.tx_queues for number, port in enumerate(self._ports)}
        parts = parts_of(streams, profile, frame_size, queues)
        self._prepared = Prepared(parts, group=profile.burst)
        self._running().set_streams(part.spec for part in self._prepared.parts)
        self._meet_neighbours(streams, profile, frame_size)

    def _meet_neighbours(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Say whom the ports answer for, unless they do already."""
        graph = self.plan.scenario.deployment
        macs: dict[int, bytes] = {}
        own: tuple[NeighbourSpec, ...] = ()
        if profile.answers != "none":
            own = neighbours_of(compile_traffic(streams, profile, frame_size), graph)
        if profile.answers == "any":
            macs = macs_of(graph)
        if (own, macs) != self._neighbours:
            self._neighbours = None  # unknown, should the engine refuse one of them
            self._running().set_neighbours(own, macs)
        self._neighbours = own, macs
        self._announce = profile.announce

    def learn(self, frames_per_stream: int) -> None:
        """Send learning frames.

        Args:
            frames_per_stream: Frames of each stream.
        """
        if self._announce:
            self._running().announce()
        rate = max(LEARN_FPS, frames_per_stream / LEARN_S)
        self._running().learn(frames_per_stream, rate=rate)

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send, drain, count.

        Args:
            trial: The trial.
            watch: Called while traffic runs.

        Returns:
            The counts.
        """
        capture = trial.capture or CaptureSpec()
        if capture != self._capture:
            self._running().capture(capture.frames, capture.what)
            self._capture = capture
        return run_trial(
            self._running(),
            self._prepared,
            trial,
            watch,
            refusal_is_loss=self.plan.refusal_is_loss,
        )

    def burst(self, frames: int, watch: Callable[[], None]) -> TrialResult:
        """Send an exact number of frames back to back; a full ring is tried again.

        Args:
            frames: Frames of each stream.
            watch: Called while traffic runs.

        Returns:
            The counts.
        """
        return run_burst(self._running(), self._prepared, frames, watch)

    def live(self) -> LiveCounts | None:
        """Sums over all streams, from the engine.

        Returns:
            Counts so far; None outside a trial.
        """
        status = self._running().status()
        if status.counts is None or status.elapsed_s is None or status.state == "done":
            return None
        return LiveCounts(
            elapsed_s=status.elapsed_s,
            sent=status.counts.sent,
            refused=status.counts.refused,
            received=status.counts.received,
        )

    def captured(self) -> dict[str, bytes]:
        """Frames that the engine kept of the last trial.

        Returns:
            One pcap file for each port and way.
        """
        return pcap_files(self._running().captured())

    def pollers(self) -> tuple[Pollers, ...]:
        """The engine's workers: its main thread, and others by their names.

        Returns:
            The "tester" role.
        """
        if self._engine is None:
            return ()
        return (Pollers(role="tester", pid=self._engine.pid, thread_prefix="loadgen"),)

    def facts(self) -> dict[str, Any]:
        """Version, launch line, ports and time stamp method.

        Returns:
            JSON values.
        """
        executable = str(self.executable)
        return facts_of(self._running().info(), self.config, executable, self.plan)

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            self._engine.close(timeout_s=3.0)
            self._engine = None
