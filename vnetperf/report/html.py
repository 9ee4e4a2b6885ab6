"""report.html: one file that needs no server, no network and no script to be read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from vnetperf.model.result import RunResults
from vnetperf.report import attach, bounds, opening, transfers
from vnetperf.report.cases import Group, groups, trials_by_case, undeployed
from vnetperf.report.comparing import Compared, compared
from vnetperf.report.markup import Markup, el
from vnetperf.report.page_comparison import comparison_section
from vnetperf.report.page_facts import (
    calibration_section,
    environment_section,
    scenarios_section,
    settings_section,
    unknowns_section,
)
from vnetperf.report.page_ledger import ledger_section
from vnetperf.report.page_overview import overview_section, words
from vnetperf.report.page_parts import facts_table, section
from vnetperf.report.page_results import group_section
from vnetperf.report.page_trials import trials_section
from vnetperf.report.tabular import table_section


def _asset(name: str) -> Markup:
    return Markup(files("vnetperf.report").joinpath(name).read_text(encoding="utf-8").strip())


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _head(results: RunResults, style: Markup, script: Markup) -> Markup:
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=Markup(policy)),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"vnetperf: {_title(results)}"),
        el("style", style),
    )


def _title(results: RunResults) -> str:
    where = f" on {results.run.testbed}" if results.run.testbed else ""
    return f"{results.preset}{where}"


def _header(results: RunResults) -> Markup:
    run = results.run
    warnings = [el("li", w) for w in opening.warnings(results)]
    ended = "" if run.ended else "; not ended: running or interrupted"
    said = f"{run.started} (UTC){ended}. {run.tool}. {opening.ledger_count(results)}."
    return el(
        "header",
        el("p", run.tool.partition(" ")[0], " report", class_="eyebrow"),
        el("h1", _title(results)),
        el("p", said, class_="muted"),
        el("ul", warnings, class_="warnings", aria_label="Warnings") if warnings else None,
    )


def _identity_section(results: RunResults, anchor: str) -> Markup:
    run = results.run
    rows = [
        ("started (UTC)", run.started),
        ("ended (UTC)", run.ended or "not ended: running or interrupted"),
        ("tool", f"{run.tool}, commit {run.git}"),
        ("command", run.command),
        ("preset", results.preset),
        ("testbed", run.testbed or bounds.NOT_RECORDED),
        ("isolation (RFC 6815)", run.isolation or bounds.NOT_RECORDED),
        ("operator's notes", run.notes or "none"),
        *opening.redaction(results),
    ]
    return section(anchor, "Identity of the run", facts_table("Identity of the run", rows))


_FACTS = (
    ("identity", "Identity", _identity_section),
    ("ledger", "Standards ledger", ledger_section),
    ("calibration", "Calibration", calibration_section),
    ("environment", "Environment", environment_section),
    ("scenarios", "Deployed scenarios", scenarios_section),
    ("settings", "Settings", settings_section),
    ("unknowns", "Not measured, unknown", unknowns_section),
)


def _navigation(
    results: RunResults, found: Sequence[Group], comparisons: Sequence[Compared]
) -> Markup:
    """Links: a line for each scenario with its tests, and one for what belongs to the run."""
    lines: dict[str, list[Markup]] = {}
    for index, group in enumerate(found):
        link = el("a", words(group.test), href=f"#case-{index}")
        lines.setdefault(group.scenario, []).append(link)
    rows = [el("li", el("b", scenario), " ", *_spaced(links)) for scenario, links in lines.items()]
    links = [("overview", "Overview")]
    links += [(f"compare-{i}", one.title) for i, one in enumerate(comparisons)]
    links += [("attach", attach.TITLE)] if attach.table(results) else []
    links += [("transfers", transfers.TITLE)] if results.transfers else []
    links += [(anchor, title) for anchor, title, _ in _FACTS]
    links.append(("trials", "All trials"))
    run = el("li", *_spaced([el("a", title, href=f"#{anchor}") for anchor, title in links]))
    return el("nav", el("ul", rows, run), aria_label="Contents")


def _spaced(links: Sequence[Markup]) -> list[object]:
    return [part for link in links for part in (link, " ")]


def _not_deployed(results: RunResults) -> Markup | None:
    failed = [
        el("li", el("b", s.scenario), ": not deployed: ", s.error) for s in undeployed(results)
    ]
    return el("ul", failed, class_="warnings", aria_label="Not deployed") if failed else None


def html_report(results: RunResults) -> str:
    """report.html.

    Args:
        results: The run.

    Returns:
        A complete page; its first line says so when the run is no benchmark.
    """
    style, script = _asset("report.css"), _asset("report.js")
    found, comparisons = groups(results), compared(results)
    trials, ledger = trials_by_case(results), opening.ledger(results)
    first = opening.first_line(results)
    banner = "banner" if opening.is_benchmark(results) else "banner alarm"
    body = el(
        "body",
        el("p", first, class_=banner, role="note") if first else None,
        el(
            "div",
            _header(results),
            _navigation(results, found, comparisons),
            el(
                "main",
                overview_section(results, found, "overview"),
                _not_deployed(results),
                [comparison_section(one, f"compare-{i}") for i, one in enumerate(comparisons)],
                [
                    group_section(group, trials, ledger, f"case-{i}")
                    for i, group in enumerate(found)
                ],
                table_section(attach.table(results), "attach"),
                table_section(transfers.table(results), "transfers"),
                [render(results, anchor) for anchor, _, render in _FACTS],
                trials_section(trials, "trials"),
            ),
            class_="page",
        ),
        el("script", script),
    )
    page = el("html", _head(results, style, script), body, lang="en")
    return f"<!doctype html>\n{page}\n"
