"""Tests besides the throughput search: conducted, logged, derived, interrupted and resumed."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.fakes.agent import GENERATOR_FPS, FakeAgent
from tests.runner.support import (
    NDR,
    PDR,
    PRESET,
    Bench,
    configuration,
    deployments_of,
    numbered_by_test,
)
from tests.texts import Texts
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.folder import log_path, merge_worker_logs
from vnetperf.log.records import (
    NotMeasuredRecord,
    ProcedureRecord,
    SearchEndRecord,
    SearchRecord,
    TrialRecord,
)
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import (
    CapabilityError,
    ConfigError,
    DutError,
    GeneratorError,
    NoResultError,
)
from vnetperf.model.parameters import (
    STANDARD_TESTS,
    BackToBackTest,
    FrameLossTest,
    LatencyLoadTest,
    LatencyTest,
    LossProfileTest,
    MrrTest,
    RecoveryTest,
    ResetTest,
    ServiceTest,
    SoakTest,
)
from vnetperf.model.preset import Preset
from vnetperf.model.result import Result
from vnetperf.model.trial import (
    DirectionCounts,
    Gaps,
    TrialGaps,
    TrialResult,
    TrialSpec,
    Verdict,
)
from vnetperf.runner.bench import Bench as UserBench
from vnetperf.testing.sim import SimulatedDut

SHORT = PRESET.model_copy(
    update={
        "latency": LatencyTest(shares=(1.0, 0.5), duration_s=1, tag_at_s=0.5, repeats=3),
        "frame_loss": FrameLossTest(step=0.1, duration_s=1),
        "back_to_back": BackToBackTest(searches=2, max_burst_s=0.01, idle_s=0),
    }
)
TESTS = ("latency", "frame_loss", "back_to_back")


def short(folder: Path, agent: FakeAgent | None = None, **changes: Any) -> Bench:
    preset: Preset = SHORT.model_copy(update=changes)
    return Bench(folder, agent, configuration(preset))


def opened(bench: Bench) -> list[tuple[str, int]]:
    records = read_log(bench.path)
    begun = [r for r in records if isinstance(r, SearchRecord | ProcedureRecord)]
    return [(r.test, r.search) for r in begun]


def test_the_throughput_is_searched_first_where_there_is_none(tmp_path: Path) -> None:
    bench = short(tmp_path)
    result = bench.measure("latency")
    assert opened(bench) == [("throughput", 1), ("latency", 2)]
    at, half = result.latency_at
    throughput = bench.derived().results[0].goals[0].lower_bound_fps
    assert at.load_fps == pytest.approx(throughput)
    assert half.load_fps == pytest.approx((throughput or 0) / 2)
    assert at.mean_ns["phy1->phy0"].mean == 2001
    assert at.note == ""
    specs = [t.spec for t in trials(bench) if t.number in at.trials]
    assert [(s.duration_s, s.tag_at_s, s.ipdv) for s in specs] == [(1, 0.5, True)] * 3


def trials(bench: Bench) -> list[TrialRecord]:
    return [r for r in read_log(bench.path) if isinstance(r, TrialRecord)]


def test_the_throughput_of_the_same_run_is_taken(tmp_path: Path) -> None:
    bench = short(tmp_path)
    bench.throughput()
    for test in TESTS:
        bench.measure(test)
    assert opened(bench) == [
        ("throughput", 1),
        ("latency", 2),
        ("frame_loss", 3),
        ("back_to_back", 4),
    ]
    assert bench.agent.calls.count("deploy pvp_dpdk") == 1


@pytest.mark.slow
@pytest.mark.parametrize("of", [0, 2, 4])
def test_bursts_that_the_tester_disturbed_are_discarded_trials(tmp_path: Path, of: int) -> None:
    """A value that most bursts had no part in is one of selected bursts."""
    agent, seen = FakeAgent(), Counter[str]()

    def spoil(_: int, result: TrialResult) -> TrialResult:
        if not agent.trials[-1].burst:
            return result
        seen["bursts"] += 1
        if not of or not result.worst_loss_ratio() or seen["lossy"] % (of + 1) == of:
            seen["lossy"] += bool(result.worst_loss_ratio())
            return result
        seen["lossy"], seen["disturbed"] = seen["lossy"] + 1, seen["disturbed"] + 1
        short_of = (
            {
                "sent": d.sent // 2,
                "received": d.sent // 2,
                "unsent": d.unsent + d.sent - d.sent // 2,
            }
            for d in result.directions
        )
        counts = (
            d.model_copy(update=one) for d, one in zip(result.directions, short_of, strict=True)
        )
        return result.model_copy(update={"directions": tuple(counts)})

    agent.spoil = spoil
    bench = short(tmp_path, agent)
    result = bench.measure("back_to_back")
    (again,) = (one for one in bench.derived().results if one.test == "back_to_back")
    for one in (result, again):
        assert one.back_to_back is not None
        assert one.discarded == seen["disturbed"]
        assert one.trial_count == seen["bursts"]
        assert one.irregular == (
            f"{one.discarded} of {one.trial_count} trials were discarded" if of else ""
        )


def test_loss_curves_of_an_unchanged_machine_have_equal_loads(tmp_path: Path) -> None:
    """A calibration differs from the next by some percent."""
    steps = []
    for number, speed in enumerate((1.01, 1.1, 1.05)):
        (tmp_path / f"{number}").mkdir()
        agent = FakeAgent()
        agent.tester_speed = speed
        bench = short(tmp_path / f"{number}", agent)
        result = bench.measure("frame_loss")
        assert result.max_load_fps == pytest.approx(2e6)
        begin = next(r for r in read_log(bench.path) if isinstance(r, ProcedureRecord))
        assert "preferred number" in begin.limit_reason
        steps.append([step.load_fps for step in result.loss_steps])
    assert steps[0] == steps[1] == steps[2]


def test_frame_loss_needs_no_throughput(tmp_path: Path) -> None:
    bench = short(tmp_path, FakeAgent(duts=[SimulatedDut(1.5e6), SimulatedDut(1.2e6)]))
    result = bench.measure("frame_loss")
    assert opened(bench) == [("frame_loss", 1)]
    losses = [step.loss_ratio for step in result.loss_steps]
    expected = [max(0.0, 1 - 1.2 / (2 - 0.2 * n)) for n in range(len(losses))]
    assert losses == pytest.approx(expected, abs=1e-6)
    assert len(losses) == 6
    assert result.max_load_fps == GENERATOR_FPS


def test_a_service_of_a_given_rate_needs_no_throughput(tmp_path: Path) -> None:
    test = ServiceTest(cir_fps=100e3, step_s=1, performance_s=1, delay_ms=0, variation_ms=0)
    for name in ("given", "share"):
        (tmp_path / name).mkdir()
    given = short(tmp_path / "given", service=test)
    found = given.measure("service").service
    assert found is not None
    assert (found.met, found.of, found.cir_fps) == (True, "as given", 200e3)
    assert [test for test, _ in opened(given)] == ["service"]
    share = short(tmp_path / "share", service=test.model_copy(update={"cir_fps": 0}))
    share.measure("service")
    assert [test for test, _ in opened(share)] == ["throughput", "service"]


def test_a_known_buffer_is_found_through_the_whole_bench(tmp_path: Path) -> None:
    held = 500
    agent = FakeAgent(duts=[SimulatedDut(700e3, buffer_frames=held) for _ in range(2)])
    result = short(tmp_path, agent).measure("back_to_back")
    found = result.back_to_back
    assert found is not None
    assert found.corrected_s == pytest.approx(held / GENERATOR_FPS, rel=0.05)
    assert found.frames.n == 2


def test_what_a_test_case_is_told_is_what_the_log_says(tmp_path: Path) -> None:
    bench = short(tmp_path)
    told = [bench.throughput(), *(bench.measure(test) for test in TESTS)]
    bench.run.close()
    derived = bench.derived()
    assert sorted(derived.results, key=lambda r: r.test) == sorted(told, key=lambda r: r.test)
    assert bench.derived() == derived
    assert [r.test for r in derived.results] == ["throughput", *TESTS]  # not by their names
    assert {t.test for t in derived.trials} == {"throughput", *TESTS}
    assert not any("interrupted" in w for w in derived.warnings)


def test_latency_by_load_needs_no_throughput_and_has_the_same_loads_for_every_dut(
    tmp_path: Path,
) -> None:
    test = LatencyLoadTest(loads_fps=(1e5, 1e6, 1e7), duration_s=1, tag_at_s=0.5, repeats=2)
    found = {}
    for fps in (600e3, 1.5e6):
        (folder := tmp_path / f"{fps:g}").mkdir()
        agent = FakeAgent(duts=[SimulatedDut(fps), SimulatedDut(fps)])
        bench = short(folder, agent, latency_load=test)
        found[fps] = bench.measure("latency_load")
        assert opened(bench) == [("latency_load", 1)]
        assert bench.derived().results == (found[fps],)
    slow, fast = (result.latency_at for result in found.values())
    assert [at.load_fps for at in slow] == [at.load_fps for at in fast] == [2e5, 2e6, 2e7]
    assert [at.trials for at in slow] == [(1, 3), (2, 4), ()]
    assert [at.loss_ratio for at in fast] == [0, 0, 0]
    assert slow[1].loss_ratio == pytest.approx(0.4, abs=1e-3)
    assert slow[1].forwarded_fps == pytest.approx(1.2e6, rel=1e-3)
    assert all("above the largest load" in at[2].note for at in (slow, fast))


def profiling(folder: Path, agent: FakeAgent) -> Bench:
    return Bench(folder, agent, configuration(PRESET, profile=True))


def test_call_stacks_at_the_bounds_are_taken_in_trials_that_are_in_no_result(
    tmp_path: Path,
) -> None:
    agent = FakeAgent()
    agent.stacks = {"pmd;main;poll": 3, "pmd;main;emc lookup": 1}
    bench = profiling(tmp_path, agent)
    result = bench.throughput()
    found = bench.derived()
    assert result == found.results[0]
    profiled = [spec for spec in agent.trials if spec.profile]
    assert len(trials(bench)) == len(agent.trials) - len(profiled)
    assert len(found.trials) == len(trials(bench)) == result.trial_count
    goals = {goal.name: goal for goal in result.goals}
    loads = {
        (bound, getattr(goal, f"{bound}_bound_load_fps") / 2)
        for goal in goals.values()
        for bound in ("lower", "upper")
    }
    assert {(p.bound, p.load_fps) for p in found.profiles} == loads
    assert [p.load_fps for p in found.profiles] == [spec.load_fps for spec in profiled]
    for profile in found.profiles:
        assert (profile.samples, profile.why) == (4, "")
        assert profile.top[0] == ("poll", 0.75)
        assert (tmp_path / profile.file).read_text().startswith("<svg ")
    upper = next(p for p in found.profiles if p.bound == "upper")
    assert upper.loss_ratio is not None
    assert upper.loss_ratio > 0.01
    bench.run.close()
    assert bench.derived().profiles == found.profiles


def test_call_stacks_that_cannot_be_had_are_told_once_and_harm_nothing(tmp_path: Path) -> None:
    agent = FakeAgent()
    bench = profiling(tmp_path, agent)
    for size in (64, 1518):
        assert bench.throughput(size).status == "measured"
    (profile,) = bench.derived().profiles
    assert (profile.why, profile.file) == ("not measured: perf is not permitted", "")
    assert sum(spec.profile for spec in agent.trials) == 1
    assert not (tmp_path / "profiles").exists()


def test_a_profile_disturbs_no_trial_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows is settled as after any trial, and nothing is known of frames that were late."""
    agent = FakeAgent(spoil=lambda number, result: result.model_copy(update={"stale": number}))
    agent.stacks = {"pmd;main;poll": 3}
    waits: list[tuple[int, float]] = []
    monkeypatch.setattr("time.sleep", lambda s: waits.append((len(agent.trials), s)))
    preset = PRESET.model_copy(update={"trial": PRESET.trial.model_copy(update={"settle_s": 0.25})})
    bench = Bench(tmp_path, agent, configuration(preset, profile=True))
    result = bench.throughput()
    bench.measure("mrr")
    settled = {number for number, s in waits if s == 0.25}
    assert settled == set(range(1, len(agent.trials) + 1))
    late = {t.number: t.late for t in bench.derived().trials}
    assert late[result.trial_count] is None
    assert late[1] == 2


def test_a_dut_that_dies_of_a_profile_is_deployed_anew(tmp_path: Path) -> None:
    def spoil(number: int, result: TrialResult) -> TrialResult:
        if not agent.trials[-1].profile:
            return result
        return TrialResult(directions=(), failed="dut", failure="segfault")

    agent = FakeAgent(spoil=spoil)
    bench = profiling(tmp_path, agent)
    assert bench.throughput().status == "measured"
    assert bench.throughput(1518).status == "measured"
    assert [p.why for p in bench.derived().profiles] == ["not measured: segfault"]
    assert agent.calls.count("deploy pvp_dpdk") == 2


def test_which_throughput_it_is_and_how_sure_is_said(tmp_path: Path, texts: Texts) -> None:
    lossy = short(tmp_path, goals=(PDR,))
    texts.check(lossy.measure("latency").latency_at[0].note, "of another goal")
    fast = FakeAgent(duts=[SimulatedDut(50e6), SimulatedDut(50e6)])
    (tmp_path / "fast").mkdir()
    bench = short(tmp_path / "fast", fast, goals=(PDR, NDR))
    note = bench.measure("latency").latency_at[0].note
    texts.check(note, "at least")
    with pytest.raises(NoResultError, match="largest load"):
        bench.measure("back_to_back")
    missing = next(r for r in bench.derived().results if r.test == "back_to_back")
    assert (missing.status, missing.failed) == ("not measured", False)
    assert "RFC 9004" in missing.why


def test_without_a_throughput_there_is_no_number_and_no_second_search(tmp_path: Path) -> None:
    bench = short(tmp_path, FakeAgent(duts=[SimulatedDut(10), SimulatedDut(10)]))
    for _ in range(2):
        with pytest.raises(NoResultError, match="goal ndr: no load met"):
            bench.measure("latency")
    assert opened(bench) == [("throughput", 1)]
    assert [r.test for r in bench.derived().results] == ["throughput", "latency"]


def test_a_throughput_that_failed_is_the_reason_of_what_needs_it(tmp_path: Path) -> None:
    def spoil(number: int, result: TrialResult) -> TrialResult:
        if number == 2:
            return TrialResult(directions=(), failed="dut", failure="segfault")
        return result

    bench = short(tmp_path, FakeAgent(spoil=spoil))
    with pytest.raises(DutError):
        bench.throughput()
    with pytest.raises(NoResultError, match=r"needs the throughput.*segfault"):
        bench.measure("latency")
    assert opened(bench) == [("throughput", 1)]
    assert bench.measure("frame_loss").loss_steps  # needs none, and is deployed anew


@pytest.mark.parametrize("test", TESTS)
def test_a_death_in_the_middle_is_never_a_number(tmp_path: Path, test: str) -> None:
    agent = FakeAgent()
    bench = short(tmp_path, agent)
    bench.throughput()
    before = len(agent.trials)

    def spoil(number: int, result: TrialResult) -> TrialResult:
        if number == before + 2:
            return TrialResult(directions=(), failed="dut", failure="segfault")
        return result

    agent.spoil = spoil
    with pytest.raises(DutError, match="segfault"):
        bench.measure(test)
    result = next(r for r in bench.derived().results if r.test == test)
    assert (result.status, result.failed) == ("not measured", True)
    assert "segfault" in result.why
    assert bench.measure(test).status == "measured"
    again = next(r for r in bench.derived().results if r.test == test)
    assert again.status == "measured"


def test_a_first_load_that_cannot_be_offered_lowers_the_largest(tmp_path: Path) -> None:
    bench = short(tmp_path, FakeAgent(offers_fps=900e3))
    result = bench.measure("frame_loss")
    assert result.loss_steps[0].input_ratio == 1
    assert 700e3 < result.loss_steps[0].load_fps / 2 <= 900e3
    ends = [r for r in read_log(bench.path) if isinstance(r, SearchEndRecord)]
    assert [e.superseded for e in ends][-1] is False
    assert ends[0].superseded


def offered_by_half(counts: DirectionCounts) -> DirectionCounts:
    sent = counts.sent // 2
    fewer = {"sent": sent, "unsent": counts.sent - sent, "received": min(counts.received, sent)}
    return counts.model_copy(update=fewer)


def test_a_later_load_that_cannot_be_offered_is_tried_again_and_then_no_number(
    tmp_path: Path,
) -> None:
    agent = FakeAgent()

    def spoil(number: int, result: TrialResult) -> TrialResult:
        if not 3 <= number < until:
            return result
        directions = tuple(map(offered_by_half, result.directions))
        return result.model_copy(update={"directions": directions})

    agent.spoil = spoil
    until = 5
    verdicts = short(tmp_path, agent).measure("frame_loss").verdicts
    assert verdicts[Verdict.GENERATOR_LIMITED] == 2
    until, agent.trials = 99, []
    (tmp_path / "never").mkdir()
    with pytest.raises(GeneratorError, match="core of its own"):
        short(tmp_path / "never", agent).measure("frame_loss")


def test_an_unknown_test_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no test 'jitter'"):
        short(tmp_path).measure("jitter")


def test_expectations_of_the_run_are_checked_with_each_result(tmp_path: Path) -> None:
    bench = short(tmp_path)
    seen: list[str] = []

    def check(result: Result) -> None:
        seen.append(result.test)
        if result.test == "frame_loss":
            raise AssertionError("too much is lost")

    bench.run.checks.append(check)
    user = UserBench(bench.run, bench.scenario())
    user.search_throughput(64).check_expectations()
    user.measure("latency", 64).check_expectations()
    with pytest.raises(AssertionError, match="too much is lost"):
        user.measure("frame_loss", 64).check_expectations()
    assert seen == ["throughput", "latency", "frame_loss"]


class Killed(FakeAgent):
    """Its run dies in a trial.

    Args:
        after: Trials that are finished before.
    """

    def __init__(self, after: int) -> None:
        super().__init__(duts=[SimulatedDut(700e3, buffer_frames=300) for _ in range(2)])
        self.left = after

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().run_trial(spec)


def finish(bench: Bench) -> list[Result]:
    """Everything in order."""
    return [bench.throughput(), *(bench.measure(test) for test in TESTS)]


@dataclass
class Whole:
    """A run that was not killed.

    Attributes:
        results: What it found, trials numbered from 1 in each test.
        specs: Its trials.
        begins: How many there were before each test.
    """

    results: list[object]
    specs: list[TrialSpec]
    begins: list[int]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    agent = Killed(-1)
    bench = short(tmp_path_factory.mktemp("whole"), agent)
    results = finish(bench)
    begins = [0, *accumulate(result.trial_count for result in results)]
    return Whole(numbered_by_test(results, bench.path), agent.trials, begins)


@pytest.mark.slow
@settings(max_examples=max(5, EXAMPLES // 10), deadline=None)
@given(data=st.data())
def test_a_run_killed_after_any_trials_ends_as_if_it_had_not_been(
    whole: Whole, data: st.DataObject
) -> None:
    specs = whole.specs
    kills = data.draw(st.lists(st.integers(0, len(specs) - 1), min_size=1, max_size=3, unique=True))
    begin = run = 0
    with tempfile.TemporaryDirectory() as folder:
        for kill in sorted(kills):
            agent = Killed(kill - begin)
            with pytest.raises(KeyboardInterrupt):
                finish(killed := short(Path(folder), agent))
            killed.die()
            assert agent.trials == specs[begin:kill]
            run += kill - begin
            # The test that it was in begins anew: what was deployed is gone.
            begin = max(each for each in whole.begins if each <= kill)
        agent = Killed(-1)
        last = short(Path(folder), agent)
        assert numbered_by_test(finish(last), last.path) == whole.results
        assert agent.trials == specs[begin:]
        records = read_log(last.path)
        assert not [r for r in records if isinstance(r, NotMeasuredRecord)]
        assert all(len(of) <= 1 for of in deployments_of(last.path).values())
        numbers = [t.number for t in trials(last)]
        assert numbers == list(range(1, run + len(specs) - begin + 1))


def test_an_interrupted_test_is_not_measured_until_it_is_resumed(tmp_path: Path) -> None:
    bench = short(tmp_path, Killed(3))
    with pytest.raises(KeyboardInterrupt):
        bench.measure("frame_loss")
    (result,) = bench.derived().results
    assert (result.status, result.loss_steps) == ("not measured", ())
    assert "after 3 trials" in result.why


def test_a_test_that_another_version_ended_by_fewer_trials_was_not_interrupted(
    tmp_path: Path, texts: Texts
) -> None:
    bench = short(tmp_path, FakeAgent())
    bench.measure("frame_loss")
    bench.run.close()
    records = read_log(bench.path)
    records.remove([r for r in records if isinstance(r, TrialRecord)][-1])
    (result,) = derive(records).results
    assert result.status == "not measured"
    texts.check(result.why)


class OverrunAgent(FakeAgent):
    """Long bursts lose nine frames of ten; the tester stands still in a third of each.

    Args:
        longest: Frames that come through.
    """

    def __init__(self, longest: int) -> None:
        super().__init__(spoil=self._overrun)
        self.longest = longest

    def _overrun(self, _: int, result: TrialResult) -> TrialResult:
        spec = self.trials[-1]
        if not spec.burst:
            return result
        share = 1 if spec.burst <= self.longest else 10
        lossy = [d.model_copy(update={"received": d.sent // share}) for d in result.directions]
        if share == 1:
            return result.model_copy(update={"directions": tuple(lossy)})
        away = 0.3 * lossy[0].tx_seconds
        gap = Gaps(max_s=away, hold_s=0.0, over_s=away)
        gaps = TrialGaps(poll=gap, send=gap, catch_up_frames=2048)
        return result.model_copy(update={"directions": tuple(lossy), "gaps": gaps})


def test_a_burst_lost_beyond_what_a_stall_costs_is_lost_by_the_dut(tmp_path: Path) -> None:
    bench = short(tmp_path, OverrunAgent(1000))
    found = bench.measure("back_to_back", 64)
    assert found.back_to_back is not None
    assert found.back_to_back.frames.values == (1000.0, 1000.0)
    assert not found.verdicts.get(Verdict.TESTER_STALLED)


def test_logs_of_workers_become_one_with_the_searches_that_tests_name(tmp_path: Path) -> None:
    for worker, scenario in (("gw0", "phy2phy_dpdk"), ("gw1", "pvp_dpdk")):
        bench = Bench(tmp_path, None, configuration(SHORT), log_path(tmp_path, worker).name)
        bench.measure("back_to_back", 64, scenario)
        bench.run.close()
    merge_worker_logs(tmp_path)
    records = read_log(tmp_path / "trials.jsonl")
    tests = [r for r in records if isinstance(r, ProcedureRecord)]
    assert [(t.search, t.inputs["throughput"]["search"]) for t in tests] == [(2, 1), (4, 3)]
    points = {p.number: p for p in derive(records).trials}
    for result in derive(records).results:
        if result.back_to_back is not None:
            bursts = [points[number] for number in result.back_to_back.trials]
            assert {(p.scenario, p.test) for p in bursts} == {(result.scenario, "back_to_back")}
            assert all(p.burst > 0 for p in bursts)


def test_a_run_killed_right_after_it_asked_for_what_has_no_result_is_read(tmp_path: Path) -> None:
    bench = short(tmp_path, FakeAgent(duts=[SimulatedDut(50e6), SimulatedDut(50e6)]))
    with pytest.raises(NoResultError):
        bench.measure("back_to_back")
    lines = bench.path.read_bytes().splitlines(keepends=True)
    begun = next(n for n, line in enumerate(lines) if b'"procedure"' in line)
    bench.path.write_bytes(b"".join(lines[: begun + 1]))
    missing = bench.derived().results[-1]
    assert (missing.test, missing.status, missing.failed) == (
        "back_to_back",
        "not measured",
        False,
    )
    assert "RFC 9004" in missing.why
    bench.die()
    with pytest.raises(NoResultError):  # and is resumed
        short(tmp_path).measure("back_to_back")


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The log of a run with every test there is, line by line."""
    brief = {
        "mrr": MrrTest(duration_s=1, repeats=2),
        "loss_profile": LossProfileTest(shares=(0.9, 1.1), duration_s=1, repeats=1),
        "latency_load": LatencyLoadTest(
            loads_fps=(1e4, 1e6, 1e7), duration_s=1, tag_at_s=0, repeats=1
        ),
        "soak": SoakTest(duration_s=2, trial_s=1),
        "recovery": RecoveryTest(overload_s=1, relaxed_s=1, repeats=1),
        "reset": ResetTest(what=("vswitch",), before_s=1, after_s=1, repeats=1),
    }
    bench = short(tmp_path_factory.mktemp("every"), Killed(-1), **brief)
    for test in STANDARD_TESTS:
        with suppress(CapabilityError, GeneratorError):  # logged, and to be read as well
            bench.measure(test)
    bench.run.close()
    return bench.path.read_bytes().splitlines(keepends=True)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_log_of_every_test_is_read_wherever_it_was_cut(
    every: list[bytes], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(every)))
    torn = data.draw(st.integers(0, 60))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trials.jsonl"
        path.write_bytes(b"".join(every[:cut]) + b"".join(every[cut : cut + 1])[:torn])
        results = derive(read_log(path)).results
    cases = [(r.scenario, r.test, r.frame_size) for r in results]
    assert len(set(cases)) == len(cases)
    for result in results:
        assert result.status == "measured" or result.why
    if cut == len(every):
        assert [r.test for r in results] == list(STANDARD_TESTS)
