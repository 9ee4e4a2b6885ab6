"""The page's list of every trial, folded per search and light enough for ten thousand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetperf.model.result import TrialPoint
from vnetperf.model.trial import Verdict
from vnetperf.report import bounds
from vnetperf.report import units_text as text
from vnetperf.report.cases import Case
from vnetperf.report.markup import Markup, el, render
from vnetperf.report.page_parts import folded, row, scroller, section
from vnetperf.report.trialstats import summarise

_HEAD = (
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
_CSS = ("num", "num", "num", "num", "num", "num", "", "", "")
_NO_NUMBER = "no number"


def _row(trial: TrialPoint) -> str:
    lost = "; ".join(f"{hop}: {text.frames(n)}" for hop, n in trial.lost_at.items())
    css = "" if trial.verdict is Verdict.VALID else ' class="bad"'
    cells = (
        str(trial.number),
        f"burst of {text.frames(trial.burst)}" if trial.burst else text.fps(trial.load_fps),
        text.seconds(trial.duration_s),
        _NO_NUMBER if trial.loss_ratio is None else text.percent(trial.loss_ratio),
        _NO_NUMBER if trial.forwarded_fps is None else text.fps(trial.forwarded_fps),
        _NO_NUMBER if trial.offered_ratio is None else text.percent(trial.offered_ratio, 7),
        bounds.verdict(trial),
        render(lost),
        render(trial.reason),
    )
    return f'<tr id="t{trial.number:d}"{css}><td>{"<td>".join(cells)}'


def _folded(case: Case, trials: Sequence[TrialPoint]) -> Markup:
    scenario, test, size = case
    summary = el(
        "span",
        el("b", f"{scenario} \N{MIDDLE DOT} {test} \N{MIDDLE DOT} {size} octets"),
        el("span", f"{len(trials)} trials: {summarise(trials).sentence}", class_="muted"),
        class_="line",
    )
    body = Markup("\n".join(_row(t) for t in trials))
    inner = el(
        "table",
        el("thead", row(_HEAD, tag="th", css=_CSS)),
        el("tbody", body),
        class_="trials-list",
    )
    return folded(summary, scroller(f"Trials of {scenario}, {test}, {size} octets", inner))


def trials_section(trials: Mapping[Case, list[TrialPoint]], anchor: str) -> Markup:
    """Every trial of the run.

    Args:
        trials: Trials by search.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    count = sum(len(found) for found in trials.values())
    bad = sum(t.verdict is not Verdict.VALID for found in trials.values() for t in found)
    said = f"{count} trials in {len(trials)} searches, {bad} of them classify nothing."
    return section(
        anchor,
        "All trials",
        el("p", said, class_="muted"),
        el("div", [_folded(case, found) for case, found in trials.items()], class_="folds"),
    )
