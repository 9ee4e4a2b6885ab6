"""Result tables for a terminal or a CI log: 80 columns are enough, colour is never needed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Literal

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from vnetperf.model.result import ComparedVariant, DirectionBound, GoalResult, Result, RunResults
from vnetperf.model.trial import Latency
from vnetperf.report import goal_text, outcomes, summary, text, transfers
from vnetperf.report.comparison import VariantResults, comparisons_of
from vnetperf.report.goal_text import group_notes
from vnetperf.report.summary import Group, groups, missing_values, undeployed
from vnetperf.report.table import terminal_encodable as _encodable
from vnetperf.report.table import terminal_table

_NONE = "-"
_COLUMNS = (
    "size, goal,\ndirection",
    "lower bound\nfps",
    "",
    "upper\nfps",
    "cond.\nfps",
    "L1\nGbit/s",
    "% of\ngen.",
    "p50\nµs",
    "p99\nµs",
    "max\nµs",
)
#: Mark of an irregular result; the legend below the table spells it out.
_IRREGULAR = "irreg."


def _micro(value: float | None) -> str:
    return _NONE if value is None else text.significant(value / 1000, 3 if value < 1e6 else 4)


def _short(value: float | None) -> str:
    return _NONE if value is None else text.short_fps(value)


def _share(value: float | None, of: float | None) -> str:
    return _NONE if value is None or not of else text.significant(100 * value / of, 3)


def _headline(goal: GoalResult) -> Text:
    value = goal_text.headline_fps(goal)
    number = "none met" if value is None else text.short_fps(value)
    return Text(f"{goal.qualifier} {number}".strip(), style="bold")


def _latency(latency: Latency | None) -> tuple[str, str, str]:
    if latency is None:
        return _NONE, _NONE, _NONE
    found = latency.percentiles
    return _micro(found.get("50")), _micro(found.get("99")), _micro(latency.max_ns)


def _goal_row(result: Result, goal: GoalResult, *, plain: bool) -> list[Text | str]:
    l1 = goal.throughput_l1_bps
    return [
        Text(_encodable(f" {goal.name}", plain=plain), style="bold"),
        _headline(goal),
        Text("" if goal.regular else _IRREGULAR, style="yellow"),
        _short(goal.upper_bound_fps),
        _short(goal.conditional_throughput_fps),
        _NONE if l1 is None else text.gigabits(l1),
        _share(goal_text.headline_fps(goal), result.generator_max_fps),
        *("", "", ""),
    ]


def _direction_row(goal: GoalResult, bound: DirectionBound, *, plain: bool) -> list[Text | str]:
    return [
        Text(_encodable(f" {bound.direction}", plain=plain), style="dim"),
        _short(bound.lower_bound_fps),
        "",
        _short(bound.upper_bound_fps),
        _short(bound.conditional_throughput_fps),
        *("", ""),
        *_latency(goal.latency.get(bound.direction)),
    ]


def _rows(result: Result, *, plain: bool) -> Iterator[list[Text | str]]:
    size = Text(result.size_short, style="bold cyan")
    yield [size, Text(f"{result.trial_count} trials", style="dim")]
    for goal in result.goals:
        yield _goal_row(result, goal, plain=plain)
        known = {b.direction: b for b in goal.per_direction}
        for name in dict.fromkeys([*known, *goal.latency]):
            blank = DirectionBound(
                direction=name,
                lower_bound_fps=None,
                upper_bound_fps=None,
                conditional_throughput_fps=None,
            )
            yield _direction_row(goal, known.get(name, blank), plain=plain)


def _table(group: Group, *, plain: bool) -> Table:
    table = Table(
        title=Text(_encodable(group.title, plain=plain), style="bold"),
        title_justify="left",
        box=box.ASCII2 if plain else box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        pad_edge=False,
    )
    for index, name in enumerate(_COLUMNS):
        justify: Literal["left", "right"] = "right" if index else "left"
        table.add_column(_encodable(name, plain=plain), justify=justify, overflow="fold")
    for result in group.measured:
        for cells in _rows(result, plain=plain):
            table.add_row(*cells)
        table.add_section()
    return table


def _comparison(found: VariantResults, name: str, *, plain: bool) -> Table:
    table = Table(
        box=box.ASCII2 if plain else box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        pad_edge=False,
    )
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
    shown = _headline(goal)
    return shown.append(f" {_encodable(relative, plain=plain)}", "dim") if relative else shown


def _explain(group: Group) -> str:
    interfaces = " or ".join(str(n) for n in sorted({r.directions for r in group.measured}))
    irregular = any(not g.regular for r in group.measured for g in r.goals)
    return (
        f"Rates of a goal: sum over {interfaces} sending interface(s); of a direction: that one "
        "only. Sizes include the FCS. Latency: at the lower bound. cond. = conditional "
        f"throughput, gen. = the generator's clean maximum, '{_NONE}' = no number."
        + (f" {_IRREGULAR} = irregular, see below." if irregular else "")
    )


def _bullet(said: str) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row("*", Text(said))
    return grid


def _users(results: RunResults, *, plain: bool) -> Iterator[RenderableType]:
    for title, said in (
        (transfers.ATTACH_TITLE, transfers.attach_sentences(results)),
        (transfers.TRANSFERS_TITLE, transfers.transfer_sentences(results)),
    ):
        if said:
            yield Text("")
            yield Text(title, style="bold")
        for sentence in said:
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
                said = f"{variant.variant}: skipped: {variant.skipped}"
                yield _bullet(_encodable(said, plain=plain))


def renderables(results: RunResults, *, plain: bool = False) -> Iterator[RenderableType]:
    """What to print, in order."""

    def line(said: str, style: str = "") -> Text:
        return Text(_encodable(said, plain=plain), style=style)

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
            for said in found.notes:
                yield _bullet(_encodable(said, plain=plain))
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
