"""Each direction's figures follow the search's own rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.runner.support import PDR, Bench
from vnetperf.analysis.goals import per_direction
from vnetperf.analysis.logged_tests import trial_outcome
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.records import SearchRecord, TrialRecord
from vnetperf.log.trial_log import read_log
from vnetperf.model.parameters import SearchLimits
from vnetperf.model.trial import DirectionCounts, TrialResult, TrialSpec, Verdict
from vnetperf.search.classification import Criterion, conditional_throughput

GOAL = replace(PDR, initial_trial_s=0.5, final_trial_s=1.0, duration_sum_s=3.0, exceed_ratio=0.5)
LOAD = 1000.0
BEGIN = SearchRecord(
    search=1,
    scenario="phy2phy_dpdk",
    test="throughput",
    frame_size=64,
    algorithm="mlr",
    goals=(GOAL,),
    limits=SearchLimits(min_load_fps=1.0, max_load_fps=2 * LOAD),
    directions=2,
    overhead=0,
)


def trial(number: int, duration_s: float, *losses: int) -> TrialRecord:
    frames = round(LOAD * duration_s)
    return TrialRecord(
        number=number,
        search=1,
        spec=TrialSpec(frame_size=64, load_fps=LOAD, duration_s=duration_s),
        result=TrialResult(
            directions=tuple(
                DirectionCounts(
                    direction=direction,
                    intended=frames,
                    sent=frames,
                    refused=0,
                    unsent=0,
                    received=frames - lost,
                )
                for direction, lost in enumerate(losses)
            )
        ),
        verdict=Verdict.VALID,
        started="2026-01-01T00:00:00.000+00:00",
    )


def test_directions_and_aggregate_are_the_same_statistic_of_the_same_trials() -> None:
    # A short trial with a large loss, and full-length ones of which the worst is forgiven.
    trials = [
        trial(1, 0.5, 200, 0),
        trial(2, 1.0, 4, 0),
        trial(3, 1.0, 6, 0),
        trial(4, 1.0, 300, 0),
    ]
    forth, back = per_direction(trials, GOAL, LOAD, 2 * LOAD, BEGIN)
    every = [trial_outcome(t) for t in trials]
    aggregate = conditional_throughput(LOAD, every, Criterion.from_goal(GOAL))
    assert forth.conditional_throughput_fps == pytest.approx(994.0)
    assert aggregate == pytest.approx((994.0 + LOAD) / 2)  # of an interface, RFC 9971
    assert back.conditional_throughput_fps == LOAD
    assert forth.loss_ratio_at_lower_bound == 0.3  # not the short trial's 0.4
    assert back.loss_ratio_at_lower_bound == 0.0


def test_without_a_lower_bound_there_is_nothing_to_say_of_a_direction() -> None:
    assert per_direction([], GOAL, None, LOAD, BEGIN) == ()


def test_a_direction_with_half_the_load_has_half_the_bounds() -> None:
    trials = [trial(number, 1.0, 0, 10) for number in (1, 2, 3)]
    begin = BEGIN.model_copy(update={"loads": (1.0, 0.5)})
    forth, back = per_direction(trials, GOAL, LOAD, 2 * LOAD, begin)
    assert (forth.lower_bound_fps, forth.upper_bound_fps) == (LOAD, 2 * LOAD)
    assert (back.lower_bound_fps, back.upper_bound_fps) == (LOAD / 2, LOAD)
    assert forth.conditional_throughput_fps == LOAD
    assert back.conditional_throughput_fps == pytest.approx(LOAD / 2 * 0.99)


def test_a_load_that_was_rounded_on_its_way_is_the_same_load(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    found = bench.throughput()
    changed = []
    for record in read_log(bench.path):
        if isinstance(record, TrialRecord):
            spec = record.spec.model_copy(update={"load_fps": record.spec.load_fps * (1 + 1e-12)})
            changed.append(record.model_copy(update={"spec": spec}))
        else:
            changed.append(record)
    (again,) = derive(changed).results
    for then, now in zip(found.goals, again.goals, strict=True):
        assert then.trials_at_lower_bound == now.trials_at_lower_bound != ()
        assert len(now.per_direction) == 2
