"""System recovery, RFC 2544 section 26.5: how long an overload is felt after it has ended.

The clause ends with the last lost frame, which on most machines is one of another cause: that time
grows with the length of the trial. Here the DUT has recovered when no more frames are lost than
usual at the load that it has then (`usual_loss`), which is measured before the overload. Both
times are given.

Only a trial that ends its overload overloaded, and has recovered when it ends, has a time. One that
was not overloaded had nothing to recover from; one that did not recover has a lower limit only,
and with it the average of the others would be that of the shortest times. Where the tester stood
still, the loss may be its own: such a trial is left out whatever its time, since a choice by
the loss after the drop would keep the short times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Any

from vnetperf.model import units
from vnetperf.model.figures import Figure, figure
from vnetperf.model.outcomes import Curve, Recovery
from vnetperf.model.parameters import RecoveryTest
from vnetperf.model.result import Result
from vnetperf.model.trial import LoadStep, Timeline, TrialOutcome, TrialRequest, Verdict
from vnetperf.plugin.procedure import DurationEstimate, FrameTest, ProcedureInputs, equal_trials
from vnetperf.procedures.base import (
    bin_width,
    build_curve,
    repeat_trial,
    shortfall_note,
    stood_still,
)
from vnetperf.procedures.usual_loss import QUIET_S, UsualLoss
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: The end of the overload, in which it must show: bins, or a share of it where that is longer.
LAST_BINS = 10
LAST_SHARE = 0.05
#: Share of these bins that lose frames in an overloaded direction, at least.
LOSSY_SHARE = 0.5


@dataclass(frozen=True)
class _TrialFinding:
    """What one trial shows."""

    number: int
    seconds: float  # From the drop of the load until no more is lost than usual
    last_lost_s: float  # From the drop to the last lost frame; 0 where none was lost after it
    lost_at_end: bool  # A frame of the last bin was lost, whatever the reason
    usual: float  # Largest loss ratio of `QUIET_S` before the overload
    overloaded: bool  # A direction was overloaded when the load dropped
    disturbed: bool  # The tester stood still in the trial
    recovered: bool

    @property
    def measured(self) -> bool:
        return self.overloaded and self.recovered and not self.disturbed

    @property
    def censored(self) -> bool:
        return self.overloaded and not self.recovered and not self.disturbed


def recovery(inputs: ProcedureInputs[RecoveryTest]) -> Procedure[Recovery]:
    """Run the test."""
    test, throughput = inputs.parameters, inputs.required_throughput
    over = min(_overload_fps(inputs), inputs.ceiling_fps)
    before_s = _before_s(inputs)
    relaxed = LoadStep(load_fps=test.relaxed * over, duration_s=test.relaxed_s)
    steps = (LoadStep(load_fps=over, duration_s=test.overload_s), relaxed)
    total_s = before_s + test.overload_s + test.relaxed_s
    request = TrialRequest(
        load_fps=over,
        duration_s=total_s,
        steps=(relaxed, *steps) if before_s else steps,
        bin_s=bin_width(test.bin_s, total_s),
        histogram_up_to_loss=-1.0,
        when_limited="count",
    )
    outcomes = yield from repeat_trial(request, test.repeats)
    findings = [_judge(inputs, finding) for finding in outcomes]
    measured = [finding for finding in findings if finding.measured]
    censored = tuple(finding.number for finding in findings if finding.censored)
    times = [finding.seconds for finding in measured]
    lost_at_end = tuple(finding.number for finding in measured if finding.lost_at_end)
    has_number = bool(times) and not censored
    drop = before_s + test.overload_s
    curves = (
        build_curve(outcome, _marks(drop, finding))
        for outcome, finding in zip(outcomes, findings, strict=True)
    )
    return Recovery(
        throughput_fps=throughput.load_fps * inputs.in_sum,
        overload_fps=over * inputs.in_sum,
        relaxed_fps=test.relaxed * over * inputs.in_sum,
        overload_s=test.overload_s,
        seconds=spread(times) if has_number else None,
        last_lost_s=spread([finding.last_lost_s for finding in measured])
        if has_number and not lost_at_end
        else None,
        lost_at_end=lost_at_end if has_number else (),
        usual_loss=max((finding.usual for finding in findings if finding.overloaded), default=None)
        if before_s
        else None,
        at_least_s=fmean([*times, *[test.relaxed_s] * len(censored)]) if censored else None,
        why=_explain_no_time(test, findings, censored),
        not_overloaded=tuple(finding.number for finding in findings if not finding.overloaded),
        disturbed=tuple(
            finding.number for finding in findings if finding.overloaded and finding.disturbed
        ),
        censored=censored,
        note="; ".join(_notes(inputs, over, outcomes, findings)),
        curves=tuple(curve for curve in curves if curve is not None),
    )


def _before_s(inputs: ProcedureInputs[RecoveryTest]) -> float:
    """Seconds at the relaxed load before the overload; 0 in an older log."""
    return inputs.parameters.relaxed_s if inputs.rules > 1 else 0.0


def _marks(drop: float, finding: _TrialFinding) -> dict[str, float]:
    marks = {"load drops": drop}
    if finding.overloaded and finding.recovered and finding.seconds > 0:
        marks["recovered"] = drop + finding.seconds
    if finding.overloaded and finding.last_lost_s > finding.seconds:
        marks["last lost frame"] = drop + finding.last_lost_s
    return marks


def _judge(inputs: ProcedureInputs[RecoveryTest], outcome: TrialOutcome) -> _TrialFinding:
    test, timelines = inputs.parameters, outcome.result.timelines
    begin_s = _before_s(inputs)
    drop = begin_s + test.overload_s
    total = drop + test.relaxed_s
    last = max((t.last_lost_s or 0.0 for t in timelines), default=0.0)
    width = timelines[0].bin_s if timelines else test.bin_s
    usual = [
        UsualLoss.before(t, int(begin_s / t.bin_s + 1e-9)) if begin_s else UsualLoss.none(t)
        for t in timelines
    ]
    pairs = list(zip(timelines, usual, strict=True))
    ends = [_end_s(timeline, usual_loss, drop, total) for timeline, usual_loss in pairs]
    recovered_ends = [end for end in ends if end is not None]
    return _TrialFinding(
        number=outcome.number,
        seconds=max((end - drop for end in recovered_ends), default=0.0),
        last_lost_s=max(0.0, last - drop),
        lost_at_end=last >= total - width,
        usual=max((usual_loss.most for usual_loss in usual), default=0.0),
        overloaded=any(
            _is_overloaded(
                timeline,
                begin_s,
                drop,
                max(inputs.required_throughput.loss_ratio, usual_loss.of_bin),
            )
            for timeline, usual_loss in pairs
        ),
        disturbed=stood_still(outcome),
        recovered=len(recovered_ends) == len(ends),
    )


def _overload_fps(inputs: ProcedureInputs[RecoveryTest]) -> float:
    """The overload, frames/s per interface: above what any round found to be too much.

    110 % of a throughput that varies may be carried, and then nothing has to recover.
    """
    throughput = inputs.required_throughput
    return inputs.parameters.overload * max(throughput.load_fps, throughput.upper_fps or 0.0)


def _end_s(timeline: Timeline, usual: UsualLoss, drop: float, total: float) -> float | None:
    """When a direction has recovered, seconds after the first frame; None: not in the trial.

    A bin is all that is known of it, unless nothing was lost later: then it is the last lost frame.
    """
    width = timeline.bin_s
    bins = min(len(timeline.sent), ceil(total / width - 1e-9))
    place = usual.back(timeline, range(ceil(drop / width - 1e-9), bins - usual.window + 1))
    if place is None:
        return None
    return max(drop, min(place * width, timeline.last_lost_s or 0.0))


def _is_overloaded(timeline: Timeline, begin: float, drop: float, tolerated: float) -> bool:
    """Whether a direction loses frames, more than `tolerated`, bin after bin until the drop.

    The bin that holds the drop is left out, unless the drop is its end.
    """
    width = timeline.bin_s
    first, end = ceil(begin / width - 1e-9), int(drop / width + 1e-9)
    first = max(first, end - max(LAST_BINS, round(LAST_SHARE * (end - first))))
    offered, received = timeline.sent[first:end], timeline.received[first:end]
    used = [(o, o - r) for o, r in zip(offered, received, strict=True) if o]
    lossy = sum(lost > tolerated * o for o, lost in used)
    total, lost = sum(o for o, _ in used), sum(lost for _, lost in used)
    return lossy > 0 and lossy >= LOSSY_SHARE * len(used) and lost > tolerated * total


def _explain_no_time(
    test: RecoveryTest, findings: Sequence[_TrialFinding], censored: Sequence[int]
) -> str:
    """Why there is no number; "" when there is one."""
    if censored:
        others = [units.time_s(finding.seconds) for finding in findings if finding.measured]
        rest = f"; the others took {', '.join(others)}" if others else ""
        return (
            f"not measured: at least {test.relaxed_s:g} s, frames were still lost when "
            f"{_trials(censored)} ended{rest}; raise relaxed_s"
        )
    if not any(finding.overloaded for finding in findings):
        return (
            "not measured: the DUT was not overloaded when the load dropped, so that there was "
            "nothing to recover from"
        )
    if not any(finding.measured for finding in findings):
        disturbed = [finding.number for finding in findings if finding.overloaded]
        return (
            f"not measured: the tester stood still in {_trials(disturbed)}, so that loss may be "
            "its own"
        )
    return ""


def _notes(
    inputs: ProcedureInputs[RecoveryTest],
    over: float,
    outcomes: Sequence[TrialOutcome],
    findings: Sequence[_TrialFinding],
) -> list[str]:
    test, throughput = inputs.parameters, inputs.required_throughput
    notes = [throughput.note] if throughput.note else []
    if over < _overload_fps(inputs):
        is_range = (throughput.upper_fps or 0.0) > throughput.load_fps
        reference = "the largest load that its search found" if is_range else "the throughput"
        notes.append(
            f"the overload is {over / (_overload_fps(inputs) / test.overload):.0%} of {reference}, "
            f"not {test.overload:.0%}: limited by {inputs.ceiling_reason}"
        )
    idle = [finding.number for finding in findings if not finding.overloaded]
    if idle and len(idle) < len(findings):
        notes.append(
            f"{_trials(idle)} not counted: no overload in the last bins before the load dropped"
        )
    disturbed = [finding.number for finding in findings if finding.overloaded and finding.disturbed]
    if disturbed and len(disturbed) < len(findings):
        notes.append(
            f"{_trials(disturbed)} not counted: the tester stood still, and loss may be its own"
        )
    notes += _describe_loss(inputs, [finding for finding in findings if finding.measured])
    if short := shortfall_note(outcomes):
        notes.append(short)
    stalled = [s.number for s in outcomes if s.verdict is Verdict.TESTER_STALLED]
    if stalled := [number for number in stalled if number not in disturbed]:
        notes.append(f"the tester stood still in {_trials(stalled)}")
    return notes


def _describe_loss(
    inputs: ProcedureInputs[RecoveryTest], measured: Sequence[_TrialFinding]
) -> list[str]:
    """What is lost at the relaxed load for another reason than the overload."""
    notes = []
    if measured and not _before_s(inputs):
        notes.append(
            "the loss that is usual at the relaxed load was not measured: any loss counts, until "
            f"there is none for {QUIET_S:g} s"
        )
    if usual := max((finding.usual for finding in measured), default=0.0):
        notes.append(
            f"before the overload up to {units.percent(usual, 2)} of the frames in {QUIET_S:g} s "
            "were lost at the relaxed load: recovered is when no more are lost than that"
        )
    if at_end := [finding.number for finding in measured if finding.lost_at_end]:
        notes.append(
            "there is no time to the last lost frame (RFC 2544 section 26.5): frames were lost "
            f"when {_trials(at_end)} ended"
        )
    return notes


def _trials(numbers: Sequence[int]) -> str:
    return f"trial{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _list_figures(_: Result, recovery: Recovery) -> Iterator[Figure]:
    note = recovery.why or recovery.note
    about: dict[str, Any] = {"note": note, "load_fps": recovery.overload_fps}
    compared: dict[str, Any] = {"less": "recovery", "main": True, **about}
    if recovery.at_least_s is None:
        about |= {**compared, "qualifiers": (note,) if note else ()}
    else:  # no number, but it is long: the mean of other deployments alone would be too short
        yield figure("", "s", recovery.at_least_s, qualifiers=("at least",), **compared)
    yield figure("recovery_time", "s", recovery.seconds, why=recovery.why, **about)
    yield figure("time_to_last_lost_frame", "s", recovery.last_lost_s, why=recovery.why)
    yield figure("usual_loss_ratio", "ratio", recovery.usual_loss)
    for name, trials in (
        ("trials_not_overloaded", recovery.not_overloaded),
        ("trials_disturbed", recovery.disturbed),
        ("trials_not_recovered", recovery.censored),
        ("trials_with_loss_at_end", recovery.lost_at_end),
    ):
        yield figure(name, "", float(len(trials)))
    yield figure("throughput_used", "fps", recovery.throughput_fps)
    yield figure("overload", "fps", recovery.overload_fps)
    yield figure("load_after", "fps", recovery.relaxed_fps)
    yield figure("overload_duration", "s", recovery.overload_s)


def _list_curves(recovery: Recovery) -> Iterator[tuple[str, Curve]]:
    return (("recovery", curve) for curve in recovery.curves)


class RecoveryProcedure(FrameTest):
    """System recovery, RFC 2544 section 26.5."""

    name = "recovery"
    run = staticmethod(recovery)
    list_figures = staticmethod(_list_figures)
    list_curves = staticmethod(_list_curves)
    section = "recovery"
    fills = "recovery"
    takes_shares = True
    needs_carried = True

    @staticmethod
    def estimate(parameters: RecoveryTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        seconds = parameters.overload_s + 2 * parameters.relaxed_s
        return equal_trials(parameters.repeats, seconds)
