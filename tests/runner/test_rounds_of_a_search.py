"""A throughput is searched several times in a deployment, and published with what they found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import NDR, PRESET, Bench, Fading, configuration, deployments_of
from tests.search.support import measured
from vnetperf.analysis.goals import wavering_load
from vnetperf.analysis.logged_tests import select_searches
from vnetperf.analysis.metrics import compared_metrics_of
from vnetperf.log.records import (
    BeginRecord,
    NotMeasuredRecord,
    SearchEndRecord,
    SearchRecord,
)
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import DutError
from vnetperf.model.preset import Preset
from vnetperf.model.result import Result
from vnetperf.model.trial import TrialRequest, TrialResult
from vnetperf.report.goal_text import qualified_rate
from vnetperf.report.page import html_report
from vnetperf.runner.run import NoProgress
from vnetperf.testing.sim import SimulatedDut

MAJORITY = replace(NDR, exceed_ratio=0.5, duration_sum_s=2.0)


def preset(**update: object) -> Preset:
    given = {"goals": (MAJORITY,), "rounds": 3, "most_rounds": 5, "round_gap_s": 0}
    return PRESET.model_copy(update=given | update)


def duts(capacity: float) -> tuple[SimulatedDut, ...]:
    return tuple(SimulatedDut(capacity, seed=n) for n in range(2))


class Turning(NoProgress):
    """Gives the agent the next of several DUTs each time a search has ended."""

    def __init__(self, agent: FakeAgent, *capacities: float) -> None:
        self.agent, self.left = agent, [*capacities]

    def round_ends(self, _: object) -> None:
        if self.left:
            self.agent.duts = duts(self.left.pop(0))


def test_rounds_at_the_generators_limit_are_no_more_than_planned(tmp_path: Path) -> None:
    """Their limits differ, which tells of the tester; the DUT has none that was seen."""
    agent = FakeAgent(duts=duts(2e9))
    agent.offers_fps = 500e3
    bench = Bench(tmp_path, agent, configuration(preset()))

    class Slowing(NoProgress):
        def round_ends(self, _: object) -> None:
            agent.offers_fps *= 0.8

    bench.run.progress = Slowing()
    (goal,) = bench.throughput().goals
    assert [one.qualifier for one in goal.rounds] == ["at least"] * 3
    assert goal.repeatable is False


def test_three_rounds_that_agree_are_enough(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset()))
    found = bench.throughput()
    (goal,) = found.goals
    assert (goal.repeatable, goal.mark, len(goal.rounds)) == (True, "", 3)
    assert goal.least_fps == goal.lower_bound_fps
    begins = [r for r in read_log(bench.path) if isinstance(r, SearchRecord)]
    assert [r.round for r in begins] == [1, 2, 3]
    load = (goal.lower_bound_load_fps or 0) / 2
    assert [r.limits.starts_fps for r in begins] == [(), (load,), (load,)]
    bench.run.close()
    assert list(bench.derived().results) == [found]
    again = Bench(tmp_path, settings=configuration(preset()))
    assert again.throughput() == found
    assert again.agent.trials == []


class Faltering(SimulatedDut):
    """Loses a fifth of a load the second time that it is offered."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seen: Counter[float] = Counter()

    def count(self, request: TrialRequest) -> TrialResult:
        result = super().count(request)
        self.seen[request.load_fps] += 1
        if self.seen[request.load_fps] != 2:
            return result
        (counts,) = result.directions
        received = round(0.8 * counts.sent)
        return result.model_copy(
            update={"directions": (counts.model_copy(update={"received": received}),)}
        )


def test_three_rounds_that_agree_are_not_enough_where_one_wavered(tmp_path: Path) -> None:
    """Three searches may have seen the same of two states."""
    agent = FakeAgent(duts=(Faltering(700e3), Faltering(700e3)))
    goals = (replace(MAJORITY, duration_sum_s=4.0),)
    bench = Bench(tmp_path, agent, configuration(preset(goals=goals)))
    (goal,) = bench.throughput().goals
    assert len(goal.rounds) == 5
    assert goal.wavers_at_fps is not None
    assert goal.wavers_at_fps <= 2 * 700e3
    bench.run.close()
    assert [one.goals[0] for one in bench.derived().results] == [goal]


def test_a_close_miss_is_no_other_state() -> None:
    near = [measured(500e3, 1.0), measured(500e3, 1.0, loss_ratio=0.04), measured(600e3, 1.0, 0.4)]
    assert wavering_load(near, MAJORITY) is None
    assert wavering_load([*near, measured(500e3, 1.0, 0.06)], MAJORITY) == 500e3


def test_rounds_apart_are_a_range_and_the_median_stands_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset()))
    bench.run.progress = Turning(bench.agent, 350e3, 500e3, 600e3, 400e3)
    (goal,) = bench.throughput().goals
    assert (goal.repeatable, goal.mark, len(goal.rounds)) == (False, "not repeatable", 5)
    bench.run.close()
    page = html_report(bench.derived())
    assert page[page.index('id="overview"') :].partition("</table>")[0].count("not repeatable") == 1
    lowers = sorted(one.lower_bound_fps or 0.0 for one in goal.rounds)
    assert goal.lower_bound_fps == lowers[2] == pytest.approx(1e6, rel=0.03)
    assert (goal.least_fps, goal.most_fps) == (
        lowers[0],
        max(one.upper_bound_fps or 0.0 for one in goal.rounds),
    )
    assert "5 rounds" in goal.reason


def test_where_no_trial_may_exceed_the_least_is_published(tmp_path: Path) -> None:
    """A median would lie above loads that another round saw lose."""
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset(goals=(NDR,))))
    bench.run.progress = Turning(bench.agent, 350e3, 500e3, 600e3, 400e3)
    (goal,) = bench.throughput().goals
    assert goal.lower_bound_fps == goal.least_fps == pytest.approx(700e3, rel=0.03)


def test_rounds_of_several_frame_sizes_are_made_in_turn(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset()))
    bench.run.sizes_of = {"pvp_dpdk": (64, 1518)}
    first = bench.throughput()
    count = len(bench.agent.trials)
    second = bench.throughput(1518)
    assert len(bench.agent.trials) == count  # they were there already
    begins = [r for r in read_log(bench.path) if isinstance(r, SearchRecord)]
    assert [r.frame_size for r in begins] == [64, 1518] * 3
    bench.run.close()
    assert list(bench.derived().results) == [first, second]


def test_other_tests_take_the_least_of_the_rounds_and_try_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset()))
    bench.run.progress = Turning(bench.agent, 350e3, 500e3, 600e3, 400e3)
    (goal,) = bench.throughput().goals
    bench.agent.trials.clear()
    found = bench.measure("latency")
    tried, *_ = bench.agent.trials
    assert tried.phase == "throughput"
    assert tried.load_fps == pytest.approx((goal.least_fps or 0) / 2, rel=1e-6)
    assert any("not repeatable" in at.note for at in found.latency_at)


def test_what_loses_at_the_load_taken_for_the_throughput_is_not_measured(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset(rounds=1)))
    bench.throughput()
    bench.agent.duts = duts(500e3)
    bench.agent.trials.clear()
    with pytest.raises(Exception, match=r"loss was 2.* at the load"):
        bench.measure("latency")
    assert [t.phase for t in bench.agent.trials] == ["throughput"] * 3
    bench.run.close()
    results = {r.test: r for r in bench.derived().results}
    assert results["latency"].status == "not measured"
    assert "taken for the throughput" in results["latency"].why


class DyingAgent(FakeAgent):
    """Its DUT dies in the second round."""

    def __init__(self) -> None:
        super().__init__(duts=duts(700e3), spoil=self._spoil)
        self.dies = False

    def _spoil(self, _: int, result: TrialResult) -> TrialResult:
        if not self.dies:
            return result
        return TrialResult(directions=(), failed="dut", failure="it died")


class Killing(NoProgress):
    def __init__(self, agent: DyingAgent) -> None:
        self.agent = agent

    def round_ends(self, _: object) -> None:
        self.agent.dies = True


def test_rounds_without_the_one_that_failed_are_no_result(tmp_path: Path) -> None:
    """Else the number would be one of those that went well."""
    agent = DyingAgent()
    bench = Bench(tmp_path, agent, configuration(preset()))
    bench.run.progress = Killing(agent)
    with pytest.raises(DutError, match="it died"):
        bench.throughput()
    bench.run.close()
    records = read_log(bench.path)
    assert all(search.end and search.end.superseded for search in select_searches(records))
    assert any(isinstance(r, NotMeasuredRecord) for r in records)
    (result,) = bench.derived().results
    assert (result.status, result.goals) == ("not measured", ())


def test_a_run_killed_between_rounds_begins_them_anew(tmp_path: Path) -> None:
    first = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset()))
    first.throughput()
    first.run.close()
    lines = first.path.read_bytes().splitlines(keepends=True)
    ends = [n for n, line in enumerate(lines) if line.startswith(b'{"type":"search-end"')]
    first.path.write_bytes(b"".join(lines[: ends[1] + 1]))
    again = Bench(tmp_path, FakeAgent(duts=duts(400e3)), configuration(preset()))
    found: Result = again.throughput()
    assert found.goals[0].lower_bound_fps == pytest.approx(800e3, rel=0.03)
    again.run.close()
    records = read_log(again.path)
    assert sum(r.superseded for r in records if isinstance(r, SearchEndRecord)) == 2
    assert list(again.derived().results) == [found]


def test_a_round_that_no_load_met_has_no_further_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset()))
    bench.run.progress = Fading(bench.agent, duts(400.0))
    (goal,) = bench.throughput().goals
    assert len(goal.rounds) == 2
    assert goal.repeatable is False
    assert goal.least_fps is None


def test_a_round_in_which_one_of_two_goals_has_no_bound_is_the_last(tmp_path: Path) -> None:
    """At which load would that goal's next search begin?"""
    loose = replace(MAJORITY, name="loose", loss_ratio=0.9)
    bench = Bench(
        tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset(goals=(MAJORITY, loose)))
    )
    bench.run.progress = Turning(bench.agent, 700e3, 500.0)
    strict, found = bench.throughput().goals
    assert [len(goal.rounds) for goal in (strict, found)] == [3, 3]
    assert strict.least_fps is None
    bench.run.close()
    (result,) = bench.derived().results
    assert result.goals == (strict, found)


class Killed(NoProgress):
    """Its DUT dies once so many searches have ended."""

    def __init__(self, agent: DyingAgent, after: int) -> None:
        self.agent, self.left = agent, after

    def round_ends(self, _: object) -> None:
        self.left -= 1
        self.agent.dies = self.left == 0


def test_rounds_of_another_size_that_lack_some_are_no_result(tmp_path: Path) -> None:
    agent = DyingAgent()
    bench = Bench(tmp_path, agent, configuration(preset()))
    bench.run.sizes_of = {"pvp_dpdk": (64, 1518)}
    bench.run.progress = Killed(agent, after=2)  # 64, then 1518; the second of 64 dies
    with pytest.raises(DutError, match="it died"):
        bench.throughput()
    with pytest.raises(DutError, match="it died"):
        bench.throughput(1518)
    bench.run.close()
    assert [r.status for r in bench.derived().results] == ["not measured", "not measured"]


def test_rounds_are_of_one_deployment(tmp_path: Path) -> None:
    """What another size broke is deployed anew, and rounds begin again there."""
    agent = DyingAgent()
    bench = Bench(tmp_path, agent, configuration(preset()))
    bench.run.sizes_of = {"pvp_dpdk": (64, 1518)}

    class Breaking(NoProgress):
        ended = 0

        def round_ends(self, _: object) -> None:
            self.ended += 1
            agent.dies = self.ended == 1

        def test_begins(self, test: BeginRecord) -> None:
            if test.frame_size == 64:
                agent.dies = False

    bench.run.progress = Breaking()
    found = bench.throughput()
    (goal,) = found.goals
    assert [one.round for one in goal.rounds] == [1, 2, 3]
    bench.run.close()
    held = [
        s for s in select_searches(read_log(bench.path)) if s.final and s.begin.frame_size == 64
    ]
    assert len(held) == 3
    deployments = deployments_of(bench.path)
    assert len({number for search in held for number in deployments[search.begin.search]}) == 1
    assert found in bench.derived().results


def test_what_ended_at_the_generators_limit_is_a_range_as_well(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset()))
    bench.run.progress = Turning(bench.agent, 720e3, 9e6, 9e6, 9e6)
    result = bench.throughput()
    (goal,) = result.goals
    assert (goal.repeatable, goal.most_fps) == (False, None)
    assert qualified_rate(goal).endswith(" or more")
    metric = next(m for m in compared_metrics_of(result) if m.main)
    assert metric.measured is not None
    assert (metric.measured.value, metric.measured.high) == (None, inf)


def test_the_round_that_is_shown_is_the_one_whose_trials_are(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=duts(700e3)), configuration(preset()))
    result = bench.throughput()
    (goal,) = result.goals
    shown = next(
        s for s in select_searches(read_log(bench.path)) if s.begin.search == result.search
    )
    assert goal.search == result.search
    assert goal.trial in [t.number for t in shown.trials]
