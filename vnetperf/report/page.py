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
    guests,
    latency,
    mpi,
    outcomes,
    plots,
    run_tables,
    summary,
    transfers,
)
from vnetperf.report.comparison import (
    VariantResults,
    comparison_notes,
    comparisons_of,
    event_table,
    relative_text,
    short_upper_bound,
    variant_sessions,
    variant_transfers,
)
from vnetperf.report.goal_text import LossAccount, account_losses
from vnetperf.report.picture import pictures
from vnetperf.report.placement import figures
from vnetperf.report.plot import Plot, data, legend, svg, templates
from vnetperf.report.summary import Case, Group, case_of, flatten_facts, shown_trials, size_names
from vnetperf.report.table import LEGEND, NOT_MEASURED, NOT_RECORDED, Column, Table
from vnetperf.report.text import Value, known

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
    more: tuple[Plot, ...] = ()  # Further plots, folded


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
        found = {r.size_name: account_losses(self._trials_of(r)) for r in self.group.measured}
        if any(a.trials for a in found.values()):
            self.accounts.update(found)

    def _trials_of(self, result: Result) -> list[TrialPoint]:
        return self.trials.get(case_of(result), [])

    @property
    def effort(self) -> str:
        """What the test took, in a line."""
        measured = self.group.measured
        tried = [t for r in measured for t in self._trials_of(r)]
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
    def beside(self) -> bool:
        """Whether the losses by hop fit beside that plot."""
        return len(self.hops) <= _BESIDE

    @property
    def search_strips(self) -> list[Strip]:
        """Plots of a search."""
        group, names = self.group, self.group.goal_names
        goals = [g for r in group.measured for g in r.goals]
        directions = tuple(dict.fromkeys(d for g in goals for d in g.latency))
        of = [(r, shown_trials(r, self.trials)) for r in group.measured]
        latencies = []
        for r, _ in of:
            lines = [(goal.name, d, v) for goal in r.goals for d, v in goal.latency.items()]
            latencies.append(plots.latency_plot(r, lines, names, directions))
        strips = [
            _strip("Loss against load", [plots.loss_plot(r, found, names) for r, found in of]),
            _strip(
                "Loads in the order they were tried",
                [plots.search_plot(r, found, names) for r, found in of],
            ),
            _strip("Latency at the lower bounds", latencies),
            _strip(
                "Cores by role",
                [plots.cpu_plot(group, name, self.roles_of_run) for name in names],
                legend=False,
            ),
        ]
        if not self.beside:
            strips.insert(0, _strip("", [self.main], legend=False))
        return [strip for strip in strips if strip]

    @property
    def strips(self) -> list[Strip]:
        """Plots of every other test."""
        made = [strip for strips in _OUTCOME_STRIPS for strip in strips(self.group)]
        bursts = [r for r in self.group.measured if r.back_to_back]
        tried = [plots.search_plot(r, shown_trials(r, self.trials), ()) for r in bursts]
        made.append(_strip("Bursts in the order they were tried", tried))
        return [strip for strip in made if strip]


def _strip(
    title: str,
    made: Sequence[Plot | None],
    *,
    legend: bool = True,
    main: Plot | None = None,
    more: Sequence[Plot | None] = (),
) -> Strip | None:
    shown = tuple(plot for plot in made if plot)
    folded = tuple(plot for plot in more if plot)
    return Strip(title, shown, legend, main, folded) if shown or main else None


Strips = Iterator[Strip | None]


def _repetition_strips(group: Group) -> Strips:
    made = [
        plots.spread_plot(
            f"{e.result.size_text}, {e.of}",
            "lower bound" if e.result.goals else e.of,
            [("deployments", e.found.spread)],
            "fps",
        )
        for e in outcomes.repeated_numbers(group)
        if e.found.unit == "fps" and e.found.spread is not None
    ]
    yield _strip("Rates of all deployments", made)


def _latency_strips(group: Group) -> Strips:
    every = [(r, at) for r in group.measured for at in r.latency_at]
    if not every:
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
    names = tuple(dict.fromkeys(at.of for _, at in every))
    directions = tuple(dict.fromkeys(d for _, at in every for d in (*at.latency, *at.mean_ns)))
    series: dict[str, dict[int, Spread]] = {}
    for result, at in every:
        for direction, mean in at.mean_ns.items():
            series.setdefault(f"{at.of}, {direction}", {})[result.frame_size] = mean
    title, axis = "Mean latency against frame size", "mean latency"
    each = [
        plots.spread_plot(
            f"{r.size_text}, {at.of}", "mean latency of a trial", [*at.mean_ns.items()], "ns"
        )
        for r, at in every
    ]
    main = plots.by_size_plot(title, axis, group.results, series, "ns")
    yield _strip("Each trial", each, main=main)
    curves = []
    for result in group.measured:
        lines = [(at.of, d, v) for at in result.latency_at for d, v in at.latency.items()]
        curves.append(plots.latency_plot(result, lines, names, directions))
    yield _strip("Percentiles of all frames", curves)


def _loss_strips(group: Group) -> Strips:
    whole = None if group.test == "loss_profile" else plots.loss_rate_plot(group, small=False)
    yield _strip("", [whole, plots.loss_rate_plot(group, small=True)])


def _back_to_back_strips(group: Group) -> Strips:
    known = [(r, r.back_to_back) for r in group.measured if r.back_to_back]
    series = {"mean": {r.frame_size: found.frames for r, found in known if not found.is_limit}}
    title = "Longest burst without loss against frame size"
    main = plots.by_size_plot(title, "frames, each interface", group.results, series, "frames")
    each = [
        plots.spread_plot(
            r.size_text,
            "frames without loss",
            [("at least" if found.is_limit else "searches", found.frames)],
            "frames",
            least=found.is_limit,
        )
        for r, found in known
    ]
    yield _strip("Each search", each, main=main)


def _recovery_strips(group: Group) -> Strips:
    known = [(r, r.recovery) for r in group.measured if r.recovery]
    rows = [(r.size_text, found.seconds) for r, found in known if found.seconds]
    yield _strip("", [plots.spread_plot("Recovery time of each trial", "recovery time", rows, "s")])
    curves = []
    for r, found in known:
        in_none = {*found.not_overloaded, *found.disturbed, *found.censored}
        curves.append((r.size_text, found.curves, found.seconds, in_none))
    yield _timelines("Recovery over time", curves)


def _reset_strips(group: Group) -> Strips:
    known = [(r, found) for r in group.measured for found in r.resets]
    several = len({r.frame_size for r, _ in known}) > 1
    named = [(f"{f.what}, {r.size_text}" if several else f.what, f) for r, f in known]
    methods = (("Frame-loss method", "by_loss_s"), ("Time-stamp method", "by_time_s"))
    made = [
        plots.spread_plot(title, "reset time", [(n, getattr(f, value)) for n, f in named], "s")
        for title, value in methods
    ]
    yield _strip("", made)
    curves = [(name, f.curves, f.by_loss_s or f.by_time_s, {*f.disturbed}) for name, f in named]
    yield _timelines("Reset over time", curves)


def _timelines(
    title: str, found: Sequence[tuple[str, Sequence[Curve], Spread | None, Set[int]]]
) -> Strip | None:
    """Of each the trial nearest to the median, of those that are in it; the others folded."""
    first: list[Plot | None] = []
    more: list[Plot | None] = []
    for name, curves, spread, in_none in found:
        counted = [curve for curve in curves if curve.trial not in in_none]
        typical = _median_curve(counted or curves, spread)
        for curve in curves:
            (first if curve is typical else more).append(plots.timeline_plot(name, curve))
    return _strip(title, first, more=more)


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
    each = [
        plots.spread_plot(r.size_text, axis, [(f.of, f.forwarded_fps) for f in r.rates], "fps")
        for r in members
    ]
    yield _strip("Each trial", each, main=main)


def _soak_strips(group: Group) -> Strips:
    yield _strip("", [plots.soak_plot(group)], legend=False)
    known = [(r.size_text, r.soak.curve) for r in group.measured if r.soak and r.soak.curve]
    lost = [plots.loss_over_time_plot(name, curve) for name, curve in known]
    yield _strip("Frames lost over time", lost, legend=False)


def _service_strips(group: Group) -> Strips:
    made = [plots.service_plot(result) for result in group.measured]
    yield _strip("Share of the limits at each step", made, legend=False)


def _cpu_load_strips(group: Group) -> Strips:
    known = [r.cpu_load for r in group.measured if r.cpu_load is not None]
    roles = tuple(dict.fromkeys(role for found in known for at in found.at for role in at.roles))
    made = [plots.cpu_load_plot(r, roles) for r in group.measured]
    yield _strip("Processors against load", made, legend=False)


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
)


def _hop_shares(lost: LossAccount, view: GroupView) -> Iterator[tuple[str, float, float, str]]:
    """Of each hop: what its part of the bar shows, where that begins, its width, its colour."""
    left = 0.0
    for hop in view.hops:
        if share := max(0, lost.by_hop.get(hop, 0)) / (lost.total or 1):
            hover = f"{hop}: {units.frames(lost.by_hop[hop])} frames, {units.percent(share, 3)}"
            yield hover, left, share * 100, plots.hop_css(hop, view.hops_of_run)
            left += share * 100


def _below_goal(result: Result, goal: GoalResult) -> tuple[str, ...]:
    """What stands below a bound of the overview: its share of the medium, all deployments."""
    value, limit = goal_text.headline_fps(goal), result.media_max_fps
    share = goal_text.share_text(value, limit) if value is not None and limit else ""
    return tuple(filter(None, (share, outcomes.over_deployments(result, goal.name))))


def _column_classes(table: Table) -> list[str]:
    found = []
    for index, column in enumerate(table.columns):
        short = max(len(row[index].text) for row in table.rows) <= _SHORT
        kind = ("short" if short else "") if column.words else "num"
        found.append(f"{kind} {'lead' * column.bold}".strip())
    return found


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of the overview: scenarios or tests by frame size."""

    groups: tuple[Group, ...]
    sizes: dict[int, str]
    goal: str = ""
    attributes: str = ""
    scenario: str = ""


def _goal_tables(found: Sequence[Group]) -> Iterator[Matrix]:
    for name in dict.fromkeys(n for g in found for n in g.goal_names):
        having = tuple(g for g in found if name in g.goal_names)
        goals = [goal for g in having for goal in summary.goals_used(g) if goal.name == name]
        attributes = "; or ".join(sorted({goal_text.goal_attributes(goal) for goal in goals}))
        yield Matrix(having, size_names(found), goal=name, attributes=attributes)


def _other_tables(found: Sequence[Group]) -> Iterator[Matrix]:
    """What tests besides a search measured: a table for each scenario, a row for each test."""
    shown = [g for g in found if not g.goal_names and g.test != "throughput"]
    for scenario in dict.fromkeys(g.scenario for g in shown):
        mine = tuple(g for g in shown if g.scenario == scenario)
        yield Matrix(mine, size_names(shown), scenario=scenario)


def _cell_of(group: Group, size: int, name: str) -> tuple[Result | None, GoalResult | None]:
    result = next((r for r in group.results if r.frame_size == size), None)
    goals = result.goals if result and result.status == "measured" else ()
    return result, next((goal for goal in goals if goal.name == name), None)


def _overview_text(results: RunResults, goals: bool) -> str:
    measured = sum(r.status == "measured" for r in results.results)
    line = f"{measured} of {len(results.results)} cases measured, {len(results.trials)} trials."
    if not results.results:
        count = sum(len(one.transfers) for one in results.transfers)
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
    found: Sequence[Group],
    compared: Sequence[VariantResults],
    left_out: Collection[Case] = frozenset(),
) -> list[Plot]:
    """Scenarios below each other at the smallest and the largest size that most of them have."""
    variants = {v.scenario for one in compared for v in one.comparison.variants}
    made = []
    for test in dict.fromkeys(g.test_words for g in found if g.goal_names):
        mine = [g for g in found if g.test_words == test and g.scenario not in variants]
        sizes = [r.frame_size for g in mine for r in g.measured]
        shared = sorted(s for s in set(sizes) if sizes.count(s) > 1)
        for size in sorted({*shared[:1], *shared[-1:]}):
            rows, names = [], dict[str, None]()
            for group in mine:
                result, _ = _cell_of(group, size, "")
                absence = "not run", "it was not selected, or the run was interrupted"
                if result is not None:
                    absence = "not measured", result.why
                elif (group.scenario, group.test, size) in left_out:
                    absence = summary.NOT_SHOWN
                rows.append(plots.GoalRow(group.scenario, result, absence))
                names |= dict.fromkeys(goal.name for goal in result.goals) if result else {}
            title = f"{test} at {size} octets".capitalize()
            plot = plots.goals_plot(f"{title} across scenarios", title, rows, tuple(names))
            made += [plot] if plot else []
    return [*made, *_latency_plots(found)]


def _latency_plots(found: Sequence[Group]) -> Iterator[Plot]:
    """Latency of several scenarios or variants at the same loads, by size and percentile."""
    curves = [r for g in found if g.test == latency.LATENCY_LOAD for r in g.measured]
    for size in sorted({r.frame_size for r in curves}):
        mine = [r for r in curves if r.frame_size == size]
        kinds = [(x, both) for both in (False, True) for x in ("50", "99")]
        for level, both_ways in kinds if len(mine) > 1 else ():
            if plot := plots.latencies_plot(mine, level, both_ways=both_ways):
                yield plot


def variants_plot(compared: VariantResults, size: int) -> Plot | None:
    """The variants of one comparison at one frame size, below each other."""
    rows = [
        plots.GoalRow(v.variant, compared.result(v, size), compared.absence(v, size))
        for v in compared.comparison.variants
    ]
    if compared.of_sessions:
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
    return known(value, show) or NOT_MEASURED


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
    Column("late", lambda t: known(t.late, units.frames) or NOT_RECORDED),
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
    run += [(anchor, one.title) for anchor, one in comparisons.items()]
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
    made = templates()
    made.filters |= {"search_attributes": goal_text.search_attributes}
    functions: tuple[Callable[..., object], ...] = (
        svg, legend, data, event_table, short_upper_bound, relative_text, variant_transfers,
        variant_sessions, comparison_notes, _variants_plots, _column_classes,
        _hop_shares, _cell_of, _below_goal,
    )  # fmt: skip
    made.globals |= {one.__name__.lstrip("_"): one for one in functions}
    made.globals |= {"units": units, "goal_text": goal_text, "outcomes": outcomes}
    made.globals |= {"summary": summary, "run_tables": run_tables, "trial_columns": _TRIALS}
    return made.get_template("page.html.j2")


def _asset(name: str) -> Markup:
    return Markup(files("vnetperf.report").joinpath(name).read_text(encoding="utf-8").strip())  # noqa: S704 - our own file


def _csp_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def html_report(results: RunResults) -> str:
    """report.html."""
    style, script = _asset("report.css"), _asset("report.js")
    found, compared = summary.groups(results), comparisons_of(results)
    trials, ledger = summary.trials_by_case(results), summary.ledger(results)
    threads = (use for r in results.results for goal in r.goals for use in goal.threads)
    roles = tuple(dict.fromkeys(use.role for use in threads))
    hops = tuple(dict.fromkeys(hop for t in results.trials for hop in t.lost_at))
    views = [
        GroupView(group, f"case-{i}", trials, hops, roles, results.profiles)
        for i, group in enumerate(found)
    ]
    comparisons = {f"compare-{i}": one for i, one in enumerate(compared)}
    tables = {
        "attach": transfers.attach_table(results),
        "transfers": transfers.transfers_table(results),
        "transport": transfers.transport_table(results),
        "networks": transfers.networks_table(results),
        "mpi": mpi.mpi_table(results),
        "guests": guests.guests_table(results),
        "pods": transfers.pods_table(results),
    }
    user_tables = {anchor: table for anchor, table in tables.items() if table}
    by_size = transfers.transfer_plots(transfers.transfers_by_scenario(results))
    of_tcp = transfers.tcp_plots(transfers.tcp_streams(results))
    strips = {
        "transfers": _strip("", [*by_size], legend=False),
        "transport": _strip("", [*of_tcp], legend=False),
        "networks": _strip("", [*transfers.network_plots(results)], legend=False),
        "mpi": _strip("", [*mpi.mpi_plots(results)], legend=False),
        "guests": _strip("", [*guests.guest_plots(results)], legend=False),
    }
    goal_tables = list(_goal_tables(found))
    policy = f"default-src 'none'; style-src {_csp_hash(style)}; script-src {_csp_hash(script)}"
    return _page().render(
        results=results,
        style=style,
        script=script,
        policy=Markup(policy),  # noqa: S704 - names and hashes of our own
        title=run_tables.title(results, found),
        first_line=summary.first_line(results),
        headline=run_tables.headline(results, found),
        warnings=[("", warning) for warning in results.warnings],
        contents=_contents(results, views, comparisons, user_tables),
        files=_FILES,
        legend_of_cells=LEGEND,
        overview=_overview_text(results, bool(goal_tables)),
        goal_tables=goal_tables,
        other_tables=list(_other_tables(found)),
        not_shown=summary.not_shown(results),
        not_shown_words=summary.NOT_SHOWN,
        scenario_plots=_scenario_plots(found, compared, summary.not_shown(results)),
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
        unknowns=[(u.where, u.what) for u in summary.missing_values(results)],
        trials=trials,
        bad_trials=sum(t.verdict is not Verdict.VALID for t in results.trials),
    )
