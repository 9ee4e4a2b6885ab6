"""Rounds of a log: each as a run of its own, and one result of them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import Bench
from vnetperf.analysis.logged_tests import by_round
from vnetperf.analysis.results_from_log import derive
from vnetperf.results.log import read_log
from vnetperf.results.records import RoundRecord, RunRecord, TrialRecord
from vnetperf.testing.sim import SimulatedDut


def rounds(folder: Path, capacities: dict[int, float]) -> Bench:
    bench = Bench(folder)
    for number, capacity in capacities.items():
        bench.run.begin_round(number, len(capacities))
        bench.agent.duts = (SimulatedDut(capacity),) * 2
        bench.throughput()
    return bench


def test_a_run_without_rounds_is_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.throughput()
    bench.run.close()
    records = read_log(bench.path)
    assert by_round(records) == {1: records}
    assert all(goal.repeats is None for goal in bench.derived().results[0].goals)


def test_every_record_of_a_case_is_in_its_round_only(tmp_path: Path) -> None:
    bench = rounds(tmp_path, {1: 500e3, 2: 600e3, 3: 550e3})
    bench.run.close()
    records = read_log(bench.path)
    parts = by_round(records)
    assert list(parts) == [1, 2, 3]
    trials = [r.number for part in parts.values() for r in part if isinstance(r, TrialRecord)]
    assert trials == [r.number for r in records if isinstance(r, TrialRecord)]
    for part in parts.values():
        assert isinstance(part[0], RunRecord)
        assert not any(isinstance(r, RoundRecord) for r in part)
        assert len(derive(part).results) == 1


def test_the_result_is_that_in_the_middle_with_all_bounds(tmp_path: Path) -> None:
    bench = rounds(tmp_path, {1: 500e3, 2: 600e3, 3: 550e3})
    bench.run.close()
    (result,) = bench.derived().results
    each = [derive(part).results[0] for part in by_round(read_log(bench.path)).values()]
    for n, goal in enumerate(result.goals):
        bounds = [one.goals[n].lower_bound_fps for one in each]
        assert goal.repeats is not None
        assert list(goal.repeats.values) == bounds
        assert goal.lower_bound_fps == sorted(b for b in bounds if b is not None)[1]
    assert result.goals[0].trials_at_lower_bound == each[2].goals[0].trials_at_lower_bound


def test_a_round_that_failed_hides_no_other(tmp_path: Path) -> None:
    agent = FakeAgent()
    bench = Bench(tmp_path, agent)
    bench.run.begin_round(1, 2)
    bench.throughput()
    bench.run.release()
    bench.run.begin_round(2, 2)
    agent.fail_deploy = "busy"
    with pytest.raises(Exception, match="busy"):
        bench.throughput()
    agent.fail_deploy = ""
    bench.run.begin_round(3, 3)  # what failed before is tried again
    bench.throughput()
    bench.run.close(1)
    (result,) = bench.derived().results
    assert result.status == "measured"
    assert all(goal.repeats is not None and goal.repeats.n == 2 for goal in result.goals)


def test_a_round_that_is_gone_on_with_is_one(tmp_path: Path) -> None:
    first = rounds(tmp_path, {1: 500e3, 2: 600e3})
    first.run.close()
    again = rounds(tmp_path, {1: 900e3, 2: 900e3, 3: 550e3})
    again.run.close()
    assert list(by_round(read_log(again.path))) == [1, 2, 3]
    assert len(again.agent.trials) < len(first.agent.trials)  # the third round's only
    (result,) = again.derived().results
    assert result.goals[0].repeats is not None
    assert max(result.goals[0].repeats.values) < 2 * 620e3
