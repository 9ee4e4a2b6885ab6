"""What a run has measured is not measured again: one throughput stands in the report."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.fakes.agent import FakeAgent
from tests.runner.support import PRESET, Bench, configuration
from vnetperf.log.trial_log import read_log
from vnetperf.model.trial import TrialResult


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


def test_a_result_that_is_wanted_again_is_derived_from_the_log(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    latency = bench.measure("latency")  # which the throughput is searched for first
    throughput = bench.throughput()
    held, trials = len(read_log(bench.path)), len(bench.agent.trials)
    assert bench.measure("latency") == latency
    assert bench.throughput() == throughput
    bench.measure("frame_loss")
    assert bench.throughput() == throughput
    assert len(bench.agent.trials) > trials
    assert [type(r) for r in read_log(bench.path)[held:]].count(type(read_log(bench.path)[-1])) == 1
    bench.die()
    resumed = Bench(tmp_path)
    assert [resumed.throughput(), resumed.throughput()] == [throughput, throughput]
    assert resumed.measure("latency") == latency
    assert not resumed.agent.trials


@pytest.mark.slow  # looks at every object of the process, which has those of all tests before
def test_nothing_of_a_finished_case_stays_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Counted: as many values of the model are there after twelve cases as after four."""

    def forget(_: int, result: TrialResult) -> TrialResult:
        agent.calls.clear()  # the double's own notes
        agent.trials.clear()
        return result

    agent = FakeAgent(spoil=forget)
    sizes = tuple(range(64, 70))
    # All are calibrated at once, and their calibrations are kept.
    bench = Bench(tmp_path, agent, configuration(PRESET.model_copy(update={"frame_sizes": sizes})))
    caplog.set_level(logging.CRITICAL, "vnetperf")  # what is captured holds the values logged

    def values() -> Counter[str]:
        gc.collect()
        return Counter(type(o).__name__ for o in gc.get_objects() if isinstance(o, BaseModel))

    def cases(some: tuple[int, ...]) -> None:
        for size in some:
            bench.throughput(size)
            bench.measure("frame_loss", size)

    cases(sizes[:2])
    before = values()
    cases(sizes[2:])
    assert values() - before == Counter()
    assert len(bench.run.done) == 12
