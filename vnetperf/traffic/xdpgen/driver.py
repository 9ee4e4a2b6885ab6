"""xdpgen: the kernel makes frames at the tester's ends of veth wires, and counts them there.

A packet socket costs more for each frame than all that XDP does, and hides it. Here a program of
XDP is the source and another one the sink; a process of its own runs the first for a trial.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import lcm
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import xdp
from vnetperf.host.linux import python_argv, read_file
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_for
from vnetperf.host.xdp import CLANG, BpfObject, compile_program
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import GeneratorError
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Plan, Pollers, Scenario
from vnetperf.model.testbed import MachineFacts, Program, Testbed
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import DirectionCounts, Latency, LiveCounts, TrialResult, TrialSpec
from vnetperf.plugin.backend import IS_STOPPED
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic
from vnetperf.plugin.generator import (
    NUMBERED,
    GeneratorCapabilities,
    TrafficGenerator,
    host_failures,
    learning_rate,
    sleep_watching,
)

#: What its process says when it has started, and when it has done what a line told it to.
READY, ENDED = "ready", "ended"
#: Has it leave what a line told it to do.
ENDS = signal.SIGUSR1
#: One of each port.
STREAMS = 2
#: struct pace of source.c: start, stop, interval, total, target, trial, and what `send` writes.
PACE = struct.Struct("=10Q")
FRACTION_BITS = 16
#: struct delays of source.c, of each processor: trial, count, sum, least, most.
DELAYS = struct.Struct("=5Q")
#: Places in `counts` of source.c.
COUNTS = ("received", "misrouted", "altered")
STALE, FOREIGN = STREAMS * len(COUNTS), STREAMS * len(COUNTS) + 1
ALL_PORTS = "all"
#: Time for the kernel to make its buffers before the first frame is due, and for frames that are
#: due at the end; seconds.
LEAD_S, OVERTIME_S = 0.05, 0.01
START_S, ENDS_S = 10.0, 10.0
SOURCE = Path(__file__).with_name("source.c")
MAX_FLOWS = 65_536
NO_NUMBERS = "not measured: xdpgen counts frames, and looks at no sequence"
UNCOLLECTED = {
    **dict.fromkeys([name for name in NUMBERED if name != "misrouted"], NO_NUMBERS),
    **dict.fromkeys(
        ("max_burst", "max_lag_s", "mean_lag_s"),
        "not measured: xdpgen keeps no account of when each frame left",
    ),
    "corrupted": "not measured: xdpgen counts a frame with a stream that was never sent as foreign",
    "gaps": "not recorded: xdpgen keeps no account of when it stood still",
}


def _too_many(flows: int) -> str:
    """Why it cannot send so many flows, "" where it can: it holds the headers of each."""
    if flows <= MAX_FLOWS:
        return ""
    return (
        f"the profile makes {flows} flows, and it sends {MAX_FLOWS} at most; use fewer, or vary "
        "fields that all have as many values"
    )


def _key(number: int) -> bytes:
    return struct.pack("=I", number)


@dataclass(frozen=True, slots=True)
class StreamPace:
    """What `send` has done for a stream."""

    built: int
    skipped: int
    first_ns: int
    last_ns: int

    @property
    def seconds(self) -> float:
        """From the first frame to the last and one more gap."""
        gaps = max(1, self.built - 1)
        return (self.last_ns - self.first_ns) / 1e9 * self.built / gaps


class Xdpgen(TrafficGenerator):
    """Programs of XDP at the tester's ends of veth wires: paced, counted, timed."""

    name: ClassVar[str] = "xdpgen"
    programs: ClassVar[tuple[Program, ...]] = (CLANG,)
    capabilities: ClassVar[GeneratorCapabilities] = GeneratorCapabilities(
        wires=("veth",),
        headers=frozenset({"ethernet", "ipv4", "udp"}),
        random_fields=False,
        max_flows=MAX_FLOWS,
        imix=False,
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._ends: tuple[WireEnd, ...] = ()
        self._indexes: tuple[int, ...] = ()
        self._process: ManagedProcess | None = None
        self._code: BpfObject | None = None
        self._frames: tuple[CompiledFrame, ...] = ()
        self._began = self._trial = 0
        self._counted_before: list[int] = []

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """A compiler, a kernel that loads programs."""
        return facts.missing_program(CLANG) or facts.bpf

    @classmethod
    def sends_native_xdp(cls, scenario: Scenario) -> bool:
        """Always."""
        return True

    @classmethod
    def cannot_send(cls, scenario: Scenario, testbed: Testbed) -> str:
        """More than one kind of frame of each port, more flows than it holds headers of."""
        ports = [stream.tx_port for stream in scenario.streams]
        if len(ports) > STREAMS or len({*ports}) < len(ports):
            return "it sends one stream from each port"
        return _too_many(scenario.traffic.flow_count)

    def connect(self, ends: tuple[WireEnd, ...]) -> None:
        """Start the process that makes frames, and let the other ends of the wires take them."""
        self._ends = ends
        netdevs = [str(end.netdev) for end in ends]
        with host_failures():
            self._indexes = tuple(self.machine.link(netdev).index for netdev in netdevs)
            for netdev in netdevs:
                self.machine.in_netns(partial(xdp.let_peer_receive, netdev))
            self._process = self.machine.spawn(
                self.name,
                python_argv(__package__),
                cpus=self.plan.placement.cores.get("tester"),
                keep_stdin_open=True,
            )
            self._await(READY, START_S)

    def _await(self, word: str, seconds: float) -> None:
        """Wait for the worker's answer, which may go on with what went wrong."""
        process = self.started(self._process)

        def answered() -> str:
            lines = read_file(process.log).splitlines(keepends=True)
            return next((x for x in lines if x.startswith((f"{word}\n", f"{word}: "))), "")

        answer = wait_for(answered, seconds, "the worker's answer", check=self.check_alive).strip()
        if answer != word:
            raise GeneratorError(answer.partition(": ")[2], where=self.name)

    def check_alive(self) -> None:
        """Raise when its process has ended."""
        process = self.started(self._process)
        if process.stopped:
            raise GeneratorError(f"its process {IS_STOPPED}", where=self.name)
        if not process.alive():
            raise GeneratorError(
                "its process has ended; its output ends with:\n" + process.log_tail(5),
                where=self.name,
            )

    def links_down(self) -> tuple[str, ...]:
        """Ports without a carrier."""
        return tuple(
            f"tester port {port}"
            for port, end in enumerate(self._ends)
            if not self.machine.link(str(end.netdev)).carrier
        )

    def prepare(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Compile the programs for the frames, and attach the one that counts."""
        frames = compile_traffic(streams, profile, frame_size)
        if frames == self._frames and self._code is not None:
            return
        first, flows = frames[0], lcm(*(frame.flows for frame in frames))
        if reason := _too_many(flows):
            raise GeneratorError(reason, where=self.name)
        if len({frame.header_octets for frame in frames}) > 1 or len(frames) > STREAMS:
            raise GeneratorError("it sends one kind of frame from each port", where=self.name)
        takes = {f.stream.direction: self._indexes[f.stream.rx_port] for f in frames}
        clang = self.machine.facts.programs.get(CLANG.name) or CLANG.name
        self._unload()
        with host_failures():
            code = BpfObject(
                self.name,
                compile_program(
                    clang,
                    SOURCE,
                    LENGTH=len(first.template),
                    HEADERS=first.header_octets,
                    FLOWS=flows,
                    TAKES_0=takes.get(0, 0),
                    TAKES_1=takes.get(1, 0),
                ),
            )
            self._code = code
            headers = code.map("headers")
            for frame in frames:
                for flow in range(flows):
                    key = _key(frame.stream.direction * flows + flow)
                    headers.update(key, frame.nth(flow)[: frame.header_octets])
            for end in self._ends:
                self.machine.in_netns(partial(code.attach, "take", str(end.netdev), "native"))
        self._frames = frames

    def learn(self, frames_per_stream: int) -> None:
        """Send learning frames."""
        rate = learning_rate(frames_per_stream)
        if frames_per_stream:
            self._send(dict.fromkeys(self._frames, (rate, frames_per_stream)), lambda: None)

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send, drain, count."""
        if missing := self.lacks(trial):
            raise GeneratorError(f"it cannot {missing}", where=self.name)
        loads = {frame: trial.load_fps * frame.share for frame in self._frames}
        planned = {f: (fps, round(fps * trial.duration_s)) for f, fps in loads.items()}
        refused = self._refused()
        self._send(planned, watch, trial.duration_s)
        self.on_sent()
        sleep_watching(time.monotonic() + trial.drain_s, watch)
        self.check_alive()
        counted, now = self._counted(), self._refused()
        directions = []
        for frame, (_, intended) in planned.items():
            number, pace = frame.stream.direction, self._pace(frame.stream.direction)
            lost = min(pace.built, now[frame.stream.tx_port] - refused[frame.stream.tx_port])
            received, misrouted, altered = (
                counted[STREAMS * place + number] for place in range(len(COUNTS))
            )
            directions.append(
                DirectionCounts(
                    direction=number,
                    intended=intended,
                    sent=pace.built - lost,
                    refused=lost,
                    unsent=intended - pace.built,
                    received=received,
                    misrouted=misrouted,
                    altered=altered,
                    tx_seconds=pace.seconds,
                    latency=self._latency(number),
                    **dict.fromkeys([name for name in NUMBERED if name != "misrouted"]),
                )
            )
        return TrialResult(
            directions=tuple(directions),
            # `take` counts them for all ports together.
            foreign={ALL_PORTS: counted[FOREIGN]} if counted[FOREIGN] else {},
            stale=counted[STALE],
            drain_s=trial.drain_s,
            refusal_is_loss=self.refusal_is_loss(trial),
            uncollected=UNCOLLECTED,
        )

    def _send(
        self,
        planned: dict[CompiledFrame, tuple[float, int]],
        watch: Callable[[], None],
        seconds: float = 0.0,
    ) -> None:
        """Have frames made: rate and number of each stream."""
        process, code = self.started(self._process), self.started(self._code)
        self.check_alive()
        self._trial += 1
        seconds = seconds or max(count / fps for fps, count in planned.values())
        start = time.monotonic_ns() + int(LEAD_S * 1e9)
        stop = start + int((seconds + OVERTIME_S) * 1e9)
        paces = code.map("paces")
        for number in range(STREAMS):
            paces.update(_key(number), bytes(PACE.size))
        for frame, (fps, count) in planned.items():
            target = self._indexes[frame.stream.tx_port]
            interval = round(1e9 / fps * (1 << FRACTION_BITS))
            pace = PACE.pack(start, stop, interval, count, target, self._trial, 0, 0, 0, 0)
            paces.update(_key(frame.stream.direction), pace)
        self._began, self._counted_before = start, self._counts()
        with host_failures():
            runs_s = (stop - time.monotonic_ns()) / 1e9
            octets = next(iter(planned)).template.hex()
            process.write_line(f"{self._trial} {code.number('send')} {runs_s:.6f} {octets}")

        def watch_all() -> None:
            self.check_alive()
            watch()

        try:
            sleep_watching(stop / 1e9, watch_all)
        except BaseException:
            for number in range(STREAMS):
                paces.update(_key(number), bytes(PACE.size))
            process.signal(ENDS)
            raise
        with host_failures():
            self._await(f"{ENDED} {self._trial}", ENDS_S)

    def _pace(self, number: int) -> StreamPace:
        values = PACE.unpack(self.started(self._code).map("paces").read(_key(number), PACE.size))
        return StreamPace(*values[-4:])

    def _latency(self, number: int) -> Latency | None:
        """Time from making a frame until it was taken: shortest, mean, longest."""
        octets = self.started(self._code).map("delays").read_per_cpu(_key(number), DELAYS.size)
        rows = [row[1:] for row in DELAYS.iter_unpack(octets) if row[0] == self._trial]
        counts, sums, least, most = zip(*rows, strict=True) if rows else ((), (), (), ())
        if not sum(counts):
            return None
        return Latency(
            count=sum(counts),
            min_ns=min(least),
            mean_ns=sum(sums) / sum(counts),
            max_ns=max(most),
            percentiles={},
        )

    def _counts(self) -> list[int]:
        counts = self.started(self._code).map("counts")
        return [counts.sums(_key(place))[0] for place in range(FOREIGN + 1)]

    def _counted(self) -> list[int]:
        """What `take` has counted since frames were last sent."""
        return [n - b for n, b in zip(self._counts(), self._counted_before, strict=True)]

    def _refused(self) -> dict[int, int]:
        """Frames that each port's wire has not taken: the other end's ring was full."""
        table = self.machine.link_statistics()
        return {n: table[str(end.netdev)].tx_dropped for n, end in enumerate(self._ends)}

    def live(self) -> LiveCounts | None:
        """Counts so far; what the wire refused is known at the end."""
        if self._code is None:
            return None
        counted = self._counted()
        return LiveCounts(
            elapsed_s=max(0.0, (time.monotonic_ns() - self._began) / 1e9),
            sent=sum(self._pace(number).built for number in range(STREAMS)),
            refused=0,
            received=sum(counted[:STREAMS]),
        )

    def pollers(self) -> tuple[Pollers, ...]:
        """The process that the kernel makes frames in."""
        process = self._process
        if process is None:
            return ()
        return (Pollers(role="tester", pid=process.pid, thread_prefix=""),)

    def facts(self) -> dict[str, Any]:
        """How frames are made, and what the numbers mean."""
        return {
            "version": f"the kernel's own, Linux {os.uname().release}",
            "frames": "equal to the other generators', with a stamp of its own at the end",
            "rate": "each frame is made when it is due; its forwarding is done by the same thread, "
            "unless another one does the DUT's receive work (--set napi=threaded)",
            "counters": "own frames where they come back, by a program in native mode",
            "time stamps": "the kernel's clock, where a frame is made and where it is taken; no "
            "histogram",
            "workers": 1,
        }

    def _unload(self) -> None:
        if self._code is not None:
            self._code.close()
        self._code, self._frames = None, ()

    def close(self) -> None:
        """End the process, take the programs away."""
        self._unload()
        if self._process is not None:
            self._process.stop()
            self._process = None
