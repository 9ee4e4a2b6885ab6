"""Tests at loads that are chosen, not searched.

Frame loss rate (RFC 2544 section 26.3), loss profile, MRR, forwarding rate (RFC 2889 section
5.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any

from vnetperf.model.outcomes import ForwardingRate, LossStep
from vnetperf.model.parameters import FrameLossTest, LossProfileTest, MrrTest, Rfc2889Test
from vnetperf.procedures.base import Ask, Procedure, ProcedureInputs, Seen, WhenLimited
from vnetperf.statistics import spread


def forwarded_fps(seen: Seen) -> float:
    """Forwarding rate of a trial."""
    return sum(d.received for d in seen.result.directions) / seen.spec.duration_s


def rate_at(inputs: ProcedureInputs[Any], of: str, trials: Sequence[Seen]) -> ForwardingRate:
    """Rates of trials at one load."""
    first = trials[0].spec
    return ForwardingRate(
        load_fps=first.load_fps * inputs.in_sum,
        of=of,
        duration_s=first.duration_s,
        forwarded_fps=spread([forwarded_fps(seen) for seen in trials]),
        loss_ratio=spread([seen.result.worst_loss_ratio() for seen in trials]),
        trials=tuple(seen.number for seen in trials),
    )


def loss_at(inputs: ProcedureInputs[Any], trials: Sequence[Seen]) -> LossStep:
    """Loss of trials at one load."""
    told: dict[str, list[float]] = {}
    for seen in trials:
        for counts in seen.result.directions:
            ratio = seen.result.loss_ratio(counts)
            told.setdefault(inputs.direction(counts.direction), []).append(ratio)
    load = trials[0].spec.load_fps
    return LossStep(
        load_fps=load * inputs.in_sum,
        input_ratio=load / inputs.ceiling_fps,
        loss_ratio=_mean([seen.result.worst_loss_ratio() for seen in trials]),
        forwarded_fps=_mean([forwarded_fps(seen) for seen in trials]),
        per_direction={name: _mean(ratios) for name, ratios in told.items()},
        trials=tuple(seen.number for seen in trials),
    )


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


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
        seen = yield Ask(load_fps=load, duration_s=duration_s, when_limited=limited)
        steps.append(_loss_step(inputs, share, seen))
        clean = clean + 1 if steps[-1].loss_ratio == 0 else 0
        linear = 1.0 - len(steps) * step
        share = linear if linear > step / 2 else share / 2
    return tuple(steps)


def _loss_step(inputs: ProcedureInputs[FrameLossTest], share: float, seen: Seen) -> LossStep:
    result = seen.result
    return LossStep(
        load_fps=seen.spec.load_fps * inputs.in_sum,
        input_ratio=share,
        loss_ratio=result.worst_loss_ratio(),
        forwarded_fps=sum(d.received for d in result.directions) / seen.spec.duration_s,
        per_direction={
            inputs.direction(d.direction): result.loss_ratio(d) for d in result.directions
        },
        trials=(seen.number,),
    )


#: Loads closer than this (relative) are one load.
_SAME_LOAD = 1e-9


def loss_profile(inputs: ProcedureInputs[LossProfileTest]) -> Procedure[tuple[LossStep, ...]]:
    """Run the test."""
    asked, known = inputs.parameters, inputs.known
    loads: list[float] = []
    for share in sorted(asked.shares):
        load = min(inputs.ceiling_fps, max(inputs.min_load_fps, share * known.load_fps))
        if not loads or load > loads[-1] * (1 + _SAME_LOAD):
            loads.append(load)
    trials: dict[float, list[Seen]] = {load: [] for load in loads}
    for _ in range(asked.repeats):
        for load in loads:
            above = load > known.load_fps * (1 + _SAME_LOAD)
            ask = Ask(
                load_fps=load,
                duration_s=asked.duration_s,
                # The throughput could be offered; what is above it perhaps not.
                when_limited="lower" if above else "fail",
            )
            trials[load].append((yield ask))
    return tuple(loss_at(inputs, seen) for seen in trials.values())


def mrr(inputs: ProcedureInputs[MrrTest]) -> Procedure[tuple[ForwardingRate, ...]]:
    """Run the test."""
    seconds = inputs.parameters.duration_s
    trials = []
    for _ in range(inputs.parameters.repeats):
        ask = Ask(
            load_fps=inputs.ceiling_fps,
            duration_s=seconds,
            histogram_up_to_loss=-1.0,
            when_limited="lower",
        )
        trials.append((yield ask))
    return (rate_at(inputs, "maximum offered load", trials),)


def forwarding_rate(inputs: ProcedureInputs[Rfc2889Test]) -> Procedure[tuple[ForwardingRate, ...]]:
    """Run the test."""
    asked = inputs.parameters
    trials: list[Seen] = []
    for share in sorted({1.0, *asked.shares}, reverse=True):
        load = share * inputs.ceiling_fps
        if load < inputs.min_load_fps:
            break
        ask = Ask(
            load_fps=load,
            duration_s=asked.duration_s,
            histogram_up_to_loss=-1.0,
            when_limited="lower" if not trials else "fail",
        )
        trials.append((yield ask))
    best = max(trials, key=forwarded_fps)
    return (
        rate_at(inputs, "maximum offered load", trials[:1]),
        rate_at(inputs, "load with the largest forwarding rate", [best]),
    )
