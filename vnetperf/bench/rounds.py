"""Rounds of a run: its cases repeated in turn, A B A B, to see how their results repeat."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from vnetperf.model.result import GoalResult, Result
from vnetperf.results.records import (
    BeginRecord,
    NotMeasuredRecord,
    Record,
    RoundRecord,
    SearchEndRecord,
    TransfersRecord,
    TrialRecord,
)
from vnetperf.statistics import spread

#: Records of single cases; all others hold for every round.
_OF_CASES = (BeginRecord, TrialRecord, SearchEndRecord, NotMeasuredRecord, TransfersRecord)


def by_round(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Part a log into rounds.

    Args:
        records: The log.

    Returns:
        Number of each round, from 1 -> a log as if it had been a run of its own; round 1 alone of
        a run without rounds. A round that a resumed run went on with is one.
    """
    found: dict[int, list[Record]] = {}
    common: list[Record] = []
    number = 1
    for record in records:
        if isinstance(record, RoundRecord):
            number = record.number
            found.setdefault(number, [*common])
        elif isinstance(record, _OF_CASES):
            found.setdefault(number, [*common]).append(record)
        else:
            common.append(record)
            for each in found.values():
                each.append(record)
    return {number: found[number] for number in sorted(found)} or {1: common}


def of_rounds(results: Sequence[Sequence[Result]]) -> list[Result]:
    """One result for each case of several rounds.

    Args:
        results: By round.

    Returns:
        In the order of the first round that has the case: of a throughput search that in the
        middle by its first goal's bound, with the bounds of all; of other tests the last that was
        measured, which has repeats of its own.
    """
    cases: dict[tuple[str, str, int], list[Result]] = {}
    for each in results:
        for result in each:
            cases.setdefault((result.scenario, result.test, result.frame_size), []).append(result)
    return [_one(found) for found in cases.values()]


def _one(found: Sequence[Result]) -> Result:
    measured = [result for result in found if result.status == "measured"]
    if not measured:
        return found[-1]
    with_goals = [result for result in measured if result.goals]
    if len(with_goals) < 2:
        return measured[-1]
    order = sorted(with_goals, key=lambda result: _bound(result.goals[0]))
    middle = order[(len(order) - 1) // 2]
    goals = tuple(_with_repeats(goal, with_goals) for goal in middle.goals)
    return middle.model_copy(update={"goals": goals})


def _bound(goal: GoalResult) -> float:
    return -inf if goal.lower_bound_fps is None else goal.lower_bound_fps


def _with_repeats(goal: GoalResult, found: Sequence[Result]) -> GoalResult:
    same = [other for result in found for other in result.goals if other.name == goal.name]
    bounds = [other.lower_bound_fps for other in same if other.lower_bound_fps is not None]
    if len(bounds) < len(same):  # a round in which no load met the goal has no number to spread
        return goal
    resolution = max(goal.width * bound for bound in bounds)
    return goal.model_copy(update={"repeats": spread(bounds, resolution=resolution)})
