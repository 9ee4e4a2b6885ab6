"""What every report shows of a run: grouped results, warnings, ledger, facts, missing values."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from operator import attrgetter
from typing import Any, Generic, TypeVar

from vnetperf.analysis.checklist import missing_items
from vnetperf.analysis.sharing import TESTER, sharing_of
from vnetperf.model.parameters import SearchGoal
from vnetperf.model.result import (
    GoalResult,
    LedgerEntry,
    Result,
    RunResults,
    ScenarioFacts,
    TrialPoint,
)
from vnetperf.model.units import percent

#: Scenario, test and frame size: what one search is about.
Case = tuple[str, str, int]
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Entry(Generic[Outcome]):
    """What was found of something in one result, which a row of a table shows."""

    result: Result
    outcome: Outcome
    label: str = ""  # What of the result, where it has several


@dataclass(frozen=True, slots=True)
class Group:
    """One test of one scenario over all frame sizes."""

    scenario: str
    test: str
    results: tuple[Result, ...]  # By rising frame size
    #: Frame size -> why its rates are no share of the generator's clean maximum; those that are
    #: one are not in it.
    unlike_generator: Mapping[int, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its heading."""
        return f"{self.scenario} \N{MIDDLE DOT} {self.test}"

    @property
    def test_words(self) -> str:
        """The name of the test in words."""
        special = {"back_to_back": "back-to-back", "mrr": "MRR"}
        return special.get(self.test, self.test.replace("_", " "))

    @property
    def measured(self) -> tuple[Result, ...]:
        """The results that carry numbers."""
        return tuple(r for r in self.results if r.status == "measured")

    def entries(self, find: Callable[[Result], Iterable[Outcome | None]]) -> list[Entry[Outcome]]:
        """What `find` finds in each result that carries numbers."""
        return [
            Entry(r, outcome) for r in self.measured for outcome in find(r) if outcome is not None
        ]

    @property
    def goal_names(self) -> tuple[str, ...]:
        """Names of the goals in order of first appearance."""
        return tuple(dict.fromkeys(g.name for r in self.results for g in r.goals))


def medium_share(load_fps: float, result: Result) -> str | None:
    """A rate (frames/s) as a share of the medium's maximum; None where that is not known."""
    return percent(load_fps / result.media_max_fps, 3) if result.media_max_fps else None


def identify_case(item: Result | TrialPoint) -> Case:
    """The search an item belongs to."""
    return item.scenario, item.test, item.frame_size


def groups(results: RunResults) -> tuple[Group, ...]:
    """All groups, in the order in which they were measured."""
    results_by_test: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results.results:
        results_by_test[result.scenario, result.test].append(result)
    return tuple(
        Group(
            scenario,
            test,
            tuple(sorted(members, key=lambda r: r.frame_size)),
            {r.frame_size: reason for r in members if (reason := _unlike_reason(r, results))},
        )
        for (scenario, test), members in results_by_test.items()
    )


def _unlike_reason(result: Result, results: RunResults) -> str:
    """Why a rate is no share of what the generator does alone; "" where it is one."""
    facts = next(
        (scenario for scenario in results.scenarios if scenario.scenario == result.scenario), None
    )
    sharing = None if facts is None else sharing_of(facts)
    if facts is None or sharing is None or result.generator_max_fps is None:
        return ""
    if TESTER in sharing.kinds_sharing:
        return "the tester shares its processor here, and was calibrated alone on one"
    wire = facts.plan.get("wire")
    points = (c.at(result.frame_size) for c in results.calibrations if c.wire == wire)
    if any(point is not None and point.is_uncertain for point in points):
        return "the generator's clean maximum is uncertain"
    return ""


#: Cases and trials that reports have which somebody reads; a page of more opens in no browser.
MOST_CASES, MOST_TRIALS = 400, 20_000


class ShownPart(RunResults):
    """Results of which some cases are left out; tables of them must not call those not run."""

    not_shown: frozenset[Case] = frozenset()


#: What stands where a number of a case would be that is left out, and why.
NOT_SHOWN = "not shown", "too many cases to show all: results.json and results.csv have it"


def not_shown(results: RunResults) -> frozenset[Case]:
    """Cases of the run that are left out of what is shown of it."""
    return results.not_shown if isinstance(results, ShownPart) else frozenset()


def shown_part(results: RunResults) -> RunResults:
    """Results of which reports that somebody reads can show everything.

    They are the whole unless there are very many cases or trials. Then some whole cases are left
    out, so that what is shown has every scenario and test if it can, and of each the smallest and
    the largest frame sizes first; a warning says so.
    """
    cases, trials = len(results.results), len(results.trials)
    if isinstance(results, ShownPart):
        return results
    if cases <= MOST_CASES and trials <= MOST_TRIALS:
        lists = {"results": tuple(results.results), "trials": tuple(results.trials)}
        return results.model_copy(update=lists)
    these = tuple(results.results[place] for place in _places_shown(results))
    shown = {identify_case(result) for result in these}
    sizes = {result.frame_size for result in these}
    some = tuple(trial for trial in results.trials if identify_case(trial) in shown)
    ledger = tuple(e for e in results.ledger if not e.frame_size or e.frame_size in sizes)
    all_scenarios, kept = ({r.scenario for r in part} for part in (results.results, these))
    scope = (
        f", of {len(kept)} of {len(all_scenarios)} scenarios,"
        if len(kept) < len(all_scenarios)
        else ""
    )
    note = (
        f"this shows {len(these)} of {cases} cases and {len(some)} of {trials} trials{scope} and "
        "counts no others: all are in results.json, results.csv, trials.csv and the other files of "
        "the run"
    )
    update = {
        "warnings": (note, *results.warnings),
        "results": these,
        "trials": some,
        "ledger": ledger,
        "deviations": tuple(entry for entry in ledger if entry.status == "deviated"),
        "not_shown": frozenset(map(identify_case, results.results)) - shown,
    }
    return ShownPart.model_construct(**{**dict(results), **update})


def _places_shown(results: RunResults) -> list[int]:
    """Places of the results that are shown: as many as fit with all of their trials, at least one.

    Scenarios take turns, each with the first of its tests first. Before them is one of each test.
    """
    places: dict[str, dict[str, list[int]]] = {}
    for place, result in enumerate(results.results):
        places.setdefault(result.scenario, {}).setdefault(result.test, []).append(place)
    queues = []
    for tests in places.values():
        ranked = [
            (rank, number, test_places[n])
            for number, test_places in enumerate(tests.values())
            for rank, n in enumerate(spread_order(len(test_places)))
        ]
        queues.append([place for _, _, place in sorted(ranked)])
    turns = [queues[n] for n in spread_order(len(queues))]
    order = [place for turn in zip_longest(*turns) for place in turn if place is not None]
    of_test = {results.results[place].test: place for place in reversed(order)}
    costs, trials_left = Counter(map(identify_case, results.trials)), MOST_TRIALS
    chosen: list[int] = []
    for place in dict.fromkeys((*of_test.values(), *order)):
        case = identify_case(results.results[place])
        if len(chosen) < MOST_CASES and (costs[case] <= trials_left or not chosen):
            chosen.append(place)
            trials_left -= costs.pop(case, 0)
    return sorted(chosen)


def spread_order(count: int) -> list[int]:
    """Numbers from 0 in an order of which each beginning is spread over all of them."""
    order = [0, count - 1][:count]
    gaps = deque([(0, count - 1)])
    while gaps:
        low, high = gaps.popleft()
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return order


def size_names(groups: Sequence[Group]) -> dict[int, str]:
    """Frame sizes of all groups, rising, with their names."""
    names = {r.frame_size: r.size_name for g in groups for r in g.results}
    return dict(sorted(names.items()))


def trials_by_case(results: RunResults) -> Mapping[Case, list[TrialPoint]]:
    """Every trial under the search it belongs to, also of searches that left no result."""
    by_case: dict[Case, list[TrialPoint]] = defaultdict(list)
    for trial in results.trials:
        by_case[identify_case(trial)].append(trial)
    return by_case


def shown_trials(result: Result, trials: Mapping[Case, Sequence[TrialPoint]]) -> list[TrialPoint]:
    """The trials that a result's figures are of: of one deployment, none of a test begun anew."""
    return [t for t in trials.get(identify_case(result), ()) if t.search == result.search]


def goals_used(group: Group) -> tuple[GoalResult, ...]:
    """One goal result per distinct set of goal attributes, to list those attributes once."""
    distinct: dict[tuple[object, ...], GoalResult] = {}
    attributes = attrgetter(*(field.name for field in fields(SearchGoal)))
    for result in group.results:
        for goal in result.goals:
            distinct.setdefault(attributes(goal), goal)
    return tuple(distinct.values())


def undeployed(results: RunResults) -> tuple[ScenarioFacts, ...]:
    """Scenarios that could not be deployed."""
    return tuple(s for s in results.scenarios if s.error)


#: Fits on the first line of a narrow terminal.
LAB = "Virtual lab: its speeds and latencies mean nothing, only that things work."


def is_benchmark(results: RunResults) -> bool:
    """Whether the numbers may be taken for those of a benchmark."""
    return results.benchmark and not results.virtual_lab


def first_line(results: RunResults) -> str:
    """The line every report starts with when it is no benchmark or its preset has a note."""
    note = " ".join(results.preset_note.split())
    if not results.benchmark:
        start = f"Not a benchmark (preset {results.preset})"
        note = note.removeprefix(f"{results.preset} preset: ")
        note = f"{start}: {note}" if note else f"{start}."
    return f"{LAB} {note}".strip() if results.virtual_lab else note


def run_conditions(results: RunResults) -> tuple[str, ...]:
    """What was set, and what numbers are of; none of it makes one worth less."""
    copy = results.redacted
    return ((copy.sentence,) if copy else ()) + results.conditions


def redaction_rows(results: RunResults) -> tuple[tuple[str, str], ...]:
    """What was removed from a redacted copy."""
    copy = results.redacted
    if copy is None:
        return ()
    rows = [("redacted (UTC)", copy.when)]
    rows += [(f"replaced: {kind}", str(count)) for kind, count in copy.values.items()]
    rows += [("kept on purpose", kind) for kind in copy.kept]
    rows += [("replaced in part", reason) for reason in copy.limited]
    return (*rows, *((f"left out: {name}", reason) for name, reason in copy.dropped.items()))


def ledger(results: RunResults) -> tuple[LedgerEntry, ...]:
    """Every clause, the deviated ones first."""
    entries = [*results.ledger, *(d for d in results.deviations if d not in results.ledger)]
    order = {"deviated": 0, "met": 1, "not applicable": 2, "not looked at": 3}
    return tuple(sorted(entries, key=lambda e: order[e.status]))


def ledger_sentence(results: RunResults) -> str:
    """The ledger in one line of counts."""
    entries = ledger(results)
    if not entries:
        return "no clause was checked"
    return f"{sum(clause_counts(entries).values())} clauses: {ledger_counts(entries)}"


#: How a clause stands whose entries, one for a test, scenario or size, do not all stand alike.
IN_PART = "met in part"


def clause_counts(entries: Sequence[LedgerEntry]) -> dict[str, int]:
    """How many clauses are met and not: each counts once, however many entries it has."""
    statuses: dict[str, set[str]] = {}
    for entry in entries:
        statuses.setdefault(entry.clause, set()).add(entry.status)
    counts = dict.fromkeys(("met", IN_PART, "deviated", "not applicable", "not looked at"), 0)
    for stands in statuses.values():
        applicable = stands - {"not applicable"} if len(stands) > 1 else stands
        counts[IN_PART if len(applicable) > 1 else next(iter(applicable))] += 1
    return counts


def ledger_counts(entries: Sequence[LedgerEntry]) -> str:
    """How many clauses are met and not, in words."""
    always = ("met", "deviated", "not applicable")
    return ", ".join(
        f"{count} {kind}"
        for kind, count in clause_counts(entries).items()
        if count or kind in always
    )


def select_clauses(entries: Sequence[LedgerEntry], group: Group) -> tuple[LedgerEntry, ...]:
    """The clauses that hold for one scenario and test."""
    return tuple(e for e in entries if e.test == group.test and e.scenario in ("", group.scenario))


def scalar_text(value: Any) -> str:
    """A single JSON value as text."""
    if value is None or value in ("", [], {}, ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _is_command(items: list[Any]) -> bool:
    return (
        len(items) > 1
        and all(isinstance(i, str) for i in items)
        and not items[0].startswith("-")
        and any(i.startswith("-") for i in items[1:])
    )


def _list_text(items: list[Any]) -> str:
    if _is_command(items):
        return shlex.join(items)
    long = any(isinstance(i, str) and len(i) > 24 for i in items)
    return ("\n" if long else ", ").join(scalar_text(i) for i in items)


def flatten_facts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Turn a tree of JSON values into rows."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from flatten_facts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and value:
        items = list(value)
        if any(isinstance(i, dict | list | tuple) for i in items):
            for index, item in enumerate(items):
                yield from flatten_facts(item, f"{path}[{index}]")
        else:
            yield path, _list_text(items)
    else:
        yield path, scalar_text(value)


_INDEX = re.compile(r"\[\d+\]")
_MARK = re.compile(r"(unknown|not measured)\s*(:|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MissingValue:
    """One thing a reader might look for and will not find."""

    where: str  # Path of the value, e.g. "environment.cpu.microcode".
    reason: str  # "unknown: why" or "not measured: why"


def is_missing(value: object) -> bool:
    """Whether a value stands for a missing one."""
    return isinstance(value, str) and _MARK.match(value.strip()) is not None


def _missing_in_tree(value: Any, path: str) -> Iterator[MissingValue]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _missing_in_tree(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _missing_in_tree(item, f"{path}[{index}]")
    elif is_missing(value):
        yield MissingValue(path, value.strip())


def _missing_in_run(results: RunResults) -> Iterator[MissingValue]:
    for name in ("ended", "isolation", "testbed"):
        if not getattr(results.run, name):
            yield MissingValue(f"run.{name}", "unknown: the run did not record it")
    if not results.environment:
        yield MissingValue("environment", "unknown: the run recorded none")
    if not results.calibrations:
        yield MissingValue(
            "calibrations", "not measured: the run holds no calibration of its generator"
        )
    for calibration in results.calibrations:
        for point in calibration.points:
            if point.smallest_burst_gap_ns is None:
                where = f"calibrations[{calibration.wire}][{point.frame_size}]"
                reason = "not measured: no reason was recorded"
                yield MissingValue(f"{where}.smallest_burst_gap_ns", reason)


def _missing_in_result(result: Result) -> Iterator[MissingValue]:
    size = f"{result.frame_size}, {result.of}" if result.of else result.frame_size
    where = f"{result.scenario}.{result.test}[{size}]"
    if result.status == "not measured":
        yield MissingValue(where, f"not measured: {result.why or 'no reason was recorded'}")
        return
    if result.generator_max_fps is None:
        yield MissingValue(f"{where}.generator_max_fps", "not measured: size not calibrated")
    reasons = {name: reason for goal in result.goals for name, reason in goal.uncollected.items()}
    for collector, reason in reasons.items():
        yield MissingValue(f"{where}.{collector}", reason)
    for goal in result.goals:
        if goal.lower_bound_fps is not None and not goal.latency:
            yield MissingValue(
                f"{where}.{goal.name}.latency",
                "not measured: no latency was recorded at the lower bound",
            )


def missing_values(results: RunResults) -> tuple[MissingValue, ...]:
    """Everything unknown or not measured, as far as its cases are shown."""
    run = results.run.model_dump()
    missing = list(_missing_in_tree(run, "run"))
    missing += _missing_in_tree(results.settings, "settings")
    missing += _missing_in_tree(results.environment, "environment")
    for scenario in results.scenarios:
        missing += _missing_in_tree(scenario.plan, f"{scenario.scenario}.plan")
        missing += _missing_in_tree(scenario.facts, f"{scenario.scenario}.facts")
        missing += _missing_in_tree(scenario.path_check, f"{scenario.scenario}.path_check")
    for entry in results.ledger:
        missing += _missing_in_tree([entry.value, entry.reason], f"ledger {entry.clause}")
    missing += _missing_in_run(results)
    for result in results.results:
        missing += _missing_in_result(result)
    for scenario in results.scenarios:
        if scenario.error:
            reason = f"not measured: not deployed: {scenario.error}"
            missing.append(MissingValue(scenario.scenario, reason))
    paths = {_INDEX.sub(".*", unknown.where) for unknown in missing}
    missing += [
        MissingValue(item.title, item.reason)  # a title is clearer than its path
        for item in missing_items(results)
        # What no case shows that is left is nothing that none has.
        if _INDEX.sub(".*", item.where) not in paths
        and not (item.where == "results" and not_shown(results))
    ]
    return tuple(missing)
