"""Compares two sides metric by metric: what differs, how surely, and what is not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf

from vnetperf.analysis.runs import StoredRun
from vnetperf.model.errors import ConfigError
from vnetperf.model.result import RunResults
from vnetperf.results.environment import (
    FactDifference,
    environment_differences,
    scenario_differences,
)
from vnetperf.results.metrics import Key, Metric, compared_metrics
from vnetperf.statistics.difference import Difference, Measurand, difference
from vnetperf.statistics.samples import two_modes

MetricsByKey = Mapping[Key, Sequence[Metric]]


def metric_name(scenario: str, key: Key) -> str:
    """A number in a sentence."""
    test, size, name = key
    return ", ".join(part for part in (scenario, test, size, name) if part)


def only_on_one_side(name: str, known: MetricsByKey, also: MetricsByKey) -> list[str]:
    """What only one side has."""
    sentences: list[str] = []
    for letter, mine, other in (("A", known, also), ("B", also, known)):
        sentences += [
            f"{metric_name(name, k)}: {_missing(letter, q)}" for k, q in mine.items() if not k[2]
        ]
        missing = [key for key, found in mine.items() if key not in other and found[0].main]
        if not other and missing:
            sentences.append(f"{name}: only {letter} has it")
            continue
        sizes = {key[:2] for key in other}
        whole: dict[str, list[str]] = {}
        for test, size, number in missing:
            if (test, size) not in sizes:
                whole.setdefault(test, []).append(size)
            elif number and (test, size, "") not in other:
                sentences.append(f"{metric_name(name, (test, size, number))}: only {letter} has it")
        sentences += [
            f"{name}, {test}: only {letter} has frame size {', '.join(dict.fromkeys(found))}"
            for test, found in whole.items()
        ]
    return sentences


def why_not_comparable(ours: Sequence[Metric], theirs: Sequence[Metric]) -> str:
    """What keeps a number of both sides from being compared."""
    for letter, side in (("A", ours), ("B", theirs)):
        if all(q.measured is None for q in side):
            return _missing(letter, side)
    conditions = [q.conditions for q in (*ours, *theirs)]
    for key in dict.fromkeys(key for each in conditions for key in each):
        a, b = (
            sorted({str(q.conditions.get(key, "none")) for q in side}) for side in (ours, theirs)
        )
        if a != b or len(a) > 1:
            return f"different conditions: {key} is {', '.join(a)} in A and {', '.join(b)} in B"
    return ""


def _missing(letter: str, side: Sequence[Metric]) -> str:
    why = next((q.why for q in side if q.why), "no number")
    return f"not measured in {letter}: {why.splitlines()[0]}"


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
    runs: tuple[StoredRun, ...]
    scenario: str = ""

    @property
    def rounds(self) -> list[RunResults]:
        """Every round of every run."""
        return [results for run in self.runs for results in run.rounds]


@dataclass(frozen=True)
class ComparisonRow:
    """A number of both sides.

    Attributes:
        scenario: "pvp_dpdk"; "pvp_dpdk / pvp_ovs" where the sides have different ones.
        metric: The first side's, for what it is.
        a: Measurements of the first side.
        b: Those of the second.
        found: What the second has more.
        marks: What a reader must see beside it, each with the side's letter.
    """

    scenario: str
    metric: Metric
    a: tuple[Measurand, ...]
    b: tuple[Measurand, ...]
    found: Difference
    marks: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The difference in words: no more than its interval bears out."""
        if self.found.method == "none":
            return "one measurement each: not known how it repeats"
        seen = self.found.seen
        if not seen and isinf(self.found.low) and isinf(self.found.high):
            return "not known: open on both sides"
        if not seen:
            return NO_DIFFERENCE
        better = self.metric.better
        judged = f" ({'better' if seen == better else 'worse'})" if better else ""
        apart = "bounds apart: " if self.found.method == "bounds" else ""
        return f"{apart}B has {seen}{judged}"

    @property
    def is_worse(self) -> bool:
        """Whether the interval lies on the worse side, in a number that the test is for."""
        seen, better = self.found.seen, self.metric.better
        return bool(seen and better and seen != better and self.metric.main)


@dataclass(frozen=True)
class SideComparison:
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
    rows: tuple[ComparisonRow, ...]
    not_compared: tuple[str, ...]
    environment: tuple[FactDifference, ...] = field(default=())


_MetricsOfSide = dict[str, dict[Key, list[Metric]]]


def compare(a: Side, b: Side, *, confidence: float = 0.95) -> SideComparison:
    """Compare two sides."""
    if _are_same(a, b) and a.scenario == b.scenario:
        raise ConfigError(
            "both sides are the same", where=f"{a.name} and {b.name}", accepted="two that differ"
        )
    ours, theirs = _metrics_of_side(a), _metrics_of_side(b)
    paired = _are_same(a, b) and len(a.rounds) > 1
    rows: list[ComparisonRow] = []
    apart: list[str] = []
    for one, other in _pairs(a, b, ours, theirs):
        known, also = ours.get(one, {}), theirs.get(other, {})
        name = one if one == other else f"{one} / {other}"
        apart += only_on_one_side(name, known, also)
        for key in (key for key in known if key in also and key[2]):
            reason = why_not_comparable(known[key], also[key])
            if reason:
                apart.append(f"{metric_name(name, key)}: {reason}")
                continue
            rows.append(_row(name, known[key], also[key], paired=paired, confidence=confidence))
    if not rows:
        raise ConfigError(
            "nothing can be compared" + "".join(f"\n  {line}" for line in apart),
            where=f"{a.name} and {b.name}",
            accepted="runs that share a scenario, test and frame size, or RUN:SCENARIO twice",
        )
    return SideComparison(a, b, paired, tuple(rows), tuple(apart), _environment(a, b))


def _metrics_of_side(side: Side) -> _MetricsOfSide:
    """Scenario -> number -> one for each round."""
    found: _MetricsOfSide = {}
    for results in side.rounds:
        for one in compared_metrics(results):
            if side.scenario in ("", one.scenario):
                found.setdefault(one.scenario, {}).setdefault(one.key, []).append(one)
    if not found:
        there = sorted({q.scenario for each in side.rounds for q in compared_metrics(each)})
        raise ConfigError(
            f"there is no scenario {side.scenario!r}" if side.scenario else "there is no result",
            where=side.name,
            accepted=", ".join(there) or "a run that measured something",
        )
    return found


def _pairs(a: Side, b: Side, ours: _MetricsOfSide, theirs: _MetricsOfSide) -> list[tuple[str, str]]:
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
    ours: Sequence[Metric],
    theirs: Sequence[Metric],
    *,
    paired: bool,
    confidence: float,
) -> ComparisonRow:
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
    return ComparisonRow(name, ours[0], tuple(a), tuple(b), found, tuple(dict.fromkeys(marks)))


def _measurements(side: Sequence[Metric]) -> list[Measurand]:
    """One for each round; of a single round its own repeats, where the test has some."""
    if len(side) == 1 and side[0].repeats:
        only = side[0].measured
        # What a search leaves open of one round it leaves open of each.
        width = only.high - only.value if only is not None and only.value is not None else 0.0
        open_ = width if side[0].test == "throughput" else 0.0
        return [Measurand(v, v, v + open_) for v in side[0].repeats]
    return [q.measured for q in side if q.measured is not None]


def _marks(letter: str, side: Iterable[Metric]) -> list[str]:
    """Marks of a side; "A: at least (2 of 5)" where not all of its rounds have one."""
    found = list(side)
    counts = Counter(mark for metric in found for mark in metric.marks)
    n = len(found)
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
