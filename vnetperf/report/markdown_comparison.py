"""Comparisons in report.md: a table for each, with bounds and what was skipped."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.result import ComparedVariant, RunResults
from vnetperf.report import bounds
from vnetperf.report.comparing import EVENTS, Compared, compared
from vnetperf.report.markdown_text import code, escaped, table

_NONE = "\N{EN DASH}"
_HEAD = (
    "variant",
    "laid over the settings",
    "octets",
    "goal",
    "lower bound, aggregate",
    "upper bound, aggregate",
    "against the first",
    "regular?",
)


def comparisons(results: RunResults) -> Iterator[str]:
    """Every comparison of a run.

    Args:
        results: The run.

    Yields:
        Markdown blocks; none without comparisons.
    """
    for found in compared(results):
        yield f"## {escaped(found.title)}"
        if found.comparison.title:
            yield escaped(found.comparison.title)
        yield table(_HEAD, _rows(found))
        if found.events:
            yield f"### {EVENTS}"
            head = ("variant", "octets", "goal", *map(escaped, found.events))
            yield table(head, (tuple(map(escaped, row)) for row in found.event_rows()))
        if found.uncollected:
            yield "\n".join(f"- {escaped(said)}" for said in found.uncollected)


def _rows(found: Compared) -> Iterator[tuple[str, ...]]:
    for size in found.sizes or (0,):
        for name in found.goal_names or ("",):
            for variant in found.comparison.variants:
                yield _row(found, variant, size, name)


def _row(found: Compared, variant: ComparedVariant, size: int, name: str) -> tuple[str, ...]:
    typed = code(" ".join(variant.typed)) or "nothing"
    head = (escaped(variant.variant), typed, str(size or _NONE), escaped(name) or _NONE)
    goal = found.goal(variant, size, name)
    if goal is None:
        word, why = found.absence(variant, size)
        return (*head, f"**{word}**", _NONE, _NONE, escaped(why))
    return (
        *head,
        f"**{escaped(bounds.qualified(goal))}**",
        escaped(bounds.upper(goal)),
        found.relative(variant, size, name) or _NONE,
        escaped(bounds.flag_with_reason(goal)),
    )
