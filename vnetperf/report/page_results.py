"""The page's section of one scenario and test: tables, plots, clauses, lost frames by hop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from vnetperf.model.outcomes import Curve, Spread
from vnetperf.model.result import (
    LedgerEntry,
    Result,
    RunResults,
    TrialPoint,
)
from vnetperf.model.trial import Verdict
from vnetperf.report import goal_text, outcomes, run_tables, summary, text
from vnetperf.report.goal_text import LossAccount, account_losses, group_notes
from vnetperf.report.outcome_plots import (
    LatencyLine,
    latency_legend,
    latency_lines,
    latency_plot,
    loss_detail_plot,
    loss_over_time_plot,
    loss_rate_plot,
    rate_curve_plot,
    sizes_legend,
    soak_plot,
    timeline_legend,
    timeline_plot,
)
from vnetperf.report.plot import (
    Markup,
    SpreadRow,
    by_size_plot,
    el,
    legend,
    spread_legend,
    spread_plot,
)
from vnetperf.report.search_plots import (
    cpu_plot,
    loss_legend,
    loss_plot,
    search_legend,
    search_plot,
    throughput_plot,
)
from vnetperf.report.summary import Case, Group, case_of, goals_used
from vnetperf.report.table import (
    cell_html,
    folded,
    html_row,
    html_table,
    scroller,
    section,
    table_html,
)


def ledger_section(results: RunResults, anchor: str) -> Markup:
    """How the run stands to the standards, clause by clause."""
    found = run_tables.ledger(summary.ledger(results))
    said = el("p", f"{summary.ledger_sentence(results)}.", class_="muted")
    shown = table_html(found, heading=False, kind="ledger", css=("name",))
    return section(anchor, found.title, said, shown)


def clauses_of_test(entries: Sequence[LedgerEntry], group: Group) -> Markup | None:
    """The clauses of one scenario and test, behind a line that counts them."""
    mine = summary.ledger_of_test(entries, group)
    if not mine:
        return None
    line = el(
        "span",
        el("b", "Clauses of this test"),
        el("span", summary.ledger_counts(mine), class_="muted"),
        class_="line",
    )
    found = run_tables.clauses(mine, f"Clauses of {group.title}")
    return folded(line, table_html(found, heading=False, kind="ledger", css=("name",)))


_HOP_BAR_WIDTH = 100.0


def _hop_bar(lost: LossAccount, hops: list[str]) -> Markup:
    parts, left = [], 0.0
    for hop in hops:
        count = lost.by_hop.get(hop, 0)
        if count <= 0:
            continue
        width = count / lost.total * _HOP_BAR_WIDTH
        said = f"{hop}: {text.frames(count)} frames, {text.percent(count / lost.total, 3)}"
        css = f"hop h{hops.index(hop) % 6}"
        shape = el("rect", x=f"{left:.2f}", y=0, width=f"{width:.2f}", height=10, class_=css)
        parts.append(el("g", el("title", said), shape, class_="tip"))
        left += width
    return el(
        "svg",
        parts,
        viewBox=f"0 0 {_HOP_BAR_WIDTH:g} 10",
        preserveAspectRatio="none",
        class_="share",
        role="img",
        aria_label="shares of the hops",
    )


def _hop_cell(lost: LossAccount, hop: str) -> str:
    count = lost.by_hop.get(hop, 0)
    if not count or not lost.total:
        return "0"
    return f"{text.frames(count)} ({text.percent(count / lost.total, 3)})"


def losses_table(group: Group, trials: Mapping[Case, list[TrialPoint]]) -> Markup | None:
    """Where the frames of a group's searches died."""
    accounts = {r.frame_size: account_losses(trials.get(case_of(r), [])) for r in group.measured}
    if not any(a.trials for a in accounts.values()):
        return None
    if not any(a.lossy for a in accounts.values()):
        count = sum(a.trials for a in accounts.values())
        return el(
            "div",
            el("h3", goal_text.LOSSES_TITLE),
            el("p", f"None of {count} VALID trials lost a frame.", class_="muted"),
        )
    hops = list(dict.fromkeys(hop for a in accounts.values() for hop in a.by_hop))
    rows = []
    for size, lost in accounts.items():
        bar = _hop_bar(lost, hops) if lost.total > 0 else Markup("")
        cells = [str(size), f"{lost.lossy} of {lost.trials}", bar]
        rows.append([*cells, *(_hop_cell(lost, h) for h in hops), str(lost.unattributed)])
    head = ["size", "lossy trials", "share", *hops, "no hop named"]
    css = ["", "num", "bars", *["num"] * (len(hops) + 1)]
    return el(
        "div",
        el("h3", goal_text.LOSSES_TITLE),
        el("p", "Frames lost in VALID trials; lossy trials of all VALID ones.", class_="muted"),
        legend((f"box hop h{i % 6}", hop) for i, hop in enumerate(hops)) if hops else None,
        html_table(f"Lost frames of {group.title}, by hop", head, rows, css=css, kind="losses"),
    )


#: Rows up to which a table is short.
_LONG_TABLE = 16


def figure_grid(title: str, key: Markup | None, figures: Sequence[Markup]) -> Markup | None:
    """Figures side by side."""
    shown = [figure for figure in figures if figure]
    if not shown:
        return None
    heading = el("h3", title) if title else None
    css = "solo" if len(shown) == 1 else None
    return el("div", heading, key, el("div", shown, class_="plots"), class_=css)


def figure_strips(parts: Sequence[Markup | None]) -> Markup | None:
    """Rows of figures below each other; those of one figure stand side by side."""
    shown = [part for part in parts if part]
    return el("div", shown, class_="strips") if shown else None


def figures_beside(
    main: Markup, title: str, figures: Sequence[Markup], known: Sequence[Spread]
) -> Markup | None:
    """A plot over all frame sizes, and beside it every measurement at each."""
    right = figure_grid(title, spread_legend(known), figures)
    if not main or right is None:
        return right or main or None
    return el("div", main, right, class_="pair")


def _repetition_plots(group: Group) -> Iterator[Markup | None]:
    every = outcomes.repeated_goals(group)
    figures = [
        spread_plot(
            f"{e.result.size_text}, {e.of}", "lower bound", [SpreadRow("rounds", e.found)], "fps"
        )
        for e in every
    ]
    key = spread_legend([e.found for e in every])
    yield figure_grid("Lower bounds of all rounds", key, figures)


def _latency_plots(group: Group) -> Iterator[Markup | None]:
    members = [r for r in group.measured if r.latency_at]
    if not members:
        return
    loads = tuple(dict.fromkeys(at.of for r in members for at in r.latency_at))
    every = [at for r in members for at in r.latency_at]
    directions = tuple(dict.fromkeys(d for at in every for d in (*at.latency, *at.mean_ns)))
    series: dict[str, dict[int, Spread]] = {}
    figures = []
    for result in members:
        for at in result.latency_at:
            rows = [SpreadRow(direction, mean) for direction, mean in at.mean_ns.items()]
            title = f"{result.size_text}, {at.of}"
            figures.append(spread_plot(title, "mean latency of a trial", rows, "ns"))
            for direction, mean in at.mean_ns.items():
                series.setdefault(f"{at.of}, {direction}", {})[result.frame_size] = mean
    title, axis = "Mean latency against frame size", "mean latency"
    main = by_size_plot(title, axis, group.results, series, "ns")
    yield figures_beside(
        main, "Each trial", figures, [s for at in every for s in at.mean_ns.values()]
    )
    curves = []
    for result in members:
        lines = [
            LatencyLine(at.of, d, v) for at in result.latency_at for d, v in at.latency.items()
        ]
        curves.append(latency_plot(result, lines, loads, directions))
    yield figure_grid("Percentiles of all frames", latency_legend(loads, directions), curves)


def _loss_plots(group: Group) -> Iterator[Markup | None]:
    members = [r for r in group.measured if r.loss_steps]
    whole = loss_rate_plot(group) if group.test != "loss_profile" else Markup("")
    yield figure_grid("", sizes_legend(members), [whole, loss_detail_plot(group)])


def _back_to_back_plots(group: Group) -> Iterator[Markup | None]:
    known = [(r, r.back_to_back) for r in group.measured if r.back_to_back]
    if not known:
        return
    series = {"mean": {r.frame_size: found.frames for r, found in known if not found.capped}}
    title = "Longest burst without loss against frame size"
    main = by_size_plot(title, "frames, each interface", group.results, series, "frames")
    figures = [
        spread_plot(
            r.size_text,
            "frames without loss",
            [
                SpreadRow(
                    "at least" if found.capped else "searches", found.frames, arrow=found.capped
                )
            ],
            "frames",
        )
        for r, found in known
    ]
    yield figures_beside(main, "Each search", figures, [found.frames for _, found in known])


def _burst_plots(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> Markup | None:
    of = [(r, trials.get(case_of(r), ())) for r in group.measured if r.back_to_back]
    every = [trial for _, found in of for trial in found]
    figures = [search_plot(r, found, ()) for r, found in of]
    return figure_grid("Bursts in the order they were tried", search_legend(every, ()), figures)


def _recovery_plots(group: Group) -> Iterator[Markup | None]:
    known = [(r, r.recovery) for r in group.measured if r.recovery]
    if not known:
        return
    rows = [SpreadRow(r.size_text, found.seconds) for r, found in known]
    first = spread_plot("Recovery time of each trial", "recovery time", rows, "s")
    yield figure_grid("", spread_legend([found.seconds for _, found in known]), [first])
    yield _timelines(
        "Recovery over time",
        [(r.size_text, _median_curve(f.curves, f.seconds), f.curves) for r, f in known],
    )


def _reset_plots(group: Group) -> Iterator[Markup | None]:
    known = [(r, found) for r in group.measured for found in r.resets]
    if not known:
        return
    several = len({r.frame_size for r, _ in known}) > 1

    def name(result: Result, what: str) -> str:
        return f"{what}, {result.size_text}" if several else what

    figures = []
    methods = (("Frame-loss method", "by_loss_s"), ("Time-stamp method", "by_time_s"))
    for words, method in methods:
        rows = [SpreadRow(name(r, found.what), getattr(found, method)) for r, found in known]
        figures.append(spread_plot(words, "reset time", rows, "s"))
    spreads = [s for _, f in known for s in (f.by_loss_s, f.by_time_s) if s]
    yield figure_grid("", spread_legend(spreads), figures)
    curves = [
        (name(r, f.what), _median_curve(f.curves, f.by_loss_s or f.by_time_s), f.curves)
        for r, f in known
    ]
    yield _timelines("Reset over time", curves)


def _median_curve(curves: Sequence[Curve], spread: Spread | None) -> Curve | None:
    """The curve whose number lies nearest to the median; the first where they do not match."""
    if not curves:
        return None
    if spread is None or len(spread.values) != len(curves):
        return curves[0]
    order = sorted(range(len(curves)), key=lambda i: abs(spread.values[i] - spread.median))
    return curves[order[0]]


def _timelines(
    title: str, found: Sequence[tuple[str, Curve | None, Sequence[Curve]]]
) -> Markup | None:
    main = [timeline_plot(name, typical) for name, typical, _ in found if typical is not None]
    shown = figure_grid(title, timeline_legend(), main)
    if shown is None:
        return None
    rest = [
        timeline_plot(name, curve)
        for name, typical, curves in found
        for curve in curves
        if curve is not typical
    ]
    others = figure_grid("", None, rest)
    said = "Of each the trial nearest to the median; the others are behind the line below."
    note = el("p", said, class_="muted below") if others else None
    count = sum(1 for figure in rest if figure)
    more = (
        folded(f"{title}: {count} further trial{'s' if count > 1 else ''}", others)
        if others
        else None
    )
    return el("div", shown, note, more)


def _rate_plots(group: Group) -> Iterator[Markup | None]:
    members = [r for r in group.measured if r.rates]
    if not members:
        return
    if any(len(r.rates) > 1 for r in members):
        yield figure_grid("", sizes_legend(members), [rate_curve_plot(group)])
        return
    series = {"rate": {r.frame_size: r.rates[0].forwarded_fps for r in members}}
    title, axis = "Forwarding rate against frame size", "frames/s, aggregate"
    main = by_size_plot(title, axis, group.results, series, "fps")
    figures = [
        spread_plot(
            result.size_text,
            "forwarding rate of a trial, frames/s",
            [SpreadRow(found.of, found.forwarded_fps) for found in result.rates],
            "fps",
        )
        for result in members
    ]
    known = [found.forwarded_fps for r in members for found in r.rates]
    yield figures_beside(main, "Each trial", figures, known)


def _soak_plots(group: Group) -> Iterator[Markup | None]:
    known = [(r, r.soak) for r in group.measured if r.soak]
    yield figure_grid("", None, [soak_plot(group)])
    lost = [loss_over_time_plot(r.size_text, found.curve) for r, found in known if found.curve]
    yield figure_grid("Frames lost over time", None, lost)


_OUTCOME_PLOTS: tuple[Callable[[Group], Iterator[Markup | None]], ...] = (
    _repetition_plots,
    _latency_plots,
    _loss_plots,
    _back_to_back_plots,
    _recovery_plots,
    _reset_plots,
    _rate_plots,
    _soak_plots,
)


def outcomes_part(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> list[Markup]:
    """Tables and plots of one scenario and test."""
    all_of = outcomes.tables(group)
    found = [table_html(t, label=f"{t.title}, {group.title}") for t in all_of]
    drawn = [part for plots in _OUTCOME_PLOTS for part in plots(group)]
    drawn.append(_burst_plots(group, trials))
    # A short table stands before the plots; a long one, or one of what was tried, after them.
    first = bool(all_of) and len(all_of[0].rows) <= _LONG_TABLE
    plots = figure_strips(drawn)
    ordered = [*found[:1], plots, *found[1:]] if first else [plots, *found]
    return [part for part in ordered if part]


#: Hops whose columns fit beside a plot.
_BESIDE = 3


def _result_body(result: Result) -> Markup:
    """A frame size: rows of goals and their directions beside what all of them share."""
    rows = list(goal_text.rate_rows(result))
    lines = []
    for index, row in enumerate(rows):
        css, name = ("part", row.direction) if row.direction else ("sum", row.goal.name)
        kind = "direction" if row.direction else "goal"
        cells = goal_text.rate_cells(row, goal_text.PAGE_COLUMNS)
        size = el("th", result.size_name, scope="rowgroup", rowspan=len(rows), class_="size")
        trials = el("td", result.trial_count, rowspan=len(rows), class_="num trials")
        lines.append(
            el(
                "tr",
                None if index else size,
                el("th", name, scope="row", class_=kind),
                [el("td", cell_html(cell), class_="num") for cell in cells],
                None if index else trials,
                class_=css,
            )
        )
    return el("tbody", lines)


def _results_table(group: Group) -> Markup | None:
    if not group.measured:
        return None
    names = [column.name for column in goal_text.PAGE_COLUMNS]
    css = ("", "", *["num"] * (len(names) + 1))
    head = html_row(("size", "goal, direction", *names, "trials"), tag="th", css=css)
    body = [_result_body(r) for r in group.measured]
    inner = el("table", el("thead", head), body, class_="results")
    return scroller(f"Results of {group.title}", inner)


def _goal_attributes(group: Group) -> Iterator[Markup]:
    for goal in goals_used(group):
        index = group.goal_names.index(goal.name)
        mark = el("b", goal.name, class_=f"goal-name g{index % 4}")
        yield el("li", mark, " ", goal_text.goal_attributes(goal))
    for said in sorted({goal_text.search_attributes(r) for r in group.measured}):
        yield el("li", said)


def _trials_of(group: Group, trials: Mapping[Case, list[TrialPoint]]) -> list[TrialPoint]:
    return [t for r in group.results for t in trials.get(case_of(r), [])]


def _threads_part(group: Group) -> Markup | None:
    found = goal_text.thread_table(group)
    if not found:
        return None
    css = ("", "", "", "", *["num"] * (len(found.columns) - 4))
    label = f"Busy threads of {group.title}"
    return folded(
        el("span", el("b", found.title), class_="line"),
        table_html(found, label=label, heading=False, kind="", css=css),
    )


def group_section(
    group: Group,
    trials: Mapping[Case, list[TrialPoint]],
    ledger: Sequence[LedgerEntry],
    anchor: str,
) -> Markup:
    """The part of the page that shows one scenario and test."""
    said = list(group_notes(group))
    noted = el("ul", [el("li", n) for n in said], class_="notes") if said else None
    if not group.goal_names:
        tried = [t for r in group.measured for t in trials.get(case_of(r), [])]
        line = el("p", _effort_text(group, tried), class_="asked") if group.measured else None
        parts = [
            line,
            noted,
            *outcomes_part(group, trials),
            losses_table(group, trials),
            _threads_part(group),
            clauses_of_test(ledger, group),
        ]
        return section(anchor, group.title, *parts)
    first: Markup | None = el(
        "div", throughput_plot(group), losses_table(group, trials), class_="pair"
    )
    plots = list(_search_plots(group, trials))
    if _hop_count(group, trials) > _BESIDE:
        plots.insert(0, el("div", throughput_plot(group), class_="solo"))
        first = losses_table(group, trials)
    return section(
        anchor,
        group.title,
        el("ul", list(_goal_attributes(group)), class_="asked"),
        _results_table(group),
        noted,
        first,
        _threads_part(group),
        clauses_of_test(ledger, group),
        figure_strips(plots),
        *outcomes_part(group, trials),
    )


def _hop_count(group: Group, trials: Mapping[Case, list[TrialPoint]]) -> int:
    return len({hop for trial in _trials_of(group, trials) for hop in trial.lost_at})


def _effort_text(group: Group, tried: Sequence[TrialPoint]) -> str:
    """What a test took, in a line."""
    count = sum(r.trial_count for r in group.measured)
    traffic = text.seconds(sum(r.trial_seconds for r in group.measured))
    whole = text.seconds(sum(r.wall_seconds for r in group.measured))
    bad = sum(t.verdict is not Verdict.VALID for t in tried)
    said = f", {bad} of them classify nothing" if bad else ""
    return f"{count} trials{said}; {traffic} of traffic, {whole} in all."


def _search_plots(group: Group, trials: Mapping[Case, list[TrialPoint]]) -> Iterator[Markup | None]:
    names = group.goal_names
    directions = tuple(dict.fromkeys(d for r in group.measured for g in r.goals for d in g.latency))
    mine = _trials_of(group, trials)
    of = [(r, trials.get(case_of(r), [])) for r in group.measured]
    losses = [loss_plot(r, found, names) for r, found in of]
    yield figure_grid("Loss against load", loss_legend(mine, group), losses)
    # A search that was begun anew stands for nothing: only the last one is drawn.
    searches = [search_plot(r, found[-(r.trial_count or 0) :], names) for r, found in of]
    yield figure_grid("Loads in the order they were tried", search_legend(mine, names), searches)
    latencies = [latency_plot(r, latency_lines(r), names, directions) for r in group.measured]
    yield figure_grid("Latency at the lower bounds", latency_legend(names, directions), latencies)
    yield figure_grid("Processors by role", None, [cpu_plot(group, name) for name in names])
