"""The page's accounting of lost frames: a bar and the numbers for every search."""

from __future__ import annotations

from collections.abc import Mapping

from vnetperf.model.result import TrialPoint
from vnetperf.report import units_text as text
from vnetperf.report.cases import Case, Group, case_of
from vnetperf.report.losses import LossAccount, account
from vnetperf.report.markup import Markup, el
from vnetperf.report.page_parts import table
from vnetperf.report.plot_frame import legend

_BAR = 100.0


def _bar(lost: LossAccount, hops: list[str]) -> Markup:
    parts, left = [], 0.0
    for hop in hops:
        count = lost.by_hop.get(hop, 0)
        if count <= 0:
            continue
        width = count / lost.total * _BAR
        said = f"{hop}: {text.frames(count)} frames, {text.percent(count / lost.total, 3)}"
        css = f"hop h{hops.index(hop) % 6}"
        shape = el("rect", x=f"{left:.2f}", y=0, width=f"{width:.2f}", height=10, class_=css)
        parts.append(el("g", el("title", said), shape, class_="tip"))
        left += width
    return el(
        "svg",
        parts,
        viewBox=f"0 0 {_BAR:g} 10",
        preserveAspectRatio="none",
        class_="share",
        role="img",
        aria_label="shares of the hops",
    )


def _cell(lost: LossAccount, hop: str) -> str:
    count = lost.by_hop.get(hop, 0)
    if not count or not lost.total:
        return "0"
    return f"{text.frames(count)} ({text.percent(count / lost.total, 3)})"


def losses_table(group: Group, trials: Mapping[Case, list[TrialPoint]]) -> Markup | None:
    """Where the frames of a group's searches died.

    Args:
        group: The group.
        trials: All trials of the run by search.

    Returns:
        HTML; None when the group has no trial.
    """
    accounts = {r.frame_size: account(trials.get(case_of(r), [])) for r in group.measured}
    if not any(a.trials for a in accounts.values()):
        return None
    if not any(a.lossy for a in accounts.values()):
        count = sum(a.trials for a in accounts.values())
        return el(
            "div",
            el("h3", "Where lost frames died"),
            el("p", f"None of {count} VALID trials lost a frame.", class_="muted"),
        )
    hops = list(dict.fromkeys(hop for a in accounts.values() for hop in a.by_hop))
    rows = []
    for size, lost in accounts.items():
        bar = _bar(lost, hops) if lost.total > 0 else Markup("")
        cells = [str(size), f"{lost.lossy} of {lost.trials}", bar]
        rows.append([*cells, *(_cell(lost, h) for h in hops), str(lost.unattributed)])
    head = ["size", "lossy trials", "share", *hops, "no hop named"]
    css = ["", "num", "bars", *["num"] * (len(hops) + 1)]
    return el(
        "div",
        el("h3", "Where lost frames died"),
        el("p", "Frames lost in VALID trials; lossy trials of all VALID ones.", class_="muted"),
        legend((f"box hop h{i % 6}", hop) for i, hop in enumerate(hops)) if hops else None,
        table(f"Lost frames of {group.title}, by hop", head, rows, css=css, kind="losses"),
    )
