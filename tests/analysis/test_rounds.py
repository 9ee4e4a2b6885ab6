"""Rounds of a log: each as a run of its own, and one result of them all."""

from __future__ import annotations

import csv
import io
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import NDR, PDR, PRESET, Bench, configuration
from tests.texts import Texts
from vnetperf.analysis.logged_tests import by_round, merge_rounds
from vnetperf.analysis.metrics import Metric, compared_metrics_of, metrics_of, repeated_number
from vnetperf.analysis.results_from_log import derive
from vnetperf.analysis.run_metrics import metrics_over_deployments
from vnetperf.analysis.thresholds import Expectation, average_repeats, judge_metric
from vnetperf.log.records import RoundRecord, RunRecord, TransfersRecord, TrialRecord
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import DutError
from vnetperf.model.machine_load import ThreadLoad
from vnetperf.model.outcomes import ForwardingRate, Recovery, SessionTable
from vnetperf.model.parameters import LatencyTest
from vnetperf.model.result import RepeatedNumber, Result, RunIdentity, RunResults
from vnetperf.model.transfer import Transfer, Transfers, TransferSpec
from vnetperf.model.trial import TrialResult
from vnetperf.report import results_json
from vnetperf.report.csv_files import outcomes_csv, transfers_csv
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.terminal import terminal_text
from vnetperf.statistics import spread
from vnetperf.testing.sim import SimulatedDut

ONE = spread([1.0])
LATENCY = PRESET.model_copy(
    update={
        "latency": LatencyTest(repeats=2, duration_s=1, tag_at_s=0, shares=(1.0,)),
        "tests": ("throughput", "latency"),
    }
)


def over(result: Result, label: str) -> RepeatedNumber:
    assert result.deployments is not None
    return next(one for one in result.deployments.numbers if one.label == label)


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
    held = bench.derived().results[0].deployments
    assert held is not None
    assert (held.planned, held.attempted, held.measured, held.failures) == (1, 1, 1, {})
    assert held.numbers == ()


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
        repeated = over(result, goal.name)
        assert repeated.spread is not None
        assert list(repeated.spread.values) == bounds
        assert [one.round for one in repeated.observations] == [1, 2, 3]
        assert goal.lower_bound_fps == sorted(b for b in bounds if b is not None)[1]
    assert result.goals[0].trials_at_lower_bound == each[2].goals[0].trials_at_lower_bound


def test_faults_of_every_round_are_in_the_result_and_each_is_named(tmp_path: Path) -> None:
    """The round that is shown had none: the two others must not be lost with them."""
    bench = Bench(tmp_path)
    of_round = {1: 2, 2: 0, 3: 5}
    for number, capacity in {1: 500e3, 2: 550e3, 3: 600e3}.items():
        bench.run.begin_round(number, len(of_round))
        bench.agent.duts = (SimulatedDut(capacity),) * 2

        def spoil(_: int, result: TrialResult, twice: int = of_round[number]) -> TrialResult:
            directions = tuple(
                d.model_copy(update={"duplicated": twice, "altered": 0}) for d in result.directions
            )
            return result.model_copy(update={"directions": directions})

        bench.agent.spoil = spoil
        bench.throughput()
    bench.run.close()
    results = bench.derived()
    (result,) = results.results
    held = result.deployments
    assert held is not None
    assert held.shown == 2
    assert {n: bool(found.duplicated) for n, found in held.faults.items()} == {
        1: True,
        2: False,
        3: True,
    }
    assert result.faults.duplicated == sum(f.duplicated or 0 for f in held.faults.values())
    assert result.faults.corrupted is None, "not recorded by this generator"
    for report in (markdown_report(results), html_report(results), terminal_text(results)):
        assert "round 3" in report
    (metric,) = (m for m in metrics_of(result) if m.name == "frames_duplicated")
    assert metric.value == result.faults.duplicated


def test_the_processors_of_the_round_that_is_shown_are_in_the_table(tmp_path: Path) -> None:
    def busy(_: int, result: TrialResult) -> TrialResult:
        pmd = ThreadLoad(role="pmd", thread="pmd-c01", cpu=1, user=0.9, system=0.05)
        return result.model_copy(update={"threads": (pmd,)})

    bench = Bench(tmp_path, FakeAgent(spoil=busy))
    for number, capacity in {1: 500e3, 2: 550e3, 3: 600e3}.items():
        bench.run.begin_round(number, 3)
        bench.agent.duts = (SimulatedDut(capacity),) * 2
        bench.throughput()
        bench.measure("mrr")
    bench.run.close()
    results = bench.derived()
    result = next(r for r in results.results if r.test == "throughput")
    assert result.deployments is not None
    assert result.deployments.shown == 2
    shown = [t for t in results.trials if t.search == result.search]
    assert len(shown) == result.trial_count
    (at,) = {t.number for t in shown} & {result.goals[0].trials_at_lower_bound[-1]}
    page = html_report(results)
    for report in (markdown_report(results), page):
        assert "Processor use by role" in report
        assert f"ndr, trial {at}" in report
    mrr = next(r for r in results.results if r.test == "mrr")
    tried = [t for t in results.trials if t.test == "mrr"]
    assert 3 * mrr.trial_count == len(tried)
    trials = f"{len(tried)} trials, {mrr.trial_count} of them"
    assert trials in page
    assert f"{len(results.trials)} trials in 6" in page


def test_faults_of_a_round_that_failed_by_them_are_in_the_result(tmp_path: Path) -> None:
    def spoil(_: int, result: TrialResult) -> TrialResult:
        directions = tuple(d.model_copy(update={"misrouted": 500}) for d in result.directions)
        return result.model_copy(update={"directions": directions})

    bench = rounds(tmp_path, {1: 500e3, 2: 550e3})
    bench.run.begin_round(3, 4)
    bench.agent.spoil = spoil
    with pytest.raises(DutError, match="wrong port"):
        bench.throughput()
    bench.run.begin_round(4, 4)
    bench.agent.fail_deploy = "busy"
    with pytest.raises(DutError, match="busy"):
        bench.throughput()
    bench.run.close(1)
    results = bench.derived()
    (result,) = results.results
    assert result.status == "measured"
    assert result.faults.misrouted == 1000
    assert result.deployments is not None
    misrouted = {n: found.misrouted for n, found in result.deployments.faults.items()}
    assert misrouted == {1: 0, 2: 0, 3: 1000}
    for report in (markdown_report(results), html_report(results), terminal_text(results)):
        assert "Frames not as they were sent" in report
        assert "round 3" in report
    (metric,) = (m for m in metrics_of(result) if m.name == "frames_misrouted")
    assert metric.value == 1000


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
    held = result.deployments
    assert held is not None
    assert (held.attempted, held.measured, list(held.failures)) == (3, 2, [2])
    assert [one.round for one in over(result, "ndr").observations] == [1, 3]
    for goal in result.goals:
        assert not goal.regular
        assert "1 of 3 deployments gave no result" in goal.reason
        assert "busy" in goal.reason
    assert any("1 of 3 deployments" in line for line in bench.derived().warnings)
    assert all(
        "measured in 2 of 3 deployments" in metric.marks
        for metric in compared_metrics_of(result)
        if metric.main
    )


def test_a_stream_has_its_baseline_of_its_own_round(tmp_path: Path) -> None:
    """A transfer that fails in one round takes the place of no other."""
    stream = TransferSpec(kind="TCP_STREAM", duration_s=5)
    trips = TransferSpec(kind="TCP_RR", duration_s=5)
    bench = Bench(tmp_path)
    for number, mean_us in ((1, 30.0), (2, 300.0)):
        bench.run.begin_round(number, 2)
        run = [Transfer(spec=stream, tcp_round_trip_us={"mean": mean_us})]
        if number == 1:
            run.insert(0, Transfer(spec=trips, round_trip_us={"min": 20.0}))
        for one in run:
            held = Transfers(scenario="v2v_ovs,endpoints", transfers=(one,))
            bench.run.log.append(TransfersRecord(result=held))
    bench.run.close()
    results = bench.derived()

    def delays(of: RunResults) -> list[str]:
        rows = csv.DictReader(io.StringIO(transfers_csv(of)))
        return [r["tcp_buffer_delay"] for r in rows if r["kind"] == "TCP_STREAM"]

    assert delays(results) == ["0.5", ""]
    (numbers,) = (
        {metric.label: metric for metric in found}
        for _, transfer, found in metrics_over_deployments(results)
        if transfer.spec.kind == "TCP_STREAM"
    )
    (delay,) = (metric for label, metric in numbers.items() if "buffer delay" in label)
    assert delay.over is not None
    assert [one.value for one in delay.over.observations] == [0.5]
    # A file of results does not tell rounds, and can be read.
    said = results_json(results)
    assert '"round"' not in said.partition('"transfers"')[2].partition('"profiles"')[0]
    assert delays(RunResults.model_validate_json(said)) == ["", "14.0"]


def test_a_round_that_is_gone_on_with_is_one(tmp_path: Path) -> None:
    first = rounds(tmp_path, {1: 500e3, 2: 600e3})
    first.run.close()
    again = rounds(tmp_path, {1: 900e3, 2: 900e3, 3: 550e3})
    again.run.close()
    assert list(by_round(read_log(again.path))) == [1, 2, 3]
    assert len(again.agent.trials) < len(first.agent.trials)  # the third round's only
    (result,) = again.derived().results
    spread = over(result, "ndr").spread
    assert spread is not None
    assert max(spread.values) < 2 * 620e3


def test_a_limit_is_never_averaged_as_if_it_were_a_number(tmp_path: Path, texts: Texts) -> None:
    bench = rounds(tmp_path, {1: 500e3, 2: 9e6, 3: 550e3, 4: 9e6, 5: 520e3})
    bench.run.close()
    (result,) = bench.derived().results
    ndr = over(result, "ndr")
    assert ndr.censored == {"at least": 2}
    assert ndr.spread is None
    goal = result.goals[0]
    assert not goal.regular
    texts.check(goal.reason)
    (metric,) = (m for m in compared_metrics_of(result) if m.label == "ndr")
    assert metric.spread is None
    number, _ = average_repeats(metric)
    assert (number.value, number.high) == (None, inf)


def test_each_round_is_a_deployment_of_its_own(tmp_path: Path) -> None:
    bench = rounds(tmp_path, {1: 500e3, 2: 600e3, 3: 550e3})
    assert bench.agent.calls.count("deploy pvp_dpdk") == 3


def test_every_test_pools_its_rounds_each_at_the_loads_of_its_own_round(tmp_path: Path) -> None:
    bench = Bench(tmp_path, settings=configuration(LATENCY))
    for number, capacity in enumerate((500e3, 600e3, 550e3), 1):
        bench.run.begin_round(number, 3)
        bench.agent.duts = (SimulatedDut(capacity),) * 2
        bench.measure("latency")
    bench.run.close()
    throughput, latency = bench.derived().results
    ndr = [one.value for one in over(throughput, "ndr").observations]
    (label, *_) = (n.label for n in latency.deployments.numbers if n.main)
    mean = over(latency, label)
    assert [one.load_fps for one in mean.observations] == ndr
    assert mean.spread is not None
    assert mean.spread.n == 3
    assert latency.deployments is not None
    assert throughput.deployments is not None
    assert latency.deployments.shown == throughput.deployments.shown == 3
    assert latency.latency_at[0].load_fps == throughput.goals[0].lower_bound_fps
    assert {m.name for m in metrics_of(latency)} >= {"latency_mean", "latency_mean_of_rounds"}
    rows = csv.DictReader(io.StringIO(outcomes_csv(bench.derived())))
    repeats = {row["quantity"]: row["n"] for row in rows if row["test"] == "latency"}
    assert (repeats["latency_mean"], repeats["latency_mean_of_rounds"]) == ("2", "3")


def test_the_round_that_is_shown_is_in_the_middle_by_the_throughput(tmp_path: Path) -> None:
    """By the goal that other tests take their loads of, wherever it stands among the goals."""
    goals = configuration(PRESET.model_copy(update={"goals": (PDR, NDR)}))
    whole = Bench(tmp_path, settings=goals).throughput()
    assert whole.throughput_goal is whole.goals[1]

    def found(pdr: float, ndr: float) -> Result:
        pairs = zip(whole.goals, (pdr, ndr), strict=True)
        changed = tuple(g.model_copy(update={"lower_bound_fps": fps}) for g, fps in pairs)
        return whole.model_copy(update={"goals": changed})

    (merged,) = merge_rounds({1: [found(3e6, 1e6)], 2: [found(1e6, 2e6)], 3: [found(2e6, 3e6)]})
    assert merged.deployments is not None
    assert merged.deployments.shown == 2


def test_the_round_that_is_shown_is_in_the_middle_by_the_tests_own_number(texts: Texts) -> None:
    rates = {1: 98_000.0, 2: 99_000.0, 3: 97_500.0, 4: 98_600.0, 5: 99_100.0}
    found = {
        n: [
            Result(
                scenario="phy2phy_cgnat",
                test="connection_rate",
                frame_size=64,
                sessions=SessionTable(sessions=64_512, rate_per_s=rate),
            )
        ]
        for n, rate in rates.items()
    }
    (merged,) = merge_rounds(found)
    assert merged.deployments is not None
    assert merged.deployments.shown == 4
    run = RunResults(
        run=RunIdentity(tool="t", git="g", command="c", started="2026-01-01T00:00:00"),
        preset="quick",
        results=(merged,),
    )
    text = terminal_text(run, width=400)
    texts.check(line for line in text.split("\n") if "\N{PLUS-MINUS SIGN}" in line)
    assert "frames" not in text.partition("Deployments")[2]


def test_discarded_trials_of_any_round_mark_the_number_of_all(texts: Texts) -> None:
    rate = ForwardingRate(load_fps=1e6, of="all", duration_s=1, forwarded_fps=ONE, loss_ratio=ONE)
    found = {
        n: [
            Result(
                scenario="pvp_dpdk",
                test="mrr",
                frame_size=64,
                rates=(rate,),
                trial_count=20,
                discarded=bad,
            )
        ]
        for n, bad in enumerate((10, 0, 0), 1)
    }
    (merged,) = merge_rounds(found)
    assert merged.deployments is not None
    assert merged.deployments.shown != 1
    texts.check(merged.irregular)
    main = next(metric for metric in compared_metrics_of(merged) if metric.main)
    assert "irregular" in main.marks


def test_a_number_that_a_deployment_did_not_give_is_marked(texts: Texts) -> None:
    times = {1: 0.1, 2: None, 3: 0.1, 4: 0.1, 5: None}
    found = {
        n: [
            Result(
                scenario="pvp_dpdk",
                test="recovery",
                frame_size=64,
                recovery=Recovery(
                    throughput_fps=1e6,
                    overload_fps=1.1e6,
                    relaxed_fps=5e5,
                    overload_s=60,
                    seconds=None if s is None else spread([s]),
                    why="" if s else "it did not recover",
                ),
            )
        ]
        for n, s in times.items()
    }
    (merged,) = merge_rounds(found)
    main = next(metric for metric in compared_metrics_of(merged) if metric.main)
    texts.check(main.marks)


def test_what_never_recovered_is_in_no_mean_of_those_that_did() -> None:
    found = {
        n: [
            Result(
                scenario="pvp_dpdk",
                test="recovery",
                frame_size=64,
                recovery=Recovery(
                    throughput_fps=1e6,
                    overload_fps=1.1e6,
                    relaxed_fps=5e5,
                    overload_s=60,
                    seconds=None if at_least else spread([0.1 * n]),
                    at_least_s=at_least,
                    why="frames were still lost" if at_least else "",
                ),
            )
        ]
        for n, at_least in {1: None, 2: 10.0, 3: None, 4: 10.0, 5: None}.items()
    }
    (merged,) = merge_rounds(found)
    assert merged.deployments is not None
    (number,) = merged.deployments.numbers
    assert (number.spread, number.censored) == (None, {"at least": 2})
    assert merged.deployments.shown == 5  # between the shorter ones and those that are open
    main = next(metric for metric in compared_metrics_of(merged) if metric.main)
    assert all(metric.label for metric in compared_metrics_of(merged))
    limit = Expectation(scenario="*", test="recovery", at_most=5.0)
    judged = judge_metric(limit, main, "f")
    assert judged.met is False
    assert "above the allowed" in judged.text


def test_a_deployment_whose_rounds_found_a_range_leaves_no_mean() -> None:
    metrics = {
        1: metric(1.0e6, qualifiers=()),
        2: metric(0.9e6, qualifiers=("not repeatable",)),
    }
    found = repeated_number("ndr", metrics)
    assert found.spread is None
    assert found.censored == {"not repeatable": 1}
    assert repeated_number("ndr", {1: metrics[1], 2: metrics[1]}).spread is not None


def metric(value: float, **more: Any) -> Metric:
    fields: dict[str, Any] = {"label": "ndr", "unit": "fps", "value": value} | more
    return Metric(scenario="pvp_dpdk", test="throughput", size="64", **fields)
