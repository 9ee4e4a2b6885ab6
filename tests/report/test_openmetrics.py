"""OpenMetrics text and TestAPI documents of a run."""

from __future__ import annotations

import json
import re

import pytest

from vnetperf.analysis.metrics import list_goal_metrics, list_named_metrics
from vnetperf.model.outcomes import Recovery, Spread
from vnetperf.model.result import (
    BoundTrials,
    DirectionBound,
    GoalResult,
    Result,
    RunIdentity,
    RunResults,
)
from vnetperf.model.trial import Latency
from vnetperf.report.publish import TestApiNames, documents_for_testapi, openmetrics

IDENTITY = RunIdentity(
    tool="vnetperf 1",
    git="abc",
    command="pytest",
    started="2026-11-22T05:50:51.163+00:00",
    ended="2026-11-22T05:52:59.276+00:00",
    testbed='rack "7"\\x',
)
SAMPLE = re.compile(
    r'^([a-z_]+)\{((?:[a-zA-Z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (-?[0-9.e+-]+)$', re.MULTILINE
)


@pytest.fixture
def sample() -> RunResults:
    latency = Latency(count=9, min_ns=1e3, mean_ns=2e3, max_ns=9e3, percentiles={"99": 8e3})
    bound = DirectionBound(
        direction="phy0->phy1",
        lower_bound_fps=5e5,
        upper_bound_fps=5.1e5,
        conditional_throughput_fps=5e5,
    )
    goal = GoalResult(
        name="ndr",
        loss_ratio=0.0,
        exceed_ratio=0.5,
        initial_trial_s=1.0,
        final_trial_s=1.0,
        duration_sum_s=1.0,
        width=0.02,
        lower_bound_fps=1e6,
        upper_bound_fps=None,
        conditional_throughput_fps=1e6,
        per_direction=(bound,),
        regular=False,
        qualifier="at least",
        latency={"phy0->phy1": latency},
        repeatable=True,
        at_lower_bound=BoundTrials(load_fps=5e5, valid=4, discarded=1),
    )
    results = [
        Result(scenario=scenario, test="throughput", frame_size=size, goals=(goal,))
        for scenario in ("pvp_dpdk", "pvp_dpdk,rx_queues=2")
        for size in (64, 1518)
    ]
    return RunResults(run=IDENTITY, preset="quick", results=tuple(results))


def unmeasured() -> RunResults:
    result = Result(
        scenario="pvp_vpp", test="throughput", frame_size=64, status="not measured", why="no vpp"
    )
    return RunResults(run=IDENTITY, preset="quick", results=(result,))


def recovered() -> RunResults:
    seconds = Spread(n=3, mean=0.2, median=0.2, minimum=0.1, maximum=0.3, low=0.05, high=0.35)
    recovery = Recovery(
        throughput_fps=1e6, overload_fps=1.1e6, relaxed_fps=5e5, overload_s=60, seconds=seconds
    )
    result = Result(scenario="pvp_dpdk", test="recovery", frame_size=64, recovery=recovery)
    return RunResults(run=IDENTITY, preset="quick", results=(result,))


def without_a_number() -> RunResults:
    """A test that ran to its end, and whose trials gave no time."""
    [result] = recovered().results
    assert result.recovery is not None
    update = {"seconds": None, "why": "no trial was overloaded"}
    recovery = result.recovery.model_copy(update=update)
    result = result.model_copy(update={"recovery": recovery})
    return RunResults(run=IDENTITY, preset="quick", results=(result,))


def samples(results: RunResults) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for name, labels, value in SAMPLE.findall(openmetrics(results)):
        found.setdefault(name, []).append((labels, float(value)))
    return found


def test_every_line_is_openmetrics(sample: RunResults) -> None:
    text = openmetrics(sample)
    assert text.endswith("# EOF\n")
    declared = set()
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            declared.add(line.split()[2])
            assert line.split()[3] in ("gauge", "counter")  # what collectors of files take
        elif not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            assert match, line
            assert match[1] in declared
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))  # no sample stands twice


def test_bounds_are_those_of_the_results(sample: RunResults) -> None:
    found = samples(sample)["vnetperf_throughput_fps"]
    goal = next(goal for result in sample.results for goal in result.goals)
    assert goal.lower_bound_fps is not None
    assert any(
        v == pytest.approx(goal.lower_bound_fps) for text, v in found if 'bound="lower"' in text
    )


def test_what_was_discarded_has_its_name(sample: RunResults) -> None:
    discarded = [
        value
        for labels, value in samples(sample)["vnetperf_quantity"]
        if 'goal="ndr"' in labels and 'name="discarded_at_lower_bound"' in labels
    ]
    assert set(discarded) == {1.0}


def test_what_was_not_measured_is_absent_and_not_zero() -> None:
    found = samples(unmeasured())
    assert [value for _, value in found["vnetperf_case_measured"]] == [0.0]
    assert set(found) == {
        "vnetperf_run_info",
        "vnetperf_run_start_time_seconds",
        "vnetperf_run_end_time_seconds",
        "vnetperf_case_measured",
    }


def test_a_test_that_ran_and_has_no_number_is_none_that_is_measured() -> None:
    assert samples(recovered())["vnetperf_case_measured"][0][1] == 1.0
    assert samples(without_a_number())["vnetperf_case_measured"][0][1] == 0.0
    [document] = documents_for_testapi(without_a_number(), TestApiNames())
    assert document["criteria"] == "FAIL"
    [document] = documents_for_testapi(recovered(), TestApiNames())
    assert document["criteria"] == "PASS"


def test_labels_are_escaped() -> None:
    [(labels, _)] = samples(unmeasured())["vnetperf_run_info"]
    assert r'testbed="rack \"7\"\\x"' in labels


def test_other_tests_come_with_their_interval() -> None:
    found = samples(recovered())["vnetperf_quantity"]
    values = {value for labels, value in found if 'test="recovery"' in labels}
    assert {0.2, 0.05, 0.35} <= values


def test_documents_have_what_testapi_asks_for(sample: RunResults) -> None:
    made = list(documents_for_testapi(sample, TestApiNames(pod="pod1", build_tag="daily-7")))
    assert len(made) == len({(r.scenario, r.test) for r in sample.results})
    for document in made:
        assert set(document) == {
            *("project_name", "case_name", "pod_name", "installer", "version", "scenario"),
            *("build_tag", "start_date", "stop_date", "criteria", "details"),
        }
        assert document["pod_name"] == "pod1"
        assert document["criteria"] in ("PASS", "FAIL")
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", document["case_name"])
        json.dumps(document)


def test_a_case_without_a_number_fails_and_says_why() -> None:
    [document] = documents_for_testapi(unmeasured(), TestApiNames())
    assert document["criteria"] == "FAIL"
    assert document["details"]["frame_sizes"]["64"]["why"] == "no vpp"
    assert document["start_date"] == "2026-11-22 05:50:51"


def test_documents_have_every_number_of_the_table_of_metrics(every: RunResults) -> None:
    """A metric that is added to the table is in TestAPI's documents without a line there."""
    for document in documents_for_testapi(every, TestApiNames()):
        for result in every.results:
            case = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{result.scenario}_{result.test}")
            if document["case_name"] != case or result.status != "measured":
                continue
            details = document["details"]["frame_sizes"][result.size_name]
            for goal in result.goals:
                held = details["goals"][goal.name]
                assert held["lower_bound_fps"] == goal.lower_bound_fps
                assert held["regular"] == goal.regular
                directions = {(m["name"], m["direction"]) for m in held["directions"]}
                for metric in list_goal_metrics(result, goal):
                    if metric.direction:
                        assert (metric.name, metric.direction) in directions
                    else:
                        assert any(name.startswith(metric.name) for name in held), metric.name
            assert len(details.get("found", ())) == len(list(list_named_metrics(result)))


def test_a_number_comes_with_n_and_interval() -> None:
    [document] = documents_for_testapi(recovered(), TestApiNames())
    found = document["details"]["frame_sizes"]["64"]["found"]
    assert any(q.get("n") == 3 and q.get("high") == 0.35 for q in found)
