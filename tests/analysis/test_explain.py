"""The trials behind a value: all of them, and which made it what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import Bench
from vnetperf.analysis.explain import explain
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import ConfigError


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    made = Bench(tmp_path_factory.mktemp("run"))
    for size in (64, 1518):
        made.throughput(size)
    made.run.close()
    return made


def test_every_trial_of_the_result_is_there_and_no_other(run: Bench) -> None:
    found = explain(read_log(run.path), "pvp_dpdk", "throughput", "1518")
    (attempt,) = found.attempts
    points = [p.number for p in run.derived().trials if p.frame_size == 1518]
    assert [step.trial.number for step in attempt.steps] == points
    assert attempt.ended == ""


def test_the_trials_at_the_bounds_are_named_with_their_loss(run: Bench) -> None:
    found = explain(read_log(run.path), "pvp_dpdk", "throughput", "64")
    for goal in found.result.goals:
        at_lower = [
            step.trial.number
            for step in found.attempts[0].steps
            if f"lower bound of {goal.name}" in step.part
        ]
        assert tuple(at_lower) == goal.trials_at_lower_bound
        assert goal.upper_bound_fps is not None
        upper = next(
            line for line in found.conclusions if f"{goal.name}: {goal.upper_bound_fps:.0f}" in line
        )
        assert "upper bound" in upper
        assert any(line.startswith(f"{goal.name}: the bounds are") for line in found.conclusions)


def test_attempts_that_gave_no_result_are_shown_with_their_end(tmp_path: Path) -> None:
    made = Bench(tmp_path, FakeAgent(offers_fps=400e3))
    made.throughput()
    made.measure("mrr")
    made.run.close()
    found = explain(read_log(made.path), "pvp_dpdk", "mrr", "64")
    assert len(found.attempts) > 1
    assert all(a.ended.startswith("no result: ") for a in found.attempts[:-1])
    assert found.attempts[-1].ended == ""
    searched = explain(read_log(made.path), "pvp_dpdk", "throughput", "64")
    assert any(step.part == "not used" for a in searched.attempts for step in a.steps)


def test_what_was_not_measured_says_why(tmp_path: Path) -> None:
    agent = FakeAgent()
    agent.fail_deploy = "no hugepages"
    made = Bench(tmp_path, agent)
    with pytest.raises(Exception, match="no hugepages"):
        made.throughput()
    made.run.close(1)
    found = explain(read_log(made.path), "pvp_dpdk", "throughput", "64")
    assert found.attempts == ()
    assert found.conclusions[0].startswith("not measured: ")
    assert "no hugepages" in found.conclusions[0]


def test_a_round_is_explained_by_itself(tmp_path: Path) -> None:
    made = Bench(tmp_path)
    for number in (1, 2):
        made.run.begin_round(number, 2)
        made.throughput()
    made.run.close()
    records = read_log(made.path)
    case = ("pvp_dpdk", "throughput", "64")
    shown, last = (explain(records, *case, number=n) for n in (0, 2))
    (result,) = derive(records).results
    assert result.deployments is not None
    shown_round = result.deployments.shown
    assert shown.which == f"round {shown_round} of 2"
    assert shown.attempts[0].begin.search == result.search
    assert last.attempts[0].begin.search == 2
    # A run that ended before its last round reached this case is explained by the one that did.
    cut = [r for r in records if getattr(r, "search", 1) != 2]
    assert explain(cut, *case).attempts[0].begin.search == 1
    with pytest.raises(ConfigError, match="no round 3"):
        explain(records, "pvp_dpdk", "throughput", "64", number=3)


@pytest.mark.parametrize(
    ("what", "told", "accepted"),
    [
        (("pvp_ovs", "throughput", "64"), "scenario 'pvp_ovs'", "pvp_dpdk"),
        (("pvp_dpdk", "speed", "64"), "test 'speed'", "throughput"),
        (("pvp_dpdk", "throughput", "65"), "frame size '65'", "64, 1518"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(
    run: Bench, what: tuple[str, str, str], told: str, accepted: str
) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        explain(read_log(run.path), *what)
    assert caught.value.accepted == accepted
