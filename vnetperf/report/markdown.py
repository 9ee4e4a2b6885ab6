"""report.md: everything a run holds, for a reader without a browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vnetperf.analysis.sharing import sharing_of
from vnetperf.model import units
from vnetperf.model.result import Profile, RunResults, ScenarioFacts, TrialPoint
from vnetperf.report import goal_text, outcomes, run_tables, summary, transfers, workloads
from vnetperf.report.comparison import (
    comparison_table,
    event_table,
    list_comparisons,
    variant_sessions,
    variant_transfers,
)
from vnetperf.report.summary import Case, Group, goals_used, groups, missing_values, trials_by_case
from vnetperf.report.table import LEGEND, NOT_RECORDED, escape_markdown, table_markdown

_EMPTY = "None."


def _goal_lines(group: Group) -> Iterator[str]:
    for goal in goals_used(group):
        yield f"- goal **{escape_markdown(goal.name)}**: {goal_text.goal_attributes(goal)}"
    for attributes in sorted({goal_text.search_attributes(r) for r in group.measured}):
        yield f"- {escape_markdown(attributes)}"


def _group_part(
    group: Group, trials: Mapping[Case, Sequence[TrialPoint]], profiles: Sequence[Profile]
) -> Iterator[str]:
    """One scenario and test."""
    yield f"## {escape_markdown(group.title)}"
    yield "\n".join(
        f"- {r.size_text}: **not measured**: {escape_markdown(r.why or NOT_RECORDED)}"
        for r in group.results
        if r.status == "not measured"
    )
    yield "\n".join(
        f"- {r.size_text}: irregular: {escape_markdown(r.irregular)}"
        for r in group.measured
        if r.irregular
    )
    if group.goal_names:
        yield "\n".join(_goal_lines(group))
        yield from table_markdown(goal_text.goal_table(group), empty=_EMPTY)
        yield from table_markdown(goal_text.direction_table(group), empty=_EMPTY)
    for table in outcomes.tables(group):
        yield from table_markdown(table)
    if not group.measured:
        return
    yield from table_markdown(goal_text.search_table(group, trials), empty=_EMPTY)
    yield from table_markdown(goal_text.loss_table(group, trials), empty=_EMPTY)
    yield from table_markdown(goal_text.cpu_table(group, trials))
    for table_of in (goal_text.thread_table, goal_text.datapath_table, goal_text.node_table):
        yield from table_markdown(table_of(group))
    yield from table_markdown(goal_text.profile_table(group, profiles))


def _comparisons(results: RunResults) -> Iterator[str]:
    for variants in list_comparisons(results):
        yield f"## {escape_markdown(variants.title)}"
        yield escape_markdown(variants.comparison.title)
        if variants.goal_names or not (variants.transfers or variants.has_sessions):
            yield from table_markdown(comparison_table(variants), empty=_EMPTY)
        yield from table_markdown(variant_transfers(variants))
        yield from table_markdown(variant_sessions(variants))
        yield from table_markdown(event_table(variants))


def _calibrations(results: RunResults) -> Iterator[str]:
    yield "## Calibration of the generator"
    if not results.calibrations:
        yield "Not measured: the run holds no calibration."
    for calibration in results.calibrations:
        about, table = run_tables.calibration(calibration)
        yield escape_markdown(about)
        yield from table_markdown(table, empty=_EMPTY)


def _deployed(facts: ScenarioFacts) -> Iterator[str]:
    yield f"## Deployed: {escape_markdown(facts.scenario)}"
    if facts.error:
        yield f"**Not deployed**: {escape_markdown(facts.error)}"
    else:
        yield f"Ready after {units.seconds(facts.deploy_s)}."
        sharing = sharing_of(facts)
        if sharing is not None and sharing.sentence:
            meaning = f"; {sharing.meaning}" if sharing.meaning else ""
            yield escape_markdown(f"Processors {sharing.label}: {sharing.sentence}{meaning}.")
    tree = {"path_check": facts.path_check, "facts": facts.facts, "plan": facts.plan}
    nonempty = {name: value for name, value in tree.items() if value}
    if nonempty:
        yield from table_markdown(run_tables.tree_as_table("", nonempty))


def _parts(results: RunResults) -> Iterator[str]:
    first = summary.first_line(results)
    yield f"**{escape_markdown(first)}**" if first else ""
    all_groups, trials = groups(results), trials_by_case(results)
    yield f"# {escape_markdown(run_tables.title(results, all_groups))}"
    yield from table_markdown(run_tables.headline_table(results, all_groups))
    yield from (f"> **Warning:** {escape_markdown(w)}" for w in results.warnings)
    yield "\n".join(f"- Setting: {escape_markdown(c)}" for c in summary.run_conditions(results))
    yield from table_markdown(run_tables.identity(results))
    yield LEGEND
    yield from table_markdown(run_tables.headlines(all_groups), level=2)
    yield from _comparisons(results)
    for group in all_groups:
        yield from _group_part(group, trials, results.profiles)
    yield from table_markdown(transfers.attach_table(results), level=2)
    yield from table_markdown(transfers.transfers_table(results), level=2)
    yield from table_markdown(transfers.transport_table(results))
    yield from table_markdown(transfers.networks_table(results), level=2)
    for workload in workloads.list_workloads(results):
        yield from table_markdown(workloads.workload_table(results, workload), level=2)
    yield from table_markdown(transfers.pods_table(results), level=2)
    yield from _calibrations(results)
    ledger = run_tables.ledger(summary.ledger(results))
    yield from table_markdown(ledger, level=2, empty=_EMPTY)
    environment = run_tables.tree_as_table("Environment", results.environment)
    yield from table_markdown(environment, level=2, empty=_EMPTY)
    for facts in results.scenarios:
        yield from _deployed(facts)
    yield from table_markdown(run_tables.settings(results), level=2, empty=_EMPTY)
    missing = run_tables.missing(missing_values(results))
    yield from table_markdown(missing, level=2, empty=_EMPTY)


def markdown_report(results: RunResults) -> str:
    """report.md."""
    return "\n\n".join(part for part in _parts(results) if part) + "\n"
