"""Results of tests besides a search for the throughput: their tables, and the answer in few words.

Each kind of test has a tuple of columns, notes and a headline; all of them are listed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import starmap, takewhile
from typing import Any

from vnetperf.model import units
from vnetperf.model.figures import Figure, Outcome
from vnetperf.model.outcomes import (
    NEAR_LONGEST,
    AddressTable,
    BackToBack,
    ForwardingRate,
    LossStep,
    Recovery,
    Reset,
    Service,
    ServiceFlow,
    ServiceStep,
    SessionsTried,
    SessionTable,
    Soak,
    Spread,
)
from vnetperf.model.result import FrameFaults, RepeatedNumber, Result
from vnetperf.model.units import frames, nanoseconds, percent, seconds
from vnetperf.report import latency, processors, text
from vnetperf.report.summary import Entry, Group, medium_share
from vnetperf.report.table import NOT_MEASURED, NOT_RECORDED, Column, Table, group_sentences
from vnetperf.report.text import single

_SIZE: Column[Entry[Any]] = Column("size", lambda e: e.result.size_name, words=True)


def _notes(entries: Iterable[Entry[Any]]) -> Iterator[str]:
    """The note of each result, once for all results that have the same."""
    return group_sentences((e.result.size_text, e.outcome.note) for e in entries)


# Deployments of a case.


def _over_text(entry: Entry[RepeatedNumber]) -> str:
    """Mean and interval over deployments; with a censored one there is no mean."""
    number = entry.outcome
    if number.spread is not None:
        return text.mean_interval(number.spread, number.unit)
    ends = {(observation.qualifier, observation.value) for observation in number.observations}
    if len(ends) == 1:  # each is the same limit
        (qualifier, value), *_ = ends
        return f"{qualifier} {single(value, number.unit)}" if value is not None else qualifier
    return f"no mean: {_censored_text(number)}"


def _censored_text(number: RepeatedNumber) -> str:
    n = len(number.observations)
    return ", ".join(f"{count} of {n} {mark}" for mark, count in number.censored.items())


def _extreme(number: RepeatedNumber, choose: Callable[[Iterable[float]], float]) -> str | None:
    values = [
        observation.value for observation in number.observations if observation.value is not None
    ]
    if not values:
        return None
    return text.by_spread(choose(values), min(values), max(values), number.unit, least=2)


def _loads_text(number: RepeatedNumber) -> str | None:
    """Loads of all deployments, each of its own throughput."""
    loads = [
        observation.load_fps
        for observation in number.observations
        if observation.load_fps is not None
    ]
    if not loads:
        return None
    least, most = min(loads), max(loads)
    return units.fps(least) if least == most else text.range_text(least, most, "fps")


def repeated_numbers(group: Group) -> list[Entry[RepeatedNumber]]:
    """The main numbers of results that were measured in several deployments."""
    return [
        Entry(result, number, number.label)
        for result in group.measured
        if result.deployments is not None
        for number in result.deployments.numbers
        if number.main
    ]


def over_deployments(result: Result, label: str) -> str:
    """A number as several deployments gave it: "390 +- 34 kfps over 5 deployments"; "" of one."""
    deployments = result.deployments
    repeated_number = (
        next((n for n in deployments.numbers if n.label == label), None) if deployments else None
    )
    if repeated_number is None:
        return ""
    entry = Entry(result, repeated_number, label)
    over = f"over {_deployments_text(entry)} deployments"
    number, _, censored = _over_text(entry).partition(": ")
    return f"{number} {over}" + (f" ({censored})" if censored else "")


def _deployments_text(entry: Entry[RepeatedNumber]) -> str:
    """Those that gave the number, of those planned."""
    n, deployments = len(entry.outcome.observations), entry.result.deployments
    planned = deployments.planned if deployments is not None else n
    return str(n) if n == planned else f"{n} of {planned}"


_REPETITIONS: tuple[Column[Entry[RepeatedNumber]], ...] = (
    _SIZE,
    Column("number", lambda e: e.label, words=True),
    Column("over all deployments", _over_text, bold=True),
    Column(
        "std. dev.",
        lambda e: text.stdev(e.outcome.spread, e.outcome.unit) if e.outcome.spread else None,
    ),
    Column("least", lambda e: _extreme(e.outcome, min), brief=True),
    Column("most", lambda e: _extreme(e.outcome, max), brief=True),
    Column("load, aggregate", lambda e: _loads_text(e.outcome)),
    Column("deployments", _deployments_text),
)


def _repetition_tables(group: Group) -> Iterator[Table]:
    entries = repeated_numbers(group)
    spreads = [(e, e.outcome.spread) for e in entries if e.outcome.spread is not None]
    repetitions = [(r, r.deployments) for r in group.measured if r.deployments is not None]
    shown = {f"{deployments.shown}" for _, deployments in repetitions}
    notes = [
        text.interval_note([spread for _, spread in spreads]),
        f"All other figures are of one deployment, round {', '.join(sorted(shown))}: the one in "
        "the middle by its throughput, or by this number where none was measured.",
        *(
            f"{e.result.size_text}, {e.label}: {_censored_text(e.outcome)}: a limit enters no mean."
            for e in entries
            if e.outcome.censored
        ),
        *group_sentences(
            (r.size_text, f"{deployments.sentence}.")
            for r, deployments in repetitions
            if deployments.failures
        ),
        *(
            f"{e.result.size_text}, {e.label}: {remark}."
            for e, spread in spreads
            for remark in text.remarks(spread, e.outcome.unit)
        ),
    ]
    yield Table.from_items("Deployments", _REPETITIONS, entries, notes)


# Frame loss rate.


def _loss_columns(names: Iterable[str]) -> Iterator[Column[Entry[LossStep]]]:
    yield _SIZE
    yield Column("input rate", lambda e: percent(e.outcome.input_ratio))
    yield Column("load, aggregate", lambda e: units.fps(e.outcome.load_fps))
    yield Column(
        "of the medium",
        lambda e: medium_share(e.outcome.load_fps, e.result),
        brief=False,
        optional=True,
    )
    yield Column("loss, worse direction", lambda e: _step_text(e.outcome), bold=True)
    for name in names:
        yield Column(f"loss {name}", _make_loss_cell(name), brief=False)
    yield Column("forwarded, aggregate", lambda e: units.fps(e.outcome.forwarded_fps))
    yield Column("trials", lambda e: str(len(e.outcome.trials)))


def _step_text(step: LossStep) -> str:
    """The loss, as a range where a part of the load was not offered."""
    most = step.most_ratio
    return percent(step.loss_ratio) + (f" to {percent(most)}" if most is not None else "")


def _make_loss_cell(name: str) -> Callable[[Entry[LossStep]], str]:
    def cell(entry: Entry[LossStep]) -> str:
        losses = entry.outcome.per_direction
        return percent(losses[name]) if name in losses else NOT_RECORDED

    return cell


def full_load_text(result: Result) -> str:
    """What 100 % of an input rate is: mostly of what the generator can offer, not the medium."""
    full_load = next((s.load_fps / s.input_ratio for s in result.loss_steps if s.input_ratio), 0.0)
    if not full_load:
        return ""
    medium = result.media_max_fps
    if medium and abs(full_load / medium - 1) <= _WHOLE_MEDIUM:
        return f"100 % is {units.fps(full_load)}, the maximum of the medium"
    share = (
        f", {percent(full_load / medium, 3)} of the medium's {units.fps(medium)}" if medium else ""
    )
    # A test that begins at it may have rounded it down; a profile of loss may not have reached it.
    tried = any(step.input_ratio == 1 for step in result.loss_steps)
    whose = "of this test" if tried else "that the generator offers"
    return f"100 % is {units.fps(full_load)}, the largest load {whose}{share}"


#: How far a load that is all of the medium may be off it, as a share: by rounding only.
_WHOLE_MEDIUM = 1e-4


def _loss_tables(group: Group) -> Iterator[Table]:
    steps = group.entries(lambda r: r.loss_steps)
    names = dict.fromkeys(name for e in steps for name in e.outcome.per_direction)
    note = (
        "Input rate: share of the largest load that was offered. Loss: (input - output) / input, "
        "the mean of the trials at a load."
    )
    if any(e.outcome.most_ratio is not None for e in steps):
        note += " A range: frames that were not offered may have been lost as well."
    wholes = ((e.result.size_text, full_load_text(e.result)) for e in steps)
    sentences = (f"{sentence}." for sentence in group_sentences(wholes))
    yield Table.from_items("Loss by load", tuple(_loss_columns(names)), steps, [note, *sentences])


def _loss_headline(_: Result, steps: tuple[LossStep, ...]) -> tuple[str, str]:
    rising = sorted(steps, key=lambda s: s.load_fps)
    clean = list(takewhile(lambda s: s.is_clean, rising))
    top = rising[-1]
    lost = f"{percent(top.loss_ratio, 3)} lost at {units.fps(top.load_fps)}"
    if not clean:
        return "loss at every load", lost
    return f"no loss up to {units.fps(clean[-1].load_fps)}", lost


# Back-to-back frames.


def _burst_text(bursts: BackToBack) -> str:
    """The benchmark: the mean, or why there is none."""
    if bursts.is_limit:
        return f"at least {single(bursts.frames.minimum, 'frames')} frames"
    return text.mean_interval(bursts.frames, "frames")


def _burst_end(bursts: BackToBack) -> str:
    """The longest burst of all searches."""
    if bursts.is_limit:
        return f"{single(bursts.frames.maximum, 'frames')} frames or more"
    return text.end_text(bursts.frames, "maximum", "frames") or NOT_MEASURED


def _capped_text(bursts: BackToBack) -> str:
    if not bursts.capped:
        return ""
    return (
        f"every burst up to the longest one tried came through in {bursts.full_bursts} of "
        f"{bursts.frames.n} searches: this is no result (RFC 9004)."
    )


def _searches(bursts: BackToBack) -> str:
    """Searches with a value, of all."""
    n = bursts.frames.n
    return f"{n} of {n + bursts.undecided}" if bursts.undecided else str(n)


def _slow_bursts(bursts: BackToBack) -> str:
    if bursts.slow_bursts is None:
        return NOT_RECORDED
    return f"{bursts.slow_bursts} of {len(bursts.trials)}"


_BACK_TO_BACK: tuple[Column[Entry[BackToBack]], ...] = (
    _SIZE,
    Column("back-to-back frames, mean", lambda e: _burst_text(e.outcome), bold=True),
    Column("least", lambda e: text.end_text(e.outcome.frames, "minimum", "frames")),
    Column("most", lambda e: _burst_end(e.outcome)),
    Column(
        "std. dev.",
        lambda e: None if e.outcome.is_limit else text.stdev(e.outcome.frames, "frames"),
    ),
    Column("corrected buffer time", lambda e: text.single_or_none(e.outcome.corrected_s, "s")),
    Column("by RFC 9004", lambda e: text.single_or_none(e.outcome.rfc9004_corrected_s, "s")),
    Column("N", lambda e: _searches(e.outcome)),
    Column("step size, frames", lambda e: str(e.outcome.step_frames)),
    Column(
        "implied buffer time", lambda e: text.single_or_none(e.outcome.implied_s, "s"), brief=False
    ),
    Column(
        "implied, by RFC 9004",
        lambda e: text.single_or_none(e.outcome.rfc9004_implied_s, "s"),
        brief=False,
    ),
    Column(
        "mean gap",
        lambda e: text.single_or_none(e.outcome.gap_ns, "ns") or NOT_RECORDED,
        brief=False,
    ),
    Column(
        "forwarded meanwhile, per interface",
        lambda e: text.single_or_none(e.outcome.forwarded_fps, "fps"),
        brief=False,
    ),
    Column(
        "ring before the DUT, frames",
        lambda e: text.text_or_none(e.outcome.ring_frames, str) or NOT_RECORDED,
        brief=False,
    ),
    Column(
        "throughput, aggregate",
        lambda e: text.single_or_none(e.outcome.throughput_fps, "fps"),
        brief=False,
    ),
    Column(
        "theoretical rate, per interface",
        lambda e: text.single_or_none(e.outcome.max_rate_fps, "fps"),
        brief=False,
    ),
    Column("usual gap", lambda e: text.single_or_none(e.outcome.usual_gap_ns, "ns"), brief=False),
    Column(
        "calibrated gap",
        lambda e: text.single_or_none(e.outcome.calibrated_gap_ns, "ns"),
        brief=False,
    ),
    Column("slow bursts, not counted", lambda e: _slow_bursts(e.outcome), brief=False),
    Column("longest tried, frames", lambda e: frames(e.outcome.max_burst_frames), brief=False),
)


def _back_to_back_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: [r.back_to_back])
    decided = [e for e in entries if not e.outcome.is_limit]
    notes = [
        text.interval_note([e.outcome.frames for e in decided]),
        "Implied buffer time: what the mean burst took at the mean gap of these bursts; corrected: "
        "without the frames that the DUT forwarded meanwhile, as those show that came back of "
        "longer bursts. By RFC 9004: mean frames / theoretical rate, and that x (1 - throughput / "
        "theoretical rate). Frames are those of one interface.",
        *group_sentences((e.result.size_text, _capped_text(e.outcome)) for e in entries),
        *_notes(entries),
        *text.list_remarks(((e.result.size_text, e.outcome.frames) for e in decided), "frames"),
    ]
    yield Table.from_items("Back-to-back frames", _BACK_TO_BACK, entries, notes)


def _back_to_back_headline(_: Result, bursts: BackToBack) -> tuple[str, str]:
    if bursts.is_limit:
        reached = f"{bursts.full_bursts} of {bursts.frames.n} searches reached the longest burst"
        near = f"within {1 - NEAR_LONGEST:.0%} of the longest burst"
        return _burst_text(bursts), f"no result: {reached if bursts.capped else near}"
    buffer = "" if bursts.corrected_s is None else f"buffer {units.time_s(bursts.corrected_s)}, "
    if bursts.is_ring:
        buffer += f"the ring of the wire ({bursts.ring_frames} frames), "
    return _burst_text(bursts), f"{buffer}N {_searches(bursts)}"


# System recovery.


def _recovery_trials(recovery: Recovery) -> str:
    """Trials that have a time, of all."""
    measured = recovery.seconds.n if recovery.seconds else 0
    total = len(recovery.curves) or measured
    return str(measured) if measured == total else f"{measured} of {total}"


def _last_lost(recovery: Recovery) -> str | None:
    if recovery.lost_at_end:
        return "lost until the end"
    return text.mean_interval(recovery.last_lost_s, "s") if recovery.last_lost_s else None


def _throughput_share(recovery: Recovery) -> str:
    used = recovery.throughput_fps
    return percent(recovery.overload_fps / used, 3) if used else NOT_MEASURED


_RECOVERY: tuple[Column[Entry[Recovery]], ...] = (
    _SIZE,
    Column("throughput used", lambda e: units.fps(e.outcome.throughput_fps)),
    Column(
        "recovery time",
        lambda e: (
            text.mean_interval(e.outcome.seconds, "s") if e.outcome.seconds else "not measured"
        ),
        bold=True,
    ),
    Column("least", lambda e: text.end_text(e.outcome.seconds, "minimum", "s")),
    Column("largest", lambda e: text.end_text(e.outcome.seconds, "maximum", "s")),
    Column("trials", lambda e: _recovery_trials(e.outcome)),
    Column("to the last lost frame (RFC 2544)", lambda e: _last_lost(e.outcome)),
    Column(
        "usual loss at the load after",
        lambda e: text.text_or_none(e.outcome.usual_loss, percent) or NOT_MEASURED,
        brief=False,
    ),
    Column("overload", lambda e: units.fps(e.outcome.overload_fps)),
    Column("of throughput", lambda e: _throughput_share(e.outcome), brief=False),
    Column("for", lambda e: seconds(e.outcome.overload_s), brief=False),
    Column("load after", lambda e: units.fps(e.outcome.relaxed_fps), brief=False),
)


def _recovery_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: [r.recovery])
    timed = [(e.result.size_text, e.outcome.seconds) for e in entries if e.outcome.seconds]
    notes = [
        text.interval_note([spread for _, spread in timed]),
        "Recovery time: from the drop of the load until no more frames are lost than before the "
        "overload at the load after it, of trials whose last bins before the drop show an "
        "overload. RFC 2544 section 26.5 ends with the last lost frame, whatever lost it. Rates "
        "are sums.",
        *group_sentences((e.result.size_text, e.outcome.why) for e in entries),
        *_notes(entries),
        *text.list_remarks(timed, "s"),
    ]
    yield Table.from_items("System recovery", _RECOVERY, entries, notes)


def _recovery_headline(_: Result, recovery: Recovery) -> tuple[str, str]:
    if recovery.seconds is None:
        return "not measured", recovery.why.removeprefix("not measured: ")
    after = f"after {units.short_fps(recovery.overload_fps)} for {recovery.overload_s:g} s"
    return text.mean_with_n(recovery.seconds, "s"), after


# Reset.


def _reset_time(reset: Reset, spread: Spread | None) -> str | None:
    if reset.by_loss_s is None and reset.by_time_s is None:
        return "not measured"
    return text.mean_interval(spread, "s") if spread else None


def _reset_counts(reset: Reset) -> list[int]:
    return sorted({s.n for s in (reset.by_loss_s, reset.by_time_s) if s})


_RESET: tuple[Column[Entry[Reset]], ...] = (
    _SIZE,
    Column("reset", lambda e: e.outcome.what, words=True),
    Column("type (RFC 6201)", lambda e: e.outcome.type, words=True),
    Column(
        "reset time, frame-loss method (4.1)",
        lambda e: _reset_time(e.outcome, e.outcome.by_loss_s),
        bold=True,
    ),
    Column(
        "reset time, time-stamp method (4.2)", lambda e: _reset_time(e.outcome, e.outcome.by_time_s)
    ),
    Column("trials", lambda e: " or ".join(map(str, _reset_counts(e.outcome))) or "0"),
    Column(
        "the event itself took",
        lambda e: text.mean_interval(e.outcome.event_s, "s") if e.outcome.event_s else None,
        brief=False,
    ),
    Column("load, aggregate", lambda e: units.fps(e.outcome.load_fps), brief=False),
)


def _reset_notes(entries: list[Entry[Reset]]) -> Iterator[str]:
    methods = [(s, e) for e in entries for s in (e.outcome.by_loss_s, e.outcome.by_time_s) if s]
    yield text.interval_note([s for s, _ in methods])
    yield (
        "Frame-loss method: frames lost over the load. Time-stamp method: from the last frame "
        "before to the first one after; resolution one frame."
    )
    # One size only is named by the table.
    several = len({e.result.frame_size for e in entries}) > 1
    named = [
        (f"{e.outcome.what} at {e.result.size_text}" if several else e.outcome.what, e.outcome)
        for e in entries
    ]
    yield from group_sentences((name, reset.why) for name, reset in named)
    yield from group_sentences((name, reset.note) for name, reset in named)
    yield from text.list_remarks(
        ((f"{e.result.size_text}, {e.outcome.what}", s) for s, e in methods), "s"
    )


def _reset_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: r.resets)
    yield Table.from_items("Reset", _RESET, entries, _reset_notes(entries))


def _reset_headline(_: Result, resets: tuple[Reset, ...]) -> tuple[str, str]:
    parts = []
    for reset in resets:
        time = reset.by_loss_s or reset.by_time_s
        parts.append(f"{reset.what} {text.mean_interval(time, 's') if time else 'not measured'}")
    counts = [n for reset in resets for n in _reset_counts(reset)]
    return "\n".join(parts), f"n {max(counts)} each" if counts else ""


# Forwarding rate.

_RATES: tuple[Column[Entry[ForwardingRate]], ...] = (
    _SIZE,
    Column("load", lambda e: e.outcome.of, words=True),
    Column(
        "forwarding rate, aggregate",
        lambda e: text.mean_interval(e.outcome.forwarded_fps, "fps"),
        bold=True,
    ),
    Column("std. dev.", lambda e: text.stdev(e.outcome.forwarded_fps, "fps")),
    Column(
        "least", lambda e: text.end_text(e.outcome.forwarded_fps, "minimum", "fps"), brief=False
    ),
    Column("most", lambda e: text.end_text(e.outcome.forwarded_fps, "maximum", "fps"), brief=False),
    Column("trials", lambda e: str(e.outcome.forwarded_fps.n)),
    Column("of", lambda e: seconds(e.outcome.duration_s), brief=False),
    Column("loss, worse direction, mean", lambda e: percent(e.outcome.loss_ratio.mean)),
    Column(
        "of the medium",
        lambda e: medium_share(e.outcome.forwarded_fps.mean, e.result),
        brief=False,
        optional=True,
    ),
    Column("load, aggregate", lambda e: units.fps(e.outcome.load_fps)),
)


def _rate_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: r.rates)
    named = ((f"{e.result.size_text}, {e.outcome.of}", e.outcome.forwarded_fps) for e in entries)
    notes = [
        text.interval_note([e.outcome.forwarded_fps for e in entries]),
        "Maximum offered load: the largest that this generator offered on this machine, as the "
        "column of loads has it. It is no property of the DUT; a rate under another overload is "
        "another number.",
        *text.list_remarks(named, "fps"),
    ]
    yield Table.from_items("Forwarding rate", _RATES, entries, notes)


def _rate_headline(_: Result, rates: tuple[ForwardingRate, ...]) -> tuple[str, str]:
    best = max(rates, key=lambda rate: rate.forwarded_fps.mean)
    load = f"at {units.short_fps(best.load_fps)}, {percent(best.loss_ratio.mean, 3)} lost"
    return text.mean_with_n(best.forwarded_fps, "fps"), load


# Soak.


def soak_verdict(soak: Soak) -> str:
    """Whether the limit of the loss ratio was met, as far as the interval shows."""
    if soak.not_judged:
        return f"not judged: {soak.not_judged}"
    if soak.loss_high is None:
        return _verdict_without_loss(soak.goal_holds_to)
    if soak.loss_low <= soak.goal < soak.loss_high:
        return "undecided: the interval holds the limit"
    return "met" if soak.loss_high <= soak.goal else "not met"


def _verdict_without_loss(most: int | None) -> str:
    if not most:
        return "undecided: nothing was lost, of too few frames to show the limit"
    return f"met if no event loses over {frames(most)} frames: none was seen"


def soak_interval(soak: Soak) -> str:
    """The interval of the loss ratio; without loss it has no upper end."""
    if soak.loss_high is None:
        return "no event seen"
    return f"{percent(soak.loss_low, 3)} to {percent(soak.loss_high, 3)}"


def _lossy_trials(soak: Soak) -> str:
    if soak.lossy_trials is None:
        return NOT_RECORDED
    return f"{soak.lossy_trials} of {len(soak.trials)}"


def _longest_event(soak: Soak) -> str:
    if soak.largest_event is None or soak.longest_event_s is None:
        return "not measured"
    if not soak.largest_event:
        return "none"
    return f"{frames(soak.largest_event)} frames, within {seconds(soak.longest_event_s)}"


def _largest_pdv(soak: Soak) -> str | None:
    values = [v.pdv_ns for v in soak.variation.values() if v.pdv_ns is not None]
    return nanoseconds(max(values)) if values else None


_SOAK: tuple[Column[Entry[Soak]], ...] = (
    _SIZE,
    Column("load, aggregate", lambda e: units.fps(e.outcome.load_fps), brief=False),
    Column("which is", lambda e: e.outcome.of, words=True),
    Column("traffic", lambda e: seconds(e.outcome.seconds)),
    Column("loss, worse direction", lambda e: percent(e.outcome.loss_ratio), bold=True),
    Column("95 % interval", lambda e: soak_interval(e.outcome)),
    Column("trials with loss", lambda e: _lossy_trials(e.outcome)),
    Column("largest event", lambda e: _longest_event(e.outcome)),
    Column("limit", lambda e: percent(e.outcome.goal)),
    Column("verdict", lambda e: soak_verdict(e.outcome), words=True),
    Column("lost, frames", lambda e: frames(e.outcome.lost), brief=False),
    Column("offered, frames", lambda e: frames(e.outcome.offered), brief=False),
    Column("PDV, worse direction", lambda e: _largest_pdv(e.outcome), brief=False),
)


def _soak_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: [r.soak])
    varied = [(e.result.size_text, v.why) for e in entries for v in e.outcome.variation.values()]
    notes = [
        "Interval of the loss ratio: its unit is the trial, as losses come in events (gamma "
        "interval of Fay and Feuer; Student's t where each of many trials lost frames). Without "
        "loss it has no upper end: nothing shows how many frames an event takes.",
        *_notes(entries),
        *group_sentences(varied),
    ]
    yield Table.from_items("Soak", _SOAK, entries, notes)


def _soak_headline(_: Result, soak: Soak) -> tuple[str, str]:
    verdict = soak_verdict(soak).partition(":")[0]
    below = "" if soak.loss_high is None else f"below {percent(soak.loss_high, 3)}; "
    return f"{percent(soak.loss_ratio, 3)} lost", f"{below}{verdict}"


# Address caching and learning.

#: Tests that search a rate; their siblings search how many entries a table holds.
_OF_RATES = ("address_learning", "connection_rate")
_TRIED: tuple[Column[tuple[Result, tuple[int, float, bool, int]]], ...] = (
    Column("size", lambda t: t[0].size_name, words=True),
    Column("addresses", lambda t: frames(t[1][0])),
    Column("sent at", lambda t: units.fps(t[1][1])),
    Column("learned", lambda t: "all" if t[1][2] else "not all", words=True),
    Column("trial", lambda t: str(t[1][3])),
)


def _searched(test: str, table: AddressTable | SessionTable) -> tuple[str, str]:
    """Entries of a table and their rate; where the search met no limit its own is a bound."""
    if isinstance(table, AddressTable):
        count, rate = frames(table.addresses), units.fps(table.learning_fps)
    else:
        count, rate = frames(table.sessions), units.short_fps(table.rate_per_s)
    if not table.capped:
        return count, rate
    return (count, f"at least {rate}") if test in _OF_RATES else (f"at least {count}", rate)


def _searched_columns(test: str, count: str, rate: str) -> Iterator[Column[Entry[Any]]]:
    """Entries of a table and their rate, of which the test searches one."""
    of_rate = test in _OF_RATES
    yield _SIZE
    yield Column(count, lambda e: _searched(test, e.outcome)[0], bold=not of_rate)
    yield Column(rate, lambda e: _searched(test, e.outcome)[1], bold=of_rate)


def _address_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: [r.addresses])
    names = ("address caching capacity", "addresses sent at")
    if group.test in _OF_RATES:
        names = ("addresses used", "address learning rate")
    tried_of: Column[Entry[AddressTable]] = Column("tried", lambda e: str(len(e.outcome.tried)))
    columns = (*_searched_columns(group.test, *names), tried_of)
    capped = "the most that was tried was no limit."
    notes = [
        *group_sentences((e.result.size_text, capped if e.outcome.capped else "") for e in entries),
        *_notes(entries),
    ]
    yield Table.from_items("Addresses", columns, entries, notes)
    tried = [(e.result, trial) for e in entries for trial in e.outcome.tried]
    yield Table.from_items("Numbers and rates tried", _TRIED, tried, terminal=False)


_SESSIONS_TRIED: tuple[Column[tuple[Result, SessionsTried]], ...] = (
    Column("size", lambda t: t[0].size_name, words=True),
    Column("sessions", lambda t: frames(t[1].sessions)),
    Column("made at, 1/s", lambda t: units.short_fps(t[1].rate_per_s)),
    Column("came out", lambda t: frames(t[1].came)),
    Column("held", lambda t: frames(t[1].held)),
    Column("made", lambda t: "all" if t[1].made else "not all", words=True),
    Column("trial", lambda t: str(t[1].trial)),
)


def _session_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: [r.sessions])
    names = ("capacity, sessions", "made at, 1/s")
    if group.test in _OF_RATES:
        names = ("sessions", "establishment rate, 1/s")
    columns: tuple[Column[Entry[SessionTable]], ...] = (
        *_searched_columns(group.test, *names),
        Column(
            "of each search", lambda e: ", ".join(map(units.short_fps, e.outcome.rates)) or None
        ),
        Column(
            "tear-down rate, 1/s",
            lambda e: text.text_or_none(e.outcome.ended_per_s, units.short_fps),
        ),
    )
    yield Table.from_items("Sessions", columns, entries, _notes(entries))
    tried = [(e.result, trial) for e in entries for trial in e.outcome.tried]
    yield Table.from_items("Trials that make sessions", _SESSIONS_TRIED, tried, terminal=False)


def _session_headline(result: Result, sessions: SessionTable) -> tuple[str, str]:
    count, rate = _searched(result.test, sessions)
    if result.test in _OF_RATES:
        return f"{rate} 1/s", f"{count} sessions"
    return f"{count} sessions", f"made at {rate} 1/s"


def _address_headline(result: Result, addresses: AddressTable) -> tuple[str, str]:
    count, rate = _searched(result.test, addresses)
    if result.test in _OF_RATES:
        return rate, f"{count} addresses"
    return f"{count} addresses", f"sent at {rate}"


# Services (ITU-T Y.1564).


@dataclass(frozen=True, slots=True)
class _Flow:
    """One direction of a step of a service."""

    result: Result
    step: ServiceStep
    flow: ServiceFlow


def service_verdict(met: bool | None) -> str:
    """Whether limits were kept."""
    return "not judged" if met is None else "met" if met else "not met"


_SERVICE: tuple[Column[_Flow], ...] = (
    Column("size", lambda f: f.result.size_name, words=True),
    Column("step", lambda f: f.step.of, words=True),
    Column("direction", lambda f: f.flow.direction, words=True),
    Column("Gbit/s", lambda f: units.gigabits(f.flow.rate_bps)),
    Column("FLR", lambda f: percent(f.flow.loss_ratio)),
    Column("FTD, mean", lambda f: text.single_or_none(f.flow.delay_mean_ns, "ns")),
    Column("FTD, least", lambda f: text.single_or_none(f.flow.delay_min_ns, "ns"), brief=False),
    Column("FTD, largest", lambda f: text.single_or_none(f.flow.delay_max_ns, "ns"), brief=False),
    Column("FDV", lambda f: text.single_or_none(f.flow.variation_ns, "ns")),
    Column("seconds", lambda f: f"{f.step.seconds:g}", brief=False),
    Column("limits", lambda f: service_verdict(f.step.met), words=True, bold=True),
)


def service_limits(service: Service) -> str:
    """The limits of a service, in a sentence."""
    limits = [f"FLR {percent(service.loss_ratio)}"]
    if service.delay_ms is not None:
        limits.append(f"mean FTD {service.delay_ms:g} ms")
    if service.variation_ms is not None:
        limits.append(f"FDV {service.variation_ms:g} ms")
    return ", ".join(limits)


def _service_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: [r.service])
    rows = [
        _Flow(e.result, step, flow)
        for e in entries
        for step in e.outcome.all_steps
        for flow in step.flows
    ]
    notes = [
        "ITU-T Y.1564: steps of the service configuration test, with the information rate that "
        "came back (frames with FCS), up to the first that is not met, "
        "then the performance test. FDV: 99.9th percentile of the delay less the least, of the "
        "trial in which that is most.",
        *group_sentences(
            (
                e.result.size_text,
                f"committed rate {units.fps(e.outcome.cir_fps)}, aggregate ({e.outcome.of}); "
                f"limits: {service_limits(e.outcome)}.",
            )
            for e in entries
        ),
        *group_sentences(
            (f"{e.result.size_text}, {step.of}", f"{step.why}.")
            for e in entries
            for step in e.outcome.all_steps
            if step.why
        ),
        *_notes(entries),
    ]
    yield Table.from_items("Service activation", _SERVICE, rows, notes)


def _service_headline(_: Result, service: Service) -> tuple[str, str]:
    last = service.all_steps[-1]
    step_words = "" if service.met else f" at {last.of}"
    return f"{service_verdict(service.met)}{step_words}", f"CIR {units.short_fps(service.cir_fps)}"


# Tests that describe their figures themselves.


@dataclass(frozen=True, slots=True)
class _FigureRow:
    """The figures of one result that are of the same thing, by name and title."""

    result: Result
    of: str
    direction: str
    figures: dict[tuple[str, str], Figure]


def _figure_rows(entries: Iterable[Entry[Outcome]]) -> Iterator[_FigureRow]:
    for entry in entries:
        rows: dict[tuple[str, str], dict[tuple[str, str], Figure]] = {}
        for figure in entry.outcome.figures:
            row = rows.setdefault((figure.of, figure.direction), {})
            row[figure.name, figure.title] = figure
        for (of, direction), figures in rows.items():
            yield _FigureRow(entry.result, of, direction, figures)


def _figure_text(figure: Figure) -> str:
    """A figure with its unit, and with what it is a bound of."""
    value = figure.value
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Spread):
        return text.mean_interval(value, figure.unit)
    return " ".join((*figure.qualifiers, single(value, figure.unit)))


def _figure_column(key: tuple[str, str], figure: Figure) -> Column[_FigureRow]:
    def cell(row: _FigureRow) -> str | None:
        return text.text_or_none(row.figures.get(key), _figure_text)

    return Column(figure.title, cell, bold=figure.main)


def _figure_tables(group: Group) -> Iterator[Table]:
    entries = group.entries(lambda r: [r.outcome])
    if not entries:
        return
    figures = [(e.result, figure) for e in entries for figure in e.outcome.figures]
    columns: list[Column[_FigureRow]] = [
        Column("size", lambda row: row.result.size_name, words=True),
        Column("of", lambda row: row.of or None, words=True, optional=True),
        Column("direction", lambda row: row.direction or None, words=True, optional=True),
        *starmap(
            _figure_column, {(figure.name, figure.title): figure for _, figure in figures}.items()
        ),
    ]
    notes = [
        text.interval_note([f.value for _, f in figures if isinstance(f.value, Spread)]),
        *group_sentences((e.result.size_text, note) for e in entries for note in e.outcome.notes),
        *group_sentences(
            (f"{r.size_text}, {figure.full_label}", f"{remark}.")
            for r, figure in figures
            for remark in (figure.why, figure.note)
            if remark
        ),
    ]
    yield Table.from_items(entries[0].outcome.title, columns, _figure_rows(entries), notes)


def _figure_headline(_: Result, outcome: Outcome) -> tuple[str, str]:
    main = [figure for figure in outcome.figures if figure.main] or list(outcome.figures)
    return (_figure_text(main[0]), main[0].full_label) if main else ("", "")


# Frames that came back otherwise than they were sent, of every test.


def _fault_column(name: str) -> Column[Entry[FrameFaults]]:
    def cell(entry: Entry[FrameFaults]) -> str:
        count = getattr(entry.outcome, name)
        return NOT_RECORDED if count is None else frames(count)

    return Column(name, cell)


#: Kinds of faults, in the order of a table; what was verified is none.
FAULTS = tuple(name for name in FrameFaults.model_fields if name != "verified")
_FAULTS: tuple[Column[Entry[FrameFaults]], ...] = (_SIZE, *map(_fault_column, FAULTS))
#: Of a test that was deployed several times.
_DEPLOYMENT: Column[Entry[FrameFaults]] = Column(
    "deployment", lambda e: e.label or None, words=True
)
_FAULTS_NOTE = (
    "In all VALID and INCONSISTENT trials. Late, misrouted and altered frames (of another length "
    "or payload than was sent, or behind a NAT with other addresses or ports than they must have) "
    "count as lost."
)


def _fault_entries(result: Result) -> Iterator[Entry[FrameFaults]]:
    """Of all deployments together, then of each."""
    rounds = result.deployments.faults if result.deployments is not None else {}
    yield Entry(result, result.faults, f"all {len(rounds)}" if rounds else "")
    yield from (Entry(result, faults, f"round {number}") for number, faults in rounds.items())


def _fault_tables(group: Group) -> Iterator[Table]:
    rows = [
        entry
        for r in group.results
        if any(
            getattr(fault_entry.outcome, name)
            for fault_entry in _fault_entries(r)
            for name in FAULTS
        )
        for entry in _fault_entries(r)
    ]
    columns = (_SIZE, _DEPLOYMENT, *_FAULTS[1:]) if any(e.label for e in rows) else _FAULTS
    yield Table.from_items("Frames not as they were sent", columns, rows, [_FAULTS_NOTE])


#: Tables of each kind of test, in the order of a report.
_TABLES: tuple[Callable[[Group], Iterator[Table]], ...] = (
    _repetition_tables,
    latency.tables,
    _loss_tables,
    _back_to_back_tables,
    _recovery_tables,
    _reset_tables,
    _rate_tables,
    _soak_tables,
    _address_tables,
    _session_tables,
    _service_tables,
    processors.tables,
    _figure_tables,
    _fault_tables,
)
#: Where a result has what a test found -> the answer in few words.
_HEADLINES: dict[str, Callable[[Result, Any], tuple[str, str]]] = {
    "latency_at": latency.headline,
    "loss_steps": _loss_headline,
    "back_to_back": _back_to_back_headline,
    "recovery": _recovery_headline,
    "resets": _reset_headline,
    "rates": _rate_headline,
    "soak": _soak_headline,
    "addresses": _address_headline,
    "sessions": _session_headline,
    "service": _service_headline,
    "cpu_load": processors.headline,
    "outcome": _figure_headline,
}


def tables(group: Group) -> tuple[Table, ...]:
    """Every table of one scenario and test."""
    return tuple(table for tables_of in _TABLES for table in tables_of(group) if table)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words, and what it was found with, for a cell of an overview."""
    candidates = ((describe, getattr(result, name)) for name, describe in _HEADLINES.items())
    answer, conditions = next(
        (describe(result, outcome) for describe, outcome in candidates if outcome), ("", "")
    )
    return f"{answer} (irregular)" if answer and result.irregular else answer, conditions
