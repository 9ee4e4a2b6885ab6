"""A run on several testbeds: what each measured stands side by side, and nothing is of two."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import Bench, configuration
from vnetperf.analysis.environment import comparability
from vnetperf.analysis.explain import explain
from vnetperf.analysis.reanalysis import WantedGoal, answer_goals
from vnetperf.analysis.results_from_log import _apart, derive
from vnetperf.analysis.thresholds import Expectations
from vnetperf.config import Configuration
from vnetperf.log.folder import log_path, merge_worker_logs, read_run
from vnetperf.log.records import (
    ComparisonRecord,
    NotMeasuredRecord,
    RoundRecord,
    TransfersRecord,
)
from vnetperf.model.errors import ConfigError
from vnetperf.model.result import RunResults
from vnetperf.model.scenario import (
    Comparison,
    Variant,
    is_called,
    on_testbed,
    without_testbed,
)
from vnetperf.model.testbed import ClockOffset
from vnetperf.model.transfer import Transfer, Transfers, TransferSpec
from vnetperf.report.comparison import list_comparisons
from vnetperf.report.junit import junit_xml
from vnetperf.report.markdown import markdown_report
from vnetperf.report.publish import TestApiNames, documents_for_testapi, openmetrics
from vnetperf.report.terminal import terminal_text
from vnetperf.testing.sim import SimulatedDut


def at(name: str) -> Configuration:
    loaded = configuration()
    object.__setattr__(loaded, "testbed", loaded.testbed.model_copy(update={"name": name}))
    return loaded


def measured(folder: Path, name: str, fps: float, *scenarios: str, worker: str = "") -> None:
    agent = FakeAgent(duts=(SimulatedDut(fps), SimulatedDut(fps)))
    log = log_path(folder, worker, name).name
    bench = Bench(folder, agent, at(name), log)
    for scenario in scenarios:
        bench.throughput(scenario_id=scenario)
    clock = ClockOffset(offset_s=fps, bound_s=0.1)  # as told apart as the rates are
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.run.client, "clocks", lambda: {"": clock})
        bench.run.close()


@pytest.fixture
def both(tmp_path: Path) -> RunResults:
    measured(tmp_path, "lab1", 200e3, "pvp_dpdk", "phy2phy_dpdk")
    measured(tmp_path, "lab2", 400e3, "pvp_dpdk")
    return derive(read_run(tmp_path))


def test_each_number_is_of_the_testbed_in_its_name(both: RunResults) -> None:
    found = {r.scenario: r.goals[0].lower_bound_fps for r in both.results}
    assert list(found) == [
        *("phy2phy_dpdk,testbed=lab1", "pvp_dpdk,testbed=lab1", "pvp_dpdk,testbed=lab2"),
    ]
    assert found["pvp_dpdk,testbed=lab1"] == pytest.approx(400e3, rel=0.05)
    assert found["pvp_dpdk,testbed=lab2"] == pytest.approx(800e3, rel=0.05)
    assert both.testbeds == ("lab1", "lab2")
    assert set(both.environment) == {"lab1", "lab2"}
    assert sorted(c.testbed for c in both.calibrations) == ["lab1", "lab2"]
    numbers = [t.number for t in both.trials]
    assert numbers == list(range(1, len(numbers) + 1))
    ends = {name: facts["clock at the end"]["offset_s"] for name, facts in both.environment.items()}
    assert ends == {"lab1": 200e3, "lab2": 400e3}
    assert "machine" in comparability(both, "pvp_dpdk,testbed=lab2")


def test_only_testbeds_that_state_their_isolation_are_quoted(tmp_path: Path) -> None:
    for stated, quoted in (("", ""), ("cables only", "lab2: cables only")):
        folder = tmp_path / (stated or "none")
        folder.mkdir()
        for name in ("lab1", "lab2"):
            loaded = at(name)
            update = {"isolation": stated if name == "lab2" else ""}
            object.__setattr__(loaded, "testbed", loaded.testbed.model_copy(update=update))
            Bench(folder, FakeAgent(), loaded, log_path(folder, "", name).name).run.close()
        assert derive(read_run(folder)).run.isolation == quoted


@pytest.mark.parametrize("name", ["pvp_dpdk", "v2v_ovs,rx_queues=2", "", "a,b"])
@pytest.mark.parametrize("how", ["", ",endpoints", ",mpi", ",new sessions"])
def test_a_testbed_stands_before_what_is_put_to_a_scenario(name: str, how: str) -> None:
    there = on_testbed(f"{name}{how}", "lab1")
    assert there == f"{name},testbed=lab1{how}"
    assert without_testbed(there) == (f"{name}{how}", "lab1")
    assert without_testbed(f"{name}{how}")[1] == ""
    assert on_testbed(f"{name}{how}", "") == f"{name}{how}"
    for pattern in (f"{name}{how}", there, "*,testbed=lab1", f"*{how},testbed=*"):
        assert is_called(there, pattern), pattern
    assert not is_called(there, "*,testbed=lab2")
    assert not is_called(f"{name}{how}", "*,testbed=*")


def test_transfers_of_a_comparison_are_found_on_each_testbed(tmp_path: Path) -> None:
    spec = TransferSpec(kind="TCP_STREAM", way="forth", duration_s=5)
    variants = (Variant(id="rx_queues=1"), Variant(id="rx_queues=2"))
    noted = Comparison(name="queues", scenario="v2v_ovs", variants=variants)
    for bed in ("lab1", "lab2"):
        bench = Bench(tmp_path, FakeAgent(), at(bed), log_path(tmp_path, testbed=bed).name)
        bench.run.log.append(ComparisonRecord(comparison=noted))
        for variant in variants if bed == "lab1" else ():
            found = Transfers(
                scenario=f"v2v_ovs,{variant.id},endpoints",
                transfers=(Transfer(spec=spec, bits_per_second=1e9),),
            )
            bench.run.log.append(TransfersRecord(result=found))
        bench.run.close()
    results = derive(read_run(tmp_path))
    (comparison,) = results.comparisons  # of the testbed that has measured it
    assert [v.variant for v in comparison.variants] == [
        "rx_queues=1,testbed=lab1",
        "rx_queues=2,testbed=lab1",
    ]
    (shown,) = list_comparisons(results)
    assert sorted(shown.transfers) == [v.scenario for v in comparison.variants]


def test_a_worker_that_visited_a_testbed_is_merged_into_its_log(tmp_path: Path) -> None:
    measured(tmp_path, "lab1", 200e3, "pvp_dpdk")
    measured(tmp_path, "lab1", 200e3, "phy2phy_dpdk", worker="gw1")
    before = derive(read_run(tmp_path)).results
    merge_worker_logs(tmp_path)
    assert [log.name for log in tmp_path.glob("*.jsonl")] == ["trials@lab1.jsonl"]
    assert derive(read_run(tmp_path)).results == before


def test_thresholds_hold_on_each_testbed_and_make_no_ratio_of_two(
    both: RunResults, tmp_path: Path
) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(
        '[[expect]]\nscenario = "pvp_dpdk"\ntest = "throughput"\nnumber = "ndr*"\nat_least = 1000\n'
        '[[expect]]\nscenario = "phy2phy_dpdk"\ntest = "throughput"\nnumber = "ndr*"\n'
        'of_scenario = "pvp_dpdk"\nat_least = 0.9\n'
    )
    judged = Expectations.load(file, ("pvp_dpdk", "phy2phy_dpdk")).judge_run(both, cases_too=True)
    assert {one.met for one in judged} == {True}
    assert any("testbed=lab1" in str(one) for one in judged)
    assert any("testbed=lab2" in str(one) for one in judged)


def test_goals_are_answered_and_numbers_explained_on_each_testbed(
    both: RunResults, tmp_path: Path
) -> None:
    """Both looked for the names of the log, and neither found a case."""
    records = read_run(tmp_path)
    found = answer_goals(records, [WantedGoal(name="more", loss_ratio=0.1)]).results
    names = {r.scenario: [goal.name for goal in r.goals] for r in found.results}
    assert set(names) == {r.scenario for r in both.results}
    assert all(goals[-1] == "more" for goals in names.values())
    for name in names:
        explained = explain(records, name, "throughput", "64")
        assert explained.attempts
        assert all(attempt.steps for attempt in explained.attempts)
        assert explained.conclusions


def test_a_transfer_that_failed_has_no_row_once_it_was_measured(tmp_path: Path) -> None:
    """That transfer, and where it failed: another number of clients is another."""
    spec = TransferSpec(kind="TCP_STREAM", way="forth", duration_s=5)
    ours = Transfers(scenario="v2v_ovs,endpoints", transfers=(Transfer(spec=spec),))
    failed = NotMeasuredRecord(
        scenario=ours.scenario, test="TCP_STREAM forth", frame_size=0, why="broke", transfer=spec
    )
    other = failed.model_copy(update={"transfer": spec.model_copy(update={"instances": 8})})
    older = failed.model_copy(update={"transfer": None})
    found = TransfersRecord(result=ours)
    logged = {"again": (failed, found), "after": (found, failed), "others": (other, found)}
    for name, records in {**logged, "older": (older, found)}.items():
        (tmp_path / name).mkdir()
        bench = Bench(tmp_path / name)
        for record in records:
            bench.run.log.append(record)
        bench.run.close()
        rows = [row.test for row in bench.derived().results]
        assert rows == [] if name == "again" else [failed.test], name


def test_transfers_of_one_name_that_failed_are_a_row_each(tmp_path: Path) -> None:
    """With 1 and with 8 clients: one row held the reason of one and the name of the other."""
    spec = TransferSpec(kind="TCP_STREAM", way="forth", duration_s=5)
    bench = Bench(tmp_path)
    for number in (1, 2):
        bench.run.log.append(RoundRecord(number=number, rounds=2))
        for clients in (1, 8):
            bench.run.log.append(
                NotMeasuredRecord(
                    scenario="v2v_ovs,endpoints",
                    test="TCP_STREAM forth",
                    frame_size=0,
                    why=f"{clients} broke",
                    transfer=spec.model_copy(update={"instances": clients}),
                )
            )
    bench.run.close()
    results = bench.derived()
    rows = [(row.of, row.why, row.deployments) for row in results.results]
    assert [row[:2] for row in rows] == [("", "1 broke"), ("8 instances", "8 broke")]
    assert [(held.attempted, {*held.failures.values()}) for _, why, held in rows if held] == [
        (2, {"1 broke"}),
        (2, {"8 broke"}),
    ]
    cases = [*ET.fromstring(junit_xml(results)).iter("testcase")]  # noqa: S314 - our own text
    assert {case.get("name"): case[-1].get("message") for case in cases} == {
        "TCP_STREAM forth[v2v_ovs,endpoints--]": "1 broke",
        "TCP_STREAM forth[v2v_ovs,endpoints---x8]": "8 broke",
    }
    samples = [line for line in openmetrics(results).splitlines() if not line.startswith("#")]
    names = [line.rpartition(" ")[0] for line in samples]
    assert len({*names}) == len(names)
    (document,) = documents_for_testapi(results, TestApiNames())
    assert [row["why"] for row in document["details"]["frame_sizes"].values()] == [
        "1 broke",
        "8 broke",
    ]
    for text in (markdown_report(results), terminal_text(results, width=400)):
        assert "no size of its own, 8 instances" in text
    for size, why in (("-", "1 broke"), ("-, 8 instances", "8 broke")):
        found = explain(read_run(tmp_path), "v2v_ovs,endpoints", "TCP_STREAM forth", size)
        assert found.conclusions == (f"not measured: {why}",)
    with pytest.raises(ConfigError, match="frame size '64'") as caught:
        explain(read_run(tmp_path), "v2v_ovs,endpoints", "TCP_STREAM forth", "64")
    assert caught.value.accepted == "-; -, 8 instances"


@pytest.mark.parametrize("lost", ["", "the agent has gone"])
@pytest.mark.parametrize("instances", [1, 8])
def test_a_transfer_that_moved_from_a_lost_testbed_has_not_failed(
    tmp_path: Path, lost: str, instances: int
) -> None:
    """On one that goes on it has, and so has one of more clients that was measured nowhere."""
    spec = TransferSpec(kind="TCP_STREAM", way="forth", duration_s=5)
    ours = Transfers(scenario="v2v_ovs,endpoints", transfers=(Transfer(spec=spec),))
    failed = NotMeasuredRecord(
        scenario=ours.scenario,
        test="TCP_STREAM forth",
        frame_size=0,
        why="broke",
        transfer=spec.model_copy(update={"tool": "iperf3", "instances": instances}),
    )
    for bed in ("lab1", "lab2"):
        bench = Bench(tmp_path, FakeAgent(), at(bed), log_path(tmp_path, testbed=bed).name)
        bench.run.log.append(failed if bed == "lab1" else TransfersRecord(result=ours))
        bench.run.lost = lost if bed == "lab1" else ""
        bench.run.close()
    results = derive(read_run(tmp_path))
    assert [row.failed for row in results.results] == [True] * (not lost or instances == 8)


def test_a_run_has_ended_when_it_has_on_every_testbed(tmp_path: Path) -> None:
    for name in ("lab1", "lab2"):
        measured(tmp_path, name, 200e3, "pvp_dpdk")
    assert derive(read_run(tmp_path)).run.ended
    again = Bench(tmp_path, FakeAgent(), at("lab1"), log_path(tmp_path, "", "lab1").name)
    again.run.facts()  # the machine is the same: its session has begun
    assert derive(read_run(tmp_path)).run.ended == ""


@pytest.mark.parametrize("names", [("m1", "m2"), ("m1", "m1"), ("", "")])
def test_testbeds_of_one_machine_are_not_called_several(
    names: tuple[str, str], tmp_path: Path
) -> None:
    for bed in ("lab1", "lab2"):
        measured(tmp_path, bed, 200e3, "pvp_dpdk")
    found = derive(read_run(tmp_path))
    beds = {
        bed: found.model_copy(update={"environment": {"hostname": name}})
        for bed, name in zip(("lab1", "lab2"), names, strict=True)
    }
    (warning,) = _apart(beds)
    one = names == ("m1", "m1")
    assert ("of one machine" in warning) == one
    assert ("at once" in warning) != one
