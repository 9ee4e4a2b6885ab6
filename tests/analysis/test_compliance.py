"""What the ledger says of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import PRESET, Bench
from vnetperf import config
from vnetperf.analysis.compliance import ledger_of
from vnetperf.analysis.compliance.rfc2544 import TESTS
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import DutError
from vnetperf.model.outcomes import (
    AddressTable,
    BackToBack,
    DelayVariation,
    ForwardingRate,
    LatencyAt,
    LossStep,
    Recovery,
    Reset,
    Soak,
)
from vnetperf.model.preset import Preset
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.result import GoalResult, LedgerEntry, Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import AgentConfig, Testbed
from vnetperf.model.trial import Latency
from vnetperf.results.records import RunRecord
from vnetperf.search import search_inputs
from vnetperf.statistics import spread


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
    (entry,) = [e for e in bench.derived().ledger if e.clause.endswith("goal attributes")]
    assert entry.test == "throughput"
    for word in ("initial 0.5 s", "final 1 s", "sum 1 s", "loss 0", "exceed 0", "width 0.02"):
        assert word in entry.value


def test_traffic_beside_the_clauses_is_a_deviation() -> None:
    ledger = _setup(
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
    ledger = _setup(TrafficProfile())
    assert ledger["section 8"] == ("met", "ethernet, ipv4, udp")
    assert ledger["section 10"][0] == "met"
    assert ledger["section 23 a"] == ("not applicable", "layer 2 forwarding")
    assert ledger["section 14"] == ("met", "bidirectional")


def test_tester_and_dut_are_apart_only_where_the_generator_runs_elsewhere() -> None:
    apart = Testbed(trex={"server": "192.0.2.1"})
    far = Testbed(agent=AgentConfig(transport="ssh=dut"))  # the agent's machine carries both
    for testbed, generator, status in (
        (Testbed(), "loadgen", "deviated"),
        (far, "loadgen", "deviated"),
        (apart, "loadgen", "deviated"),
        (apart, "trex", "met"),
    ):
        ledger = _setup(TrafficProfile(), testbed=testbed, generator=generator)
        assert ledger["section 6"][0] == status, (testbed, generator)


def _setup(
    profile: TrafficProfile,
    *,
    imix: str = "",
    uncollected: dict[str, str] | None = None,
    forwarding: Literal["l2", "l3"] = "l2",
    generator: str = "loadgen",
    testbed: Testbed | None = None,
) -> dict[str, tuple[str, str]]:
    """Clause of RFC 2544 -> its status, and what was done, of a run with one result."""
    scenario = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="switch",
        traffic=profile,
        forwarding=forwarding,
        generator=generator,
    )
    goal = GoalResult.model_construct(uncollected=uncollected or {})
    result = Result.model_construct(
        frame_size=64,
        imix=imix,
        goals=(goal,),
        verdicts={"VALID": 1},
        status="measured",
        test="mrr",
    )
    run = RunRecord.model_construct(testbed=testbed or Testbed(), preset=PRESET)
    return {
        entry.clause.removeprefix("RFC 2544 "): (entry.status, entry.value)
        for entry in ledger_of(run, [scenario], [result])
    }


SIDES = ("phy0->phy1", "phy1->phy0")


def goals_of(preset: Preset) -> tuple[GoalResult, ...]:
    """What a search that came to its end says of each goal."""
    return tuple(
        GoalResult(
            name=goal.name,
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            initial_trial_s=goal.initial_trial_s,
            final_trial_s=goal.final_trial_s,
            duration_sum_s=goal.duration_sum_s,
            width=goal.width,
            lower_bound_fps=1e6,
            upper_bound_fps=1.001e6,
            conditional_throughput_fps=1e6,
            regular=True,
        )
        for goal in preset.goals
    )


def found_of(preset: Preset, test: str) -> dict[str, Any]:
    """What a test finds that did all that its preset asks for."""
    latency, b2b, recovery, soak = preset.latency, preset.back_to_back, preset.recovery, preset.soak
    one = Latency(count=10_000, min_ns=1, mean_ns=2, max_ns=3)
    varied = DelayVariation(pdv_ns=1, ipdv_min_ns=-1, ipdv_median_ns=0, ipdv_max_ns=1)
    rate = ForwardingRate(
        load_fps=2e6, of="load", duration_s=1, forwarded_fps=spread([1e6]), loss_ratio=spread([0.5])
    )
    found: dict[str, dict[str, Any]] = {
        "throughput": {
            "algorithm": preset.algorithm,
            "goals": goals_of(preset),
            "search_inputs": search_inputs(preset.limits(1e7)),
        },
        "latency": {
            "latency_at": (
                LatencyAt(
                    load_fps=1e6,
                    of="throughput",
                    tag_at_s=latency.tag_at_s,
                    repeats=latency.repeats,
                    latency=dict.fromkeys(SIDES, one),
                    variation=dict.fromkeys(SIDES, varied),
                    trials=tuple(range(latency.repeats)),
                ),
            )
        },
        "frame_loss": {
            "loss_steps": tuple(
                LossStep(load_fps=1e6 * s, input_ratio=s, loss_ratio=0.0, forwarded_fps=1e6 * s)
                for s in (1.0, 0.9)
            )
        },
        "back_to_back": {
            "back_to_back": BackToBack(
                frames=spread([100.0] * b2b.searches),
                step_frames=b2b.step_frames,
                max_burst_frames=10_000,
                throughput_fps=1e6,
                implied_s=1e-4,
                corrected_s=1e-5,
                max_rate_fps=1e7,
            )
        },
        "recovery": {
            "recovery": Recovery(
                throughput_fps=1e6,
                overload_fps=1e6 * recovery.overload,
                relaxed_fps=1e6 * recovery.overload * recovery.relaxed,
                overload_s=recovery.overload_s,
                seconds=spread([0.1] * recovery.repeats),
            )
        },
        "reset": {
            "resets": (
                Reset(
                    what="vswitch",
                    type="software",
                    load_fps=1e6,
                    by_loss_s=spread([1.0, 1.1]),
                    by_time_s=spread([1.0, 1.1]),
                ),
            )
        },
        "mrr": {"rates": (rate,)},
        "forwarding_rate": {"rates": (rate.model_copy(update={"searched": True}),) * 2},
        "soak": {
            "soak": Soak(
                load_fps=1e6,
                of="throughput",
                seconds=soak.duration_s,
                offered=1,
                lost=0,
                loss_ratio=0,
                loss_low=0,
                loss_high=1,
                goal=soak.loss_ratio,
                variation=dict.fromkeys(SIDES, varied),
            )
        },
        "address_caching": {"addresses": AddressTable(addresses=9, learning_fps=1.0)},
        "address_learning": {"addresses": AddressTable(addresses=9, learning_fps=1.0)},
    }
    return found[test]


def result_of(preset: Preset, test: str, size: int, scenario: str = "pvp_x") -> Result:
    common = {"scenario": scenario, "test": test, "frame_size": size, "verdicts": {"VALID": 1}}
    return Result.model_validate({**common, "media_max_fps": 1e6, **found_of(preset, test)})


def ledger(
    preset: Preset, results: list[Result], profile: TrafficProfile | None = None
) -> list[LedgerEntry]:
    scenario = Scenario(
        deployment=make_deployment("pvp"), vswitch="x", traffic=profile or TrafficProfile()
    )
    run = RunRecord.model_construct(testbed=Testbed(), preset=preset)
    return ledger_of(run, [scenario], results)


def shipped(name: str) -> Preset:
    return config.load_model(Preset, config.find_file("presets", name))


@pytest.mark.parametrize("name", config.available("presets"))
def test_a_run_that_does_all_a_preset_asks_for_meets_what_it_says(name: str) -> None:
    preset = shipped(name)
    results = [result_of(preset, t, size) for t in preset.tests for size in preset.sizes_of(t)]
    found = ledger(preset, results)
    for clause in preset.meets:
        its = [entry for entry in found if entry.clause == clause]
        assert its, f"no entry of {clause}"
        assert all(entry.status == "met" for entry in its), its
    # What is not said to be met is neither: a preset does not hide what it could say.
    if name == "quick":
        met = {e.clause for e in found if e.status == "met"}
        assert "RFC 2544 section 24" not in met
        assert "RFC 9004, depletion" not in met


def test_tests_of_the_rfc_that_were_not_run_are_named() -> None:
    preset = shipped("rfc9004")
    found = ledger(preset, [result_of(preset, t, 64) for t in preset.tests])
    absent = {e.clause: e.status for e in found if e.value == "the run has no result of this test"}
    assert absent == {
        f"RFC 2544 section {TESTS[t]}": "not applicable"
        for t in ("latency", "frame_loss", "recovery", "reset")
    }


def _of_result(ledger: list[LedgerEntry], result: Result) -> list[LedgerEntry]:
    """The part of a ledger that holds for one result."""
    return [
        entry
        for entry in ledger
        if entry.test in ("", result.test)
        and entry.scenario in ("", result.scenario)
        and entry.frame_size in (0, result.frame_size)
    ]


def test_what_holds_of_one_size_only_names_it_and_the_rest_is_said_once() -> None:
    preset = shipped("rfc2544")
    good, bad = (result_of(preset, "throughput", size) for size in (64, 128))
    irregular = bad.goals[0].model_copy(update={"regular": False, "reason": "the run was cut"})
    bad = bad.model_copy(update={"goals": (irregular,)})
    found = ledger(preset, [good, bad])
    its = [e for e in found if e.clause == "RFC 2544 section 26.1"]
    assert [(e.scope, e.status) for e in its] == [
        ("throughput, pvp_x, 64 octets", "met"),
        ("throughput, pvp_x, 128 octets", "deviated"),
    ]
    assert "the run was cut" in its[1].reason
    (times,) = [e for e in found if e.clause == "RFC 2544 section 24"]
    assert (times.scope, times.status) == ("throughput", "met")
    assert its[1] in _of_result(found, bad)
    assert its[1] not in _of_result(found, good)
    assert times in _of_result(found, good)


def test_an_estimate_within_a_time_budget_is_no_trial_of_60_s() -> None:
    # The preset's goal asks for 60 s; the result says that 7 s were had.
    preset = shipped("mlr-strict")
    result = result_of(preset, "throughput", 64)
    short = result.goals[0].model_copy(update={"final_trial_s": 7.0, "regular": False})
    found = ledger(preset, [result.model_copy(update={"goals": (short,)})])
    (times,) = [e for e in found if e.clause == "RFC 2544 section 24"]
    assert (times.status, times.value) == ("deviated", "7 s")


def test_a_result_at_the_generators_limit_is_no_throughput() -> None:
    preset = shipped("rfc2544")
    result = result_of(preset, "throughput", 64)
    limit = result.goals[0].model_copy(update={"regular": False, "qualifier": "at least"})
    found = ledger(preset, [result.model_copy(update={"goals": (limit,)})])
    (clause,) = [e for e in found if e.clause == "RFC 2544 section 26.1"]
    assert (clause.status, clause.value) == ("deviated", "goal at least throughput")


def test_tst009_reports_each_of_its_inputs() -> None:
    preset = shipped("tst009")
    found = ledger(preset, [result_of(preset, "throughput", 64)])
    by_clause = {e.clause: e for e in found}
    search = by_clause["ETSI GS NFV-TST 009 section 12.3.2"]
    for word in ("StepSize = 100000 frames/s", "n = 100", "max(r) = 2", "z = unset"):
        assert word in search.value
    assert by_clause["ETSI GS NFV-TST 009 section 12.3.3"].status == "met"


def test_a_reason_stands_beside_each_deviation_and_beside_nothing_else() -> None:
    for name in config.available("presets"):
        preset = shipped(name)
        results = [result_of(preset, test, 64) for test in preset.tests]
        for entry in ledger(preset, results):
            assert bool(entry.reason) == (entry.status == "deviated"), entry
            assert entry.value, entry


def test_a_forwarding_rate_of_shares_deviates_and_forward_pressure_is_not_done() -> None:
    preset = shipped("rfc2889")
    result = result_of(preset, "forwarding_rate", 64)
    old = tuple(rate.model_copy(update={"searched": False}) for rate in result.rates)
    met, deviated = (
        {e.clause: (e.status, e.value) for e in ledger(preset, [one])}
        for one in (result, result.model_copy(update={"rates": old}))
    )
    assert met["RFC 2889 section 5.6"][0] == "met"
    assert deviated["RFC 2889 section 5.6"][0] == "deviated"
    assert met["RFC 2889 section 5.6, forward pressure"] == ("deviated", "not done")


def test_a_burst_has_the_minimum_gap_of_a_medium_only() -> None:
    preset = shipped("rfc9004")
    result = result_of(preset, "back_to_back", 64)
    assert result.back_to_back is not None
    entries = {e.clause: e for e in ledger(preset, [result])}
    assert entries["RFC 9004, minimum gap"].status == "deviated"
    assert "virtual wires have no rate" in entries["RFC 9004, minimum gap"].reason
