"""The page's parts about the run: calibration, environment, scenarios, settings, gaps."""

from __future__ import annotations

from typing import Any

from vnetperf.model.result import Calibration, RunResults, ScenarioFacts
from vnetperf.report import bounds
from vnetperf.report import units_text as text
from vnetperf.report.facts import flatten, scalar
from vnetperf.report.markup import Markup, el
from vnetperf.report.page_parts import badge, breakable, facts_table, folded, section, table
from vnetperf.report.unknowns import gather, is_unknown


def calibration_section(results: RunResults, anchor: str) -> Markup:
    """What the generator can do on this testbed.

    Args:
        results: The run.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    title = "Calibration of the generator"
    if not results.calibrations:
        return section(anchor, title, el("p", "Not measured: the run holds no calibration."))
    parts = [part for found in results.calibrations for part in _calibration(found)]
    return section(anchor, title, *parts)


def _calibration(found: Calibration) -> tuple[Markup, Markup]:
    cores = ", ".join(map(str, found.cores)) or "none recorded"
    said = (
        f"{found.generator} looped to itself over {found.wire}; processors {cores}; {found.when}."
    )
    head = ("size", "clean maximum, both ports", "median latency at 1 %", "smallest latency")
    head_more = ("pacing error", "largest burst at 10 %, frames", "burst gap")
    rows = [
        (
            str(p.frame_size),
            text.fps(p.max_clean_fps),
            text.nanoseconds(p.latency_ns),
            text.nanoseconds(p.latency_min_ns),
            text.percent(p.pacing_error),
            str(p.max_burst),
            bounds.NOT_MEASURED
            if p.smallest_burst_gap_ns is None
            else text.nanoseconds(p.smallest_burst_gap_ns),
        )
        for p in found.points
    ]
    css = ("", *["num"] * 6)
    shown = table(f"Calibration over {found.wire}", (*head, *head_more), rows, css=css)
    return el("p", said, class_="muted"), shown


def environment_section(results: RunResults, anchor: str) -> Markup:
    """The machine.

    Args:
        results: The run.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    if not results.environment:
        return section(anchor, "Environment", el("p", "None recorded.", class_="muted"))
    single = {k: v for k, v in results.environment.items() if not isinstance(v, dict | list)}
    groups = {k: v for k, v in results.environment.items() if k not in single}
    folds = [_facts_group(name, tree) for name, tree in groups.items()]
    return section(
        anchor,
        "Environment",
        facts_table("Environment", flatten(single)),
        el("div", folds, class_="folds"),
    )


def _facts_group(name: str, tree: Any) -> Markup:
    """One group of facts behind a line that says how much of it is unknown."""
    rows = list(flatten(tree))
    unknown = sum(is_unknown(value) for _, value in rows)
    said = f"{len(rows)} facts" + (f", {unknown} unknown" if unknown else "")
    line = el("span", el("b", name), el("span", said, class_="muted"), class_="line")
    return folded(line, facts_table(name, rows))


def settings_section(results: RunResults, anchor: str) -> Markup:
    """Effective settings and where each came from.

    Args:
        results: The run.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    rows = [
        (breakable(key), _joined(held.get("value")), scalar(held.get("source")))
        for key, held in results.settings.items()
    ]
    shown = table("Settings", ("setting", "value", "source"), rows, css=("name", "mono"))
    return section(anchor, "Settings", shown)


def _joined(value: object) -> str:
    return "; ".join(f"{k} = {v}" if k else v for k, v in flatten(value))


def _scenario(facts: ScenarioFacts) -> Markup:
    state = facts.error or f"ready after {text.seconds(facts.deploy_s)}"
    summary = el(
        "span",
        el("b", facts.scenario),
        " ",
        badge("not deployed", "warn") if facts.error else None,
        el("span", state, class_="muted"),
        class_="line",
    )
    parts: list[Markup] = []
    for title, tree in (
        ("Path check", facts.path_check),
        ("What the backends say", facts.facts),
        ("Plan", facts.plan),
    ):
        if tree:
            parts += [el("h4", title), facts_table(title, flatten(tree))]
    return folded(summary, parts or el("p", "No facts recorded.", class_="muted"))


def scenarios_section(results: RunResults, anchor: str) -> Markup:
    """What was deployed.

    Args:
        results: The run.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    shown = [_scenario(facts) for facts in results.scenarios]
    body = el("div", shown, class_="folds") if shown else el("p", "None recorded.", class_="muted")
    return section(anchor, "Deployed scenarios", body)


def unknowns_section(results: RunResults, anchor: str) -> Markup:
    """What the run could not measure or find out.

    Args:
        results: The run.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    rows = [(u.where, u.what) for u in gather(results)]
    return section(anchor, "Not measured, unknown", facts_table("Not measured, unknown", rows))
