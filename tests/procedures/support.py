"""A DUT whose truth is known, for procedures: capacity, buffer and delays of every direction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from vnetperf.model.machine_load import MachineLoad, ProcessorLoad, ThreadLoad
from vnetperf.model.parameters import ProcedureParameters as Parameters
from vnetperf.model.trial import (
    DirectionCounts,
    Latency,
    TrialOutcome,
    TrialRequest,
    TrialResult,
    TrialSpec,
    Verdict,
)
from vnetperf.plugin.procedure import RULES, KnownThroughput, ProcedureInputs
from vnetperf.search import Procedure
from vnetperf.statistics.histogram import encode_hdr, latency_percentiles

CEILING = 2e6


def spec_of(request: TrialRequest) -> TrialSpec:
    """A trial as the runner makes it."""
    return TrialSpec(frame_size=64, **request.model_dump())


def latency_of(frames: dict[int, int], ipdv: dict[str, float] | None = None) -> Latency:
    """Latency of frames by their delay, ns."""
    pairs = sorted(frames.items())
    count = sum(frames.values())
    return Latency(
        count=count,
        min_ns=pairs[0][0],
        mean_ns=sum(ns * n for ns, n in pairs) / count,
        max_ns=pairs[-1][0],
        percentiles=latency_percentiles(pairs),
        hdr=encode_hdr(pairs),
        ipdv=ipdv or {},
    )


@dataclass
class Dut:
    """Two directions alike, or as `share` has it.

    Attributes:
        capacity_fps: Frames/s it forwards, per direction.
        buffer: Frames of a burst that it holds besides what it forwards meanwhile.
        burst_fps: Rate of a burst.
        delay: Number of a trial and a direction -> frames by delay, ns.
        share: Capacity of each direction as a share.
        asked: Every trial.
    """

    capacity_fps: float = 700e3
    buffer: Callable[[int], int] = lambda trial: 1000
    burst_fps: float = CEILING
    delay: Callable[[int, int], Latency | None] = lambda trial, direction: None
    share: tuple[float, ...] = (1.0, 1.0)
    asked: list[TrialRequest] = field(default_factory=list)

    def run(self, ask: TrialRequest) -> TrialOutcome:
        """One trial."""
        self.asked.append(ask)
        number = len(self.asked)
        directions = tuple(self._direction(d, ask, number) for d in range(len(self.share)))
        return TrialOutcome.of(spec_of(ask), TrialResult(directions=directions), number=number)

    def _direction(self, direction: int, ask: TrialRequest, number: int) -> DirectionCounts:
        capacity = self.capacity_fps * self.share[direction]
        if ask.burst:
            frames, seconds = ask.burst, ask.burst / self.burst_fps
            carried = int(capacity * seconds) + self.buffer(number)
        else:
            frames, seconds = round(ask.load_fps * ask.duration_s), ask.duration_s
            carried = round(capacity * seconds)
        return DirectionCounts(
            direction=direction,
            intended=frames,
            sent=frames,
            refused=0,
            unsent=0,
            received=min(frames, carried),
            tx_seconds=seconds,
            latency=self.delay(number, direction),
        )


def inputs(parameters: Parameters, **changes: Any) -> ProcedureInputs[Any]:
    """What a procedure is given, on wires without a speed."""
    return ProcedureInputs[type(parameters)](  # type: ignore[misc]  # of the parameters at hand
        **{
            "parameters": parameters,
            "frame_size": 64,
            "ceiling_fps": CEILING,
            "ceiling_reason": "the generator",
            "media_fps": 14_880_952.38,
            "rules": RULES,
            "throughput": KnownThroughput(load_fps=700e3, search=1, goal="ndr"),
        }
        | changes
    )


class Answers(Protocol):
    """Whatever trials are run on."""

    def run(self, ask: TrialRequest) -> TrialOutcome:
        """Run one."""


def drive(procedure: Procedure[Any], dut: Answers) -> tuple[Any, list[TrialOutcome]]:
    """Run a procedure to its end; what it found, and its trials."""
    seen: list[TrialOutcome] = []
    try:
        ask = next(procedure)
        while True:
            seen.append(dut.run(ask))
            if seen[-1].answers(ask):
                ask = procedure.send(seen[-1])
    except StopIteration as end:
        return end.value, seen


def limited(seen: TrialOutcome) -> TrialOutcome:
    """The same trial, had the generator fallen behind by 2 % of its load."""
    directions = []
    for counts in seen.result.directions:
        sent = counts.sent - counts.intended // 50
        fewer = {
            "sent": sent,
            "unsent": counts.unsent + counts.intended // 50,
            "received": min(sent, counts.received),
        }
        directions.append(counts.model_copy(update=fewer))
    spec = {"frame_size": 64, **seen.request.model_dump(), "offered_tolerance": 0.001}
    result = seen.result.model_copy(update={"directions": tuple(directions)})
    return TrialOutcome.of(TrialSpec(**spec), result, Verdict.GENERATOR_LIMITED, number=seen.number)


def asks(seen: Iterable[TrialOutcome]) -> list[float]:
    """Loads of trials."""
    return [one.load_fps for one in seen]


@dataclass(frozen=True, slots=True)
class SimulatedProcessors:
    """What tester, DUT and kernel take of a machine, by what a trial forwards.

    Each role has a thread on a processor of its own; the kernel's work comes upon the tester's.
    """

    idle: Mapping[str, float]
    """Role -> processors without frames; "kernel" is the soft interrupts, "others" nobody's."""

    ns_per_frame: Mapping[str, float]
    """Role -> processor time of each frame that comes back, nanoseconds."""

    watched_s: float = 0.0
    """Time before and after the traffic in which threads are watched too, seconds."""

    interrupts_apart: bool | None = False
    """Whether the kernel keeps interrupts apart from the tester's time."""

    def watch(self, result: TrialResult, duration_s: float) -> TrialResult:
        """Add what a collector sees.

        Args:
            result: Of a trial.
            duration_s: Its seconds of traffic.

        Returns:
            The same with threads and the machine.
        """
        seconds = duration_s + self.watched_s
        rate = result.received / seconds
        used = {
            role: self.idle.get(role, 0.0) + rate * self.ns_per_frame.get(role, 0.0) / 1e9
            for role in dict.fromkeys((*self.idle, *self.ns_per_frame))
        }
        softirq, others = used.pop("kernel", 0.0), used.pop("others", 0.0)
        threads, processors = [], []
        for cpu, (role, own) in enumerate(used.items()):
            not_own = softirq if role == "tester" and not self.interrupts_apart else 0.0
            threads.append(
                ThreadLoad(
                    role=role,
                    thread=role,
                    cpu=cpu,
                    user=own,
                    system=not_own,
                    run_s=(own + not_own) * seconds,
                    wait_s=0.0,
                    watched_s=seconds,
                )
            )
            at = {"irq": 0.0, "guest": 0.0, "steal": 0.0, "backlog_dropped": 0}
            soft = softirq if role == "tester" else 0.0
            processors.append(ProcessorLoad(cpu=cpu, user=own, system=0.0, softirq=soft, **at))
        idle = {"irq": 0.0, "softirq": 0.0, "guest": 0.0, "steal": 0.0}
        processors.append(ProcessorLoad(cpu=len(used), user=others, system=0.0, **idle))
        machine = MachineLoad(
            by_processor=tuple(processors), interrupts_apart=self.interrupts_apart
        )
        update = {"threads": tuple(threads), "machine": machine, "collected_s": seconds}
        return result.model_copy(update=update)
