"""System recovery, RFC 2544 section 26.5: how long frames are lost after an overload has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetperf.model.outcomes import Recovery
from vnetperf.model.parameters import RecoveryTest
from vnetperf.model.trial import LoadStep, Verdict
from vnetperf.procedures.base import Ask, Procedure, ProcedureInputs, Seen
from vnetperf.procedures.timeline import bin_width, curve_of, lost_between
from vnetperf.statistics import spread

#: Loss after so long without any is no part of a recovery, seconds.
QUIET_S = 1.0


@dataclass(frozen=True)
class _TrialFinding:
    """What one trial says.

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
    asked, known = inputs.parameters, inputs.known
    over = min(asked.overload * known.load_fps, inputs.ceiling_fps)
    steps = (
        LoadStep(load_fps=over, duration_s=asked.overload_s),
        LoadStep(load_fps=asked.relaxed * over, duration_s=asked.relaxed_s),
    )
    total_s = asked.overload_s + asked.relaxed_s
    ask = Ask(
        load_fps=over,
        duration_s=total_s,
        steps=steps,
        bin_s=bin_width(asked.bin_s, total_s),
        histogram_up_to_loss=-1.0,
        when_limited="count",
    )
    seen = []
    for _ in range(asked.repeats):
        seen.append((yield ask))
    found = [_judge(asked, one) for one in seen]
    marks = [{"load drops": asked.overload_s} for _ in found]
    for mark, one in zip(marks, found, strict=True):
        if one.seconds > 0:
            mark["last lost frame"] = asked.overload_s + one.seconds
    curves = (curve_of(one, mark) for one, mark in zip(seen, marks, strict=True))
    return Recovery(
        throughput_fps=known.load_fps * inputs.in_sum,
        overload_fps=over * inputs.in_sum,
        relaxed_fps=asked.relaxed * over * inputs.in_sum,
        overload_s=asked.overload_s,
        seconds=spread([one.seconds for one in found]),
        note="; ".join(_notes(inputs, over, seen, found)),
        curves=tuple(curve for curve in curves if curve is not None),
    )


def _judge(asked: RecoveryTest, seen: Seen) -> _TrialFinding:
    drop, timelines = asked.overload_s, seen.result.timelines
    last = max((t.last_lost_s or 0.0 for t in timelines), default=0.0)
    total = drop + asked.relaxed_s
    width = timelines[0].bin_s if timelines else asked.bin_s
    return _TrialFinding(
        seconds=max(0.0, last - drop),
        overloaded=any(lost_between(t, 0.0, drop)[1] > 0 for t in timelines),
        recovered=last < total - width,
        quiet_s=_quiet(seen, drop, last),
    )


def _quiet(seen: Seen, drop: float, last: float) -> float:
    """Longest time without a lost frame between two moments."""
    longest = 0.0
    width = seen.spec.bin_s
    curve = curve_of(seen, {})
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
    seen: Sequence[Seen],
    found: Sequence[_TrialFinding],
) -> list[str]:
    asked, known = inputs.parameters, inputs.known
    notes = []
    if not any(one.overloaded for one in found):
        notes.append(
            "no result: the overload lost no frame, so that there was nothing to recover from"
        )
    notes += [known.note] if known.note else []
    wanted = asked.overload * known.load_fps
    if over < wanted:
        notes.append(
            f"the overload is {over / known.load_fps:.0%} of the throughput, not "
            f"{asked.overload:.0%}: limited by {inputs.ceiling_reason}"
        )
    idle = [s.number for s, one in zip(seen, found, strict=True) if not one.overloaded]
    if idle and len(idle) < len(found):
        notes.append(f"the overload lost no frame in {_trials(idle)}")
    if still := [s.number for s, one in zip(seen, found, strict=True) if not one.recovered]:
        notes.append(
            f"at least: frames were still lost when {_trials(still)} ended, "
            f"{asked.relaxed_s:g} s after the load had dropped"
        )
    if again := [s.number for s, one in zip(seen, found, strict=True) if one.quiet_s >= QUIET_S]:
        notes.append(
            f"{_trials(again)} lost frames again after {QUIET_S:g} s or more without loss, which "
            "may have another cause than the overload"
        )
    if short := [s.number for s in seen if s.verdict is Verdict.GENERATOR_LIMITED]:
        notes.append(f"less than the loads was offered in {_trials(short)}")
    return notes


def _trials(numbers: Sequence[int]) -> str:
    return f"trial{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
