"""Trials of prepared streams: what each part sends, waiting, and counts of the whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from vnetperf.host.patience import patient
from vnetperf.model.errors import GeneratorError, HostError
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.traffic.loadgen import results as engine_results
from vnetperf.traffic.loadgen import spec as engine_spec
from vnetperf.traffic.loadgen.convert import to_trial_result
from vnetperf.traffic.loadgen.engine import Engine
from vnetperf.traffic.loadgen.streams import Part, split

#: Frames in one transmit call, and back to back after a stall.
BURST = 32
#: A frame that is later than this is given up; a scheduler slice of another poller is far shorter.
MAX_LAG_S = 0.01
#: Longest wait for the engine beyond the trial's own length, seconds.
GRACE_S = 10.0
BURST_DRAIN_S = 0.2
WATCH_S = 0.25

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

    def loads(self, load_fps: float, duration_s: float) -> dict[int, engine_spec.Load]:
        """What each part sends, so that each direction has the load of the trial.

        Args:
            load_fps: Frames/s per direction, of the greater load.
            duration_s: Seconds.

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
                    load = engine_spec.Load(rate=rate * part.share, count=count)
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
    spec = engine_spec.TrialSpec(
        loads=prepared.loads(trial.load_fps, trial.duration_s),
        duration_s=trial.duration_s,
        drain_s=trial.drain_s,
        burst=BURST,
        group=prepared.group,
        max_lag_s=patient(MAX_LAG_S),
    )
    began = time.monotonic()
    result = _conduct(engine, spec, trial.duration_s, watch)
    if trial.full_drain:
        _sleep_through(began + trial.duration_s + trial.drain_s, watch)
    drained = max(0.0, result.elapsed_ns / 1e9 - trial.duration_s)
    more = {
        "refusal_is_loss": refusal_is_loss,
        "drain_s": trial.drain_s if trial.full_drain else round(drained, 4),
    }
    counts = to_trial_result(prepared.streams, result, None, apart=prepared.apart)
    counts = counts.model_copy(update=more)
    if counts.worst_loss_ratio() > trial.histogram_up_to_loss:
        return counts
    timed = [s.stream for s in result.streams if s.latency.count and s.stream not in prepared.apart]
    held = engine.histograms(timed)
    whole = to_trial_result(prepared.streams, result, held.__getitem__, apart=prepared.apart)
    return whole.model_copy(update=more)


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
        return engine.wait(spec.drain_s + GRACE_S)
    except BaseException:
        _stop_quietly(engine)
        raise


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
