"""Compares two sides metric by metric: what differs, how surely, and what is not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean
from typing import Literal, TypeAlias

from vnetperf.analysis.environment import (
    ABSENT,
    FactDifference,
    comparability,
    environment_differences,
    scenario_differences,
)
from vnetperf.analysis.metrics import TRANSFERS_TEST, Key, Metric
from vnetperf.analysis.run_metrics import compared_metrics
from vnetperf.analysis.runs import StoredRun
from vnetperf.analysis.sharing import sharing_of
from vnetperf.model.errors import ConfigError, accepted_names, did_you_mean
from vnetperf.model.outcomes import Spread
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.result import RunResults
from vnetperf.model.units import Unit, value_text
from vnetperf.statistics.difference import (
    FEW,
    FEWEST_TO_GATE,
    Difference,
    Measurand,
    Occurrences,
    compare_counts,
    difference,
    find_increases,
    holm,
    least_by_ranks,
)
from vnetperf.statistics.samples import two_modes

#: Which deployment of a side: number of the run, and of its round.
Deployment: TypeAlias = tuple[int, int]
#: Number -> deployment -> what it gave.
MetricsByKey: TypeAlias = Mapping[Key, Mapping[Deployment, Metric]]

#: Loads that differ by no more than this share are the same load.
SAME_LOAD = 0.02
#: Least effect that counts, as a share.
LEAST_EFFECT = 0.02
#: What rounding may leave between a probability and the level that it is held against.
_ROUNDING = 1e-9
#: Observations of each side that a number may need for its count to be looked for and named.
_MOST_NEEDED = 100


def metric_name(scenario: str, key: Key) -> str:
    """A number in a sentence."""
    test, size, name = key
    return ", ".join(part for part in (scenario, test, size, name) if part)


def describe_unmatched(name: str, numbers_a: MetricsByKey, numbers_b: MetricsByKey) -> list[str]:
    """Describe the numbers that only one side has, one sentence each."""
    sentences: list[str] = []
    for letter, numbers, other_numbers in (
        ("A", numbers_a, numbers_b),
        ("B", numbers_b, numbers_a),
    ):
        sentences += [
            f"{metric_name(name, k)}: {_missing(letter, q.values())}"
            for k, q in numbers.items()
            if not k[2] and not any(key[:2] == k[:2] and key[2] for key in numbers)
        ]
        missing = [k for k, q in numbers.items() if k not in other_numbers and _first(q).main]
        if not other_numbers and missing:
            sentences.append(f"{name}: only {letter} has it")
            continue
        sizes = {key[:2] for key in other_numbers}
        missing_sizes: dict[str, list[str]] = {}
        for test, size, number in missing:
            if (test, size) not in sizes:
                missing_sizes.setdefault(test, []).append(size)
            elif number and (test, size, "") not in other_numbers:
                sentences.append(f"{metric_name(name, (test, size, number))}: only {letter} has it")
        sentences += [
            f"{name}, {test}: only {letter} has frame size {', '.join(dict.fromkeys(frame_sizes))}"
            for test, frame_sizes in missing_sizes.items()
        ]
    return sentences


def _first(side: Mapping[Deployment, Metric]) -> Metric:
    return next(iter(side.values()))


def describe_incomparability(metrics_a: Sequence[Metric], metrics_b: Sequence[Metric]) -> str:
    """Describe why a number of both sides cannot be compared; "" if it can."""
    for letter, side in (("A", metrics_a), ("B", metrics_b)):
        if all(q.measured is None for q in side):
            return _missing(letter, side)
    # A round that failed has none.
    metrics_a, metrics_b = (
        [q for q in side if q.measured is not None] for side in (metrics_a, metrics_b)
    )
    conditions = [q.conditions for q in (*metrics_a, *metrics_b)]
    for key in dict.fromkeys(key for keys in conditions for key in keys):
        a, b = (
            sorted({str(q.conditions.get(key, "none")) for q in side})
            for side in (metrics_a, metrics_b)
        )
        if a != b or len(a) > 1:
            return f"different conditions: {key} is {', '.join(a)} in A and {', '.join(b)} in B"
    return _describe_load_difference(metrics_a, metrics_b)


def _describe_load_difference(metrics_a: Sequence[Metric], metrics_b: Sequence[Metric]) -> str:
    loads = [
        [q.offered_fps for q in side if q.measured is not None] for side in (metrics_a, metrics_b)
    ]
    offered = [load for side in loads for load in side if load is not None]
    if not offered:
        return ""
    if len(offered) < sum(map(len, loads)):
        return "the offered load of some is not known"
    if max(offered) <= min(offered) * (1.0 + SAME_LOAD):
        return ""
    unit: Unit = "bit/s" if metrics_a[0].test == TRANSFERS_TEST else "fps"
    a, b = (_range_text([load for load in side if load is not None], unit) for side in loads)
    return f"different offered loads: {a} in A and {b} in B"


def _range_text(values: Sequence[float], unit: Unit) -> str:
    least, most = value_text(min(values), unit), value_text(max(values), unit)
    return least if least == most else f"{least} to {most}"


def _missing(letter: str, side: Iterable[Metric]) -> str:
    reason = next((q.why for q in side if q.why), "no number")
    return f"not measured in {letter}: {reason.splitlines()[0]}"


def _level(confidence: float) -> float:
    """Return the largest p-value of a significant difference."""
    return 1.0 - confidence + _ROUNDING


CANNOT_TELL = "cannot tell"
NOT_IN_TURN = f"{CANNOT_TELL}: not measured in turn"
NOT_KNOWN = "not known how it repeats"
TOO_FEW = "too few to tell"


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    name: str  # As the user wrote it
    #: Its runs; each round of the only one is a deployment, and one observation. Of several runs
    #: each is one: what its rounds have in common is no chance of theirs.
    runs: tuple[StoredRun, ...]
    scenario: str = ""  # The only one that is looked at; "" for all

    @property
    def deployments(self) -> dict[Deployment, RunResults]:
        """Every round of every run."""
        return {
            (place, number): results
            for place, run in enumerate(self.runs)
            for number, results in run.rounds.items()
        }

    @property
    def has_clusters(self) -> bool:
        """Whether it has several runs with rounds: then a run is one observation, not a round."""
        return 1 < len(self.runs) < len(self.deployments)


@dataclass(frozen=True)
class ComparisonRow:
    """A number of both sides."""

    scenario: str  # "pvp_dpdk"; "pvp_dpdk / pvp_ovs" where the sides have different ones
    metric: Metric  # The first side's, for what it is
    #: Observations of the first side, one for each deployment, or for each of several runs.
    a: tuple[Measurand, ...]
    b: tuple[Measurand, ...]  # Those of the second
    found: Difference  # What the second has more
    #: Probability of such a difference between equal sides, adjusted for all numbers that were
    #: compared with it (Holm); None where it is not known.
    p: float | None = None
    least: float = 0.0  # Least effect that counts, as a share
    confidence: float = 0.95  # Level of the verdict
    #: Whether the pollers of a side share processors, and the sides did not take turns. What else
    #: such a machine does lasts from one deployment to the next, so that sides measured one after
    #: the other differ by it.
    out_of_turn: bool = False
    marks: tuple[str, ...] = ()  # What a reader must see beside it, each with the side's letter

    @property
    def differs(self) -> bool:
        """Whether a difference is seen that counts, all compared numbers considered."""
        is_significant = (
            self.p is not None and self.p <= _level(self.confidence) and not self.out_of_turn
        )
        return is_significant and self._is_large and min(self.found.n) > FEW

    @property
    def _is_large(self) -> bool:
        """Whether the effect is not below the least one; of limits nobody knows its size."""
        ratio = self.found.ratio
        return ratio is None or abs(ratio[0]) >= self.least

    @property
    def _unjudged_reason(self) -> str:
        """Why no verdict is given; "" if one is."""
        if self.found.method == "none" or min(self.found.n) < FEW:
            return f"n = 1: {NOT_KNOWN}"
        if min(self.found.n) == FEW:
            return f"n = {FEW}: {TOO_FEW}"
        return NOT_IN_TURN if self.out_of_turn else ""

    @property
    def verdict(self) -> str:
        """The difference in words: no more than its interval bears out."""
        effect, ratio = self.found, self.found.ratio
        if reason := self._unjudged_reason:
            return reason
        judged = f"B has {effect.towards}"
        if self.metric.better and effect.towards:
            judged += f" ({'better' if effect.towards == self.metric.better else 'worse'})"
        if self.differs:
            return judged
        least = f"{100 * self.least:g} %"
        if effect.is_significant(self.confidence):
            if not self._is_large:
                return f"{judged}, by less than {least}"
            return f"{judged}, not sure among all numbers (Holm, p {self.p:.2g})"
        if self.least and ratio is not None and max(abs(ratio[1]), abs(ratio[2])) < self.least:
            return f"no difference of {least} or more"
        return CANNOT_TELL

    @property
    def is_enough(self) -> bool:
        """Whether there are enough observations of each side for a gate."""
        return self.p is not None and min(self.found.n) >= FEWEST_TO_GATE

    @property
    def is_worse(self) -> bool:
        """Whether it may fail a gate: worse, in a number that the test is for, in 3 of each."""
        towards, better = self.found.towards, self.metric.better
        worse = bool(better) and towards != better
        return self.differs and worse and self.is_enough and self.metric.main


@dataclass(frozen=True)
class UngatedNumber:
    """A main number that a gate cannot judge."""

    name: str  # "pvp_dpdk, throughput, 64, ndr"
    why: str  # What it lacks
    #: Whether the first side has enough deployments with it, and those of the second gave none, or
    #: one that is not repeatable, more often than by chance, all numbers considered (Holm).
    lost: bool
    #: Deployments of each side with which a gate could judge it, were it the only number that B
    #: lacks; None: more than 100, or not known.
    needed: int | None = None


#: What of two sides took turns.
Turns: TypeAlias = Literal["rounds", "runs", ""]


@dataclass(frozen=True)
class SideComparison:
    """The result of a comparison."""

    a: Side
    b: Side
    #: What of both sides took turns: rounds of one run, number by number, or whole runs; "" for
    #: nothing.
    turns: Turns
    rows: tuple[ComparisonRow, ...]  # Numbers that both have
    not_compared: tuple[str, ...]  # Numbers that cannot be compared, and why, one sentence each
    #: What keys of comparability differ, where the user has them compared across.
    across: tuple[str, ...] = ()
    #: What differs in how both were measured.
    environment: tuple[FactDifference, ...] = field(default=())
    #: Main numbers of the first side that a gate cannot judge.
    ungated: tuple[UngatedNumber, ...] = ()
    #: Whether a gate takes rounds of a side's only run for all there is to know.
    single_run: bool = False

    @property
    def paired(self) -> bool:
        """Whether observations of both sides are pairs that took turns."""
        return bool(self.turns)

    @property
    def out_of_turn(self) -> tuple[str, ...]:
        """Scenarios that a gate cannot judge: on shared processors, and not measured in turn."""
        rows = (row for row in self.rows if row.metric.main and row.out_of_turn)
        return tuple(dict.fromkeys(row.scenario for row in rows))

    @property
    def by_run(self) -> str:
        """Sides whose runs are one observation each, the mean of its rounds: "A and B"; ""."""
        return self._sides(lambda side: side.has_clusters)

    @property
    def unpaired_sides(self) -> str:
        """Sides of one run with several rounds that are no pairs: "A and B"; "" for none."""
        return self._sides(lambda side: len(side.runs) == 1 < len(side.deployments))

    def _sides(self, predicate: Callable[[Side], bool]) -> str:
        sides = () if self.turns == "rounds" else (("A", self.a), ("B", self.b))
        return " and ".join(letter for letter, side in sides if predicate(side))

    @property
    def gated(self) -> bool:
        """Whether any number has enough deployments of each side for a gate, of several runs."""
        return (self.single_run or not self.unpaired_sides) and any(
            row.metric.main and row.is_enough and not row.out_of_turn for row in self.rows
        )

    @property
    def fails_gate(self) -> bool:
        """Whether a main number is worse, is there no longer, or cannot be judged out of turn."""
        worse = self.gated and any(row.is_worse for row in self.rows)
        return worse or bool(self.out_of_turn) or any(number.lost for number in self.ungated)


_MetricsOfSide = dict[str, dict[Key, dict[Deployment, Metric]]]


def compare(
    a: Side,
    b: Side,
    *,
    confidence: float = 0.95,
    least: float = LEAST_EFFECT,
    across: bool = False,
    single_run: bool = False,
) -> SideComparison:
    """Compare two sides."""
    if _are_same(a, b) and a.scenario == b.scenario:
        raise ConfigError(
            "both sides are the same", where=f"{a.name} and {b.name}", accepted="two that differ"
        )
    turns = _turns(a, b)
    by_run = (a.has_clusters and turns != "rounds", b.has_clusters and turns != "rounds")
    if turns == "runs":  # a pair is by the place of its runs
        a, b = (replace(side, runs=_by_time(side)) for side in (a, b))
        by_run = (True, True)
    metrics_a, metrics_b = _collect_metrics(a), _collect_metrics(b)
    rows: list[ComparisonRow] = []
    apart: list[str] = []
    crossed: list[str] = []
    pairs = _pairs(a, b, metrics_a, metrics_b)
    for scenario_a, scenario_b in pairs:
        numbers_a, numbers_b = metrics_a.get(scenario_a, {}), metrics_b.get(scenario_b, {})
        name = scenario_a if scenario_a == scenario_b else f"{scenario_a} / {scenario_b}"
        keys = key_differences(a, b, scenario_a, scenario_b) if numbers_a and numbers_b else []
        if keys:
            crossed += [f"{name}: {line}" for line in keys]
            if not across:
                apart.append(f"{name}: {'; '.join(keys)} (--across compares all the same)")
                continue
        apart += describe_unmatched(name, numbers_a, numbers_b)
        out_of_turn = not turns and (_is_shared(a, scenario_a) or _is_shared(b, scenario_b))
        incomparable: dict[tuple[str, str, bool, str], list[str]] = {}
        for key in (key for key in numbers_a if key in numbers_b and key[2]):
            deployments_a, deployments_b = numbers_a[key], numbers_b[key]
            reason = describe_incomparability([*deployments_a.values()], [*deployments_b.values()])
            if reason:
                incomparable.setdefault((*key[:2], _first(deployments_a).main, reason), []).append(
                    key[2]
                )
                continue
            row = _row(
                name,
                deployments_a,
                deployments_b,
                turns=turns,
                by_run=by_run,
                confidence=confidence,
            )
            marks = [*_marks("A", numbers_a, key), *_marks("B", numbers_b, key), *row.marks]
            marks = [*dict.fromkeys(marks)]
            rows.append(replace(row, least=least, out_of_turn=out_of_turn, marks=tuple(marks)))
        apart += [
            f"{metric_name(name, (test, size, ', '.join(labels)))}: {reason}"
            for (test, size, _, reason), labels in incomparable.items()
        ]
    if not rows:
        raise ConfigError(
            "nothing can be compared" + "".join(f"\n  {line}" for line in apart),
            where=f"{a.name} and {b.name}",
            accepted="runs that share a scenario, test, frame size, traffic, wire, options and "
            "machine, or RUN:SCENARIO twice",
            cure="--across compares what differs in one of these" if crossed else "",
        )
    judged = _judged_together(rows)
    return SideComparison(
        a,
        b,
        turns,
        judged,
        tuple(apart),
        tuple(crossed) if across else (),
        _environment(a, b),
        tuple(
            _ungated(_main_numbers(judged, pairs, metrics_a, metrics_b, by_run), judged, confidence)
        ),
        single_run,
    )


@dataclass(frozen=True)
class _MainNumber:
    """A main number of the first side."""

    name: str  # "pvp_dpdk, throughput, 64, ndr"
    row: ComparisonRow | None  # What was compared; None: nothing
    stable: tuple[int, int]  # Deployments of each side with a number that comes again
    #: Observations of each side that gave none, or one that is not repeatable.
    broken: tuple[Occurrences, Occurrences]


def _main_numbers(
    rows: Sequence[ComparisonRow],
    pairs: Iterable[tuple[str, str]],
    metrics_a: _MetricsOfSide,
    metrics_b: _MetricsOfSide,
    by_run: tuple[bool, bool],
) -> Iterator[_MainNumber]:
    by_name = {(row.scenario, row.metric.key): row for row in rows}
    for scenario_a, scenario_b in pairs:
        sides = metrics_a.get(scenario_a, {}), metrics_b.get(scenario_b, {})
        name = scenario_a if scenario_a == scenario_b else f"{scenario_a} / {scenario_b}"
        for key, side in sides[0].items():
            if key[2] and any(metric.main for metric in side.values()):
                stable_a, stable_b = (
                    sum(m.measured is not None and not m.is_range for m in q.get(key, {}).values())
                    for q in sides
                )
                first, second = (
                    _broken(q, key, by_run=c) for q, c in zip(sides, by_run, strict=True)
                )
                yield _MainNumber(
                    metric_name(name, key),
                    by_name.get((name, key)),
                    (stable_a, stable_b),
                    (first, second),
                )


def _broken(numbers: MetricsByKey, key: Key, *, by_run: bool) -> Occurrences:
    """Deployments that gave no number, or none that repeats; runs most of whose deployments did."""
    observations: dict[Deployment, list[bool]] = {}
    for (run, number), metric in _attempts(numbers, key).items():
        if metric.main or metric.measured is not None:
            is_broken = metric.measured is None or metric.is_range
            observations.setdefault((run, 0 if by_run else number), []).append(is_broken)
    where = (place for place, flags in observations.items() if 2 * sum(flags) > len(flags))
    return Occurrences(frozenset(where), len(observations))


def _ungated(
    numbers: Iterable[_MainNumber], rows: Sequence[ComparisonRow], confidence: float
) -> Iterator[UngatedNumber]:
    """Main numbers of the first side that no gate can judge, or that the second has lost."""
    main_numbers = [*numbers]
    lost = find_increases((number.broken for number in main_numbers), confidence)
    among = sum(row.metric.main and row.p is not None for row in rows)
    for number in main_numbers:
        is_lost = number.stable[0] >= FEWEST_TO_GATE and number.broken in lost
        reason, needed = _undecided(number, among, _level(confidence))
        is_worse = number.row is not None and number.row.is_worse
        if is_lost or (reason and not is_worse):
            stable_a, stable_b = number.stable
            reason = f"{stable_a} deployments of A and {stable_b} of B have a stable number{reason}"
            yield UngatedNumber(number.name, reason, is_lost, None if is_lost else needed)


def _undecided(number: _MainNumber, among: int, level: float) -> tuple[str, int | None]:
    """What a gate lacks, and deployments of each side with which it would not; "" for nothing."""
    row, (a, b) = number.row, number.broken
    reason, needed = "", None
    least = 0.0 if row is None else least_by_ranks(*row.found.n)
    if row is None:
        reason = ", which are not compared"
    elif not row.is_enough or min(number.stable) < FEWEST_TO_GATE:
        needed = FEWEST_TO_GATE
        if min(number.stable) >= FEWEST_TO_GATE:
            n, m = row.found.n
            reason = f", in {n} and {m} runs or pairs of rounds"
        reason += f"; a gate needs {needed}"
    elif row.found.method == "ranks" and not row.differs and among * least > level:
        needed = _fewest(lambda n: least_by_ranks(n, n) * among, level)
        enough = f"{needed or f'more than {_MOST_NEEDED}'} of each side"
        reason = f"; ranks of so few decide none of {among} numbers, {enough} do"
    if b.share > a.share:
        p, _ = compare_counts((len(a.where), a.n), (len(b.where), b.n))
        reason += f"; {len(b.where)} of {b.n} of B gave none"
        if p > level:
            alone = _fewest(
                lambda n: compare_counts((round(a.share * n), n), (round(b.share * n), n))[0], level
            )
            enough = f"{alone or f'more than {_MOST_NEEDED}'} of each side"
            reason += f" (p {p:.2g}: {enough} would decide, were it the only number)"
            needed = None if alone is None else max(needed or 0, alone)
    return reason, needed


def _fewest(p: Callable[[int], float], level: float) -> int | None:
    """Fewest observations of each side whose probability reaches a level; None: more than most."""
    return next((n for n in range(FEWEST_TO_GATE, _MOST_NEEDED + 1) if p(n) <= level), None)


def _attempts(numbers: MetricsByKey, key: Key) -> dict[Deployment, Metric]:
    """Deployments that were to give a number: what they gave, or why the test gave nothing."""
    return {**numbers.get((*key[:2], ""), {}), **numbers.get(key, {})}


def key_differences(a: Side, b: Side, scenario: str, other: str) -> list[str]:
    """List the keys by which no number of two scenarios is comparable, a sentence each."""
    keys_a, keys_b = _keys(a, scenario), _keys(b, other)
    lines = []
    for key in dict.fromkeys(key for keys in (*keys_a, *keys_b) for key in keys):
        values_a, values_b = (
            sorted({keys.get(key, ABSENT) for keys in side}) for side in (keys_a, keys_b)
        )
        if values_a != values_b or len(values_a) > 1:
            lines.append(f"{key} is {' and '.join(values_a)} in A, {' and '.join(values_b)} in B")
    return lines


def _keys(side: Side, scenario: str) -> list[dict[str, str]]:
    """Keys of each deployment; one that failed before there was a plan has none."""
    all_results = side.deployments.values()
    planned = [r for r in all_results if any(facts.scenario == scenario for facts in r.scenarios)]
    return [comparability(results, scenario) for results in planned or all_results]


def _judged_together(rows: Sequence[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """Rows with probabilities that hold for all of them: main numbers, and the others."""
    judged = list(rows)
    for main in (True, False):
        p_by_row = {n: row.found.p for n, row in enumerate(rows) if row.metric.main is main}
        family = {n: p for n, p in p_by_row.items() if p is not None}
        for place, p in zip(family, holm([*family.values()]), strict=True):
            judged[place] = replace(rows[place], p=p)
    return tuple(judged)


def _collect_metrics(side: Side) -> _MetricsOfSide:
    """Collect the numbers of a side: scenario -> number -> metric of each deployment."""
    metrics: _MetricsOfSide = {}
    for place, results in side.deployments.items():
        for metric in compared_metrics(results):
            if side.scenario in ("", metric.scenario):
                metrics.setdefault(metric.scenario, {}).setdefault(metric.key, {})[place] = metric
    if not metrics:
        deployments = side.deployments.values()
        scenarios = sorted({q.scenario for run in deployments for q in compared_metrics(run)})
        raise ConfigError(
            f"there is no scenario {side.scenario!r}{did_you_mean(side.scenario, scenarios)}"
            if side.scenario
            else "there is no result",
            where=side.name,
            accepted=accepted_names(side.scenario, scenarios) or "a run that measured something",
        )
    return metrics


def _pairs(
    a: Side, b: Side, metrics_a: _MetricsOfSide, metrics_b: _MetricsOfSide
) -> list[tuple[str, str]]:
    """Pair the scenarios that are compared."""
    if a.scenario and b.scenario:
        return [(a.scenario, b.scenario)]
    if a.scenario or b.scenario:
        return [(a.scenario or b.scenario,) * 2]
    return [(name, name) for name in dict.fromkeys([*metrics_a, *metrics_b])]


def _turns(a: Side, b: Side) -> Turns:
    """What of both sides was measured in turn.

    Runs are where, in the order in which they began, each two that follow each other are one of
    either side: old, new, old, new.
    """
    if _are_same(a, b):
        return "rounds" if len(a.deployments) > 1 else ""
    began = [
        (run.first.run.started, letter)
        for letter, side in (("A", a), ("B", b))
        for run in side.runs
    ]
    order = sorted(began)
    starts_differ = len({started for started, _ in began}) == len(began)
    pairs = [
        {first, second} for (_, first), (_, second) in zip(order[::2], order[1::2], strict=False)
    ]
    alternate = len(order) == 2 * len(pairs) > 2 and all(len(pair) > 1 for pair in pairs)
    return "runs" if starts_differ and alternate else ""


def _by_time(side: Side) -> tuple[StoredRun, ...]:
    return tuple(sorted(side.runs, key=lambda run: run.first.run.started))


def _is_shared(side: Side, scenario: str) -> bool:
    """Whether pollers share processors in any of its deployments."""
    placed = (
        sharing_of(facts)
        for results in side.deployments.values()
        for facts in results.scenarios
        if facts.scenario == scenario
    )
    return any(sharing is not None and sharing.shared for sharing in placed)


def _are_same(a: Side, b: Side) -> bool:
    return [run.path.resolve() for run in a.runs] == [run.path.resolve() for run in b.runs]


def _row(
    name: str,
    deployments_a: Mapping[Deployment, Metric],
    deployments_b: Mapping[Deployment, Metric],
    *,
    turns: Turns,
    by_run: tuple[bool, bool],
    confidence: float,
) -> ComparisonRow:
    observations_a, observations_b = (
        _average_runs(_observations(side)) if clustered else _observations(side)
        for side, clustered in zip((deployments_a, deployments_b), by_run, strict=True)
    )
    marks: list[str] = []
    if turns:  # by the number of the round, or run: one that a side lacks is no pair
        common = [place for place in observations_a if place in observations_b]
        if unpaired := len({*observations_a, *observations_b}) - len(common):
            marks.append(f"{unpaired} {turns} without a pair are left out")
        observations_a, observations_b = (
            {place: side[place] for place in common} for side in (observations_a, observations_b)
        )
    a, b = tuple(observations_a.values()), tuple(observations_b.values())
    first = _first(deployments_a)
    if not a:
        effect = Difference(None, -inf, inf, (0, 0), "none")
        return ComparisonRow(name, first, a, b, effect, confidence=confidence, marks=tuple(marks))
    resolution = max(
        metric.resolution for metric in (*deployments_a.values(), *deployments_b.values())
    )
    for letter, side in (("A", a), ("B", b)):
        if two_modes([m.value for m in side if m.value is not None], resolution):
            marks.append(f"{letter}: two modes, no mean stands for both")
    # With a limit on a side there are no differences of pairs, but ranks.
    exact = all(m.is_bounded for m in (*a, *b))
    effect = difference(a, b, paired=bool(turns) and exact, confidence=confidence)
    return ComparisonRow(name, first, a, b, effect, confidence=confidence, marks=tuple(marks))


def _observations(side: Mapping[Deployment, Metric]) -> dict[Deployment, Measurand]:
    """Make one observation of each deployment, because its repeats are not independent."""
    return {
        place: _observation(metric, metric.measured)
        for place, metric in side.items()
        if metric.measured is not None
    }


def _average_runs(deployments: Mapping[Deployment, Measurand]) -> dict[Deployment, Measurand]:
    """Average the rounds of each run; if one of them is a limit, the mean is a limit."""
    observations: dict[int, list[Measurand]] = {}
    for (run, _), observation in deployments.items():
        observations.setdefault(run, []).append(observation)
    means = {}
    for run, rounds in observations.items():
        bounded = [
            observation.value
            for observation in rounds
            if observation.is_bounded and observation.value is not None
        ]
        value = fmean(bounded) if len(bounded) == len(rounds) else None
        low, high = (
            fmean(getattr(observation, end) for observation in rounds) for end in ("low", "high")
        )
        means[run, 0] = Measurand(value, low, high)
    return means


def _observation(metric: Metric, measured: Measurand) -> Measurand:
    # What a search leaves open is its resolution; an interval of repeats within the deployment is
    # in how deployments differ already.
    if metric.censored or metric.test == THROUGHPUT or measured.value is None:
        return measured
    searched = 0.0 if isinstance(metric.value, Spread) else metric.resolution
    return Measurand(measured.value, measured.value, measured.value + searched)


def _marks(letter: str, numbers: MetricsByKey, key: Key) -> list[str]:
    """Marks of a side; "A: at least (2 of 5)" where not all of its deployments have one."""
    side = numbers[key]
    counts = Counter(mark for metric in side.values() for mark in metric.marks)
    failed, n = sum(q.measured is None for q in _attempts(numbers, key).values()), len(side)
    marks = [
        f"{letter}: {mark}" + (f" ({count} of {n})" if n > 1 else "")
        for mark, count in counts.items()
    ]
    if failed:
        marks.append(f"{letter}: {failed} deployments gave no result")
    return marks


def _environment(a: Side, b: Side) -> tuple[FactDifference, ...]:
    """Compare how the first run of each side was measured."""
    run_a, run_b = a.runs[0].first, b.runs[0].first
    differences = list(environment_differences(run_a, run_b))
    if a.scenario != b.scenario and a.scenario and b.scenario:
        facts_a = next((s for s in run_a.scenarios if s.scenario == a.scenario), None)
        facts_b = next((s for s in run_b.scenarios if s.scenario == b.scenario), None)
        if facts_a is not None and facts_b is not None and not (facts_a.error or facts_b.error):
            differences += scenario_differences(facts_a, facts_b)
    return tuple(differences)
