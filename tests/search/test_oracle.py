"""Our MLR search beside the MLRsearch package from PyPI, on the same simulated DUTs."""

from __future__ import annotations

import pytest

from .support import daily, load_benchmark

bench = load_benchmark()

pytestmark = pytest.mark.slow

DUTS = 40
COMMON = "60 s, NDR + PDR"
TITLES = [COMMON, *(daily(title) for title in bench.GOALS if title != COMMON)]
#: A DUT that stalls has no throughput without loss: there is nothing to be right about.
ANSWERED = [kind for kind in bench.KINDS if kind != "stalls"]


@pytest.mark.parametrize("title", TITLES)
def test_clean_duts_get_the_same_bounds_within_the_width(title: str) -> None:
    goals = bench.GOALS[title]
    for seed in range(DUTS):
        answers = [
            bench.CONTESTANTS[name](goals, bench.LIMITS, bench.make_dut("clean", seed))
            for name in ("mlr", "PyPI MLRsearch")
        ]
        for goal, ours, theirs in zip(goals, *(a.lower_bounds for a in answers), strict=True):
            assert ours == pytest.approx(theirs, rel=goal.width)


@pytest.mark.parametrize("title", TITLES)
def test_trial_seconds_are_no_more_than_the_oracles(title: str) -> None:
    goals = bench.GOALS[title]
    seconds = {
        name: {kind: bench.contest(name, goals, kind, DUTS).seconds for kind in ANSWERED}
        for name in ("mlr", "PyPI MLRsearch")
    }
    ours, theirs = seconds.values()
    ratios = {kind: ours[kind] / theirs[kind] for kind in ANSWERED}
    assert sum(ours.values()) <= sum(theirs.values()), ratios
    assert max(ratios.values()) <= 1.01, ratios


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("kind", ["clean", "noisy", "buffer", "collapse"])
def test_less_time_is_not_bought_with_larger_errors(title: str, kind: str) -> None:
    goals = bench.GOALS[title]
    ours, theirs = (bench.contest(name, goals, kind, DUTS) for name in ("mlr", "PyPI MLRsearch"))
    # A tenth of the goal width, in percent, is what medians of so few DUTs vary by.
    assert ours.median_error <= theirs.median_error + 0.05


def test_a_thousand_clean_duts_are_found_within_the_width() -> None:
    row = bench.contest("mlr", bench.GOALS[COMMON], "clean", 1000)
    assert row.within >= 99.0


def test_ndr_and_pdr_cost_a_fraction_of_two_bisections() -> None:
    goals = bench.GOALS[COMMON]
    mine, plain = (
        bench.contest(name, goals, "clean", DUTS) for name in ("mlr", "plain 60 s bisection")
    )
    assert mine.seconds <= 0.15 * plain.seconds


def test_a_dut_that_stalls_is_an_answer_where_the_oracle_raises() -> None:
    goals = bench.GOALS[COMMON]
    assert bench.contest("PyPI MLRsearch", goals, "stalls", 200).gave_up > 0
    assert bench.contest("mlr", goals, "stalls", 200).gave_up == 0
