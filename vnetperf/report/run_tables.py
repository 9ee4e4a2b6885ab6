"""Tables of a run as a whole: identity, calibration, standards ledger, facts, settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from vnetperf.model import units
from vnetperf.model.result import Calibration, CalibrationPoint, LedgerEntry, Result, RunResults
from vnetperf.report import goal_text, outcomes, summary
from vnetperf.report.summary import Group, MissingValue, flatten_facts, scalar_text
from vnetperf.report.table import Cell, Column, Table

Fact: TypeAlias = tuple[str, Cell | str]


def facts_as_table(title: str, facts: Iterable[Fact], head: tuple[str, str]) -> Table:
    """Names and values."""
    columns: tuple[Column[Fact], ...] = (
        Column(head[0], lambda fact: fact[0], words=True),
        Column(head[1], lambda fact: fact[1], words=True),
    )
    return Table.of(title, columns, facts)


def tree_as_table(title: str, tree: object) -> Table:
    """A tree of JSON values."""
    facts = ((name, Cell(value, code=True)) for name, value in flatten_facts(tree))
    return facts_as_table(title, facts, ("fact", "value"))


def identity(results: RunResults) -> Table:
    """What was run, when, by what."""
    run = results.run
    facts: list[Fact] = [
        ("tool", run.tool),
        ("commit", run.git),
        ("command", Cell(run.command, code=True)),
        ("preset", results.preset),
        ("testbed", run.testbed or goal_text.NOT_RECORDED),
        ("started (UTC)", run.started),
        ("ended (UTC)", run.ended or "not ended: running or interrupted"),
        ("isolation statement (RFC 6815)", run.isolation or goal_text.NOT_RECORDED),
        ("operator's notes", run.notes or "none"),
        ("standards ledger", summary.ledger_sentence(results)),
        *summary.redaction_rows(results),
    ]
    return facts_as_table("", facts, ("identity", ""))


_Headline: TypeAlias = tuple[Group, Result, tuple[str, str]]
_HEADLINES: tuple[Column[_Headline], ...] = (
    Column("scenario", lambda of: of[0].scenario, words=True),
    Column("test", lambda of: of[0].test, words=True),
    Column("octets", lambda of: of[1].size_name),
    Column("found", lambda of: of[2][0].replace("\n", "; "), bold=True),
    Column("with", lambda of: of[2][1], words=True),
)


def headlines(found: Sequence[Group]) -> Table:
    """The answer of each test besides throughput, before any detail."""
    every = [(group, r, outcomes.headline(r)) for group in found for r in group.measured]
    return Table.of("Tests besides throughput", _HEADLINES, [one for one in every if one[2][0]])


def _range_text(values: tuple[float, ...]) -> str:
    """Smallest to largest of a few values."""
    if not values:
        return goal_text.NOT_RECORDED
    return f"{units.fps(min(values))} to {units.fps(max(values))} (n {len(values)})"


def _found_text(point: CalibrationPoint) -> str:
    """The clean maximum as often as it was found."""
    if point.brief and point.max_clean_values:
        return f"{units.fps(point.max_clean_values[0])}, once, by trials of 0.15 s"
    return _range_text(point.max_clean_values)


def _checked_text(point: CalibrationPoint) -> str:
    if point.drift is None:
        return "not checked"
    return f"{_range_text(point.checked_values)}, {point.drift:+.1%}"


_CALIBRATION: tuple[Column[CalibrationPoint], ...] = (
    Column("octets", lambda p: str(p.frame_size), words=True),
    Column("clean maximum, both ports", lambda p: units.fps(p.max_clean_fps)),
    Column("found by 1 s trials", _found_text, words=True),
    Column("ended by", lambda p: p.ended_by or goal_text.NOT_RECORDED, words=True),
    Column("again after the run", _checked_text, words=True),
    Column("median latency at 1 %", lambda p: units.nanoseconds(p.latency_ns)),
    Column("smallest latency", lambda p: units.nanoseconds(p.latency_min_ns)),
    Column("pacing error", lambda p: units.percent(p.pacing_error)),
    Column("largest burst at 10 % (frames)", lambda p: str(p.max_burst)),
    Column(
        "burst gap",
        lambda p: (
            goal_text.NOT_MEASURED
            if p.smallest_burst_gap_ns is None
            else units.nanoseconds(p.smallest_burst_gap_ns)
        ),
    ),
)


def calibration(found: Calibration) -> tuple[str, Table]:
    """What the generator can do over one wire: a sentence, and a table by frame size."""
    cores = ", ".join(map(str, found.cores)) or "none"
    where = f" on testbed {found.testbed}" if found.testbed else ""
    about = (
        f"{found.generator} looped to itself over {found.wire}{where}, processors {cores}, "
        f"{found.when}."
    )
    return about, Table.of("", _CALIBRATION, found.points)


_STATUS = {
    "met": "good",
    "deviated": "warn",
    "not applicable": "plain",
    "not looked at": "plain",
}
#: What the ledger is worth.
_SOURCES = (
    "Each entry is derived from the results and their trials. Requirements are given as secondary "
    "sources quote them."
)
_LEDGER: tuple[Column[LedgerEntry], ...] = (
    Column("clause", lambda e: e.clause, words=True),
    Column("requirement", lambda e: e.requirement, words=True),
    Column("status", lambda e: Cell(e.status, css=_STATUS[e.status]), words=True),
    Column("done", lambda e: e.value, words=True),
    Column("why", lambda e: e.reason, words=True),
)


def ledger(entries: Sequence[LedgerEntry]) -> Table:
    """How the run stands to the standards, clause by clause."""
    scope: Column[LedgerEntry] = Column("holds for", lambda e: e.scope or "all", words=True)
    return Table.of("Standards ledger", (*_LEDGER, scope), entries, [_SOURCES] if entries else ())


def clauses(entries: Sequence[LedgerEntry], title: str) -> Table:
    """The clauses of one scenario and test."""
    octets: Column[LedgerEntry] = Column("octets", lambda e: str(e.frame_size or "all"), words=True)
    sized = any(entry.frame_size for entry in entries)
    return Table.of(title, (*_LEDGER, octets) if sized else _LEDGER, entries)


_SETTINGS: tuple[Column[tuple[str, dict[str, object]]], ...] = (
    Column("setting", lambda of: of[0], words=True),
    Column("value", lambda of: Cell(_joined_facts(of[1].get("value")), code=True), words=True),
    Column("source", lambda of: scalar_text(of[1].get("source")), words=True),
)


def settings(results: RunResults) -> Table:
    """Effective settings and where each came from."""
    return Table.of("Settings", _SETTINGS, results.settings.items())


def _joined_facts(value: object) -> str:
    return "; ".join(f"{name} = {v}" if name else v for name, v in flatten_facts(value))


def missing(found: Iterable[MissingValue]) -> Table:
    """What the run could not measure or find out."""
    facts = ((value.where, value.what) for value in found)
    return facts_as_table("Not measured, unknown", facts, ("value", "why"))
