"""The page's comparisons: a table for each goal, and a plot for each frame size."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.result import ComparedVariant
from vnetperf.report import bounds
from vnetperf.report.comparing import EVENTS, Compared, shown_upper
from vnetperf.report.markup import Markup, el
from vnetperf.report.page_parts import badge, section, table
from vnetperf.report.plot_variants import variants_legend, variants_plot

_HOW = (
    "Lower bounds in frames/s, the sum of the sending directions; below each the upper bound, and "
    "its ratio to the first variant's. Where one of both is only a limit, there is no ratio."
)


def _cell(compared: Compared, variant: ComparedVariant, size: int, name: str) -> object:
    goal = compared.goal(variant, size, name)
    if goal is None:
        word, why = compared.absence(variant, size)
        return el("span", word, class_="absent", title=why)
    upper, relative = shown_upper(goal), compared.relative(variant, size, name)
    return el(
        "span",
        el("span", bounds.qualified(goal, short=True), class_="value"),
        el("small", upper) if upper else None,
        el("small", el("b", relative)) if relative else None,
        None if goal.regular else el("small", badge(bounds.flag(goal), "warn")),
        class_="stack",
        title=goal.reason or None,
    )


def _name(variant: ComparedVariant) -> Markup:
    typed = " ".join(variant.typed)
    return el("span", variant.variant, el("small", typed) if typed else None)


def _tables(compared: Compared) -> Iterator[Markup]:
    sizes = compared.sizes
    for name in compared.goal_names:
        rows = [
            (_name(variant), *(_cell(compared, variant, size, name) for size in sizes))
            for variant in compared.comparison.variants
        ]
        head = (f"{name}, by frame size", *map(str, sizes))
        css = ("name", *["num"] * len(sizes))
        label = f"{compared.title}: {name}"
        yield table(label, head, rows, css=css, kind="matrix variants")


def _events(compared: Compared) -> Markup | None:
    said = [el("li", one) for one in compared.uncollected]
    notes = el("ul", said, class_="notes") if said else None
    if not compared.events:
        return notes
    head = ("variant", "octets", "goal", *compared.events)
    css = ("name", "num", "", *["num"] * len(compared.events))
    shown = table(f"Events, {compared.title}", head, compared.event_rows(), css=css)
    return el("div", el("h3", EVENTS), shown, notes)


def _skipped(compared: Compared) -> Markup | None:
    said = [
        el("li", el("b", v.variant), ": skipped: ", v.skipped)
        for v in compared.comparison.variants
        if v.skipped
    ]
    return el("ul", said, class_="notes") if said else None


def comparison_section(compared: Compared, anchor: str) -> Markup:
    """The part of the page that shows one comparison.

    Args:
        compared: The comparison.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    plots = [plot for plot in (variants_plot(compared, s) for s in compared.sizes) if plot]
    return section(
        anchor,
        compared.title,
        el("p", compared.comparison.title, " ", el("span", _HOW, class_="muted"), class_="asked"),
        el("div", list(_tables(compared)), class_="tables"),
        _skipped(compared),
        variants_legend(compared) if plots else None,
        el("div", plots, class_="plots") if plots else None,
        _events(compared),
    )
