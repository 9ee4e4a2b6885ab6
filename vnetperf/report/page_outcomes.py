"""The page's plots of tests besides a search: one function for each kind of outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from vnetperf.model.outcomes import Curve, Spread
from vnetperf.model.result import Result, TrialPoint
from vnetperf.report import outcomes, tabular
from vnetperf.report.cases import Case, Group, case_of
from vnetperf.report.markup import Markup, el
from vnetperf.report.outcomes import rounds
from vnetperf.report.page_parts import folded
from vnetperf.report.plot_by_size import by_size_plot
from vnetperf.report.plot_curve import curve_legend, curve_plot, loss_over_time_plot
from vnetperf.report.plot_latency import Line, latency_legend, latency_plot
from vnetperf.report.plot_loss_rate import loss_detail_plot, loss_rate_plot, sizes_legend
from vnetperf.report.plot_rate_curve import rate_curve_plot
from vnetperf.report.plot_search import search_legend, search_plot
from vnetperf.report.plot_soak import soak_plot
from vnetperf.report.plot_spread import Row, spread_legend, spread_plot

#: Rows up to which a table is short.
_LONG = 16


def grid(title: str, key: Markup | None, figures: Sequence[Markup]) -> Markup | None:
    """Figures side by side.

    Args:
        title: Their heading; "" for none.
        key: Their legend.
        figures: The figures; empty ones are left out.

    Returns:
        HTML; None without a figure.
    """
    shown = [figure for figure in figures if figure]
    if not shown:
        return None
    heading = el("h3", title) if title else None
    css = "solo" if len(shown) == 1 else None
    return el("div", heading, key, el("div", shown, class_="plots"), class_=css)


def strips(parts: Sequence[Markup | None]) -> Markup | None:
    """Rows of figures below each other; those of one figure stand side by side.

    Args:
        parts: What :func:`grid` made.

    Returns:
        HTML; None without a figure.
    """
    shown = [part for part in parts if part]
    return el("div", shown, class_="strips") if shown else None


def beside(
    main: Markup, title: str, figures: Sequence[Markup], known: Sequence[Spread]
) -> Markup | None:
    """A plot over all frame sizes, and beside it every measurement at each.

    Args:
        main: The plot; may be empty.
        title: Heading of the measurements.
        figures: Their plots.
        known: What is in them.

    Returns:
        HTML.
    """
    right = grid(title, spread_legend(known), figures)
    if not main or right is None:
        return right or main or None
    return el("div", main, right, class_="pair")


def _rounds(group: Group) -> Iterator[Markup | None]:
    every = list(rounds.known(group))
    figures = [
        spread_plot(f"{result.size_text}, {name}", "lower bound", [Row("rounds", found)], "fps")
        for result, name, found in every
    ]
    yield grid("Lower bounds of all rounds", spread_legend([f for *_, f in every]), figures)


def _latency(group: Group) -> Iterator[Markup | None]:
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
            rows = [Row(direction, mean) for direction, mean in at.mean_ns.items()]
            title = f"{result.size_text}, {at.of}"
            figures.append(spread_plot(title, "mean latency of a trial", rows, "ns"))
            for direction, mean in at.mean_ns.items():
                series.setdefault(f"{at.of}, {direction}", {})[result.frame_size] = mean
    title, axis = "Mean latency against frame size", "mean latency"
    main = by_size_plot(title, axis, group.results, series, "ns")
    yield beside(main, "Each trial", figures, [s for at in every for s in at.mean_ns.values()])
    curves = []
    for result in members:
        lines = [Line(at.of, d, v) for at in result.latency_at for d, v in at.latency.items()]
        curves.append(latency_plot(result, lines, loads, directions))
    yield grid("Percentiles of all frames", latency_legend(loads, directions), curves)


def _loss(group: Group) -> Iterator[Markup | None]:
    members = [r for r in group.measured if r.loss_steps]
    whole = loss_rate_plot(group) if group.test != "loss_profile" else Markup("")
    yield grid("", sizes_legend(members), [whole, loss_detail_plot(group)])


def _back_to_back(group: Group) -> Iterator[Markup | None]:
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
            [Row("at least" if found.capped else "searches", found.frames, arrow=found.capped)],
            "frames",
        )
        for r, found in known
    ]
    yield beside(main, "Each search", figures, [found.frames for _, found in known])


def _bursts(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> Markup | None:
    of = [(r, trials.get(case_of(r), ())) for r in group.measured if r.back_to_back]
    every = [trial for _, found in of for trial in found]
    figures = [search_plot(r, found, ()) for r, found in of]
    return grid("Bursts in the order they were tried", search_legend(every, ()), figures)


def _recovery(group: Group) -> Iterator[Markup | None]:
    known = [(r, r.recovery) for r in group.measured if r.recovery]
    if not known:
        return
    rows = [Row(r.size_text, found.seconds) for r, found in known]
    first = spread_plot("Recovery time of each trial", "recovery time", rows, "s")
    yield grid("", spread_legend([found.seconds for _, found in known]), [first])
    yield _over_time(
        "Recovery over time",
        [(r.size_text, _typical(f.curves, f.seconds), f.curves) for r, f in known],
    )


def _reset(group: Group) -> Iterator[Markup | None]:
    known = [(r, found) for r in group.measured for found in r.resets]
    if not known:
        return
    several = len({r.frame_size for r, _ in known}) > 1

    def name(result: Result, what: str) -> str:
        return f"{what}, {result.size_text}" if several else what

    figures = []
    methods = (("Frame-loss method", "by_loss_s"), ("Time-stamp method", "by_time_s"))
    for words, method in methods:
        rows = [Row(name(r, found.what), getattr(found, method)) for r, found in known]
        figures.append(spread_plot(words, "reset time", rows, "s"))
    spreads = [s for _, f in known for s in (f.by_loss_s, f.by_time_s) if s]
    yield grid("", spread_legend(spreads), figures)
    curves = [
        (name(r, f.what), _typical(f.curves, f.by_loss_s or f.by_time_s), f.curves)
        for r, f in known
    ]
    yield _over_time("Reset over time", curves)


def _typical(curves: Sequence[Curve], spread: Spread | None) -> Curve | None:
    """The curve whose number lies nearest to the median; the first where they do not match."""
    if not curves:
        return None
    if spread is None or len(spread.values) != len(curves):
        return curves[0]
    order = sorted(range(len(curves)), key=lambda i: abs(spread.values[i] - spread.median))
    return curves[order[0]]


def _over_time(
    title: str, found: Sequence[tuple[str, Curve | None, Sequence[Curve]]]
) -> Markup | None:
    main = [curve_plot(name, typical) for name, typical, _ in found if typical is not None]
    shown = grid(title, curve_legend(), main)
    if shown is None:
        return None
    rest = [
        curve_plot(name, curve)
        for name, typical, curves in found
        for curve in curves
        if curve is not typical
    ]
    others = grid("", None, rest)
    said = "Of each the trial nearest to the median; the others are behind the line below."
    note = el("p", said, class_="muted below") if others else None
    count = sum(1 for figure in rest if figure)
    more = (
        folded(f"{title}: {count} further trial{'s' if count > 1 else ''}", others)
        if others
        else None
    )
    return el("div", shown, note, more)


def _rates(group: Group) -> Iterator[Markup | None]:
    members = [r for r in group.measured if r.rates]
    if not members:
        return
    if any(len(r.rates) > 1 for r in members):
        yield grid("", sizes_legend(members), [rate_curve_plot(group)])
        return
    series = {"rate": {r.frame_size: r.rates[0].forwarded_fps for r in members}}
    title, axis = "Forwarding rate against frame size", "frames/s, aggregate"
    main = by_size_plot(title, axis, group.results, series, "fps")
    figures = [
        spread_plot(
            result.size_text,
            "forwarding rate of a trial, frames/s",
            [Row(found.of, found.forwarded_fps) for found in result.rates],
            "fps",
        )
        for result in members
    ]
    known = [found.forwarded_fps for r in members for found in r.rates]
    yield beside(main, "Each trial", figures, known)


def _soak(group: Group) -> Iterator[Markup | None]:
    known = [(r, r.soak) for r in group.measured if r.soak]
    yield grid("", None, [soak_plot(group)])
    lost = [loss_over_time_plot(r.size_text, found.curve) for r, found in known if found.curve]
    yield grid("Frames lost over time", None, lost)


_PLOTS: tuple[Callable[[Group], Iterator[Markup | None]], ...] = (
    _rounds,
    _latency,
    _loss,
    _back_to_back,
    _recovery,
    _reset,
    _rates,
    _soak,
)


def outcomes_part(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> list[Markup]:
    """Tables and plots of one scenario and test.

    Args:
        group: Its results.
        trials: All trials of the run by search.

    Returns:
        HTML; of a search without repeats empty.
    """
    all_of = outcomes.tables(group)
    found = [tabular.drawn(t, label=f"{t.title}, {group.title}") for t in all_of]
    drawn = [part for plots in _PLOTS for part in plots(group)]
    drawn.append(_bursts(group, trials))
    # A short table stands before the plots; a long one, or one of what was tried, after them.
    first = bool(all_of) and len(all_of[0].rows) <= _LONG
    plots = strips(drawn)
    ordered = [*found[:1], plots, *found[1:]] if first else [plots, *found]
    return [part for part in ordered if part]
