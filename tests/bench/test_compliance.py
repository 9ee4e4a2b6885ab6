"""What the ledger says of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.bench.support import PRESET, Bench
from tests.fakes.agent import FakeAgent
from vnetperf.bench.compliance import ledger_of
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import DutError
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.result import GoalResult, Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.results.records import RunRecord


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


def test_traffic_beside_the_clauses_is_a_deviation() -> None:
    ledger = _ledger(
        TrafficProfile(headers=("ethernet", "ipv6", "udp"), imix="bg"),
        imix="bg",
        uncollected={"duplicated": "not measured: it does not number frames"},
        forwarding="l3",
    )
    assert ledger["section 8"] == ("deviated", "ethernet, ipv6, udp")
    assert ledger["section 9.1"] == ("deviated", "a mix of sizes")
    assert ledger["section 10"] == ("deviated", "not measured: it does not number frames")
    assert ledger["section 23 a"] == ("deviated", "static routes")


def test_plain_traffic_of_a_tester_that_stamps_frames_meets_the_clauses() -> None:
    ledger = _ledger(TrafficProfile())
    assert ledger["section 8"] == ("met", "ethernet, ipv4, udp")
    assert ledger["section 10"][0] == "met"
    assert ledger["section 23 a"] == ("not applicable", "layer 2 forwarding")
    assert ledger["section 14"] == ("met", "bidirectional")


def _ledger(
    profile: TrafficProfile,
    *,
    imix: str = "",
    uncollected: dict[str, str] | None = None,
    forwarding: Literal["l2", "l3"] = "l2",
) -> dict[str, tuple[str, str]]:
    """Clause of RFC 2544 -> its status, and what was done, of a run with one result."""
    scenario = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="switch",
        traffic=profile,
        forwarding=forwarding,
    )
    goal = GoalResult.model_construct(uncollected=uncollected or {})
    result = Result.model_construct(
        frame_size=64, imix=imix, goals=(goal,), verdicts={"VALID": 1}, status="measured"
    )
    run = RunRecord.model_construct(testbed=Testbed(), preset=PRESET)
    return {
        entry.clause.removeprefix("RFC 2544 "): (entry.status, entry.value)
        for entry in ledger_of(run, [scenario], [result])
    }
