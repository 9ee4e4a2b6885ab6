"""Sets the results of a comparison's variants side by side, as every report shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vnetperf.model.result import (
    ComparedVariant,
    ComparisonResult,
    GoalResult,
    Result,
    RunResults,
    ThreadUse,
)
from vnetperf.report import bounds
from vnetperf.report import units_text as text

#: Heading of what the processor counted.
EVENTS = (
    "Events of the processor for each frame, switch and VNFs together, idle polling included, "
    "at the lower bounds"
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison of one scenario, with its results of one test.

    Attributes:
        comparison: What is compared.
        test: "throughput".
        results: Scenario with its variant, and frame size -> result.
    """

    comparison: ComparisonResult
    test: str
    results: dict[tuple[str, int], Result]

    @property
    def title(self) -> str:
        """What a heading says: "pvp_dpdk (dot) throughput by queues"."""
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
        """A variant's result.

        Args:
            variant: The variant.
            size: Frame size.

        Returns:
            The result; None when there is none, not even one that says why.
        """
        return self.results.get((variant.scenario, size))

    def goal(self, variant: ComparedVariant, size: int, name: str) -> GoalResult | None:
        """A variant's result of one goal.

        Args:
            variant: The variant.
            size: Frame size.
            name: The goal.

        Returns:
            The result; None when it was not measured.
        """
        result = self.result(variant, size)
        return next((g for g in result.goals if g.name == name), None) if result else None

    def absence(self, variant: ComparedVariant, size: int) -> tuple[str, str]:
        """Why a variant has no number.

        Args:
            variant: The variant.
            size: Frame size.

        Returns:
            A word or two, and the reason.
        """
        if variant.skipped:
            return "skipped", variant.skipped
        result = self.result(variant, size)
        if result is None:
            return "not run", "it was not selected, or the run was interrupted"
        return "not measured", result.why or "no reason was recorded"

    def first(self, size: int, name: str) -> ComparedVariant | None:
        """The variant that others are held against.

        Args:
            size: Frame size.
            name: The goal.

        Returns:
            The first that has a number of its own; None when none has.
        """
        return next((v for v in self.comparison.variants if self._exact(v, size, name)), None)

    def relative(self, variant: ComparedVariant, size: int, name: str) -> str:
        """A variant's rate against that of the first.

        Args:
            variant: The variant.
            size: Frame size.
            name: The goal.

        Returns:
            "1.87x"; "" for the first itself, and where one of both is no more than a limit.
        """
        first = self.first(size, name)
        value = self._exact(variant, size, name)
        if first is None or first == variant or not value:
            return ""
        base = self._exact(first, size, name)
        return f"{text.significant(value / base, 3)}\N{MULTIPLICATION SIGN}" if base else ""

    @property
    def events(self) -> tuple[str, ...]:
        """Events of the processor that were counted for any variant."""
        goals = (goal for result in self.results.values() for goal in result.goals)
        uses = (use for goal in goals for use in _dut(goal))
        return tuple(dict.fromkeys(name for use in uses for name in use.events_per_frame))

    @property
    def uncollected(self) -> tuple[str, ...]:
        """What could not be counted, and why: "tlb: not measured: ..."."""
        goals = (goal for result in self.results.values() for goal in result.goals)
        told = (item for goal in goals for item in goal.uncollected.items())
        return tuple(dict.fromkeys(f"{name}: {why}" for name, why in told))

    def event_rows(self) -> Iterator[tuple[str, ...]]:
        """Events for each frame, of the switch's and VNFs' threads together.

        Yields:
            Variant, frame size, goal, and each event's number.
        """
        for size in self.sizes:
            for name in self.goal_names:
                for variant in self.comparison.variants:
                    goal = self.goal(variant, size, name)
                    if goal is not None:
                        numbers = (_each(goal, event) for event in self.events)
                        yield variant.variant, str(size), name, *numbers

    def _exact(self, variant: ComparedVariant, size: int, name: str) -> float | None:
        """A lower bound that says how fast the DUT is, and not how fast the generator."""
        goal = self.goal(variant, size, name)
        return goal.lower_bound_fps if goal is not None and not goal.qualifier else None


def _dut(goal: GoalResult) -> tuple[ThreadUse, ...]:
    return tuple(use for use in goal.threads if use.role != "tester")


def _each(goal: GoalResult, event: str) -> str:
    uses = _dut(goal)
    found = [use.events_per_frame[event] for use in uses if event in use.events_per_frame]
    if not found:
        return bounds.NOT_MEASURED
    # A sum over some of the threads only must not pass for one over all.
    part = f" ({len(found)} of {len(uses)} threads)" if len(found) < len(uses) else ""
    return text.significant(sum(found), 3) + part


def compared(results: RunResults) -> tuple[Compared, ...]:
    """All comparisons of a run.

    Args:
        results: The run.

    Returns:
        One for each comparison and test, in the order in which they were begun.
    """
    found = []
    for comparison in results.comparisons:
        names = {variant.scenario for variant in comparison.variants}
        mine = [r for r in results.results if r.scenario in names]
        for test in dict.fromkeys(r.test for r in mine) or ("",):
            held = {(r.scenario, r.frame_size): r for r in mine if r.test == test}
            found.append(Compared(comparison, test, held))
    return tuple(found)


def shown_upper(goal: GoalResult) -> str:
    """The upper bound in a narrow cell below the lower one.

    Args:
        goal: The goal's result.

    Returns:
        "to 1.38M", or "" when there is none to tell beside the headline.
    """
    if goal.upper_bound_fps is None or bounds.headline_fps(goal) == goal.upper_bound_fps:
        return ""
    return f"to {text.short_fps(goal.upper_bound_fps)}"
