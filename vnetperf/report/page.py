"""report.html: one file that needs no server, no network and no script to be read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from vnetperf.model.result import Calibration, Result, RunResults, ScenarioFacts, TrialPoint
from vnetperf.model.trial import Verdict
from vnetperf.report import goal_text, outcomes, summary, text, transfers
from vnetperf.report.comparison import VariantResults, comparison_section, comparisons_of
from vnetperf.report.goal_text import summarise_trials
from vnetperf.report.page_results import group_section, ledger_section
from vnetperf.report.plot import Markup, el, render
from vnetperf.report.summary import (
    Case,
    Group,
    flatten_facts,
    goals_used,
    groups,
    is_missing,
    missing_values,
    scalar_text,
    trials_by_case,
    undeployed,
)
from vnetperf.report.table import (
    badge,
    breakable,
    facts_table,
    folded,
    html_row,
    html_table,
    scroller,
    section,
    table_section,
)

#: Frame sizes up to which a table does not fill the page.
_FEW_SIZES = 3


def _goal_cell(group: Group, size: int, goal_name: str) -> object:
    result = next((r for r in group.results if r.frame_size == size), None)
    if result is None:
        return ""
    if result.status == "not measured":
        return el("span", "not measured", class_="absent", title=result.why)
    goal = next((g for g in result.goals if g.name == goal_name), None)
    if goal is None:
        return ""
    mark = badge(goal_text.irregular_mark(goal), "warn") if not goal.regular else None
    part = _media_share(result, goal_text.headline_fps(goal))
    shown = el("span", goal_text.qualified_rate(goal, short=True), class_="value")
    return el("span", shown, part, mark, class_="stack", title=goal.reason or None)


def _media_share(result: Result, value: float | None) -> Markup | None:
    if value is None or not result.media_max_fps:
        return None
    return el("small", goal_text.share_text(value, result.media_max_fps))


def _goal_tables(found: Sequence[Group], names: Sequence[str]) -> Iterator[Markup]:
    names_of_sizes = {r.frame_size: r.size_name for g in found for r in g.results}
    sizes = sorted(names_of_sizes)
    for name in names:
        having = [g for g in found if name in g.goal_names]
        asked = {
            goal_text.goal_attributes(g)
            for group in having
            for g in goals_used(group)
            if g.name == name
        }
        rows = [(g.title, *(_goal_cell(g, size, name) for size in sizes)) for g in having]
        said = el("p", el("b", name), " ", "; or ".join(sorted(asked)), class_="asked")
        head = ("fps, aggregate", *(names_of_sizes[size] for size in sizes))
        css = ("name", *["num"] * len(sizes))
        kind = _matrix_kind(sizes)
        label = f"Lower bounds of {name} by frame size"
        yield el("div", said, html_table(label, head, rows, css=css, kind=kind))


def _matrix_kind(sizes: Sequence[int]) -> str:
    """A table of few columns is no wider than it needs to be."""
    return "matrix" if len(sizes) > _FEW_SIZES else "matrix few"


def _headline_cell(group: Group, size: int) -> object:
    result = next((r for r in group.results if r.frame_size == size), None)
    if result is None:
        return ""
    number, more = outcomes.headline(result)
    if result.status == "not measured" or not number:
        return el("span", "not measured", class_="absent", title=result.why or None)
    parts = [el("span", part, class_="value") for part in number.splitlines()]
    return el("span", parts, el("small", more), class_="stack")


def _other_tests(found: Sequence[Group]) -> Markup | None:
    """What tests besides a search found: a table for each scenario, a row for each test."""
    shown = [g for g in found if not g.goal_names and g.test != "throughput"]
    if not shown:
        return None
    names = {r.frame_size: r.size_name for g in shown for r in g.results}
    sizes = sorted(names)
    parts: list[Markup] = []
    for scenario in dict.fromkeys(g.scenario for g in shown):
        mine = [g for g in shown if g.scenario == scenario]
        rows = [(test_words(g.test), *(_headline_cell(g, size) for size in sizes)) for g in mine]
        head = (f"{scenario}: other tests", *(names[size] for size in sizes))
        css = ("name", *["num"] * len(sizes))
        parts.append(
            html_table(
                f"Other tests of {scenario}",
                head,
                rows,
                css=css,
                kind=f"{_matrix_kind(sizes)} others",
            )
        )
    return el("div", parts, class_="tables answers")


def test_words(test: str) -> str:
    """The name of a test in words."""
    special = {"back_to_back": "back-to-back", "mrr": "MRR"}
    return special.get(test, test.replace("_", " "))


def overview_section(results: RunResults, found: Sequence[Group], anchor: str) -> Markup:
    """Lower bounds of every goal."""
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
    return section(anchor, "Overview", line, list(_goal_tables(found, names)), _other_tests(found))


def calibration_section(results: RunResults, anchor: str) -> Markup:
    """What the generator can do on this testbed."""
    title = "Calibration of the generator"
    if not results.calibrations:
        return section(anchor, title, el("p", "Not measured: the run holds no calibration."))
    parts = [part for found in results.calibrations for part in _calibration_parts(found)]
    return section(anchor, title, *parts)


def _calibration_parts(found: Calibration) -> tuple[Markup, Markup]:
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
            goal_text.NOT_MEASURED
            if p.smallest_burst_gap_ns is None
            else text.nanoseconds(p.smallest_burst_gap_ns),
        )
        for p in found.points
    ]
    css = ("", *["num"] * 6)
    shown = html_table(f"Calibration over {found.wire}", (*head, *head_more), rows, css=css)
    return el("p", said, class_="muted"), shown


def environment_section(results: RunResults, anchor: str) -> Markup:
    """The machine."""
    if not results.environment:
        return section(anchor, "Environment", el("p", "None recorded.", class_="muted"))
    single = {k: v for k, v in results.environment.items() if not isinstance(v, dict | list)}
    groups = {k: v for k, v in results.environment.items() if k not in single}
    folds = [_facts_fold(name, tree) for name, tree in groups.items()]
    return section(
        anchor,
        "Environment",
        facts_table("Environment", flatten_facts(single)),
        el("div", folds, class_="folds"),
    )


def _facts_fold(name: str, tree: Any) -> Markup:
    """One group of facts behind a line that says how much of it is unknown."""
    rows = list(flatten_facts(tree))
    unknown = sum(is_missing(value) for _, value in rows)
    said = f"{len(rows)} facts" + (f", {unknown} unknown" if unknown else "")
    line = el("span", el("b", name), el("span", said, class_="muted"), class_="line")
    return folded(line, facts_table(name, rows))


def settings_section(results: RunResults, anchor: str) -> Markup:
    """Effective settings and where each came from."""
    rows = [
        (breakable(key), _joined_facts(held.get("value")), scalar_text(held.get("source")))
        for key, held in results.settings.items()
    ]
    shown = html_table("Settings", ("setting", "value", "source"), rows, css=("name", "mono"))
    return section(anchor, "Settings", shown)


def _joined_facts(value: object) -> str:
    return "; ".join(f"{k} = {v}" if k else v for k, v in flatten_facts(value))


def _scenario_part(facts: ScenarioFacts) -> Markup:
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
            parts += [el("h4", title), facts_table(title, flatten_facts(tree))]
    return folded(summary, parts or el("p", "No facts recorded.", class_="muted"))


def scenarios_section(results: RunResults, anchor: str) -> Markup:
    """What was deployed."""
    shown = [_scenario_part(facts) for facts in results.scenarios]
    body = el("div", shown, class_="folds") if shown else el("p", "None recorded.", class_="muted")
    return section(anchor, "Deployed scenarios", body)


def unknowns_section(results: RunResults, anchor: str) -> Markup:
    """What the run could not measure or find out."""
    rows = [(u.where, u.what) for u in missing_values(results)]
    return section(anchor, "Not measured, unknown", facts_table("Not measured, unknown", rows))


_TRIALS_HEAD = (
    "trial",
    "load per interface",
    "duration",
    "loss, worse direction",
    "forwarded, aggregate",
    "offered of intended",
    "verdict",
    "lost at (frames)",
    "reason",
)
_TRIALS_CSS = ("num", "num", "num", "num", "num", "num", "", "", "")
_NO_NUMBER = "no number"


def _trial_row(trial: TrialPoint) -> str:
    lost = "; ".join(f"{hop}: {text.frames(n)}" for hop, n in trial.lost_at.items())
    css = "" if trial.verdict is Verdict.VALID else ' class="bad"'
    cells = (
        str(trial.number),
        f"burst of {text.frames(trial.burst)}" if trial.burst else text.fps(trial.load_fps),
        text.seconds(trial.duration_s),
        _NO_NUMBER if trial.loss_ratio is None else text.percent(trial.loss_ratio),
        _NO_NUMBER if trial.forwarded_fps is None else text.fps(trial.forwarded_fps),
        _NO_NUMBER if trial.offered_ratio is None else text.percent(trial.offered_ratio, 7),
        goal_text.verdict_text(trial),
        render(lost),
        render(trial.reason),
    )
    return f'<tr id="t{trial.number:d}"{css}><td>{"<td>".join(cells)}'


def _trials_fold(case: Case, trials: Sequence[TrialPoint]) -> Markup:
    scenario, test, size = case
    summary = el(
        "span",
        el("b", f"{scenario} \N{MIDDLE DOT} {test} \N{MIDDLE DOT} {size} octets"),
        el("span", f"{len(trials)} trials: {summarise_trials(trials).sentence}", class_="muted"),
        class_="line",
    )
    body = Markup("\n".join(_trial_row(t) for t in trials))
    inner = el(
        "table",
        el("thead", html_row(_TRIALS_HEAD, tag="th", css=_TRIALS_CSS)),
        el("tbody", body),
        class_="trials-list",
    )
    return folded(summary, scroller(f"Trials of {scenario}, {test}, {size} octets", inner))


def trials_section(trials: Mapping[Case, list[TrialPoint]], anchor: str) -> Markup:
    """Every trial of the run."""
    count = sum(len(found) for found in trials.values())
    bad = sum(t.verdict is not Verdict.VALID for found in trials.values() for t in found)
    said = f"{count} trials in {len(trials)} searches, {bad} of them classify nothing."
    return section(
        anchor,
        "All trials",
        el("p", said, class_="muted"),
        el("div", [_trials_fold(case, found) for case, found in trials.items()], class_="folds"),
    )


def _asset(name: str) -> Markup:
    return Markup(files("vnetperf.report").joinpath(name).read_text(encoding="utf-8").strip())


def _csp_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _head(results: RunResults, style: Markup, script: Markup) -> Markup:
    policy = f"default-src 'none'; style-src {_csp_hash(style)}; script-src {_csp_hash(script)}"
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
    warnings = [el("li", w) for w in summary.run_warnings(results)]
    ended = "" if run.ended else "; not ended: running or interrupted"
    said = f"{run.started} (UTC){ended}. {run.tool}. {summary.ledger_sentence(results)}."
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
        ("testbed", run.testbed or goal_text.NOT_RECORDED),
        ("isolation (RFC 6815)", run.isolation or goal_text.NOT_RECORDED),
        ("operator's notes", run.notes or "none"),
        *summary.redaction_rows(results),
    ]
    return section(anchor, "Identity of the run", facts_table("Identity of the run", rows))


_FACT_SECTIONS = (
    ("identity", "Identity", _identity_section),
    ("ledger", "Standards ledger", ledger_section),
    ("calibration", "Calibration", calibration_section),
    ("environment", "Environment", environment_section),
    ("scenarios", "Deployed scenarios", scenarios_section),
    ("settings", "Settings", settings_section),
    ("unknowns", "Not measured, unknown", unknowns_section),
)


def _navigation(
    results: RunResults, found: Sequence[Group], comparisons: Sequence[VariantResults]
) -> Markup:
    """Links: a line for each scenario with its tests, and one for what belongs to the run."""
    lines: dict[str, list[Markup]] = {}
    for index, group in enumerate(found):
        link = el("a", test_words(group.test), href=f"#case-{index}")
        lines.setdefault(group.scenario, []).append(link)
    rows = [
        el("li", el("b", scenario), " ", *_spaced_links(links)) for scenario, links in lines.items()
    ]
    links = [("overview", "Overview")]
    links += [(f"compare-{i}", one.title) for i, one in enumerate(comparisons)]
    links += [("attach", transfers.ATTACH_TITLE)] if transfers.attach_table(results) else []
    links += [("transfers", transfers.TRANSFERS_TITLE)] if results.transfers else []
    links += [(anchor, title) for anchor, title, _ in _FACT_SECTIONS]
    links.append(("trials", "All trials"))
    run = el("li", *_spaced_links([el("a", title, href=f"#{anchor}") for anchor, title in links]))
    return el("nav", el("ul", rows, run), aria_label="Contents")


def _spaced_links(links: Sequence[Markup]) -> list[object]:
    return [part for link in links for part in (link, " ")]


def _not_deployed(results: RunResults) -> Markup | None:
    failed = [
        el("li", el("b", s.scenario), ": not deployed: ", s.error) for s in undeployed(results)
    ]
    return el("ul", failed, class_="warnings", aria_label="Not deployed") if failed else None


def html_report(results: RunResults) -> str:
    """report.html."""
    style, script = _asset("report.css"), _asset("report.js")
    found, comparisons = groups(results), comparisons_of(results)
    trials, ledger = trials_by_case(results), summary.ledger(results)
    first = summary.first_line(results)
    banner = "banner" if summary.is_benchmark(results) else "banner alarm"
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
                table_section(transfers.attach_table(results), "attach"),
                table_section(transfers.transfers_table(results), "transfers"),
                [render(results, anchor) for anchor, _, render in _FACT_SECTIONS],
                trials_section(trials, "trials"),
            ),
            class_="page",
        ),
        el("script", script),
    )
    page = el("html", _head(results, style, script), body, lang="en")
    return f"<!doctype html>\n{page}\n"
