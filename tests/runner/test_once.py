"""What a run has measured is not measured again: one throughput stands in the report."""

from __future__ import annotations

from pathlib import Path

from tests.runner.support import Bench


def test_the_throughput_that_a_test_took_its_loads_of_is_the_one_reported(tmp_path: Path) -> None:
    # Files run by their names: test_rates.py before test_rfc2544.py.
    bench = Bench(tmp_path)
    profile = bench.measure("loss_profile")
    trials = len(bench.agent.trials)
    throughput = bench.throughput()
    assert len(bench.agent.trials) == trials
    lower = throughput.goals[0].lower_bound_fps
    assert lower in [step.load_fps for step in profile.loss_steps]
    reported = [r for r in bench.derived().results if r.test == "throughput"]
    assert [r.goals[0].lower_bound_fps for r in reported] == [lower]
