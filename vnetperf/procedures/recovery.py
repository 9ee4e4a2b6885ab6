"""System recovery, RFC 2544 section 26.5: how long frames are lost after an overload has ended.

Only a trial that ends its overload overloaded, and ends itself without loss, has a time. One that
was not overloaded had nothing to recover from; one that did not recover has a lower limit only,
and with it the average of the others would be that of the shortest times. Where the tester stood
still, the last loss may be its own: such a trial is left out whatever its time, since a choice by
the loss after the drop would keep the short times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from vnetperf.model import units
from vnetperf.model.outcomes import Recovery
from vnetperf.model.parameters import RecoveryTest
from vnetperf.model.trial import LoadStep, Timeline, TrialOutcome, TrialRequest, Verdict
from vnetperf.procedures.base import (
    ProcedureInputs,
    bin_width,
    curve_of,
    repeat_trial,
    shortfall_note,
    stood_still,
)
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: Loss after so long without any is no part of a recovery, seconds.
QUIET_S = 1.0


#: The end of the overload, in which it must show: bins, or a share of it where that is longer.
LAST_BINS = 10
LAST_SHARE = 0.05
#: Share of these bins that lose frames in an overloaded direction, at least.
LOSSY_SHARE = 0.5


@dataclass(frozen=True)
class _TrialFinding:
    """What one trial shows."""

    number: int
    seconds: float  # From the drop of the load to the last lost frame
    overloaded: bool  # A direction was overloaded when the load dropped
    disturbed: bool  # The tester stood still in the trial
    recovered: bool  # No frames were lost at the end
    quiet_s: float  # Longest time without loss between the drop and the last lost frame

    @property
    def measured(self) -> bool:
        return self.overloaded and self.recovered and not self.disturbed

    @property
    def censored(self) -> bool:
        return self.overloaded and not self.recovered and not self.disturbed


def recovery(inputs: ProcedureInputs[RecoveryTest]) -> Procedure[Recovery]:
    """Run the test."""
    test, known = inputs.parameters, inputs.known
    over = min(test.overload * known.load_fps, inputs.ceiling_fps)
    steps = (
        LoadStep(load_fps=over, duration_s=test.overload_s),
        LoadStep(load_fps=test.relaxed * over, duration_s=test.relaxed_s),
    )
    total_s = test.overload_s + test.relaxed_s
    request = TrialRequest(
        load_fps=over,
        duration_s=total_s,
        steps=steps,
        bin_s=bin_width(test.bin_s, total_s),
        histogram_up_to_loss=-1.0,
        when_limited="count",
    )
    outcomes = yield from repeat_trial(request, test.repeats)
    found = [_judge(inputs, one) for one in outcomes]
    times = [one.seconds for one in found if one.measured]
    censored = tuple(one.number for one in found if one.censored)
    marks = [{"load drops": test.overload_s} for _ in found]
    for mark, one in zip(marks, found, strict=True):
        if one.overloaded and one.seconds > 0:
            mark["last lost frame"] = test.overload_s + one.seconds
    curves = (curve_of(one, mark) for one, mark in zip(outcomes, marks, strict=True))
    return Recovery(
        throughput_fps=known.load_fps * inputs.in_sum,
        overload_fps=over * inputs.in_sum,
        relaxed_fps=test.relaxed * over * inputs.in_sum,
        overload_s=test.overload_s,
        seconds=spread(times) if times and not censored else None,
        at_least_s=fmean([*times, *[test.relaxed_s] * len(censored)]) if censored else None,
        why=_why(test, found, censored),
        not_overloaded=tuple(one.number for one in found if not one.overloaded),
        disturbed=tuple(one.number for one in found if one.overloaded and one.disturbed),
        censored=censored,
        note="; ".join(_notes(inputs, over, outcomes, found)),
        curves=tuple(curve for curve in curves if curve is not None),
    )


def _judge(inputs: ProcedureInputs[RecoveryTest], outcome: TrialOutcome) -> _TrialFinding:
    test, timelines = inputs.parameters, outcome.result.timelines
    drop = test.overload_s
    last = max((t.last_lost_s or 0.0 for t in timelines), default=0.0)
    total = drop + test.relaxed_s
    width = timelines[0].bin_s if timelines else test.bin_s
    return _TrialFinding(
        number=outcome.number,
        seconds=max(0.0, last - drop),
        overloaded=any(_is_overloaded(t, drop, inputs.known.loss_ratio) for t in timelines),
        disturbed=stood_still(outcome),
        recovered=last < total - width,
        quiet_s=_quiet(outcome, drop, last),
    )


def _is_overloaded(timeline: Timeline, drop: float, tolerated: float) -> bool:
    """Whether a direction loses frames, more than the throughput may, bin after bin until the drop.

    The bin that holds the drop is left out, unless the drop is its end.
    """
    width = timeline.bin_s
    end = int(drop / width + 1e-9)
    first = max(0, end - max(LAST_BINS, round(LAST_SHARE * end)))
    offered, received = timeline.sent[first:end], timeline.received[first:end]
    used = [(o, o - r) for o, r in zip(offered, received, strict=True) if o]
    lossy = sum(lost > tolerated * o for o, lost in used)
    every, lost = sum(o for o, _ in used), sum(lost for _, lost in used)
    return lossy > 0 and lossy >= LOSSY_SHARE * len(used) and lost > tolerated * every


def _quiet(outcome: TrialOutcome, drop: float, last: float) -> float:
    """Longest time without a lost frame between two moments."""
    longest = 0.0
    width = outcome.request.bin_s
    curve = curve_of(outcome, {})
    if curve is None or last <= drop:
        return 0.0
    first, end = int(drop / curve.bin_s), int(last / curve.bin_s)
    clean = 0
    for lost in curve.lost[first:end]:
        clean = 0 if lost else clean + 1
        longest = max(longest, clean * max(width, curve.bin_s))
    return longest


def _why(test: RecoveryTest, found: Sequence[_TrialFinding], censored: Sequence[int]) -> str:
    """Why there is no number; "" when there is one."""
    if censored:
        others = [units.time_s(one.seconds) for one in found if one.measured]
        rest = f"; the others took {', '.join(others)}" if others else ""
        return (
            f"not measured: at least {test.relaxed_s:g} s, frames were still lost when "
            f"{_trials(censored)} ended{rest}; raise relaxed_s"
        )
    if not any(one.overloaded for one in found):
        return (
            "not measured: the DUT was not overloaded when the load dropped, so that there was "
            "nothing to recover from"
        )
    if not any(one.measured for one in found):
        disturbed = [one.number for one in found if one.overloaded]
        return (
            f"not measured: the tester stood still in {_trials(disturbed)}, so that the last loss "
            "may be its own"
        )
    return ""


def _notes(
    inputs: ProcedureInputs[RecoveryTest],
    over: float,
    outcomes: Sequence[TrialOutcome],
    found: Sequence[_TrialFinding],
) -> list[str]:
    test, known = inputs.parameters, inputs.known
    notes = [known.note] if known.note else []
    wanted = test.overload * known.load_fps
    if over < wanted:
        notes.append(
            f"the overload is {over / known.load_fps:.0%} of the throughput, not "
            f"{test.overload:.0%}: limited by {inputs.ceiling_reason}"
        )
    idle = [one.number for one in found if not one.overloaded]
    if idle and len(idle) < len(found):
        notes.append(
            f"{_trials(idle)} not counted: no overload in the last bins before the load dropped"
        )
    disturbed = [one.number for one in found if one.overloaded and one.disturbed]
    if disturbed and len(disturbed) < len(found):
        notes.append(
            f"{_trials(disturbed)} not counted: the tester stood still, and the last loss may be "
            "its own"
        )
    if again := [one.number for one in found if one.measured and one.quiet_s >= QUIET_S]:
        notes.append(
            f"{_trials(again)} lost frames again after {QUIET_S:g} s or more without loss, which "
            "may have another cause than the overload"
        )
    if short := shortfall_note(outcomes):
        notes.append(short)
    stalled = [s.number for s in outcomes if s.verdict is Verdict.TESTER_STALLED]
    if stalled := [number for number in stalled if number not in disturbed]:
        notes.append(f"the tester stood still in {_trials(stalled)}")
    return notes


def _trials(numbers: Sequence[int]) -> str:
    return f"trial{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
