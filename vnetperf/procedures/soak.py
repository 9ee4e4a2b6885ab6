"""Soak: a long run at one load, held against a small loss ratio.

It is made of trials that follow one another, each judged by itself, so that a run that breaks in
its last minute has kept the others. The pauses between them are the preset's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vnetperf.model.outcomes import Curve, Soak
from vnetperf.model.parameters import SoakTest
from vnetperf.model.trial import DirectionCounts, TrialOutcome, TrialRequest, TrialResult, Verdict
from vnetperf.procedures.base import ProcedureInputs, repeat_trial
from vnetperf.procedures.latency import delay_variation, latencies_by_direction
from vnetperf.search import Procedure
from vnetperf.statistics import clopper_pearson


def soak(inputs: ProcedureInputs[SoakTest]) -> Procedure[Soak]:
    """Run the test."""
    test, known = inputs.parameters, inputs.known
    count = max(1, round(test.duration_s / test.trial_s))
    request = TrialRequest(
        load_fps=test.share * known.load_fps,
        duration_s=test.duration_s / count,
        # One trial in which the tester stumbled must not cost the hour before it.
        when_limited="count",
        ipdv=True,
    )
    trials = yield from repeat_trial(request, count)
    results = [outcome.result for outcome in trials]
    lost, offered = max(
        (_sums(results, place) for place in range(len(results[0].directions))),
        key=lambda sums: sums[0] / sums[1] if sums[1] else 0.0,
    )
    low, high = clopper_pearson(max(0, lost), offered)
    return Soak(
        load_fps=request.load_fps * inputs.in_sum,
        of="throughput" if test.share == 1 else f"{100 * test.share:g} % of throughput",
        seconds=test.duration_s,
        offered=sum(
            outcome.result.offered(d) for outcome in trials for d in outcome.result.directions
        ),
        lost=sum(r.lost(d) for r in results for d in r.directions),
        loss_ratio=lost / offered if offered else 0.0,
        loss_low=low,
        loss_high=high,
        goal=test.loss_ratio,
        variation={
            name: delay_variation(latencies)
            for name, latencies in latencies_by_direction(inputs, trials).items()
        },
        curve=_curve(trials[0].number, results, request.duration_s),
        trials=tuple(outcome.number for outcome in trials),
        note="; ".join(_notes(inputs, trials)),
    )


def _sums(results: Sequence[TrialResult], place: int) -> tuple[int, int]:
    """Lost and offered frames of one direction."""
    pairs = [(result, result.directions[place]) for result in results]
    return sum(r.lost(d) for r, d in pairs), sum(r.offered(d) for r, d in pairs)


def _curve(first: int, results: Sequence[TrialResult], seconds: float) -> Curve:
    def summed(count: Callable[[TrialResult, DirectionCounts], int]) -> tuple[int, ...]:
        return tuple(sum(count(result, d) for d in result.directions) for result in results)

    return Curve(
        trial=first,
        bin_s=seconds,
        offered=summed(TrialResult.offered),
        lost=summed(TrialResult.lost),
        arrived=summed(lambda _, direction: direction.received),
    )


def _notes(inputs: ProcedureInputs[SoakTest], trials: Sequence[TrialOutcome]) -> list[str]:
    notes = [inputs.known.note] if inputs.known.note else []
    short = [str(outcome.number) for outcome in trials if outcome.verdict is not Verdict.VALID]
    if short:
        notes.append(
            f"in trial {', '.join(short)} the generator offered less than asked; loss is of what "
            "it offered"
        )
    return notes
