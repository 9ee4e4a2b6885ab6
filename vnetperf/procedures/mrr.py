"""Maximum receive rate, as FD.io CSIT measures it: what is forwarded at the largest load.

It is no throughput: frames may be lost. A load that the generator cannot offer in full begins the
test anew below it, so that what is forwarded is held against what was offered.
"""

from __future__ import annotations

from vnetperf.model.outcomes import ForwardingRate
from vnetperf.model.procedures import MrrTest
from vnetperf.procedures.base import Ask, Inputs, Procedure
from vnetperf.procedures.rates import rate_at


def mrr(inputs: Inputs[MrrTest]) -> Procedure[tuple[ForwardingRate, ...]]:
    """Run the test.

    Args:
        inputs: What it is given.

    Returns:
        One rate, of all trials.
    """
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
