"""Results of tests besides a search for the throughput: their tables, and the answer in few words.

Each kind of test has a tuple of columns, notes and a headline; all of them are listed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from vnetperf.model import units
from vnetperf.model.outcomes import (
    NEAR_LONGEST,
    AddressTable,
    BackToBack,
    ForwardingRate,
    LossStep,
    NatSessions,
    Recovery,
    Reset,
    Service,
    ServiceFlow,
    ServiceStep,
    SessionsTried,
    Soak,
    Spread,
)
from vnetperf.model.result import FrameFaults, RepeatedNumber, Result
from vnetperf.model.units import frames, nanoseconds, percent, seconds
from vnetperf.report import latency, processors, text
from vnetperf.report.summary import Entry, Group, of_medium
from vnetperf.report.table import NOT_MEASURED, NOT_RECORDED, Column, Table, group_sentences
from vnetperf.report.text import single

_SIZE: Column[Entry[Any]] = Column("size", lambda e: e.result.size_name, words=True)


def _notes(known: Iterable[Entry[Any]]) -> Iterator[str]:
    """The note of each result, once for all results that have the same."""
    return group_sentences((e.result.size_text, e.found.note) for e in known)


# Deployments of a case.


def _over_text(entry: Entry[RepeatedNumber]) -> str:
    """Mean and interval over deployments; with a censored one there is no mean."""
    found = entry.found
    if found.spread is not None:
        return text.mean_interval(found.spread, found.unit)
    ends = {(one.qualifier, one.value) for one in found.observations}
    if len(ends) == 1:  # each is the same limit
        (qualifier, value), *_ = ends
        return f"{qualifier} {single(value, found.unit)}" if value is not None else qualifier
    return f"no mean: {_censored_text(found)}"


def _censored_text(found: RepeatedNumber) -> str:
    n = len(found.observations)
    return ", ".join(f"{count} of {n} {mark}" for mark, count in found.censored.items())


def _extreme(found: RepeatedNumber, choose: Callable[[Iterable[float]], float]) -> str | None:
    known = [one.value for one in found.observations if one.value is not None]
    if not known:
        return None
    return text.by_spread(choose(known), min(known), max(known), found.unit, least=2)


def _loads_text(found: RepeatedNumber) -> str | None:
    """Loads of all deployments, each of its own throughput."""
    loads = [one.load_fps for one in found.observations if one.load_fps is not None]
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
    held = result.deployments
    found = next((n for n in held.numbers if n.label == label), None) if held else None
    if found is None:
        return ""
    entry = Entry(result, found, label)
    over = f"over {_deployments_text(entry)} deployments"
    number, _, censored = _over_text(entry).partition(": ")
    return f"{number} {over}" + (f" ({censored})" if censored else "")


def _deployments_text(entry: Entry[RepeatedNumber]) -> str:
    """Those that gave the number, of those planned."""
    n, held = len(entry.found.observations), entry.result.deployments
    planned = held.planned if held is not None else n
    return str(n) if n == planned else f"{n} of {planned}"


_REPETITIONS: tuple[Column[Entry[RepeatedNumber]], ...] = (
    _SIZE,
    Column("number", lambda e: e.of, words=True),
    Column("over all deployments", _over_text, bold=True),
    Column(
        "std. dev.",
        lambda e: text.stdev(e.found.spread, e.found.unit) if e.found.spread else None,
    ),
    Column("least", lambda e: _extreme(e.found, min), brief=True),
    Column("most", lambda e: _extreme(e.found, max), brief=True),
    Column("load, aggregate", lambda e: _loads_text(e.found)),
    Column("deployments", _deployments_text),
)


def _repetition_tables(group: Group) -> Iterator[Table]:
    every = repeated_numbers(group)
    spreads = [(e, e.found.spread) for e in every if e.found.spread is not None]
    known = [(r, r.deployments) for r in group.measured if r.deployments is not None]
    shown = {f"{held.shown}" for _, held in known}
    notes = [
        text.interval_note([found for _, found in spreads]),
        f"All other figures are of one deployment, round {', '.join(sorted(shown))}: the one in "
        "the middle by its throughput, or by this number where none was measured.",
        *(
            f"{e.result.size_text}, {e.of}: {_censored_text(e.found)}: a limit enters no mean."
            for e in every
            if e.found.censored
        ),
        *group_sentences((r.size_text, f"{held.sentence}.") for r, held in known if held.failures),
        *(
            f"{e.result.size_text}, {e.of}: {remark}."
            for e, found in spreads
            for remark in text.remarks(found, e.found.unit)
        ),
    ]
    yield Table.of("Deployments", _REPETITIONS, every, notes)


# Frame loss rate.


def _loss_columns(names: Iterable[str]) -> Iterator[Column[Entry[LossStep]]]:
    yield _SIZE
    yield Column("input rate", lambda e: percent(e.found.input_ratio))
    yield Column("load, aggregate", lambda e: units.fps(e.found.load_fps))
    yield Column(
        "of the medium", lambda e: of_medium(e.found.load_fps, e.result), brief=False, optional=True
    )
    yield Column("loss, worse direction", lambda e: _step_text(e.found), bold=True)
    for name in names:
        yield Column(f"loss {name}", _loss_of(name), brief=False)
    yield Column("forwarded, aggregate", lambda e: units.fps(e.found.forwarded_fps))
    yield Column("trials", lambda e: str(len(e.found.trials)))


def _step_text(step: LossStep) -> str:
    """The loss, as a range where a part of the load was not offered."""
    most = step.most_ratio
    return percent(step.loss_ratio) + (f" to {percent(most)}" if most is not None else "")


def _loss_of(name: str) -> Callable[[Entry[LossStep]], str]:
    def cell(entry: Entry[LossStep]) -> str:
        each = entry.found.per_direction
        return percent(each[name]) if name in each else NOT_RECORDED

    return cell


def whole_load_text(result: Result) -> str:
    """What 100 % of an input rate is: mostly of what the generator can offer, not the medium."""
    whole = next((s.load_fps / s.input_ratio for s in result.loss_steps if s.input_ratio), 0.0)
    if not whole:
        return ""
    medium = result.media_max_fps
    if medium and abs(whole / medium - 1) <= _WHOLE_MEDIUM:
        return f"100 % is {units.fps(whole)}, the maximum of the medium"
    share = f", {percent(whole / medium, 3)} of the medium's {units.fps(medium)}" if medium else ""
    # A test that begins at it may have rounded it down; a profile of loss may not have reached it.
    tried = any(step.input_ratio == 1 for step in result.loss_steps)
    whose = "of this test" if tried else "that the generator offers"
    return f"100 % is {units.fps(whole)}, the largest load {whose}{share}"


#: How far a load that is all of the medium may be off it, as a share: by rounding only.
_WHOLE_MEDIUM = 1e-4


def _loss_tables(group: Group) -> Iterator[Table]:
    steps = group.entries(lambda r: r.loss_steps)
    names = dict.fromkeys(name for e in steps for name in e.found.per_direction)
    note = (
        "Input rate: share of the largest load that was offered. Loss: (input - output) / input, "
        "the mean of the trials at a load."
    )
    if any(e.found.most_ratio is not None for e in steps):
        note += " A range: frames that were not offered may have been lost as well."
    wholes = ((e.result.size_text, whole_load_text(e.result)) for e in steps)
    known = (f"{one}." for one in group_sentences(wholes))
    yield Table.of("Loss by load", tuple(_loss_columns(names)), steps, [note, *known])


def _loss_headline(_: Result, steps: tuple[LossStep, ...]) -> tuple[str, str]:
    rising = sorted(steps, key=lambda s: s.load_fps)
    clean = list(takewhile(lambda s: s.is_clean, rising))
    top = rising[-1]
    lost = f"{percent(top.loss_ratio, 3)} lost at {units.fps(top.load_fps)}"
    if not clean:
        return "loss at every load", lost
    return f"no loss up to {units.fps(clean[-1].load_fps)}", lost


# Back-to-back frames.


def _burst_text(found: BackToBack) -> str:
    """The benchmark: the mean, or why there is none."""
    if found.is_limit:
        return f"at least {single(found.frames.minimum, 'frames')} frames"
    return text.mean_interval(found.frames, "frames")


def _burst_end(found: BackToBack) -> str:
    """The longest burst of all searches."""
    if found.is_limit:
        return f"{single(found.frames.maximum, 'frames')} frames or more"
    return text.end_text(found.frames, "maximum", "frames") or NOT_MEASURED


def _capped_text(found: BackToBack) -> str:
    if not found.capped:
        return ""
    return (
        f"every burst up to the longest one tried came through in {found.at_longest} of "
        f"{found.frames.n} searches: this is no result (RFC 9004)."
    )


def _searches(found: BackToBack) -> str:
    """Searches with a value, of all."""
    n = found.frames.n
    return f"{n} of {n + found.undecided}" if found.undecided else str(n)


def _slow_bursts(found: BackToBack) -> str:
    if found.slow_bursts is None:
        return NOT_RECORDED
    return f"{found.slow_bursts} of {len(found.trials)}"


_BACK_TO_BACK: tuple[Column[Entry[BackToBack]], ...] = (
    _SIZE,
    Column("back-to-back frames, mean", lambda e: _burst_text(e.found), bold=True),
    Column("least", lambda e: text.end_text(e.found.frames, "minimum", "frames")),
    Column("most", lambda e: _burst_end(e.found)),
    Column(
        "std. dev.",
        lambda e: None if e.found.is_limit else text.stdev(e.found.frames, "frames"),
    ),
    Column("corrected buffer time", lambda e: text.if_known(e.found.corrected_s, "s")),
    Column("by RFC 9004", lambda e: text.if_known(e.found.rfc9004_corrected_s, "s")),
    Column("N", lambda e: _searches(e.found)),
    Column("step size, frames", lambda e: str(e.found.step_frames)),
    Column("implied buffer time", lambda e: text.if_known(e.found.implied_s, "s"), brief=False),
    Column(
        "implied, by RFC 9004",
        lambda e: text.if_known(e.found.rfc9004_implied_s, "s"),
        brief=False,
    ),
    Column("mean gap", lambda e: text.if_known(e.found.gap_ns, "ns") or NOT_RECORDED, brief=False),
    Column(
        "forwarded meanwhile, per interface",
        lambda e: text.if_known(e.found.forwarded_fps, "fps"),
        brief=False,
    ),
    Column(
        "ring before the DUT, frames",
        lambda e: text.known(e.found.ring_frames, str) or NOT_RECORDED,
        brief=False,
    ),
    Column(
        "throughput, aggregate", lambda e: text.if_known(e.found.throughput_fps, "fps"), brief=False
    ),
    Column(
        "theoretical rate, per interface",
        lambda e: text.if_known(e.found.max_rate_fps, "fps"),
        brief=False,
    ),
    Column("usual gap", lambda e: text.if_known(e.found.usual_gap_ns, "ns"), brief=False),
    Column("calibrated gap", lambda e: text.if_known(e.found.calibrated_gap_ns, "ns"), brief=False),
    Column("slow bursts, not counted", lambda e: _slow_bursts(e.found), brief=False),
    Column("longest tried, frames", lambda e: frames(e.found.max_burst_frames), brief=False),
)


def _back_to_back_tables(group: Group) -> Iterator[Table]:
    known = group.entries(lambda r: [r.back_to_back])
    decided = [e for e in known if not e.found.is_limit]
    notes = [
        text.interval_note([e.found.frames for e in decided]),
        "Implied buffer time: what the mean burst took at the mean gap of these bursts; corrected: "
        "without the frames that the DUT forwarded meanwhile, as those show that came back of "
        "longer bursts. By RFC 9004: mean frames / theoretical rate, and that x (1 - throughput / "
        "theoretical rate). Frames are those of one interface.",
        *group_sentences((e.result.size_text, _capped_text(e.found)) for e in known),
        *_notes(known),
        *text.remarks_of(((e.result.size_text, e.found.frames) for e in decided), "frames"),
    ]
    yield Table.of("Back-to-back frames", _BACK_TO_BACK, known, notes)


def _back_to_back_headline(_: Result, found: BackToBack) -> tuple[str, str]:
    if found.is_limit:
        reached = f"{found.at_longest} of {found.frames.n} searches reached the longest burst"
        near = f"within {1 - NEAR_LONGEST:.0%} of the longest burst"
        return _burst_text(found), f"no result: {reached if found.capped else near}"
    buffer = "" if found.corrected_s is None else f"buffer {units.time_s(found.corrected_s)}, "
    if found.is_ring:
        buffer += f"the ring of the wire ({found.ring_frames} frames), "
    return _burst_text(found), f"{buffer}N {_searches(found)}"


# System recovery.


def _recovery_trials(found: Recovery) -> str:
    """Trials that have a time, of all."""
    measured = found.seconds.n if found.seconds else 0
    every = len(found.curves) or measured
    return str(measured) if measured == every else f"{measured} of {every}"


def _last_lost(found: Recovery) -> str | None:
    if found.lost_at_end:
        return "lost until the end"
    return text.mean_interval(found.last_lost_s, "s") if found.last_lost_s else None


def _share_of_throughput(found: Recovery) -> str:
    used = found.throughput_fps
    return percent(found.overload_fps / used, 3) if used else NOT_MEASURED


_RECOVERY: tuple[Column[Entry[Recovery]], ...] = (
    _SIZE,
    Column("throughput used", lambda e: units.fps(e.found.throughput_fps)),
    Column(
        "recovery time",
        lambda e: text.mean_interval(e.found.seconds, "s") if e.found.seconds else "not measured",
        bold=True,
    ),
    Column("least", lambda e: text.end_text(e.found.seconds, "minimum", "s")),
    Column("largest", lambda e: text.end_text(e.found.seconds, "maximum", "s")),
    Column("trials", lambda e: _recovery_trials(e.found)),
    Column("to the last lost frame (RFC 2544)", lambda e: _last_lost(e.found)),
    Column(
        "usual loss at the load after",
        lambda e: text.known(e.found.usual_loss, percent) or NOT_MEASURED,
        brief=False,
    ),
    Column("overload", lambda e: units.fps(e.found.overload_fps)),
    Column("of throughput", lambda e: _share_of_throughput(e.found), brief=False),
    Column("for", lambda e: seconds(e.found.overload_s), brief=False),
    Column("load after", lambda e: units.fps(e.found.relaxed_fps), brief=False),
)


def _recovery_tables(group: Group) -> Iterator[Table]:
    known = group.entries(lambda r: [r.recovery])
    timed = [(e.result.size_text, e.found.seconds) for e in known if e.found.seconds]
    notes = [
        text.interval_note([found for _, found in timed]),
        "Recovery time: from the drop of the load until no more frames are lost than before the "
        "overload at the load after it, of trials whose last bins before the drop show an "
        "overload. RFC 2544 section 26.5 ends with the last lost frame, whatever lost it. Rates "
        "are sums.",
        *group_sentences((e.result.size_text, e.found.why) for e in known),
        *_notes(known),
        *text.remarks_of(timed, "s"),
    ]
    yield Table.of("System recovery", _RECOVERY, known, notes)


def _recovery_headline(_: Result, found: Recovery) -> tuple[str, str]:
    if found.seconds is None:
        return "not measured", found.why.removeprefix("not measured: ")
    after = f"after {units.short_fps(found.overload_fps)} for {found.overload_s:g} s"
    return text.mean_with_n(found.seconds, "s"), after


# Reset.


def _reset_time(found: Reset, spread: Spread | None) -> str | None:
    if found.by_loss_s is None and found.by_time_s is None:
        return "not measured"
    return text.mean_interval(spread, "s") if spread else None


def _reset_counts(found: Reset) -> list[int]:
    return sorted({s.n for s in (found.by_loss_s, found.by_time_s) if s})


_RESET: tuple[Column[Entry[Reset]], ...] = (
    _SIZE,
    Column("reset", lambda e: e.found.what, words=True),
    Column("type (RFC 6201)", lambda e: e.found.type, words=True),
    Column(
        "reset time, frame-loss method (4.1)",
        lambda e: _reset_time(e.found, e.found.by_loss_s),
        bold=True,
    ),
    Column(
        "reset time, time-stamp method (4.2)", lambda e: _reset_time(e.found, e.found.by_time_s)
    ),
    Column("trials", lambda e: " or ".join(map(str, _reset_counts(e.found))) or "0"),
    Column(
        "the event itself took",
        lambda e: text.mean_interval(e.found.event_s, "s") if e.found.event_s else None,
        brief=False,
    ),
    Column("load, aggregate", lambda e: units.fps(e.found.load_fps), brief=False),
)


def _reset_notes(every: list[Entry[Reset]]) -> Iterator[str]:
    methods = [(s, e) for e in every for s in (e.found.by_loss_s, e.found.by_time_s) if s]
    yield text.interval_note([s for s, _ in methods])
    yield (
        "Frame-loss method: frames lost over the load. Time-stamp method: from the last frame "
        "before to the first one after; resolution one frame."
    )
    # One size only is named by the table.
    several = len({e.result.frame_size for e in every}) > 1
    named = [
        (f"{e.found.what} at {e.result.size_text}" if several else e.found.what, e.found)
        for e in every
    ]
    yield from group_sentences((name, found.why) for name, found in named)
    yield from group_sentences((name, found.note) for name, found in named)
    yield from text.remarks_of(
        ((f"{e.result.size_text}, {e.found.what}", s) for s, e in methods), "s"
    )


def _reset_tables(group: Group) -> Iterator[Table]:
    every = group.entries(lambda r: r.resets)
    yield Table.of("Reset", _RESET, every, _reset_notes(every))


def _reset_headline(_: Result, resets: tuple[Reset, ...]) -> tuple[str, str]:
    parts = []
    for found in resets:
        time = found.by_loss_s or found.by_time_s
        parts.append(f"{found.what} {text.mean_interval(time, 's') if time else 'not measured'}")
    counts = [n for found in resets for n in _reset_counts(found)]
    return "\n".join(parts), f"n {max(counts)} each" if counts else ""


# Forwarding rate.

_RATES: tuple[Column[Entry[ForwardingRate]], ...] = (
    _SIZE,
    Column("load", lambda e: e.found.of, words=True),
    Column(
        "forwarding rate, aggregate",
        lambda e: text.mean_interval(e.found.forwarded_fps, "fps"),
        bold=True,
    ),
    Column("std. dev.", lambda e: text.stdev(e.found.forwarded_fps, "fps")),
    Column("least", lambda e: text.end_text(e.found.forwarded_fps, "minimum", "fps"), brief=False),
    Column("most", lambda e: text.end_text(e.found.forwarded_fps, "maximum", "fps"), brief=False),
    Column("trials", lambda e: str(e.found.forwarded_fps.n)),
    Column("of", lambda e: seconds(e.found.duration_s), brief=False),
    Column("loss, worse direction, mean", lambda e: percent(e.found.loss_ratio.mean)),
    Column(
        "of the medium",
        lambda e: of_medium(e.found.forwarded_fps.mean, e.result),
        brief=False,
        optional=True,
    ),
    Column("load, aggregate", lambda e: units.fps(e.found.load_fps)),
)


def _rate_tables(group: Group) -> Iterator[Table]:
    every = group.entries(lambda r: r.rates)
    named = ((f"{e.result.size_text}, {e.found.of}", e.found.forwarded_fps) for e in every)
    notes = [
        text.interval_note([e.found.forwarded_fps for e in every]),
        "Maximum offered load: the largest that this generator offered on this machine, as the "
        "column of loads has it. It is no property of the DUT; a rate under another overload is "
        "another number.",
        *text.remarks_of(named, "fps"),
    ]
    yield Table.of("Forwarding rate", _RATES, every, notes)


def _rate_headline(_: Result, rates: tuple[ForwardingRate, ...]) -> tuple[str, str]:
    best = max(rates, key=lambda found: found.forwarded_fps.mean)
    load = f"at {units.short_fps(best.load_fps)}, {percent(best.loss_ratio.mean, 3)} lost"
    return text.mean_with_n(best.forwarded_fps, "fps"), load


# Soak.


def soak_verdict(found: Soak) -> str:
    """Whether the limit of the loss ratio was met, as far as the interval shows."""
    if found.not_judged:
        return f"not judged: {found.not_judged}"
    if found.loss_high is None:
        return _verdict_without_loss(found.goal_holds_to)
    if found.loss_low <= found.goal < found.loss_high:
        return "undecided: the interval holds the limit"
    return "met" if found.loss_high <= found.goal else "not met"


def _verdict_without_loss(most: int | None) -> str:
    if not most:
        return "undecided: nothing was lost, of too few frames to show the limit"
    return f"met if no event loses over {frames(most)} frames: none was seen"


def soak_interval(found: Soak) -> str:
    """The interval of the loss ratio; without loss it has no upper end."""
    if found.loss_high is None:
        return "no event seen"
    return f"{percent(found.loss_low, 3)} to {percent(found.loss_high, 3)}"


def _lossy_trials(found: Soak) -> str:
    if found.lossy_trials is None:
        return NOT_RECORDED
    return f"{found.lossy_trials} of {len(found.trials)}"


def _longest_event(found: Soak) -> str:
    if found.largest_event is None or found.longest_event_s is None:
        return "not measured"
    if not found.largest_event:
        return "none"
    return f"{frames(found.largest_event)} frames, within {seconds(found.longest_event_s)}"


def _largest_pdv(found: Soak) -> str | None:
    known = [v.pdv_ns for v in found.variation.values() if v.pdv_ns is not None]
    return nanoseconds(max(known)) if known else None


_SOAK: tuple[Column[Entry[Soak]], ...] = (
    _SIZE,
    Column("load, aggregate", lambda e: units.fps(e.found.load_fps), brief=False),
    Column("which is", lambda e: e.found.of, words=True),
    Column("traffic", lambda e: seconds(e.found.seconds)),
    Column("loss, worse direction", lambda e: percent(e.found.loss_ratio), bold=True),
    Column("95 % interval", lambda e: soak_interval(e.found)),
    Column("trials with loss", lambda e: _lossy_trials(e.found)),
    Column("largest event", lambda e: _longest_event(e.found)),
    Column("limit", lambda e: percent(e.found.goal)),
    Column("verdict", lambda e: soak_verdict(e.found), words=True),
    Column("lost, frames", lambda e: frames(e.found.lost), brief=False),
    Column("offered, frames", lambda e: frames(e.found.offered), brief=False),
    Column("PDV, worse direction", lambda e: _largest_pdv(e.found), brief=False),
)


def _soak_tables(group: Group) -> Iterator[Table]:
    known = group.entries(lambda r: [r.soak])
    varied = [(e.result.size_text, v.why) for e in known for v in e.found.variation.values()]
    notes = [
        "Interval of the loss ratio: its unit is the trial, as losses come in events (gamma "
        "interval of Fay and Feuer; Student's t where each of many trials lost frames). Without "
        "loss it has no upper end: nothing shows how many frames an event takes.",
        *_notes(known),
        *group_sentences(varied),
    ]
    yield Table.of("Soak", _SOAK, known, notes)


def _soak_headline(_: Result, found: Soak) -> tuple[str, str]:
    verdict = soak_verdict(found).partition(":")[0]
    below = "" if found.loss_high is None else f"below {percent(found.loss_high, 3)}; "
    return f"{percent(found.loss_ratio, 3)} lost", f"{below}{verdict}"


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


def _searched(test: str, found: AddressTable | NatSessions) -> tuple[str, str]:
    """Entries of a table and their rate; where the search met no limit its own is a bound."""
    if isinstance(found, AddressTable):
        count, rate = frames(found.addresses), units.fps(found.learning_fps)
    else:
        count, rate = frames(found.sessions), units.short_fps(found.rate_per_s)
    if not found.capped:
        return count, rate
    return (count, f"at least {rate}") if test in _OF_RATES else (f"at least {count}", rate)


def _searched_columns(test: str, count: str, rate: str) -> Iterator[Column[Entry[Any]]]:
    """Entries of a table and their rate, of which the test searches one."""
    of_rate = test in _OF_RATES
    yield _SIZE
    yield Column(count, lambda e: _searched(test, e.found)[0], bold=not of_rate)
    yield Column(rate, lambda e: _searched(test, e.found)[1], bold=of_rate)


def _address_tables(group: Group) -> Iterator[Table]:
    known = group.entries(lambda r: [r.addresses])
    names = ("address caching capacity", "addresses sent at")
    if group.test in _OF_RATES:
        names = ("addresses used", "address learning rate")
    tried_of: Column[Entry[AddressTable]] = Column("tried", lambda e: str(len(e.found.tried)))
    columns = (*_searched_columns(group.test, *names), tried_of)
    capped = "the most that was tried was no limit."
    notes = [
        *group_sentences((e.result.size_text, capped if e.found.capped else "") for e in known),
        *_notes(known),
    ]
    yield Table.of("Addresses", columns, known, notes)
    tried = [(e.result, one) for e in known for one in e.found.tried]
    yield Table.of("Numbers and rates tried", _TRIED, tried, terminal=False)


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
    known = group.entries(lambda r: [r.sessions])
    names = ("capacity, sessions", "made at, 1/s")
    if group.test in _OF_RATES:
        names = ("sessions", "establishment rate, 1/s")
    columns: tuple[Column[Entry[NatSessions]], ...] = (
        *_searched_columns(group.test, *names),
        Column("of each search", lambda e: ", ".join(map(units.short_fps, e.found.rates)) or None),
        Column("tear-down rate, 1/s", lambda e: text.known(e.found.ended_per_s, units.short_fps)),
    )
    yield Table.of("Sessions", columns, known, _notes(known))
    tried = [(e.result, one) for e in known for one in e.found.tried]
    yield Table.of("Trials that make sessions", _SESSIONS_TRIED, tried, terminal=False)


def _session_headline(result: Result, found: NatSessions) -> tuple[str, str]:
    count, rate = _searched(result.test, found)
    if result.test in _OF_RATES:
        return f"{rate} 1/s", f"{count} sessions"
    return f"{count} sessions", f"made at {rate} 1/s"


def _address_headline(result: Result, found: AddressTable) -> tuple[str, str]:
    count, rate = _searched(result.test, found)
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
    Column("FTD, mean", lambda f: text.if_known(f.flow.delay_mean_ns, "ns")),
    Column("FTD, least", lambda f: text.if_known(f.flow.delay_min_ns, "ns"), brief=False),
    Column("FTD, largest", lambda f: text.if_known(f.flow.delay_max_ns, "ns"), brief=False),
    Column("FDV", lambda f: text.if_known(f.flow.variation_ns, "ns")),
    Column("seconds", lambda f: f"{f.step.seconds:g}", brief=False),
    Column("limits", lambda f: service_verdict(f.step.met), words=True, bold=True),
)


def service_limits(found: Service) -> str:
    """The limits of a service, in a sentence."""
    limits = [f"FLR {percent(found.loss_ratio)}"]
    if found.delay_ms is not None:
        limits.append(f"mean FTD {found.delay_ms:g} ms")
    if found.variation_ms is not None:
        limits.append(f"FDV {found.variation_ms:g} ms")
    return ", ".join(limits)


def _service_tables(group: Group) -> Iterator[Table]:
    known = group.entries(lambda r: [r.service])
    rows = [
        _Flow(e.result, step, flow)
        for e in known
        for step in e.found.every_step
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
                f"committed rate {units.fps(e.found.cir_fps)}, aggregate ({e.found.of}); limits: "
                f"{service_limits(e.found)}.",
            )
            for e in known
        ),
        *group_sentences(
            (f"{e.result.size_text}, {step.of}", f"{step.why}.")
            for e in known
            for step in e.found.every_step
            if step.why
        ),
        *_notes(known),
    ]
    yield Table.of("Service activation", _SERVICE, rows, notes)


def _service_headline(_: Result, found: Service) -> tuple[str, str]:
    last = found.every_step[-1]
    at = "" if found.met else f" at {last.of}"
    return f"{service_verdict(found.met)}{at}", f"CIR {units.short_fps(found.cir_fps)}"


# Frames that came back otherwise than they were sent, of every test.


def _fault_column(name: str) -> Column[Entry[FrameFaults]]:
    def cell(entry: Entry[FrameFaults]) -> str:
        count = getattr(entry.found, name)
        return NOT_RECORDED if count is None else frames(count)

    return Column(name, cell)


#: Kinds of faults, in the order of a table; what was verified is none.
FAULTS = tuple(name for name in FrameFaults.model_fields if name != "verified")
_FAULTS: tuple[Column[Entry[FrameFaults]], ...] = (_SIZE, *map(_fault_column, FAULTS))
#: Of a test that was deployed several times.
_DEPLOYMENT: Column[Entry[FrameFaults]] = Column("deployment", lambda e: e.of or None, words=True)
_FAULTS_NOTE = (
    "In all VALID and INCONSISTENT trials. Late, misrouted and altered frames (of another length "
    "or payload than was sent, or behind a NAT with other addresses or ports than they must have) "
    "count as lost."
)


def _fault_entries(result: Result) -> Iterator[Entry[FrameFaults]]:
    """Of all deployments together, then of each."""
    rounds = result.deployments.faults if result.deployments is not None else {}
    yield Entry(result, result.faults, f"all {len(rounds)}" if rounds else "")
    yield from (Entry(result, found, f"round {number}") for number, found in rounds.items())


def _fault_tables(group: Group) -> Iterator[Table]:
    rows = [
        entry
        for r in group.results
        if any(getattr(one.found, name) for one in _fault_entries(r) for name in FAULTS)
        for entry in _fault_entries(r)
    ]
    columns = (_SIZE, _DEPLOYMENT, *_FAULTS[1:]) if any(e.of for e in rows) else _FAULTS
    yield Table.of("Frames not as they were sent", columns, rows, [_FAULTS_NOTE])


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
}


def tables(group: Group) -> tuple[Table, ...]:
    """Every table of one scenario and test."""
    return tuple(table for tables_of in _TABLES for table in tables_of(group) if table)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words, and what it was found with, for a cell of an overview."""
    held = ((of, getattr(result, name)) for name, of in _HEADLINES.items())
    answer, more = next((of(result, found) for of, found in held if found), ("", ""))
    return f"{answer} (irregular)" if answer and result.irregular else answer, more
