"""The status line while a trial runs."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import PRESET, Bench, configuration
from tests.texts import Texts
from vnetperf.model.trial import LiveCounts
from vnetperf.pytest_plugin import terminal
from vnetperf.pytest_plugin.terminal import LiveProgress, fitting


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(LiveProgress, "_show", lambda self, text: lines.append(text))
    return lines


def counts(elapsed_s: float, sent: int, received: int, refused: int = 0) -> LiveCounts:
    return LiveCounts(elapsed_s=elapsed_s, sent=sent, received=received, refused=refused)


def test_rates_are_those_since_the_last_look(shown: list[str], texts: Texts) -> None:
    progress = LiveProgress(None, follows=True)
    assert progress.follows
    progress.trial_runs(counts(0.5, 500_000, 499_990))
    progress.trial_runs(counts(1.0, 1_500_000, 1_000_000, refused=10))
    progress.trial_runs(counts(0.25, 1000, 1000))  # another trial
    texts.check(line.partition("now ")[2] for line in shown)


def test_nobody_follows_where_nobody_watches(shown: list[str]) -> None:
    class Callable:  # as pytest's own kind of truth
        def __bool__(self) -> bool:
            return False

    falsy: Any = Callable()
    progress = LiveProgress(None, follows=falsy)
    assert progress.follows is False
    progress.trial_runs(counts(1.0, 1, 1))
    assert shown == []


class Terminal(io.StringIO):
    gone = False

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def write(self, text: str) -> int:
        if self.gone:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(text)

    def close(self) -> None:
        self.write("")


def test_a_terminal_that_goes_away_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tty = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    monkeypatch.setattr(terminal, "open", lambda *_: tty, raising=False)
    progress = LiveProgress(None, follows=True)
    progress.say("deploying pvp_dpdk")
    assert tty.getvalue()
    tty.gone = True
    progress.stop()
    progress.stop()


def test_a_terminal_without_a_size_is_not_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "open", lambda *_: io.StringIO(), raising=False)
    lines: list[str] = []
    progress = LiveProgress(SimpleNamespace(write_line=lines.append), follows=True)
    progress.say("deploying")
    progress.say("deploying")
    assert not progress.follows
    assert lines == ["vnetperf: deploying"]


def beginnings(bench: Bench, test: str, shown: list[str]) -> list[str]:
    """What stands before the first trial of each attempt at a test."""
    bench.run.progress = LiveProgress(SimpleNamespace(write_line=shown.append), follows=True)
    bench.measure(test)
    firsts = (line for line in shown if f" {test}: " in line and "trial 1, " in line)
    return [line.partition(f"{test}: ")[2].partition("trial 1, ")[0] for line in firsts]


def test_a_test_that_begins_anew_at_lower_loads_says_so_in_plain_words(
    shown: list[str], tmp_path: Path, texts: Texts
) -> None:
    bench = Bench(tmp_path, FakeAgent(offers_fps=900e3))
    first, *others = beginnings(bench, "frame_loss", shown)
    assert first == ""
    assert others
    texts.check(text.rstrip("; ") for text in sorted(set(others)))


def test_the_next_round_of_a_throughput_is_no_test_that_begins_anew(
    shown: list[str], tmp_path: Path
) -> None:
    rounds = {"rounds": 2, "most_rounds": 2, "round_gap_s": 0}
    bench = Bench(tmp_path, settings=configuration(PRESET.model_copy(update=rounds)))
    assert beginnings(bench, "throughput", shown) == ["", ""]


LINE = (
    "pvp_dpdk 64 B throughput: trial 3, 525.0 kfps per direction (0.71 Gbit/s L1 in sum), 1 s; "
    "12 s so far; last: 1.100 Mfps loss 3.1%; now 520.1 kfps sent, 519 kfps received, 8 lost"
)


@pytest.mark.parametrize("columns", [10, 40, 60, 78, 100, 118, 200, 400])
def test_a_status_line_is_one_line_of_the_terminal(columns: int) -> None:
    shown = fitting(LINE, columns)
    assert len(shown) <= columns
    assert shown.startswith(LINE[: columns - 3 if columns < 50 else 30])
    if columns >= 118:
        assert "now 520.1 kfps sent" in shown  # before what was
    assert fitting(LINE, len(LINE)) == LINE
