"""The built-in generator as a backend of the traffic family."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import vdev
from vnetperf.host.machine import Machine
from vnetperf.host.patience import patient
from vnetperf.host.process import ManagedProcess
from vnetperf.model.errors import GeneratorError, HostError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan, Pollers, RoleDemand
from vnetperf.model.ports import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.model.tunnel import GTPU, TUNNELS
from vnetperf.model.units import MAX_FRAME_SIZE
from vnetperf.traffic.base import GeneratorCapabilities, TrafficGenerator
from vnetperf.traffic.loadgen import results as engine_results
from vnetperf.traffic.loadgen import spec as engine_spec
from vnetperf.traffic.loadgen.build import Variant, build_identity, engine_executable
from vnetperf.traffic.loadgen.convert import to_trial_result
from vnetperf.traffic.loadgen.devices import (
    ATTACHMENTS,
    RING,
    VHOST_NET,
    WIRES,
    Port,
    memory_mib,
    needs_hugepages,
    port_of,
)
from vnetperf.traffic.loadgen.engine import Engine
from vnetperf.traffic.loadgen.streams import Part, parts_of, split

#: Frames in one transmit call, and back to back after a stall.
BURST = 32
#: A frame that is later than this is given up; a scheduler slice of another poller is far shorter.
MAX_LAG_S = 0.01
#: Least memory without hugepages, MiB: it is touched only where it is used.
ORDINARY_MIB = 512
#: Learning frames are sent slowly, unless there are so many that it would take too long.
LEARN_FPS, LEARN_S = 10_000.0, 2.0
#: Longest wait for the engine beyond the trial's own length, seconds.
GRACE_S = 10.0
BURST_DRAIN_S = 0.2
STANDARD_MTU = 1500
WATCH_S = 0.25


class _Spawned:
    """A process of the run in the shape the engine wants."""

    def __init__(self, process: ManagedProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (timeout if timeout is not None else 3600.0)
        while (status := self._process.returncode) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
            time.sleep(0.005)
        return status

    def kill(self) -> None:
        self._process.stop(timeout_s=0.0)


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
        max_frame_size=MAX_FRAME_SIZE,
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.directory = machine.subdir("gen")
        self.config: engine_spec.EngineConfig | None = None
        self.executable: Path | None = None
        self._engine: Engine | None = None
        self._ports: tuple[Port, ...] = ()
        self._parts: tuple[Part, ...] = ()
        #: One for each part, with the part's id.
        self._streams: tuple[Stream, ...] = ()
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
        if not needs_hugepages(kinds):
            return 0
        options = scenario.options
        senders = (options.workers or 1) + 1  # what a switch sends on: its workers and one more
        tx_queues = options.rx_queues or 1
        return memory_mib(2, max(senders, tx_queues), tx_queues, scenario.mtu)

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
        self._ports = tuple(
            port_of(number, end, scenario, polled, vhost_net=vhost_net)
            for number, end in enumerate(ends)
        )
        self.config = self._config(self._ports, ends)
        for port, end in zip(self._ports, ends, strict=True):
            if port.netdev and end.mac and not port.resets:
                self.machine.set_link(port.netdev, mac=end.mac)
        found = {p.netdev: self.machine.link(p.netdev) for p in self._ports if p.resets}
        self.executable = engine_executable()
        self._engine = Engine.open(
            self.config, run_dir=self.directory, executable=self.executable, spawn=self._spawn
        )
        for netdev, link in found.items():  # what the driver changed is the switch's
            self.machine.set_link(netdev, mac=link.mac, mtu=scenario.mtu)

    def unplug(self) -> None:
        """End the engine where it is a memif client: DPDK's connects but once."""
        if any(end.kind == "memif" and end.role == "client" for end in self._ends):
            self.close()

    def reconnect(self) -> None:
        """Start the engine anew if `unplug` ended it."""
        if self._engine is None:
            self.connect(self._ends)

    def _config(
        self, ports: tuple[Port, ...], ends: tuple[WireEnd, ...]
    ) -> engine_spec.EngineConfig:
        placement, scenario = self.plan.placement, self.plan.scenario
        rx_queues = tuple(port.rx_queues for port in ports)
        tx_queues = tuple(port.tx_queues for port in ports)
        # memif and kernel interfaces lose nothing by ordinary memory.
        hugepages = any(port.hugepages for port in ports)
        if hugepages:
            memory_mb = self.hugepage_mib(scenario, tuple(end.kind for end in ends))
        else:
            asked = memory_mib(len(ports), max(rx_queues), max(tx_queues), scenario.mtu)
            memory_mb = max(ORDINARY_MIB, asked)
        return engine_spec.EngineConfig(
            devices=tuple(port.argument for port in ports),
            cpus=placement.cores["tester"],
            hugepages=hugepages,
            memory_mb=memory_mb,
            node=placement.node,
            pci=any(port.pci for port in ports),
            rx_queues=rx_queues,
            tx_queues=tx_queues,
            rx_descriptors=RING,
            tx_descriptors=RING,
            mtu=scenario.mtu if scenario.mtu != STANDARD_MTU else None,
            room=vdev.room(scenario.mtu),
            sleep_us=self.plan.testbed.tester_sleep_us if placement.takes_turns("tester") else 0,
        )

    def _spawn(self, argv: Sequence[str], env: Mapping[str, str], log: Path) -> _Spawned:
        process = self.machine.spawn("loadgen", list(argv), env=env, isolated=True)
        log.unlink(missing_ok=True)
        log.symlink_to(process.log)  # where the engine's wrapper looks for its last words
        return _Spawned(process)

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
            profile: Flows.
            frame_size: Octets including FCS.
        """
        if frame_size > MAX_FRAME_SIZE:
            raise GeneratorError(f"frame size {frame_size}", accepted=f"up to {MAX_FRAME_SIZE}")
        queues = {number: port.tx_queues for number, port in enumerate(self._ports)}
        self._parts = parts_of(streams, profile, frame_size, queues)
        self._streams = tuple(
            part.stream.model_copy(update={"id": part.spec.id}) for part in self._parts
        )
        self._running().set_streams(part.spec for part in self._parts)

    def learn(self, frames_per_stream: int) -> None:
        """Send learning frames.

        Args:
            frames_per_stream: Frames of each stream.
        """
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
        spec = engine_spec.TrialSpec(
            loads=self._loads(trial),
            duration_s=trial.duration_s,
            drain_s=trial.drain_s,
            burst=BURST,
            max_lag_s=patient(MAX_LAG_S),
        )
        began = time.monotonic()
        result = self._conduct(spec, trial.duration_s, watch)
        if trial.full_drain:
            self._sleep_through(began + trial.duration_s + trial.drain_s, watch)
        counts = to_trial_result(self._streams, result, None).model_copy(
            update={"refusal_is_loss": self.plan.refusal_is_loss}
        )
        if counts.worst_loss_ratio() <= trial.histogram_up_to_loss:
            counts = to_trial_result(self._streams, result, self._running().histogram)
        drained = max(0.0, result.elapsed_ns / 1e9 - trial.duration_s)
        return counts.model_copy(
            update={"drain_s": trial.drain_s if trial.full_drain else round(drained, 4)}
        )

    def _by_stream(self) -> list[tuple[Part, ...]]:
        ids = dict.fromkeys(part.stream.id for part in self._parts)
        return [tuple(p for p in self._parts if p.stream.id == number) for number in ids]

    def _loads(self, trial: TrialSpec) -> dict[int, engine_spec.Load]:
        """What each part sends, so that each direction has the load of the trial."""
        loads = {}
        streams = self._by_stream()
        senders = [parts[0].stream.direction for parts in streams]
        for parts in streams:
            rate = trial.load_fps / senders.count(parts[0].stream.direction)
            counts = split(round(rate * trial.duration_s), parts)
            for part, count in zip(parts, counts, strict=True):
                if count:
                    load = engine_spec.Load(rate=rate * part.share, count=count)
                    loads[part.spec.id] = load
        return loads

    def burst(self, frames: int, watch: Callable[[], None]) -> TrialResult:
        """Send an exact number of frames back to back; a full ring is tried again.

        Args:
            frames: Frames of each stream.
            watch: Called while traffic runs.

        Returns:
            The counts.
        """
        spec = engine_spec.TrialSpec(
            loads={
                part.spec.id: engine_spec.Load(rate=None, count=count)
                for parts in self._by_stream()
                for part, count in zip(parts, split(frames, parts), strict=True)
                if count
            },
            drain_s=BURST_DRAIN_S,
            burst=BURST,
            policy="retry",
        )
        return to_trial_result(self._streams, self._conduct(spec, 0.0, watch), None)

    def _conduct(
        self, spec: engine_spec.TrialSpec, length_s: float, watch: Callable[[], None]
    ) -> engine_results.TrialResult:
        """Start a trial and wait for its end; whatever happens, traffic has stopped after."""
        engine = self._running()
        began = time.monotonic()
        engine.start(spec)
        try:
            self._sleep_through(began + length_s, watch)
            return engine.wait(spec.drain_s + GRACE_S)
        except BaseException:
            self._stop_quietly()
            raise

    def _sleep_through(self, until: float, watch: Callable[[], None]) -> None:
        """Sleep, but look up now and then: the core may be the engine's."""
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, WATCH_S))
            if left > WATCH_S:
                watch()

    def _stop_quietly(self) -> None:
        try:
            self._running().stop()
        except (GeneratorError, HostError):
            return  # it has died, or had nothing to stop

    def pollers(self) -> tuple[Pollers, ...]:
        """The engine's worker is its main thread.

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
        info, config = self._running().info(), self.config
        return {
            "version": f"loadgen {info.version}, {info.dpdk}",
            "launch line": " ".join(config.argv(str(self.executable))) if config else "",
            "ports": [
                f"{p.number}: {p.name} ({p.driver}), {p.mac}, MTU {self.plan.scenario.mtu}, "
                f"{p.rx_queues}/{p.tx_queues} rx/tx queues"
                for p in info.ports
            ],
            "octets of a buffer": config.room if config else 0,
            "memory": "hugepages" if config and config.hugepages else "ordinary pages",
            "workers": [f"{w.number} on processor {w.cpu}" for w in info.workers],
            "time stamps": "TSC, taken before the transmit call and after the receive call "
            f"({info.tsc_hz / 1e6:.0f} MHz); latency is from the last bit handed over to the "
            "frame taken in, the driver's and the wire's rings included",
            "largest burst": BURST,
            "given up when late by (s)": patient(MAX_LAG_S),
            "sleep when idle (us)": config.sleep_us if config else 0,
        }

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            self._engine.close(timeout_s=3.0)
            self._engine = None
