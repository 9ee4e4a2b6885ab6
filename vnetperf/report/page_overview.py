"""The page's overview: every scenario against every frame size, a table for each goal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetperf.model.result import Result, RunResults
from vnetperf.report import bounds, outcomes
from vnetperf.report.cases import Group, goals_used
from vnetperf.report.markup import Markup, el
from vnetperf.report.page_parts import badge, section, table

#: Frame sizes up to which a table does not fill the page.
_FEW = 3


def _cell(group: Group, size: int, goal_name: str) -> object:
    result = next((r for r in group.results if r.frame_size == size), None)
    if result is None:
        return ""
    if result.status == "not measured":
        return el("span", "not measured", class_="absent", title=result.why)
    goal = next((g for g in result.goals if g.name == goal_name), None)
    if goal is None:
        return ""
    mark = badge(bounds.flag(goal), "warn") if not goal.regular else None
    part = _part(result, bounds.headline_fps(goal))
    shown = el("span", bounds.qualified(goal, short=True), class_="value")
    return el("span", shown, part, mark, class_="stack", title=goal.reason or None)


def _part(result: Result, value: float | None) -> Markup | None:
    if value is None or not result.media_max_fps:
        return None
    return el("small", bounds.share(value, result.media_max_fps))


def _tables(found: Sequence[Group], names: Sequence[str]) -> Iterator[Markup]:
    names_of_sizes = {r.frame_size: r.size_name for g in found for r in g.results}
    sizes = sorted(names_of_sizes)
    for name in names:
        having = [g for g in found if name in g.goal_names]
        asked = {
            bounds.goal_attributes(g)
            for group in having
            for g in goals_used(group)
            if g.name == name
        }
        rows = [(g.title, *(_cell(g, size, name) for size in sizes)) for g in having]
        said = el("p", el("b", name), " ", "; or ".join(sorted(asked)), class_="asked")
        head = ("fps, aggregate", *(names_of_sizes[size] for size in sizes))
        css = ("name", *["num"] * len(sizes))
        kind = _kind(sizes)
        label = f"Lower bounds of {name} by frame size"
        yield el("div", said, table(label, head, rows, css=css, kind=kind))


def _kind(sizes: Sequence[int]) -> str:
    """A table of few columns is no wider than it needs to be."""
    return "matrix" if len(sizes) > _FEW else "matrix few"


def _found(group: Group, size: int) -> object:
    result = next((r for r in group.results if r.frame_size == size), None)
    if result is None:
        return ""
    number, more = outcomes.headline(result)
    if result.status == "not measured" or not number:
        return el("span", "not measured", class_="absent", title=result.why or None)
    parts = [el("span", part, class_="value") for part in number.splitlines()]
    return el("span", parts, el("small", more), class_="stack")


def _others(found: Sequence[Group]) -> Markup | None:
    """What tests besides a search found: a table for each scenario, a row for each test."""
    shown = [g for g in found if not g.goal_names and g.test != "throughput"]
    if not shown:
        return None
    names = {r.frame_size: r.size_name for g in shown for r in g.results}
    sizes = sorted(names)
    parts: list[Markup] = []
    for scenario in dict.fromkeys(g.scenario for g in shown):
        mine = [g for g in shown if g.scenario == scenario]
        rows = [(words(g.test), *(_found(g, size) for size in sizes)) for g in mine]
        head = (f"{scenario}: other tests", *(names[size] for size in sizes))
        css = ("name", *["num"] * len(sizes))
        parts.append(
            table(f"Other tests of {scenario}", head, rows, css=css, kind=f"{_kind(sizes)} others")
        )
    return el("div", parts, class_="tables answers")


def words(test: str) -> str:
    """The name of a test in words.

    Args:
        test: "back_to_back".

    Returns:
        "back-to-back", "MRR", "frame loss".
    """
    special = {"back_to_back": "back-to-back", "mrr": "MRR"}
    return special.get(test, test.replace("_", " "))


def overview_section(results: RunResults, found: Sequence[Group], anchor: str) -> Markup:
    """Lower bounds of every goal.

    Args:
        results: The run.
        found: Its groups.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    names = list(dict.fromkeys(n for g in found for n in g.goal_names))
    measured = sum(r.status == "measured" for r in results.results)
    said = [f"{measured} of {len(results.results)} cases measured, {len(results.trials)} trials."]
    if not results.results:
        said = [f"{sum(len(one.transfers) for one in results.transfers)} transfers, no other test."]
    if names:
        said.append(
            "Lower bounds in frames/s, the sum of the sending directions, by frame size in octets "
            "with FCS; below each its share of the medium's theoretical maximum."
        )
    line = el("p", " ".join(said), class_="muted")
    return section(anchor, "Overview", line, list(_tables(found, names)), _others(found))
