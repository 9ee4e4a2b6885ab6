"""Captured frames reach the run's folder, for its user alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import Bench, configuration
from vnetperf.log.records import TrialRecord
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.trial import CaptureSpec, parse_capture
from vnetperf.runner.verdict import captures_summary, write_captures


class Keeper(FakeAgent):
    """An agent whose trials keep frames when asked."""

    def captured(self) -> dict[str, bytes]:
        assert self.trials[-1].capture == CaptureSpec(frames=3, what="streams")
        return {"port0-sent.pcap": b"%d" % len(self.trials), "port1-received.pcap": b""}


def test_every_trial_has_its_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Keeper(), configuration(pcap="3:streams"))
    bench.throughput()
    trials = [r for r in read_log(bench.path) if isinstance(r, TrialRecord)]
    assert len(trials) > 2
    for trial in trials:
        sent, received = trial.captures
        folder, _, name = sent.partition("/")
        assert folder == "captures"
        assert name == f"trials-{trial.number:05d}-port0-sent.pcap"
        assert (tmp_path / sent).read_bytes() == b"%d" % trial.number
        assert (tmp_path / received).read_bytes() == b""
        assert stat.S_IMODE((tmp_path / sent).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "captures").stat().st_mode) == 0o700
    assert (
        captures_summary(tmp_path)
        == f"captures: {2 * len(trials)} pcap files in {tmp_path}/captures"
    )


def test_nobody_asks_for_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAgent())
    bench.throughput()
    assert not (tmp_path / "captures").exists()
    assert captures_summary(tmp_path) == ""


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "captures").write_text("a file")
    with pytest.raises(LogError, match="leave --pcap out"):
        write_captures(tmp_path / "trials.jsonl", 1, {"a.pcap": b""})


@pytest.mark.parametrize(
    ("text", "frames", "what"),
    [
        ("0", 0, "first"),
        ("100", 100, "first"),
        ("7:gaps", 7, "gaps"),
        ("10000:foreign", 10_000, "foreign"),
    ],
)
def test_what_users_type(text: str, frames: int, what: str) -> None:
    assert parse_capture(text) == CaptureSpec.model_validate({"frames": frames, "what": what})


@pytest.mark.parametrize("text", ["", "-1", "10001", "5:", "5:lost", "many", ":gaps", "1.5"])
def test_what_is_wrong_is_refused_with_what_is_right(text: str) -> None:
    with pytest.raises(ConfigError, match="first, streams, gaps, foreign"):
        configuration(pcap=text)
