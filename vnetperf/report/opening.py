"""What a reader must know before any number: whether it is a benchmark, and the warnings."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.result import LedgerEntry, RunResults
from vnetperf.report.cases import Group

#: Fits on the first line of a narrow terminal.
LAB = "Virtual lab: its speeds and latencies mean nothing, only that things work."


def in_lab(results: RunResults) -> bool:
    """Whether the run was made in the virtual lab.

    Args:
        results: The run.

    Returns:
        What the environment says; False when it does not say.
    """
    return results.environment.get("virtual_lab") is True


def is_benchmark(results: RunResults) -> bool:
    """Whether the numbers may be taken for those of a benchmark.

    Args:
        results: The run.

    Returns:
        False for presets that are none, and for whatever was made in the virtual lab.
    """
    return results.benchmark and not in_lab(results)


def first_line(results: RunResults) -> str:
    """The line every report starts with when it is no benchmark or its preset has a note.

    Args:
        results: The run.

    Returns:
        One line; "" when a benchmark on a real machine has nothing to say.
    """
    note = " ".join(results.preset_note.split())
    if not results.benchmark:
        said = f"Not a benchmark (preset {results.preset})"
        note = f"{said}: {note}" if note else f"{said}."
    return f"{LAB} {note}".strip() if in_lab(results) else note


def warnings(results: RunResults) -> tuple[str, ...]:
    """What a reader must know before any number.

    Args:
        results: The run.

    Returns:
        The run's own warnings; that it is a redacted copy comes first.
    """
    copy = results.redacted
    return ((copy.sentence,) if copy else ()) + results.warnings


def redaction(results: RunResults) -> tuple[tuple[str, str], ...]:
    """What a redacted copy does not tell.

    Args:
        results: The run.

    Returns:
        Names and values; empty for the run itself.
    """
    copy = results.redacted
    if copy is None:
        return ()
    rows = [("redacted (UTC)", copy.when)]
    rows += [(f"replaced: {kind}", str(count)) for kind, count in copy.values.items()]
    rows += [("kept on purpose", kind) for kind in copy.kept]
    rows += [("replaced in part", said) for said in copy.limited]
    return (*rows, *((f"left out: {name}", why) for name, why in copy.dropped.items()))


def ledger(results: RunResults) -> tuple[LedgerEntry, ...]:
    """Every clause, the deviated ones first.

    Args:
        results: The run.

    Returns:
        The ledger together with deviations that it does not hold.
    """
    entries = [*results.ledger, *(d for d in results.deviations if d not in results.ledger)]
    order = {"deviated": 0, "met": 1, "not applicable": 2}
    return tuple(sorted(entries, key=lambda e: order[e.status]))


def ledger_count(results: RunResults) -> str:
    """The ledger in one line of counts.

    Args:
        results: The run.

    Returns:
        "12 clauses met, 3 deviated, 1 not applicable", or "no clause was checked".
    """
    entries = ledger(results)
    if not entries:
        return "no clause was checked"
    return f"{len(entries)} clauses looked at: {count(entries)}"


def count(entries: Sequence[LedgerEntry]) -> str:
    """How many clauses are met and not.

    Args:
        entries: Some of the ledger.

    Returns:
        "12 met, 3 deviated, 1 not applicable".
    """
    kinds = ("met", "deviated", "not applicable")
    return ", ".join(f"{sum(e.status == kind for e in entries)} {kind}" for kind in kinds)


def of_test(entries: Sequence[LedgerEntry], group: Group) -> tuple[LedgerEntry, ...]:
    """The clauses that hold for one scenario and test.

    Args:
        entries: The ledger.
        group: Its results.

    Returns:
        Those that name its test, and no other scenario.
    """
    return tuple(e for e in entries if e.test == group.test and e.scenario in ("", group.scenario))
