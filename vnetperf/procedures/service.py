"""Service activation (ITU-T Y.1564): steps up to a committed rate, then the rate for long.

A step is accepted where every direction keeps the limits of loss, delay and delay variation; the
first one that is not ends the test, and the performance test is run after all steps alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from vnetperf.model.figures import Figure, figure
from vnetperf.model.outcomes import Service, ServiceFlow, ServiceStep
from vnetperf.model.parameters import ServiceTest
from vnetperf.model.result import Result
from vnetperf.model.trial import (
    NUMBER_SHORTFALL,
    DirectionCounts,
    TrialOutcome,
    TrialRequest,
    TrialResult,
    Verdict,
)
from vnetperf.plugin.procedure import DurationEstimate, FrameTest, ProcedureInputs
from vnetperf.procedures.base import repeat_trial, shortfall_note
from vnetperf.procedures.latency import (
    delay_variation,
    latencies_by_direction,
    merge_latencies,
)
from vnetperf.search import Procedure

#: Times that a step's trial is run again in which the tester fell behind or stood still.
REPEATS = 3


def service(inputs: ProcedureInputs[ServiceTest]) -> Procedure[Service]:
    """Run the test."""
    test = inputs.parameters
    cir_fps = test.cir_fps or test.cir_share * inputs.required_throughput.load_fps
    cir_name = "as given" if test.cir_fps else f"{100 * test.cir_share:g} % of throughput"
    steps: list[ServiceStep] = []
    tried: list[TrialOutcome] = []
    for share in test.steps:
        request = _request(test, cir_fps * share, test.step_s)
        steps.append((yield from _step(inputs, request, share, tried)))
        if not steps[-1].met:
            break
    performance = None
    if test.performance_s and all(step.met for step in steps):
        count = max(1, round(test.performance_s / test.trial_s))
        request = _request(test, cir_fps, test.performance_s / count)
        trials = yield from repeat_trial(request, count)
        tried += trials
        performance = judge_step(inputs, "performance", 1.0, trials)
    notes = ["" if test.cir_fps else inputs.required_throughput.note, shortfall_note(tried)]
    return Service(
        cir_fps=cir_fps * inputs.in_sum,
        of=cir_name,
        loss_ratio=test.loss_ratio,
        delay_ms=test.delay_ms or None,
        variation_ms=test.variation_ms or None,
        steps=tuple(steps),
        performance=performance,
        note="; ".join(filter(None, notes)),
    )


def _request(test: ServiceTest, load_fps: float, seconds: float) -> TrialRequest:
    return TrialRequest(
        load_fps=load_fps,
        duration_s=seconds,
        ipdv=True,
        when_limited="count",  # a trial that judges nothing must not cost the steps before it
        loss_limits=(test.loss_ratio,),
    )


def _step(
    inputs: ProcedureInputs[ServiceTest],
    request: TrialRequest,
    share: float,
    tried: list[TrialOutcome],
) -> Procedure[ServiceStep]:
    """By the first trial that is a measurement, without one the last.

    What was certainly not met in one of them before is not met: no repetition makes it good.
    """
    steps: list[ServiceStep] = []
    for _ in range(REPEATS + 1):
        trial = yield request
        tried.append(trial)
        steps.append(judge_step(inputs, f"{100 * share:g} % of CIR", share, [trial]))
        if trial.verdict is Verdict.VALID:
            break
    return next((step for step in steps if step.met is False), steps[-1])


def judge_step(
    inputs: ProcedureInputs[ServiceTest],
    step_name: str,
    share: float,
    trials: Sequence[TrialOutcome],
) -> ServiceStep:
    """Compare trials at one load with the limits.

    A limit is exceeded for certain where it is so without what the tester itself may have lost or
    delayed, by the trials that offered the load alone.
    """
    test, flows, unknown = inputs.parameters, _flows(inputs, trials), _explain_unknown(trials)
    offered = [_subtract_tester_loss(trial) for trial in trials if not _fell_behind(trial)]
    certain = {
        (flow.direction, name)
        for flow in (_flows(inputs, offered) if offered else [])
        for name, _ in exceeded(test, flow)
    }
    violations = [
        (flow.direction, name, reason) for flow in flows for name, reason in exceeded(test, flow)
    ]
    worse = [
        f"{direction}: {reason}"
        for direction, name, reason in violations
        if (direction, name) in certain
    ]
    missing = [
        f"{direction}: {reason}, which the tester itself may explain"
        for direction, name, reason in violations
        if (direction, name) not in certain
    ]
    missing += [reason for flow in flows for reason in unmeasured(test, flow)]
    met: bool | None = not (worse or unknown or missing)
    if not worse and (unknown or missing):
        met = None
    first = trials[0]
    return ServiceStep(
        of=step_name,
        share=share,
        load_fps=first.load_fps * inputs.in_sum,
        seconds=sum(trial.duration_s for trial in trials),
        flows=tuple(flows),
        met=met,
        why="; ".join(worse or unknown or missing),
        trials=tuple(trial.number for trial in trials),
    )


def exceeded(test: ServiceTest, flow: ServiceFlow) -> list[tuple[str, str]]:
    """Limits that a direction did not keep: name, and what it was instead.

    Each is kept where it is reached and no more.
    """
    limits = (
        ("FLR", flow.loss_ratio, test.loss_ratio, ""),
        ("mean FTD", _ms(flow.delay_mean_ns), test.delay_ms or None, " ms"),
        ("FDV", _ms(flow.variation_ns), test.variation_ms or None, " ms"),
    )
    return [
        (name, f"{name} {value:.4g}{unit} is above {limit:g}{unit}")
        for name, value, limit, unit in limits
        if value is not None and limit is not None and value > limit
    ]


def unmeasured(test: ServiceTest, flow: ServiceFlow) -> list[str]:
    """Limits of a direction that nothing was measured for."""
    values = (
        ("mean FTD", flow.delay_mean_ns, test.delay_ms),
        ("FDV", flow.variation_ns, test.variation_ms),
    )
    return [
        f"{flow.direction}: {name} was not measured"
        for name, value, limit in values
        if value is None and limit
    ]


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6


def _flows(
    inputs: ProcedureInputs[ServiceTest], trials: Sequence[TrialOutcome]
) -> list[ServiceFlow]:
    latencies = latencies_by_direction(inputs, trials)
    seconds = sum(trial.duration_s for trial in trials)
    flows = []
    for place, first in enumerate(trials[0].result.directions):
        name = inputs.direction(first.direction)
        pairs = [(trial.result, trial.result.directions[place]) for trial in trials]
        offered = sum(result.offered(d) for result, d in pairs)
        received = sum(d.received for _, d in pairs)
        timed = merge_latencies(latencies[name]) if name in latencies else None
        varied = delay_variation(latencies[name]) if name in latencies else None
        flows.append(
            ServiceFlow(
                direction=name,
                rate_bps=received * (inputs.mean_size or inputs.frame_size) * 8 / seconds,
                loss_ratio=max(0.0, 1.0 - received / offered) if offered else 0.0,
                delay_min_ns=timed and timed.min_ns,
                delay_mean_ns=timed and timed.mean_ns,
                delay_max_ns=timed and timed.max_ns,
                variation_ns=varied and varied.pdv_ns,
            )
        )
    return flows


def _subtract_tester_loss(trial: TrialOutcome) -> TrialOutcome:
    """A trial without what the tester's gaps and its port's drops may have cost it, at most."""
    result = trial.result
    directions = tuple(_subtract_direction_loss(result, counts) for counts in result.directions)
    return replace(trial, result=result.model_copy(update={"directions": directions}))


def _subtract_direction_loss(result: TrialResult, counts: DirectionCounts) -> DirectionCounts:
    back = min(result.offered(counts), counts.received + ceil(result.most_lost_by_tester(counts)))
    latency, gaps = counts.latency, result.gaps
    if latency is not None and gaps is not None:
        least = latency.min_ns
        waits = gaps.poll.percentiles
        percentiles = {
            level: max(least, value - 1e9 * waits.get(level, 0.0))
            for level, value in latency.percentiles.items()
        }
        mean = max(least, latency.mean_ns - 1e9 * gaps.mean_wait_s)
        latency = latency.model_copy(update={"mean_ns": mean, "percentiles": percentiles})
    return counts.model_copy(update={"received": back, "latency": latency})


def _fell_behind(trial: TrialOutcome) -> bool:
    """Whether less than the load was offered, by more than its numbers are held to be of it."""
    short = (trial.result.is_short(d, NUMBER_SHORTFALL) for d in trial.result.directions)
    return trial.verdict is Verdict.GENERATOR_LIMITED or any(short)


def _explain_unknown(trials: Sequence[TrialOutcome]) -> list[str]:
    """Why trials judge no DUT: the load was not offered, or the tester stood still."""
    reasons = []
    short = [str(trial.number) for trial in trials if _fell_behind(trial)]
    if short:
        reasons.append(f"not judged: less than the load was offered in trial {', '.join(short)}")
    stalled = [str(trial.number) for trial in trials if trial.verdict is Verdict.TESTER_STALLED]
    if stalled:
        reasons.append(f"not judged: the tester stood still in trial {', '.join(stalled)}")
    return reasons


def _list_figures(_: Result, service: Service) -> Iterator[Figure]:
    """ITU-T Y.1564; frame loss, delay and its variation as Y.1563 defines them."""
    yield figure("committed_rate", "fps", service.cir_fps, service.of)
    yield figure("service_met", "", service.met, service.of, note=service.note)
    for step in service.all_steps:
        yield figure("load", "fps", step.load_fps, step.of)
        yield figure("service_met", "", step.met, step.of, note=step.why)
        for flow in step.flows:
            step_keys: dict[str, Any] = {
                "of": step.of,
                "direction": flow.direction,
                "load_fps": step.load_fps,
            }
            about = f"at {step.of} {flow.direction}"
            yield figure("information_rate", "bit/s", flow.rate_bps, **step_keys)
            main: dict[str, Any] = {"main": True, "less": f"frame loss ratio {about}"}
            less = [f"mean frame transfer delay {about}", f"frame delay variation {about}"]
            if step.met is None:  # not judged there, nor here: it may be the tester's
                yield figure(
                    "", "ratio", None, **step_keys, **main, why=f"not compared: {step.why}"
                )
                main, less = {"main": True}, ["", ""]
            yield figure("frame_loss_ratio", "ratio", flow.loss_ratio, **step_keys, **main)
            yield figure("frame_delay_mean", "ns", flow.delay_mean_ns, **step_keys, less=less[0])
            yield figure("frame_delay_min", "ns", flow.delay_min_ns, **step_keys)
            yield figure("frame_delay_max", "ns", flow.delay_max_ns, **step_keys)
            yield figure(
                "frame_delay_variation", "ns", flow.variation_ns, **step_keys, less=less[1]
            )


def _count_discarded(service: Service, unanswered: int, invalid: Collection[int]) -> int:
    """A step's trial that was repeated is none of the step."""
    return len({*invalid} - {number for step in service.all_steps for number in step.trials})


class ServiceProcedure(FrameTest):
    """Service activation, ITU-T Y.1564."""

    name = "service"
    run = staticmethod(service)
    list_figures = staticmethod(_list_figures)
    count_discarded = staticmethod(_count_discarded)
    section = "service"
    fills = "service"
    takes_shares = True

    @staticmethod
    def estimate(parameters: ServiceTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        steps, lasting_s = len(parameters.steps), parameters.performance_s
        count = max(1, round(lasting_s / parameters.trial_s)) if lasting_s else 0
        return DurationEstimate(steps + count, steps * parameters.step_s + lasting_s)
