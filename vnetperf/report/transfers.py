"""What users' own traffic came to, alike in every report."""

from __future__ import annotations

from vnetperf.model.result import RunResults
from vnetperf.report import units_text as text
from vnetperf.report.markdown_text import escaped
from vnetperf.report.markdown_text import table as markdown_table
from vnetperf.report.markup import Markup
from vnetperf.report.page_parts import section, table

TITLE = "Traffic of users"
HEAD = ("scenario", "transfer", "arrived, Mbit/s", "lost or sent again", "jitter", "UE, attach")
_NONE = "\N{EN DASH}"


def rows(results: RunResults) -> list[tuple[str, ...]]:
    """One row for each transfer.

    Args:
        results: The run.

    Returns:
        Cells as in HEAD; empty when none was run.
    """
    found: list[tuple[str, ...]] = []
    for one in results.transfers:
        for transfer in one.transfers:
            lost = _NONE
            if transfer.loss_ratio is not None:
                lost = f"{text.percent(transfer.loss_ratio)} lost"
            elif transfer.retransmits is not None:
                lost = f"{transfer.retransmits} segments again"
            jitter = transfer.jitter_ms
            found.append(
                (
                    one.scenario,
                    f"{transfer.spec.protocol.upper()} {transfer.spec.way}, "
                    f"{transfer.spec.duration_s} s",
                    text.significant(transfer.bits_per_second / 1e6),
                    lost,
                    _NONE if jitter is None else text.nanoseconds(jitter * 1e6),
                    f"{transfer.ue}, {text.seconds(transfer.attach_s)}",
                )
            )
    return found


def sentences(results: RunResults) -> list[str]:
    """The same for a terminal.

    Args:
        results: The run.

    Returns:
        One sentence for each transfer.
    """
    return [
        f"{scenario}: {what}: {rate} Mbit/s arrived"
        + (f", {lost}" if lost != _NONE else "")
        + (f", jitter {jitter}" if jitter != _NONE else "")
        for scenario, what, rate, lost, jitter, _ in rows(results)
    ]


def markdown(results: RunResults) -> list[str]:
    """The part of report.md.

    Args:
        results: The run.

    Returns:
        Paragraphs; empty when nothing was transferred.
    """
    found = rows(results)
    if not found:
        return []
    cells = [tuple(escaped(cell) for cell in row) for row in found]
    return [f"## {TITLE}", markdown_table(HEAD, cells), _how(results)]


def transfers_section(results: RunResults, anchor: str) -> Markup | None:
    """The part of the page.

    Args:
        results: The run.
        anchor: Id of the section.

    Returns:
        HTML; None when nothing was transferred.
    """
    found = rows(results)
    if not found:
        return None
    css = ("name", "", "num", "num", "num", "")
    return section(anchor, TITLE, table(TITLE, HEAD, found, css=css), _how(results))


def _how(results: RunResults) -> str:
    tools = dict.fromkeys(t.tool for one in results.transfers for t in one.transfers if t.tool)
    cpus = dict.fromkeys(t.cpus for one in results.transfers for t in one.transfers if t.cpus)
    where = f" UE, client and server share processors {'; '.join(cpus)}." if cpus else ""
    return (
        f"Payload by what the receiver counted ({', '.join(tools)}); UDP was offered at the rate "
        f"that TCP reached the same way.{where}"
    )
