"""The tests that are no search, by name: generator, parameters, field of the result, duration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Any, get_type_hints

from vnetperf.model.errors import ConfigError
from vnetperf.model.preset import Preset
from vnetperf.model.trial import TrialRequest
from vnetperf.procedures.addresses import address_caching, address_learning, forgetting
from vnetperf.procedures.back_to_back import back_to_back
from vnetperf.procedures.base import THROUGHPUT_TRIES, ProcedureInputs
from vnetperf.procedures.cpu_load import cpu_load
from vnetperf.procedures.latency import ATTEMPTS_OF_CURVE, latency, latency_load
from vnetperf.procedures.rates import forwarding_rate, frame_loss, halvings, loss_profile, mrr
from vnetperf.procedures.recovery import recovery
from vnetperf.procedures.reset import reset
from vnetperf.procedures.service import service
from vnetperf.procedures.sessions import connection_rate, session_capacity
from vnetperf.procedures.soak import soak
from vnetperf.search import Procedure


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """The most that a test requests at one frame size."""

    trials: int
    traffic_s: float  # Seconds of traffic
    idle_s: float = 0.0  # Least wait after each trial, seconds

    def wall_s(self, preset: Preset) -> float:
        """Wall time with the waits of a preset's trials."""
        times = preset.trial
        waits = times.learning_wait_s + times.drain_s + max(times.settle_s, self.idle_s)
        return self.traffic_s + self.trials * waits


def _equal_trials(trials: int, seconds: float) -> DurationEstimate:
    return DurationEstimate(trials, trials * seconds)


def _estimate_latency(preset: Preset, _: float) -> DurationEstimate:
    test = preset.latency
    loads = len(test.shares) + len(test.loads_fps)
    return _equal_trials(loads * test.repeats, test.duration_s)


def _estimate_frame_loss(preset: Preset, rate_fps: float) -> DurationEstimate:
    step = preset.frame_loss.step
    halvings = ceil(log2(max(2.0, step * rate_fps / preset.min_load_fps)))  # below the last step
    return _equal_trials(ceil(1 / step) + halvings, preset.frame_loss.duration_s)


def _estimate_back_to_back(preset: Preset, rate_fps: float) -> DurationEstimate:
    test = preset.back_to_back
    steps = max(1, int(test.max_burst_s * rate_fps / test.step_frames))
    trials = test.searches * ceil(log2(steps + 1)) * (1 + test.repeats_after_loss)
    # Most bursts are far shorter than the longest one, with which no search begins.
    if test.max_s is not None:
        trials = min(trials, int(test.max_s / (test.max_burst_s / 2 + test.idle_s)))
    return DurationEstimate(trials, trials * test.max_burst_s / 2, test.idle_s)


def _estimate_recovery(preset: Preset, _: float) -> DurationEstimate:
    test = preset.recovery
    return _equal_trials(test.repeats, test.overload_s + 2 * test.relaxed_s)


def _estimate_reset(preset: Preset, _: float) -> DurationEstimate:
    test = preset.reset
    down = test.link_down_s * test.what.count("link") / max(1, len(test.what))
    return _equal_trials(len(test.what) * test.repeats, test.before_s + test.after_s + down)


def _estimate_soak(preset: Preset, _: float) -> DurationEstimate:
    test = preset.soak
    return DurationEstimate(ceil(test.duration_s / test.trial_s), test.duration_s)


def _estimate_service(preset: Preset, _: float) -> DurationEstimate:
    test = preset.service
    count = max(1, round(test.performance_s / test.trial_s)) if test.performance_s else 0
    steps = len(test.steps)
    return DurationEstimate(steps + count, steps * test.step_s + test.performance_s)


def _estimate_loss_profile(preset: Preset, _: float) -> DurationEstimate:
    test = preset.loss_profile
    return _equal_trials(len(test.shares) * test.repeats, test.duration_s)


def _estimate_cpu_load(preset: Preset, _: float) -> DurationEstimate:
    test = preset.cpu_load
    loads = len(set(test.shares)) + len(set(test.loads_fps))
    return _equal_trials(loads * test.repeats, test.duration_s)


def _estimate_latency_load(preset: Preset, rate_fps: float) -> DurationEstimate:
    test = preset.latency_load
    loads = sum(load <= rate_fps for load in test.loads_fps)
    return _equal_trials(loads * test.repeats * ATTEMPTS_OF_CURVE, test.duration_s)


def _estimate_mrr(preset: Preset, _: float) -> DurationEstimate:
    return _equal_trials(preset.mrr.repeats, preset.mrr.duration_s)


def _estimate_forwarding_rate(preset: Preset, _: float) -> DurationEstimate:
    test = preset.rfc2889
    return _equal_trials((test.loads + 2 * halvings(test)) * test.repeats, test.duration_s)


@dataclass(frozen=True)
class StandardTest:
    """A test that is no search."""

    run: Callable[[Any], Procedure[Any]]  # The generator, called with its inputs
    section: str  # Field of `Preset` that holds its parameters
    fills: str  # Field of `Result` that holds what it finds
    #: The most that it requests at one frame size of a preset, at a rate; None for as many trials
    #: as it takes.
    estimate: Callable[[Preset, float], DurationEstimate] | None = None
    takes_shares: bool = False  # True when its loads are shares of the throughput
    #: Whether its numbers are those of a load that is carried: that is tried first.
    needs_carried: bool = False
    #: Trials that it may request after its first, which the generator must be able to run as well.
    later: Callable[[Any], tuple[TrialRequest, ...]] = lambda _: ()
    #: Whether the largest load, which its loads are shares of, is a preferred number, so that runs
    #: on an unchanged machine have the same loads.
    on_grid: bool = False

    @property
    def inputs(self) -> type[ProcedureInputs[Any]]:
        """Model of its inputs: the generator's signature states it."""
        model: type[ProcedureInputs[Any]] = get_type_hints(self.run)["inputs"]
        return model

    def parameters(self, preset: Preset) -> Any:
        """Its parameters in a preset."""
        return getattr(preset, self.section)

    def needs_throughput(self, preset: Preset) -> bool:
        """Whether its inputs must have one: it is searched if need be."""
        return self.takes_shares and not self.parameters(preset).has_loads


def _after_throughput(
    run: Callable[[Any], Procedure[Any]],
    section: str,
    fills: str,
    estimate: Callable[[Preset, float], DurationEstimate],
    *,
    needs_carried: bool = False,
) -> StandardTest:
    return StandardTest(
        run, section, fills, estimate, takes_shares=True, needs_carried=needs_carried
    )


#: Test to how it is run; "throughput" is a search, and not among them.
PROCEDURES: dict[str, StandardTest] = {
    "latency": _after_throughput(
        latency, "latency", "latency_at", _estimate_latency, needs_carried=True
    ),
    "frame_loss": StandardTest(
        frame_loss, "frame_loss", "loss_steps", _estimate_frame_loss, on_grid=True
    ),
    "back_to_back": _after_throughput(
        back_to_back, "back_to_back", "back_to_back", _estimate_back_to_back
    ),
    "recovery": _after_throughput(
        recovery, "recovery", "recovery", _estimate_recovery, needs_carried=True
    ),
    "reset": _after_throughput(reset, "reset", "resets", _estimate_reset, needs_carried=True),
    "mrr": StandardTest(mrr, "mrr", "rates", _estimate_mrr),
    "loss_profile": _after_throughput(
        loss_profile, "loss_profile", "loss_steps", _estimate_loss_profile
    ),
    "latency_load": StandardTest(
        latency_load, "latency_load", "latency_at", _estimate_latency_load
    ),
    "soak": _after_throughput(soak, "soak", "soak", _estimate_soak),
    "forwarding_rate": _after_throughput(
        forwarding_rate, "rfc2889", "rates", _estimate_forwarding_rate
    ),
    "address_caching": StandardTest(address_caching, "rfc2889", "addresses", later=forgetting),
    "address_learning": StandardTest(address_learning, "rfc2889", "addresses", later=forgetting),
    "service": _after_throughput(service, "service", "service", _estimate_service),
    "connection_rate": StandardTest(connection_rate, "nat", "sessions"),
    "session_capacity": StandardTest(session_capacity, "nat", "sessions"),
    "cpu_load": _after_throughput(
        cpu_load, "cpu_load", "cpu_load", _estimate_cpu_load, needs_carried=True
    ),
}


def standard_test(test: str) -> StandardTest:
    """Look up a test."""
    if test not in PROCEDURES:
        raise ConfigError(
            f"there is no test {test!r}", where="test case", accepted=", ".join(PROCEDURES)
        )
    return PROCEDURES[test]


def duration_estimate(test: str, preset: Preset, rate_fps: float) -> DurationEstimate | None:
    """The most that a test requests at one frame size."""
    procedure = PROCEDURES.get(test)
    if procedure is None or procedure.estimate is None:
        return None
    estimate = procedure.estimate(preset, rate_fps)
    if not (procedure.needs_carried and procedure.needs_throughput(preset)):
        return estimate
    tries_s = THROUGHPUT_TRIES * max(goal.final_trial_s for goal in preset.goals)
    return replace(
        estimate, trials=estimate.trials + THROUGHPUT_TRIES, traffic_s=estimate.traffic_s + tries_s
    )
