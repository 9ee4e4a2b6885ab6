"""Soak: a long run at one load, held against a small loss ratio.

It is made of trials that follow one another, each judged by itself, so that a run that breaks in
its last minute has kept the others. The pauses between them are the preset's.
"""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.outcomes import Curve, DelayVariation, Soak
from vnetperf.model.parameters import SoakTest
from vnetperf.model.trial import DirectionCounts, Latency, Verdict
from vnetperf.procedures.base import Ask, Procedure, ProcedureInputs, Seen
from vnetperf.procedures.latency import delay_variation
from vnetperf.statistics import clopper_pearson


def soak(inputs: ProcedureInputs[SoakTest]) -> Procedure[Soak]:
    """Run the test."""
    asked, known = inputs.parameters, inputs.known
    count = max(1, round(asked.duration_s / asked.trial_s))
    ask = Ask(
        load_fps=asked.share * known.load_fps,
        duration_s=asked.duration_s / count,
        # One trial in which the tester stumbled must not cost the hour before it.
        when_limited="count",
        ipdv=True,
    )
    trials = []
    for _ in range(count):
        trials.append((yield ask))
    lost, offered = max(
        (_sums(trials, place) for place in range(len(trials[0].result.directions))),
        key=lambda sums: sums[0] / sums[1] if sums[1] else 0.0,
    )
    low, high = clopper_pearson(max(0, lost), offered)
    return Soak(
        load_fps=ask.load_fps * inputs.in_sum,
        of="throughput" if asked.share == 1 else f"{100 * asked.share:g} % of throughput",
        seconds=asked.duration_s,
        offered=sum(seen.result.offered(d) for seen in trials for d in seen.result.directions),
        lost=sum(seen.result.lost(d) for seen in trials for d in seen.result.directions),
        loss_ratio=lost / offered if offered else 0.0,
        loss_low=low,
        loss_high=high,
        goal=asked.loss_ratio,
        variation=_variation(inputs, trials),
        curve=_curve(trials, ask.duration_s),
        trials=tuple(seen.number for seen in trials),
        note="; ".join(_notes(inputs, trials)),
    )


def _sums(trials: Sequence[Seen], place: int) -> tuple[int, int]:
    """Lost and offered frames of one direction."""
    pairs = [(seen.result, seen.result.directions[place]) for seen in trials]
    return sum(r.lost(d) for r, d in pairs), sum(r.offered(d) for r, d in pairs)


def _variation(
    inputs: ProcedureInputs[SoakTest], trials: Sequence[Seen]
) -> dict[str, DelayVariation]:
    told: dict[str, list[Latency]] = {}
    for seen in trials:
        for counts in seen.result.directions:
            if counts.latency is not None:
                told.setdefault(inputs.direction(counts.direction), []).append(counts.latency)
    return {name: delay_variation(latencies) for name, latencies in told.items()}


def _curve(trials: Sequence[Seen], seconds: float) -> Curve:
    def summed(what: str) -> tuple[int, ...]:
        return tuple(sum(_count(seen, d, what) for d in seen.result.directions) for seen in trials)

    return Curve(
        trial=trials[0].number,
        bin_s=seconds,
        offered=summed("offered"),
        lost=summed("lost"),
        arrived=summed("arrived"),
    )


def _count(seen: Seen, counts: DirectionCounts, what: str) -> int:
    if what == "arrived":
        return counts.received
    return seen.result.offered(counts) if what == "offered" else seen.result.lost(counts)


def _notes(inputs: ProcedureInputs[SoakTest], trials: Sequence[Seen]) -> list[str]:
    notes = [inputs.known.note] if inputs.known.note else []
    short = [str(seen.number) for seen in trials if seen.verdict is not Verdict.VALID]
    if short:
        notes.append(
            f"in trial {', '.join(short)} the generator offered less than asked; loss is of what "
            "it offered"
        )
    return notes
