"""Busy threads at the lower bounds, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.result import ThreadUse
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group

TITLE = "Busy threads at the lower bounds"
_HEAD = ("octets", "goal", "role", "thread", "processor", "user", "system", "descheduled per s")
_EVENTS = "Events: a second, and a frame that came through in brackets."


def head(group: Group) -> tuple[str, ...]:
    """Names of the columns.

    Args:
        group: Results of one scenario and test.

    Returns:
        Names; one for each event that was counted anywhere.
    """
    return (*_HEAD, *_events(group))


def rows(group: Group) -> Iterator[tuple[str, ...]]:
    """A row for each thread of each goal that has a lower bound.

    Args:
        group: Results of one scenario and test.

    Yields:
        Texts by column.
    """
    events = _events(group)
    for result in group.measured:
        for goal in result.goals:
            for use in goal.threads:
                yield (
                    result.size_name,
                    goal.name,
                    use.role,
                    use.thread,
                    str(use.cpu),
                    text.percent(use.user, 3),
                    text.percent(use.system, 3),
                    text.significant(use.involuntary_switches_per_s, 3),
                    *(_event(use, name) for name in events),
                )


def notes(group: Group) -> tuple[str, ...]:
    """How to read the events, and what could not be told.

    Args:
        group: Results of one scenario and test.

    Returns:
        Sentences; "tlb: not measured: why", each once.
    """
    told = (goal.uncollected for result in group.measured for goal in result.goals)
    missing = dict.fromkeys(f"{name}: {why}" for said in told for name, why in said.items())
    return (*([_EVENTS] if _events(group) else []), *missing)


def _events(group: Group) -> tuple[str, ...]:
    uses = (use for r in group.measured for goal in r.goals for use in goal.threads)
    return tuple(dict.fromkeys(name for use in uses for name in use.events_per_s))


def _event(use: ThreadUse, name: str) -> str:
    if name not in use.events_per_s:
        return "not measured"
    each = use.events_per_frame.get(name)
    shown = text.significant(use.events_per_s[name], 3)
    return shown if each is None else f"{shown} ({text.significant(each, 3)})"
