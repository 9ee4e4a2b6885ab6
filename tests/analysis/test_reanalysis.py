"""Other loss goals from an old log: as a search would have said, or what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.agent import FakeAgent
from tests.runner.support import NDR, PDR, PRESET, Bench, configuration
from tests.texts import Texts
from vnetperf.analysis.goals import answer_goal
from vnetperf.analysis.logged_tests import LoggedSearch, select_searches
from vnetperf.analysis.reanalysis import WantedGoal, answer_goals
from vnetperf.analysis.results_from_log import derive, derive_result
from vnetperf.log import stored
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.frames import LinkSpeed
from vnetperf.model.preset import StepSearch
from vnetperf.model.trial import Gaps, TrialGaps
from vnetperf.testing.sim import SimulatedDut


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A run for two goals, on a DUT that loses little before it loses much."""
    dut = SimulatedDut(640e3)
    made = Bench(
        tmp_path_factory.mktemp("run"),
        FakeAgent(duts=(dut, dut)),
        configuration(PRESET.model_copy(update={"goals": (NDR, PDR)})),
    )
    made.throughput()
    made.run.close()
    return made


def logged(run: Bench) -> LoggedSearch:
    (search,) = select_searches(read_log(run.path))
    return search


def test_the_goals_that_were_measured_get_the_same_answer(run: Bench) -> None:
    search = logged(run)
    (result,) = run.derived().results
    for goal, found in zip((NDR, PDR), result.goals, strict=True):
        again = answer_goal(search.begin, search, goal)
        assert again.missing is None
        bare = {"reason": "", "throughput_l1_bps": None}  # of a wire without a speed
        assert again.result.model_copy(update=bare) == found


@settings(max_examples=25)
@given(st.floats(0, 1))
def test_a_log_cut_at_any_line_is_replayed_as_it_is_judged_by_its_trials(
    run: Bench, share: float
) -> None:
    records = read_log(run.path)
    cut = records[: 1 + round(share * (len(records) - 1))]
    derive(cut)
    for search in select_searches(cut):
        media = LinkSpeed(1e10)
        replayed, judged = (derive_result(search, media, by_trials=how) for how in (False, True))
        # A search that was cut before it had bounds estimates them by shorter trials.
        for one, other in zip(replayed.goals, judged.goals, strict=False):
            if one.lower_bound_fps is None or not (one.regular and other.regular):
                continue
            assert one.lower_bound_fps == other.lower_bound_fps
            assert one.upper_bound_fps == other.upper_bound_fps


@settings(max_examples=60)
@given(
    st.floats(0, 0.5),
    st.sampled_from([0.0, 0.5]),
    st.floats(0.0005, 0.3),
    st.sampled_from([0.25, 1.0, 5.0]),
)
def test_an_answer_is_complete_or_says_what_is_missing(
    run: Bench, loss: float, exceed: float, width: float, seconds: float
) -> None:
    search = logged(run)
    goal = replace(
        NDR,
        name="asked",
        loss_ratio=loss,
        exceed_ratio=exceed,
        width=width,
        final_trial_s=seconds,
        duration_sum_s=seconds,
        initial_trial_s=min(seconds, 0.25),
    )
    found = answer_goal(search.begin, search, goal)
    result, missing, limits = found.result, found.missing, search.begin.limits
    assert result.regular or result.qualifier or missing is not None
    if missing is None:
        if result.regular:
            assert result.lower_bound_fps is not None
            assert result.upper_bound_fps is not None
            assert 1 - result.lower_bound_fps / result.upper_bound_fps <= width
        return
    assert not result.regular
    assert limits.min_load_fps <= missing.load_fps <= limits.max_load_fps * (1 + 1e-9)
    assert missing.duration_s == seconds
    assert missing.count >= 1
    for bound, below in ((result.lower_bound_fps, False), (result.upper_bound_fps, True)):
        if bound is not None and result.upper_bound_fps is not None:
            per_interface = bound / search.begin.in_sum
            inside = missing.load_fps <= per_interface
            assert inside is below or missing.load_fps == pytest.approx(per_interface)


@settings(max_examples=25)
@given(st.floats(0, 0.4), st.floats(0.001, 0.1))
def test_more_loss_allowed_is_never_a_lower_bound(run: Bench, loss: float, more: float) -> None:
    search = logged(run)
    strict, lax = (
        answer_goal(search.begin, search, replace(NDR, loss_ratio=ratio)).result.lower_bound_fps
        or 0.0
        for ratio in (loss, loss + more)
    )
    assert lax >= strict


def test_running_what_is_missing_completes_the_answer(tmp_path: Path) -> None:
    """The trials named are those that are needed: a DUT answers them one by one."""
    dut = SimulatedDut(640e3)
    run = Bench(tmp_path, FakeAgent(duts=(dut, dut)))
    run.throughput()
    search = logged(run)
    goal = replace(NDR, name="asked", loss_ratio=0.05, width=0.01)
    number = 1000
    for _ in range(30):
        missing = answer_goal(search.begin, search, goal).missing
        if missing is None:
            break
        for _ in range(missing.count):
            number += 1
            template = search.trials[0]
            spec = template.spec.model_copy(
                update={"load_fps": missing.load_fps, "duration_s": missing.duration_s}
            )
            result = run.agent.run_trial(spec)
            update = {"number": number, "spec": spec, "result": result}
            search.trials.append(template.model_copy(update=update))
    found = answer_goal(search.begin, search, goal).result
    assert found.regular
    assert found.lower_bound_fps is not None
    assert found.lower_bound_fps == pytest.approx(2 * 640e3 / 0.95, rel=0.02)


def test_trials_in_doubt_for_another_goal_are_counted_as_discarded(
    run: Bench, texts: Texts
) -> None:
    """A tester that stood still in most trials at a bound leaves a selection of them."""
    search = logged(run)
    goal = replace(NDR, name="asked", loss_ratio=0.0001, width=0.3)
    found = answer_goal(search.begin, search, goal).result
    assert found.regular
    lower = found.lower_bound_load_fps
    assert lower is not None
    first = next(t for t in search.trials if t.number == found.trials_at_lower_bound[0])
    away = Gaps(max_s=0.01, hold_s=0.001, over_s=0.01)
    directions = tuple(
        d.model_copy(update={"received": d.sent - d.sent // 1000}) for d in first.result.directions
    )
    gaps = TrialGaps(poll=away, send=Gaps(max_s=0.0), catch_up_frames=9)
    update = {"directions": directions, "gaps": gaps}
    stalled = first.model_copy(update={"result": first.result.model_copy(update=update)})
    again = answer_goal(
        search.begin, replace(search, trials=[*search.trials, stalled, stalled]), goal
    ).result
    assert again.at_lower_bound is not None
    assert again.at_lower_bound.discarded == 2
    assert again.lower_bound_fps == found.lower_bound_fps
    assert not again.regular
    texts.check(again.reason)


def test_answers_stand_beside_the_goals_of_the_log(run: Bench) -> None:
    found = answer_goals(
        read_log(run.path),
        [WantedGoal(name="", loss_ratio=0.02, width=0.3), WantedGoal(name="long", loss_ratio=0.0)],
    )
    (result,) = found.results.results
    assert [goal.name for goal in result.goals] == ["ndr", "pdr", "loss 2 %", "long"]
    assert result.goals[2].width == 0.3
    assert result.goals[3].lower_bound_fps == result.goals[0].lower_bound_fps


def test_deployments_that_are_missing_are_missing_in_the_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in (1, 2):  # of five, and then it was interrupted
        bench.run.begin_round(number, 5)
        bench.throughput()
    bench.run.close()
    (result,) = answer_goals(
        read_log(bench.path), [WantedGoal(name="x", loss_ratio=0.1)]
    ).results.results
    assert result.deployments is not None
    assert (result.deployments.planned, result.deployments.measured) == (5, 2)


def test_a_goal_that_cannot_be_or_is_there_is_refused(run: Bench) -> None:
    records = read_log(run.path)
    with pytest.raises(ConfigError, match="there is a goal 'ndr' already"):
        answer_goals(records, [WantedGoal(name="ndr", loss_ratio=0.1)])
    with pytest.raises(ConfigError, match="loss_ratio"):
        answer_goals(records, [WantedGoal(name="x", loss_ratio=7.0)])


def test_a_search_over_an_array_answers_no_other_goal(tmp_path: Path) -> None:
    steps = StepSearch(step_share=0.01, max_r=3)
    preset = PRESET.model_copy(update={"algorithm": "tst009", "tst009": steps})
    bench = Bench(tmp_path, settings=configuration(preset))
    bench.throughput()
    bench.run.close()
    with pytest.raises(ConfigError, match="tst009 searches an array") as refused:
        answer_goals(read_log(bench.path), [WantedGoal(name="again", loss_ratio=0.0)])
    assert refused.value.cure


def test_a_log_without_a_search_answers_nothing(tmp_path: Path) -> None:
    empty = Bench(tmp_path)
    empty.run.close()
    with pytest.raises(LogError, match="no throughput search"):
        answer_goals(read_log(empty.path), [WantedGoal(name="x", loss_ratio=0.1)])


def test_goals_read_each_trial_once_more_than_the_run_itself(
    run: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Counter[int] = Counter()
    read = stored.StoredLines.read

    def counted(lines: stored.StoredLines[Any], start: int, length: int) -> Any:
        reads[start] += 1
        return read(lines, start, length)

    monkeypatch.setattr(stored.StoredLines, "read", counted)
    monkeypatch.setattr(stored, "KEPT_OCTETS", 0)  # as where a log is larger than what is kept
    derive(read_log(run.path))
    own = max(reads.values())
    most = {}
    for count in (1, 3):
        reads.clear()
        goals = [WantedGoal(name=f"mine {n}", loss_ratio=n / 100) for n in range(1, count + 1)]
        answer_goals(read_log(run.path), goals)
        most[count] = max(reads.values())
    assert most[1] == most[3] <= 2 * own + 1  # it derives its results twice, in parts and whole
