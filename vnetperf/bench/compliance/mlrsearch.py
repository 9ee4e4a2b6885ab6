"""draft-ietf-bmwg-mlrsearch-15: what a report of a search must and should say."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.bench.compliance.entry import Looked, entry
from vnetperf.model.result import LedgerEntry


def throughput(looked: Looked) -> Iterator[LedgerEntry]:
    """Hold a throughput result against it.

    Args:
        looked: The result.

    Yields:
        Entries.
    """
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
