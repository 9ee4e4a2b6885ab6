"""Results of tests besides a search: tables, headlines, numbers; here of events and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vnetperf.model.outcomes import AddressTable, BackToBack, Recovery, Reset, Spread
from vnetperf.model.result import Result
from vnetperf.report import load_outcomes, text
from vnetperf.report.summary import Group
from vnetperf.report.table import NONE, Table, distinct_sentences, group_sentences

_BACK_TO_BACK_HEAD = (
    "size",
    "back-to-back frames, mean",
    "least",
    "most",
    "std. dev.",
    "corrected buffer time",
    "N",
    "step size, frames",
    "implied buffer time",
    "throughput, aggregate",
    "theoretical rate, per interface",
    "mean gap",
    "longest tried, frames",
)


def _time_or_none(value: float | None) -> str:
    return NONE if value is None else text.time_s(value)


def burst_text(found: BackToBack) -> str:
    """The benchmark: the mean, or why there is none."""
    if found.capped:
        return f"at least {text.frames(found.max_burst_frames)} frames"
    return text.mean_interval(found.frames, "frames")


def _back_to_back_row(result: Result, found: BackToBack) -> tuple[str, ...]:
    return (
        result.size_name,
        burst_text(found),
        text.single(found.frames.minimum, "frames"),
        text.single(found.frames.maximum, "frames"),
        text.stdev(found.frames, "frames"),
        _time_or_none(found.corrected_s),
        str(found.frames.n),
        str(found.step_frames),
        _time_or_none(found.implied_s),
        NONE if found.throughput_fps is None else text.fps(found.throughput_fps),
        text.fps(found.max_rate_fps),
        NONE if found.gap_ns is None else text.nanoseconds(found.gap_ns),
        text.frames(found.max_burst_frames),
    )


def _back_to_back_notes(known: list[tuple[Result, BackToBack]]) -> Iterator[str]:
    yield text.interval_note([found.frames for _, found in known])
    yield (
        "Implied buffer time: mean frames / theoretical rate; corrected: implied x (1 - throughput "
        "/ theoretical rate). Frames are those of one interface."
    )
    capped = "every burst up to the longest one tried came through: this is no result (RFC 9004)."
    yield from group_sentences((r.size_text, capped if found.capped else "") for r, found in known)
    yield from group_sentences((r.size_text, found.note) for r, found in known)
    for result, found in known:
        for remark in text.remarks(found.frames, "frames"):
            yield f"{result.size_text}: {remark}."


def back_to_back_tables(group: Group) -> tuple[Table, ...]:
    """Bursts by frame size."""
    known = [(r, r.back_to_back) for r in group.measured if r.back_to_back]
    return (
        Table(
            "Back-to-back frames",
            _BACK_TO_BACK_HEAD,
            tuple(_back_to_back_row(*pair) for pair in known),
            distinct_sentences(_back_to_back_notes(known)),
            brief=(0, 1, 2, 3, 4, 5, 6, 7),
            bold=1,
        ),
    )


def back_to_back_headline(result: Result) -> tuple[str, str]:
    """The answer in few words."""
    found = result.back_to_back
    if found is None:
        return "", ""
    if found.capped:
        return burst_text(found), "no result: the longest burst tried"
    buffer = f"buffer {_time_or_none(found.corrected_s)}, " if found.corrected_s is not None else ""
    return burst_text(found), f"{buffer}N {found.frames.n}"


#: How a note begins that takes the number's worth.
_NO_RESULT = "no result"
_RECOVERY_HEAD = (
    "size",
    "throughput used",
    "recovery time",
    "least",
    "largest",
    "trials",
    "overload",
    "of throughput",
    "for",
    "load after",
)


def recovery_text(found: Recovery) -> str:
    """The time, or that what was seen is no result."""
    if found.note.startswith(_NO_RESULT):
        return _NO_RESULT
    return text.mean_interval(found.seconds, "s")


def _recovery_row(result: Result, found: Recovery) -> tuple[str, ...]:
    used = found.throughput_fps
    return (
        result.size_name,
        text.fps(used),
        recovery_text(found),
        text.time_s(found.seconds.minimum),
        text.time_s(found.seconds.maximum),
        str(found.seconds.n),
        text.fps(found.overload_fps),
        text.percent(found.overload_fps / used) if used else "not measured",
        text.seconds(found.overload_s),
        text.fps(found.relaxed_fps),
    )


def _recovery_notes(known: list[tuple[Result, Recovery]]) -> Iterator[str]:
    yield text.interval_note([found.seconds for _, found in known])
    yield "From the drop of the load to the last frame that was lost. Rates are sums."
    yield from group_sentences((result.size_text, found.note) for result, found in known)
    for result, found in known:
        for remark in text.remarks(found.seconds, "s"):
            yield f"{result.size_text}: {remark}."


def recovery_tables(group: Group) -> tuple[Table, ...]:
    """Recovery by frame size."""
    known = [(r, r.recovery) for r in group.measured if r.recovery]
    rows = tuple(_recovery_row(*pair) for pair in known)
    said = distinct_sentences(_recovery_notes(known))
    return (
        Table("System recovery", _RECOVERY_HEAD, rows, said, brief=(0, 1, 2, 3, 4, 5, 6), bold=2),
    )


def recovery_headline(result: Result) -> tuple[str, str]:
    """The answer in few words."""
    found = result.recovery
    if found is None:
        return "", ""
    said = found.note or f"after {text.short_fps(found.overload_fps)} for {found.overload_s:g} s"
    if recovery_text(found) == _NO_RESULT:
        return _NO_RESULT, found.note.removeprefix(f"{_NO_RESULT}: ")
    return text.mean_with_n(found.seconds, "s"), said


_RESET_HEAD = (
    "size",
    "reset",
    "type (RFC 6201)",
    "reset time, frame-loss method (4.1)",
    "reset time, time-stamp method (4.2)",
    "trials",
    "the event itself took",
    "load, aggregate",
)


def _reset_time_text(found: Spread | None) -> str:
    return NONE if found is None else text.mean_interval(found, "s")


def _reset_row(result: Result, found: Reset) -> tuple[str, ...]:
    numbers = (found.by_loss_s, found.by_time_s)
    shown = map(_reset_time_text, numbers) if any(numbers) else ("not measured", "not measured")
    counts = {s.n for s in numbers if s}
    return (
        result.size_name,
        found.what,
        found.type,
        *shown,
        " or ".join(map(str, sorted(counts))) or "0",
        _reset_time_text(found.event_s),
        text.fps(found.load_fps),
    )


def _reset_notes(group: Group) -> Iterator[str]:
    every = [(r, found) for r in group.measured for found in r.resets]
    methods = [(s, r, f) for r, f in every for s in (f.by_loss_s, f.by_time_s) if s]
    yield text.interval_note([s for s, _, _ in methods])
    if every:
        yield (
            "Frame-loss method: frames lost over the load. Time-stamp method: from the last frame "
            "before to the first one after; resolution one frame."
        )
    # One size only is named by the table.
    several = len({r.frame_size for r, _ in every}) > 1
    names = [f"{f.what} at {r.size_text}" if several else f.what for r, f in every]
    pairs = list(zip(names, (f for _, f in every), strict=True))
    yield from group_sentences((name, f.why) for name, f in pairs)
    yield from group_sentences((name, f.note) for name, f in pairs)
    for spread, result, found in methods:
        for remark in text.remarks(spread, "s"):
            yield f"{result.size_text}, {found.what}: {remark}."


def reset_tables(group: Group) -> tuple[Table, ...]:
    """Resets by frame size and by what was reset."""
    rows = tuple(_reset_row(r, found) for r in group.measured for found in r.resets)
    words = frozenset({0, 1, 2})
    brief = (0, 1, 2, 3, 4, 5)
    return (
        Table(
            "Reset",
            _RESET_HEAD,
            rows,
            distinct_sentences(_reset_notes(group)),
            words=words,
            brief=brief,
            bold=3,
        ),
    )


def reset_headline(result: Result) -> tuple[str, str]:
    """The answer in few words."""
    parts = []
    for found in result.resets:
        time = found.by_loss_s or found.by_time_s
        parts.append(f"{found.what} {text.mean_interval(time, 's') if time else 'not measured'}")
    counts = {s.n for f in result.resets for s in (f.by_loss_s, f.by_time_s) if s}
    return "\n".join(parts), f"n {max(counts)} each" if counts else ""


_LEARNING_TEST = "address_learning"
_TRIED_HEAD = ("size", "addresses", "sent at", "learned", "trial")


def _at_least_text(found: AddressTable, said: str) -> str:
    return f"at least {said}" if found.capped else said


def _address_texts(test: str, found: AddressTable) -> tuple[str, str]:
    """Addresses and rate; the one that was searched carries the qualifier."""
    count, rate = text.frames(found.addresses), text.fps(found.learning_fps)
    if test == _LEARNING_TEST:
        return count, _at_least_text(found, rate)
    return _at_least_text(found, count), rate


def _address_notes(known: list[tuple[Result, AddressTable]]) -> Iterator[str]:
    capped = "the most that was tried was no limit."
    yield from group_sentences((r.size_text, capped if found.capped else "") for r, found in known)
    yield from group_sentences((r.size_text, found.note) for r, found in known)


def address_tables(group: Group) -> tuple[Table, ...]:
    """What was found, and everything that was tried."""
    known = [(r, r.addresses) for r in group.measured if r.addresses]
    rows = tuple(
        (r.size_name, *_address_texts(group.test, found), str(len(found.tried)))
        for r, found in known
    )
    learning = group.test == _LEARNING_TEST
    head = (
        "size",
        "addresses used" if learning else "address caching capacity",
        "address learning rate" if learning else "addresses sent at",
        "tried",
    )
    tried = tuple(
        (
            r.size_name,
            text.frames(count),
            text.fps(rate),
            "all" if all_learned else "not all",
            f"{trial}",
        )
        for r, found in known
        for count, rate, all_learned, trial in found.tried
    )
    return (
        Table(
            "Addresses",
            head,
            rows,
            distinct_sentences(_address_notes(known)),
            bold=2 if learning else 1,
        ),
        Table(
            "Numbers and rates tried", _TRIED_HEAD, tried, words=frozenset({0, 3}), terminal=False
        ),
    )


def address_headline(result: Result) -> tuple[str, str]:
    """The answer in few words."""
    found = result.addresses
    if found is None:
        return "", ""
    count, rate = _address_texts(result.test, found)
    if result.test == _LEARNING_TEST:
        return rate, f"{count} addresses"
    return f"{count} addresses", f"sent at {rate}"


#: What each kind of test contributes, in the order of a report.
_TABLES: tuple[Callable[[Group], tuple[Table, ...]], ...] = (
    load_outcomes.repetition_tables,
    load_outcomes.latency_tables,
    load_outcomes.loss_tables,
    back_to_back_tables,
    recovery_tables,
    reset_tables,
    load_outcomes.rate_tables,
    load_outcomes.soak_tables,
    address_tables,
)
_HEADLINES: tuple[Callable[[Result], tuple[str, str]], ...] = (
    load_outcomes.repetition_headline,
    load_outcomes.latency_headline,
    load_outcomes.loss_headline,
    back_to_back_headline,
    recovery_headline,
    reset_headline,
    load_outcomes.rate_headline,
    load_outcomes.soak_headline,
    address_headline,
)


def tables(group: Group) -> tuple[Table, ...]:
    """Every table of one scenario and test."""
    return tuple(table for tables_of in _TABLES for table in tables_of(group) if table)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words, for a cell of an overview."""
    for headline_of in _HEADLINES:
        said = headline_of(result)
        if said[0]:
            return said
    return "", ""
