"""What the ledger says of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.support import Bench
from tests.fakes.agent import FakeAgent
from vnetperf.model.errors import DutError


def test_a_run_that_measured_nothing_meets_no_clause(tmp_path: Path) -> None:
    agent = FakeAgent()
    agent.fail_deploy = "no such device"
    bench = Bench(tmp_path, agent)
    with pytest.raises(DutError):
        bench.throughput()
    derived = bench.derived()
    assert {entry.status for entry in derived.ledger} == {"not applicable"}
    assert derived.deviations == ()
    assert derived.results[0].failed


def test_every_goal_attribute_is_reported(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.throughput().goals[0].initial_trial_s == 0.5
    (entry,) = [e for e in bench.derived().ledger if "MLRsearch" in e.clause]
    for word in ("initial 0.5 s", "final 1 s", "sum 1 s", "loss 0", "exceed 0", "width 0.02"):
        assert word in entry.value
