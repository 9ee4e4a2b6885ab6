"""Our MLR search beside the MLRsearch package from PyPI, on the same simulated DUTs."""

from __future__ import annotations

import pytest

from .support import load_benchmark

bench = load_benchmark()

DUTS = 40


@pytest.mark.parametrize("title", bench.GOALS)
def test_clean_duts_get_the_same_bounds_within_the_width(title: str) -> None:
    goals = bench.GOALS[title]
    for seed in range(DUTS):
        answers = [
            bench.CONTESTANTS[name](goals, bench.LIMITS, bench.make_dut("clean", seed))
            for name in ("mlr", "PyPI MLRsearch")
        ]
        for goal, ours, theirs in zip(goals, *(a.lower_bounds for a in answers), strict=True):
            assert ours == pytest.approx(theirs, rel=goal.width)


@pytest.mark.parametrize("title", bench.GOALS)
def test_trial_seconds_are_no_more_than_the_oracles(title: str) -> None:
    goals = bench.GOALS[title]
    seconds = {
        name: {kind: bench.contest(name, goals, kind, DUTS).seconds for kind in bench.KINDS}
        for name in ("mlr", "PyPI MLRsearch")
    }
    ours, theirs = seconds.values()
    ratios = {kind: ours[kind] / theirs[kind] for kind in bench.KINDS}
    assert sum(ours.values()) <= sum(theirs.values()), ratios
    # Of no kind much more. A collapsing DUT misleads the first guess, which costs 1 s trials.
    assert max(ratios.values()) <= 1.1, ratios


@pytest.mark.parametrize("title", bench.GOALS)
@pytest.mark.parametrize("kind", ["clean", "noisy", "buffer", "collapse"])
def test_less_time_is_not_bought_with_larger_errors(title: str, kind: str) -> None:
    goals = bench.GOALS[title]
    ours, theirs = (bench.contest(name, goals, kind, DUTS) for name in ("mlr", "PyPI MLRsearch"))
    # A tenth of the goal width, in percent, is what medians of so few DUTs vary by.
    assert ours.median_error <= theirs.median_error + 0.05
