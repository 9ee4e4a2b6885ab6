"""Reset, RFC 2544 section 26.6 as RFC 6201 has it: how long nothing comes through a restarted DUT.

Both of its methods are used: frames lost over the rate at which they were offered, and the time
between the last frame before and the first after. The direction that took longer counts.

Where the tester stood still, the pause and the loss may be its own: the most that it may have cost
bounds the error, and a trial where that is no small part of a time is left out. Only what was lost
between the reset and the recovery counts. The DUT has recovered when what was reset is ready and
no more frames are lost than usual (`usual_loss`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, median
from typing import Any

from pydantic import Field

from vnetperf.model.errors import NoResultError
from vnetperf.model.figures import Figure, figure
from vnetperf.model.outcomes import Curve, Reset
from vnetperf.model.parameters import ResetTest
from vnetperf.model.result import Result
from vnetperf.model.trial import (
    EventSpec,
    EventTimes,
    Timeline,
    TrialOutcome,
    TrialRequest,
)
from vnetperf.plugin.procedure import DurationEstimate, FrameTest, ProcedureInputs, equal_trials
from vnetperf.procedures.base import bin_width, build_curve, shortfall_note
from vnetperf.procedures.usual_loss import UsualLoss
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: Largest share of the median time that may be the tester's own in a trial.
OWN_SHARE = 0.1

_METHODS = {"loss": "loss", "time": "time stamps"}
#: Types of reset: as RFC 6201 distinguishes them.
SOFTWARE, INTERFACE = "software", "hardware: interface"


class ResetInputs(ProcedureInputs[ResetTest]):
    """What the test is given."""

    #: Name of an event -> why it cannot happen here.
    impossible: dict[str, str] = Field(default_factory=dict)
    vswitches: tuple[str, ...] = ()  # Hosts of the vSwitches, where there are several
    #: Port of the cable between two of them that goes down; "" where the tester's does.
    link: str = ""


def name_events(
    test: ResetTest, ends: tuple[str, str], vswitches: Sequence[str] = (), link: str = ""
) -> tuple[str, ...]:
    """Names of the events of a test."""
    names: dict[str, tuple[str, ...]] = {
        "vswitch": tuple(f"vswitch on {host}" for host in vswitches) or ("vswitch",),
        "vnf": ("vnf0",),
        "link": (f"link {link or ends[0]}",),
    }
    return tuple(name for kind in test.what for name in names[kind])


def reset(inputs: ResetInputs) -> Procedure[tuple[Reset, ...]]:
    """Run the test."""
    resets = []
    events = name_events(inputs.parameters, inputs.ends, inputs.vswitches, inputs.link)
    if all(inputs.impossible.get(event) for event in events):
        reasons = "; ".join(f"{event}: {inputs.impossible[event]}" for event in events)
        raise NoResultError(f"nothing of the preset's `reset.what` can be reset here: {reasons}")
    for event in events:
        if reason := inputs.impossible.get(event):
            resets.append(_outcome(inputs, event, [], reason))
        else:
            resets.append((yield from _reset_part(inputs, event)))
    return tuple(resets)


def _reset_part(inputs: ResetInputs, event: str) -> Procedure[Reset]:
    test = inputs.parameters
    down_s = test.link_down_s if event.startswith("link ") else 0.0
    total_s = test.before_s + down_s + test.after_s
    request = TrialRequest(
        load_fps=test.share * inputs.required_throughput.load_fps,
        duration_s=total_s,
        event=EventSpec(what=event, at_s=test.before_s, down_s=down_s),
        bin_s=bin_width(test.bin_s, total_s),
        histogram_up_to_loss=-1.0,
        when_limited="count",
    )
    trials: list[_Trial] = []
    for _ in range(test.repeats):
        outcome = yield request
        trials.append(_Trial.from_outcome(outcome))
        if reason := _trouble(test, trials[-1]):
            return _outcome(
                inputs, event, trials, f"not measured: {reason} (trial {outcome.number})"
            )
    disturbed = _disturbed(trials)
    reason = ""
    if len(disturbed) == len(trials):
        numbers = ", ".join(map(str, disturbed))
        reason = f"not measured: the tester stood still too long in every trial ({numbers})"
    return _outcome(inputs, event, trials, reason)


@dataclass(frozen=True)
class _Interruption:
    """What an event did to one direction."""

    lost: int  # Frames lost between the event and the recovery
    aside: int  # Frames lost before and after
    #: When the DUT had recovered, seconds after the first frame; None: not at all.
    until_s: float | None
    too_late: bool  # What was reset was ready so late that a recovery could not show
    seconds: float  # Lost frames over the rate at which frames were offered
    gap_s: float | None  # Longest time without an arrival, from then; None: it is not known


def _interruption(timeline: Timeline, event: EventTimes, duration_s: float) -> _Interruption:
    width = timeline.bin_s
    sent = timeline.sent[: ceil(duration_s / width - 1e-9)]
    lost = [s - r for s, r in zip(sent, timeline.received, strict=False)]
    first, ready = int(event.began_s / width + 1e-9), ceil(event.ended_s / width - 1e-9)
    usual = UsualLoss.before(timeline, first)
    places = range(max(first, ready), len(sent) - usual.window + 1)
    until = usual.back(timeline, places)
    offered, counted = sum(sent[first:until]), sum(lost[first:until])
    if counted <= usual.most * offered:
        counted = 0
    after = sum(sent[first:])
    rest_s = duration_s - first * width
    until_s = None if until is None else until * width
    return _Interruption(
        lost=counted,
        aside=sum(lost) - counted,
        until_s=until_s,
        too_late=not places,
        seconds=counted / after * rest_s if after else 0.0,
        gap_s=_gap(timeline, event, until_s),
    )


def _gap(timeline: Timeline, event: EventTimes, until_s: float | None) -> float | None:
    """The longest time without an arrival, if it is the event's: another may have been longer."""
    ended = timeline.gap_from_s + timeline.gap_s
    if not timeline.gap_s or ended < event.began_s:
        return None
    return None if until_s is None or timeline.gap_from_s > until_s else timeline.gap_s


def _interruptions(outcome: TrialOutcome) -> list[_Interruption]:
    event = outcome.result.event
    if event is None:
        return []
    timelines = outcome.result.timelines
    return [_interruption(timeline, event, outcome.duration_s) for timeline in timelines]


@dataclass(frozen=True)
class _Trial:
    """A trial, with what its event did."""

    outcome: TrialOutcome
    interruptions: Sequence[_Interruption]  # Of each direction
    own_s: float  # The most of its time that may be the tester's own, seconds

    @classmethod
    def from_outcome(cls, outcome: TrialOutcome) -> _Trial:
        return cls(outcome, _interruptions(outcome), _tester_time_s(outcome))

    @property
    def event(self) -> EventTimes | None:
        return self.outcome.result.event


def _tester_time_s(outcome: TrialOutcome) -> float:
    """The most of a trial's time that may be the tester's own, seconds: of the worse direction."""
    result, times_s = outcome.result, [0.0]
    for d in result.directions:
        port = result.receiver(d)
        dropped = port.dropped / (d.sent or 1) if port is not None else 0.0
        stalled_s = result.gaps.most_lost(d.direction, 1.0) if result.gaps is not None else 0.0
        times_s.append(stalled_s + dropped * outcome.duration_s)
    return max(times_s)


def _disturbed(trials: Sequence[_Trial]) -> tuple[int, ...]:
    """Numbers of the trials in which the tester stood still too long.

    One length is too long for all of them: held against its own time, each long one would stay.
    """
    times = [
        max(interruption.seconds for interruption in trial.interruptions) - trial.own_s
        for trial in trials
        if trial.interruptions
    ]
    limit_s = OWN_SHARE * max(0.0, median(times)) if times else 0.0
    return tuple(trial.outcome.number for trial in trials if trial.own_s > limit_s)


def _still_lost(interruptions: Sequence[_Interruption]) -> bool:
    """Whether frames were lost until a trial's end."""
    return any(
        interruption.until_s is None and not interruption.too_late for interruption in interruptions
    )


def _trouble(test: ResetTest, trial: _Trial) -> str:
    """Why a trial has no reset time; "" when it has one."""
    outcome, event = trial.outcome, trial.event
    if event is None or not outcome.result.timelines:
        return "the generator reported no times"
    if event.failure:
        return event.failure
    interruptions = trial.interruptions
    if any(interruption.too_late for interruption in interruptions):
        return (
            f"{event.what} was ready {event.ended_s - event.began_s:.3g} s after the reset began, "
            "too late in the trial to tell whether frames were still lost; raise after_s, "
            f"{test.after_s:g} s"
        )
    if _still_lost(interruptions):
        return (
            f"frames were still lost {outcome.duration_s - event.began_s:.3g} s after the reset, "
            f"when the trial ended; raise after_s, {test.after_s:g} s"
        )
    if not any(interruption.lost for interruption in interruptions):
        return "no frame was lost after the reset that was not lost before it as well"
    return ""


def _outcome(inputs: ResetInputs, event: str, trials: Sequence[_Trial], reason: str) -> Reset:
    disturbed = _disturbed(trials)
    kept = [trial for trial in trials if trial.outcome.number not in disturbed]
    measured = [] if reason else [trial for trial in kept if trial.event is not None]
    events = [trial.event for trial in measured if trial.event is not None]
    lossy = [[d for d in trial.interruptions if d.lost] for trial in measured]
    by_loss = [max(d.seconds for d in directions) for directions in lossy]
    gaps = [[d.gap_s for d in directions if d.gap_s is not None] for directions in lossy]
    by_time = [
        max(direction_gaps)
        for direction_gaps, directions in zip(gaps, lossy, strict=True)
        if len(direction_gaps) == len(directions)
    ]
    notes = _notes(inputs, [trial.outcome for trial in trials], disturbed)
    if own_s := max((trial.own_s for trial in measured), default=0.0):
        notes.append(f"up to {own_s * 1e3:.3g} ms of a time may be the tester's own standing still")
    if len(by_time) < len(lossy):
        notes.append(
            "no time by time stamps: a longer pause of the arrivals than that of the reset began "
            "before or after it"
        )
    if aside := sum(d.aside for trial in measured for d in trial.interruptions):
        notes.append(f"{aside} frames lost before the reset or after the recovery are not counted")
    curves = (build_curve(trial.outcome, _marks(trial.event)) for trial in trials)
    return Reset(
        what=event,
        type=INTERFACE if event.startswith("link ") else SOFTWARE,
        load_fps=inputs.parameters.share * inputs.required_throughput.load_fps * inputs.in_sum,
        by_loss_s=spread(by_loss) if by_loss else None,
        by_time_s=spread(by_time) if by_time and len(by_time) == len(lossy) else None,
        event_s=spread([e.ended_s - e.began_s for e in events]) if events else None,
        at_least_s=_lower_limit_s(kept) if reason else None,
        why=reason,
        disturbed=disturbed,
        note="; ".join(notes),
        curves=tuple(curve for curve in curves if curve is not None),
    )


def _lower_limit_s(trials: Sequence[_Trial]) -> float | None:
    """What the mean by loss is not below, where the last trial lost frames until its end."""
    last = trials[-1] if trials else None
    if last is None or last.event is None or last.event.failure:
        return None
    if not _still_lost(last.interruptions):
        return None
    least = [max(d.seconds for d in trial.interruptions) - trial.own_s for trial in trials]
    return max(0.0, fmean(least)) or None


def _marks(event: EventTimes | None) -> dict[str, float]:
    if event is None:
        return {}
    return {f"{event.what} reset": event.began_s, "ready": event.ended_s}


def _notes(
    inputs: ResetInputs, trials: Sequence[TrialOutcome], disturbed: Sequence[int]
) -> list[str]:
    notes = [inputs.required_throughput.note] if inputs.required_throughput.note else []
    if inputs.parameters.share < 1:
        notes.append(f"at {inputs.parameters.share:.0%} of the throughput")
    if short := shortfall_note(trials):
        notes.append(short)
    if disturbed:
        notes.append(
            f"trials {', '.join(map(str, disturbed))} not counted: the tester stood still, and "
            f"more than {OWN_SHARE:.0%} of the time may be its own"
        )
    return notes


def _list_figures(_: Result, resets: tuple[Reset, ...]) -> Iterator[Figure]:
    for reset in resets:
        methods = (
            ("loss", reset.by_loss_s, reset.at_least_s),
            ("time", reset.by_time_s, None),
        )
        for method, took, least in methods:
            label = f"{reset.what} ({reset.type}) by {_METHODS[method]}"
            note = reset.why or reset.note
            about: dict[str, Any] = {"note": note, "load_fps": reset.load_fps}
            compared: dict[str, Any] = {"less": label, "main": method == "loss", **about}
            if least is None:
                about = compared
            else:
                yield figure("", "s", least, reset.what, qualifiers=("at least",), **compared)
            reason = reset.why or ("" if took else reset.note)
            yield figure(f"reset_time_by_{method}", "s", took, reset.what, why=reason, **about)
        yield figure("trials_disturbed", "", float(len(reset.disturbed)), reset.what)
        yield figure("event_took", "s", reset.event_s, reset.what)
        yield figure("load", "fps", reset.load_fps, reset.what)


def _list_curves(resets: tuple[Reset, ...]) -> Iterator[tuple[str, Curve]]:
    return ((reset.what, curve) for reset in resets for curve in reset.curves)


class ResetProcedure(FrameTest):
    """Reset, RFC 2544 section 26.6 and RFC 6201."""

    name = "reset"
    run = staticmethod(reset)
    list_figures = staticmethod(_list_figures)
    list_curves = staticmethod(_list_curves)
    section = "reset"
    fills = "resets"
    takes_shares = True
    needs_carried = True

    @staticmethod
    def estimate(parameters: ResetTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        count = len(parameters.what)
        down_s = parameters.link_down_s * parameters.what.count("link") / max(1, count)
        seconds = parameters.before_s + parameters.after_s + down_s
        return equal_trials(count * parameters.repeats, seconds)
