"""Comparisons of variants: their results side by side, as table and plot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from operator import itemgetter
from typing import TypeAlias

from vnetperf.analysis.sharing import Sharing, sharing_of
from vnetperf.model import units
from vnetperf.model.result import (
    ComparedVariant,
    ComparisonResult,
    GoalResult,
    Result,
    RunResults,
    ThreadUse,
)
from vnetperf.model.scenario import PROGRAM_VARIANTS
from vnetperf.model.transfer import Transfer, TransferSpec
from vnetperf.plugin.workload import MeasuredTransfer
from vnetperf.report import goal_text
from vnetperf.report.summary import NOT_SHOWN, not_shown
from vnetperf.report.table import NOT_MEASURED, Cell, Column, Table
from vnetperf.report.text import text_or_none
from vnetperf.report.transfers import spec_text
from vnetperf.statistics.difference import Difference, Measurand, difference

#: Heading of what the processor counted.
EVENTS_TITLE = (
    "Events of the processor for each frame, switch and VNFs together, idle polling included, "
    "at the lower bounds"
)


#: A variant that is one setting with a number: "workers=4".
_NUMBER = re.compile(r"(?P<key>[a-z][a-z_]*)=(?P<number>\d+)")
_NOT_KNOWN = "whether a difference comes again is not known (--repeat 5)"


@dataclass(frozen=True, slots=True)
class VariantResults:
    """One comparison of one scenario, with its results of one test."""

    comparison: ComparisonResult
    test: str
    results: dict[tuple[str, int], Result]  # Scenario with its variant, and frame size -> result
    #: Scenario with its variant, where its pollers share processors -> who does.
    shared: dict[str, Sharing] = field(default_factory=dict)
    #: Scenario with its variant -> its transfers, each in all rounds.
    transfers: dict[str, list[MeasuredTransfer]] = field(default_factory=dict)
    #: Scenario with its variant -> why it could not be deployed.
    errors: dict[str, str] = field(default_factory=dict)
    #: Scenario with its variant, and frame size, 0 for any: cases that are left out of reports.
    not_shown: frozenset[tuple[str, int]] = frozenset()

    @property
    def scale(self) -> tuple[str, dict[str, float]]:
        """What the variants differ by where it is one number: its name, variant -> number."""
        matches = {v.variant: _NUMBER.fullmatch(v.variant) for v in self.comparison.variants}
        numbers = {name: match for name, match in matches.items() if match}
        keys = {match["key"] for match in numbers.values()}
        if len(numbers) < len(matches) or len(keys) != 1 or len(numbers) < 2:
            return "", {}
        return keys.pop(), {name: float(match["number"]) for name, match in numbers.items()}

    @property
    def sharing(self) -> tuple[str, ...]:
        """Variants whose pollers share processors: who does, and why."""
        names: dict[str, list[str]] = {}
        for variant in self.comparison.variants:
            if (sharing := self.shared.get(variant.scenario)) is not None:
                names.setdefault(sharing.about, []).append(variant.variant)
        return tuple(
            f"Shared cores, {', '.join(variants)}: {text}." for text, variants in names.items()
        )

    @property
    def shared_words(self) -> str:
        """Who shares processors, in a few words; "" where no variant's pollers do."""
        by_variant = [self.shared.get(variant.scenario) for variant in self.comparison.variants]
        sharings = [sharing for sharing in by_variant if sharing is not None]
        if not sharings:
            return ""
        labels = {sharing.label for sharing in sharings}
        alike = labels.pop() if len(labels) == 1 else ""
        return alike if ":" in alike else "shared cores"

    @property
    def title(self) -> str:
        """Its heading: "pvp_dpdk (dot) throughput by queues"."""
        function = self.comparison.name.rpartition("::")[2].removeprefix("test_")
        return f"{self.comparison.scenario} \N{MIDDLE DOT} {function.replace('_', ' ')}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Frame sizes, rising."""
        return tuple(sorted({size for _, size in self.results}))

    @property
    def goal_names(self) -> tuple[str, ...]:
        """Names of the goals in order of first appearance."""
        return tuple(dict.fromkeys(g.name for r in self.results.values() for g in r.goals))

    def result(self, variant: ComparedVariant, size: int) -> Result | None:
        """A variant's result."""
        return self.results.get((variant.scenario, size))

    def goal(self, variant: ComparedVariant, size: int, name: str) -> GoalResult | None:
        """A variant's result of one goal."""
        result = self.result(variant, size)
        return next((g for g in result.goals if g.name == name), None) if result else None

    def absence(self, variant: ComparedVariant, size: int) -> tuple[str, str]:
        """Why a variant has no number."""
        result = self.result(variant, size)
        if result is None:
            is_left_out = (variant.scenario, size) in self.not_shown
            return NOT_SHOWN if is_left_out else self.not_run(variant)
        return "not measured", result.why or "no reason was recorded"

    def not_run(self, variant: ComparedVariant) -> tuple[str, str]:
        """Why there is no result of a variant."""
        if variant.skipped:
            return "skipped", variant.skipped
        if variant.scenario in self.errors:
            return "not deployed", self.errors[variant.scenario]
        return "not run", "it was not selected, or the run was interrupted"

    @property
    def absent_variants(self) -> list[str]:
        """Variants without any result; reasons of what was not deployed stand apart."""
        run = {scenario for scenario, _ in self.results} | self.transfers.keys()
        lines = []
        for variant in self.comparison.variants:
            word, reason = self.not_run(variant)
            if word == "skipped":
                lines.append(f"{variant.variant}: {word}: {reason}")
            elif word == "not deployed" and variant.scenario not in run:
                lines.append(f"{variant.variant}: {word}")
        return lines

    def first(self, size: int, name: str) -> ComparedVariant | None:
        """The variant that others are held against."""
        return next((v for v in self.comparison.variants if self._exact(v, size, name)), None)

    def relative(self, variant: ComparedVariant, size: int, name: str) -> str:
        """A variant's rate against that of the first, without an interval."""
        gain = self.against_first(variant, size, name)
        if gain is not None and gain.ratio is not None:
            return _times(1.0 + gain.ratio[0])
        first = self.first(size, name)
        value = self._exact(variant, size, name)
        if first is None or first == variant or not value:
            return ""
        base = self._exact(first, size, name)
        return _times(value / base) if base else ""

    def against_first(self, variant: ComparedVariant, size: int, name: str) -> Difference | None:
        """What a variant has more than the first, round by round; None for a single deployment."""
        first = self.first(size, name)
        if first is None or first == variant:
            return None
        base, other = (self._deployments(v, size, name) for v in (first, variant))
        rounds = [number for number in base if number in other]
        if len(rounds) < 2:
            return None
        sides = ([side[number] for number in rounds] for side in (base, other))
        return difference(
            *sides, paired=all(m.is_bounded for m in (*base.values(), *other.values()))
        )

    @property
    def cells(self) -> Iterator[tuple[ComparedVariant, int, str]]:
        """Variants by frame size and goal."""
        for size in self.sizes:
            for name in self.goal_names:
                yield from ((variant, size, name) for variant in self.comparison.variants)

    @property
    def has_sessions(self) -> bool:
        """Whether it is of the sessions that variants make."""
        return any(result.sessions is not None for result in self.results.values())

    def _deployments(self, variant: ComparedVariant, size: int, name: str) -> dict[int, Measurand]:
        """Round -> the lower bound there."""
        result = self.result(variant, size)
        deployments = result.deployments if result is not None else None
        numbers = deployments.numbers if deployments is not None else ()
        lower_bound = next((number for number in numbers if number.label == name), None)
        return {
            observation.round: Measurand(
                observation.value,
                observation.low or 0.0,
                inf if observation.high is None else observation.high,
            )
            for observation in (lower_bound.observations if lower_bound is not None else ())
        }

    @property
    def events(self) -> tuple[str, ...]:
        """Events of the processor that were counted for any variant."""
        goals = (goal for result in self.results.values() for goal in result.goals)
        uses = (use for goal in goals for use in _dut_threads(goal))
        return tuple(dict.fromkeys(name for use in uses for name in use.events_per_frame))

    @property
    def uncollected(self) -> tuple[str, ...]:
        """What could not be counted, and why: "events: not measured: ..."."""
        goals = (goal for result in self.results.values() for goal in result.goals)
        reasons = (item for goal in goals for item in goal.uncollected.items())
        return tuple(dict.fromkeys(f"{name}: {reason}" for name, reason in reasons))

    def event_rows(self) -> Iterator[tuple[str, ...]]:
        """Events for each frame, of the switch's and VNFs' threads together."""
        for variant, size, name in self.cells:
            goal = self.goal(variant, size, name)
            if goal is not None:
                numbers = (_event_text(goal, event) for event in self.events)
                yield variant.variant, str(size), name, *numbers

    def _exact(self, variant: ComparedVariant, size: int, name: str) -> float | None:
        """A lower bound that is the DUT's, not the generator's limit, and that comes again."""
        goal = self.goal(variant, size, name)
        if goal is None or goal.qualifier or goal.repeatable is False:
            return None
        return goal.lower_bound_fps


_Compared: TypeAlias = tuple[VariantResults, ComparedVariant, int, str]


def _times(ratio: float) -> str:
    return f"{units.significant(ratio, 3)}\N{MULTIPLICATION SIGN}"


def relative_text(row: _Compared) -> str | None:
    """A variant against the first: over deployments with the interval of their pairs."""
    variants, variant, size, name = row
    shown = variants.relative(variant, size, name)
    pairs = variants.against_first(variant, size, name)
    if not shown or pairs is None or pairs.ratio is None:
        return shown or None
    low, high = (_times(1.0 + share) for share in pairs.ratio[1:])
    return f"{shown} ({low} to {high}; n {pairs.n[0]})"


def _dut_threads(goal: GoalResult) -> tuple[ThreadUse, ...]:
    return tuple(use for use in goal.threads if use.role.rpartition(":")[2] != "tester")


def _event_text(goal: GoalResult, event: str) -> str:
    uses = _dut_threads(goal)
    counts = [use.events_per_frame[event] for use in uses if event in use.events_per_frame]
    if not counts:
        return NOT_MEASURED
    # A sum over some of the threads only must not pass for one over all.
    part = f" ({len(counts)} of {len(uses)} threads)" if len(counts) < len(uses) else ""
    return units.significant(sum(counts), 3) + part


def list_comparisons(results: RunResults) -> tuple[VariantResults, ...]:
    """All comparisons of a run."""
    comparisons = []
    placed = {s.scenario: sharing_of(s) for s in results.scenarios}
    shared = {name: sharing for name, sharing in placed.items() if sharing and sharing.shared}
    errors = {}
    for facts in filter(lambda s: s.error, results.scenarios):
        name, _, suffix = facts.scenario.rpartition(",")
        errors[name if suffix in PROGRAM_VARIANTS else facts.scenario] = facts.error
    transfers: dict[str, list[MeasuredTransfer]] = {}
    for scenario in results.transfers:
        name, _, suffix = scenario.scenario.rpartition(",")
        if suffix in PROGRAM_VARIANTS:
            repeats = (MeasuredTransfer(rounds=scenario.list_rounds(t)) for t in scenario.transfers)
            transfers.setdefault(name, []).extend(repeats)
    left_out = not_shown(results)
    for comparison in results.comparisons:
        names = {variant.scenario for variant in comparison.variants}
        variant_results = [r for r in results.results if r.scenario in names]
        moved = {name: repeats for name, repeats in transfers.items() if name in names}
        for test in dict.fromkeys(r.test for r in variant_results) or ("",):
            cases = {(r.scenario, r.frame_size): r for r in variant_results if r.test == test}
            absent = frozenset(
                (scenario, frame_size)
                for scenario, hidden_test, size in left_out
                for frame_size in (size, 0)
                if scenario in names and test in (hidden_test, "")
            )
            comparisons.append(
                VariantResults(comparison, test, cases, shared, moved, errors, absent)
            )
    return tuple(comparisons)


#: A variant, with what it transferred if it did, or why it did not.
_Moved: TypeAlias = tuple[ComparedVariant, TransferSpec, MeasuredTransfer | None, tuple[str, str]]


def _transfer_rows(variants: VariantResults) -> Iterator[_Moved]:
    """Each transfer with all variants below each other; the first that has it is the baseline."""
    alike: dict[TransferSpec, dict[str, list[MeasuredTransfer]]] = {}
    for scenario, repeats in variants.transfers.items():
        for history in repeats:
            # What variants differ by, and what follows from earlier transfers.
            same = {"pods": 0, "ranks": 0, "rate_bps": 0.0, "tool": "", "instances": 1}
            spec = history.transfer.spec.model_copy(update=same)
            alike.setdefault(spec, {}).setdefault(scenario, []).append(history)
    for spec, by_scenario in alike.items():
        first: tuple[Transfer, ...] = ()  # of the first variant that has one
        for variant in variants.comparison.variants:
            variant_repeats = by_scenario.get(variant.scenario, [])
            for history in variant_repeats:
                # A tool that was chosen for one variant alone would be taken for what they vary.
                by_tool = {transfer.spec.tool for transfer in (*first, *history.rounds)}
                comparable = len(by_tool) == 1 or any(
                    "tool" in word or "program" in word for word in variant.typed
                )
                yield (
                    variant,
                    spec,
                    replace(history, baseline=first if comparable else ()),
                    ("", ""),
                )
            if not variant_repeats:
                yield variant, spec, None, variants.not_run(variant)
            first = first or next(
                (history.rounds for history in variant_repeats if history.value), ()
            )


def _transfer_value(row: _Moved) -> Cell | str | None:
    _, _, history, (word, reason) = row
    return Cell(word, role="faint", hint=reason) if history is None else history.text


def _transfer_ratio(row: _Moved) -> str | None:
    history = row[2]
    if history is None or history.ratio is None:
        return None
    value, low, high = history.ratio
    if low is None or high is None:
        return _times(value)
    return f"{_times(value)} ({_times(low)} to {_times(high)}; n {len(history.rounds)})"


_TRANSFERS: tuple[Column[_Moved], ...] = (
    Column("transfer", lambda row: spec_text(row[1]), words=True),
    Column("variant", lambda row: row[0].variant, words=True),
    Column("tool", lambda row: row[2].transfer.spec.tool if row[2] else None, words=True),
    Column("median round trip, mean time, or rate", _transfer_value, bold=True),
    Column("against the first", _transfer_ratio),
)


def variant_transfers(variants: VariantResults) -> Table:
    """Transfers of the variants side by side; without rows where there were none."""
    rows = list(_transfer_rows(variants))
    notes = ["Means of all rounds. Of times a ratio above 1 is slower, of rates faster."]
    if any(history is not None and len(history.rounds) > 1 for _, _, history, _ in rows):
        notes.append("In brackets: 95 % interval over deployments.")
    return Table.from_items("", _TRANSFERS, rows, notes)


def short_upper_bound(goal: GoalResult) -> str:
    """The upper bound in a narrow cell below the lower one."""
    if goal.upper_bound_fps is None or goal_text.headline_fps(goal) == goal.upper_bound_fps:
        return ""
    return f"to {units.short_fps(goal.upper_bound_fps)}"


def _goal_or_absence(row: _Compared) -> GoalResult | tuple[str, str]:
    variants, variant, size, name = row
    return variants.goal(variant, size, name) or variants.absence(variant, size)


def _bound_text(row: _Compared) -> str:
    goal = _goal_or_absence(row)
    return goal[0] if isinstance(goal, tuple) else goal_text.qualified_rate(goal)


def _upper_text(row: _Compared) -> str | None:
    goal = _goal_or_absence(row)
    return None if isinstance(goal, tuple) else goal_text.upper_bound_text(goal)


def _reason_text(row: _Compared) -> str:
    goal = _goal_or_absence(row)
    return goal[1] if isinstance(goal, tuple) else goal_text.flag_with_reason(goal)


_NUMBERS: tuple[Column[_Compared], ...] = (
    Column("variant", lambda row: row[1].variant, words=True),
    Column(
        "changed options",
        lambda row: Cell(" ".join(row[1].typed), code=True) if row[1].typed else "nothing",
        words=True,
    ),
    Column("octets", lambda row: str(row[2]) if row[2] else None),
    Column("goal", lambda row: row[3] or None, words=True),
    Column("lower bound, aggregate", _bound_text, bold=True),
    Column("upper bound, aggregate", _upper_text),
    Column("against the first", relative_text),
    Column("regular?", _reason_text, words=True),
)


_Sessions: TypeAlias = tuple[VariantResults, ComparedVariant, int]


def _sessions_rate(row: _Sessions) -> Cell | str:
    variants, variant, size = row
    result = variants.result(variant, size)
    if result is None or result.sessions is None:
        word, reason = variants.absence(variant, size)
        return Cell(word, role="faint", hint=reason)
    least = "at least " if result.sessions.capped else ""
    return least + units.short_fps(result.sessions.rate_per_s)


def _sessions_ended(row: _Sessions) -> str | None:
    result = row[0].result(*row[1:])
    rate = result.sessions.ended_per_s if result is not None and result.sessions else None
    return text_or_none(rate, units.short_fps)


_SESSIONS: tuple[Column[_Sessions], ...] = (
    Column("variant", lambda row: row[1].variant, words=True),
    Column("octets", lambda row: str(row[2])),
    Column("establishment rate, 1/s", _sessions_rate, bold=True),
    Column("tear-down rate, 1/s", _sessions_ended),
)


def variant_sessions(variants: VariantResults) -> Table:
    """Rates at which the variants make and end sessions; without rows where none does."""
    sizes = variants.sizes if variants.has_sessions else ()
    rows = [(variants, variant, size) for size in sizes for variant in variants.comparison.variants]
    return Table.from_items("", _SESSIONS, rows)


def comparison_table(variants: VariantResults) -> Table:
    """The numbers of one comparison."""
    rows = [
        (variants, variant, size, name)
        for size in variants.sizes or (0,)
        for name in variants.goal_names or ("",)
        for variant in variants.comparison.variants
    ]
    return Table.from_items("", _NUMBERS, rows, comparison_notes(variants))


def variant_table(variants: VariantResults, name: str) -> Table:
    """The lower bounds of one goal, a row for each variant and a column for each frame size."""

    def make_column(size: int) -> Column[ComparedVariant]:
        def cell(variant: ComparedVariant) -> Cell:
            goal = variants.goal(variant, size, name)
            if goal is None:
                return Cell(variants.absence(variant, size)[0], role="faint")
            ratio = variants.relative(variant, size, name)
            return Cell(goal_text.short_rate(goal), role="strong", aside=ratio)

        return Column(f"{size}\nfps", cell)

    variant_column: Column[ComparedVariant] = Column(
        "variant", lambda variant: Cell(variant.variant, role="strong"), words=True
    )
    columns = (variant_column, *map(make_column, variants.sizes))
    return Table.from_items("", columns, variants.comparison.variants)


def comparison_notes(variants: VariantResults) -> tuple[str, ...]:
    """What a reader must know of the ratios."""
    notes = variants.sharing
    if any(variants.against_first(*cell) is not None for cell in variants.cells):
        return ("In brackets: 95 % interval over deployments, round by round.", *notes)
    if any(variants.relative(*cell) for cell in variants.cells):
        return (f"One deployment each: {_NOT_KNOWN}.", *notes)
    return notes


def event_table(variants: VariantResults) -> Table:
    """What the processor counted; notes of what it could not."""
    head = ("variant", "octets", "goal", *variants.events)
    columns = [Column(name, itemgetter(i), words=i in (0, 2)) for i, name in enumerate(head)]
    events = Table.from_items(
        EVENTS_TITLE, columns, variants.event_rows() if variants.events else ()
    )
    return replace(events, notes=variants.uncollected)
