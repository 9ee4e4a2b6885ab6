"""A run goes on only as what it was: what has changed is named, and nothing is mixed in."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import NDR, PRESET, Bench, configuration, deployments_of
from tests.texts import Texts
from vnetperf.analysis.comparison import describe_incomparability
from vnetperf.analysis.metrics import compared_metrics_of
from vnetperf.log.records import (
    ProcedureRecord,
    Record,
    SearchEndRecord,
    SearchRecord,
)
from vnetperf.log.trial_log import LOG_NAME, read_log
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.result import Result
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.terminal import terminal_text
from vnetperf.testing.sim import SimulatedDut


def test_what_differs_is_named_with_both_values(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.throughput()
    first.die()
    before = (tmp_path / LOG_NAME).read_bytes()
    preset = PRESET.model_copy(update={"min_load_fps": 2000.0, "goals": (NDR,)})
    with pytest.raises(ConfigError) as caught:
        Bench(tmp_path, settings=configuration(preset, vnf_mode="macswap", wire="veth"))
    for told in (
        "settings.vnf_mode was 'auto', is 'macswap'",
        "settings.wire was 'auto', is 'veth'",
        "preset.min_load_fps was 1000.0, is 2000.0",
    ):
        assert told in caught.value.what
    assert (tmp_path / LOG_NAME).read_bytes() == before


def test_many_differences_are_counted(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.throughput()
    first.die()
    goals = tuple(
        NDR.__class__(name=str(n), final_trial_s=1, duration_sum_s=n + 1.0) for n in range(9)
    )
    other = PRESET.model_copy(update={"goals": goals, "min_load_fps": 3.0, "algorithm": "binary"})
    with pytest.raises(ConfigError, match=r"and \d+ more\n"):
        Bench(tmp_path, settings=configuration(other, vnfs=3))


def test_the_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Bench(tmp_path)
    first.throughput()
    first.die()
    monkeypatch.setattr("vnetperf.runner.run.__version__", "99.9")
    with pytest.raises(ConfigError, match=r"tool was 'vnetperf .*', is 'vnetperf 99\.9'"):
        Bench(tmp_path)


def test_another_commit_goes_on_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Bench(tmp_path)
    first.throughput()
    first.run.close()
    monkeypatch.setattr("vnetperf.runner.run.git_commit", lambda: "feedbeef")
    again = Bench(tmp_path)
    again.throughput(1518)
    again.run.close()
    (said,) = (w for w in again.derived().warnings if "another commit" in w)
    assert said.endswith(", then feedbeef")


def test_what_changes_no_trial_may_differ(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.throughput()
    first.run.close()
    again = Bench(tmp_path, settings=configuration(notes="at night", results_dir="elsewhere"))
    again.throughput()
    again.run.close()
    assert not again.agent.trials
    assert not any("commit" in w for w in again.derived().warnings)


def test_a_variant_that_stands_for_other_settings_is_not_continued(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.throughput()
    first.run.close()
    again = Bench(tmp_path)
    other = again.scenario().model_copy(update={"rules": "stream"})
    case = ("pvp_dpdk", "throughput", 64)
    with pytest.raises(ConfigError, match="now stands for other settings"):
        again.run.resumed.test(other, case)
    assert again.run.resumed.test(again.scenario(), case) is not None


def test_a_log_that_lost_its_opening_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).write_bytes(b"\n")
    with pytest.raises(LogError, match="no run record"):
        Bench(tmp_path)


@pytest.mark.parametrize("years", [-1, 1])
def test_a_calibration_is_not_used_again_after_the_clock_was_set(
    tmp_path: Path, years: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Bench(tmp_path)
    first.throughput()
    first.run.close()

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return super().now(tz) + timedelta(days=365 * years)

    monkeypatch.setattr("vnetperf.runner.calibration_cache.datetime", Clock)
    again = Bench(tmp_path, name="again.jsonl")
    again.throughput()
    assert "calibrate 64,1518" in again.agent.calls
    again.die()


# --- what an earlier session found -----------------------------------------------------------


def begins(records: list[Record]) -> list[tuple[str, float, str, float | None]]:
    """Of each test the largest load, what limits it, and where it begins."""
    found: list[tuple[str, float, str, float | None]] = []
    for record in records:
        if isinstance(record, SearchRecord):
            limits = record.limits
            begun = (limits.max_load_fps, record.limit_reason, limits.starts_fps)
            found.append((record.test, *begun))
        elif isinstance(record, ProcedureRecord):
            ceiling = (record.inputs["ceiling_fps"], record.limit_reason, None)
            found.append((record.test, *ceiling))
    return found


def test_what_could_not_be_offered_is_found_again_after_a_resume(tmp_path: Path) -> None:
    """Live or resumed at any end of a test, each has the same limits in the end."""
    live = Bench(tmp_path, FakeAgent(offers_fps=200e3))
    live.throughput()
    live.measure("frame_loss")
    live.run.close()
    lines = live.path.read_bytes().splitlines(keepends=True)
    whole = begins(read_log(live.path))
    assert [test for test, *_ in whole] == ["throughput", "frame_loss", "frame_loss"]
    assert whole[-1][:2] == ("frame_loss", pytest.approx(180e3))
    ends = [n for n, line in enumerate(lines, 1) if line.startswith(b'{"type":"search-end"')]
    for number, end in enumerate(ends[:-1]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / LOG_NAME).write_bytes(b"".join(lines[:end]))
        again = Bench(folder, FakeAgent(offers_fps=200e3))
        again.throughput()
        again.measure("frame_loss")
        found = begins(read_log(again.path))
        assert found[-2:] == whole[-2:]
        assert [test for test, *_ in found].count("throughput") == 1


def test_what_could_not_be_offered_limits_no_other_test_after_a_resume(tmp_path: Path) -> None:
    first = Bench(tmp_path, FakeAgent(offers_fps=200e3))
    first.run.begin_round(1, 2)
    first.measure("frame_loss")
    first.run.close()
    again = Bench(tmp_path)
    again.run.begin_round(1, 2)
    assert again.measure("mrr").max_load_fps == pytest.approx(2e6)
    again.run.begin_round(2, 2)
    assert again.measure("frame_loss").max_load_fps == pytest.approx(2e6)


def duts(capacity_fps: float) -> list[SimulatedDut]:
    return [SimulatedDut(capacity_fps, seed=n) for n in range(2)]


def cut_after_trials(path: Path, count: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    trials = [n for n, line in enumerate(lines, 1) if line.startswith(b'{"type":"trial"')]
    path.write_bytes(b"".join(lines[: trials[count - 1]]))


@pytest.mark.parametrize("test", ["throughput", "latency"])
def test_an_interrupted_test_is_measured_in_one_deployment(tmp_path: Path, test: str) -> None:
    first = Bench(tmp_path, FakeAgent(duts=duts(700e3)))
    first.throughput()
    if test != "throughput":
        first.measure(test)
    first.run.close()
    cut_after_trials(first.path, len(first.agent.trials) - 1)
    again = Bench(tmp_path, FakeAgent(duts=duts(750e3)))
    found = again.measure(test)
    again.run.close()
    ends = [r for r in read_log(again.path) if isinstance(r, SearchEndRecord)]
    assert [e.superseded for e in ends[-2:]] == [True, False]
    assert ends[-2].stopped
    assert ends[-2].wall_s >= 0
    if test == "throughput":
        assert [len(of) for of in deployments_of(again.path).values()] == [1, 1]
        alone = Bench(tmp_path, FakeAgent(duts=duts(750e3)), name="alone.jsonl").throughput()
        assert [g.lower_bound_fps for g in found.goals] == [g.lower_bound_fps for g in alone.goals]
        assert all(g.regular for g in found.goals)
    assert found in again.derived().results


def test_a_test_that_lacks_nothing_but_its_end_is_not_measured_again(tmp_path: Path) -> None:
    first = Bench(tmp_path, FakeAgent(duts=duts(700e3)))
    then = first.throughput()
    first.die()
    cut_after_trials(first.path, len(first.agent.trials))
    again = Bench(tmp_path)
    now = again.throughput()
    assert again.agent.trials == []
    assert now.model_copy(update={"wall_seconds": then.wall_seconds}) == then


ANOTHER = "the throughput is that of another deployment"


def test_a_test_at_the_throughput_of_another_deployment_names_that(
    tmp_path: Path, texts: Texts
) -> None:
    first = Bench(tmp_path, FakeAgent(duts=duts(700e3)))
    first.throughput()
    whole = first.measure("latency")
    first.run.close()
    assert not any(ANOTHER in at.note for at in whole.latency_at)
    # In the same session too, once what was deployed is gone.
    again = Bench(tmp_path, FakeAgent(duts=duts(350e3)))
    assert again.measure("latency") == whole
    soak = again.measure("soak").soak
    assert soak is not None
    assert ANOTHER in soak.note
    again.run.close()
    live = Bench(tmp_path, FakeAgent(duts=duts(700e3)), name="live.jsonl")
    live.throughput()
    live.run.forget_deployment()
    assert all(ANOTHER in at.note for at in live.measure("latency").latency_at)
    live.run.close()
    derived = again.derived()
    assert ANOTHER in next(r.soak for r in derived.results if r.soak).note
    irregular = {r.test: r.irregular for r in derived.results}
    assert not irregular["latency"]
    texts.check(irregular["soak"], "irregular")
    for report in (markdown_report(derived), html_report(derived), terminal_text(derived)):
        assert irregular["soak"] in " ".join(report.split())
    (ours,) = (m for r in whole_soak(tmp_path) for m in compared_metrics_of(r) if m.main)
    (theirs,) = (m for r in derived.results if r.soak for m in compared_metrics_of(r) if m.main)
    assert "irregular" in theirs.marks
    texts.check(describe_incomparability([ours], [theirs]), "not comparable")


def whole_soak(folder: Path) -> tuple[Result, ...]:
    """That of a run that was not interrupted."""
    bench = Bench(folder, FakeAgent(duts=duts(700e3)), name="whole.jsonl")
    bench.measure("soak")
    return tuple(r for r in bench.derived().results if r.soak)


def test_a_run_has_not_ended_while_a_later_session_goes_on(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.throughput()
    first.run.close(2)
    assert first.derived().run.ended
    again = Bench(tmp_path)
    again.run.facts()  # before it is not known whether the run may go on
    assert again.derived().run.ended == ""
    again.run.close()
    assert again.derived().run.ended
