"""System recovery, RFC 2544 section 26.5: how long frames are lost after an overload has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetperf.model.outcomes import Recovery
from vnetperf.model.parameters import RecoveryTest
from vnetperf.model.trial import LoadStep, TrialOutcome, TrialRequest, Verdict
from vnetperf.procedures.base import ProcedureInputs, repeat_trial
from vnetperf.procedures.timeline import bin_width, curve_of, lost_between
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: Loss after so long without any is no part of a recovery, seconds.
QUIET_S = 1.0


@dataclass(frozen=True)
class _TrialFinding:
    """What one trial shows.

    Attributes:
        seconds: From the drop of the load to the last lost frame.
        overloaded: Frames were lost before the drop.
        recovered: They were not until the end.
        quiet_s: Longest time without loss between the drop and the last lost frame.
    """

    seconds: float
    overloaded: bool
    recovered: bool
    quiet_s: float


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
    found = [_judge(test, one) for one in outcomes]
    marks = [{"load drops": test.overload_s} for _ in found]
    for mark, one in zip(marks, found, strict=True):
        if one.seconds > 0:
            mark["last lost frame"] = test.overload_s + one.seconds
    curves = (curve_of(one, mark) for one, mark in zip(outcomes, marks, strict=True))
    return Recovery(
        throughput_fps=known.load_fps * inputs.in_sum,
        overload_fps=over * inputs.in_sum,
        relaxed_fps=test.relaxed * over * inputs.in_sum,
        overload_s=test.overload_s,
        seconds=spread([one.seconds for one in found]),
        note="; ".join(_notes(inputs, over, outcomes, found)),
        curves=tuple(curve for curve in curves if curve is not None),
    )


def _judge(test: RecoveryTest, outcome: TrialOutcome) -> _TrialFinding:
    drop, timelines = test.overload_s, outcome.result.timelines
    last = max((t.last_lost_s or 0.0 for t in timelines), default=0.0)
    total = drop + test.relaxed_s
    width = timelines[0].bin_s if timelines else test.bin_s
    return _TrialFinding(
        seconds=max(0.0, last - drop),
        overloaded=any(lost_between(t, 0.0, drop)[1] > 0 for t in timelines),
        recovered=last < total - width,
        quiet_s=_quiet(outcome, drop, last),
    )


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


def _notes(
    inputs: ProcedureInputs[RecoveryTest],
    over: float,
    outcomes: Sequence[TrialOutcome],
    found: Sequence[_TrialFinding],
) -> list[str]:
    test, known = inputs.parameters, inputs.known
    notes = []
    if not any(one.overloaded for one in found):
        notes.append(
            "no result: the overload lost no frame, so that there was nothing to recover from"
        )
    notes += [known.note] if known.note else []
    wanted = test.overload * known.load_fps
    if over < wanted:
        notes.append(
            f"the overload is {over / known.load_fps:.0%} of the throughput, not "
            f"{test.overload:.0%}: limited by {inputs.ceiling_reason}"
        )
    numbered = [(s.number, one) for s, one in zip(outcomes, found, strict=True)]
    idle = [number for number, one in numbered if not one.overloaded]
    if idle and len(idle) < len(found):
        notes.append(f"the overload lost no frame in {_trials(idle)}")
    if still := [number for number, one in numbered if not one.recovered]:
        notes.append(
            f"at least: frames were still lost when {_trials(still)} ended, "
            f"{test.relaxed_s:g} s after the load had dropped"
        )
    if again := [number for number, one in numbered if one.quiet_s >= QUIET_S]:
        notes.append(
            f"{_trials(again)} lost frames again after {QUIET_S:g} s or more without loss, which "
            "may have another cause than the overload"
        )
    if short := [s.number for s in outcomes if s.verdict is Verdict.GENERATOR_LIMITED]:
        notes.append(f"less than the loads was offered in {_trials(short)}")
    if stalled := [s.number for s in outcomes if s.verdict is Verdict.TESTER_STALLED]:
        notes.append(f"the tester stood still in {_trials(stalled)}")
    return notes


def _trials(numbers: Sequence[int]) -> str:
    return f"trial{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
