"""Result tables for a terminal or a CI log: 80 columns are enough, colour is never needed."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from vnetperf.model.result import RunResults
from vnetperf.report import goal_text, outcomes, run_tables, summary, transfers, workloads
from vnetperf.report.comparison import (
    list_comparisons,
    variant_sessions,
    variant_table,
    variant_transfers,
)
from vnetperf.report.goal_text import group_notes
from vnetperf.report.placement import sharing_lines
from vnetperf.report.summary import Group, groups, missing_values, undeployed
from vnetperf.report.table import (
    LEGEND,
    group_sentences,
    print_drawn,
    stdout_console,
    terminal_bullet,
    terminal_table,
)
from vnetperf.report.table import terminal_encodable as _encodable


def _explain(group: Group) -> str:
    marks = dict.fromkeys(g.mark for r in group.measured for g in r.goals if g.mark)
    trials = group_sentences(
        (
            r.size_text,
            f"{r.trial_count} trials" + (f", {r.discarded} discarded" if r.discarded else ""),
        )
        for r in group.measured
    )
    return (
        f"{'; '.join(trials)}. Sizes include the FCS. Loss and latency: at the lower bound. cond. "
        "= conditional throughput, free = loss-free load, gen. = the generator's clean maximum."
        + "".join(f" {goal_text.SHORT_MARKS[mark]} = {mark}, see below." for mark in marks)
    )


def _users(results: RunResults, *, plain: bool) -> Iterator[RenderableType]:
    for title, sentences in (
        (transfers.ATTACH_TITLE, transfers.attach_sentences(results)),
        (transfers.TRANSFERS_TITLE, transfers.transfer_sentences(results)),
        (transfers.NETWORKS_TITLE, transfers.network_sentences(results)),
        *(
            (w.title, workloads.workload_sentences(results, w))
            for w in workloads.list_workloads(results)
        ),
        (transfers.PODS_TITLE, transfers.pod_sentences(results)),
    ):
        if sentences:
            yield Text("")
            yield Text(title, style="bold")
        for sentence in sentences:
            yield terminal_bullet(sentence, plain=plain)


def _comparisons(results: RunResults, *, plain: bool) -> Iterator[RenderableType]:
    for comparison in list_comparisons(results):
        yield Text("")
        for name in comparison.goal_names:
            title = _encodable(f"{comparison.title}, {name}", plain=plain)
            yield Text(title, style="bold")
            yield terminal_table(variant_table(comparison, name), plain=plain, gap=0)
        if comparison.goal_names:
            yield Text(
                "Lower bounds, and their ratio to the first variant's that is no limit.",
                style="dim",
            )
        else:
            yield Text(_encodable(comparison.title, plain=plain), style="bold")
        if sessions := variant_sessions(comparison):
            yield terminal_table(sessions, plain=plain, gap=0)
        if table := variant_transfers(comparison):
            yield terminal_table(table, plain=plain)
            yield from (terminal_bullet(words, plain=plain) for words in table.notes)
        yield from (terminal_bullet(words, plain=plain) for words in comparison.absent_variants)


def _head(results: RunResults) -> Iterator[tuple[str, str]]:
    """What stands before all results, with its style."""
    if first := summary.first_line(results):
        yield first, "bold" if summary.is_benchmark(results) else "bold red"
    yield from ((f"Warning: {warning}", "yellow") for warning in results.warnings)
    yield from ((f"Setting: {condition}", "dim") for condition in summary.run_conditions(results))


def _foot(results: RunResults) -> Iterator[tuple[str, str]]:
    """What stands after all results: the answer last, where a reader is then."""
    for names, words in sharing_lines(results):
        yield f"Processors of {', '.join(names)}: {words}.", "dim"
    yield f"{LEGEND} ?: one of the last two.", "dim"
    if missing := missing_values(results):
        scope = " of what is shown" if summary.not_shown(results) else ""
        yield f"{len(missing)} values{scope} are unknown or not measured: report.md lists them.", ""
    yield f"Preset {results.preset}; {summary.ledger_sentence(results)}.", ""
    answers = dict(run_tables.headline(results, groups(results)))
    yield from ((f"{n}: {answers[n]}", "bold") for n in ("Result", "Worth") if n in answers)


def renderables(results: RunResults, *, plain: bool = False) -> Iterator[RenderableType]:
    """What to print, in order."""

    def line(words: str, style: str = "") -> Text:
        return Text(_encodable(words, plain=plain), style=style)

    yield from (line(*styled) for styled in _head(results))
    for group in groups(results):
        yield line("")
        if group.goal_names:
            for style, rates in zip(("bold", "dim"), goal_text.terminal_rates(group), strict=True):
                yield terminal_table(rates, plain=plain, title_style=style, gap=0)
            yield line(_explain(group), "dim")
        else:
            yield line(group.title, "bold")
        for outcome_table in filter(lambda table: table.terminal, outcomes.tables(group)):
            yield terminal_table(outcome_table, plain=plain)
            for words in outcome_table.notes:
                yield terminal_bullet(words, plain=plain)
        for note in group_notes(group):
            yield terminal_bullet(note, plain=plain)
    yield from _comparisons(results, plain=plain)
    yield from _users(results, plain=plain)
    for facts in undeployed(results):
        yield line(f"{facts.scenario}: not deployed: {facts.error}", "red")
    yield line("")
    yield from (line(*styled) for styled in _foot(results))


def print_results(results: RunResults, console: Console | None = None) -> None:
    """Print the results."""
    console = console or stdout_console()
    results = summary.shown_part(results)
    plain = not console.encoding.lower().startswith("utf")
    for item in renderables(results, plain=plain):
        print_drawn(console, item)


def terminal_text(results: RunResults, *, width: int = 80, plain: bool = False) -> str:
    """The same as text without colour."""
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, highlight=False, force_terminal=False)
    for item in renderables(results, plain=plain):
        print_drawn(console, item)
    return out.getvalue()
