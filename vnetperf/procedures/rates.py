"""Tests at loads that are chosen, not searched.

Frame loss rate (RFC 2544 section 26.3), loss profile, MRR, forwarding rate (RFC 2889 section
5.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log2, log10
from statistics import fmean
from typing import Any

from vnetperf.model.figures import Figure, figure
from vnetperf.model.outcomes import MAXIMUM_OFFERED, MOST_FORWARDED, ForwardingRate, LossStep
from vnetperf.model.parameters import FrameLossTest, LossProfileTest, MrrTest, Rfc2889Test
from vnetperf.model.result import Result
from vnetperf.model.trial import SAME_RTOL, TrialOutcome, TrialRequest, WhenLimited
from vnetperf.model.units import fps, percent
from vnetperf.plugin.procedure import DurationEstimate, FrameTest, ProcedureInputs, equal_trials
from vnetperf.procedures.base import repeat_trial
from vnetperf.search import Procedure
from vnetperf.statistics import spread


def forwarded_fps(outcome: TrialOutcome) -> float:
    """Forwarding rate of a trial."""
    return outcome.result.received / outcome.duration_s


def merge_rates(
    inputs: ProcedureInputs[Any],
    load_name: str,
    trials: Sequence[TrialOutcome],
    *,
    searched: bool = False,
) -> ForwardingRate:
    """Rates of trials at one load."""
    first = trials[0].request
    return ForwardingRate(
        load_fps=first.load_fps * inputs.in_sum,
        of=load_name,
        duration_s=first.duration_s,
        forwarded_fps=spread([forwarded_fps(outcome) for outcome in trials]),
        loss_ratio=spread([outcome.result.worst_loss_ratio() for outcome in trials]),
        searched=searched,
        trials=tuple(outcome.number for outcome in trials),
    )


def merge_losses(
    inputs: ProcedureInputs[Any], trials: Sequence[TrialOutcome], share: float
) -> LossStep:
    """Loss of trials at one load."""
    by_direction: dict[str, list[float]] = {}
    for outcome in trials:
        for counts in outcome.result.directions:
            ratio = outcome.result.loss_ratio(counts)
            by_direction.setdefault(inputs.direction(counts.direction), []).append(ratio)
    return LossStep(
        load_fps=trials[0].load_fps * inputs.in_sum,
        input_ratio=share,
        loss_ratio=fmean([outcome.result.worst_loss_ratio() for outcome in trials]),
        forwarded_fps=fmean([forwarded_fps(outcome) for outcome in trials]),
        per_direction={name: fmean(ratios) for name, ratios in by_direction.items()},
        trials=tuple(outcome.number for outcome in trials),
        most_ratio=fmean([outcome.loss.most for outcome in trials])
        if any(outcome.is_short for outcome in trials)
        else None,
    )


#: Preferred numbers of a decade (ISO 3, R20): one is up to 13 % larger than the one before.
_PREFERRED = (
    *(1.0, 1.12, 1.25, 1.4, 1.6, 1.8, 2.0, 2.24, 2.5, 2.8),
    *(3.15, 3.55, 4.0, 4.5, 5.0, 5.6, 6.3, 7.1, 8.0, 9.0),
)


def preferred_below(number: float) -> float:
    """The largest preferred number that is not above one: two that differ little mostly share it.

    A calibration differs from the next by some percent, and numbers at different loads cannot be
    compared.
    """
    decade: float = 10.0 ** floor(log10(number))
    return decade * max(
        (mantissa for mantissa in _PREFERRED if mantissa * decade <= number), default=0.9
    )


#: Successive trials without loss that end the test.
_CLEAN_TRIALS = 2


def frame_loss(inputs: ProcedureInputs[FrameLossTest]) -> Procedure[tuple[LossStep, ...]]:
    """Run the test."""
    step, duration_s = inputs.parameters.step, inputs.parameters.duration_s
    steps: list[LossStep] = []
    clean, share = 0, 1.0
    while clean < _CLEAN_TRIALS and (load := share * inputs.ceiling_fps) >= inputs.min_load_fps:
        # What can be offered is found at the first load; below it a shortfall is an accident.
        limited: WhenLimited = "fail" if steps else "lower"
        outcome = yield TrialRequest(load_fps=load, duration_s=duration_s, when_limited=limited)
        steps.append(merge_losses(inputs, [outcome], share))
        clean = clean + 1 if steps[-1].is_clean else 0
        linear = 1.0 - len(steps) * step
        share = linear if linear > step / 2 else share / 2
    return tuple(steps)


def loss_profile(inputs: ProcedureInputs[LossProfileTest]) -> Procedure[tuple[LossStep, ...]]:
    """Run the test."""
    test, throughput = inputs.parameters, inputs.required_throughput
    loads: list[float] = []
    for share in sorted(test.shares):
        load = min(inputs.ceiling_fps, max(inputs.min_load_fps, share * throughput.load_fps))
        if not loads or load > loads[-1] * (1 + SAME_RTOL):
            loads.append(load)
    trials: dict[float, list[TrialOutcome]] = {load: [] for load in loads}
    for _ in range(test.repeats):
        for load in loads:
            above = load > throughput.load_fps * (1 + SAME_RTOL)
            request = TrialRequest(
                load_fps=load,
                duration_s=test.duration_s,
                # The throughput could be offered; what is above it perhaps not.
                when_limited="lower" if above else "fail",
            )
            trials[load].append((yield request))
    return tuple(
        merge_losses(inputs, outcomes, load / inputs.ceiling_fps)
        for load, outcomes in trials.items()
    )


def mrr(inputs: ProcedureInputs[MrrTest]) -> Procedure[tuple[ForwardingRate, ...]]:
    """Run the test."""
    seconds = inputs.parameters.duration_s
    request = TrialRequest(
        load_fps=inputs.ceiling_fps,
        duration_s=seconds,
        histogram_up_to_loss=-1.0,
        when_limited="lower",
        overload=True,
    )
    trials = yield from repeat_trial(request, inputs.parameters.repeats)
    return (merge_rates(inputs, MAXIMUM_OFFERED, trials),)


#: Where the search for the largest forwarding rate ends: distance of its loads, relative.
FORWARDING_RESOLUTION = 0.02


def forwarding_rate(inputs: ProcedureInputs[Rfc2889Test]) -> Procedure[tuple[ForwardingRate, ...]]:
    """Run the test: loads from the throughput to the largest, then halfway beside the best one.

    Below the throughput a DUT forwards what it is offered, and less than at it.
    """
    test = inputs.parameters
    trials: dict[float, list[TrialOutcome]] = {}

    def measure(loads: Sequence[float]) -> Procedure[None]:
        # All loads in turn, and again: a DUT that drifts does so at all of them alike.
        for _ in range(test.repeats if inputs.throughput else 1):
            for load in loads:
                request = TrialRequest(
                    load_fps=load,
                    duration_s=test.duration_s,
                    histogram_up_to_loss=-1.0,
                    when_limited="fail" if trials else "lower",
                    overload=True,
                )
                outcome = yield request
                trials.setdefault(load, []).append(outcome)

    def best() -> float:
        return max(trials, key=lambda load: fmean(map(forwarded_fps, trials[load])))

    yield from measure(_first_loads(inputs))
    most = max(trials)
    searched = inputs.throughput is not None
    for _ in range(halvings(test) if searched else 0):
        yield from measure(_halfway_loads(sorted(trials), best()))
    return (
        merge_rates(inputs, MAXIMUM_OFFERED, trials[most], searched=searched),
        merge_rates(inputs, MOST_FORWARDED, trials[best()], searched=searched),
    )


def halvings(test: Rfc2889Test) -> int:
    """Times that loads beside the best one are tried, at most: the first step may be all loads."""
    return max(0, ceil(log2(1 / ((test.loads - 1) * FORWARDING_RESOLUTION))))


def _first_loads(inputs: ProcedureInputs[Rfc2889Test]) -> list[float]:
    """From the largest down; a test that was logged without a throughput has shares of it."""
    test, most = inputs.parameters, inputs.ceiling_fps
    if inputs.throughput is None:
        loads = [share * most for share in sorted({1.0, *test.shares}, reverse=True)]
        return [load for load in loads if load >= inputs.min_load_fps]
    least = min(most, inputs.throughput.load_fps)
    if most - least <= FORWARDING_RESOLUTION * most:
        return [most] if most == least else [most, least]
    step = (most - least) / (test.loads - 1)
    return [most - number * step for number in range(test.loads - 1)] + [least]


def _halfway_loads(loads: Sequence[float], best: float) -> list[float]:
    """Loads halfway to the neighbours of the best one; none where these are near."""
    place = loads.index(best)
    near = [loads[n] for n in (place - 1, place + 1) if 0 <= n < len(loads)]
    return [
        (best + neighbour) / 2
        for neighbour in near
        if abs(neighbour - best) > FORWARDING_RESOLUTION * loads[-1]
    ]


def _list_loss_figures(result: Result, steps: tuple[LossStep, ...]) -> Iterator[Figure]:
    for number, step in enumerate(steps, 1):
        # Not a load of its own: the largest one can differ a little from run to run.
        label = f"loss at {step.input_ratio:.4g} of the largest load"
        if result.test == "loss_profile":
            label = f"loss at step {number}"
        item = fps(step.load_fps)
        if step.input_ratio:
            item = f"{percent(step.input_ratio)} of {fps(step.load_fps / step.input_ratio)}"
        yield figure("load", "fps", step.load_fps, item)
        yield figure("input_ratio", "ratio", step.input_ratio, item)
        about: dict[str, Any] = {"less": label, "main": True, "load_fps": step.load_fps}
        yield figure("loss_ratio", "ratio", step.loss_ratio, item, **about)
        yield figure("forwarded", "fps", step.forwarded_fps, item)
        for direction, value in step.per_direction.items():
            yield figure("loss_ratio", "ratio", value, item, direction)


def _list_rate_figures(_: Result, rates: tuple[ForwardingRate, ...]) -> Iterator[Figure]:
    for rate in rates:
        label = f"forwarded at {rate.of}"
        yield figure("load", "fps", rate.load_fps, rate.of)
        # The load that most is forwarded at is found, too, by chance one of several on a plateau.
        about: dict[str, Any] = {"more": label, "main": True, "load_fps": rate.load_fps}
        about["finds_load"] = rate.of == MOST_FORWARDED
        yield figure("forwarding_rate", "fps", rate.forwarded_fps, rate.of, **about)
        about = {"less": f"loss at {rate.of}", "load_fps": rate.load_fps}
        yield figure("loss_ratio", "ratio", rate.loss_ratio, rate.of, **about)
        yield figure("trial_duration", "s", rate.duration_s, rate.of)


class FrameLossProcedure(FrameTest):
    """Frame loss rate, RFC 2544 section 26.3."""

    name = "frame_loss"
    run = staticmethod(frame_loss)
    list_figures = staticmethod(_list_loss_figures)
    section = "frame_loss"
    fills = "loss_steps"
    on_grid = True

    @staticmethod
    def estimate(parameters: FrameLossTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        step = parameters.step
        below_last_step = ceil(log2(max(2.0, step * rate_fps / least_fps)))
        return equal_trials(ceil(1 / step) + below_last_step, parameters.duration_s)


class MrrProcedure(FrameTest):
    """Forwarding rate at the largest load (MRR)."""

    name = "mrr"
    run = staticmethod(mrr)
    list_figures = staticmethod(_list_rate_figures)
    section = "mrr"
    fills = "rates"

    @staticmethod
    def estimate(parameters: MrrTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        return equal_trials(parameters.repeats, parameters.duration_s)


class LossProfileProcedure(FrameTest):
    """Loss at loads around the throughput."""

    name = "loss_profile"
    run = staticmethod(loss_profile)
    list_figures = staticmethod(_list_loss_figures)
    section = "loss_profile"
    fills = "loss_steps"
    takes_shares = True

    @staticmethod
    def estimate(
        parameters: LossProfileTest, rate_fps: float, least_fps: float
    ) -> DurationEstimate:
        """The most that it requests at one frame size."""
        return equal_trials(len(parameters.shares) * parameters.repeats, parameters.duration_s)


class ForwardingRateProcedure(FrameTest):
    """Forwarding rates, RFC 2889 section 5.6."""

    name = "forwarding_rate"
    run = staticmethod(forwarding_rate)
    list_figures = staticmethod(_list_rate_figures)
    section = "rfc2889"
    fills = "rates"
    takes_shares = True

    @staticmethod
    def estimate(parameters: Rfc2889Test, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        loads = parameters.loads + 2 * halvings(parameters)
        return equal_trials(loads * parameters.repeats, parameters.duration_s)
