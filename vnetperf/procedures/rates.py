"""What trials at loads that are not searched amount to: rates and losses."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any

from vnetperf.model.outcomes import ForwardingRate, LossStep
from vnetperf.procedures.base import Inputs, Seen
from vnetperf.statistics import spread


def forwarded_fps(seen: Seen) -> float:
    """Forwarding rate of a trial.

    Args:
        seen: The trial.

    Returns:
        Aggregate frames/s over the intended seconds of sending.
    """
    return sum(d.received for d in seen.result.directions) / seen.spec.duration_s


def rate_at(inputs: Inputs[Any], of: str, trials: Sequence[Seen]) -> ForwardingRate:
    """Rates of trials at one load.

    Args:
        inputs: What the test was given.
        of: What the load is.
        trials: One or more.

    Returns:
        The rate, with what the trials differ by.
    """
    first = trials[0].spec
    return ForwardingRate(
        load_fps=first.load_fps * inputs.in_sum,
        of=of,
        duration_s=first.duration_s,
        forwarded_fps=spread([forwarded_fps(seen) for seen in trials]),
        loss_ratio=spread([seen.result.worst_loss_ratio() for seen in trials]),
        trials=tuple(seen.number for seen in trials),
    )


def loss_at(inputs: Inputs[Any], trials: Sequence[Seen]) -> LossStep:
    """Loss of trials at one load.

    Args:
        inputs: What the test was given.
        trials: One or more.

    Returns:
        Means of the trials, for the worse direction and for each.
    """
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
