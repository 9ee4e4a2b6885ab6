"""Latency, RFC 2544 section 26.2: at the throughput and at other loads, repeated.

The clause looks at one tagged frame of each stream; here every frame is timed that is sent after
the moment at which that one would be.
"""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.outcomes import LatencyAt
from vnetperf.model.procedures import LatencyTest
from vnetperf.model.trial import Latency
from vnetperf.procedures.base import Ask, Inputs, Procedure, Seen
from vnetperf.procedures.delays import together, variation_of
from vnetperf.statistics import spread


def latency(inputs: Inputs[LatencyTest]) -> Procedure[tuple[LatencyAt, ...]]:
    """Run the test.

    Args:
        inputs: What it is given, the throughput among it.

    Returns:
        One for each load: shares of the throughput first, then the others, as they were asked for.
    """
    asked, known = inputs.parameters, inputs.known
    loads = [(_share(share), share * known.load_fps, known.note) for share in asked.shares]
    loads += [(f"{load:g} frames/s per interface", load, "") for load in asked.loads_fps]
    found = []
    for of, load_fps, note in loads:
        if load_fps > inputs.ceiling_fps * (1 + 1e-9):
            why = f"not measured: above the largest load, {inputs.ceiling_fps:.0f} frames/s per "
            why += f"interface, limited by {inputs.ceiling_reason}"
            found.append(_at(inputs, of, load_fps, (), why))
            continue
        trials = []
        for _ in range(asked.repeats):
            trials.append(
                (
                    yield Ask(
                        load_fps=load_fps,
                        duration_s=asked.duration_s,
                        tag_at_s=asked.tag_at_s,
                        ipdv=True,
                    )
                )
            )
        found.append(_at(inputs, of, load_fps, trials, note))
    return tuple(found)


def _share(share: float) -> str:
    return "throughput" if share == 1 else f"{100 * share:g} % of throughput"


def _at(
    inputs: Inputs[LatencyTest], of: str, load_fps: float, trials: Sequence[Seen], note: str
) -> LatencyAt:
    told: dict[str, list[Latency]] = {}
    for seen in trials:
        for counts in seen.result.directions:
            if counts.latency is not None:
                told.setdefault(inputs.direction(counts.direction), []).append(counts.latency)
    return LatencyAt(
        load_fps=load_fps * inputs.in_sum,
        of=of,
        tag_at_s=inputs.parameters.tag_at_s,
        repeats=len(trials),
        definition=inputs.definition,
        mean_ns={name: spread([one.mean_ns for one in held]) for name, held in told.items()},
        latency={name: together(held) for name, held in told.items()},
        variation={name: variation_of(held) for name, held in told.items()},
        loss_ratio=max((seen.result.worst_loss_ratio() for seen in trials), default=0.0),
        trials=tuple(seen.number for seen in trials),
        note=note,
    )
