"""Frame loss rate, RFC 2544 section 26.3: from the largest load down in steps.

It ends when two successive trials have lost nothing, or when the next step would be no load.
"""

from __future__ import annotations

from vnetperf.model.outcomes import LossStep
from vnetperf.model.procedures import FrameLossTest
from vnetperf.procedures.base import Ask, Inputs, Procedure, Seen, WhenLimited

#: Successive trials without loss that end the test.
_CLEAN_TRIALS = 2


def frame_loss(inputs: Inputs[FrameLossTest]) -> Procedure[tuple[LossStep, ...]]:
    """Run the test.

    Args:
        inputs: What it is given.

    Returns:
        A step for each load, in the order tried.
    """
    step, duration_s = inputs.parameters.step, inputs.parameters.duration_s
    steps: list[LossStep] = []
    clean = number = 0
    while clean < _CLEAN_TRIALS:
        share = 1.0 - number * step
        load = share * inputs.ceiling_fps
        if share <= step / 2 or load < inputs.min_load_fps:
            break
        # What can be offered is found at the first load; below it a shortfall is an accident.
        limited: WhenLimited = "lower" if number == 0 else "fail"
        seen = yield Ask(load_fps=load, duration_s=duration_s, when_limited=limited)
        steps.append(_step(inputs, share, seen))
        clean = clean + 1 if steps[-1].loss_ratio == 0 else 0
        number += 1
    return tuple(steps)


def _step(inputs: Inputs[FrameLossTest], share: float, seen: Seen) -> LossStep:
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
