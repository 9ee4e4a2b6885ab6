"""report.md: everything a run holds, for a reader without a browser."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.result import Calibration, RunResults
from vnetperf.report import attach, bounds, opening, transfers
from vnetperf.report import units_text as text
from vnetperf.report.cases import groups, trials_by_case
from vnetperf.report.facts import flatten, scalar
from vnetperf.report.markdown_comparison import comparisons
from vnetperf.report.markdown_results import answers, group_part
from vnetperf.report.markdown_text import code, escaped, table
from vnetperf.report.tabular import markdown as table_markdown
from vnetperf.report.unknowns import gather


def _identity(results: RunResults) -> Iterator[str]:
    run = results.run
    rows = [
        ("tool", escaped(run.tool)),
        ("commit", escaped(run.git)),
        ("command", code(run.command)),
        ("preset", escaped(results.preset)),
        ("testbed", escaped(run.testbed or bounds.NOT_RECORDED)),
        ("started (UTC)", escaped(run.started)),
        ("ended (UTC)", escaped(run.ended or "not ended: running or interrupted")),
        ("isolation statement (RFC 6815)", escaped(run.isolation or bounds.NOT_RECORDED)),
        ("operator's notes", escaped(run.notes or "none")),
        ("standards ledger", escaped(opening.ledger_count(results))),
        *((escaped(name), escaped(value)) for name, value in opening.redaction(results)),
    ]
    yield table(("identity", ""), rows)


def _calibration(results: RunResults) -> Iterator[str]:
    yield "## Calibration of the generator"
    if not results.calibrations:
        yield "Not measured: the run holds no calibration."
    for found in results.calibrations:
        yield from _calibration_of(found)


def _calibration_of(found: Calibration) -> Iterator[str]:
    yield (
        f"{escaped(found.generator)} looped to itself over {escaped(found.wire)}, processors "
        f"{escaped(', '.join(map(str, found.cores)) or 'none')}, {escaped(found.when)}."
    )
    head: tuple[str, ...] = (
        "octets",
        "clean maximum, both ports",
        "median latency at 1 %",
        "smallest latency",
    )
    head += ("pacing error", "largest burst at 10 % (frames)", "burst gap")
    rows = (
        (
            str(p.frame_size),
            text.fps(p.max_clean_fps),
            text.nanoseconds(p.latency_ns),
            text.nanoseconds(p.latency_min_ns),
            text.percent(p.pacing_error),
            str(p.max_burst),
            bounds.NOT_MEASURED
            if p.smallest_burst_gap_ns is None
            else text.nanoseconds(p.smallest_burst_gap_ns),
        )
        for p in found.points
    )
    yield table(head, rows)


def _surroundings(results: RunResults) -> Iterator[str]:
    yield "## Standards ledger"
    entries = opening.ledger(results)
    rows = [
        tuple(
            escaped(v)
            for v in (e.clause, e.requirement, e.status, e.value, e.reason, e.scope or "all")
        )
        for e in entries
    ]
    yield table(("clause", "requirement", "status", "done", "why", "holds for"), rows)
    yield "## Environment"
    yield table(("fact", "value"), ((escaped(k), code(v)) for k, v in flatten(results.environment)))
    for facts in results.scenarios:
        yield f"## Deployed: {escaped(facts.scenario)}"
        if facts.error:
            yield f"**Not deployed**: {escaped(facts.error)}"
        else:
            yield f"Ready after {text.seconds(facts.deploy_s)}."
        tree = {"path_check": facts.path_check, "facts": facts.facts, "plan": facts.plan}
        known = {k: v for k, v in tree.items() if v}
        if known:
            yield table(("fact", "value"), ((escaped(k), code(v)) for k, v in flatten(known)))
    yield "## Settings"
    settings = (
        (escaped(k), code(_joined(v.get("value"))), escaped(scalar(v.get("source"))))
        for k, v in results.settings.items()
    )
    yield table(("setting", "value", "source"), settings)


def _joined(value: object) -> str:
    return "; ".join(f"{k} = {v}" if k else v for k, v in flatten(value))


def _unknowns(results: RunResults) -> Iterator[str]:
    yield "## Not measured, unknown"
    found = gather(results)
    yield table(("value", "why"), ((escaped(u.where), escaped(u.what)) for u in found))


def markdown_report(results: RunResults) -> str:
    """report.md.

    Args:
        results: The run.

    Returns:
        Markdown; its first line says so when the run is no benchmark.
    """
    parts: list[str] = []
    first = opening.first_line(results)
    if first:
        parts.append(f"**{escaped(first)}**")
    parts.append(f"# vnetperf report: {escaped(results.preset)}")
    parts += [f"> **Warning:** {escaped(w)}" for w in opening.warnings(results)]
    parts += _identity(results)
    parts += answers(results)
    parts += comparisons(results)
    trials = trials_by_case(results)
    for group in groups(results):
        parts += group_part(group, trials)
    for found in (attach.table(results), transfers.table(results)):
        parts += table_markdown(found, level=2)
    parts += _calibration(results)
    parts += _surroundings(results)
    parts += _unknowns(results)
    return "\n\n".join(part for part in parts if part) + "\n"
