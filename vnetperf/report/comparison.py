"""Comparisons of variants: their results side by side, as table and plot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from vnetperf.model.result import (
    ComparedVariant,
    ComparisonResult,
    GoalResult,
    Result,
    RunResults,
    ThreadUse,
)
from vnetperf.report import goal_text, text
from vnetperf.report.plot import (
    RIGHT,
    TOP,
    WIDTH,
    Markup,
    Scale,
    coordinate,
    el,
    fitting_scale,
    legend,
    svg,
)
from vnetperf.report.table import Cell, Column, Table, badge, html_table, section, table_html

#: Heading of what the processor counted.
EVENTS_TITLE = (
    "Events of the processor for each frame, switch and VNFs together, idle polling included, "
    "at the lower bounds"
)


@dataclass(frozen=True, slots=True)
class VariantResults:
    """One comparison of one scenario, with its results of one test.

    Attributes:
        comparison: What is compared.
        test: "throughput".
        results: Scenario with its variant, and frame size -> result.
    """

    comparison: ComparisonResult
    test: str
    results: dict[tuple[str, int], Result]

    @property
    def title(self) -> str:
        """What a heading says: "pvp_dpdk (dot) throughput by queues"."""
        function = self.comparison.name.rpartition("::")[2].removeprefix("test_")
        return f"{self.comparison.scenario} \N{MIDDLE DOT} {function.replace('_', ' ')}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Frame sizes, rising."""
        return tuple(sorted({size for _, size in self.results}))

    @property
    def goal_names(self) -> tuple[str, ...]:
        """Names of the goals in order of first appearance."""
        return tuple(dict.fromkeys(g.name for r in self.results.values() for g in r.goals))

    def result(self, variant: ComparedVariant, size: int) -> Result | None:
        """A variant's result."""
        return self.results.get((variant.scenario, size))

    def goal(self, variant: ComparedVariant, size: int, name: str) -> GoalResult | None:
        """A variant's result of one goal."""
        result = self.result(variant, size)
        return next((g for g in result.goals if g.name == name), None) if result else None

    def absence(self, variant: ComparedVariant, size: int) -> tuple[str, str]:
        """Why a variant has no number."""
        if variant.skipped:
            return "skipped", variant.skipped
        result = self.result(variant, size)
        if result is None:
            return "not run", "it was not selected, or the run was interrupted"
        return "not measured", result.why or "no reason was recorded"

    def first(self, size: int, name: str) -> ComparedVariant | None:
        """The variant that others are held against."""
        return next((v for v in self.comparison.variants if self._exact(v, size, name)), None)

    def relative(self, variant: ComparedVariant, size: int, name: str) -> str:
        """A variant's rate against that of the first."""
        first = self.first(size, name)
        value = self._exact(variant, size, name)
        if first is None or first == variant or not value:
            return ""
        base = self._exact(first, size, name)
        return f"{text.significant(value / base, 3)}\N{MULTIPLICATION SIGN}" if base else ""

    @property
    def events(self) -> tuple[str, ...]:
        """Events of the processor that were counted for any variant."""
        goals = (goal for result in self.results.values() for goal in result.goals)
        uses = (use for goal in goals for use in _dut_threads(goal))
        return tuple(dict.fromkeys(name for use in uses for name in use.events_per_frame))

    @property
    def uncollected(self) -> tuple[str, ...]:
        """What could not be counted, and why: "tlb: not measured: ..."."""
        goals = (goal for result in self.results.values() for goal in result.goals)
        told = (item for goal in goals for item in goal.uncollected.items())
        return tuple(dict.fromkeys(f"{name}: {why}" for name, why in told))

    def event_rows(self) -> Iterator[tuple[str, ...]]:
        """Events for each frame, of the switch's and VNFs' threads together."""
        for size in self.sizes:
            for name in self.goal_names:
                for variant in self.comparison.variants:
                    goal = self.goal(variant, size, name)
                    if goal is not None:
                        numbers = (_event_text(goal, event) for event in self.events)
                        yield variant.variant, str(size), name, *numbers

    def _exact(self, variant: ComparedVariant, size: int, name: str) -> float | None:
        """A lower bound that says how fast the DUT is, and not how fast the generator."""
        goal = self.goal(variant, size, name)
        return goal.lower_bound_fps if goal is not None and not goal.qualifier else None


def _dut_threads(goal: GoalResult) -> tuple[ThreadUse, ...]:
    return tuple(use for use in goal.threads if use.role != "tester")


def _event_text(goal: GoalResult, event: str) -> str:
    uses = _dut_threads(goal)
    found = [use.events_per_frame[event] for use in uses if event in use.events_per_frame]
    if not found:
        return goal_text.NOT_MEASURED
    # A sum over some of the threads only must not pass for one over all.
    part = f" ({len(found)} of {len(uses)} threads)" if len(found) < len(uses) else ""
    return text.significant(sum(found), 3) + part


def comparisons_of(results: RunResults) -> tuple[VariantResults, ...]:
    """All comparisons of a run."""
    found = []
    for comparison in results.comparisons:
        names = {variant.scenario for variant in comparison.variants}
        mine = [r for r in results.results if r.scenario in names]
        for test in dict.fromkeys(r.test for r in mine) or ("",):
            held = {(r.scenario, r.frame_size): r for r in mine if r.test == test}
            found.append(VariantResults(comparison, test, held))
    return tuple(found)


def short_upper_bound(goal: GoalResult) -> str:
    """The upper bound in a narrow cell below the lower one."""
    if goal.upper_bound_fps is None or goal_text.headline_fps(goal) == goal.upper_bound_fps:
        return ""
    return f"to {text.short_fps(goal.upper_bound_fps)}"


#: Largest over smallest rate from which the axis is logarithmic.
_VARIANTS_LOG_FROM = 10.0
_PLOT_LEFT = 12
#: Height of a variant's name, and of a goal's marks below it.
_NAME_HEIGHT, _MARK_HEIGHT = 17, 11
_PLOT_FOOT = 44
#: Longest name that fits beside nothing else.
_LONGEST_NAME = 56


def _row_height(compared: VariantResults) -> int:
    return _NAME_HEIGHT + _MARK_HEIGHT * max(1, len(compared.goal_names))


def _bound_values(compared: VariantResults, size: int) -> Iterator[float]:
    for variant in compared.comparison.variants:
        for name in compared.goal_names:
            goal = compared.goal(variant, size, name)
            for value in (goal.lower_bound_fps, goal.upper_bound_fps) if goal else ():
                if value is not None:
                    yield value


def _variant_mark(
    variant: ComparedVariant, goal: GoalResult, x: Scale, y: float, css: str
) -> Markup:
    value = goal_text.headline_fps(goal)
    if value is None:
        return el(
            "text", goal_text.NO_LOAD_MET, x=_PLOT_LEFT, y=coordinate(y + 3.5), class_="absent"
        )
    parts = [el("title", goal_text.hover_text(variant.variant, goal))]
    if goal.lower_bound_fps is not None and goal.upper_bound_fps is not None:
        low, high = coordinate(x(goal.lower_bound_fps)), coordinate(x(goal.upper_bound_fps))
        top, foot = coordinate(y - 3.5), coordinate(y + 3.5)
        whisker = f"M{low} {coordinate(y)}H{high}M{low} {top}V{foot}M{high} {top}V{foot}"
        parts.append(el("path", d=whisker, class_=f"bar {css}"))
    place = coordinate(x(value))
    parts.append(el("path", d=f"M{_PLOT_LEFT} {coordinate(y)}H{place}", class_=f"reach {css}"))
    if goal.qualifier:
        arrow = "h13m-3-3l3 3l-3 3" if goal.qualifier == "at least" else "h-13m3-3l-3 3l3 3"
        parts.append(el("path", d=f"M{place} {coordinate(y)}{arrow}", class_=f"bar {css}"))
    mark = "point" if goal.regular else "point hollow"
    parts.append(el("circle", cx=place, cy=coordinate(y), r="3.5", class_=f"{mark} {css}"))
    return el("g", parts, class_="tip")


def _plot_row(
    compared: VariantResults, variant: ComparedVariant, size: int, x: Scale, top: float
) -> Markup:
    name = variant.variant
    shown = (
        name
        if len(name) <= _LONGEST_NAME
        else name[: _LONGEST_NAME - 1] + "\N{HORIZONTAL ELLIPSIS}"
    )
    parts = [el("text", shown, x=_PLOT_LEFT, y=coordinate(top + 12), class_="strong")]
    measured = False
    for index, goal_name in enumerate(compared.goal_names):
        goal = compared.goal(variant, size, goal_name)
        if goal is not None:
            y = top + _NAME_HEIGHT + _MARK_HEIGHT * (index + 0.5)
            parts.append(_variant_mark(variant, goal, x, y, f"g{index % 4}"))
            measured = True
    if not measured:
        word, why = compared.absence(variant, size)
        foot = coordinate(top + _NAME_HEIGHT + _MARK_HEIGHT / 2 + 3.5)
        parts.append(el("text", el("title", why), word, x=_PLOT_LEFT, y=foot, class_="absent"))
    return el("g", parts)


def _rate_axis(x: Scale, foot: float, name: str) -> Iterator[Markup]:
    for value in x.ticks():
        place = coordinate(x(value))
        yield el("path", d=f"M{place} {TOP}V{coordinate(foot)}", class_="grid")
        yield el("text", text.tick_fps(value), x=place, y=coordinate(foot + 15), class_="tick mid")
    yield el("path", d=f"M{_PLOT_LEFT} {coordinate(foot)}H{RIGHT}", class_="axis")
    yield el("text", name, x=coordinate(WIDTH / 2), y=coordinate(foot + 34), class_="name")


def variants_plot(compared: VariantResults, size: int) -> Markup:
    """The plot of one comparison at one frame size."""
    values = list(_bound_values(compared, size))
    if not values:
        return Markup("")
    variants, height = compared.comparison.variants, _row_height(compared)
    foot = TOP + height * len(variants) + 6
    x = fitting_scale(values, _PLOT_LEFT, RIGHT - 8, ratio=_VARIANTS_LOG_FROM, zero=True)
    directions = {r.directions for (_, s), r in compared.results.items() if s == size}
    counts = " or ".join(map(str, sorted(directions)))
    scale = "log scale" if x.log else "linear scale"
    parts = list(_rate_axis(x, foot, f"frames/s, sum of {counts} direction(s), {scale}"))
    parts += [
        _plot_row(compared, variant, size, x, TOP + height * number)
        for number, variant in enumerate(variants)
    ]
    caption = el("figcaption", el("b", f"{size} octets"))
    title = f"Throughput by variant at {size} octets, {compared.title}"
    return el("figure", caption, svg(title, parts, height=round(foot + _PLOT_FOOT)))


def variants_legend(compared: VariantResults) -> Markup:
    """What the marks of all sizes stand for."""
    entries = [(f"line series g{i % 4}", name) for i, name in enumerate(compared.goal_names)]
    goals = [goal for result in compared.results.values() for goal in result.goals]
    if any(not goal.regular for goal in goals):
        entries.append(("ring hollow", "irregular"))
    if any(goal.qualifier == "at least" for goal in goals):
        entries.append(("arrow-right key-mark", "at least"))
    if any(goal.qualifier == "at most" for goal in goals):
        entries.append(("arrow-left key-mark", "at most"))
    return legend(entries)


_HOW_TO_READ = (
    "Lower bounds in frames/s, the sum of the sending directions; below each the upper bound, and "
    "its ratio to the first variant's. Where one of both is only a limit, there is no ratio."
)


def _page_cell(compared: VariantResults, variant: ComparedVariant, size: int, name: str) -> object:
    goal = compared.goal(variant, size, name)
    if goal is None:
        word, why = compared.absence(variant, size)
        return el("span", word, class_="absent", title=why)
    upper, relative = short_upper_bound(goal), compared.relative(variant, size, name)
    return el(
        "span",
        el("span", goal_text.qualified_rate(goal, short=True), class_="value"),
        el("small", upper) if upper else None,
        el("small", el("b", relative)) if relative else None,
        None if goal.regular else el("small", badge(goal_text.irregular_mark(goal), "warn")),
        class_="stack",
        title=goal.reason or None,
    )


def _page_name(variant: ComparedVariant) -> Markup:
    typed = " ".join(variant.typed)
    return el("span", variant.variant, el("small", typed) if typed else None)


def _page_tables(compared: VariantResults) -> Iterator[Markup]:
    sizes = compared.sizes
    for name in compared.goal_names:
        rows = [
            (_page_name(variant), *(_page_cell(compared, variant, size, name) for size in sizes))
            for variant in compared.comparison.variants
        ]
        head = (f"{name}, by frame size", *map(str, sizes))
        css = ("name", *["num"] * len(sizes))
        label = f"{compared.title}: {name}"
        yield html_table(label, head, rows, css=css, kind="matrix variants")


def _page_events(compared: VariantResults) -> Markup | None:
    events = comparison_tables(compared)[1]
    css = ("name", "num", "", *["num"] * len(compared.events))
    return table_html(events, label=f"Events, {compared.title}", kind="", css=css)


def _page_skipped(compared: VariantResults) -> Markup | None:
    said = [
        el("li", el("b", v.variant), ": skipped: ", v.skipped)
        for v in compared.comparison.variants
        if v.skipped
    ]
    return el("ul", said, class_="notes") if said else None


def comparison_section(compared: VariantResults, anchor: str) -> Markup:
    """The part of the page that shows one comparison."""
    plots = [plot for plot in (variants_plot(compared, s) for s in compared.sizes) if plot]
    return section(
        anchor,
        compared.title,
        el(
            "p",
            compared.comparison.title,
            " ",
            el("span", _HOW_TO_READ, class_="muted"),
            class_="asked",
        ),
        el("div", list(_page_tables(compared)), class_="tables"),
        _page_skipped(compared),
        variants_legend(compared) if plots else None,
        el("div", plots, class_="plots") if plots else None,
        _page_events(compared),
    )


_Compared: TypeAlias = tuple[VariantResults, ComparedVariant, int, str]


def _goal_or_absence(of: _Compared) -> GoalResult | tuple[str, str]:
    found, variant, size, name = of
    return found.goal(variant, size, name) or found.absence(variant, size)


def _bound_text(of: _Compared) -> str:
    goal = _goal_or_absence(of)
    return goal[0] if isinstance(goal, tuple) else goal_text.qualified_rate(goal)


def _upper_text(of: _Compared) -> str | None:
    goal = _goal_or_absence(of)
    return None if isinstance(goal, tuple) else goal_text.upper_bound_text(goal)


def _why_text(of: _Compared) -> str:
    goal = _goal_or_absence(of)
    return goal[1] if isinstance(goal, tuple) else goal_text.flag_with_reason(goal)


_NUMBERS: tuple[Column[_Compared], ...] = (
    Column("variant", lambda of: of[1].variant, words=True),
    Column(
        "laid over the settings",
        lambda of: Cell(" ".join(of[1].typed), code=True) if of[1].typed else "nothing",
        words=True,
    ),
    Column("octets", lambda of: str(of[2]) if of[2] else None),
    Column("goal", lambda of: of[3] or None, words=True),
    Column("lower bound, aggregate", _bound_text, bold=True),
    Column("upper bound, aggregate", _upper_text),
    Column("against the first", lambda of: of[0].relative(*of[1:]) or None),
    Column("regular?", _why_text, words=True),
)


def _event_cell(index: int) -> Callable[[Sequence[str]], str]:
    return lambda row: row[index]


def comparison_tables(found: VariantResults) -> tuple[Table, Table]:
    """The numbers of one comparison, and what the processor counted."""
    rows = [
        (found, variant, size, name)
        for size in found.sizes or (0,)
        for name in found.goal_names or ("",)
        for variant in found.comparison.variants
    ]
    head = ("variant", "octets", "goal", *found.events)
    columns = [Column(name, _event_cell(i), words=i in (0, 2)) for i, name in enumerate(head)]
    events = Table.of(EVENTS_TITLE, columns, found.event_rows() if found.events else ())
    return Table.of("", _NUMBERS, rows), replace(events, notes=found.uncollected)
