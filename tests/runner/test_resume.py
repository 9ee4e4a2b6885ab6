"""A run goes on only as what it was: what has changed is named, and nothing is mixed in."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from tests.runner.support import NDR, PRESET, Bench, configuration
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.results.log import LOG_NAME


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
    monkeypatch.setattr("vnetperf.runner.run._git_commit", lambda: "feedbeef")
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
