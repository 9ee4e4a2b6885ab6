"""The page's ledger: every clause of the run, and beside each test those that it answers to."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.result import LedgerEntry, RunResults
from vnetperf.report import opening
from vnetperf.report.cases import Group
from vnetperf.report.markup import Markup, el
from vnetperf.report.page_parts import badge, folded, section, table

TITLE = "Standards ledger"
_STATUS = {"met": "good", "deviated": "warn", "not applicable": "plain"}
_HEAD = ("clause", "status", "asks for", "done", "why it deviates or does not apply")


def _cells(entry: LedgerEntry) -> tuple[object, ...]:
    mark = badge(entry.status, _STATUS[entry.status])
    return (entry.clause, mark, entry.requirement, entry.value, entry.reason)


def ledger_section(results: RunResults, anchor: str) -> Markup:
    """How the run stands to the standards, clause by clause.

    Args:
        results: The run.
        anchor: Id of the section.

    Returns:
        HTML.
    """
    entries = opening.ledger(results)
    scoped = any(entry.scope for entry in entries)
    rows = [(*_cells(e), *((e.scope or "the whole run",) if scoped else ())) for e in entries]
    head = (*_HEAD, "holds for") if scoped else _HEAD
    said = el("p", f"{opening.ledger_count(results)}.", class_="muted")
    return section(anchor, TITLE, said, table(TITLE, head, rows, css=("name",), kind="ledger"))


def clauses(entries: Sequence[LedgerEntry], group: Group) -> Markup | None:
    """The clauses of one scenario and test, behind a line that counts them.

    Args:
        entries: The run's ledger.
        group: Its results.

    Returns:
        HTML; None where no clause is of this test alone.
    """
    mine = opening.of_test(entries, group)
    if not mine:
        return None
    sizes = any(entry.frame_size for entry in mine)
    rows = [(*_cells(e), *((str(e.frame_size or "all"),) if sizes else ())) for e in mine]
    head = (*_HEAD, "octets") if sizes else _HEAD
    line = el(
        "span",
        el("b", "Clauses of this test"),
        el("span", opening.count(mine), class_="muted"),
        class_="line",
    )
    label = f"Clauses of {group.title}"
    return folded(line, table(label, head, rows, css=("name",), kind="ledger"))
