"""Forwarding rate at the maximum offered load and maximum forwarding rate, RFC 2889 section 5.6.

Nothing is searched: loads are tried from the largest down, and what is forwarded at each is told,
whatever is lost.
"""

from __future__ import annotations

from vnetperf.model.outcomes import ForwardingRate
from vnetperf.model.procedures import Rfc2889Test
from vnetperf.procedures.base import Ask, Inputs, Procedure, Seen
from vnetperf.procedures.rates import forwarded_fps, rate_at


def forwarding_rate(inputs: Inputs[Rfc2889Test]) -> Procedure[tuple[ForwardingRate, ...]]:
    """Run the test.

    Args:
        inputs: What it is given.

    Returns:
        The rate at the maximum offered load, then the largest rate of all loads.
    """
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
