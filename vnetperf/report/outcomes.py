"""Results of tests besides a search for the throughput: their tables, and the answer in few words.

Each kind of test has a tuple of columns, notes and a headline; all of them are listed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, TypeVar

from vnetperf.model import units
from vnetperf.model.outcomes import (
    AddressTable,
    BackToBack,
    DelayVariation,
    ForwardingRate,
    LatencyAt,
    LossStep,
    Recovery,
    Reset,
    Soak,
    Spread,
)
from vnetperf.model.result import Result
from vnetperf.model.trial import Latency
from vnetperf.model.units import frames, nanoseconds, percent, seconds
from vnetperf.report import goal_text, text
from vnetperf.report.summary import Group
from vnetperf.report.table import Column, Table, group_sentences
from vnetperf.report.text import ValueKind, single
from vnetperf.results.metrics import latency_directions

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Entry(Generic[Found]):
    """What was found of something in one result, which a row shows."""

    result: Result
    found: Found
    of: str = ""


def _entries(group: Group, find: Callable[[Result], Iterable[Found | None]]) -> list[Entry[Found]]:
    return [Entry(r, one) for r in group.measured for one in find(r) if one is not None]


_SIZE: Column[Entry[Any]] = Column("size", lambda e: e.result.size_name, words=True)


def _if_known(value: float | None, kind: ValueKind) -> str | None:
    return None if value is None else single(value, kind)


def _remarks(known: Iterable[tuple[str, Spread]], kind: ValueKind) -> Iterator[str]:
    for about, found in known:
        yield from (f"{about}: {remark}." for remark in text.remarks(found, kind))


def _spread_columns(
    get: Callable[[Any], Spread], kind: ValueKind, n: str, *, brief: bool = False
) -> tuple[Column[Any], ...]:
    """Standard deviation and extremes, and the number of measurements, which `n` names."""
    return (
        Column("std. dev.", lambda e: text.stdev(get(e), kind)),
        Column("least", lambda e: single(get(e).minimum, kind), brief=brief),
        Column("most", lambda e: single(get(e).maximum, kind), brief=brief),
        Column(n, lambda e: str(get(e).n)),
    )


# Rounds of a search.


def _rounds_text(entry: Entry[Spread]) -> str:
    """The mean of all rounds; where each is only a limit, that limit."""
    found = entry.found
    goal = next(goal for goal in entry.result.goals if goal.name == entry.of)
    if goal.qualifier and found.minimum == found.maximum:
        return f"{goal.qualifier} {units.fps(found.mean)}"
    return text.mean_interval(found, "fps")


def repeated_goals(group: Group) -> list[Entry[Spread]]:
    """Goals that were searched for several times."""
    return [
        Entry(result, goal.repeats, goal.name)
        for result in group.measured
        for goal in result.goals
        if goal.repeats is not None
    ]


_REPETITIONS: tuple[Column[Entry[Spread]], ...] = (
    _SIZE,
    Column("goal", lambda e: e.of, words=True),
    Column("lower bound, aggregate", _rounds_text, bold=True),
    *_spread_columns(lambda e: e.found, "fps", "rounds", brief=True),
)


def _repetition_tables(group: Group) -> Iterator[Table]:
    every = repeated_goals(group)
    notes = [
        text.interval_note([e.found for e in every]),
        "All other figures are of the round whose lower bound is in the middle.",
        *_remarks(((f"{e.result.size_text}, {e.of}", e.found) for e in every), "fps"),
    ]
    yield Table.of("Rounds", _REPETITIONS, every, notes)


# Latency.


@dataclass(frozen=True, slots=True)
class _Direction:
    """Latency of one direction at one load."""

    result: Result
    at: LatencyAt
    name: str

    @property
    def mean(self) -> Spread | None:
        return self.at.mean_ns.get(self.name)

    @property
    def latency(self) -> Latency | None:
        return self.at.latency.get(self.name)

    @property
    def variation(self) -> DelayVariation | None:
        return self.at.variation.get(self.name)

    def varied(self, part: str) -> str | None:
        return _if_known(getattr(self.variation, part), "ns")

    def extreme(self, part: str) -> str | None:
        return _if_known(getattr(self.latency, part), "ns") if self.latency else None

    def percentile(self, level: str) -> str | None:
        return _if_known(self.latency.percentiles.get(level) if self.latency else None, "ns")


def _of_medium(load_fps: float, result: Result) -> str | None:
    return percent(load_fps / result.media_max_fps, 3) if result.media_max_fps else None


_LATENCY: tuple[Column[_Direction], ...] = (
    Column("size", lambda d: d.result.size_name, words=True),
    Column("load", lambda d: d.at.of, words=True),
    Column("direction", lambda d: d.name, words=True),
    Column(
        "latency, mean of the trials",
        lambda d: text.mean_with_n(d.mean, "ns") if d.mean else None,
        bold=True,
    ),
    Column("least", lambda d: d.extreme("min_ns"), brief=False),
    Column("median", lambda d: d.percentile("50")),
    Column("99 %", lambda d: d.percentile("99")),
    Column("99.9 %", lambda d: d.percentile("99.9"), brief=False),
    Column("largest", lambda d: d.extreme("max_ns")),
    Column("tester's poll gaps", lambda d: goal_text.gaps_text(d.at.gaps), brief=False),
    Column("loss", lambda d: percent(d.at.loss_ratio), brief=False),
    Column("rate, aggregate", lambda d: units.fps(d.at.load_fps), brief=False),
    Column("of the medium", lambda d: _of_medium(d.at.load_fps, d.result), brief=False),
)
_VARIATION: tuple[Column[_Direction], ...] = (
    *_LATENCY[:3],
    Column("PDV, D(99.9) - Dmin", lambda d: d.varied("pdv_ns")),
    Column("IPDV least", lambda d: d.varied("ipdv_min_ns"), brief=False),
    Column("IPDV median", lambda d: d.varied("ipdv_median_ns")),
    Column("IPDV largest", lambda d: d.varied("ipdv_max_ns"), brief=False),
)


def _latency_notes(every: list[_Direction], group: Group) -> Iterator[str]:
    loads = _entries(group, lambda r: r.latency_at)
    yield text.interval_note([s for e in loads for s in e.found.mean_ns.values()])
    for definition in dict.fromkeys(e.found.definition for e in loads):
        ends = {"store-and-forward": "last bit in to first bit out"}
        how = ends.get(definition, "first bit in to first bit out")
        yield f"Latency as RFC 1242 section 3.8 defines it for {definition} devices: {how}."
    tags = sorted({e.found.tag_at_s for e in loads})
    if any(tags):
        shown = " or ".join(seconds(tag) for tag in tags)
        yield f"Frames of the first {shown} of a trial are not in it; every later one is."
    means = ((f"{d.result.size_text}, {d.at.of}, {d.name}", d.mean) for d in every if d.mean)
    yield from _remarks(means, "ns")
    yield from group_sentences(
        (f"{e.result.size_text} at {e.found.of}", e.found.note) for e in loads
    )
    for d in every:
        about = f"{d.result.size_name} at {d.at.of}, {d.name}"
        if bound := goal_text.tester_bound_text(d.at.gaps, d.latency):
            gaps = goal_text.gaps_text(d.at.gaps)
            yield f"{about}: {goal_text.TESTER_BOUND} at {bound}: the tester's gaps are {gaps}."
        if d.latency is not None and (untimed := goal_text.untimed_text(d.latency)):
            yield f"{about}: {untimed}."
    lossy = {f"{e.result.size_name} at {e.found.of}" for e in loads if e.found.loss_ratio > 0}
    if lossy:
        yield f"Frames were lost; their latency is unknown: {', '.join(sorted(lossy))}."


def _latency_tables(group: Group) -> Iterator[Table]:
    every = [
        _Direction(e.result, e.found, name)
        for e in _entries(group, lambda r: r.latency_at)
        for name in latency_directions(e.found)
    ]
    yield Table.of("Latency", _LATENCY, every, _latency_notes(every, group))
    varied = [(d, d.variation) for d in every if d.variation is not None]
    why = [(f"{d.result.size_text} at {d.at.of}", found.why) for d, found in varied]
    notes = [
        "The largest of all trials. PDV: RFC 5481 section 4.2; IPDV: RFC 8219 section 7.3.2.",
        *group_sentences(why),
    ]
    yield Table.of("Delay variation", _VARIATION, [d for d, _ in varied], notes)


def _latency_headline(_: Result, loads: tuple[LatencyAt, ...]) -> tuple[str, str]:
    at = loads[0]
    slowest = max(at.mean_ns.values(), key=lambda s: s.mean, default=None)
    if slowest is None:
        return "not measured", at.note or f"no frame arrived at {at.of}"
    worst = max((v.percentiles.get("99", 0.0) for v in at.latency.values()), default=0.0)
    tail = f"99 %: {nanoseconds(worst)}, " if worst else ""
    return text.mean_with_n(slowest, "ns"), f"{tail}at {at.of}"


# Frame loss rate.


def _loss_columns(names: Iterable[str]) -> Iterator[Column[Entry[LossStep]]]:
    yield _SIZE
    yield Column("input rate", lambda e: percent(e.found.input_ratio))
    yield Column("load, aggregate", lambda e: units.fps(e.found.load_fps))
    yield Column("loss, worse direction", lambda e: percent(e.found.loss_ratio), bold=True)
    for name in names:
        yield Column(f"loss {name}", _loss_of(name), brief=False)
    yield Column("forwarded, aggregate", lambda e: units.fps(e.found.forwarded_fps))
    yield Column("trials", lambda e: str(len(e.found.trials)))


def _loss_of(name: str) -> Callable[[Entry[LossStep]], str]:
    def cell(entry: Entry[LossStep]) -> str:
        each = entry.found.per_direction
        return percent(each[name]) if name in each else "not reported"

    return cell


def _loss_tables(group: Group) -> Iterator[Table]:
    steps = _entries(group, lambda r: r.loss_steps)
    names = dict.fromkeys(name for e in steps for name in e.found.per_direction)
    note = (
        "Input rate: share of the largest load that was offered. Loss: (input - output) / input, "
        "the mean of the trials at a load."
    )
    yield Table.of("Loss by load", tuple(_loss_columns(names)), steps, [note])


def _loss_headline(_: Result, steps: tuple[LossStep, ...]) -> tuple[str, str]:
    rising = sorted(steps, key=lambda s: s.load_fps)
    clean = list(takewhile(lambda s: s.loss_ratio <= 0, rising))
    top = rising[-1]
    lost = f"{percent(top.loss_ratio, 3)} lost at {units.short_fps(top.load_fps)}"
    if not clean:
        return "loss at every load", lost
    return f"no loss to {units.short_fps(clean[-1].load_fps)}", lost


# Back-to-back frames.


def _burst_text(found: BackToBack) -> str:
    """The benchmark: the mean, or why there is none."""
    if found.capped:
        return f"at least {frames(found.max_burst_frames)} frames"
    return text.mean_interval(found.frames, "frames")


_BACK_TO_BACK: tuple[Column[Entry[BackToBack]], ...] = (
    _SIZE,
    Column("back-to-back frames, mean", lambda e: _burst_text(e.found), bold=True),
    Column("least", lambda e: single(e.found.frames.minimum, "frames")),
    Column("most", lambda e: single(e.found.frames.maximum, "frames")),
    Column("std. dev.", lambda e: text.stdev(e.found.frames, "frames")),
    Column("corrected buffer time", lambda e: _if_known(e.found.corrected_s, "s")),
    Column("N", lambda e: str(e.found.frames.n)),
    Column("step size, frames", lambda e: str(e.found.step_frames)),
    Column("implied buffer time", lambda e: _if_known(e.found.implied_s, "s"), brief=False),
    Column(
        "throughput, aggregate", lambda e: _if_known(e.found.throughput_fps, "fps"), brief=False
    ),
    Column(
        "theoretical rate, per interface", lambda e: units.fps(e.found.max_rate_fps), brief=False
    ),
    Column("mean gap", lambda e: _if_known(e.found.gap_ns, "ns"), brief=False),
    Column("longest tried, frames", lambda e: frames(e.found.max_burst_frames), brief=False),
)


def _back_to_back_tables(group: Group) -> Iterator[Table]:
    known = _entries(group, lambda r: [r.back_to_back])
    capped = "every burst up to the longest one tried came through: this is no result (RFC 9004)."
    notes = [
        text.interval_note([e.found.frames for e in known]),
        "Implied buffer time: mean frames / theoretical rate; corrected: implied x (1 - throughput "
        "/ theoretical rate). Frames are those of one interface.",
        *group_sentences((e.result.size_text, capped if e.found.capped else "") for e in known),
        *group_sentences((e.result.size_text, e.found.note) for e in known),
        *_remarks(((e.result.size_text, e.found.frames) for e in known), "frames"),
    ]
    yield Table.of("Back-to-back frames", _BACK_TO_BACK, known, notes)


def _back_to_back_headline(_: Result, found: BackToBack) -> tuple[str, str]:
    if found.capped:
        return _burst_text(found), "no result: the longest burst tried"
    buffer = "" if found.corrected_s is None else f"buffer {units.time_s(found.corrected_s)}, "
    return _burst_text(found), f"{buffer}N {found.frames.n}"


# System recovery.

#: How a note begins that takes the number's worth.
_NO_RESULT = "no result"


def _recovery_text(found: Recovery) -> str:
    """The time, or that what was seen is no result."""
    if found.note.startswith(_NO_RESULT):
        return _NO_RESULT
    return text.mean_interval(found.seconds, "s")


def _share_of_throughput(found: Recovery) -> str:
    used = found.throughput_fps
    return percent(found.overload_fps / used) if used else "not measured"


_RECOVERY: tuple[Column[Entry[Recovery]], ...] = (
    _SIZE,
    Column("throughput used", lambda e: units.fps(e.found.throughput_fps)),
    Column("recovery time", lambda e: _recovery_text(e.found), bold=True),
    Column("least", lambda e: units.time_s(e.found.seconds.minimum)),
    Column("largest", lambda e: units.time_s(e.found.seconds.maximum)),
    Column("trials", lambda e: str(e.found.seconds.n)),
    Column("overload", lambda e: units.fps(e.found.overload_fps)),
    Column("of throughput", lambda e: _share_of_throughput(e.found), brief=False),
    Column("for", lambda e: seconds(e.found.overload_s), brief=False),
    Column("load after", lambda e: units.fps(e.found.relaxed_fps), brief=False),
)


def _recovery_tables(group: Group) -> Iterator[Table]:
    known = _entries(group, lambda r: [r.recovery])
    notes = [
        text.interval_note([e.found.seconds for e in known]),
        "From the drop of the load to the last frame that was lost. Rates are sums.",
        *group_sentences((e.result.size_text, e.found.note) for e in known),
        *_remarks(((e.result.size_text, e.found.seconds) for e in known), "s"),
    ]
    yield Table.of("System recovery", _RECOVERY, known, notes)


def _recovery_headline(_: Result, found: Recovery) -> tuple[str, str]:
    if _recovery_text(found) == _NO_RESULT:
        return _NO_RESULT, found.note.removeprefix(f"{_NO_RESULT}: ")
    after = f"after {units.short_fps(found.overload_fps)} for {found.overload_s:g} s"
    return text.mean_with_n(found.seconds, "s"), found.note or after


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
    yield from _remarks(((f"{e.result.size_text}, {e.found.what}", s) for s, e in methods), "s")


def _reset_tables(group: Group) -> Iterator[Table]:
    every = _entries(group, lambda r: r.resets)
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
    *_spread_columns(lambda e: e.found.forwarded_fps, "fps", "trials"),
    Column("of", lambda e: seconds(e.found.duration_s), brief=False),
    Column("loss, worse direction, mean", lambda e: percent(e.found.loss_ratio.mean)),
    Column(
        "of the medium",
        lambda e: _of_medium(e.found.forwarded_fps.mean, e.result) or "not measured",
        brief=False,
    ),
    Column("load, aggregate", lambda e: units.fps(e.found.load_fps)),
)


def _rate_tables(group: Group) -> Iterator[Table]:
    every = _entries(group, lambda r: r.rates)
    named = ((f"{e.result.size_text}, {e.found.of}", e.found.forwarded_fps) for e in every)
    notes = [
        text.interval_note([e.found.forwarded_fps for e in every]),
        *_remarks(named, "fps"),
    ]
    yield Table.of("Forwarding rate", _RATES, every, notes)


def _rate_headline(_: Result, rates: tuple[ForwardingRate, ...]) -> tuple[str, str]:
    best = max(rates, key=lambda found: found.forwarded_fps.mean)
    load = f"at {units.short_fps(best.load_fps)}, {percent(best.loss_ratio.mean, 3)} lost"
    return text.mean_with_n(best.forwarded_fps, "fps"), load


# Soak.


def soak_verdict(found: Soak) -> str:
    """Whether the limit of the loss ratio was met, as far as the interval shows."""
    if found.loss_high <= found.goal:
        return "met"
    if found.loss_low > found.goal:
        return "not met"
    return "undecided: the interval holds the limit"


def _largest_pdv(found: Soak) -> str | None:
    known = [v.pdv_ns for v in found.variation.values() if v.pdv_ns is not None]
    return nanoseconds(max(known)) if known else None


_SOAK: tuple[Column[Entry[Soak]], ...] = (
    _SIZE,
    Column("load, aggregate", lambda e: units.fps(e.found.load_fps), brief=False),
    Column("which is", lambda e: e.found.of, words=True),
    Column("traffic", lambda e: seconds(e.found.seconds)),
    Column("loss, worse direction", lambda e: percent(e.found.loss_ratio), bold=True),
    Column(
        "95 % interval",
        lambda e: f"{percent(e.found.loss_low, 3)} to {percent(e.found.loss_high, 3)}",
    ),
    Column("limit", lambda e: percent(e.found.goal)),
    Column("verdict", lambda e: soak_verdict(e.found), words=True),
    Column("lost, frames", lambda e: frames(e.found.lost), brief=False),
    Column("offered, frames", lambda e: frames(e.found.offered), brief=False),
    Column("PDV, worse direction", lambda e: _largest_pdv(e.found), brief=False),
)


def _soak_tables(group: Group) -> Iterator[Table]:
    known = _entries(group, lambda r: [r.soak])
    varied = [(e.result.size_text, v.why) for e in known for v in e.found.variation.values()]
    notes = [
        "Interval of the loss ratio: Clopper-Pearson, as if frames were lost independently.",
        *group_sentences((e.result.size_text, e.found.note) for e in known),
        *group_sentences(varied),
    ]
    yield Table.of("Soak", _SOAK, known, notes)


def _soak_headline(_: Result, found: Soak) -> tuple[str, str]:
    verdict = soak_verdict(found).partition(":")[0]
    return f"{percent(found.loss_ratio, 3)} lost", f"below {percent(found.loss_high, 3)}; {verdict}"


# Address caching and learning.

_LEARNING_TEST = "address_learning"
_TRIED: tuple[Column[tuple[Result, tuple[int, float, bool, int]]], ...] = (
    Column("size", lambda t: t[0].size_name, words=True),
    Column("addresses", lambda t: frames(t[1][0])),
    Column("sent at", lambda t: units.fps(t[1][1])),
    Column("learned", lambda t: "all" if t[1][2] else "not all", words=True),
    Column("trial", lambda t: str(t[1][3])),
)


def _address_texts(test: str, found: AddressTable) -> tuple[str, str]:
    """Addresses and rate; the one that was searched carries the qualifier."""
    count, rate = frames(found.addresses), units.fps(found.learning_fps)
    if not found.capped:
        return count, rate
    return (count, f"at least {rate}") if test == _LEARNING_TEST else (f"at least {count}", rate)


def _address_tables(group: Group) -> Iterator[Table]:
    known, learning = _entries(group, lambda r: [r.addresses]), group.test == _LEARNING_TEST
    columns: tuple[Column[Entry[AddressTable]], ...] = (
        _SIZE,
        Column(
            "addresses used" if learning else "address caching capacity",
            lambda e: _address_texts(group.test, e.found)[0],
            bold=not learning,
        ),
        Column(
            "address learning rate" if learning else "addresses sent at",
            lambda e: _address_texts(group.test, e.found)[1],
            bold=learning,
        ),
        Column("tried", lambda e: str(len(e.found.tried))),
    )
    capped = "the most that was tried was no limit."
    notes = [
        *group_sentences((e.result.size_text, capped if e.found.capped else "") for e in known),
        *group_sentences((e.result.size_text, e.found.note) for e in known),
    ]
    yield Table.of("Addresses", columns, known, notes)
    tried = [(e.result, one) for e in known for one in e.found.tried]
    yield Table.of("Numbers and rates tried", _TRIED, tried, terminal=False)


def _address_headline(result: Result, found: AddressTable) -> tuple[str, str]:
    count, rate = _address_texts(result.test, found)
    if result.test == _LEARNING_TEST:
        return rate, f"{count} addresses"
    return f"{count} addresses", f"sent at {rate}"


#: Tables of each kind of test, in the order of a report.
_TABLES: tuple[Callable[[Group], Iterator[Table]], ...] = (
    _repetition_tables,
    _latency_tables,
    _loss_tables,
    _back_to_back_tables,
    _recovery_tables,
    _reset_tables,
    _rate_tables,
    _soak_tables,
    _address_tables,
)
#: Where a result has what a test found -> the answer in few words.
_HEADLINES: dict[str, Callable[[Result, Any], tuple[str, str]]] = {
    "latency_at": _latency_headline,
    "loss_steps": _loss_headline,
    "back_to_back": _back_to_back_headline,
    "recovery": _recovery_headline,
    "resets": _reset_headline,
    "rates": _rate_headline,
    "soak": _soak_headline,
    "addresses": _address_headline,
}


def tables(group: Group) -> tuple[Table, ...]:
    """Every table of one scenario and test."""
    return tuple(table for tables_of in _TABLES for table in tables_of(group) if table)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words, and what it was found with, for a cell of an overview."""
    held = ((of, getattr(result, name)) for name, of in _HEADLINES.items())
    return next((of(result, found) for of, found in held if found), ("", ""))
