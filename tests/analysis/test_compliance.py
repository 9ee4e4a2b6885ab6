"""What the ledger says of a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import PRESET, Bench, configuration
from tests.texts import Texts
from vnetperf import config
from vnetperf.analysis.compliance import derive_ledger, rfc9693
from vnetperf.analysis.compliance.clause import ClauseContext, LoggedTrials, pauses_after
from vnetperf.analysis.compliance.rfc2544 import (
    TESTS,
    _overload_doubts,
    constant_load,
    rfc6815_isolation,
)
from vnetperf.analysis.logged_tests import Logged, LoggedTest
from vnetperf.analysis.results_from_log import count_faults, derive_result
from vnetperf.log.records import (
    ProcedureRecord,
    RunRecord,
    ScenarioRecord,
    SearchEndRecord,
    SearchRecord,
    TrialRecord,
)
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import DutError
from vnetperf.model.frames import LinkSpeed
from vnetperf.model.nat import Nat
from vnetperf.model.outcomes import (
    AddressTable,
    BackToBack,
    CpuLoad,
    DelayVariation,
    ForwardingRate,
    LatencyAt,
    LossStep,
    Recovery,
    Reset,
    SessionsTried,
    SessionTable,
    Soak,
)
from vnetperf.model.parameters import LatencyTest
from vnetperf.model.preset import Preset, TrialTimes
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.result import (
    DirectionBound,
    FrameFaults,
    GoalResult,
    LedgerEntry,
    Result,
    ScenarioFacts,
)
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import AgentConfig, CableConfig, HostConfig, Testbed
from vnetperf.model.trial import (
    DirectionCounts,
    Gaps,
    Latency,
    LoadStep,
    TesterTurns,
    Timeline,
    TrialGaps,
    TrialRequest,
    TrialResult,
    TrialSpec,
    Verdict,
)
from vnetperf.plugin.procedure import KnownThroughput, load_test
from vnetperf.procedures.latency import over_trials
from vnetperf.search import make_search
from vnetperf.statistics import spread
from vnetperf.testing.sim import SimulatedDut, run


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


def test_traffic_beside_the_clauses_is_a_deviation(texts: Texts) -> None:
    ledger = _setup(
        TrafficProfile(headers=("ethernet", "ipv6", "udp"), imix="bg"),
        imix="bg",
        uncollected={"duplicated": "not measured: it does not number frames"},
        forwarding="l3",
    )
    assert ledger["section 8"] == ("deviated", "ethernet, ipv6, udp")
    assert ledger["section 9.1"] == ("deviated", "a mix of sizes")
    assert ledger["section 10"][0] == "deviated"
    texts.check(ledger["section 10"][1])
    assert ledger["section 23 a"] == ("deviated", "static routes")


def test_plain_traffic_of_a_tester_that_stamps_frames_meets_the_clauses() -> None:
    ledger = _setup(TrafficProfile())
    assert ledger["section 8"] == ("met", "ethernet, ipv4, udp")
    assert ledger["section 23 a"] == ("not applicable", "layer 2 forwarding")
    assert ledger["section 14"] == ("met", "bidirectional")


@pytest.mark.parametrize(
    ("vary", "flows", "status"),
    [
        ("ipv4_dst_net", 256, "met"),
        ("ipv4_dst_net", 255, "deviated"),
        ("ipv4_dst", 1000, "deviated"),  # hosts of four networks of 256 addresses
        ("ipv4_dst", 65_534, "met"),
    ],
)
def test_destination_networks_are_no_hosts_of_a_few(vary: Any, flows: int, status: str) -> None:
    many = TrafficProfile(name="many", flows=flows, vary=(vary,), vary_mode="random")
    scenarios = [
        Scenario(deployment=make_deployment("phy2phy"), vswitch="x", traffic=profile)
        for profile in (TrafficProfile(), many)
    ]
    result = Result.model_construct(
        **{"scenario": "phy2phy_x", "test": "mrr", "frame_size": 64, "goals": ()},
        **{"verdicts": {"VALID": 1}, "status": "measured", "imix": ""},
    )
    run = RunRecord.model_construct(testbed=Testbed(), preset=PRESET)
    entries = derive_ledger(run, [deployed(one) for one in scenarios], [result], [])
    (clause,) = [e for e in entries if e.clause == "RFC 2544 section 12"]
    assert clause.status == status


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


@pytest.mark.parametrize(
    ("transport", "parts", "status"),
    [
        ("ssh=", {"m1": "tester", "m2": "dut"}, "met"),
        ("ssh=", {"m1": "tester and dut", "m2": "dut"}, "deviated"),
        ("ssh=", {"m1": "dut", "m2": "dut"}, "deviated"),  # endpoints, and no tester
        ("netns", {"m1": "tester", "m2": "dut"}, "deviated"),  # one machine has both
    ],
)
def test_tester_and_dut_on_machines_of_their_own_are_apart(
    transport: str, parts: dict[str, str], status: str
) -> None:
    hosts = {name: HostConfig(transport=transport + name * (transport == "ssh=")) for name in parts}
    cable = CableConfig(ends=("m1:eth1", "m2:eth1"))
    testbed = Testbed(hosts=hosts, cables=(cable,))
    ledger = _setup(TrafficProfile(), testbed=testbed, hosts=parts)
    assert ledger["section 6"][0] == status


@pytest.mark.parametrize(
    ("plan", "testbed", "status"),
    [
        ({"wire": "memif"}, Testbed(), "met"),
        ({"wire": "memif"}, Testbed(isolation="in a rack of its own"), "met"),
        ({}, Testbed(isolation="in a rack of its own"), "not looked at"),
        ({"wire": "nic", "nics": [{}]}, Testbed(isolation="by a firewall"), "not looked at"),
        ({"wire": "nic", "nics": [{}]}, Testbed(), "deviated"),
        ({"wire": "external"}, Testbed(isolation="a lab"), "not looked at"),
        (
            {"wire": "veth"},
            Testbed(isolation="a lab", hosts={"m": HostConfig(transport="ssh=m")}),
            "not looked at",
        ),
        ({"wire": "veth", "cluster": True}, Testbed(isolation="a lab"), "not looked at"),
    ],
)
def test_isolation_is_met_where_the_run_knows_it_and_not_by_a_statement(
    plan: dict[str, Any], testbed: Testbed, status: str
) -> None:
    traffic, graph = TrafficProfile(), make_deployment("phy2phy")
    scenario = Scenario(deployment=graph, vswitch="switch", traffic=traffic)
    vswitch = {"cluster": {}} if plan.pop("cluster", False) else {}
    placed = {"placement": {"mode": "shared", "cores": {}}} if plan else {}
    facts = ScenarioFacts(scenario="phy2phy_switch", plan=plan | placed, facts={"vswitch": vswitch})
    record = ScenarioRecord(scenario=scenario, facts=facts)
    run = RunRecord.model_construct(testbed=testbed, preset=PRESET)
    (found,) = rfc6815_isolation([record], run)
    assert found.status == status
    assert testbed.isolation in found.value
    assert ("not checked" in found.value) is (status == "not looked at")


def test_two_names_of_one_machine_are_not_apart() -> None:
    hosts = {name: HostConfig(transport=f"ssh={name}") for name in ("m1", "m2")}
    testbed = Testbed(hosts=hosts, cables=(CableConfig(ends=("m1:eth1", "m2:eth1")),))
    parts = {"m1": "tester", "m2": "dut"}
    for machines, status in (({"m2": "m2"}, "met"), ({"m2": "m1"}, "deviated")):
        ledger = _setup(TrafficProfile(), testbed=testbed, hosts=parts, machines=machines)
        assert ledger["section 6"][0] == status


def deployed(
    scenario: Scenario,
    hosts: dict[str, str] | None = None,
    machines: dict[str, str] | None = None,
) -> ScenarioRecord:
    machines = machines or {}
    of_host = {
        name: {"parts": parts, "machine of": machines.get(name, name)}
        for name, parts in (hosts or {}).items()
    }
    facts = {"hosts": of_host} if hosts else {}
    return ScenarioRecord(scenario=scenario, facts=ScenarioFacts(scenario=scenario.id, facts=facts))


def _setup(
    profile: TrafficProfile,
    *,
    imix: str = "",
    uncollected: dict[str, str] | None = None,
    forwarding: Literal["l2", "l3"] = "l2",
    generator: str = "loadgen",
    testbed: Testbed | None = None,
    hosts: dict[str, str] | None = None,
    machines: dict[str, str] | None = None,
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
        scenario="phy2phy_switch",
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
        for entry in derive_ledger(run, [deployed(scenario, hosts, machines)], [result], [])
    }


SIDES = ("phy0->phy1", "phy1->phy0")
#: What the simulated DUT forwards, frames/s per interface.
CAPACITY = 700e3
MEDIA = LinkSpeed(10e9)


class WrittenLog:
    """The log of a run that did what its preset says, on a DUT that forwards `CAPACITY`.

    Args:
        preset: The preset; another than the run's shows what a ledger makes of other trials.
    """

    def __init__(self, preset: Preset) -> None:
        self.preset = preset
        self.tests: list[LoggedTest] = []
        self.searches: dict[int, Result] = {}
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._trials = 0

    def measured(self, test: str, size: int, scenario: str = "pvp_x") -> Result:
        """A test of the log and its result."""
        begin: dict[str, Any] = {
            "search": len(self.tests) + 1,
            "scenario": scenario,
            "test": test,
            "frame_size": size,
            "directions": 2,
            "overhead": 0,
        }
        if test == "throughput":
            return self._searched(begin)
        known = None
        if load_test(test).needs_throughput(self.preset):
            found = self.measured("throughput", size, scenario)
            number = self.tests[-1].begin.search
            goal = next((g for g in found.goals if not g.loss_ratio), found.goals[0])
            load = (goal.lower_bound_fps or 0.0) / 2
            known = KnownThroughput(load_fps=load, search=number, goal=goal.name)
        inputs = {
            "parameters": load_test(test).parameters(self.preset).model_dump(),
            "throughput": known and known.model_dump(),
        }
        begin["search"] = len(self.tests) + 1
        logged: LoggedTest = Logged(ProcedureRecord(**begin, inputs=inputs))
        for request in requests_of(self.preset, test, known.load_fps if known else CAPACITY):
            self._run(logged, request, 0.0)
        self.tests.append(logged)
        common = {k: v for k, v in begin.items() if k not in ("search", "directions", "overhead")}
        return Result.model_validate(
            {**common, "verdicts": {"VALID": 1}, "media_max_fps": 1e6}
            | found_of(self.preset, test, [t.number for t in logged.trials])
        )

    def _searched(self, begin: dict[str, Any]) -> Result:
        preset, limits = self.preset, self.preset.limits(1e7)
        record = SearchRecord(
            **begin, algorithm=preset.algorithm, goals=preset.goals, limits=limits
        )
        logged: LoggedTest = Logged(record)
        search = make_search(preset.algorithm, preset.goals, limits)
        for outcome in run(search, SimulatedDut(CAPACITY))[1]:
            self._run(logged, outcome.request, outcome.loss_ratio)
        logged.end = SearchEndRecord(search=record.search, wall_s=1.0)
        self.tests.append(logged)
        return derive_result(logged, MEDIA)

    def _run(self, logged: LoggedTest, request: TrialRequest, loss_ratio: float) -> None:
        times, self._trials = self.preset.trial, self._trials + 1
        sent = request.burst or max(1, round(request.load_fps * request.duration_s))
        lost = round(sent * loss_ratio)
        wall = times.learning_wait_s + request.duration_s + times.drain_s
        counts = [
            DirectionCounts(
                direction=direction,
                intended=sent,
                sent=sent,
                refused=0,
                unsent=0,
                received=sent - lost,
                latency=Latency(count=sent, min_ns=1, mean_ns=2, max_ns=3),
            )
            for direction in (0, 1)
        ]
        logged.trials.append(
            TrialRecord(
                number=self._trials,
                search=logged.begin.search,
                spec=TrialSpec(
                    **request.model_dump(),
                    frame_size=logged.begin.frame_size,
                    drain_s=times.drain_s,
                    full_drain=times.full_drain,
                    learning_frames=64,
                    learning_wait_s=times.learning_wait_s,
                ),
                result=TrialResult(directions=tuple(counts), wall_s=wall, drain_s=times.drain_s),
                verdict=Verdict.VALID,
                started=self._now.isoformat(timespec="milliseconds"),
            )
        )
        pause = max(times.settle_s, request.idle_s)
        self._now += timedelta(seconds=wall + pause)


def requests_of(preset: Preset, test: str, load_fps: float) -> list[TrialRequest]:
    """The trials of a test that does what its preset says."""
    latency, b2b, recovery, soak = preset.latency, preset.back_to_back, preset.recovery, preset.soak
    overload = recovery.overload * load_fps
    after = LoadStep(load_fps=overload * recovery.relaxed, duration_s=recovery.relaxed_s)
    steps = (after, LoadStep(load_fps=overload, duration_s=recovery.overload_s), after)
    each: dict[str, tuple[int, dict[str, Any]]] = {
        "latency": (
            latency.repeats,
            {"duration_s": latency.duration_s, "tag_at_s": latency.tag_at_s},
        ),
        "frame_loss": (2, {"duration_s": preset.frame_loss.duration_s}),
        "back_to_back": (
            b2b.searches,
            {"duration_s": 1e-4, "burst": 100 * b2b.step_frames, "idle_s": b2b.idle_s},
        ),
        "recovery": (
            recovery.repeats,
            {
                "load_fps": overload,
                "duration_s": recovery.overload_s + 2 * recovery.relaxed_s,
                "steps": steps,
            },
        ),
        "reset": (2, {"duration_s": 10.0, "load_fps": preset.reset.share * load_fps}),
        "mrr": (preset.mrr.repeats, {"duration_s": preset.mrr.duration_s}),
        "soak": (round(soak.duration_s / soak.trial_s), {"duration_s": soak.trial_s}),
        "cpu_load": (preset.cpu_load.repeats, {"duration_s": preset.cpu_load.duration_s}),
    }
    count, request = each.get(test, (2, {"duration_s": preset.rfc2889.duration_s}))
    return [TrialRequest(**{"load_fps": load_fps, **request}) for _ in range(count)]


def found_of(preset: Preset, test: str, trials: list[int]) -> dict[str, Any]:
    """What such a test finds."""
    latency, b2b, recovery, soak = preset.latency, preset.back_to_back, preset.recovery, preset.soak
    one = Latency(count=10_000, min_ns=1, mean_ns=2, max_ns=3)
    summed = over_trials([1.0] * len(trials))
    varied = DelayVariation(pdv_ns=1, pdv=summed, ipdv_min_ns=-1, ipdv_median_ns=0, ipdv_max_ns=1)
    rate = ForwardingRate(
        load_fps=2e6,
        of="load",
        duration_s=1,
        forwarded_fps=spread([1e6]),
        loss_ratio=spread([0.5]),
        trials=tuple(trials),
    )
    found: dict[str, dict[str, Any]] = {
        "latency": {
            "latency_at": (
                LatencyAt(
                    load_fps=1e6,
                    of="throughput",
                    tag_at_s=latency.tag_at_s,
                    repeats=latency.repeats,
                    latency=dict.fromkeys(SIDES, one),
                    typical=dict.fromkeys(SIDES, summed),
                    worst_case=dict.fromkeys(SIDES, summed),
                    variation=dict.fromkeys(SIDES, varied),
                    trials=tuple(trials),
                ),
            )
        },
        "frame_loss": {
            "loss_steps": tuple(
                LossStep(
                    load_fps=1e6 * s,
                    input_ratio=s,
                    loss_ratio=0.0,
                    forwarded_fps=1e6 * s,
                    trials=(number,),
                )
                for s, number in zip((1.0, 0.9), trials, strict=False)
            )
        },
        "cpu_load": {"cpu_load": CpuLoad(at=())},
        "back_to_back": {
            "back_to_back": BackToBack(
                frames=spread([100.0] * b2b.searches),
                step_frames=b2b.step_frames,
                max_burst_frames=10_000,
                throughput_fps=1e6,
                implied_s=2e-4,
                corrected_s=2e-4,
                rfc9004_implied_s=1e-4,
                rfc9004_corrected_s=1e-5,
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
                last_lost_s=spread([0.1] * recovery.repeats),
                usual_loss=0.0,
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
                trials=tuple(trials),
            )
        },
        "address_caching": {"addresses": AddressTable(addresses=9, learning_fps=1.0)},
        "address_learning": {"addresses": AddressTable(addresses=9, learning_fps=1.0)},
        "connection_rate": {"sessions": SessionTable(sessions=9, rate_per_s=1.0, rates=(1.0,))},
        "session_capacity": {"sessions": SessionTable(sessions=9, rate_per_s=1.0)},
    }
    return found[test]


def ledger(
    preset: Preset,
    results: list[Result],
    log: WrittenLog,
    profile: TrafficProfile | None = None,
) -> list[LedgerEntry]:
    scenario = Scenario(
        deployment=make_deployment("pvp"), vswitch="x", traffic=profile or TrafficProfile()
    )
    run = RunRecord.model_construct(testbed=Testbed(), preset=preset)
    return derive_ledger(run, [deployed(scenario)], results, log.tests)


def ledger_of_tests(
    preset: Preset, *cases: tuple[str, int], log: WrittenLog | None = None
) -> dict[str, LedgerEntry]:
    """Clause -> the ledger's last entry of it, of a run of tests at frame sizes."""
    log = log or WrittenLog(preset)
    results = [log.measured(test, size) for test, size in cases]
    return {entry.clause: entry for entry in ledger(preset, results, log)}


def shipped(name: str) -> Preset:
    return config.load_model(Preset, config.find_file("presets", name))


@pytest.mark.parametrize("name", config.available("presets"))
def test_a_run_that_does_all_a_preset_asks_for_meets_what_it_says(name: str) -> None:
    preset = shipped(name)
    log = WrittenLog(preset)
    results = [log.measured(t, size) for t in preset.tests for size in preset.sizes_of(t)]
    found = ledger(preset, results, log)
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
    log = WrittenLog(preset)
    found = ledger(preset, [log.measured(t, 64) for t in preset.tests], log)
    absent = {e.clause: e.status for e in found if e.value == "the run has no result of this test"}
    assert absent == {
        f"RFC 2544 section {TESTS[t]}": "not applicable"
        for t in ("latency", "frame_loss", "recovery", "reset")
    }


@pytest.mark.parametrize(
    ("nat", "makes", "said"),
    [
        (False, False, ""),
        (True, False, "where the DUT does not hold all sessions already"),
        (True, True, "none before trials that make the DUT's sessions"),
    ],
)
def test_learning_frames_that_a_nat_was_not_sent_are_no_learning(
    nat: bool, makes: bool, said: str
) -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("connection_rate", 64)
    for test in log.tests:
        for place, trial in enumerate(test.trials):
            spec = trial.spec.model_copy(update={"new_sessions": makes})
            test.trials[place] = trial.model_copy(update={"spec": spec})
    scenario = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="x",
        traffic=TrafficProfile(),
        change=Nat() if nat else None,
    )
    run = RunRecord.model_construct(testbed=Testbed(), preset=preset)
    found = {e.clause: e for e in derive_ledger(run, [deployed(scenario)], [result], log.tests)}
    clause = found["RFC 2544 section 23 b"]
    assert clause.status == ("deviated" if said else "met")
    assert said in clause.value
    assert bool(clause.reason) == bool(said)


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
    log = WrittenLog(preset)
    good, bad = (log.measured("throughput", size) for size in (64, 128))
    irregular = bad.goals[0].model_copy(update={"regular": False, "reason": "the run was cut"})
    bad = bad.model_copy(update={"goals": (irregular,)})
    found = ledger(preset, [good, bad], log)
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


def test_a_trial_counts_by_its_own_length_whatever_the_preset_asks_for() -> None:
    preset = shipped("mlr-strict")
    (goal,) = preset.goals
    short = preset.model_copy(update={"goals": (replace(goal, final_trial_s=7.0),)})
    found = ledger_of_tests(preset, ("throughput", 64), log=WrittenLog(short))
    times, clause = found["RFC 2544 section 24"], found["RFC 2544 section 26.1"]
    assert (times.status, times.value) == ("deviated", "7 s")
    assert clause.status == "deviated"
    assert "has trials of 7 s" in clause.reason


def test_a_result_at_the_generators_limit_is_no_throughput(texts: Texts) -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("throughput", 64)
    limit = result.goals[0].model_copy(update={"regular": False, "qualifier": "at least"})
    found = ledger(preset, [result.model_copy(update={"goals": (limit,)})], log)
    (clause,) = [e for e in found if e.clause == "RFC 2544 section 26.1"]
    assert clause.status == "deviated"
    texts.check(clause.value)


def test_what_could_not_be_reset_stands_beside_what_was(texts: Texts) -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("reset", 64)
    why = "a memif wire has no link that can be taken down"
    lacking = Reset(what="link phy0", type="hardware: interface", load_fps=1e6, why=why)
    both = result.model_copy(update={"resets": (*result.resets, lacking)})
    found = {e.clause: e for e in ledger(preset, [both], log)}
    methods = found["RFC 6201, methods"]
    texts.check(methods.value)


@pytest.mark.parametrize(("disturbed", "why"), [((), "was offered in trial"), (None, "")])
def test_a_reset_at_less_than_the_throughput_is_none_at_it(
    disturbed: tuple[int, ...] | None, why: str
) -> None:
    """Trials that offered less count; those in which the tester stood still too long do not."""
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("reset", 64)
    trials = log.tests[-1].trials
    short = [
        d.model_copy(update={"sent": d.sent // 2, "unsent": d.sent // 2, "received": d.sent // 2})
        for d in trials[0].result.directions
    ]
    trials[0] = trials[0].model_copy(
        update={
            "verdict": Verdict.GENERATOR_LIMITED,
            "spec": trials[0].spec.model_copy(update={"offered_tolerance": 0.001}),
            "result": trials[0].result.model_copy(update={"directions": tuple(short)}),
        }
    )
    left_out = (trials[0].number,) if disturbed is None else disturbed
    resets = tuple(one.model_copy(update={"disturbed": left_out}) for one in result.resets)
    update = {"resets": resets, "search": log.tests[-1].begin.search}
    found = {e.clause: e for e in ledger(preset, [result.model_copy(update=update)], log)}
    clause = found["RFC 2544 section 26.6, load"]
    assert clause.status == ("deviated" if why else "met")
    assert why in clause.reason


#: Clauses that speak of the throughput: test -> clause.
OF_THE_THROUGHPUT = {
    "latency": "RFC 2544 section 26.2, load",
    "back_to_back": "RFC 9004, prerequisites",
    "recovery": "RFC 2544 section 26.5, overload",
    "reset": "RFC 2544 section 26.6, load",
}


@pytest.mark.parametrize("test", OF_THE_THROUGHPUT)
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"loss_ratio": 0.01}, "tolerates loss ratio 0.01"),
        ({"exceed_ratio": 0.5}, "exceed ratio 0.5"),
        ({"initial_trial_s": 1.0, "final_trial_s": 1.0}, "has trials of 1 s"),
    ],
)
def test_loads_at_the_throughput_are_met_only_where_it_is_one(
    test: str, change: dict[str, Any], why: str
) -> None:
    preset = shipped("rfc2544")
    goals = (replace(preset.goals[0], **change),)
    lenient = preset.model_copy(update={"goals": goals, "algorithm": "mlr"})
    found = ledger_of_tests(preset, (test, 64), log=WrittenLog(lenient))
    clause = found[OF_THE_THROUGHPUT[test]]
    assert clause.status == ("deviated" if why else "met")
    assert why in clause.reason


def test_a_bound_that_lost_frames_in_the_sweep_is_no_throughput() -> None:
    log = WrittenLog(shipped("rfc2544"))
    result = log.measured("throughput", 64)
    assert ledger_status(log, result, "RFC 2544 section 26.1") == "met"
    test = log.tests[-1]
    at = result.goals[0].trials_at_lower_bound[-1]
    trial = next(t for t in test.trials if t.number == at)
    first, second = trial.result.directions
    lossy = first.model_copy(update={"received": first.sent - 5})
    counted = trial.result.model_copy(update={"directions": (lossy, second)})
    spec = trial.spec.model_copy(update={"phase": "sweep"})
    again = {"number": trial.number + 1000, "spec": spec, "result": counted}
    test.trials.append(trial.model_copy(update=again))
    assert ledger_status(log, result, "RFC 2544 section 26.1") == "deviated"


def ledger_status(log: WrittenLog, result: Result, clause: str) -> str:
    return next(e.status for e in ledger(log.preset, [result], log) if e.clause == clause)


def test_a_latency_trial_that_lost_frames_was_not_at_the_throughput() -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("latency", 64)
    test = log.tests[-1]
    trial = test.trials[3]
    first, second = trial.result.directions
    lossy = first.model_copy(update={"received": first.sent - 5})
    counted = trial.result.model_copy(update={"directions": (lossy, second)})
    test.trials[3] = trial.model_copy(update={"result": counted})
    found = {e.clause: e for e in ledger(preset, [result], log)}
    clause = found["RFC 2544 section 26.2, load"]
    assert clause.status == "deviated"
    assert f"in trial {trial.number}" in clause.reason
    assert found["RFC 8219, latency"].status == "deviated"


def test_what_a_test_did_counts_and_not_what_its_preset_says() -> None:
    preset = shipped("rfc2544")
    hasty = preset.model_copy(
        update={
            "latency": LatencyTest(duration_s=30, tag_at_s=10, repeats=4),
            "back_to_back": preset.back_to_back.model_copy(update={"idle_s": 0.1}),
            "recovery": preset.recovery.model_copy(update={"overload_s": 6.0}),
            "frame_loss": preset.frame_loss.model_copy(update={"duration_s": 2.0}),
            "reset": preset.reset.model_copy(update={"share": 0.5}),
            "trial": TrialTimes(learning_wait_s=0, drain_s=0.1, full_drain=False, settle_s=0.5),
        }
    )
    tests = ("latency", "frame_loss", "back_to_back", "recovery", "reset")
    found = ledger_of_tests(preset, *((t, 128) for t in tests), log=WrittenLog(hasty))
    for clause, value in {
        "RFC 2544 section 9.1": "128",
        "RFC 2544 section 23 b": "64 frames per stream, then 0 s",
        "RFC 2544 section 23 d": "0.1 s at the least, less once all frames are back",
        "RFC 2544 section 23 e": "0.5 s at the least",
        "RFC 2544 section 24": "2 s",
        "RFC 2544 section 26.2, stream": "30 s, looked at after 10 s",
        "RFC 2544 section 26.2, repeats": "4 repeats",
        "RFC 8219, latency": "10000 frames or more after 10 s of 30 s, of 4 trials",
        "RFC 9004, depletion": "0.5 s at the least",
        "RFC 2544 section 26.5, overload": "110.0% for 6 s",
        "RFC 2544 section 26.6, load": "50% of the throughput",
        "RFC 2544 section 26.6, frame size": "128 octets",
    }.items():
        entry = found[clause]
        assert (entry.status, entry.value) == ("deviated", entry.value), clause
        if "frames or more" not in value:
            assert entry.value == value, clause


@pytest.mark.parametrize(("burst_s", "status"), [(0.5, "met"), (8.0, "deviated")])
def test_a_burst_is_given_as_long_to_empty_as_it_took(burst_s: float, status: str) -> None:
    preset = shipped("rfc9004")
    log = WrittenLog(preset)
    shown = log.measured("back_to_back", 64)
    bursts = log.tests[-1].trials
    pause_s = min(s for _, s in pauses_after(bursts))
    assert 2.0 <= pause_s < 8.0
    bursts[:] = [
        t.model_copy(update={"spec": t.spec.model_copy(update={"duration_s": burst_s})})
        for t in bursts
    ]
    (entry,) = (e for e in ledger(preset, [shown], log) if e.clause == "RFC 9004, depletion")
    assert entry.status == status
    assert ("set back_to_back.idle_s to 8" in entry.reason) is (status == "deviated")


def test_delay_variation_of_a_soak_is_that_of_each_trial() -> None:
    preset = shipped("soak")
    short = preset.soak.model_copy(update={"trial_s": 10.0})
    log = WrittenLog(preset.model_copy(update={"soak": short}))
    clause = ledger_of_tests(preset, ("soak", 64), log=log)["RFC 5481, packet delay variation"]
    assert (clause.status, clause.value) == ("deviated", "over 10 s of each trial")
    whole = ledger_of_tests(preset, ("soak", 64))["RFC 5481, packet delay variation"]
    assert (whole.status, whole.value) == ("met", "over 60 s of each trial")


@pytest.mark.parametrize("test", ["latency", "soak"])
def test_delay_variation_of_one_direction_is_not_that_of_both(test: str) -> None:
    preset = shipped("rfc2544" if test == "latency" else test)
    log = WrittenLog(preset)
    result = log.measured(test, 64)
    trials = log.tests[-1].trials
    first, second = trials[0].result.directions
    silent = second.model_copy(update={"latency": None})
    for place, trial in enumerate(trials):
        counted = trial.result.model_copy(update={"directions": (first, silent)})
        trials[place] = trial.model_copy(update={"result": counted})
    forth = {SIDES[0]: DelayVariation(pdv_ns=1, ipdv_min_ns=-1, ipdv_median_ns=0, ipdv_max_ns=1)}
    if result.soak is not None:
        soak = result.soak.model_copy(update={"variation": forth})
        result = result.model_copy(update={"soak": soak})
    else:
        (at,) = result.latency_at
        at = at.model_copy(update={"variation": forth})
        result = result.model_copy(update={"latency_at": (at,)})
    found = {e.clause: e for e in ledger(preset, [result], log)}
    for clause in ("RFC 5481, packet delay variation", "RFC 8219, inter packet delay variation"):
        entry = found[clause]
        assert (entry.status, entry.value) == ("deviated", "not of each direction"), clause


@pytest.mark.parametrize(
    ("load_fps", "ipdv", "status", "said"),
    [
        (1e5, (-900.0, 0.0, 60e3, 300.0), "met", ""),
        (
            6e5,
            (-80e3, -924.0, 1e6, 33.9e3),
            "deviated",
            "33.90 µs apart (mean of a trial), while a",
        ),
        (1e3, (-19e3, 0.0, 21e3, 20e3), "deviated", "no difference is larger"),
        (1e3, (-19e3, 0.0, 90e3, 20e3), "met", ""),
    ],
)
def test_delay_variation_of_frames_is_held_to_arrivals_as_to_departures(
    load_fps: float, ipdv: tuple[float, ...], status: str, said: str
) -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("latency", 64)
    names = ("min", "median", "max", "resolution")
    told = dict(zip(names, ipdv, strict=True)) | {"shared": 0.0}
    trials = log.tests[-1].trials
    for place, trial in enumerate(trials):
        directions = tuple(
            counts.model_copy(
                update={
                    "latency": counts.latency and counts.latency.model_copy(update={"ipdv": told})
                }
            )
            for counts in trial.result.directions
        )
        trials[place] = trial.model_copy(
            update={
                "spec": trial.spec.model_copy(update={"load_fps": load_fps}),
                "result": trial.result.model_copy(update={"directions": directions}),
            }
        )
    least, middle, most, resolution = ipdv
    variation = DelayVariation(
        pdv_ns=1,
        ipdv_min_ns=least,
        ipdv_median_ns=middle,
        ipdv_max_ns=most,
        ipdv_resolution_ns=resolution,
    )
    (at,) = result.latency_at
    at = at.model_copy(update={"variation": dict.fromkeys(SIDES, variation)})
    result = result.model_copy(update={"latency_at": (at,)})
    clause = "RFC 8219, inter packet delay variation"
    (entry,) = (e for e in ledger(preset, [result], log) if e.clause == clause)
    assert (entry.status, said in entry.reason) == (status, True)
    assert entry.value.startswith("reported, at a resolution of ")


def test_sizes_are_those_that_each_test_measured() -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    cases = [("throughput", size) for size in (64, 128, 256, 512, 1024)] + [("frame_loss", 64)]
    results = [log.measured(test, size) for test, size in cases]
    sizes = [e for e in ledger(preset, results, log) if e.clause == "RFC 2544 section 9.1"]
    assert [(e.test, e.status, e.value) for e in sizes] == [
        ("throughput", "met", "64, 128, 256, 512, 1024"),
        ("frame_loss", "deviated", "64"),
    ]


def test_an_unmarked_irregular_result_is_a_deviation() -> None:
    preset = shipped("mlr-strict")
    log = WrittenLog(preset)
    result = log.measured("throughput", 64)
    far = {"upper_bound_fps": 3e6, "upper_bound_load_fps": 3e6}
    wide = result.goals[0].model_copy(update=far)
    found = {
        e.clause: e
        for e in ledger(preset, [result.model_copy(update={"goals": (wide,)})], log)
        if e.clause.startswith("RFC 9971")
    }
    assert found["RFC 9971, irregular results"].status == "deviated"
    assert found["RFC 9971, goal attributes"].status == "met"
    assert found["RFC 9971, load"].status == "met"


def _lacks_frames(number: int, result: TrialResult) -> TrialResult:
    """A trial in which one direction, another each time, offers 0.01 % less than its load."""
    directions = list(result.directions)
    one = directions[number % 2]
    lacking = max(1, one.sent // 10_000)
    fewer = {
        "sent": one.sent - lacking,
        "unsent": one.unsent + lacking,
        "received": min(one.received, one.sent - lacking),
    }
    directions[number % 2] = one.model_copy(update=fewer)
    return result.model_copy(update={"directions": tuple(directions)})


def test_a_load_that_was_almost_offered_is_no_deviation(tmp_path: Path) -> None:
    """The search steps by intended loads: offered bounds may lie a little farther apart."""
    agent = FakeAgent()
    agent.spoil = _lacks_frames
    twice = PRESET.model_copy(update={"goals": (replace(PRESET.goals[0], duration_sum_s=2.0),)})
    bench = Bench(tmp_path, agent, configuration(twice))
    (goal,) = bench.throughput().goals
    assert goal.regular
    low, high = goal.lower_bound_fps or 0.0, goal.upper_bound_fps or 0.0
    assert high - low > goal.width * high > 0.0
    assert sum(d.lower_bound_fps or 0.0 for d in goal.per_direction) < low
    entries = {e.clause: (e.status, e.reason) for e in bench.derived().ledger}
    assert entries["RFC 9971, irregular results"] == ("met", "")
    assert entries["RFC 9971, load"] == ("met", "")


def test_directions_that_do_not_add_up_are_a_deviation() -> None:
    preset = shipped("mlr-strict")
    log = WrittenLog(preset)
    result = log.measured("throughput", 64)
    goal = result.goals[0]
    assert goal.lower_bound_fps is not None
    for share, status in ((0.5, "met"), (0.49, "deviated"), (0.51, "deviated")):
        bound = DirectionBound(
            direction="phy0->phy1",
            lower_bound_fps=share * goal.lower_bound_fps,
            upper_bound_fps=None,
            conditional_throughput_fps=None,
        )
        wrong = goal.model_copy(update={"per_direction": (bound, bound)})
        (entry,) = [
            e
            for e in ledger(preset, [result.model_copy(update={"goals": (wrong,)})], log)
            if e.clause == "RFC 9971, load"
        ]
        assert entry.status == status, share


@pytest.mark.parametrize(
    ("faults", "status", "said"),
    [
        (FrameFaults(), "deviated", "lengths were not compared"),
        (FrameFaults(altered=0, verified=900), "met", "the payload of 900: all as sent"),
        (
            FrameFaults(altered=7, duplicated=2, reordered=3, foreign=4, verified=9),
            "met",
            "3 reordered, 2 duplicated, 7 altered, 4 foreign",
        ),
    ],
)
def test_received_frames_are_verified_where_their_length_was_compared(
    faults: FrameFaults, status: str, said: str
) -> None:
    preset = shipped("mlr-strict")
    log = WrittenLog(preset)
    result = log.measured("throughput", 64).model_copy(update={"faults": faults})
    found = {e.clause: e for e in ledger(preset, [result], log)}
    clause = found["RFC 2544 section 10"]
    assert clause.status == status
    assert said in f"{clause.value} {clause.reason}"


@pytest.mark.parametrize("test", ["throughput", "mrr"])
def test_frames_that_are_not_numbered_are_not_verified_by_any_test(test: str) -> None:
    """A test without goals tells it by its trials; lengths and payloads may be compared."""
    preset = shipped("quick")
    log = WrittenLog(preset)
    result = log.measured(test, 64).model_copy(update={"faults": CLEAN})
    why = "not measured: it puts no number into its frames"
    for logged in log.tests:
        for place, trial in enumerate(logged.trials):
            counted = trial.result.model_copy(update={"uncollected": {"duplicated": why}})
            logged.trials[place] = trial.model_copy(update={"result": counted})
    (clause,) = [e for e in ledger(preset, [result], log) if e.clause == "RFC 2544 section 10"]
    assert (clause.status, clause.value) == ("deviated", why)


def test_a_case_that_ended_inconsistent_is_named_though_it_was_not_measured(texts: Texts) -> None:
    preset = shipped("mlr-strict")
    log = WrittenLog(preset)
    good = log.measured("throughput", 64).model_copy(update={"faults": CLEAN})
    failed = log.measured("throughput", 512)
    test = log.tests[-1]
    test.trials[-1] = test.trials[-1].model_copy(update={"verdict": Verdict.INCONSISTENT})
    end = SearchEndRecord(search=test.begin.search, wall_s=1.0, superseded=True)
    test.end = end  # as the conductor ends a test that failed
    lost = Result(scenario="pvp_x", test="throughput", frame_size=512, status="not measured")
    (entry,) = [e for e in ledger(preset, [good, lost], log) if e.clause == "RFC 2544 section 10"]
    assert entry.status == "met"
    texts.check(entry.value, "beside a result")
    (alone,) = [e for e in ledger(preset, [lost], log) if e.clause == "RFC 2544 section 10"]
    assert alone.status == "not applicable"
    texts.check(alone.value, "alone")
    assert failed.frame_size == 512


@pytest.mark.parametrize(("burst", "status"), [(1, "met"), (16, "deviated")])
def test_frames_in_groups_are_no_constant_load(burst: int, status: str) -> None:
    log = WrittenLog(shipped("quick"))
    log.measured("mrr", 64)
    send = Gaps(max_s=1e-6, hold_s=1e-3)
    gaps = TrialGaps(poll=send, send=send, catch_up_frames=1024)
    trials = [
        trial.model_copy(update={"result": trial.result.model_copy(update={"gaps": gaps})})
        for trial in log.tests[-1].trials
    ]
    scenario = Scenario(
        deployment=make_deployment("pvp"), vswitch="x", traffic=TrafficProfile(burst=burst)
    )
    (clause,) = constant_load(trials, [deployed(scenario)])
    assert clause.status == status
    assert ("groups of 16" in clause.reason) == (burst > 1)


@pytest.mark.parametrize(("frames", "status"), [(1.0, "met"), (121.0, "deviated"), (None, "met")])
def test_groups_of_a_tester_that_takes_turns_are_told(frames: float | None, status: str) -> None:
    log = WrittenLog(shipped("quick"))
    log.measured("mrr", 64)
    send = Gaps(max_s=1e-6, hold_s=1e-3)
    turns = TesterTurns(
        length_us=100, per_s=7e3, asleep=0.6, prompt=False, refused="Operation not permitted",
        held_back=9, share=0.65, group_frames=frames, most_frames=176,
    )  # fmt: skip
    update = {
        "gaps": TrialGaps(poll=send, send=send, catch_up_frames=1024),
        "turns": None if frames is None else turns,
    }
    trials = [
        trial.model_copy(update={"result": trial.result.model_copy(update=update)})
        for trial in log.tests[-1].trials
    ]
    scenario = Scenario(deployment=make_deployment("pvp"), vswitch="x", traffic=TrafficProfile())
    (clause,) = constant_load(trials, [deployed(scenario)])
    assert clause.status == status
    assert ("each turn of 100 us" in clause.value) == (frames is not None)
    assert ("at most 176 frames" in clause.value) == (frames is not None)
    assert ("held to 65%" in clause.value) == (frames is not None)
    assert ("SCHED_FIFO was refused" in clause.value) == (frames is not None)
    assert ("takes turns" in clause.reason) == (status == "deviated")


CLEAN = FrameFaults(altered=0, verified=900)


@pytest.mark.parametrize("made", [True, False])
def test_sessions_that_were_never_all_there_were_not_validated(made: bool) -> None:
    tried = SessionsTried(
        sessions=100, rate_per_s=10.0, made=made, came=100 * made, held=100 * made, trial=1
    )
    found = SessionTable(sessions=100 * made, rate_per_s=10.0, tried=(tried,))
    looked = cast("Any", SimpleNamespace(result=SimpleNamespace(sessions=found)))
    entries = {e.clause.split(" (")[0]: e for e in rfc9693.session_capacity(looked)}
    validated = entries["RFC 9693 section 4.6"]
    assert validated.status == ("met" if made else "deviated")
    assert made or entries["RFC 9693 section 4.9"].reason == "not even one session was held"


def test_sessions_count_where_the_generator_left_some_out_of_every_trial() -> None:
    """Up to 1 % may be left out, which is more than a trial's verdict tolerates."""
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("connection_rate", 64)
    test = log.tests[-1]
    limited = {"verdict": Verdict.GENERATOR_LIMITED}
    test.trials = [trial.model_copy(update=limited) for trial in test.trials]
    tried = tuple(
        SessionsTried(sessions=9, rate_per_s=1.0, made=True, came=9, held=9, trial=trial.number)
        for trial in test.trials
    )
    sessions = SessionTable(sessions=9, rate_per_s=1.0, rates=(1.0,), tried=tried)
    update = {"sessions": sessions, "verdicts": {"GENERATOR_LIMITED": len(tried)}}
    found = {e.clause: e for e in ledger(preset, [result.model_copy(update=update)], log)}
    by_section = {clause.split(" (")[0]: entry for clause, entry in found.items()}
    assert by_section["RFC 9693 section 4.6"].status == "met"
    assert found["RFC 2544 section 8"].status == "met"
    assert found["RFC 2544 section 23 d"].value == "2 s at the least"


def test_a_test_is_held_against_what_its_own_round_was_given() -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    shown = log.measured("reset", 64)
    log.measured("reset", 64)  # of the next round
    resets = [test for test in log.tests if test.begin.test == "reset"]
    for test, load in zip(resets, (1e6, 2e6), strict=True):
        begin = cast("ProcedureRecord", test.begin)
        given = {**begin.inputs, "throughput": {"load_fps": load}}
        test.begin = begin.model_copy(update={"inputs": given})
    logged = LoggedTrials(log.tests)
    for test, load in zip(resets, (1e6, 2e6), strict=True):
        result = shown.model_copy(update={"search": test.begin.search})
        assert logged.shown_inputs(result)["throughput"]["load_fps"] == load


def test_each_kind_of_fault_is_counted_by_itself() -> None:
    counted = {"duplicated": 1, "reordered": 2, "late": 3, "misrouted": 4, "altered": 5}
    direction = DirectionCounts(
        direction=0, intended=9, sent=9, refused=0, unsent=0, received=9, **counted
    )
    new = TrialResult(directions=(direction,), foreign={"0": 6}, corrupted=7, stale=8, verified=9)
    found = count_faults([new, new])
    assert found == FrameFaults(
        **{name: 2 * n for name, n in counted.items()},
        corrupted=14,
        foreign=12,
        stale=16,
        verified=18,
    )
    # An older log: what it has not recorded is not known, and its foreign are other frames too.
    old = TrialResult(
        directions=(direction.model_copy(update={"altered": None}),), foreign={"0": 6}
    )
    apart = old.model_copy(update={"uncollected": {"corrupted": "not measured: no streams"}})
    assert count_faults([new, apart]).foreign == 12
    none = apart.model_copy(update={"uncollected": {"corrupted": "x", "foreign": "x"}})
    assert count_faults([new, none]).foreign is None
    known = count_faults([new, old])
    assert (known.duplicated, known.altered, known.corrupted, known.foreign) == (
        2,
        None,
        None,
        None,
    )


def test_clauses_that_nothing_is_derived_of_are_named() -> None:
    found = ledger_of_tests(shipped("mlr-strict"), ("throughput", 64))
    named = {clause for clause, entry in found.items() if entry.status == "not looked at"}
    numbers = {clause.removeprefix("RFC 2544 section ") for clause in named}
    assert {"7", "15", "16", "17", "18", "20", "21", "25", "26, reporting formats"} <= numbers


def test_tst009_reports_each_of_its_inputs() -> None:
    by_clause = ledger_of_tests(shipped("tst009"), ("throughput", 64))
    search = by_clause["ETSI GS NFV-TST 009 section 12.3.2"]
    for word in ("StepSize = 100000 frames/s", "n = 100", "max(r) = 2", "z = unset"):
        assert word in search.value
    assert by_clause["ETSI GS NFV-TST 009 section 12.3.3"].status == "met"


def test_a_reason_stands_beside_each_deviation_and_beside_nothing_else() -> None:
    for name in config.available("presets"):
        preset = shipped(name)
        for entry in ledger_of_tests(preset, *((test, 64) for test in preset.tests)).values():
            assert bool(entry.reason) == (entry.status == "deviated"), entry
            assert entry.value, entry


def test_a_forwarding_rate_of_shares_deviates_and_forward_pressure_is_not_done() -> None:
    preset = shipped("rfc2889")
    log = WrittenLog(preset)
    result = log.measured("forwarding_rate", 64)
    old = tuple(rate.model_copy(update={"searched": False}) for rate in result.rates)
    met, deviated = (
        {e.clause: (e.status, e.value) for e in ledger(preset, [one], log)}
        for one in (result, result.model_copy(update={"rates": old}))
    )
    assert met["RFC 2889 section 5.6"][0] == "met"
    assert deviated["RFC 2889 section 5.6"][0] == "deviated"
    pressure = met["RFC 2889 section 5.6, forward pressure"]
    assert pressure == ("deviated", "not done")


@pytest.mark.parametrize(
    ("losses", "why"),
    [
        ((0.2, 0.1), "frames were lost down to the smallest load"),
        ((0.0,), "no load was tried below the last, which lost nothing"),
        ((0.1, 0.0), "no load was tried below the last, which lost nothing"),
        ((0.0, 0.0), ""),
    ],
)
def test_the_end_of_frame_loss_has_the_reason_that_its_loads_show(
    losses: tuple[float, ...], why: str
) -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("frame_loss", 64)
    steps = tuple(
        result.loss_steps[n].model_copy(update={"loss_ratio": loss})
        for n, loss in enumerate(losses)
    )
    found = {
        e.clause: e for e in ledger(preset, [result.model_copy(update={"loss_steps": steps})], log)
    }
    assert found["RFC 2544 section 26.3, end"].reason == why
    first = found["RFC 2544 section 26.3, first load"]
    assert "the largest load of the test" in first.reason


def test_a_burst_has_the_minimum_gap_of_a_medium_only(texts: Texts) -> None:
    entries = ledger_of_tests(shipped("rfc9004"), ("back_to_back", 64))
    assert entries["RFC 9004, longest burst"].status == "met"
    assert entries["RFC 9004, minimum gap"].status == "deviated"
    texts.check(entries["RFC 9004, minimum gap"].reason)


def test_the_buffer_time_of_the_rfc_is_held_against_it_and_not_the_one_published(
    texts: Texts,
) -> None:
    """Neither slow bursts nor anything else that a note says is why it deviates."""
    preset = shipped("rfc9004")
    log = WrittenLog(preset)
    result = log.measured("back_to_back", 64)
    assert result.back_to_back is not None

    def entry_of(**changes: Any) -> LedgerEntry:
        changes = {"note": "13 of 108 bursts did not count", **changes}
        found = result.back_to_back.model_copy(update=changes) if result.back_to_back else None
        entries = ledger(preset, [result.model_copy(update={"back_to_back": found})], log)
        return next(e for e in entries if e.clause == "RFC 9004, corrected buffer time")

    known = entry_of()
    texts.check(known.value, "value")
    texts.check(known.reason, "reason")
    none = entry_of(rfc9004_corrected_s=None, max_rate_fps=None)
    texts.check(none.value, "no value")
    texts.check(none.reason, "no medium")
    limit = entry_of(rfc9004_corrected_s=None, corrected_s=None, capped=True)
    assert (limit.value, limit.status) == ("none", "deviated")
    texts.check(limit.reason, "limit")


@pytest.mark.parametrize(
    ("changes", "status", "value"),
    [
        ({}, "met", "100.0 ms to the last frame lost"),
        (
            {"last_lost_s": spread([9.0] * 5)},
            "deviated",
            "100.0 ms until no more frames are lost than usual at that load; 9.000 s to the last "
            "frame lost",
        ),
        (
            {"last_lost_s": None, "lost_at_end": (3, 4)},
            "deviated",
            "100.0 ms until no more frames are lost than usual at that load; frames were lost when "
            "trial 3, 4 ended",
        ),
        ({"seconds": None, "last_lost_s": None, "why": "not measured: x"}, "deviated", "none"),
    ],
)
def test_a_recovery_that_does_not_end_with_the_last_lost_frame_deviates(
    changes: dict[str, Any], status: str, value: str, texts: Texts
) -> None:
    preset = shipped("rfc2544")
    log = WrittenLog(preset)
    result = log.measured("recovery", 64)
    assert result.recovery is not None
    found = result.recovery.model_copy(update=changes)
    entries = ledger(preset, [result.model_copy(update={"recovery": found})], log)
    entry = next(e for e in entries if e.clause == "RFC 2544 section 26.5, end")
    assert (entry.status, entry.value) == (status, value)
    if status == "deviated":
        assert entry.reason == found.why or not found.why
        texts.check(entry.reason)


@pytest.mark.parametrize(
    ("bursts", "capped", "why"),
    [
        ([100.0, 10_000.0, 200.0], True, "1 of 3 searches reached it"),
        ([100.0, 9_000.0], False, "within 10% of it"),
        ([100.0, 8_999.0], False, ""),
    ],
)
def test_a_burst_near_the_longest_that_was_tried_is_no_result(
    bursts: list[float], capped: bool, why: str
) -> None:
    preset = shipped("rfc9004")
    log = WrittenLog(preset)
    result = log.measured("back_to_back", 64)
    assert result.back_to_back is not None
    found = result.back_to_back.model_copy(update={"frames": spread(bursts), "capped": capped})
    (entry,) = [
        e
        for e in ledger(preset, [result.model_copy(update={"back_to_back": found})], log)
        if e.clause == "RFC 9004, longest burst"
    ]
    assert entry.status == ("deviated" if why else "met")
    assert why in entry.reason


@pytest.mark.parametrize(("own", "doubted"), [(0.99, False), (0.97, True)])
def test_frames_to_everybody_are_part_of_an_overload(
    own: float, doubted: bool, texts: Texts
) -> None:
    """Of 1000 frames/s one in a hundred goes to everybody, and is in no timeline."""
    after = LoadStep(load_fps=500, duration_s=1)
    steps = (after, LoadStep(load_fps=1000, duration_s=1), after)
    relaxed, overloaded = (round(250 * own),) * 2, (round(500 * own),) * 2
    line = Timeline(
        direction=0,
        bin_s=0.5,
        sent=(*relaxed, *overloaded, *relaxed),
        received=(0,) * 6,
        arrived=(0,) * 6,
    )
    due = DirectionCounts(
        direction=0, intended=1980, sent=1980, refused=0, unsent=0, received=1980, broadcast_sent=20
    )
    trial = SimpleNamespace(
        number=7,
        spec=SimpleNamespace(steps=steps),
        result=SimpleNamespace(timelines=(line,), directions=(due,)),
    )
    looked = ClauseContext(preset="x", result=Result(scenario="x", test="recovery", frame_size=64))
    found = [*_overload_doubts(looked, [cast("Any", trial)])]
    assert bool(found) is doubted
    if doubted:
        texts.check(found)
