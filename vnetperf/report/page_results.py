"""The page's part of one scenario and test: table, plots, where lost frames died."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vnetperf.model.result import DirectionBound, GoalResult, LedgerEntry, Result, TrialPoint
from vnetperf.model.trial import Verdict
from vnetperf.report import bounds, threads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Case, Group, case_of, goals_used
from vnetperf.report.markup import Markup, el
from vnetperf.report.notes import notes
from vnetperf.report.page_ledger import clauses
from vnetperf.report.page_losses import losses_table
from vnetperf.report.page_outcomes import grid, outcomes_part, strips
from vnetperf.report.page_parts import badge, folded, row, scroller, section, table
from vnetperf.report.plot_cpu import cpu_plot
from vnetperf.report.plot_latency import latency_legend, latency_plot, lines_of
from vnetperf.report.plot_loss import loss_legend, loss_plot
from vnetperf.report.plot_search import search_legend, search_plot
from vnetperf.report.plot_throughput import throughput_plot

_NONE = "\N{EN DASH}"
#: Hops whose columns fit beside a plot.
_BESIDE = 3
_HEAD = (
    "size",
    "goal, direction",
    "lower bound",
    "upper bound",
    "conditional throughput",
    "L1 Gbit/s",
    "of medium",
    "of generator",
    "latency p50",
    "p99",
    "max",
    "trials",
)
_NUM = ("", "", *["num"] * 10)


def number(goal: GoalResult, *, short: bool = False) -> Markup:
    """A goal's number with its qualifier and its mark, which never part.

    Args:
        goal: The goal's result.
        short: True where the unit is named elsewhere.

    Returns:
        HTML.
    """
    shown = el("span", bounds.qualified(goal, short=short), class_="value")
    if goal.regular:
        return shown
    return el("span", shown, " ", badge(bounds.flag(goal), "warn"), title=goal.reason)


def _rate(value: float | None) -> str:
    return _NONE if value is None else text.fps(value)


def _goal_row(result: Result, goal: GoalResult, first: Sequence[Markup], span: int) -> Markup:
    value = bounds.headline_fps(goal)
    l1 = goal.throughput_l1_bps
    cells: list[object] = [
        *first,
        el("th", goal.name, scope="row", class_="goal"),
        number(goal),
        "none failed" if goal.upper_bound_fps is None else text.fps(goal.upper_bound_fps),
        _rate(goal.conditional_throughput_fps),
        _NONE if l1 is None else text.gigabits(l1),
        _NONE if value is None else bounds.share(value, result.media_max_fps),
        _NONE if value is None else bounds.share(value, result.generator_max_fps),
        *("", "", ""),
    ]
    if first:
        cells.append(el("td", result.trial_count, rowspan=span, class_="num trials"))
    css = _NUM if first else _NUM[1:]
    return Markup(row(cells, css=css).replace("<tr>", '<tr class="sum">', 1))


def _direction_row(goal: GoalResult, name: str, bound: DirectionBound | None) -> Markup:
    latency = goal.latency.get(name)
    found = latency.percentiles if latency else {}
    upper = bound.upper_bound_fps if bound else None
    cells: list[object] = [
        el("th", name, scope="row", class_="direction"),
        _rate(bound.lower_bound_fps if bound else None),
        _NONE if upper is None else text.fps(upper),
        _rate(bound.conditional_throughput_fps if bound else None),
        *("", "", ""),
        *(text.nanoseconds(found[p]) if p in found else _NONE for p in ("50", "99")),
        text.nanoseconds(latency.max_ns) if latency else bounds.NOT_MEASURED,
    ]
    return Markup(row(cells, css=_NUM[1:]).replace("<tr>", '<tr class="part">', 1))


def _body(result: Result) -> Markup:
    def directions(goal: GoalResult) -> dict[str, DirectionBound | None]:
        known: dict[str, DirectionBound | None] = {b.direction: b for b in goal.per_direction}
        return known | {name: known.get(name) for name in goal.latency}

    span = sum(1 + len(directions(g)) for g in result.goals)
    lines: list[Markup] = []
    for index, goal in enumerate(result.goals):
        first = [el("th", result.size_name, scope="rowgroup", rowspan=span, class_="size")]
        lines.append(_goal_row(result, goal, [] if index else first, span))
        lines += [_direction_row(goal, n, b) for n, b in directions(goal).items()]
    return el("tbody", lines)


def _results_table(group: Group) -> Markup:
    if not group.measured:
        return Markup("")
    inner = el(
        "table",
        el("thead", row(_HEAD, tag="th", css=_NUM)),
        [_body(r) for r in group.measured],
        class_="results",
    )
    return scroller(f"Results of {group.title}", inner)


def _asked(group: Group) -> Iterator[Markup]:
    for goal in goals_used(group):
        index = group.goal_names.index(goal.name)
        mark = el("b", goal.name, class_=f"goal-name g{index % 4}")
        yield el("li", mark, " ", bounds.goal_attributes(goal))
    for said in sorted({bounds.search_attributes(r) for r in group.measured}):
        yield el("li", said)


def _trials_of(group: Group, trials: Mapping[Case, list[TrialPoint]]) -> list[TrialPoint]:
    return [t for r in group.results for t in trials.get(case_of(r), [])]


def _threads(group: Group) -> Markup | None:
    rows = list(threads.rows(group))
    if not rows:
        return None
    css = ("", "", "", "", *["num"] * (len(rows[0]) - 4))
    return folded(
        el("span", el("b", threads.TITLE), class_="line"),
        el("div", [el("p", line, class_="muted") for line in threads.notes(group)]),
        table(f"Busy threads of {group.title}", threads.head(group), rows, css=css),
    )


def group_section(
    group: Group,
    trials: Mapping[Case, list[TrialPoint]],
    ledger: Sequence[LedgerEntry],
    anchor: str,
) -> Markup:
    """The part of the page that shows one scenario and test.

    Args:
        group: Its results.
        trials: All trials of the run by search.
        ledger: The run's clauses.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    said = list(notes(group))
    noted = el("ul", [el("li", n) for n in said], class_="notes") if said else None
    if not group.goal_names:
        tried = [t for r in group.measured for t in trials.get(case_of(r), [])]
        line = el("p", _effort(group, tried), class_="asked") if group.measured else None
        parts = [
            line,
            noted,
            *outcomes_part(group, trials),
            losses_table(group, trials),
            _threads(group),
            clauses(ledger, group),
        ]
        return section(anchor, group.title, *parts)
    first: Markup | None = el(
        "div", throughput_plot(group), losses_table(group, trials), class_="pair"
    )
    plots = list(_plots(group, trials))
    if _hops(group, trials) > _BESIDE:
        plots.insert(0, el("div", throughput_plot(group), class_="solo"))
        first = losses_table(group, trials)
    return section(
        anchor,
        group.title,
        el("ul", list(_asked(group)), class_="asked"),
        _results_table(group),
        noted,
        first,
        _threads(group),
        clauses(ledger, group),
        strips(plots),
        *outcomes_part(group, trials),
    )


def _hops(group: Group, trials: Mapping[Case, list[TrialPoint]]) -> int:
    return len({hop for trial in _trials_of(group, trials) for hop in trial.lost_at})


def _effort(group: Group, tried: Sequence[TrialPoint]) -> str:
    """What a test took, in a line."""
    count = sum(r.trial_count for r in group.measured)
    traffic = text.seconds(sum(r.trial_seconds for r in group.measured))
    whole = text.seconds(sum(r.wall_seconds for r in group.measured))
    bad = sum(t.verdict is not Verdict.VALID for t in tried)
    said = f", {bad} of them classify nothing" if bad else ""
    return f"{count} trials{said}; {traffic} of traffic, {whole} in all."


def _plots(group: Group, trials: Mapping[Case, list[TrialPoint]]) -> Iterator[Markup | None]:
    names = group.goal_names
    directions = tuple(dict.fromkeys(d for r in group.measured for g in r.goals for d in g.latency))
    mine = _trials_of(group, trials)
    of = [(r, trials.get(case_of(r), [])) for r in group.measured]
    losses = [loss_plot(r, found, names) for r, found in of]
    yield grid("Loss against load", loss_legend(mine, group), losses)
    # A search that was begun anew stands for nothing: only the last one is drawn.
    searches = [search_plot(r, found[-(r.trial_count or 0) :], names) for r, found in of]
    yield grid("Loads in the order they were tried", search_legend(mine, names), searches)
    latencies = [latency_plot(r, lines_of(r), names, directions) for r in group.measured]
    yield grid("Latency at the lower bounds", latency_legend(names, directions), latencies)
    yield grid("Processors by role", None, [cpu_plot(group, name) for name in names])
