"""Clauses on throughput searches: ETSI GS NFV-TST 009 and RFC 9971 (MLRsearch)."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.analysis.compliance.clause import ClauseContext, entry, not_applicable
from vnetperf.model.result import GoalResult, LedgerEntry

#: Rates that differ by no more than this share are the same.
_ROUNDING = 1e-6


def tst009_throughput(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a throughput result against them."""
    if looked.result.algorithm != "tst009":
        return
    inputs = looked.result.search_inputs
    doubtful = [g.name for g in looked.result.goals if not (g.regular or g.qualifier)]
    yield entry(
        "ETSI GS NFV-TST 009 section 12.3.2",
        "binary search over an array of offered loads, all its inputs reported",
        not doubtful,
        ", ".join(f"{name} = {value}" for name, value in inputs.items()),
        f"the search of {', '.join(doubtful)} did not come to its end",
    )
    if inputs.get("max(r)") == "1":
        yield not_applicable(
            "ETSI GS NFV-TST 009 section 12.3.3",
            "loss verification: a lossy trial is repeated",
            "max(r) = 1: one lossy trial decides",
        )
        return
    yield entry(
        "ETSI GS NFV-TST 009 section 12.3.3",
        "loss verification: a lossy trial is repeated, max(r) and z reported",
        True,
        f"max(r) = {inputs.get('max(r)')}, z = {inputs.get('z')}",
    )


def mlrsearch_throughput(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a throughput result against it."""
    result, goals = looked.result, looked.result.goals
    yield entry(
        "RFC 9971, goal attributes",
        "all goal attributes are reported",
        bool(goals),
        "; ".join(
            f"{g.name}: initial {g.initial_trial_s:g} s, final {g.final_trial_s:g} s, "
            f"sum {g.duration_sum_s:g} s, loss {g.loss_ratio:g}, exceed {g.exceed_ratio:g}, "
            f"relative width {g.width:g}"
            for g in goals
        ),
    )
    narrow = [g.name for g in goals if g.width < g.loss_ratio]
    if result.algorithm != "tst009":
        yield entry(
            "RFC 9971, Goal Width",
            "no less than the Goal Loss Ratio is recommended",
            not narrow,
            "; ".join(f"{g.name}: {g.width:g}" for g in goals),
            f"preset {looked.preset}, goal {', '.join(narrow)}",
        )
    irregular = [g.name for g in goals if not g.regular]
    unmarked = [g.name for g in goals if g.regular and not _fits_width(g)]
    yield entry(
        "RFC 9971, irregular results",
        "a result that lacks a bound or is too wide is marked",
        not unmarked,
        f"{', '.join(irregular)}: irregular, and marked" if irregular else "all are regular",
        f"{', '.join(unmarked)}: a bound is missing, or they are wider apart than the goal's width",
    )
    yield from _classes(looked)
    sums = [g.name for g in goals if not _adds_up(g)]
    yield entry(
        "RFC 9971, load",
        "said whether loads are per interface or aggregate, and the factor",
        not sums,
        f"searched per interface, reported as the sum of {result.directions} "
        f"(factor {result.in_sum:g})",
        f"{', '.join(sums)}: the directions do not add up to the sum",
    )


def _classes(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """How loads were classified, in what state the DUT was, and how often it was searched."""
    if looked.result.algorithm == "tst009":
        return
    yield entry(
        "RFC 9971, load classification",
        "a load is classified by all trials of the search at it, by the loss of all directions "
        "together",
        True,
        "a loss is an interval where the tester may have lost frames or did not send them: what "
        "straddles the goal's ratio adds to no sum",
        "",
    )
    warm = sum(trial.spec.duration_s for trial in looked.trials if trial.spec.phase == "warm-up")
    yield entry(
        "RFC 9971, warm-up",
        "the SUT is warm before the search",
        warm > 0,
        f"{warm:g} s of traffic at the largest load, before the first search of each deployment",
        "the first trial of the search is the DUT's first traffic",
    )
    several = [goal for goal in looked.result.goals if goal.rounds]
    if several:
        which = ", ".join(
            f"of {goal.name} {'the median' if goal.exceed_ratio else 'the least'}"
            for goal in several
        )
        yield not_applicable(
            "RFC 9971, repeated searches",
            "how repeatable a result is cannot be told from one search",
            f"outside of the RFC: {len(several[0].rounds)} searches in one deployment, of whose "
            f"lower bounds {which} is published with the range of all bounds",
        )


def _fits_width(goal: GoalResult) -> bool:
    """Whether both bounds are there and no further apart than the goal's width."""
    width = goal.relative_width
    return width is not None and width <= goal.width * (1 + _ROUNDING)


def _adds_up(goal: GoalResult) -> bool:
    """Whether the directions are shares of the sum.

    Each is the least that was offered that way in a trial, the sum the least that was offered in
    one trial. What a direction lacks of its load, that trial lacked of the sum.
    """
    bounds = [bound.lower_bound_fps or 0.0 for bound in goal.per_direction]
    total, load = goal.lower_bound_fps or 0.0, goal.lower_bound_load_fps or 0.0
    if not bounds:
        return True
    lacking = len(bounds) * max(0.0, load - total)
    slack = _ROUNDING * total
    return total - lacking - slack <= sum(bounds) <= total + slack
