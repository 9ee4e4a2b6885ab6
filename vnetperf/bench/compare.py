"""Two sides set beside each other: what differs, how surely, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isinf

from vnetperf.bench.comparable import name_of, only_one_has, why_not
from vnetperf.bench.quantities import all_quantities
from vnetperf.bench.quantity import Key, Quantity
from vnetperf.bench.reading import ReadRun
from vnetperf.model.errors import ConfigError
from vnetperf.model.result import RunResults
from vnetperf.results.environment import (
    Difference as FactDifference,
)
from vnetperf.results.environment import environment_differences, scenario_differences
from vnetperf.statistics.difference import Difference, Measured, difference
from vnetperf.statistics.groups import two_modes

NO_DIFFERENCE = "no difference seen"


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: As the user wrote it.
        runs: Its runs; each round of each is one measurement.
        scenario: The only one that is looked at; "" for all.
    """

    name: str
    runs: tuple[ReadRun, ...]
    scenario: str = ""

    @property
    def rounds(self) -> list[RunResults]:
        """Every round of every run."""
        return [results for run in self.runs for results in run.rounds]


@dataclass(frozen=True)
class Row:
    """A number of both sides.

    Attributes:
        scenario: "pvp_dpdk"; "pvp_dpdk / pvp_ovs" where the sides have different ones.
        quantity: The first side's, for what it is.
        a: Measurements of the first side.
        b: Those of the second.
        found: What the second has more.
        marks: What a reader must see beside it, each with the side's letter.
    """

    scenario: str
    quantity: Quantity
    a: tuple[Measured, ...]
    b: tuple[Measured, ...]
    found: Difference
    marks: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """What to say of it: no more than its interval bears out."""
        if self.found.method == "none":
            return "one measurement each: not known how it repeats"
        seen = self.found.seen
        if not seen and isinf(self.found.low) and isinf(self.found.high):
            return "not known: open on both sides"
        if not seen:
            return NO_DIFFERENCE
        better = self.quantity.better
        judged = f" ({'better' if seen == better else 'worse'})" if better else ""
        apart = "bounds apart: " if self.found.method == "bounds" else ""
        return f"{apart}B has {seen}{judged}"

    @property
    def is_worse(self) -> bool:
        """Whether the interval lies on the worse side, in a number that the test is for."""
        seen, better = self.found.seen, self.quantity.better
        return bool(seen and better and seen != better and self.quantity.main)


@dataclass(frozen=True)
class Compared:
    """What a comparison found.

    Attributes:
        a: The first side.
        b: The second.
        paired: Whether the n-th rounds of both were measured right after each other.
        rows: Numbers that both have.
        not_compared: Numbers that cannot be compared, and why, one sentence each.
        environment: What differs in how both were measured.
    """

    a: Side
    b: Side
    paired: bool
    rows: tuple[Row, ...]
    not_compared: tuple[str, ...]
    environment: tuple[FactDifference, ...] = field(default=())


_Found = dict[str, dict[Key, list[Quantity]]]


def compare(a: Side, b: Side, *, confidence: float = 0.95) -> Compared:
    """Compare two sides.

    Args:
        a: The first.
        b: The second.
        confidence: Level of the intervals, above 0 and below 1.

    Returns:
        What differs.

    Raises:
        ConfigError: A side has not the scenario it names, or nothing can be compared.
    """
    if _are_same(a, b) and a.scenario == b.scenario:
        raise ConfigError(
            "both sides are the same", where=f"{a.name} and {b.name}", accepted="two that differ"
        )
    ours, theirs = _quantities_of(a), _quantities_of(b)
    paired = _are_same(a, b) and len(a.rounds) > 1
    rows: list[Row] = []
    apart: list[str] = []
    for one, other in _pairs(a, b, ours, theirs):
        known, also = ours.get(one, {}), theirs.get(other, {})
        name = one if one == other else f"{one} / {other}"
        apart += only_one_has(name, known, also)
        for key in (key for key in known if key in also and key[2]):
            reason = why_not(known[key], also[key])
            if reason:
                apart.append(f"{name_of(name, key)}: {reason}")
                continue
            rows.append(_row(name, known[key], also[key], paired=paired, confidence=confidence))
    if not rows:
        raise ConfigError(
            "nothing can be compared" + "".join(f"\n  {line}" for line in apart),
            where=f"{a.name} and {b.name}",
            accepted="runs that share a scenario, test and frame size, or RUN:SCENARIO twice",
        )
    return Compared(a, b, paired, tuple(rows), tuple(apart), _environment(a, b))


def _quantities_of(side: Side) -> _Found:
    """Scenario -> number -> one for each round."""
    found: _Found = {}
    for results in side.rounds:
        for one in all_quantities(results):
            if side.scenario in ("", one.scenario):
                found.setdefault(one.scenario, {}).setdefault(one.key, []).append(one)
    if not found:
        there = sorted({q.scenario for each in side.rounds for q in all_quantities(each)})
        raise ConfigError(
            f"there is no scenario {side.scenario!r}" if side.scenario else "there is no result",
            where=side.name,
            accepted=", ".join(there) or "a run that measured something",
        )
    return found


def _pairs(a: Side, b: Side, ours: _Found, theirs: _Found) -> list[tuple[str, str]]:
    """Scenarios to set beside each other."""
    if a.scenario and b.scenario:
        return [(a.scenario, b.scenario)]
    if a.scenario or b.scenario:
        return [(a.scenario or b.scenario,) * 2]
    return [(name, name) for name in dict.fromkeys([*ours, *theirs])]


def _are_same(a: Side, b: Side) -> bool:
    return [run.path.resolve() for run in a.runs] == [run.path.resolve() for run in b.runs]


def _row(
    name: str,
    ours: Sequence[Quantity],
    theirs: Sequence[Quantity],
    *,
    paired: bool,
    confidence: float,
) -> Row:
    a, b = _measurements(ours), _measurements(theirs)
    marks = [*_marks("A", ours), *_marks("B", theirs)]
    for letter, side in (("A", a), ("B", b)):
        if two_modes([m.value for m in side if m.value is not None]):
            marks.append(f"{letter}: two modes, no mean stands for both")
    in_one_run = any(len(side) == 1 and side[0].repeats for side in (ours, theirs))
    if in_one_run:
        marks.append("repeats of one deployment")
    pairs = paired and not in_one_run and len(a) == len(b)
    found = difference(a, b, paired=pairs, confidence=confidence)
    return Row(name, ours[0], tuple(a), tuple(b), found, tuple(dict.fromkeys(marks)))


def _measurements(side: Sequence[Quantity]) -> list[Measured]:
    """One for each round; of a single round its own repeats, where the test has some."""
    if len(side) == 1 and side[0].repeats:
        only = side[0].measured
        # What a search leaves open of one round it leaves open of each.
        width = only.high - only.value if only is not None and only.value is not None else 0.0
        open_ = width if side[0].test == "throughput" else 0.0
        return [Measured(v, v, v + open_) for v in side[0].repeats]
    return [q.measured for q in side if q.measured is not None]


def _marks(letter: str, side: Iterable[Quantity]) -> list[str]:
    """Marks of a side; "A: at least (2 of 5)" where not all of its rounds have one."""
    quantities_ = list(side)
    counts: dict[str, int] = {}
    for quantity in quantities_:
        for mark in quantity.marks:
            counts[mark] = counts.get(mark, 0) + 1
    n = len(quantities_)
    return [
        f"{letter}: {mark}" + (f" ({count} of {n})" if n > 1 else "")
        for mark, count in counts.items()
    ]


def _environment(a: Side, b: Side) -> tuple[FactDifference, ...]:
    """What differs in how both were measured, by their first runs."""
    one, other = a.runs[0].first, b.runs[0].first
    found = list(environment_differences(one, other))
    if a.scenario != b.scenario and a.scenario and b.scenario:
        ours = next((s for s in one.scenarios if s.scenario == a.scenario), None)
        theirs = next((s for s in other.scenarios if s.scenario == b.scenario), None)
        if ours is not None and theirs is not None and not (ours.error or theirs.error):
            found += scenario_differences(ours, theirs)
    return tuple(found)
