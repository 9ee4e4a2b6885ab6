"""Loss around the throughput: how a DUT goes from none to much.

Loads are tried in turn and the turn is repeated, so that a DUT that changes with time changes all
of them alike.
"""

from __future__ import annotations

from vnetperf.model.outcomes import LossStep
from vnetperf.model.procedures import LossProfileTest
from vnetperf.procedures.base import Ask, Inputs, Procedure, Seen
from vnetperf.procedures.rates import loss_at

#: Loads closer than this (relative) are one load.
_SAME = 1e-9


def loss_profile(inputs: Inputs[LossProfileTest]) -> Procedure[tuple[LossStep, ...]]:
    """Run the test.

    Args:
        inputs: What it is given, the throughput among it.

    Returns:
        A step for each load, from the smallest. Loads beyond the largest that can be offered are
        that one.
    """
    asked, known = inputs.parameters, inputs.known
    loads: list[float] = []
    for share in sorted(asked.shares):
        load = min(inputs.ceiling_fps, max(inputs.min_load_fps, share * known.load_fps))
        if not loads or load > loads[-1] * (1 + _SAME):
            loads.append(load)
    trials: dict[float, list[Seen]] = {load: [] for load in loads}
    for _ in range(asked.repeats):
        for load in loads:
            above = load > known.load_fps * (1 + _SAME)
            ask = Ask(
                load_fps=load,
                duration_s=asked.duration_s,
                # The throughput could be offered; what is above it perhaps not.
                when_limited="lower" if above else "fail",
            )
            trials[load].append((yield ask))
    return tuple(loss_at(inputs, seen) for seen in trials.values())
