"""A goal's result in each direction, and its latency, from the trials at the lower bound."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.goal import SearchGoal
from vnetperf.model.result import DirectionBound
from vnetperf.model.trial import DirectionCounts, Latency
from vnetperf.procedures import direction_name
from vnetperf.results.records import SearchRecord, TrialRecord
from vnetperf.search import Measurement
from vnetperf.search.classify import Criterion, conditional_throughput


def per_direction(
    trials: Sequence[TrialRecord],
    goal: SearchGoal,
    lower: float | None,
    upper: float | None,
    begin: SearchRecord,
) -> tuple[DirectionBound, ...]:
    """A goal's result in each direction, by the rules of the search that found it.

    Args:
        trials: Valid trials at the lower bound, short ones too.
        goal: The goal; only trials as long as its final ones count.
        lower: The lower bound, frames/s per interface.
        upper: The upper bound, frames/s per interface.
        begin: Says where the tester plugs in, and each direction's share of a load.

    Returns:
        One for each direction that sent; none without a lower bound.
    """
    if lower is None:
        return ()
    criterion = Criterion.of_goal(goal)
    bounds = []
    for direction, counted in sorted(_by_direction(trials).items()):
        told = [_measurement(trial, counts) for trial, counts in counted]
        share = begin.load_of(direction)
        conditional = conditional_throughput(lower, told, criterion)
        full = [m.loss_ratio for m in told if criterion.is_full_length(m)]
        bounds.append(
            DirectionBound(
                direction=direction_name(direction, begin.ends),
                lower_bound_fps=lower * share,
                upper_bound_fps=None if upper is None else upper * share,
                conditional_throughput_fps=None if conditional is None else conditional * share,
                loss_ratio_at_lower_bound=max(full, default=None),
            )
        )
    return tuple(bounds)


def _measurement(trial: TrialRecord, counts: DirectionCounts) -> Measurement:
    return Measurement(
        load_fps=trial.spec.load_fps,
        duration_s=trial.spec.duration_s,
        loss_ratio=trial.result.loss_ratio(counts),
        effective_duration_s=trial.spec.duration_s,
    )


def _by_direction(
    trials: Sequence[TrialRecord],
) -> dict[int, list[tuple[TrialRecord, DirectionCounts]]]:
    found: dict[int, list[tuple[TrialRecord, DirectionCounts]]] = {}
    for trial in trials:
        for counts in trial.result.directions:
            found.setdefault(counts.direction, []).append((trial, counts))
    return found


def latency_of(trials: Sequence[TrialRecord], ends: Sequence[str]) -> dict[str, Latency]:
    """Latency at the lower bound: of the last of the longest trials there.

    Args:
        trials: Valid trials at the lower bound.
        ends: Ports of the DUT that the tester's ports plug in at.

    Returns:
        Direction -> latency; empty without trials.
    """
    if not trials:
        return {}
    longest = max(t.spec.duration_s for t in trials)
    full = [t for t in trials if t.spec.duration_s == longest]
    whole = [t for t in full if all(_has_percentiles(c.latency) for c in t.result.directions)]
    last = (whole or full)[-1]
    return {
        direction_name(c.direction, ends): c.latency
        for c in last.result.directions
        if c.latency is not None
    }


def _has_percentiles(latency: Latency | None) -> bool:
    return latency is not None and bool(latency.percentiles)
