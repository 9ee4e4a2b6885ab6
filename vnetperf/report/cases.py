"""Groups results and trials as every report shows them: by scenario and test, then by size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from vnetperf.model.result import GoalResult, Result, RunResults, ScenarioFacts, TrialPoint

#: Scenario, test and frame size: what one search is about.
Case = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Group:
    """One test of one scenario over all frame sizes.

    Attributes:
        scenario: "pvp_dpdk".
        test: "throughput".
        results: By rising frame size.
    """

    scenario: str
    test: str
    results: tuple[Result, ...]

    @property
    def title(self) -> str:
        """What a heading says."""
        return f"{self.scenario} \N{MIDDLE DOT} {self.test}"

    @property
    def measured(self) -> tuple[Result, ...]:
        """The results that carry numbers."""
        return tuple(r for r in self.results if r.status == "measured")

    @property
    def goal_names(self) -> tuple[str, ...]:
        """Names of the goals in order of first appearance."""
        return tuple(dict.fromkeys(g.name for r in self.results for g in r.goals))


def case_of(item: Result | TrialPoint) -> Case:
    """The search an item belongs to.

    Args:
        item: A result or a trial.

    Returns:
        Scenario, test and frame size.
    """
    return item.scenario, item.test, item.frame_size


def groups(results: RunResults) -> tuple[Group, ...]:
    """All groups, in the order in which they were measured.

    Args:
        results: The run.

    Returns:
        One group for each scenario and test that has a result.
    """
    found: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results.results:
        found[result.scenario, result.test].append(result)
    return tuple(
        Group(scenario, test, tuple(sorted(members, key=lambda r: r.frame_size)))
        for (scenario, test), members in found.items()
    )


def trials_by_case(results: RunResults) -> Mapping[Case, list[TrialPoint]]:
    """Every trial under the search it belongs to, also of searches that left no result.

    Args:
        results: The run.

    Returns:
        Case -> trials in order.
    """
    found: dict[Case, list[TrialPoint]] = defaultdict(list)
    for trial in results.trials:
        found[case_of(trial)].append(trial)
    return found


def goals_used(group: Group) -> tuple[GoalResult, ...]:
    """One goal result per distinct set of goal attributes, to list those attributes once.

    Args:
        group: The group.

    Returns:
        The first goal result of each distinct goal.
    """
    found: dict[tuple[object, ...], GoalResult] = {}
    for result in group.results:
        for goal in result.goals:
            key = (
                goal.name,
                goal.loss_ratio,
                goal.exceed_ratio,
                goal.initial_trial_s,
                goal.final_trial_s,
                goal.duration_sum_s,
                goal.width,
            )
            found.setdefault(key, goal)
    return tuple(found.values())


def undeployed(results: RunResults) -> tuple[ScenarioFacts, ...]:
    """Scenarios that could not be deployed.

    Args:
        results: The run.

    Returns:
        Those with an error.
    """
    return tuple(s for s in results.scenarios if s.error)
