"""Trials of prepared streams: what each part sends, waiting, and counts of the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vnetperf.host.patience import patient
from vnetperf.model.errors import GeneratorError, HostError
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import Timeline, TrialResult, TrialSpec
from vnetperf.traffic.loadgen import results as engine_results
from vnetperf.traffic.loadgen import spec as engine_spec
from vnetperf.traffic.loadgen.convert import to_trial_result
from vnetperf.traffic.loadgen.engine import Engine
from vnetperf.traffic.loadgen.overtime import StreamTimeline, timeline_of
from vnetperf.traffic.loadgen.streams import Part, split

#: Frames in one transmit call, and back to back after a stall.
BURST = 32
#: A frame that is later than this is given up; a scheduler slice of another poller is far shorter.
MAX_LAG_S = 0.01
#: Longest wait for the engine beyond the trial's own length, seconds.
GRACE_S = 10.0
BURST_DRAIN_S = 0.2
WATCH_S = 0.25
#: Slowest that a burst leaves, frames/s: through af_packet on a busy machine.
SLOWEST_BURST_FPS = 50_000.0

Watch = Callable[[], None]


@dataclass(frozen=True)
class Prepared:
    """Streams that the engine has been told.

    Attributes:
        parts: What the engine sends, by queue.
        group: Frames of each queue that are sent back to back; 1 sends evenly.
    """

    parts: tuple[Part, ...] = ()
    group: int = 1

    @property
    def apart(self) -> frozenset[int]:
        """Ids of the parts that are no frames of their stream: broadcast."""
        return frozenset(part.spec.id for part in self.parts if part.broadcast)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The stream of each part, with the part's id."""
        return tuple(part.stream.model_copy(update={"id": part.spec.id}) for part in self.parts)

    def by_stream(self) -> list[tuple[Part, ...]]:
        """Parts of each stream.

        Returns:
            One entry for each stream.
        """
        ids = dict.fromkeys(part.stream.id for part in self.parts)
        return [tuple(p for p in self.parts if p.stream.id == number) for number in ids]

    def loads(
        self, load_fps: float, duration_s: float, *, counted: bool = True
    ) -> dict[int, engine_spec.Load]:
        """What each part sends, so that each direction has the load of the trial.

        Args:
            load_fps: Frames/s per direction, of the greater load.
            duration_s: Seconds.
            counted: False leaves it to the engine how many frames that makes: the load changes.

        Returns:
            Part's id -> load; parts without a frame are left out.
        """
        loads = {}
        streams = self.by_stream()
        senders = [parts[0].stream.direction for parts in streams]
        for parts in streams:
            sender = parts[0].stream
            rate = load_fps * sender.load / senders.count(sender.direction)
            counts = split(round(rate * duration_s), parts)
            for part, count in zip(parts, counts, strict=True):
                if count:
                    exact = count if counted else None
                    load = engine_spec.Load(rate=rate * part.share, count=exact)
                    loads[part.spec.id] = load
        return loads

    def bursts(self, frames: int) -> dict[int, engine_spec.Load]:
        """What each part sends of an exact number of frames, back to back.

        Args:
            frames: Frames of each stream.

        Returns:
            Part's id -> load; parts without a frame are left out.
        """
        return {
            part.spec.id: engine_spec.Load(rate=None, count=count)
            for parts in self.by_stream()
            for part, count in zip(parts, split(frames, parts), strict=True)
            if count
        }


def run_trial(
    engine: Engine, prepared: Prepared, trial: TrialSpec, watch: Watch, *, refusal_is_loss: bool
) -> TrialResult:
    """Send, drain, count.

    Args:
        engine: A running engine that was told the streams.
        prepared: The streams.
        trial: The trial.
        watch: Called while traffic runs.
        refusal_is_loss: See the result.

    Returns:
        The counts.
    """
    # A port that is taken down takes nothing: what it refuses then was offered to it.
    refusal_is_loss = refusal_is_loss or trial.event is not None
    spec = _engine_trial(prepared, trial, refusal_is_loss=refusal_is_loss)
    began = time.monotonic()
    result = _conduct(engine, spec, trial.duration_s, watch)
    sent_s = result.tx_end_ns / 1e9 if trial.burst and result.tx_end_ns else trial.duration_s
    if trial.full_drain:
        _sleep_through(began + sent_s + trial.drain_s, watch)
    drained = max(0.0, result.elapsed_ns / 1e9 - sent_s)
    own = [s for s in result.streams if s.stream not in prepared.apart]
    timelines: tuple[Timeline, ...] = ()
    if trial.bin_s:
        timelines = _timelines(engine, prepared, own, trial.bin_s, refusal_is_loss=refusal_is_loss)
    more = {
        "refusal_is_loss": refusal_is_loss,
        "drain_s": trial.drain_s if trial.full_drain else round(drained, 4),
        "timelines": timelines,
    }
    counts = to_trial_result(prepared.streams, result, None, apart=prepared.apart)
    counts = counts.model_copy(update=more)
    if counts.worst_loss_ratio() > trial.histogram_up_to_loss:
        return counts
    timed = [s.stream for s in own if s.latency.count]
    held = engine.histograms(timed)
    differ = engine.differences([s.stream for s in own if s.counts.received]) if trial.ipdv else {}
    whole = to_trial_result(
        prepared.streams, result, held.__getitem__, apart=prepared.apart, differences=differ
    )
    return whole.model_copy(update=more)


def _engine_trial(
    prepared: Prepared, trial: TrialSpec, *, refusal_is_loss: bool
) -> engine_spec.TrialSpec:
    """A trial as the engine is told it.

    A burst whose frames are refused where that is the DUT's loss goes on: trying them again would
    give the DUT time.
    """
    largest = trial.load_fps
    loads = prepared.loads(largest, trial.duration_s, counted=not trial.steps)
    common = engine_spec.TrialSpec(
        loads=prepared.bursts(trial.burst) if trial.burst else loads,
        drain_s=trial.drain_s,
        burst=BURST,
        max_lag_s=patient(MAX_LAG_S),
        bin_s=trial.bin_s,
        tag_at_s=trial.tag_at_s,
        ipdv=trial.ipdv,
    )
    if trial.burst:
        return replace(common, policy="drop" if refusal_is_loss else "retry")
    steps = tuple((step.load_fps / largest, step.duration_s) for step in trial.steps)
    return replace(
        common,
        duration_s=None if steps else trial.duration_s,
        steps=steps,
        group=prepared.group,
    )


def _timelines(
    engine: Engine,
    prepared: Prepared,
    own: Sequence[engine_results.StreamResult],
    bin_s: float,
    *,
    refusal_is_loss: bool,
) -> tuple[Timeline, ...]:
    """One timeline for each direction that sent."""
    told = engine.timelines([s.stream for s in own])
    directions: dict[int, list[StreamTimeline]] = {}
    for part in prepared.parts:
        if part.spec.id in told:
            directions.setdefault(part.stream.direction, []).append(told[part.spec.id])
    return tuple(
        timeline_of(direction, streams, bin_s, refusal_is_loss=refusal_is_loss)
        for direction, streams in sorted(directions.items())
    )


def run_burst(engine: Engine, prepared: Prepared, frames: int, watch: Watch) -> TrialResult:
    """Send an exact number of frames back to back; a full ring is tried again.

    Args:
        engine: A running engine that was told the streams.
        prepared: The streams.
        frames: Frames of each stream.
        watch: Called while traffic runs.

    Returns:
        The counts.
    """
    spec = engine_spec.TrialSpec(
        loads=prepared.bursts(frames),
        drain_s=BURST_DRAIN_S,
        burst=BURST,
        policy="retry",
        max_lag_s=patient(MAX_LAG_S),
    )
    done = _conduct(engine, spec, 0.0, watch)
    return to_trial_result(prepared.streams, done, None, apart=prepared.apart)


def _conduct(
    engine: Engine, spec: engine_spec.TrialSpec, length_s: float, watch: Watch
) -> engine_results.TrialResult:
    """Start a trial and wait for its end; whatever happens, traffic has stopped after."""
    began = time.monotonic()
    try:
        engine.start(spec)
        _sleep_through(began + length_s, watch)
        return engine.wait(spec.drain_s + GRACE_S + _longest_burst_s(spec))
    except BaseException:
        _stop_quietly(engine)
        raise


def _longest_burst_s(spec: engine_spec.TrialSpec) -> float:
    """Seconds that a burst may take to leave; 0 for paced traffic."""
    loads = spec.loads.values()
    return sum(load.count or 0 for load in loads if load.rate is None) / SLOWEST_BURST_FPS


def _sleep_through(until: float, watch: Watch) -> None:
    """Sleep, but look up now and then: the core may be the engine's."""
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, WATCH_S))
        if left > WATCH_S:
            watch()


def _stop_quietly(engine: Engine) -> None:
    try:
        engine.stop()
    except (GeneratorError, HostError):
        return  # it has died, or had nothing to stop
