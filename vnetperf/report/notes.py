"""Notes below a group's table: what is irregular, not measured or classifies nothing, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from vnetperf.model.trial import Verdict
from vnetperf.report import bounds
from vnetperf.report.cases import Group


def notes(group: Group) -> Iterator[str]:
    """Every note of a group.

    Args:
        group: The group.

    Yields:
        One sentence each; the same reason at several sizes is one note.
    """
    irregular: dict[str, list[str]] = defaultdict(list)
    for result in group.results:
        if result.status == "not measured":
            why = result.why or "no reason was recorded"
            yield f"{result.size_text}: not measured: {why}"
        for goal in result.goals:
            if not goal.regular:
                irregular[bounds.flag_with_reason(goal)].append(f"{result.size_name} {goal.name}")
        bad = {v: n for v, n in result.verdicts.items() if n and v is not Verdict.VALID}
        if bad:
            counts = ", ".join(f"{n} {v.value}" for v, n in bad.items())
            yield f"{result.size_text}: trials that classify nothing: {counts}"
    for said, where in irregular.items():
        yield f"{', '.join(where)}: {said}"
