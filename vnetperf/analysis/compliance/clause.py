"""One entry of the compliance ledger, and how entries of single results are merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from vnetperf.model.preset import Preset
from vnetperf.model.result import LedgerEntry, Result

Status = Literal["met", "deviated", "not applicable"]
#: Name of a clause, its requirement, whether it is met, what was done, and why if it is not met.
Row = tuple[str, str, bool, str] | tuple[str, str, bool, str, str]


@dataclass(frozen=True)
class ClauseContext:
    """A result with the settings that it was measured by.

    Attributes:
        preset: The run's preset.
        result: What was measured.
        nominal: True when the wires have no speed of their own.
    """

    preset: Preset
    result: Result
    nominal: bool

    @property
    def because(self) -> str:
        """Why something was not done as a clause requires: the preset has another value."""
        return f"preset {self.preset.name}"

    def entries(self, standard: str, *rows: Row) -> Iterator[LedgerEntry]:
        """Entries of one standard; where a row gives no reason, the preset is the reason."""
        for name, requirement, ok, value, *reason in rows:
            clause = f"{standard}, {name}" if name else standard
            yield entry(clause, requirement, ok, value, *(reason or [self.because]))


def entry(clause: str, requirement: str, ok: bool, value: str, reason: str = "") -> LedgerEntry:
    """A clause that is met or deviated from."""
    status: Status = "met" if ok else "deviated"
    return LedgerEntry(
        clause=clause,
        requirement=requirement,
        status=status,
        value=value,
        reason="" if ok else reason,
    )


def not_applicable(clause: str, requirement: str, why: str) -> LedgerEntry:
    """A clause that does not speak of what was done."""
    return LedgerEntry(clause=clause, requirement=requirement, status="not applicable", value=why)


def scoped(found: Iterable[tuple[Result, LedgerEntry]]) -> Iterator[LedgerEntry]:
    """Entries of single results, those that are equal for all sizes or scenarios as one."""
    by_clause: dict[tuple[str, str, str], list[tuple[Result, LedgerEntry]]] = {}
    for result, one in found:
        by_clause.setdefault((result.test, one.clause, one.requirement), []).append((result, one))
    for (test, _, _), held in by_clause.items():
        yield from _merged_entries(test, held)


def _merged_entries(test: str, held: list[tuple[Result, LedgerEntry]]) -> Iterator[LedgerEntry]:
    if all(one == held[0][1] for _, one in held):
        yield held[0][1].model_copy(update={"test": test})
        return
    by_scenario: dict[str, list[tuple[Result, LedgerEntry]]] = {}
    for result, one in held:
        by_scenario.setdefault(result.scenario, []).append((result, one))
    for scenario, its in by_scenario.items():
        scope = {"test": test, "scenario": scenario}
        if all(one == its[0][1] for _, one in its):
            yield its[0][1].model_copy(update=scope)
            continue
        for result, one in its:
            yield one.model_copy(update=scope | {"frame_size": result.frame_size})
