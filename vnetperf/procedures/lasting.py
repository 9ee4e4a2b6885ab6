"""How long a test can take, from its parameters alone: what a plan says before anything is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

from vnetperf.model.preset import Preset


@dataclass(frozen=True, slots=True)
class Lasting:
    """The most that a test asks for at one frame size.

    Attributes:
        trials: Number of trials.
        traffic_s: Seconds of traffic.
        idle_s: Least wait after each trial, seconds.
    """

    trials: int
    traffic_s: float
    idle_s: float = 0.0

    def wall_s(self, preset: Preset) -> float:
        """Wall time with the waits of a preset's trials.

        Args:
            preset: The preset.

        Returns:
            Seconds; trials that are repeated and set-up besides.
        """
        times = preset.trial
        waits = times.learning_wait_s + times.drain_s + max(times.settle_s, self.idle_s)
        return self.traffic_s + self.trials * waits


def lasting(test: str, preset: Preset, rate_fps: float) -> Lasting | None:
    """The most that a test asks for at one frame size.

    Args:
        test: Its name.
        preset: Its parameters.
        rate_fps: Largest rate of the medium at that size, frames/s per interface.

    Returns:
        That; None where it cannot be told before.
    """
    count = _COUNTS.get(test)
    return None if count is None else count(preset, rate_fps)


def _alike(trials: int, seconds: float) -> Lasting:
    return Lasting(trials, trials * seconds)


def _latency(preset: Preset, _: float) -> Lasting:
    asked = preset.latency
    loads = len(asked.shares) + len(asked.loads_fps)
    return _alike(loads * asked.repeats, asked.duration_s)


def _frame_loss(preset: Preset, rate_fps: float) -> Lasting:
    step = preset.frame_loss.step
    halvings = ceil(log2(max(2.0, step * rate_fps / preset.min_load_fps)))  # below the last step
    return _alike(ceil(1 / step) + halvings, preset.frame_loss.duration_s)


def _back_to_back(preset: Preset, rate_fps: float) -> Lasting:
    asked = preset.back_to_back
    steps = max(1, int(asked.max_burst_s * rate_fps / asked.step_frames))
    trials = asked.searches * ceil(log2(steps + 1)) * (1 + asked.repeats_after_loss)
    # Most bursts are far shorter than the longest one, with which no search begins.
    return Lasting(trials, trials * asked.max_burst_s / 2, asked.idle_s)


def _recovery(preset: Preset, _: float) -> Lasting:
    asked = preset.recovery
    return _alike(asked.repeats, asked.overload_s + asked.relaxed_s)


def _reset(preset: Preset, _: float) -> Lasting:
    asked = preset.reset
    down = asked.link_down_s * asked.what.count("link") / max(1, len(asked.what))
    return _alike(len(asked.what) * asked.repeats, asked.before_s + asked.after_s + down)


def _soak(preset: Preset, _: float) -> Lasting:
    asked = preset.soak
    return Lasting(ceil(asked.duration_s / asked.trial_s), asked.duration_s)


def _loss_profile(preset: Preset, _: float) -> Lasting:
    asked = preset.loss_profile
    return _alike(len(asked.shares) * asked.repeats, asked.duration_s)


_COUNTS: dict[str, Callable[[Preset, float], Lasting]] = {
    "latency": _latency,
    "frame_loss": _frame_loss,
    "back_to_back": _back_to_back,
    "recovery": _recovery,
    "reset": _reset,
    "mrr": lambda preset, _: _alike(preset.mrr.repeats, preset.mrr.duration_s),
    "loss_profile": _loss_profile,
    "soak": _soak,
}
