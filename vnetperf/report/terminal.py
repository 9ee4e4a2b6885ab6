"""Result tables for a terminal or a CI log: 80 columns are enough, colour is never needed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from vnetperf.model.result import ComparedVariant, RunResults
from vnetperf.report import goal_text, outcomes, summary, transfers
from vnetperf.report.comparison import VariantResults, comparisons_of
from vnetperf.report.goal_text import RateRow, group_notes
from vnetperf.report.summary import Group, groups, missing_values, undeployed
from vnetperf.report.table import terminal_encodable as _encodable
from vnetperf.report.table import terminal_grid, terminal_table


def _styled(row: RateRow, cells: Sequence[str]) -> list[Text]:
    """A goal stands out, its directions do not."""
    name, lower, mark, *rest = cells
    style = "dim" if row.direction else "bold"
    shown = [Text(f" {name}", style=style), Text(lower, style="" if row.direction else style)]
    return [*shown, Text(mark, style="yellow"), *map(Text, rest)]


def _table(group: Group, *, plain: bool) -> Table:
    columns = goal_text.TERMINAL_COLUMNS
    table = terminal_grid(Text(_encodable(group.title, plain=plain), style="bold"), plain=plain)
    table.add_column("size, goal,\ndirection", overflow="fold")
    for column in columns:
        name = _encodable(column.name, plain=plain)
        table.add_column(name, justify="right", overflow="fold")
    for result in group.measured:
        size = Text(result.size_short, style="bold cyan")
        discarded = f", {result.discarded} discarded" if result.discarded else ""
        table.add_row(size, Text(f"{result.trial_count} trials{discarded}", style="dim"))
        for row in goal_text.rate_rows(result):
            cells = [c.short or c.text for c in goal_text.rate_cells(row, columns)]
            name = _encodable(row.direction or row.goal.name, plain=plain)
            table.add_row(*_styled(row, [name, *cells]))
        table.add_section()
    return table


def _comparison(found: VariantResults, name: str, *, plain: bool) -> Table:
    table = terminal_grid(None, plain=plain)
    table.add_column("variant", overflow="fold")
    for size in found.sizes:
        table.add_column(f"{size}\nfps", justify="right", overflow="fold")
    for variant in found.comparison.variants:
        cells = (_compared(found, variant, size, name, plain=plain) for size in found.sizes)
        table.add_row(Text(_encodable(variant.variant, plain=plain), style="bold"), *cells)
    return table


def _compared(
    found: VariantResults, variant: ComparedVariant, size: int, name: str, *, plain: bool
) -> Text:
    goal = found.goal(variant, size, name)
    if goal is None:
        return Text(found.absence(variant, size)[0], style="dim")
    relative = found.relative(variant, size, name)
    shown = Text(goal_text.short_rate(goal), style="bold")
    return shown.append(f" {_encodable(relative, plain=plain)}", "dim") if relative else shown


def _explain(group: Group) -> str:
    interfaces = " or ".join(str(n) for n in sorted({r.directions for r in group.measured}))
    marks = dict.fromkeys(g.mark for r in group.measured for g in r.goals if g.mark)
    return (
        f"Rates of a goal: sum over {interfaces} sending interface(s); of a direction: that one "
        "only. Sizes include the FCS. Loss and latency: at the lower bound. cond. = conditional "
        "throughput, gen. = the generator's clean maximum, '-' = no number."
        + "".join(f" {goal_text.SHORT_MARKS[mark]} = {mark}, see below." for mark in marks)
    )


def _bullet(words: str) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row("*", Text(words))
    return grid


def _users(results: RunResults, *, plain: bool) -> Iterator[RenderableType]:
    for title, sentences in (
        (transfers.ATTACH_TITLE, transfers.attach_sentences(results)),
        (transfers.TRANSFERS_TITLE, transfers.transfer_sentences(results)),
        (transfers.NETWORKS_TITLE, transfers.network_sentences(results)),
        (transfers.PODS_TITLE, transfers.pod_sentences(results)),
    ):
        if sentences:
            yield Text("")
            yield Text(title, style="bold")
        for sentence in sentences:
            yield _bullet(_encodable(sentence, plain=plain))


def _comparisons(results: RunResults, *, plain: bool) -> Iterator[RenderableType]:
    for comparison in comparisons_of(results):
        yield Text("")
        for name in comparison.goal_names:
            title = _encodable(f"{comparison.title}, {name}", plain=plain)
            yield Text(title, style="bold")
            yield _comparison(comparison, name, plain=plain)
        yield Text("Lower bounds, and their ratio to the first variant's.", style="dim")
        for variant in comparison.comparison.variants:
            if variant.skipped:
                words = f"{variant.variant}: skipped: {variant.skipped}"
                yield _bullet(_encodable(words, plain=plain))


def renderables(results: RunResults, *, plain: bool = False) -> Iterator[RenderableType]:
    """What to print, in order."""

    def line(words: str, style: str = "") -> Text:
        return Text(_encodable(words, plain=plain), style=style)

    first = summary.first_line(results)
    if first:
        yield line(first, "bold" if summary.is_benchmark(results) else "bold red")
    for warning in summary.run_warnings(results):
        yield line(f"Warning: {warning}", "yellow")
    for group in groups(results):
        yield line("")
        if group.goal_names:
            yield _table(group, plain=plain)
            yield line(_explain(group), "dim")
        else:
            yield line(group.title, "bold")
        for found in filter(lambda table: table.terminal, outcomes.tables(group)):
            yield terminal_table(found, plain=plain)
            for words in found.notes:
                yield _bullet(_encodable(words, plain=plain))
        for note in group_notes(group):
            yield _bullet(_encodable(note, plain=plain))
    yield from _comparisons(results, plain=plain)
    yield from _users(results, plain=plain)
    for facts in undeployed(results):
        yield line(f"{facts.scenario}: not deployed: {facts.error}", "red")
    yield line("")
    yield line(f"Preset {results.preset}; {summary.ledger_sentence(results)}.")
    missing = missing_values(results)
    if missing:
        yield line(f"{len(missing)} values are unknown or not measured: report.md lists them.")


def print_results(results: RunResults, console: Console | None = None) -> None:
    """Print the results."""
    console = console or Console(highlight=False)
    plain = not console.encoding.lower().startswith("utf")
    for item in renderables(results, plain=plain):
        console.print(item)


def terminal_text(results: RunResults, *, width: int = 80, plain: bool = False) -> str:
    """The same as text without colour."""
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, highlight=False, force_terminal=False)
    for item in renderables(results, plain=plain):
        console.print(item)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
