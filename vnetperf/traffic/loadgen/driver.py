"""The built-in generator as a backend of the traffic family."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.host.process import ManagedProcess
from vnetperf.model.errors import GeneratorError, HostError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan, Pollers, RoleDemand
from vnetperf.model.ports import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.model.units import MAX_FRAME_SIZE
from vnetperf.traffic.base import GeneratorCapabilities, TrafficGenerator
from vnetperf.traffic.frames import ETH_LEN, compile_header, compile_varied
from vnetperf.traffic.loadgen import results as engine_results
from vnetperf.traffic.loadgen import spec as engine_spec
from vnetperf.traffic.loadgen.build import build_identity, engine_executable
from vnetperf.traffic.loadgen.convert import to_trial_result
from vnetperf.traffic.loadgen.engine import Engine

#: Frames in one transmit call, and back to back after a stall.
BURST = 32
#: A frame that is later than this is given up; a scheduler slice of another poller is far shorter.
MAX_LAG_S = 0.01
MEMIF_RING_LOG2 = 11
#: Learning frames are sent slowly, unless there are so many that it would take too long.
LEARN_FPS, LEARN_S = 10_000.0, 2.0
#: Longest wait for the engine beyond the trial's own length, seconds.
GRACE_S = 10.0
BURST_DRAIN_S = 0.2
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
        wires=("memif", "veth"), latency_histogram=True, exact_bursts=True
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.directory = machine.subdir("gen")
        self.config: engine_spec.EngineConfig | None = None
        self.executable: Path | None = None
        self._engine: Engine | None = None
        self._streams: tuple[Stream, ...] = ()

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
        placement = self.plan.placement
        self.config = engine_spec.EngineConfig(
            devices=tuple(_device(port, end) for port, end in enumerate(ends)),
            cpus=placement.cores["tester"],
            hugepages=False,  # memif and kernel interfaces lose nothing by ordinary memory
            rx_queues=max(_rx_queues(end, self.plan) for end in ends),
            rx_descriptors=1 << MEMIF_RING_LOG2,
            tx_descriptors=1 << MEMIF_RING_LOG2,
            sleep_us=self.plan.testbed.tester_sleep_us if placement.takes_turns("tester") else 0,
        )
        self.executable = engine_executable()
        self._engine = Engine.open(
            self.config, run_dir=self.directory, executable=self.executable, spawn=self._spawn
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
        self._streams = streams
        self._running().set_streams(_stream_spec(s, profile, frame_size) for s in streams)

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
        senders = [stream.direction for stream in self._streams]
        loads = {
            s.id: engine_spec.Load(rate=trial.load_fps / senders.count(s.direction))
            for s in self._streams
        }
        spec = engine_spec.TrialSpec(
            loads=loads,
            duration_s=trial.duration_s,
            drain_s=trial.drain_s,
            burst=BURST,
            max_lag_s=MAX_LAG_S,
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

    def burst(self, frames: int, watch: Callable[[], None]) -> TrialResult:
        """Send an exact number of frames back to back; a full ring is tried again.

        Args:
            frames: Frames of each stream.
            watch: Called while traffic runs.

        Returns:
            The counts.
        """
        spec = engine_spec.TrialSpec(
            loads={s.id: engine_spec.Load(rate=None, count=frames) for s in self._streams},
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
                f"{p.number}: {p.name} ({p.driver}), {p.mac}, MTU {p.mtu}" for p in info.ports
            ],
            "workers": [f"{w.number} on processor {w.cpu}" for w in info.workers],
            "time stamps": "TSC, taken before the transmit call and after the receive call "
            f"({info.tsc_hz / 1e6:.0f} MHz); latency is from the last bit handed over to the "
            "frame taken in, the driver's and the wire's rings included",
            "largest burst": BURST,
            "given up when late by (s)": MAX_LAG_S,
            "sleep when idle (us)": config.sleep_us if config else 0,
        }

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            self._engine.close(timeout_s=3.0)
            self._engine = None


def _rx_queues(end: WireEnd, plan: Plan) -> int:
    """A memif client must have a queue for each the far end sends on; af_packet has but one."""
    return plan.tester_rx_queues if end.kind == "memif" else 1


def _device(port: int, end: WireEnd) -> str:
    """The tester's end of a wire as a DPDK device."""
    if end.kind == "memif":
        return (
            f"--vdev=net_memif{port},role={end.role},id={end.wire},socket={end.socket},"
            f"socket-abstract=no,bsize=2048,rsize={MEMIF_RING_LOG2}"
        )
    if end.kind == "veth":
        return (
            f"--vdev=net_af_packet{port},iface={end.netdev},framesz=2048,framecnt=2048,"
            "blocksz=4096,qdisc_bypass=1"
        )
    raise GeneratorError(f"cannot plug into a {end.kind} wire", accepted="memif, veth")


def _stream_spec(
    stream: Stream, profile: TrafficProfile, frame_size: int
) -> engine_spec.StreamSpec:
    return engine_spec.StreamSpec(
        id=stream.id,
        tx_port=stream.tx_port,
        rx_port=stream.rx_port,
        frame_size=frame_size,
        header=compile_header(stream, frame_size),
        l3_offset=ETH_LEN,
        fields=tuple(
            engine_spec.FieldSpec(
                offset=f.offset,
                width=f.width,
                base=f.base,
                count=f.count,
                mode="random" if f.random else "inc",
            )
            for f in compile_varied(stream, profile)
        ),
    )
