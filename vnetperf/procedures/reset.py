"""Reset, RFC 2544 section 26.6 as RFC 6201 has it: how long nothing comes through a restarted DUT.

Both of its methods are used: frames lost over the rate at which they were offered,
and the time between the last frame before and the first after. Of the two directions
the one that took longer counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from vnetperf.model.errors import NoResultError
from vnetperf.model.outcomes import Reset
from vnetperf.model.parameters import ResetTest
from vnetperf.model.trial import (
    EventSpec,
    EventTimes,
    Timeline,
    TrialOutcome,
    TrialRequest,
    Verdict,
)
from vnetperf.procedures.base import ProcedureInputs
from vnetperf.procedures.timeline import bin_width, curve_of, lost_between
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: Types of reset: as RFC 6201 distinguishes them.
SOFTWARE, INTERFACE = "software", "hardware: interface"


class ResetInputs(ProcedureInputs[ResetTest]):
    """What the test is given.

    Attributes:
        impossible: Name of an event -> why it cannot happen here.
    """

    impossible: dict[str, str] = Field(default_factory=dict)


def events_of(test: ResetTest, ends: tuple[str, str]) -> tuple[str, ...]:
    """Names of the events of a test."""
    names = {"vswitch": "vswitch", "vnf": "vnf0", "link": f"link {ends[0]}"}
    return tuple(names[what] for what in test.what)


def reset(inputs: ResetInputs) -> Procedure[tuple[Reset, ...]]:
    """Run the test."""
    found = []
    events = events_of(inputs.parameters, inputs.ends)
    if all(inputs.impossible.get(what) for what in events):
        whys = "; ".join(f"{what}: {inputs.impossible[what]}" for what in events)
        raise NoResultError(f"nothing of the preset's `reset.what` can be reset here: {whys}")
    for what in events:
        if why := inputs.impossible.get(what):
            found.append(_outcome(inputs, what, [], why))
        else:
            found.append((yield from _of(inputs, what)))
    return tuple(found)


def _of(inputs: ResetInputs, what: str) -> Procedure[Reset]:
    test = inputs.parameters
    down_s = test.link_down_s if what.startswith("link ") else 0.0
    total_s = test.before_s + down_s + test.after_s
    request = TrialRequest(
        load_fps=test.share * inputs.known.load_fps,
        duration_s=total_s,
        event=EventSpec(what=what, at_s=test.before_s, down_s=down_s),
        bin_s=bin_width(test.bin_s, total_s),
        histogram_up_to_loss=-1.0,
        when_limited="count",
    )
    trials: list[TrialOutcome] = []
    for _ in range(test.repeats):
        outcome = yield request
        trials.append(outcome)
        if why := _trouble(test, outcome):
            return _outcome(inputs, what, trials, f"not measured: {why} (trial {outcome.number})")
    return _outcome(inputs, what, trials, "")


def _trouble(test: ResetTest, outcome: TrialOutcome) -> str:
    """Why a trial has no reset time; "" when it has one."""
    event, timelines = outcome.result.event, outcome.result.timelines
    if event is None or not timelines:
        return "the generator reported no times"
    if event.failure:
        return event.failure
    end = outcome.duration_s - timelines[0].bin_s
    if any((t.last_lost_s or 0.0) >= end for t in timelines):
        return (
            f"frames were still lost {outcome.duration_s - event.began_s:.3g} s after the reset, "
            f"when the trial ended; raise after_s, {test.after_s:g} s"
        )
    return ""


def _outcome(inputs: ResetInputs, what: str, trials: Sequence[TrialOutcome], why: str) -> Reset:
    measured = [] if why else [(s, s.result.event) for s in trials if s.result.event is not None]
    by_loss = [
        max(_by_loss(t, event, s.duration_s) for t in s.result.timelines) for s, event in measured
    ]
    by_time = [max(_by_time(t, event) for t in s.result.timelines) for s, event in measured]
    curves = (curve_of(outcome, _marks(outcome.result.event)) for outcome in trials)
    return Reset(
        what=what,
        type=INTERFACE if what.startswith("link ") else SOFTWARE,
        load_fps=inputs.parameters.share * inputs.known.load_fps * inputs.in_sum,
        by_loss_s=spread(by_loss) if by_loss else None,
        by_time_s=spread(by_time) if by_time else None,
        event_s=spread([e.ended_s - e.began_s for _, e in measured]) if measured else None,
        why=why,
        note="; ".join(_notes(inputs, trials)),
        curves=tuple(curve for curve in curves if curve is not None),
    )


def _by_loss(timeline: Timeline, event: EventTimes, duration_s: float) -> float:
    """Lost frames over the rate at which they were offered, from the event on."""
    offered, lost = lost_between(timeline, event.began_s, duration_s)
    first = int(event.began_s / timeline.bin_s + 1e-9) * timeline.bin_s
    return lost / offered * (duration_s - first) if offered else 0.0


def _by_time(timeline: Timeline, event: EventTimes) -> float:
    """The longest time without an arrival; one that was over before the event is not its doing."""
    if timeline.gap_from_s + timeline.gap_s < event.began_s:
        return 0.0
    return timeline.gap_s


def _marks(event: EventTimes | None) -> dict[str, float]:
    if event is None:
        return {}
    return {f"{event.what} reset": event.began_s, "ready": event.ended_s}


def _notes(inputs: ResetInputs, trials: Sequence[TrialOutcome]) -> list[str]:
    notes = [inputs.known.note] if inputs.known.note else []
    if inputs.parameters.share < 1:
        notes.append(f"at {inputs.parameters.share:.0%} of the throughput")
    short = [str(s.number) for s in trials if s.verdict is Verdict.GENERATOR_LIMITED]
    if short:
        notes.append(f"less than the load was offered in trials {', '.join(short)}")
    stalled = [str(s.number) for s in trials if s.verdict is Verdict.TESTER_STALLED]
    if stalled:
        notes.append(f"the tester stood still in trials {', '.join(stalled)}")
    return notes
