"""Soak: a long run at one load, held against a small loss ratio.

It is made of trials that follow one another, each judged by itself, so that a run that breaks in
its last minute has kept the others. The pauses between them are the preset's.

Losses come in events, a stall of the DUT for example: the trial is what the interval counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import ceil, inf
from typing import Any

from vnetperf.model.figures import Figure, count_value, figure
from vnetperf.model.outcomes import Curve, Soak
from vnetperf.model.parameters import SoakTest
from vnetperf.model.result import Result
from vnetperf.model.trial import DirectionCounts, TrialOutcome, TrialRequest, TrialResult, Verdict
from vnetperf.plugin.procedure import DurationEstimate, FrameTest, ProcedureInputs
from vnetperf.procedures.base import (
    bin_width,
    name_share,
    repeat_trial,
    shortfall_note,
)
from vnetperf.procedures.latency import delay_variation, latencies_by_direction
from vnetperf.search import Procedure
from vnetperf.statistics import clopper_pearson, trial_loss_interval
from vnetperf.statistics.samples import most_events_unseen

#: Width of the bins that part loss events from each other, seconds.
EVENT_BIN_S = 0.1


def soak(inputs: ProcedureInputs[SoakTest]) -> Procedure[Soak]:
    """Run the test."""
    test, throughput = inputs.parameters, inputs.required_throughput
    count = max(1, round(test.duration_s / test.trial_s))
    seconds = test.duration_s / count
    request = TrialRequest(
        load_fps=test.share * throughput.load_fps,
        duration_s=seconds,
        bin_s=bin_width(EVENT_BIN_S, seconds) if inputs.timelines else 0.0,
        # One trial in which the tester stumbled must not cost the hour before it.
        when_limited="count",
        loss_limits=(test.loss_ratio,),
        ipdv=True,
    )
    trials = yield from repeat_trial(request, count)
    results = [outcome.result for outcome in trials]
    places = range(len(results[0].directions))
    worst = max(places, key=lambda place: _loss(results, place))
    lost = [max(0, loss) for loss, _ in _by_trial(results, worst)]
    offered = sum(frames for _, frames in _by_trial(results, worst))
    interval = trial_loss_interval(lost)
    low, high = interval or (0.0, None)
    events = _events(results)
    return Soak(
        load_fps=request.load_fps * inputs.in_sum,
        of=name_share(test.share),
        seconds=test.duration_s,
        offered=sum(
            outcome.result.offered(d) for outcome in trials for d in outcome.result.directions
        ),
        lost=sum(r.lost(d) for r in results for d in r.directions),
        loss_ratio=sum(lost) / offered if offered else 0.0,
        loss_low=low / offered if offered else 0.0,
        loss_high=None if high is None or not offered else min(1.0, high / offered),
        goal=test.loss_ratio,
        intended=sum(d.intended for r in results for d in r.directions),
        least_offered=min((_offered_share(results, place) for place in places), default=None),
        lossy_trials=sum(any(r.lost(d) > 0 for d in r.directions) for r in results),
        stalled_trials=_with_verdict(trials, Verdict.TESTER_STALLED),
        largest_event=None if events is None else max((n for n, _ in events), default=0),
        longest_event_s=None if events is None else max((s for _, s in events), default=0.0),
        goal_holds_to=None if interval else int(test.loss_ratio * offered / most_events_unseen()),
        variation={
            name: delay_variation(latencies)
            for name, latencies in latencies_by_direction(inputs, trials).items()
        },
        curve=_curve(trials[0].number, results, request.duration_s),
        trials=tuple(outcome.number for outcome in trials),
        note="; ".join(_notes(inputs, trials)),
    )


def _by_trial(results: Sequence[TrialResult], place: int) -> list[tuple[int, int]]:
    """Lost and offered frames of one direction, of each trial."""
    pairs = [(result, result.directions[place]) for result in results]
    return [(r.lost(d), r.offered(d)) for r, d in pairs]


def _loss(results: Sequence[TrialResult], place: int) -> tuple[float, int]:
    """Loss ratio of a direction; of those without loss the one of fewest frames shows least."""
    lost, offered = (sum(column) for column in zip(*_by_trial(results, place), strict=True))
    return lost / offered if offered else 0.0, -offered


def _offered_share(results: Sequence[TrialResult], place: int) -> float:
    """What was offered in a direction of what was intended there."""
    intended = sum(result.directions[place].intended for result in results)
    offered = sum(frames for _, frames in _by_trial(results, place))
    return offered / intended if intended else 0.0


def _events(results: Sequence[TrialResult]) -> list[tuple[int, float]] | None:
    """Frames and seconds of every loss event of a direction; None where no course is known."""
    if not all(result.timelines for result in results):
        return None
    events = []
    for timeline in chain.from_iterable(result.timelines for result in results):
        frames = bins = 0
        for sent, received in [*zip(timeline.sent, timeline.received, strict=True), (0, 0)]:
            if sent > received:
                frames, bins = frames + sent - received, bins + 1
            elif bins:
                events.append((frames, bins * timeline.bin_s))
                frames = bins = 0
    return events


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
    notes = [inputs.required_throughput.note] if inputs.required_throughput.note else []
    if short := shortfall_note(trials):
        notes.append(f"{short}; loss is of what was offered")
    if stalled := _with_verdict(trials, Verdict.TESTER_STALLED):
        notes.append(
            f"in trial {', '.join(map(str, stalled))} the tester stood still; what was lost there "
            "may be its own"
        )
    return notes


def _with_verdict(trials: Sequence[TrialOutcome], verdict: Verdict) -> tuple[int, ...]:
    return tuple(outcome.number for outcome in trials if outcome.verdict is verdict)


def _list_figures(_: Result, soak: Soak) -> Iterator[Figure]:
    yield figure("load", "fps", soak.load_fps, soak.of)
    yield figure("duration", "s", soak.seconds, soak.of)
    yield figure("offered", "frames", float(soak.offered), soak.of)
    yield figure("lost", "frames", float(soak.lost), soak.of)
    # Without an event nothing shows how many frames one takes: there is no upper end.
    high = inf if soak.loss_high is None else soak.loss_high
    about: dict[str, Any] = {"bounds": (soak.loss_low, high), "note": soak.note}
    compared: dict[str, Any] = {
        "less": f"loss at {soak.of}",
        "main": True,
        "load_fps": soak.load_fps,
    }
    if soak.not_judged:  # here neither: it may be the tester's
        yield figure("", "ratio", None, soak.of, why=f"not compared: {soak.not_judged}", **compared)
        about["main"] = True
    else:
        about |= compared
    yield figure("loss_ratio", "ratio", soak.loss_ratio, soak.of, **about)
    yield figure("loss_ratio_low", "ratio", soak.loss_low, soak.of)
    yield figure("loss_ratio_high", "ratio", soak.loss_high, soak.of)
    yield figure("loss_ratio_goal", "ratio", soak.goal, soak.of)
    if soak.lossy_trials is not None and soak.trials:
        count = len(soak.trials)
        yield figure(
            "lossy_trials",
            "ratio",
            soak.lossy_trials / count,
            soak.of,
            less="" if soak.not_judged else f"trials with loss at {soak.of}",
            bounds=clopper_pearson(soak.lossy_trials, count),
            conditions={"trial, s": soak.seconds / count},
        )
    yield figure("largest_loss_event", "frames", count_value(soak.largest_event), soak.of)
    yield figure("longest_loss_event", "s", soak.longest_event_s, soak.of)
    for direction, varied in soak.variation.items():
        yield figure("pdv", "ns", varied.pdv_ns, soak.of, direction, note=varied.why)


def _list_curves(soak: Soak) -> Iterator[tuple[str, Curve]]:
    if soak.curve is not None:
        yield "soak", soak.curve


class SoakProcedure(FrameTest):
    """Loss over a long time at one load."""

    name = "soak"
    run = staticmethod(soak)
    list_figures = staticmethod(_list_figures)
    list_curves = staticmethod(_list_curves)
    section = "soak"
    fills = "soak"
    takes_shares = True

    @staticmethod
    def estimate(parameters: SoakTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        trials = ceil(parameters.duration_s / parameters.trial_s)
        return DurationEstimate(trials, parameters.duration_s)
