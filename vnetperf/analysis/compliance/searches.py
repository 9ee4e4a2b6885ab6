"""Clauses on throughput searches: ETSI GS NFV-TST 009 and the MLRsearch draft."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.analysis.compliance.clause import ClauseContext, entry, not_applicable
from vnetperf.model.result import LedgerEntry


def tst009_throughput(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a throughput result against them."""
    if looked.result.algorithm != "tst009":
        return
    inputs = looked.result.search_inputs
    doubtful = [g.name for g in looked.result.goals if not (g.regular or g.qualifier)]
    yield entry(
        "ETSI GS NFV-TST 009 section 12.3.2",
        "binary search over an array of offered loads, all its inputs reported",
        bool(inputs) and not doubtful,
        ", ".join(f"{name} = {value}" for name, value in inputs.items()),
        f"the search of {', '.join(doubtful)} did not come to its end"
        if doubtful
        else "its inputs were not recorded",
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
        bool(inputs),
        f"max(r) = {inputs.get('max(r)')}, z = {inputs.get('z')}",
        "its inputs were not recorded",
    )


def mlrsearch_throughput(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a throughput result against it."""
    goals = looked.result.goals
    yield entry(
        "MLRsearch draft, goal attributes",
        "all goal attributes are reported",
        True,
        "; ".join(
            f"{g.name}: initial {g.initial_trial_s or 0:g} s, final {g.final_trial_s:g} s, "
            f"sum {g.duration_sum_s:g} s, loss {g.loss_ratio:g}, exceed {g.exceed_ratio:g}, "
            f"relative width {g.width:g}"
            for g in goals
        ),
    )
    narrow = [g.name for g in goals if g.width < g.loss_ratio]
    if looked.result.algorithm != "tst009":
        yield entry(
            "MLRsearch draft, Goal Width",
            "no less than the Goal Loss Ratio is recommended",
            not narrow,
            "; ".join(f"{g.name}: {g.width:g}" for g in goals),
            f"preset {looked.preset.name}, goal {', '.join(narrow)}",
        )
    irregular = [g.name for g in goals if not g.regular]
    yield entry(
        "MLRsearch draft, irregular results",
        "a result that lacks a bound or is too wide is marked",
        True,
        f"{', '.join(irregular)}: irregular, and marked" if irregular else "all are regular",
    )
    yield entry(
        "MLRsearch draft, load",
        "said whether loads are per interface or aggregate, and the factor",
        True,
        f"searched per interface, reported as the sum of {looked.result.directions} "
        f"(factor {looked.result.in_sum:g})",
    )
