"""What a number of a scenario stands for is said beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import machine
from tests.fakes.agent import FakeAgent
from tests.runner.support import PRESET, Bench, configuration
from tests.texts import Texts, lines_with
from vnetperf.analysis.metrics import metrics_of
from vnetperf.analysis.results_from_log import derive, find_skipped_cases
from vnetperf.analysis.run_warnings import TrialWarnings, derive_conditions, derive_warnings
from vnetperf.log.records import (
    EndRecord,
    EnvironmentRecord,
    Record,
    RunRecord,
    ScenarioRecord,
)
from vnetperf.model.machine_load import MachineLoad, ThreadLoad
from vnetperf.model.parameters import SoakTest
from vnetperf.model.result import RunIdentity, ScenarioFacts
from vnetperf.model.testbed import MediaConfig, Testbed
from vnetperf.model.trial import (
    DirectionCounts,
    Gaps,
    HopCounters,
    Latency,
    PortCounts,
    RoundTrip,
    TesterTurns,
    TrialGaps,
    TrialResult,
)
from vnetperf.report.goal_text import rate_rows
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.summary import groups
from vnetperf.report.terminal import terminal_text
from vnetperf.runner.scenarios import make_scenario


def warnings(
    scenario_id: str,
    facts: dict[str, Any] | None = None,
    *,
    environment: EnvironmentRecord | None = None,
    sockets: bool = False,
    plan: dict[str, Any] | None = None,
    **settings: Any,
) -> str:
    loaded = configuration(**settings)
    run = RunRecord(
        identity=RunIdentity(tool="", git="", command="", started="", testbed=""),
        preset=loaded.preset,
        testbed=Testbed(media=MediaConfig(nominal=False)),
        settings={},
        fingerprint="",
        cases=(),
    )
    scenario = make_scenario(scenario_id, loaded).model_copy(update={"sockets": sockets})
    found = ScenarioFacts(scenario=scenario.id, facts=facts or {}, plan=plan or {})
    record = ScenarioRecord(scenario=scenario, facts=found)
    first = [run] if environment is None else [run, environment]
    return "\n".join(derive_warnings(run, [*first, record], [record], TrialWarnings(0.1)))


def conditions(scenario_id: str, facts: dict[str, Any] | None = None, **settings: Any) -> str:
    scenario = make_scenario(scenario_id, configuration(**settings))
    found = ScenarioFacts(scenario=scenario.id, facts=facts or {})
    assert warnings(scenario_id, facts, **settings) == warnings(scenario_id)
    return "\n".join(derive_conditions([ScenarioRecord(scenario=scenario, facts=found)]))


ALL = tuple(f"test_rfc2544.py::test_throughput[pvp_dpdk-{size}]" for size in (64, 512, 1518))


def session(*cases: str, left: tuple[str, ...] | None = (), resumed: bool = True) -> list[Record]:
    """The records of a session; one that was killed, without `left`, has no end."""
    loaded = configuration()
    begin = RunRecord(
        identity=RunIdentity(tool="", git="", command="", started="", testbed=""),
        preset=loaded.preset,
        testbed=Testbed(media=MediaConfig(nominal=False)),
        settings={},
        fingerprint="",
        resumed=resumed,
        cases=cases,
    )
    status = 2 if left and not resumed else 0
    return [begin, *([] if left is None else [EndRecord(ended="", exit_status=status, left=left)])]


@pytest.mark.parametrize(
    ("first", "then", "left"),
    [
        (ALL[1:], [(ALL[0],)], ALL[1:]),  # a narrower -k
        (ALL[1:], [(ALL[0],), (ALL[2],)], ALL[1:2]),
        (ALL[1:], [ALL], ()),
        (ALL[1:], [ALL[1:]], ()),
        (None, [ALL[:2]], ALL[2:]),  # it was killed: which it had run is not known
        (None, [ALL], ()),
        ((), [ALL[:1]], ()),  # it had run all of them
    ],
)
def test_cases_that_a_run_was_continued_without_are_named(
    first: tuple[str, ...] | None, then: list[tuple[str, ...]], left: tuple[str, ...], texts: Texts
) -> None:
    records = session(*ALL, left=first, resumed=False)
    for cases in then:
        records += session(*cases)
    found = [text for text in derive(records).warnings if "interrupted" in text]
    assert [text.partition(": ")[2] for text in found] == [", ".join(left)] * bool(left)
    if left:
        texts.check(found)


ROUNDS = tuple(case.replace("dpdk-", f"dpdk-round{n}-") for n in (1, 2) for case in ALL)
HERE, THERE = (tuple(f"{folder}/{case}" for case in ALL) for folder in ("a", "b"))


@pytest.mark.parametrize(
    ("selected", "then", "left"),
    [
        (ROUNDS, ALL, ROUNDS[3:]),  # without rounds it goes on in the first
        (ALL, ROUNDS, ()),
        (ROUNDS, ROUNDS[:3], ROUNDS[3:]),
        ((*HERE, *THERE), HERE, THERE),
        ((*HERE, *THERE), THERE[1:], (*HERE, THERE[0])),
        (ALL, HERE, ()),  # pytest began in another folder
        (HERE, ALL, ()),
        (("a/b/" + ALL[0],), ("b/" + ALL[0],), ()),
        (HERE, THERE, HERE),
    ],
)
def test_a_case_is_known_again_by_its_file_and_round(
    selected: tuple[str, ...], then: tuple[str, ...], left: tuple[str, ...]
) -> None:
    records = [*session(*selected, left=selected, resumed=False), *session(*then)]
    assert find_skipped_cases(records) == left


def test_a_log_without_cases_is_read_as_before() -> None:
    records = [*session(left=("",), resumed=False), *session()]
    assert not [text for text in derive(records).warnings if "interrupted" in text]


def test_workers_of_one_session_have_run_its_cases_together() -> None:
    one, other = (session(*ALL, left=left, resumed=False) for left in (ALL[:1], ALL[1:]))
    assert find_skipped_cases([*one, *other, *session(ALL[0])]) == ()
    assert find_skipped_cases([*one, *session(ALL[1])]) == ALL[:1]


def test_what_one_round_deployed_is_not_called_undeployed() -> None:
    loaded = configuration()
    scenario = make_scenario("bmp2bmp_host", loaded)
    run = RunRecord(
        identity=RunIdentity(tool="", git="", command="", started="", testbed=""),
        preset=loaded.preset,
        testbed=Testbed(),
        settings={},
        fingerprint="",
        cases=(),
    )
    there = ScenarioFacts(scenario=scenario.id, facts={"vswitch": {"baseline": True}}, deploy_s=2.0)
    failed = ScenarioFacts(scenario=scenario.id, error="the machine is held")
    for order, is_there in (((there, failed), True), ((failed, there), True), ((failed,), False)):
        records = [ScenarioRecord(scenario=scenario, facts=one) for one in order]
        (found,) = derive([run, *records]).scenarios
        assert found == (there if is_there else failed)


def test_nothing_is_said_of_a_scenario_without_conditions() -> None:
    assert "pvp_dpdk" not in warnings("pvp_dpdk")


@pytest.mark.parametrize(("name", "sockets"), [("v2v_bridge", False), ("v2c2v_bridge", True)])
def test_a_tester_in_a_vnfs_place_is_named_where_there_is_one(name: str, sockets: bool) -> None:
    text = warnings(name, sockets=sockets)
    assert ("the tester is in a VNF's place" in text) is not sockets


def test_a_tester_in_the_place_of_pods_is_named_as_that(texts: Texts) -> None:
    texts.check(lines_with(warnings("bmp2bmp_macvlan"), "pod's place"))


def test_a_tester_on_two_hosts_stands_beside_the_numbers() -> None:
    told = "the tester has port 0 on east, port 1 on west: ..."
    assert f"p2c2p_bridge: {told}" in conditions("p2c2p_bridge", {"ports of the tester": told})


def test_a_variable_that_is_named_and_set_nowhere_stands_beside_the_numbers() -> None:
    named = {"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "not set"}
    record = EnvironmentRecord(facts={"variables": {"let through by the testbed": named}})
    text = warnings("pvp_dpdk", environment=record)
    assert "OMP_PROC_BIND" in text
    assert "OMP_NUM_THREADS" not in text


@pytest.mark.parametrize(
    ("source", "warned"),
    [
        ("hpet", True),
        ("kvm-clock", True),
        ("tsc", False),
        ("arch_sys_counter", False),
        (None, False),
        ("unknown: no such file", False),
    ],
)
def test_a_clock_that_is_not_the_processors_counters_stands_beside_the_numbers(
    source: str | None, warned: bool
) -> None:
    facts = {} if source is None else {"kernel": {"clocksource": source}}
    text = warnings("pvp_dpdk", environment=EnvironmentRecord(facts=facts))
    assert ("clock source" in text) is warned
    assert not warned or str(source) in text


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        ({"between": "A and B", "least_ns": -80, "most_ns": 95}, ""),
        ({"between": "A and B", "least_ns": 4910, "most_ns": 5090}, "4910 to 5090 ns apart"),
        ({"between": "A and B", "least_ns": -5090, "most_ns": -4910}, "4910 to 5090 ns apart"),
        ("unknown: the clocks of A and B were not compared", "apart is unknown: the clocks of A"),
        ("the tester's workers are on one socket", ""),
        (None, ""),
    ],
)
def test_clocks_of_sockets_that_are_apart_stand_beside_the_latencies(
    offset: object, text: str
) -> None:
    generator = {} if offset is None else {"clock offset between sockets": offset}
    of_both = {"generator": {}, "hosts": {"east": {"generator": generator}, "west": {}}}
    for facts in ({"generator": generator}, of_both):
        found = warnings("pvp_dpdk", facts)
        assert text in found
        assert ("apart" in found) is bool(text)


def test_a_calibration_over_another_wire_than_the_cables_stands_beside_the_numbers() -> None:
    of_nics = {"wire": "veth", "hosts": [{"wire": "nic"}, {"wire": "nic"}]}
    assert "calibrated over veth" in warnings("phy2phy_dpdk", plan=of_nics)
    within = {"wire": "veth", "hosts": [{"wire": "veth"}, {"wire": "veth"}]}
    assert "calibrated" not in warnings("phy2phy_dpdk", plan=within)


def test_what_was_asked_of_the_vswitch_stands_beside_its_numbers(texts: Texts) -> None:
    text = conditions("phy2phy_dpdk", switch="jumbo", set=("rx_queues=2",), forwarding="l3")
    texts.check(text)
    assert "a rule for each flow" in conditions("pvp_dpdk", rules="stream")
    assert "learned addresses" in conditions("pvp_dpdk", rules="learning")


def test_sizes_in_a_tunnel_are_explained(texts: Texts) -> None:
    text = conditions("op2p_dpdk", tunnel="gre")
    assert "gre tunnel (+38 octets a frame)" in text
    texts.check(text)


def test_a_kernel_that_forwards_in_others_time_is_said() -> None:
    assert "carry the switch's work" in conditions(
        "phy2phy_dpdk", {"vswitch": {"forwards in": "the kernel"}}
    )


def test_what_holds_for_several_scenarios_is_told_once() -> None:
    loaded = configuration(set=("mtu=4000",))
    records = []
    for name in ("pvp_dpdk", "pvvp_dpdk"):
        scenario = make_scenario(name, loaded)
        records.append(ScenarioRecord(scenario=scenario, facts=ScenarioFacts(scenario=scenario.id)))
    assert derive_conditions(records) == ("pvp_dpdk; pvvp_dpdk: mtu = 4000",)


def test_many_scenarios_are_named_by_what_their_names_have_in_common() -> None:
    records = []
    for name in ("pvp_dpdk", "pvp_bridge"):
        for size in (4000, 9000):
            scenario = make_scenario(name, configuration(set=(f"mtu={size}",), forwarding="l3"))
            facts = ScenarioFacts(scenario=f"{name},size={size}")
            records.append(ScenarioRecord(scenario=scenario, facts=facts))
    assert derive_conditions(records) == (
        "all 4 scenarios: l3 forwarding",
        "size=4000: mtu = 4000",
        "size=9000: mtu = 9000",
    )


def test_frames_of_another_length_are_said_first(tmp_path: Path) -> None:
    def tagged(number: int, result: TrialResult) -> TrialResult:
        """Every tenth frame still has its tag in the third trial."""
        if number != 3:
            return result.model_copy(
                update={"directions": tuple(_with(d, altered=0) for d in result.directions)}
            )
        directions = tuple(
            _with(d, altered=d.sent // 10, received=d.sent - d.sent // 10)
            for d in result.directions
        )
        return result.model_copy(update={"directions": directions})

    bench = Bench(tmp_path, FakeAgent(spoil=tagged))
    faults = bench.throughput().faults
    assert faults.altered
    said = [w for w in bench.derived().warnings if "another length or payload" in w]
    assert said == [s for s in said if s.startswith("pvp_dpdk: frames came back")]
    assert len(said) == 1
    results = bench.derived()
    for report in (markdown_report(results), html_report(results), terminal_text(results)):
        assert "Frames not as they were sent" in report


def in_turns(tmp_path: Path, **turns: Any) -> tuple[str, str]:
    """Warnings, and the note below the busy threads, of a tester that takes turns."""
    told = {"length_us": 100, "per_s": 1000.0, "asleep": 0.5, "prompt": True, "share": 0.65}
    one = TesterTurns.model_validate(told | {"group_frames": 80.0, "most_frames": 160} | turns)

    def short(_: int, result: TrialResult) -> TrialResult:
        load = ThreadLoad(role="tester", thread="loadgen", cpu=1, user=0.4, system=0.1)
        return result.model_copy(update={"turns": one, "threads": (load,)})

    bench = Bench(tmp_path, FakeAgent(spoil=short))
    goals = bench.throughput().goals
    results = bench.derived()
    assert {goal.turns for goal in goals} == {one}
    return "\n".join(results.warnings), markdown_report(results).replace("\\", "")


@pytest.mark.parametrize(
    ("cores", "waited", "said"), [(8, 0.54, True), (8, 0.04, False), (2, 0.54, False)]
)
def test_a_core_that_is_dedicated_by_plan_alone_is_said_to_be_used_by_others(
    tmp_path: Path, cores: int, waited: float, said: bool
) -> None:
    def taken(_: int, result: TrialResult) -> TrialResult:
        load = {"role": "tester", "thread": "loadgen", "cpu": 1, "user": 0.4, "system": 0.1}
        times = {"run_s": 1 - waited, "wait_s": waited, "watched_s": 1.0}
        return result.model_copy(update={"threads": (ThreadLoad.model_validate(load | times),)})

    bench = Bench(tmp_path, FakeAgent(spoil=taken, facts=machine.facts(cores)))
    bench.throughput()
    found = [text for text in bench.derived().warnings if "by plan alone" in text]
    assert bool(found) is said
    for text in found:
        assert text.startswith("pvp_dpdk: tester has processor")
        assert "54%" in text


@pytest.mark.parametrize(("cores", "shares"), [(8, True), (2, False)])
def test_only_a_tester_with_a_processor_of_its_own_has_a_share_of_its_maximum(
    tmp_path: Path, cores: int, shares: bool
) -> None:
    bench = Bench(tmp_path, FakeAgent(facts=machine.facts(cores)))
    assert bench.throughput().generator_max_fps
    why = "no share of the generator's maximum: the tester shares its processor here"
    results = bench.derived()
    for report in (markdown_report(results), html_report(results), terminal_text(results)):
        assert (why in " ".join(report.replace("&#39;", "'").split())) is not shares
    (group,) = groups(results)
    for row in rate_rows(group.results[0], group):
        assert (row.generator_fps is not None) == (shares and not row.direction)


def test_what_a_kernel_refuses_the_tester_is_marked_with_its_cure(tmp_path: Path) -> None:
    said, _ = in_turns(tmp_path, prompt=False, refused="Operation not permitted")
    assert "(Operation not permitted)" in said
    for words in ("up to 4 ms", "CAP_SYS_NICE", "sched_rt_runtime_us", "CONFIG_RT_GROUP_SCHED"):
        assert words in said


def test_a_tester_that_runs_as_soon_as_it_wakes_is_not_marked(tmp_path: Path, texts: Texts) -> None:
    said, report = in_turns(tmp_path)
    assert "SCHED_FIFO" not in said
    texts.check(lines_with(report, "took turns"))


def test_a_vnf_that_is_refused_is_marked_too(texts: Texts) -> None:
    said = warnings("pvp_dpdk", {"vnfs": [{"priority": "refused: EPERM"}]})
    texts.check(lines_with(said, "SCHED_FIFO"))
    assert "SCHED_FIFO" not in warnings("pvp_dpdk", {"vnfs": [{"priority": "fifo 1"}]})


def test_a_tester_that_used_up_its_share_says_so_where_frames_are_unsent(texts: Texts) -> None:
    turns = TesterTurns(
        length_us=100, per_s=1000.0, asleep=0.4, prompt=True, held_back=500, share=0.65
    )
    counts = DirectionCounts(
        direction=0, intended=100, sent=60, refused=0, unsent=40, received=60, tx_seconds=1.0
    )
    short = TrialResult(directions=(counts,), turns=turns)
    assert short.held_back
    texts.check(short.short_by_turns)
    few = turns.model_copy(update={"held_back": 2})  # explains nothing
    assert short.model_copy(update={"turns": few}).short_by_turns == ""
    whole = counts.model_copy(update={"sent": 100, "unsent": 0, "received": 100})
    assert short.model_copy(update={"directions": (whole,)}).short_by_turns == ""
    assert short.model_copy(update={"turns": None}).short_by_turns == ""


def test_trials_with_processors_further_apart_than_in_others_are_counted(tmp_path: Path) -> None:
    def apart(number: int, result: TrialResult) -> TrialResult:
        line_ns = (291.0, 288.0) if number % 3 == 0 else (54.0, 56.0)
        return result.model_copy(update={"machine": MachineLoad(line_ns=line_ns)})

    bench = Bench(tmp_path, FakeAgent(spoil=apart))
    bench.throughput()
    (said,) = (w for w in bench.derived().warnings if "cache line" in w)
    trials = sum(1 for line in bench.run.log.path.open() if '"type":"trial"' in line)
    assert f"in {trials // 3} of {trials} trials" in said or f"in {-(-trials // 3)} of" in said
    assert "291 ns there and back" in said
    assert "56 ns in the best" in said


def _late(number: int, result: TrialResult) -> TrialResult:
    return result.model_copy(update={"stale": 1000 if number == 3 else 0})


def _unverified(_: int, result: TrialResult) -> TrialResult:
    return result.model_copy(update={"verified": 0})


def _early(_: int, result: TrialResult) -> TrialResult:
    none = Latency(count=0, min_ns=0, mean_ns=0, max_ns=0)
    directions = tuple(
        _with(d, latency=none.model_copy(update={"before_departure": d.received}))
        for d in result.directions
    )
    return result.model_copy(update={"directions": directions})


def _lost_behind(missed: int | None) -> Callable[[int, TrialResult], TrialResult]:
    def spoil(_: int, result: TrialResult) -> TrialResult:
        """The DUT puts out what came in, and half of it comes."""
        directions = tuple(_with(d, received=d.sent // 2, latency=None) for d in result.directions)
        hops = tuple(
            HopCounters(port=port, rx=d.sent, tx=d.sent)
            for d in directions
            for port in (f"phy{d.direction}", f"vnf0.{d.direction}")
        )
        tester = tuple(PortCounts(port=d.direction, missed=missed) for d in directions)
        return result.model_copy(update={"directions": directions, "hops": hops, "tester": tester})

    return spoil


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_late, ("1000 of trial 2", "after the end of their trial")),
        (_unverified, ("payload of no frame was compared",)),
        (_early, ("before they had left", "no latency of these trials is exact")),
        (_lost_behind(0), ("neither received nor dropped", "phy1 to tester")),
    ],
)
def test_what_is_counted_beside_the_frames_is_told(
    tmp_path: Path, spoil: Callable[[int, TrialResult], TrialResult], words: tuple[str, ...]
) -> None:
    bench = Bench(tmp_path, FakeAgent(spoil=spoil))
    bench.throughput()
    (said,) = (w for w in bench.derived().warnings if words[0] in w)
    assert all(word in said for word in words)
    assert " trials" in said


def test_a_direction_that_was_not_offered_whole_is_not_hidden_by_the_other(tmp_path: Path) -> None:
    def short(_: int, result: TrialResult) -> TrialResult:
        first, *others = result.directions
        less = _with(
            first, sent=first.sent // 2, unsent=first.intended - first.sent // 2, received=0
        )
        return result.model_copy(update={"directions": (less, *others)})

    bench = Bench(tmp_path, FakeAgent(spoil=short))
    bench.throughput()
    trial = bench.derived().trials[0]
    assert trial.offered_ratio == pytest.approx(0.75, abs=0.01)
    assert trial.least_offered_ratio == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("spoil", [_lost_behind(None), _lost_behind(5)])
def test_a_loss_that_the_tester_may_have_dropped_is_not_put_behind_the_dut(
    tmp_path: Path, spoil: Callable[[int, TrialResult], TrialResult]
) -> None:
    bench = Bench(tmp_path, FakeAgent(spoil=spoil))
    bench.throughput()
    assert not [w for w in bench.derived().warnings if "neither received nor dropped" in w]


def test_a_ring_that_was_assumed_is_named(tmp_path: Path, texts: Texts) -> None:
    def late(_: int, result: TrialResult) -> TrialResult:
        send = Gaps(max_s=0.0005, hold_s=0.001, assumed=True)
        gaps = TrialGaps(poll=Gaps(max_s=0.0, hold_s=1.0), send=send, catch_up_frames=1024)
        return result.model_copy(update={"gaps": gaps})

    bench = Bench(tmp_path, FakeAgent(spoil=late))
    bench.throughput()
    results = bench.derived()
    (said,) = (w for w in results.warnings if "receive ring" in w)
    texts.check(said)
    (clause,) = (e for e in results.ledger if e.clause == "RFC 1242 section 3.4")
    assert (clause.status, "is not known" in clause.reason) == ("deviated", True)


def test_trials_that_a_test_takes_as_they_are_are_not_called_unused(tmp_path: Path) -> None:
    def stalled(number: int, result: TrialResult) -> TrialResult:
        gaps = Gaps(max_s=0.5, hold_s=0.001, over_s=0.5)
        lossy = tuple(_with(d, received=d.sent - 9) for d in result.directions)
        update = {"directions": lossy, "gaps": TrialGaps(poll=gaps, send=gaps, catch_up_frames=9)}
        return result.model_copy(update=update)

    brief = PRESET.model_copy(update={"soak": SoakTest(duration_s=2, trial_s=1)})
    bench = Bench(tmp_path, settings=configuration(brief))
    bench.throughput()
    bench.agent.spoil = stalled
    result = bench.measure("soak")
    assert result.soak is not None
    assert result.soak.stalled_trials == result.soak.trials
    assert result.discarded == 0
    assert not any("TESTER_STALLED" in words for words in bench.derived().warnings)
    assert "2 TESTER_STALLED" in terminal_text(bench.derived())


def _with(counts: DirectionCounts, **changes: int) -> DirectionCounts:
    return counts.model_copy(update=changes)


def test_latency_by_two_clocks_stands_with_what_it_may_be_wrong_by(
    tmp_path: Path, texts: Texts
) -> None:
    """The largest bound of all trials, and why some have none."""
    too_far = "not measured: the clocks of the tester's two hosts may be 90 us apart"

    def bounded(number: int, result: TrialResult) -> TrialResult:
        if number == 2:
            return result.model_copy(update={"uncollected": {"latency": too_far}})
        return result.model_copy(update={"clock_bound_s": 2.5e-5 if number == 1 else 1e-5})

    bench = Bench(tmp_path, FakeAgent(spoil=bounded))
    bench.throughput(64)
    results = bench.derived()
    (text,) = [w for w in results.warnings if "one way" in w]
    texts.check(text)
    for report in (markdown_report(results), html_report(results), terminal_text(results)):
        assert "wrong by 25 us at most" in " ".join(report.split())


def test_a_round_trip_in_place_of_one_way_is_told_of_the_trials_that_have_it(
    tmp_path: Path, texts: Texts
) -> None:
    """Clocks that a service keeps, and in one trial not well enough."""
    too_far = "not measured: too far apart; the round trip is"
    timed = Latency(count=9, min_ns=3e4, mean_ns=4e4, max_ns=9e4)

    def bounded(number: int, result: TrialResult) -> TrialResult:
        update: dict[str, object] = {"clock_bound_s": 1e-5}
        if number == 2:
            both_ways = RoundTrip(latency=timed, asked=9, held_s=0.001)
            update = {"round_trip": both_ways, "uncollected": {"latency": too_far}}
        return result.model_copy(update=update)

    bench = Bench(tmp_path, FakeAgent(spoil=bounded))
    bench.throughput(64)
    one, other = (w for w in bench.derived().warnings if "one way" in w)
    texts.check([one, other])


def test_a_round_trip_is_named_as_that_wherever_it_stands(tmp_path: Path, texts: Texts) -> None:
    """It has the place of a third direction, and no number of it that of one way."""
    levels = {"50": 4e4, "99.9": 8e4}
    timed = Latency(count=900, min_ns=3e4, mean_ns=4e4, max_ns=9e4, percentiles=levels)

    def both_ways(number: int, result: TrialResult) -> TrialResult:
        directions = [d.model_copy(update={"latency": None}) for d in result.directions]
        update = {
            "directions": tuple(directions),
            "round_trip": RoundTrip(latency=timed, asked=1000, held_s=0.002 if number else 0.001),
            "uncollected": {"latency": "not measured: two clocks; the round trip is"},
        }
        return result.model_copy(update=update)

    bench = Bench(tmp_path, FakeAgent(spoil=both_ways))
    bench.throughput(64)
    bench.measure("latency")
    results = bench.derived()
    (text,) = [w for w in results.warnings if "round trip" in w]
    texts.check(text)
    found = {result.test: result for result in results.results}
    way = "phy0->phy1->phy0"
    assert [*found["throughput"].goals[0].latency] == [way]
    (at, *_) = found["latency"].latency_at
    assert [*at.mean_ns] == [*at.latency] == [way]
    assert at.mean_ns[way].mean == 4e4
    (stated,) = [e for e in results.ledger if "definition of latency" in e.requirement]
    assert (stated.status, "of the round trip" in str(stated.value)) == ("deviated", True)
    varied = [e for e in results.ledger if "delay variation" in e.clause]
    assert len(varied) == 2
    for entry in varied:
        assert entry.status == "deviated"
        assert "of the round trip" in entry.reason
    for metric in metrics_of(found["latency"]):
        if metric.name.startswith("latency_") and metric.unit == "ns":
            assert metric.direction == way
    for report in (markdown_report(results), html_report(results), terminal_text(results)):
        plain = " ".join(report.replace("&gt;", ">").split())
        assert "No half of it is a latency" in plain
