"""report.md: everything a run holds, for a reader without a browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vnetperf.model.result import Calibration, RunResults, TrialPoint
from vnetperf.report import goal_text, outcomes, summary, text, transfers
from vnetperf.report.comparison import comparison_markdown
from vnetperf.report.goal_text import account_losses, summarise_trials
from vnetperf.report.summary import (
    Case,
    Group,
    case_of,
    flatten_facts,
    goals_used,
    groups,
    missing_values,
    scalar_text,
    trials_by_case,
)
from vnetperf.report.table import escape_markdown, markdown_code, markdown_table, table_markdown

_NONE = "\N{EN DASH}"
_BREAK = "\n"
_TRIALS_HEAD = (
    "octets",
    "trials",
    "verdicts",
    "loads and losses",
    "load range per interface",
    "traffic",
    "wall time",
)
#: Trials of each search.
TrialsByCase = Mapping[Case, Sequence[TrialPoint]]


def test_headlines(results: RunResults) -> Iterator[str]:
    """What each test came to, before any detail."""
    rows = []
    for group in groups(results):
        for result in group.results:
            number, more = outcomes.headline(result)
            if result.status == "measured" and number:
                cells = (group.scenario, group.test, result.size_name)
                rows.append(
                    (
                        *map(escape_markdown, cells),
                        f"**{escape_markdown(number.replace(_BREAK, '; '))}**",
                        escape_markdown(more),
                    )
                )
    if rows:
        yield "## Tests besides throughput"
        yield markdown_table(("scenario", "test", "octets", "found", "with"), rows)


def _result_rows(group: Group) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        for goal in result.goals:
            value = goal_text.headline_fps(goal)
            l1 = goal.throughput_l1_bps
            conditional = goal.conditional_throughput_fps
            yield (
                result.size_name,
                escape_markdown(goal.name),
                f"**{escape_markdown(goal_text.qualified_rate(goal))}**",
                escape_markdown(goal_text.upper_bound_text(goal)),
                _NONE if conditional is None else text.fps(conditional),
                _NONE if l1 is None else text.gigabits(l1),
                goal_text.rate_text(result.media_max_fps),
                goal_text.share_text(value, result.media_max_fps),
                goal_text.share_text(value, result.generator_max_fps),
                str(result.trial_count),
                escape_markdown(goal_text.flag_with_reason(goal)),
            )


def _direction_rows(group: Group) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        for goal in result.goals:
            known = {b.direction: b for b in goal.per_direction}
            for name in dict.fromkeys([*known, *goal.latency]):
                bound, latency = known.get(name), goal.latency.get(name)
                percentiles = latency.percentiles if latency else {}
                yield (
                    result.size_name,
                    escape_markdown(goal.name),
                    escape_markdown(name),
                    goal_text.rate_text(bound.lower_bound_fps if bound else None),
                    goal_text.upper_bound_text(bound) if bound else goal_text.NOT_MEASURED,
                    goal_text.rate_text(bound.conditional_throughput_fps if bound else None),
                    _NONE
                    if bound is None or bound.loss_ratio_at_lower_bound is None
                    else text.percent(bound.loss_ratio_at_lower_bound),
                    *(
                        text.nanoseconds(percentiles[p]) if p in percentiles else _NONE
                        for p in ("50", "99")
                    ),
                    text.nanoseconds(latency.max_ns) if latency else goal_text.NOT_MEASURED,
                )


def _goal_list(group: Group) -> Iterator[str]:
    for goal in goals_used(group):
        yield f"- goal **{escape_markdown(goal.name)}**: {goal_text.goal_attributes(goal)}"
    for said in sorted({goal_text.search_attributes(r) for r in group.measured}):
        yield f"- {escape_markdown(said)}"


def _search_rows(group: Group, trials: TrialsByCase) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        yield (
            result.size_name,
            str(result.trial_count),
            escape_markdown(goal_text.verdict_counts(result)),
            escape_markdown(summarise_trials(trials.get(case_of(result), ())).sentence),
            goal_text.load_range_text(result, trials.get(case_of(result), ())),
            text.seconds(result.trial_seconds),
            text.seconds(result.wall_seconds),
        )


def _loss_rows(group: Group, trials: TrialsByCase) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        lost = account_losses(trials.get(case_of(result), ()))
        where = "; ".join(
            f"{escape_markdown(hop)}: {text.frames(n)} ({text.percent(n / lost.total, 3)})"
            for hop, n in lost.by_hop.items()
            if lost.total
        )
        yield (
            result.size_name,
            f"{lost.lossy} of {lost.trials}",
            where or "no hop was named",
            str(lost.unattributed),
        )


def _search_tables(group: Group) -> Iterator[str]:
    yield "\n".join(_goal_list(group))
    head: tuple[str, ...] = ("frame size (octets with FCS)", "goal", "lower bound, aggregate")
    head += ("upper bound, aggregate", "conditional throughput, aggregate", "L1 Gbit/s")
    head += ("theoretical maximum, aggregate", "of it", "of the generator", "trials", "regular?")
    yield markdown_table(head, _result_rows(group))
    yield "### Each direction"
    head = ("octets", "goal", "direction", "lower bound", "upper bound", "conditional throughput")
    head += ("loss at lower bound", "latency p50", "p99", "max")
    yield markdown_table(head, _direction_rows(group))


def group_part(group: Group, trials: TrialsByCase) -> Iterator[str]:
    """One scenario and test."""
    yield f"## {escape_markdown(group.title)}"
    missing = [r for r in group.results if r.status == "not measured"]
    if missing:
        yield "\n".join(
            f"- {r.size_text}: **not measured**: {escape_markdown(r.why or goal_text.NOT_RECORDED)}"
            for r in missing
        )
    if not group.measured:
        return
    if group.goal_names:
        yield from _search_tables(group)
    for found in outcomes.tables(group):
        yield from table_markdown(found)
    yield "### Searches" if group.goal_names else "### Trials"
    yield markdown_table(_TRIALS_HEAD, _search_rows(group, trials))
    yield "### Where lost frames died"
    head = ("octets", "VALID trials that lost frames", "frames lost at", "lossy, no hop named")
    yield markdown_table(head, _loss_rows(group, trials))
    if any(goal.threads for r in group.measured for goal in r.goals):
        yield f"### {goal_text.THREADS_TITLE}"
        rows = (tuple(map(escape_markdown, cells)) for cells in goal_text.thread_rows(group))
        yield markdown_table(goal_text.thread_head(group), rows)
    yield "\n".join(f"- {escape_markdown(said)}" for said in goal_text.thread_notes(group))


def _identity(results: RunResults) -> Iterator[str]:
    run = results.run
    rows = [
        ("tool", escape_markdown(run.tool)),
        ("commit", escape_markdown(run.git)),
        ("command", markdown_code(run.command)),
        ("preset", escape_markdown(results.preset)),
        ("testbed", escape_markdown(run.testbed or goal_text.NOT_RECORDED)),
        ("started (UTC)", escape_markdown(run.started)),
        ("ended (UTC)", escape_markdown(run.ended or "not ended: running or interrupted")),
        (
            "isolation statement (RFC 6815)",
            escape_markdown(run.isolation or goal_text.NOT_RECORDED),
        ),
        ("operator's notes", escape_markdown(run.notes or "none")),
        ("standards ledger", escape_markdown(summary.ledger_sentence(results))),
        *(
            (escape_markdown(name), escape_markdown(value))
            for name, value in summary.redaction_rows(results)
        ),
    ]
    yield markdown_table(("identity", ""), rows)


def _calibration(results: RunResults) -> Iterator[str]:
    yield "## Calibration of the generator"
    if not results.calibrations:
        yield "Not measured: the run holds no calibration."
    for found in results.calibrations:
        yield from _calibration_of(found)


def _calibration_of(found: Calibration) -> Iterator[str]:
    yield (
        f"{escape_markdown(found.generator)} looped to itself over {escape_markdown(found.wire)}, processors "
        f"{escape_markdown(', '.join(map(str, found.cores)) or 'none')}, {escape_markdown(found.when)}."
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
            goal_text.NOT_MEASURED
            if p.smallest_burst_gap_ns is None
            else text.nanoseconds(p.smallest_burst_gap_ns),
        )
        for p in found.points
    )
    yield markdown_table(head, rows)


def _surroundings(results: RunResults) -> Iterator[str]:
    yield "## Standards ledger"
    entries = summary.ledger(results)
    rows = [
        tuple(
            escape_markdown(v)
            for v in (e.clause, e.requirement, e.status, e.value, e.reason, e.scope or "all")
        )
        for e in entries
    ]
    yield markdown_table(("clause", "requirement", "status", "done", "why", "holds for"), rows)
    yield "## Environment"
    yield markdown_table(
        ("fact", "value"),
        ((escape_markdown(k), markdown_code(v)) for k, v in flatten_facts(results.environment)),
    )
    for facts in results.scenarios:
        yield f"## Deployed: {escape_markdown(facts.scenario)}"
        if facts.error:
            yield f"**Not deployed**: {escape_markdown(facts.error)}"
        else:
            yield f"Ready after {text.seconds(facts.deploy_s)}."
        tree = {"path_check": facts.path_check, "facts": facts.facts, "plan": facts.plan}
        known = {k: v for k, v in tree.items() if v}
        if known:
            yield markdown_table(
                ("fact", "value"),
                ((escape_markdown(k), markdown_code(v)) for k, v in flatten_facts(known)),
            )
    yield "## Settings"
    settings = (
        (
            escape_markdown(k),
            markdown_code(_joined_facts(v.get("value"))),
            escape_markdown(scalar_text(v.get("source"))),
        )
        for k, v in results.settings.items()
    )
    yield markdown_table(("setting", "value", "source"), settings)


def _joined_facts(value: object) -> str:
    return "; ".join(f"{k} = {v}" if k else v for k, v in flatten_facts(value))


def _unknowns(results: RunResults) -> Iterator[str]:
    yield "## Not measured, unknown"
    found = missing_values(results)
    yield markdown_table(
        ("value", "why"), ((escape_markdown(u.where), escape_markdown(u.what)) for u in found)
    )


def markdown_report(results: RunResults) -> str:
    """report.md."""
    parts: list[str] = []
    first = summary.first_line(results)
    if first:
        parts.append(f"**{escape_markdown(first)}**")
    parts.append(f"# vnetperf report: {escape_markdown(results.preset)}")
    parts += [f"> **Warning:** {escape_markdown(w)}" for w in summary.run_warnings(results)]
    parts += _identity(results)
    parts += test_headlines(results)
    parts += comparison_markdown(results)
    trials = trials_by_case(results)
    for group in groups(results):
        parts += group_part(group, trials)
    for found in (transfers.attach_table(results), transfers.transfers_table(results)):
        parts += table_markdown(found, level=2)
    parts += _calibration(results)
    parts += _surroundings(results)
    parts += _unknowns(results)
    return "\n\n".join(part for part in parts if part) + "\n"
