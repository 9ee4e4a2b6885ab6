"""Rounds: several searches of one throughput in one deployment, apart in time.

One search is one sample, and from one value nobody can tell how repeatable it is (RFC 9971): a
search that follows another at once sees the same weather. What is published is the range that the
rounds found and one load of it; rounds themselves are outside of RFC 9971.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetperf.analysis.disturbance import moved_text
from vnetperf.analysis.goals import loss_free_load, loss_share, select_trials
from vnetperf.analysis.logged_tests import LoggedSearch, LoggedTest, is_valid
from vnetperf.log.records import SearchRecord
from vnetperf.model.preset import Preset
from vnetperf.model.result import GoalResult, Result, RoundBounds

#: Round -> what its search found.
Goals = Mapping[int, GoalResult]


def in_rounds(tests: Sequence[LoggedTest]) -> list[LoggedSearch]:
    """The searches of a case in one deployment that hold, one for each round."""
    searches: dict[int, LoggedSearch] = {}
    for test in tests:
        if isinstance(test.begin, SearchRecord) and test.final:
            if test.begin.round == 1:
                searches.clear()  # what was before was begun anew
            searches[test.begin.round] = LoggedSearch(test.begin, test.trials, test.end)
    return [searches[number] for number in sorted(searches)]


def over_rounds(
    results: Mapping[int, Result], searches: Sequence[LoggedSearch] = ()
) -> tuple[GoalResult, ...]:
    """The goals of several rounds as they are published.

    Args:
        results: Round -> result of its search.
        searches: The searches, in the same order; none where there is no log.

    Returns:
        One for each goal.
    """
    names = list(dict.fromkeys(goal.name for r in results.values() for goal in r.goals))
    merged = []
    for name in names:
        goals = {n: g for n, r in results.items() for g in r.goals if g.name == name}
        merged.append(published(goals, searches))
    return tuple(merged)


def is_repeatable(goals: Sequence[GoalResult]) -> bool:
    """Whether rounds agree: the largest upper bound is within two widths of the least lower one.

    A round that is irregular has no such bounds, and the DUT's limit is not known by one that ended
    at a limit of load: those agree where all of them ended there.
    """
    limited = {goal.qualifier for goal in goals}
    if limited == {"at most"}:
        return True
    least, width = _least(goals), goals[0].width
    if limited == {"at least"}:
        bounds = [goal.lower_bound_fps or 0.0 for goal in goals]
    elif limited == {""} and all(goal.regular for goal in goals):
        bounds = [goal.upper_bound_fps or 0.0 for goal in goals]
    else:
        return False
    return least is not None and max(bounds) * (1.0 - width) ** 2 <= least


def _least(goals: Sequence[GoalResult]) -> float | None:
    lowers = [goal.lower_bound_fps for goal in goals]
    bounds = [lower for lower in lowers if lower is not None]
    return min(bounds) if bounds and len(bounds) == len(lowers) else None


def published(goals: Goals, searches: Sequence[LoggedSearch] = ()) -> GoalResult:
    """What is published of a goal.

    Args:
        goals: Round -> what its search found.
        searches: The searches, whose trials together tell the loss at the published load and the
            loss-free load; none where there is no log.

    Returns:
        The goal as the round has it that is shown, with what all of them found.
    """
    planned = max((search.begin.rounds for search in searches), default=1)
    if len(goals) == 1:
        (goal,) = goals.values()
        if planned == 1 or goal.lower_bound_fps is None:
            return goal
        remark = f"one of {planned} rounds was made: how it repeats is not known"
        reason = "; ".join(filter(None, (goal.reason, remark)))
        return goal.model_copy(update={"repeatable": False, "reason": reason})
    order = sorted(goals, key=lambda number: goals[number].lower_bound_fps or 0.0)
    is_least = not goals[order[0]].exceed_ratio or any(g.qualifier for g in goals.values())
    shown = order[0 if is_least else (len(order) - 1) // 2]
    goal = goals[shown]
    repeatable = is_repeatable([*goals.values()])
    irregular = {n: g for n, g in goals.items() if not g.regular and not g.qualifier}
    limited = {n: g for n, g in goals.items() if g.qualifier and g.reason}
    reasons = [_summarize_reasons(some, len(goals), shown) for some in (irregular, limited) if some]
    if not repeatable and not irregular:
        reasons.append(_apart_text(goals))
    wavers = [g.wavers_at_fps for g in goals.values() if g.wavers_at_fps is not None]
    if not repeatable:
        reasons.append(moved_text({search.begin.round: search.trials for search in searches}))
    return goal.model_copy(
        update={
            "wavers_at_fps": max(wavers, default=None),
            "regular": all(g.regular for g in goals.values()),
            "reason": "; ".join(filter(None, reasons)),
            "repeatable": repeatable,
            "rounds": tuple(
                RoundBounds(
                    round=number,
                    search=g.search,
                    lower_bound_fps=g.lower_bound_fps,
                    upper_bound_fps=g.upper_bound_fps,
                    lower_bound_load_fps=g.lower_bound_load_fps,
                    upper_bound_load_fps=g.upper_bound_load_fps,
                    regular=g.regular,
                    qualifier=g.qualifier,
                    reason=g.reason,
                )
                for number, g in goals.items()
            ),
            **(_over_all_trials(goal, searches) if searches else {}),
        }
    )


def _summarize_reasons(doubtful: Goals, n: int, shown: int) -> str:
    """Summarize the reasons of rounds by one of them, if possible the shown round's."""
    number = shown if shown in doubtful else next(iter(doubtful))
    reason = doubtful[number].reason
    if all(goal.reason == reason for goal in doubtful.values()) and len(doubtful) == n:
        return reason
    others = "" if len(doubtful) == 1 else f"{len(doubtful)} of {n} rounds, e.g. "
    return f"{others}round {number}: {reason}"


def _over_all_trials(goal: GoalResult, searches: Sequence[LoggedSearch]) -> dict[str, float | None]:
    """What all rounds together show: the loss at the published load, and where there is none."""
    load, n = goal.lower_bound_load_fps, searches[0].begin.in_sum
    bound_trials = [
        t for search in searches for t in select_trials((load or 0.0) / n, search) if is_valid(t)
    ]
    free = loss_free_load([t for search in searches for t in search.trials], goal.duration_sum_s)
    return {
        "loss_at_lower_bound": loss_share(bound_trials),
        "loss_free_fps": None if free is None else free * n,
    }


def _apart_text(goals: Goals) -> str:
    """Why rounds are not repeatable, in a sentence."""
    all_goals = [*goals.values()]
    if len({goal.qualifier for goal in all_goals}) > 1:
        return "some rounds ended at a limit of load, and others did not"
    bounds = [g.upper_bound_fps or g.lower_bound_fps or 0.0 for g in all_goals]
    least, most = _least(all_goals), max(bounds)
    width = all_goals[0].width
    apart = 1.0 - (least or 0.0) / most if most else 1.0
    return (
        f"the bounds of {len(all_goals)} rounds are {apart:.0%} apart, where two widths are "
        f"{1.0 - (1.0 - width) ** 2:.0%}"
    )


def wants_round(results: Sequence[Result], preset: Preset) -> bool:
    """Whether there is a further round after those that found some results.

    There are more than planned where these do not agree, or where one wavered: rounds that agree
    may all have seen the one of two states. There is none after one that has no lower bound: at
    which load would it begin? Nor are there more than planned where each ended at a limit of load:
    what varies then is not the DUT.
    """
    if any(goal.lower_bound_fps is None for r in results for goal in r.goals):
        return False
    if len(results) < preset.rounds:
        return True
    if len(results) >= preset.most_rounds:
        return False
    if all(goal.qualifier for r in results for goal in r.goals):
        return False
    goals = over_rounds(dict(enumerate(results, 1)))
    return any(goal.repeatable is False or goal.wavers_at_fps is not None for goal in goals)


def start_loads(results: Sequence[Result], in_sum: float) -> tuple[float, ...]:
    """Return the loads where the next round starts, in frames/s per interface."""
    loads = [goal.lower_bound_load_fps for goal in results[-1].goals] if results else []
    return tuple(load / in_sum for load in loads if load is not None)
