"""Numbers over many runs: levels, changes with what else changed, and runs that cannot be read."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.agent import FakeAgent
from tests.runner.support import PRESET, Bench, Fading, configuration
from tests.texts import Texts
from vnetperf.analysis.comparison import SAME_LOAD
from vnetperf.analysis.runs import StoredRun
from vnetperf.analysis.trend import (
    _same_loads,
    lost_for_sure,
    read_runs,
    trends,
    worse_for_sure,
)
from vnetperf.log.trial_log import LOG_NAME
from vnetperf.model.errors import DutError, LogError
from vnetperf.model.result import GoalResult, Result, RunIdentity, RunResults
from vnetperf.testing.sim import SimulatedDut

WOBBLE = (1.0, 1.03, 0.98, 1.01, 0.97, 1.02)


def run_at(
    folder: Path,
    capacity: float,
    preset: str = "test",
    *,
    size: int = 64,
    rounds: tuple[float, ...] = (),
    fails: Collection[int] = (),
    fades: bool = False,
    **settings_: object,
) -> None:
    """Rounds of a run that fail do so at their deployment; of a DUT that fades a search finds half
    of what the first one found.
    """
    folder.mkdir()
    searches = {"rounds": 2, "most_rounds": 2, "round_gap_s": 0} if fades else {}
    settings = configuration(PRESET.model_copy(update={"name": preset, **searches}), **settings_)
    bench = Bench(folder, FakeAgent(duts=(SimulatedDut(capacity),) * 2), settings)
    if fades:
        bench.run.progress = Fading(bench.agent, (SimulatedDut(capacity / 2),) * 2)
    for number, factor in enumerate(rounds or (1.0,), 1):
        if rounds:
            bench.run.begin_round(number, len(rounds))
            bench.agent.duts = (SimulatedDut(capacity * factor),) * 2
        bench.agent.fail_deploy = "it died" if number in fails else ""
        with suppress(DutError):
            bench.throughput(size)
    bench.run.close()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs on one level and six on another."""
    folder = tmp_path_factory.mktemp("results")
    for n, factor in enumerate((*WOBBLE, *(0.7 * w for w in WOBBLE))):
        run_at(folder / f"run{n:02d}", 600e3 * factor)
    (folder / "latest").symlink_to("run11")
    return folder


def test_a_change_is_found_at_its_run(history: Path) -> None:
    runs, unread = read_runs(history)
    assert [run.name for run in runs] == [f"run{n:02d}" for n in range(12)]
    assert unread == []
    (ndr,) = (t for t in trends(runs) if t.name == "ndr")
    (change,) = ndr.changes
    assert (change.before.run.name, change.after.run.name) == ("run05", "run06")
    assert change.is_worse
    assert change.ratio == pytest.approx(-0.3, abs=0.05)
    assert change.environment == ()
    assert [(level.begin, level.end) for level in ndr.levels] == [(0, 6), (6, 12)]


ROUNDS = (1.0, 1.003, 0.997, 1.005, 0.995)


def test_a_run_is_one_point_however_often_it_deployed(tmp_path: Path) -> None:
    """Rounds of a run share what differs between runs: they are no points of their own."""
    for n, factor in enumerate((1.0, 1.01, 0.9, 0.91)):
        run_at(tmp_path / f"run{n}", 600e3 * factor, rounds=ROUNDS)
    runs, _ = read_runs(tmp_path)
    (ndr,) = (t for t in trends(runs) if t.name == "ndr")
    assert [len(point.rounds) for point in ndr.points] == [5, 5, 5, 5]
    assert ndr.changes == ()
    point = ndr.points[0]
    assert point.value == point.metric.measured.value == pytest.approx(1.2e6, rel=0.02)
    assert [one.value for one in point.rounds] == sorted(one.value for one in point.rounds)


@pytest.mark.slow
def test_a_run_with_a_round_that_is_open_is_on_no_level(tmp_path: Path) -> None:
    for n in range(6):
        run_at(tmp_path / f"run{n}", 600e3, rounds=(1.0, 1.0, 20.0 if n == 5 else 1.0))
    (ndr,) = (t for t in trends(read_runs(tmp_path)[0]) if t.name == "ndr")
    assert [point.is_open for point in ndr.points] == [False] * 5 + [True]
    assert ndr.points[5].marks == ("at least (1 of 3)",)
    assert [(level.begin, level.end) for level in ndr.levels] == [(0, 5)]


@pytest.mark.parametrize("kind", ["failed", "not repeatable"])
def test_runs_that_broke_are_points_without_a_number_and_fail_a_gate(
    tmp_path: Path, kind: str
) -> None:
    broken: dict[str, Any] = {"fails": (1,)} if kind == "failed" else {"fades": True}
    for n in range(9):
        is_broken = n in (2, 6, 7, 8)
        run_at(tmp_path / f"run{n}", 600e3 * WOBBLE[n % 6], **(broken if is_broken else {}))
    runs, _ = read_runs(tmp_path)
    found = trends(runs)
    (ndr,) = (t for t in found if t.name == "ndr")
    assert [point.is_broken for point in ndr.points] == [n in (2, 6, 7, 8) for n in range(9)]
    assert [point.run.name for point in ndr.newest_broken] == ["run6", "run7", "run8"]
    mark = "not measured: pvp_dpdk: it died" if kind == "failed" else "not repeatable"
    assert ndr.points[8].marks[0].startswith(mark)
    if kind == "failed":
        assert (ndr.points[8].number, ndr.points[8].rounds) == (None, ())
    assert "pvp_dpdk, throughput, 64, ndr" in {one.title for one in lost_for_sure(found)}
    assert worse_for_sure(found) == []
    # Two are too few; and where one of the few before them broke three may be chance.
    assert lost_for_sure(trends(runs[:8])) == []
    assert lost_for_sure(trends([runs[n] for n in (0, 2, 1, 3, 6, 7, 8)])) == []


@pytest.mark.slow
def test_a_run_most_of_whose_rounds_broke_is_broken(tmp_path: Path, texts: Texts) -> None:
    for n in range(6):
        fails = () if n < 3 else (1, 2, 3) if n < 5 else (1,)
        run_at(tmp_path / f"run{n}", 600e3, rounds=ROUNDS, fails=fails)
    (ndr,) = (t for t in trends(read_runs(tmp_path)[0]) if t.name == "ndr")
    assert [point.is_broken for point in ndr.points] == [False] * 3 + [True, True, False]
    assert [len(point.failures) for point in ndr.points] == [0, 0, 0, 3, 3, 1]
    texts.check(ndr.points[3].marks)


def test_a_run_that_broke_is_of_the_series_before_it_that_it_fits(tmp_path: Path) -> None:
    for n, (traffic, fails) in enumerate(
        (
            ("single-flow", ()),
            ("multi-flow", ()),
            ("single-flow", (1,)),
            ("multi-flow", (1,)),
        )
    ):
        run_at(tmp_path / f"run{n}", 600e3, traffic=traffic, fails=fails)
    found = [t for t in trends(read_runs(tmp_path)[0]) if t.name == "ndr"]
    held = {tuple(point.run.name for point in trend.points) for trend in found}
    assert held == {("run0", "run2"), ("run1", "run3")}


def test_what_fails_before_it_is_planned_is_of_its_machine() -> None:
    """Another machine that lacks a program has not lost what this one measures."""
    goal = GoalResult(
        name="ndr",
        loss_ratio=0.0,
        exceed_ratio=0.5,
        initial_trial_s=1.0,
        final_trial_s=1.0,
        duration_sum_s=1.0,
        width=0.05,
        lower_bound_fps=1e6,
        upper_bound_fps=1.05e6,
        conditional_throughput_fps=None,
        regular=True,
    )
    case: dict[str, Any] = {"scenario": "pvp_dpdk", "test": "throughput", "frame_size": 64}
    whole = Result(goals=(goal,), **case)
    failed = Result(status="not measured", why="QEMU is not installed", failed=True, **case)

    def run(number: int, machine: str, result: Result) -> StoredRun:
        there = RunResults(
            run=RunIdentity(tool="", git="", command="", started=""),
            preset="quick",
            environment={"hostname": machine} if machine else {},
            results=(result,),
        )
        return StoredRun(Path(f"run{number:02d}"), {1: there})

    runs = [run(n, "this", whole) for n in range(10)]
    runs += [run(n, "other", failed) for n in range(10, 13)]
    (ndr,) = trends(runs)
    assert [point.is_broken for point in ndr.points] == [False] * 10
    assert lost_for_sure([ndr]) == []
    (across,) = trends(runs, across=True)
    assert len(across.newest_broken) == 3
    for machine in ("this", ""):  # which is not known where it could not be read
        (here,) = trends([*runs[:10], *(run(n, machine, failed) for n in range(10, 13))])
        assert len(here.newest_broken) == 3
        assert lost_for_sure([here]) == [here]


@given(st.lists(st.floats(1e3, 1e7), min_size=1, max_size=30, unique=True))
def test_loads_are_put_together_whatever_their_order(loads: list[float]) -> None:
    groups = _same_loads(sorted(loads))
    assert all(most <= least * (1.0 + SAME_LOAD) for least, most in groups)
    assert sum(least <= load <= most for load in loads for least, most in groups) == len(loads)


def test_a_load_between_two_goes_to_the_nearer_one() -> None:
    assert _same_loads([1.0, 1.001, 1.019, 1.022]) == [(1.0, 1.001), (1.019, 1.022)]
    assert _same_loads([1.0, 1.01, 1.02]) == [(1.0, 1.02)]


def test_what_changed_with_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, factor in enumerate((*WOBBLE, *(2 * w for w in WOBBLE))):
        monkeypatch.setattr("vnetperf.runner.run.git_commit", lambda new=n > 5: f"commit{new:d}")
        run_at(tmp_path / f"run{n:02d}", 300e3 * factor)
    found = trends(read_runs(tmp_path)[0])
    (change,) = found[0].changes
    assert not change.is_worse
    assert [(d.path, d.a, d.b) for d in change.environment] == [("run.git", "commit0", "commit1")]


def test_noise_is_no_change(tmp_path: Path) -> None:
    for n, factor in enumerate((*WOBBLE, *WOBBLE)):
        run_at(tmp_path / f"run{n:02d}", 600e3 * factor)
    assert all(t.changes == () for t in trends(read_runs(tmp_path)[0]))


def test_runs_that_wander_are_no_change(tmp_path: Path) -> None:
    """A slow fall looks like two levels, and shuffled series would hardly show it."""
    for n in range(12):
        run_at(tmp_path / f"run{n:02d}", 600e3 * (1.0 - 0.03 * n))
    (ndr,) = (t for t in trends(read_runs(tmp_path)[0]) if t.name == "ndr")
    assert ndr.changes == ()
    assert ndr.wandering is not None
    assert worse_for_sure([ndr]) == []


def test_other_presets_are_a_series_of_their_own(tmp_path: Path) -> None:
    for n, preset in enumerate(("one", "other", "one")):
        run_at(tmp_path / f"run{n}", 600e3, preset)
    found = [t for t in trends(read_runs(tmp_path)[0]) if t.name == "ndr"]
    assert [(t.apart.partition(":")[0], len(t.points)) for t in found] == [
        ("preset one", 2),
        ("preset other", 1),
    ]


def test_runs_that_are_not_comparable_are_series_of_their_own(tmp_path: Path) -> None:
    for n, traffic in enumerate(("single-flow", "multi-flow", "single-flow")):
        run_at(tmp_path / f"run{n}", 600e3, traffic=traffic)
    runs = read_runs(tmp_path)[0]
    found = [t for t in trends(runs) if t.name == "ndr"]
    assert sorted(len(t.points) for t in found) == [1, 2]
    assert all("traffic" in t.apart and "flows" in t.apart for t in found)
    (together,) = (t for t in trends(runs, across=True) if t.name == "ndr")
    assert len(together.points) == 3


def test_a_limit_makes_no_level(tmp_path: Path) -> None:
    """What met the largest load is open above: a level of such values is the tester's."""
    for n, capacity in enumerate((*(600e3 * w for w in WOBBLE), *[9e6] * 6)):
        run_at(tmp_path / f"run{n:02d}", capacity)
    (ndr,) = (t for t in trends(read_runs(tmp_path)[0]) if t.name == "ndr")
    assert len(ndr.points) == 12
    assert ndr.changes == ()
    assert [(level.begin, level.end) for level in ndr.levels] == [(0, 6)]


def test_a_gate_considers_all_numbers_and_the_least_change(history: Path) -> None:
    runs, _ = read_runs(history)
    found = trends(runs)
    assert {trend.name for trend in worse_for_sure(found)} == {"ndr", "pdr"}
    assert worse_for_sure(trends(runs, least=0.5)) == []
    unchanged = trends(runs[:6]) * 400
    assert worse_for_sure([*found, *unchanged]) == []


def test_a_damaged_log_is_said_and_the_others_are_read(tmp_path: Path) -> None:
    run_at(tmp_path / "good", 600e3)
    run_at(tmp_path / "bad", 600e3)
    log = tmp_path / "bad" / LOG_NAME
    log.write_text(log.read_text().replace('"received":', '"received":9', 1))
    (tmp_path / "empty").mkdir()
    runs, unread = read_runs(tmp_path)
    assert [run.name for run in runs] == ["good"]
    assert len(unread) == 1
    assert unread[0].startswith("bad: ")
    assert "trial 1" in unread[0]
    log.rename(tmp_path / "bad" / "gone")
    (tmp_path / "good" / LOG_NAME).write_text("damage\n" * 3)
    with pytest.raises(LogError, match="no run in it can be read"):
        read_runs(tmp_path)


def test_no_runs_are_said(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is no run in it"):
        read_runs(tmp_path)
    with pytest.raises(LogError, match="no such folder"):
        read_runs(tmp_path / "nothing")
