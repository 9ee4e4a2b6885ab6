"""Frame loss rate, RFC 2544 section 26.3: from the largest load down in steps.

It ends when two successive trials have lost nothing, or at the smallest load of the preset. A DUT
far slower than what can be offered would lose frames at every step of the clause's largest: below
the last of them each load is half of the one before, which is finer than the clause asks.
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
    clean, share = 0, 1.0
    while clean < _CLEAN_TRIALS and (load := share * inputs.ceiling_fps) >= inputs.min_load_fps:
        # What can be offered is found at the first load; below it a shortfall is an accident.
        limited: WhenLimited = "fail" if steps else "lower"
        seen = yield Ask(load_fps=load, duration_s=duration_s, when_limited=limited)
        steps.append(_step(inputs, share, seen))
        clean = clean + 1 if steps[-1].loss_ratio == 0 else 0
        linear = 1.0 - len(steps) * step
        share = linear if linear > step / 2 else share / 2
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
