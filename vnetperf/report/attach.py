"""How sessions of a mobile core were attached before the first trial, alike in every report."""

from __future__ import annotations

from typing import Any

from vnetperf.model.result import RunResults
from vnetperf.report import units_text as text
from vnetperf.report.tabular import NONE, Table

TITLE = "Attach phase"
HEAD = ("scenario", "attached", "success", "ramp asked", "reached", "whole", "median", "99 %")
#: What a row takes from the facts of a VNF; a plugin's own facts may be called alike.
_KEYS = frozenset(
    (
        "attached",
        "sessions asked for",
        "success rate",
        "ramp, sessions/s",
        "reached, sessions/s",
        "whole, s",
    )
)
_HOW = (
    "Sessions that were attached before the first trial; their packets are the flows.",
    "Median and 99 % of the time from a session's first request to its answer.",
)


def rows(results: RunResults) -> list[tuple[str, ...]]:
    """One row for each core whose attach phase was timed.

    Args:
        results: The run.

    Returns:
        Cells as in HEAD; empty when there was none.
    """
    return [
        _row(scenario.scenario, vnf["attach"])
        for scenario in results.scenarios
        for vnf in scenario.facts.get("vnfs", ())
        if isinstance(vnf, dict)
        and isinstance(vnf.get("attach"), dict)
        and vnf["attach"].keys() >= _KEYS
    ]


def _row(scenario: str, phase: dict[str, Any]) -> tuple[str, ...]:
    times = phase.get("time of an attach, ms", {})
    ramp = phase["ramp, sessions/s"]
    return (
        scenario,
        f"{phase['attached']} of {phase['sessions asked for']}",
        text.percent(phase["success rate"]),
        ramp if isinstance(ramp, str) else f"{text.significant(ramp)}/s",
        f"{text.significant(phase['reached, sessions/s'])}/s",
        text.seconds(phase["whole, s"]),
        *(text.nanoseconds(times[k] * 1e6) if k in times else NONE for k in ("median", "99 %")),
    )


def sentences(results: RunResults) -> list[str]:
    """The same for a terminal.

    Args:
        results: The run.

    Returns:
        One sentence for each core.
    """
    return [
        f"{scenario}: {attached} sessions attached in {whole} ({reached}), median {median}"
        for scenario, attached, _, _, reached, whole, median, _ in rows(results)
    ]


def table(results: RunResults) -> Table:
    """The same for report.md and the page.

    Args:
        results: The run.

    Returns:
        The table; without rows when nothing was attached.
    """
    return Table(TITLE, HEAD, tuple(rows(results)), _HOW)
