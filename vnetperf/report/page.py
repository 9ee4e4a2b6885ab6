"""report.html: one file that needs no server, no network and no script to be read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from vnetperf.model import units
from vnetperf.model.outcomes import Curve, Spread
from vnetperf.model.result import GoalResult, Profile, Result, RunResults, TrialPoint
from vnetperf.model.trial import Verdict
from vnetperf.report import (
    goal_text,
    latency,
    outcomes,
    plots,
    run_tables,
    summary,
    transfers,
    workloads,
)
from vnetperf.report.comparison import (
    VariantResults,
    comparison_notes,
    event_table,
    list_comparisons,
    relative_text,
    short_upper_bound,
    variant_sessions,
    variant_transfers,
)
from vnetperf.report.goal_text import LossAccount, account_losses
from vnetperf.report.picture import pictures
from vnetperf.report.placement import figures
from vnetperf.report.plot import Plot, data, legend, svg, templates
from vnetperf.report.summary import (
    Case,
    Group,
    flatten_facts,
    identify_case,
    shown_trials,
    size_names,
)
from vnetperf.report.table import LEGEND, NOT_MEASURED, NOT_RECORDED, Column, Table
from vnetperf.report.text import Value, text_or_none

#: The files beside the page that hold its numbers.
_FILES = (
    "results.csv", "outcomes.csv", "trials.csv", "cpu.csv", "curves.csv", "transfers.csv",
    "results.json", "report.md",
)  # fmt: skip
#: Longest words that a table keeps on one line.
_SHORT = 24
#: Hops whose columns fit beside a plot.
_BESIDE = 2


@dataclass(frozen=True, slots=True)
class Strip:
    """Plots side by side, below one legend."""

    title: str
    plots: tuple[Plot, ...]
    key: bool = True  # False where each has a legend of its own, or none
    main: Plot | None = None  # A plot that stands before them; None for none
    folded: tuple[Plot, ...] = ()  # Further plots, which a click shows


@dataclass(frozen=True, slots=True)
class GroupView:
    """What the page shows of one test of one scenario."""

    group: Group
    anchor: str
    trials: Mapping[Case, list[TrialPoint]]
    #: Every hop that lost frames in the run, in the order of their colours.
    hops_of_run: Sequence[str]
    roles_of_run: Sequence[str]
    profiles: Sequence[Profile] = ()
    #: Lost frames by frame size; empty without a valid trial.
    accounts: dict[str, LossAccount] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Sum up the losses once."""
        accounts = {r.size_name: account_losses(self._find_trials(r)) for r in self.group.measured}
        if any(a.trials for a in accounts.values()):
            self.accounts.update(accounts)

    def _find_trials(self, result: Result) -> list[TrialPoint]:
        return self.trials.get(identify_case(result), [])

    @property
    def effort(self) -> str:
        """What the test took, in a line."""
        measured = self.group.measured
        tried = [t for r in measured for t in self._find_trials(r)]
        shown = [t for r in measured for t in shown_trials(r, self.trials)]
        bad = sum(t.verdict is not Verdict.VALID for t in tried)
        discarded = f", {bad} of them not {Verdict.VALID.value}" if bad else ""
        besides = f", {len(shown)} of them in what is shown" if len(shown) < len(tried) else ""
        traffic = units.seconds(sum(t.duration_s for t in tried))
        return f"{len(tried)} trials{besides}{discarded}; {traffic} of traffic."

    @property
    def hops(self) -> list[str]:
        """Hops that lost frames, the worst first."""
        return list(dict.fromkeys(hop for a in self.accounts.values() for hop in a.by_hop))

    @property
    def hop_keys(self) -> list[tuple[str, str]]:
        """Entries of the legend of hops."""
        return [(f"box {plots.hop_css(hop, self.hops_of_run)}", hop) for hop in self.hops]

    @property
    def main(self) -> Plot | None:
        """The plot of a search over all frame sizes."""
        return plots.throughput_plot(self.group)

    @property
    def hops_fit(self) -> bool:
        """Whether the losses by hop fit beside that plot."""
        return len(self.hops) <= _BESIDE

    @property
    def search_strips(self) -> list[Strip]:
        """Plots of a search."""
        group, names = self.group, self.group.goal_names
        goals = [g for r in group.measured for g in r.goals]
        directions = tuple(dict.fromkeys(d for g in goals for d in g.latency))
        searches = [(r, shown_trials(r, self.trials)) for r in group.measured]
        latencies = []
        for r, _ in searches:
            lines = [(goal.name, d, v) for goal in r.goals for d, v in goal.latency.items()]
            latencies.append(plots.latency_plot(r, lines, names, directions))
        strips = [
            _strip(
                "Loss against load", [plots.loss_plot(r, trials, names) for r, trials in searches]
            ),
            _strip(
                "Loads in the order they were tried",
                [plots.search_plot(r, trials, names) for r, trials in searches],
            ),
            _strip("Latency at the lower bounds", latencies),
            _strip(
                "Cores by role",
                [plots.cpu_plot(group, name, self.roles_of_run) for name in names],
                legend=False,
            ),
        ]
        if not self.hops_fit:
            strips.insert(0, _strip("", [self.main], legend=False))
        return [strip for strip in strips if strip]

    @property
    def strips(self) -> list[Strip]:
        """Plots of every other test."""
        all_strips = [strip for strips in _OUTCOME_STRIPS for strip in strips(self.group)]
        bursts = [r for r in self.group.measured if r.back_to_back]
        tried = [plots.search_plot(r, shown_trials(r, self.trials), ()) for r in bursts]
        all_strips.append(_strip("Bursts in the order they were tried", tried))
        return [strip for strip in all_strips if strip]


def _strip(
    title: str,
    drawn: Sequence[Plot | None],
    *,
    legend: bool = True,
    main: Plot | None = None,
    folded: Sequence[Plot | None] = (),
) -> Strip | None:
    shown = tuple(plot for plot in drawn if plot)
    further = tuple(plot for plot in folded if plot)
    return Strip(title, shown, legend, main, further) if shown or main else None


Strips = Iterator[Strip | None]


def _repetition_strips(group: Group) -> Strips:
    drawn = [
        plots.spread_plot(
            f"{e.result.size_text}, {e.label}",
            "lower bound" if e.result.goals else e.label,
            [("deployments", e.outcome.spread)],
            "fps",
        )
        for e in outcomes.repeated_numbers(group)
        if e.outcome.unit == "fps" and e.outcome.spread is not None
    ]
    yield _strip("Rates of all deployments", drawn)


def _latency_strips(group: Group) -> Strips:
    loads = [(r, load) for r in group.measured for load in r.latency_at]
    if not loads:
        return
    if group.test == latency.LATENCY_LOAD:
        yield _strip(
            "Latency against load",
            [
                plots.latency_load_plot(r, both_ways=both_ways)
                for r in group.measured
                for both_ways in (False, True)
            ],
        )
        return
    names = tuple(dict.fromkeys(load.of for _, load in loads))
    directions = tuple(
        dict.fromkeys(d for _, load in loads for d in (*load.latency, *load.mean_ns))
    )
    series: dict[str, dict[int, Spread]] = {}
    for result, load in loads:
        for direction, mean in load.mean_ns.items():
            series.setdefault(f"{load.of}, {direction}", {})[result.frame_size] = mean
    title, axis = "Mean latency against frame size", "mean latency"
    spreads = [
        plots.spread_plot(
            f"{r.size_text}, {load.of}", "mean latency of a trial", [*load.mean_ns.items()], "ns"
        )
        for r, load in loads
    ]
    main = plots.by_size_plot(title, axis, group.results, series, "ns")
    yield _strip("Each trial", spreads, main=main)
    curves = []
    for result in group.measured:
        lines = [(load.of, d, v) for load in result.latency_at for d, v in load.latency.items()]
        curves.append(plots.latency_plot(result, lines, names, directions))
    yield _strip("Percentiles of all frames", curves)


def _loss_strips(group: Group) -> Strips:
    full_scale = None if group.test == "loss_profile" else plots.loss_rate_plot(group, small=False)
    yield _strip("", [full_scale, plots.loss_rate_plot(group, small=True)])


def _back_to_back_strips(group: Group) -> Strips:
    burst_results = [(r, r.back_to_back) for r in group.measured if r.back_to_back]
    series = {
        "mean": {r.frame_size: bursts.frames for r, bursts in burst_results if not bursts.is_limit}
    }
    title = "Longest burst without loss against frame size"
    main = plots.by_size_plot(title, "frames, each interface", group.results, series, "frames")
    spreads = [
        plots.spread_plot(
            r.size_text,
            "frames without loss",
            [("at least" if bursts.is_limit else "searches", bursts.frames)],
            "frames",
            least=bursts.is_limit,
        )
        for r, bursts in burst_results
    ]
    yield _strip("Each search", spreads, main=main)


def _recovery_strips(group: Group) -> Strips:
    recoveries = [(r, r.recovery) for r in group.measured if r.recovery]
    rows = [(r.size_text, recovery.seconds) for r, recovery in recoveries if recovery.seconds]
    yield _strip("", [plots.spread_plot("Recovery time of each trial", "recovery time", rows, "s")])
    curves = []
    for r, recovery in recoveries:
        in_none = {*recovery.not_overloaded, *recovery.disturbed, *recovery.censored}
        curves.append((r.size_text, recovery.curves, recovery.seconds, in_none))
    yield _timelines("Recovery over time", curves)


def _reset_strips(group: Group) -> Strips:
    resets = [(r, reset) for r in group.measured for reset in r.resets]
    several = len({r.frame_size for r, _ in resets}) > 1
    named = [(f"{f.what}, {r.size_text}" if several else f.what, f) for r, f in resets]
    methods = (("Frame-loss method", "by_loss_s"), ("Time-stamp method", "by_time_s"))
    drawn = [
        plots.spread_plot(title, "reset time", [(n, getattr(f, value)) for n, f in named], "s")
        for title, value in methods
    ]
    yield _strip("", drawn)
    curves = [(name, f.curves, f.by_loss_s or f.by_time_s, {*f.disturbed}) for name, f in named]
    yield _timelines("Reset over time", curves)


def _timelines(
    title: str, rows: Sequence[tuple[str, Sequence[Curve], Spread | None, Set[int]]]
) -> Strip | None:
    """Of each the trial nearest to the median, of those that are in it; the others folded."""
    first: list[Plot | None] = []
    others: list[Plot | None] = []
    for name, curves, spread, in_none in rows:
        counted = [curve for curve in curves if curve.trial not in in_none]
        typical = _median_curve(counted or curves, spread)
        for curve in curves:
            (first if curve is typical else others).append(plots.timeline_plot(name, curve))
    return _strip(title, first, folded=others)


def _median_curve(curves: Sequence[Curve], spread: Spread | None) -> Curve | None:
    """The curve whose number lies nearest to the median; the first where they do not match."""
    if not curves:
        return None
    if spread is None or len(spread.values) != len(curves):
        return curves[0]
    distances = [abs(value - spread.median) for value in spread.values]
    return curves[distances.index(min(distances))]


def _rate_strips(group: Group) -> Strips:
    members = [r for r in group.measured if r.rates]
    if any(len(r.rates) > 1 for r in members):
        yield _strip("", [plots.rate_curve_plot(group)])
        return
    series = {"rate": {r.frame_size: r.rates[0].forwarded_fps for r in members}}
    title, axis = "Forwarding rate against frame size", "frames/s, aggregate"
    main = plots.by_size_plot(title, axis, group.results, series, "fps")
    axis = "forwarding rate of a trial, frames/s"
    spreads = [
        plots.spread_plot(r.size_text, axis, [(f.of, f.forwarded_fps) for f in r.rates], "fps")
        for r in members
    ]
    yield _strip("Each trial", spreads, main=main)


def _soak_strips(group: Group) -> Strips:
    yield _strip("", [plots.soak_plot(group)], legend=False)
    curves = [(r.size_text, r.soak.curve) for r in group.measured if r.soak and r.soak.curve]
    lost = [plots.loss_over_time_plot(name, curve) for name, curve in curves]
    yield _strip("Frames lost over time", lost, legend=False)


def _service_strips(group: Group) -> Strips:
    drawn = [plots.service_plot(result) for result in group.measured]
    yield _strip("Share of the limits at each step", drawn, legend=False)


def _cpu_load_strips(group: Group) -> Strips:
    cpu_loads = [r.cpu_load for r in group.measured if r.cpu_load is not None]
    roles = tuple(
        dict.fromkeys(role for cpu_load in cpu_loads for load in cpu_load.at for role in load.roles)
    )
    drawn = [plots.cpu_load_plot(r, roles) for r in group.measured]
    yield _strip("Processors against load", drawn, legend=False)


def _figure_strips(group: Group) -> Strips:
    described = [r.outcome for r in group.measured if r.outcome is not None]
    for plot in dict.fromkeys(plot for outcome in described for plot in outcome.plots):
        yield _strip("", [plots.figure_plot(group, plot)])
    several = len(described) > 1
    rows = [
        (f"{of}, {r.size_text}" if several else of, curves, None, frozenset[int]())
        for r in group.measured
        if r.outcome is not None
        for of, curves in r.outcome.curves.items()
    ]
    yield _timelines("Over time", rows)


_OUTCOME_STRIPS: tuple[Callable[[Group], Strips], ...] = (
    _repetition_strips,
    _latency_strips,
    _loss_strips,
    _back_to_back_strips,
    _recovery_strips,
    _reset_strips,
    _rate_strips,
    _soak_strips,
    _service_strips,
    _cpu_load_strips,
    _figure_strips,
)


def _hop_shares(lost: LossAccount, view: GroupView) -> Iterator[tuple[str, float, float, str]]:
    """Of each hop: what its part of the bar shows, where that begins, its width, its colour."""
    start = 0.0
    for hop in view.hops:
        if share := max(0, lost.by_hop.get(hop, 0)) / (lost.total or 1):
            hover = f"{hop}: {units.frames(lost.by_hop[hop])} frames, {units.percent(share, 3)}"
            yield hover, start, share * 100, plots.hop_css(hop, view.hops_of_run)
            start += share * 100


def _below_goal(result: Result, goal: GoalResult) -> tuple[str, ...]:
    """What stands below a bound of the overview: its share of the medium, all deployments."""
    value, limit = goal_text.headline_fps(goal), result.media_max_fps
    share = goal_text.share_text(value, limit) if value is not None and limit else ""
    return tuple(filter(None, (share, outcomes.over_deployments(result, goal.name))))


def _column_classes(table: Table) -> list[str]:
    classes = []
    for index, column in enumerate(table.columns):
        short = max(len(row[index].text) for row in table.rows) <= _SHORT
        kind = ("short" if short else "") if column.words else "num"
        classes.append(f"{kind} {'lead' * column.bold}".strip())
    return classes


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of the overview: scenarios or tests by frame size."""

    groups: tuple[Group, ...]
    sizes: dict[int, str]
    goal: str = ""
    attributes: str = ""
    scenario: str = ""


def _goal_tables(groups: Sequence[Group]) -> Iterator[Matrix]:
    for name in dict.fromkeys(n for g in groups for n in g.goal_names):
        having = tuple(g for g in groups if name in g.goal_names)
        goals = [goal for g in having for goal in summary.goals_used(g) if goal.name == name]
        attributes = "; or ".join(sorted({goal_text.goal_attributes(goal) for goal in goals}))
        yield Matrix(having, size_names(groups), goal=name, attributes=attributes)


def _other_tables(groups: Sequence[Group]) -> Iterator[Matrix]:
    """What tests besides a search measured: a table for each scenario, a row for each test."""
    shown = [g for g in groups if not g.goal_names and g.test != "throughput"]
    for scenario in dict.fromkeys(g.scenario for g in shown):
        scenario_groups = tuple(g for g in shown if g.scenario == scenario)
        yield Matrix(scenario_groups, size_names(shown), scenario=scenario)


def _find_cell(group: Group, size: int, name: str) -> tuple[Result | None, GoalResult | None]:
    result = next((r for r in group.results if r.frame_size == size), None)
    goals = result.goals if result and result.status == "measured" else ()
    return result, next((goal for goal in goals if goal.name == name), None)


def _overview_text(results: RunResults, goals: bool) -> str:
    measured = sum(r.status == "measured" for r in results.results)
    line = f"{measured} of {len(results.results)} cases measured, {len(results.trials)} trials."
    if not results.results:
        count = sum(len(scenario.transfers) for scenario in results.transfers)
        line = f"{count} transfer{'s' * (count != 1)}, no other test."
    if goals:
        line += (
            " Lower bounds in frames/s, the sum of the sending directions, by frame size in octets "
            "with FCS; below each "
        )
        if any(r.media_max_fps for r in results.results):
            line += "its share of the medium's theoretical maximum, and "
        line += "the mean over all deployments where there were several."
    return line


def _scenario_plots(
    groups: Sequence[Group],
    compared: Sequence[VariantResults],
    left_out: Collection[Case] = frozenset(),
) -> list[Plot]:
    """Scenarios below each other at the smallest and the largest size that most of them have."""
    variants = {v.scenario for comparison in compared for v in comparison.comparison.variants}
    drawn = []
    for test in dict.fromkeys(g.test_words for g in groups if g.goal_names):
        test_groups = [g for g in groups if g.test_words == test and g.scenario not in variants]
        sizes = [r.frame_size for g in test_groups for r in g.measured]
        shared = sorted(s for s in set(sizes) if sizes.count(s) > 1)
        for size in sorted({*shared[:1], *shared[-1:]}):
            rows, names = [], dict[str, None]()
            for group in test_groups:
                result, _ = _find_cell(group, size, "")
                absence = "not run", "it was not selected, or the run was interrupted"
                if result is not None:
                    absence = "not measured", result.why
                elif (group.scenario, group.test, size) in left_out:
                    absence = summary.NOT_SHOWN
                rows.append(plots.GoalRow(group.scenario, result, absence))
                names |= dict.fromkeys(goal.name for goal in result.goals) if result else {}
            title = f"{test} at {size} octets".capitalize()
            plot = plots.goals_plot(f"{title} across scenarios", title, rows, tuple(names))
            drawn += [plot] if plot else []
    return [*drawn, *_latency_plots(groups)]


def _latency_plots(groups: Sequence[Group]) -> Iterator[Plot]:
    """Latency of several scenarios or variants at the same loads, by size and percentile."""
    curves = [r for g in groups if g.test == latency.LATENCY_LOAD for r in g.measured]
    for size in sorted({r.frame_size for r in curves}):
        same_size = [r for r in curves if r.frame_size == size]
        kinds = [(x, is_round_trip) for is_round_trip in (False, True) for x in ("50", "99")]
        for level, both_ways in kinds if len(same_size) > 1 else ():
            if plot := plots.latencies_plot(same_size, level, both_ways=both_ways):
                yield plot


def variants_plot(compared: VariantResults, size: int) -> Plot | None:
    """The variants of one comparison at one frame size, below each other."""
    rows = [
        plots.GoalRow(v.variant, compared.result(v, size), compared.absence(v, size))
        for v in compared.comparison.variants
    ]
    if compared.has_sessions:
        title = f"New sessions by variant at {size} octets, {compared.title}"
        return plots.sessions_plot(title, f"{size} octets", rows)
    if key := compared.scale[0]:
        title = f"Throughput by {key} at {size} octets, {compared.title}"
        note = compared.shared_words
        caption = f"{size} octets" + (f", {note}" if note else "")
        return plots.scale_plot(title, caption, rows, compared.goal_names, compared.scale)
    title = f"Throughput by variant at {size} octets, {compared.title}"
    return plots.goals_plot(title, f"{size} octets", rows, compared.goal_names)


def _variants_plots(compared: VariantResults) -> list[Plot]:
    return [plot for size in compared.sizes if (plot := variants_plot(compared, size))]


def _environment(results: RunResults) -> tuple[list[tuple[str, str]], list[tuple[str, Any, str]]]:
    """Single facts, and groups of them with a note of how much is unknown."""
    single = {k: v for k, v in results.environment.items() if not isinstance(v, dict | list)}
    folds = []
    for name, tree in results.environment.items():
        if name in single:
            continue
        rows = list(flatten_facts(tree))
        unknown = sum(summary.is_missing(value) for _, value in rows)
        note = f"{len(rows)} facts" + (f", {unknown} unknown" if unknown else "")
        folds.append((name, rows, note))
    return list(flatten_facts(single)), folds


def _shown(value: Value | None, show: Callable[[Value], str]) -> str:
    return text_or_none(value, show) or NOT_MEASURED


def _lost_text(trial: TrialPoint) -> str:
    return "; ".join(f"{hop}: {units.frames(n)}" for hop, n in trial.lost_at.items())


def _gaps_text(trial: TrialPoint) -> str:
    if trial.poll_gap_s is None or trial.send_gap_s is None:
        return NOT_RECORDED
    return " / ".join(units.time_s(gap) for gap in (trial.poll_gap_s, trial.send_gap_s))


#: Columns of a list of trials.
_TRIALS: tuple[Column[TrialPoint], ...] = (
    Column("trial", lambda t: str(t.number)),
    Column(
        "load per interface",
        lambda t: f"burst of {units.frames(t.burst)}" if t.burst else units.fps(t.load_fps),
    ),
    Column("duration", lambda t: units.seconds(t.duration_s)),
    Column("loss, worse direction", lambda t: _shown(t.loss_ratio, units.percent)),
    Column("forwarded, aggregate", lambda t: _shown(t.forwarded_fps, units.fps)),
    Column(
        "offered of intended", lambda t: _shown(t.offered_ratio, partial(units.percent, digits=7))
    ),
    Column("verdict", goal_text.verdict_text, words=True),
    Column("lost at (frames)", _lost_text, words=True),
    Column("tester's longest gaps, polling / sending", _gaps_text),
    Column("unsent", lambda t: _shown(t.unsent, units.frames)),
    Column("late", lambda t: text_or_none(t.late, units.frames) or NOT_RECORDED),
    Column("disturbed", lambda t: "; ".join(t.disturbed), words=True),
    Column("reason", lambda t: t.reason, words=True),
)


def _contents(
    results: RunResults,
    views: Sequence[GroupView],
    comparisons: Mapping[str, VariantResults],
    user_tables: Mapping[str, Table],
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Links: a line for each scenario with its tests, and one for what belongs to the run."""
    lines: dict[str, list[tuple[str, str]]] = {}
    for view in views:
        link = (view.anchor, view.group.test_words)
        lines.setdefault(view.group.scenario, []).append(link)
    run = [("overview", "Overview")]
    run += [("deployment", "Deployment")] if pictures(results) or figures(results) else []
    run += [(anchor, comparison.title) for anchor, comparison in comparisons.items()]
    run += [(anchor, table.title) for anchor, table in user_tables.items()]
    run += [
        ("identity", "Identity"),
        ("ledger", "Standards ledger"),
        ("calibration", "Calibration"),
        ("environment", "Environment"),
        ("scenarios", "Deployed scenarios"),
        ("settings", "Settings"),
        ("unknowns", "Not measured, unknown"),
        ("trials", "All trials"),
    ]
    return [*lines.items(), ("", run)]


@cache
def _page() -> Template:
    environment = templates()
    environment.filters |= {"search_attributes": goal_text.search_attributes}
    functions: tuple[Callable[..., object], ...] = (
        svg, legend, data, event_table, short_upper_bound, relative_text, variant_transfers,
        variant_sessions, comparison_notes, _variants_plots, _column_classes,
        _hop_shares, _find_cell, _below_goal,
    )  # fmt: skip
    environment.globals |= {function.__name__.lstrip("_"): function for function in functions}
    environment.globals |= {"units": units, "goal_text": goal_text, "outcomes": outcomes}
    environment.globals |= {"summary": summary, "run_tables": run_tables, "trial_columns": _TRIALS}
    return environment.get_template("page.html.j2")


def _asset(name: str) -> Markup:
    return Markup(files("vnetperf.report").joinpath(name).read_text(encoding="utf-8").strip())  # noqa: S704 - our own file


def _csp_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def html_report(results: RunResults) -> str:
    """report.html."""
    style, script = _asset("report.css"), _asset("report.js")
    groups, compared = summary.groups(results), list_comparisons(results)
    trials, ledger = summary.trials_by_case(results), summary.ledger(results)
    threads = (use for r in results.results for goal in r.goals for use in goal.threads)
    roles = tuple(dict.fromkeys(use.role for use in threads))
    hops = tuple(dict.fromkeys(hop for t in results.trials for hop in t.lost_at))
    views = [
        GroupView(group, f"case-{i}", trials, hops, roles, results.profiles)
        for i, group in enumerate(groups)
    ]
    comparisons = {f"compare-{i}": comparison for i, comparison in enumerate(compared)}
    tables = {
        "attach": transfers.attach_table(results),
        "transfers": transfers.transfers_table(results),
        "transport": transfers.transport_table(results),
        "networks": transfers.networks_table(results),
        **{
            w.anchor or w.name: workloads.workload_table(results, w)
            for w in workloads.list_workloads(results)
        },
        "pods": transfers.pods_table(results),
    }
    user_tables = {anchor: table for anchor, table in tables.items() if table}
    by_size = transfers.transfer_plots(transfers.transfers_by_scenario(results))
    of_tcp = transfers.tcp_plots(transfers.tcp_streams(results))
    strips = {
        "transfers": _strip("", [*by_size], legend=False),
        "transport": _strip("", [*of_tcp], legend=False),
        "networks": _strip("", [*transfers.network_plots(results)], legend=False),
        **{
            w.anchor or w.name: _strip("", [*workloads.workload_plots(results, w)], legend=False)
            for w in workloads.list_workloads(results)
        },
    }
    goal_tables = list(_goal_tables(groups))
    policy = f"default-src 'none'; style-src {_csp_hash(style)}; script-src {_csp_hash(script)}"
    return _page().render(
        results=results,
        style=style,
        script=script,
        policy=Markup(policy),  # noqa: S704 - names and hashes of our own
        title=run_tables.title(results, groups),
        first_line=summary.first_line(results),
        headline=run_tables.headline(results, groups),
        warnings=[("", warning) for warning in results.warnings],
        contents=_contents(results, views, comparisons, user_tables),
        files=_FILES,
        legend_of_cells=LEGEND,
        overview=_overview_text(results, bool(goal_tables)),
        goal_tables=goal_tables,
        other_tables=list(_other_tables(groups)),
        not_shown=summary.not_shown(results),
        not_shown_words=summary.NOT_SHOWN,
        scenario_plots=_scenario_plots(groups, compared, summary.not_shown(results)),
        not_deployed=[
            (s.scenario, f"not deployed: {s.error}") for s in summary.undeployed(results)
        ],
        comparisons=comparisons,
        pictures=pictures(results),
        processors=figures(results),
        groups=views,
        user_tables=user_tables,
        user_strips={name: [strip] for name, strip in strips.items() if strip},
        identity=list(run_tables.identity(results).texts),
        ledger=ledger,
        environment=_environment(results),
        unknowns=[(u.where, u.reason) for u in summary.missing_values(results)],
        trials=trials,
        bad_trials=sum(t.verdict is not Verdict.VALID for t in results.trials),
    )
